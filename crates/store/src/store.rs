//! The store of a pass: its reads, claims and writes.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use anyhow::Result;
use backlog_schedule::{Facts, Id, Query, Record, SortKey};

use crate::writes::{PossibleWrites, Rehearsal, RowConstraints, RowWrite, WriteResult};

/// The last word on whether a record is due, of those that a query selects.
pub type IsDue<'a> = &'a mut dyn FnMut(Facts<'_>) -> bool;

/// A store that several threads can use one after the other.
pub type BoxedStore = Box<dyn Store + Send>;

/// The reads of a pass. Nothing here writes or locks.
pub trait Reader {
    /// The ids of a stretch of records that are due, read to the end at once.
    fn due(&mut self, selection: &Query, is_due: IsDue<'_>) -> Result<Page>;

    /// One record as it is to be shown: its row has no payload.
    fn read(&mut self, id: &Id) -> Result<ReadResult>;
}

/// The claims and writes of a pass. All claims end with the process that holds them.
///
/// [`Retrying`](crate::retry::Retrying) and [`Stoppable`](crate::Stoppable) wrap a store.
pub trait Store: Reader {
    fn limits(&self) -> Limits;

    /// Claims records that nobody holds, and reads them. Answers for each id in turn; a queue answers for the records
    /// that it hands out.
    fn claim(&mut self, wanted: ClaimRequest<'_>) -> Result<Vec<(Id, Claim)>>;

    /// Writes outcomes and charges, which the death of this process does not undo. Claims some of the `next`
    /// candidates where that costs no round trip: a later claim has them at once.
    fn round(&mut self, writes: &[RowWrite], next: &[Id]) -> Result<Vec<WriteResult>>;

    /// Gives a claim back, but only once all writes so far are durable.
    fn release(&mut self, id: &Id);

    fn flush(&mut self, until: Until) -> Result<()>;

    /// Makes the writes that may become necessary for each record, and takes everything back. Where records
    /// can be in each other's way, `held` are the successes of those that handlers have.
    fn rehearse(&mut self, writes: &[PossibleWrites], held: &[RowWrite]) -> Result<Vec<Rehearsal>>;

    /// Tries the ends of a record, one of them after its last attempt, which has the number `_most`, and its
    /// restoration, and undoes them. Says why it would be lost, if so.
    fn rehearse_way_back(&mut self, _: &Arc<Record>, _most: u32) -> Result<Option<String>> {
        Ok(None)
    }

    /// Prepares for handlers: if this process is killed, they end before its claims do. `token` marks them, and `lost`
    /// gets the records whose claims are lost.
    fn begin(&mut self, _token: &str, _lost: Sender<Vec<Id>>) -> Result<Begun> {
        Ok(Begun::default())
    }

    /// Checks the claims and takes lost ones back, with a check of the sessions unless they were in use. Returns the
    /// time until the next check, if it should be sooner than usual.
    fn keep_claims(&mut self, _checks_sessions: bool) -> Result<Option<Duration>> {
        Ok(None)
    }
}

/// Limits of a store, some of which change during a pass.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub most_claims: usize,
    /// Whether a living pass can lose a claim, so that its handler may still have the record.
    pub can_lose_claims: bool,
    /// Whether a claim and a round are faster if they know later candidates.
    pub looks_ahead: bool,
    /// Time during which no new record may be claimed, so that other passes can take back their lost claims.
    pub hold_off: Option<Duration>,
}

impl Limits {
    /// Limits of a store that is near and cannot lose claims.
    pub fn local(most_claims: usize) -> Self {
        Self { most_claims, can_lose_claims: false, looks_ahead: false, hold_off: None }
    }
}

#[derive(Debug, Clone, Copy)]
pub enum ClaimRequest<'a> {
    /// At most this many of the candidates, in their order. A queue hands out as many others.
    Next(&'a [Id], usize),
    /// Exactly these, pending or not.
    Named(&'a [Id]),
}

impl<'a> ClaimRequest<'a> {
    /// The ids to claim now, and the candidates that follow them.
    pub fn split(self) -> (&'a [Id], &'a [Id]) {
        match self {
            Self::Next(ids, most) => ids.split_at(most.min(ids.len())),
            Self::Named(ids) => (ids, &[]),
        }
    }

    pub fn is_empty(self) -> bool {
        let (Self::Next(ids, _) | Self::Named(ids)) = self;
        ids.is_empty()
    }
}

/// The state that a flush waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// All released records can be claimed by others, unless some claims are still held: then soon.
    Idle,
    /// All writes are durable, and all released records are free. The pass is over.
    Durable,
}

/// A store that is ready for handlers.
#[derive(Default)]
pub struct Begun {
    pub row_constraints: RowConstraints,
    /// Set if claims have to be kept while handlers run.
    pub heartbeat: Option<Heartbeat>,
}

/// The rhythm of [`Store::keep_claims`].
pub struct Heartbeat {
    pub interval: Duration,
    /// The sessions that hold the claims, if sessions do.
    pub sessions: Option<Arc<dyn Sessions>>,
}

/// The sessions of a store, for a thread that watches them while another thread uses the store.
pub trait Sessions: Send + Sync {
    /// Waits for an event, at most for `timeout`. `end` is readable when the pass is over.
    fn wait(&self, end: &OwnedFd, timeout: Duration) -> Wakeup;

    /// Has the server cancel the statements that are running.
    fn cancel(&self);

    /// The time since the last answer of the server. It includes the time of a suspended machine.
    fn silent_for(&self) -> Duration;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wakeup {
    End,
    SessionEnded,
    /// The timeout is over, there is a new session, or claims are to be taken back.
    Time,
}

/// Interrupts a running statement from another thread, as often as it is called.
pub type Interrupter = Box<dyn FnMut() + Send>;

#[derive(Debug, Default)]
pub struct Page {
    pub ids: Vec<Id>,
    /// Where to go on; `None` if this was all.
    pub next: Option<SortKey>,
    /// Why there may be more that could not be read, if so.
    pub broken: Option<String>,
    /// How many rows were left out whose id is none; that was said.
    pub unusable: u64,
}

#[derive(Debug)]
pub enum Claim {
    Held(Arc<Record>),
    /// Another pass holds the record, or an earlier claim of this one.
    Busy,
    /// The store did not try, because others were at hand. The candidate keeps its place.
    NotAsked,
    Gone,
    /// More than one row has this id.
    Ambiguous,
    /// The row cannot be read, and why: a damaged page, say. It is not held.
    Unreadable(String),
}

#[derive(Debug)]
pub enum ReadResult {
    Record(Box<Record>),
    Gone,
    Ambiguous,
}

//! The store of a pass: its reads, claims and writes.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use anyhow::Result;
use backlog_schedule::{Facts, Id, Query, Record, SortKey};

use crate::writes::{Ends, PossibleWrites, Rehearsal, RowConstraints, RowWrite, WriteResult};

/// The due rule: decides for each record that a query selects.
pub type IsDue<'a> = &'a mut dyn FnMut(Facts<'_>) -> bool;

pub type BoxedStore = Box<dyn Store + Send>;

/// Reads of a pass. They neither write nor lock.
pub trait Reader {
    fn due(&mut self, selection: &Query, is_due: IsDue<'_>) -> Result<Page>;

    /// Reads one record for display, without its payload.
    fn read(&mut self, id: &Id) -> Result<ReadResult>;
}

/// Claims and writes of a pass. All claims end with the process that holds them (in pgmq after a timeout).
/// [`Retrying`](crate::retry::Retrying) and [`Stoppable`](crate::Stoppable) wrap a store.
pub trait Store: Reader {
    fn limits(&self) -> Limits;

    /// Claims records that nobody holds and reads them, in the order of the ids. A queue returns records of its choice.
    fn claim(&mut self, request: ClaimRequest<'_>) -> Result<Vec<(Id, Claim)>>;

    /// Writes outcomes and charges, so that they survive this process. Claims some of the `next` candidates where that
    /// costs no round trip; a later [`claim`](Self::claim) then returns them at once.
    fn round(&mut self, writes: &[RowWrite], next: &[Id]) -> Result<Vec<WriteResult>>;

    /// Gives a claim back once all writes so far are durable.
    fn release(&mut self, id: &Id);

    fn flush(&mut self, until: Until) -> Result<()>;

    /// Makes and rolls back writes that records may need. `held` are successes of claimed records, which may conflict.
    fn rehearse(&mut self, writes: &[PossibleWrites], held: &[RowWrite]) -> Result<Vec<Rehearsal>>;

    /// Rehearses ends of a record, and returns why it would be lost.
    fn rehearse_ends(&mut self, _: &Arc<Record>, _: Ends) -> Result<Option<String>> {
        Ok(None)
    }

    /// Prepares for handlers: if this process is killed, they end before its claims do. `token` marks them, and `lost`
    /// receives the records whose claims are lost.
    fn begin(&mut self, _token: &str, _lost: Sender<Vec<Id>>) -> Result<Begun> {
        Ok(Begun::default())
    }

    /// Checks the claims and takes lost ones back. Also checks sessions that were idle, or all of them if
    /// `_checks_sessions` is set. Returns the time until the next check if it should be sooner than usual.
    fn keep_claims(&mut self, _checks_sessions: bool) -> Result<Option<Duration>> {
        Ok(None)
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub most_claims: usize,
    /// A pass that still runs can lose a claim while a handler has the record.
    pub can_lose_claims: bool,
    /// A claim and a round are faster if they know later candidates.
    pub looks_ahead: bool,
    /// Time in which the pass claims no new record, so that other passes can take their lost claims back.
    pub hold_off: Option<Duration>,
}

impl Limits {
    pub fn local(most_claims: usize) -> Self {
        Self { most_claims, can_lose_claims: false, looks_ahead: false, hold_off: None }
    }
}

#[derive(Debug, Clone, Copy)]
pub enum ClaimRequest<'a> {
    /// At most this many of the candidates, in their order. A queue hands out its own choice instead.
    Next(&'a [Id], usize),
    /// Exactly these records, pending or not.
    Named(&'a [Id]),
    /// The same, for an edit: without the payload, which may be large.
    WithoutPayload(&'a [Id]),
}

/// Maximum size of a value that a pass reads. A larger value is an error of its record.
pub const MAX_VALUE_BYTES: i32 = 64 << 20;

pub fn too_large() -> String {
    let most = MAX_VALUE_BYTES >> 20;
    format!("a value of its row has more than {most} MiB: it is not handed to a handler")
}

impl<'a> ClaimRequest<'a> {
    /// The ids to claim now, and the candidates that follow them.
    pub fn split(self) -> (&'a [Id], &'a [Id]) {
        match self {
            Self::Next(ids, most) => ids.split_at(most.min(ids.len())),
            Self::Named(ids) | Self::WithoutPayload(ids) => (ids, &[]),
        }
    }

    pub fn is_empty(self) -> bool {
        self.split() == (&[], &[])
    }

    pub fn is_without_payload(self) -> bool {
        matches!(self, Self::WithoutPayload(_))
    }
}

/// The state that a flush waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Others can claim all released records: now or soon.
    Idle,
    /// All writes are durable, and others can claim all released records. The pass is over.
    Durable,
}

#[derive(Default)]
pub struct Begun {
    pub row_constraints: RowConstraints,
    /// Set if [`Store::keep_claims`] is necessary while handlers run.
    pub heartbeat: Option<Heartbeat>,
}

pub struct Heartbeat {
    pub interval: Duration,
    pub sessions: Option<Arc<dyn Sessions>>,
}

/// Sessions of a store, watched by one thread while another one uses the store.
pub trait Sessions: Send + Sync {
    /// Waits for an event for at most `timeout`. `end` is readable once the pass is over.
    fn wait(&self, end: &OwnedFd, timeout: Duration) -> Wakeup;

    /// Makes the server cancel running statements.
    fn cancel(&self);

    /// The time since the last answer of the server, including the time in which this machine was suspended.
    fn silent_for(&self) -> Duration;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wakeup {
    End,
    SessionEnded,
    /// The timeout is over, there is a new session, or lost claims have to be taken back.
    Time,
}

/// Interrupts a running statement from another thread, each time it is called.
pub type Interrupter = Box<dyn FnMut() + Send>;

#[derive(Debug, Default)]
pub struct Page {
    pub ids: Vec<Id>,
    pub next: Option<SortKey>,
    /// The error that cut the page short, if any.
    pub broken: Option<String>,
    /// Number of rows without a usable id. The log names the reason.
    pub unusable: u64,
}

#[derive(Debug)]
pub enum Claim {
    Held(Arc<Record>),
    /// Another pass holds the record, or this pass already does.
    Busy,
    /// The store had enough other records. The candidate stays in the queue.
    NotAsked,
    Gone,
    /// More than one row has this id.
    Ambiguous,
    /// The row cannot be read, for this reason (a damaged page, for example), and is not claimed.
    Unreadable(String),
}

#[derive(Debug)]
pub enum ReadResult {
    Record(Box<Record>),
    Gone,
    Ambiguous,
}

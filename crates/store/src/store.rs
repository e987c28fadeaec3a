//! The store of a pass: its reads, claims and writes.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use backlog_schedule::{Facts, Id, Instant, Key, Query, Record};

use crate::writes::{PossibleWrites, Rehearsal, RowConstraints, RowWrite, WriteResult};

/// The last word on whether a record is due, of those that a query selects.
pub type IsDue<'a> = &'a mut dyn FnMut(Facts<'_>) -> bool;

/// A store that several threads can use one after the other.
pub type Claiming = Box<dyn Store + Send>;

/// The reads of a pass. Nothing here writes or locks.
pub trait Reader {
    /// The ids of a stretch of records that are due, read to the end at once.
    fn due(&mut self, selection: &Query, is_due: IsDue<'_>) -> Result<Page>;

    /// One record as it is to be shown: its row has no payload.
    fn read(&mut self, id: &Id) -> Result<Found>;

    /// Ids of one column that begin with a text, as they are typed: at most [`MOST_IDS`].
    fn ids_from(&mut self, _begin: &str) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
}

/// Maximum number of ids that begin with the same text.
pub const MOST_IDS: usize = 4;

/// A store: the claims and writes of a pass. All claims end with the process that holds them.
pub trait Store {
    fn reader(&mut self) -> &mut dyn Reader;

    /// Those of the records, in their order, that are pending; `None` where asking is not worth it.
    fn still_pending(&mut self, _ids: &[Id]) -> Result<Option<Vec<Id>>> {
        Ok(None)
    }

    fn most_claims(&self) -> usize;

    /// Claims the free ones of these and reads them. A queue claims as many in its own order.
    fn claim(&mut self, ids: &[Id]) -> Result<Vec<(Id, Claim)>>;

    /// Number of candidates to claim with the next write, where a round begins up to `attempts`, and this one
    /// `begun`. 0 if enough are claimed ahead, if handlers are slow, or if the server is near.
    fn wants_ahead(&mut self, _attempts: usize, _begun: usize) -> usize {
        0
    }

    /// Those records, to be claimed together with what is applied next.
    fn claim_ahead(&mut self, _ids: &[Id]) {}

    /// How many are claimed ahead now.
    fn claimed_ahead(&self) -> usize {
        0
    }

    /// The same of just these, as a person names them, also of those that are not pending.
    fn claim_named(&mut self, ids: &[Id]) -> Result<Vec<(Id, Claim)>> {
        self.claim(ids)
    }

    /// Gives a claim back, not before all that was applied until now is durable.
    fn release(&mut self, id: &Id);

    /// Nothing is claimed for a while: what was released must soon be free, or if all was, at once.
    fn rest(&mut self) -> Result<()> {
        Ok(())
    }

    /// Writes settlements in one transaction, which the death of this process does not undo.
    fn apply(&mut self, changes: &[RowWrite]) -> Result<Vec<WriteResult>>;

    /// Makes the writes that may become necessary for each record, and takes everything back. Where records
    /// can be in each other's way, `held` are the successes of those that handlers have.
    fn rehearse(&mut self, writes: &[PossibleWrites], held: &[RowWrite]) -> Result<Vec<Rehearsal>>;

    /// Tries the ends of a record and its restoration, and undoes them. Says why it would be lost, if so.
    fn rehearse_way_back(
        &mut self,
        _record: &Arc<Record>,
        _at: Instant,
        _most_attempts: Option<u32>,
    ) -> Result<Option<String>> {
        Ok(None)
    }

    /// The constraints by which the table may refuse one record and accept another.
    fn row_constraints(&mut self) -> Result<RowConstraints> {
        Ok(RowConstraints::None)
    }

    /// Makes sure, before the first claim, that the handlers of a killed pass end before its claims do.
    fn start_watchdog(&mut self, _token: &str) -> Result<()> {
        Ok(())
    }

    /// How long no new record may be claimed yet, so that other passes can take back their lost claims.
    fn hold_off(&self) -> Option<Duration> {
        None
    }

    /// Whether a living pass can lose a claim, so that its handler may still have the record.
    fn can_lose_claims(&self) -> bool {
        false
    }

    /// Sets the function that ends the handlers of lost claims. It may be called at any time.
    fn on_loss(&mut self, _end: EndHandlers) {}

    /// How often [`keep_claims`](Self::keep_claims) is to be called while handlers run, if at all.
    fn heartbeat(&self) -> Option<Duration> {
        None
    }

    /// The sessions that hold the claims, if sessions do.
    fn sessions(&self) -> Option<Arc<dyn Sessions>> {
        None
    }

    /// Checks the claims and takes lost ones back. Returns when to do that again, if sooner than usual.
    fn keep_claims(&mut self, _why: Wakeup) -> Option<Duration> {
        None
    }

    /// What ends a statement that is running, from another thread, as often as it is called.
    fn interrupter(&self) -> Option<Interrupter> {
        None
    }

    /// Fails if the database or the claims are not any more where they were when the pass began.
    fn require_in_place(&mut self) -> Result<(), Moved> {
        Ok(())
    }

    /// Waits until all that was applied is durable and all that was released is free.
    fn finish(&mut self) -> Result<()> {
        self.rest()
    }
}

pub type EndHandlers = Arc<dyn Fn(&[Id]) + Send + Sync>;

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

/// A file that is not any more where it was when a pass began: nobody else sees what is in it.
#[derive(Debug)]
pub enum Moved {
    Database(anyhow::Error),
    Claims(anyhow::Error),
}

pub type Interrupter = Box<dyn FnMut() + Send>;

#[derive(Debug, Default)]
pub struct Page {
    pub ids: Vec<Id>,
    /// Where to go on; `None` if this was all.
    pub next: Option<Key>,
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
    Gone,
    /// More than one row has this id.
    Ambiguous,
    /// The row cannot be read, and why: a damaged page, say. It is not held.
    Unreadable(String),
}

#[derive(Debug)]
pub enum Found {
    Record(Box<Record>),
    Gone,
    Ambiguous,
}

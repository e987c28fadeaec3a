//! Stores, which say WHERE the records are: the traits that a store implements, and all stores.

// What only servers use is left over in a crate without them.
#![cfg_attr(
    not(feature = "postgres"),
    allow(dead_code, unused_imports, reason = "a smaller program")
)]
#![cfg_attr(
    test,
    expect(clippy::disallowed_methods, reason = "tests open files where only they put something")
)]

mod claims;
mod clock;
mod date;
mod engine;
mod error;
mod explore;
mod interrupt;
mod location;
mod mapping;
mod memory;
mod mutex;
pub mod ownership;
mod page;
#[cfg(feature = "postgres")]
mod postgres;
pub mod secure_file;
mod sql;
mod sqlite;
mod state_dir;
mod stop;
mod survey;
pub mod system_error;
mod table;
mod table_store;
#[cfg(test)]
#[cfg(feature = "postgres")]
mod tests;
#[cfg(feature = "tls")]
pub mod tls_roots;
mod tokens;
mod watchdog;

use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use backlog_schedule::{
    Facts, Id, Instant, Key, Order, Query, Record, Settlement, Status, Transition,
};

#[cfg(not(feature = "postgres"))]
pub use location::{certificates, without_password};
#[cfg(feature = "postgres")]
pub use postgres::{certificates, without_password};

pub use claims::LineLock;
pub use clock::Clock;
pub use date::{Dates, Format, Spelling, Zone};
pub use error::{Refusal, Retry, StoreError};
pub use explore::{Counted, Explore, Explored, Outline};
pub use interrupt::{Interrupter, Interruptible};
pub use location::{Access, Location, is_url};
pub use mapping::*;
pub use memory::MemoryStore;
pub use mutex::lock;
pub use sqlite::kept_beside;
pub use state_dir::{
    Counts, Failures, LineHistory, LineName, LineState, NewFailures, PASSES_OF_A_DAY, PassEnd,
    PassEntry, PassRecord, Pause, PauseScope, Purpose, StateDir,
};
pub use stop::{IgnoredSignals, Stage, Stop, signal_name};
pub use survey::{Inspection, Pending};
pub use table::{Charged, Column, Holds, Listed, Table, quoted_if_needed};
pub use watchdog::{TOKEN, run_watchdog};

/// The last word on whether a record is due, of those that a query selects.
pub type IsDue<'a> = &'a mut dyn FnMut(Facts<'_>) -> bool;

/// A store that several threads can use one after the other.
pub type Claiming = Box<dyn Store + Send>;

/// What is done with each record of a scan, and whether that goes on.
pub type EachRecord<'a> = &'a mut dyn FnMut(Record) -> Result<ControlFlow<()>>;

/// The reads of a pass. Nothing here writes or locks.
pub trait Reader {
    /// The ids of a stretch of records that are due, read to the end at once.
    fn due(&mut self, selection: &Query, is_due: IsDue<'_>) -> Result<Page>;

    /// One record as it is to be shown: its row has no payload.
    fn read(&mut self, id: &Id) -> Result<Found>;
}

/// The reads of commands, over a whole table. Nothing here writes or locks.
pub trait Survey {
    fn table(&self) -> &Table;

    fn place(&self) -> String;

    /// Hands the records with one of these statuses, or any, to `each` in order, without payload, until that
    /// breaks off: after `most` at the latest, so that the database does not have to sort the others.
    fn scan(
        &mut self,
        statuses: &[Status],
        order: Order,
        most: Option<u64>,
        each: EachRecord<'_>,
    ) -> Result<()>;

    fn census(&mut self, bounds: &[i64], now: Instant) -> Result<Vec<Count>>;

    /// Whether any row has a status that is mapped; true where no column says what is pending.
    fn any_mapped(&mut self) -> Result<bool>;

    /// `by_count` says whether records are due by their count of failures.
    fn inspect(&mut self, by_count: bool) -> Result<Inspection>;

    /// What a success does to rows besides settling its record: that it deletes it, and what goes with it.
    fn deletion(&mut self) -> Result<Option<String>>;

    /// The number of records that are pending by another mapping of the table, too, and the id of one.
    fn shared_with(&mut self, other: &Table) -> Result<Option<(u64, String)>>;
}

/// A table that is there, and what commands ask of it besides.
pub trait Database: Reader + Survey {
    /// Where claims and cursors are kept, unless the user names a place.
    fn state_dir(&self, named: Option<&Path>) -> Result<StateDir>;

    /// Takes the lock of a crontab line where no state directory has it, and returns whether it was free.
    /// A server's session has it until the pass ends.
    fn lock_line(&mut self, _line: &str, _wait: bool) -> Result<bool> {
        Ok(true)
    }

    /// Adds pending records with these payloads, all or none, in one statement.
    fn add(&mut self, payloads: &[String], now: Instant) -> Result<()>;

    /// From now on nothing is written, not even what a crash left to be tidied up.
    fn leave_alone(&mut self) -> Result<()> {
        Ok(())
    }

    /// Why this user could not settle records here, if so.
    fn obstacle(&mut self) -> Result<Option<String>>;

    /// The means to claim records besides.
    fn into_store(self: Box<Self>, state: &StateDir, retry: Retry) -> Result<Claiming>;
}

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

/// A row to be changed, if it still is what the record says, or what the charge made of it.
#[derive(Debug, Clone)]
pub struct RowWrite<'a> {
    pub record: &'a Arc<Record>,
    /// What this pass made of the row when it wrote that an attempt has begun, if it did.
    pub charged: Option<&'a Charged>,
    pub settlement: Settlement,
    /// When the policy has it tried again, for a store or a column that keeps the schedule.
    pub retry_at: Option<Instant>,
    /// Whether the claim was broken, so that the row must show that no other attempt has begun.
    pub is_fenced: bool,
}

impl<'a> RowWrite<'a> {
    pub fn new(
        record: &'a Arc<Record>,
        charged: Option<&'a Charged>,
        settlement: Settlement,
    ) -> Self {
        Self { record, charged, settlement, retry_at: None, is_fenced: false }
    }

    pub fn begins(&self) -> bool {
        self.settlement.transition == Transition::Begun
    }

    pub fn ends(&self) -> bool {
        matches!(self.settlement.transition, Transition::Succeeded | Transition::Archived)
    }

    pub fn renews(&self) -> bool {
        self.settlement.transition == Transition::Renewed
    }

    /// The result, once it is written: what a charge made of the row.
    fn written(&self, charged: Charged) -> WriteResult {
        if self.begins() { WriteResult::Charged(charged) } else { WriteResult::Written }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum WriteResult {
    Written,
    /// A success is written although the claim was lost and another attempt may have begun.
    WrittenAfterLoss,
    /// The charge is written, and this is what it made of the row.
    Charged(Charged),
    /// The application changed or deleted the row meanwhile; it was left alone.
    ChangedMeanwhile,
    /// The claim was lost, and another attempt may have begun. The row was left alone.
    ClaimLost,
    /// The table, a constraint or a trigger does not make the change, or the row stayed locked.
    Refused(Refusal),
}

/// How many rows there are of one status and one age.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    pub status: Status,
    /// Its name, or what the table holds instead if it is foreign.
    pub text: String,
    /// The index of the first bound that the age in seconds does not exceed; `None` without a date.
    pub band: Option<usize>,
    pub rows: u64,
}

/// What a table did that neither changed the row nor said why, as a trigger's RAISE(IGNORE) does.
pub const NOT_TAKEN: &str = "the table did not take the change";

/// What a mapping did that finishes a record, and leaves it pending.
pub const STILL_PENDING: &str = "it would still be pending: its condition holds as before";

/// What a mapping did that brings a record back, and leaves it where it was.
pub const NOT_PENDING: &str = "it would still not be pending: say with on_restore which columns make \
                               its condition hold";

/// Constraints by which a table may refuse single records, so that each has to be rehearsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowConstraints {
    None,
    /// They depend on the row itself or on other tables.
    OfOneRow,
    /// They also depend on other records, as a unique index does.
    AcrossRows,
}

/// Chains of a charge, if there is one, and an outcome. Those of all records have the same form.
#[derive(Debug)]
pub struct PossibleWrites {
    pub record: Arc<Record>,
    pub chains: Vec<Vec<Settlement>>,
}

impl PossibleWrites {
    /// One write of one chain, after its charge.
    fn write<'a>(
        &'a self,
        chain: usize,
        step: usize,
        charged: Option<&'a Charged>,
    ) -> RowWrite<'a> {
        let settlement = self.chains[chain][step].clone();
        // Any instant shows whether the column takes one.
        let retry_at = Some(settlement.at);
        RowWrite { retry_at, ..RowWrite::new(&self.record, charged, settlement) }
    }

    /// The success, which is the end of the first chain, as it is written to a row that is not charged.
    fn success(&self) -> Option<RowWrite<'_>> {
        let settlement = self.chains.first()?.last()?.clone();
        Some(RowWrite::new(&self.record, None, settlement))
    }

    /// The same without the texts of errors, which may be all that a table refuses.
    pub fn without_errors(&self) -> Self {
        let plain = |chain: &Vec<_>| chain.iter().map(Settlement::without_error).collect();
        Self { record: self.record.clone(), chains: self.chains.iter().map(plain).collect() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rehearsal {
    Taken,
    /// The success of a record that a handler has would be in the way.
    Blocked,
    /// Another session keeps the row, or an entry of a unique index, locked.
    Locked(String),
    /// The row is not what the record says any more.
    ChangedMeanwhile,
    Refused(String),
}

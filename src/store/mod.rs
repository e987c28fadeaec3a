//! WHERE the records are: what a store must do, and the stores there are.

mod claims;
mod guard;
mod memory;
mod sqlite;
mod state_dir;

pub use claims::LineLock;
pub use guard::{TOKEN, keep_watch};
pub use memory::{MemoryRow, MemoryStore};
pub use sqlite::{Database, SqliteStore, create};
pub use state_dir::{LineState, StateDir};

use anyhow::Result;

use crate::record::{Facts, Id, Key, Record, Settlement, Status};
use crate::selection::Selection;

/// What a pass asks of a table. Nothing here writes or locks.
pub trait Reader {
    /// The ids of a stretch of records that are due, read to the end at once. The selection says
    /// which can be; `is_due` has the last word on each.
    fn due(
        &mut self,
        selection: &Selection,
        is_due: &mut dyn FnMut(Facts<'_>) -> bool,
    ) -> Result<Page>;

    /// One record as it is at this moment.
    fn read(&mut self, id: &Id) -> Result<Found>;
}

/// What a pass does with a table. All claims end with the process that holds them.
pub trait Store {
    fn reader(&mut self) -> &mut dyn Reader;

    /// Claims a record for this pass. False if another pass, or an earlier claim of this one,
    /// holds it.
    fn claim(&mut self, id: &Id) -> Result<bool>;

    /// Gives a claim back, not before all that was applied until now is durable.
    fn release(&mut self, id: &Id);

    /// Makes each row what its settlement says, all in one transaction, and says row by row how
    /// it went. An error means that nothing was written. The death of this process
    /// undoes nothing of it.
    fn apply(&mut self, changes: &[Change]) -> Result<Vec<Applied>>;

    /// Tries each chain of settlements on the record, one after the other, and takes
    /// everything back: an error names what the table refuses. False if the row is not what the
    /// record says any more, and nothing could be tried.
    fn prove(&mut self, record: &Record, chains: &[Vec<Settlement>]) -> Result<bool>;

    /// Called once, before the first claim. Makes sure that if this process is killed, the
    /// handlers end before its claims do. They carry `token` in their environment.
    fn guard(&mut self, token: &str) -> Result<()>;

    /// Waits until all that was applied is durable and all that was released is free.
    fn finish(&mut self) -> Result<()>;
}

/// The result of [`Reader::due`].
#[derive(Debug, Default)]
pub struct Page {
    pub ids: Vec<Id>,
    /// Where to go on; `None` if this was all.
    pub next: Option<Key>,
}

/// The result of [`Reader::read`].
#[derive(Debug)]
pub enum Found {
    Record(Box<Record>),
    Gone,
    /// More than one row has this id.
    Ambiguous,
}

/// One row to be changed: only if it still is what the record says, or what the charge made of it.
#[derive(Debug)]
pub struct Change<'a> {
    pub record: &'a Record,
    /// Whether this pass has written that an attempt has begun.
    pub charged: bool,
    pub settlement: Settlement,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    Written,
    /// The application changed or deleted the row meanwhile; it was left alone.
    ChangedMeanwhile,
    /// The table refuses the change, by a constraint or a trigger's error, or just does not make it.
    Refused(String),
}

/// One line of a census: how many rows there are of one status and one age.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    pub status: Status,
    /// Its name, or what the table holds instead if it is foreign.
    pub text: String,
    /// The index of the first bound (in seconds) that the age does not exceed, the number of
    /// bounds if it exceeds them all, `None` if the row has no readable date.
    pub band: Option<usize>,
    pub rows: u64,
}

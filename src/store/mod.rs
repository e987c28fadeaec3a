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

use crate::instant::Instant;
use crate::record::{Facts, Id, Key, Record, Settlement, Status, Value};
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

/// What there is to know of a table before it is worked off.
#[derive(Debug)]
pub struct Examination {
    pub journal_mode: String,
    pub rows: u64,
    pub pending: u64,
    pub columns: Vec<InColumn>,
    /// Most frequent first; none without a status column.
    pub values: Vec<StatusValue>,
    /// How many pending records have no usable id, and what one of them has instead.
    pub without_id: Option<(u64, String)>,
    /// Pending records that no age can be told of.
    pub undated: Undated,
    /// The formats of the pending records' dates, how many have them, and the id of one.
    pub formats: Vec<(String, u64, String)>,
    /// The insertion date of the newest pending record.
    pub newest: Option<Instant>,
    pub triggers: Vec<String>,
    pub missing: Vec<MissingIndex>,
    /// An id that more than one row has.
    pub duplicate: Option<String>,
}

/// Which column is what.
#[derive(Debug)]
pub struct InColumn {
    pub role: &'static str,
    pub name: String,
    /// Its type, as the table declares it.
    pub declared: String,
}

/// One value of the status column.
#[derive(Debug)]
pub struct StatusValue {
    pub shown: String,
    pub status: Status,
    pub rows: u64,
    /// If it is mapped to no status: a value that is, and differs in case or blanks only.
    pub like: Option<String>,
}

#[derive(Debug, Default)]
pub struct Undated {
    pub rows: u64,
    /// Ids and dates of some of them.
    pub named: Vec<(String, String)>,
}

impl Undated {
    /// How many are named.
    const NAMED: usize = 5;

    pub fn add(&mut self, id: String, date: &Value) {
        self.rows += 1;
        if self.named.len() < Self::NAMED {
            self.named.push((id, date.shown()));
        }
    }

    /// `4 with 'soon', 7 with NULL, ...`
    pub fn shown(&self) -> String {
        let named: Vec<_> =
            self.named.iter().map(|(id, date)| format!("{id} with {date}")).collect();
        let more = if self.rows > self.named.len() as u64 { ", ..." } else { "" };
        format!("{}{more}", named.join(", "))
    }
}

/// An index without which a pass reads the whole table.
#[derive(Debug)]
pub struct MissingIndex {
    /// What it would find.
    pub finds: &'static str,
    /// What creates it.
    pub statement: String,
}

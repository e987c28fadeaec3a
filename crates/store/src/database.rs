//! A database with a table in it: what commands read of the whole table, and what they ask of it besides.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use backlog_schedule::{Id, Instant, Order, Query, Record, Status};

use crate::inspection::Inspection;
use crate::retry::Retry;
use crate::state_dir::StateDir;
use crate::store::{BoxedStore, Interrupter, ReadResult, Reader};
use crate::table::Table;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// No statement can write: a condition is SQL, and calls whatever it likes.
    ReadOnly,
    ReadWrite,
    /// To process records, and to wait at most this long for another lock holder.
    Pass(Duration),
}

/// What is done with each record of a scan, and whether that goes on.
pub type EachRecord<'a> = &'a mut dyn FnMut(Record) -> Result<ControlFlow<()>>;

/// The reads of commands, over a whole table. Nothing here writes or locks.
pub trait Survey {
    fn table(&self) -> &Table;

    fn label(&self) -> String;

    /// Hands the records with one of these statuses, or any, to `each` in order, without payload, until that
    /// breaks off: after `most` at the latest, so that the database does not have to sort the others.
    fn scan(
        &mut self,
        statuses: &[Status],
        order: Order,
        most: Option<u64>,
        each: EachRecord<'_>,
    ) -> Result<()>;

    /// One record with all columns of its row, as a handler gets it.
    fn read_whole(&mut self, id: &Id) -> Result<ReadResult>;

    /// Ids of one column that begin with a text, as they are typed: at most [`MOST_IDS`].
    fn ids_from(&mut self, begin: &str) -> Result<Vec<String>>;

    fn census(&mut self, bounds: &[i64], now: Instant) -> Result<Vec<StatusCount>>;

    /// Whether any row has a status that is mapped; true where no column says what is pending.
    fn any_mapped(&mut self) -> Result<bool>;

    /// `by_count` says whether records are due by their count of failures.
    fn inspect(&mut self, by_count: bool) -> Result<Inspection>;

    /// A warning about deleted rows, if a success deletes them: `act`, such as `a success deletes its row`, and the
    /// rows of other tables that change with it.
    fn deletion(&mut self, act: &str) -> Result<Option<String>>;

    /// The statement that creates the index for a search of finished records, if it is missing. Its name ends with
    /// `suffix`.
    fn missing_index(&mut self, query: &Query, suffix: &'static str) -> Result<Option<String>>;

    /// The number of records that are pending by another mapping of the table, too, and the id of one.
    fn shared_with(&mut self, other: &Table) -> Result<Option<(u64, String)>>;
}

/// Maximum number of ids that begin with the same text.
pub const MOST_IDS: usize = 4;

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
    fn make_read_only(&mut self) -> Result<()> {
        Ok(())
    }

    /// Why this user could not settle records here, if so.
    fn why_read_only(&mut self) -> Result<Option<String>>;

    /// Ends statements of the database and of its store.
    fn interrupter(&self) -> Interrupter;

    /// The means to claim records besides.
    fn into_store(self: Box<Self>, state: &StateDir, retry: Retry) -> Result<BoxedStore>;
}

/// How many rows there are of one status and one age.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusCount {
    pub status: Status,
    /// Its name, or what the table holds instead if it is foreign.
    pub text: String,
    /// The index of the first bound that the age in seconds does not exceed; `None` without a date.
    pub band: Option<usize>,
    pub rows: u64,
}

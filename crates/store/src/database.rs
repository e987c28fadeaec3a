//! A database with a table: the reads of commands over the whole table, and its other operations.

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
    /// No statement can write, not even a function in a condition.
    ReadOnly,
    ReadWrite,
    /// For processing, with this maximum wait for locks.
    Pass(Duration),
}

pub type EachRecord<'a> = &'a mut dyn FnMut(Record) -> Result<ControlFlow<()>>;

/// Reads of commands over a whole table. They neither write nor lock.
pub trait Survey {
    fn table(&self) -> &Table;

    fn label(&self) -> String;

    /// Passes records with one of these statuses, or all if there are none, to `each` in order, without payload. `each`
    /// ends the scan after `most` records at the latest, so that the database need not sort more.
    fn scan(
        &mut self,
        statuses: &[Status],
        order: Order,
        most: Option<u64>,
        each: EachRecord<'_>,
    ) -> Result<()>;

    fn read_whole(&mut self, id: &Id) -> Result<ReadResult>;

    /// At most [`MOST_IDS`] ids with a prefix, as a user types them, if one column has the id.
    fn ids_from(&mut self, prefix: &str) -> Result<Vec<String>>;

    fn census(&mut self, bounds: &[i64], now: Instant) -> Result<Vec<StatusCount>>;

    /// True if any row has a mapped status, or if there is no status column.
    fn any_mapped(&mut self) -> Result<bool>;

    /// Inspects the table. `by_count` is set if a policy by the count of failures decides which records are due.
    fn inspect(&mut self, by_count: bool) -> Result<Inspection>;

    /// A warning if a success deletes: `act` (`a success deletes its row`), and foreign keys that change other tables.
    /// Fails if a foreign key would delete other records of the table.
    fn deletion(&mut self, act: &str) -> Result<Option<String>>;

    /// The statement for an index whose name ends with `suffix`, if none serves a search of finished records.
    fn missing_index(&mut self, query: &Query, suffix: &'static str) -> Result<Option<String>>;

    /// The number of records that are also pending in another mapping of the table, with the id of one.
    fn shared_with(&mut self, other: &Table) -> Result<Option<(u64, String)>>;
}

pub const MOST_IDS: usize = 4;

pub trait Database: Reader + Survey {
    fn state_dir(&self, named: Option<&Path>) -> Result<StateDir>;

    /// Locks a crontab line until the pass ends, where a session of the server holds such locks. True if it was free.
    fn lock_line(&mut self, _line: &str, _wait: bool) -> Result<bool> {
        Ok(true)
    }

    /// Adds pending records with these payloads, all or none, in one statement.
    fn add(&mut self, payloads: &[String], now: Instant) -> Result<()>;

    /// Prevents all writes from now on, also those that repair the remains of a crash.
    fn make_read_only(&mut self) -> Result<()> {
        Ok(())
    }

    fn why_read_only(&mut self) -> Result<Option<String>>;

    /// Interrupts statements of the database and of its store.
    fn interrupter(&self) -> Interrupter;

    fn into_store(self: Box<Self>, state: &StateDir, retry: Retry) -> Result<BoxedStore>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusCount {
    pub status: Status,
    /// Its name, or the value of a foreign status.
    pub text: String,
    /// The index of the first bound that is not below the age in seconds; `None` without a date.
    pub band: Option<usize>,
    pub rows: u64,
}

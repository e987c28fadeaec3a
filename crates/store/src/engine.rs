//! The seam between a table store and a database: what an engine does in its own way.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use backlog_schedule::{Id, Query, Value};

use super::error::{DbError, DbResult};
use super::table::{Cells, Table};
use crate::inspection::Inspection;
use crate::store::{Claim, EndHandlers, Interrupter, Moved, Sessions};
use crate::writes::{Charged, RowConstraints, RowWrite, WriteResult};

/// A database, in its own way. What is called as in [`Store`](crate::store::Store) is what is meant there.
pub trait Engine: Sized + Send + 'static {
    type Row<'r>: Cells;
    type Locks: Locks<Self>;

    /// How often a statement is run again that somebody else is in the way of.
    const TRIES: u32;
    /// Whether several rows are written by several statements.
    const WRITES_SINGLY: bool;
    const HEARTBEAT_INTERVAL: Option<Duration>;

    fn place(&self) -> String;

    /// A failure to `verb` the database, as the user is told it.
    fn explain(&self, error: DbError, verb: &str) -> anyhow::Error {
        error.explain(&self.place(), verb)
    }

    /// Hands each row of a statement to `each` as it comes in, as long as that says true.
    fn rows(
        &mut self,
        sql: &str,
        params: &[Value],
        each: impl FnMut(&Self::Row<'_>) -> bool,
    ) -> DbResult<()>;

    /// The same for a statement that may read very many rows, or whose values are shown or written.
    fn search(
        &mut self,
        sql: &str,
        params: &[Value],
        each: impl FnMut(&Self::Row<'_>) -> bool,
    ) -> DbResult<()> {
        self.rows(sql, params, each)
    }

    /// What `of` makes of all rows of a statement.
    fn all<T>(
        &mut self,
        sql: &str,
        params: &[Value],
        mut of: impl FnMut(&Self::Row<'_>) -> T,
    ) -> DbResult<Vec<T>> {
        let mut all = Vec::new();
        self.rows(sql, params, |row| {
            all.push(of(row));
            true
        })?;
        Ok(all)
    }

    fn any(&mut self, sql: &str) -> DbResult<bool> {
        Ok(!self.all(sql, &[], |_| ())?.is_empty())
    }

    /// The statements of a search: those of [`Table::due`], or better ones.
    fn due(&mut self, table: &Table, query: &Query) -> DbResult<Vec<String>> {
        Ok(table.due(query))
    }

    /// The way around a row that cannot be read: the statement of a search in one row, whose number is the last
    /// parameter, and the numbers of all rows.
    fn one_by_one(&mut self, _: &Table, _: &Query) -> Option<(String, BTreeSet<i64>)> {
        None
    }

    fn still_pending(&mut self, _table: &Table, _ids: &[Id]) -> DbResult<Option<Vec<Id>>> {
        Ok(None)
    }

    /// Whether the table is the user's, who makes its indexes and triggers.
    fn is_users_table(&self) -> bool {
        true
    }

    /// If the table looks empty to this user although it may have rows, the reason.
    fn hides_all(&mut self, _: &Table) -> DbResult<Option<String>> {
        Ok(None)
    }

    fn triggers(&mut self, table: &Table) -> DbResult<Vec<String>>;

    /// What a foreign key does to the rows of other tables when a row is deleted: `items: CASCADE`.
    fn dependents(&mut self, table: &Table) -> DbResult<Vec<String>>;

    /// Whether an index leads to the records of a query, in their order.
    fn finds(&mut self, table: &Table, query: &Query) -> DbResult<bool>;

    /// Whether the database sorts the records of a query, because no index has them in order.
    fn sorts(&mut self, table: &Table, query: &Query) -> DbResult<bool>;

    /// The columns of the index that is missing to find what is due by its count of failures.
    fn columns_of_waiting(&mut self, table: &Table) -> DbResult<Option<String>>;

    /// Whether an index leads to a record by its id.
    fn finds_ids(&mut self, table: &Table) -> DbResult<bool>;

    /// What creates an index, on the rows only for which the condition holds, if that can be. None if the
    /// table takes no index.
    fn create_index(&mut self, table: &Table, index: &Index) -> DbResult<Option<String>>;

    fn inspect(&mut self, table: &Table, found: &mut Inspection);

    /// Begins a transaction. One that rehearses does not wait long for locks.
    fn begin(&mut self, rehearses: bool) -> DbResult<()>;

    /// Undoes a rehearsal. The error is a deferred constraint that its commit would have violated.
    fn end_rehearsal(&mut self) -> DbResult<()>;

    /// Tries and undoes each chain of writes in one round trip. True for those known to be accepted.
    fn try_each(&mut self, _: &Table, chains: &[Vec<RowWrite>]) -> DbResult<Vec<bool>> {
        Ok(vec![false; chains.len()])
    }

    fn batch(&mut self, sql: &str) -> DbResult<()>;

    /// Ends a transaction that an error may have left open.
    fn roll_back(&mut self);

    /// The rows of changes for which the answer is yes.
    fn ask(&mut self, table: &Table, changes: &Changes, ask: Ask) -> DbResult<Vec<Seen>>;

    /// Whether what a charge makes of a row shows only when the row is read again.
    fn looks_again(&mut self, table: &Table) -> DbResult<bool>;

    /// The constraints on written columns by which the table may refuse one row and accept another.
    fn row_constraints(&mut self, table: &Table) -> DbResult<RowConstraints>;

    fn interrupter(&self) -> Option<Interrupter>;
}

/// An open database and the table in it that the command is about.
pub struct SqlDatabase<E> {
    pub engine: E,
    pub table: Table,
    /// Messages that were said already, so that each is said once.
    pub said: HashSet<String>,
}

impl<E: Engine> SqlDatabase<E> {
    pub fn new(engine: E, table: Table) -> Self {
        Self { engine, table, said: HashSet::new() }
    }

    /// What was read, or its failure as the user is told it.
    pub fn reading<T>(&self, read: DbResult<T>) -> Result<T> {
        read.map_err(|error| self.engine.explain(error, "read"))
    }
}

/// Changes with their numbers, by which results name them.
pub type Changes<'a> = [(usize, &'a RowWrite<'a>)];

/// What makes a claim end with its process, called as in [`Store`](crate::store::Store).
pub trait Locks<E: Engine>: Send {
    fn most(&self) -> usize;

    /// Called before each claim.
    fn open(&mut self, _on: &mut SqlDatabase<E>) -> Result<()> {
        Ok(())
    }

    /// Claims what nobody has, and reads it after that.
    fn claim(&mut self, on: &mut SqlDatabase<E>, ids: &[Id]) -> DbResult<Vec<(Id, Claim)>>;

    /// See [`Store::wants_ahead`](crate::store::Store::wants_ahead).
    fn wants_ahead(&mut self, _attempts: usize, _begun: usize) -> usize {
        0
    }

    fn claim_ahead(&mut self, _ids: &[Id]) {}

    fn claimed_ahead(&self) -> usize {
        0
    }

    /// Makes changes, and claims what is wanted ahead.
    fn write(&mut self, on: &mut SqlDatabase<E>, changes: &Changes) -> DbResult<Vec<Seen>> {
        on.engine.ask(&on.table, changes, Ask::Write)
    }

    /// Called once changes are written: what is to be done until they are durable.
    fn has_written(&mut self, _changes: &[RowWrite], _written: &[WriteResult]) {}

    fn hold(&self, _id: &Id) -> Hold {
        Hold::Unbroken
    }

    /// See [`Store::hold_off`](crate::store::Store::hold_off).
    fn hold_off(&self) -> Option<Duration> {
        None
    }

    fn on_loss(&mut self, _end: EndHandlers) {}

    fn sessions(&self, _on: &SqlDatabase<E>) -> Option<Arc<dyn Sessions>> {
        None
    }

    fn release(&mut self, id: &Id);

    fn rest(&mut self, _on: &mut SqlDatabase<E>) -> DbResult<()> {
        Ok(())
    }

    /// Waits until what was released is free.
    fn free(&mut self, on: &mut SqlDatabase<E>) -> DbResult<()> {
        self.rest(on)
    }

    fn start_watchdog(&mut self, on: &mut SqlDatabase<E>, token: &str) -> Result<()>;

    /// Checks the claims of running handlers and takes lost ones back. Returns when to do so again, if soon.
    /// The flag says that the sessions have been in use, so that they need no check.
    fn keep_claims(&mut self, _: &mut SqlDatabase<E>, _: bool) -> DbResult<Option<Duration>> {
        Ok(None)
    }

    fn require_in_place(&self, _on: &SqlDatabase<E>) -> Result<(), Moved> {
        Ok(())
    }

    /// Waits until all that was written is durable.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// What is known of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// The pass has had it ever since it claimed the record.
    Unbroken,
    /// For a time the pass had no lock on the record, so that another pass may have tried it.
    Broken,
    /// Another pass has the record.
    Lost,
}

pub struct Index {
    /// `INDEX` or `UNIQUE INDEX`
    pub kind: &'static str,
    /// What its name ends with.
    pub suffix: &'static str,
    pub columns: String,
    pub condition: Option<String>,
}

/// The question that is asked about the rows of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    Write,
    /// Make them, and say of each end whether its row is still pending.
    Rehearse,
    /// Say which rows are still there to be changed.
    IsExpected,
    /// Say which rows are as the changes make them.
    IsWritten,
    /// Return the state of the rows that exist. A change that renews need not be due to be pending.
    IsThere,
}

/// A row for which the answer is yes, as it is then.
pub struct Seen {
    pub number: usize,
    /// Whether it is pending, where nothing but the condition says so, or this is a rehearsal.
    pub is_pending: bool,
    /// The columns that show whether it is still the same.
    pub charged: Charged,
}

//! The seam between a table store and a database. A new database implements [`Engine`], [`Inspect`] and [`Locks`].

use std::collections::{BTreeSet, HashSet};
use std::sync::mpsc::Sender;
use std::time::Duration;

use anyhow::Result;
use backlog_schedule::{Id, Query, Value};

use super::error::{DbError, DbResult};
use super::table::{Cells, Table};
use crate::inspection::Inspection;
use crate::store::{Claim, ClaimRequest, Heartbeat, Interrupter, Limits, Until};
use crate::writes::{Guards, RowConstraints, RowWrite, WriteResult};

/// Statements of a database.
pub trait Engine: Inspect + Sized + Send + 'static {
    type ResultRow<'r>: Cells;
    type Locks: Locks<Self>;

    /// Maximum number of times that a statement is repeated because of a lock.
    const TRIES: u32;
    /// Whether several rows are written by several statements.
    const WRITES_SINGLY: bool;

    /// The database as messages name it.
    fn label(&self) -> String;

    /// Hands each row of a statement to `each` as it comes in, until that returns false.
    fn rows(
        &mut self,
        sql: &str,
        params: &[Value],
        each: impl FnMut(&Self::ResultRow<'_>) -> bool,
    ) -> DbResult<()>;

    /// Begins a transaction. One that rehearses does not wait long for locks.
    fn begin(&mut self, rehearses: bool) -> DbResult<()>;

    fn execute(&mut self, sql: &str) -> DbResult<()>;

    /// Undoes a rehearsal. The error is a deferred constraint that its commit would have violated.
    fn end_rehearsal(&mut self) -> DbResult<()>;

    /// Ends a transaction that an error may have left open.
    fn roll_back(&mut self);

    /// Writes those rows that are as expected.
    fn write(&mut self, table: &Table, changes: &NumberedWrites) -> DbResult<Vec<RowAfter>>;

    /// The present state of the rows of changes, without those that are gone.
    fn states(&mut self, table: &Table, changes: &NumberedWrites) -> DbResult<Vec<RowState>>;

    fn interrupter(&self) -> Interrupter;

    /// A failure to `verb` the database, for the user.
    fn explain(&self, error: DbError, verb: &str) -> anyhow::Error {
        error.explain(&self.label(), verb)
    }

    /// [`rows`](Self::rows) of a statement that may read very many rows, or whose values are shown or written.
    fn search(
        &mut self,
        sql: &str,
        params: &[Value],
        each: impl FnMut(&Self::ResultRow<'_>) -> bool,
    ) -> DbResult<()> {
        self.rows(sql, params, each)
    }

    /// All rows of a statement, each as `read` reads it.
    fn all<T>(
        &mut self,
        sql: &str,
        params: &[Value],
        mut read: impl FnMut(&Self::ResultRow<'_>) -> T,
    ) -> DbResult<Vec<T>> {
        let mut all = Vec::new();
        self.rows(sql, params, |row| {
            all.push(read(row));
            true
        })?;
        Ok(all)
    }

    fn any(&mut self, sql: &str) -> DbResult<bool> {
        Ok(!self.all(sql, &[], |_| ())?.is_empty())
    }

    /// The statements of a search: those of [`Table::due`], or faster ones.
    fn due(&mut self, table: &Table, query: &Query) -> DbResult<Vec<String>> {
        Ok(table.due(query))
    }

    /// The way around a row that cannot be read: the search as a statement about one row, whose number is the last
    /// parameter, and the numbers of all rows.
    fn row_by_row(&mut self, _: &Table, _: &Query) -> Option<(String, BTreeSet<i64>)> {
        None
    }

    /// Tries and undoes each chain of writes in one round trip. True for those known to be accepted.
    fn try_each(&mut self, _: &Table, chains: &[Vec<RowWrite>]) -> DbResult<Vec<bool>> {
        Ok(vec![false; chains.len()])
    }
}

/// What a database knows of a table besides its columns.
pub trait Inspect {
    fn triggers(&mut self, table: &Table) -> DbResult<Vec<String>>;

    /// The actions of foreign keys on rows of other tables when a row is deleted: `items: CASCADE`.
    fn dependents(&mut self, table: &Table) -> DbResult<Vec<String>>;

    fn constraints(&mut self, table: &Table) -> DbResult<Constraints>;

    fn plan(&mut self, table: &Table, query: &Query) -> DbResult<QueryPlan>;

    /// Whether an index leads to a record by its id.
    fn finds_ids(&mut self, table: &Table) -> DbResult<bool>;

    /// The columns of the index that is missing to find what is due by its count of failures.
    fn failures_index_columns(&mut self, table: &Table) -> DbResult<Option<String>>;

    /// The statement that creates an index, with its condition if the database allows that. None if the
    /// table takes no index.
    fn create_index(&mut self, table: &Table, index: &Index) -> DbResult<Option<String>>;

    fn inspect(&mut self, table: &Table, found: &mut Inspection);

    /// If the table looks empty to this user although it may have rows, the reason.
    fn why_rows_are_hidden(&mut self, _: &Table) -> DbResult<Option<String>> {
        Ok(None)
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Constraints {
    /// Constraints on written columns by which the table may refuse one row and accept another.
    pub rows: RowConstraints,
    /// Whether triggers or generated columns may change a row after a charge, so that it is read again.
    pub change_charges: bool,
}

/// The plan of a search.
pub struct QueryPlan {
    /// Whether an index leads to the records.
    pub uses_index: bool,
    /// Whether the database sorts the records, because no index has them in order.
    pub sorts: bool,
}

/// An open database and the table in it that the command is about.
pub struct SqlDatabase<E> {
    pub engine: E,
    pub table: Table,
    /// Whether the table is a queue, whose indexes and triggers are not the user's.
    pub is_queue: bool,
    /// Warnings that were given already.
    pub said: HashSet<String>,
}

impl<E: Engine> SqlDatabase<E> {
    pub fn new(engine: E, table: Table) -> Self {
        Self { engine, table, is_queue: false, said: HashSet::new() }
    }

    /// The result of a read, or its failure for the user.
    pub fn reading<T>(&self, read: DbResult<T>) -> Result<T> {
        read.map_err(|error| self.engine.explain(error, "read"))
    }
}

/// Changes with their numbers, by which results name them.
pub type NumberedWrites<'a> = [(usize, &'a RowWrite<'a>)];

/// Locks that end with their process. A database whose sessions cannot be lost needs the first four methods.
pub trait Locks<E: Engine>: Send {
    fn limits(&self) -> Limits;

    /// See [`Store::begin`](crate::store::Store::begin).
    fn begin(
        &mut self,
        on: &mut SqlDatabase<E>,
        token: &str,
        lost: Sender<Vec<Id>>,
    ) -> Result<Option<Heartbeat>>;

    /// Locks what nobody has, and reads it after that.
    fn claim(
        &mut self,
        on: &mut SqlDatabase<E>,
        wanted: ClaimRequest<'_>,
    ) -> Result<Vec<(Id, Claim)>>;

    fn release(&mut self, id: &Id);

    fn flush(&mut self, _on: &mut SqlDatabase<E>, _until: Until) -> Result<()> {
        Ok(())
    }

    /// Writes changes, and claims some of the next candidates.
    fn write(
        &mut self,
        on: &mut SqlDatabase<E>,
        changes: &NumberedWrites,
        _next: &[Id],
    ) -> DbResult<Vec<RowAfter>> {
        on.engine.write(&on.table, changes)
    }

    /// Notes results of writes, which may have to be made durable.
    fn note(&mut self, _changes: &[RowWrite], _written: &[WriteResult]) {}

    fn claim_state(&self, _id: &Id) -> ClaimState {
        ClaimState::Unbroken
    }

    /// See [`Store::keep_claims`](crate::store::Store::keep_claims).
    fn keep(&mut self, _: &mut SqlDatabase<E>, _: bool) -> DbResult<Option<Duration>> {
        Ok(None)
    }
}

/// The state of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClaimState {
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

/// A row that was written.
pub struct RowAfter {
    pub number: usize,
    /// Whether it is pending, where nothing but the condition says so.
    pub is_pending: bool,
    /// The columns that show whether it is still the same.
    pub guards: Guards,
}

/// The present state of the row of a change.
pub struct RowState {
    pub number: usize,
    /// Whether it is pending. A row that the change renews need not be due.
    pub is_pending: bool,
    pub guards: Guards,
    /// Whether the row is as the change expects it.
    pub is_expected: bool,
    /// Whether the row is as the change makes it.
    pub is_written: bool,
}

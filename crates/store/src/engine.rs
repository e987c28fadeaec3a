//! The interface of a table store to a database. A new database implements [`Engine`], [`Inspect`] and [`Locks`].

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

pub trait Engine: Inspect + Sized + Send + 'static {
    type ResultRow<'r>: Cells;
    type Locks: Locks<Self>;

    /// Maximum number of repetitions of a statement because of a lock.
    const TRIES: u32;
    const WRITES_SINGLY: bool;

    /// Name of the database in messages.
    fn label(&self) -> String;

    /// Passes each row of a statement to `each` as it arrives, until that returns false.
    fn rows(
        &mut self,
        sql: &str,
        params: &[Value],
        each: impl FnMut(&Self::ResultRow<'_>) -> bool,
    ) -> DbResult<()>;

    /// Begins a transaction. On PostgreSQL a rehearsal waits only briefly for locks.
    fn begin(&mut self, rehearses: bool) -> DbResult<()>;

    fn execute(&mut self, sql: &str) -> DbResult<()>;

    /// Rolls a rehearsal back. Fails if its commit would have violated a deferred constraint.
    fn end_rehearsal(&mut self) -> DbResult<()>;

    /// Ends the transaction that an error may have left open.
    fn roll_back(&mut self);

    fn write(&mut self, table: &Table, writes: &NumberedWrites) -> DbResult<Vec<RowAfter>>;

    /// Reads the present state of the rows of writes. A deleted row has none.
    fn states(&mut self, table: &Table, writes: &NumberedWrites) -> DbResult<Vec<RowState>>;

    fn interrupter(&self) -> Interrupter;

    fn explain(&self, error: DbError, verb: &str) -> anyhow::Error {
        error.explain(&self.label(), verb)
    }

    /// [`rows`](Self::rows) of a statement that may read the whole table, or whose values are displayed or written.
    fn search(
        &mut self,
        sql: &str,
        params: &[Value],
        each: impl FnMut(&Self::ResultRow<'_>) -> bool,
    ) -> DbResult<()> {
        self.rows(sql, params, each)
    }

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

    /// Statements of a search: [`Table::due`], or faster ones.
    fn due(&mut self, table: &Table, query: &Query) -> DbResult<Vec<String>> {
        Ok(table.due(query))
    }

    /// A search around an unreadable row: a statement for one row, whose number is its last parameter, and the numbers.
    fn row_by_row(&mut self, _: &Table, _: &Query) -> Option<(String, BTreeSet<i64>)> {
        None
    }

    /// Tries each chain of writes and rolls it back, in one round trip. True for chains that the table accepts.
    fn try_each(&mut self, _: &Table, chains: &[Vec<RowWrite>]) -> DbResult<Vec<bool>> {
        Ok(vec![false; chains.len()])
    }
}

/// Catalog data about a table besides its columns.
pub trait Inspect {
    fn triggers(&mut self, table: &Table) -> DbResult<Vec<String>>;

    /// Actions of foreign keys on other rows after a DELETE: `items: CASCADE`, without a name if they are its own rows.
    fn dependents(&mut self, table: &Table) -> DbResult<Vec<String>>;

    fn constraints(&mut self, table: &Table) -> DbResult<Constraints>;

    fn plan(&mut self, table: &Table, query: &Query) -> DbResult<QueryPlan>;

    fn has_id_index(&mut self, table: &Table) -> DbResult<bool>;

    /// Columns of the index that a search by the count of failures lacks, if any.
    fn failures_index_columns(&mut self, table: &Table) -> DbResult<Option<String>>;

    /// The statement that creates an index, with its condition if possible. None if the table can have no index.
    fn create_index(&mut self, table: &Table, index: &Index) -> DbResult<Option<String>>;

    fn inspect(&mut self, table: &Table, found: &mut Inspection);

    fn why_rows_are_hidden(&mut self, _: &Table) -> DbResult<Option<String>> {
        Ok(None)
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Constraints {
    pub rows: RowConstraints,
    /// The guards after a charge cannot be predicted (triggers, generated columns, counters), so the row is read again.
    pub change_charges: bool,
}

pub struct QueryPlan {
    pub uses_index: bool,
    /// No index has the records in order, so that the database sorts them.
    pub sorts: bool,
}

pub struct SqlDatabase<E> {
    pub engine: E,
    pub table: Table,
    /// The table is a queue of pgmq, whose indexes and triggers are not the user's.
    pub is_queue: bool,
    pub warned: HashSet<String>,
}

impl<E: Engine> SqlDatabase<E> {
    pub fn new(engine: E, table: Table) -> Self {
        Self { engine, table, is_queue: false, warned: HashSet::new() }
    }

    pub fn explain_read<T>(&self, read: DbResult<T>) -> Result<T> {
        read.map_err(|error| self.engine.explain(error, "read"))
    }
}

/// Writes with the numbers that refer to them in results.
pub type NumberedWrites<'a> = [(usize, &'a RowWrite<'a>)];

/// Locks that end with their process. docs/architecture.md lists the methods that a database without sessions needs.
pub trait Locks<E: Engine>: Send {
    fn limits(&self) -> Limits;

    fn begin(
        &mut self,
        on: &mut SqlDatabase<E>,
        token: &str,
        lost: Sender<Vec<Id>>,
    ) -> Result<Option<Heartbeat>>;

    /// Locks records that nobody has locked, and reads them afterwards.
    fn claim(
        &mut self,
        on: &mut SqlDatabase<E>,
        request: ClaimRequest<'_>,
    ) -> Result<Vec<(Id, Claim)>>;

    fn release(&mut self, id: &Id);

    fn flush(&mut self, _on: &mut SqlDatabase<E>, _until: Until) -> Result<()> {
        Ok(())
    }

    /// Writes rows, and claims some of the next candidates.
    fn write(
        &mut self,
        on: &mut SqlDatabase<E>,
        writes: &NumberedWrites,
        _next: &[Id],
    ) -> DbResult<Vec<RowAfter>> {
        on.engine.write(&on.table, writes)
    }

    /// Notes results of writes that may have to be made durable.
    fn note(&mut self, _writes: &[RowWrite], _results: &[WriteResult]) {}

    fn claim_state(&self, _id: &Id) -> ClaimState {
        ClaimState::Unbroken
    }

    /// See [`Store::keep_claims`](crate::store::Store::keep_claims).
    fn keep(&mut self, _: &mut SqlDatabase<E>, _: bool) -> DbResult<Option<Duration>> {
        Ok(None)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClaimState {
    Unbroken,
    /// The pass had no lock on the record for a time, so that another pass may have tried it.
    Broken,
    /// Another pass has the record.
    Lost,
}

pub struct Index {
    pub kind: &'static str,
    pub suffix: &'static str,
    pub columns: String,
    pub condition: Option<String>,
}

pub struct RowAfter {
    pub number: usize,
    /// True if the row is pending after the write. It is only meaningful where a condition can end a row.
    pub is_pending: bool,
    pub guards: Guards,
}

pub struct RowState {
    pub number: usize,
    /// True if the row is pending. A row that the write restores need not be due.
    pub is_pending: bool,
    pub guards: Guards,
    /// The guards of the write match.
    pub is_expected: bool,
    pub is_written: bool,
}

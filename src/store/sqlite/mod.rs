//! The SQLite store: the table in a file, the claims in a side file.

mod busy_handler;
mod catalog;
mod database;
mod errors;
mod index_walk;
mod inspect;
mod query;
mod reader;
mod rights;
mod sql;
mod wal_sync;

use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use anyhow::{Context, Result};
use rusqlite::{Connection, Error as SqlError, TransactionBehavior};

pub use database::{SqliteDatabase, create};

use super::claims::Claims;

use super::state_dir::StateDir;
use super::table::{Charged, Column, Table};
use super::watchdog::Watchdog;
use super::{
    Claim, Database, Found, Interrupter, Moved, NOT_TAKEN, Reader, Rehearsal, RowWrite,
    STILL_PENDING, Store, WriteResult,
};
use crate::lock::lock;
use crate::record::{Id, Record, Settlement};
use errors::{is_of_the_row, is_refused, words};
use sql::Statement;
use wal_sync::{SharedClaims, WalSync};

/// How many claims are held at a time: the kernel keeps them in a list, which is walked for each.
const MOST_CLAIMS: usize = 1024;

/// A table together with the means to claim its records.
pub struct SqliteStore {
    watchdog: Option<Watchdog>,
    claims: SharedClaims,
    /// In WAL mode; otherwise every commit is durable by itself.
    wal_sync: Option<WalSync>,
    state: StateDir,
    /// Whether what a charge makes of a row shows only when the row is read again: triggers and
    /// generated columns may have changed what it is told by.
    looks_again: bool,
    database: SqliteDatabase,
}

impl SqliteStore {
    fn new(database: SqliteDatabase, state: &StateDir) -> Result<Self> {
        let claims = Claims::new(state.claims_file(&database.table.name)?);
        let claims = Arc::new(Mutex::new(claims));
        // What ends a pass before that ends the waiting as well.
        database.busy_handler.of_a_pass(Duration::MAX);
        let looks_again =
            looks_again(&database).map_err(|error| database.explain(&error, "read"))?;
        let state = state.clone();
        Ok(Self { watchdog: None, claims, wal_sync: None, state, looks_again, database })
    }

    fn claims(&self) -> MutexGuard<'_, Claims> {
        lock(&self.claims)
    }

    /// Claims what nobody has; says of each whether it is claimed now.
    fn claim_free(&self, ids: &[Id]) -> Result<Vec<bool>> {
        let mut claims = self.claims();
        let claimed = ids
            .iter()
            .map(|id| claims.claim(id).with_context(|| format!("could not claim record {id}")));
        claimed.collect()
    }

    /// Reads what is claimed, all of it as it is at one moment after it was claimed.
    fn read_claimed(&mut self, ids: &[Id], claimed: &[bool]) -> Result<Vec<(Id, Claim)>> {
        let begun = self.database.connection.unchecked_transaction();
        let moment = begun.map_err(|error| self.database.explain(&error, "read"))?;
        let read = |(id, claimed): (&Id, &bool)| {
            if !claimed {
                return Ok((id.clone(), Claim::Busy));
            }
            let claim = match self.database.read_row(&self.database.by_id, id) {
                Ok(Found::Record(record)) => Claim::Held(record),
                Ok(Found::Gone) => Claim::Gone,
                Ok(Found::Ambiguous) => Claim::Ambiguous,
                Err(error) if is_of_the_row(&error) => Claim::Unreadable(words(&error)),
                Err(error) => return Err(self.database.explain(&error, "read")),
            };
            Ok((id.clone(), claim))
        };
        let claims = ids.iter().zip(claimed).map(read).collect();
        drop(moment);
        claims
    }

    fn write(&mut self, changes: &[RowWrite]) -> rusqlite::Result<Vec<WriteResult>> {
        let table = &self.database.table;
        let tx =
            self.database.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut applied = Vec::with_capacity(changes.len());
        for change in changes {
            // Without a status column nothing but the condition makes a row finished.
            let is_to_be_seen =
                table.statuses.column.is_none() && change.settlement.transition.is_end();
            if is_to_be_seen {
                tx.execute_batch("SAVEPOINT settled")?;
            }
            applied.push(match write(&tx, sql::write(table, change))? {
                0 if is_as_expected(&tx, table, change.record, change.charged)? => {
                    WriteResult::Refused(NOT_TAKEN.into())
                }
                0 => WriteResult::ChangedMeanwhile,
                1 if is_to_be_seen && is_pending(&tx, table, change.record)? => {
                    tx.execute_batch("ROLLBACK TO settled")?;
                    WriteResult::Refused(STILL_PENDING.into())
                }
                1 if change.begins() => {
                    WriteResult::Charged(charged(&tx, table, change.record, self.looks_again)?)
                }
                1 => WriteResult::Written,
                _ => return Err(SqlError::StatementChangedRows(2)),
            });
        }
        tx.commit()?;
        Ok(applied)
    }

    /// Writes each chain, and takes it back.
    fn try_out(
        &mut self,
        record: &Record,
        possible_writes: &[Vec<Settlement>],
    ) -> rusqlite::Result<Rehearsal> {
        let looks_again = self.looks_again;
        let SqliteDatabase { connection, table, path, .. } = &mut self.database;
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if !is_as_expected(&tx, table, record, None)? {
            return Ok(Rehearsal::ChangedMeanwhile);
        }
        for chain in possible_writes {
            tx.execute_batch("SAVEPOINT rehearsal")?;
            let mut begun: Option<Charged> = None;
            for settlement in chain {
                let change = RowWrite::new(record, begun.as_ref(), settlement.clone());
                let why = match write(&tx, sql::write(table, &change)) {
                    Ok(1) if settlement.transition.is_end() && is_pending(&tx, table, record)? => {
                        Some(STILL_PENDING.into())
                    }
                    Ok(1) => None,
                    Ok(_) => Some(NOT_TAKEN.into()),
                    Err(error) if is_refused(&error) => Some(words(&error)),
                    Err(error) => return Err(error),
                };
                if let Some(why) = why {
                    let status = settlement.status(record.status);
                    let place = path.display().to_string();
                    return Ok(Rehearsal::refused(&place, table, status, &why));
                }
                if change.begins() {
                    begun = Some(charged(&tx, table, record, looks_again)?);
                }
            }
            tx.execute_batch("ROLLBACK TO rehearsal")?;
        }
        tx.rollback()?;
        Ok(Rehearsal::Taken)
    }
}

impl Store for SqliteStore {
    fn reader(&mut self) -> &mut dyn Reader {
        &mut self.database
    }

    fn most_claims(&self) -> usize {
        MOST_CLAIMS
    }

    fn claim(&mut self, ids: &[Id]) -> Result<Vec<(Id, Claim)>> {
        let _acting = self.database.connection.rights.take()?;
        let claimed = self.claim_free(ids)?;
        let found = self.read_claimed(ids, &claimed);
        let mut claims = self.claims();
        for (index, id) in ids.iter().enumerate().filter(|(index, _)| claimed[*index]) {
            let claim = found.as_ref().ok().and_then(|found| found.get(index));
            if !matches!(claim, Some((_, Claim::Held(_)))) {
                claims.release(id);
            }
        }
        found
    }

    fn release(&mut self, id: &Id) {
        match &self.wal_sync {
            Some(wal_sync) => wal_sync.release(id),
            None => self.claims().release(id),
        }
    }

    fn apply(&mut self, changes: &[RowWrite]) -> Result<Vec<WriteResult>> {
        if changes.is_empty() {
            return Ok(Vec::new());
        }
        let _acting = self.database.connection.rights.take()?;
        match self.write(changes) {
            // One row that the table refuses must not take the others' outcomes with it.
            Err(error) if is_refused(&error) => changes
                .iter()
                .map(|change| match self.write(std::slice::from_ref(change)) {
                    Ok(applied) => {
                        Ok(applied.into_iter().next().unwrap_or(WriteResult::ChangedMeanwhile))
                    }
                    Err(error) if is_refused(&error) => Ok(WriteResult::Refused(words(&error))),
                    Err(error) => Err(self.database.explain(&error, "write to")),
                })
                .collect(),
            result => result.map_err(|error| self.database.explain(&error, "write to")),
        }
    }

    fn rehearse(
        &mut self,
        record: &Record,
        possible_writes: &[Vec<Settlement>],
    ) -> Result<Rehearsal> {
        let _acting = self.database.connection.rights.take()?;
        let rehearsed = self.try_out(record, possible_writes);
        rehearsed.map_err(|error| self.database.explain(&error, "write to"))
    }

    fn interrupter(&self) -> Option<Interrupter> {
        let handle = self.database.connection.get_interrupt_handle();
        Some(Box::new(move || handle.interrupt()))
    }

    fn require_in_place(&mut self) -> Result<(), Moved> {
        self.database.require_in_place().map_err(Moved::Database)?;
        let claims = self.claims();
        let in_place = self.state.require_in_place(&self.database.table.name, claims.as_fd());
        in_place.map_err(Moved::Claims)
    }

    fn start_watchdog(&mut self, token: &str) -> Result<()> {
        let claims = self.claims().as_fd().try_clone_to_owned();
        let claims = claims.context("could not duplicate the claims")?;
        self.watchdog = Some(Watchdog::start(Some(claims), token)?);
        let _acting = self.database.connection.rights.take()?;
        if let Some(log) = self.database.defer_sync()? {
            self.wal_sync = Some(WalSync::start(log, self.claims.clone())?);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.wal_sync.as_mut().map_or(Ok(()), WalSync::finish)
    }
}

/// How many rows a statement changed, or found if it changes none.
fn write(connection: &Connection, statement: Statement) -> rusqlite::Result<usize> {
    let mut prepared = connection.prepare_cached(&statement.sql)?;
    let params = rusqlite::params_from_iter(statement.params);
    if prepared.readonly() {
        prepared.exists(params).map(usize::from)
    } else {
        prepared.execute(params)
    }
}

/// Whether something else than a charge itself may change, with it, what shows that a row is still
/// the same.
fn looks_again(database: &SqliteDatabase) -> rusqlite::Result<bool> {
    let SqliteDatabase { connection, table, .. } = database;
    let written: Vec<_> = table.counter_columns().map(|column| column.name.as_str()).collect();
    let is_affected =
        |column: &&Column| column.is_generated || written.contains(&column.name.as_str());
    if table.guard_columns().iter().any(is_affected) {
        return Ok(true);
    }
    let sql = "SELECT 1 FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE";
    connection.prepare(sql)?.exists([&table.name])
}

/// What a charge has made of a row.
fn charged(
    connection: &Connection,
    table: &Table,
    record: &Record,
    looks_again: bool,
) -> rusqlite::Result<Charged> {
    if !looks_again {
        return Ok(table.charged(record));
    }
    let mut statement = connection.prepare_cached(&query::guards_by_id(table))?;
    statement.query_row(sql::id_params(&record.id), |row| {
        let columns = 0..row.as_ref().column_count();
        let values = columns.map(|index| row.get_ref(index).map(sql::value));
        Ok(Charged(values.collect::<rusqlite::Result<_>>()?))
    })
}

/// Whether the row still is what an update of it would ask for.
fn is_as_expected(
    connection: &Connection,
    table: &Table,
    record: &Record,
    charged: Option<&Charged>,
) -> rusqlite::Result<bool> {
    write(connection, sql::as_expected(table, record, charged)).map(|found| found > 0)
}

fn is_pending(connection: &Connection, table: &Table, record: &Record) -> rusqlite::Result<bool> {
    let mut statement = connection.prepare_cached(&query::is_pending(table))?;
    statement.exists(sql::id_params(&record.id))
}

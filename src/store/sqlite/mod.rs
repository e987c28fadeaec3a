//! The SQLite store: the table in a file, the claims in a side file.

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
use rusqlite::Error as SqlError;

pub use database::{SqliteDatabase, create};

use super::claims::Claims;
use super::state_dir::StateDir;
use super::table::{Charged, Column, names};
use super::watchdog::Watchdog;
use super::{
    Claim, Database, Found, Interrupter, Moved, NOT_TAKEN, Reader, Rehearsal, RowWrite,
    STILL_PENDING, Store, WriteResult, write_all,
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
        let looks_again = database.reading(database.looks_again())?;
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
        let moment = self.database.reading(self.database.connection.unchecked_transaction())?;
        let read = |(id, claimed): (&Id, &bool)| {
            if !claimed {
                return Ok((id.clone(), Claim::Busy));
            }
            let claim = match self.database.read_row(&self.database.by_id, id) {
                Ok(Found::Record(record)) => Claim::Held(record),
                Ok(Found::Gone) => Claim::Gone,
                Ok(Found::Ambiguous) => Claim::Ambiguous,
                Err(error) if is_of_the_row(&error) => Claim::Unreadable(words(&error)),
                Err(error) => return self.database.reading(Err(error)),
            };
            Ok((id.clone(), claim))
        };
        let claims = ids.iter().zip(claimed).map(read).collect();
        drop(moment);
        claims
    }

    fn write(&self, changes: &[RowWrite]) -> rusqlite::Result<Vec<WriteResult>> {
        let tx = self.database.begin()?;
        // Without a status column nothing but the condition makes a row finished.
        let sees_ends = self.database.table.statuses.column.is_none();
        let applied = changes.iter().map(|change| self.write_row(change, sees_ends));
        let applied = applied.collect::<rusqlite::Result<_>>()?;
        tx.commit()?;
        Ok(applied)
    }

    /// Makes a change. An end that leaves its record pending is refused, if `sees_ends`.
    fn write_row(&self, change: &RowWrite, sees_ends: bool) -> rusqlite::Result<WriteResult> {
        let (database, record) = (&self.database, change.record);
        let sees_end = sees_ends && change.ends();
        if sees_end {
            database.connection.execute_batch("SAVEPOINT settled")?;
        }
        Ok(match database.execute(sql::write(&database.table, change))? {
            0 if database.execute(sql::as_expected(&database.table, record, change.charged))?
                > 0 =>
            {
                WriteResult::Refused(NOT_TAKEN.into())
            }
            0 => WriteResult::ChangedMeanwhile,
            1 if sees_end && database.is_pending(record)? => {
                database.connection.execute_batch("ROLLBACK TO settled")?;
                WriteResult::Refused(STILL_PENDING.into())
            }
            1 if change.begins() => WriteResult::Charged(self.charged(record)?),
            1 => WriteResult::Written,
            _ => return Err(SqlError::StatementChangedRows(2)),
        })
    }

    /// What a charge has made of a row.
    fn charged(&self, record: &Record) -> rusqlite::Result<Charged> {
        let SqliteDatabase { connection, table, .. } = &self.database;
        if !self.looks_again {
            return Ok(table.charged(record));
        }
        let mut statement =
            connection.prepare_cached(&query::of_id(table, &names(table.guard_columns())))?;
        statement.query_row(sql::id_params(&record.id), |row| {
            let columns = 0..row.as_ref().column_count();
            let values = columns.map(|index| row.get_ref(index).map(sql::value));
            Ok(Charged(values.collect::<rusqlite::Result<_>>()?))
        })
    }

    /// Writes each chain, and takes it back.
    fn try_out(&self, record: &Record, chains: &[Vec<Settlement>]) -> rusqlite::Result<Rehearsal> {
        let tx = self.database.begin()?;
        for chain in chains {
            tx.execute_batch("SAVEPOINT rehearsal")?;
            let mut charged: Option<Charged> = None;
            for settlement in chain {
                let change = RowWrite::new(record, charged.as_ref(), settlement.clone());
                let why = match self.write_row(&change, true) {
                    Ok(WriteResult::Written) => continue,
                    Ok(WriteResult::Charged(row)) => {
                        charged = Some(row);
                        continue;
                    }
                    Ok(WriteResult::Refused(why)) => why,
                    // Until the end of the transaction nobody else can change it.
                    Ok(_) if charged.is_some() => NOT_TAKEN.into(),
                    Ok(_) => return Ok(Rehearsal::ChangedMeanwhile),
                    Err(error) if is_refused(&error) => words(&error),
                    Err(error) => return Err(error),
                };
                let status = settlement.status(record.status);
                let SqliteDatabase { path, table, .. } = &self.database;
                return Ok(Rehearsal::refused(&path.display().to_string(), table, status, &why));
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
        let _acting = self.database.connection.rights.take()?;
        write_all(changes, |changes| match self.write(changes) {
            Err(error) if is_refused(&error) => Ok(Err(words(&error))),
            written => written.map(Ok).map_err(|error| self.database.explain(&error, "write to")),
        })
    }

    fn rehearse(&mut self, record: &Record, chains: &[Vec<Settlement>]) -> Result<Rehearsal> {
        let _acting = self.database.connection.rights.take()?;
        let rehearsed = self.try_out(record, chains);
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
        let deferred = self.database.defer_sync();
        if let Some(log) = deferred.map_err(|error| self.database.explain(&error, "write to"))? {
            self.wal_sync = Some(WalSync::start(log, self.claims.clone())?);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.wal_sync.as_mut().map_or(Ok(()), WalSync::finish)
    }
}

impl SqliteDatabase {
    /// How many rows a statement changed, or found if it changes none.
    fn execute(&self, statement: Statement) -> rusqlite::Result<usize> {
        let mut prepared = self.connection.prepare_cached(&statement.sql)?;
        let params = rusqlite::params_from_iter(statement.params);
        if prepared.readonly() {
            prepared.exists(params).map(usize::from)
        } else {
            prepared.execute(params)
        }
    }

    fn is_pending(&self, record: &Record) -> rusqlite::Result<bool> {
        let mut statement = self.connection.prepare_cached(&query::is_pending(&self.table))?;
        statement.exists(sql::id_params(&record.id))
    }

    /// Whether something else than a charge itself may change, with it, what shows that a row is
    /// still the same.
    fn looks_again(&self) -> rusqlite::Result<bool> {
        let written: Vec<_> = self.table.counter_columns().map(|column| &column.name).collect();
        let is_affected = |column: &&Column| column.is_generated || written.contains(&&column.name);
        if self.table.guard_columns().iter().any(is_affected) {
            return Ok(true);
        }
        let sql =
            "SELECT 1 FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE";
        self.connection.prepare(sql)?.exists([&self.table.name])
    }
}

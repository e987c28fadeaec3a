//! The SQLite store: the table in a file, the claims in a side file.

mod catalog;
mod change;
mod column;
mod condition;
mod database;
mod durable;
mod errors;
mod examine;
mod query;
mod reader;
mod rights;
mod sql;
mod waiting;

use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard};

use anyhow::{Context, Result};
use rusqlite::{Connection, Error as SqlError, TransactionBehavior};

pub use database::{SqliteDatabase, create};

use super::claims::Claims;
use super::guard::Guard;
use super::proof::{NOT_TAKEN, Proof, STILL_PENDING};
use super::state_dir::StateDir;
use super::table::Table;
use super::{Applied, Change, Claim, Database, Found, Reader, Store};
use crate::lock::lock;
use crate::record::{Id, Record, Settlement, Step};
use change::Statement;
use durable::{LogSync, SharedClaims};
use errors::{is_busy, is_refusal, words};

/// How often a settlement is tried again when the database stays locked; each try waits for
/// [`database::BUSY_TIMEOUT`]. An outcome is not given up lightly.
const SETTLE_TRIES: u32 = 10;

/// How many claims are held at a time: the kernel keeps them in a list, which is walked for each.
const MOST_CLAIMS: usize = 1024;

/// A table together with the means to claim its records.
pub struct SqliteStore {
    guard: Option<Guard>,
    claims: SharedClaims,
    /// In WAL mode; otherwise every commit is durable by itself.
    log_sync: Option<LogSync>,
    database: SqliteDatabase,
}

impl SqliteStore {
    fn new(database: SqliteDatabase, state: &StateDir) -> Result<Self> {
        let claims = Claims::new(state.claims_file(&database.table.name)?);
        let claims = Arc::new(Mutex::new(claims));
        Ok(Self { guard: None, claims, log_sync: None, database })
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
            let claim = if *claimed {
                match self.database.read_row(&self.database.by_id, id)? {
                    Found::Record(record) => Claim::Held(record),
                    Found::Gone => Claim::Gone,
                    Found::Ambiguous => Claim::Ambiguous,
                }
            } else {
                Claim::Busy
            };
            Ok((id.clone(), claim))
        };
        let claims = ids.iter().zip(claimed).map(read).collect();
        drop(moment);
        claims
    }

    fn write(&mut self, changes: &[Change]) -> rusqlite::Result<Vec<Applied>> {
        let table = &self.database.table;
        let tx =
            self.database.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut applied = Vec::with_capacity(changes.len());
        for change in changes {
            // Without a status column nothing but the condition makes a row finished.
            let is_to_be_seen = table.statuses.column.is_none() && change.settlement.step.is_end();
            if is_to_be_seen {
                tx.execute_batch("SAVEPOINT settled")?;
            }
            applied.push(match write(&tx, change::write(table, change))? {
                0 if is_as_expected(&tx, table, change.record, change.charged)? => {
                    Applied::Refused(NOT_TAKEN.into())
                }
                0 => Applied::ChangedMeanwhile,
                1 if is_to_be_seen && is_pending(&tx, table, change.record)? => {
                    tx.execute_batch("ROLLBACK TO settled")?;
                    Applied::Refused(STILL_PENDING.into())
                }
                1 => Applied::Written,
                _ => return Err(SqlError::StatementChangedRows(2)),
            });
        }
        tx.commit()?;
        Ok(applied)
    }

    /// Writes each chain, and takes it back.
    fn try_out(&mut self, record: &Record, chains: &[Vec<Settlement>]) -> rusqlite::Result<Proof> {
        let SqliteDatabase { connection, table, .. } = &mut self.database;
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if !is_as_expected(&tx, table, record, false)? {
            return Ok(Proof::ChangedMeanwhile);
        }
        for chain in chains {
            tx.execute_batch("SAVEPOINT proof")?;
            let mut charged = false;
            for settlement in chain {
                let change = Change::new(record, charged, settlement.clone());
                let why = match write(&tx, change::write(table, &change)) {
                    Ok(1) if settlement.step.is_end() && is_pending(&tx, table, record)? => {
                        Some(STILL_PENDING.into())
                    }
                    Ok(1) => None,
                    Ok(_) => Some(NOT_TAKEN.into()),
                    Err(error) if is_refusal(&error) => Some(words(&error)),
                    Err(error) => return Err(error),
                };
                if let Some(why) = why {
                    let status = settlement.status(record.status);
                    return Ok(Proof::Refused { status, why });
                }
                charged = settlement.step == Step::Begun;
            }
            tx.execute_batch("ROLLBACK TO proof")?;
        }
        tx.rollback()?;
        Ok(Proof::Taken)
    }

    /// Like `write`, but waits out a lock for longer than one busy timeout.
    fn write_patiently(&mut self, changes: &[Change]) -> rusqlite::Result<Vec<Applied>> {
        let mut tries = 1;
        loop {
            match self.write(changes) {
                Err(error) if is_busy(&error) && tries < SETTLE_TRIES => {
                    log::warn!("{} is locked; trying again", self.database.path.display());
                    tries += 1;
                }
                result => return result,
            }
        }
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
        match &self.log_sync {
            Some(log_sync) => log_sync.release(id),
            None => self.claims().release(id),
        }
    }

    fn rest(&mut self) -> Result<()> {
        Ok(())
    }

    fn apply(&mut self, changes: &[Change]) -> Result<Vec<Applied>> {
        if changes.is_empty() {
            return Ok(Vec::new());
        }
        let _acting = self.database.connection.rights.take()?;
        match self.write_patiently(changes) {
            // One row that the table refuses must not take the others' outcomes with it.
            Err(error) if is_refusal(&error) => changes
                .iter()
                .map(|change| match self.write_patiently(std::slice::from_ref(change)) {
                    Ok(applied) => {
                        Ok(applied.into_iter().next().unwrap_or(Applied::ChangedMeanwhile))
                    }
                    Err(error) if is_refusal(&error) => Ok(Applied::Refused(words(&error))),
                    Err(error) => Err(self.database.explain(&error, "write to")),
                })
                .collect(),
            result => result.map_err(|error| self.database.explain(&error, "write to")),
        }
    }

    fn prove(&mut self, record: &Record, chains: &[Vec<Settlement>]) -> Result<bool> {
        let _acting = self.database.connection.rights.take()?;
        let proof = self.try_out(record, chains);
        let proof = proof.map_err(|error| self.database.explain(&error, "write to"))?;
        proof.into_result(&self.database.place(), &self.database.table, record)
    }

    fn guard(&mut self, token: &str) -> Result<()> {
        let claims = self.claims().as_fd().try_clone_to_owned();
        let claims = claims.context("could not duplicate the claims")?;
        self.guard = Some(Guard::start(Some(claims), token)?);
        let _acting = self.database.connection.rights.take()?;
        if let Some(log) = self.database.defer_sync()? {
            self.log_sync = Some(LogSync::start(log, self.claims.clone())?);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.log_sync.as_mut().map_or(Ok(()), LogSync::finish)
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

/// Whether the row still is what an update of it would ask for.
fn is_as_expected(
    connection: &Connection,
    table: &Table,
    record: &Record,
    charged: bool,
) -> rusqlite::Result<bool> {
    write(connection, change::as_expected(table, record, charged)).map(|found| found > 0)
}

fn is_pending(connection: &Connection, table: &Table, record: &Record) -> rusqlite::Result<bool> {
    let mut statement = connection.prepare_cached(&query::is_pending(table))?;
    statement.exists(rusqlite::params_from_iter(record.id.parts().iter().map(sql::id_param)))
}

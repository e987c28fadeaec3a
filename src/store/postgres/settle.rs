//! How outcomes are written, and how it is tried out beforehand that they can be.

use postgres::Error as SqlError;

use super::PgDatabase;
use super::change::{self, Ask};
use super::errors::{is_lost, is_refusal, words};
use super::sessions::Sessions;
use crate::record::{Record, Settlement, Step};
use crate::store::proof::{NOT_TAKEN, Proof, STILL_PENDING};
use crate::store::table::Effects;
use crate::store::{Applied, Change};

impl Sessions {
    /// Writes changes, all or none. `again` says that this may have been done before, by a
    /// session that was lost before it could say so.
    pub fn write(
        &mut self,
        changes: &[Change],
        again: bool,
    ) -> Result<Result<Vec<Applied>, String>, SqlError> {
        let Self { database, claims, .. } = self;
        let mut applied = vec![Applied::ChangedMeanwhile; changes.len()];
        let mut mine = Vec::with_capacity(changes.len());
        for (number, change) in changes.iter().enumerate() {
            if claims.lost.contains(&change.record.id) {
                applied[number] = Applied::ClaimLost;
            } else {
                mine.push((number, change));
            }
        }
        if mine.is_empty() {
            return Ok(Ok(applied));
        }
        // Without a status column nothing but the condition makes a row finished.
        let is_to_be_seen = database.table.statuses.column.is_none()
            && mine.iter().any(|(_, change)| change.settlement.step.is_end());
        if is_to_be_seen {
            database.session.batch("BEGIN ISOLATION LEVEL READ COMMITTED")?;
        }
        let written = database.ask(&mine, Ask::Write)?;
        for (number, is_pending) in &written {
            applied[*number] = Applied::Written;
            if is_to_be_seen && *is_pending && changes[*number].settlement.step.is_end() {
                database.session.batch("ROLLBACK")?;
                return Ok(Err(STILL_PENDING.into()));
            }
        }
        if is_to_be_seen {
            database.session.batch("COMMIT")?;
        }
        mine.retain(|(number, _)| applied[*number] != Applied::Written);
        if mine.is_empty() {
            return Ok(Ok(applied));
        }
        for (number, _) in database.ask(&mine, Ask::IsExpected)? {
            applied[number] = Applied::Refused(NOT_TAKEN.into());
        }
        if again {
            let as_written = database.ask(&mine, Ask::IsWritten)?;
            let deletes = matches!(database.table.on_success, Effects::Delete);
            for (number, change) in mine {
                let is_there = as_written.iter().any(|(it, _)| *it == number);
                let is_deleted = deletes && change.settlement.step == Step::Succeeded;
                if is_there != is_deleted {
                    applied[number] = Applied::Written;
                }
            }
        }
        Ok(Ok(applied))
    }

    /// Writes each chain, and takes it back.
    pub fn try_out(
        &mut self,
        record: &Record,
        chains: &[Vec<Settlement>],
    ) -> Result<Proof, SqlError> {
        let session = &mut self.database.session;
        session.batch("BEGIN ISOLATION LEVEL READ COMMITTED; SET CONSTRAINTS ALL IMMEDIATE")?;
        let proof = self.database.try_chains(record, chains);
        if !proof.as_ref().is_err_and(is_lost) {
            self.database.session.batch("ROLLBACK")?;
        }
        proof
    }
}

impl PgDatabase {
    /// The changes for which this holds, by number, and whether their rows are pending.
    fn ask(
        &mut self,
        changes: &[(usize, &Change)],
        ask: Ask,
    ) -> Result<Vec<(usize, bool)>, SqlError> {
        let statement = change::statement(&self.table, changes, ask);
        let rows = self.session.query(&statement.sql, &statement.params)?;
        let number = |number: i64| usize::try_from(number).unwrap_or(usize::MAX);
        Ok(rows.iter().map(|row| (number(row.get(0)), row.get(1))).collect())
    }

    fn try_chains(
        &mut self,
        record: &Record,
        chains: &[Vec<Settlement>],
    ) -> Result<Proof, SqlError> {
        for chain in chains {
            self.session.batch("SAVEPOINT proof")?;
            let mut charged = false;
            for settlement in chain {
                let change = Change::new(record, charged, settlement.clone());
                let status = settlement.status(record.status);
                let refused = |why: String| Ok(Proof::Refused { status, why });
                match self.ask(&[(0, &change)], Ask::Write) {
                    Ok(written) => match written.first() {
                        Some((_, true)) if settlement.step.is_end() => {
                            return refused(STILL_PENDING.into());
                        }
                        Some(_) => {}
                        // After the first step the row is locked for everybody else.
                        None if !charged
                            && self.ask(&[(0, &change)], Ask::IsExpected)?.is_empty() =>
                        {
                            return Ok(Proof::ChangedMeanwhile);
                        }
                        None => return refused(NOT_TAKEN.into()),
                    },
                    Err(error) if is_refusal(&error) => return refused(words(&error)),
                    Err(error) => return Err(error),
                }
                charged = settlement.step == Step::Begun;
            }
            self.session.batch("ROLLBACK TO proof")?;
        }
        Ok(Proof::Taken)
    }
}

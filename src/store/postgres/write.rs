//! Writes of outcomes to PostgreSQL, and their rehearsal.

use postgres::{Error as SqlError, Row};

use super::PgDatabase;
use super::change::{self, Ask};
use super::errors::{is_lost, is_refusal, words};
use super::reconnect::OrRefused;
use super::sessions::Sessions;
use super::sql::{Param, number, value};
use crate::record::{Record, Settlement, Transition};
use crate::store::table::Charged;
use crate::store::{NOT_TAKEN, Rehearsal, STILL_PENDING};
use crate::store::{RowWrite, WriteResult};

impl Sessions {
    /// Writes changes, all or none. `again` says that this may have been done before, by a
    /// session that was lost before it could say so.
    pub fn write(&mut self, changes: &[RowWrite], again: bool) -> OrRefused<Vec<WriteResult>> {
        let Self { database, claims, .. } = self;
        let mut applied = vec![WriteResult::ClaimLost; changes.len()];
        let is_mine = |(_, change): &(usize, &RowWrite)| !claims.lost.contains(&change.record.id);
        let mut mine: Vec<_> = changes.iter().enumerate().filter(is_mine).collect();
        for (number, _) in &mine {
            applied[*number] = WriteResult::ChangedMeanwhile;
        }
        if mine.is_empty() {
            return Ok(Ok(applied));
        }
        // Without a status column nothing but the condition makes a row finished.
        let is_to_be_seen = database.table.statuses.column.is_none()
            && mine.iter().any(|(_, change)| change.ends());
        let begun: Vec<_> = mine.iter().copied().filter(|(_, change)| change.begins()).collect();
        let looks_again = !begun.is_empty() && database.looks_again()?;
        if is_to_be_seen || looks_again {
            database.session.batch("BEGIN ISOLATION LEVEL READ COMMITTED")?;
        }
        for Seen { number, is_pending, charged } in database.ask(&mine, Ask::Write)? {
            let change = &changes[number];
            applied[number] = written(change, charged);
            if is_to_be_seen && is_pending && change.ends() {
                database.session.batch("ROLLBACK")?;
                return Ok(Err(STILL_PENDING.into()));
            }
        }
        if looks_again {
            for Seen { number, charged, .. } in database.ask(&begun, Ask::IsThere)? {
                if matches!(applied[number], WriteResult::Charged(_)) {
                    applied[number] = WriteResult::Charged(charged);
                }
            }
        }
        if is_to_be_seen || looks_again {
            database.session.batch("COMMIT")?;
        }
        mine.retain(|(number, _)| applied[*number] == WriteResult::ChangedMeanwhile);
        if mine.is_empty() {
            return Ok(Ok(applied));
        }
        for Seen { number, .. } in database.ask(&mine, Ask::IsExpected)? {
            applied[number] = WriteResult::Refused(NOT_TAKEN.into());
        }
        if again {
            let as_written = database.ask(&mine, Ask::IsWritten)?;
            let deletes = database.table.deletes_finished;
            for (number, change) in mine {
                let seen = as_written.iter().find(|it| it.number == number);
                let is_deleted = deletes && change.settlement.transition == Transition::Succeeded;
                if seen.is_some() != is_deleted {
                    let charged = seen.map(|seen| seen.charged.clone()).unwrap_or_default();
                    applied[number] = written(change, charged);
                }
            }
        }
        Ok(Ok(applied))
    }

    /// Writes each chain, and takes it back.
    pub fn try_out(
        &mut self,
        record: &Record,
        possible_writes: &[Vec<Settlement>],
    ) -> Result<Rehearsal, SqlError> {
        let session = &mut self.database.session;
        session.batch("BEGIN ISOLATION LEVEL READ COMMITTED; SET CONSTRAINTS ALL IMMEDIATE")?;
        let rehearsed = self.database.try_chains(record, possible_writes);
        if !rehearsed.as_ref().is_err_and(is_lost) {
            self.database.session.batch("ROLLBACK")?;
        }
        rehearsed
    }
}

impl PgDatabase {
    /// The changes for which this holds, and what their rows are then.
    fn ask(&mut self, changes: &[(usize, &RowWrite)], ask: Ask) -> Result<Vec<Seen>, SqlError> {
        let (sql, params) = change::statement(&self.table, changes, ask);
        let rows = self.session.query(&sql, &params)?;
        let guards = self.table.guard_columns();
        let seen = |row: &Row| {
            let values = guards.iter().zip(2..);
            let values = values.map(|(column, index)| value(column, row.get::<usize, _>(index)));
            let (number, charged) = (number(row, 0)?, Charged(values.collect()));
            Some(Seen { number, is_pending: row.get(1), charged })
        };
        Ok(rows.iter().filter_map(seen).collect())
    }

    /// Whether triggers may change a row after what a statement returns of it.
    fn looks_again(&mut self) -> Result<bool, SqlError> {
        if let Some(known) = self.has_after_triggers {
            return Ok(known);
        }
        // Bits of `tgtype`: 2 for BEFORE, 16 for UPDATE.
        let sql = "SELECT 1 FROM pg_trigger WHERE tgrelid = $1::text::regclass \
                   AND NOT tgisinternal AND tgtype & 2 = 0 AND tgtype & 16 <> 0 LIMIT 1";
        let found = !self.session.query(sql, &[Param::text(&self.table.sql)])?.is_empty();
        self.has_after_triggers = Some(found);
        Ok(found)
    }

    fn try_chains(
        &mut self,
        record: &Record,
        possible_writes: &[Vec<Settlement>],
    ) -> Result<Rehearsal, SqlError> {
        for chain in possible_writes {
            self.session.batch("SAVEPOINT rehearsal")?;
            let mut charged: Option<Charged> = None;
            for settlement in chain {
                let change = RowWrite::new(record, charged.as_ref(), settlement.clone());
                let seen = self.ask(&[(0, &change)], Ask::Write).map(|mut seen| seen.pop());
                let why = match seen {
                    Ok(Some(seen)) if change.ends() && seen.is_pending => STILL_PENDING.into(),
                    Ok(Some(_)) if change.begins() => {
                        let seen = self.ask(&[(0, &change)], Ask::IsThere)?;
                        charged = seen.into_iter().next().map(|seen| seen.charged);
                        continue;
                    }
                    Ok(Some(_)) => continue,
                    // After the first step the row is locked for everybody else.
                    Ok(None)
                        if charged.is_none()
                            && self.ask(&[(0, &change)], Ask::IsExpected)?.is_empty() =>
                    {
                        return Ok(Rehearsal::ChangedMeanwhile);
                    }
                    Ok(None) => NOT_TAKEN.into(),
                    Err(error) if is_refusal(&error) => words(&error),
                    Err(error) => return Err(error),
                };
                let status = settlement.status(record.status);
                return Ok(Rehearsal::refused(&self.place, &self.table, status, &why));
            }
            self.session.batch("ROLLBACK TO rehearsal")?;
        }
        Ok(Rehearsal::Taken)
    }
}

/// A change that was made, and what its row is then.
struct Seen {
    /// Which of the changes.
    number: usize,
    is_pending: bool,
    charged: Charged,
}

fn written(change: &RowWrite, charged: Charged) -> WriteResult {
    if change.begins() { WriteResult::Charged(charged) } else { WriteResult::Written }
}

//! Failures that a table does not hold: the dates of causes, and errors without a column for them.

use std::collections::HashMap;

use anyhow::Result;
use backlog_schedule::{COMPARED, Causes, DAY, Id, Instant, Record, Status, exact_id, last_error};
use rusqlite::{Connection, params};

use super::StateDir;
use super::state_db::{COMMAND_WAIT, Json, PASS_WAIT, in_transaction};

/// Number of errors that are kept: those of the last failures.
const KEPT: u32 = 10_000;
const CAUSES_KEPT: u32 = 1_000;
/// Number of errors that are written in one transaction.
const AT_ONCE: usize = 1_000;
/// A cause that was not seen for this long counts as new.
const GONE_AFTER: i64 = DAY;

#[derive(Debug, Clone, PartialEq, Eq)]
struct LastError {
    at: Instant,
    error: String,
    /// The reason why the column for errors, if there is one, refuses it.
    unstored: Option<String>,
}

#[derive(Debug, Default)]
pub struct StoredFailures {
    /// The first and the last instant at which causes were seen, by their ids.
    pub causes: HashMap<String, (Instant, Instant)>,
    errors: HashMap<Id, LastError>,
}

impl StoredFailures {
    /// Fills in the error that the row of a failed record does not hold. Returns the reason why the table refused it.
    pub fn fill_in(&self, record: &mut Record) -> Option<&str> {
        let known = self.errors.get(&record.id).filter(|_| record.status != Status::Success)?;
        // An earlier record may have had the id.
        if record.inserted_at.is_some_and(|inserted_at| known.at < inserted_at) {
            return None;
        }
        let unstored = known.unstored.as_deref();
        let is_of_last_failure = record.last_failure_at.is_some_and(|at| known.at >= at);
        if record.last_error.is_none() || unstored.is_some() && is_of_last_failure {
            record.last_error = Some(known.error.clone());
        }
        record.last_failure_at.get_or_insert(known.at);
        unstored.filter(|_| record.last_error.as_deref() == Some(&*known.error))
    }
}

#[derive(Debug, Default)]
pub struct NewFailures {
    pub causes: Causes,
    /// The last errors of records, in order. `None` after a success.
    errors: Vec<(Id, Option<LastError>)>,
    /// True if the table has no column for errors.
    keeps_errors: bool,
}

impl NewFailures {
    pub fn new(keeps_errors: bool) -> Self {
        Self { keeps_errors, ..Self::default() }
    }

    /// `unstored` is the reason why the table refused the error, if it did.
    pub fn failed(&mut self, id: &Id, error: &str, unstored: Option<&str>, at: Instant) {
        // Cut to the compared length, so that the error has the same cause when it is read again.
        let error: String = last_error::escape_snooze(error).chars().take(COMPARED).collect();
        self.causes.add_error(id, Some(&error), Some(at));
        if self.keeps_errors || unstored.is_some() {
            let unstored = unstored.map(String::from);
            self.errors.push((id.clone(), Some(LastError { at, error, unstored })));
        }
    }

    pub fn succeeded(&mut self, id: &Id) {
        if self.keeps_errors {
            self.errors.push((id.clone(), None));
        }
    }

    pub fn is_full(&self) -> bool {
        self.errors.len() >= KEPT as usize
    }

    fn add_to(
        &self,
        connection: &Connection,
        scope: &str,
        table: &str,
        errors: &[(Id, Option<LastError>)],
    ) -> rusqlite::Result<()> {
        let mut add = connection.prepare(
            "INSERT INTO causes (scope, table_name, cause, since, until) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT DO UPDATE SET until = max(until, ?5),
             since = CASE WHEN ?4 - until > ?6 THEN ?4 ELSE min(since, ?4) END",
        )?;
        for (cause, group) in self.causes.groups() {
            let (Some(since), Some(until)) = (group.since, group.until) else { continue };
            add.execute(params![scope, table, cause.id(), since.0, until.0, GONE_AFTER])?;
        }
        let mut keep = connection.prepare("REPLACE INTO errors VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
        let mut remove = connection
            .prepare("DELETE FROM errors WHERE scope = ?1 AND table_name = ?2 AND id = ?3")?;
        for (id, last_error) in errors {
            let id = exact_id::to_json(id).to_string();
            match last_error {
                Some(LastError { at, error, unstored }) => {
                    keep.execute(params![scope, table, id, at.0, error, unstored])?
                }
                None => remove.execute([scope, table, &*id])?,
            };
        }
        for (rows, key, at, most) in
            [("causes", "cause", "until", CAUSES_KEPT), ("errors", "id", "rowid", KEPT)]
        {
            connection.execute(
                &format!(
                    "DELETE FROM {rows} WHERE scope = ?1 AND table_name = ?2 AND {key} IN (
                     SELECT {key} FROM {rows} WHERE scope = ?1 AND table_name = ?2
                     ORDER BY {at} DESC LIMIT -1 OFFSET ?3)"
                ),
                params![scope, table, most],
            )?;
        }
        Ok(())
    }
}

impl StateDir {
    pub fn failures(&self, table: &str) -> Result<StoredFailures> {
        let read = self.read_state(COMMAND_WAIT, &|connection| {
            let mut failures = StoredFailures::default();
            let sql = "SELECT * FROM causes WHERE scope = ?1 AND table_name = ?2";
            let mut causes = connection.prepare(sql)?;
            let causes = causes.query_map([&*self.scope, table], |row| {
                let seen = (Instant(row.get("since")?), Instant(row.get("until")?));
                Ok((row.get("cause")?, seen))
            });
            // Rows of other programs are skipped.
            failures.causes = causes?.flatten().collect();
            let sql = "SELECT * FROM errors WHERE scope = ?1 AND table_name = ?2";
            let mut errors = connection.prepare(sql)?;
            let errors = errors.query_map([&*self.scope, table], |row| {
                let (Json(id), at) = (row.get("id")?, Instant(row.get("at")?));
                let (error, unstored) = (row.get("error")?, row.get("unstored")?);
                Ok(exact_id::from_json(&id).zip(Some(LastError { at, error, unstored })))
            });
            failures.errors = errors?.flatten().flatten().collect();
            Ok(failures)
        });
        Ok(read?.unwrap_or_default())
    }

    /// Adds the failures of a pass, and removes the errors of records that succeeded.
    pub fn add_failures(&self, table: &str, new: &mut NewFailures, now: Instant) {
        let errors = std::mem::take(&mut new.errors);
        if new.causes.is_empty() && errors.is_empty() {
            return;
        }
        // In parts, so that other passes do not wait for all.
        let mut parts: Vec<_> = errors.chunks(AT_ONCE).collect();
        parts.resize(parts.len().max(1), &[]);
        for part in parts {
            let added = self.change_state(PASS_WAIT, &|connection| {
                in_transaction(connection, || new.add_to(connection, &self.scope, table, part))
            });
            self.or_report(added, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_failures_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::of_server(dir.path().join("state"), "x");
        let mut new = NewFailures::new(true);
        let most = 3 * i64::from(KEPT);
        for id in 0..most {
            new.failed(&Id::Integer(id), "no", None, Instant(7));
        }
        new.succeeded(&Id::Integer(most - 1));
        state.add_failures("t", &mut new, Instant(7));
        let kept = state.failures("t").unwrap();
        let error = |id| kept.errors.get(&Id::Integer(id)).map(|last| (last.at, &*last.error));
        assert_eq!(error(most - 2), Some((Instant(7), "no")));
        assert_eq!(error(most - i64::from(KEPT)), Some((Instant(7), "no")));
        assert_eq!((error(most - 1), error(most - i64::from(KEPT) - 1)), (None, None));
        // A success in a later pass without a failure.
        let mut new = NewFailures::new(true);
        new.succeeded(&Id::Integer(most - 2));
        state.add_failures("t", &mut new, Instant(7));
        assert_eq!(state.failures("t").unwrap().errors.len(), KEPT as usize - 2);
    }
}

//! The failures of a table that its columns do not hold, in a file beside its claims: since when each
//! cause is met, and where there is no column for errors, the last error of each record.
//!
//! A pass adds to it once, at its end: one that is killed loses what it has not written. Passes of other
//! lines do the same at any time, so each reads the file and puts a new one in its place under a lock.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};

use anyhow::{Context, Result, bail};
use backlog_schedule::{COMPARED, Causes, DAY, Id, Instant, Record, Status, json_line, last_error};
use serde::{Deserialize, Serialize};

use super::StateDir;
use super::directory::Purpose;

const FAILURES: &str = ".failures";
/// How many errors of records are kept, those of the last failures.
const KEPT: usize = 10_000;
/// How many causes are.
const CAUSES_KEPT: usize = 1_000;
/// More than all of them take.
const MOST_READ: u64 = 64 << 20;
/// A cause that is not met for so long has gone; the next time it is a new one.
const GONE_AFTER: i64 = DAY;

/// A line of the file.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Entry {
    Cause {
        cause: String,
        since: Instant,
        until: Instant,
    },
    Record {
        #[serde(with = "super::exact_id")]
        id: Id,
        #[serde(flatten)]
        error: LastError,
    },
}

/// The last error of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct LastError {
    at: Instant,
    error: String,
    /// Why the column for it does not take it, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unstored: Option<String>,
}

/// What is known of the failures of a table.
#[derive(Debug, Default)]
pub struct Failures {
    /// When the causes were met first and last, by their ids.
    causes: HashMap<String, (Instant, Instant)>,
    errors: HashMap<Id, LastError>,
}

impl Failures {
    fn read(lines: impl BufRead) -> Self {
        let mut failures = Self::default();
        // What is damaged is passed over.
        for line in lines.split(b'\n').map_while(Result::ok) {
            match serde_json::from_slice(&line) {
                Ok(Entry::Cause { cause, since, until }) => {
                    failures.causes.insert(cause, (since, until));
                }
                Ok(Entry::Record { id, error }) => {
                    failures.errors.insert(id, error);
                }
                Err(_) => {}
            }
        }
        failures
    }

    fn to_text(&self) -> String {
        let causes = latest(&self.causes, |(_, until)| *until, CAUSES_KEPT).into_iter();
        let causes = causes.map(|(cause, (since, until))| Entry::Cause {
            cause: cause.clone(),
            since: *since,
            until: *until,
        });
        let errors = latest(&self.errors, |error| error.at, KEPT).into_iter();
        let errors =
            errors.map(|(id, error)| Entry::Record { id: id.clone(), error: error.clone() });
        causes.chain(errors).map(|entry| json_line(&entry)).collect()
    }

    /// Says whether anything has changed.
    fn add(&mut self, news: &NewFailures) -> bool {
        let mut has_changed = !news.causes.is_empty();
        for (cause, group) in news.causes.groups() {
            let (Some(since), Some(until)) = (group.since, group.until) else { continue };
            let known = self.causes.entry(cause.id()).or_insert((since, until));
            if since.0.saturating_sub(known.1.0) > GONE_AFTER {
                known.0 = since;
            }
            *known = (known.0.min(since), known.1.max(until));
        }
        for (id, (_, news)) in &news.errors {
            has_changed |= match news {
                Some(error) => {
                    self.errors.insert(id.clone(), error.clone()).as_ref() != Some(error)
                }
                None => self.errors.remove(id).is_some(),
            };
        }
        has_changed
    }

    /// Fills in the error and the instant that the row of a failed record does not hold. Returns why the
    /// table did not take the error, if so.
    pub fn fill_in(&self, record: &mut Record) -> Option<&str> {
        let known = self.errors.get(&record.id).filter(|_| record.status != Status::Success)?;
        // The id may have been another record's before.
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

    /// Sets the instants at which the causes were met first and last.
    pub fn date(&self, causes: &mut Causes) {
        causes.date(&self.causes);
    }
}

/// The failures of one pass.
#[derive(Debug, Default)]
pub struct NewFailures {
    pub causes: Causes,
    /// The last error of each record, behind its place among all; none of those that succeeded.
    errors: HashMap<Id, (u64, Option<LastError>)>,
    /// How many attempts were noted.
    noted: u64,
    /// Whether the table has no column for them.
    keeps_errors: bool,
}

impl NewFailures {
    pub fn new(keeps_errors: bool) -> Self {
        Self { keeps_errors, ..Self::default() }
    }

    /// `unstored` says why the table does not take the error, if so.
    pub fn failed(&mut self, id: &Id, error: &str, unstored: Option<&str>, at: Instant) {
        // As much as is compared, so that it is of the same cause when it is read again.
        let error: String = last_error::not_snoozed(error).chars().take(COMPARED).collect();
        self.causes.add_error(id, Some(&error), Some(at));
        if self.keeps_errors || unstored.is_some() {
            self.note(id, Some(LastError { at, error, unstored: unstored.map(String::from) }));
        }
    }

    pub fn succeeded(&mut self, id: &Id) {
        if self.keeps_errors {
            self.note(id, None);
        }
    }

    /// Of more records than are kept the first ones are forgotten.
    fn note(&mut self, id: &Id, error: Option<LastError>) {
        self.noted += 1;
        self.errors.insert(id.clone(), (self.noted, error));
        if self.errors.len() >= 2 * KEPT {
            self.forget();
        }
    }

    fn forget(&mut self) {
        let mut places: Vec<_> = self.errors.values().map(|(place, _)| *place).collect();
        if let Some(first) = places.len().checked_sub(KEPT) {
            let (_, first, _) = places.select_nth_unstable(first);
            self.errors.retain(|_, (place, _)| *place >= *first);
        }
    }
}

impl StateDir {
    /// The failures known of a table; none where there is no file.
    pub fn failures(&self, table: &str) -> Result<Failures> {
        let Some(directory) = self.opened()? else { return Ok(Failures::default()) };
        let file = directory.file(&self.failures_name(table), Purpose::Read)?;
        let read = |file: File| Failures::read(BufReader::new(file.take(MOST_READ)));
        Ok(file.map(read).unwrap_or_default())
    }

    /// Merges the failures of a pass into the file, and drops the errors of records that succeeded.
    pub fn add_failures(&self, table: &str, news: &mut NewFailures) -> Result<()> {
        if self.is_none() {
            return Ok(());
        }
        news.forget();
        if news.causes.is_empty() {
            // Only records succeeded, which counts if one of them had failed before.
            let name = self.failures_name(table);
            if news.errors.is_empty() || self.made()?.file(&name, Purpose::Read)?.is_none() {
                return Ok(());
            }
        }
        let written = || {
            // Who may write the lock file must not be able to hold a pass up.
            let Some(_lock) = self.lock_line(&format!("failures of {table}"), false)? else {
                bail!("another process is writing them");
            };
            let mut failures = self.failures(table)?;
            if !failures.add(news) {
                return Ok(());
            }
            self.made()?.rewrite(&self.failures_name(table), failures.to_text().as_bytes())
        };
        written().context("could not keep the failures of this pass for `backlog failures`")
    }

    fn failures_name(&self, table: &str) -> String {
        format!("{}{FAILURES}", self.file_name(table))
    }
}

/// The latest of some things, so many.
fn latest<Key, Of>(
    things: &HashMap<Key, Of>,
    at: impl Fn(&Of) -> Instant,
    most: usize,
) -> Vec<(&Key, &Of)> {
    let mut all: Vec<_> = things.iter().collect();
    if all.len() > most {
        all.select_nth_unstable_by_key(most, |(_, it)| std::cmp::Reverse(at(it)));
        all.truncate(most);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_failures_the_last_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::own(dir.path().join("state"), "x");
        let mut news = NewFailures::new(true);
        let most = 3 * KEPT as i64;
        for id in 0..most {
            news.failed(&Id::Integer(id), "no", None, Instant(7));
        }
        news.succeeded(&Id::Integer(most - 1));
        state.add_failures("t", &mut news).unwrap();
        let kept = state.failures("t").unwrap();
        let error = |id| kept.errors.get(&Id::Integer(id)).map(|it| (it.at, &*it.error));
        assert_eq!(error(most - 2), Some((Instant(7), "no")));
        assert_eq!(error(most - KEPT as i64), Some((Instant(7), "no")));
        assert_eq!((error(most - 1), error(most - KEPT as i64 - 1)), (None, None));
        // One that succeeds later, in a pass without a failure.
        let mut news = NewFailures::new(true);
        news.succeeded(&Id::Integer(most - 2));
        state.add_failures("t", &mut news).unwrap();
        assert_eq!(state.failures("t").unwrap().errors.len(), KEPT - 2);
    }
}

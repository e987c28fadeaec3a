//! The entries of passes. Passes in a row that find nothing due share one. Only the holder of the line's lock writes.

use std::time::Duration;

use anyhow::Result;
use backlog_schedule::{Cursor, Id, Instant, exact_id};
use rusqlite::{Connection, OptionalExtension, Row};
use serde::{Deserialize, Serialize};

use super::StateDir;
use super::failing::Outcomes;
use super::lines::{LineName, LineState};
use super::state_db::{END_WAIT, Json, PASS_WAIT, in_transaction};

/// Number of entries kept for a line. Older ones are removed with every hundredth entry.
const KEPT: i64 = 1_500;
const REMOVED_EVERY: i64 = 100;
/// Number of cursors in a second that are saved at once. After these each fiftieth is saved.
const CURSORS: u32 = 50;

/// Attempts of one pass, or of all passes, by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PassCounts {
    pub succeeded: u64,
    pub failed: u64,
    pub snoozed: u64,
    pub archived: u64,
    pub interrupted: u64,
    /// Neither tried nor written, or claimed by another pass.
    pub left: u64,
}

impl PassCounts {
    fn plus(&self, more: &Self) -> Self {
        // Stored numbers may be damaged.
        Self {
            succeeded: self.succeeded.saturating_add(more.succeeded),
            failed: self.failed.saturating_add(more.failed),
            snoozed: self.snoozed.saturating_add(more.snoozed),
            archived: self.archived.saturating_add(more.archived),
            interrupted: self.interrupted.saturating_add(more.interrupted),
            left: self.left.saturating_add(more.left),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PassEnd {
    /// All due records were tried, or as many as the limits allow.
    Complete,
    /// Nothing was due.
    Idle,
    MaxRuntime,
    Signal(i32),
    Failed,
    /// The queue was paused before the pass or while it ran.
    Paused,
}

/// The entry of a pass. Fields without a column are in the column `more`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PassEntry {
    #[serde(skip)]
    pub run: String,
    #[serde(skip)]
    pub began: Instant,
    #[serde(skip)]
    pub ended: Option<Instant>,
    #[serde(skip)]
    pub end: Option<PassEnd>,
    #[serde(skip)]
    pub exit: Option<u8>,
    #[serde(skip)]
    pub counts: PassCounts,
    /// The first failures, each after the id of its record.
    #[serde(skip)]
    pub errors: Vec<String>,
    pub took_ms: u64,
    /// The end of the last attempt, or the start of the pass.
    pub last_outcome: Instant,
    /// True if all due records were tried.
    pub is_complete: bool,
    pub error: Option<String>,
    /// The options of the schedule as typed.
    pub schedule: String,
    pub pid: u32,
    pub uid: u32,
    pub host: String,
    /// Interval of the passes by the policy, in seconds.
    pub every: Option<i64>,
    /// True if it was started at a terminal.
    pub by_hand: bool,
    /// True if all its options are from backlog.toml.
    pub of_file: bool,
    /// Number of seconds without an outcome after which the pass hangs. `None` without a timeout.
    pub hangs_after: Option<i64>,
    /// Number of passes that share the entry.
    pub passes: u64,
}

pub(super) const PASS_COLUMNS: &str =
    r#"number, run, began, ended, "end", exit, counts, errors, more"#;

pub(super) fn pass_entry(row: &Row<'_>) -> rusqlite::Result<PassEntry> {
    let (Json(counts), Json(errors)) = (row.get("counts")?, row.get("errors")?);
    let (Json(end), Json(more)) = (row.get("end")?, row.get("more")?);
    let ended: Option<i64> = row.get("ended")?;
    let (run, began) = (row.get("run")?, Instant(row.get("began")?));
    let (ended, exit) = (ended.map(Instant), row.get("exit")?);
    Ok(PassEntry { run, began, ended, end, exit, counts, errors, ..more })
}

fn read_line(connection: &Connection, id: i64) -> rusqlite::Result<StoredLine> {
    let mut read = connection.prepare_cached(&format!(
        "SELECT cursor, totals, {PASS_COLUMNS} FROM lines LEFT JOIN passes ON line = id
         WHERE id = ?1 ORDER BY number DESC LIMIT 1"
    ))?;
    let line = read.query_row([id], |row| {
        let (Json(state), Json(totals)) = (row.get("cursor")?, row.get("totals")?);
        let last = match row.get("number")? {
            Some(number) => Some((number, pass_entry(row)?)),
            None => None,
        };
        Ok(StoredLine { state, totals, last })
    });
    Ok(line.optional()?.unwrap_or_default())
}

impl PassEntry {
    pub fn new(run: String, began: Instant) -> Self {
        Self {
            run,
            began,
            last_outcome: began,
            pid: std::process::id(),
            uid: rustix::process::geteuid().as_raw(),
            passes: 1,
            ..Self::default()
        }
    }

    /// The start of the latest pass: the end of the entry, if several passes share it.
    pub fn last_began(&self) -> Instant {
        if self.passes > 1 { self.ended.unwrap_or(self.began) } else { self.began }
    }

    /// True if nothing was due, or the queue was paused before an attempt began.
    pub fn did_nothing(&self) -> bool {
        let is_paused = self.end == Some(PassEnd::Paused);
        self.end == Some(PassEnd::Idle) || is_paused && self.counts == PassCounts::default()
    }

    fn write(&self, connection: &Connection, line: i64, number: i64) -> rusqlite::Result<()> {
        let mut write = connection.prepare_cached(
            "REPLACE INTO passes VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?;
        let (ended, end) = (self.ended.map(|at| at.0), self.end.map(Json));
        write.execute((
            line,
            number,
            &self.run,
            self.began.0,
            ended,
            end,
            self.exit,
            Json(self.counts),
            Json(&self.errors),
            Json(self),
        ))?;
        Ok(())
    }
}

#[derive(Debug, Clone, Default)]
pub struct StoredLine {
    pub state: LineState,
    pub(super) totals: PassCounts,
    /// The last pass, and its number.
    pub(super) last: Option<(i64, PassEntry)>,
}

/// The entry of a pass that holds the lock of its line. If a write fails, the next write makes up for it.
#[derive(Default)]
pub struct PassRecord {
    state: StateDir,
    name: LineName,
    /// The line before this pass. `None` until it could be read.
    before: Option<StoredLine>,
    pub entry: PassEntry,
    pub next: LineState,
    pub outcomes: Outcomes,
    /// Number of cursors in this second.
    cursors: u32,
    /// True if a write failed in this second. No other is tried, so that records do not wait for it.
    is_refused: bool,
    is_dirty: bool,
    has_begun: bool,
    has_outcome: bool,
    /// True if it shares the entry of the pass before.
    is_shared: bool,
}

impl PassRecord {
    /// Writes nothing yet. The next pass continues from `next` if this one gets no further.
    pub fn new(
        state: StateDir,
        name: LineName,
        before: Option<StoredLine>,
        next: LineState,
        entry: PassEntry,
    ) -> Self {
        Self { state, name, before, entry, next, ..Self::default() }
    }

    /// Writes that the pass begins to handle records. Returns false if that failed.
    pub fn begin(&mut self) -> bool {
        self.has_begun = true;
        self.write(PASS_WAIT, |_, _| Ok(()));
        !self.is_refused
    }

    /// All attempts of the line, including this pass. `None` if the line could not be read.
    pub fn totals(&self) -> Option<PassCounts> {
        Some(self.before.as_ref()?.totals.plus(&self.entry.counts))
    }

    /// Saves the cursor, once the pass has begun. A fast pass saves only some: if it is killed, up to [`CURSORS`]
    /// records are tried again. After a killed pass each cursor is saved, because a record may have killed it.
    pub fn save_cursor(&mut self, cursor: &Cursor) {
        self.next.cursor.clone_from(cursor);
        (self.cursors, self.is_dirty) = (self.cursors + 1, true);
        let is_fast = self.cursors > CURSORS && !self.cursors.is_multiple_of(CURSORS);
        let last = self.before.as_ref().and_then(|before| before.last.as_ref());
        let follows_killed = last.is_some_and(|(_, last)| last.ended.is_none());
        if !self.has_begun || self.is_refused || is_fast && !follows_killed {
            return;
        }
        let (id, next) = (self.state.line_id(&self.name), &self.next);
        let saved = self.state.change_state(PASS_WAIT, &|connection| {
            let mut save =
                connection.prepare_cached("UPDATE lines SET cursor = ?2 WHERE id = ?1")?;
            save.execute((id, Json(next)))
        });
        self.is_refused = self.state.or_report(saved, self.entry.last_outcome).is_none();
    }

    /// Notes changed counts. The first outcome is written at once.
    pub fn note_progress(&mut self, now: Instant) {
        (self.entry.last_outcome, self.is_dirty) = (now, true);
        if !std::mem::replace(&mut self.has_outcome, true) {
            self.flush();
        }
    }

    /// Writes the changes of the last second, so that a kill loses no older counts.
    pub fn flush(&mut self) {
        (self.cursors, self.is_refused) = (0, false);
        if self.has_begun && self.is_dirty {
            self.write(PASS_WAIT, |_, _| Ok(()));
        }
    }

    /// Writes the records with slow handlers, and when these were started. Returns false if that failed.
    pub fn note_slow(&self, records: &[(Id, Instant)]) -> bool {
        let PassEntry { run, pid, .. } = &self.entry;
        let written = self.state.change_state(PASS_WAIT, &|connection| {
            in_transaction(connection, || {
                connection.execute("DELETE FROM running WHERE run = ?1", [run])?;
                let mut write =
                    connection.prepare_cached("INSERT INTO running VALUES (?1, ?2, ?3, ?4)")?;
                for (id, since) in records {
                    write.execute((run, exact_id::to_json(id).to_string(), pid, since.0))?;
                }
                Ok(())
            })
        });
        self.state.or_report(written, self.entry.last_outcome).is_some()
    }

    pub fn take_stop_requests(&self) -> Vec<Id> {
        let taken = self.state.take_stop_requests(&self.entry.run);
        self.state.or_report(taken.map(Some), self.entry.last_outcome).unwrap_or_default()
    }

    pub fn end(&mut self) {
        let entry = &mut self.entry;
        if let Some(StoredLine { last: Some((_, before)), .. }) = &self.before
            && before.end == entry.end
            && before.did_nothing()
            && before.by_hand == entry.by_hand
            && entry.did_nothing()
            && !self.has_begun
        {
            self.is_shared = true;
            entry.began = before.began;
            entry.passes = before.passes.saturating_add(1);
        }
        let (has_begun, run) = (self.has_begun, self.entry.run.clone());
        let wait = if has_begun { END_WAIT } else { PASS_WAIT };
        self.write(wait, |connection, (id, number)| {
            if has_begun {
                connection.execute("DELETE FROM running WHERE run = ?1", [&run])?;
            }
            if number % REMOVED_EVERY == 0 {
                let older = "DELETE FROM passes WHERE line = ?1 AND number <= ?2";
                connection.execute(older, (id, number - KEPT))?;
                // Slow handlers of killed passes.
                let gone = "DELETE FROM running WHERE run NOT IN (SELECT run FROM passes)";
                connection.execute(gone, [])?;
            }
            Ok(())
        });
    }

    /// Writes the entry, and runs `more` with the key of the entry in the same transaction.
    fn write(
        &mut self,
        wait: Duration,
        more: impl Fn(&Connection, (i64, i64)) -> rusqlite::Result<()>,
    ) {
        let LineName { queue, table, policy } = &self.name;
        let (id, scope) = (self.state.line_id(&self.name), &self.state.scope);
        let queue_id = self.state.line_id(&self.name.of_queue());
        let written = self.state.change_state(wait, &|connection| {
            in_transaction(connection, || {
                let before = match &self.before {
                    Some(before) => before.clone(),
                    None => read_line(connection, id)?,
                };
                let last = before.last.as_ref().map_or(0, |(number, _)| *number);
                let number = last.saturating_add(i64::from(!self.is_shared));
                let totals = before.totals.plus(&self.entry.counts);
                let mut write = connection
                    .prepare_cached("REPLACE INTO lines VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?;
                let (next, totals) = (Json(&self.next), Json(totals));
                write.execute((id, scope, queue, table, policy, next, totals))?;
                self.entry.write(connection, id, number)?;
                self.outcomes.write(connection, queue_id)?;
                more(connection, (id, number))?;
                Ok(before)
            })
        });
        let now = self.entry.ended.unwrap_or(self.entry.last_outcome);
        let written = self.state.or_report(written, now);
        (self.is_refused, self.is_dirty) = (written.is_none(), written.is_none());
        if let Some(before) = written {
            (self.before, self.outcomes) = (Some(before), Outcomes::default());
        }
    }
}

impl StateDir {
    /// The line before a pass. `None` if state.db cannot be used.
    pub fn line(&self, name: &LineName, now: Instant) -> Option<StoredLine> {
        let id = self.line_id(name);
        self.or_report(self.change_state(PASS_WAIT, &|connection| read_line(connection, id)), now)
    }

    /// The line for a report. Creates nothing.
    pub fn line_to_read(&self, name: &LineName) -> Result<StoredLine> {
        let id = self.line_id(name);
        let read = self.read_state(PASS_WAIT, &|connection| read_line(connection, id))?;
        Ok(read.unwrap_or_default())
    }
}

//! What a pass writes into the history of its line. It writes an entry when it begins to handle records, and again when
//! it ends, so a killed pass leaves an entry without an end. Passes in a row that find nothing due, or their queue
//! paused, share one entry. Only the pass that holds the lock of the line writes.

use backlog_schedule::{Cursor, Id, Instant, exact_id};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::StateDir;
use super::lines::{LineName, LineState};
use super::state_db::{Json, PASS_WAIT, together};

/// Number of entries kept for a line. Older ones are removed with every hundredth entry.
const KEPT: i64 = 1_500;
const REMOVED_EVERY: i64 = 100;
/// Seconds between two writes of the counts. A kill loses at most the counts of this time.
const WRITE_INTERVAL: i64 = 1;
/// The first cursors of each second are written at once, this many; then each fiftieth.
const CURSORS: u32 = 50;

/// Attempts of one pass, or of all passes, by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    pub succeeded: u64,
    pub failed: u64,
    pub snoozed: u64,
    pub archived: u64,
    pub interrupted: u64,
    /// Not tried, not written, or claimed by another pass.
    pub left: u64,
}

impl Counts {
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

/// The end of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PassEnd {
    /// Everything due was tried, or as much as the limits allow.
    Complete,
    /// Nothing was due.
    Idle,
    MaxRuntime,
    Signal(i32),
    Failed,
    /// Its queue was paused, before it began anything or while it ran.
    Paused,
}

/// The entry of a pass. What has no column of its own is in the column `more`.
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
    /// Its exit status.
    #[serde(skip)]
    pub exit: Option<u8>,
    #[serde(skip)]
    pub counts: Counts,
    /// The first failures, each after the id of its record.
    #[serde(skip)]
    pub errors: Vec<String>,
    pub took_ms: u64,
    /// When the last attempt ended, or the pass began.
    pub last_outcome: Instant,
    /// Whether everything was tried that was due.
    pub is_complete: bool,
    /// Why it failed, if it did.
    pub error: Option<String>,
    /// The options of its schedule, as a command line has them.
    pub schedule: String,
    pub pid: u32,
    pub uid: u32,
    pub host: String,
    /// The interval of the passes by the policy, in seconds.
    pub every: Option<i64>,
    /// Whether somebody at a terminal has started it.
    pub by_hand: bool,
    /// Whether its line is the one that backlog.toml describes, with nothing typed.
    pub of_file: bool,
    /// Seconds without an outcome after which the pass hangs. `None` without a timeout.
    pub hangs_after: Option<i64>,
    /// Number of passes that share the entry.
    pub passes: u64,
}

impl PassEntry {
    /// The entry of a pass that begins, of which nothing else is known.
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

    /// When the latest of its passes began: its end, if several share the entry.
    pub fn last_began(&self) -> Instant {
        if self.passes > 1 { self.ended.unwrap_or(self.began) } else { self.began }
    }

    /// Whether it found nothing due, or a pause before it began anything.
    pub fn did_nothing(&self) -> bool {
        match self.end {
            Some(PassEnd::Idle) => true,
            Some(PassEnd::Paused) => self.counts == Counts::default(),
            Some(
                PassEnd::Complete | PassEnd::MaxRuntime | PassEnd::Signal(_) | PassEnd::Failed,
            )
            | None => false,
        }
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

/// What a pass reads of the passes before it.
#[derive(Debug, Clone, Default)]
pub struct Line {
    pub state: LineState,
    pub(super) totals: Counts,
    /// The last pass, and its number.
    pub(super) last: Option<(i64, PassEntry)>,
}

/// The entry of a pass that holds the lock of its line. A write that fails is left out.
pub struct PassRecord {
    state: StateDir,
    name: LineName,
    before: Line,
    number: i64,
    pub entry: PassEntry,
    /// What the next pass continues from.
    pub next: LineState,
    /// The interval in which the counts were last written, and the number of cursors since.
    written_in: i64,
    cursors: u32,
    /// Whether its entry is written.
    has_begun: bool,
}

impl PassRecord {
    /// Writes nothing yet. `next` is what the next pass continues from if this one gets no further.
    pub fn new(
        state: StateDir,
        name: LineName,
        before: Line,
        next: LineState,
        entry: PassEntry,
    ) -> Self {
        let number = before.last.as_ref().map_or(1, |(number, _)| number + 1);
        let (written_in, cursors, has_begun) = (i64::MIN, 0, false);
        Self { state, name, before, number, entry, next, written_in, cursors, has_begun }
    }

    /// The pass begins to handle records.
    pub fn begin(&mut self) {
        self.has_begun = true;
        self.write(|_| Ok(()));
    }

    /// All attempts of the line, including those of this pass.
    pub fn totals(&self) -> Counts {
        self.before.totals.plus(&self.entry.counts)
    }

    /// Saves the cursor. Before the pass has begun, that waits for its entry. A fast pass saves only some cursors: if
    /// it is killed, up to [`CURSORS`] records are tried again. After a killed pass each cursor is saved, because one of
    /// these records may be what kills passes.
    pub fn save_cursor(&mut self, cursor: &Cursor) {
        self.next.cursor.clone_from(cursor);
        self.cursors += 1;
        let is_fast = self.cursors > CURSORS && !self.cursors.is_multiple_of(CURSORS);
        let follows_killed = || self.before.last.as_ref().is_some_and(|(_, it)| it.ended.is_none());
        if !self.has_begun || is_fast && !follows_killed() {
            return;
        }
        let (id, next) = (self.state.line_id(&self.name), &self.next);
        let saved = self.state.change_state(PASS_WAIT, &|connection| {
            let mut save =
                connection.prepare_cached("UPDATE lines SET cursor = ?2 WHERE id = ?1")?;
            save.execute((id, Json(next)))
        });
        self.state.or_report(saved, self.entry.began);
    }

    /// Writes the counts, at most once a second.
    pub fn note_progress(&mut self, now: Instant) {
        self.entry.last_outcome = now;
        let interval = now.tick(WRITE_INTERVAL);
        if std::mem::replace(&mut self.written_in, interval) != interval {
            self.cursors = 0;
            self.write(|_| Ok(()));
        }
    }

    /// Writes which records have slow handlers, and when these were started.
    pub fn note_slow(&self, records: &[(Id, Instant)]) {
        let PassEntry { run, pid, .. } = &self.entry;
        let written = self.state.change_state(PASS_WAIT, &|connection| {
            together(connection, || {
                connection.execute("DELETE FROM running WHERE run = ?1", [run])?;
                let mut write =
                    connection.prepare_cached("INSERT INTO running VALUES (?1, ?2, ?3, ?4)")?;
                for (id, since) in records {
                    write.execute((run, exact_id::to_json(id).to_string(), pid, since.0))?;
                }
                Ok(())
            })
        });
        self.state.or_report(written, self.entry.began);
    }

    /// The pass has ended, as its entry says.
    pub fn end(&mut self) {
        let entry = &mut self.entry;
        if let Some((number, before)) = &self.before.last
            && before.end == entry.end
            && before.did_nothing()
            && before.by_hand == entry.by_hand
            && entry.did_nothing()
            && !self.has_begun
        {
            self.number = *number;
            entry.began = before.began;
            entry.passes = before.passes.saturating_add(1);
        }
        let (id, number) = (self.state.line_id(&self.name), self.number);
        self.write(|connection| {
            if self.has_begun {
                connection.execute("DELETE FROM running WHERE run = ?1", [&self.entry.run])?;
            }
            if number % REMOVED_EVERY == 0 {
                let older = "DELETE FROM passes WHERE line = ?1 AND number <= ?2";
                connection.execute(older, [id, number - KEPT])?;
                // Those of killed passes.
                let gone = "DELETE FROM running WHERE run NOT IN (SELECT run FROM passes)";
                connection.execute(gone, [])?;
            }
            Ok(())
        });
    }

    /// Writes the entry and what the next pass continues from, and runs `more` in the same transaction.
    fn write(&self, more: impl Fn(&Connection) -> rusqlite::Result<()>) {
        let LineName { queue, table, policy } = &self.name;
        let (id, scope, totals) =
            (self.state.line_id(&self.name), &self.state.scope, self.totals());
        let written = self.state.change_state(PASS_WAIT, &|connection| {
            together(connection, || {
                let mut write = connection
                    .prepare_cached("REPLACE INTO lines VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?;
                let (next, totals) = (Json(&self.next), Json(totals));
                write.execute((id, scope, queue, table, policy, next, totals))?;
                self.entry.write(connection, id, self.number)?;
                more(connection)
            })
        });
        self.state.or_report(written, self.entry.began);
    }
}

//! The record of passes. A pass notes that it begins once something is due, and writes over that when it ends, so
//! that a killed one leaves an entry without an end. Passes that find nothing to do share one entry, as do those
//! that find their queue paused. Only the pass that holds the lock of its line writes.

use backlog_schedule::{Cursor, Id, Instant, exact_id};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::StateDir;
use super::lines::{LineName, LineState};
use super::state_db::{Json, PASS_WAIT, together};

/// How many entries a line keeps, and how many more it gathers before those before them are removed.
const KEPT: i64 = 1_500;
const GATHERED: i64 = 100;
/// How often a running pass writes its counts, in seconds: a kill loses no more of them.
const WRITE_INTERVAL: i64 = 1;
/// How many places of the cursor are written at once in a second; of further ones, one of as many.
const PLACES: u32 = 50;

/// Attempts of one pass, or of all passes, by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    pub succeeded: u64,
    pub failed: u64,
    pub snoozed: u64,
    pub archived: u64,
    pub interrupted: u64,
    /// Not tried, not settled, or in the hands of somebody else.
    pub left: u64,
}

impl Counts {
    fn plus(&self, more: &Self) -> Self {
        // The database may say anything.
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
    /// The first failures, each behind the id of its record.
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
    /// How often the line is to run, in seconds, where its policy says so.
    pub every: Option<i64>,
    /// Whether somebody at a terminal has started it.
    pub by_hand: bool,
    /// Whether its line is the one that backlog.toml describes, with nothing typed.
    pub of_file: bool,
    /// After how many seconds without an outcome the pass hangs, if that can be told.
    pub hangs_after: Option<i64>,
    /// How many passes it stands for: more than one that found nothing to do, or a pause.
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

    /// When the last pass began that it stands for, as far as it says.
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

    fn runs_no_more(&self, connection: &Connection) -> rusqlite::Result<()> {
        let mut remove = connection.prepare_cached("DELETE FROM running WHERE run = ?1")?;
        remove.execute([&self.run]).map(drop)
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

/// All that a pass reads of the passes before it.
#[derive(Debug, Clone, Default)]
pub struct Line {
    pub state: LineState,
    pub(super) totals: Counts,
    /// The last pass, and its number.
    pub(super) last: Option<(i64, PassEntry)>,
}

/// The notes of a pass that has the lock of its line. What cannot be written is left out.
pub struct PassRecord {
    state: StateDir,
    name: LineName,
    id: i64,
    number: i64,
    pub entry: PassEntry,
    /// What the next pass goes on from.
    pub next: LineState,
    /// The totals of the passes before it.
    totals: Counts,
    last: Option<(i64, PassEntry)>,
    /// The interval in which its counts were written last, and how many places it has come to since.
    written_in: i64,
    places: u32,
    /// Whether its entry is in the database.
    has_begun: bool,
}

impl PassRecord {
    /// Nothing is written yet. `next` is what the next pass goes on from if this one notes nothing else.
    pub fn new(
        state: StateDir,
        name: LineName,
        line: Line,
        next: LineState,
        entry: PassEntry,
    ) -> Self {
        let Line { totals, last, .. } = line;
        let id = state.lock_of(&name.to_string()).cast_signed();
        let number = last.as_ref().map_or(1, |(number, _)| number + 1);
        let (written_in, places, has_begun) = (i64::MIN, 0, false);
        Self { state, name, id, number, entry, next, totals, last, written_in, places, has_begun }
    }

    /// Notes that the pass has something to do.
    pub fn begin(&mut self) {
        self.has_begun = true;
        let killed = self.last.as_ref().filter(|_| self.was_killed());
        self.write(|connection| killed.map_or(Ok(()), |(_, last)| last.runs_no_more(connection)));
    }

    /// Whether the pass before was killed.
    fn was_killed(&self) -> bool {
        self.last.as_ref().is_some_and(|(_, last)| last.ended.is_none())
    }

    /// All attempts of the line, those of this pass among them.
    pub fn totals(&self) -> Counts {
        self.totals.plus(&self.entry.counts)
    }

    /// Notes what the next pass goes on from, once handlers may run: at once, or if the pass is fast with one of
    /// the next places. If it is killed then, the next pass may try up to [`PLACES`] records again, and one of
    /// them may kill that too: a pass after a killed one writes each place.
    pub fn reached(&mut self, cursor: &Cursor) {
        self.next.cursor.clone_from(cursor);
        self.places += 1;
        let is_fast = self.places > PLACES && !self.places.is_multiple_of(PLACES);
        if !self.has_begun || is_fast && !self.was_killed() {
            return;
        }
        let Self { id, next, .. } = self;
        let written = self.state.change_state(PASS_WAIT, &|connection| {
            let mut write =
                connection.prepare_cached("UPDATE lines SET cursor = ?2 WHERE id = ?1")?;
            write.execute((*id, Json(&*next)))
        });
        self.state.noted(written, self.entry.began);
    }

    /// Notes the attempts that have ended until now, at most once a second.
    pub fn note_progress(&mut self, now: Instant) {
        self.entry.last_outcome = now;
        let interval = now.tick(WRITE_INTERVAL);
        if std::mem::replace(&mut self.written_in, interval) != interval {
            self.places = 0;
            self.write(|_| Ok(()));
        }
    }

    /// Notes the records whose handlers have run for long, with the beginnings of their attempts.
    pub fn note_running(&mut self, records: &[(Id, Instant)]) {
        let PassEntry { run, pid, .. } = &self.entry;
        let written = self.state.change_state(PASS_WAIT, &|connection| {
            together(connection, || {
                self.entry.runs_no_more(connection)?;
                let mut write =
                    connection.prepare_cached("INSERT INTO running VALUES (?1, ?2, ?3, ?4)")?;
                for (id, since) in records {
                    write.execute((run, exact_id::to_json(id).to_string(), pid, since.0))?;
                }
                Ok(())
            })
        });
        self.state.noted(written, self.entry.began);
    }

    /// Writes the entry of the pass, which has ended.
    pub fn end(&mut self) {
        let entry = &mut self.entry;
        if let Some((number, before)) = &self.last
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
        let (id, number) = (self.id, self.number);
        self.write(|connection| {
            if self.has_begun {
                self.entry.runs_no_more(connection)?;
            }
            if number % GATHERED == 0 {
                let older = "DELETE FROM passes WHERE line = ?1 AND number <= ?2";
                connection.execute(older, [id, number - KEPT])?;
            }
            Ok(())
        });
    }

    /// Writes the entry and what the next pass goes on from, and does `more` in the same transaction.
    fn write(&self, more: impl Fn(&Connection) -> rusqlite::Result<()>) {
        let LineName { queue, table, policy } = &self.name;
        let (scope, totals) = (&self.state.scope, self.totals());
        let written = self.state.change_state(PASS_WAIT, &|connection| {
            together(connection, || {
                let mut write = connection
                    .prepare_cached("REPLACE INTO lines VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?;
                let (next, totals) = (Json(&self.next), Json(totals));
                write.execute((self.id, scope, queue, table, policy, next, totals))?;
                self.entry.write(connection, self.id, self.number)?;
                more(connection)
            })
        });
        self.state.noted(written, self.entry.began);
    }
}

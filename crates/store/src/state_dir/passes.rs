//! The record of passes. A pass notes that it begins once something is due, and writes over that when it ends, so
//! that a killed one leaves an entry without an end. Passes that find nothing to do share one entry, as do those
//! that find their queue paused. Only the pass that holds the lock of its line writes.

use std::fs::File;
use std::time::Duration;

use anyhow::Result;
use backlog_schedule::{Id, Instant, cut, exact_id};
use rusqlite::{Connection, Row};
use serde::{Deserialize, Serialize};

use super::StateDir;
use super::directory::{LINES, Purpose};
use super::lines::{Line, LineName, LineState};
use super::state_db::{COMMAND_WAIT, Json, PASS_WAIT, together};
use crate::claims;

/// How many passes with something to do a line has in a day, at most: cron counts in minutes.
pub const PASSES_OF_A_DAY: usize = 1_440;
/// How many entries a line keeps, and how many more it gathers before those before them are removed.
const KEPT: i64 = 1_500;
const GATHERED: i64 = 100;
/// How many entries are read at least: they show the rhythm of a line.
const FEWEST_READ: usize = 128;
/// How many failures of a pass are kept in words.
const ERRORS_KEPT: usize = 3;
/// How often a record is read again that changes while it is read.
const READS: u32 = 5;
/// How often a running pass writes its counts, in seconds: a kill loses no more of them.
const WRITE_INTERVAL: i64 = 1;

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

/// The notes of a pass that has the lock of its line. What cannot be written is left out.
pub struct PassRecord {
    state: StateDir,
    name: LineName,
    id: i64,
    number: i64,
    entry: PassEntry,
    /// What the next pass goes on from.
    next: LineState,
    /// The totals of the passes before it.
    totals: Counts,
    last: Option<(i64, PassEntry)>,
    /// The interval in which its counts were written last.
    written_in: i64,
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
        let (written_in, has_begun) = (i64::MIN, false);
        Self { state, name, id, number, entry, next, totals, last, written_in, has_begun }
    }

    /// Notes that the pass has something to do.
    pub fn begin(&mut self) {
        self.has_begun = true;
        let killed = self.last.as_ref().filter(|(_, last)| last.ended.is_none());
        self.write(|connection| killed.map_or(Ok(()), |(_, last)| last.runs_no_more(connection)));
    }

    /// Notes that everything was tried that was due.
    pub fn note_complete(&mut self) {
        self.entry.is_complete = true;
    }

    /// What the next pass goes on from.
    pub fn next(&self) -> &LineState {
        &self.next
    }

    /// All attempts of the line, those of this pass among them.
    pub fn totals(&self) -> Counts {
        self.totals.plus(&self.entry.counts)
    }

    /// The attempts of the pass so far.
    pub fn counts(&mut self) -> &mut Counts {
        &mut self.entry.counts
    }

    /// Changes what the next pass goes on from. That is written at once if handlers may run, and else with the
    /// beginning or the end of the pass.
    pub fn go_on_from(&mut self, change: impl FnOnce(&mut LineState)) {
        change(&mut self.next);
        if !self.has_begun {
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

    pub fn failed(&mut self, id: &dyn std::fmt::Display, error: &str) {
        if self.entry.errors.len() < ERRORS_KEPT {
            self.entry.errors.push(format!("{id}: {}", cut(error.into())));
        }
    }

    /// Notes how the pass has ended.
    pub fn end(
        &mut self,
        now: Instant,
        took: Duration,
        end: PassEnd,
        error: Option<String>,
        exit: u8,
    ) {
        let entry = &mut self.entry;
        entry.took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        (entry.ended, entry.end, entry.error) = (Some(now), Some(end), error.map(cut));
        entry.exit = Some(exit);
        if let Some((number, before)) = &self.last
            && before.end == Some(end)
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

/// What is known of the passes of a crontab line.
#[derive(Debug, Clone, Default)]
pub struct LineHistory {
    pub line: LineName,
    /// All attempts of the line, also of passes that are not kept any more.
    pub totals: Counts,
    /// The last ones, the latest at the end.
    pub entries: Vec<PassEntry>,
    /// Whether a pass of the line runs now, which the last entry is about if it has no end.
    pub is_running: bool,
    /// The records whose handlers have run for long, and since when: those of the running pass.
    pub long_running: Vec<(Id, Instant)>,
}

impl LineHistory {
    /// The entry of the pass that runs, unless nothing was due to it so far.
    pub fn running(&self) -> Option<&PassEntry> {
        self.entries.last().filter(|last| self.is_running && last.ended.is_none())
    }

    /// The entries but that of the running pass.
    fn over(&self) -> &[PassEntry] {
        &self.entries[..self.entries.len() - usize::from(self.running().is_some())]
    }

    /// The last entry that is not of the running pass.
    pub fn last(&self) -> Option<&PassEntry> {
        self.over().last()
    }

    /// How many of the last passes were killed.
    pub fn killed_in_a_row(&self) -> usize {
        self.over().iter().rev().take_while(|it| it.ended.is_none()).count()
    }

    /// For how long the running pass has had no outcome, if so long that it hangs.
    pub fn hangs_for(&self, now: Instant) -> Option<i64> {
        let running = self.running()?;
        let silent = now.0.saturating_sub(running.last_outcome.0);
        running.hangs_after.is_some_and(|most| silent > most).then_some(silent)
    }

    /// Whether the last pass has not ended, as far as its entry says.
    fn is_open(&self) -> bool {
        self.entries.last().is_some_and(|last| last.ended.is_none())
    }
}

impl StateDir {
    /// The histories of all lines of this database, with at least so many passes if there are.
    pub fn histories(&self, passes: usize) -> Result<Vec<LineHistory>> {
        let mut histories = self.read_histories(None, passes)?;
        for history in &mut histories {
            self.find_running(history, passes)?;
        }
        histories.sort_by_key(|it| it.entries.last().map(PassEntry::last_began));
        Ok(histories)
    }

    /// The history of one line, if it has any.
    pub fn history(&self, line: &LineName) -> Result<Option<LineHistory>> {
        let Some(mut history) = self.read_histories(Some(line), 1)?.pop() else { return Ok(None) };
        self.find_running(&mut history, 1)?;
        Ok(Some(history))
    }

    fn read_histories(&self, line: Option<&LineName>, passes: usize) -> Result<Vec<LineHistory>> {
        let id = line.map(|line| self.lock_of(&line.to_string()).cast_signed());
        let read = self.read_state(COMMAND_WAIT, &|connection| {
            let mut lines = connection.prepare_cached(
                "SELECT id, queue, table_name, policy, totals FROM lines
                 WHERE scope = ?1 AND (?2 IS NULL OR id = ?2)",
            )?;
            let mut last = connection.prepare_cached(&format!(
                "SELECT {PASS_COLUMNS} FROM passes WHERE line = ?1 ORDER BY number DESC LIMIT ?2"
            ))?;
            let mut running =
                connection.prepare_cached("SELECT record, since FROM running WHERE run = ?1")?;
            let mut histories = Vec::new();
            let mut found = lines.query((&self.scope, id))?;
            while let Some(line) = found.next()? {
                let most = i64::try_from(passes.max(FEWEST_READ)).unwrap_or(i64::MAX);
                let entries = last.query_map([line.get("id")?, most], pass_entry)?;
                let mut entries = entries.collect::<Result<Vec<_>, _>>()?;
                entries.reverse();
                let Some(last) = entries.last() else { continue };
                let long_running = running.query_map([&last.run], |row| {
                    let Json(id) = row.get::<_, Json<serde_json::Value>>("record")?;
                    Ok(exact_id::from_json(&id).zip(Some(Instant(row.get("since")?))))
                })?;
                let long_running =
                    long_running.filter_map(Result::transpose).collect::<Result<_, _>>()?;
                histories.push(LineHistory {
                    line: LineName {
                        queue: line.get("queue")?,
                        table: line.get("table_name")?,
                        policy: line.get("policy")?,
                    },
                    totals: line.get::<_, Json<_>>("totals")?.0,
                    entries,
                    is_running: false,
                    long_running,
                });
            }
            Ok(histories)
        });
        Ok(read?.unwrap_or_default())
    }

    /// The entries were read, and now it is seen whether the line is locked. A pass that ends in between looks
    /// like a killed one, so an entry without an end and a lock is read again.
    fn find_running(&self, history: &mut LineHistory, passes: usize) -> Result<()> {
        let locks = self.locks()?;
        let line = history.line.clone();
        let lock = self.lock_of(&line.to_string());
        for _ in 0..READS {
            history.is_running =
                locks.as_ref().map_or(Ok(false), |file| claims::is_locked_at(file, lock))?;
            if history.is_running || !history.is_open() {
                break;
            }
            let again = self.read_histories(Some(&line), passes)?.pop().unwrap_or_default();
            let is_same = again.entries == history.entries;
            *history = again;
            if is_same {
                break;
            }
        }
        if history.running().is_none() {
            history.long_running.clear();
        }
        Ok(())
    }

    /// The locks of the lines, if any pass has run.
    fn locks(&self) -> Result<Option<File>> {
        let Some(directory) = self.opened()? else { return Ok(None) };
        directory.file(&self.own_name(LINES), Purpose::Read)
    }

    /// Removes the history of a line.
    pub fn forget(&self, line: &LineName) -> Result<()> {
        let id = self.lock_of(&line.to_string()).cast_signed();
        let removed = self.change_state(COMMAND_WAIT, &|connection| {
            together(connection, || {
                for table in
                    ["DELETE FROM passes WHERE line = ?1", "DELETE FROM said WHERE line = ?1"]
                {
                    connection.execute(table, [id])?;
                }
                Ok(())
            })
        });
        removed.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> LineName {
        LineName { policy: "--ndays 1".into(), ..LineName::default() }
    }

    fn state(dir: &std::path::Path) -> StateDir {
        let database = dir.join("x.db");
        std::fs::write(&database, "").unwrap();
        let found = std::fs::metadata(&database).unwrap();
        StateDir::beside(dir.join("x.db.backlog"), (database, found))
    }

    /// A pass that begins now.
    fn pass(state: &StateDir, line: &LineName, now: i64) -> PassRecord {
        let known = state.line(line, Instant(now)).unwrap();
        let entry = PassEntry::new(format!("{now:016x}"), Instant(now));
        PassRecord::new(state.clone(), line.clone(), known, LineState::default(), entry)
    }

    fn end(record: &mut PassRecord, now: i64, end: PassEnd) {
        record.end(Instant(now), Duration::ZERO, end, None, 0);
    }

    #[test]
    fn a_history_is_cut_and_its_totals_live_on() {
        let dir = tempfile::tempdir().unwrap();
        let state = state(dir.path());
        for number in 1..=2 * KEPT {
            let mut record = pass(&state, &name(), number);
            record.begin();
            record.counts().failed = 1;
            end(&mut record, number, PassEnd::Complete);
        }
        let [history] = &state.histories(9_999).unwrap()[..] else { panic!() };
        assert_eq!(history.entries.len(), 1_500);
        assert_eq!(history.entries.last().unwrap().began, Instant(2 * KEPT));
        assert_eq!(history.totals.failed, 3_000);
    }

    #[test]
    fn passes_that_did_nothing_share_an_entry_only_with_their_like() {
        let dir = tempfile::tempdir().unwrap();
        let state = state(dir.path());
        let pass = |number, has_begun: bool, failed, how| {
            let mut record = pass(&state, &name(), number);
            if has_begun {
                record.begin();
            }
            record.counts().failed = failed;
            end(&mut record, number, how);
        };
        pass(1, false, 0, PassEnd::Paused);
        pass(2, false, 0, PassEnd::Paused);
        pass(3, false, 0, PassEnd::Idle);
        pass(4, false, 0, PassEnd::Paused);
        // The pause came when their entries stood there.
        pass(5, true, 0, PassEnd::Paused);
        pass(6, true, 7, PassEnd::Paused);
        pass(7, false, 0, PassEnd::Paused);
        let histories = state.histories(9).unwrap();
        let entries = &histories[0].entries;
        let found: Vec<_> = entries.iter().map(|it| (it.began.0, it.passes, it.end)).collect();
        let paused = Some(PassEnd::Paused);
        assert_eq!(
            found,
            [
                (1, 2, paused),
                (3, 1, Some(PassEnd::Idle)),
                (4, 1, paused),
                (5, 1, paused),
                (6, 1, paused),
                (7, 1, paused)
            ]
        );
        assert_eq!(histories[0].totals.failed, 7);
    }

    #[test]
    fn an_entry_reads_back_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let state = state(dir.path());
        let line = LineName {
            table: "t\0".repeat(3_000),
            policy: "\u{202e}".repeat(3_000),
            queue: "q\u{1}".into(),
        };
        let mut record = pass(&state, &line, 1);
        record.begin();
        record.failed(&7, "no route\n");
        *record.counts() = Counts { archived: u64::MAX, left: 1, ..Counts::default() };
        let error = Some("\u{7f}".repeat(9));
        record.end(Instant(2), Duration::from_secs(1), PassEnd::Signal(15), error, 143);
        let found = state.history(&line).unwrap().unwrap();
        assert_eq!((&found.line, &found.entries), (&line, &vec![record.entry.clone()]));
        assert_eq!(found.totals.archived, u64::MAX);
        // Damaged members count as nothing.
        let damage = |connection: &Connection| {
            connection.execute("UPDATE passes SET more = 'x', counts = '[]', \"end\" = NULL", [])
        };
        state.change_state(PASS_WAIT, &damage).unwrap();
        let found = state.history(&line).unwrap().unwrap();
        assert_eq!((found.entries[0].counts, found.entries[0].pid), (Counts::default(), 0));
    }

    #[test]
    fn databases_that_share_a_directory_have_passes_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let shared = dir.path().join("shared");
        let states = ["a", "b"].map(|identity| StateDir::own(shared.clone(), identity));
        for (state, number) in states.iter().zip(1..) {
            pass(state, &name(), number).begin();
        }
        for (state, number) in states.iter().zip(1..) {
            let [found] = &state.histories(1).unwrap()[..] else { panic!() };
            assert_eq!(found.entries[0].began, Instant(number));
        }
        assert_eq!(std::fs::read_dir(&shared).unwrap().count(), 2, "state.db and its journal");
    }

    #[test]
    fn what_has_run_for_long_is_known_as_long_as_its_pass_runs() {
        let dir = tempfile::tempdir().unwrap();
        let state = state(dir.path());
        let running = || state.history(&name()).unwrap().unwrap().long_running;
        let lock = state.lock_line(&name().to_string(), false).unwrap().unwrap();
        let mut record = pass(&state, &name(), 1);
        record.begin();
        let ids = [Id::Integer(-7), Id::Bytes([0, 255].into()), Id::Text("7".into())];
        let mut noted: Vec<_> = ids.into_iter().map(|id| (id, Instant(3))).collect();
        record.note_running(&noted);
        let mut found = running();
        for all in [&mut noted, &mut found] {
            all.sort_by_key(|(id, _)| format!("{id:?}"));
        }
        assert_eq!(found, noted);
        record.note_running(&noted[1..]);
        assert_eq!(running().len(), 2);
        // The pass is killed.
        drop((record, lock));
        assert_eq!(running(), []);
        let rows = || {
            let count = "SELECT count(*) FROM running";
            let count = |it: &Connection| it.query_row(count, [], |row| row.get::<_, i64>(0));
            state.read_state(PASS_WAIT, &count).unwrap().unwrap()
        };
        assert_eq!(rows(), 2);
        pass(&state, &name(), 4).begin();
        assert_eq!(rows(), 0);
    }
}

//! The history of a crontab line, read by its next pass and by reports.

use std::collections::HashMap;

use anyhow::Result;
use backlog_schedule::{Id, Instant, exact_id};
use serde_json::Value;

use super::StateDir;
use super::directory::{LINES, Purpose};
use super::lines::LineName;
use super::passes::{PASS_COLUMNS, PassCounts, PassEntry, pass_entry};
use super::state_db::{COMMAND_WAIT, Json, in_transaction};
use crate::claims;

/// Maximum number of passes of a line in a day, because cron counts in minutes.
pub const PASSES_OF_A_DAY: usize = 1_440;
/// Number of entries that determine the usual interval of a line: with a pass a minute, more than an hour.
pub const INTERVAL_ENTRIES: usize = 100;

#[derive(Debug, Clone, Default)]
pub struct LineHistory {
    pub line: LineName,
    /// All attempts of the line, including those of removed entries.
    pub totals: PassCounts,
    /// The last entries, the latest at the end.
    pub entries: Vec<PassEntry>,
    /// True if a pass of the line runs now. A last entry without an end is its entry.
    pub is_running: bool,
    pub slow: HashMap<Id, SlowHandler>,
}

/// A handler that has run for more than ten seconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowHandler {
    pub since: Instant,
    /// The process id of the pass, and its name.
    pub pid: u32,
    pub run: String,
}

impl LineHistory {
    /// The entry of the running pass, unless nothing was due so far.
    pub fn running(&self) -> Option<&PassEntry> {
        self.entries.last().filter(|last| self.is_running && last.ended.is_none())
    }

    pub fn slow_handlers(&self) -> Vec<(Instant, &Id)> {
        let mut slow: Vec<_> = self.slow.iter().map(|(id, handler)| (handler.since, id)).collect();
        slow.sort_by_key(|(since, id)| (*since, id.text()));
        slow
    }

    fn ended(&self) -> &[PassEntry] {
        &self.entries[..self.entries.len() - usize::from(self.running().is_some())]
    }

    pub fn last_ended(&self) -> Option<&PassEntry> {
        self.ended().last()
    }

    pub fn killed_in_a_row(&self) -> usize {
        self.ended().iter().rev().take_while(|entry| entry.ended.is_none()).count()
    }

    /// Seconds without an outcome, if the running pass hangs.
    pub fn hangs_for(&self, now: Instant) -> Option<i64> {
        let running = self.running()?;
        let silent = now.0.saturating_sub(running.last_outcome.0);
        running.hangs_after.is_some_and(|most| silent > most).then_some(silent)
    }
}

impl StateDir {
    /// The histories of all lines of this database, with at least their last `passes` entries.
    pub fn histories(&self, passes: usize) -> Result<Vec<LineHistory>> {
        let mut histories = self.read_histories(None, passes)?;
        for history in &mut histories {
            self.find_running(history, passes)?;
        }
        histories.sort_by_key(|history| history.entries.last().map(PassEntry::last_began));
        Ok(histories)
    }

    pub fn history(&self, line: &LineName) -> Result<Option<LineHistory>> {
        let Some(mut history) = self.read_histories(Some(line), 1)?.pop() else { return Ok(None) };
        self.find_running(&mut history, 1)?;
        Ok(Some(history))
    }

    fn read_histories(&self, line: Option<&LineName>, passes: usize) -> Result<Vec<LineHistory>> {
        let id = line.map(|line| self.line_id(line));
        let read = self.read_state(COMMAND_WAIT, &|connection| {
            let mut lines = connection.prepare_cached(
                "SELECT id, queue, table_name, policy, totals FROM lines
                 WHERE scope = ?1 AND (?2 IS NULL OR id = ?2)",
            )?;
            let mut last = connection.prepare_cached(&format!(
                "SELECT {PASS_COLUMNS} FROM passes WHERE line = ?1 ORDER BY number DESC LIMIT ?2"
            ))?;
            let mut running = connection.prepare_cached("SELECT * FROM running WHERE run = ?1")?;
            let found = lines.query_map((&self.scope, id), |line| {
                let name = LineName {
                    queue: line.get("queue")?,
                    table: line.get("table_name")?,
                    policy: line.get("policy")?,
                };
                Ok((line.get::<_, i64>("id")?, name, line.get::<_, Json<_>>("totals")?.0))
            })?;
            // The lock is released after each query, because passes wait for it.
            let found = found.collect::<Result<Vec<_>, _>>()?;
            let most = i64::try_from(passes.max(INTERVAL_ENTRIES)).unwrap_or(i64::MAX);
            let mut histories = Vec::new();
            for (id, line, totals) in found {
                let entries = last.query_map([id, most], pass_entry)?;
                let mut entries = entries.collect::<Result<Vec<_>, _>>()?;
                entries.reverse();
                let Some(last) = entries.last() else { continue };
                let slow = running.query_map([&last.run], |row| {
                    let Json(id): Json<Value> = row.get("record")?;
                    let (since, pid, run) =
                        (Instant(row.get("since")?), row.get("pid")?, row.get("run")?);
                    Ok(exact_id::from_json(&id).zip(Some(SlowHandler { since, pid, run })))
                })?;
                let slow = slow.flatten().flatten().collect();
                histories.push(LineHistory { line, totals, entries, is_running: false, slow });
            }
            Ok(histories)
        });
        Ok(read?.unwrap_or_default())
    }

    /// Sets `is_running`. A pass that ends meanwhile would seem to be killed, so its entry is read once more.
    fn find_running(&self, history: &mut LineHistory, passes: usize) -> Result<()> {
        let (lock, lines) = (self.lock_of(&history.line.to_string()), self.own_name(LINES));
        for _ in 0..2 {
            let directory = self.open()?;
            let locks = directory.map(|directory| directory.file(&lines, Purpose::Read));
            let locks = locks.transpose()?.flatten();
            history.is_running =
                locks.is_some_and(|file| claims::is_locked_at(&file, lock).unwrap_or(false));
            let has_ended = history.entries.last().is_none_or(|last| last.ended.is_some());
            if history.is_running || has_ended {
                break;
            }
            let again = self.read_histories(Some(&history.line), passes)?;
            *history = again.into_iter().next().unwrap_or_default();
        }
        if history.running().is_none() {
            history.slow.clear();
        }
        Ok(())
    }

    /// The cursor of the line remains.
    pub fn forget(&self, line: &LineName) -> Result<()> {
        let id = self.line_id(line);
        let removed = self.change_state(COMMAND_WAIT, &|connection| {
            in_transaction(connection, || {
                connection.execute("DELETE FROM passes WHERE line = ?1", [id])?;
                connection.execute("DELETE FROM said WHERE line = ?1", [id])?;
                connection.execute("UPDATE lines SET totals = NULL WHERE id = ?1", [id])?;
                Ok(())
            })
        });
        removed.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use backlog_schedule::{Cursor, Position, Slot};
    use rusqlite::Connection;

    use super::super::lines::LineState;
    use super::super::passes::{PassEnd, PassRecord};
    use super::super::state_db::PASS_WAIT;
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
        let known = state.line(line, Instant(now));
        let entry = PassEntry::new(format!("{now:016x}"), Instant(now));
        PassRecord::new(state.clone(), line.clone(), known, LineState::default(), entry)
    }

    fn began(state: &StateDir, now: i64) -> PassRecord {
        let mut record = pass(state, &name(), now);
        record.begin();
        record
    }

    fn end(record: &mut PassRecord, now: i64, end: PassEnd) {
        (record.entry.ended, record.entry.end) = (Some(Instant(now)), Some(end));
        record.end();
    }

    #[test]
    fn a_history_is_cut_and_its_totals_remain() {
        let dir = tempfile::tempdir().unwrap();
        let state = state(dir.path());
        for number in 1..=3_000 {
            let mut record = pass(&state, &name(), number);
            record.begin();
            record.entry.counts.failed = 1;
            end(&mut record, number, PassEnd::Complete);
        }
        let [history] = &state.histories(9_999).unwrap()[..] else { panic!() };
        assert_eq!(history.entries.len(), 1_500);
        assert_eq!(history.entries.last().unwrap().began, Instant(3_000));
        assert_eq!(history.totals.failed, 3_000);
    }

    #[test]
    fn passes_that_did_nothing_share_an_entry() {
        let dir = tempfile::tempdir().unwrap();
        let state = state(dir.path());
        let pass = |number, has_begun: bool, failed, how| {
            let mut record = pass(&state, &name(), number);
            if has_begun {
                record.begin();
            }
            record.entry.counts.failed = failed;
            end(&mut record, number, how);
        };
        pass(1, false, 0, PassEnd::Paused);
        pass(2, false, 0, PassEnd::Paused);
        pass(3, false, 0, PassEnd::Idle);
        pass(4, false, 0, PassEnd::Paused);
        // A pause of passes that had begun.
        pass(5, true, 0, PassEnd::Paused);
        pass(6, true, 7, PassEnd::Paused);
        pass(7, false, 0, PassEnd::Paused);
        let histories = state.histories(9).unwrap();
        let entries = &histories[0].entries;
        let columns = |entry: &PassEntry| (entry.began.0, entry.passes, entry.end);
        let found: Vec<_> = entries.iter().map(columns).collect();
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
        let counts = PassCounts { archived: u64::MAX, left: 1, ..PassCounts::default() };
        record.entry = PassEntry {
            counts,
            errors: vec!["7: no route\n".into()],
            error: Some("\u{7f}".repeat(9)),
            took_ms: 1_000,
            exit: Some(143),
            ..record.entry
        };
        end(&mut record, 2, PassEnd::Signal(15));
        let found = state.history(&line).unwrap().unwrap();
        assert_eq!((&found.line, &found.entries), (&line, &vec![record.entry.clone()]));
        assert_eq!(found.totals.archived, u64::MAX);
        // Damaged values are read as defaults.
        let damage = |connection: &Connection| {
            connection.execute("UPDATE passes SET more = 'x', counts = '[]', \"end\" = NULL", [])
        };
        state.change_state(PASS_WAIT, &damage).unwrap();
        let found = state.history(&line).unwrap().unwrap();
        assert_eq!((found.entries[0].counts, found.entries[0].pid), (PassCounts::default(), 0));
    }

    #[test]
    fn databases_that_share_a_directory_have_passes_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let shared = dir.path().join("shared");
        let states = ["a", "b"].map(|identity| StateDir::of_server(shared.clone(), identity));
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
    fn a_fast_pass_saves_some_cursors_and_one_after_a_killed_pass_all() {
        let dir = tempfile::tempdir().unwrap();
        let state = state(dir.path());
        let written = |ticks: std::ops::RangeInclusive<i64>, record: &mut PassRecord| {
            let slots = ticks.map(|tick| Slot { tick, phase: 0 });
            let cursors = slots
                .map(|slot| Cursor { reached: Some(Position::Slot(slot)), ..Cursor::default() });
            let mut count = 0;
            for cursor in cursors {
                record.save_cursor(&cursor);
                count += i32::from(state.line_to_read(&name()).unwrap().state.cursor == cursor);
            }
            count
        };
        let mut record = pass(&state, &name(), 1);
        record.begin();
        assert_eq!(written(1..=50, &mut record), 50);
        assert_eq!(written(51..=200, &mut record), 3, "100, 150 and 200");
        record.note_progress(Instant(2));
        assert_eq!(written(201..=260, &mut record), 50, "in the next second");
        // It is killed.
        let mut record = pass(&state, &name(), 3);
        record.begin();
        assert_eq!(written(1..=200, &mut record), 200);
        end(&mut record, 3, PassEnd::Complete);
        let mut record = pass(&state, &name(), 4);
        assert_eq!(written(1..=9, &mut record), 0, "nothing is due yet");
        end(&mut record, 4, PassEnd::Idle);
        let reached = state.line_to_read(&name()).unwrap().state.cursor.reached;
        assert_eq!(reached, Some(Position::Slot(Slot { tick: 9, phase: 0 })));
    }

    #[test]
    fn slow_handlers_are_listed_while_their_pass_runs() {
        let dir = tempfile::tempdir().unwrap();
        let state = state(dir.path());
        let running = || state.history(&name()).unwrap().unwrap().slow;
        let lock = state.lock_line(&name().to_string(), false).unwrap().unwrap();
        let mut record = pass(&state, &name(), 1);
        record.begin();
        let ids = [Id::Integer(-7), Id::Bytes([0, 255].into()), Id::Text("7".into())];
        let noted: Vec<_> = ids.into_iter().map(|id| (id, Instant(3))).collect();
        record.note_slow(&noted);
        let found = running().into_iter().map(|(id, handler)| (id, handler.since));
        let found: HashMap<_, _> = found.collect();
        assert_eq!(found, noted.iter().cloned().collect());
        record.note_slow(&noted[1..]);
        assert_eq!(running().len(), 2);
        // The pass is killed.
        drop((record, lock));
        assert!(running().is_empty());
        let rows = || {
            let count = "SELECT count(*) FROM running";
            let query = |connection: &Connection| {
                connection.query_row(count, [], |row| row.get::<_, i64>(0))
            };
            state.read_state(PASS_WAIT, &query).unwrap().unwrap()
        };
        assert_eq!(rows(), 2);
        (2..=100).for_each(|now| end(&mut began(&state, now), now, PassEnd::Complete));
        assert_eq!(rows(), 2, "its entry is still there");
        (101..=1_600).for_each(|now| end(&mut began(&state, now), now, PassEnd::Complete));
        assert_eq!(rows(), 0);
    }
}

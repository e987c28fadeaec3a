//! The record of passes: a file for each crontab line, in which every pass has one line of JSON. A pass
//! notes that it begins once something is due, and writes over that when it ends, so that a killed one
//! leaves an entry without an end. Passes that find nothing to do share one entry, as do those that find
//! their queue paused.
//!
//! Only the pass that holds the lock of its line writes. Nothing is synced to the disk: after a crash
//! of the machine the last entries may be gone or damaged, which are then passed over.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use backlog_schedule::{Instant, cut, json_line};
use serde::{Deserialize, Serialize};

use super::StateDir;
use super::directory::{LINES, Purpose};
use crate::claims;

const HISTORY: &str = ".history";
/// How many passes with something to do a line has in a day, at most: cron counts in minutes.
pub const PASSES_OF_A_DAY: usize = 1_440;
/// How many entries a line keeps. The file is cut when it has twice as many.
const KEPT: u32 = 1_500;
/// The most bytes of an entry: a write of one page is not cut in two by a kill.
const ENTRY: usize = 4_096;
/// How much is read of a file to find its last entries: more than a hundred, which show their
/// rhythm.
const TAIL: u64 = 512 * 1024;
/// How many failures of a pass are kept in words.
const ERRORS_KEPT: usize = 3;
/// How often a record is read again that changes while it is read.
const READS: u32 = 5;
/// How often a running pass writes its counts, in seconds: a kill loses no more of them.
const WRITE_INTERVAL: i64 = 1;

/// A crontab line, as its passes note it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineName {
    pub queue: String,
    pub table: String,
    /// The policy as it is typed, with the condition and the shard that narrow the records.
    pub policy: String,
}

impl std::fmt::Display for LineName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.queue, self.table, self.policy)
    }
}

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
    fn add(&mut self, more: &Self) {
        let Self { succeeded, failed, snoozed, archived, interrupted, left } = self;
        let totals = [succeeded, failed, snoozed, archived, interrupted, left];
        let Self { succeeded, failed, snoozed, archived, interrupted, left } = *more;
        let more = [succeeded, failed, snoozed, archived, interrupted, left];
        // What the file says may be anything.
        totals.into_iter().zip(more).for_each(|(total, more)| *total = total.saturating_add(more));
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

/// The entry of a pass.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassEntry {
    pub run: String,
    pub began: Instant,
    pub ended: Option<Instant>,
    pub took_ms: u64,
    pub end: Option<PassEnd>,
    /// Whether everything was tried that was due.
    pub is_complete: bool,
    /// Its exit status.
    pub exit: Option<u8>,
    /// Why it failed, if it did.
    pub error: Option<String>,
    #[serde(flatten)]
    pub line: LineName,
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
    pub counts: Counts,
    /// The first failures, each behind the id of its record.
    pub errors: Vec<String>,
    /// How many passes it stands for: more than one that found nothing to do, or a pause.
    pub passes: u64,
    /// All attempts of the line until then, also of passes that are not kept any more.
    pub totals: Counts,
    /// The number of this entry in its file.
    pub number: u32,
    /// The database, in a directory that several share, and the place of the line's lock.
    pub scope: String,
    pub lock: u64,
}

impl PassEntry {
    /// The entry of a pass that begins, of which nothing else is known.
    pub fn new(line: LineName, run: String, began: Instant) -> Self {
        Self {
            run,
            began,
            line,
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

    /// As one line that fits, whatever the table and its condition are called.
    fn to_line(&self) -> String {
        let mut entry = self.clone();
        loop {
            let line = json_line(&entry);
            if line.len() <= ENTRY || entry.errors.pop().is_none() && !entry.shorten() {
                return line;
            }
        }
    }

    /// Halves the longest of its texts; false if nothing is left of them.
    fn shorten(&mut self) -> bool {
        let LineName { queue, table, policy } = &mut self.line;
        let texts = [queue, table, policy, &mut self.schedule].into_iter().chain(&mut self.error);
        let Some(longest) = texts.max_by_key(|text| text.len()) else { return false };
        *longest = longest.chars().take(longest.chars().count() / 2).collect();
        !longest.is_empty()
    }
}

/// The history of a line, as the pass writes it that has the line's lock.
pub struct PassRecord {
    state: StateDir,
    name: String,
    file: File,
    /// Where its own entry begins.
    at: u64,
    /// The entry before it, and where that begins.
    before: Option<(u64, PassEntry)>,
    entry: PassEntry,
    /// The totals of the passes before it.
    totals: Counts,
    /// The interval in which its counts were written last.
    written_in: i64,
    /// Whether its own entry is there already.
    has_begun: bool,
}

impl PassRecord {
    /// Opens the history of the line that the entry names. Nothing is written yet.
    fn open(state: StateDir, mut entry: PassEntry) -> Result<Self> {
        let name = state.history_name(&entry.line);
        (entry.scope, entry.lock) = (state.scope.clone(), state.lock_of(&entry.line.to_string()));
        let file = state.file(&name)?;
        let (from, text) = tail(&file, 2 * ENTRY as u64)?;
        let end = text.iter().rposition(|byte| *byte == b'\n');
        // No entry is as long as that: without an end of one nothing of the file is ours.
        let (at, whole) = end.map_or((0, 0), |end| (from + end as u64 + 1, end + 1));
        if whole < text.len() {
            // The rest is of an entry that a kill or a full disk has cut.
            file.set_len(at)?;
        }
        let before = lines(from, &text[..whole]).last();
        let known = before.as_ref().map(|(_, before)| (before.totals, before.number));
        let (totals, number) = known.unwrap_or_default();
        entry.number = number.saturating_add(1);
        let (written_in, has_begun) = (i64::MIN, false);
        Ok(Self { state, name, file, at, before, entry, totals, written_in, has_begun })
    }

    /// Notes that the pass has something to do.
    pub fn begin(&mut self) -> Result<()> {
        self.has_begun = true;
        self.write()?;
        self.set_time(self.entry.began);
        Ok(())
    }

    /// Notes that everything was tried that was due.
    pub fn note_complete(&mut self) {
        self.entry.is_complete = true;
    }

    /// All attempts of the line, those of this pass among them.
    pub fn totals(&self) -> Counts {
        self.entry.totals
    }

    /// The attempts of the pass so far.
    pub fn counts(&mut self) -> &mut Counts {
        &mut self.entry.counts
    }

    /// Notes the attempts that have ended until now, at most once a second: the time of the file is that
    /// of the last outcome.
    pub fn note_progress(&mut self, now: Instant) -> Result<()> {
        let interval = now.tick(WRITE_INTERVAL);
        if std::mem::replace(&mut self.written_in, interval) != interval {
            self.write()?;
            self.set_time(now);
        }
        Ok(())
    }

    /// Has the file say when the last outcome was, by the clock of the pass. Only its owner can; else
    /// it is the time at which it was written, by the clock of the machine.
    fn set_time(&self, now: Instant) {
        let _ = self.file.set_modified(system_time(now));
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
    ) -> Result<()> {
        let entry = &mut self.entry;
        entry.took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        (entry.ended, entry.end, entry.error) = (Some(now), Some(end), error.map(cut));
        entry.exit = Some(exit);
        if let Some((at, before)) = &self.before
            && before.end == Some(end)
            && before.did_nothing()
            && before.by_hand == self.entry.by_hand
            && self.entry.did_nothing()
            && !self.has_begun
        {
            self.at = *at;
            self.entry.number = before.number;
            self.entry.began = before.began;
            self.entry.passes = before.passes.saturating_add(1);
        }
        self.write()?;
        if self.entry.number >= 2 * KEPT { self.cut() } else { Ok(()) }
    }

    /// Writes the entry at its place, which is the end of the file. On a full disk the one before it
    /// gives way, because its place is there already.
    fn write(&mut self) -> Result<()> {
        self.entry.totals = self.totals;
        self.entry.totals.add(&self.entry.counts);
        let path = self.state.path().join(&self.name);
        self.put().with_context(|| format!("could not write {}", path.display()))
    }

    fn put(&mut self) -> Result<()> {
        let mut line = self.entry.to_line().trim_end().to_string();
        // Nothing is left of what stood there.
        let stood = self.file.metadata()?.len().saturating_sub(self.at + 1);
        line.extend(std::iter::repeat_n(' ', usize::try_from(stood)?.saturating_sub(line.len())));
        line.push('\n');
        match self.file.write_all_at(line.as_bytes(), self.at) {
            Err(error) if error.kind() == ErrorKind::StorageFull => {
                let Some((at, _)) = self.before.take() else { return Err(error.into()) };
                let line = format!("{}\n", line.trim_end());
                self.file.write_all_at(line.as_bytes(), at)?;
                self.at = at;
                Ok(self.file.set_len(at + line.len() as u64)?)
            }
            written => Ok(written?),
        }
    }

    /// Leaves only the last entries.
    fn cut(&mut self) -> Result<()> {
        // No more is read than so many entries can take, whatever somebody else has put there.
        let from = self.at.saturating_sub(u64::from(KEPT) * ENTRY as u64);
        let mut text = vec![0; usize::try_from(self.at - from)?];
        self.file.read_exact_at(&mut text, from)?;
        let begins = text.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::len);
        let kept = begins.rev().take(KEPT as usize - 1).sum::<usize>();
        let mut text = text.split_off(text.len() - kept);
        self.entry.number = KEPT;
        text.extend_from_slice(self.entry.to_line().as_bytes());
        self.state.made()?.rewrite(&self.name, &text)
    }
}

/// What is known of the passes of a crontab line.
#[derive(Debug, Clone)]
pub struct LineHistory {
    pub line: LineName,
    scope: String,
    lock: u64,
    /// The last ones, the latest at the end.
    pub entries: Vec<PassEntry>,
    /// Whether a pass of the line runs now, which the last entry is about if it has no end.
    pub is_running: bool,
    /// When the running pass had its last outcome, or began.
    pub last_outcome: Instant,
}

impl LineHistory {
    fn read(file: &File, passes: usize) -> Result<Option<Self>> {
        let most = passes.min(2 * KEPT as usize) as u64 * ENTRY as u64;
        let (from, text) = tail(file, most.max(TAIL))?;
        let entries: Vec<_> = lines(from, &text).map(|(_, entry)| entry).collect();
        let Some(last) = entries.last() else { return Ok(None) };
        let (line, scope, lock) = (last.line.clone(), last.scope.clone(), last.lock);
        let last_outcome = instant(file.metadata()?.modified()?);
        Ok(Some(Self { line, scope, lock, entries, is_running: false, last_outcome }))
    }

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
        let silent = now.0.saturating_sub(self.last_outcome.0);
        self.running()?.hangs_after.is_some_and(|most| silent > most).then_some(silent)
    }
}

impl StateDir {
    /// The record of a pass that is to begin, whose line is locked.
    pub fn pass_record(&self, entry: PassEntry) -> Result<PassRecord> {
        PassRecord::open(self.clone(), entry).context("could not open the record of passes")
    }

    /// The histories of all lines of this database, with at least so many passes if there are, and why
    /// others are not known.
    pub fn histories(&self, passes: usize) -> (Vec<LineHistory>, Vec<anyhow::Error>) {
        let (mut histories, mut errors) = (Vec::new(), Vec::new());
        let listed =
            self.opened().and_then(|it| it.map_or(Ok(Vec::new()), |it| it.with_suffix(HISTORY)));
        for name in listed.unwrap_or_else(|error| {
            errors.push(error);
            Vec::new()
        }) {
            match self.history_in(&name, passes) {
                // In a directory that several databases share the entry tells whose it is.
                Ok(history) => histories.extend(history.filter(|it| it.scope == self.scope)),
                Err(error) => errors.push(error),
            }
        }
        histories.sort_by_key(|it| it.entries.last().map(PassEntry::last_began));
        (histories, errors)
    }

    /// The history of one line, if it has any.
    pub fn history(&self, line: &LineName) -> Result<Option<LineHistory>> {
        self.history_in(&self.history_name(line), 1)
    }

    /// Removes the history of a line.
    pub fn forget(&self, line: &LineName) -> Result<()> {
        self.opened()?.map_or(Ok(()), |directory| directory.remove(&self.history_name(line)))
    }

    /// The file is read, and then it is seen whether the line is locked. A pass that ends in between
    /// looks like a killed one, so an entry without an end and a lock is read again.
    fn history_in(&self, name: &str, passes: usize) -> Result<Option<LineHistory>> {
        let Some(directory) = self.opened()? else { return Ok(None) };
        let Some(file) = directory.file(name, Purpose::Read)? else { return Ok(None) };
        // Only who can write the database may lock a line, or see its locks.
        let lines = self.own_name(LINES);
        let sees_locks = directory.may_read(&lines);
        let locks = if sees_locks { directory.file(&lines, Purpose::Read)? } else { None };
        let path = self.path().join(name);
        let could_not = || format!("could not read {}", path.display());
        let mut history = LineHistory::read(&file, passes).with_context(could_not)?;
        if history.is_none() && file.metadata().with_context(could_not)?.len() > 0 {
            bail!("could not read {}: it is damaged; the next pass makes it anew", path.display());
        }
        for _ in 0..READS {
            let Some(found) = &mut history else { break };
            let lock = found.lock;
            let is_open = found.entries.last().is_some_and(|last| last.ended.is_none());
            found.is_running = match &locks {
                Some(file) => claims::is_locked_at(file, lock)?,
                None => is_open && !sees_locks,
            };
            if found.is_running || !is_open {
                break;
            }
            let again = LineHistory::read(&file, passes).with_context(could_not)?;
            let is_same = again.as_ref().map(|it| &it.entries) == Some(&found.entries);
            if is_same {
                break;
            }
            history = again;
        }
        Ok(history)
    }

    fn history_name(&self, line: &LineName) -> String {
        format!("{}{HISTORY}", self.file_name(&line.to_string()))
    }
}

/// The end of a file, and where that begins.
pub fn tail(file: &File, most: u64) -> io::Result<(u64, Vec<u8>)> {
    let length = file.metadata()?.len();
    let from = length.saturating_sub(most);
    let mut text = vec![0; usize::try_from(length - from).unwrap_or(0)];
    file.read_exact_at(&mut text, from)?;
    Ok((from, text))
}

/// The entries of a text that begins at some place of its file, with the places where they begin. What
/// cannot be read is damaged, or is the end of an entry that began before.
fn lines(from: u64, text: &[u8]) -> impl Iterator<Item = (u64, PassEntry)> {
    let lines = text.split_inclusive(|byte| *byte == b'\n').scan(from, |end, line| {
        let at = *end;
        *end += line.len() as u64;
        Some((at, line))
    });
    lines.filter_map(|(at, line)| Some((at, serde_json::from_slice(line).ok()?)))
}

fn system_time(at: Instant) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(at.0).unwrap_or(0))
}

fn instant(time: SystemTime) -> Instant {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Instant(i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: i64) -> PassEntry {
        let line = LineName { policy: "--ndays 1".into(), ..LineName::default() };
        PassEntry::new(line, format!("{number:016x}"), Instant(number))
    }

    fn state(dir: &std::path::Path) -> StateDir {
        let database = dir.join("x.db");
        std::fs::write(&database, "").unwrap();
        let found = std::fs::metadata(&database).unwrap();
        StateDir::beside(dir.join("x.db.backlog"), (database, found))
    }

    #[test]
    fn a_history_is_cut_at_twice_its_bound_and_its_totals_live_on() {
        let dir = tempfile::tempdir().unwrap();
        let state = state(dir.path());
        let mut longest = 0;
        for number in 1..=i64::from(3 * KEPT) {
            let mut record = state.pass_record(entry(number)).unwrap();
            record.begin().unwrap();
            record.counts().failed = 1;
            record.end(Instant(number), Duration::ZERO, PassEnd::Complete, None, 0).unwrap();
            let path = state.path().join(state.history_name(&entry(0).line));
            longest = longest.max(std::fs::metadata(path).unwrap().len());
        }
        let path = state.path().join(state.history_name(&entry(0).line));
        let text = std::fs::read_to_string(path).unwrap();
        let entries: Vec<PassEntry> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(entries.len(), KEPT as usize);
        let last = entries.last().unwrap();
        assert_eq!((last.totals.failed, last.began), (4_500, Instant(4_500)));
        assert!(longest < u64::from(2 * KEPT) * 600, "{longest}");
    }

    #[test]
    fn passes_that_did_nothing_share_an_entry_only_with_their_like() {
        let dir = tempfile::tempdir().unwrap();
        let state = state(dir.path());
        let pass = |number, has_begun: bool, failed, end| {
            let mut record = state.pass_record(entry(number)).unwrap();
            if has_begun {
                record.begin().unwrap();
            }
            record.counts().failed = failed;
            record.end(Instant(number), Duration::ZERO, end, None, 0).unwrap();
        };
        pass(1, false, 0, PassEnd::Paused);
        pass(2, false, 0, PassEnd::Paused);
        pass(3, false, 0, PassEnd::Idle);
        pass(4, false, 0, PassEnd::Paused);
        // The pause came when their entries stood there.
        pass(5, true, 0, PassEnd::Paused);
        pass(6, true, 7, PassEnd::Paused);
        pass(7, false, 0, PassEnd::Paused);
        let (histories, _) = state.histories(9);
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
        assert_eq!(entries.last().unwrap().totals.failed, 7);
    }

    #[test]
    fn an_entry_fits_a_page_whatever_it_says() {
        let dir = tempfile::tempdir().unwrap();
        let state = state(dir.path());
        let line = LineName {
            table: "t".repeat(3_000),
            policy: "\u{202e}".repeat(3_000),
            queue: "q\u{1}".repeat(3_000),
        };
        let long = PassEntry { line: line.clone(), schedule: "'\u{1}".repeat(5_000), ..entry(1) };
        let mut record = state.pass_record(long).unwrap();
        for id in 0..9 {
            record.failed(&id, &"no route\n".repeat(900));
        }
        let error = Some("\u{7f}".repeat(9_000));
        record.end(Instant(2), Duration::ZERO, PassEnd::Failed, error, 1).unwrap();
        let found = state.history(&line).unwrap().unwrap();
        assert_eq!(found.entries.len(), 1);
        assert_eq!(found.entries[0].run, "0000000000000001");
        let length = std::fs::metadata(state.path().join(state.history_name(&line))).unwrap().len();
        assert!(length <= ENTRY as u64, "{length}");
    }

    #[test]
    fn databases_that_share_a_directory_have_passes_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let shared = dir.path().join("shared");
        let states = ["a", "b"].map(|identity| StateDir::own(shared.clone(), identity));
        for (state, number) in states.iter().zip(1..) {
            state.pass_record(entry(number)).unwrap().begin().unwrap();
        }
        for (state, number) in states.iter().zip(1..) {
            let (histories, errors) = state.histories(1);
            let [found] = &histories[..] else { panic!("{errors:?}") };
            assert_eq!(found.entries[0].began, Instant(number));
        }
    }
}

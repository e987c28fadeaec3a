//! The record of a pass, written by the pass and its observer; the passes that reports show; a pass that hangs.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::mem;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;
use backlog_schedule::{Attempt, Causes, Id, Instant, Outcome, cut, rough_span};
use backlog_store::{
    Failing, LineHistory, LineName, NewFailures, PassCounts, PassEnd, PassEntry, PassRecord,
    StateDir, Table, lock, ownership,
};

use super::archived::ArchivedRecords;
use super::assemble::{Assembly, line_policy};
use super::or_warn;
use super::queue_arguments::id_argument;
use crate::engine::{SettledAttempt, Stopped, Tally};
use crate::exit::{Exit, ExitError};
use crate::options::{PassSettings, Resolved};
use crate::report::{GONE_AFTER, LineReport, Screen};

/// Minimum length of a tick: cron counts in minutes.
const MIN_TICK_SECS: i64 = 60;

/// The entry and the failures of a pass, which the pass and its observer share.
#[derive(Clone)]
pub struct PassLog {
    /// The name of the pass.
    pub run: String,
    pub began: Instant,
    pub state: StateDir,
    pub line: LineName,
    /// Started by a person, not by cron.
    by_hand: bool,
    /// The beginning of the last pass, if the table does not show which records have failed: later records are new.
    new_since: Option<Instant>,
    notes: Arc<Mutex<Notes>>,
}

struct Notes {
    record: Option<PassRecord>,
    failures: NewFailures,
    archived: ArchivedRecords,
    /// The result of each named record.
    results: HashMap<Id, String>,
    may_report: Option<bool>,
}

impl PassLog {
    /// The log of a pass whose line is locked, or of attempts at named records, which are no pass of the line.
    pub fn open(
        resolved: &Resolved<'_>,
        assembly: &Assembly,
        settings: &PassSettings,
        table: &Table,
        run: String,
        began: Instant,
        by_hand: bool,
    ) -> Self {
        let (state, line) = (assembly.state.clone(), assembly.name.clone());
        let is_of_line = settings.limits.named.is_empty();
        let record = (!state.is_none() && is_of_line).then(|| {
            let entry = PassEntry {
                by_hand,
                schedule: settings.schedule.options(),
                host: host_name(),
                every: settings.options.every,
                of_file: policy_of_file(resolved).as_ref() == Some(&line.policy),
                hangs_after: hangs_after(settings),
                ..PassEntry::new(run.clone(), began)
            };
            let next = assembly.next(began, settings.limits.drain);
            PassRecord::new(state.clone(), line.clone(), assembly.last.clone(), next, entry)
        });
        // A pgmq message can store its error only in the archive.
        let keeps_errors = table.last_error.is_none() || table.capabilities().keeps_schedule;
        let notes = Arc::new(Mutex::new(Notes {
            record,
            failures: NewFailures::new(keeps_errors),
            archived: ArchivedRecords::new(table),
            results: HashMap::new(),
            may_report: None,
        }));
        let shows_failures = table.statuses.distinguish_failed()
            || table.failures.is_some()
            || table.last_failure.is_some();
        let last = assembly.last.as_ref().and_then(|last| last.state.began_at);
        let new_since = (!shows_failures).then(|| last.unwrap_or(began));
        Self { run, began, state, line, by_hand, new_since, notes }
    }

    pub fn attempted(&self, attempt: &SettledAttempt, tally: &Tally, now: Instant) {
        let Notes { record, failures, .. } = &mut *lock(&self.notes);
        let Attempt { id, outcome, .. } = attempt.attempt;
        match outcome {
            Outcome::Success => failures.succeeded(id),
            Outcome::Failure { error }
            | Outcome::Unanswered { error, .. }
            | Outcome::Snooze { error, .. }
            | Outcome::GiveUp { error } => {
                failures.failed(id, error, attempt.unstored, now);
                if let Some(PassRecord { entry, .. }) = record
                    && entry.errors.len() < ERRORS_KEPT
                {
                    entry.errors.push(format!("{id}: {}", cut(error.clone())));
                }
            }
            Outcome::Interrupted | Outcome::Unable { .. } => {}
        }
        if failures.is_full() {
            self.state.add_failures(&self.line.table, failures, now);
        }
        if let Some(record) = record {
            let is_since = |since| attempt.inserted_at >= Some(since);
            let is_new = self.new_since.map_or(attempt.was_new, is_since);
            let is_snooze = matches!(outcome, Outcome::Snooze { .. });
            let (outcomes, inserted_at) = (&mut record.outcomes, attempt.inserted_at);
            match outcome.error() {
                Some(error) if is_new && !is_snooze => outcomes.failed(inserted_at, error, now),
                None if *outcome == Outcome::Success => outcomes.succeeded(inserted_at),
                Some(_) | None => {}
            }
            record.entry.counts = counts(tally);
            record.note_progress(now);
        }
    }

    pub fn set_result(&self, id: &Id, result: String) {
        lock(&self.notes).results.insert(id.clone(), result);
    }

    pub fn result(&self, id: &Id) -> Option<String> {
        lock(&self.notes).results.get(id).cloned()
    }

    /// True if an error that may repeat in each pass is reported: under cron once an hour for all lines of a queue.
    pub fn may_report(&self, now: Instant) -> bool {
        let may = || self.by_hand || self.state.may_print(&self.line.of_queue(), "failed", now);
        *lock(&self.notes).may_report.get_or_insert_with(may)
    }

    /// Reports that nothing in the queue succeeds: at most once a day, because the message makes cron send mail.
    pub fn report_failing(&self, screen: &Screen) {
        let failing = or_warn(self.state.failing(&self.line)).flatten();
        let is_due = |failing: &Failing| match self.by_hand {
            true => failing.is_serious(screen.now),
            false => failing.is_due(screen.now) && self.may_report(screen.now),
        };
        let Some(failing) = failing.filter(is_due) else { return };
        log::error!("{}", failing.sentence(|at| screen.at(at)));
        if !self.by_hand {
            self.state.note_failing_reported(&self.line, screen.now);
        }
    }

    /// Notes an archived record. Returns true if the log names it.
    pub fn archived(&self, id: &Id, error: Option<&str>, now: Instant) -> bool {
        let is_named = lock(&self.notes).archived.add(id, error, now);
        log::log_enabled!(log::Level::Info) || is_named && self.may_report(now)
    }

    /// Reports the archived records, or leaves that to a later pass if cron has sent a mail within the hour.
    pub fn report_archived(&self, resolved: &Resolved<'_>, now: Instant) -> Result<(), ExitError> {
        let archived = mem::take(&mut lock(&self.notes).archived);
        let earlier = self.record(|record| mem::take(&mut record.next.unreported));
        let earlier = earlier.unwrap_or_default();
        if archived.count + earlier == 0 {
            return Ok(());
        }
        if !self.may_report(now) {
            self.record(|record| record.next.unreported = earlier + archived.count);
            return Ok(());
        }
        archived.log_summary(earlier, resolved)
    }

    pub fn causes(&self) -> Causes {
        lock(&self.notes).failures.causes.clone()
    }

    pub fn end(&self, now: Instant, took: Duration, result: &Result<Tally, String>, exit: Exit) {
        let (end, error) = match result {
            Err(error) => (PassEnd::Failed, Some(error.clone())),
            Ok(tally) => match &tally.stopped {
                Some(Stopped::Signal(signal)) => (PassEnd::Signal(*signal), None),
                Some(Stopped::Runtime) => (PassEnd::MaxRuntime, None),
                Some(Stopped::Stuck(why) | Stopped::Failures(why)) => {
                    (PassEnd::Failed, Some(why.clone()))
                }
                Some(Stopped::Paused) => (PassEnd::Paused, tally.incomplete.first().cloned()),
                None if tally.found_nothing => (PassEnd::Idle, None),
                None => (PassEnd::Complete, tally.incomplete.first().cloned()),
            },
        };
        let is_over = matches!(end, PassEnd::Complete | PassEnd::Idle) && error.is_none();
        self.record(|record| {
            let entry = &mut record.entry;
            // After an error, the counts of the last attempt remain.
            if let Ok(tally) = result {
                entry.counts = counts(tally);
                entry.is_complete = is_over && !tally.is_cut_short;
            }
            entry.took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
            (entry.ended, entry.end, entry.error) = (Some(now), Some(end), error.map(cut));
            entry.exit = Some(exit.code());
            record.end();
        });
        self.add_failures(now);
    }

    /// Stores the errors for which the table has no column.
    pub fn add_failures(&self, now: Instant) {
        self.state.add_failures(&self.line.table, &mut lock(&self.notes).failures, now);
    }

    pub fn record<T>(&self, act: impl FnOnce(&mut PassRecord) -> T) -> Option<T> {
        lock(&self.notes).record.as_mut().map(act)
    }
}

const ERRORS_KEPT: usize = 3;

/// Seconds without an outcome after which a pass hangs: at least ten ticks, two timeouts and two gaps between attempts.
fn hangs_after(settings: &PassSettings) -> Option<i64> {
    let secs = |span: Duration| i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
    let timeout = secs(settings.timeout?).saturating_mul(2);
    let ticks = settings.schedule.policy.every_secs().max(MIN_TICK_SECS).saturating_mul(10);
    let rate = settings.limits.rate.map_or(0, |rate| secs(rate.0));
    Some(timeout.max(ticks).max(rate.saturating_mul(2)))
}

fn counts(tally: &Tally) -> PassCounts {
    let Tally { unable, refused, ambiguous, unusable, changed, lost, busy, .. } = tally;
    PassCounts {
        succeeded: tally.succeeded,
        failed: tally.failed,
        snoozed: tally.snoozed,
        archived: tally.archived + tally.expired,
        interrupted: tally.interrupted,
        left: unable + refused + ambiguous + unusable + changed + lost + busy,
    }
}

fn policy_of_file(resolved: &Resolved<'_>) -> Option<String> {
    let (schedule, conditions, shard) = resolved.described()?;
    Some(line_policy(&schedule, &conditions, shard))
}

/// The lines of a queue, without those that had no pass for 30 days or are no longer in backlog.toml.
pub fn of_queue(
    resolved: &Resolved<'_>,
    table: &Table,
    histories: Vec<LineHistory>,
    now: Instant,
) -> Vec<LineReport> {
    let is_file = resolved.sources.file.is_some();
    let of_file = policy_of_file(resolved);
    let is_own = |history: &LineHistory| {
        let LineHistory { line, entries, is_running, .. } = history;
        let Some(last) = entries.last() else { return false };
        let is_gone = is_file && last.of_file && of_file.as_ref() != Some(&line.policy);
        let latest = entries.iter().map(|entry| entry.last_began().0).max().unwrap_or_default();
        let is_old = now.0.saturating_sub(latest) > GONE_AFTER;
        let is_forgotten = !is_running && (is_gone || is_old);
        line.queue == resolved.name() && line.table == table.name && !is_forgotten
    };
    histories.into_iter().filter(is_own).map(|history| LineReport { history }).collect()
}

pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

pub fn user_name() -> String {
    let uid = rustix::process::geteuid().as_raw();
    ownership::user_name(uid).unwrap_or_else(|| uid.to_string())
}

/// Ends a pass whose line is locked. Reports once an hour that the running pass hangs.
pub fn report_busy(resolved: &Resolved<'_>, assembly: &Assembly, now: Instant) -> Result<Exit> {
    log::warn!("a pass of this line is running; --wait waits for its end");
    let history = or_warn(assembly.state.history(&assembly.name)).flatten();
    let why = history.and_then(|history| hang(&history, now, &resolved.choice()));
    let Some(why) = why else { return Ok(Exit::Done) };
    if !assembly.state.may_print(&assembly.name, "hung", now) {
        return Ok(Exit::Done);
    }
    log::error!("{why}");
    Ok(Exit::TryLater)
}

/// The message about a pass that hangs: `backlog stop` for a slow handler, or `kill` if the process is on this host.
fn hang(history: &LineHistory, now: Instant, choice: &str) -> Option<String> {
    let (running, silent) = (history.running()?, rough_span(history.hangs_for(now)?));
    let PassEntry { began, pid, host, uid, .. } = running;
    let is_its_users = |found: Metadata| found.uid() == *uid;
    let is_here =
        *host == host_name() && fs::metadata(format!("/proc/{pid}")).is_ok_and(is_its_users);
    let slow = history.slow_handlers();
    let advice = match slow.first() {
        Some((_, id)) => format!(" `backlog stop{choice} {}` ends its handler", id_argument(id)),
        None if is_here => format!(" `kill {pid}` ends it"),
        None => String::new(),
    };
    Some(format!(
        "the pass of this line that began at {began} (pid {pid} on {host}) has had no outcome for \
         {silent}: does its handler hang?{advice}"
    ))
}

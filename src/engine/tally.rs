//! Results of attempts: the tally of a pass, the report on each attempt, and its log lines.

use std::borrow::Cow;

use backlog_schedule::{
    Attempt, DueRule, End, Instant, Outcome, Policy, Record, Settlement, Status, Transition,
    counted,
};

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Tally {
    pub succeeded: u64,
    pub failed: u64,
    pub snoozed: u64,
    /// Archived after a failed attempt.
    pub archived: u64,
    /// Archived without an attempt: the attempts are used up, or the record is too old.
    pub expired: u64,
    pub interrupted: u64,
    /// Unchanged, because the handler could not be run.
    pub unable: u64,
    /// Rows that could not be read or written.
    pub refused: u64,
    /// Outcomes that were written without their error text.
    pub unstored: u64,
    /// Not tried, because more than one row has their id.
    pub ambiguous: u64,
    pub unusable: u64,
    /// Reasons why due records may not have been found.
    pub incomplete: Vec<String>,
    /// Changed by the application while their handlers ran.
    pub changed: u64,
    /// Unchanged, because their claims were lost while their handlers ran.
    pub lost: u64,
    /// Successes that were written although their claims were lost.
    pub lost_and_written: u64,
    pub busy: u64,
    /// Errors of the handler that no record caused.
    pub faults: u64,
    pub stopped: Option<Stopped>,
    /// True if the pass ended before all due records were tried.
    pub is_cut_short: bool,
    pub found_nothing: bool,
    /// True if an attempt was made since the last search of a drain.
    pub progress: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stopped {
    Signal(i32),
    Runtime,
    /// Too many records in a row got nowhere, or the handler could not be started.
    Stuck(String),
    Failures(String),
    Paused,
}

#[derive(Debug)]
pub struct SettledAttempt<'a> {
    pub number: u32,
    pub started_at: Instant,
    pub attempt: &'a Attempt,
    pub unstored: Option<&'a str>,
    /// Failures before the attempt. `None` without a counter.
    pub failures: Option<u32>,
    pub inserted_at: Option<Instant>,
    /// True if the row showed no failure.
    pub was_new: bool,
    /// The status that was written. `None` if the row had changed, or the claim was lost.
    pub status: Option<Status>,
}

impl Tally {
    pub fn paused() -> Self {
        Self { stopped: Some(Stopped::Paused), ..Self::default() }
    }

    /// A signal replaces the end of the time or a pause as the reason, but not an error.
    pub fn note_signal(&mut self, signal: Option<i32>) {
        if let (None | Some(Stopped::Runtime | Stopped::Paused), Some(signal)) =
            (&self.stopped, signal)
        {
            self.stopped = Some(Stopped::Signal(signal));
        }
    }

    pub fn attempts(&self) -> u64 {
        self.succeeded + self.failed + self.snoozed + self.archived + self.changed + self.lost
    }

    pub fn count(&mut self, outcome: &Outcome, written: Option<&Settlement>) {
        let Some(settlement) = written else {
            self.changed += 1;
            return;
        };
        let counter = match outcome {
            _ if settlement.transition == Transition::Archived => &mut self.archived,
            Outcome::Success => &mut self.succeeded,
            Outcome::Failure { .. } | Outcome::Unanswered { .. } | Outcome::GiveUp { .. } => {
                &mut self.failed
            }
            Outcome::Snooze { .. } => &mut self.snoozed,
            Outcome::Interrupted => &mut self.interrupted,
            Outcome::Unable { .. } => &mut self.unable,
        };
        *counter += 1;
        self.progress |= !matches!(outcome, Outcome::Unable { .. });
    }
}

pub fn log_begun(record: &Record, rule: &DueRule) {
    log::info!("processing record {}{}", record.id, attempt(record, rule));
}

/// Logs an outcome. `written` is `None` if nothing was written. `unstored` says why the error is not in the row.
pub fn log_ended(
    record: &Record,
    outcome: &Outcome,
    written: Option<&Settlement>,
    unstored: Option<&str>,
    rule: &DueRule,
    format_instant: impl Fn(Instant) -> String,
) {
    let (id, mut error) = (&record.id, Cow::Borrowed(outcome.error().unwrap_or_default()));
    if let Some(why) = unstored {
        error = format!("{error} (could not be stored: {why})").into();
    }
    let Some(settlement) = written else {
        log::warn!(
            "record {id} was changed or deleted by the application while its handler ran ({}); \
             the row is left as it is",
            outcome.name()
        );
        return;
    };
    let is_archived = settlement.transition == Transition::Archived;
    let by_slots = matches!(rule.schedule.policy, Policy::Slots(_));
    let attempt = || attempt(record, rule);
    let when = || match rule.retry_at(record, settlement) {
        Some(at) => format!("will retry at {}", format_instant(at)),
        None if by_slots => "no retries left".into(),
        None => "will retry".into(),
    };
    let after = || match rule.capabilities.has_counter {
        true => format!(" after {}", counted(record.next_attempt().into(), "attempt")),
        false => String::new(),
    };
    match outcome {
        Outcome::GiveUp { .. } if is_archived => {
            log::error!("record {id} was given up by its handler{}; archived: {error}", attempt());
        }
        _ if is_archived => log::error!("record {id} failed{}; archived: {error}", after()),
        Outcome::Snooze { .. } => {
            log::warn!("record {id} was snoozed, {}{}: {error}", when(), attempt());
        }
        Outcome::Failure { .. } | Outcome::Unanswered { .. } | Outcome::GiveUp { .. } => {
            if by_slots && record.inserted_at.is_none() {
                log::error!(
                    "record {id} failed{}, and is never due by its age, because its insertion \
                     date cannot be read: {error}",
                    attempt()
                );
            } else {
                log::warn!("record {id} failed, {}{}: {error}", when(), attempt());
            }
        }
        Outcome::Success => log::info!("record {id} succeeded{}", attempt()),
        Outcome::Interrupted => log::info!("record {id} was interrupted; it stays as it was"),
        // The pass reports it.
        Outcome::Unable { .. } => {}
    }
}

pub fn log_lost(record: &Record, outcome: &Outcome, is_written: bool) {
    let (id, name) = (&record.id, outcome.name());
    let outcome = match (*outcome == Outcome::Interrupted, is_written) {
        (true, _) => "the handler was ended".into(),
        (false, true) => format!("the outcome ({name}) is written"),
        (false, false) => format!("the outcome ({name}) is not written"),
    };
    log::error!(
        "claim lost: record {id} was not held for the whole run of its handler, and another pass \
         may have tried it; {outcome}"
    );
}

pub fn log_expired(record: &Record, end: End) {
    let (id, attempts) = (&record.id, counted(record.failures.into(), "attempt"));
    match end {
        End::Attempts => log::error!("record {id} failed after {attempts}; archived"),
        End::Age => log::error!("record {id} is older than --max-age; archived"),
    }
}

/// ` (attempt 3/5)`; ` (attempt 3)` without a limit, nothing without a counter.
fn attempt(record: &Record, rule: &DueRule) -> String {
    let attempt = record.next_attempt();
    match (rule.capabilities.has_counter, rule.schedule.limits.most_attempts(record.max_attempts)) {
        (true, Some(most)) => format!(" (attempt {attempt}/{most})"),
        (true, None) => format!(" (attempt {attempt})"),
        (false, _) => String::new(),
    }
}

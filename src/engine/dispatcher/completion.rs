//! Completion of attempts: tally, log, failures that stop the pass, and the `--on-archive` command. An outcome that the
//! table refuses, or whose row is locked, is kept with its claim and written again until the pass must end.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::{Duration, Instant as Monotonic};

use anyhow::Result;
use backlog_schedule::{Attempt, Id, Outcome, Record, Settlement, Status, Transition, counted};
use backlog_store::WriteResult;

use super::{Dispatcher, InHand};
use crate::engine::tally::{log_ended, log_lost};
use crate::engine::{SettledAttempt, Stopped};
use crate::handlers::{Job, Submit};

impl Dispatcher {
    /// Takes a settled record out of `in_hand`, releases its claim, and reports the attempt.
    pub(super) fn report(
        &mut self,
        attempt: &Attempt,
        settlement: &Settlement,
        applied: &WriteResult,
        unstored: Option<&str>,
    ) {
        let in_hand = self.in_hand.remove(&attempt.id);
        let Some(InHand { record, started_at, .. }) = in_hand else { return };
        self.move_cursor(&record.id, &attempt.outcome);
        self.pass.store.release(&record.id);
        let written = match applied {
            WriteResult::Written | WriteResult::WrittenAfterLoss | WriteResult::Charged(_) => {
                Some(settlement)
            }
            WriteResult::ChangedMeanwhile | WriteResult::ClaimLost => None,
            WriteResult::Refused(error) => {
                let mut why = error.why.clone();
                if attempt.outcome == Outcome::Success {
                    // Each of these may have to be set by hand.
                    self.breaker.log_repeated();
                    why += "; its handler succeeded";
                }
                return self.write_refused(&record, settlement.status(record.status), &why);
            }
        };
        self.tally_and_log(&record, &attempt.outcome, applied, written, unstored);
        if written.is_some_and(|written| written.transition == Transition::Archived) {
            self.start_on_archive(&record, record.next_attempt(), attempt.outcome.error());
        }
        self.count_failures(&attempt.outcome);
        if attempt.outcome.got_further() {
            self.got_further();
        } else if let Outcome::Unable { error, ends_pass } = &attempt.outcome {
            self.unable(&record, error, *ends_pass);
        } else if attempt.outcome != Outcome::Interrupted {
            self.got_nowhere(&record);
        }
        let settled = SettledAttempt {
            number: record.next_attempt(),
            started_at,
            attempt,
            unstored,
            failures: self.rule.capabilities.has_counter.then_some(record.failures),
            inserted_at: record.inserted_at,
            was_new: record.status == Status::New
                && (record.failures, record.last_failure_at) == (0, None),
            status: written.map(|settlement| settlement.status(record.status)),
        };
        self.pass.observer.attempted(&settled, &self.tally);
    }

    fn move_cursor(&mut self, id: &Id, outcome: &Outcome) {
        let is_undone = match outcome {
            Outcome::Interrupted | Outcome::Unable { ends_pass: true, .. } => true,
            // If the pass is cut short, this counts as the attempt, so that the record does not keep its slot.
            Outcome::Unable { ends_pass: false, .. } => !self.is_cut_short(),
            Outcome::Success
            | Outcome::Failure { .. }
            | Outcome::Unanswered { .. }
            | Outcome::Snooze { .. }
            | Outcome::GiveUp { .. } => false,
        };
        if is_undone { self.cursor.undone(id) } else { self.cursor.settled(id) }
    }

    fn tally_and_log(
        &mut self,
        record: &Record,
        outcome: &Outcome,
        applied: &WriteResult,
        written: Option<&Settlement>,
        unstored: Option<&str>,
    ) {
        if let Some(why) = unstored {
            self.tally.unstored += 1;
            self.unstored.get_or_insert_with(|| (record.id.clone(), why.to_string()));
        }
        if *applied == WriteResult::ClaimLost {
            self.tally.lost += 1;
            return log_lost(record, outcome, false);
        }
        if *applied == WriteResult::WrittenAfterLoss {
            self.tally.lost_and_written += 1;
            log_lost(record, outcome, true);
        }
        self.tally.count(outcome, written);
        let (observer, error) = (&mut self.pass.observer, outcome.error());
        let is_wanted = match written.map(|written| written.transition) {
            Some(Transition::Archived) => observer.archived(record, error),
            Some(_) | None => error.is_none_or(|error| observer.wants_log_line(error)),
        };
        if is_wanted || written.is_none() {
            let format = |at| observer.format_instant(at);
            log_ended(record, outcome, written, unstored, &self.rule, format);
        }
    }

    fn count_failures(&mut self, outcome: &Outcome) {
        let error = match outcome {
            Outcome::Failure { error }
            | Outcome::Unanswered { error, .. }
            | Outcome::Snooze { error, .. }
            | Outcome::GiveUp { error } => error,
            Outcome::Success => return self.breaker.failures_in_a_row = 0,
            Outcome::Interrupted | Outcome::Unable { .. } => return,
        };
        self.breaker.failures_in_a_row += 1;
        let failures = self.breaker.failures_in_a_row;
        if self.pass.limits.max_consecutive_failures.is_some_and(|most| failures >= most)
            && self.tally.stopped.is_none()
        {
            let failed = counted(failures.into(), "attempt");
            self.stop(Stopped::Failures(format!(
                "{failed} failed in a row, the last one: {error}; the pass stops here"
            )));
        }
    }

    pub(super) fn write_refused(&mut self, record: &Record, status: Status, error: &str) {
        self.tally_refused(&record.id, format!("could not be set to {}: {error}", status.name()));
        self.got_nowhere(record);
    }

    pub(super) fn start_on_archive(&self, record: &Record, attempts: u32, error: Option<&str>) {
        let Some(on_archive) = &self.handlers.on_archive else { return };
        let record = Arc::new(Record {
            status: Status::Archived,
            failures: attempts,
            last_error: error.map(String::from),
            ..record.clone()
        });
        let submit: Submit = Arc::new(|ended| {
            let failed = ended.iter().filter(|attempt| attempt.outcome != Outcome::Success);
            for Attempt { id, outcome, .. } in failed {
                let why = outcome.error().unwrap_or("the pass was stopped");
                log::error!("record {id} is archived, but --on-archive failed: {why}");
            }
        });
        on_archive.start(vec![Job { record, attempt: attempts, submit }]);
    }
}

/// Maximum time for which a pass with nothing else to do waits until a refused outcome can be written.
const MAX_IDLE_WAIT: Duration = Duration::from_secs(60);
/// Minimum time between two attempts to write.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct Unwritten {
    pub attempts: Vec<Attempt>,
    deadlines: HashMap<Id, Monotonic>,
    next_at: Option<Monotonic>,
    /// True if the pass ends and keeps no more outcomes.
    pub is_over: bool,
}

impl Unwritten {
    /// True if a pass with nothing else to do waits for one of them.
    pub fn is_worth_waiting(&self, now: Monotonic) -> bool {
        let is_in_time = |id| self.deadlines.get(id).is_some_and(|at| now < *at);
        self.attempts.iter().any(|attempt| is_in_time(&attempt.id))
    }
}

impl Dispatcher {
    /// Keeps a refused outcome to write it again. Returns false if the pass ends.
    pub(super) fn keep_unwritten(
        &mut self,
        attempt: &Attempt,
        settlement: &Settlement,
        why: &str,
    ) -> bool {
        if self.unwritten.is_over {
            return false;
        }
        let now = self.pass.clock.monotonic();
        self.unwritten.attempts.push(attempt.clone());
        self.unwritten.next_at.get_or_insert(now + PAUSE);
        if let Entry::Vacant(first) = self.unwritten.deadlines.entry(attempt.id.clone()) {
            first.insert(now + MAX_IDLE_WAIT);
            // A drain does not find the record again.
            self.breaker.skipped.insert(attempt.id.clone());
            let in_hand = self.in_hand.get(&attempt.id);
            let status = in_hand.map_or("", |held| settlement.status(held.record.status).name());
            log::warn!(
                "record {} could not be set to {status} yet: {why}; trying again",
                attempt.id
            );
        }
        true
    }

    /// Time until the outcomes are written again; `None` in a pass that stops.
    pub(super) fn write_again_in(&self) -> Option<Duration> {
        let is_over = self.cannot_write || self.pass.stop.is_stopping();
        let next_at = self.unwritten.next_at.filter(|_| !is_over)?;
        Some(self.pass.clock.until(next_at))
    }

    pub(super) fn write_again(&mut self) -> Result<()> {
        let Some(next_at) = self.unwritten.next_at else { return Ok(()) };
        let clock = self.pass.clock;
        let began_at = clock.monotonic();
        if began_at < next_at {
            return Ok(());
        }
        self.unwritten.next_at = None;
        let attempts = std::mem::take(&mut self.unwritten.attempts);
        if let Err(error) = self.write_outcomes(&attempts) {
            self.unwritten.attempts = attempts;
            return Err(error);
        }
        // Other records get at least as much time as a write that waits for a locked row.
        if let Some(next_at) = &mut self.unwritten.next_at {
            let ended_at = clock.monotonic();
            *next_at = ended_at + PAUSE.max(ended_at - began_at);
        }
        Ok(())
    }
}

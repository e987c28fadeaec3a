//! Completion of attempts: the tally, the joblog, the failures that stop the pass, and the
//! `--on-archive` command for each record that is archived.

use std::sync::Arc;

use super::{Dispatcher, InHand};
use crate::engine::tally::{log_ended, log_lost};
use crate::engine::{SettledAttempt, Stopped};
use crate::handlers::{Job, Submit};
use crate::record::{Attempt, Outcome, Record, Settlement, Status, Transition, counted};
use crate::store::WriteResult;

impl Dispatcher {
    pub(super) fn book(
        &mut self,
        attempt: &Attempt,
        settlement: &Settlement,
        applied: &WriteResult,
        unstored: Option<&str>,
    ) {
        let in_hand = self.in_hand.remove(&attempt.id);
        let Some(InHand { record, started_at, .. }) = in_hand else { return };
        let was_unable = matches!(attempt.outcome, Outcome::Unable { ends_pass: false, .. });
        let was_no_attempt =
            matches!(attempt.outcome, Outcome::Interrupted | Outcome::Unable { .. });
        // Where the pass does not come to all the others, it had its turn.
        if was_no_attempt && !(was_unable && self.is_cut_short()) {
            self.cursor.came_back(&record.id);
        } else {
            self.cursor.settled(&record.id);
        }
        self.pass.store.release(&record.id);
        let written = match applied {
            WriteResult::Written | WriteResult::WrittenAfterLoss | WriteResult::Charged(_) => {
                Some(settlement)
            }
            WriteResult::ChangedMeanwhile | WriteResult::ClaimLost => None,
            WriteResult::Refused(error) => {
                let status = settlement.status(record.status);
                if attempt.outcome != Outcome::Success {
                    return self.refused(&record, status, &error.why);
                }
                // A person may have to set each of these by hand.
                self.breaker.say_repeated();
                return self.refused(
                    &record,
                    status,
                    &format!("{}; its handler succeeded", error.why),
                );
            }
        };
        if *applied == WriteResult::WrittenAfterLoss {
            self.tally.lost_and_written += 1;
            log_lost(&record, &attempt.outcome, true);
        }
        if *applied == WriteResult::ClaimLost {
            self.tally.lost += 1;
            log_lost(&record, &attempt.outcome, false);
        } else {
            self.tally.count(&attempt.outcome, written);
            let (observer, error) = (&mut self.pass.observer, attempt.outcome.error());
            let is_wanted = match written.map(|written| written.transition) {
                Some(Transition::Archived) => {
                    observer.archived(&record, record.next_attempt(), error)
                }
                Some(_) | None => error.is_none_or(|error| observer.wants_log_line(error)),
            };
            if is_wanted || written.is_none() {
                let shown = |at| observer.shown(at);
                log_ended(&record, &attempt.outcome, written, unstored, &self.rule, shown);
            }
        }
        if written.is_some_and(|written| written.transition == Transition::Archived) {
            self.tell_of_archived(&record, record.next_attempt(), attempt.outcome.error());
        }
        if let Some(why) = unstored {
            self.tally.unstored += 1;
            self.unstored.get_or_insert_with(|| (record.id.clone(), why.to_string()));
        }
        self.count_failures(&attempt.outcome);
        if attempt.outcome.got_further() {
            self.got_further();
        } else if let Outcome::Unable { error, ends_pass } = &attempt.outcome {
            self.unable(&record, error, *ends_pass);
        } else if attempt.outcome != Outcome::Interrupted {
            self.got_nowhere(&record);
        }
        self.pass.observer.attempted(&SettledAttempt {
            number: record.next_attempt(),
            started_at,
            attempt,
            unstored,
            failures: self.rule.capabilities.has_counter.then_some(record.failures),
            inserted_at: record.inserted_at,
            status: written.map(|settlement| settlement.status(record.status)),
        });
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

    pub(super) fn refused(&mut self, record: &Record, status: Status, error: &str) {
        self.refuse(&record.id, format!("could not be set to {}: {error}", status.name()));
        self.got_nowhere(record);
    }

    /// Hands a record on that was archived just now, after so many attempts: no later pass does.
    pub(super) fn tell_of_archived(&self, record: &Record, attempts: u32, error: Option<&str>) {
        let Some(on_archive) = &self.handlers.on_archive else { return };
        let record = Arc::new(Record {
            status: Status::Archived,
            failures: attempts,
            last_error: error.map(String::from),
            ..record.clone()
        });
        let submit: Submit = Arc::new(|ended| {
            for Attempt { id, outcome, .. } in
                ended.iter().filter(|it| it.outcome != Outcome::Success)
            {
                let why = outcome.error().unwrap_or("the pass was stopped");
                log::error!("record {id} is archived, but --on-archive was not done: {why}");
            }
        });
        on_archive.start(vec![Job { record, attempt: attempts, submit }]);
    }
}

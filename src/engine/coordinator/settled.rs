//! What is noted of attempts that are over, and which of them stop the pass.

use super::{Coordinator, InHand};
use crate::engine::{Attempt, Stopped, say};
use crate::record::{Answer, Id, Outcome, Settlement, Status, Step, counted};
use crate::store::Applied;

impl Coordinator {
    /// Books one attempt, its row being written.
    pub(super) fn settled(&mut self, answer: &Answer, settlement: &Settlement, applied: &Applied) {
        let Some(in_hand) = self.in_hand.remove(&answer.id) else {
            return;
        };
        let InHand { record, started_at, slot, .. } = in_hand;
        match answer.outcome {
            Outcome::Interrupted | Outcome::Unable { .. } => self.progress.came_back(slot),
            Outcome::Success
            | Outcome::Failure { .. }
            | Outcome::Unanswered { .. }
            | Outcome::Snooze { .. }
            | Outcome::GiveUp { .. } => self.progress.settled(slot),
        }
        self.pass.store.release(&record.id);
        let unable_before = std::mem::take(&mut self.unable_last);
        let written = match applied {
            Applied::Written => Some(settlement),
            Applied::ChangedMeanwhile | Applied::ClaimLost => None,
            Applied::Refused(error) => {
                return self.refused(&record.id, settlement.status(record.status), error);
            }
        };
        if *applied == Applied::ClaimLost {
            self.summary.lost += 1;
            say::lost(&record, &answer.outcome);
        } else {
            self.summary.count(&answer.outcome, written);
            say::ended(&record, &answer.outcome, written, &self.pass.look);
        }
        if written.is_some_and(|written| written.step == Step::Archived) {
            self.tell_of_archived(&record, record.next_attempt(), answer.outcome.error());
        }
        self.count_failures(&answer.outcome);
        if let Outcome::Unable { error, ends_pass } = &answer.outcome {
            self.unable(&answer.id, error, *ends_pass || unable_before);
        }
        self.pass.observer.attempted(&Attempt {
            attempt: record.next_attempt(),
            started_at,
            answer,
            status: written.map(|settlement| settlement.status(record.status)),
        });
    }

    /// A handler that cannot be run for any record stops the pass. One that exits as if it could
    /// not may do so for this record only, unless it did for the one before as well.
    fn unable(&mut self, id: &Id, error: &str, ends_pass: bool) {
        self.unable_last = true;
        self.unable.insert(id.clone());
        let message = format!("record {id} stays as it was: {error}");
        if !ends_pass {
            log::error!("{message}");
        } else if self.summary.stopped.is_none() {
            self.stop(Stopped::Unable(message));
        }
    }

    /// So many failures in a row that what the handler needs is evidently down stop the pass.
    fn count_failures(&mut self, outcome: &Outcome) {
        let error = match outcome {
            Outcome::Failure { error }
            | Outcome::Unanswered { error, .. }
            | Outcome::Snooze { error, .. }
            | Outcome::GiveUp { error } => error,
            Outcome::Success => {
                self.failures_in_a_row = 0;
                return;
            }
            Outcome::Interrupted | Outcome::Unable { .. } => return,
        };
        self.failures_in_a_row += 1;
        let failures = self.failures_in_a_row;
        if self.pass.limits.max_consecutive_failures.is_some_and(|most| failures >= most)
            && self.summary.stopped.is_none()
        {
            let failed = counted(failures.into(), "attempt");
            self.stop(Stopped::Failures(format!(
                "{failed} failed in a row, the last one: {error}"
            )));
        }
    }

    /// A table that refuses one record may refuse them all: no handler is run for nothing.
    pub(super) fn refused(&mut self, id: &Id, status: Status, error: &str) {
        let status = status.name();
        let message = format!("record {id} could not be set to {status}: {error}");
        if self.summary.stopped.is_some() {
            log::error!("{message}");
        } else {
            self.stop(Stopped::Refused(message));
        }
    }
}

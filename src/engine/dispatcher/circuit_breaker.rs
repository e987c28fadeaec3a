//! The circuit breaker counts records that get nowhere: the table refuses a write, the handler cannot be run, or its
//! server is unreachable. The pass skips each of them, and ends after too many in a row.

use std::collections::HashSet;

use backlog_schedule::{Attempt, Id, Outcome, Record, Slot, SortKey, Status, counted};
use backlog_store::ReadResult;

use super::{Dispatcher, first_of};
use crate::engine::Stopped;
use crate::engine::due_queue::PlanKind;

const MOST_IN_A_ROW: usize = 10;
const MOST_NAMED: usize = 50;

#[derive(Default)]
pub struct CircuitBreaker {
    /// Records that this pass does not try again.
    pub skipped: HashSet<Id>,
    /// Records that got nowhere since the last record that got further.
    in_a_row: HashSet<Id>,
    /// The last of them. The next pass begins after it if this pass is cut short.
    pub last: Option<SortKey>,
    /// Attempts whose handler could not be run, until another record gets further or the pass ends.
    pub doubtful: Vec<Attempt>,
    pub others_got_further: bool,
    pub failures_in_a_row: u32,
    /// The last message, and the other records with the same message.
    last_message: Option<(String, Vec<Id>)>,
}

impl CircuitBreaker {
    pub fn is_doubtful(&self, id: &Id) -> bool {
        self.doubtful.iter().any(|attempt| attempt.id == *id)
    }

    /// Logs a message about a record, and counts the records after it with the same message.
    fn log(&mut self, id: &Id, what: String) {
        if let Some((_, others)) = self.last_message.as_mut().filter(|(before, _)| *before == what)
        {
            others.push(id.clone());
        } else {
            self.log_repeated();
            log::error!("record {id} {what}");
            self.last_message = Some((what, Vec::new()));
        }
    }

    pub fn log_repeated(&mut self) {
        let Some((_, others)) = self.last_message.take().filter(|(_, others)| !others.is_empty())
        else {
            return;
        };
        let records = counted(others.len() as u64, "more record");
        log::error!("{records}: the same ({})", first_of(others.iter(), MOST_NAMED));
    }
}

impl Dispatcher {
    pub(super) fn skip_and_count(&mut self, record: &Record, slot: Option<Slot>, why: &str) {
        self.skip_refused(record, slot, why);
        self.got_nowhere(record);
    }

    /// Skips a record for which the table refuses a write.
    pub(super) fn skip_refused(&mut self, record: &Record, slot: Option<Slot>, why: &str) {
        self.cursor.passed(record, slot);
        self.breaker.skipped.insert(record.id.clone());
        self.tally_refused(&record.id, format!("is not tried: {why}"));
    }

    pub(super) fn tally_refused(&mut self, id: &Id, what: String) {
        self.tally.refused += 1;
        self.breaker.log(id, what);
        self.forget_slot(id);
    }

    /// Returns the attempts that can be settled: those that are not doubtful, and all once another record got further.
    pub(super) fn without_doubtful(&mut self, ended: Vec<Attempt>) -> Vec<Attempt> {
        let any_got_further = ended.iter().any(|attempt| attempt.outcome.got_further());
        if any_got_further {
            self.got_further();
        }
        let is_doubtful =
            |attempt: &Attempt| matches!(attempt.outcome, Outcome::Unable { ends_pass: false, .. });
        let (doubtful, mut certain): (Vec<_>, Vec<_>) = ended.into_iter().partition(is_doubtful);
        for attempt in &doubtful {
            self.breaker.skipped.insert(attempt.id.clone());
            // Attempts that ended together with one that got further are not in a row.
            if !any_got_further && let Some(in_hand) = self.in_hand.get(&attempt.id) {
                self.got_nowhere(&in_hand.record.clone());
            }
        }
        self.breaker.doubtful.extend(doubtful);
        if self.breaker.others_got_further {
            certain.extend(self.breaker.doubtful.drain(..).map(Attempt::into_failure));
        }
        certain
    }

    pub(super) fn unable(&mut self, record: &Record, error: &str, ends_pass: bool) {
        let what = format!("stays as it was: {error}");
        if ends_pass && self.tally.stopped.is_none() {
            // At the first attempt of a pass, no record is to blame.
            let is_first = self.tally.attempts() == 0 && self.breaker.in_a_row.is_empty();
            self.breaker.last = if is_first { None } else { self.restart_key(record) };
            self.stop(Stopped::Stuck(format!("record {} {what}; the pass stops here", record.id)));
        } else if self.pass.observer.may_report() {
            self.breaker.log(&record.id, what);
        } else {
            log::warn!("record {} {what}", record.id);
        }
    }

    pub(super) fn got_further(&mut self) {
        self.breaker.others_got_further = true;
        if !self.is_stuck() {
            self.breaker.in_a_row.clear();
            self.breaker.last = None;
        }
    }

    fn is_stuck(&self) -> bool {
        matches!(self.tally.stopped, Some(Stopped::Stuck(_)))
    }

    /// The key after which the next pass begins, unless failed records are searched in another order.
    fn restart_key(&self, record: &Record) -> Option<SortKey> {
        let is_in_order = record.status == Status::New || matches!(self.plan.kind, PlanKind::Full);
        is_in_order.then(|| record.key())
    }

    pub(super) fn got_nowhere(&mut self, record: &Record) {
        let id = &record.id;
        self.breaker.skipped.insert(id.clone());
        self.breaker.in_a_row.insert(id.clone());
        if !self.is_stuck() {
            self.breaker.last = self.restart_key(record).or(self.breaker.last.take());
        }
        let in_a_row = self.breaker.in_a_row.len();
        if in_a_row >= MOST_IN_A_ROW && self.tally.stopped.is_none() {
            self.stop(Stopped::Stuck(format!(
                "{in_a_row} records in a row got nowhere, the last one is {id}: this pass ends, and the \
                 next pass begins after them"
            )));
        }
    }

    /// Keeps the slot of a due record that cannot be tried now.
    pub(super) fn keep_slot(&mut self, id: &Id) {
        if self.rule.time.span.is_some()
            && !self.rule.kept.contains_key(id)
            && let Ok(ReadResult::Record(record)) = self.pass.store.read(id)
            && let Some(slot) = self.rule.verdict(record.facts()).slot()
        {
            let kept = self.cursor.keep(id, slot).clone();
            self.rule.kept.insert(id.clone(), kept);
        }
    }

    pub(super) fn forget_slot(&mut self, id: &Id) {
        self.rule.kept.remove(id);
        self.cursor.settled(id);
    }
}

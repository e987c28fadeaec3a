//! The due rule: the verdict on a record, by the policy, by the limits that end it, and by what the
//! record itself says.

use std::collections::HashMap;

use super::{Capabilities, End, Obstacle, PassTime, Reason, Schedule, exhausted};
use crate::query::Kept;
use crate::record::{Counter, Facts, Id, Record, Settlement, Status};
use crate::time::Instant;

#[derive(Debug, Clone)]
pub struct DueRule {
    pub schedule: Schedule,
    pub capabilities: Capabilities,
    pub time: PassTime,
    /// Records that have kept a slot, which earlier passes could not try them for.
    pub kept: HashMap<Id, Kept>,
}

/// The verdict on a record: what a pass does with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Due(Reason),
    /// It is archived without another attempt.
    Archive(End),
    Wait {
        until: Instant,
    },
    /// Nothing under this policy, however long it waits.
    Never(Obstacle),
}

impl DueRule {
    /// A record that has grown too old is given up at once, one that has had its last attempt
    /// when it would be due.
    pub fn verdict(&self, facts: Facts<'_>) -> Verdict {
        if self.schedule.shard.is_some_and(|shard| !shard.holds(facts.id)) {
            return Verdict::Never(Obstacle::OtherShard);
        }
        let snoozed_until = facts
            .snoozed_until
            .filter(|until| facts.status == Status::Error && *until > self.time.now);
        let verdict = match facts.due_at.filter(|_| facts.status.is_pending()) {
            None => later(self.scheduled(facts), snoozed_until),
            Some(until) if until > self.time.now => Verdict::Wait { until },
            Some(_) if facts.status == Status::New => Verdict::Due(Reason::New),
            Some(_) => Verdict::Due(Reason::WaitOver),
        };
        match (exhausted(facts, self.schedule.limits, self.time.now), verdict) {
            (Some(End::Age), _) => Verdict::Archive(End::Age),
            (Some(End::Attempts), Verdict::Due(_)) => Verdict::Archive(End::Attempts),
            (Some(End::Attempts) | None, verdict) => verdict,
        }
    }

    fn scheduled(&self, facts: Facts<'_>) -> Verdict {
        match self.kept.get(facts.id).filter(|_| facts.status == Status::Error) {
            Some(kept) => Verdict::Due(Reason::Slot(kept.slot)),
            None => self.schedule.policy.verdict(facts, self.time),
        }
    }

    /// When a record that has just failed, as `settlement` has it, is tried again, as far as the
    /// policy alone decides that.
    pub fn retry_at(&self, record: &Record, settlement: &Settlement) -> Option<Instant> {
        let Counter::Set { failures, last_failure_at, .. } = &settlement.counter else {
            return None;
        };
        let facts = Facts {
            status: settlement.status(record.status),
            failures: *failures,
            last_failure_at: Some(*last_failure_at),
            due_at: None,
            snoozed_until: None,
            ..record.facts()
        };
        let Some(until) = settlement.not_before.filter(|until| *until > self.time.now) else {
            return self.schedule.policy.next_attempt(facts, self.time).map(|next| next.now);
        };
        // Of the slots the first one counts that comes after it.
        let time = self.schedule.policy.pass_time(None, until, false);
        self.schedule.policy.next_attempt(facts, time).map(|next| next.now.max(until))
    }
}

/// The verdict on a record that is snoozed.
fn later(verdict: Verdict, snoozed_until: Option<Instant>) -> Verdict {
    match (verdict, snoozed_until) {
        (Verdict::Due(_), Some(until)) => Verdict::Wait { until },
        (Verdict::Wait { until }, Some(snoozed)) => Verdict::Wait { until: until.max(snoozed) },
        (verdict @ (Verdict::Archive(_) | Verdict::Never(_)), _) | (verdict, None) => verdict,
    }
}

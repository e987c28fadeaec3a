//! The due rule: the verdict on a record by policy, limits and values of the row; and the forecast.

use std::collections::HashMap;

use crate::id::Id;
use crate::policy::{PassTime, Policy, Schedule};
use crate::query::Kept;
use crate::record::{Capabilities, Counter, Facts, Outcome, Record, Settlement, Status};
use crate::settle::{End, charge, exhausted, settle};
use crate::time::{BEYOND, Instant};
use crate::verdict::{Obstacle, Reason, Verdict};

#[derive(Debug, Clone)]
pub struct DueRule {
    pub schedule: Schedule,
    pub capabilities: Capabilities,
    pub time: PassTime,
    pub kept: HashMap<Id, Kept>,
}

impl DueRule {
    /// The verdict on a record. A failed record without attempts left is archived once it is due; one that is only too
    /// old, at once.
    pub fn verdict(&self, facts: Facts<'_>) -> Verdict {
        if self.schedule.shard.is_some_and(|shard| !shard.holds(facts.id)) {
            return Verdict::Never(Obstacle::OtherShard);
        }
        let verdict = match (self.verdict_by_policy(facts), facts.due_at) {
            (Verdict::Never(why), _) if why != Obstacle::OutOfSlots => Verdict::Never(why),
            (verdict, None) if !self.capabilities.has_due_column => verdict,
            (_, Some(BEYOND)) if self.capabilities.has_due_column => {
                Verdict::Never(Obstacle::NoDueDate)
            }
            (_, Some(until)) if until > self.time.now => Verdict::Wait { until },
            _ if facts.status == Status::New => Verdict::Due(Reason::New),
            _ => Verdict::Due(Reason::WaitOver),
        };
        let is_left = matches!(verdict, Verdict::Never(Obstacle::TooOld | Obstacle::OutOfSlots));
        match (self.exhausted(facts, self.time.now, is_left), verdict) {
            (Some(End::Age), _) => Verdict::Archive(End::Age),
            (Some(End::Attempts), Verdict::Due(_)) if !self.has_one_more(facts) => {
                Verdict::Archive(End::Attempts)
            }
            (Some(End::Attempts) | None, verdict) => verdict,
        }
    }

    /// The limit that a failed record reached. Where failed records look like new ones, a record may not have been
    /// tried yet, so that its age ends it only after a failure, or if nothing tries it any more.
    fn exhausted(&self, facts: Facts<'_>, now: Instant, is_left: bool) -> Option<End> {
        let end = exhausted(facts, self.schedule.limits, now);
        end.filter(|end| *end != End::Age || self.capabilities.shows_failed || is_left)
    }

    /// The verdict on a record without a due date. A failed record may have kept its slot or be snoozed.
    fn verdict_by_policy(&self, facts: Facts<'_>) -> Verdict {
        let is_failed = facts.status == Status::Error;
        let verdict = match self.kept.get(facts.id).filter(|_| is_failed) {
            Some(kept) => Verdict::Due(Reason::Slot(kept.slot)),
            None => self.schedule.policy.verdict(facts, self.time),
        };
        let snoozed_until = facts.snoozed_until.filter(|at| is_failed && *at > self.time.now);
        match (verdict, snoozed_until) {
            (Verdict::Due(_), Some(until)) => Verdict::Wait { until },
            (Verdict::Wait { until }, Some(snoozed)) => Verdict::Wait { until: until.max(snoozed) },
            (verdict, _) => verdict,
        }
    }

    /// True if a record at its limit gets one more attempt: a killed pass may have charged it before a handler ran.
    pub fn has_one_more(&self, facts: Facts<'_>) -> bool {
        let most = self.schedule.limits.most_attempts(facts.max_attempts);
        let is_at_limit = facts.status == Status::Error && most == Some(facts.failures);
        let shows_begun = self.capabilities.notes_begun && !self.capabilities.keeps_schedule;
        is_at_limit && (facts.has_begun || !shows_begun)
    }

    /// The instant at which a due record became due. With --ndays a failed record is due at each pass.
    pub fn due_since(
        &self,
        facts: Facts<'_>,
        reason: Reason,
        next_pass: Option<Instant>,
    ) -> Option<Instant> {
        let policy = &self.schedule.policy;
        let since = facts.due_at.or_else(|| match (reason, policy) {
            (Reason::New, _) => facts.inserted_at,
            (Reason::WithinAge, Policy::Age(age)) if facts.status == Status::New => {
                facts.inserted_at.map(|at| at.saturating_add(age.min_secs))
            }
            (Reason::WaitOver, Policy::Counted(backoff)) if !self.capabilities.has_due_column => {
                let failed_at = facts.last_failure_at?;
                Some(backoff.next_attempt_at(facts.id, facts.failures, failed_at))
            }
            (Reason::Slot(slot), Policy::Slots(slots)) => Some(slots.instant(slot.tick)),
            // A record whose delay cannot be calculated is due at each pass too.
            _ => next_pass,
        });
        since.max(facts.snoozed_until)
    }

    pub fn may_archive(&self) -> bool {
        let limits = &self.schedule.limits;
        self.capabilities.may_give_up || limits.limits_attempts() || limits.max_age_secs.is_some()
    }

    /// The writes that a pass may need for a record. The table must accept them before a handler runs.
    pub fn possible_writes(&self, record: &Record, now: Instant) -> Vec<Vec<Settlement>> {
        let (capabilities, limits) = (self.capabilities, self.schedule.limits);
        let end = |outcome| settle(record, &outcome, now, capabilities, limits);
        let mut ends =
            vec![end(Outcome::Success), end(Outcome::Failure { error: "rehearsal".into() })];
        if self.may_archive() {
            ends.push(end(Outcome::GiveUp { error: "rehearsal".into() }));
        }
        let charge = capabilities.has_charge().then(|| charge(record, now, capabilities));
        ends.into_iter().map(|end| charge.iter().cloned().chain([end]).collect()).collect()
    }

    /// The next attempt after this settlement. `None` if only cron decides it, if no slot is left or no date is known,
    /// or if the counter stays as it is.
    pub fn retry_at(&self, record: &Record, settlement: &Settlement) -> Option<Instant> {
        let Counter::Set { failures, last_failure_at, .. } = &settlement.counter else {
            return None;
        };
        let (failures, last_failure_at) = (*failures, Some(*last_failure_at));
        let facts = Facts { failures, last_failure_at, ..record.facts() };
        let Some(until) = settlement.not_before.filter(|until| *until > self.time.now) else {
            return self.schedule.policy.next_attempt(facts, self.time).map(|next| next.now);
        };
        // The first slot after `until` counts.
        let time = self.schedule.policy.pass_time(None, until, false);
        self.schedule.policy.next_attempt(facts, time).map(|next| next.now.max(until))
    }

    /// The attempts to come if each of them fails. No pass begins before `soonest`.
    pub fn forecast<'a>(
        &'a self,
        mut facts: Facts<'a>,
        soonest: Instant,
    ) -> impl Iterator<Item = Planned> {
        let Schedule { policy, limits, .. } = &self.schedule;
        let mut next = self.next_pass(facts, soonest);
        let mut has_one_more = self.has_one_more(facts);
        std::iter::from_fn(move || {
            let time = next.take()?;
            let is_over = self.exhausted(facts, time.now, false);
            if is_over.is_some_and(|end| end == End::Age || !std::mem::take(&mut has_one_more)) {
                return None;
            }
            let attempt = facts.failures.saturating_add(1);
            (facts.status, facts.failures) = (Status::Error, attempt);
            facts.last_failure_at = Some(time.now);
            let is_last = exhausted(facts, *limits, time.now).is_some();
            // A delay of 0 ends with the next pass.
            let soonest = time.now.next_tick(policy.every_secs());
            next = policy.next_attempt(facts, time).filter(|_| !is_last);
            next = next.map(|next| PassTime { now: next.now.max(soonest), ..next });
            Some(Planned { at: time.now, attempt, is_last })
        })
    }

    fn next_pass(&self, facts: Facts<'_>, soonest: Instant) -> Option<PassTime> {
        let (policy, time) = (&self.schedule.policy, self.time);
        match self.verdict(facts) {
            Verdict::Due(_) if time.now < soonest => {
                Some(policy.pass_time(time.span.map(|span| span.after), soonest, false))
            }
            Verdict::Due(_) => Some(time),
            Verdict::Wait { until } if facts.due_at.or(facts.snoozed_until) == Some(until) => {
                Some(policy.pass_time(None, until, false))
            }
            Verdict::Wait { .. } => policy.next_attempt(facts, time),
            Verdict::Archive(_) | Verdict::Never(_) => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    pub at: Instant,
    /// Number of the attempt. Without a counter the forecast begins with 1.
    pub attempt: u32,
    /// True if a failure archives the record.
    pub is_last: bool,
}

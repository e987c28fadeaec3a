//! The forecast: attempts that a record will have, if every one of them fails.

use super::{DueRule, PassTime, Schedule, Verdict, exhausted};
use crate::record::{Facts, Status};
use crate::time::Instant;

/// Goes from attempt to attempt, from the moment of a look on.
pub struct Forecast<'a> {
    rule: &'a DueRule,
    /// The record as it will be.
    facts: Facts<'a>,
    /// The pass that will try it next.
    next: Option<PassTime>,
}

/// One attempt to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    pub at: Instant,
    /// 1 for the first; without a counter it is only this program that counts.
    pub attempt: u32,
    /// Whether its failure ends in ARCHIVED.
    pub is_last: bool,
}

impl<'a> Forecast<'a> {
    /// There is no pass before `soonest`.
    pub fn new(rule: &'a DueRule, facts: Facts<'a>, soonest: Instant) -> Self {
        let (policy, time) = (&rule.schedule.policy, &rule.time);
        let next = match rule.verdict(facts) {
            Verdict::Due(_) if time.now < soonest => {
                Some(policy.pass_time(time.span.map(|span| span.after), soonest, false))
            }
            Verdict::Due(_) => Some(*time),
            Verdict::Wait { until } if facts.due_at.or(facts.snoozed_until) == Some(until) => {
                Some(policy.pass_time(None, until, false))
            }
            Verdict::Wait { .. } => policy.next_attempt(facts, *time),
            Verdict::Archive(_) | Verdict::Never(_) => None,
        };
        Self { rule, facts, next }
    }
}

impl Iterator for Forecast<'_> {
    type Item = Planned;

    fn next(&mut self) -> Option<Planned> {
        let time = self.next.take()?;
        let Schedule { policy, limits, .. } = &self.rule.schedule;
        if exhausted(self.facts, *limits, time.now).is_some() {
            return None;
        }
        let attempt = self.facts.failures.saturating_add(1);
        self.facts = Facts {
            status: Status::Error,
            failures: attempt,
            last_failure_at: Some(time.now),
            due_at: None,
            snoozed_until: None,
            ..self.facts
        };
        let is_last = exhausted(self.facts, *limits, time.now).is_some();
        if !is_last {
            self.next = policy.next_attempt(self.facts, time).map(|next| {
                // A wait of nothing ends with the next pass.
                let soonest = time.now.next_tick(policy.every_secs());
                PassTime { now: next.now.max(soonest), ..next }
            });
        }
        Some(Planned { at: time.now, attempt, is_last })
    }
}

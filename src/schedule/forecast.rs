//! The forecast: attempts that a record will have, if every one of them fails.

use super::{Look, Moment, Verdict, exhausted};
use crate::record::{Facts, Status};
use crate::time::Instant;

/// Goes from attempt to attempt, from the moment of a look on.
pub struct Forecast<'a> {
    look: &'a Look,
    /// The record as it will be.
    facts: Facts<'a>,
    /// The pass that will try it next.
    next: Option<Moment>,
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
    pub fn new(look: &'a Look, facts: Facts<'a>, soonest: Instant) -> Self {
        let Look { policy, moment, .. } = look;
        let next = match look.verdict(facts) {
            Verdict::Due(_) if moment.now < soonest => {
                Some(policy.moment(moment.span.map(|span| span.after), soonest, false))
            }
            Verdict::Due(_) => Some(*moment),
            Verdict::Wait { until } if facts.due_at.or(facts.snoozed_until) == Some(until) => {
                Some(policy.moment(None, until, false))
            }
            Verdict::Wait { .. } => policy.next_attempt(facts, *moment),
            Verdict::Archive(_) | Verdict::Never(_) => None,
        };
        Self { look, facts, next }
    }
}

impl Iterator for Forecast<'_> {
    type Item = Planned;

    fn next(&mut self) -> Option<Planned> {
        let moment = self.next.take()?;
        let Look { policy, rules, .. } = self.look;
        if exhausted(self.facts, *rules, moment.now).is_some() {
            return None;
        }
        let attempt = self.facts.failures.saturating_add(1);
        self.facts = Facts {
            status: Status::Error,
            failures: attempt,
            last_failure_at: Some(moment.now),
            due_at: None,
            snoozed_until: None,
            ..self.facts
        };
        let is_last = exhausted(self.facts, *rules, moment.now).is_some();
        if !is_last {
            self.next = policy.next_attempt(self.facts, moment).map(|next| {
                // A wait of nothing ends with the next pass.
                let soonest = moment.now.next_tick(policy.every_secs());
                Moment { now: next.now.max(soonest), ..next }
            });
        }
        Some(Planned { at: moment.now, attempt, is_last })
    }
}

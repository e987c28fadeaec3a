//! The due rule by count: a wait after the last failure, by the columns FAILURES and LAST_FAILURE.

use super::backoff::Backoff;
use super::{Reason, Verdict};
use crate::query::Window;
use crate::record::{Facts, Id, Status};
use crate::time::Instant;

impl Backoff {
    pub fn next_attempt_at(&self, id: &Id, failures: u32, failed_at: Instant) -> Instant {
        let tick = failed_at.tick(self.every_secs).saturating_add(self.delay(id, failures));
        Instant(tick.saturating_mul(self.every_secs))
    }

    /// Ticks are compared, not seconds: a pass that starts 59.9 s after the last one does not
    /// miss a wait of one minute.
    pub fn verdict(&self, facts: Facts<'_>, now: Instant) -> Verdict {
        if facts.status == Status::New {
            return Verdict::Due(Reason::New);
        }
        let Some(last_failure_at) = facts.last_failure_at else {
            return Verdict::Due(Reason::NoLastFailure);
        };
        if last_failure_at >= self.future(now) {
            return Verdict::Due(Reason::ClockSetBack);
        }
        let until = self.next_attempt_at(facts.id, facts.failures, last_failure_at);
        if until <= now { Verdict::Due(Reason::WaitOver) } else { Verdict::Wait { until } }
    }

    /// The verdict's inequality solved for the last failure, count by count and for the shortest
    /// wait of any record, so that a store compares a column with constants.
    pub fn window(&self, now: Instant) -> Window {
        let tick = now.tick(self.every_secs);
        let before = (1..=self.plain.len())
            .map(|f| self.least_delay(u32::try_from(f).unwrap_or(u32::MAX)))
            .map(|delay| tick.saturating_sub(delay).saturating_add(1))
            .map(|tick| Instant(tick.saturating_mul(self.every_secs)))
            .collect();
        Window::Failed { before, future: self.future(now) }
    }

    /// The end of the tick that `now` lies in: no failure was recorded later.
    fn future(&self, now: Instant) -> Instant {
        now.next_tick(self.every_secs)
    }
}

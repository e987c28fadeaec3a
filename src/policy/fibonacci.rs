//! `--fibonacci`: after f failures wait Fibonacci(f) units.

use super::{Reason, Verdict};
use crate::instant::{DAY, Instant};
use crate::selection::Window;

/// No wait is longer than this, in seconds: 30 days. With a unit of one minute that is reached
/// at the 24th failure.
const MAX_DELAY_SECS: i64 = 30 * DAY;

/// `unit_secs` is F(1) in seconds, `every_secs` the tick: how often cron starts the pass. Both
/// are at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fibonacci {
    pub unit_secs: i64,
    pub every_secs: i64,
}

impl Fibonacci {
    /// The wait after failure f, in seconds: F(f) units, F(1) = F(2) = 1, at most 30 days. A
    /// record that is in ERROR without a failure to its name, because it was snoozed, waits as
    /// after the first.
    fn wait_secs(&self, failures: u32) -> i64 {
        let (mut this, mut next) = (self.unit_secs, self.unit_secs);
        for _ in 1..failures {
            if this >= self.max_secs() {
                break;
            }
            (this, next) = (next, this.saturating_add(next));
        }
        this.min(self.max_secs())
    }

    fn max_secs(&self) -> i64 {
        MAX_DELAY_SECS.max(self.unit_secs)
    }

    /// The same in ticks, rounded up, so that no wait becomes shorter.
    fn delay(&self, failures: u32) -> i64 {
        (self.wait_secs(failures) - 1) / self.every_secs + 1
    }

    /// The count of failures from which on the wait stays the same.
    fn steps(&self) -> u32 {
        (1..).find(|&f| self.wait_secs(f) == self.max_secs()).unwrap_or(1)
    }

    /// `--fibonacci --unit 10m --every 5m`, without what is the default.
    pub fn line(&self) -> String {
        let option = |name: &str, secs: i64| {
            let duration = std::time::Duration::from_secs(secs.unsigned_abs());
            let shown = humantime::format_duration(duration).to_string().replace(' ', "");
            if secs == 60 { String::new() } else { format!(" --{name} {shown}") }
        };
        let (unit, every) = (option("unit", self.unit_secs), option("every", self.every_secs));
        format!("--fibonacci{unit}{every}")
    }

    pub fn next_attempt_at(&self, failures: u32, failed_at: Instant) -> Instant {
        let tick = failed_at.tick(self.every_secs).saturating_add(self.delay(failures));
        Instant(tick.saturating_mul(self.every_secs))
    }

    /// Ticks are compared, not seconds: a pass that starts 59.9 s after the last one does not
    /// miss a wait of one minute.
    pub fn verdict(
        &self,
        failures: u32,
        last_failure_at: Option<Instant>,
        now: Instant,
    ) -> Verdict {
        let Some(last_failure_at) = last_failure_at else {
            return Verdict::Due(Reason::NoLastFailure);
        };
        if last_failure_at >= self.future(now) {
            return Verdict::Due(Reason::ClockSetBack);
        }
        let until = self.next_attempt_at(failures, last_failure_at);
        if until <= now { Verdict::Due(Reason::WaitOver) } else { Verdict::Wait { until } }
    }

    /// The verdict's inequality solved for the last failure, count by count, so that a store
    /// compares a column with constants.
    pub fn window(&self, now: Instant) -> Window {
        let tick = now.tick(self.every_secs);
        let before = (1..=self.steps())
            .map(|f| Instant((tick - self.delay(f) + 1) * self.every_secs))
            .collect();
        Window::Failed { before, future: self.future(now) }
    }

    /// The end of the tick that `now` lies in: no failure was recorded later.
    fn future(&self, now: Instant) -> Instant {
        Instant((now.tick(self.every_secs) + 1) * self.every_secs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MINUTES: Fibonacci = Fibonacci { unit_secs: 60, every_secs: 60 };

    #[test]
    fn the_waits_are_the_fibonacci_numbers() {
        let waits: Vec<_> = (1..=10).map(|f| MINUTES.delay(f)).collect();
        assert_eq!(waits, [1, 1, 2, 3, 5, 8, 13, 21, 34, 55]);
        assert_eq!(MINUTES.delay(0), 1);
    }

    #[test]
    fn no_wait_is_longer_than_thirty_days() {
        assert_eq!(MINUTES.delay(23), 28_657);
        assert_eq!(MINUTES.delay(24), 30 * 24 * 60);
        assert_eq!(MINUTES.delay(u32::MAX), 30 * 24 * 60);
        assert_eq!(MINUTES.steps(), 24);
    }

    #[test]
    fn a_coarser_tick_never_shortens_a_wait_to_nothing() {
        let coarse = Fibonacci { unit_secs: 60, every_secs: 300 };
        let waits: Vec<_> = (1..=8).map(|f| coarse.delay(f)).collect();
        assert_eq!(waits, [1, 1, 1, 1, 1, 2, 3, 5]);
        assert_eq!(coarse.steps(), 24, "a plateau at the start does not end the table");
    }

    #[test]
    fn a_pass_that_starts_a_little_early_does_not_miss_its_minute() {
        let noon = Instant(1_795_219_200);
        let failed_at = noon.saturating_add(2);
        let now = noon.saturating_add(61);
        assert_eq!(MINUTES.verdict(1, Some(failed_at), now), Verdict::Due(Reason::WaitOver));
        let until = noon.saturating_add(60);
        assert_eq!(
            MINUTES.verdict(1, Some(failed_at), noon.saturating_add(59)),
            Verdict::Wait { until }
        );
    }

    #[test]
    fn a_failure_in_the_future_makes_a_record_due() {
        let now = Instant(1_795_219_200);
        for ahead in [60, 3_600, 4 * 3_600, i64::MAX] {
            let failed_at = now.saturating_add(ahead);
            assert_eq!(
                MINUTES.verdict(9, Some(failed_at), now),
                Verdict::Due(Reason::ClockSetBack)
            );
        }
    }

    proptest! {
        #[test]
        fn the_window_says_the_same_as_the_verdict(
            unit_secs in 1..200_000i64,
            every_secs in 1..20_000i64,
            failures in 0..60u32,
            now in 1_000_000_000..3_000_000_000i64,
            waited in -100_000..4_000_000i64,
        ) {
            let fibonacci = Fibonacci { unit_secs, every_secs };
            let (now, failed_at) = (Instant(now), Instant(now - waited));
            let Window::Failed { before, future } = fibonacci.window(now) else { unreachable!() };
            let step = (failures.max(1) as usize).min(before.len()) - 1;
            let selected = failed_at < before[step] || failed_at >= future;
            let verdict = fibonacci.verdict(failures, Some(failed_at), now);
            prop_assert_eq!(selected, matches!(verdict, Verdict::Due(_)));
            prop_assert!(fibonacci.delay(failures + 1) >= fibonacci.delay(failures));
        }
    }
}

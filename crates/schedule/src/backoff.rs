//! Retry policies: delays as functions of a record's id and its number of failures, which can be forecast.

use crate::hash::{draw, mulhi, phase};
use crate::id::Id;
use crate::query::Window;
use crate::record::Facts;
use crate::time::Instant;
use crate::verdict::{Reason, Verdict};

/// Delays in milliseconds, rounded to ticks of `every_secs`, the interval of cron.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backoff {
    /// The specification without options.
    pub name: String,
    /// The specification and its options as typed.
    pub options: String,
    pub base: Delays,
    pub jitter: Jitter,
    pub every_secs: i64,
    /// Number of the last attempt, if the policy itself limits it.
    pub max_attempts: Option<u32>,
}

impl Backoff {
    /// The delay in ticks; above zero it is at least one. A snoozed record without failures waits as after the first.
    pub fn delay(&self, id: &Id, failures: u32) -> i64 {
        let n = failures.max(1) - 1;
        self.exact_delay(id, n).max(self.min_ticks(n))
    }

    /// The delay without the minimum of one tick; `n` is 0 after the first failure.
    pub fn exact_delay(&self, id: &Id, n: u32) -> i64 {
        match &self.jitter {
            Jitter::Spread { .. } => {
                let x = self.jitter.fraction(phase(id));
                let before = n.checked_sub(1).map_or(0, |n| self.offset(x, n.into()));
                self.offset(x, n.into()) - before
            }
            Jitter::Drawn { .. } => self.delay_ticks(self.drawn_ms(id, n)),
        }
    }

    /// All delays of a record in order, in milliseconds, before rounding to ticks.
    pub fn waits(&self, id: &Id) -> impl Iterator<Item = u64> {
        let x = self.jitter.fraction(phase(id));
        let mut last = 0;
        (0..).map(move |n| match &self.jitter {
            Jitter::Spread { .. } => {
                let offset = self.base.spread_ms(x, n.into());
                let before = std::mem::replace(&mut last, offset);
                u64::try_from(offset - before).unwrap_or(u64::MAX)
            }
            Jitter::Drawn { .. } => self.drawn_ms(id, n),
        })
    }

    /// Lower bound of the delay over all records, in ticks.
    pub fn least_delay(&self, failures: u32) -> i64 {
        let n = failures.max(1) - 1;
        self.delay_ticks(self.base.wait(n.into())).max(self.min_ticks(n))
    }

    fn min_ticks(&self, n: u32) -> i64 {
        i64::from(self.base.wait(n.into()) > 0)
    }

    /// The drawn delay in milliseconds, or the plain one without [`Jitter::Drawn`].
    pub fn drawn_ms(&self, id: &Id, n: u32) -> u64 {
        let plain = self.base.wait(n.into());
        let Jitter::Drawn { unit_ms, widths } = &self.jitter else { return plain };
        let width = widths.wait(n.into()) / unit_ms;
        plain.saturating_add(mulhi(draw(0, id, n), width) * unit_ms)
    }

    /// [`Delays::spread_ms`] in ticks, rounded down. Delays are differences of offsets, so they add up.
    pub fn offset(&self, x: u64, n: u64) -> i64 {
        self.ticks(self.base.spread_ms(x, n))
    }

    /// The first retry later than `age`, if there is one; both in ticks after the first attempt.
    pub fn retry_after(&self, phase: u64, age: i64) -> Option<i64> {
        let x = self.jitter.fraction(phase);
        let n = self.count(x, age);
        let over = self.max_attempts.is_some_and(|most| n + 1 >= most.into());
        (!over).then(|| self.offset(x, n))
    }

    /// The number of retries due within `age` ticks of the first attempt.
    pub fn retries_within(&self, phase: u64, age: i64) -> u64 {
        let most = self.max_attempts.map_or(u64::MAX, |most| u64::from(most) - 1);
        self.count(self.jitter.fraction(phase), age).min(most)
    }

    /// The number of retries for a fraction `x`, without `max_attempts`.
    pub fn count(&self, x: u64, age: i64) -> u64 {
        let Ok(age) = u128::try_from(age) else { return 0 };
        let end = (age + 1) * u128::from(self.every_ms());
        let rows = self.base.waits.len() as u64;
        if self.base.spread_ms(x, rows) >= end {
            // P(n) <= offset n < P(n + 1).
            let n = self.base.sums.partition_point(|sum| *sum < end) as u64;
            let before = n.checked_sub(1).filter(|n| self.base.spread_ms(x, *n) >= end);
            return before.unwrap_or(n);
        }
        // After the table, each offset is one last delay later.
        let beyond = end - 1 - self.base.spread_ms(x, rows);
        let steps = beyond.checked_div(self.base.last().into()).unwrap_or(u128::MAX);
        rows.saturating_add(1).saturating_add(u64::try_from(steps).unwrap_or(u64::MAX))
    }

    fn every_ms(&self) -> u64 {
        self.every_secs.unsigned_abs() * 1000
    }

    fn ticks(&self, ms: u128) -> i64 {
        i64::try_from(ms / u128::from(self.every_ms())).unwrap_or(i64::MAX)
    }

    /// A delay in ticks: rounded down if it is spread, like the sums, and to the nearest if it is drawn.
    fn delay_ticks(&self, ms: u64) -> i64 {
        match &self.jitter {
            Jitter::Spread { .. } => self.ticks(ms.into()),
            Jitter::Drawn { .. } => self.ticks(u128::from(ms) + u128::from(self.every_ms() / 2)),
        }
    }

    pub fn next_attempt_at(&self, id: &Id, failures: u32, failed_at: Instant) -> Instant {
        let tick = failed_at.tick(self.every_secs).saturating_add(self.delay(id, failures));
        Instant(tick.saturating_mul(self.every_secs))
    }

    /// The verdict on a failed record. Ticks are compared, so a pass after 59.9 s does not miss a delay of one minute.
    pub fn verdict(&self, facts: Facts<'_>, now: Instant) -> Verdict {
        let Some(last_failure_at) = facts.last_failure_at else {
            return Verdict::Due(Reason::NoLastFailure);
        };
        if last_failure_at >= now.next_tick(self.every_secs) {
            return Verdict::Due(Reason::ClockSetBack);
        }
        let until = self.next_attempt_at(facts.id, facts.failures, last_failure_at);
        if until <= now { Verdict::Due(Reason::WaitOver) } else { Verdict::Wait { until } }
    }

    /// The verdict solved for the last failure, so that a store compares a column with constants.
    pub fn window(&self, now: Instant) -> Window {
        let next = now.next_tick(self.every_secs);
        let before = (1..).zip(&self.base.waits).map(|(failures, _)| {
            next.saturating_sub(self.least_delay(failures).saturating_mul(self.every_secs))
        });
        Window::Failed { before: before.collect(), future: next }
    }
}

/// Jitter without random numbers: it separates records that fail together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Jitter {
    /// Each record interpolates between two rows of the table, by its phase. At 0 % all records have the same delays.
    Spread { percent: u8 },
    /// Each delay is drawn by record and count: the plain delay and less than `widths` more, in steps of `unit_ms`.
    Drawn { unit_ms: u64, widths: Delays },
}

impl Jitter {
    /// The fraction of 2^64 at which a record with this phase reads the table.
    pub fn fraction(&self, phase: u64) -> u64 {
        match self {
            Self::Spread { percent } => {
                let scaled = u128::from(phase) * u128::from(*percent) / 100;
                u64::try_from(scaled).unwrap_or(u64::MAX)
            }
            Self::Drawn { .. } => 0,
        }
    }
}

/// Maximum length of a table. Only delays that grow by single ticks for years reach it.
const MOST: usize = 1 << 20;

/// A table of delays in milliseconds: b(0), b(1), ...; the last one repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delays {
    /// At least one.
    pub waits: Vec<u64>,
    /// `sums[n]` is b(0) + .. + b(n).
    sums: Vec<u128>,
}

impl Delays {
    /// A table of these delays; without any, of a delay of 0.
    pub fn new(waits: impl IntoIterator<Item = u64>) -> Self {
        let mut waits: Vec<u64> = waits.into_iter().take(MOST).collect();
        if waits.is_empty() {
            waits.push(0);
        }
        while let [.., before, last] = waits[..]
            && before == last
        {
            waits.pop();
        }
        let mut sum = 0;
        let sums = waits.iter().map(|wait| {
            sum += u128::from(*wait);
            sum
        });
        Self { sums: sums.collect(), waits }
    }

    pub fn rising(max: u64, waits: impl IntoIterator<Item = u64>) -> Self {
        let below = waits.into_iter().take_while(|wait| *wait < max);
        Self::new(below.take(MOST - 1).chain([max]))
    }

    /// b(n), the delay after failure n + 1.
    pub fn wait(&self, n: u64) -> u64 {
        self.waits[self.row(n)]
    }

    /// P(n) = b(0) + .. + b(n).
    pub fn sum(&self, n: u64) -> u128 {
        let row = self.row(n);
        let beyond = u128::from(n) - row as u128;
        self.sums[row] + beyond * u128::from(self.waits[row])
    }

    /// Time from the first failure to retry n + 1, for a fraction `x`: P(n) + x * b(n + 1).
    pub fn spread_ms(&self, x: u64, n: u64) -> u128 {
        self.sum(n) + u128::from(mulhi(x, self.wait(n.saturating_add(1))))
    }

    fn row(&self, n: u64) -> usize {
        usize::try_from(n).unwrap_or(usize::MAX).min(self.waits.len() - 1)
    }

    pub fn last(&self) -> u64 {
        self.wait(u64::MAX)
    }
}

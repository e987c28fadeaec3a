//! The rate limit, a token bucket: a maximum number of attempts per time.

use std::str::FromStr;
use std::time::{Duration, Instant as Monotonic};

/// The full bucket holds the tokens of this time, and at least one.
const BURST: Duration = Duration::from_millis(100);

/// Minimum time between two attempts, at least a microsecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit(pub Duration);

impl FromStr for RateLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || format!("{text:?} is not a rate; write 50/s, 100/m or 1000/h");
        let (attempts, unit) = text.split_once('/').ok_or_else(wrong)?;
        let attempts: Option<u32> = attempts.trim().parse().ok();
        let attempts = attempts.filter(|attempts| (1..=1_000_000).contains(attempts));
        let secs = match unit.trim() {
            "s" | "sec" | "second" => 1,
            "m" | "min" | "minute" => 60,
            "h" | "hour" => 3_600,
            _ => return Err(wrong()),
        };
        Ok(Self(Duration::from_secs(secs) / attempts.ok_or_else(wrong)?))
    }
}

#[derive(Debug)]
pub struct TokenBucket {
    interval: Duration,
    most: u32,
    full_at: Monotonic,
}

impl TokenBucket {
    pub fn new(RateLimit(interval): RateLimit, now: Monotonic) -> Self {
        let most = BURST.as_nanos() / interval.as_nanos();
        Self { interval, most: u32::try_from(most).unwrap_or(u32::MAX).max(1), full_at: now }
    }

    pub fn tokens(&self, now: Monotonic) -> usize {
        let missing = self.full_at.saturating_duration_since(now).as_nanos();
        u128::from(self.most).saturating_sub(missing.div_ceil(self.interval.as_nanos())) as usize
    }

    pub fn take(&mut self, now: Monotonic) {
        self.full_at = self.full_at.max(now) + self.interval;
    }

    pub fn next_at(&self) -> Monotonic {
        let to_full = self.interval * (self.most - 1);
        self.full_at.checked_sub(to_full).unwrap_or(self.full_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_rate_is_refused() {
        for text in ["", "50", "0/s", "-1/s", "5/day", "/s", "1.5/s", "1000001/s"] {
            assert!(text.parse::<RateLimit>().is_err(), "{text}");
        }
        assert_eq!("60/m".parse(), Ok(RateLimit(Duration::from_secs(1))));
    }

    /// Number of tokens that are available in this time, if each is taken within a millisecond.
    fn taken(rate: &str, time: Duration) -> usize {
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let start = Monotonic::now();
        let mut bucket = TokenBucket::new(rate.parse().unwrap(), start);
        let mut taken = 0;
        for ms in 0..u64::try_from(time.as_millis()).unwrap() {
            let now = start + Duration::from_millis(ms);
            while bucket.tokens(now) > 0 {
                bucket.take(now);
                taken += 1;
            }
            assert!(bucket.next_at() > now);
        }
        taken
    }

    #[test]
    fn the_rate_limits_the_number_of_tokens() {
        for (rate, secs, expected) in [("50/s", 10, 504), ("1/s", 10, 10), ("30/m", 10, 5)] {
            assert_eq!(taken(rate, Duration::from_secs(secs)), expected, "{rate}");
        }
        assert_eq!(taken("20000/s", Duration::from_secs(1)), 21_980);
    }
}

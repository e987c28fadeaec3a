//! Instants in whole seconds, UTC, durations, and their spellings.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use chrono::{DateTime, NaiveDate, SecondsFormat};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::iso::{Iso, has_shape, number};

/// Seconds since 1970-01-01T00:00:00Z. Fractions of a second are cut off, not rounded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(pub i64);

/// The due date that is written for a record without a next attempt: in 2286, the last year of some date formats.
pub const NEVER: Instant = Instant(9_999_999_999 - 10 * DAY);
/// The due date of a row whose due column holds no date, or one after all dates.
pub const BEYOND: Instant = Instant(NEVER.0 + 1);

pub const HOUR: i64 = 3_600;
pub const DAY: i64 = 86_400;

impl Instant {
    /// Parses a date in a spelling of [`Iso::parse`]. Without a zone it is in UTC.
    pub fn parse(text: &str) -> Option<Self> {
        let by_parts = || Some(Self(Iso::parse(text)?.at.and_utc().timestamp()));
        Self::parse_own(text).or_else(by_parts)
    }

    /// Parses our own spelling, `2026-11-21T03:40:00Z`. Fast, because a pass over a million rows does little else.
    pub fn parse_own(text: &str) -> Option<Self> {
        if !has_shape(text, "0000-00-00T00:00:00Z") {
            return None;
        }
        let number = |range| number(text, range);
        let year = text.get(..4)?.parse().ok()?;
        let date = NaiveDate::from_ymd_opt(year, number(5..7)?, number(8..10)?)?;
        let time = date.and_hms_opt(number(11..13)?, number(14..16)?, number(17..19)?)?;
        Some(Self(time.and_utc().timestamp()))
    }

    /// The number of the tick that contains the instant, for ticks of `every` seconds.
    pub fn tick(self, every: i64) -> i64 {
        self.0.div_euclid(every)
    }

    pub fn tick_begin(self, every: i64) -> Self {
        Self(self.tick(every).saturating_mul(every))
    }

    pub fn next_tick(self, every: i64) -> Self {
        Self(self.tick(every).saturating_add(1).saturating_mul(every))
    }

    pub fn saturating_add(self, secs: i64) -> Self {
        Self(self.0.saturating_add(secs))
    }

    /// The instant after a duration, rounded up to a whole second.
    pub fn later(self, by: Duration) -> Self {
        let secs = by.as_secs().saturating_add(u64::from(by.subsec_nanos() > 0));
        self.saturating_add(i64::try_from(secs).unwrap_or(i64::MAX))
    }

    pub fn saturating_sub(self, secs: i64) -> Self {
        Self(self.0.saturating_sub(secs))
    }

    pub fn date(&self) -> String {
        self.to_string().chars().take(10).collect()
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match DateTime::from_timestamp(self.0, 0) {
            Some(instant) => f.pad(&instant.to_rfc3339_opts(SecondsFormat::Secs, true)),
            None => write!(f, "@{}", self.0),
        }
    }
}

impl Serialize for Instant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Instant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&str>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

/// Epoch seconds of the years 0 to 9999, which RFC 3339 can express.
pub const WRITABLE: RangeInclusive<i64> = -62_167_219_200..=253_402_300_799;

impl std::str::FromStr for Instant {
    type Err = String;

    /// Parses an argument of `--now`: ISO 8601, or `@` and epoch seconds.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let instant = match text.strip_prefix('@') {
            Some(secs) => secs.parse().ok().map(Self),
            None => Self::parse(text),
        };
        instant
            .filter(|at| WRITABLE.contains(&at.0))
            .ok_or_else(|| "not an instant; write 2026-11-21T03:40:00Z or @1795232400".into())
    }
}

pub fn days(secs: i64) -> f64 {
    secs as f64 / DAY as f64
}

/// A span of time in its largest unit and the next smaller one, `3d 4h`.
pub fn span(secs: i64) -> String {
    let secs = secs.max(0);
    let units = [("d", 86_400, i64::MAX), ("h", 3_600, 24), ("m", 60, 60), ("s", 1, 60)];
    let counts = units.map(|(unit, length, most)| (secs / length % most, unit));
    let largest = counts.iter().skip_while(|(count, _)| *count == 0).take(2);
    let parts =
        largest.filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count}{unit}"));
    let parts: Vec<_> = parts.collect();
    if parts.is_empty() { "0s".into() } else { parts.join(" ") }
}

/// A span of time in its largest unit, rounded down, `58 s`.
pub fn rough_span(secs: i64) -> String {
    let secs = secs.max(0);
    let units = [("d", 86_400), ("h", 3_600), ("m", 60)];
    let largest = units.into_iter().find(|(_, length)| secs >= *length);
    largest.map_or(format!("{secs} s"), |(unit, length)| format!("{} {unit}", secs / length))
}

pub fn parse_duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text.trim()).map_err(|_| match text.trim().parse::<u64>() {
        Ok(number) => format!("not a duration: write {number}s, {number}m or {number}h"),
        Err(_) => "not a duration: write 30s, 4m30s, 12h or 7days".into(),
    })
}

/// Parses a duration of whole seconds, up to a number of days.
pub fn parse_secs(text: &str, days: i64) -> Result<i64, String> {
    let duration = parse_duration(text)?;
    let secs = i64::try_from(duration.as_secs()).ok().filter(|_| duration.subsec_nanos() == 0);
    secs.filter(|secs| (1..=days * DAY).contains(secs))
        .ok_or_else(|| format!("must be whole seconds, from 1s to {days}days"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_reads_back_what_it_prints() {
        for secs in [-1, 0, 1_795_232_400, 253_402_300_799] {
            assert_eq!(Instant(secs).to_string().parse(), Ok(Instant(secs)));
        }
        assert_eq!("@1795232400".parse(), Ok(Instant(1_795_232_400)));
        assert!("@99999999999999".parse::<Instant>().is_err());
    }

    #[test]
    fn a_span_shows_its_two_largest_units() {
        for (secs, text) in [
            (0, "0s"),
            (59, "59s"),
            (61, "1m 1s"),
            (86_400, "1d"),
            (86_460, "1d"),
            (98_765, "1d 3h"),
            (-5, "0s"),
        ] {
            assert_eq!(span(secs), text);
        }
    }
}

//! Clocks, and how far they are ahead of UTC.

use std::sync::Arc;

use chrono::{DateTime, FixedOffset, NaiveDateTime};

use crate::time::{DAY, Instant, WRITABLE};

/// The zone of a clock.
#[derive(Debug, Clone, PartialEq)]
pub enum Zone {
    /// So many seconds ahead of UTC.
    Fixed(i64),
    /// By the rules of the system's time zone database.
    Named(Arc<tz::TimeZone>),
}

impl Zone {
    pub const UTC: Self = Self::Fixed(0);

    /// `UTC`, `Z` or `+02:00`.
    pub fn fixed(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case("UTC") || text.eq_ignore_ascii_case("Z") {
            return Some(Self::UTC);
        }
        let offset = text.parse::<FixedOffset>().ok()?;
        Some(Self::Fixed(offset.local_minus_utc().into()))
    }

    /// By the rules in a file of the time zone database (RFC 8536).
    pub fn from_rules(file: &[u8]) -> Option<Self> {
        tz::TimeZone::from_tz_data(file).ok().map(|rules| Self::Named(Arc::new(rules)))
    }

    /// How many seconds ahead of UTC its clock always is; `None` for one that is set now and then.
    pub fn fixed_secs(&self) -> Option<i64> {
        match self {
            Self::Fixed(ahead) => Some(*ahead),
            Self::Named(_) => None,
        }
    }

    /// How many seconds its clock is ahead of UTC.
    fn ahead(&self, at: i64) -> i64 {
        match self {
            Self::Fixed(ahead) => *ahead,
            Self::Named(rules) => {
                rules.find_local_time_type(at).map_or(0, |found| found.ut_offset().into())
            }
        }
    }

    /// When the clock showed what a clock of UTC shows at `shown`. Of an hour that it showed twice
    /// the first is meant; one that it skipped is taken as if it had not been.
    pub fn instant(&self, shown: i64) -> Instant {
        let (before, after) = (self.ahead(shown - DAY), self.ahead(shown + DAY));
        let [first, second] = [before, after].map(|ahead| shown - ahead);
        let is_second = self.ahead(first) != before && self.ahead(second) == after;
        Instant(if is_second { second } else { first })
    }

    /// What the clock shows.
    pub fn shown(&self, at: Instant) -> NaiveDateTime {
        let at = at.0.clamp(*WRITABLE.start() + DAY, *WRITABLE.end() - DAY);
        DateTime::from_timestamp(at + self.ahead(at), 0).unwrap_or_default().naive_utc()
    }
}

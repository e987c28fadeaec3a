//! `--progressive`: the whole schedule on one crontab line. The older a record is, the longer the
//! interval in which it is tried once; where in the interval is its own phase. So the
//! load is even, and a record that grows into the next tier is neither tried twice nor
//! left for longer than the new interval.

use super::spec::{Options, duration};
use crate::time::Instant;

/// The tiers unless others are typed: the six lines of the progressive schedule.
pub const DEFAULT: &str = "1d/5m,7d/1h,14d/12h,30d/24h,180d/96h,360d/192h";

/// The shortest interval of these, which is the tick unless `--every` says otherwise.
pub const EVERY_SECS: i64 = 300;

/// Tiers by age, youngest first, in ticks of `every_secs`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tiers {
    /// As it is typed, with the options that make it what it is.
    pub line: String,
    tiers: Vec<Tier>,
    pub every_secs: i64,
    pub salt: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tier {
    max_age_secs: i64,
    /// In ticks. Each divides the next one's.
    interval: i64,
}

impl Tiers {
    /// Reads `1d/5m,7d/1h`: maximal age and interval. An error names the tier and the rule.
    pub fn parse(spec: &str, options: Options) -> Result<Self, String> {
        let Options { every_secs, salt, .. } = options;
        let form = "write maximal age / interval, as in 7d/1h";
        let mut tiers: Vec<Tier> = Vec::new();
        for text in spec.split(',').map(str::trim) {
            let wrong = |why: &str| format!("tier {text:?}: {why}");
            let (age, interval) = text.split_once('/').ok_or_else(|| wrong(form))?;
            let secs = |text: &str| {
                let duration = humantime::parse_duration(text.trim())
                    .map_err(|error| wrong(&format!("{error}; {form}")))?;
                let whole = i64::try_from(duration.as_secs()).ok();
                let whole = whole.filter(|_| duration.subsec_nanos() == 0);
                whole
                    .filter(|secs| (1..=LONGEST_SECS).contains(secs))
                    .ok_or_else(|| wrong("durations are whole seconds, from 1s to 3650days"))
            };
            let (max_age_secs, interval_secs) = (secs(age)?, secs(interval)?);
            if interval_secs % every_secs != 0 {
                let every = duration(every_secs);
                let why = format!("its interval is no multiple of the tick, --every {every}");
                return Err(wrong(&why));
            }
            let interval = interval_secs / every_secs;
            if let Some(younger) = tiers.last() {
                if max_age_secs <= younger.max_age_secs {
                    return Err(wrong("its age is not above that of the tier before"));
                }
                if interval % younger.interval != 0 {
                    return Err(wrong("its interval is no multiple of that of the tier before"));
                }
            }
            tiers.push(Tier { max_age_secs, interval });
        }
        let tiers_typed = if spec == DEFAULT { String::new() } else { format!(" {spec}") };
        let line = format!("--progressive{tiers_typed}{}", options.line(EVERY_SECS));
        Ok(Self { line, tiers, every_secs, salt })
    }

    /// The ages in seconds from and to which a record is tried, and how often.
    pub fn steps(&self) -> impl Iterator<Item = (i64, i64, i64)> {
        let from = std::iter::once(0).chain(self.tiers.iter().map(|tier| tier.max_age_secs));
        let steps = from.zip(&self.tiers);
        steps.map(|(from, tier)| (from, tier.max_age_secs, tier.interval * self.every_secs))
    }

    /// The first tick behind `behind` in which a record with this phase has a slot.
    pub fn next(&self, phase: u64, inserted_at: Instant, behind: i64) -> Option<i64> {
        let mut from = behind.saturating_add(1);
        for (tier, place) in self.tiers.iter().zip(self.places(phase)) {
            let last = inserted_at.saturating_add(tier.max_age_secs).tick(self.every_secs);
            let ahead = place.saturating_sub(from).rem_euclid(tier.interval);
            match from.checked_add(ahead) {
                Some(tick) if tick <= last => return Some(tick),
                _ => from = from.max(last.saturating_add(1)),
            }
        }
        None
    }

    /// Where in each tier's interval the record has its slot: the digits of its phase in
    /// the mixed radix of the intervals. Each begins with those of the tier before, which is why
    /// the tiers fit together.
    pub fn places(&self, phase: u64) -> impl Iterator<Item = i64> {
        let start = (phase, 0u64, 1u64);
        let places = self.tiers.iter().scan(start, |(rest, place, width), tier| {
            let interval = tier.interval.unsigned_abs();
            let product = u128::from(*rest) * u128::from(interval / *width);
            let digit = u64::try_from(product >> 64).unwrap_or(u64::MAX);
            *rest = u64::try_from(product & u128::from(u64::MAX)).unwrap_or(u64::MAX);
            *place += digit * *width;
            *width = interval;
            Some(*place)
        });
        places.map(|place| i64::try_from(place).unwrap_or(i64::MAX))
    }

    /// The tier that a record is in at `now`: its maximal age and its interval, and where in the
    /// interval the record has its slot, all in seconds.
    pub fn tier(&self, phase: u64, inserted_at: Instant, now: Instant) -> Option<(i64, i64, i64)> {
        let tick = now.tick(self.every_secs);
        let mut tiers = self.tiers.iter().zip(self.places(phase));
        tiers.find_map(|(tier, place)| {
            let last = inserted_at.saturating_add(tier.max_age_secs).tick(self.every_secs);
            let interval_secs = tier.interval * self.every_secs;
            (tick <= last).then_some((tier.max_age_secs, interval_secs, place * self.every_secs))
        })
    }

    /// The oldest insertion date of a record with a slot in `tick` or later.
    pub fn oldest(&self, tick: i64) -> Instant {
        let max_age = self.tiers.last().map_or(0, |tier| tier.max_age_secs);
        Instant(tick.saturating_mul(self.every_secs)).saturating_sub(max_age)
    }
}

/// Ten years.
const LONGEST_SECS: i64 = 3650 * crate::time::DAY;

//! Slots, the due rule by age alone: instants calculated from a record's insertion date and id.

use std::ops::RangeInclusive;

use crate::backoff::Backoff;
use crate::hash::{MOST_PHASE, phase};
use crate::id::Id;
use crate::query::{Slot, SlotStretch, Window, merge_ranges};
use crate::record::Facts;
use crate::spec::{PolicyOptions, format_secs};
use crate::time::{Instant, parse_secs};
use crate::verdict::{Obstacle, Reason, Verdict};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Slots {
    /// `--progressive`: once in each interval of the tier that contains the record's age.
    Progressive(Tiers),
    /// `--by-age`: at the retries of a policy, as if every attempt failed on time.
    ByAge(Backoff),
}

/// The slots of a pass: after `after`, up to the end of tick `until`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub after: Slot,
    pub until: i64,
}

impl Span {
    pub fn is_empty(self) -> bool {
        self.after >= Slot::end_of(self.until)
    }
}

/// Maximum number of ticks that a pass catches up, except in a drain: the load after an outage grows to this multiple.
pub const CATCH_UP: i64 = 4;

impl Slots {
    pub fn every_secs(&self) -> i64 {
        match self {
            Self::Progressive(tiers) => tiers.every_secs,
            Self::ByAge(backoff) => backoff.every_secs,
        }
    }

    /// The slots after `reached`, in a drain up to `now`. Without `reached`, those of the current tick.
    pub fn span(&self, reached: Option<Slot>, now: Instant, drain: bool) -> Span {
        let now = now.tick(self.every_secs());
        let after = reached
            .filter(|slot| slot.tick <= now)
            .unwrap_or_else(|| Slot::end_of(now.saturating_sub(1)));
        let until = if drain { now } else { now.min(after.tick.saturating_add(CATCH_UP)) };
        Span { after, until }
    }

    pub fn window(&self, span: Span) -> Window {
        let from = match self {
            Self::Progressive(tiers) => match tiers.stretches(span) {
                Some(stretches) => return Window::Slots(stretches),
                None => tiers.oldest(span.after.tick),
            },
            Self::ByAge(_) => Instant(i64::MIN),
        };
        Window::Inserted { from, until: None }
    }

    pub fn next(&self, id: &Id, inserted_at: Instant, after: Slot) -> Option<Slot> {
        let phase = phase(id);
        // In the tick where the last pass stopped, only higher phases are left.
        let past = if phase > after.phase { after.tick.saturating_sub(1) } else { after.tick };
        let tick = match self {
            Self::Progressive(tiers) => tiers.next(phase, inserted_at, past)?,
            Self::ByAge(backoff) => {
                let first = inserted_at.tick(backoff.every_secs);
                let retry = backoff.retry_after(phase, past.saturating_sub(first))?;
                first.saturating_add(retry)
            }
        };
        Some(Slot { tick, phase })
    }

    /// The tick and the span of the pass that reaches a slot after `span`, the span of a pass in tick `now`.
    pub fn pass_for(&self, slot: Slot, span: Span, now: i64) -> (i64, Span) {
        let ticks = slot.tick.saturating_sub(span.until).max(1);
        let passes = (slot.tick.saturating_sub(now)).max((ticks - 1) / CATCH_UP + 1);
        let tick = now.saturating_add(passes);
        let reached = span.until.saturating_add((passes - 1).saturating_mul(CATCH_UP));
        let reached = reached.min(tick.saturating_sub(1));
        let until = tick.min(reached.saturating_add(CATCH_UP));
        (tick, Span { after: Slot::end_of(reached), until })
    }

    pub fn verdict(&self, facts: Facts<'_>, span: Span, now: Instant) -> Verdict {
        let Some(inserted_at) = facts.inserted_at else {
            return Verdict::Never(Obstacle::Undated);
        };
        match self.next(facts.id, inserted_at, span.after) {
            None => Verdict::Never(Obstacle::OutOfSlots),
            Some(slot) if slot.tick <= span.until => Verdict::Due(Reason::Slot(slot)),
            Some(slot) => {
                let (tick, _) = self.pass_for(slot, span, now.tick(self.every_secs()));
                Verdict::Wait { until: self.instant(tick) }
            }
        }
    }

    pub fn instant(&self, tick: i64) -> Instant {
        Instant(tick.saturating_mul(self.every_secs()))
    }
}

pub const DEFAULT_TIERS: &str = "1d/5m,7d/1h,14d/12h,30d/24h,180d/96h,360d/192h";

/// Default of `--every` with `--progressive`: the shortest interval of these.
pub const PROGRESSIVE_EVERY_SECS: i64 = 300;

/// Tiers by age, youngest first: a record is tried once in each interval, at an offset that depends on its phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tiers {
    /// `--progressive` and its options as typed.
    pub options: String,
    tiers: Vec<Tier>,
    pub every_secs: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tier {
    max_age_secs: i64,
    /// In ticks; it divides the interval of the next tier.
    interval: i64,
}

impl Tiers {
    /// Parses `1d/5m,7d/1h`, maximum age and interval of each tier.
    pub fn parse(spec: &str, options: PolicyOptions) -> Result<Self, String> {
        let every_secs = options.every_secs;
        let syntax = "write maximum age/interval, as in 7d/1h";
        let mut tiers: Vec<Tier> = Vec::new();
        for text in spec.split(',').map(str::trim) {
            let wrong = |why: &str| format!("tier {text:?}: {why}");
            let (age, interval) = text.split_once('/').ok_or_else(|| wrong(syntax))?;
            let secs = |text| parse_secs(text, 3650).map_err(|why| wrong(&why));
            let (max_age_secs, interval_secs) = (secs(age)?, secs(interval)?);
            if interval_secs % every_secs != 0 {
                let every = format_secs(every_secs);
                return Err(wrong(&format!(
                    "the interval is not a multiple of --every {every}; leave out --every, or write \
                     multiples, as in 1d/{every},..."
                )));
            }
            if interval_secs > max_age_secs {
                return Err(wrong("the interval is longer than the age"));
            }
            let interval = interval_secs / every_secs;
            if let Some(younger) = tiers.last() {
                if max_age_secs <= younger.max_age_secs {
                    return Err(wrong("the age is not above the age of the tier before"));
                }
                if interval % younger.interval != 0 {
                    return Err(wrong(
                        "the interval is not a multiple of the interval of the tier before",
                    ));
                }
            }
            tiers.push(Tier { max_age_secs, interval });
        }
        let tiers_typed = if spec == DEFAULT_TIERS { String::new() } else { format!(" {spec}") };
        let more = options.non_default(PROGRESSIVE_EVERY_SECS);
        Ok(Self { options: format!("--progressive{tiers_typed}{more}"), tiers, every_secs })
    }

    /// The minimum age, the maximum age and the interval of each tier, in seconds.
    pub fn steps(&self) -> impl Iterator<Item = (i64, i64, i64)> {
        let from = std::iter::once(0).chain(self.tiers.iter().map(|tier| tier.max_age_secs));
        let steps = from.zip(&self.tiers);
        steps.map(|(from, tier)| (from, tier.max_age_secs, tier.interval * self.every_secs))
    }

    /// The first tick after `past` in which a record with this phase has a slot.
    pub fn next(&self, phase: u64, inserted_at: Instant, past: i64) -> Option<i64> {
        let mut from = past.saturating_add(1);
        for (tier, offset) in self.tiers.iter().zip(self.offsets(phase)) {
            let last = inserted_at.saturating_add(tier.max_age_secs).tick(self.every_secs);
            let ahead = offset.saturating_sub(from).rem_euclid(tier.interval);
            match from.checked_add(ahead) {
                Some(tick) if tick <= last => return Some(tick),
                _ => from = from.max(last.saturating_add(1)),
            }
        }
        None
    }

    /// The record's offset in the interval of each tier: the digits of its phase in their mixed radix.
    pub fn offsets(&self, phase: u64) -> impl Iterator<Item = i64> {
        let start = (phase, 0u64, 1u64);
        let offsets = self.tiers.iter().scan(start, |(rest, offset, width), tier| {
            let interval = tier.interval.unsigned_abs();
            let product = u128::from(*rest) * u128::from(interval / *width);
            let digit = u64::try_from(product >> 64).unwrap_or(u64::MAX);
            *rest = u64::try_from(product & u128::from(u64::MAX)).unwrap_or(u64::MAX);
            *offset += digit * *width;
            *width = interval;
            Some(*offset)
        });
        offsets.map(|offset| i64::try_from(offset).unwrap_or(i64::MAX))
    }

    /// The maximum age and the interval of the tier at `now`, and the record's offset in the interval, in seconds.
    pub fn tier(&self, phase: u64, inserted_at: Instant, now: Instant) -> Option<(i64, i64, i64)> {
        let (every, tick) = (self.every_secs, now.tick(self.every_secs));
        let mut tiers = self.tiers.iter().zip(self.offsets(phase));
        tiers.find_map(|(tier, offset)| {
            let is_in = tick <= inserted_at.saturating_add(tier.max_age_secs).tick(every);
            is_in.then_some((tier.max_age_secs, tier.interval * every, offset * every))
        })
    }

    /// The insertion dates and phases that can have a slot in a span, for each tier. `None` for a long span.
    fn stretches(&self, span: Span) -> Option<Vec<SlotStretch>> {
        let Span { after, until: last } = span;
        if last.saturating_sub(after.tick) > CATCH_UP {
            return None;
        }
        let at =
            |tick: i64, age: i64| Instant(tick.saturating_mul(self.every_secs)).saturating_sub(age);
        let reached = u32::try_from(after.phase >> 33).unwrap_or(MOST_PHASE);
        let ages = self.steps().map(|(from, to, _)| (from, to));
        let tiers = self.tiers.iter().zip(ages).zip(0..);
        let stretches = tiers.map(|((tier, (youngest, oldest)), number)| {
            let phases = (after.tick..=last).map(|tick| {
                let phases = self.phases_at(number, tick.rem_euclid(tier.interval));
                let least = if tick == after.tick { reached.saturating_add(1) } else { 0 };
                least.max(*phases.start())..=*phases.end()
            });
            SlotStretch {
                from: at(after.tick, oldest),
                // The youngest tier includes dates in the future, which a wrong clock has written.
                until: if number == 0 { Instant(i64::MAX) } else { at(last, youngest) },
                phases: merge_ranges(phases.filter(|range| !range.is_empty()).collect()),
            }
        });
        Some(stretches.filter(|stretch| !stretch.phases.is_empty()).collect())
    }

    /// The phases with this offset in the interval of a tier: the inverse of [`offsets`](Self::offsets).
    fn phases_at(&self, tier: usize, offset: i64) -> RangeInclusive<u32> {
        let (mut rest, mut width) = (offset.unsigned_abs(), 1);
        let mut numerator = 0;
        for tier in &self.tiers[..=tier] {
            let interval = tier.interval.unsigned_abs();
            let digits = interval / width;
            numerator = numerator * digits + rest % digits;
            (rest, width) = (rest / digits, interval);
        }
        let first = |numerator: u64| {
            let all = u128::from(MOST_PHASE) + 1;
            (u128::from(numerator) * all).div_ceil(u128::from(width))
        };
        let (from, to) = (first(numerator), first(numerator + 1));
        let phase = |at: u128| u32::try_from(at).unwrap_or(MOST_PHASE);
        // In an interval of very many ticks some have no phase.
        match to.checked_sub(1) {
            Some(last) if from <= last => phase(from)..=phase(last),
            Some(_) | None => RangeInclusive::new(1, 0),
        }
    }

    pub fn oldest(&self, tick: i64) -> Instant {
        let max_age = self.tiers.last().map_or(0, |tier| tier.max_age_secs);
        Instant(tick.saturating_mul(self.every_secs)).saturating_sub(max_age)
    }
}

//! Slots, the due rule by age alone, without any counter: instants that follow from a record's
//! insertion date and its id. A failed record is due when one of them has come since the last pass.

use super::backoff::Backoff;
use super::progressive::Tiers;
use super::{Obstacle, Reason, Verdict};
use crate::hash::phase;
use crate::query::Slot;
use crate::record::{Facts, Id, Status};
use crate::time::Instant;

/// The rule by which a record's slots lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Slots {
    /// `--progressive`: once in each interval of the tier that the record's age is in.
    Progressive(Tiers),
    /// `--by-age`: where a policy would try it, if every attempt failed in its time.
    ByAge(Backoff),
}

/// The slots that a pass works off: behind `after`, up to the end of tick `until`.
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

/// A pass takes at most this many ticks, so that after a sleep the load is at most so many times
/// the usual one.
pub const CATCH_UP: i64 = 4;

impl Slots {
    pub fn every_secs(&self) -> i64 {
        match self {
            Self::Progressive(tiers) => tiers.every_secs,
            Self::ByAge(backoff) => backoff.every_secs,
        }
    }

    /// What a pass at `now` works off, if the last one came to `reached`; without a last one,
    /// the current tick. A `drain` catches up in one go.
    pub fn span(&self, reached: Option<Slot>, now: Instant, drain: bool) -> Span {
        let now = now.tick(self.every_secs());
        let after = reached
            .filter(|slot| slot.tick <= now)
            .unwrap_or_else(|| Slot::end_of(now.saturating_sub(1)));
        let until = if drain { now } else { now.min(after.tick.saturating_add(CATCH_UP)) };
        Span { after, until }
    }

    /// The oldest insertion date that can have a slot in the span.
    pub fn oldest(&self, span: Span) -> Instant {
        match self {
            Self::Progressive(tiers) => tiers.oldest(span.after.tick),
            Self::ByAge(_) => Instant(i64::MIN),
        }
    }

    /// The record's first slot behind `after`; `None` if there is none any more.
    pub fn next(&self, id: &Id, inserted_at: Instant, after: Slot) -> Option<Slot> {
        let phase = match self {
            Self::Progressive(tiers) => phase(id, tiers.salt),
            Self::ByAge(backoff) => phase(id, backoff.salt),
        };
        // In the tick where the last pass stopped, only higher phases are left.
        let behind = if phase > after.phase { after.tick.saturating_sub(1) } else { after.tick };
        let tick = match self {
            Self::Progressive(tiers) => tiers.next(phase, inserted_at, behind)?,
            Self::ByAge(backoff) => {
                let first = inserted_at.tick(backoff.every_secs);
                let retry = backoff.retry_after(phase, behind.saturating_sub(first))?;
                first.saturating_add(retry)
            }
        };
        Some(Slot { tick, phase })
    }

    /// The pass that will take a slot behind `span`, which is that of a pass in tick `now`: its
    /// tick, and what it works off. Passes that catch up come to a slot later than in its tick.
    pub fn pass_for(&self, slot: Slot, span: Span, now: i64) -> (i64, Span) {
        let behind = slot.tick.saturating_sub(span.until).max(1);
        let passes = (slot.tick.saturating_sub(now)).max((behind - 1) / CATCH_UP + 1);
        let tick = now.saturating_add(passes);
        let reached = span.until.saturating_add((passes - 1).saturating_mul(CATCH_UP));
        let reached = reached.min(tick.saturating_sub(1));
        let until = tick.min(reached.saturating_add(CATCH_UP));
        (tick, Span { after: Slot::end_of(reached), until })
    }

    pub fn verdict(&self, facts: Facts<'_>, span: Span, now: Instant) -> Verdict {
        if facts.status == Status::New {
            return Verdict::Due(Reason::New);
        }
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

    /// When a tick begins.
    pub fn instant(&self, tick: i64) -> Instant {
        Instant(tick.saturating_mul(self.every_secs()))
    }
}

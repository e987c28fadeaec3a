//! Schedules, which say WHEN a record is tried: pure functions of a record and an instant. No
//! clock, no I/O, no random draws.
//!
//! Three families, by what they go by: the age and cron's own frequency ([`AgeWindow`]), the count of
//! failures and the last of them ([`Backoff`]), or the age alone ([`Slots`]).

mod backoff;
mod due_rule;
mod keys;
mod settle;
mod slots;
mod spec;
mod zaqar;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod vectors;

pub use backoff::{Backoff, Jitter};
pub use due_rule::{DueRule, Planned, Verdict};
pub use keys::percent;
pub use settle::{End, RetryLimits, charge, exhausted, expire, settle};
pub use slots::{CATCH_UP, DEFAULT_TIERS, PROGRESSIVE_EVERY_SECS, Slots, Span, Tiers};
pub use spec::{
    EVERY_SECS, Options, duration, file_of, parse, parse_for_age, plain_fibonacci, policy_names,
};

use crate::query::{Shard, Slot, Window};
use crate::record::{Facts, Status};
use crate::time::{Instant, days};

#[derive(Debug, Clone)]
pub struct Schedule {
    pub policy: Policy,
    pub limits: RetryLimits,
    pub shard: Option<Shard>,
}

impl Schedule {
    /// Its options as a command line has them: `--fibonacci --max-attempts 5`.
    pub fn line(&self) -> String {
        let RetryLimits { max_attempts, max_age_secs, .. } = self.limits;
        let attempts = max_attempts.map(|most| format!(" --max-attempts {most}"));
        let age = max_age_secs.map(|secs| format!(" --max-age {}", duration(secs)));
        let shard = self.shard.map(|shard| format!(" --shard {shard}"));
        let more: String = [attempts, age, shard].into_iter().flatten().collect();
        self.policy.line() + &more
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Policy {
    /// `--ndays`: due by age; cron's own frequency is the schedule.
    Age(AgeWindow),
    /// `--fibonacci`, `--policy`: due when the wait after the last failure is over.
    Counted(Backoff),
    /// `--progressive`, `--by-age`: due when a slot has come.
    Slots(Slots),
}

/// When a pass looks at a record: it selects it, and looks again just before the handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassTime {
    /// Ages are measured here, so that a record does not slip out of its window while it queues.
    pub selected_at: Instant,
    /// Waits are measured here, so that what another pass has tried in between waits.
    pub now: Instant,
    pub span: Option<Span>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    New,
    WithinAge,
    WaitOver,
    Slot(Slot),
    /// ERROR, but without a last failure to reckon from.
    NoLastFailure,
    /// The last failure lies in the future: the clock was set back.
    ClockSetBack,
}

/// What keeps a record from ever being due under a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    NotPending,
    TooOld,
    OutOfSlots,
    /// The insertion date is NULL or cannot be read.
    Undated,
    /// The due column holds no date.
    NoDueDate,
    OtherShard,
}

impl Policy {
    /// What a pass at `now` looks at. `reached` is where the last one came to, for slots.
    pub fn pass_time(&self, reached: Option<Slot>, now: Instant, drain: bool) -> PassTime {
        let slots = if let Self::Slots(slots) = self { Some(slots) } else { None };
        let span = slots.map(|slots| slots.span(reached, now, drain));
        PassTime { selected_at: now, now, span }
    }

    pub fn window(&self, time: PassTime, statuses: &[Status]) -> Window {
        match (self, time.span) {
            (Self::Age(age), _) => age.window(time.selected_at),
            (Self::Counted(backoff), _) => backoff.window(time.now),
            (Self::Slots(slots), Some(span)) if statuses == [Status::Error] => slots.window(span),
            (Self::Slots(_), _) => Window::All,
        }
    }

    /// Is the record due, as far as the schedule goes? [`DueRule`] also knows where it ends.
    fn verdict(&self, facts: Facts<'_>, time: PassTime) -> Verdict {
        if !facts.status.is_pending() {
            return Verdict::Never(Obstacle::NotPending);
        }
        match self {
            Self::Age(age) => age.verdict(facts.inserted_at, time.selected_at),
            _ if facts.status == Status::New => Verdict::Due(Reason::New),
            Self::Counted(backoff) => backoff.verdict(facts, time.now),
            Self::Slots(slots) => {
                let span = time.span.unwrap_or_else(|| slots.span(None, time.now, false));
                slots.verdict(facts, span, time.now)
            }
        }
    }

    /// When a record that has just failed in a pass at `time` is due again, if the policy decides it.
    pub fn next_attempt(&self, facts: Facts<'_>, time: PassTime) -> Option<PassTime> {
        let (at, span) = match self {
            Self::Age(_) => return None,
            Self::Counted(backoff) => {
                let failed_at = facts.last_failure_at?;
                (backoff.next_attempt_at(facts.id, facts.failures, failed_at), None)
            }
            Self::Slots(slots) => {
                let span = time.span.unwrap_or_else(|| slots.span(None, time.now, false));
                let slot = slots.next(facts.id, facts.inserted_at?, Slot::end_of(span.until))?;
                let now = time.now.tick(slots.every_secs());
                let (tick, span) = slots.pass_for(slot, span, now);
                (slots.instant(tick), Some(span))
            }
        };
        Some(PassTime { selected_at: at, now: at, span })
    }

    /// The tick in which the policy counts, in seconds; by plain age it is one second.
    pub fn every_secs(&self) -> i64 {
        match self {
            Self::Age(_) => 1,
            Self::Counted(backoff) => backoff.every_secs,
            Self::Slots(slots) => slots.every_secs(),
        }
    }

    /// FAILURES and LAST_FAILURE.
    pub fn needs_counter(&self) -> bool {
        matches!(self, Self::Counted(_))
    }

    pub fn max_attempts(&self) -> Option<u32> {
        match self {
            Self::Age(_) | Self::Slots(Slots::Progressive(_)) => None,
            Self::Counted(backoff) | Self::Slots(Slots::ByAge(backoff)) => backoff.max_attempts,
        }
    }

    /// What is typed behind `--policy`, or the option of its own.
    pub fn name(&self) -> String {
        match self {
            Self::Age(age) => age.line(),
            Self::Counted(backoff) => backoff.name.clone(),
            Self::Slots(Slots::ByAge(backoff)) => format!("{} by age", backoff.name),
            Self::Slots(Slots::Progressive(_)) => "progressive".into(),
        }
    }

    /// As it is typed, which also tells one crontab line from another.
    pub fn line(&self) -> String {
        match self {
            Self::Age(age) => age.line(),
            Self::Counted(backoff) => backoff.line.clone(),
            Self::Slots(Slots::ByAge(backoff)) => format!("{} --by-age", backoff.line),
            Self::Slots(Slots::Progressive(tiers)) => tiers.line.clone(),
        }
    }
}

/// `--ndays N`: ages above `min_secs` up to `max_secs`. A future date is young if `min_secs` is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgeWindow {
    pub min_secs: i64,
    pub max_secs: i64,
}

impl AgeWindow {
    fn window(&self, now: Instant) -> Window {
        let until = (self.min_secs > 0).then(|| now.saturating_sub(self.min_secs));
        Window::Inserted { from: now.saturating_sub(self.max_secs), until }
    }

    /// `--min-ndays 1 --ndays 7`
    pub fn line(&self) -> String {
        let ndays = format!("--ndays {}", days(self.max_secs));
        match self.min_secs {
            0 => ndays,
            min => format!("--min-ndays {} {ndays}", days(min)),
        }
    }

    fn verdict(&self, inserted_at: Option<Instant>, now: Instant) -> Verdict {
        let Some(inserted_at) = inserted_at else {
            return Verdict::Never(Obstacle::Undated);
        };
        if inserted_at < now.saturating_sub(self.max_secs) {
            Verdict::Never(Obstacle::TooOld)
        } else if self.min_secs > 0 && inserted_at >= now.saturating_sub(self.min_secs) {
            Verdict::Wait { until: inserted_at.saturating_add(self.min_secs + 1) }
        } else {
            Verdict::Due(Reason::WithinAge)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::DAY;

    const NOW: Instant = Instant(1_795_232_400);

    fn verdict(min_days: i64, max_days: i64, age_secs: i64) -> Verdict {
        let age = AgeWindow { min_secs: min_days * DAY, max_secs: max_days * DAY };
        age.verdict(Some(NOW.saturating_sub(age_secs)), NOW)
    }

    #[test]
    fn the_upper_bound_is_inclusive_to_the_second() {
        assert_eq!(verdict(0, 7, 7 * DAY), Verdict::Due(Reason::WithinAge));
        assert_eq!(verdict(0, 7, 7 * DAY + 1), Verdict::Never(Obstacle::TooOld));
    }

    #[test]
    fn the_lower_bound_leaves_the_boundary_to_the_younger_line() {
        assert_eq!(verdict(1, 7, DAY + 1), Verdict::Due(Reason::WithinAge));
        assert_eq!(verdict(1, 7, DAY), Verdict::Wait { until: NOW.saturating_add(1) });
    }

    #[test]
    fn every_age_belongs_to_exactly_one_line_of_a_disjoint_schedule() {
        let tiers = [0, 1, 7, 14, 30, 180, 360];
        for age in (0..=360 * DAY).step_by(3_557).chain([DAY, DAY + 1, 7 * DAY, 360 * DAY]) {
            let due = tiers
                .windows(2)
                .filter(|pair| matches!(verdict(pair[0], pair[1], age), Verdict::Due(_)));
            assert_eq!(due.count(), 1, "{age}");
        }
    }

    #[test]
    fn a_date_in_the_future_counts_as_young() {
        assert_eq!(verdict(0, 1, -400 * DAY), Verdict::Due(Reason::WithinAge));
        assert!(matches!(verdict(1, 7, -400 * DAY), Verdict::Wait { .. }));
    }

    #[test]
    fn a_record_without_a_date_is_never_taken_for_old_or_new() {
        let age = AgeWindow { min_secs: 0, max_secs: DAY };
        assert_eq!(age.verdict(None, NOW), Verdict::Never(Obstacle::Undated));
    }
}

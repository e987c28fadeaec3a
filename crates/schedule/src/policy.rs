//! Policies in three families: by cron's frequency ([`AgeWindow`]), failures ([`Backoff`]) or age ([`Slots`]).

use crate::age_window::AgeWindow;
use crate::backoff::Backoff;
use crate::query::{Shard, Slot, Window};
use crate::record::{Facts, Status};
use crate::settle::RetryLimits;
use crate::slots::{Slots, Span};
use crate::spec::format_secs;
use crate::time::Instant;
use crate::verdict::{Obstacle, Reason, Verdict};

#[derive(Debug, Clone)]
pub struct Schedule {
    pub policy: Policy,
    pub limits: RetryLimits,
    pub shard: Option<Shard>,
}

impl Schedule {
    /// The options as typed: `--fibonacci --max-attempts 5`.
    pub fn options(&self) -> String {
        let RetryLimits { max_attempts, max_age_secs, .. } = self.limits;
        let attempts = max_attempts.map(|most| format!(" --max-attempts {most}"));
        let age = max_age_secs.map(|secs| format!(" --max-age {}", format_secs(secs)));
        let shard = self.shard.map(|shard| format!(" --shard {shard}"));
        let more: String = [attempts, age, shard].into_iter().flatten().collect();
        self.policy.options() + &more
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Policy {
    /// `--ndays`: due by age; cron's own frequency is the schedule.
    Age(AgeWindow),
    /// `--fibonacci`, `--policy`: due after the delay that follows the last failure.
    Counted(Backoff),
    /// `--progressive`, `--by-age`: due in slots.
    Slots(Slots),
}

/// The instants for which a pass decides. It selects records, and checks each again just before its handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassTime {
    /// Ages are measured at this instant, so that a record stays in its window while it queues.
    pub selected_at: Instant,
    /// Delays are measured at this instant, so that a record waits if another pass has just tried it.
    pub now: Instant,
    pub span: Option<Span>,
}

impl Policy {
    /// The time of a pass at `now`. `reached` is the last slot of the pass before it.
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

    /// The verdict by the policy alone. [`DueRule`](crate::DueRule) adds snoozes, limits and shards.
    pub(crate) fn verdict(&self, facts: Facts<'_>, time: PassTime) -> Verdict {
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

    /// The pass that retries a record which has just failed at `time`. `None` if cron alone decides, or if there is no
    /// slot left or no date to count from.
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

    /// Length of a tick in seconds; 1 with --ndays.
    pub fn every_secs(&self) -> i64 {
        match self {
            Self::Age(_) => 1,
            Self::Counted(backoff) => backoff.every_secs,
            Self::Slots(slots) => slots.every_secs(),
        }
    }

    /// Interval of the passes in seconds. `None` with --ndays, where cron alone decides.
    pub fn pass_interval(&self) -> Option<i64> {
        (!matches!(self, Self::Age(_))).then(|| self.every_secs())
    }

    pub fn needs_counter(&self) -> bool {
        matches!(self, Self::Counted(_))
    }

    pub fn max_attempts(&self) -> Option<u32> {
        match self {
            Self::Age(_) | Self::Slots(Slots::Progressive(_)) => None,
            Self::Counted(backoff) | Self::Slots(Slots::ByAge(backoff)) => backoff.max_attempts,
        }
    }

    pub fn name(&self) -> String {
        match self {
            Self::Age(age) => age.options(),
            Self::Counted(backoff) => backoff.name.clone(),
            Self::Slots(Slots::ByAge(backoff)) => format!("{} by age", backoff.name),
            Self::Slots(Slots::Progressive(_)) => "progressive".into(),
        }
    }

    /// The options as typed. They also identify the crontab line.
    pub fn options(&self) -> String {
        match self {
            Self::Age(age) => age.options(),
            Self::Counted(backoff) => backoff.options.clone(),
            Self::Slots(Slots::ByAge(backoff)) => format!("{} --by-age", backoff.options),
            Self::Slots(Slots::Progressive(tiers)) => tiers.options.clone(),
        }
    }
}

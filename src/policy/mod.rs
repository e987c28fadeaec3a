//! WHEN a record is tried: pure functions of a record and an instant. No clock, no I/O, no
//! random draws.

mod age;
mod fibonacci;
mod settle;

pub use age::Age;
pub use fibonacci::Fibonacci;
pub use settle::{Rules, charge, exhausted, settle};

use crate::instant::Instant;
use crate::record::{Record, Status};
use crate::selection::Window;

/// The rule by which a pass decides what is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Policy {
    /// `--ndays`: due by age; cron's own frequency is the schedule.
    Age(Age),
    /// `--fibonacci`: due when the wait after the last failure is over.
    Fibonacci(Fibonacci),
}

/// Is a pending record due?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Due(Reason),
    Wait {
        until: Instant,
    },
    /// Not under this policy, however long it waits.
    Never(Obstacle),
}

/// Why a record is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    New,
    WithinAge,
    WaitOver,
    /// ERROR, but without a last failure to reckon from.
    NoLastFailure,
    /// The last failure lies in the future: the clock was set back.
    ClockSetBack,
}

/// Why a record is never due under a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    NotPending,
    TooOld,
    /// The insertion date is NULL or cannot be read.
    Undated,
}

impl Policy {
    /// What a store has to look for at `now`.
    pub fn window(&self, now: Instant) -> Window {
        match self {
            Self::Age(age) => age.window(now),
            Self::Fibonacci(fibonacci) => fibonacci.window(now),
        }
    }

    /// The verdict on one record. A pass selects at `selected_at` and looks again at `now`, just
    /// before the handler: ages are measured at the former, so that a record does not slip out of
    /// its window while it queues, and waits at the latter, so that what another pass has tried
    /// in between waits.
    pub fn verdict(&self, record: &Record, selected_at: Instant, now: Instant) -> Verdict {
        if !record.status.is_pending() {
            return Verdict::Never(Obstacle::NotPending);
        }
        match self {
            Self::Age(age) => age.verdict(record.inserted_at, selected_at),
            Self::Fibonacci(_) if record.status == Status::New => Verdict::Due(Reason::New),
            Self::Fibonacci(fibonacci) => {
                fibonacci.verdict(record.failures, record.last_failure_at, now)
            }
        }
    }

    /// When a record that failed at `failed_at` for the `failures`-th time is due again, if the
    /// policy alone decides that.
    pub fn next_attempt_at(&self, failures: u32, failed_at: Instant) -> Option<Instant> {
        match self {
            Self::Age(_) => None,
            Self::Fibonacci(fibonacci) => Some(fibonacci.next_attempt_at(failures, failed_at)),
        }
    }

    /// Whether the policy goes by FAILURES and LAST_FAILURE.
    pub fn needs_counter(&self) -> bool {
        match self {
            Self::Age(_) => false,
            Self::Fibonacci(_) => true,
        }
    }

    /// The policy as it is typed, which also tells one crontab line from another.
    pub fn line(&self) -> String {
        match self {
            Self::Age(age) => age.line(),
            Self::Fibonacci(fibonacci) => fibonacci.line(),
        }
    }
}

//! The clock, which only `lib.rs` connects with the machine.

use std::time::{Duration, Instant as Monotonic};

use backlog_schedule::Instant;

/// Two clocks. The wall clock decides which records are due, and `--now` stops it. The monotonic clock times handlers.
#[derive(Clone, Copy)]
pub struct Clock {
    pub fixed: Option<Instant>,
    pub wall: fn() -> Instant,
    pub monotonic: fn() -> Monotonic,
}

impl Clock {
    /// A clock for tests, with a stopped wall clock.
    #[expect(clippy::disallowed_methods, reason = "tests measure durations, too")]
    pub fn at(now: Instant) -> Self {
        Self { fixed: Some(now), wall: || Instant(0), monotonic: Monotonic::now }
    }

    pub fn fixed(&self, now: Instant) -> Self {
        Self { fixed: Some(now), ..*self }
    }

    pub fn now(&self) -> Instant {
        self.fixed.unwrap_or_else(self.wall)
    }

    pub fn monotonic(&self) -> Monotonic {
        (self.monotonic)()
    }

    pub fn until(&self, deadline: Monotonic) -> Duration {
        deadline.saturating_duration_since(self.monotonic())
    }
}

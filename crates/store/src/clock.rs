//! The clock, which main alone reads from the machine.

use std::time::{Duration, Instant as Monotonic};

use backlog_schedule::Instant;

/// The wall clock decides what is due and can stand still (`--now`); the monotonic one times handlers.
#[derive(Clone, Copy)]
pub struct Clock {
    pub fixed: Option<Instant>,
    pub wall: fn() -> Instant,
    pub monotonic: fn() -> Monotonic,
}

impl Clock {
    /// A clock for tests, whose wall clock stands still.
    #[expect(
        clippy::disallowed_methods,
        reason = "how long something takes is measured in tests too"
    )]
    pub fn at(now: Instant) -> Self {
        Self { fixed: Some(now), wall: || Instant(0), monotonic: Monotonic::now }
    }

    /// The same, but that the wall clock stands still at `now`.
    pub fn fixed(&self, now: Instant) -> Self {
        Self { fixed: Some(now), ..*self }
    }

    pub fn now(&self) -> Instant {
        self.fixed.unwrap_or_else(self.wall)
    }

    pub fn monotonic(&self) -> Monotonic {
        (self.monotonic)()
    }

    /// How long from now until `deadline`; zero once it has passed.
    pub fn until(&self, deadline: Monotonic) -> Duration {
        deadline.saturating_duration_since(self.monotonic())
    }
}

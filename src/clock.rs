//! The time as the program sees it. Main alone reads the machine's clocks; everything else is
//! handed this.

use std::time::{Duration, Instant as Monotonic};

use crate::time::Instant;

/// Two clocks: the wall clock, which decides what is due and can stand still
/// (`--now`), and the monotonic one, which times handlers and never stands still.
#[derive(Clone, Copy)]
pub struct Clock {
    pub fixed: Option<Instant>,
    pub wall: fn() -> Instant,
    pub monotonic: fn() -> Monotonic,
}

impl Clock {
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

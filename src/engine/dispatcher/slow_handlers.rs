//! Notes which records have slow handlers: `status`, `list` and `explain` show them.

use std::time::{Duration, Instant as Monotonic};

use backlog_schedule::{Id, Instant};

use super::Dispatcher;

/// A handler that runs for longer is slow.
const LONG: Duration = Duration::from_secs(10);
/// The interval of the checks while a handler is slow, to see it end.
const LOOK: Duration = Duration::from_secs(1);
/// Maximum number of records that are noted.
const MOST: usize = 1_000;

#[derive(Default)]
pub struct SlowHandlers {
    noted: Vec<(Id, Instant)>,
    look_at: Option<Monotonic>,
}

impl Dispatcher {
    /// Notes which records in hand have slow handlers. Returns the time until the next check.
    pub(super) fn note_slow_handlers(&mut self) -> Option<Duration> {
        let now = self.pass.clock.monotonic();
        let look_at = *self.slow_handlers.look_at.get_or_insert(now + LONG);
        if now >= look_at {
            let ran = |began| now.saturating_duration_since(began);
            let long = self.in_hand.iter().filter(|(_, it)| ran(it.began) >= LONG);
            let mut long: Vec<_> = long.map(|(id, it)| (id.clone(), it.started_at)).collect();
            long.sort_by_key(|(_, since)| *since);
            long.truncate(MOST);
            let next = self.in_hand.values().map(|it| LONG.saturating_sub(ran(it.began)));
            let next = if long.is_empty() { next.min().unwrap_or(LONG) } else { LOOK };
            self.slow_handlers.look_at = Some(now + next);
            if self.slow_handlers.noted != long {
                self.pass.observer.slow_handlers(&long);
                self.slow_handlers.noted = long;
            }
        }
        let is_any = !self.in_hand.is_empty();
        let look_at = self.slow_handlers.look_at.filter(|_| is_any);
        look_at.map(|at| at.saturating_duration_since(now))
    }
}

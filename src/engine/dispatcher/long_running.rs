//! The records whose handlers have run for long, which the record of the pass names for `status`, `list` and `explain`.

use std::time::{Duration, Instant as Monotonic};

use backlog_schedule::{Id, Instant};

use super::Dispatcher;

/// How long a handler has run when its record is noted.
const LONG: Duration = Duration::from_secs(10);
/// The time between two looks while any handler has run for so long.
const LOOK: Duration = Duration::from_secs(1);
/// Maximum number of records that are noted.
const MOST: usize = 1_000;

#[derive(Default)]
pub struct LongRunning {
    noted: Vec<(Id, Instant)>,
    look_at: Option<Monotonic>,
}

impl Dispatcher {
    /// Notes the records in hand whose handlers have run for long. Returns the time until the next look.
    pub(super) fn note_long_running(&mut self) -> Option<Duration> {
        let now = self.pass.clock.monotonic();
        let look_at = *self.long_running.look_at.get_or_insert(now + LONG);
        if now >= look_at {
            let ran = |began| now.saturating_duration_since(began);
            let long = self.in_hand.iter().filter(|(_, it)| ran(it.began) >= LONG);
            let mut long: Vec<_> = long.map(|(id, it)| (id.clone(), it.started_at)).collect();
            long.sort_by_key(|(_, since)| *since);
            long.truncate(MOST);
            let next = self.in_hand.values().map(|it| LONG.saturating_sub(ran(it.began)));
            let next = if long.is_empty() { next.min().unwrap_or(LONG) } else { LOOK };
            self.long_running.look_at = Some(now + next);
            if self.long_running.noted != long {
                self.pass.observer.long_running(&long);
                self.long_running.noted = long;
            }
        }
        let is_any = !self.in_hand.is_empty();
        let look_at = self.long_running.look_at.filter(|_| is_any);
        look_at.map(|at| at.saturating_duration_since(now))
    }
}

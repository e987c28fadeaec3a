//! Notes which records have slow handlers: `status`, `list` and `explain` show them.

use std::time::{Duration, Instant as Monotonic};

use backlog_schedule::{Id, Instant};

use super::Dispatcher;

/// A handler that runs for longer is slow.
const LONG: Duration = Duration::from_secs(10);
/// Maximum number of records that are noted.
const MOST: usize = 1_000;

/// The records that were noted last.
#[derive(Default)]
pub struct SlowHandlers(Vec<(Id, Instant)>);

impl Dispatcher {
    pub(super) fn note_slow_handlers(&mut self, now: Monotonic) {
        let is_slow = |began| now.saturating_duration_since(began) >= LONG;
        let slow = self.in_hand.iter().filter(|(_, it)| is_slow(it.began));
        let mut slow: Vec<_> = slow.map(|(id, it)| (id.clone(), it.started_at)).collect();
        slow.sort_by_key(|(_, since)| *since);
        slow.truncate(MOST);
        if self.slow_handlers.0 != slow && self.pass.observer.slow_handlers(&slow) {
            self.slow_handlers.0 = slow;
        }
    }

    /// Interrupts the attempts that somebody wants to be stopped. This pass does not try their records again.
    pub(super) fn stop_slow_handlers(&mut self) {
        if self.slow_handlers.0.is_empty() {
            return;
        }
        let mut stopped = self.pass.observer.stop_requests();
        stopped.retain(|id| self.in_hand.contains_key(id));
        for id in &stopped {
            log::warn!("record {id}: its handler is stopped, as somebody asked");
            self.breaker.skipped.insert(id.clone());
        }
        self.handlers.handler.end(&stopped, self.pass.limits.grace);
    }
}

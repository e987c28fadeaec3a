//! The lease of a message: how long it stays hidden from other readers, and when its handler must have
//! ended. All times are [boot times](crate::store::watchdog::boottime).

use std::time::Duration;

/// How long a message stays hidden after its reader has died.
pub const HIDDEN_SECS: u64 = 30;
/// How often a living reader extends the leases of its messages.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(HIDDEN_SECS / 3);
/// A handler is ended this long before its lease ends, because ending it takes a moment.
const MARGIN: Duration = Duration::from_secs(5);
/// The pass treats a lease as lost this long before the watchdog ends the handler. Otherwise it could count
/// a handler that the watchdog killed as failed.
const GUARD: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lease {
    /// When the watchdog ends the handler, unless the lease is extended.
    pub deadline: Duration,
}

impl Lease {
    /// A lease that was requested from the server at this time.
    pub fn asked_at(now: Duration) -> Self {
        Self { deadline: now + Duration::from_secs(HIDDEN_SECS) - MARGIN }
    }

    pub fn is_over(self, now: Duration) -> bool {
        now + GUARD >= self.deadline
    }

    /// Whether it will be over at the next heartbeat.
    pub fn is_running_out(self, now: Duration) -> bool {
        self.is_over(now + HEARTBEAT_INTERVAL)
    }

    /// Whether a heartbeat should have extended it by now.
    pub fn is_overdue(self, now: Duration) -> bool {
        self.is_running_out(now + MARGIN / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_over_five_seconds_before_the_message_is_visible_again() {
        let secs = Duration::from_secs;
        let lease = Lease::asked_at(secs(100));
        assert_eq!(lease.deadline, secs(125));
        // The heartbeats come at 110, 120 and 130 s.
        for (now, is_overdue, is_running_out, is_over) in [
            (100, false, false, false),
            (110, false, false, false),
            (113, true, false, false),
            (115, true, true, false),
            (124, true, true, false),
            (125, true, true, true),
            (160, true, true, true),
        ] {
            let now = secs(now);
            assert_eq!(lease.is_overdue(now), is_overdue, "{now:?}");
            assert_eq!(lease.is_running_out(now), is_running_out, "{now:?}");
            assert_eq!(lease.is_over(now), is_over, "{now:?}");
        }
        assert!(lease.is_over(secs(125) - GUARD));
    }
}

//! The time since the machine started. It includes the time for which the machine was suspended, because
//! claims on a server run out meanwhile.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

pub fn boottime() -> Duration {
    let at = clock_gettime(ClockId::Boottime);
    Duration::new(at.tv_sec.unsigned_abs(), u32::try_from(at.tv_nsec).unwrap_or_default())
}

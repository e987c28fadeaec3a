//! A pass with a handler that does nothing, which bench/postgres.rs measures.

use std::path::Path;
use std::time::{Duration, Instant as Monotonic};

use anyhow::Result;
use backlog_schedule::{
    AgeWindow, Capabilities, DAY, Instant, Order, Policy, RetryLimits, Schedule,
};
use backlog_store::{Access, Clock, Location, Mapping, Retry, Stop};

use crate::engine::{self, Handlers, LineSchedule, Observer, Pass, PassLimits};

pub const NOW_SECS: i64 = 1_795_232_400;
const NOW: Instant = Instant(NOW_SECS);

impl Observer for () {}

/// Runs a pass and returns the number of successes. With `counts_failures`, each attempt is charged before it runs.
pub fn pass(url: &str, state_dir: &Path, counts_failures: bool) -> Result<u64> {
    #[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
    let clock = Clock { fixed: Some(NOW), wall: || NOW, monotonic: Monotonic::now };
    let location = Location::from_url(url, None, &|_| None)?;
    let opened = location.open(&Mapping::default(), Access::ReadWrite, clock)?;
    let state = opened.state_dir(Some(state_dir))?;
    let policy = Policy::Age(AgeWindow { min_secs: 0, max_secs: DAY });
    let capabilities = Capabilities {
        has_counter: counts_failures,
        can_snooze: counts_failures,
        ..Capabilities::default()
    };
    let schedule = Schedule { policy, limits: RetryLimits::default(), shard: None };
    let stop = Stop::new(clock, Duration::ZERO, None)?;
    let pass = Pass {
        store: opened.into_store(&state, Retry::new(None, clock))?,
        line: LineSchedule::new(schedule, capabilities),
        began_at: NOW,
        order: Order::Newest,
        limits: PassLimits::default(),
        clock,
        stop: stop.clone(),
        token: None,
        observer: Box::new(()),
    };
    let tally = engine::run(pass, |_| Ok(Handlers::scripted(true, &stop)))?;
    Ok(tally.succeeded)
}

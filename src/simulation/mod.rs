//! Simulation of a policy: the engine itself, on a table in memory, with a clock that is stepped
//! from tick to tick and a handler that follows a script.

mod measure;

pub use measure::{Figures, Load, figures, load};

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use anyhow::{Result, ensure};

use crate::clock::Clock;
use crate::engine::{self, Handlers, Observer, Pass, PassLimits, Plan, PlanKind, SettledAttempt};
use crate::handlers::{Script, Scripted};
use crate::lock::lock;
use crate::query::{Cursor, Order, Slot};
use crate::record::Facts;
use crate::schedule::{CATCH_UP, Capabilities, Forecast, Look, PassTime, Policy, Schedule};
use crate::store::{MemoryRow, MemoryStore};
use crate::time::Instant;

/// The scenario, the same for each line.
#[derive(Debug, Clone)]
pub struct Scenario {
    pub rows: Vec<MemoryRow>,
    /// Whether each row comes at its insertion date; otherwise all are there from the start.
    pub rows_arrive: bool,
    pub start: Instant,
    pub secs: i64,
    pub script: Script,
}

impl Scenario {
    /// The instant so many seconds after the start.
    pub fn instant(&self, at: i64) -> Instant {
        self.start.saturating_add(at)
    }
}

/// A simulated crontab line, whose policy counts in ticks.
#[derive(Debug, Clone)]
pub struct Course {
    pub schedule: Schedule,
    pub capabilities: Capabilities,
    /// Where its last pass came to, by slots.
    pub reached: Option<Slot>,
}

/// No simulation goes on behind this many attempts: they are kept, in 16 bytes each.
const MOST_ATTEMPTS: usize = 30_000_000;

/// One attempt of a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tried {
    /// Which of the scenario's rows.
    pub row: u32,
    /// 1 for the first of the record's life, which need not have been simulated.
    pub attempt: u32,
    /// Seconds after the start.
    pub at: i64,
}

/// The run of a line through the scenario.
pub struct Run {
    pub policy: Policy,
    pub every_secs: i64,
    /// In the order in which they happened.
    pub attempts: Vec<Tried>,
}

impl Run {
    /// All attempts but the first of each record.
    pub fn retries(&self) -> impl Iterator<Item = &Tried> {
        self.attempts.iter().filter(|tried| tried.attempt > 1)
    }
}

impl Course {
    /// The instant of the first pass at `at` or later: passes start with the ticks.
    fn pass_at(&self, at: Instant) -> Instant {
        let every_secs = self.schedule.policy.every_secs();
        Instant(at.saturating_add(every_secs - 1).tick(every_secs).saturating_mul(every_secs))
    }

    /// What a pass at `now` looks at, if there was one in each tick since `first`.
    fn look(&self, first: Instant, now: Instant) -> Look {
        let time = self.pass_time(first, now);
        Look {
            schedule: self.schedule.clone(),
            capabilities: self.capabilities,
            time,
            kept: HashMap::new(),
        }
    }

    fn pass_time(&self, first: Instant, now: Instant) -> PassTime {
        self.schedule.policy.pass_time(self.reached_before(first, now), now, false)
    }

    fn reached_before(&self, first: Instant, now: Instant) -> Option<Slot> {
        let every_secs = self.schedule.policy.every_secs();
        let (tick, passes) = (now.tick(every_secs), now.tick(every_secs) - first.tick(every_secs));
        match self.reached {
            Some(slot) if passes <= 0 => Some(slot),
            Some(slot) if slot.tick <= first.tick(every_secs) => {
                let caught_up = slot.tick.saturating_add(passes.saturating_mul(CATCH_UP));
                Some(Slot::end_of(caught_up.min(tick - 1)))
            }
            Some(_) | None => None,
        }
    }
}

/// Runs one course through the scenario.
pub fn run(scenario: &Scenario, course: &Course, clock: Clock) -> Result<Run> {
    let policy = &course.schedule.policy;
    let (start, end) = (scenario.start, scenario.instant(scenario.secs));
    let first_pass = course.pass_at(start);
    let first = |facts: Facts<'_>| {
        let arrives_at = facts.inserted_at.filter(|_| scenario.rows_arrive);
        let at = arrives_at.map_or(first_pass, |at| at.max(first_pass));
        Forecast::new(&course.look(first_pass, at), facts, at).next().map(|it| it.at)
    };
    let next = course.clone();
    let next_at = move |facts: Facts<'_>, now| {
        Some(next.schedule.policy.next_attempt(facts, next.pass_time(first_pass, now))?.now)
    };
    let store = MemoryStore::new(scenario.rows.clone(), first, Box::new(next_at));
    let log = Arc::new(Mutex::new(Vec::new()));
    let attempts = || lock(&log);
    let mut last = None;
    while let Some(at) = store.next_at() {
        // One pass in each tick.
        let next_tick = last.map(|last: Instant| last.next_tick(policy.every_secs()));
        let now = course.pass_at(at).max(next_tick.unwrap_or(first_pass));
        if now > end {
            break;
        }
        last = Some(now);
        store.set_now(now);
        let observer = Recorder { store: store.clone(), log: log.clone(), at: now.0 - start.0 };
        let pass = Pass {
            store: Box::new(store.clone()),
            look: course.look(first_pass, now),
            limits: PassLimits::NONE,
            clock: clock.fixed(now),
            plan: match policy {
                Policy::Slots(_) => Plan { kind: PlanKind::Slots, ..Plan::full(Order::Oldest) },
                Policy::Age(_) | Policy::Counted(_) => Plan::full(Order::Oldest),
            },
            token: String::new(),
            observer: Box::new(observer),
        };
        engine::run(pass, |_| Ok(Handlers::only(Scripted(scenario.script))))?;
        ensure!(
            attempts().len() <= MOST_ATTEMPTS,
            "more than {MOST_ATTEMPTS} attempts; take fewer --records or a shorter time --for"
        );
    }
    let attempts = std::mem::take(&mut *attempts());
    Ok(Run { policy: policy.clone(), every_secs: policy.every_secs(), attempts })
}

/// Writes the attempts down.
struct Recorder {
    store: MemoryStore,
    log: Arc<Mutex<Vec<Tried>>>,
    at: i64,
}

impl Observer for Recorder {
    fn selected(&mut self, _due: usize) {}

    fn attempted(&mut self, attempt: &SettledAttempt) {
        let position = self.store.position(&attempt.attempt.id);
        if let Some(row) = position.and_then(|row| u32::try_from(row).ok()) {
            let tried = Tried { row, attempt: attempt.number, at: self.at };
            lock(&self.log).push(tried);
        }
    }

    fn reached(&mut self, _cursor: &Cursor) {}

    fn finished(&mut self) -> Result<()> {
        Ok(())
    }
}

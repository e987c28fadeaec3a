//! Simulation of a policy: the engine itself, on a table in memory, with a clock that is stepped
//! from tick to tick and a handler that follows a script.

mod measure;

pub use measure::{Load, load};

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::engine::{self, CronLine, Handlers, Observer, Pass, PassLimits, SettledAttempt};
use crate::handlers::Script;
use crate::lock;
use crate::query::{Cursor, Order, Position, Slot};
use crate::record::{Facts, Record};
use crate::schedule::{CATCH_UP, Policy};
use crate::stop::Stop;
use crate::store::MemoryStore;
use crate::time::Clock;
use crate::time::Instant;
use measure::{Figures, figures};

#[derive(Debug, Clone)]
pub struct Scenario {
    pub rows: Vec<Record>,
    /// Whether each row comes at its insertion date; otherwise all are there from the start.
    pub rows_arrive: bool,
    /// Whether all of them fail at the start, and never succeed.
    pub is_cohort: bool,
    pub start: Instant,
    pub secs: i64,
    pub script: Script,
}

impl Scenario {
    pub fn instant(&self, at: i64) -> Instant {
        self.start.saturating_add(at)
    }
}

/// No simulation goes on behind this many attempts: they are kept, in 16 bytes each.
const MOST_ATTEMPTS: usize = 30_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tried {
    /// Which of the scenario's rows.
    pub row: u32,
    /// 1 for the first of the record's life, which need not have been simulated.
    pub attempt: u32,
    /// Seconds after the start.
    pub at: i64,
}

pub struct Run {
    pub policy: Policy,
    /// In the order in which they happened.
    pub attempts: Vec<Tried>,
    pub figures: Figures,
}

impl Run {
    /// All attempts but the first of each record.
    pub fn retries(&self) -> impl Iterator<Item = &Tried> {
        self.attempts.iter().filter(|tried| tried.attempt > 1)
    }
}

/// A crontab line with one pass in each tick.
#[derive(Clone)]
struct Ticking {
    line: CronLine,
    every_secs: i64,
    first_pass: Instant,
}

impl Ticking {
    /// The instant of the first pass at `at` or later: passes start with the ticks.
    fn pass_at(&self, at: Instant) -> Instant {
        at.saturating_sub(1).next_tick(self.every_secs)
    }

    /// The line as the passes before `now` have left it.
    fn at(&self, now: Instant) -> CronLine {
        let reached = self.reached_before(now).map(Position::Slot);
        CronLine { cursor: Cursor { reached, ..Cursor::default() }, ..self.line.clone() }
    }

    fn reached_before(&self, now: Instant) -> Option<Slot> {
        let slot = self.line.reached()?;
        let (tick, first) = (now.tick(self.every_secs), self.first_pass.tick(self.every_secs));
        if tick <= first {
            return Some(slot);
        }
        let caught_up = slot.tick.saturating_add((tick - first).saturating_mul(CATCH_UP));
        (slot.tick <= first).then(|| Slot::end_of(caught_up.min(tick - 1)))
    }
}

pub fn run(scenario: &Scenario, line: &CronLine, clock: Clock) -> Result<Run> {
    let policy = &line.schedule.policy;
    let (start, end) = (scenario.start, scenario.instant(scenario.secs));
    let every_secs = policy.every_secs();
    let first_pass = start.saturating_sub(1).next_tick(every_secs);
    let ticking = Ticking { line: line.clone(), every_secs, first_pass };
    let first = |facts: Facts<'_>| {
        let arrives_at = facts.inserted_at.filter(|_| scenario.rows_arrive);
        let at = arrives_at.map_or(ticking.first_pass, |at| at.max(ticking.first_pass));
        ticking.at(at).due_rule(at, false).forecast(facts, at).next().map(|it| it.at)
    };
    let next = ticking.clone();
    let next_at = move |facts: Facts<'_>, now| {
        let policy = &next.line.schedule.policy;
        let time = policy.pass_time(next.reached_before(now), now, false);
        Some(policy.next_attempt(facts, time)?.now)
    };
    let store = MemoryStore::new(scenario.rows.clone(), first, Box::new(next_at));
    let log = Arc::new(Mutex::new(Vec::new()));
    let stop = Stop::new(clock, Duration::ZERO, None)?;
    let mut last = None;
    while let Some(at) = store.next_at() {
        // One pass in each tick.
        let next_tick = last.map(|last: Instant| last.next_tick(every_secs));
        let now = ticking.pass_at(at).max(next_tick.unwrap_or(ticking.first_pass));
        if now > end {
            break;
        }
        last = Some(now);
        store.set_now(now);
        let observer = Recorder { store: store.clone(), log: log.clone(), at: now.0 - start.0 };
        let pass = Pass {
            store: Box::new(store.clone()),
            line: ticking.at(now),
            began_at: now,
            order: Order::Oldest,
            limits: PassLimits::default(),
            clock: clock.fixed(now),
            stop: stop.clone(),
            token: None,
            observer: Box::new(observer),
        };
        engine::run(pass, |_| Ok(Handlers::scripted(scenario.script, &stop)))?;
        ensure!(
            lock(&log).len() <= MOST_ATTEMPTS,
            "more than {MOST_ATTEMPTS} attempts; take fewer --records or a shorter time --for"
        );
    }
    let attempts = std::mem::take(&mut *lock(&log));
    let figures = figures(&line.schedule, &attempts, scenario);
    Ok(Run { policy: policy.clone(), attempts, figures })
}

struct Recorder {
    store: MemoryStore,
    log: Arc<Mutex<Vec<Tried>>>,
    at: i64,
}

impl Observer for Recorder {
    fn attempted(&mut self, attempt: &SettledAttempt) {
        let position = self.store.position(&attempt.attempt.id);
        if let Some(row) = position.and_then(|row| u32::try_from(row).ok()) {
            let tried = Tried { row, attempt: attempt.number, at: self.at };
            lock(&self.log).push(tried);
        }
    }
}

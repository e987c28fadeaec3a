//! What a policy will do: the engine itself, on a table in memory, with a clock that is stepped
//! from tick to tick and a handler that only plays its part.

mod measure;

pub use measure::{Figures, Load, figures, load};

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;

use crate::clock::Clock;
use crate::engine::{self, Attempt, Limits, Observer, Pass, Plan};
use crate::handler::{Script, Scripted};
use crate::instant::Instant;
use crate::policy::{Forecast, Look, Policy, Rules};
use crate::record::{Facts, Id};
use crate::selection::{Order, Reached, Slot};
use crate::store::{MemoryRow, MemoryStore};

/// What is simulated, for each policy alike.
#[derive(Debug, Clone)]
pub struct Scenario {
    pub rows: Vec<MemoryRow>,
    pub start: Instant,
    pub secs: i64,
    pub script: Script,
    pub max_attempts: Option<u32>,
}

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

/// A policy's run through a scenario.
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

/// Runs the scenario under a policy that counts in ticks.
pub fn run(scenario: &Scenario, policy: &Policy, clock: Clock) -> Result<Run> {
    let every_secs = policy.every_secs();
    let (start, end) = (scenario.start, scenario.start.saturating_add(scenario.secs));
    let has_counter = policy.needs_counter();
    let max_attempts = scenario.max_attempts.or(policy.max_attempts());
    let rules = Rules { has_counter, max_attempts, max_age_secs: None };
    let first = |facts: Facts<'_>| {
        let at = facts.inserted_at.map_or(start, |at| at.max(start));
        let look = Look { policy: policy.clone(), rules, moment: policy.moment(None, at, false) };
        Forecast::new(&look, facts, at).next().map(|it| it.at)
    };
    let waking = policy.clone();
    let wake = move |facts: Facts<'_>, now| {
        Some(waking.next_attempt(facts, waking.moment(None, now, false))?.now)
    };
    let store = MemoryStore::new(scenario.rows.clone(), first, Box::new(wake));
    let log = Arc::new(Mutex::new(Vec::new()));
    let rows = scenario.rows.iter().zip(0..).map(|(row, number)| (row.id.clone(), number));
    let rows: Arc<HashMap<Id, u32>> = Arc::new(rows.collect());
    let mut tick = i64::MIN;
    while let Some(at) = store.next_at() {
        // Passes start with the ticks, one in each.
        tick = at.saturating_add(every_secs - 1).tick(every_secs).max(tick.saturating_add(1));
        let now = Instant(tick.saturating_mul(every_secs)).max(start);
        if now > end {
            break;
        }
        store.set_now(now);
        let observer = Recorder { rows: rows.clone(), log: log.clone(), at: now.0 - start.0 };
        pass(store.clone(), policy, rules, scenario.script, clock.fixed(now), Box::new(observer))?;
    }
    let attempts = std::mem::take(&mut *log.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(Run { policy: policy.clone(), every_secs, attempts })
}

fn pass(
    store: MemoryStore,
    policy: &Policy,
    rules: Rules,
    script: Script,
    clock: Clock,
    observer: Box<dyn Observer + Send>,
) -> Result<()> {
    let tick = clock.now().tick(policy.every_secs());
    let order = Order::Oldest;
    let plan = match policy {
        Policy::Slots(_) => Plan::Slots { order, reached: Some(Slot::end_of(tick - 1)) },
        Policy::Age(_) | Policy::Counted(_) => Plan::Full { order },
    };
    let limits =
        Limits { max_records: None, max_runtime: None, grace: Duration::ZERO, drain: false };
    let pass = Pass {
        store: Box::new(store),
        policy: policy.clone(),
        rules,
        limits,
        clock,
        plan,
        token: String::new(),
        observer,
    };
    engine::run(pass, |_| Ok(Arc::new(Scripted(script))))?;
    Ok(())
}

/// Writes the attempts down.
struct Recorder {
    rows: Arc<HashMap<Id, u32>>,
    log: Arc<Mutex<Vec<Tried>>>,
    at: i64,
}

impl Observer for Recorder {
    fn selected(&mut self, _due: usize) {}

    fn attempted(&mut self, attempt: &Attempt) {
        if let Some(&row) = self.rows.get(&attempt.answer.id) {
            let tried = Tried { row, attempt: attempt.attempt, at: self.at };
            self.log.lock().unwrap_or_else(PoisonError::into_inner).push(tried);
        }
    }

    fn reached(&mut self, _reached: &Reached) {}

    fn finished(&mut self) -> Result<()> {
        Ok(())
    }
}

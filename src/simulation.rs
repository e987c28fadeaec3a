//! Simulation: the engine on a table in memory, with a clock that steps from tick to tick and a handler that
//! always fails; and figures about the evenness of load and delays.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Result, ensure};
use backlog_schedule::{
    Backoff, CATCH_UP, Cursor, Facts, Instant, Order, Policy, Position, Record, Schedule, Slot,
    Slots,
};
use backlog_store::{Clock, MemoryStore, Stop, lock};

use crate::engine::{
    self, Handlers, LineSchedule, Observer, Pass, PassLimits, SettledAttempt, Tally,
};

#[derive(Debug, Clone)]
pub struct Scenario {
    pub rows: Vec<Record>,
    /// True if all rows are new at the start, so that they fail together.
    pub is_cohort: bool,
    pub start: Instant,
    pub secs: i64,
}

impl Scenario {
    pub fn instant(&self, at: i64) -> Instant {
        self.start.saturating_add(at)
    }
}

/// Maximum number of attempts, which are kept in 16 bytes each.
const MOST_ATTEMPTS: usize = 30_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tried {
    pub row: u32,
    /// Number of the attempt since the record was inserted, perhaps before the simulation.
    pub attempt: u32,
    pub at: i64,
}

pub struct SimulatedRun {
    pub policy: Policy,
    pub attempts: Vec<Tried>,
    pub figures: Figures,
}

impl SimulatedRun {
    pub fn retries(&self) -> impl Iterator<Item = &Tried> {
        self.attempts.iter().filter(|tried| tried.attempt > 1)
    }
}

/// The last slot that the passes of a line have reached before `now`, if there is a pass in each tick.
fn reached_before(line: &LineSchedule, first_pass: Instant, now: Instant) -> Option<Slot> {
    let slot = line.reached(first_pass)?;
    let every_secs = line.schedule.policy.every_secs();
    let (tick, first) = (now.tick(every_secs), first_pass.tick(every_secs));
    if tick <= first {
        return Some(slot);
    }
    let caught_up = slot.tick.saturating_add((tick - first).saturating_mul(CATCH_UP));
    (slot.tick <= first).then(|| Slot::end_of(caught_up.min(tick - 1)))
}

pub fn run(scenario: &Scenario, line: &LineSchedule, clock: Clock) -> Result<SimulatedRun> {
    let policy = &line.schedule.policy;
    let (start, end) = (scenario.start, scenario.instant(scenario.secs));
    let every_secs = policy.every_secs();
    let pass_at = |at: Instant| at.saturating_sub(1).next_tick(every_secs);
    let first_pass = pass_at(start);
    let line_at = |now| {
        let reached = reached_before(line, first_pass, now).map(Position::Slot);
        LineSchedule { cursor: Cursor { reached, ..Cursor::default() }, ..line.clone() }
    };
    let rule = line_at(first_pass).due_rule(first_pass, false);
    let first = |facts: Facts<'_>| Some(rule.forecast(facts, first_pass).next()?.at);
    let next = line.clone();
    let next_at = move |facts: Facts<'_>, now| {
        let policy = &next.schedule.policy;
        let time = policy.pass_time(reached_before(&next, first_pass, now), now, false);
        Some(policy.next_attempt(facts, time)?.now)
    };
    let store = MemoryStore::new(scenario.rows.clone(), first, Box::new(next_at));
    let log = Arc::new(Mutex::new(Vec::new()));
    let stop = Stop::new(clock, Duration::ZERO, None)?;
    let mut last = None;
    while let Some(at) = store.next_at() {
        let next_tick = last.map(|last: Instant| last.next_tick(every_secs));
        let now = pass_at(at).max(next_tick.unwrap_or(first_pass));
        if now > end {
            break;
        }
        last = Some(now);
        store.set_now(now);
        let observer = Recorder { store: store.clone(), log: log.clone(), at: now.0 - start.0 };
        let pass = Pass {
            store: Box::new(store.clone()),
            line: line_at(now),
            began_at: now,
            order: Order::Oldest,
            limits: PassLimits::default(),
            clock: clock.fixed(now),
            stop: stop.clone(),
            token: None,
            observer: Box::new(observer),
        };
        engine::run(pass, |_| Ok(Handlers::scripted(false, &stop)))?;
        ensure!(
            lock(&log).len() <= MOST_ATTEMPTS,
            "more than {MOST_ATTEMPTS} attempts; lower --records or --for"
        );
    }
    let attempts = std::mem::take(&mut *lock(&log));
    let figures = figures(&line.schedule, &attempts, scenario);
    Ok(SimulatedRun { policy: policy.clone(), attempts, figures })
}

struct Recorder {
    store: MemoryStore,
    log: Arc<Mutex<Vec<Tried>>>,
    at: i64,
}

impl Observer for Recorder {
    fn attempted(&mut self, attempt: &SettledAttempt, _: &Tally) {
        let position = self.store.position(&attempt.attempt.id);
        if let Some(row) = position.and_then(|row| u32::try_from(row).ok()) {
            let tried = Tried { row, attempt: attempt.number, at: self.at };
            lock(&self.log).push(tried);
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    pub attempts: usize,
    /// Maximum number of retries in one tick.
    pub peak: usize,
    /// Number of ticks without a retry, out of `ticks` from the first retry to the end.
    pub idle_ticks: i64,
    pub ticks: i64,
    pub longest_idle_secs: i64,
    /// For records that fail together and without end; see [`evenness`].
    pub evenness: Option<Evenness>,
}

/// Two ratios of a standard deviation to a mean: the lower, the better.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evenness {
    /// For the load, in bins of 5 % of the delay in force.
    pub unevenness: f64,
    /// For each delay over the records, on average over the delays after the first.
    pub deviation: f64,
}

/// Length of a bin as a fraction of the mean delay in force.
const BIN: f64 = 0.05;

pub fn figures(schedule: &Schedule, attempts: &[Tried], scenario: &Scenario) -> Figures {
    let every_secs = schedule.policy.every_secs();
    let tick_of = |at: i64| scenario.instant(at).tick(every_secs);
    let retries = attempts.iter().filter(|tried| tried.attempt > 1);
    let retries: Vec<i64> = retries.map(|tried| tick_of(tried.at)).collect();
    let in_each = || retries.chunk_by(|one, other| one == other).map(<[i64]>::len);
    let ticks = retries.first().map_or(0, |first| tick_of(scenario.secs) - first + 1);
    // The tick after the end counts as one with a retry.
    let ends = retries.iter().copied().skip(1).chain([tick_of(scenario.secs) + 1]);
    let longest_idle = retries.iter().zip(ends).map(|(tick, next)| next - tick - 1).max();
    let is_cohort = scenario.is_cohort && !schedule.limits.limits_attempts();
    let backoff = match &schedule.policy {
        _ if !is_cohort => None,
        Policy::Counted(backoff) | Policy::Slots(Slots::ByAge(backoff)) => Some(backoff),
        Policy::Slots(Slots::Progressive(_)) | Policy::Age(_) => None,
    };
    Figures {
        attempts: attempts.len(),
        peak: in_each().max().unwrap_or(0),
        idle_ticks: ticks - in_each().count() as i64,
        ticks,
        longest_idle_secs: longest_idle.map_or(0, |ticks| ticks * every_secs),
        evenness: backoff.and_then(|backoff| evenness(backoff, &scenario.rows, scenario.secs)),
    }
}

/// Numbers of retries in bins of time, the same bins for all runs.
pub struct Loads {
    /// Length of a bin: whole ticks, so that all bins have the same number of ticks.
    pub secs: i64,
    /// Start of the first bin in seconds after the start of the simulation. A tick starts with it.
    pub begins_at: i64,
    /// The retries in each bin of a run, which has at least one bin.
    pub of_runs: Vec<Vec<usize>>,
    /// The highest load, at least 1.
    pub peak: usize,
}

impl Loads {
    /// `most` is the maximum number of bins. A last bin that is not whole is left out: the load would seem to fall.
    pub fn new(runs: &[SimulatedRun], scenario: &Scenario, most: usize) -> Self {
        // The longest tick is a multiple of the shorter ones.
        let every = runs.iter().map(|run| run.policy.every_secs()).max().unwrap_or(1);
        let tick = |at: i64| scenario.instant(at).tick(every);
        let ticks = usize::try_from(tick(scenario.secs) - tick(0)).unwrap_or(0);
        let each = ticks.div_ceil(most).max(1);
        let count = ((ticks + 1) / each).clamp(1, most);
        let secs = i64::try_from(each).unwrap_or(i64::MAX).saturating_mul(every);
        let begins_at = tick(0) * every - scenario.start.0;
        let load = |run: &SimulatedRun| {
            let mut load = vec![0; count];
            for tried in run.retries() {
                let bin = usize::try_from((tried.at - begins_at) / secs).ok();
                bin.and_then(|bin| load.get_mut(bin)).into_iter().for_each(|count| *count += 1);
            }
            load
        };
        let of_runs: Vec<_> = runs.iter().map(load).collect();
        let peak = of_runs.iter().flatten().copied().max().unwrap_or(0).max(1);
        Self { secs, begins_at, of_runs, peak }
    }
}

/// The evenness of a policy for records that fail together, calculated from the delays before they are rounded to
/// ticks. With m(k) the mean of delay k over the records and M(k) = m(0) + .. + m(k), bins run from M(1) to the end,
/// each 5 % of the mean delay in force, which is linear through (0, m(0)) and (M(k), m(k + 1)). Deviations are averaged
/// over the delays k >= 1 with M(k) before the end. `None` if the time is too short.
fn evenness(backoff: &Backoff, rows: &[Record], secs: i64) -> Option<Evenness> {
    let end = seconds(secs.unsigned_abs() * 1000);
    let mut waits: Vec<Moments> = Vec::new();
    for row in rows {
        let mut at = 0.0;
        for (k, wait) in backoff.waits(&row.id).map(seconds).enumerate() {
            // A delay that ends late for some records begins in time for others.
            if at > 2.0 * end || k > MOST_WAITS {
                break;
            }
            at += wait;
            waits.resize(waits.len().max(k + 1), Moments::default());
            waits[k] = waits[k].with(wait);
        }
    }
    let means: Vec<f64> = waits.iter().map(Moments::mean).collect();
    let sums = means.iter().scan(0.0, |sum, mean| {
        *sum += mean;
        Some(*sum)
    });
    let ends: Vec<f64> = sums.collect();
    let edges = edges(&means, &ends, end)?;
    // The first and the last bin hold the retries outside the edges.
    let mut counts = vec![0.0; edges.len() + 1];
    for row in rows {
        let mut at = 0.0;
        for wait in backoff.waits(&row.id).map(seconds).take(MOST_WAITS) {
            at += wait;
            let bin = edges.partition_point(|edge| *edge <= at);
            counts[bin] += 1.0;
            if bin == edges.len() {
                break;
            }
        }
    }
    let counts = counts[1..edges.len()].iter().copied();
    let load = counts.fold(Moments::default(), Moments::with);
    let of_waits = waits.iter().zip(&ends).skip(1).filter(|(_, wait_end)| **wait_end <= end);
    let deviations = of_waits.map(|(wait, _)| wait.relative_deviation());
    let deviations = deviations.fold(Moments::default(), Moments::with);
    let evenness = Evenness { unevenness: load.relative_deviation(), deviation: deviations.mean() };
    (evenness.unevenness.is_finite() && evenness.deviation.is_finite()).then_some(evenness)
}

/// Maximum number of delays of a record, because delays near 0 would take too long.
const MOST_WAITS: usize = 10_000;

fn edges(means: &[f64], ends: &[f64], end: f64) -> Option<Vec<f64>> {
    // The mean delay in force at an instant that is not before the end of the first mean delay.
    let in_force = |at: f64| {
        let k = ends.partition_point(|end| *end <= at);
        let (from, wait) = (ends[k - 1], *means.get(k)?);
        match (ends.get(k), means.get(k + 1)) {
            (Some(to), Some(next)) if *to > from => {
                Some(wait + (next - wait) * (at - from) / (to - from))
            }
            _ => Some(wait),
        }
    };
    let mut edges = vec![*ends.get(1)?];
    loop {
        let last = *edges.last()?;
        let next = last + BIN * in_force(last)?;
        if next > end || next <= last {
            return Some(edges);
        }
        edges.push(next);
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Moments {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Moments {
    fn with(self, value: f64) -> Self {
        let Self { count, sum, squares } = self;
        Self { count: count + 1.0, sum: sum + value, squares: squares + value * value }
    }

    fn mean(&self) -> f64 {
        self.sum / self.count
    }

    fn relative_deviation(&self) -> f64 {
        let variance = self.squares / self.count - self.mean() * self.mean();
        variance.max(0.0).sqrt() / self.mean()
    }
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use backlog_schedule::{Id, PolicyOptions, parse_policy};

    fn row(id: i64) -> Record {
        Record::new(Id::Integer(id), None)
    }

    /// Measured for 100,000 records that fail together, over 24 hours, to 5 %.
    #[test]
    fn the_four_functions_are_as_even_as_they_were_measured() {
        let rows: Vec<_> = (1..=100_000).map(row).collect();
        for (spec, unevenness, deviation) in [
            ("buckets", 0.590, 0.187),
            ("sidekiq", 2.46, 0.105),
            ("buckets:spread=100%", 0.149, 0.102),
            ("even", 0.061, 0.064),
        ] {
            let options = PolicyOptions { every_secs: 1, spread: None };
            let backoff = parse_policy(spec, None, options).unwrap();
            let found = evenness(&backoff, &rows, 86_400).unwrap();
            for (found, measured) in [(found.unevenness, unevenness), (found.deviation, deviation)]
            {
                assert!((found / measured - 1.0).abs() < 0.05, "{spec}: {found}, not {measured}");
            }
        }
    }

    #[test]
    fn a_short_time_has_no_evenness() {
        let options = PolicyOptions { every_secs: 60, spread: None };
        let backoff = parse_policy("constant:delay=5m", None, options).unwrap();
        assert_eq!(evenness(&backoff, &[row(1)], 60), None);
    }
}

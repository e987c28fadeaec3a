//! Passes in this process: the engine on a real SQLite store, with a handler that always fails.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use backlog_schedule::{
    AgeWindow, Capabilities, Cursor, DAY, EVERY_SECS, Id, Instant, Order, Outcome,
    PROGRESSIVE_EVERY_SECS, Policy, PolicyOptions, Record, RetryLimits, Schedule, Slots, Tiers,
    parse_policy, parse_policy_by_age, plain_fibonacci,
};
use backlog_store::{Access, Clock, Location, Mapping, Retry, Stop, lock};
use rusqlite::Connection;
use tempfile::TempDir;
use test_support::mixed_ages;

use super::{Handlers, LineSchedule, Observer, Pass, PassLimits, SettledAttempt, Tally};
use crate::handlers::{FixedOutcome, Handler, Workers};
use crate::simulation::{self, Scenario};

const MIDNIGHT: i64 = 1_795_219_200;
const MINUTE: i64 = 60;
const HOUR: i64 = 3_600;

/// The instants at which each record was tried, in seconds after midnight.
type Tried = BTreeMap<i64, Vec<i64>>;

/// A table of records that always fail.
struct Table {
    dir: TempDir,
    is_counted: bool,
}

/// A line of a crontab. Each pass continues from the pass before.
struct Line {
    policy: Policy,
    cursor: Cursor,
}

struct Recorder {
    log: Arc<Mutex<Vec<(Id, i64)>>>,
    cursor: Arc<Mutex<Cursor>>,
}

impl Observer for Recorder {
    fn attempted(&mut self, attempt: &SettledAttempt, _: &Tally) {
        lock(&self.log).push((attempt.attempt.id.clone(), attempt.started_at.0 - MIDNIGHT));
    }

    fn reached(&mut self, cursor: &Cursor) {
        lock(&self.cursor).clone_from(cursor);
    }
}

impl Line {
    fn new(policy: Policy) -> Self {
        Self { policy, cursor: Cursor::default() }
    }

    fn spec(spec: &str) -> Self {
        let file = br#"{"healthyRetryPolicy":{"minDelayTarget":60,"maxDelayTarget":600,
            "numRetries":6,"numNoDelayRetries":1,"backoffFunction":"geometric"}}"#;
        let file = spec.starts_with("sns").then_some(&file[..]);
        Self::new(Policy::Counted(parse_policy(spec, file, options(EVERY_SECS)).unwrap()))
    }

    fn age(min_days: i64, max_days: i64) -> Self {
        let window = AgeWindow { min_secs: min_days * DAY, max_secs: max_days * DAY };
        Self::new(Policy::Age(window))
    }
}

fn capabilities(is_counted: bool) -> Capabilities {
    Capabilities {
        has_counter: is_counted,
        can_snooze: is_counted,
        shows_failed: true,
        can_archive: true,
        ..Capabilities::default()
    }
}

fn options(every_secs: i64) -> PolicyOptions {
    PolicyOptions { every_secs, spread: None }
}

impl Table {
    /// Records that were inserted this many seconds before midnight, with ids from 1 on.
    fn new(ages: &[i64], is_counted: bool) -> Self {
        let table = Self { dir: tempfile::tempdir().unwrap(), is_counted };
        let connection = Connection::open(table.path()).unwrap();
        connection.execute_batch("PRAGMA journal_mode = wal").unwrap();
        connection.execute_batch(include_str!("../../schema.sql")).unwrap();
        if !is_counted {
            connection
                .execute_batch(
                    "DROP TABLE BACKLOG; CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY,
                     STATUS TEXT NOT NULL DEFAULT 'NEW', DATE_INSERTED TEXT NOT NULL)",
                )
                .unwrap();
        }
        let insert = "INSERT INTO BACKLOG (DATE_INSERTED) VALUES (?1)";
        connection.execute_batch("BEGIN").unwrap();
        for age in ages {
            connection.execute(insert, [Instant(MIDNIGHT - age).to_string()]).unwrap();
        }
        connection.execute_batch("COMMIT").unwrap();
        table
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("backlog.db")
    }

    /// One pass of a line.
    fn pass(&self, line: &mut Line, now: i64, log: &Arc<Mutex<Vec<(Id, i64)>>>) {
        self.pass_with(line, now, log, Arc::new(FixedOutcome { succeeds: false }));
    }

    fn pass_with(
        &self,
        line: &mut Line,
        now: i64,
        log: &Arc<Mutex<Vec<(Id, i64)>>>,
        handler: Arc<dyn Handler>,
    ) {
        let database = Location::File(self.path());
        let database =
            database.open(&Mapping::default(), Access::ReadWrite, Clock::at(Instant(0))).unwrap();
        let state = database.state_dir(None).unwrap();
        let clock = Clock::at(Instant(now));
        let cursor = Arc::new(Mutex::new(line.cursor.clone()));
        let stop = Stop::new(clock, Duration::ZERO, None).unwrap();
        let pass = Pass {
            store: database.into_store(&state, Retry::new(None, clock)).unwrap(),
            line: LineSchedule {
                cursor: line.cursor.clone(),
                ..LineSchedule::new(schedule(line.policy.clone()), capabilities(self.is_counted))
            },
            began_at: Instant(now),
            order: Order::Newest,
            limits: PassLimits::default(),
            clock,
            stop: stop.clone(),
            token: None,
            observer: Box::new(Recorder { log: log.clone(), cursor: cursor.clone() }),
        };
        super::run(pass, |_| Ok(Handlers { handler, stop, on_archive: None })).unwrap();
        line.cursor = lock(&cursor).clone();
    }

    /// Passes of one line, one at each of these instants.
    fn passes(&self, mut line: Line, instants: impl Iterator<Item = i64>) -> Tried {
        let log = Arc::default();
        for now in instants {
            self.pass(&mut line, now, &log);
        }
        by_record(&log)
    }

    fn query(&self, sql: &str) -> i64 {
        let connection = Connection::open(self.path()).unwrap();
        connection.query_row(sql, [], |row| row.get(0)).unwrap()
    }
}

fn schedule(policy: Policy) -> Schedule {
    let max_attempts = policy.max_attempts().filter(|_| policy.needs_counter());
    Schedule { policy, limits: RetryLimits { max_attempts, ..RetryLimits::default() }, shard: None }
}

fn by_record(log: &Mutex<Vec<(Id, i64)>>) -> Tried {
    let mut tried = Tried::new();
    for (id, at) in lock(log).iter() {
        let Id::Integer(id) = id else { unreachable!() };
        tried.entry(*id).or_default().push(*at);
    }
    tried
}

/// The attempts of the simulation.
fn simulated(line: &Line, is_counted: bool, secs: i64) -> Tried {
    let row = |id| Record::new(Id::Integer(id), Some(Instant(0)));
    let scenario =
        Scenario { rows: (1..=3).map(row).collect(), is_cohort: false, start: Instant(0), secs };
    let policy = line.policy.clone();
    let line = LineSchedule::new(schedule(policy), capabilities(is_counted));
    let run = simulation::run(&scenario, &line, Clock::at(Instant(0)));
    let mut tried = Tried::new();
    for attempt in run.unwrap().attempts {
        tried.entry(i64::from(attempt.row) + 1).or_default().push(attempt.at);
    }
    tried
}

/// Attempts in whole minutes, because passes start a little late.
fn minutes(tried: Tried) -> Tried {
    let whole = |at: Vec<i64>| at.into_iter().map(|at| at / MINUTE).collect();
    tried.into_iter().map(|(id, at)| (id, whole(at))).collect()
}

/// The start of a pass in each tick, at different seconds of the minute, as with a real cron.
fn ticks(every: i64, secs: i64) -> impl Iterator<Item = i64> {
    let step = usize::try_from(every).unwrap();
    (MIDNIGHT..=MIDNIGHT + secs).step_by(step).map(|now| now + now / MINUTE * 37 % 50)
}

#[test]
fn a_week_of_the_six_lines_tries_every_record_at_exactly_the_cadence_of_its_age() {
    let ages = mixed_ages();
    let table = Table::new(&ages, false);
    let tiers = [
        (0, 1, 5 * MINUTE),
        (1, 7, HOUR),
        (7, 14, 12 * HOUR),
        (14, 30, 24 * HOUR),
        (30, 180, 96 * HOUR),
        (180, 360, 192 * HOUR),
    ];
    let mut lines = tiers.map(|(min, max, interval)| (Line::age(min, max), interval));
    let log = Arc::default();
    for now in (MIDNIGHT..MIDNIGHT + 7 * DAY).step_by(300) {
        for (line, _) in lines.iter_mut().filter(|(_, interval)| now % interval == 0) {
            table.pass(line, now, &log);
        }
    }
    let tried = by_record(&log);
    for (id, age) in (1..).zip(&ages) {
        let inserted = MIDNIGHT - age;
        let is_due = |now: &i64| {
            tiers.iter().any(|(min, max, interval)| {
                let age = now - inserted;
                let in_tier = age <= max * DAY && (age > min * DAY || *min == 0);
                in_tier && now % interval == 0
            })
        };
        let passes = (MIDNIGHT..MIDNIGHT + 7 * DAY).step_by(300);
        let expected: Vec<i64> = passes.filter(is_due).map(|now| now - MIDNIGHT).collect();
        let tried = tried.get(&id).cloned().unwrap_or_default();
        assert_eq!(tried, expected, "record {id}, {age} seconds old at the start");
    }
}

#[test]
fn fibonacci_tries_two_hundred_records_of_any_age_at_the_minutes_of_the_article() {
    let table = Table::new(&mixed_ages(), true);
    let fibonacci = plain_fibonacci(options(EVERY_SECS));
    let line = Line::new(Policy::Counted(fibonacci));
    let tried = minutes(table.passes(line, ticks(MINUTE, HOUR)));
    assert_eq!(tried.len(), 200);
    for (id, tried) in tried {
        assert_eq!(tried, [0, 1, 2, 4, 7, 12, 20, 33, 54], "record {id}");
    }
}

#[test]
fn attempts_that_end_at_the_same_time_on_many_threads_are_all_completed() {
    let table = Table::new(&[0; 3_000], true);
    let log = Arc::default();
    let workers = Workers::start(8, |job, _| {
        let error = "no".into();
        (job.submit)(vec![job.ended(Outcome::Failure { error })]);
    });
    let mut line = Line::spec("constant:delay=1m");
    table.pass_with(&mut line, MIDNIGHT, &log, Arc::new(workers.unwrap()));
    let tried = by_record(&log);
    assert_eq!(tried.len(), 3_000);
    assert!(tried.values().all(|at| at.len() == 1));
    assert_eq!(table.query("SELECT count(*) FROM BACKLOG WHERE FAILURES = 1"), 3_000);
}

#[test]
fn passes_by_count_agree_with_the_simulation() {
    for spec in [
        "even",
        "constant:delay=150s",
        "exponential:first=1m,base=2,offset=3m",
        "exponential:first=1s,base=2,max=60s,jitter=30%",
        "linear:min=5s,max=260s,retries=10",
        "sidekiq",
        "buckets:spread=50%",
        "list:0s,10m,1h",
        "list:1m,10m,1h,spread=50%",
        "sns:policy.json",
    ] {
        let table = Table::new(&[0; 3], true);
        let tried = table.passes(Line::spec(spec), ticks(MINUTE, HOUR));
        let expected = simulated(&Line::spec(spec), true, HOUR);
        assert_eq!(minutes(tried), minutes(expected), "{spec}");
        if spec.starts_with("sns") {
            let archived = table.query("SELECT count(*) FROM BACKLOG WHERE STATUS = 'ARCHIVED'");
            assert_eq!(archived, 3, "the policy has seven attempts");
        }
    }
}

#[test]
fn passes_by_age_agree_with_the_simulation_without_a_counter() {
    let by_age = |spec: &str| {
        let backoff = parse_policy_by_age(spec, None, options(EVERY_SECS)).unwrap();
        Line::new(Policy::Slots(Slots::ByAge(backoff)))
    };
    let progressive = || {
        let tiers = Tiers::parse("1h/5m,3h/30m", options(PROGRESSIVE_EVERY_SECS)).unwrap();
        Line::new(Policy::Slots(Slots::Progressive(tiers)))
    };
    for spec in ["even", "fibonacci"] {
        let table = Table::new(&[0; 3], false);
        let tried = table.passes(by_age(spec), ticks(MINUTE, 2 * HOUR));
        assert_eq!(minutes(tried), minutes(simulated(&by_age(spec), false, 2 * HOUR)), "{spec}");
    }
    let table = Table::new(&[0; 3], false);
    let tried = table.passes(progressive(), ticks(5 * MINUTE, 2 * HOUR));
    assert_eq!(minutes(tried), minutes(simulated(&progressive(), false, 2 * HOUR)));
}

#[test]
fn six_concurrent_lines_try_each_record_once_per_round() {
    const ROUNDS: usize = 250;
    let tiers = [0, 1, 7, 14, 30, 180, 360];
    let ages: Vec<i64> = (0..60).map(|id| tiers[id % 6] * DAY + 60).collect();
    let table = Table::new(&ages, true);
    let (rounds, log) = (Barrier::new(6), Arc::default());
    std::thread::scope(|threads| {
        for pair in tiers.windows(2) {
            let (table, rounds, log) = (&table, &rounds, &log);
            threads.spawn(move || {
                let mut line = Line::age(pair[0], pair[1]);
                for _ in 0..ROUNDS {
                    rounds.wait();
                    table.pass(&mut line, MIDNIGHT, log);
                }
            });
        }
    });
    let tried = by_record(&log);
    assert_eq!(tried.len(), 60);
    assert!(tried.values().all(|tried| tried.len() == ROUNDS), "each record once in each round");
    let failures = i64::try_from(ROUNDS).unwrap();
    let sql = format!("SELECT count(*) FROM BACKLOG WHERE FAILURES = {failures}");
    assert_eq!(table.query(&sql), 60);
}

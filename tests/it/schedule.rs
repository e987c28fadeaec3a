//! When records are tried: the progressive schedule and Fibonacci, by stepping `--now`.

use std::collections::BTreeMap;

use test_support::mixed_ages;

use crate::cron::{Line, example_lines};
use crate::testenv::*;

/// Instants of the attempts of each record in a joblog.
fn attempts(env: &TestEnv) -> BTreeMap<i64, Vec<i64>> {
    let mut attempts = BTreeMap::<_, Vec<_>>::new();
    for line in std::fs::read_to_string(env.path("joblog")).unwrap_or_default().lines() {
        let line = json(line);
        let at = chrono::DateTime::parse_from_rfc3339(line["started_at"].as_str().unwrap());
        attempts.entry(line["id"].as_i64().unwrap()).or_default().push(at.unwrap().timestamp());
    }
    attempts
}

#[test]
fn a_day_of_the_six_lines_tries_every_record_at_exactly_the_cadence_of_its_age() {
    let env = TestEnv::minimal();
    let ages: Vec<i64> = mixed_ages().into_iter().step_by(4).collect();
    for (id, age) in (1..).zip(&ages) {
        env.insert_one(id, MIDNIGHT - age);
    }
    let lines = example_lines();
    assert_eq!(lines.len(), 6);
    for now in (MIDNIGHT..MIDNIGHT + DAY).step_by(300) {
        for line in lines.iter().filter(|line| line.fires_at(now)) {
            let args = format!("process {} --joblog joblog -- false", line.window.join(" "));
            env.run_at(now, &args).all_failed();
        }
    }
    let attempts = attempts(&env);
    let tiers = [
        (0, 1, 5 * MINUTE),
        (1, 7, HOUR),
        (7, 14, 12 * HOUR),
        (14, 30, 24 * HOUR),
        (30, 180, 96 * HOUR),
        (180, 360, 192 * HOUR),
    ];
    for (id, age) in (1..).zip(&ages) {
        let inserted = MIDNIGHT - age;
        let expected: Vec<i64> = (MIDNIGHT..MIDNIGHT + DAY)
            .step_by(300)
            .filter(|now| {
                tiers.iter().any(|(min, max, interval)| {
                    let age = now - inserted;
                    let in_tier = age <= max * DAY && (age > min * DAY || *min == 0);
                    in_tier && now % interval == 0
                })
            })
            .collect();
        let tried = attempts.get(&id).cloned().unwrap_or_default();
        assert_eq!(tried, expected, "record {id}, {age} seconds old at the start");
    }
}

#[test]
fn a_day_of_fibonacci_tries_records_of_any_age_at_the_minutes_of_the_article() {
    let env = TestEnv::new();
    let ages: Vec<i64> = mixed_ages().into_iter().step_by(20).collect();
    for (id, age) in (1..).zip(&ages) {
        env.insert_one(id, MIDNIGHT - age);
    }
    let due = [0, 1, 2, 4, 7, 12, 20, 33, 54, 88, 143, 232, 376, 609, 986];
    // The pass before each is one too early.
    let passes = due.iter().flat_map(|minute| [(minute - 1).max(0), *minute]);
    for minute in passes {
        // Never at the same second of the minute, as with a real cron.
        let now = MIDNIGHT + minute * MINUTE + minute * 37 % 50;
        env.run_at(now, "process --fibonacci --joblog joblog -- false").all_failed();
    }
    let attempts = attempts(&env);
    assert_eq!(attempts.len(), ages.len());
    for (id, tried) in attempts {
        let minutes: Vec<i64> = tried.iter().map(|at| (at - MIDNIGHT) / MINUTE).collect();
        assert_eq!(minutes, due, "record {id}");
    }
}

#[test]
fn a_fibonacci_unit_and_a_coarser_tick_scale_the_waits() {
    let env = TestEnv::with_record(1, MIDNIGHT);
    for tick in 0..40 {
        let args = "process --policy fibonacci:unit=10m,spread=0% --every 5m";
        let rest = "--joblog joblog -- false";
        env.run_at(MIDNIGHT + tick * 5 * MINUTE, &format!("{args} {rest}")).silent();
    }
    let minutes: Vec<_> = attempts(&env)[&1].iter().map(|at| (at - MIDNIGHT) / MINUTE).collect();
    assert_eq!(minutes, [0, 10, 20, 40, 70, 120]);
}

#[test]
fn a_wait_of_one_minute_is_not_missed_by_a_pass_that_starts_early() {
    let env = TestEnv::with_record(1, MIDNIGHT);
    let fail = "process --fibonacci -- false";
    env.run_at(MIDNIGHT + 2, fail).silent();
    env.run_at(MIDNIGHT + 59, fail).silent();
    assert_eq!(env.query("SELECT FAILURES FROM BACKLOG"), "1");
    env.run_at(MIDNIGHT + 60, fail).silent();
    assert_eq!(env.query("SELECT FAILURES FROM BACKLOG"), "2");
}

#[test]
fn the_age_limit_is_inclusive_to_the_second() {
    let env = TestEnv::with_record(1, MIDNIGHT - 7 * DAY);
    env.insert_one(2, MIDNIGHT - 7 * DAY - 1);
    env.pass("--ndays 7 -- true").silent();
    assert_eq!(env.statuses(), "1|SUCCESS\n2|NEW");
}

#[test]
fn half_a_day_is_a_number_of_days() {
    let env = TestEnv::with_record(1, MIDNIGHT - 12 * HOUR);
    env.insert_one(2, MIDNIGHT - 12 * HOUR - 1);
    env.pass("--ndays 0.5 -- true").silent();
    assert_eq!(env.statuses(), "1|SUCCESS\n2|NEW");
}

#[test]
fn a_clock_that_was_set_back_makes_records_due_and_says_so() {
    for set_back in [HOUR, 4 * HOUR] {
        let env = TestEnv::with_record(1, MIDNIGHT - DAY);
        env.pass("--fibonacci -- false").silent();
        let ran = env.run_at(MIDNIGHT - set_back, "process --fibonacci -v -- false");
        assert_contains(&ran.stderr, "record 1 is tried at once");
        assert_contains(&ran.stderr, "the clock was set back");
        assert_eq!(env.query("SELECT FAILURES FROM BACKLOG"), "2");
    }
}

#[test]
fn only_whole_lines_fire() {
    let lines = example_lines();
    let fired = |now| lines.iter().filter(|line: &&Line| line.fires_at(now)).count();
    assert_eq!(fired(MIDNIGHT + 60), 0);
    assert_eq!(fired(MIDNIGHT + 300), 1);
    assert_eq!(fired(MIDNIGHT + HOUR), 2);
}

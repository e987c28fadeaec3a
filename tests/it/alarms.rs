//! Alarms, played through as an operator who sets them up: each comes when it must, and none on a quiet day.

use crate::testenv::{HOUR, MIDNIGHT, MINUTE, TestEnv, ran, signal};

/// What docs/on-call.md recommends.
fn limits() -> Vec<String> {
    let page = include_str!("../../docs/on-call.md");
    let line = page.lines().find(|line| line.starts_with("backlog status --warn-if")).unwrap();
    let words = line.split(' ').skip(2).map(|word| word.trim_matches('\'').to_string());
    words.collect()
}

fn alarm(env: &TestEnv, now: i64) -> String {
    alarm_by(env, now, &["--progressive"])
}

fn alarm_by(env: &TestEnv, now: i64, schedule: &[&str]) -> String {
    let limits = limits();
    let limits: Vec<_> = limits.iter().map(String::as_str).collect();
    let ran = env.run_at(now, &[&["status"], schedule, &limits].concat());
    let exit = ran.exit.unwrap();
    format!("{exit} {}", ran.stdout.trim())
}

fn pass(env: &TestEnv, now: i64, more: &[&str], handler: &[&str]) -> Option<i32> {
    env.run_at(now, &[&["process", "--progressive"], more, &["--"], handler].concat()).exit
}

/// Records of several ages, of which some have failed for long.
fn table() -> TestEnv {
    let env = TestEnv::new();
    for (id, age) in [(1, MINUTE), (2, HOUR), (3, 30 * HOUR), (4, 200 * HOUR), (5, 2_000 * HOUR)] {
        env.insert_one(id, MIDNIGHT - age);
    }
    env
}

/// Passes at an even pace. Three records fail each time, which is what a schedule is for.
fn quiet(hours: i64, minutes: i64, schedule: &[&str]) {
    let env = table();
    let handler = ["--", "sh", "-c", "case $BACKLOG_ID in 3 | 5 | 120) exit 1 ;; esac"];
    for tick in 0..hours * 60 / minutes {
        let now = MIDNIGHT + tick * minutes * MINUTE;
        if tick % 10 == 0 {
            env.insert_one(100 + tick, now - 30);
        }
        env.run_at(now, &[&["process"], schedule, &handler].concat()).silent();
        // How often a line by age runs is known once it has run some times.
        if tick % 4 == 0 && tick > 4 {
            let said = alarm_by(&env, now + (minutes - 1) * MINUTE, schedule);
            assert!(said.starts_with("0 OK: "), "tick {tick}: {said}");
        }
    }
    assert!(env.count("ERROR") > 0);
}

#[test]
fn no_alarm_comes_on_a_quiet_day() {
    let tiers = "1d/15m,7d/1h,14d/12h,30d/24h,180d/96h,360d/192h";
    quiet(24, 15, &["--progressive", tiers, "--every", "15m"]);
}

#[test]
fn no_alarm_comes_whatever_the_schedule_is() {
    quiet(4, 5, &["--progressive"]);
    quiet(4, 5, &["--fibonacci", "--every", "5m"]);
    quiet(4, 5, &["--ndays", "360"]);
    quiet(4, 5, &["--policy", "exponential:first=10m,base=2,max=1h", "--every", "5m", "--by-age"]);
}

#[test]
fn a_dead_cron_is_told() {
    let env = table();
    for tick in 0..=12 {
        assert_eq!(pass(&env, MIDNIGHT + tick * 5 * MINUTE, &[], &["true"]), Some(0));
    }
    let last = MIDNIGHT + HOUR;
    assert_eq!(alarm(&env, last + HOUR).split(':').next(), Some("0 OK"));
    let said = alarm(&env, last + HOUR + 1);
    assert_eq!(said, "2 CRITICAL: overdue_lines 1 (>0)");
}

#[test]
fn a_hung_pass_is_told() {
    let env = TestEnv::new();
    env.insert_one(1, MIDNIGHT - MINUTE);
    let staying = env.staying();
    let now = format!("@{MIDNIGHT}");
    let words = [
        "process",
        "--progressive",
        "--now",
        &now,
        "--timeout",
        "20m",
        "--",
        "sh",
        "-c",
        &staying.script,
    ];
    let child = env.spawn(&words);
    staying.wait_for_begin();
    assert_eq!(alarm(&env, MIDNIGHT + 14 * MINUTE).split(':').next(), Some("0 OK"));
    let said = alarm(&env, MIDNIGHT + 61 * MINUTE);
    assert!(said.starts_with("2 CRITICAL: "), "{said}");
    assert!(said.contains("hung_lines 1 (>0)"), "{said}");
    assert!(signal("-TERM", child.id()));
    ran(&child.wait_with_output().unwrap());
}

#[test]
fn archived_records_are_told_for_a_day() {
    let env = table();
    assert_eq!(pass(&env, MIDNIGHT, &["--max-attempts", "1"], &["false"]), Some(1));
    assert_eq!(alarm(&env, MIDNIGHT + MINUTE), "2 CRITICAL: archived_24h 5 (>0)");
    for tick in 1..=24 * 12 + 1 {
        pass(&env, MIDNIGHT + tick * 5 * MINUTE, &["--max-attempts", "1"], &["true"]);
    }
    assert_eq!(alarm(&env, MIDNIGHT + 24 * HOUR + 6 * MINUTE).split(':').next(), Some("0 OK"));
}

#[test]
fn a_queue_that_is_overdue_is_told() {
    let env = TestEnv::new();
    // Each pass comes to one record only, and more are due.
    for tick in 0..14 {
        let now = MIDNIGHT + tick * 5 * MINUTE;
        env.insert_one(100 + 2 * tick, now - 10);
        env.insert_one(101 + 2 * tick, now - 10);
        assert_eq!(pass(&env, now, &["--max-records", "1"], &["true"]), Some(0));
    }
    let said = alarm(&env, MIDNIGHT + 66 * MINUTE);
    assert!(said.starts_with("2 CRITICAL: oldest_due 1h"), "{said}");
    assert!(!said.contains("_lines"), "the passes do come: {said}");
}

#[test]
fn records_of_an_old_date_are_overdue_only_once_a_pass_should_have_tried_them() {
    let env = table();
    let tick = |number: i64| MIDNIGHT + number * 5 * MINUTE;
    for number in 0..3 {
        assert_eq!(pass(&env, tick(number), &[], &["false"]), Some(0));
    }
    env.insert_one(50, MIDNIGHT - 20 * 24 * HOUR);
    env.run_at(tick(2) + 60, &["retry", "--all"]).success();
    let said = alarm(&env, tick(2) + 4 * MINUTE);
    assert!(said.starts_with("0 OK: "), "{said}");
    // Nobody has come for them.
    let said = alarm(&env, tick(2) + 2 * HOUR);
    assert!(said.starts_with("2 CRITICAL: oldest_due 2h (>1h)"), "{said}");
}

#[test]
fn a_record_in_the_hands_of_a_long_handler_is_not_overdue() {
    let env = TestEnv::new();
    env.insert_one(1, MIDNIGHT - MINUTE);
    let pausing = env.pausing();
    let now = format!("@{MIDNIGHT}");
    let words = ["process", "--progressive", "--now", &now, "--", "sh", "-c", &pausing.script];
    let child = env.spawn(&words);
    pausing.wait_for_begin();
    let said = alarm(&env, MIDNIGHT + 90 * MINUTE);
    assert!(said.starts_with("0 OK: "), "{said}");
    pausing.let_go();
    ran(&child.wait_with_output().unwrap()).silent();
}

#[test]
fn passes_that_cannot_be_read_are_no_quiet_day() {
    let env = table();
    assert_eq!(pass(&env, MIDNIGHT, &["--max-attempts", "1"], &["false"]), Some(1));
    std::fs::write(env.path("test.db.backlog/state.db"), "garbage\n").unwrap();
    let said = alarm(&env, MIDNIGHT + MINUTE);
    assert!(said.starts_with("3 UNKNOWN: archived_24h: could not open "), "{said}");
}

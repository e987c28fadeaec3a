//! simulate: the load of policies, before a crontab is changed.

use crate::testenv::{DAY, HOUR, MIDNIGHT, MINUTE, TestEnv};

#[test]
fn each_attempt_is_a_line() {
    let env = TestEnv::empty();
    let args =
        ["simulate", "--ids", "7,x", "--policy", "constant:delay=5m,spread=0", "--for", "10m"];
    let ran = env.run(&[&args[..], &["--jsonl"]].concat()).success();
    let line = |id: &str, attempt, at, delay| {
        format!(
            "{{\"policy\":\"constant:delay=5m,spread=0\",\"id\":{id},\"attempt\":{attempt},\"at\":{at},\"delay\":{delay}}}\n"
        )
    };
    let expected: String = [(1, 0, 0), (2, 300, 300), (3, 600, 300)]
        .into_iter()
        .flat_map(|(attempt, at, delay)| ["7", "\"x\""].map(|id| line(id, attempt, at, delay)))
        .collect();
    assert_eq!(ran.stdout, expected);
}

#[test]
fn policies_are_compared_in_a_table_and_in_charts() {
    let env = TestEnv::empty();
    let args =
        ["simulate", "--every", "1s", "--policy", "sidekiq", "--policy", "even", "--fibonacci"];
    let ran = env.run(&args).success();
    let mut lines = ran.stdout.lines();
    let cells =
        |line: Option<&str>| line.unwrap().split_whitespace().map(String::from).collect::<Vec<_>>();
    assert_eq!(cells(lines.next())[..2], ["POLICY", "attempts"]);
    // The 100 records fail in step, ten times in two hours.
    assert_eq!(cells(lines.next())[..3], ["fibonacci", "1000", "100"]);
    assert_eq!(cells(lines.next())[..2], ["sidekiq", "900"]);
    let even = cells(lines.next());
    assert_eq!(even[..2], ["even", "1542"]);
    assert!(even[5].parse::<f64>().unwrap() < 0.2, "{even:?}");
    assert_eq!(ran.stdout.matches("retries in each 1m 40s").count(), 3);
}

#[test]
fn a_bar_holds_whole_ticks() {
    let env = TestEnv::empty();
    let args = ["simulate", "--policy", "list:0s", "--every", "1s", "--for"];
    for (span, each, to) in [("10s", "1s", "11s"), ("4m", "4s", "4m")] {
        let chart = env.run(&[&args[..], &[span]].concat()).success().stdout;
        let axis = chart.lines().last().unwrap();
        assert!(
            axis.contains(&format!("retries in each {each} ")) && axis.ends_with(to),
            "{chart}"
        );
        // Every record in every tick: no bar but the first, which lacks the first attempts, is
        // lower than the others.
        let top = chart.lines().find(|line| line.contains('|')).unwrap();
        let (_, bars) = top.split_once('|').unwrap();
        assert!(bars.trim_start().chars().all(|c| c == '█'), "{chart}");
    }
}

#[test]
fn what_succeeds_is_not_tried_again() {
    let env = TestEnv::empty();
    let attempts = |args: &[&str]| {
        let args = [&["simulate", "--policy", "even", "--jsonl", "--for", "1day"], args].concat();
        let ran = env.run(&args).success();
        assert_eq!(ran.stderr, "", "what is not real is not logged");
        ran.stdout.lines().count()
    };
    assert_eq!(attempts(&["--success-after", "2"]), 300);
    assert_eq!(attempts(&["--max-attempts", "4"]), 400);
    assert_eq!(attempts(&["--max-attempts", "4", "--ids", "7,8,7"]), 8);
    assert_eq!(attempts(&["--failure-rate", "0"]), 100);
    let half = attempts(&["--failure-rate", "50%"]);
    assert!((150..250).contains(&half), "{half}");
    assert_eq!(half, attempts(&["--failure-rate", "50%"]), "nothing is left to chance");
    assert_eq!(attempts(&["--success-after", "0", "--arrivals", "1h"]), 100);
}

#[test]
fn the_picture_has_a_panel_for_each_policy_and_a_dot_for_each_retry() {
    let env = TestEnv::empty();
    let args = ["simulate", "--policy", "constant:delay=5m,spread=0", "--policy", "even"];
    env.run(&[&args[..], &["--svg", "load.svg"]].concat()).success();
    let svg = std::fs::read_to_string(env.path("load.svg")).unwrap();
    assert!(svg.starts_with("<svg "));
    for title in ["constant:delay=5m,spread=0: 2400 retries", "even: 1229 retries"] {
        assert!(svg.contains(title), "{title}");
    }
    // 24 more are the legend.
    assert_eq!(svg.matches("<circle").count(), 2_400 + 1_229 + 24);
    env.run(&[&args[..], &["--svg", "no/such/dir.svg"]].concat())
        .fails(1, &["could not write no/such/dir.svg"]);
}

#[test]
fn the_load_of_the_real_table_is_foretold() {
    let env = TestEnv::new();
    env.insert(200, MIDNIGHT - 3 * DAY);
    env.sql("UPDATE BACKLOG SET STATUS = CASE ID % 4 WHEN 0 THEN 'SUCCESS' ELSE 'ERROR' END");
    let args = ["simulate", "--from-table", "--progressive", "--for", "2days"];
    let ran = env.run_at(MIDNIGHT, &args).success();
    // 150 failed records of three days are tried once an hour, 150 in the first tick of all.
    for line in ["2026-11-21      3600", "2026-11-22      3600"] {
        assert!(ran.stdout.contains(line), "{}", ran.stdout);
    }
    // Half a day, from within a tick on: 1,800 attempts in 144 ticks, as on whole days.
    let half = ["simulate", "--from-table", "--progressive", "--for", "12h"];
    let ran = env.run_at(MIDNIGHT + 12 * HOUR - 60, &half).success();
    let day = ran.stdout.lines().find(|line| line.starts_with("2026-11-21 ")).unwrap();
    let cells: Vec<_> = day.split_whitespace().collect();
    assert_eq!((cells[1], cells[3]), ("1800", "12.5"), "{}", ran.stdout);
    assert_eq!(env.statuses().matches("ERROR").count(), 150, "nothing is written");
    // And it is what passes do.
    for now in (MIDNIGHT..MIDNIGHT + HOUR).step_by(300) {
        env.run_at(now, &["process", "--progressive", "--joblog", "joblog", "--", "false"])
            .silent();
    }
    let tried = std::fs::read_to_string(env.path("joblog")).unwrap().lines().count();
    assert_eq!(tried, 150);
    env.run(&["simulate", "--from-table", "--policy", "even", "--records", "7"])
        .fails(2, &["--records"]);
    TestEnv::empty()
        .run(&["simulate", "--from-table", "--policy", "even"])
        .fails(1, &["no database at"]);
}

#[test]
fn a_simulation_needs_a_policy_and_no_database() {
    let env = TestEnv::empty();
    env.run(&["simulate"])
        .fails(2, &["no policies: use --policy SPEC, --fibonacci or --progressive"]);
    env.run(&["simulate", "--policy", "odd"]).fails(2, &["no policy \"odd\""]);
    let mut command = env.command(&["simulate", "--policy", "even", "--records", "1"]);
    let output = command.env_remove("BACKLOG_DB").output().unwrap();
    crate::testenv::ran(&output).success();
}

#[test]
fn a_line_that_is_behind_is_foretold_as_it_will_catch_up() {
    let env = TestEnv::new();
    for id in 1..=60 {
        // One in six is dated a day ahead, and NEW.
        env.insert_one(id, MIDNIGHT - (id % 6 * 2 - 1) * DAY - id * 60);
    }
    env.sql("UPDATE BACKLOG SET STATUS = 'ERROR' WHERE ID % 6 <> 0");
    let mode = ["--progressive", "1d/5m,5d/1h,30d/6h"];
    let pass = |now, rest: &[&str]| {
        env.run_at(now, &[&["process"], &mode[..], rest, &["--", "false"]].concat()).silent();
    };
    pass(MIDNIGHT - 3 * HOUR, &[]);
    env.insert_one(61, MIDNIGHT + DAY);
    let args = [&["simulate", "--from-table", "--jsonl", "--for", "4h"], &mode[..]].concat();
    let simulated = env.run_at(MIDNIGHT, &args).success().stdout;
    for now in (MIDNIGHT..=MIDNIGHT + 4 * HOUR).step_by(300) {
        pass(now, &["--joblog", "joblog"]);
    }
    let joblog = std::fs::read_to_string(env.path("joblog")).unwrap();
    let tried = |lines: &str, instant: &dyn Fn(&serde_json::Value) -> i64| {
        let line = |line: &str| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            (instant(&line), line["id"].as_i64().unwrap())
        };
        let mut tried: Vec<_> = lines.lines().map(line).collect();
        tried.sort_unstable();
        tried
    };
    let at = |line: &serde_json::Value| line["at"].as_i64().unwrap();
    let started_at = |line: &serde_json::Value| {
        let text = line["started_at"].as_str().unwrap();
        let part = |range: std::ops::Range<usize>| text[range].parse::<i64>().unwrap();
        part(11..13) * HOUR + part(14..16) * MINUTE
    };
    let (simulated, tried) = (tried(&simulated, &at), tried(&joblog, &started_at));
    assert!(simulated.len() > 100 && simulated.contains(&(0, 61)), "{simulated:?}");
    assert_eq!(simulated, tried);
}

#[test]
fn the_limits_of_the_queue_hold_in_a_simulation_of_its_table() {
    let env = TestEnv::new();
    env.insert(1, MIDNIGHT);
    env.sql("UPDATE BACKLOG SET STATUS = 'ERROR', FAILURES = 2, LAST_FAILURE = DATE_INSERTED");
    let now = format!("@{MIDNIGHT}");
    let args =
        ["simulate", "--from-table", "--jsonl", "--fibonacci", "--for", "1day", "--now", &now];
    let mut command = env.command(&args);
    let output = command.env("MAX_DEFAULT_RETRY_ATTEMPTS", "4").output().unwrap();
    assert_eq!(crate::testenv::ran(&output).success().stdout.lines().count(), 2);
}

//! Output at a terminal: lines that fit, local time, one line for failures of one kind.

use crate::testenv::*;

/// Failed records with ids of 36 characters and long errors.
fn env() -> TestEnv {
    TestEnv::with_schema(
        "CREATE TABLE BACKLOG (ID TEXT PRIMARY KEY, STATUS TEXT, DATE_INSERTED TEXT,
           FAILURES INTEGER DEFAULT 0, LAST_FAILURE TEXT, LAST_ERROR TEXT);
         INSERT INTO BACKLOG WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
           SELECT printf('%08d-0000-4000-8000-000000000000', i), 'ERROR', '2026-11-20T22:00:00Z', 2,
           '2026-11-20T23:30:00Z', 'could not connect to erp.example.com: ' || hex(zeroblob(90))
           FROM n;",
    )
}

fn shown(env: &TestEnv, columns: u16, line: &str) -> Vec<String> {
    let line = format!("{line} --now @{MIDNIGHT}");
    let ran = env.at_terminal(columns, &line, "").exits(0);
    ran.stdout.lines().map(|line| line.trim_end_matches('\r').to_string()).collect()
}

#[test]
fn every_line_fits_a_terminal_and_nothing_is_cut_in_a_pipe() {
    let env = env();
    let error = format!("could not connect to erp.example.com: {}", "00".repeat(90));
    for columns in [40, 80, 130] {
        for command in ["status --fibonacci", "failures", "list --fibonacci", "list --limit 2"] {
            for line in shown(&env, columns, command) {
                let is_path = line.contains("test.db");
                let width = line.chars().count();
                assert!(is_path || width <= usize::from(columns), "{command}: {width} {line}");
            }
        }
    }
    // The ids are whole where there is room for them.
    let id = "00000001-0000-4000-8000-000000000000";
    assert!(shown(&env, 80, "list --order oldest")[1].starts_with(&format!("{id}  ERROR ")));
    let piped = env.run("list --order oldest").success().stdout;
    let line = piped.lines().nth(1).unwrap();
    assert_eq!(
        line,
        format!("{id}  ERROR     2026-11-20T22:00:00Z         2  2026-11-20T23:30:00Z  {error}")
    );
    assert!(!piped.contains('\u{1b}'), "no colours");
}

#[test]
fn a_person_is_told_his_own_time() {
    let env = env();
    let in_berlin = |line: &str| {
        let line = format!("{line} --now @{MIDNIGHT}");
        let mut ran = env.at_terminal_in("Europe/Berlin", 120, &line);
        ran.stdout = ran.stdout.replace('\r', "");
        ran.success().stdout
    };
    let listed = in_berlin("list --fibonacci --limit 1");
    // 23:30 of UTC is half past midnight in Berlin, the day that is.
    assert_contains(&listed, "  00:30:00  ");
    assert!(listed.contains("  Nov 20 23:00  "), "inserted an hour before that day: {listed}");
    let explained = in_berlin("explain 00000001-0000-4000-8000-000000000000 --fibonacci");
    assert_contains(&explained, "now         01:00:00: due: its wait is over");
    assert_contains(&explained, "next        01:00:00, now, attempt 3");
    let piped = env.run_at(MIDNIGHT, "list --fibonacci --limit 1").success().stdout;
    assert_contains(&piped, "2026-11-20T22:00:00Z");
}

#[test]
fn failures_are_folded_while_a_pass_runs_and_counted_at_its_end() {
    let env = TestEnv::minimal();
    env.insert(40, MIDNIGHT);
    let handler = env.script("flaky", "[ $BACKLOG_ID -gt 10 ] || { echo HTTP 503 >&2; exit 1; }");
    for (columns, whole) in [(80, true), (40, false)] {
        let line = format!("process --ndays 1 --now @{MIDNIGHT} -- {handler}");
        let ran = env.at_terminal(columns, &line, "").exits(0);
        assert_eq!(ran.stdout.matches("failed, will retry").count(), 1, "{}", ran.stdout);
        let summary = if columns == 80 { "40 attempts in " } else { "10 attempts in " };
        assert_contains(&ran.stdout, summary);
        let row = ran.stdout.lines().last().unwrap().trim_end();
        let start = if whole {
            "d7a839de       10  00:00:00  HTTP 503"
        } else {
            "d7a839de       10  HTTP 503"
        };
        assert_eq!(row, start);
        let bar = if columns == 80 { "40/40, 10 failed, " } else { "10/10, 10 failed, " };
        assert_contains(&ran.stdout, bar);
    }
    // Nobody is told twice: --quiet shows what cron would mail, and -v logs all the same.
    let line = format!("process --quiet --ndays 1 --now @{MIDNIGHT} -- {handler}");
    assert_eq!(env.at_terminal(80, &line, "").success().stdout, "");
    let line = format!("process -qv --ndays 1 --now @{MIDNIGHT} -- {handler}");
    let logged = env.at_terminal(80, &line, "").success().stdout;
    let failed = logged.matches("failed, will retry").count();
    assert_eq!((failed, logged.matches("/s, ").count()), (10, 0), "{logged}");
    // Who wants every line says so.
    let line = format!("process -v --ndays 1 --now @{MIDNIGHT} -- {handler}");
    let ran = env.at_terminal(80, &line, "");
    assert_eq!(ran.stdout.matches("failed, will retry").count(), 10, "{}", ran.stdout);
}

#[test]
fn the_bar_counts_what_may_be_tried() {
    let env = TestEnv::minimal();
    env.insert(40, MIDNIGHT);
    let line = format!("process --ndays 1 --max-records 7 --now @{MIDNIGHT} -- true");
    assert_contains(&env.at_terminal(80, &line, "").stdout, "7/7, 0 failed, ");
}

#[test]
fn a_pass_that_a_person_stops_says_so() {
    let env = TestEnv::minimal();
    env.insert(3, MIDNIGHT);
    // The terminal signals the whole group of the foreground, but a handler has one of its own.
    let handler = env.script("stopping", "kill -INT $PPID; sleep 0.2");
    let ran = env
        .at_terminal(80, &format!("process --ndays 1 --now @{MIDNIGHT} -- {handler}"), "")
        .exits(130);
    assert_contains(&ran.stdout, "; stopped by Ctrl-C");
    assert_contains(&env.run_at(MIDNIGHT, "status").success().stdout, "stopped by Ctrl-C");
}

#[test]
fn the_log_at_a_terminal_tells_a_persons_own_time() {
    let env = TestEnv::with_records(1, MIDNIGHT);
    let line = format!("process --fibonacci --now @{MIDNIGHT} -- false");
    let ran = env.at_terminal_in("Europe/Berlin", 120, &line);
    let said = "record 1 failed, will retry at 01:01:00, in 1 m (attempt 1): exit status 1";
    assert_contains(&ran.stdout, said);
}

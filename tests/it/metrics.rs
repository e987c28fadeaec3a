//! `--metrics`: files for the textfile collector of node_exporter, by passes and by `status`.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use crate::testenv::*;

const FILE: &str = "m.prom";

/// The series of a file, which is held to the text format: each family has its help and its type
/// before its series, which stand together, and no series stands twice.
fn series(env: &TestEnv) -> BTreeMap<String, f64> {
    let text = env.read(FILE);
    let (mut series, mut families) = (BTreeMap::new(), HashSet::new());
    let (mut family, mut is_typed) = (String::new(), false);
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, says) = help.split_once(' ').unwrap();
            assert!(says.ends_with('.') && families.insert(name.to_string()), "{line}");
            (family, is_typed) = (name.into(), false);
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            let is_total = name.ends_with("_total");
            assert_eq!((name, kind), (&*family, if is_total { "counter" } else { "gauge" }));
            is_typed = true;
        } else {
            let (name, value) = line.rsplit_once(' ').unwrap();
            let labels = name.strip_prefix(&family).unwrap();
            assert!(is_typed && labels.starts_with("{db=\"") && labels.ends_with("\"}"), "{line}");
            assert_eq!(series.insert(name.to_string(), value.parse().unwrap()), None, "{line}");
        }
    }
    assert!(text.ends_with('\n'));
    series
}

/// The value of a series, by its name and some of its labels.
fn value(env: &TestEnv, name: &str, labels: &[&str]) -> Option<f64> {
    let found = series(env);
    let mut found = found.iter().filter(|(series, _)| {
        series.starts_with(&format!("{name}{{"))
            && labels.iter().all(|label| series.contains(label))
    });
    let first = found.next().map(|(_, value)| *value);
    assert!(found.next().is_none(), "{name} {labels:?}");
    first
}

fn pass(env: &TestEnv, now: i64, line: &str, handler: &str) {
    env.run_at(now, &format!("process {line} --metrics {FILE} -- {handler}")).silent();
}

#[test]
fn a_pass_writes_when_it_ended_how_long_it_took_and_what_it_came_to() {
    let env = records(3);
    pass(&env, MIDNIGHT, "--fibonacci --where 'ID <> 3'", "true");
    let line = ["queue=\"default\"", "table=\"BACKLOG\"", "line=\"--fibonacci --where ID <> 3\""];
    let midnight = Some(1_795_219_200.0);
    assert_eq!(value(&env, "backlog_pass_timestamp_seconds", &line), midnight);
    assert_eq!(value(&env, "backlog_pass_success_timestamp_seconds", &line), midnight);
    assert_eq!(value(&env, "backlog_pass_exit_code", &line), Some(0.0));
    let took = value(&env, "backlog_pass_duration_seconds", &line).unwrap();
    assert!((0.0..60.0).contains(&took), "{took}");
    let db = format!("db=\"{}\"", env.db().display());
    let succeeded = [&line[..], &["outcome=\"succeeded\"", &db]].concat();
    assert_eq!(value(&env, "backlog_attempts_total", &succeeded), Some(2.0));
    let mode = fs::metadata(env.path(FILE)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644, "the collector is another user");
    // A pass that fails says so, and when the last one had success.
    let args = format!("process --fibonacci --where 'ID <> 3' --metrics {FILE}");
    env.sql("ALTER TABLE BACKLOG RENAME TO GONE");
    let exit = env.run_at(MIDNIGHT + 60, &format!("{args} -- true")).exit;
    assert_eq!(exit, Some(1));
    assert_eq!(value(&env, "backlog_pass_exit_code", &line), Some(1.0));
    assert_eq!(value(&env, "backlog_pass_success_timestamp_seconds", &line), midnight);
    assert_eq!(value(&env, "backlog_attempts_total", &succeeded), Some(2.0));
}

#[test]
fn lines_and_tables_share_a_file() {
    let env = records(2);
    pass(&env, MIDNIGHT, "--ndays 1 --max-records 1", "true");
    pass(&env, MIDNIGHT, "--fibonacci", "false");
    let status =
        |now, policy: &str| env.run_at(now, &format!("status --metrics {FILE} {policy}")).success();
    assert!(status(MIDNIGHT + HOUR, "--fibonacci").stdout.contains("due now"));
    for (name, labels, expected) in [
        ("backlog_pass_exit_code", "line=\"--ndays 1\"", Some(0.0)),
        ("backlog_pass_exit_code", "line=\"--fibonacci\"", Some(0.0)),
        ("backlog_records", "status=\"SUCCESS\"", Some(1.0)),
        ("backlog_records", "status=\"ARCHIVED\"", Some(0.0)),
        ("backlog_failed_records", "table=\"BACKLOG\"", Some(1.0)),
        ("backlog_due_records", "line=\"--fibonacci\"", Some(1.0)),
        // It failed at midnight, and was due a minute later.
        ("backlog_oldest_due_seconds", "line=\"--fibonacci\"", Some(3_540.0)),
        ("backlog_table_readable", "queue=\"default\"", Some(1.0)),
    ] {
        assert_eq!(value(&env, name, &[labels]), expected, "{name} {labels}");
    }
    env.run_at(MIDNIGHT + HOUR, "pause").success();
    status(MIDNIGHT + HOUR, "--fibonacci");
    assert_eq!(value(&env, "backlog_paused", &["table=\"BACKLOG\""]), Some(1.0));
    // What is gone is not counted any more, and what passes have written stays.
    env.sql("PRAGMA ignore_check_constraints = ON; UPDATE BACKLOG SET STATUS = 'lost' WHERE STATUS = 'ERROR'");
    status(MIDNIGHT + HOUR, "--ndays 1");
    assert_eq!(value(&env, "backlog_records", &["status=\"lost\""]), Some(1.0));
    env.sql("UPDATE BACKLOG SET STATUS = 'SUCCESS'");
    status(MIDNIGHT + HOUR, "--ndays 1");
    assert_eq!(value(&env, "backlog_records", &["status=\"lost\""]), None);
    assert_eq!(value(&env, "backlog_due_records", &["line=\"--fibonacci\""]), None);
    assert_eq!(value(&env, "backlog_due_records", &["line=\"--ndays 1\""]), Some(0.0));
    assert_eq!(value(&env, "backlog_pass_exit_code", &["line=\"--fibonacci\""]), Some(0.0));
}

#[test]
fn all_queues_are_in_one_file_and_one_that_cannot_be_read_says_so() {
    let env = records(2);
    let queue = |name: &str, table: &str| {
        format!("[queue.{name}]\ntable = '{table}'\npolicy = 'even'\nexec = ['true']\n")
    };
    let toml = format!("[defaults]\ndb = 'test.db'\nmetrics = '{FILE}'\n");
    let toml = [toml, queue("a", "BACKLOG"), queue("b", "BACKLOG"), queue("gone", "GONE")].concat();
    env.write("backlog.toml", toml);
    let run = |words: &str| {
        env.command(&format!("{words} --all-queues --now @{MIDNIGHT}"))
            .env_remove("BACKLOG_DB")
            .ran()
    };
    run("process").fails(1, &["queue gone: "]);
    run(&format!("status --metrics {FILE}"));
    let exits = ["a", "b", "gone"]
        .map(|queue| value(&env, "backlog_pass_exit_code", &[&format!("queue=\"{queue}\"")]));
    assert_eq!(exits, [Some(0.0), Some(0.0), Some(1.0)]);
    let readable = ["a", "gone"]
        .map(|queue| value(&env, "backlog_table_readable", &[&format!("queue=\"{queue}\"")]));
    assert_eq!(readable, [Some(1.0), Some(0.0)]);
}

#[test]
fn counters_never_fall_over_hundreds_of_passes_whatever_is_killed() {
    const PASSES: i64 = 300;
    let env = TestEnv::new();
    let totals = || {
        let found = series(&env);
        ["succeeded", "failed"].map(|outcome| {
            let label = format!("outcome=\"{outcome}\"");
            found.iter().find(|(series, _)| series.contains(&label)).map_or(0.0, |(_, it)| *it)
        })
    };
    let mut before = [0.0; 2];
    for pass in 0..PASSES {
        let now = MIDNIGHT + pass * MINUTE;
        env.insert_one(2 * pass + 1, now);
        let is_killed = pass % 30 == 14;
        // The newest goes first, and is settled when the other one kills its pass.
        let handler = match pass % 3 {
            _ if is_killed => sh("[ $((BACKLOG_ID % 2)) = 0 ] || kill -9 $PPID"),
            0 => "false".to_string(),
            _ => "true".into(),
        };
        if is_killed {
            env.insert_one(2 * pass + 2, now);
        }
        let words = format!("process --now @{now} --policy list:30d --metrics {FILE} --");
        let exit = env.run(&format!("{words} {handler}")).exit;
        assert_eq!(exit, if is_killed { None } else { Some(0) }, "{pass}");
        let now = totals();
        assert!(now[0] >= before[0] && now[1] >= before[1], "pass {pass}: {before:?} {now:?}");
        before = now;
    }
    // The next pass counts the records that a killed pass had settled.
    let fails = (0..PASSES).filter(|pass| pass % 3 == 0 && pass % 30 != 14).count();
    assert_eq!(before, [(PASSES - fails as i64) as f64, fails as f64]);
}

#[test]
fn a_file_of_somebody_else_is_left_alone() {
    let env = records(1);
    for text in ["other_metric{a=\"b\"} 1\n", "# HELP node_load1 x.\n", "notes\n", "\n"] {
        env.write(FILE, text);
        let words = format!("process --now @1795219200 --fibonacci --metrics {FILE}");
        env.run(&format!("{words} -v -- true")).exits(0);
        assert_eq!(env.read(FILE), text);
    }
    let ran = env.run("status --metrics test.db").exits(1);
    assert_contains(&ran.stderr, "it has lines that backlog did not write");
    assert_eq!(env.count("SUCCESS"), 1, "the database is whole");
}

#[test]
fn a_table_that_is_gone_for_a_while_has_one_series_all_the_time() {
    let env = TestEnv::new();
    let readable = |file: &str| {
        env.run(&format!("status --db {file} --table backlog --metrics {FILE}"));
        value(&env, "backlog_table_readable", &["queue=\"default\""])
    };
    std::os::unix::fs::symlink(env.path(""), env.path("current")).unwrap();
    for file in ["test.db", "current/test.db"] {
        assert_eq!(readable(file), Some(1.0));
        fs::rename(env.db(), env.path("away")).unwrap();
        assert_eq!(readable(file), Some(0.0));
        fs::rename(env.path("away"), env.db()).unwrap();
        fs::remove_file(env.path(FILE)).unwrap();
    }
}

#[test]
fn a_file_that_cannot_be_written_changes_nothing_and_is_told_once_an_hour() {
    let env = records(2);
    let pass = |now| env.run_at(now, "process --fibonacci --metrics none/m.prom -- true");
    let ran = pass(MIDNIGHT);
    let error = "backlog: could not write the metrics none/m.prom: no such file or directory\n";
    assert_eq!((ran.exit, ran.stderr.as_str()), (Some(0), error));
    assert_eq!(env.count("SUCCESS"), 2);
    pass(MIDNIGHT + MINUTE).silent();
    assert_eq!(pass(MIDNIGHT + HOUR).stderr, error);
    let ran = env.run_at(MIDNIGHT, "status --metrics none/m.prom");
    assert_eq!((ran.exit, ran.stderr.as_str()), (Some(1), error));
    assert!(ran.stdout.contains("SUCCESS"), "it is shown all the same");
}

#[test]
fn the_tool_of_prometheus_takes_the_file() {
    let env = records(2);
    pass(&env, MIDNIGHT, "--fibonacci --where \"LAST_ERROR IS NOT 'a\\\"b\\\\c\n{x} 1'\"", "true");
    env.run_at(MIDNIGHT, &format!("status --fibonacci --metrics {FILE}")).success();
    series(&env);
    let tool = Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).spawn();
    let Ok(mut tool) = tool else { return skipped("metrics by promtool: it is not installed") };
    tool.stdin.take().unwrap().write_all(&fs::read(env.path(FILE)).unwrap()).unwrap();
    assert!(tool.wait().unwrap().success());
}

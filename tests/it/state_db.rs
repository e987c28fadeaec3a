//! state.db, which passes remember each other by: whatever becomes of it, no record notices.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use rusqlite::Connection;

use crate::testenv::*;

const PROGRAM: &str = env!("CARGO_BIN_EXE_backlog");

const STATE: &str = "test.db.backlog/state.db";

fn pass(env: &TestEnv, now: i64, handler: &str) -> Ran {
    env.run_at(now, &format!("process --fibonacci -- {handler}"))
}

/// The files of the state directory.
fn names(env: &TestEnv) -> Vec<String> {
    let files = fs::read_dir(env.path("test.db.backlog")).unwrap();
    let mut names: Vec<_> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn it_is_one_file_whose_journal_no_kill_leaves_in_the_way() {
    let env = TestEnv::with_records(3, MIDNIGHT);
    fs::set_permissions(env.db(), fs::Permissions::from_mode(0o660)).unwrap();
    let killing = env.script("killing", "[ $BACKLOG_ID != 1 ] || kill -9 $PPID");
    env.run(&format!("process --fibonacci --trust-owner --now @{MIDNIGHT} -- {killing}"));
    let all = ["BACKLOG-", "lines", "passes", "state.db", "state.db-journal"];
    let found = names(&env);
    let are_expected = found.iter().zip(all).all(|(name, begin)| name.starts_with(begin));
    assert!(found.len() == all.len() && are_expected, "{found:?}");
    let before = fs::metadata(env.path("test.db.backlog")).unwrap().modified().unwrap();
    let mode = fs::metadata(env.path(STATE)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660, "the mode of the database");
    let status = env.run_at(MIDNIGHT, "status --trust-owner").success().stdout;
    assert!(status.contains("killed (pid ") && status.contains("after 1 succeeded"), "{status}");
    for tick in 1..4 {
        let now = format!("@{}", MIDNIGHT + tick * MINUTE);
        env.run(&format!("process --fibonacci --trust-owner --now {now} -- true")).silent();
    }
    assert_eq!(names(&env), found);
    let after = fs::metadata(env.path("test.db.backlog")).unwrap().modified().unwrap();
    assert_eq!(before, after, "nothing comes and goes in the directory");
}

#[test]
fn of_many_passes_some_of_which_are_killed_the_counts_are_exact() {
    let env = TestEnv::minimal();
    let handler = env.script("handler", "echo $BACKLOG_ID >>succeeded");
    let killing = env.script("killing", "[ $((BACKLOG_ID % 5)) != 0 ] || exec kill -9 $PPID");
    let (mut inserted, mut expected) = (0, 0);
    for tick in 1..=120 {
        let now = MIDNIGHT + tick * MINUTE;
        for _ in 0..3 {
            inserted += 1;
            env.insert_one(inserted, now - 1);
        }
        let is_killed = tick % 20 == 0;
        let handler = if is_killed { &killing } else { &handler };
        let ran = env.run(&format!("process --ndays 9 --now @{now} -- {handler}"));
        if !is_killed {
            ran.silent();
            expected = env.read("succeeded").lines().count();
        }
    }
    let found = env.passes(MIDNIGHT);
    let succeeded = found["lines"][0]["totals"]["succeeded"].as_u64().unwrap();
    // A pass that is killed has noted its first outcome, or none, and within a second no more.
    let killed = 120 / 20;
    let expected = u64::try_from(expected).unwrap();
    assert!((expected..=expected + killed).contains(&succeeded), "{succeeded} of {expected}");
    assert_eq!(env.state("PRAGMA integrity_check"), "ok");
    assert_eq!(env.state("SELECT count(DISTINCT number), max(number) FROM passes"), "120|120");
}

#[test]
fn passes_of_many_lines_that_begin_at_once_are_all_noted() {
    let env = TestEnv::with_records(40, MIDNIGHT);
    let line =
        |number: usize| env.spawn(&format!("process --ndays {number} --now @{MIDNIGHT} -- true"));
    let passes: Vec<_> = (1..=20).map(line).collect();
    for mut pass in passes {
        assert!(pass.wait().unwrap().success());
    }
    assert_eq!(env.count("SUCCESS"), 40);
    let lines = env.passes(MIDNIGHT)["lines"].clone();
    let lines = lines.as_array().unwrap();
    let total = |name: &str| -> u64 {
        lines.iter().map(|line| line["totals"][name].as_u64().unwrap()).sum()
    };
    // On a busy machine one may have waited for more than 50 ms.
    assert!(lines.len() >= 15 && total("succeeded") <= 40, "{lines:?}");
}

#[test]
fn a_pass_does_not_wait_for_whoever_has_it_locked() {
    let env = TestEnv::with_records(2, MIDNIGHT);
    pass(&env, MIDNIGHT, "false").silent();
    let other = Connection::open(env.path(STATE)).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    pass(&env, MIDNIGHT + MINUTE, "true").silent();
    assert_eq!(env.count("SUCCESS"), 2);
    let said = env.run_at(MIDNIGHT + MINUTE, "process -v --fibonacci -- true").success().stderr;
    assert_contains(&said, "state.db: database is locked; this entry is left out");
    other.execute_batch("COMMIT").unwrap();
    pass(&env, MIDNIGHT + 2 * MINUTE, "true").silent();
    let last = env.passes(MIDNIGHT)["lines"][0]["last"].clone();
    assert_eq!((&last["end"], &last["passes"]), (&"idle".into(), &1.into()));
}

#[test]
fn a_damaged_one_is_put_aside_once_and_the_pass_does_its_work() {
    for damage in ["no database at all", ""] {
        let env = TestEnv::with_records(1, MIDNIGHT);
        (0..40).for_each(|tick| drop(pass(&env, MIDNIGHT + tick, "false")));
        if damage.is_empty() {
            // A page in the middle, of the passes.
            let mut bytes = fs::read(env.path(STATE)).unwrap();
            let page = env.state("SELECT rootpage FROM sqlite_schema WHERE name = 'passes'");
            let at = (page.parse::<usize>().unwrap() - 1) * 4_096;
            bytes[at..at + 4_096].fill(0xa5);
            env.write(STATE, bytes);
        } else {
            env.write(STATE, damage);
        }
        let status = env.run_at(MIDNIGHT, "status").success().stdout;
        let status = status.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_contains(&status, "some passes are not shown: could not ");
        assert_contains(&status, "state.db, which is damaged; the next pass replaces it");
        let said = pass(&env, MIDNIGHT + HOUR, "true").success().stderr;
        assert_contains(&said, "state.db was damaged and was renamed to ");
        assert!(said.contains("your table is unchanged") && said.lines().count() == 1, "{said}");
        assert_eq!(env.statuses(), "1|SUCCESS");
        assert!(env.path("test.db.backlog/state.db.damaged").exists());
        pass(&env, MIDNIGHT + HOUR + MINUTE, "true").silent();
        assert_eq!(env.passes(MIDNIGHT + HOUR)["lines"][0]["totals"]["succeeded"].clone(), 1);
    }
}

#[test]
fn a_database_of_another_program_is_left_as_it_is() {
    let env = TestEnv::with_records(1, MIDNIGHT);
    // One of another version, and a user's database of that name.
    pass(&env, MIDNIGHT, "false").silent();
    env.state("PRAGMA application_id = 7");
    fs::copy(env.db(), env.path("state.db")).unwrap();
    let why = "it is a database of another program or version: move it away";
    assert_contains(&env.run_at(MIDNIGHT, "status").success().stdout, why);
    for (line, path) in
        [("--fibonacci", STATE), ("--fibonacci --db state.db --state-dir .", "state.db")]
    {
        let before = fs::read(env.path(path)).unwrap();
        let said = env.run_at(MIDNIGHT + HOUR, &format!("process {line} -- true")).success().stderr;
        assert!(said.contains(why) && said.contains("the pass continues"), "{said}");
        let after = fs::read(env.path(path)).unwrap();
        assert!(before == after || path == "state.db", "{path}");
        assert!(!env.path(&format!("{path}.damaged")).exists());
    }
    assert_eq!(env.statuses(), "1|SUCCESS");
    let named = Connection::open(env.path("state.db")).unwrap();
    let found = |sql: &str| named.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap();
    assert_eq!(found("SELECT STATUS FROM BACKLOG"), "SUCCESS");
    assert_eq!(found("PRAGMA journal_mode"), "wal");
}

#[test]
fn odd_values_and_missing_tables_are_damage_that_the_next_pass_replaces() {
    for damage in [
        "UPDATE passes SET run = NULL",
        "UPDATE passes SET exit = 300",
        "UPDATE passes SET began = 'soon'",
        "DROP TABLE passes",
        "DROP TABLE lines; CREATE VIEW lines AS SELECT 1 AS id",
    ] {
        let env = TestEnv::new();
        pass(&env, MIDNIGHT, "true").silent();
        Connection::open(env.path(STATE)).unwrap().execute_batch(damage).unwrap();
        let said = pass(&env, MIDNIGHT + MINUTE, "true").success().stderr;
        assert!(said.contains("was damaged and was renamed"), "{damage}: {said}");
        assert_eq!(said.lines().count(), 1, "{damage}: {said}");
        pass(&env, MIDNIGHT + 2 * MINUTE, "true").silent();
        assert_eq!(env.passes(MIDNIGHT)["lines"][0]["last"]["passes"], 2, "{damage}");
    }
}

/// A pass that cannot write how far it got must not make up for the same ticks again and again.
#[test]
fn records_are_tried_for_each_slot_once_although_nothing_can_be_noted() {
    let env = TestEnv::minimal();
    for id in 1..=12 {
        env.insert_one(id, MIDNIGHT - 3 * DAY - id * HOUR);
    }
    env.sql("UPDATE BACKLOG SET STATUS = 'ERROR'");
    let handler = env.noting("exit 1");
    let pass = |tick: i64| {
        let line = format!("process --progressive -- {handler}");
        env.run_at(MIDNIGHT + tick * 5 * MINUTE, &line).silent();
        env.handled().len()
    };
    pass(0);
    // A reader keeps every transaction from being committed.
    let reader = Connection::open(env.path(STATE)).unwrap();
    reader.execute_batch("BEGIN; SELECT * FROM lines").unwrap();
    let tried: usize = (1..=12).map(pass).sum();
    assert!((10..=14).contains(&tried), "each of 12 once an hour: {tried}");
}

#[test]
fn the_end_of_a_pass_waits_for_a_lock_for_a_second() {
    let env = TestEnv::with_records(1, MIDNIGHT);
    let state = env.path(STATE).display().to_string();
    // The lock outlives the handler by a little.
    let lock = format!("(echo 'BEGIN EXCLUSIVE;'; sleep 0.3) | sqlite3 {state} >locked 2>&1 &");
    let handler = env.script("handler", &format!("{lock}\nsleep 0.1"));
    pass(&env, MIDNIGHT, &handler).silent();
    let last = env.passes(MIDNIGHT)["lines"][0]["last"].clone();
    assert_eq!((&last["end"], &last["counts"]["succeeded"]), (&"complete".into(), &1.into()));
}

#[test]
fn a_pass_that_begins_while_it_is_locked_is_noted_later() {
    let env = TestEnv::with_records(2, MIDNIGHT);
    pass(&env, MIDNIGHT, "true").silent();
    env.sql("UPDATE BACKLOG SET STATUS = 'NEW'");
    let other = Connection::open(env.path(STATE)).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let pausing = env.pausing();
    let line = format!("process --fibonacci --now @{MIDNIGHT} -- {}", sh(&pausing.script));
    let mut child = env.spawn(&line);
    pausing.wait_for_begin();
    other.execute_batch("COMMIT").unwrap();
    wait_until("it is noted", || env.state("SELECT count(*), max(number) FROM passes") == "2|2");
    assert_eq!(env.passes(MIDNIGHT)["lines"][0]["running"]["pid"], child.id());
    pausing.let_go();
    assert!(child.wait().unwrap().success());
    assert_eq!(env.passes(MIDNIGHT)["lines"][0]["totals"].clone()["succeeded"], 4);
}

#[test]
fn counts_are_written_a_second_after_they_have_changed() {
    let env = TestEnv::with_records(5, MIDNIGHT);
    let pausing = env.pausing();
    let script = format!("[ $BACKLOG_ID != 1 ] || {{ {}; }}", pausing.script);
    let line = format!("process --fibonacci --jobs 1 --now @{MIDNIGHT} -- {}", sh(&script));
    let mut child = env.spawn(&line);
    pausing.wait_for_begin();
    let written = "SELECT json_extract(counts, '$.succeeded') FROM passes";
    wait_until("all counts are written", || env.state(written) == "4");
    env.kill(&mut child);
    assert_eq!(env.passes(MIDNIGHT)["lines"][0]["totals"]["succeeded"], 4);
}

#[test]
fn one_that_an_operator_has_changed_to_a_write_ahead_log_goes_back() {
    let env = TestEnv::new();
    pass(&env, MIDNIGHT, "true").silent();
    assert_eq!(env.state("PRAGMA journal_mode = wal"), "wal");
    pass(&env, MIDNIGHT + MINUTE, "true").silent();
    assert!(!names(&env).iter().any(|name| name.ends_with("-wal")), "{:?}", names(&env));
    assert_eq!(env.passes(MIDNIGHT)["lines"][0]["last"]["passes"], 2);
}

#[test]
fn one_that_is_removed_or_replaced_while_a_pass_runs_is_made_again() {
    for how in ["rm test.db.backlog/state.db*", "mv test.db.backlog/state.db elsewhere"] {
        let env = TestEnv::with_records(2, MIDNIGHT);
        let handler = env.script("handler", &format!("[ $BACKLOG_ID = 1 ] || {{ {how}; }}"));
        pass(&env, MIDNIGHT, &handler).silent();
        assert_eq!(env.count("SUCCESS"), 2, "{how}");
        let last = env.passes(MIDNIGHT)["lines"][0]["last"].clone();
        assert_eq!((&last["end"], &last["counts"]["succeeded"]), (&"complete".into(), &2.into()));
    }
}

#[test]
fn a_full_disk_is_said_once_an_hour_and_keeps_no_outcome_out() {
    let env = TestEnv::with_records(5, MIDNIGHT);
    let pass = "$program process --ndays 9 --state-dir state --db test.db --max-records 1";
    let script = format!(
        "mkdir state; mount -t tmpfs -o size=64k,mode=700 none state || exit 9
         for at in 0 60 120 3660 3720; do
             [ $at != 60 ] || cat /dev/zero >state/big 2>/dev/null
             [ $at != 3720 ] || rm state/big
             echo at: $at >&2; {pass} --now @$(($begin + at)) -- true || exit 1
         done
         $program status --json --state-dir state --db test.db --now @$(($begin + 3720))"
    );
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", &script]).env("program", PROGRAM);
    command.env("begin", MIDNIGHT.to_string()).current_dir(env.path(""));
    let ran = command.ran();
    if ran.stderr.contains("unshare") || ran.stderr.contains("mount: ") {
        return skipped(&format!("a full disk: {}", ran.stderr));
    }
    let ran = ran.success();
    let passes = ran.stderr.split("at: ").skip(1);
    let said: Vec<_> = passes.map(|part| part.lines().count() - 1).collect();
    assert_eq!(said, [0, 1, 0, 1, 0], "{}", ran.stderr);
    assert_contains(&ran.stderr, "state/state.db: database or disk is full; the pass continues");
    assert_eq!(env.count("SUCCESS"), 5);
    let status = ran.json();
    assert_eq!(status["passes"]["lines"][0]["totals"]["succeeded"], 2, "{status}");
}

/// Makes system calls that write to state.db or read it fail, and reports each that syncs it.
const FAILING: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int is_state(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return !!strstr(path, "/state.db");
}
static int fails(int fd, const char *call) {
    const char *which = getenv("FAILING");
    if (!which || !strstr(which, call) || !is_state(fd)) return 0;
    errno = EIO;
    return 1;
}
#define SYNC(name) \
    int name(int fd) { \
        int (*next)(int) = dlsym(RTLD_NEXT, #name); \
        if (is_state(fd)) dprintf(2, "%s of state.db\n", #name); \
        return next(fd); \
    }
SYNC(fsync)
SYNC(fdatasync)
#define WRAP(name, call, constant) \
    ssize_t name(int fd, constant void *data, size_t length, off_t at) { \
        ssize_t (*next)(int, constant void *, size_t, off_t) = dlsym(RTLD_NEXT, #name); \
        return fails(fd, call) ? -1 : next(fd, data, length, at); \
    }
WRAP(pread, "read", )
WRAP(pread64, "read", )
WRAP(pwrite, "write", const)
WRAP(pwrite64, "write", const)
"#;

#[test]
fn a_disk_that_fails_keeps_no_outcome_out_and_nothing_is_synced() {
    let env = TestEnv::new();
    env.write("failing.c", FAILING);
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o", "failing.so", "failing.c", "-ldl"]);
    assert!(compiler.current_dir(env.path("")).status().unwrap().success());
    for (minute, which) in [(0, ""), (1, "write"), (2, "read"), (3, "read write"), (4, "")] {
        let now = MIDNIGHT + minute * HOUR;
        env.insert_one(minute + 1, now);
        let mut command = env.command(&format!("process --fibonacci --now @{now} -- true"));
        command.env("LD_PRELOAD", env.path("failing.so")).env("FAILING", which);
        let ran = command.ran().success();
        assert_eq!(ran.stderr.is_empty(), which.is_empty(), "{which}: {ran:?}");
        assert_eq!(
            ran.stderr.contains("state.db: disk I/O error; the pass continues"),
            !which.is_empty(),
            "{ran:?}"
        );
        assert_eq!(env.count("SUCCESS"), minute + 1, "{which}");
    }
    assert_eq!(env.state("PRAGMA integrity_check"), "ok");
    let status = env.run_at(MIDNIGHT + 4 * HOUR, "status").success().stdout;
    assert!(status.contains("now, took ") && status.contains(" s: 1 succeeded"), "{status}");
}

#[test]
fn a_record_whose_handler_runs_for_long_is_named_until_it_ends() {
    let env = TestEnv::minimal();
    env.insert(2, MIDNIGHT);
    let pausing = env.pausing();
    let now = format!("@{MIDNIGHT}");
    let script = format!("[ $BACKLOG_ID = 2 ] || {{ {}; }}", pausing.script);
    let line = format!("process --ndays 9 --now {now} -- {}", sh(&script));
    let mut running = env.spawn(&line);
    pausing.wait_for_begin();
    let explain = || env.run_at(MIDNIGHT, "explain 1").success().stdout;
    assert!(!explain().contains("in hand"), "not yet");
    wait_until("the record is noted", || env.state("SELECT record FROM running") == "1");
    let run = env.passes(MIDNIGHT)["lines"][0]["running"]["run"].as_str().unwrap().to_string();
    let pid = running.id();
    let says = format!("in hand since 2026-11-21T00:00:00Z, pid {pid}, pass {run}");
    assert_contains(&explain(), &says);
    assert_contains(&env.run_at(MIDNIGHT, "list --status NEW,ERROR").success().stdout, &says);
    let status = env.run_at(MIDNIGHT, "status --json").success().stdout;
    assert_contains(&status, "\"in_hand\":1");
    let status = env.run_at(MIDNIGHT, "status --ndays 9").success().stdout;
    for line in ["due now         0 (--ndays 9)", "in hand         1 (of a pass that runs)"] {
        assert_contains(&status, line);
    }
    pausing.let_go();
    assert!(running.wait().unwrap().success());
    assert_eq!(env.state("SELECT count(*) FROM running"), "0");
    assert_lacks(&explain(), "in hand");
}

//! Passes that are killed again and again while a co-process has many records.

use crate::testenv::*;
use std::fs;

use crate::pgmq::queue_of;
use test_support::cluster::Pgmq;

const RECORDS: usize = 20;
const ATTEMPTS: usize = 3;

/// Answers nothing while there is a file `stuck`. Afterwards it notes each record, and whether it came alone.
/// Record 7 ends the process.
const HANDLER: &str = r#"
import json, os, sys, time

def note(file, text):
    with open(file, "a") as it:
        it.write(text + "\n")

waiting, has_greeted = b"", False
while chunk := os.read(0, 65536):
    if not os.path.exists("stuck"):
        time.sleep(0.01)
    *lines, waiting = (waiting + chunk).split(b"\n")
    if not has_greeted and lines:
        has_greeted = True
        lines.pop(0)
    for line in lines:
        id = next(iter(json.loads(line).values()))
        if os.path.exists("stuck"):
            note("seen", str(id))
            continue
        note("tried", f"{id} {'alone' if len(lines) == 1 else 'in company'}")
        if id == 7:
            sys.exit(1)
        print(json.dumps({"id": id, "outcome": "success"}), flush=True)
"#;

fn lines(env: &TestEnv, file: &str) -> Vec<String> {
    fs::read_to_string(env.path(file)).unwrap_or_default().lines().map(String::from).collect()
}

/// Kills one pass for each allowed attempt, as soon as its handler has all records, and lets the next pass
/// finish. `pass` returns the arguments of a pass, and `after` is called after each kill.
fn kill_and_finish(env: &TestEnv, pass: impl Fn(usize) -> String, after: impl Fn()) -> Ran {
    let handler = env.path("handler.py");
    fs::write(&handler, HANDLER).unwrap();
    let handler = handler.display().to_string();
    let command = |number| env.command(&format!("{} -- python3 {handler}", pass(number)));
    env.write("stuck", "");
    for number in 0..ATTEMPTS {
        wait_until("all records are handed out", || {
            let _ = fs::remove_file(env.path("seen"));
            let mut killed = command(number).spawn().unwrap();
            // A pass that starts before the watchdog has ended may find its line locked.
            wait_until("the pass is at work", || {
                lines(env, "seen").len() >= RECORDS || killed.try_wait().unwrap().is_some()
            });
            let _ = killed.kill();
            killed.wait().unwrap();
            lines(env, "seen").len() >= RECORDS
        });
        after();
    }
    fs::remove_file(env.path("stuck")).unwrap();
    let mut last = None;
    wait_until("the records are tried", || {
        last = Some(command(ATTEMPTS).ran());
        !lines(env, "tried").is_empty()
    });
    last.unwrap()
}

/// Asserts that each record was tried once, alone in its process.
#[track_caller]
fn each_was_alone(env: &TestEnv) {
    let mut tried = lines(env, "tried");
    tried.sort_unstable();
    let mut all: Vec<_> = (1..=RECORDS).map(|id| format!("{id} alone")).collect();
    all.sort_unstable();
    assert_eq!(tried, all);
}

#[test]
fn records_that_killed_passes_have_charged_get_one_more_attempt_alone() {
    let env = TestEnv::with_records(RECORDS.try_into().unwrap(), 1_795_000_000);
    let pass = |number: usize| {
        let now = format!("@{}", 1_795_000_000 + number * 3_600);
        format!("process --now {now} --fibonacci --max-attempts 3 --stream")
    };
    let ran = kill_and_finish(&env, pass, || env.wait_for_free_locks());
    assert_eq!(ran.exit, Some(1), "{ran:?}");
    each_was_alone(&env);
    assert_eq!((env.count("SUCCESS"), env.count("ARCHIVED")), (19, 1));
    assert_eq!(env.query("SELECT ID, FAILURES FROM BACKLOG WHERE STATUS = 'ARCHIVED'"), "7|4");
}

#[test]
fn messages_that_killed_passes_have_read_get_one_more_attempt_alone() {
    for version in [Pgmq::V1_4_4, Pgmq::Newest] {
        let count = RECORDS.try_into().unwrap();
        let Some((database, env)) = queue_of(version, "jobs", count) else { return };
        let pass = |_| "process --pgmq jobs --max-attempts 3 --stream".into();
        let ran = kill_and_finish(&env, pass, || database.sql("UPDATE pgmq.q_jobs SET vt = now()"));
        assert_eq!(ran.exit, Some(1), "{ran:?}");
        each_was_alone(&env);
        assert_eq!(database.query("SELECT count(*) FROM pgmq.q_jobs"), "0");
        assert_eq!(database.query("SELECT read_ct FROM pgmq.a_jobs WHERE msg_id = 7"), "4");
    }
}

//! `--stream`: one process for many records, spoken to in lines of JSON.

mod ends;
mod kills;
mod passes;
mod records;
mod stops;

use std::fs;
use std::process::Child;

use crate::testenv::*;

/// A handler that has nothing to do. It flushes after each line, and passes over the first, which
/// is no record.
const SUCCEEDS: &str = r#"sed -un 's/^{"ID":\([0-9]*\),.*/{"id":\1,"outcome":"success"}/p' -"#;

/// The same as the end of a shell script.
const EXEC_SUCCEEDS: &str =
    r#"exec sed -un 's/^{"ID":\([0-9]*\),.*/{"id":\1,"outcome":"success"}/p'"#;

/// Preamble of handlers in Python.
const PREAMBLE: &str = r#"
import json, os, signal, sys, time

def read():
    return json.loads(sys.stdin.readline())

def records():
    return map(json.loads, sys.stdin)

def answer(id, outcome="success", **more):
    print(json.dumps({"id": id, "outcome": outcome, **more}), flush=True)

def note(file, *words):
    with open(file, "a") as it:
        it.write(" ".join(map(str, words)) + "\n")

def is_first():
    try:
        os.mkdir("first")
    except FileExistsError:
        return False
    return True

hello = read()
"#;

/// A handler in Python, as the path of a file.
fn python(env: &TestEnv, text: &str) -> String {
    let path = env.path("handler.py");
    fs::write(&path, format!("{PREAMBLE}{text}")).unwrap();
    path.display().to_string()
}

/// One pass with this co-process.
fn pass(env: &TestEnv, options: &str, handler: &str) -> Ran {
    env.pass(&format!("--stream {options} -- {handler}"))
}

/// The same in the background.
fn begin(env: &TestEnv, options: &str, handler: &str) -> Child {
    env.spawn(&format!("process --now @{MIDNIGHT} --stream {options} -- {handler}"))
}

/// Records 1 to `count`, of which the last is handed out first.
fn midnight_records(count: i64) -> TestEnv {
    TestEnv::with_records(count, MIDNIGHT)
}

fn lines(env: &TestEnv, file: &str) -> Vec<String> {
    fs::read_to_string(env.path(file)).unwrap_or_default().lines().map(String::from).collect()
}

/// ID, STATUS, FAILURES and LAST_ERROR of each record.
fn rows(env: &TestEnv) -> String {
    env.query("SELECT ID, STATUS, FAILURES, LAST_ERROR FROM BACKLOG ORDER BY ID")
}

/// Tries it with longer and longer timeouts, until the machine is fast enough for one of them to
/// show what it is to show. Only what is late because of the machine may be tried again.
#[track_caller]
fn patiently(mut shows: impl FnMut(&str) -> bool) {
    let timeouts = ["200ms", "1s", "5s", "25s"];
    assert!(timeouts.into_iter().any(&mut shows), "not even after 25 s");
}

/// A handler that says of each record what its payload is.
fn obedient(env: &TestEnv) -> String {
    python(env, "for it in records(): answer(it['ID'], **json.loads(it['PAYLOAD']))\n")
}

//! `--stream`: one process for many records, spoken to in lines of JSON.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::process::{Child, Command};

use crate::cluster::cluster;
use crate::testenv::{DAY, MIDNIGHT, MINUTE, Ran, TestEnv, exists, ran, skipped, wait_until};

/// A handler that has nothing to do. It flushes after each line, and passes over the first, which
/// is no record.
const SUCCEEDS: [&str; 4] =
    ["sed", "-un", r#"s/^{"ID":\([0-9]*\),.*/{"id":\1,"outcome":"success"}/p"#, "-"];

/// The same as the end of a shell script.
const EXEC_SUCCEEDS: &str =
    r#"exec sed -un 's/^{"ID":\([0-9]*\),.*/{"id":\1,"outcome":"success"}/p'"#;

/// What handlers in Python begin with.
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
fn pass(env: &TestEnv, options: &[&str], handler: &[&str]) -> Ran {
    env.run_at(MIDNIGHT, &[&["process", "--stream"], options, &["--"], handler].concat())
}

/// The same in the background.
fn begin(env: &TestEnv, options: &[&str], handler: &[&str]) -> Child {
    let now = format!("@{MIDNIGHT}");
    env.spawn(&[&["process", "--now", &now, "--stream"], options, &["--"], handler].concat())
}

/// Records 1 to `count`, of which the last is handed out first.
fn records(count: i64) -> TestEnv {
    let env = TestEnv::new();
    env.insert(count, MIDNIGHT);
    env
}

fn lines(env: &TestEnv, file: &str) -> Vec<String> {
    let text = fs::read_to_string(env.path(file)).unwrap_or_default();
    text.lines().map(String::from).collect()
}

/// ID, STATUS, FAILURES and LAST_ERROR of each record.
fn rows(env: &TestEnv) -> String {
    env.query("SELECT ID, STATUS, FAILURES, LAST_ERROR FROM BACKLOG ORDER BY ID")
}

fn signal(signal: &str, pid: u32) -> bool {
    Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success()
}

/// Tries it with longer and longer timeouts, until the machine is fast enough for one of them to
/// show what it is to show. Only what is late because of the machine may be tried again.
#[track_caller]
fn patiently(mut shows: impl FnMut(&str) -> bool) {
    let timeouts = ["200ms", "1s", "5s", "25s"];
    assert!(timeouts.into_iter().any(&mut shows), "not even after 25 s");
}

#[test]
fn one_process_gets_all_records_as_lines_and_a_line_before_that_says_what_they_are() {
    let env = records(3);
    env.sql("UPDATE BACKLOG SET PAYLOAD = '{\"a\":\"\u{1F600}\"}' WHERE ID = 2");
    let handler = format!(
        "echo $$ >>pids; env | grep -E '^(BACKLOG_(QUEUE|TABLE|MAX_ATTEMPTS|ID|ATTEMPT)|PYTHONUNBUFFERED)=' \
         | sort >env; tee seen | {}",
        EXEC_SUCCEEDS.trim_start_matches("exec ")
    );
    let options = ["--ndays", "1", "--queue", "email", "--max-attempts", "5"];
    pass(&env, &options, &["sh", "-c", &handler]).silent();
    assert_eq!(env.statuses(), "1|SUCCESS\n2|SUCCESS\n3|SUCCESS");
    assert_eq!(lines(&env, "pids").len(), 1);
    assert_eq!(
        lines(&env, "env"),
        [
            "BACKLOG_MAX_ATTEMPTS=5",
            "BACKLOG_QUEUE=email",
            "BACKLOG_TABLE=BACKLOG",
            "PYTHONUNBUFFERED=1"
        ]
    );
    let record = |id: i64, payload: &str| {
        format!(
            "{{\"ID\":{id},\"STATUS\":\"NEW\",\"DATE_INSERTED\":\"2026-11-21T00:00:00Z\",\
             \"PAYLOAD\":{payload},\"FAILURES\":0,\"LAST_FAILURE\":null,\"LAST_ERROR\":null}}"
        )
    };
    assert_eq!(
        lines(&env, "seen"),
        [
            "{\"backlog\":1,\"queue\":\"email\",\"table\":\"BACKLOG\",\"id\":[\"ID\"],\
             \"columns\":[\"ID\",\"STATUS\",\"DATE_INSERTED\",\"PAYLOAD\",\"FAILURES\",\
             \"LAST_FAILURE\",\"LAST_ERROR\"]}",
            &record(3, "null"),
            &record(2, "\"{\\\"a\\\":\\\"\u{1F600}\\\"}\""),
            &record(1, "null"),
        ]
    );
}

#[test]
fn a_pass_with_nothing_to_do_starts_no_process() {
    let env = TestEnv::new();
    pass(&env, &["--ndays", "1"], &["touch", "started"]).silent();
    assert!(!env.path("started").exists());
}

#[test]
fn a_pass_in_the_handler_of_another_does_not_hand_on_the_limit_of_that_one() {
    let env = records(1);
    let handler = format!("env >env; {EXEC_SUCCEEDS}");
    let args = ["process", "--ndays", "1", "--now", "@1795219200", "--stream"];
    let mut command = env.command(&[&args[..], &["--", "sh", "-c", &handler]].concat());
    command.env("BACKLOG_PASS", "00").env("BACKLOG_MAX_ATTEMPTS", "9");
    ran(&command.output().unwrap()).silent();
    let environment = fs::read_to_string(env.path("env")).unwrap();
    assert!(environment.contains("BACKLOG_QUEUE=default\n"), "{environment}");
    assert!(!environment.contains("BACKLOG_MAX_ATTEMPTS="), "{environment}");
}

#[test]
fn replies_may_come_in_any_order() {
    let env = records(5);
    let handler = python(
        &env,
        r#"
ids = [read()["ID"] for _ in range(5)]
note("order", *ids)
for id in [2, 5, 1, 4, 3]:
    answer(id, *([] if id % 2 else ["failure"]), error="even")
"#,
    );
    pass(&env, &["--ndays", "1"], &["python3", &handler]).silent();
    assert_eq!(lines(&env, "order"), ["5 4 3 2 1"]);
    assert_eq!(
        rows(&env),
        "1|SUCCESS|0|\n2|ERROR|1|even\n3|SUCCESS|0|\n4|ERROR|1|even\n5|SUCCESS|0|"
    );
}

/// A handler that says of each record what its payload is.
fn obedient(env: &TestEnv) -> String {
    python(env, "for it in records(): answer(it['ID'], **json.loads(it['PAYLOAD']))\n")
}

/// Each outcome, and what it writes where failures are counted and have been 2.
const OUTCOMES: [(&str, &str); 7] = [
    (r#"{"outcome":"success","error":"none"}"#, "SUCCESS|2||"),
    (r#"{"outcome":"failure","error":"no\nroute"}"#, r"ERROR|3|2026-11-21T00:00:00Z|no\nroute"),
    (r#"{"outcome":"failure"}"#, "ERROR|3|2026-11-21T00:00:00Z|the handler gave no reason"),
    (
        r#"{"outcome":"snooze","error":"busy","after":"10m"}"#,
        "ERROR|2|2026-11-21T00:00:00Z|snoozed until 2026-11-21T00:10:00Z: busy",
    ),
    (r#"{"outcome":"snooze"}"#, "ERROR|2|2026-11-21T00:00:00Z|snoozed"),
    (r#"{"outcome":"give_up","error":"gone"}"#, "ARCHIVED|3|2026-11-21T00:00:00Z|gone"),
    (r#"{"outcome":"give_up"}"#, "ARCHIVED|3|2026-11-21T00:00:00Z|given up"),
];

#[test]
fn each_outcome_writes_what_it_means_to_the_row() {
    for (payload, expected) in OUTCOMES {
        let env = records(1);
        env.sql(&format!(
            "UPDATE BACKLOG SET STATUS = 'ERROR', FAILURES = 2, PAYLOAD = '{payload}'"
        ));
        let ran = pass(&env, &["--ndays", "1"], &["python3", &obedient(&env)]);
        let row = env.query("SELECT STATUS, FAILURES, LAST_FAILURE, LAST_ERROR FROM BACKLOG");
        assert_eq!(row, expected, "{payload}");
        if expected.starts_with("ARCHIVED") {
            let error = expected.rsplit('|').next().unwrap();
            ran.fails(1, &["record 1 was given up by its handler (attempt 3); archived: ", error]);
        } else {
            ran.silent();
        }
    }
}

#[test]
fn an_outcome_is_a_status_alone_where_nothing_is_counted() {
    let env = TestEnv::minimal();
    for (id, (payload, _)) in (1..).zip(OUTCOMES) {
        env.insert_one(id, MIDNIGHT);
        env.sql(&format!("UPDATE BACKLOG SET PAYLOAD = '{payload}' WHERE ID = {id}"));
    }
    pass(&env, &["--ndays", "1"], &["python3", &obedient(&env)])
        .fails(1, &["record 6", "record 7"]);
    assert_eq!(
        env.statuses(),
        "1|SUCCESS\n2|ERROR\n3|ERROR\n4|ERROR\n5|ERROR\n6|ARCHIVED\n7|ARCHIVED"
    );
}

#[test]
fn a_record_is_snoozed_for_as_long_as_its_handler_asks() {
    let env = records(1);
    env.sql(r#"UPDATE BACKLOG SET PAYLOAD = '{"outcome":"snooze","error":"busy","after":"10m"}'"#);
    pass(&env, &["--fibonacci"], &["python3", &obedient(&env)]).silent();
    assert_eq!(rows(&env), "1|ERROR|0|snoozed until 2026-11-21T00:10:00Z: busy");
    let handler = env.noting("exit 0");
    let at = |minutes| {
        let now = MIDNIGHT + minutes * MINUTE;
        env.run_at(now, &["process", "--fibonacci", "--", &handler]).silent();
        env.run_at(now, &["explain", "--fibonacci", "1"]).success().stdout
    };
    let explained = at(9);
    assert_eq!(env.handled(), [""; 0]);
    assert!(explained.contains("2026-11-21T00:10:00Z"), "{explained}");
    assert!(explained.contains("snoozed"), "{explained}");
    at(10);
    assert_eq!(env.handled(), ["1"]);
}

#[test]
fn no_more_records_are_in_flight_than_the_window_has_room_for() {
    let env = records(20);
    let path = env.path("handler.py");
    // It reads no further than the end of a line, so that what comes behind it can be seen.
    fs::write(
        &path,
        r#"
import json, os, select, sys

def read():
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            sys.exit("the window is not filled")
        line += byte
    return json.loads(line)

read()
hand = []
for answered in range(20):
    while len(hand) < min(3, 20 - answered):
        hand.append(read())
    # The end of the input must not come either while there is something to answer.
    if select.select([0], [], [], 0.02)[0]:
        sys.exit("more than the window")
    print(json.dumps({"id": hand.pop()["ID"], "outcome": "success"}), flush=True)
"#,
    )
    .unwrap();
    let options = ["--ndays", "1", "--window", "3", "--restarts", "0"];
    pass(&env, &options, &["python3", path.to_str().unwrap()]).silent();
    assert_eq!(env.count("SUCCESS"), 20);
}

#[test]
fn two_jobs_are_two_processes_that_work_at_the_same_time() {
    let env = records(6);
    // None answers before the other one has a record as well.
    let handler = python(
        &env,
        r#"
for it in records():
    note(f"seen.{os.getpid()}", it["ID"])
    while sum(name.startswith("seen.") for name in os.listdir()) < 2:
        time.sleep(0.005)
    answer(it["ID"])
"#,
    );
    pass(&env, &["--ndays", "1", "--jobs", "2"], &["python3", &handler]).silent();
    assert_eq!(env.count("SUCCESS"), 6);
    let seen = fs::read_dir(env.path("")).unwrap().flatten();
    let seen: Vec<_> = seen
        .map(|file| file.file_name().into_string().unwrap())
        .filter(|name| name.starts_with("seen."))
        .collect();
    assert_eq!(seen.len(), 2, "{seen:?}");
    let ids: Vec<_> = seen.iter().flat_map(|file| lines(&env, file)).collect();
    assert_eq!(ids.len(), 6);
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 6);
}

#[test]
fn only_the_oldest_record_is_charged_for_the_end_of_its_process() {
    for (end, says) in [
        ("sys.exit(3)", "exit status 3: no good"),
        ("sys.exit(0)", "exit status 0: no good"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "signal 9: no good"),
    ] {
        let env = records(5);
        let handler = python(
            &env,
            &format!(
                r#"
if is_first():
    for _ in range(5): read()
    answer(5)
    answer(3)
    print("first", "no good", sep="\n", file=sys.stderr, flush=True)
    {end}
for it in records():
    note("second", it["ID"])
    answer(it["ID"])
"#
            ),
        );
        for mode in [&["--ndays", "1"][..], &["--fibonacci"]] {
            let _ = fs::remove_dir(env.path("first"));
            let _ = fs::remove_file(env.path("second"));
            env.sql("UPDATE BACKLOG SET STATUS = 'NEW', FAILURES = 0, LAST_FAILURE = NULL, LAST_ERROR = NULL");
            pass(&env, mode, &["python3", &handler]).silent();
            let error = format!("the handler ended before it answered: {says}");
            assert_eq!(
                rows(&env),
                format!(
                    "1|SUCCESS|0|\n2|SUCCESS|0|\n3|SUCCESS|0|\n4|ERROR|1|{error}\n5|SUCCESS|0|"
                )
            );
            assert_eq!(lines(&env, "second"), ["2", "1"]);
        }
    }
}

#[test]
fn a_process_that_ends_badly_after_its_last_answer_has_failed_no_record() {
    let env = records(3);
    let handler = python(
        &env,
        "for id in [read()['ID'] for _ in range(3)]: answer(id)\nsys.exit('out of memory')\n",
    );
    let ran = pass(&env, &["--fibonacci", "-v"], &["python3", &handler]).success();
    assert_eq!(rows(&env), "1|SUCCESS|0|\n2|SUCCESS|0|\n3|SUCCESS|0|");
    let says = "the handler had answered all, and then ended with exit status 1: out of memory";
    assert!(ran.stderr.contains(says), "{}", ran.stderr);
}

#[test]
fn a_pass_stops_when_its_restarts_are_used_up_and_leaves_the_rest_untouched() {
    for (options, restarts, charged) in
        [(&["--restarts", "0"][..], 0, 1), (&["--restarts", "1"], 1, 2), (&[], 3, 4)]
    {
        for mode in [&["--ndays", "1"][..], &["--fibonacci"]] {
            let env = records(6);
            let dies = "echo >>starts; read -r hello; read -r record; echo no good >&2; exit 3";
            let ran = pass(&env, &[mode, options].concat(), &["sh", "-c", dies]);
            let next = 6 - charged;
            let says = format!(
                "record {next} stays as it was: the handler ended with exit status 3: no good; \
                 --restarts {restarts} are used up; the pass stops here"
            );
            ran.fails(1, &[&says]);
            assert_eq!(lines(&env, "starts").len(), charged);
            let untouched = (1..=next).map(|id| format!("{id}|NEW|0|"));
            let error = "the handler ended before it answered: exit status 3: no good";
            let failed = (next + 1..=6).map(|id| format!("{id}|ERROR|1|{error}"));
            assert_eq!(rows(&env), untouched.chain(failed).collect::<Vec<_>>().join("\n"));
            assert_eq!(env.query("SELECT count(LAST_FAILURE) FROM BACKLOG"), charged.to_string());
        }
    }
}

#[test]
fn a_process_that_does_not_answer_is_killed_and_fails_the_oldest_record() {
    patiently(|timeout| {
        let env = records(3);
        let stubborn = "trap '' TERM; cat >/dev/null; sleep 1000";
        let options = ["--ndays", "1", "--timeout", timeout, "--grace", "0s", "--restarts", "0"];
        let ran = pass(&env, &options, &["sh", "-c", stubborn]);
        let says = format!("the handler timed out after {timeout}; --restarts 0 are used up");
        ran.fails(1, &["record 2 stays as it was: ", &says, "; the pass stops here"]);
        let expected = |what| {
            format!("1|NEW|0|\n2|NEW|0|\n3|ERROR|1|timed out after {timeout}: the handler {what}")
        };
        // It has read nothing if it was not even started in that time.
        let was_late = rows(&env) == expected("does not read its input");
        assert!(was_late || rows(&env) == expected("does not answer"), "{}", rows(&env));
        !was_late
    });
}

#[test]
fn a_process_that_does_not_read_fails_the_oldest_record() {
    let env = records(3);
    let options = [
        "--ndays",
        "1",
        "--timeout",
        "100ms",
        "--grace",
        "0s",
        "--restarts",
        "1",
        "--joblog",
        "log",
    ];
    pass(&env, &options, &["sleep", "1000"]).fails(1, &["record 1 stays as it was: "]);
    let error = "timed out after 100ms: the handler does not read its input";
    assert_eq!(rows(&env), format!("1|NEW|0|\n2|ERROR|1|{error}\n3|ERROR|1|{error}"));
    let joblog = fs::read_to_string(env.path("log")).unwrap();
    assert_eq!(joblog.matches("\"exit\":124").count(), 2, "{joblog}");
}

#[test]
fn the_successor_of_a_silent_process_handles_what_it_left() {
    patiently(|timeout| {
        let env = records(4);
        let handler = format!("mkdir first 2>/dev/null && exec sleep 1000; {EXEC_SUCCEEDS}");
        let options = ["--ndays", "1", "--timeout", timeout, "--grace", "0s"];
        let ran = pass(&env, &options, &["sh", "-c", &handler]);
        if ran.exit != Some(0) || env.count("ERROR") > 1 {
            // The successor may have been as slow as the machine.
            return false;
        }
        ran.silent();
        let error = format!("timed out after {timeout}: the handler does not read its input");
        let expected = format!("1|SUCCESS|0|\n2|SUCCESS|0|\n3|SUCCESS|0|\n4|ERROR|1|{error}");
        assert_eq!(rows(&env), expected);
        true
    });
}

#[test]
fn the_timeout_is_reckoned_from_the_last_answer() {
    patiently(|timeout| {
        let env = records(10);
        let pause = match timeout {
            "200ms" => "0.04",
            "1s" => "0.2",
            "5s" => "1",
            _ => "4",
        };
        let slow = format!(
            "read -r hello; while read -r record; do sleep {pause}; echo \"$record\"; done | {}",
            EXEC_SUCCEEDS.trim_start_matches("exec ")
        );
        let options = ["--ndays", "1", "--timeout", timeout];
        let ran = pass(&env, &options, &["sh", "-c", &slow]);
        ran.exit == Some(0) && env.count("SUCCESS") == 10
    });
}

#[test]
fn a_handler_that_does_not_flush_is_told_to_and_its_late_answers_count() {
    let env = records(3);
    let late = ["sed", "-n", SUCCEEDS[2]];
    let options = ["--ndays", "1", "--timeout", "200ms", "--grace", "1h"];
    let ran = pass(&env, &options, &late);
    assert_eq!(env.statuses(), "1|SUCCESS\n2|SUCCESS\n3|SUCCESS");
    assert_eq!(
        (ran.exit, &*ran.stderr),
        (
            Some(1),
            "backlog: the handler was silent for 200ms and answered when its input was closed: let \
             it flush its output after each line, or raise --timeout\n"
        )
    );
}

#[test]
fn a_handler_that_does_not_flush_uses_up_its_restarts() {
    let env = records(4);
    let late = ["sed", "-n", SUCCEEDS[2]];
    let options =
        ["--ndays", "1", "--window", "1", "--timeout", "100ms", "--grace", "1h", "--restarts", "1"];
    let ran = pass(&env, &options, &late).fails(1, &["record 2 stays as it was: "]);
    assert_eq!(rows(&env), "1|NEW|0|\n2|NEW|0|\n3|SUCCESS|0|\n4|SUCCESS|0|");
    // It is said of each process, and of the last one once more, as what stops the pass.
    assert_eq!(ran.stderr.matches("let it flush its output").count(), 3, "{}", ran.stderr);
}

#[test]
fn a_line_that_is_no_reply_is_an_error_and_loses_nothing() {
    let long = "x".repeat(300);
    let long_shown = format!("not JSON: {}...", "x".repeat(200));
    for (line, says) in [
        ("starting up ...", "not JSON: starting up ..."),
        ("", "not JSON: "),
        (&*long, &*long_shown),
        ("{\"id\":2,\"outcome\":\"success\"", "not JSON: {\"id\":2,\"outcome\":\"success\""),
        ("7", "invalid type: integer `7`, "),
        ("{\"outcome\":\"success\"}", "missing field `id`: {\"outcome\":\"success\"}"),
        ("{\"id\":2}", "missing field `outcome`: {\"id\":2}"),
        ("{\"id\":2,\"outcome\":\"done\"}", "unknown variant `done`, "),
        ("{\"id\":2,\"outcome\":\"failure\",\"error\":5}", "invalid type: integer `5`, "),
        ("{\"id\":2,\"outcome\":\"snooze\",\"after\":\"soon\"}", "after: \"soon\" is no duration "),
        ("{\"id\":9,\"outcome\":\"success\"}", "no record 9 was handed to it: {\"id\":9,"),
        ("{\"id\":3,\"outcome\":\"failure\"}", "record 3 was answered before: {\"id\":3,"),
        ("{\"id\":\"3\",\"outcome\":\"failure\"}", "record 3 was answered before: {\"id\":\"3\","),
        ("tick\ttack\u{1b}[1m", "not JSON: tick\\ttack\\u{1b}[1m"),
    ] {
        let says = format!("backlog: line 2 of the handler's output is no reply, {says}");
        for restarts in ["0", "1"] {
            let env = records(3);
            fs::write(env.path("line"), line).unwrap();
            // What it says behind the wrong line does not count.
            let handler = python(
                &env,
                r#"
if is_first():
    for _ in range(3): read()
    answer(3)
    print(open("line", newline="").read(), flush=True)
    answer(2)
    time.sleep(1000)
for it in records():
    note("second", it["ID"])
    answer(it["ID"])
"#,
            );
            let options = ["--fibonacci", "--restarts", restarts];
            let ran = pass(&env, &options, &["python3", &handler]).fails(1, &[]);
            let (first, rest) = ran.stderr.split_once('\n').unwrap();
            assert!(first.starts_with(&says), "{first}");
            if restarts == "0" {
                assert!(
                    rest.starts_with("backlog: record 2 stays as it was: line 2 of "),
                    "{rest}"
                );
                assert!(
                    rest.ends_with("--restarts 0 are used up; the pass stops here\n"),
                    "{rest}"
                );
                assert_eq!(rows(&env), "1|NEW|0|\n2|NEW|0|\n3|SUCCESS|0|");
            } else {
                assert_eq!(rest, "");
                assert_eq!(rows(&env), "1|SUCCESS|0|\n2|SUCCESS|0|\n3|SUCCESS|0|");
                assert_eq!(lines(&env, "second"), ["2", "1"]);
            }
        }
    }
}

#[test]
fn a_reply_without_a_newline_at_the_end_of_the_output_counts() {
    let env = records(1);
    let handler = "cat >/dev/null & read -r hello; printf '{\"id\":1,\"outcome\":\"success\"}'";
    pass(&env, &["--ndays", "1"], &["sh", "-c", handler]).silent();
    assert_eq!(env.statuses(), "1|SUCCESS");
}

#[test]
fn a_stopped_pass_takes_the_answers_that_come_within_the_grace() {
    for (name, exit) in [("-TERM", 143), ("-INT", 130)] {
        let env = records(6);
        let handler = python(
            &env,
            r#"
for _ in range(3): read()
note("began")
if sys.stdin.readline(): sys.exit("more records after the stop")
answer(6)
answer(4, "failure", error="no")
note("asked")
"#,
        );
        let options = ["--fibonacci", "--window", "3", "--grace", "1h"];
        let child = begin(&env, &options, &["python3", &handler]);
        wait_until("the handler begins", exists(&env.path("began")));
        assert!(signal(name, child.id()));
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(exit), "{output:?}");
        assert!(env.path("asked").exists());
        let untouched = "1|NEW|0|\n2|NEW|0|\n3|NEW|0|";
        assert_eq!(rows(&env), format!("{untouched}\n4|ERROR|1|no\n5|NEW|0|\n6|SUCCESS|0|"));
        assert_eq!(env.query("SELECT LAST_FAILURE FROM BACKLOG WHERE ID = 5"), "");
    }
}

#[test]
fn a_stopped_pass_kills_a_stubborn_handler_and_leaves_its_records_untouched() {
    let env = records(3);
    let child = begin(
        &env,
        &["--fibonacci", "--grace", "0s"],
        &["sh", "-c", "trap '' TERM; echo $$ >pid.new; mv pid.new pid; sleep 1000; sleep 1000"],
    );
    wait_until("the handler begins", exists(&env.path("pid")));
    assert!(signal("-TERM", child.id()));
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143), "{output:?}");
    assert_eq!(rows(&env), "1|NEW|0|\n2|NEW|0|\n3|NEW|0|");
    assert_eq!(env.query("SELECT count(LAST_FAILURE) FROM BACKLOG"), "0");
    let pid = fs::read_to_string(env.path("pid")).unwrap();
    assert!(!env.path(&format!("/proc/{}", pid.trim())).exists(), "the handler is left");
}

#[test]
fn a_stopped_pass_hands_out_no_part_of_a_record() {
    let env = records(2);
    env.sql("UPDATE BACKLOG SET PAYLOAD = json_quote(printf('%.*c', 1000000, 'x'))");
    // Of a record that is longer than a pipe holds, a part is sent when the pass is stopped. To a
    // handler that looks for the id only, that part is a record.
    let handler = python(
        &env,
        r#"
note("began")
while not os.path.exists("go"): time.sleep(0.005)
for line in sys.stdin:
    note("ends", line.endswith("}\n"))
"#,
    );
    let now = format!("@{MIDNIGHT}");
    let args = ["process", "--now", &now, "--fibonacci", "--stream", "--grace", "1h", "-v", "--"];
    let mut child = env.spawn_logging(&[&args[..], &["python3", &handler]].concat());
    wait_until("the handler begins", exists(&env.path("began")));
    assert!(signal("-TERM", child.id()));
    env.logs("stopping on signal");
    fs::write(env.path("go"), "").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert!(!lines(&env, "ends").contains(&"False".into()), "a part of a record was handed out");
    assert_eq!(rows(&env), "1|NEW|0|\n2|NEW|0|");
}

#[test]
fn a_process_that_stays_after_the_end_of_its_input_is_ended() {
    let env = records(3);
    let stays = format!("{}; touch asked; sleep 1000", EXEC_SUCCEEDS.trim_start_matches("exec "));
    let options = ["--ndays", "1", "--grace", "0s"];
    pass(&env, &options, &["sh", "-c", &stays]).silent();
    assert_eq!(env.count("SUCCESS"), 3);
}

#[test]
fn a_second_signal_leaves_no_more_grace() {
    let env = records(2);
    let now = format!("@{MIDNIGHT}");
    let handler = "touch began; trap '' TERM; sleep 1000; sleep 1000";
    let args = ["process", "--now", &now, "--fibonacci", "--stream", "--grace", "1h", "-v", "--"];
    let mut child = env.spawn_logging(&[&args[..], &["sh", "-c", handler]].concat());
    wait_until("the handler begins", exists(&env.path("began")));
    assert!(signal("-TERM", child.id()));
    env.logs("stopping on signal");
    assert!(signal("-TERM", child.id()));
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert_eq!(rows(&env), "1|NEW|0|\n2|NEW|0|");
}

#[test]
fn the_end_of_the_runtime_leaves_what_is_unanswered_untouched() {
    patiently(|runtime| {
        let env = records(3);
        let handler = format!(
            "read -r hello; head -n 1 | {}; touch answered; sleep 1000",
            EXEC_SUCCEEDS.trim_start_matches("exec ")
        );
        let options = ["--fibonacci", "--max-runtime", runtime, "--grace", "0s"];
        let ran = pass(&env, &options, &["sh", "-c", &handler]);
        if !env.path("answered").exists() || env.count("SUCCESS") == 0 {
            return false;
        }
        ran.silent();
        assert_eq!(rows(&env), "1|NEW|0|\n2|NEW|0|\n3|SUCCESS|0|");
        true
    });
}

/// The co-processes of a pass that have begun to run.
fn co_processes(pass: &Child) -> Vec<u32> {
    let parent = format!("\nPPid:\t{}\n", pass.id());
    let processes = fs::read_dir("/proc").unwrap().flatten();
    // Other processes come and go meanwhile.
    let mine = processes.filter(|process| {
        let command = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let status = fs::read_to_string(process.path().join("status")).unwrap_or_default();
        command.starts_with(b"python3\0") && status.contains(&parent)
    });
    mine.filter_map(|process| process.file_name().to_str()?.parse().ok()).collect()
}

#[test]
fn kills_of_the_pass_and_of_its_handler_lose_nothing_and_repeat_little() {
    for mode in [&["--ndays", "1"][..], &["--fibonacci"]] {
        let env = records(300);
        let handler = python(
            &env,
            r#"
for it in records():
    note("trace", "begin", it["ID"], os.getpid())
    time.sleep(0.001)
    note("trace", "end", it["ID"], os.getpid())
    answer(it["ID"])
"#,
        );
        let traced = || lines(&env, "trace").len();
        let mut kills = 0;
        for round in 0..15 {
            let options = [mode, &["--window", "8"]].concat();
            let mut child = begin(&env, &options, &["python3", &handler]);
            // Points all over the life of a pass, its start included.
            let go_on = |child: &mut Child, lines| {
                let goal = traced() + lines;
                let what = "the pass gets on";
                wait_until(what, || traced() >= goal || child.try_wait().unwrap().is_some());
            };
            go_on(&mut child, round * 7 % 31);
            if round % 3 != 0 {
                for pid in co_processes(&child) {
                    // It may have come to its end by itself.
                    kills += usize::from(signal("-KILL", pid));
                }
            }
            if round % 3 == 1 {
                go_on(&mut child, 6);
            }
            child.kill().unwrap();
            child.wait().unwrap();
            kills += 1;
        }
        // What a kill has failed is due again an hour later.
        let later = format!("@{}", MIDNIGHT + 60 * MINUTE);
        let drain = ["process", "--now", &later, "--drain", "--stream"];
        env.run(&[&drain[..], mode, &["--", "python3", &handler]].concat()).silent();
        assert_eq!(env.count("SUCCESS"), 300, "{mode:?}");

        let mut runs: HashMap<String, Vec<String>> = HashMap::new();
        for line in lines(&env, "trace") {
            let [what, id, pid] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            let runs = runs.entry(id.into()).or_default();
            if what == "begin" {
                runs.push(pid.into());
            } else {
                let last = runs.last().unwrap();
                assert_eq!(last, pid, "record {id} was begun again before its run ended");
            }
        }
        assert_eq!(runs.len(), 300);
        let repeats: usize = runs.values().map(|runs| runs.len() - 1).sum();
        assert!(repeats <= 8 * kills, "{repeats} repeats for {kills} kills with a window of 8");
    }
}

#[test]
fn a_handler_that_cannot_be_run_stops_the_pass_and_leaves_all_records_untouched() {
    let env = records(3);
    fs::write(env.path("plain"), "").unwrap();
    for (handler, says) in [
        (&["/no/such/handler"][..], "could not run /no/such/handler: No such file or directory"),
        (&["no-such-handler"], "is it in PATH"),
        (&["./plain"], "Permission denied (os error 13); is it executable?"),
        (&["sh", "-c", "exec nope"], "the handler ended with exit status 127: "),
        (
            &["sh", "-c", "echo go away >&2; exit 126"],
            "the handler ended with exit status 126: go away",
        ),
    ] {
        for mode in [&["--ndays", "1"][..], &["--fibonacci"]] {
            let ran = pass(&env, mode, handler);
            let ran = ran.fails(1, &["backlog: record 3 stays as it was: ", says]);
            assert!(ran.stderr.ends_with("; the pass stops here\n"), "{}", ran.stderr);
            assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
            assert_eq!(rows(&env), "1|NEW|0|\n2|NEW|0|\n3|NEW|0|");
            assert_eq!(env.query("SELECT count(LAST_FAILURE) FROM BACKLOG"), "0");
        }
    }
}

#[test]
fn ids_may_be_any_text_and_come_back_as_text_or_as_number() {
    let ids = ["a'b\"c", "two\nlines", "\u{1F600}", "7", "007", "a,b\\", "{ID}", ""];
    for back in ["it['ID']", "int(it['ID']) if it['ID'] == '7' else it['ID']"] {
        let env = TestEnv::with_schema(
            "CREATE TABLE BACKLOG (ID TEXT PRIMARY KEY, STATUS TEXT DEFAULT 'NEW', DATE_INSERTED TEXT DEFAULT '2026-11-20T23:00:00Z')",
        );
        for id in ids {
            let sql = "INSERT INTO BACKLOG (ID) VALUES (?1)";
            env.connection().execute(sql, [id]).unwrap();
        }
        let handler = python(&env, &format!("for it in records(): answer({back})\n"));
        pass(&env, &["--ndays", "1"], &["python3", &handler]).silent();
        assert_eq!(env.count("SUCCESS"), 8);
    }
    let env = records(2);
    let handler = python(&env, "for it in records(): answer(str(it['ID']))\n");
    pass(&env, &["--ndays", "1"], &["python3", &handler]).silent();
    assert_eq!(env.count("SUCCESS"), 2);
}

#[test]
fn a_composite_id_comes_back_as_a_list_or_as_it_is_shown() {
    for back in
        ["[it[name] for name in hello['id']]", "it['a'].replace(',', '\\\\,') + f\",{it['b']}\""]
    {
        let env = TestEnv::with_schema(
            "CREATE TABLE t (a TEXT, b INTEGER, STATUS TEXT DEFAULT 'NEW', DATE_INSERTED TEXT DEFAULT '2026-11-20T23:00:00Z', PRIMARY KEY (a, b));
             INSERT INTO t (a, b) VALUES ('x', 1), ('x', 2), ('it''s', 1), ('c,d', 3);",
        );
        let text = "note('id', hello['id'])\nfor it in records(): answer(BACK)\n";
        let handler = python(&env, &text.replace("BACK", back));
        let options = ["--ndays", "1", "--table", "t", "--id-column", "a,b"];
        pass(&env, &options, &["python3", &handler]).silent();
        assert_eq!(lines(&env, "id"), ["['a', 'b']"]);
        assert_eq!(env.query("SELECT DISTINCT STATUS FROM t"), "SUCCESS", "{back}");
    }
}

#[test]
fn what_a_process_says_on_standard_error_is_the_log() {
    let env = records(1);
    let handler = format!("echo loading the model >&2; {EXEC_SUCCEEDS}");
    let ran = pass(&env, &["--ndays", "1", "-v"], &["sh", "-c", &handler]).success();
    assert!(ran.stderr.contains("handler: loading the model\n"), "{}", ran.stderr);
    env.sql("UPDATE BACKLOG SET STATUS = 'NEW'");
    pass(&env, &["--ndays", "1"], &["sh", "-c", &handler]).silent();
}

#[test]
fn large_records_and_large_replies_do_not_block_each_other() {
    let env = records(12);
    env.sql("UPDATE BACKLOG SET PAYLOAD = json_quote(printf('%.*c', 1000000, 'x'))");
    // The first writes while records are still being written to it, the second reads all before.
    for (reads, id) in [(1, 1), (12, 2)] {
        let handler = python(
            &env,
            &format!(
                r#"
import itertools
lines = records()
while hand := list(itertools.islice(lines, {reads})):
    for it in hand:
        print("y" * 100000, file=sys.stderr, flush=True)
        answer(it["ID"], "failure", error=f"{{len(it['PAYLOAD'])}} " + "x" * 100000)
"#
            ),
        );
        pass(&env, &["--ndays", "1"], &["python3", &handler]).silent();
        let failed =
            "SELECT count(*) FROM BACKLOG WHERE FAILURES = ?1 AND LAST_ERROR LIKE '1000002 xxxx%'";
        let failed: i64 = env.connection().query_row(failed, [id], |row| row.get(0)).unwrap();
        assert_eq!(failed, 12);
    }
}

/// Prints without an end, and notes how much memory the pass has used so far.
const ENDLESS: &str = r#"
chunk = b"x" * (1 << 20)
for _ in range(200):
    os.write(1, chunk)
    peak = next(it for it in open(f"/proc/{os.getppid()}/status") if it.startswith("VmHWM"))
    note("peaks", peak.split()[1])
time.sleep(1000)
"#;

#[test]
fn output_without_an_end_is_an_error_and_not_kept() {
    let env = records(2);
    let handler = python(&env, ENDLESS);
    let options = ["--ndays", "1", "--restarts", "0"];
    let ran = pass(&env, &options, &["python3", &handler]);
    let cut = "x".repeat(200);
    let says = format!("line 1 of the handler's output is no reply, not JSON: {cut}...");
    ran.fails(1, &[&says, "the pass stops here"]);
    assert_eq!(env.statuses(), "1|NEW\n2|NEW");
    assert_peak(&env);
}

#[test]
fn output_of_a_handler_that_goes_on_after_its_error_is_not_kept_either() {
    let env = records(1);
    let deaf = format!("signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{ENDLESS}");
    let handler = python(&env, &deaf);
    let options = ["--ndays", "1", "--restarts", "0"];
    pass(&env, &options, &["python3", &handler]).fails(1, &["is no reply, not JSON: xxxx"]);
    assert_eq!(env.statuses(), "1|NEW");
    assert_peak(&env);
}

/// The pass never used more memory than a line may be long, and what it needs anyway.
#[track_caller]
fn assert_peak(env: &TestEnv) {
    let peaks = lines(env, "peaks");
    let peaks: Vec<u64> = peaks.iter().map(|kilobytes| kilobytes.parse().unwrap()).collect();
    assert!(peaks.iter().all(|peak| *peak < 64 * 1024), "{peaks:?}");
}

#[test]
fn the_examples_handle_records() {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    for (interpreter, name) in
        [("sh", "stream.sh"), ("python3", "stream.py"), ("node", "stream.mjs")]
    {
        let env = TestEnv::new();
        // The handler has no other PATH than a pass that cron starts.
        let there = env.script("there", &format!("command -v {interpreter} >/dev/null"));
        if !Command::new(there).env("PATH", "/usr/bin:/bin").status().unwrap().success() {
            skipped(&format!("examples/{name}: there is no {interpreter}"));
            continue;
        }
        let payloads: Vec<_> =
            (1..=100).map(|n| format!("{{\"n\":{n},\"s\":\"a\\\\b\"}}")).collect();
        let payloads: Vec<_> = payloads.iter().map(String::as_str).collect();
        env.run(&[&["add"], &payloads[..]].concat()).success();
        let example = format!("{examples}/{name}");
        // It is started as it stands, so it must be executable and name its interpreter.
        env.run(&["process", "--ndays", "1", "--stream", "--", &example]).silent();
        assert_eq!(env.count("SUCCESS"), 100, "{name}");
        let sent = lines(&env, "sent.jsonl");
        assert_eq!(sent.iter().collect::<BTreeSet<_>>().len(), 100, "{name}");
        assert!(sent.iter().all(|line| line.contains("a\\")), "{name}: {sent:?}");

        // Where it cannot write, it says so of each record and lives on.
        env.sql("UPDATE BACKLOG SET STATUS = 'NEW' WHERE ID <= 2");
        fs::remove_file(env.path("sent.jsonl")).unwrap();
        fs::create_dir(env.path("sent.jsonl")).unwrap();
        env.run(&["process", "--ndays", "1", "--stream", "--restarts", "0", "--", &example])
            .silent();
        assert_eq!(
            env.query("SELECT sum(FAILURES) FROM BACKLOG WHERE STATUS = 'ERROR'"),
            "2",
            "{name}"
        );
    }
}

#[test]
fn the_last_attempt_of_a_record_archives_it() {
    let env = records(1);
    env.sql(r#"UPDATE BACKLOG SET PAYLOAD = '{"outcome":"failure","error":"no"}'"#);
    let options = ["--ndays", "1", "--max-attempts", "2"];
    let handler = obedient(&env);
    pass(&env, &options, &["python3", &handler]).silent();
    assert_eq!(rows(&env), "1|ERROR|1|no");
    pass(&env, &options, &["python3", &handler])
        .fails(1, &["record 1 failed after 2 attempts; archived: no"]);
    assert_eq!(rows(&env), "1|ARCHIVED|2|no");
}

#[test]
fn a_process_gets_no_more_records_than_the_pass_may_try() {
    let env = records(5);
    let handler = format!("tee -a seen | {}", EXEC_SUCCEEDS.trim_start_matches("exec "));
    let options = ["--ndays", "1", "--max-records", "2"];
    pass(&env, &options, &["sh", "-c", &handler]).silent();
    assert_eq!(env.statuses(), "1|NEW\n2|NEW\n3|NEW\n4|SUCCESS\n5|SUCCESS");
    assert_eq!(lines(&env, "seen").len(), 3, "the first line and two records");
}

#[test]
fn a_drain_keeps_its_process_from_round_to_round() {
    let env = records(1);
    // The first record brings forth a second, and so on.
    let handler = python(
        &env,
        r#"
import sqlite3
note("starts")
for it in records():
    if it["ID"] < 4:
        with sqlite3.connect(os.environ["BACKLOG_DB"], timeout=60) as db:
            db.execute("INSERT INTO BACKLOG (ID, DATE_INSERTED) VALUES (?, ?)", (it["ID"] + 1, it["DATE_INSERTED"]))
    answer(it["ID"])
"#,
    );
    pass(&env, &["--ndays", "1", "--drain"], &["python3", &handler]).silent();
    assert_eq!(env.statuses(), "1|SUCCESS\n2|SUCCESS\n3|SUCCESS\n4|SUCCESS");
    assert_eq!(lines(&env, "starts").len(), 1);
}

#[test]
fn what_a_process_has_in_flight_no_other_line_gets() {
    let env = records(5);
    let handler = python(
        &env,
        r#"
hand = [read()["ID"] for _ in range(3)]
note("began")
while not os.path.exists("go"): time.sleep(0.005)
for id in hand: answer(id)
for it in records(): sys.exit("more than it had in flight")
"#,
    );
    let child = begin(&env, &["--ndays", "1", "--window", "3"], &["python3", &handler]);
    wait_until("the handler begins", exists(&env.path("began")));
    let other = format!("tee seen | {}", EXEC_SUCCEEDS.trim_start_matches("exec "));
    pass(&env, &["--ndays", "2"], &["sh", "-c", &other]).silent();
    assert_eq!(env.query("SELECT ID FROM BACKLOG WHERE STATUS = 'SUCCESS' ORDER BY ID"), "1\n2");
    assert_eq!(lines(&env, "seen").len(), 3, "the first line and two records");
    fs::write(env.path("go"), "").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert_eq!(env.count("SUCCESS"), 5);
}

#[test]
fn records_of_a_server_are_handled_alike() {
    let Some(cluster) = cluster() else { return };
    let database = cluster.database();
    let env = TestEnv::on(&database);
    env.run(&["init"]).success();
    database.sql(&format!(
        "INSERT INTO backlog (date_inserted, payload)
         SELECT to_timestamp({MIDNIGHT}), jsonb_build_object('n', n) FROM generate_series(1, 300) n"
    ));
    let handler = python(
        &env,
        r#"
for it in records():
    fails = it["payload"]["n"] % 100 == 0
    answer(it["id"], "failure" if fails else "success", error=f"it's {it['payload']['n']}")
"#,
    );
    pass(&env, &["--fibonacci", "--jobs", "2"], &["python3", &handler]).silent();
    assert_eq!(
        database.query("SELECT status, failures, count(*) FROM backlog GROUP BY 1, 2 ORDER BY 3"),
        "ERROR|1|3\nSUCCESS|0|297"
    );
    let failed = "SELECT id, last_failure, last_error FROM backlog WHERE id = 100";
    assert_eq!(database.query(failed), "100|2026-11-21 00:00:00+00|it's 100");

    // A process that ends has one record charged, the others are as they were.
    database.sql(&format!(
        "UPDATE backlog SET status = 'NEW', date_inserted = to_timestamp({})",
        MIDNIGHT + DAY
    ));
    let dies = "read -r hello; read -r record; exit 3";
    let now = MIDNIGHT + DAY;
    let args = ["process", "--ndays", "1", "--stream", "--restarts", "0", "--", "sh", "-c", dies];
    env.run_at(now, &args).fails(1, &["--restarts 0 are used up"]);
    assert_eq!(
        database.query("SELECT status, count(*) FROM backlog GROUP BY 1 ORDER BY 1"),
        "ERROR|1\nNEW|299"
    );
}

#[test]
fn messages_of_a_queue_are_handled_alike() {
    let Some(cluster) = cluster() else { return };
    let database = cluster.database();
    if !database.install_pgmq() {
        return;
    }
    let env = TestEnv::on(&database);
    env.run(&["init", "--pgmq", "jobs"]).success();
    let outcomes = [
        r#"{"outcome":"success"}"#,
        r#"{"outcome":"failure","error":"no"}"#,
        r#"{"outcome":"give_up","error":"never"}"#,
        r#"{"outcome":"snooze","after":"2h"}"#,
    ];
    env.run(&[&["add", "--pgmq", "jobs"], &outcomes[..]].concat()).success();
    let handler = python(
        &env,
        r#"
note("hello", hello["queue"], hello["id"])
for it in records():
    answer(it["msg_id"], **it["message"])
"#,
    );
    let args = ["process", "--pgmq", "jobs", "--stream", "--", "python3", &handler];
    env.run(&args).fails(1, &["record 3 was given up by its handler"]);
    assert_eq!(lines(&env, "hello"), ["jobs ['msg_id']"]);
    assert_eq!(database.query("SELECT msg_id FROM pgmq.q_jobs ORDER BY 1"), "2\n4");
    let archived = "SELECT msg_id, headers ->> 'backlog_error' FROM pgmq.a_jobs ORDER BY 1";
    assert_eq!(database.query(archived), "1|\n3|never");
    let snoozed = "SELECT round(extract(epoch FROM vt - last_read_at) / 3600) FROM pgmq.q_jobs WHERE msg_id = 4";
    assert_eq!(database.query(snoozed), "2");
}

#[test]
fn what_makes_no_sense_is_said_before_anything_is_done() {
    let env = records(1);
    for (args, says) in [
        (&["--stream", "--window", "0", "--", "touch", "ran"][..], "0 is not in 1..=1024"),
        (&["--stream", "--window", "1025", "--", "touch", "ran"], "1025 is not in 1..=1024"),
        (&["--window", "3", "--", "touch", "ran"], "--window goes with --stream"),
        (&["--restarts", "3", "--", "touch", "ran"], "--restarts goes with --stream"),
        (&["--stream", "--restarts", "-1", "--", "touch", "ran"], "-1"),
        (&["--stream", "--post", "http://localhost/"], "'--stream' cannot be used with '--post"),
        (
            &["--stream", "--give-up-on", "3", "--", "touch", "ran"],
            "--give-up-on goes with a command for each record",
        ),
        (&["--stream"], "which handler? write the command behind `--`"),
    ] {
        env.run_at(MIDNIGHT, &[&["process", "--ndays", "1"], args].concat()).fails(2, &[says]);
        assert!(!env.path("ran").exists(), "{args:?}");
        assert_eq!(env.statuses(), "1|NEW");
    }
}

//! Limits that end or delay attempts, for every kind of handler.

use crate::testenv::*;

fn env(records: i64) -> TestEnv {
    TestEnv::with_records(records, MIDNIGHT)
}

/// A co-process that answers every record so.
fn answering(env: &TestEnv, outcome: &str) -> String {
    env.script(
        "answering",
        &format!(r#"exec sed -un 's/^{{"ID":\([0-9]*\),.*/{{"id":\1,"outcome":"{outcome}"}}/p'"#),
    )
}

#[test]
fn exits_that_are_listed_give_a_record_up() {
    let env = env(3);
    let script = sh("echo hopeless >&2; exit $((64 + BACKLOG_ID))");
    let ran = env.pass(&format!("--ndays 1 --give-up-on 65,100 -- {script}"));
    let said = "record 1 was given up by its handler (attempt 1); archived: hopeless";
    assert!(ran.fails(1, &[said]).stdout.is_empty());
    let rows = env.query("SELECT ID, STATUS, FAILURES, LAST_ERROR FROM BACKLOG");
    assert_eq!(rows, "1|ARCHIVED|1|hopeless\n2|ERROR|1|hopeless\n3|ERROR|1|hopeless");
    env.run("restore 1").success();
    assert_eq!(env.query("SELECT STATUS, FAILURES FROM BACKLOG WHERE ID = 1"), "NEW|0");
}

#[test]
fn what_gives_up_must_know_how_the_table_archives() {
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, sent INTEGER, DATE_INSERTED TEXT);
         INSERT INTO BACKLOG VALUES (1, 0, '2026-11-21')",
    );
    let table =
        "--set status.column=sent --set status.new=0 --set status.error=2 --set status.success=1";
    let process = format!("process --ndays 1 {table}");
    env.run_at(MIDNIGHT, &format!("{process} --give-up-on 9 -- sh -c 'exit 9'"))
        .fails(1, &["--give-up-on needs to know how table ", "status.archived"]);
    assert_eq!(env.query("SELECT sent FROM BACKLOG"), "0");
    // A co-process may say so at any time; then it is a failure like others.
    env.run_at(MIDNIGHT, &format!("{process} --stream -- {}", answering(&env, "give_up"))).silent();
    assert_eq!(env.query("SELECT sent FROM BACKLOG"), "2");
}

#[test]
fn a_table_that_refuses_what_is_given_up_is_found_out_before_the_first_handler() {
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, DATE_INSERTED TEXT,
             STATUS TEXT CHECK (STATUS IN ('NEW', 'ERROR', 'SUCCESS')));
         INSERT INTO BACKLOG VALUES (1, '2026-11-21', 'NEW')",
    );
    let handler = env.noting("exit 9");
    let args = format!("process --ndays 1 --give-up-on 9 -- {handler}");
    env.run_at(MIDNIGHT, &args).fails(1, &["STATUS = 'ARCHIVED'"]);
    assert_eq!(env.handled(), [""; 0]);
    env.pass(&format!("--ndays 1 -- {handler}")).silent();
    assert_eq!(env.statuses(), "1|ERROR");
}

#[test]
fn so_many_failures_in_a_row_stop_the_pass_and_leave_the_rest_untouched() {
    let env = env(9);
    // The newest go first: 9 to 1. The success of 7 begins the count anew.
    let handler = env.noting("[ $BACKLOG_ID -eq 7 ] || { echo 'no route' >&2; exit 1; }");
    let args = format!("process --ndays 1 --max-consecutive-failures 3 -- {handler}");
    let says = ["3 attempts failed in a row, the last one: no route; the pass stops here"];
    env.run_at(MIDNIGHT, &args).fails(1, &says);
    assert_eq!(env.handled(), ["9", "8", "7", "6", "5", "4"]);
    assert_eq!((env.count("NEW"), env.count("ERROR"), env.count("SUCCESS")), (3, 5, 1));
    // The remaining records go first the next time, and count from zero.
    assert_eq!(env.run_at(MIDNIGHT + 59 * MINUTE, &args).exits(1).stderr, "", "once an hour");
    assert_eq!(env.handled(), ["3", "2", "1"]);
    env.run_at(MIDNIGHT + HOUR, &args).fails(1, &says);
}

#[test]
fn a_co_process_is_stopped_by_failures_in_a_row_as_well() {
    let env = env(9);
    let handler = answering(&env, "failure");
    let limit = "--max-consecutive-failures 3 --stream --window 1";
    let args = format!("process --ndays 1 {limit} -- {handler}");
    env.run_at(MIDNIGHT, &args).fails(1, &["3 attempts failed in a row"]);
    assert_eq!((env.count("NEW"), env.count("ERROR")), (6, 3));
}

#[test]
fn what_is_snoozed_counts_as_failed_in_a_row() {
    let env = env(9);
    let args = "process --ndays 1 --max-consecutive-failures 2 -- sh -c";
    let ran = env.run_at(MIDNIGHT, &format!("{args} 'exit 75'"));
    ran.fails(1, &["2 attempts failed in a row, the last one: snoozed (exit status 75)"]);
    assert_eq!((env.count("NEW"), env.count("ERROR")), (7, 2));
}

#[test]
fn a_rate_does_not_keep_a_drain_from_its_end() {
    let env = env(3);
    env.pass("--fibonacci --drain --rate 1000/s -- false").silent();
    assert_eq!(env.query("SELECT DISTINCT STATUS, FAILURES FROM BACKLOG"), "ERROR|1");
    // Nobody waits an hour for an attempt that another limit does not allow.
    env.pass("--ndays 1 --rate 1/h --max-records 1 -- true").silent();
    assert_eq!((env.count("SUCCESS"), env.count("ERROR")), (1, 2));
}

#[test]
fn no_more_is_tried_than_the_rate_allows_and_a_signal_ends_the_wait() {
    for stream in [false, true] {
        let env = env(9);
        let co_process = answering(&env, "success");
        let handler: &str = if stream { &format!("--stream -- {co_process}") } else { "-- true" };
        let args = format!("process --now @{MIDNIGHT} --ndays 1 --rate 1/h --jobs 4 -v");
        let mut pass = env.spawn_logging(&format!("{args} {handler}"));
        env.logs("succeeded");
        assert!(signal("-TERM", pass.id()));
        assert_eq!(pass.wait().unwrap().code(), Some(143));
        assert_eq!((env.count("SUCCESS"), env.count("NEW")), (1, 8), "{stream}");
    }
}

#[test]
fn a_command_gets_each_record_that_is_archived() {
    let env = env(2);
    let told = env.path_text("told");
    let script = format!(
        "echo \"$1 $BACKLOG_STATUS $BACKLOG_ATTEMPT $BACKLOG_LAST_ERROR $(cut -c1-8)\" >>{told}"
    );
    let tell = env.script("tell", &script);
    let handler = env.script("handler", "echo \"no route to $BACKLOG_ID\" >&2; exit 1");
    let limits = format!("--max-attempts 2 --on-archive {}", quoted(&format!("'{tell}' {{id}}")));
    let args = format!("process --fibonacci {limits} -- {handler}");
    env.run_at(MIDNIGHT, &args).silent();
    assert!(!env.path("told").exists(), "an attempt is left");
    env.run_at(MIDNIGHT + MINUTE, &args).fails(1, &["record 2 failed after 2 attempts; archived"]);
    let told = || env.read("told");
    assert_eq!(
        told(),
        "2 ARCHIVED 2 no route to 2 {\"ID\":2,\n1 ARCHIVED 2 no route to 1 {\"ID\":1,\n"
    );
    // Once, and never again.
    env.run_at(MIDNIGHT + 2 * MINUTE, &args).silent();
    assert_eq!(told().lines().count(), 2);
}

#[test]
fn records_that_are_archived_faster_than_they_are_told_of_are_all_told_of() {
    let env = env(12);
    let told = env.path_text("told");
    let tell = env.script("tell", &format!("sleep 0.01; echo $BACKLOG_ID >>{told}"));
    let args = format!("process --fibonacci --max-attempts 1 --on-archive {tell}");
    env.run_at(MIDNIGHT, &format!("{args} -- false")).fails(1, &["archived"]);
    assert_eq!(env.read("told").lines().count(), 12);
}

#[test]
fn a_record_that_killed_its_pass_is_told_of_when_it_is_given_up() {
    let env = env(1);
    let told = env.path_text("told");
    let tell = env.script("tell", &format!("echo $BACKLOG_ID >>{told}"));
    env.sql("UPDATE BACKLOG SET STATUS = 'ERROR', FAILURES = 3, LAST_FAILURE = '2026-11-20'");
    let args = format!("process --fibonacci --max-attempts 3 --on-archive {tell}");
    env.run_at(MIDNIGHT, &format!("{args} -- true")).fails(1, &["archived"]);
    assert_eq!(env.read("told"), "1\n");
}

#[test]
fn a_command_on_archive_that_fails_is_an_error_and_the_record_stays_archived() {
    let env = env(1);
    let gone = env.script("gone", "exit 0");
    let handler = env.script("handler", &format!("rm -f {gone}; exit 1"));
    for (command, says) in [
        ("false", "record 1 is archived, but --on-archive failed: exit status 1".into()),
        (&*gone, format!("--on-archive failed: could not run {gone}: no such file")),
    ] {
        env.sql("UPDATE BACKLOG SET STATUS = 'NEW', FAILURES = 0");
        env.script("gone", "exit 0");
        let args = format!("process --ndays 1 --max-attempts 1 --on-archive {}", quoted(command));
        env.run_at(MIDNIGHT, &format!("{args} -- {handler}")).fails(1, &[&says]);
        assert_eq!(env.statuses(), "1|ARCHIVED");
    }
}

#[test]
fn a_command_on_archive_that_is_not_there_is_told_once_before_the_first_record() {
    let env = env(3);
    env.write("plain", "");
    std::fs::write(env.script("crlf", ""), "#!/bin/sh\r\n").unwrap();
    for (command, says) in [
        ("nosuch", "could not run nosuch: no such file or directory; put it in PATH"),
        ("./nosuch {id}", "could not run ./nosuch: no such file or directory"),
        ("./plain", "could not run ./plain: permission denied; is it executable?"),
        ("./crlf", "could not run ./crlf: its first line ends with a carriage return"),
        ("'./tell --lost'", "`./tell --lost` is a single argument"),
    ] {
        let args = format!("process --ndays 1 --max-attempts 1 --on-archive {}", quoted(command));
        let args = format!("{args} -- false");
        let ran = env.run_at(MIDNIGHT, &args).fails(1, &["backlog: --on-archive: ", says]);
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    }
    assert_eq!(env.count("NEW"), 3);
}

#[test]
fn a_signal_ends_the_wait_for_a_command_on_archive() {
    let env = env(2);
    let began = env.path_text("began");
    let tell = env.script("tell", &format!("touch {began}; exec sleep 1000"));
    let args = format!("process --now @{MIDNIGHT} --ndays 1 --max-attempts 1 --grace 0s");
    let mut pass = env.spawn_logging(&format!("{args} --on-archive {tell} -- false"));
    wait_until("the command begins", exists(&env.path("began")));
    wait_until("both are archived", || env.count("ARCHIVED") == 2);
    assert!(signal("-TERM", pass.id()));
    assert_eq!(pass.wait().unwrap().code(), Some(143));
    for id in [1, 2] {
        env.logs(&format!(
            "record {id} is archived, but --on-archive failed: the pass was stopped"
        ));
    }
}

#[test]
fn an_error_that_looks_like_a_snooze_is_none() {
    let env = env(1);
    let args = r#"process --fibonacci -- sh -c 'echo "$1" >&2; exit 1' -"#;
    let said = "snoozed until 2099-01-01T00:00:00Z: ha";
    env.run_at(MIDNIGHT, &format!("{args} {}", quoted(said))).silent();
    assert_eq!(env.query("SELECT LAST_ERROR FROM BACKLOG"), format!("failed: {said}"));
    env.run_at(MIDNIGHT + MINUTE, "process --fibonacci -- true").silent();
    assert_eq!(env.statuses(), "1|SUCCESS");
}

#[test]
fn a_handler_that_leaves_its_group_is_ended_as_well() {
    let script = "import os, sys, time\nos.setpgid(0, os.getpgid(os.getppid()))\ntime.sleep(1000)";
    for stream in ["", "--stream"] {
        let env = env(1);
        let args = "process --ndays 1 --timeout 300ms --grace 0s";
        env.run_at(MIDNIGHT, &format!("{args} {stream} -- python3 -c {}", quoted(script))).silent();
        assert_eq!(env.statuses(), "1|ERROR");
    }
}

#[test]
fn what_is_given_up_counts_as_failed_in_a_row() {
    let env = env(9);
    let handler = "-- sh -c 'echo no such order >&2; exit 65'";
    let args = format!("process --ndays 1 --max-consecutive-failures 3 --give-up-on 65 {handler}");
    env.run_at(MIDNIGHT, &args).fails(1, &["3 attempts failed in a row", "no such order"]);
    assert_eq!((env.count("ARCHIVED"), env.count("NEW")), (3, 6));
}

#[test]
fn the_file_says_the_same() {
    let env = env(2);
    let tell = env.script("tell", "echo $1 $BACKLOG_ID >>told");
    std::fs::write(
        env.path("backlog.toml"),
        format!(
            "[queue.default]\nndays = 1\nexec = [\"sh\", \"-c\", \"exit 65\"]\n\
             give_up_on = [65, 66]\nrate = \"1000/s\"\nmax_consecutive_failures = 5\n\
             exec_on_archive = [{tell:?}, \"it's {{id}}\"]\n"
        ),
    )
    .unwrap();
    env.run_at(MIDNIGHT, "process").fails(1, &["record 1 was given up"]);
    assert_eq!(env.read("told"), "it's 2 2\nit's 1 1\n");
    // A handler that is typed has exits of its own.
    env.sql("UPDATE BACKLOG SET STATUS = 'NEW', FAILURES = 0");
    env.pass("-- sh -c 'exit 65'").silent();
    assert_eq!(env.count("ERROR"), 2);
}

#[test]
fn a_pass_that_ends_before_each_handler_is_told() {
    let env = env(1);
    let args = "process --ndays 1 --max-runtime 1s --grace 1ms --";
    let says = "no handler ended within --max-runtime and --grace, so nothing was done; give them \
                more time";
    env.run_at(MIDNIGHT, &format!("{args} sleep 60")).fails(1, &[says]);
    assert_eq!(env.statuses(), "1|NEW");
}

#[test]
fn a_command_for_archived_records_is_looked_for_before_the_first_record() {
    let env = env(1);
    let args = "process --ndays 1 --on-archive nosuch -- false";
    env.run_at(MIDNIGHT, args).fails(1, &["--on-archive: could not run nosuch"]);
    assert_eq!(env.statuses(), "1|NEW");
}

#[test]
fn what_makes_no_sense_is_a_usage_error() {
    let env = env(1);
    for (options, says) in [
        ("--rate fast", "\"fast\" is not a rate; write 50/s, 100/m or 1000/h"),
        ("--rate 0/s", "is not a rate"),
        ("--max-consecutive-failures 0", "must be at least 1"),
        ("--give-up-on 0", "\"0\" is neither an exit code from 1 to 255, "),
        ("--give-up-on 256", "an exit code from 1 to 255"),
        ("--give-up-on EX_DATAERR", "an exit code from 1 to 255"),
        (r#"--on-archive "'""#, "is not a command"),
        ("--on-archive ' '", "is not a command"),
        ("--give-up-on 4xx", "--give-up-on: a command has exit codes from 1 to 255"),
        ("--header 'A: b'", "--header requires --post"),
        ("--window 9", "--window requires --stream"),
    ] {
        env.pass(&format!("--ndays 1 {options} -- true")).fails(2, &[says]);
    }
    assert_eq!(env.statuses(), "1|NEW");
}

/// Commands and co-processes need some descriptors each, and the pass its own.
#[test]
fn as_many_handlers_run_as_there_are_descriptors_for() {
    for (records, handler) in [
        (90, "-- sleep 0.02"),
        (
            400,
            &format!(
                "--stream --window 2 -- {}",
                concat!(env!("CARGO_MANIFEST_DIR"), "/examples/stream.sh")
            ),
        ),
    ] {
        let env = TestEnv::with_records(records, MIDNIGHT);
        let args = format!("process --fibonacci --jobs 60 -v --now @{MIDNIGHT}");
        let ran = limited(&env, "--nofile=128", &format!("{args} {handler}")).success();
        assert_contains(&ran.stderr, "the limit of 128 open files (ulimit -n) allows --jobs ");
        assert_eq!(env.query("SELECT STATUS, count(*) FROM BACKLOG"), format!("SUCCESS|{records}"));
    }
}

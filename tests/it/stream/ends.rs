//! Co-processes that die, say nothing, or write lines that are not replies.

use super::*;
use std::fs;

#[test]
fn only_the_oldest_record_is_charged_for_the_end_of_its_process() {
    for (end, says) in [
        ("sys.exit(3)", "exit status 3: no good"),
        ("sys.exit(0)", "exit status 0: no good"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "signal 9: no good"),
    ] {
        let env = midnight_records(5);
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
        for mode in ["--ndays 1", "--fibonacci"] {
            let _ = fs::remove_dir(env.path("first"));
            let _ = fs::remove_file(env.path("second"));
            env.sql("UPDATE BACKLOG SET STATUS = 'NEW', FAILURES = 0, LAST_FAILURE = NULL, LAST_ERROR = NULL");
            pass(&env, mode, &format!("python3 {handler}")).silent();
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
    let env = midnight_records(3);
    let handler = python(
        &env,
        "for id in [read()['ID'] for _ in range(3)]: answer(id)\nsys.exit('out of memory')\n",
    );
    let ran = pass(&env, "--fibonacci -v", &format!("python3 {handler}")).success();
    assert_eq!(rows(&env), "1|SUCCESS|0|\n2|SUCCESS|0|\n3|SUCCESS|0|");
    let says = "the handler answered all records, and then ended with exit status 1: out of memory";
    assert_contains(&ran.stderr, says);
}

#[test]
fn a_pass_stops_when_its_restarts_are_used_up_and_leaves_the_rest_untouched() {
    for mode in ["--ndays 1", "--fibonacci"] {
        let env = midnight_records(6);
        let dies = "echo >>starts; read -r hello; read -r record; echo no good >&2; exit 3";
        let says = "record 2 stays as it was: the handler ended with exit status 3: no good; handlers \
                    were restarted 3 times; the pass stops here";
        pass(&env, mode, &sh(dies).to_string()).fails(1, &[says]);
        assert_eq!(lines(&env, "starts").len(), 4);
        let untouched = (1..=2).map(|id| format!("{id}|NEW|0|"));
        let error = "the handler ended before it answered: exit status 3: no good";
        let failed = (3..=6).map(|id| format!("{id}|ERROR|1|{error}"));
        assert_eq!(rows(&env), untouched.chain(failed).collect::<Vec<_>>().join("\n"));
        assert_eq!(env.query("SELECT count(LAST_FAILURE) FROM BACKLOG"), "4");
    }
}

#[test]
fn a_process_that_does_not_answer_is_killed_and_fails_the_oldest_record() {
    patiently(|timeout| {
        let env = midnight_records(5);
        let options = format!("--ndays 1 --timeout {timeout} --grace 0s");
        let ran = pass(&env, &options, &sh("trap '' TERM; cat >/dev/null; sleep 1000").to_string());
        let says =
            format!("the handler timed out after {timeout}; handlers were restarted 3 times");
        ran.fails(1, &["record 1 stays as it was: ", &says, "; the pass stops here"]);
        let error = format!("timed out after {timeout}: the handler does not answer");
        let failed = (2..=5).map(|id| format!("\n{id}|ERROR|1|{error}"));
        let expected = format!("1|NEW|0|{}", failed.collect::<String>());
        // It has read nothing if it was not even started in that time.
        let was_late = rows(&env).contains("the handler does not read its input");
        assert!(was_late || rows(&env) == expected, "{}", rows(&env));
        !was_late
    });
}

#[test]
fn a_process_that_does_not_read_fails_the_oldest_record() {
    let env = midnight_records(5);
    let options = "--ndays 1 --timeout 100ms --grace 0s --joblog log";
    pass(&env, options, "sleep 1000").fails(1, &["record 1 stays as it was: "]);
    let error = "timed out after 100ms: the handler does not read its input";
    let failed = (2..=5).map(|id| format!("\n{id}|ERROR|1|{error}"));
    assert_eq!(rows(&env), format!("1|NEW|0|{}", failed.collect::<String>()));
    let joblog = env.read("log");
    assert_eq!(joblog.matches("\"exit\":124").count(), 4, "{joblog}");
}

#[test]
fn a_process_that_answers_nothing_for_ten_seconds_is_doubted_under_cron_too() {
    let env = midnight_records(3);
    let words = format!("process --now @{MIDNIGHT} --ndays 1 --stream --grace 0s");
    let mut pass = env.spawn_logging(&format!("{words} -- sh -c 'cat >/dev/null; sleep 1000'"));
    env.logs("backlog: no reply yet to 3 records after 10s: does the handler speak the protocol, and flush its output?");
    signal("-TERM", pass.id());
    assert_eq!(pass.wait().unwrap().code(), Some(143));
    assert_eq!(env.count("NEW"), 3);
}

#[test]
fn a_process_that_has_answered_is_not_doubted() {
    patiently(|timeout| {
        let env = midnight_records(2);
        let handler = python(&env, "answer(read()['ID'])\ntime.sleep(1000)\n");
        let options = format!("--ndays 1 --timeout {timeout} --grace 0s -v");
        let ran = pass(&env, &options, &format!("python3 {handler}"));
        // Python may have been slow to start.
        env.statuses() == "1|ERROR\n2|SUCCESS" && !ran.stderr.contains("no reply yet")
    });
}

#[test]
fn the_successor_of_a_silent_process_handles_what_it_left() {
    patiently(|timeout| {
        let env = midnight_records(4);
        let handler = format!("mkdir first 2>/dev/null && exec sleep 1000; {EXEC_SUCCEEDS}");
        let options = format!("--ndays 1 --timeout {timeout} --grace 0s");
        let ran = pass(&env, &options, &sh(&handler).to_string());
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
        let env = midnight_records(10);
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
        let ran = pass(&env, &format!("--ndays 1 --timeout {timeout}"), &sh(&slow).to_string());
        ran.exit == Some(0) && env.count("SUCCESS") == 10
    });
}

#[test]
fn a_handler_that_does_not_flush_is_told_to_and_its_late_answers_count() {
    let env = midnight_records(3);
    let ran = pass(&env, "--ndays 1 --timeout 200ms --grace 1h", &SUCCEEDS.replace("-un", "-n"));
    assert_eq!(env.statuses(), "1|SUCCESS\n2|SUCCESS\n3|SUCCESS");
    assert_eq!(
        (ran.exit, &*ran.stderr),
        (
            Some(1),
            "backlog: the handler was silent for 200ms and answered when its input was closed: make \
             it flush its output after each line, or raise --timeout\n"
        )
    );
}

#[test]
fn a_handler_that_does_not_flush_uses_up_its_restarts() {
    let env = midnight_records(6);
    let late = SUCCEEDS.replace("-un", "-n");
    let options = "--ndays 1 --window 1 --timeout 100ms --grace 1h";
    let ran = pass(&env, options, &late).fails(1, &["record 2 stays as it was: "]);
    let handled = (3..=6).map(|id| format!("\n{id}|SUCCESS|0|"));
    assert_eq!(rows(&env), format!("1|NEW|0|\n2|NEW|0|{}", handled.collect::<String>()));
    // It is said once, not of each process.
    assert_eq!(ran.stderr.matches("make it flush its output").count(), 1, "{}", ran.stderr);
}

#[test]
fn a_line_that_is_no_reply_is_an_error_and_loses_nothing() {
    let long = "x".repeat(300);
    let long_shown = format!("is not a reply, not JSON: {}...", "x".repeat(200));
    for (line, says) in [
        ("starting up ...", "is not a reply, not JSON: starting up ..."),
        ("", "is not a reply, not JSON: "),
        (&*long, &*long_shown),
        (
            "{\"id\":2,\"outcome\":\"success\"",
            "is not a reply, not JSON: {\"id\":2,\"outcome\":\"success\"",
        ),
        ("7", "is not a reply, invalid type: integer `7`, "),
        (
            "{\"outcome\":\"success\"}",
            "is not a reply, missing field `id`: {\"outcome\":\"success\"}",
        ),
        ("{\"id\":2}", "is not a reply, missing field `outcome`: {\"id\":2}"),
        ("{\"id\":2,\"outcome\":\"done\"}", "is not a reply, unknown variant `done`, "),
        (
            "{\"id\":2,\"outcome\":\"failure\",\"error\":5}",
            "is not a reply, invalid type: integer `5`, ",
        ),
        (
            "{\"id\":2,\"outcome\":\"snooze\",\"after\":\"soon\"}",
            "is not a reply, after: \"soon\" is not a duration: write",
        ),
        (
            "{\"id\":9,\"outcome\":\"success\"}",
            "answers record 9, which was answered before or never sent: {\"id\":9,",
        ),
        (
            "{\"id\":3,\"outcome\":\"failure\"}",
            "answers record 3, which was answered before or never sent: {\"id\":3,",
        ),
        (
            "{\"id\":\"3\",\"outcome\":\"failure\"}",
            "answers record 3, which was answered before or never sent: {\"id\":\"3\",",
        ),
        ("tick\ttack\u{1b}[1m", "is not a reply, not JSON: tick\\ttack\\u{1b}[1m"),
    ] {
        let says = format!("backlog: line 2 of the handler's output {says}");
        let env = midnight_records(3);
        env.write("line", line);
        // Output behind the wrong line does not count.
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
        let ran = pass(&env, "--fibonacci", &format!("python3 {handler}")).exits(1);
        let (first, rest) = ran.stderr.split_once('\n').unwrap();
        assert!(first.starts_with(&says), "{first}");
        assert_eq!(rest, "");
        assert_eq!(rows(&env), "1|SUCCESS|0|\n2|SUCCESS|0|\n3|SUCCESS|0|");
        assert_eq!(lines(&env, "second"), ["2", "1"]);
    }
}

#[test]
fn what_is_no_reply_is_said_once_however_often_the_handler_is_started() {
    let env = midnight_records(3);
    let handler =
        env.script("handler", "read hello\nread record\necho \"starting up $$\"\nread more");
    let ran = pass(&env, "--fibonacci", &handler).exits(1);
    let (first, rest) = ran.stderr.split_once('\n').unwrap();
    let says = "backlog: line 1 of the handler's output is not a reply, not JSON: starting up ";
    assert!(first.starts_with(says), "{first}");
    let says = "backlog: record 3 stays as it was: the handler wrote an unexpected line; handlers were \
                restarted 3 times; the pass stops here\n";
    assert_eq!(rest, says);
}

#[test]
fn a_reply_without_a_newline_at_the_end_of_the_output_counts() {
    let env = midnight_records(1);
    let handler = "cat >/dev/null & read -r hello; printf '{\"id\":1,\"outcome\":\"success\"}'";
    pass(&env, "--ndays 1", &sh(handler).to_string()).silent();
    assert_eq!(env.statuses(), "1|SUCCESS");
}

#[test]
fn a_reply_that_the_end_of_its_process_has_cut_is_none() {
    let env = midnight_records(2);
    let handler = python(
        &env,
        r#"
if is_first():
    it = read()
    os.write(1, b'{"id": %d, "outc' % it["ID"])
    sys.exit(7)
for it in records():
    answer(it["ID"])
"#,
    );
    pass(&env, "--fibonacci", &format!("python3 {handler}")).silent();
    let error = "the handler ended before it answered: exit status 7";
    assert_eq!(rows(&env), format!("1|SUCCESS|0|\n2|ERROR|1|{error}"));
}

#[test]
fn a_handler_that_cannot_be_run_stops_the_pass_and_leaves_all_records_untouched() {
    let env = midnight_records(3);
    env.write("plain", "");
    for (handler, says) in [
        ("/no/such/handler", "could not run /no/such/handler: no such file or directory"),
        ("no-such-handler", "put it in PATH"),
        ("./plain", "permission denied; is it executable?"),
        ("sh -c 'exec nope'", "the handler ended with exit status 127: "),
        ("sh -c 'echo go away >&2; exit 126'", "the handler ended with exit status 126: go away"),
    ] {
        for mode in ["--ndays 1", "--fibonacci"] {
            let ran = pass(&env, mode, handler);
            let ran = ran.fails(1, &[says]);
            let lines: Vec<_> = ran.stderr.lines().collect();
            assert!(lines[0].starts_with("backlog: record 3 stays as it was: "), "{lines:?}");
            // A handler that was started gets another chance, with other records.
            if handler.starts_with("sh ") {
                assert!(lines.len() == 2 && lines[1].contains("2 more records"), "{lines:?}");
            } else {
                assert!(lines.len() == 1 && lines[0].ends_with("the pass stops here"), "{lines:?}");
            }
            assert_eq!(rows(&env), "1|NEW|0|\n2|NEW|0|\n3|NEW|0|");
            assert_eq!(env.query("SELECT count(LAST_FAILURE) FROM BACKLOG"), "0");
        }
    }
}

#[test]
fn a_record_for_which_a_script_finds_no_command_does_not_stop_the_others() {
    for mode in ["--ndays 1", "--fibonacci"] {
        for jobs in ["1", "2"] {
            let env = midnight_records(3);
            // It ends so before it has answered anything.
            let handler = python(
                &env,
                r#"
for it in records():
    if it["ID"] == 3:
        print("gone", file=sys.stderr, flush=True)
        sys.exit(127)
    answer(it["ID"])
"#,
            );
            let options = format!("{mode} --jobs {jobs} --joblog log");
            pass(&env, &options, &format!("python3 {handler}")).silent();
            let error = "the handler ended with exit status 127: gone";
            assert_eq!(rows(&env), format!("1|SUCCESS|0|\n2|SUCCESS|0|\n3|ERROR|1|{error}"));
            let log = env.read("log");
            assert_contains(&log, "\"exit\":127");
            assert_eq!(log.matches("\"stderr\":null").count(), 3, "it is no record's: {log}");
        }
    }
}

#[test]
fn such_records_use_up_the_restarts_and_then_the_pass_stops() {
    let env = midnight_records(6);
    let ran = pass(&env, "--ndays 1", "sh -c 'read -r hello; read -r it; exit 127'");
    let says = "record 2 stays as it was: the handler ended with exit status 127; handlers were restarted \
                3 times; the pass stops here";
    ran.fails(1, &["record 6 stays as it was: the handler ended with exit status 127\n", says]);
    assert_eq!(env.count("NEW"), 6);
}

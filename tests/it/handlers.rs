//! Commands as handlers: what they get, what their end means, and what they cannot do to a pass.

use std::process::Command;
use std::time::Duration;

use crate::testenv::*;

/// One record, one pass with this shell script as the handler.
fn pass(env: &TestEnv, options: &str, script: &str) -> Ran {
    env.pass(&format!("--ndays 1 {options} -- {}", sh(script)))
}

#[test]
fn the_record_comes_as_environment_and_as_json() {
    let env = one_record();
    env.sql("ALTER TABLE BACKLOG ADD COLUMN \"odd name\" BLOB");
    env.sql("UPDATE BACKLOG SET PAYLOAD = '{\"a\":\"\u{1F600}\"}', \"odd name\" = x'00ff'");
    pass(&env, "--max-attempts 5", "env | grep ^BACKLOG_ | sort >env; cat >json").silent();
    let variables = env.read("env");
    let variables: Vec<_> = variables
        .lines()
        .filter(|line| !line.starts_with("BACKLOG_PASS=") && !line.starts_with("BACKLOG_DB="))
        .filter(|line| !line.starts_with("BACKLOG_RUN="))
        .collect();
    assert_eq!(
        variables,
        [
            "BACKLOG_ATTEMPT=1",
            "BACKLOG_DATE_INSERTED=2026-11-20T23:59:00Z",
            "BACKLOG_ID=7",
            "BACKLOG_MAX_ATTEMPTS=5",
            "BACKLOG_QUEUE=default",
            "BACKLOG_ROW_DATE_INSERTED=2026-11-20T23:59:00Z",
            "BACKLOG_ROW_FAILURES=0",
            "BACKLOG_ROW_ID=7",
            "BACKLOG_ROW_ODD_NAME=00FF",
            "BACKLOG_ROW_PAYLOAD={\"a\":\"\u{1F600}\"}",
            "BACKLOG_ROW_STATUS=NEW",
            "BACKLOG_STATUS=NEW",
            "BACKLOG_TABLE=BACKLOG",
        ]
    );
    let json = env.read("json");
    assert_eq!(
        json,
        "{\"ID\":7,\"STATUS\":\"NEW\",\"DATE_INSERTED\":\"2026-11-20T23:59:00Z\",\
         \"PAYLOAD\":\"{\\\"a\\\":\\\"\u{1F600}\\\"}\",\"FAILURES\":0,\"LAST_FAILURE\":null,\
         \"LAST_ERROR\":null,\"odd name\":\"00FF\"}\n"
    );
}

#[test]
fn columns_are_in_variables_as_far_as_an_environment_holds_them() {
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS, DATE_INSERTED, \"a-b\", a_b, zero,
         large, most, more, rest)",
    );
    env.sql(
        "INSERT INTO BACKLOG SELECT 7, 'NEW', '2026-11-20', 1, 2, char(97, 0, 98), printf('%65537c', 'l'),
         printf('%65536c', 'm'), printf('%65000c', 'n'), printf('%1000c', 'o')",
    );
    let names = "env | grep ^BACKLOG_ROW_ | cut -d= -f1 | sort >names";
    let inherited = [("BACKLOG_ROW_ID", "1"), ("BACKLOG_ROW_OTHER", "1")];
    let pass = |handler: &str| {
        env.command(&format!("process --now @{MIDNIGHT} --ndays 9 {handler}")).envs(inherited).ran()
    };
    pass(&format!("-- {}", sh(names))).silent();
    let names = env.read("names");
    let expected = ["DATE_INSERTED", "ID", "MORE", "MOST", "STATUS"];
    let expected: String = expected.map(|name| format!("BACKLOG_ROW_{name}\n")).concat();
    assert_eq!(names, expected);
    let checked = env.run("check --ndays 9 -- true").stdout;
    let says = "the columns a-b, a_b have no variable, because their variables would have the same";
    assert_contains(&checked, says);
    // A process for many records has none of one of them.
    env.sql("UPDATE BACKLOG SET STATUS = 'NEW'");
    let answer =
        "env >stream-env; read -r hello; read -r record; echo '{\"id\":7,\"outcome\":\"success\"}'";
    pass(&format!("--stream -- {}", env.script("stream", answer))).silent();
    let seen = env.read("stream-env");
    assert!(seen.contains("BACKLOG_QUEUE=") && !seen.contains("BACKLOG_ROW_"), "{seen}");
}

#[test]
fn a_record_fails_whose_value_could_be_an_option_or_code() {
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (ID INT PRIMARY KEY, STATUS, DATE_INSERTED, PAYLOAD TEXT, LAST_ERROR)",
    );
    env.sql(
        "INSERT INTO BACKLOG (ID, STATUS, DATE_INSERTED, PAYLOAD) VALUES (7, 'NEW', '2026-11-20', 'a'),
         ('1; touch ran', 'NEW', '2026-11-20', 'a'), (8, 'NEW', '2026-11-20', '-rf')",
    );
    env.pass("--ndays 1 -- sh -c 'echo {id} >>ids' sh {PAYLOAD}").silent();
    assert_eq!(
        env.query("SELECT STATUS, LAST_ERROR FROM BACKLOG ORDER BY ID"),
        "SUCCESS|\nERROR|its PAYLOAD begins with a hyphen, and could be read as an option: write -- \
         before {PAYLOAD}\nERROR|its id is not an integer, and could be run as code: 1; touch ran"
    );
    assert!(!env.path("ran").exists());
    assert_eq!(env.read("ids"), "7\n");
    for (word, says) in [
        ("{order}", "{order} is not a column; use one of ID, STATUS, DATE_INSERTED, PAYLOAD"),
        ("{payload.order}", "{payload.order} is not a column, and fields of JSON are not replaced"),
    ] {
        env.pass(&format!("--ndays 1 -- true {word}")).fails(2, &[says]);
        let says = says.split(" is").next().unwrap().trim_matches(['{', '}']);
        env.pass(&format!("--ndays 1 --post http://localhost/{word}")).fails(2, &[says]);
    }
}

#[test]
fn the_id_in_an_argument_is_that_of_the_record_whatever_its_column_is_called() {
    for (id, insert, expected) in [
        ("['uuid']", "INSERT INTO mails VALUES ('a-1', 'b', '2026-11-20')", "a-1"),
        ("['uuid', 'part']", "INSERT INTO mails VALUES ('a-1', 'b', '2026-11-20')", "a-1,b"),
    ] {
        let env =
            TestEnv::with_schema("CREATE TABLE mails (uuid TEXT, part TEXT, at TEXT, sent INT)");
        env.sql(&insert.replace("mails", "mails (uuid, part, at)"));
        let toml = format!(
            "[queue.mails]\ntable = 'mails'\nid = {id}\ndate_inserted = 'at'\nwhere = 'sent IS NULL'\n\
             on_success = {{ sent = 1 }}\nndays = 7\nexec = ['sh', '-c', 'echo $1 >got', 'sh', '{{id}}']\n"
        );
        env.write("backlog.toml", toml);
        env.run_at(MIDNIGHT + 86_400, "process --queue mails").silent();
        assert_eq!(env.read("got"), format!("{expected}\n"));
    }
}

#[test]
fn a_handler_inherits_neither_the_claims_nor_the_database() {
    let env = one_record();
    pass(&env, "", "for fd in /proc/$$/fd/*; do readlink $fd; done >fds").silent();
    let fds = env.read("fds");
    assert_contains(&fds, "pipe:[");
    assert_lacks(&fds, "test.db");
}

#[test]
fn columns_are_filled_into_arguments_without_a_shell() {
    let env = one_record();
    env.sql("UPDATE BACKLOG SET PAYLOAD = '\"$(touch pwned); {ID}\"'");
    let script = env.script("args", "printf '%s\\n' \"$@\" >args");
    let handler = "{id} --p={PAYLOAD} {{unknown}} '{ print }'";
    let args = format!("process --ndays 1 -- {script} {handler}");
    env.run_at(MIDNIGHT, &args).silent();
    assert_eq!(env.read("args"), "7\n--p=\"$(touch pwned); {ID}\"\n{unknown}\n{ print }\n");
    assert!(!env.path("pwned").exists());
}

#[test]
fn the_exit_code_is_the_outcome() {
    for (script, status, failures, error) in [
        ("exit 0", "SUCCESS", 0, ""),
        ("echo said >&2; exit 1", "ERROR", 1, "said"),
        ("echo printed; exit 99", "ERROR", 1, "printed"),
        ("exit 124", "ERROR", 1, "exit status 124"),
        ("kill -SEGV $$", "ERROR", 1, "killed by signal 11"),
        ("echo later >&2; exit 75", "ERROR", 0, "later"),
    ] {
        let env = one_record();
        pass(&env, "", script).silent();
        let row = env.query("SELECT STATUS, FAILURES, LAST_ERROR FROM BACKLOG");
        assert_eq!(row, format!("{status}|{failures}|{error}"), "{script}");
    }
}

#[test]
fn the_error_is_the_last_line_that_is_not_indented() {
    let java = "printf 'Exception: no\\n\\tat a\\nCaused by: refused\\n\\tat b\\n\\t... 1 more\\n'";
    let node = "printf 'x.js:1\\n^\\n\\nError: refused\\n    at x\\n    at y\\n'";
    let anyhow = "printf 'Error: no\\n\\nCaused by:\\n    0: a\\n    1: refused\\n\\n'";
    for (handler, error) in [
        (r#"python3 -c "raise RuntimeError('ERP down')""#, "RuntimeError: ERP down"),
        (&sh(&format!("{java} >&2; exit 1")), "Caused by: refused"),
        (&sh(&format!("{node} >&2; exit 1")), "Error: refused"),
        (&sh(&format!("{anyhow} >&2; exit 1")), "Caused by: 1: refused"),
        (&sh(&format!("{anyhow} >&2; exit 75")), "Caused by: 1: refused"),
        ("sh -c 'echo Error: printed; echo said >&2; exit 1'", "said"),
    ] {
        let env = one_record();
        env.pass(&format!("--ndays 1 -- {handler}")).silent();
        assert_eq!(env.query("SELECT LAST_ERROR FROM BACKLOG"), error, "{handler:?}");
    }
}

#[test]
fn a_snooze_is_an_ordinary_failure_where_nothing_counts() {
    let env = TestEnv::minimal();
    env.insert_one(7, MIDNIGHT);
    pass(&env, "--strict", "exit 75").exits(1);
    assert_eq!(env.statuses(), "7|ERROR");
}

#[test]
fn a_snoozed_record_waits_and_is_not_charged() {
    let env = one_record();
    env.pass("--fibonacci --drain -- sh -c 'exit 75'").silent();
    let row = "SELECT STATUS, FAILURES, LAST_FAILURE FROM BACKLOG";
    assert_eq!(env.query(row), "ERROR|0|2026-11-21T00:00:00Z");
    let handler = env.noting("exit 0");
    env.run_at(MIDNIGHT + 59, &format!("process --fibonacci -- {handler}")).silent();
    env.run_at(MIDNIGHT + 60, &format!("process --fibonacci -- {handler}")).silent();
    assert_eq!(env.handled(), ["7"]);
}

#[test]
fn a_handler_that_cannot_be_run_stops_the_pass_and_leaves_the_records_untouched() {
    let env = TestEnv::with_records(3, MIDNIGHT);
    env.write("plain", "");
    let no_interpreter = env.script("no_interpreter", "");
    std::fs::write(&no_interpreter, "true\n").unwrap();
    let rows = "SELECT ID, STATUS, FAILURES, LAST_FAILURE, LAST_ERROR FROM BACKLOG";
    let before = env.query(rows);
    for (handler, says) in [
        ("/no/such/handler", "could not run /no/such/handler: no such file or directory"),
        ("no-such-handler", "put it in PATH"),
        (
            "plain",
            "could not run plain: it is in this directory, which is not in PATH; write ./plain",
        ),
        ("./plain", "permission denied; is it executable?"),
        ("./no_interpreter", "exec format error; does it begin with #!"),
        ("sh -c no-such-command", "the handler exited with 127: "),
        ("sh -c 'echo go away >&2; exit 126'", "the handler exited with 126: go away"),
    ] {
        for mode in ["--ndays 1", "--fibonacci"] {
            let args = format!("process {mode} -- {handler}");
            let ran = env.run_at(MIDNIGHT, &args).fails(1, &[says]);
            let lines: Vec<_> = ran.stderr.lines().collect();
            assert!(lines[0].starts_with("backlog: record 3 stays as it was: "), "{lines:?}");
            // A handler that was started gets another chance, with other records.
            if handler.starts_with("sh ") {
                assert!(lines[1..] != [""; 0], "{lines:?}");
            } else {
                assert!(lines.len() == 1 && lines[0].ends_with("the pass stops here"), "{lines:?}");
            }
            assert_eq!(env.query(rows), before, "{handler:?}");
        }
    }
}

#[test]
fn a_handler_that_cannot_be_run_for_one_record_alone_has_failed() {
    for mode in ["--ndays 1", "--fibonacci"] {
        for drain in ["", "--drain"] {
            let env = TestEnv::with_records(5, MIDNIGHT);
            let handler = env.noting("[ $BACKLOG_ID = 3 ] && { echo gone >&2; exit 127; }; exit 0");
            env.pass(&format!("{mode} {drain} -- {handler}")).silent();
            assert_eq!(env.handled(), ["5", "4", "3", "2", "1"]);
            assert_eq!(env.count("SUCCESS"), 4);
            let row = "SELECT STATUS, FAILURES, LAST_ERROR FROM BACKLOG WHERE ID = 3";
            assert_eq!(env.query(row), "ERROR|1|the handler exited with 127: gone");
        }
    }
}

#[test]
fn a_pass_that_stops_by_itself_lets_running_handlers_end() {
    let env = TestEnv::with_records(4, MIDNIGHT);
    let pausing = env.pausing();
    let began = "while [ ! -e began ]; do sleep 0.01; done";
    let script = format!("[ $BACKLOG_ID = 4 ] || {{ {began}; exit 1; }}; {}", pausing.script);
    let args = format!("process --ndays 1 --now @{MIDNIGHT} --jobs 2 --grace 0s -v");
    let stop = format!("--max-consecutive-failures 1 -- {}", sh(&script));
    let child = env.spawn_logging(&format!("{args} {stop}"));
    env.logs("was interrupted; it stays as it was");
    pausing.let_go();
    child.ran().exits(1);
    env.logs("the pass stops here");
    assert_eq!(env.statuses(), "1|NEW\n2|NEW\n3|ERROR\n4|SUCCESS");
}

#[test]
fn a_handler_that_takes_too_long_is_ended_with_all_it_started() {
    let env = one_record();
    let pids = env.path_text("pids");
    let script = format!("trap '' TERM; sleep 1000 & echo $$ $! >{pids}; wait; sleep 1000");
    pass(&env, "--timeout 200ms --grace 100ms --joblog joblog", &script).silent();
    assert_eq!(
        env.query("SELECT STATUS, FAILURES, LAST_ERROR FROM BACKLOG"),
        "ERROR|1|timed out after 200ms"
    );
    assert!(env.read("joblog").contains("\"exit\":124"));
    for pid in std::fs::read_to_string(&pids).unwrap().split_whitespace() {
        // On a busy machine one that was killed takes a moment to die.
        wait_until("all it started is dead", || {
            let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            state.is_empty() || state.contains(") Z ")
        });
    }
}

#[test]
fn a_gigabyte_of_output_is_let_go_by() {
    let env = one_record();
    pass(&env, "", "head -c 1G /dev/zero; echo the end >&2; exit 1").silent();
    assert_eq!(env.query("SELECT LAST_ERROR FROM BACKLOG"), "the end");
}

#[test]
fn a_large_payload_comes_on_standard_input_whether_it_is_read_or_not() {
    let env = one_record();
    env.sql("UPDATE BACKLOG SET PAYLOAD = json_quote(printf('%.*c', 10000000, 'x'))");
    pass(&env, "", "exit 3").silent();
    assert_eq!(env.query("SELECT LAST_ERROR FROM BACKLOG"), "exit status 3");
    pass(&env, "", "wc -c >size").silent();
    let size: u64 = env.read("size").trim().parse().unwrap();
    assert!(size > 10_000_000 && size < 10_001_000, "{size}");
    assert_eq!(env.statuses(), "7|SUCCESS");
}

#[test]
fn the_whole_record_is_read_in_every_way_however_large_it_is() {
    let reads_lines =
        "while read -r line || [ \"$line\" ]; do printf '%s\\n' \"$line\"; done >read";
    let parses =
        "import json,sys; open('read','w').write(json.dumps(json.load(sys.stdin), indent=0))";
    // A pipe holds 65,536 bytes.
    for size in [100, 65_536, 65_537, 8 << 20] {
        let env = one_record();
        let (begin, end) = ("[\n\"", "\",\n\"last\"\n]");
        let payload = format!("{begin}{}{end}", "x".repeat(size - begin.len() - end.len()));
        let connection = env.connection();
        connection.execute("UPDATE BACKLOG SET PAYLOAD = ?1", [&payload]).unwrap();
        let args = "process --ndays 1 --set payload=PAYLOAD --";
        for handler in ["tee read", &sh(reads_lines), &format!("python3 -c {}", quoted(parses))] {
            // A shell reads byte by byte.
            if handler.starts_with("sh") && size > 1 << 20 {
                continue;
            }
            env.sql("UPDATE BACKLOG SET STATUS = 'NEW'");
            env.run_at(MIDNIGHT, &format!("{args} {handler}")).silent();
            let read = env.read("read");
            assert!(read.trim_end() == payload, "{size}: {} bytes, {handler:?}", read.len());
            assert_eq!(env.statuses(), "7|SUCCESS");
        }
    }
}

#[test]
fn a_value_too_long_for_an_argument_fails_its_record_only() {
    let env = TestEnv::with_records(2, MIDNIGHT);
    env.sql("UPDATE BACKLOG SET PAYLOAD = json_quote(printf('%.*c', 3000000, 'x')) WHERE ID = 1");
    env.sql("UPDATE BACKLOG SET PAYLOAD = '1' WHERE ID = 2");
    env.pass("--ndays 1 -- true {PAYLOAD}").silent();
    assert_eq!(env.statuses(), "1|ERROR\n2|SUCCESS");
    let error = env.query("SELECT LAST_ERROR FROM BACKLOG WHERE ID = 1");
    assert_contains(&error, "argument list too long");
}

#[test]
fn a_grandchild_that_holds_the_pipes_does_not_hang_the_pass() {
    let env = one_record();
    let pid = env.path_text("pid");
    pass(
        &env,
        "",
        &format!(
            "setsid sh -c 'echo $$ >{pid}; exec sleep 1000' & while [ ! \
                             -s {pid} ]; do sleep 0.01; done; echo done >&2; exit 1"
        ),
    )
    .silent();
    assert_eq!(env.query("SELECT LAST_ERROR FROM BACKLOG"), "done");
    signal("-KILL", std::fs::read_to_string(&pid).unwrap().trim());
}

#[test]
fn a_signal_lets_running_handlers_end_and_settles_them() {
    for (name, exit) in [("-TERM", 143), ("-INT", 130)] {
        let env = TestEnv::with_records(5, MIDNIGHT);
        let pausing = env.pausing();
        let args = format!("process --ndays 1 --now @{MIDNIGHT} -v --");
        let child = env.spawn_logging(&format!("{args} {}", sh(&pausing.script)));
        pausing.wait_for_begin();
        signal(name, child.id());
        env.logs("stopping on signal");
        pausing.let_go();
        child.ran().exits(exit);
        assert_eq!(env.count("SUCCESS"), 1, "the running one is settled, no other is begun");
        assert_eq!(env.count("NEW"), 4);
    }
}

#[test]
fn a_handler_that_outlives_the_grace_of_a_stop_leaves_its_record_as_it_was() {
    for stop in ["signal", "--max-runtime"] {
        let env = one_record();
        let began = env.path("began");
        let limit = if stop == "signal" { "" } else { "--max-runtime 1s" };
        let args = format!(
            "process --fibonacci --now @{MIDNIGHT} --grace 50ms {limit} -- {}",
            sh(&format!("touch {}; sleep 1000", began.display()))
        );
        let child = env.spawn(&args);
        wait_until("the handler begins", exists(&began));
        if stop == "signal" {
            signal("-TERM", child.id());
        }
        let output = child.wait_with_output().unwrap();
        let expected = if stop == "signal" { 143 } else { 1 };
        assert_eq!(output.status.code(), Some(expected), "{output:?}");
        let row = env.query("SELECT STATUS, FAILURES, LAST_FAILURE, LAST_ERROR FROM BACKLOG");
        assert_eq!(row, "NEW|0||", "{stop}");
    }
}

#[test]
fn a_second_signal_leaves_running_handlers_no_more_time() {
    let env = one_record();
    let began = env.path("began");
    let script = format!("touch {}; sleep 1000", began.display());
    let args = format!("process --ndays 1 --now @{MIDNIGHT} --grace 1h -v --");
    let child = env.spawn_logging(&format!("{args} {}", sh(&script)));
    wait_until("the handler begins", exists(&began));
    let signal = |name: &str| {
        signal(name, child.id());
    };
    signal("-INT");
    env.logs("stopping on signal 2");
    signal("-TERM");
    child.ran().exits(130);
    assert_eq!(env.query("SELECT STATUS, FAILURES FROM BACKLOG"), "NEW|0");
}

#[test]
fn a_signal_leaves_the_grace_of_a_pass_whose_time_is_up() {
    let env = one_record();
    let (began, go) = (env.path("began"), env.path("go"));
    let wait = format!("until [ -e {} ]; do sleep 0.01; done", go.display());
    let script = format!("touch {}; {wait}", began.display());
    let args = format!("process --ndays 1 --now @{MIDNIGHT} --grace 1h --max-runtime 2s");
    let child = env.spawn_logging(&format!("{args} -- {}", sh(&script)));
    wait_until("the handler begins", exists(&began));
    std::thread::sleep(Duration::from_millis(2_200));
    // The same signal again is timeout(1)'s echo.
    for _ in 0..2 {
        assert!(signal("-TERM", child.id()));
    }
    std::thread::sleep(Duration::from_millis(100));
    std::fs::write(&go, "").unwrap();
    child.ran().exits(143);
    assert_eq!(env.query("SELECT STATUS, FAILURES FROM BACKLOG"), "SUCCESS|0");
}

#[test]
fn many_records_take_no_more_descriptors_than_few_and_leave_no_zombies() {
    let env = TestEnv::with_records(2_000, MIDNIGHT);
    let census = env.script(
        "census",
        "case $BACKLOG_ID in 1|1000|2000)
           ls /proc/$PPID/fd | wc -l >>fds
           cat /proc/[0-9]*/stat 2>/dev/null | grep -c \") Z $PPID \" >>zombies;;
         esac; exit 0",
    );
    let script = format!(
        "ulimit -n 64; exec {} process --ndays 1 --now @{MIDNIGHT} --jobs 4 -- {census}",
        env!("CARGO_BIN_EXE_backlog")
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script]).env("BACKLOG_DB", env.db()).current_dir(env.path(""));
    command.ran().silent();
    assert_eq!(env.count("SUCCESS"), 2_000);
    let numbers = |name: &str| -> Vec<i64> {
        env.read(name).lines().map(|line| line.trim().parse().unwrap()).collect()
    };
    let (fds, zombies) = (numbers("fds"), numbers("zombies"));
    assert_eq!(fds.len(), 3);
    assert!(fds.iter().all(|fds| *fds < 60), "{fds:?}");
    // Only what has just ended and is about to be reaped.
    assert!(zombies.iter().all(|zombies| *zombies < 4), "{zombies:?}");
}

#[test]
fn a_handler_inherits_nothing_that_webhooks_are_sent_with() {
    for stream in [false, true] {
        let env = TestEnv::with_records(1, MIDNIGHT);
        let said = env.path_text("said");
        let reply = r#"read hello; read record; echo '{"id":1,"outcome":"success"}'"#;
        let script = format!("env >{said}; {}", if stream { reply } else { "" });
        let handler = env.script("handler", &script);
        let stream = if stream { "--stream" } else { "" };
        let args = format!("process --now @{MIDNIGHT} --ndays 1 {stream} -- {handler}");
        let mut command = env.command(&args);
        let secrets = ["BACKLOG_WEBHOOK_SECRET", "BACKLOG_HEADER"].map(|name| (name, "S3kr: 1"));
        command.envs(secrets).env("OTHER", "kept").ran().silent();
        let said = env.read("said");
        assert!(said.contains("OTHER=kept") && !said.contains("S3kr"), "{said}");
    }
}

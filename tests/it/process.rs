//! A pass: what is tried, in which order, and what is written.

use std::time::Duration;

use crate::testenv::*;

#[test]
fn records_are_handed_to_the_handler_and_settled() {
    let env = TestEnv::with_records(4, MIDNIGHT);
    let handler = env.noting("[ $BACKLOG_ID != 2 ]");
    env.pass(&format!("--ndays 1 -- {handler}")).silent();
    assert_eq!(env.statuses(), "1|SUCCESS\n2|ERROR\n3|SUCCESS\n4|SUCCESS");
    assert_eq!(env.handled(), ["4", "3", "2", "1"]);
    env.pass(&format!("--ndays 1 -- {handler}")).silent();
    assert_eq!(env.handled(), ["2"]);
}

#[test]
fn the_newest_go_first_unless_told_otherwise() {
    let env = TestEnv::new();
    for (id, age) in [(1, 10), (2, 30), (3, 20)] {
        env.insert_one(id, MIDNIGHT - age);
    }
    let handler = env.noting("exit 1");
    for (order, expected) in [
        ("", ["1", "3", "2"]),
        ("--order newest", ["1", "3", "2"]),
        ("--order oldest", ["2", "3", "1"]),
    ] {
        env.pass(&format!("--ndays 1 {order} -- {handler}")).silent();
        assert_eq!(env.handled(), expected, "{order:?}");
    }
}

#[test]
fn failures_are_counted_and_a_success_takes_its_attempt_back() {
    let env = TestEnv::with_record(1, MIDNIGHT);
    let row = "SELECT STATUS, FAILURES, LAST_FAILURE, LAST_ERROR FROM BACKLOG";
    for mode in ["--fibonacci", "--ndays 9"] {
        env.sql("UPDATE BACKLOG SET STATUS = 'NEW', FAILURES = 0, LAST_FAILURE = NULL, LAST_ERROR = NULL");
        let fail = format!("process {mode} -- sh -c 'echo no route >&2; exit 1'");
        env.run_at(MIDNIGHT, &fail).silent();
        assert_eq!(env.query(row), "ERROR|1|2026-11-21T00:00:00Z|no route");
        env.run_at(MIDNIGHT + 5 * MINUTE, &fail).silent();
        assert_eq!(env.query(row), "ERROR|2|2026-11-21T00:05:00Z|no route");
        env.run_at(MIDNIGHT + DAY, &format!("process {mode} -- true")).silent();
        assert_eq!(env.query(row), "SUCCESS|2|2026-11-21T00:05:00Z|no route");
    }
}

#[test]
fn an_attempt_is_written_down_before_its_handler_runs() {
    for mode in ["--fibonacci", "--ndays 1"] {
        let env = TestEnv::with_record(1, MIDNIGHT);
        let pausing = env.pausing();
        let child =
            env.spawn(&format!("process --now @{MIDNIGHT} {mode} -- {}", sh(&pausing.script)));
        pausing.wait_for_begin();
        let row = env.query("SELECT STATUS, FAILURES, LAST_FAILURE, LAST_ERROR FROM BACKLOG");
        let error = "attempt 1 began at 2026-11-21T00:00:00Z and has not reported back";
        assert_eq!(row, format!("ERROR|1|2026-11-21T00:00:00Z|{error}"));
        pausing.let_go();
        assert!(child.wait_with_output().unwrap().status.success());
        let row = env.query("SELECT STATUS, FAILURES, LAST_FAILURE, LAST_ERROR FROM BACKLOG");
        assert_eq!(row, "SUCCESS|0||");
    }
}

#[test]
fn a_record_that_kills_the_processor_every_time_ends_archived() {
    let env = TestEnv::with_record(1, MIDNIGHT - 60);
    env.insert_one(2, MIDNIGHT);
    // Record 2 kills the pass that tries it; record 1 stands behind it in the order.
    let handler = env.noting("[ $BACKLOG_ID = 2 ] && kill -9 $PPID; exit 0");
    let args = format!("process --fibonacci --max-attempts 3 -- {handler}");
    let mut exits = Vec::new();
    for minute in 0..20 {
        exits.push(env.run_at(MIDNIGHT + minute * MINUTE, &args).exit);
        env.wait_for_free_locks();
    }
    assert_eq!(env.statuses(), "1|SUCCESS\n2|ARCHIVED");
    // No attempt has reported back, so there is one more than three.
    assert_eq!(env.query("SELECT FAILURES FROM BACKLOG WHERE ID = 2"), "4");
    assert_eq!(env.handled().iter().filter(|id| *id == "2").count(), 4);
    assert_eq!(exits.iter().filter(|exit| exit.is_none()).count(), 4, "{exits:?}");
    assert_eq!(exits.iter().filter(|exit| **exit == Some(1)).count(), 1, "{exits:?}");
}

#[test]
fn the_last_failed_attempt_archives_and_makes_the_exit_code_1() {
    let env = TestEnv::with_record(1, MIDNIGHT);
    let args = "process --fibonacci --max-attempts 2 -- sh \
                -c 'echo $BACKLOG_ATTEMPT/$BACKLOG_MAX_ATTEMPTS >&2; exit 1'";
    env.run_at(MIDNIGHT, args).silent();
    let ran = env.run_at(MIDNIGHT + MINUTE, args).exits(1);
    assert_eq!(
        ran.stderr,
        format!("backlog: record 1 failed after 2 attempts; archived: 2/2\n{}", env.back(1))
    );
    assert_eq!(env.query("SELECT STATUS, FAILURES, LAST_ERROR FROM BACKLOG"), "ARCHIVED|2|2/2");
    env.run_at(MIDNIGHT + DAY, args).silent();
    // One attempt is one.
    env.insert_one(2, MIDNIGHT);
    let ran = env.pass("--fibonacci --max-attempts 1 -- false").exits(1);
    assert_eq!(
        ran.stderr,
        format!(
            "backlog: record 2 failed after 1 attempt; archived: exit status 1\n{}",
            env.back(2)
        )
    );
}

#[test]
fn an_attempt_limit_needs_a_column_to_count_in() {
    let env = TestEnv::minimal();
    for args in ["--ndays 1 --max-attempts 3", "--fibonacci"] {
        let add = "ALTER TABLE \"BACKLOG\" ADD COLUMN FAILURES INTEGER NOT NULL DEFAULT 0;";
        env.run(&format!("process {args} -- true")).fails(1, &["needs ", "FAILURES", add]);
    }
    // The advice works.
    env.sql("ALTER TABLE \"BACKLOG\" ADD COLUMN FAILURES INTEGER NOT NULL DEFAULT 0; ALTER TABLE \"BACKLOG\" ADD COLUMN LAST_FAILURE TEXT;");
    env.run("process --fibonacci -- true").silent();
}

#[test]
fn waiting_records_do_not_count_against_the_limit() {
    let env = TestEnv::with_records(10, MIDNIGHT);
    env.sql("UPDATE BACKLOG SET STATUS = 'ERROR', FAILURES = 9, LAST_FAILURE = '2026-11-21T00:00:00Z' WHERE ID > 2");
    let handler = env.noting("exit 0");
    env.run_at(MIDNIGHT + MINUTE, &format!("process --fibonacci --max-records 2 -- {handler}"))
        .silent();
    assert_eq!(env.handled(), ["2", "1"]);
}

#[test]
fn a_block_of_failing_records_does_not_keep_a_healthy_one_from_being_tried() {
    for mode in ["--ndays 1", "--fibonacci"] {
        let env = TestEnv::with_record(1, MIDNIGHT - 60);
        for id in 2..=501 {
            env.insert_one(id, MIDNIGHT);
        }
        env.sql("UPDATE BACKLOG SET STATUS = 'ERROR', FAILURES = 1, LAST_FAILURE = '2026-11-20T23:00:00Z'");
        let handler = env.script("handler", "[ $BACKLOG_ID = 1 ]");
        let args = format!("process {mode} --max-records 100 --jobs 2 -- {handler}");
        // Not even time need pass between the passes.
        for _ in 0..6 {
            assert_ne!(env.count("SUCCESS"), 1);
            env.run_at(MIDNIGHT, &args).silent();
        }
        assert_eq!(env.count("SUCCESS"), 1, "{mode:?}");
        let tried = env.query("SELECT count(*) FROM BACKLOG WHERE FAILURES > 1");
        assert_eq!(tried, "500", "every record had its turn: {mode:?}");
    }
}

#[test]
fn new_records_go_before_failed_ones_where_a_limit_binds() {
    let env = TestEnv::with_records(6, MIDNIGHT);
    env.sql("UPDATE BACKLOG SET STATUS = 'ERROR' WHERE ID > 2");
    let handler = env.noting("exit 1");
    env.pass(&format!("--ndays 1 --max-records 3 -- {handler}")).silent();
    assert_eq!(env.handled(), ["2", "1", "6"]);
    // The next pass goes on behind record 6, and comes round.
    env.pass(&format!("--ndays 1 --max-records 4 -- {handler}")).silent();
    assert_eq!(env.handled(), ["5", "4", "3", "2"]);
    env.pass(&format!("--ndays 1 --max-records 4 -- {handler}")).silent();
    assert_eq!(env.handled(), ["1", "6", "5", "4"]);
}

#[test]
fn a_dry_run_says_what_and_why_and_touches_nothing() {
    let env = TestEnv::new();
    for (id, age) in [(1, 0), (2, 2 * DAY), (3, 8 * DAY), (4, 0)] {
        env.insert_one(id, MIDNIGHT - age);
    }
    env.sql("UPDATE BACKLOG SET STATUS = 'SUCCESS' WHERE ID = 4");
    env.sql("INSERT INTO BACKLOG (ID, DATE_INSERTED) VALUES (5, 'soon')");
    let before = std::fs::read(env.db()).unwrap();
    let ran = env.pass("--ndays 7 --min-ndays 1 --dry-run").success();
    assert_eq!(
        ran.stdout,
        "2           try      NEW, attempt 1\n\
         5           skip     its insertion date cannot be read\n\
         1           wait     until 2026-11-22T00:00:01Z\n\
         3           skip     older than --ndays\n"
    );
    assert_eq!(std::fs::read(env.db()).unwrap(), before);
    assert!(!env.path("test.db.backlog").exists());
    // The pass then does what the dry run lists.
    let handler = env.noting("exit 1");
    let args = format!("process --fibonacci --max-records 2 --max-attempts 9 -- {handler}");
    env.run_at(MIDNIGHT, &args).silent();
    env.handled();
    let dry = "process --fibonacci --max-records 2 --max-attempts 9 --dry-run";
    let ran = env.run_at(MIDNIGHT + MINUTE, dry).success();
    let said: Vec<_> = ran
        .stdout
        .lines()
        .filter(|line| line.contains(" try "))
        .map(|line| line[..1].to_string())
        .collect();
    env.run_at(MIDNIGHT + MINUTE, &args).silent();
    assert_eq!(env.handled(), said, "{}", ran.stdout);
    assert_eq!(said.len(), 2);
}

#[test]
fn a_drain_goes_on_until_nothing_is_due() {
    let env = TestEnv::with_record(1, MIDNIGHT);
    // Each record up to the 4th brings another one; the 3rd fails.
    let db = env.path_text("test.db");
    let program = env!("CARGO_BIN_EXE_backlog");
    let handler = env.noting(&format!(
        "[ $BACKLOG_ID -lt 4 ] && {program} add --db {db} --now @{MIDNIGHT} {{}} >/dev/null\n[ $BACKLOG_ID != 3 ]"
    ));
    env.pass(&format!("--ndays 1 --drain -- {handler}")).silent();
    assert_eq!(env.statuses(), "1|SUCCESS\n2|SUCCESS\n3|ERROR\n4|SUCCESS");
    assert_eq!(env.handled(), ["1", "2", "3", "4"], "the failed one is tried once");
    env.run_at(MIDNIGHT + MINUTE, &format!("process --fibonacci --drain -- {handler}")).silent();
    assert_eq!(env.handled(), ["3", "5"], "by Fibonacci it waits, and 5 is what it brings");
}

#[test]
fn strict_makes_a_failed_record_an_exit_code() {
    let env = TestEnv::with_records(1, MIDNIGHT);
    let ran = env.pass("--ndays 1 --strict -- false");
    assert_eq!((ran.exit, &*ran.stderr), (Some(1), ""));
    env.pass("--ndays 1 --strict -- true").silent();
}

#[test]
fn the_joblog_has_one_line_for_each_attempt() {
    let env = TestEnv::with_records(2, MIDNIGHT);
    let script = "[ $BACKLOG_ID = 1 ] || { echo no >&2; exit 3; }";
    let args = format!("process --ndays 1 --joblog joblog -- {}", sh(script));
    env.run_at(MIDNIGHT, &args).silent();
    env.run_at(MIDNIGHT, &args).silent();
    let lines = json_lines(&env.read("joblog"));
    assert_eq!(lines.len(), 3);
    let shown = |line: &serde_json::Value| {
        let mut line = line.clone();
        assert!(line["duration_ms"].as_u64().unwrap() < 60_000);
        let run = line["run"].as_str().unwrap();
        assert!(
            run.len() == 16 && run.bytes().all(|byte| b"0123456789abcdef".contains(&byte)),
            "{run}"
        );
        for changing in ["duration_ms", "run"] {
            line.as_object_mut().unwrap().shift_remove(changing);
        }
        line.to_string()
    };
    let expected = r#"{"id":2,"attempt":1,"started_at":"2026-11-21T00:00:00Z","outcome":"failure","exit":3,"error":"no","status":"ERROR","queue":"default","table":"BACKLOG","policy":"--ndays 1","tick":"2026-11-21T00:00:00Z","failures":0,"date_inserted":"2026-11-21T00:00:00Z","http_status":null,"stderr":"no"}"#;
    assert_eq!(shown(&lines[0]), expected);
    let expected = r#"{"id":1,"attempt":1,"started_at":"2026-11-21T00:00:00Z","outcome":"success","exit":0,"error":null,"status":"SUCCESS","queue":"default","table":"BACKLOG","policy":"--ndays 1","tick":"2026-11-21T00:00:00Z","failures":0,"date_inserted":"2026-11-21T00:00:00Z","http_status":null,"stderr":null}"#;
    assert_eq!(shown(&lines[1]), expected);
    assert_eq!((&lines[2]["attempt"], &lines[2]["failures"]), (&2.into(), &1.into()));
    let names: Vec<_> = lines[0].as_object().unwrap().keys().collect();
    assert_eq!(
        names,
        [
            "id",
            "attempt",
            "started_at",
            "duration_ms",
            "outcome",
            "exit",
            "error",
            "status",
            "run",
            "queue",
            "table",
            "policy",
            "tick",
            "failures",
            "date_inserted",
            "http_status",
            "stderr"
        ]
    );
    assert_eq!(lines[0]["run"], lines[1]["run"], "of one pass");
    assert_ne!(lines[0]["run"], lines[2]["run"], "of two");
}

#[test]
fn the_joblog_says_of_which_queue_and_tick_an_attempt_is() {
    let env = TestEnv::with_record(7, MIDNIGHT - 30);
    let args = "process --queue mails --fibonacci --every 10m";
    env.run_at(MIDNIGHT + 25 * MINUTE + 1, &format!("{args} --joblog joblog -- false")).silent();
    let log = env.read("joblog");
    let line = json(&log);
    for (name, expected) in [
        ("queue", "mails"),
        ("policy", "--fibonacci --every 10m"),
        ("started_at", "2026-11-21T00:25:01Z"),
        ("tick", "2026-11-21T00:20:00Z"),
        ("date_inserted", "2026-11-20T23:59:30Z"),
    ] {
        assert_eq!(line[name], expected, "{name}: {log}");
    }
}

#[test]
fn the_joblog_has_no_failures_where_the_table_counts_none() {
    let env = TestEnv::minimal();
    env.insert_one(7, MIDNIGHT);
    env.pass("--ndays 1 --joblog joblog -- false").silent();
    assert_contains(&env.read("joblog"), "\"failures\":null");
}

#[test]
fn the_joblog_has_the_last_lines_of_standard_error() {
    let env = TestEnv::with_records(1, MIDNIGHT);
    let script = "seq 30 >&2; printf '\\033[1m\\tbold\\n\\nend\\n' >&2; echo out; exit 1";
    env.pass(&format!("--ndays 1 --joblog joblog -- {}", sh(script))).silent();
    let line = json(&env.read("joblog"));
    let last: String = (14..=30).map(|number| format!("{number}\n")).collect();
    assert_eq!(line["stderr"], format!("{last}\\u{{1b}}[1m\\tbold\n\nend"));
    assert_eq!(line["error"], "end");
}

#[test]
fn the_log_says_what_happens_to_each_record() {
    let env = TestEnv::with_records(1, MIDNIGHT);
    let args = "process --fibonacci --max-attempts 5 -v -- sh -c 'echo boom >&2; exit 1'";
    let ran = env.run_at(MIDNIGHT, args).success();
    assert_eq!(
        ran.stderr,
        "backlog: info: processing record 1 (attempt 1/5)\n\
         backlog: warning: record 1 failed, will retry at 2026-11-21T00:01:00Z (attempt 1/5): boom\n"
    );
}

#[test]
fn a_row_that_the_application_changes_meanwhile_is_left_as_it_wrote_it() {
    for (change, left) in [
        (
            "UPDATE BACKLOG SET STATUS = 'CANCELLED' WHERE ID = 2",
            "1|SUCCESS\n2|CANCELLED\n3|SUCCESS",
        ),
        ("DELETE FROM BACKLOG WHERE ID = 2", "1|SUCCESS\n3|SUCCESS"),
        ("UPDATE BACKLOG SET STATUS = 'NEW' WHERE ID = 2", "1|SUCCESS\n2|NEW\n3|SUCCESS"),
    ] {
        let env = TestEnv::with_schema(
            "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS, DATE_INSERTED, FAILURES INTEGER, LAST_FAILURE)",
        );
        env.sql("INSERT INTO BACKLOG VALUES (1, 'NEW', '2026-11-21', 0, NULL), (2, 'NEW', '2026-11-21', 0, NULL), (3, 'NEW', '2026-11-21', 0, NULL)");
        let pausing = env.pausing();
        let script = format!("[ $BACKLOG_ID = 2 ] || exit 0; {}", pausing.script);
        let child =
            env.spawn(&format!("process --fibonacci -v --now @{MIDNIGHT} -- {}", sh(&script)));
        pausing.wait_for_begin();
        env.sql(change);
        pausing.let_go();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        let said = String::from_utf8(output.stderr).unwrap();
        let warning =
            "warning: record 2 was changed or deleted by the application while its handler ran";
        assert_contains(&said, warning);
        assert_eq!(env.statuses(), left);
    }
}

#[test]
fn a_row_that_got_the_id_of_a_deleted_one_is_not_taken_for_it() {
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS, DATE_INSERTED)",
    );
    env.sql("INSERT INTO BACKLOG VALUES (1, 'NEW', '2026-11-20'), (2, 'NEW', '2026-11-21')");
    let pausing = env.pausing();
    let script = format!("[ $BACKLOG_ID = 2 ] || exit 0; {}", pausing.script);
    let child = env.spawn(&format!("process --ndays 1 --now @{MIDNIGHT} -- {}", sh(&script)));
    pausing.wait_for_begin();
    env.sql("DELETE FROM BACKLOG WHERE ID = 2; INSERT INTO BACKLOG VALUES (2, 'NEW', '2026-11-21T00:00:00Z')");
    pausing.let_go();
    assert!(child.wait_with_output().unwrap().status.success());
    assert_eq!(env.statuses(), "1|SUCCESS\n2|NEW");
}

#[test]
fn a_row_is_known_by_its_insertion_date_whatever_its_type() {
    // Text that is no UTF-8 among them, and pairs that are equal for SQLite or nearly so.
    let dates = [
        ("NULL", "'2026-11-21'"),
        ("'soon'", "NULL"),
        ("'Soon'", "'soon'"),
        ("'1795132800'", "1795132800"),
        ("1795132800.5", "1795132800.25"),
        ("9007199254740993", "9007199254740992"),
        ("x'00'", "x'0000'"),
        ("x'61'", "'a'"),
        ("cast(x'ff61' AS TEXT)", "'a'"),
        ("cast(x'ff61' AS TEXT)", "cast(x'fe61' AS TEXT)"),
    ];
    for column in ["DATE_INSERTED", "DATE_INSERTED TEXT COLLATE NOCASE", "DATE_INSERTED NUMERIC"] {
        let env = TestEnv::with_schema(&format!(
            "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS DEFAULT 'NEW', {column}, FAILURES INT, LAST_FAILURE)"
        ));
        for (date, _) in dates.iter().chain(&dates) {
            env.sql(&format!("INSERT INTO BACKLOG (DATE_INSERTED) VALUES ({date})"));
        }
        let began = env.path_text("began");
        let go = env.path("go");
        let script =
            format!("echo >>{began}; while [ ! -e {} ]; do sleep 0.01; done", go.display());
        // JSON cannot hold all of them.
        let args = format!("process --fibonacci --now @{MIDNIGHT} --jobs 20 --set payload=ID --");
        let child = env.spawn(&format!("{args} {}", sh(&script)));
        wait_until("all begin", || std::fs::read(&began).unwrap_or_default().len() == 20);
        // The first half changes, unless the column makes both the same; the rest stays.
        env.sql("CREATE TABLE BEFORE AS SELECT ID, DATE_INSERTED FROM BACKLOG");
        for ((_, date), id) in dates.iter().zip(1..) {
            env.sql(&format!("UPDATE BACKLOG SET DATE_INSERTED = {date} WHERE ID = {id}"));
        }
        std::fs::write(&go, "").unwrap();
        assert!(child.wait_with_output().unwrap().status.success());
        let wrong = env.query(
            "SELECT ID, STATUS FROM BACKLOG JOIN BEFORE USING (ID) \
             WHERE (typeof(BACKLOG.DATE_INSERTED) = typeof(BEFORE.DATE_INSERTED) \
               AND hex(BACKLOG.DATE_INSERTED) = hex(BEFORE.DATE_INSERTED)) <> (STATUS = 'SUCCESS')",
        );
        assert_eq!(wrong, "", "{column}");
        assert!(env.count("SUCCESS") < 20, "{column}");
    }
}

#[test]
fn a_pass_waits_for_a_lock_and_loses_no_outcome() {
    for journal in ["wal", "delete"] {
        let env = TestEnv::new();
        env.query(&format!("PRAGMA journal_mode = {journal}"));
        env.insert(3, MIDNIGHT);
        let began = env.path("began");
        let locker = env.connection();
        let script = format!("touch {}; sleep 0.2", began.display());
        let child =
            env.spawn(&format!("process --ndays 1 --now @{MIDNIGHT} --jobs 3 -- {}", sh(&script)));
        wait_until("a handler begins", exists(&began));
        locker.execute_batch("BEGIN IMMEDIATE").unwrap();
        // Longer than the handlers take: they end while the table is locked.
        std::thread::sleep(Duration::from_millis(500));
        locker.execute_batch("ROLLBACK").unwrap();
        child.ran().exits(0);
        assert_eq!(env.count("SUCCESS"), 3, "{journal}");
    }
}

#[test]
fn a_full_disk_is_said_and_nothing_is_lost() {
    let env = TestEnv::with_records(200, MIDNIGHT);
    let handler = env.noting("exit 0");
    // No file may grow beyond 64 KiB: the write-ahead log does after some records.
    let script = format!(
        "trap '' XFSZ; ulimit -f 128; exec {} process --ndays 1 --now @{MIDNIGHT} -- {handler}",
        env!("CARGO_BIN_EXE_backlog")
    );
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &script]).env("BACKLOG_DB", env.db()).current_dir(env.path(""));
    command.ran().fails(1, &["could not write to", "test.db", "will be tried again: "]);
    let handled = env.handled().len();
    let settled = env.count("SUCCESS");
    assert!(settled > 0 && settled < 200, "{settled} settled");
    assert_eq!(handled as i64, settled + 1, "only the last outcome could not be written");
    // With room again, the rest is done.
    env.pass(&format!("--ndays 1 -- {handler}")).silent();
    assert_eq!(env.count("SUCCESS"), 200);
}

#[test]
fn a_record_that_fails_as_new_is_not_tried_again_by_the_same_pass() {
    for mode in ["--ndays 7", "--policy list:0s", "--progressive"] {
        let env = TestEnv::with_records(5, MIDNIGHT);
        let limited = format!("--max-records 100 -- {}", env.noting("exit 1"));
        env.run_at(MIDNIGHT + 1, &format!("process {mode} {limited}")).silent();
        assert_eq!(env.handled().len(), 5, "{mode:?}");
    }
}

#[test]
fn a_signal_while_the_database_is_locked_begins_nothing() {
    let env = TestEnv::with_records(40, MIDNIGHT);
    let pausing = env.pausing();
    let handled = env.path_text("handled");
    let script = format!("{}; echo $BACKLOG_ID >>{handled}", pausing.script);
    let args = format!("process --ndays 9999 -v --jobs 4 -- {}", sh(&script));
    let mut child = env.spawn_logging(&args);
    pausing.wait_for_begin();
    let connection = env.connection();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    pausing.let_go();
    let count = || std::fs::read_to_string(env.path("handled")).unwrap_or_default().lines().count();
    // The outcomes wait for the lock, and so do the next records.
    wait_until("four handlers end", || count() == 4);
    signal("-TERM", child.id());
    env.logs("stopping on signal 15");
    connection.execute_batch("ROLLBACK").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert_eq!(count(), 4);
    assert_eq!((env.count("SUCCESS"), env.count("NEW")), (4, 36));
}

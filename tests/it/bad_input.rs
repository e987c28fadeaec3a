//! Bad input: a clear message, the right exit code, and nothing lost.

use std::os::unix::fs::MetadataExt;
use std::process::Command;

use crate::testenv::*;

const PROCESS: &str = "process --ndays 1 -- true";

#[test]
fn a_database_must_be_named() {
    let env = TestEnv::empty();
    let output = env.command(PROCESS).env_remove("BACKLOG_DB").output().unwrap();
    ran(&output).fails(2, &["--db FILE", "BACKLOG_DB"]);
}

#[test]
fn a_missing_database_is_never_created() {
    let env = TestEnv::empty();
    for args in [PROCESS, "status", "list", "add {}"] {
        let ran = env.run(args).fails(1, &["no database at ", "test.db", "backlog init --db"]);
        assert_eq!(ran.stderr.lines().count(), 1);
        assert!(!env.db().exists());
    }
}

#[test]
fn what_is_no_database_is_said_to_be_none() {
    let env = TestEnv::empty();
    std::fs::create_dir(env.db()).unwrap();
    env.run(PROCESS).fails(1, &["test.db", "is a directory, not a database\n"]);
    let env = TestEnv::empty();
    std::fs::write(env.db(), [7; 5000]).unwrap();
    env.run(PROCESS).fails(1, &["could not read ", "test.db", "file is not a database"]);
    assert_eq!(std::fs::read(env.db()).unwrap(), [7; 5000]);
    let env = TestEnv::empty();
    std::fs::write(env.db(), "").unwrap();
    env.run(PROCESS).fails(1, &["no table \"BACKLOG\"", "tables here: none"]);
}

/// What a command says of a database that its user may only read; `None` where nobody can be another
/// user. Root may write everything.
fn by_nobody(env: &TestEnv, args: &str) -> Option<Ran> {
    let nobody = "65534";
    let script = format!(
        "chmod 755 {dir}; chmod 644 {db}; exec setpriv --reuid {nobody} --regid {nobody} --clear-groups \
         {program} {args}",
        dir = env.path("").display(),
        db = env.db().display(),
        program = env!("CARGO_BIN_EXE_backlog"),
    );
    let output =
        Command::new("sh").args(["-c", &script]).env("BACKLOG_DB", env.db()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("setpriv")
        || said.contains("not found")
        || said.contains("ermission denied") && !said.contains("backlog:")
    {
        skipped(&format!("a read-only database as another user: {said}"));
        return None;
    }
    Some(ran(&output))
}

#[test]
fn a_read_only_database_is_found_out_before_the_first_handler() {
    let env = TestEnv::with_schema(SCHEMA);
    env.insert(2, MIDNIGHT);
    let (state, touch) = ("/tmp/backlog-test-state-of-nobody", env.path_text("ran"));
    let args = format!("process --now @{MIDNIGHT} --ndays 1 --state-dir {state} -- touch {touch}");
    let ran = by_nobody(&env, &args);
    let _ = std::fs::remove_dir_all(state);
    let Some(ran) = ran else { return };
    ran.fails(1, &["could not write to", "readonly database", "must be writable for this user"]);
    assert_eq!(env.count("NEW"), 2);
    assert!(!env.path("ran").exists());
}

#[test]
fn who_may_not_make_files_beside_a_database_in_wal_mode_is_told_so() {
    let env = TestEnv::new();
    let Some(ran) = by_nobody(&env, "status") else { return };
    let owner = std::fs::metadata(env.db()).unwrap().uid();
    let says = format!("SQLite must create files beside it: run this as user {owner}, the owner");
    ran.fails(1, &["could not read", &says]);
}

#[test]
fn a_state_directory_that_cannot_be_made_is_named_with_its_owner_if_that_is_why() {
    let env = TestEnv::new();
    env.write("file", "");
    let said = |dir: &str| {
        env.run(&format!("process --ndays 1 --state-dir {} -- true", quoted(dir))).exits(1).stderr
    };
    let not_a_directory = "not a directory";
    for (dir, says) in [
        ("file/state", format!("could not open file/state: {not_a_directory}\n")),
        ("file", format!("could not open file: {not_a_directory}\n")),
    ] {
        assert_eq!(said(dir), format!("backlog: {says}"));
    }
    // Where not even root may make a directory.
    let said = said("/sys/state");
    for says in [
        "could not open /sys/state: ",
        "; /sys belongs to user ",
        ": run it as that user, or give every line of this table the same --state-dir, because ",
    ] {
        assert_contains(&said, says);
    }
    assert_eq!(said.matches("/sys/state").count(), 1, "{said}");
}

#[test]
fn a_missing_table_or_column_is_named_with_what_there_is() {
    let env = TestEnv::with_schema(
        "CREATE TABLE orders (ID, STATE); CREATE VIEW pending AS SELECT * FROM orders",
    );
    env.run(PROCESS).fails(1, &["no table \"BACKLOG\"; tables here: orders"]);
    let with = |table: &str| with_options(&format!("--table {}", quoted(table)), PROCESS);
    env.run(&with("orders")).fails(1, &["table orders has no column STATUS; it has ID, STATE"]);
    env.run(&with("pending")).fails(1, &["pending is a view; name the table behind it\n"]);
    for injection in ["orders; DROP TABLE orders", "orders\"; DROP TABLE orders; --", "'", "\"", ""]
    {
        env.run(&with(injection)).fails(1, &["no table "]);
    }
    assert_eq!(env.query("SELECT name FROM sqlite_master WHERE name = 'orders'"), "orders");
}

#[test]
fn a_table_may_have_any_name() {
    for name in ["orders; DROP TABLE x", "it's", "select", "a\"b", "ünï😀", "a b", "x/../y"] {
        let env = TestEnv::empty();
        let sql_name = format!("\"{}\"", name.replace('"', "\"\""));
        env.sql(&format!("CREATE TABLE {sql_name} (id INTEGER, status TEXT, date_inserted TEXT, \"Failures\" INT, last_failure)"));
        env.sql(&format!("INSERT INTO {sql_name} VALUES (1, 'NEW', '2026-11-21', NULL, NULL)"));
        let args = format!("process --table {} --fibonacci -- true", quoted(name));
        env.run_at(MIDNIGHT, &args).silent();
        assert_eq!(
            env.query(&format!("SELECT * FROM {sql_name}")),
            "1|SUCCESS|2026-11-21||",
            "{name}"
        );
        env.run(&format!("status --table {}", quoted(name))).success();
    }
}

#[test]
fn ids_may_be_any_integer_or_text() {
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (ID PRIMARY KEY, STATUS, DATE_INSERTED) WITHOUT ROWID",
    );
    let texts = ["it''s", "a\"b", "two\nlines", "😀", "", "7", "../x", "{ID}", "-n", "$(id)"];
    for id in texts.map(|text| format!("'{text}'")).iter().map(String::as_str).chain([
        "7",
        "0",
        "-1",
        "9223372036854775807",
        "-9223372036854775808",
    ]) {
        env.sql(&format!("INSERT INTO BACKLOG VALUES ({id}, 'NEW', '2026-11-21')"));
    }
    let handler = env.script("handler", "printf '%s\\n' \"$BACKLOG_ID\" >>ids");
    env.pass(&format!("--ndays 1 --jobs 3 -- {handler}")).silent();
    assert_eq!(env.count("SUCCESS"), 15);
    let mut ids: Vec<_> = env.read("ids").lines().map(String::from).collect();
    ids.sort();
    let mut expected: Vec<String> =
        texts.join("\n").replace("''", "'").lines().map(String::from).collect();
    expected
        .extend(["7", "0", "-1", "9223372036854775807", "-9223372036854775808"].map(String::from));
    expected.sort();
    assert_eq!(ids, expected);
    let listed = env.run("list").success().stdout;
    assert_eq!(listed.lines().count(), 16, "an id stays on its line\n{listed}");
}

#[test]
fn ids_that_name_no_single_record_are_reported_and_left_alone() {
    let env = TestEnv::with_schema("CREATE TABLE BACKLOG (ID, STATUS, DATE_INSERTED)");
    env.sql("INSERT INTO BACKLOG VALUES (1, 'NEW', '2026-11-21'), (7, 'NEW', '2026-11-21'), (7, 'ERROR', '2026-11-21'), (NULL, 'NEW', '2026-11-21'), (1.5, 'NEW', '2026-11-21'), (CAST(x'ff' AS TEXT), 'NEW', '2026-11-21')");
    let ran = env.run_at(MIDNIGHT, &with_options("-v", PROCESS)).exits(1);
    for says in [
        "not tried: 1 record with an id that several rows have: 7",
        "its id is NULL",
        "its id is a Real",
        "its id is not UTF-8",
    ] {
        assert_contains(&ran.stderr, says);
    }
    let rows = env.query("SELECT DISTINCT STATUS FROM BACKLOG WHERE ID IS NOT 1 ORDER BY 1");
    assert_eq!(rows, "ERROR\nNEW");
    assert_eq!(env.count("SUCCESS"), 1);
}

#[test]
fn messages_show_values_as_sql_spells_them_and_cut_what_is_too_long() {
    let env =
        TestEnv::with_schema("CREATE TABLE BACKLOG (ID, STATUS DEFAULT 'NEW', DATE_INSERTED)");
    let long = "é".repeat(201);
    env.sql(&format!(
        "INSERT INTO BACKLOG (ID, DATE_INSERTED) VALUES ('{long}', '2026-11-21'), (7, 'soon')"
    ));
    let ran = env.pass("--ndays 1 -v -- true").success();
    let cut = format!("{}...", "é".repeat(200));
    assert_eq!(
        ran.stderr,
        format!(
            "backlog: warning: 1 pending record is not tried, because its DATE_INSERTED cannot be \
             read as a date: 7 with 'soon'\n\
             backlog: info: processing record {cut}\n\
             backlog: info: record {cut} succeeded\n"
        )
    );
    for args in ["list", "list --json"] {
        assert_contains(&env.run(args).success().stdout, &long);
    }
    for (id, shown) in [("2.0", "2.0"), ("NULL", "NULL")] {
        env.sql(&format!("DELETE FROM BACKLOG; INSERT INTO BACKLOG (ID) VALUES ({id})"));
        let says = format!(
            "backlog: warning: a record is left out, because its ID is {shown}\n\
             backlog: 1 record left out, because the id is not usable; `backlog check` names one\n"
        );
        assert_eq!(env.run("list -v").success().stderr, says);
    }
}

#[test]
fn dates_in_any_spelling_are_instants_and_garbage_is_reported() {
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS DEFAULT 'NEW', DATE_INSERTED)",
    );
    // The window of one day begins at 2026-11-20T00:00:00Z.
    let within = [
        "'2026-11-20'",
        "'2026-11-20 00:00:00'",
        "'2026-11-20T02:00:00+02:00'",
        "'2026-11-19T19:00:00-0500'",
        "'2026-11-20 00:00:00 UTC'",
        "1795132800",
        "1795132800000",
        "1795132800.5",
        "1795132800000000",
        "1795132800000000000",
        "20261120000000",
        "'20261120000000'",
        "'2030-01-01'",
    ];
    let before = [
        "'2026-11-19T23:59:59Z'",
        "'2026-11-20T01:59:59+02:00'",
        "'2026-11-19'",
        "1795132799",
        "1795132799999",
        "1795132799999999999",
        "20261119235959",
        "'20261119235959'",
        "'1999-12-31'",
    ];
    let garbage = [
        "NULL",
        "'soon'",
        "''",
        "'20261121'",
        "'2026-02-30'",
        "'2026-99-99'",
        "20261121",
        "20261321101500",
        "'20261321101500'",
        "0",
        "x'00'",
        "'1795132800'",
        "'0000-00-00'",
        "' 2026-11-21T00:00:00Z'",
        "char(9) || '2026-11-21'",
    ];
    for date in within.iter().chain(&before).chain(&garbage) {
        env.sql(&format!("INSERT INTO BACKLOG (DATE_INSERTED) VALUES ({date})"));
    }
    let ran = env.run_at(MIDNIGHT, &with_options("-v", PROCESS)).success();
    let tried = env.query("SELECT ID FROM BACKLOG WHERE STATUS = 'SUCCESS' ORDER BY ID");
    assert_eq!(tried, (1..=within.len()).map(|id| id.to_string()).collect::<Vec<_>>().join("\n"));
    let undated = json(&env.run_at(MIDNIGHT, "status --json --ndays 1").success().stdout);
    assert_eq!(undated["statuses"]["NEW"]["by_age"]["undated"], garbage.len());
    // 2026-02-30 sorts among the old dates; status counts it.
    let says = format!(
        "{} pending records are not tried, because their DATE_INSERTED cannot be read",
        garbage.len() - 1
    );
    assert_contains(&ran.stderr, &says);
}

#[test]
fn garbage_in_the_counters_counts_as_due() {
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS DEFAULT 'ERROR', DATE_INSERTED, FAILURES, LAST_FAILURE)",
    );
    env.sql("INSERT INTO BACKLOG (FAILURES, LAST_FAILURE) VALUES (NULL, NULL), (3, NULL), (3, 'soon'), (-5, '2026-11-20'), ('many', '2026-11-20'), (9999999999, '2026-10-01'), (2.5, '2026-11-20'), (99, '2026-11-20')");
    env.pass(&format!("--fibonacci --order oldest -- {}", env.noting("exit 0"))).silent();
    // Only number 8 waits: 30 days after its last failure, and one with more does not overflow.
    assert_eq!(env.handled(), ["1", "2", "3", "4", "5", "6", "7"]);
}

#[test]
fn numbers_that_make_no_sense_are_usage_errors() {
    let env = TestEnv::new();
    for ndays in ["0", "-1", "nan", "1e300", "inf", "", "a", "36501"] {
        env.run(&format!("process --ndays {} -- true", quoted(ndays)))
            .fails(2, &["--ndays", "36500"]);
    }
    for (args, says) in [
        (
            "process -- true",
            "no schedule: use one of --ndays, --fibonacci, --policy, --progressive",
        ),
        ("process --ndays 1", "write the command after `--`"),
        (
            "process --ndays 1 --fibonacci -- true",
            "--ndays and --fibonacci are two schedules: choose one\n",
        ),
        (
            "status --progressive --policy even",
            "--policy and --progressive are two schedules: choose one\n",
        ),
        (
            "process --ndays 1 --post http://h/ -- true",
            "--post and a command are two handlers: choose one\n",
        ),
        ("process --ndays 1 --min-ndays 1 -- true", "--min-ndays must be less than --ndays"),
        (
            "process --ndays 1 --set polcy=even -- true",
            "no key \"polcy\"; `backlog help backlog.toml` lists all keys",
        ),
        ("process --ndays 1 --set id -- true", "write KEY=VALUE"),
        ("process --set ndays=soon -- true", "--set ndays=soon: not a number of days"),
        ("process --fibonacci --every 1500ms -- true", "whole seconds, from 1s"),
        ("process --ndays 1 --jobs 0 -- true", "a whole number from 1 to 1,024\n"),
        ("process --ndays 1 --max-attempts 0 -- true", "must be at least 1\n"),
        ("process --ndays 1 --max-records 0 -- true", "must be at least 1\n"),
        ("process --ndays 1 --timeout soon -- true", ", or none for no limit\n"),
        ("process --ndays 1d -- true", "days from 0 to 36500: write 1\n"),
        ("process --ndays 12h -- true", "days from 0 to 36500: write 0.5\n"),
        ("process --ndays 1 --max-runtime 4m30 -- true", "write 30s, 4m30s, 12h or"),
        ("process --fibonacci --every 5 -- true", "write 5s, 5m or 5h\n"),
        ("process --policy constant:delay=1h5 -- true", "write 30s, 4m30s, 12h or"),
        ("process --fibonacci --max-age 30 -- true", "30days, 30h, 30m or 30s\n"),
        ("archive --older-than 3", "write 3days, 3h, 3m or 3s\n"),
        ("process --fibonacci --spread 0.5 -- true", "a whole number from 0% to 100%\n"),
        ("process --fibonacci --spread 101 -- true", "from 0% to 100%\n"),
        (
            "list --set status={column=state}",
            "{column=state} is not TOML: put each text in quotes, as in {column=\"state\"}",
        ),
        ("list --set id=[a,b]", "[a,b] is not TOML: put each text in quotes"),
        ("process --ndays 1 --grace x -- true", "write 30s, 4m30s, 12h or"),
        ("list --limit four", "'four' for '--limit <N>': write a whole number, at least 1"),
        ("simulate --policy even --records four", "'four' for '--records <N>'"),
        ("process --ndays 1 --order random -- true", "newest, oldest"),
        ("list --status DEAD", "NEW, ERROR, SUCCESS, ARCHIVED"),
        ("list --max-age 1day", "--max-attempts and --max-age require one of --ndays"),
        ("status --max-attempts 3", "--max-attempts and --max-age require one of --ndays"),
        ("status --now yesterday", "2026-11-21T03:40:00Z"),
        ("frobnicate", "unrecognized subcommand"),
    ] {
        env.run(args).fails(2, &[says]);
    }
}

#[test]
fn a_table_that_refuses_a_status_stops_the_pass_before_the_first_handler() {
    for (refusal, says) in [
        (
            "STATUS TEXT CHECK (STATUS IN ('NEW', 'ERROR'))",
            "refuses STATUS = 'SUCCESS': CHECK constraint failed",
        ),
        (
            "STATUS TEXT CHECK (STATUS IN ('NEW', 'SUCCESS'))",
            "refuses STATUS = 'ERROR': CHECK constraint failed",
        ),
        (
            "STATUS TEXT CHECK (STATUS <> 'ARCHIVED')",
            "refuses STATUS = 'ARCHIVED': CHECK constraint failed",
        ),
    ] {
        let env = TestEnv::with_schema(&format!(
            "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, {refusal}, DATE_INSERTED TEXT, FAILURES INT, LAST_FAILURE TEXT)"
        ));
        env.sql("INSERT INTO BACKLOG VALUES (1, 'NEW', '2026-11-21', 0, NULL), (3, 'NEW', '2026-11-21', 0, NULL)");
        let handler = env.noting("exit 0");
        let args = format!("process --fibonacci --max-attempts 3 -- {handler}");
        env.run_at(MIDNIGHT, &args).fails(1, &[says, "no handler was started"]);
        assert_eq!(env.handled(), [""; 0]);
        assert_eq!(env.statuses(), "1|NEW\n3|NEW");
    }
}

#[test]
fn a_table_that_cannot_be_written_at_all_is_named_with_the_database() {
    let plain = "STATUS DEFAULT 'NEW'";
    let trigger =
        |body: &str| format!("CREATE TRIGGER t AFTER UPDATE ON BACKLOG BEGIN {body}; END");
    for (status, more, says) in [
        ("STATUS AS ('NEW')", String::new(), "cannot UPDATE generated column \"STATUS\""),
        (plain, trigger("INSERT INTO nonesuch VALUES (1)"), "no such table: main.nonesuch"),
        (plain, trigger("SELECT nonesuch(1)"), "no such function: nonesuch"),
        (plain, trigger("UPDATE BACKLOG SET NONESUCH = 1"), "no such column: NONESUCH"),
    ] {
        let env = TestEnv::with_schema(&format!(
            "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, {status}, DATE_INSERTED); \
             INSERT INTO BACKLOG (ID, DATE_INSERTED) VALUES (3, '2026-11-21'); {more}"
        ));
        let says = format!(
            "backlog: record 3 is not tried: could not write to {}: table BACKLOG refuses STATUS = \
             'SUCCESS': {says}; no handler was started\n",
            env.db().canonicalize().unwrap().display()
        );
        assert_eq!(env.run_at(MIDNIGHT, PROCESS).exits(1).stderr, says);
    }
}

#[test]
fn a_trigger_that_refuses_one_record_is_named_and_holds_up_no_other() {
    let env = TestEnv::with_records(5, MIDNIGHT);
    env.sql("CREATE TRIGGER no_three BEFORE UPDATE ON BACKLOG WHEN new.ID = 3 AND new.STATUS = 'SUCCESS' BEGIN SELECT raise(ABORT, 'not this one'); END");
    let says =
        ["record 3 is not tried", "STATUS = 'SUCCESS': not this one; no handler was started"];
    env.run_at(MIDNIGHT, PROCESS).fails(1, &says);
    assert_eq!(env.statuses(), "1|SUCCESS\n2|SUCCESS\n3|NEW\n4|SUCCESS\n5|SUCCESS");
    env.sql("UPDATE BACKLOG SET STATUS = 'NEW', FAILURES = 0");
    env.pass("--fibonacci --jobs 2 -- true").fails(1, &says);
    assert_eq!(env.query("SELECT ID FROM BACKLOG WHERE FAILURES > 0"), "");
    assert_eq!(env.count("SUCCESS"), 4);
}

#[test]
fn a_trigger_that_fails_on_one_record_takes_no_other_outcome_with_it() {
    for (failing, says) in [
        ("abs(-9223372036854775807 - 1)", "integer overflow"),
        ("json('{')", "malformed JSON"),
        ("zeroblob(9999999999)", "string or blob too big"),
        ("raise(ROLLBACK, 'not this one')", "not this one"),
    ] {
        let env = TestEnv::with_records(5, MIDNIGHT);
        env.sql(&format!(
            "CREATE TRIGGER no AFTER UPDATE ON BACKLOG WHEN new.ID = 3 BEGIN SELECT {failing}; END"
        ));
        let says = format!("STATUS = 'ERROR': {says}; no handler was started");
        env.pass("--fibonacci -- true").fails(1, &["record 3 is not tried", &says]);
        assert_eq!(
            env.statuses(),
            "1|SUCCESS\n2|SUCCESS\n3|NEW\n4|SUCCESS\n5|SUCCESS",
            "{failing}"
        );
    }
}

#[test]
fn a_table_that_silently_keeps_a_row_as_it_is_counts_as_refusing() {
    let ignore = |when: &str| {
        let env = TestEnv::with_records(3, MIDNIGHT);
        env.sql(&format!(
            "CREATE TRIGGER no BEFORE UPDATE ON BACKLOG WHEN {when} BEGIN SELECT raise(IGNORE); END"
        ));
        env
    };
    // For every record: found out before the first handler.
    for status in ["SUCCESS", "ERROR", "ARCHIVED"] {
        let env = ignore(&format!("new.STATUS = '{status}'"));
        let handler = env.noting("exit 0");
        let says = format!(
            "table BACKLOG refuses STATUS = '{status}': \
             the table ignored the change; no handler was started"
        );
        let args = format!("process --ndays 1 --max-attempts 2 -- {handler}");
        env.run_at(MIDNIGHT, &args).fails(1, &[&says]);
        assert_eq!(env.handled(), [""; 0]);
        assert_eq!(env.statuses(), "1|NEW\n2|NEW\n3|NEW");
    }
    // For one: not taken for a change by the application.
    let env = ignore("new.STATUS = 'SUCCESS' AND new.ID = 2");
    let says = "STATUS = 'SUCCESS': the table ignored the change; no handler was started";
    env.run_at(MIDNIGHT, PROCESS).fails(1, &["record 2 is not tried", says]);
    assert_eq!(env.statuses(), "1|SUCCESS\n2|NEW\n3|SUCCESS");
}

#[test]
fn a_joblog_that_cannot_be_opened_is_found_out_before_the_first_handler() {
    let env = TestEnv::with_records(1, MIDNIGHT);
    env.pass("--ndays 1 --joblog no/such/dir -- true")
        .fails(1, &["could not open the joblog no/such/dir"]);
    assert_eq!(env.count("NEW"), 1);
    env.pass("--ndays 1 --joblog /dev/full -- true")
        .fails(1, &["the records are settled, but the joblog is incomplete"]);
    assert_eq!(env.count("SUCCESS"), 1);
}

#[test]
fn status_and_dates_of_odd_types_are_read_as_they_are() {
    let env = TestEnv::with_schema(
        "CREATE TABLE backlog (id INTEGER PRIMARY KEY, status DATETIME, date_inserted TIMESTAMP NOT NULL, failures BIGINT, last_failure BIGINT)",
    );
    env.sql("INSERT INTO backlog VALUES (1, 'NEW', 1795219200, 0, NULL), (2, NULL, 1795219200, 0, NULL), (3, 5, 1795219200, 0, NULL)");
    env.pass("--fibonacci -- false").silent();
    assert_eq!(
        env.query("SELECT * FROM backlog"),
        "1|ERROR|1795219200|1|1795219200\n2||1795219200|0|\n3|5|1795219200|0|"
    );
    env.run_at(MIDNIGHT + 60, "process --fibonacci -- true").silent();
    assert_eq!(
        env.query("SELECT * FROM backlog WHERE id = 1"),
        "1|SUCCESS|1795219200|1|1795219200"
    );
}

#[test]
fn what_restricts_a_connection_and_cannot_be_obeyed_is_no_command() {
    let env = TestEnv::empty();
    let mut command = env.command(PROCESS);
    let command = command.env("BACKLOG_DB", "postgres://u@localhost:1/d");
    command
        .env("PGREQUIREAUTH", "scram-sha-256")
        .ran()
        .fails(2, &["PGREQUIREAUTH is not supported; unset it, or use one of PGHOST, "]);
}

#[test]
fn a_name_in_double_quotes_that_no_column_has_is_no_text() {
    let env = TestEnv::with_records(1, MIDNIGHT);
    for condition in ["\"nosuch\" > 1", "STATUS = \"NEWW\""] {
        let args = format!("process --ndays 1 --where {} -- true", quoted(condition));
        env.run_at(MIDNIGHT, &args).fails(1, &["is not a condition in SQL: no such column"]);
    }
    let args = ["process", "--ndays", "1", "--where", "\"STATUS\" = 'NEW'", "--", "true"];
    env.run_at(MIDNIGHT, &args).silent();
    assert_eq!(env.count("SUCCESS"), 1);
}

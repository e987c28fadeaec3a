//! Records that get nowhere, whatever their pass does: each costs its turn, and the good ones behind
//! them are handled in the same pass, in every mode.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use crate::testenv::*;
use test_support::cluster::{Database, cluster};

const HOUR_AGO: i64 = MIDNIGHT - 3_600;

/// Schedules and limits of passes.
const MODES: [&str; 7] = [
    "--ndays 1",
    "--ndays 1 --max-records 50",
    "--ndays 1 --drain",
    "--fibonacci",
    "--fibonacci --drain",
    "--progressive",
    "--policy constant:delay=5m --by-age --drain",
];

fn ids(env: &TestEnv, status: &str) -> String {
    let sql = "SELECT coalesce(group_concat(ID, ' '), '') FROM (SELECT ID FROM BACKLOG \
               WHERE STATUS = '";
    env.query(&format!("{sql}{status}' ORDER BY ID)"))
}

/// Has SQLite not let these rows be written.
fn freeze(env: &TestEnv, which: &str) {
    env.sql(&format!(
        "CREATE TRIGGER frozen BEFORE UPDATE ON BACKLOG WHEN old.ID {which}
         BEGIN SELECT RAISE(ABORT, 'frozen'); END"
    ));
}

/// A table that does not let these rows be charged, which does not show before that.
fn with_uncountable(count: i64, which: &str) -> TestEnv {
    let failures = "FAILURES      INTEGER NOT NULL";
    assert_contains(SCHEMA, failures);
    let checked = format!("{failures} CHECK (FAILURES <> 7)");
    let env = TestEnv::with_schema(&SCHEMA.replace(failures, &checked));
    env.insert(count, HOUR_AGO);
    env.sql(&format!("UPDATE BACKLOG SET FAILURES = 6 WHERE ID {which}"));
    env
}

/// Breaks the chain of pages that holds what is too long for a row's own page.
fn damage(env: &TestEnv, letter: u8) {
    const PAGE: usize = 4_096;
    let file = OpenOptions::new().read(true).write(true).open(env.db()).unwrap();
    let bytes = std::fs::read(env.db()).unwrap();
    let is_chained = |page: &[u8]| page[4..].iter().all(|byte| *byte == letter);
    let pages = bytes.chunks(PAGE).enumerate().filter(|(_, page)| is_chained(page));
    let pages: Vec<_> = pages.map(|(number, _)| number).collect();
    assert!(!pages.is_empty());
    for number in pages {
        file.write_all_at(&[255; 4], (number * PAGE) as u64).unwrap();
    }
}

#[test]
fn a_damaged_row_does_not_keep_the_others_from_being_handled() {
    for mode in MODES {
        let env = TestEnv::new();
        env.sql("PRAGMA journal_mode = delete");
        env.insert(4, HOUR_AGO);
        env.sql(
            "UPDATE BACKLOG SET PAYLOAD = '\"' || replace(hex(zeroblob(20000)), '0', 'X') || '\"' WHERE ID = 2",
        );
        damage(&env, b'X');
        let says = ["record 2 is not tried: it could not be read", "malformed"];
        env.pass(&format!("{mode} -- true")).fails(1, &says);
        assert_eq!(
            env.query("SELECT count(*) FROM BACKLOG WHERE STATUS = 'SUCCESS'"),
            "3",
            "{mode:?}"
        );
    }
}

/// Without an index a search reads the rows themselves, and each that comes before what is due.
#[test]
fn a_damaged_row_is_searched_around() {
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, PAYLOAD, STATUS, DATE_INSERTED)",
    );
    for id in 1..=4 {
        env.sql(&format!(
            "INSERT INTO BACKLOG VALUES ({id}, CASE {id} WHEN 2 THEN
             replace(hex(zeroblob(20000)), '0', 'X') END, 'NEW', '2026-11-20T23:00:00Z')"
        ));
    }
    damage(&env, b'X');
    let says = ["could not read row 2 of table BACKLOG", "could not read all of"];
    env.pass("--ndays 1 -- true").fails(1, &says);
    assert_eq!(env.query("SELECT ID FROM BACKLOG WHERE ID <> 2 AND rowid IN (1, 3, 4)"), "1\n3\n4");
    let done = "SELECT count(*) FROM (SELECT STATUS FROM BACKLOG WHERE ID IN (1, 3, 4)) \
                WHERE STATUS = 'SUCCESS'";
    assert_eq!(env.query(done), "3");
}

#[test]
fn rows_that_cannot_be_written_do_not_keep_the_others_from_being_handled() {
    for mode in MODES {
        let env = TestEnv::new();
        // The newest go first.
        env.insert(5, HOUR_AGO);
        freeze(&env, "IN (3, 4, 5)");
        let handler = env.noting("");
        let says =
            ["record 5 is not tried", "STATUS = 'ERROR': frozen", "2 more records: the same"];
        env.pass(&format!("{mode} -- {handler}")).fails(1, &says);
        assert_eq!(ids(&env, "SUCCESS"), "1 2", "{mode:?}");
        assert_eq!(env.handled(), ["2", "1"], "no handler runs for nothing: {mode:?}");
    }
}

/// Their attempt would begin in the transaction that writes the outcome of another.
#[test]
fn rows_in_between_that_cannot_be_written_do_not_keep_the_others_from_being_handled() {
    for mode in MODES {
        let env = with_uncountable(8, "IN (2, 4, 5, 6)");
        let says = ["record 6 is not tried: it cannot be set to ERROR: CHECK constraint failed"];
        env.pass(&format!("{mode} -- true")).fails(1, &says);
        assert_eq!(ids(&env, "SUCCESS"), "1 3 7 8", "{mode:?}");
    }
}

#[test]
fn a_row_whose_outcome_is_refused_does_not_stop_the_pass() {
    let env = TestEnv::minimal();
    env.insert(3, HOUR_AGO);
    env.sql(
        "CREATE TRIGGER frozen BEFORE UPDATE ON BACKLOG WHEN old.ID = 2 AND new.STATUS = 'SUCCESS'
         BEGIN SELECT RAISE(ABORT, 'frozen'); END",
    );
    let says = ["record 2 is not tried", "STATUS = 'SUCCESS': frozen; no handler was started"];
    env.pass("--ndays 1 -- true").fails(1, &says);
    assert_eq!((ids(&env, "SUCCESS"), ids(&env, "NEW")), ("1 3".into(), "2".into()));
}

#[test]
fn ten_in_a_row_end_a_pass_and_the_next_one_begins_behind_them() {
    for mode in MODES {
        let env = TestEnv::with_records(26, HOUR_AGO);
        freeze(&env, "> 1");
        let says = ["10 records in a row got nowhere, the last one is 17", "this pass ends"];
        env.pass(&format!("{mode} -- true")).fails(1, &says);
        env.pass(&format!("{mode} -- true")).fails(1, &["the last one is 7:"]);
        assert_eq!(ids(&env, "SUCCESS"), "", "{mode:?}");
        env.pass(&format!("{mode} -- true")).exits(1);
        assert_eq!(ids(&env, "SUCCESS"), "1", "{mode:?}");
    }
}

/// Exits 127 for records as a shell does whose command is not there.
fn missing_for(env: &TestEnv, ids: &str) -> String {
    env.noting(&format!("case $BACKLOG_ID in {ids}) exit 127;; esac"))
}

#[test]
fn a_handler_that_cannot_be_run_for_some_records_costs_those_an_attempt() {
    for mode in MODES {
        let env = TestEnv::with_records(5, HOUR_AGO);
        let handler = missing_for(&env, "3|4|5");
        env.pass(&format!("{mode} -- {handler}")).success();
        assert_eq!(env.handled(), ["5", "4", "3", "2", "1"], "{mode:?}");
        assert_eq!((ids(&env, "SUCCESS"), ids(&env, "ERROR")), ("1 2".into(), "3 4 5".into()));
        let row = "SELECT DISTINCT FAILURES, LAST_ERROR FROM BACKLOG WHERE STATUS = 'ERROR'";
        assert_eq!(env.query(row), "1|the handler exited with 127: cannot be run");
    }
}

#[test]
fn a_handler_that_can_be_run_for_no_record_leaves_them_as_they_were() {
    for mode in MODES {
        let env = TestEnv::with_records(3, HOUR_AGO);
        let handler = missing_for(&env, "*");
        let says = ["record 3 stays as it was: the handler exited with 127", "2 more records"];
        env.pass(&format!("{mode} -- {handler}")).fails(1, &says);
        assert_eq!(env.handled(), ["3", "2", "1"], "{mode:?}");
        assert_eq!(
            env.query("SELECT DISTINCT STATUS, FAILURES, LAST_ERROR FROM BACKLOG"),
            "NEW|0|"
        );
    }
}

#[test]
fn a_handler_that_is_missing_for_ten_records_ends_the_pass() {
    let env = TestEnv::with_records(12, HOUR_AGO);
    let handler = missing_for(&env, "*");
    for last in ["3", "5"] {
        let says = format!("10 records in a row got nowhere, the last one is {last}:");
        env.pass(&format!("--ndays 1 -- {handler}")).fails(1, &[&says]);
        assert_eq!(env.handled().len(), 10);
    }
    assert_eq!(env.count("NEW"), 12);
}

#[test]
fn an_error_that_the_table_refuses_is_left_out() {
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS TEXT NOT NULL DEFAULT 'NEW',
           DATE_INSERTED TEXT, FAILURES INTEGER NOT NULL DEFAULT 0, LAST_FAILURE TEXT,
           LAST_ERROR TEXT CHECK (length(LAST_ERROR) < 10))",
    );
    env.insert(3, HOUR_AGO);
    let handler = env.script(
        "handler",
        "[ $BACKLOG_ID = 1 ] || echo $BACKLOG_ID: no route at all >&2
        [ $BACKLOG_ID = 1 ] && echo short >&2; exit 1",
    );
    env.pass(&format!("--fibonacci -- {handler}")).success();
    let rows = "SELECT ID, STATUS, FAILURES, LAST_ERROR FROM BACKLOG";
    assert_eq!(env.query(rows), "1|ERROR|1|short\n2|ERROR|1|\n3|ERROR|1|");
    let ran = env.run_at(MIDNIGHT + MINUTE, "process --fibonacci -- true");
    ran.success();
    assert_eq!(ids(&env, "SUCCESS"), "1 2 3");
}

#[test]
fn an_error_in_letters_that_the_database_has_not_is_left_out() {
    let Some(cluster) = cluster() else { return };
    let database = cluster.database();
    database.sql(
        "CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0",
    );
    let latin = cluster.existing("latin");
    latin.sql(POSTGRES_SCHEMA);
    latin.sql("INSERT INTO backlog (date_inserted) VALUES ('2026-11-20T23:00:00Z'), ('2026-11-20T23:00:00Z')");
    let env = TestEnv::on(&latin);
    let handler = env.script("handler", "echo '→ no route' >&2; exit 1");
    env.pass(&format!("--fibonacci -- {handler}")).success();
    assert_eq!(
        latin.query("SELECT DISTINCT status, failures, last_error FROM backlog"),
        "ERROR|1|"
    );
    drop(latin);
}

#[test]
fn rows_that_share_an_id_are_an_error_at_the_end() {
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (ID INTEGER, STATUS TEXT, DATE_INSERTED TEXT);
         INSERT INTO BACKLOG VALUES (1, 'NEW', '2026-11-20T23:00:00Z'),
           (7, 'NEW', '2026-11-20T23:00:00Z'), (7, 'NEW', '2026-11-20T23:00:00Z')",
    );
    let says = ["not tried: 1 record with an id that several rows have: 7"];
    env.pass("--ndays 1 -- true").fails(1, &says);
    assert_eq!(env.query("SELECT STATUS FROM BACKLOG WHERE ID = 1"), "SUCCESS");
}

#[test]
fn a_column_that_is_added_while_handlers_run_costs_nothing() {
    let env = TestEnv::with_records(4, HOUR_AGO);
    let db = env.path_text("test.db");
    let alter = format!(
        "sqlite3 -cmd '.timeout 9000' {db} \"ALTER TABLE BACKLOG ADD COLUMN c$BACKLOG_ID TEXT\""
    );
    for schedule in ["--fibonacci", "--progressive"] {
        let handler = env.script("alter", &format!("[ $BACKLOG_ID -gt 2 ] && {alter}; exit 0"));
        env.pass(&format!("{schedule} -- {handler}")).silent();
        assert_eq!(env.count("SUCCESS"), 4);
        env.sql(
            "UPDATE BACKLOG SET STATUS = 'ERROR', FAILURES = 0; ALTER TABLE BACKLOG DROP COLUMN c3;
                 ALTER TABLE BACKLOG DROP COLUMN c4",
        );
    }
}

/// A server does not say why it leaves out a row that a policy hides from the update.
#[test]
fn rows_that_a_server_does_not_let_be_written_hold_up_no_other() {
    let Some(cluster) = cluster() else { return };
    for mode in MODES {
        let database = cluster.database();
        database.sql(POSTGRES_SCHEMA);
        database.sql(
            "INSERT INTO backlog (date_inserted) SELECT '2026-11-20T23:00:00Z'::timestamptz
             - n * interval '1 s' FROM generate_series(1, 5) n;
             CREATE FUNCTION frozen() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN IF old.id = 1 THEN RAISE 'frozen'; END IF; RETURN NULL; END $$;
             CREATE TRIGGER frozen BEFORE UPDATE ON backlog FOR EACH ROW
             WHEN (old.id < 4) EXECUTE FUNCTION frozen()",
        );
        let env = TestEnv::on(&database);
        let says = [
            "record 1 is not tried",
            "frozen",
            "record 2 is not tried",
            "the table ignored the change",
        ];
        env.pass(&format!("{mode} -- true")).fails(1, &says);
        let done = "SELECT string_agg(id::text, ' ' ORDER BY id) FROM backlog \
                    WHERE status = 'SUCCESS'";
        assert_eq!(database.query(done), "4 5", "{mode:?}");
    }
}

#[test]
fn what_the_table_itself_makes_of_a_charge_is_no_change_by_the_application() {
    for more in [
        // The condition reads a column that depends on the count of failures.
        "ALTER TABLE BACKLOG ADD COLUMN AVAIL AS (FAILURES < 3)",
        "ALTER TABLE BACKLOG ADD COLUMN AVAIL DEFAULT 1;
         CREATE TRIGGER t AFTER UPDATE OF FAILURES ON BACKLOG
         BEGIN UPDATE BACKLOG SET AVAIL = AVAIL + 1 WHERE ID = new.ID; END",
        "ALTER TABLE BACKLOG ADD COLUMN AVAIL DEFAULT 1;
         CREATE TRIGGER t AFTER UPDATE ON BACKLOG BEGIN UPDATE BACKLOG
         SET DATE_INSERTED = '2026-11-20T23:30:0' || new.FAILURES || 'Z' WHERE ID = new.ID; END",
    ] {
        let env = TestEnv::with_schema(
            "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS TEXT NOT NULL DEFAULT 'NEW',
             DATE_INSERTED TEXT, FAILURES INTEGER NOT NULL DEFAULT 0, LAST_FAILURE TEXT)",
        );
        env.sql(more);
        env.insert(2, HOUR_AGO);
        let handler = env.script("handler", "[ $BACKLOG_ID = 1 ]");
        let args = format!("process --fibonacci --where 'AVAIL > 0' -- {handler}");
        env.run_at(MIDNIGHT, &args).silent();
        let rows = env.query("SELECT ID, STATUS, FAILURES FROM BACKLOG");
        assert_eq!(rows, "1|SUCCESS|0\n2|ERROR|1", "{more}");
    }
}

/// Poisonous ones first, then good ones, some of them new and some failed before.
fn mixed(poison: &str) -> TestEnv {
    let env = TestEnv::with_records(40, HOUR_AGO);
    env.sql(&format!(
        "UPDATE BACKLOG SET STATUS = 'ERROR' WHERE ID {poison} AND ID % 3 = 0 OR ID IN (1, 3)"
    ));
    env
}

/// Passes until nothing good is left, and how many that took.
fn passes_until_all_is_done(env: &TestEnv, mode: &str, handler: &str, good: i64) -> usize {
    let done = || env.count("SUCCESS") == good;
    let passes = (0..40).take_while(|tick| {
        let args = format!("process {mode} {handler}");
        !done() && env.run_at(MIDNIGHT + tick * 5 * MINUTE, &args).exit.is_some()
    });
    let passes = passes.count();
    assert!(done(), "{mode:?}: {}", ids(env, "SUCCESS"));
    passes
}

#[test]
fn records_that_get_nowhere_come_behind_all_others_in_the_next_pass() {
    let limited = [
        "--ndays 365 --max-runtime 4m",
        "--ndays 365 --max-records 5",
        "--fibonacci --max-consecutive-failures 99",
        "--progressive --max-records 5",
        "--progressive --order oldest",
    ];
    for mode in MODES.iter().chain(&limited) {
        let env = mixed("> 5");
        freeze(&env, "> 5");
        let passes = passes_until_all_is_done(&env, mode, "-- true", 5);
        assert!(passes <= 8, "{passes} passes of {mode:?}");

        let env = mixed("> 5");
        let handler = missing_for(&env, "[6-9]|??");
        let passes = passes_until_all_is_done(&env, mode, &format!("-- {handler}"), 5);
        assert!(passes <= 30, "{passes} passes of {mode:?}");
    }
}

#[test]
fn records_that_end_every_co_process_come_behind_all_others_in_the_next_pass() {
    for mode in ["--ndays 365", "--fibonacci", "--progressive"] {
        for exit in ["1", "127"] {
            let env = mixed("> 35");
            let handler = format!(
                r#"read -r hello; while read -r line; do
                id=$(echo "$line" | sed 's/^{{"ID":\([0-9]*\),.*/\1/'); [ $id -gt 35 ] && exit {exit}
                echo "{{\"id\":$id,\"outcome\":\"success\"}}"; done"#
            );
            let words = format!("--stream --window 1 -- {}", env.script("co-process", &handler));
            let passes = passes_until_all_is_done(&env, mode, &words, 35);
            assert!(passes <= 4, "{passes} passes of {mode:?}");
        }
    }
}

/// Where new records use up what a pass may try, the failed ones are not begun with again.
#[test]
fn failed_records_go_on_where_they_were_whatever_becomes_of_new_ones() {
    const PASS: &str = "process --ndays 1 --max-records 1 --";
    let handled = |env: &TestEnv, handler: &str, passes: i64, before: &dyn Fn(i64)| {
        for number in 0..passes {
            before(number);
            env.run_at(MIDNIGHT + number, &format!("{PASS} {handler}"));
        }
        env.handled().join(" ")
    };

    let env = TestEnv::with_records(6, HOUR_AGO);
    env.sql("UPDATE BACKLOG SET STATUS = 'ERROR'");
    let handler = env.noting("[ $BACKLOG_ID -gt 6 ]");
    let before = |number| {
        if number % 2 == 1 {
            env.insert_one(10 + number, HOUR_AGO);
        }
    };
    assert_eq!(handled(&env, &handler, 10, &before), "6 11 5 13 4 15 3 17 2 19");

    // A new one that can never be run takes every second pass, and no place of the others.
    for new in [5, 3] {
        let env = TestEnv::with_records(5, HOUR_AGO);
        env.sql(&format!("UPDATE BACKLOG SET STATUS = 'ERROR' WHERE ID <> {new}"));
        let handler = env.noting(&format!("[ $BACKLOG_ID = {new} ] && exit 127; exit 1"));
        let failed = [5, 4, 3, 2, 1].into_iter().filter(|id| *id != new);
        let expected: Vec<_> = failed.map(|id| format!("{new} {id}")).collect();
        assert_eq!(handled(&env, &handler, 8, &|_| ()), expected.join(" "));
    }
}

#[test]
fn a_pass_that_got_stuck_stays_so_whatever_ends_later() {
    let env = with_uncountable(16, "BETWEEN 4 AND 15");
    // Record 16 is tried first and ends last, when those behind it have ended the pass: not so fast
    // that it has not begun by then.
    let handler = env.noting("[ $BACKLOG_ID = 16 ] || exit 0; sleep 2; exit 1");
    let args = format!("process --ndays 1 --jobs 2 --rate 20/s -- {handler}");
    env.run_at(MIDNIGHT, &args).fails(1, &["10 records in a row got nowhere"]);
    assert_eq!(env.handled(), ["16"]);
    env.run_at(MIDNIGHT + 1, &args);
    assert_eq!(ids(&env, "SUCCESS"), "1 2 3");
}

/// An application that has forgotten to end its transaction.
/// A server with new records 1 to `count`, the first one the newest, and a session that locks a row.
fn locked(count: u8, more: &str, row: u8) -> Option<(Database, impl Sized, TestEnv)> {
    let database = database()?;
    database.sql(POSTGRES_SCHEMA);
    database.sql(&format!(
        "INSERT INTO backlog (date_inserted) SELECT '2026-11-20T23:00:00Z'::timestamptz
         - n * interval '1 s' FROM generate_series(1, {count}) n; {more}"
    ));
    let mut holder = database.client();
    let lock = format!("BEGIN; SELECT 1 FROM backlog WHERE id = {row} FOR UPDATE");
    holder.batch_execute(&lock).unwrap();
    let env = TestEnv::on(&database);
    Some((database, holder, env))
}

#[test]
fn a_locked_row_without_attempts_left_holds_up_no_other() {
    let used_up = "INSERT INTO backlog (id, status, failures, last_failure, date_inserted) \
                   OVERRIDING SYSTEM VALUE \
                   VALUES (9, 'ERROR', 9, '2026-11-20T12:00:00Z', '2026-11-20T23:00:00Z')";
    let Some((database, _holder, env)) = locked(3, used_up, 9) else { return };
    let says = ["record 9 could not be set to ARCHIVED", "lock timeout"];
    env.pass("--fibonacci --max-attempts 5 -- true").fails(1, &says);
    let rows = database.query("SELECT id, status FROM backlog ORDER BY id");
    assert_eq!(rows, "1|SUCCESS\n2|SUCCESS\n3|SUCCESS\n9|ERROR");
}

#[test]
fn a_row_that_a_session_keeps_locked_holds_up_no_other() {
    let Some((database, _holder, env)) = locked(4, "", 2) else { return };
    let says = ["record 2 is not tried: it cannot be set to ERROR", "lock timeout"];
    env.pass("--fibonacci -- true").fails(1, &says);
    let rows = database.query("SELECT id, status FROM backlog ORDER BY id");
    assert_eq!(rows, "1|SUCCESS\n2|NEW\n3|SUCCESS\n4|SUCCESS");
}

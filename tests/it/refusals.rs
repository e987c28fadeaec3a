//! Outcomes that the table refuses: for one record alone, at the commit, for a while, or for good.

use std::fs;
use std::time::Duration;

use test_support::cluster::{Database, cluster};

use crate::testenv::*;

/// Tables that refuse the success of record 3 and accept the others: columns and
/// constraints, statements, and the mapping, which also depends on the engine's spelling of a trigger.
const ONE_ROW: [(&str, &str, &str); 10] = [
    ("k INT, UNIQUE (k, status)", "", ""),
    ("k INT", "CREATE UNIQUE INDEX one ON job (k) WHERE status = 'SUCCESS'", ""),
    ("k INT", "CREATE UNIQUE INDEX one ON job (k, (upper(status)))", ""),
    ("k INT, CHECK (k <> 30 OR status <> 'SUCCESS')", "", ""),
    ("k INT, FOREIGN KEY (k, status) REFERENCES legal (k, status)", "", ""),
    (
        "k INT, FOREIGN KEY (k, status) REFERENCES legal (k, status) DEFERRABLE INITIALLY DEFERRED",
        "",
        "",
    ),
    ("k INT", "TRIGGER", ""),
    (
        "k INT, g INT GENERATED ALWAYS AS (CASE status WHEN 'SUCCESS' THEN k - 30 ELSE 1 END) STORED
         CHECK (g <> 0)",
        "",
        "",
    ),
    (
        "k INT",
        "CREATE TABLE line (job INT REFERENCES job (id)); INSERT INTO line VALUES (3)",
        "on_success = 'delete'",
    ),
    ("k INT DEFAULT 1, n INT DEFAULT 0 CHECK (n < 5)", "", "on_success = { n = '{+1}' }"),
];

/// The statements that make such a table, with records 1 to 4 of which `k` is ten times the id, and a
/// finished record that has the `k` of record 3.
fn one_row(columns: &str, statements: &str, trigger: &str) -> String {
    let statements = if statements == "TRIGGER" { trigger } else { statements };
    let mut sql = String::from(
        "CREATE TABLE legal (k INT, status VARCHAR(9), PRIMARY KEY (k, status));
         INSERT INTO legal VALUES (10, 'NEW'), (10, 'ERROR'), (10, 'SUCCESS'), (20, 'NEW'), \
         (20, 'ERROR'), (20, 'SUCCESS'), (30, 'NEW'), (30, 'ERROR'), (40, 'NEW'), (40, 'ERROR'), \
         (40, 'SUCCESS');",
    );
    sql += &format!(
        "CREATE TABLE job (id INT PRIMARY KEY, status VARCHAR(9) DEFAULT 'NEW', \
         at VARCHAR(30) DEFAULT '2026-11-20T23:00:00Z', {columns});"
    );
    let is_twin = columns.contains("UNIQUE") || statements.contains("UNIQUE");
    let values = |id: i64| {
        let n = if id == 3 { 4 } else { 0 };
        if columns.contains("n INT") {
            format!("({id}, 10, {n})")
        } else {
            format!("({id}, {id}0)")
        }
    };
    let names = if columns.contains("n INT") { "id, k, n" } else { "id, k" };
    let rows: Vec<_> = (1..=4).map(values).collect();
    sql += &format!("INSERT INTO job ({names}) VALUES {};", rows.join(", "));
    if is_twin {
        sql += "INSERT INTO job (id, status, k) VALUES (9, 'SUCCESS', 30);";
    }
    sql + statements
}

/// Two passes, of which neither starts the handler of record 3, and the first has the others succeed.
fn starts_no_handler_in_vain(env: &TestEnv, mapping: &str, about: &str) {
    let file = format!("[defaults]\ntable = 'job'\ndate_inserted = 'at'\nndays = 9\n{mapping}\n");
    env.write("backlog.toml", file);
    let handler = env.noting("exit 0");
    for jobs in ["3", "1"] {
        let ran = env.pass(&format!("--jobs {jobs} -- {handler}"));
        assert_eq!(ran.exit, Some(1), "{about}: {ran:?}");
        assert!(ran.stderr.contains("record 3 is not tried"), "{about}: {ran:?}");
        assert!(ran.stderr.contains("no handler was started"), "{about}: {ran:?}");
    }
    let mut handled = env.handled();
    handled.sort();
    assert_eq!(handled, ["1", "2", "4"], "{about}");
}

const PENDING: &str = "SELECT id FROM job WHERE status = 'NEW'";

#[test]
fn a_success_that_one_row_refuses_starts_no_handler() {
    for (columns, statements, mapping) in ONE_ROW {
        let trigger = "CREATE TRIGGER no BEFORE UPDATE ON job WHEN new.id = 3 AND \
                       new.status = 'SUCCESS' BEGIN SELECT raise(ABORT, 'not this one'); END";
        let env = TestEnv::with_schema(&one_row(columns, statements, trigger));
        starts_no_handler_in_vain(&env, mapping, &format!("{columns} {statements}"));
        let pending = env.query(PENDING);
        assert!(["3", "1\n2\n3\n4"].contains(&&*pending), "{columns}: {pending}");
    }
}

#[test]
fn a_success_that_one_row_refuses_starts_no_handler_on_a_server() {
    let Some(cluster) = cluster() else { return };
    for (columns, statements, mapping) in ONE_ROW {
        let database = cluster.database();
        database.sql(&one_row(
            columns,
            statements,
            "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             IF new.id = 3 AND new.status = 'SUCCESS' THEN RAISE 'not this one'; END IF; \
             RETURN new; END $$;
             CREATE TRIGGER no BEFORE UPDATE OF status ON job FOR EACH ROW EXECUTE FUNCTION no()",
        ));
        let env = TestEnv::on(&database);
        starts_no_handler_in_vain(&env, mapping, &format!("{columns} {statements}"));
        assert!(database.query(PENDING).contains('3'), "{columns}");
    }
}

/// Whatever the code of the error is, a trigger or a policy refuses one record and no other.
#[test]
fn an_error_of_any_code_that_one_row_raises_ends_no_pass() {
    let Some(cluster) = cluster() else { return };
    let trigger = |code: &str| {
        format!(
            "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             IF new.id = 3 AND new.status = 'SUCCESS' THEN \
             RAISE 'not this one' USING ERRCODE = '{code}'; END IF; RETURN new; END $$;
             CREATE TRIGGER no BEFORE UPDATE ON job FOR EACH ROW EXECUTE FUNCTION no()"
        )
    };
    for code in ["55000", "42501", "08000", "25006"] {
        let database = cluster.database();
        database.sql(&one_row("k INT", "TRIGGER", &trigger(code)));
        starts_no_handler_in_vain(&TestEnv::on(&database), "", code);
    }
    let database = cluster.database();
    let policy = "ALTER TABLE job ENABLE ROW LEVEL SECURITY;
                  CREATE POLICY a ON job USING (true) WITH CHECK (status <> 'SUCCESS' OR id <> 3);
                  DROP ROLE IF EXISTS refused_worker; CREATE ROLE refused_worker LOGIN;
                  GRANT SELECT, UPDATE ON job TO refused_worker";
    database.sql(&one_row("k INT", policy, ""));
    let env = TestEnv::on_as(&database, "refused_worker");
    starts_no_handler_in_vain(&env, "", "row level security");
}

/// A child that succeeds is deleted, and its parent cannot be before that.
#[test]
fn a_record_is_rehearsed_without_what_others_would_change() {
    let family = "CREATE TABLE job (id INT PRIMARY KEY, status VARCHAR(9) DEFAULT 'NEW',
        at VARCHAR(30) DEFAULT '2026-11-20T23:00:00Z', parent INT REFERENCES job (id));
        INSERT INTO job (id, parent) VALUES (1, NULL), (2, 1), (3, NULL)";
    let args = "--table job --set date_inserted=at --set on_success=delete";
    let holds = |env: &TestEnv, says: &str| {
        let handler = env.noting("[ $BACKLOG_ID != 2 ]");
        let pass = format!("process --ndays 9 --jobs 3 {args} -- {handler}");
        env.run_at(MIDNIGHT, &pass).fails(1, &["record 1 is not tried", says]);
        let mut handled = env.handled();
        handled.sort();
        assert_eq!(handled, ["2", "3"]);
    };
    holds(&TestEnv::with_schema(family), "FOREIGN KEY constraint failed");
    let Some(database) = database() else { return };
    database.sql(family);
    holds(&TestEnv::on(&database), "violates foreign key constraint");
}

/// What an application does in a transaction is checked at its end.
#[test]
fn a_deferred_constraint_that_holds_at_the_end_refuses_nothing() {
    let Some(database) = database() else { return };
    database.sql(
        "CREATE TABLE job (id INT PRIMARY KEY, status VARCHAR(9) DEFAULT 'NEW',
           at VARCHAR(30) DEFAULT '2026-11-20T23:00:00Z');
         INSERT INTO job (id) VALUES (1), (2), (3);
         CREATE TABLE log (id serial PRIMARY KEY);
         CREATE TABLE line (log INT REFERENCES log (id) DEFERRABLE INITIALLY DEFERRED);
         CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE next INT; BEGIN
           next = nextval('log_id_seq'); INSERT INTO line VALUES (next); INSERT INTO log VALUES (next);
           RETURN new; END $$;
         CREATE TRIGGER note AFTER UPDATE ON job FOR EACH ROW EXECUTE FUNCTION note()",
    );
    let args = "process --table job --set date_inserted=at --ndays 9";
    let env = TestEnv::on(&database);
    env.run_at(MIDNIGHT, &format!("{args} --jobs 2 -- true")).silent();
    assert_eq!(database.query("SELECT DISTINCT status FROM job"), "SUCCESS");
}

/// The table of schema.postgres.sql has none of that: what one record has shown is believed of the others.
#[test]
fn an_ordinary_table_is_rehearsed_once_in_a_pass() {
    let Some(database) = database() else { return };
    database.sql(POSTGRES_SCHEMA);
    database.sql("INSERT INTO backlog (date_inserted) SELECT now() FROM generate_series(1, 30)");
    let rolled_back = |database: &Database| {
        let sql = "SELECT xact_rollback FROM pg_stat_database WHERE datname = current_database()";
        database.query(sql).parse::<u64>().unwrap()
    };
    let before = rolled_back(&database);
    TestEnv::on(&database).run("process --fibonacci -- true").silent();
    assert_eq!(database.query("SELECT DISTINCT status FROM backlog"), "SUCCESS");
    let after = rolled_back(&database);
    assert!((1..15).contains(&(after - before)), "{before} to {after}");
}

/// The constraints that Django makes of each foreign key.
#[test]
fn a_deferred_foreign_key_is_found_by_the_rehearsal() {
    let env = TestEnv::with_schema(
        "CREATE TABLE job (id INTEGER PRIMARY KEY, status TEXT, at TEXT);
         CREATE TABLE log (job INT REFERENCES job (id) DEFERRABLE INITIALLY DEFERRED);
         INSERT INTO job VALUES (7, 'NEW', '2026-11-20T23:00:00Z'); INSERT INTO log VALUES (7)",
    );
    let file =
        "[defaults]\ntable = 'job'\ndate_inserted = 'at'\nndays = 9\non_success = 'delete'\n";
    env.write("backlog.toml", file);
    let handler = env.noting("exit 0");
    let says = "FOREIGN KEY constraint failed";
    env.pass(&format!("-- {handler}")).fails(1, &["record 7 is not tried", says]);
    assert_eq!(env.handled(), [""; 0]);
    let checked = env.run_at(MIDNIGHT, "check --rehearse");
    assert_contains(&checked.stdout, "record 7 (NEW) would not be tried");
    assert_contains(&checked.stdout, says);
    assert_eq!(env.query("SELECT id, status FROM job"), "7|NEW");
}

#[test]
fn a_conflict_clause_of_the_table_deletes_no_other_record() {
    for clause in ["REPLACE", "IGNORE", "FAIL", "ROLLBACK"] {
        let env = TestEnv::with_schema(&format!(
            "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS TEXT, DATE_INSERTED TEXT, k TEXT, \
             FAILURES INT DEFAULT 0, LAST_FAILURE TEXT, UNIQUE (k, STATUS) ON CONFLICT {clause});
             INSERT INTO BACKLOG (ID, STATUS, DATE_INSERTED, k) VALUES \
             (2, 'NEW', '2026-11-20T23:00:00Z', 'a'), (3, 'ERROR', '2026-11-20T23:00:00Z', 'a'), \
             (4, 'NEW', '2026-11-20T23:00:00Z', 'b')"
        ));
        let ran = env.pass("--ndays 1 -- false");
        let says = "UNIQUE constraint failed: BACKLOG.k, BACKLOG.STATUS";
        ran.fails(1, &["record 2 is not tried", says]);
        assert_eq!(env.statuses(), "2|NEW\n3|ERROR\n4|ERROR", "{clause}");
    }
}

#[test]
fn a_conflict_clause_beside_triggers_is_named_before_the_first_record() {
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY ON CONFLICT REPLACE, STATUS TEXT, \
         DATE_INSERTED TEXT, k TEXT /* , ( */);
         CREATE TABLE log (id INTEGER PRIMARY KEY); INSERT INTO log VALUES (1);
         CREATE TRIGGER log AFTER UPDATE ON BACKLOG BEGIN INSERT OR IGNORE INTO log VALUES (1); END;
         INSERT INTO BACKLOG VALUES (1, 'NEW', '2026-11-20T23:00:00Z', 'a')",
    );
    // The id is not written, and the clauses of triggers are as the trigger has them.
    env.pass("--ndays 1 -- true").silent();
    // Nor does one of NOT NULL delete anything.
    let null = "note TEXT NOT NULL ON CONFLICT REPLACE DEFAULT ''";
    env.sql(&format!(
        "CREATE TABLE noted (ID INTEGER PRIMARY KEY, STATUS TEXT, DATE_INSERTED TEXT, {null});
         INSERT INTO noted VALUES (1, 'NEW', '2026-11-20T23:00:00Z', 'a');"
    ));
    for trigger in ["", "CREATE TRIGGER noted AFTER UPDATE ON noted BEGIN SELECT 1; END"] {
        env.sql(&format!("UPDATE noted SET STATUS = 'NEW', note = 'a'; {trigger}"));
        let set = r#"--table noted --set 'on_success={note="{null}"}'"#;
        env.pass(&format!("--ndays 1 {set} -- true")).silent();
        assert_eq!(env.query("SELECT STATUS, note FROM noted"), "SUCCESS|");
    }
    env.sql(
        "CREATE TABLE text (ID INTEGER PRIMARY KEY, STATUS TEXT, DATE_INSERTED TEXT, k TEXT, \
         UNIQUE (k, 'STATUS') ON CONFLICT REPLACE);
         CREATE TRIGGER text AFTER UPDATE ON text BEGIN SELECT 1; END",
    );
    env.pass("--table text --ndays 1 -- true")
        .fails(1, &["has triggers and `UNIQUE (k, 'STATUS') ON CONFLICT REPLACE`"]);
    env.sql(
        "CREATE TABLE other (ID INTEGER PRIMARY KEY, STATUS TEXT, DATE_INSERTED TEXT, \"k, \" TEXT, \
         CONSTRAINT one UNIQUE (\"k, \", STATUS) ON CONFLICT REPLACE);
         CREATE TRIGGER other AFTER UPDATE ON other BEGIN SELECT 1; END;
         INSERT INTO other VALUES (1, 'NEW', '2026-11-20T23:00:00Z', 'a')",
    );
    let args = format!("process --table other --ndays 1 -- {}", env.noting("exit 0"));
    let says = "table other has triggers and `CONSTRAINT one UNIQUE (\"k, \", STATUS) ON CONFLICT \
                REPLACE`, by which a write of one record could delete another one";
    env.run_at(MIDNIGHT, &args).fails(1, &[says]);
    env.run_at(MIDNIGHT, "archive --table other 1").fails(1, &[says]);
    assert_eq!(env.handled(), [""; 0]);
    let checked = env.run_at(MIDNIGHT, "check --table other --ndays 1");
    assert!(checked.exit == Some(1) && checked.stdout.contains(says), "{checked:?}");
}

#[test]
fn an_error_that_the_table_refuses_is_told_and_kept_for_explain() {
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS TEXT, DATE_INSERTED TEXT, \
         FAILURES INT DEFAULT 0, LAST_FAILURE TEXT, \
         LAST_ERROR TEXT CHECK (LAST_ERROR <> 'error: no route to host'));
         INSERT INTO BACKLOG (ID, STATUS, DATE_INSERTED) VALUES (1, 'NEW', '2026-11-20T23:00:00Z')",
    );
    let says = "CHECK constraint failed: LAST_ERROR <> 'error: no route to host'";
    let fails = |now, text: &str, more: &str| {
        let script = format!("echo 'error: {text}' >&2; exit 1");
        env.run_at(now, &format!("process --fibonacci {more} -- {}", sh(&script)))
    };
    let explained = |now| env.run_at(now, "explain 1 --fibonacci").stdout;
    let ran = fails(MIDNIGHT, "no route to host", "-v");
    let logged = format!("(attempt 1): error: no route to host (could not be stored: {says})");
    assert_contains(&ran.stderr, &logged);
    assert_eq!(env.query("SELECT STATUS, FAILURES, LAST_ERROR FROM BACKLOG"), "ERROR|1|");
    let text = explained(MIDNIGHT);
    assert_contains(&text, "the last at 2026-11-21T00:00:00Z: error: no route to host");
    assert_contains(&text, &format!("could not be stored in the table: {says}"));
    // Cron's mail says it once for the pass, which has done its job.
    let ran = fails(MIDNIGHT + 60, "no route to host", "");
    let told = format!("the table refused 1 error text: {says}");
    assert!(ran.exit == Some(0) && ran.stderr.contains(&told), "{ran:?}");
    // One that the table takes is in its column, and the last one is forgotten.
    fails(MIDNIGHT + 180, "timed out", "").silent();
    let text = explained(MIDNIGHT + 180);
    assert!(text.contains(": error: timed out") && !text.contains("could not be stored"), "{text}");
}

/// The handler has the table refuse its own success.
const OBSTACLE: &str = "CREATE TRIGGER no BEFORE UPDATE ON BACKLOG WHEN new.STATUS = 'SUCCESS' \
                        BEGIN SELECT raise(ABORT, 'not now'); END";

#[test]
fn a_success_that_is_refused_for_a_while_is_written_then() {
    let env = TestEnv::with_records(3, MIDNIGHT);
    let db = env.path_text("test.db");
    let handler = env.noting(&format!(
        "[ $BACKLOG_ID = 2 ] || exit 0; sqlite3 -cmd '.timeout 9000' {db} \"{OBSTACLE}\"; touch {}",
        env.path("refuses").display()
    ));
    let args = format!("process --fibonacci --now 2026-11-21T00:00:00Z -- {handler}");
    let pass = env.command(&args).spawn().unwrap();
    wait_until("the obstacle is there", exists(&env.path("refuses")));
    // Its handler ends, and the success of record 1 is refused as well.
    wait_until("all have been handled", || {
        fs::read_to_string(env.path("handled")).is_ok_and(|text| text.lines().count() == 3)
    });
    std::thread::sleep(Duration::from_millis(300));
    env.sql("DROP TRIGGER no");
    assert_eq!(pass.wait_with_output().unwrap().status.code(), Some(0));
    assert_eq!(env.statuses(), "1|SUCCESS\n2|SUCCESS\n3|SUCCESS");
    assert_eq!(env.handled().len(), 3);
}

#[test]
fn a_success_that_is_refused_to_the_end_is_named() {
    let env = TestEnv::with_records(1, MIDNIGHT);
    let db = env.path_text("test.db");
    let handler = env.noting(&format!("sqlite3 -cmd '.timeout 9000' {db} \"{OBSTACLE}\""));
    let args = format!("process --fibonacci --max-runtime 1s -- {handler}");
    let says = "record 1 could not be set to SUCCESS: not now; its handler succeeded";
    env.run_at(MIDNIGHT, &args).fails(1, &[says]);
    assert_eq!(env.statuses(), "1|ERROR");
    // It is rehearsed before its handler starts again.
    env.run_at(MIDNIGHT + 60, &args).fails(1, &["record 1 is not tried"]);
    assert_eq!(env.handled(), ["1"]);
}

#[test]
fn the_outcome_of_a_row_that_is_locked_is_written_once_it_is_free() {
    let Some(database) = database() else { return };
    database.sql(POSTGRES_SCHEMA);
    database.sql("INSERT INTO backlog (date_inserted) SELECT now() FROM generate_series(1, 3)");
    let env = TestEnv::on(&database);
    let go = env.path_text("go");
    let handler =
        env.noting(&format!("while [ ! -e {go} ]; do sleep 0.01; done; [ $BACKLOG_ID != 2 ]"));
    let pass = env.command(&format!("process --fibonacci --jobs 3 -- {handler}"));
    let pass = { pass }.stderr(std::process::Stdio::piped()).spawn().unwrap();
    wait_until("all have begun", || {
        fs::read_to_string(env.path("handled")).is_ok_and(|text| text.lines().count() == 3)
    });
    let mut holder = database.client();
    holder.batch_execute("BEGIN; SELECT 1 FROM backlog WHERE id IN (1, 2) FOR UPDATE").unwrap();
    fs::write(&go, "").unwrap();
    // The lock keeps the outcomes of its own rows back, and no other's.
    wait_until("the third is settled", || {
        database.query("SELECT status FROM backlog WHERE id = 3") == "SUCCESS"
    });
    holder.batch_execute("COMMIT").unwrap();
    let ran = pass.ran().silent();
    let rows = database.query("SELECT id, status, failures, last_error FROM backlog ORDER BY id");
    assert_eq!(rows, "1|SUCCESS|0|\n2|ERROR|1|exit status 1\n3|SUCCESS|0|", "{ran:?}");
    assert_eq!(env.handled().len(), 3);
}

/// A table that takes one success for each key.
const TWINS: &str = "CREATE TABLE job (id INT PRIMARY KEY, k INT, status VARCHAR(9) DEFAULT 'NEW',
    at VARCHAR(30) DEFAULT '2026-11-20T23:00:00Z');
    CREATE UNIQUE INDEX one ON job (k) WHERE status = 'SUCCESS';
    INSERT INTO job (id, k) VALUES (1, 7), (2, 8), (3, 7), (4, 9), (5, 7)";

/// Of twins that are pending in one pass the next one waits for the outcome of the first.
fn starts_one_twin_at_a_time(env: &TestEnv, query: impl Fn(&str) -> String) {
    let args = "process --table job --set date_inserted=at --ndays 9";
    let process = |more: &str, handler: &str| {
        env.run_at(MIDNIGHT, &format!("{args} {more} --order oldest -- {handler}"))
    };
    for jobs in ["1", "4"] {
        let ran = process(&format!("--jobs {jobs}"), &env.noting("[ $BACKLOG_ID != 1 ]"));
        let ran = ran.fails(1, &["record 5 is not tried", "no handler was started"]);
        let mut handled = env.handled();
        handled.sort();
        assert_eq!(handled, ["1", "2", "3", "4"], "{jobs}: {ran:?}");
        let statuses = query("SELECT id, status FROM job ORDER BY id");
        let expected = "1|ERROR\n2|SUCCESS\n3|SUCCESS\n4|SUCCESS\n5|NEW";
        assert_eq!(statuses.replace("1|NEW", "1|ERROR"), expected, "{jobs}");
        query("UPDATE job SET status = 'NEW' WHERE id > 0 RETURNING ''");
    }
    // In a drain the third one is tried as well, once the second has failed.
    process("--jobs 4 --drain", &env.noting("[ $BACKLOG_ID != 1 -a $BACKLOG_ID != 3 ]")).silent();
    assert_eq!(query("SELECT id FROM job WHERE status = 'SUCCESS' ORDER BY id"), "2\n4\n5");
    let mut handled = env.handled();
    handled.sort();
    assert_eq!(handled, ["1", "2", "3", "4", "5"]);
}

#[test]
fn of_twins_one_is_tried_at_a_time() {
    let env = TestEnv::with_schema(TWINS);
    starts_one_twin_at_a_time(&env, |sql| env.query(sql));
    let Some(cluster) = cluster() else { return };
    let database = cluster.database();
    database.sql(TWINS);
    starts_one_twin_at_a_time(&TestEnv::on(&database), |sql| database.query(sql));
    // A success moves the row into another partition, which has the index.
    let database = cluster.database();
    database.sql(
        "CREATE TABLE job (id INT, k INT, status VARCHAR(9) DEFAULT 'NEW',
           at VARCHAR(30) DEFAULT '2026-11-20T23:00:00Z') PARTITION BY LIST (status);
         CREATE TABLE pending PARTITION OF job FOR VALUES IN ('NEW', 'ERROR');
         CREATE TABLE finished PARTITION OF job FOR VALUES IN ('SUCCESS');
         CREATE UNIQUE INDEX one ON finished (k);
         INSERT INTO job (id, k) VALUES (1, 7), (2, 8), (3, 7), (4, 9), (5, 7)",
    );
    starts_one_twin_at_a_time(&TestEnv::on(&database), |sql| database.query(sql));
}

#[test]
fn a_twin_does_not_wait_for_one_whose_handler_could_not_be_run() {
    let env = TestEnv::with_schema(TWINS);
    env.sql("DELETE FROM job WHERE id NOT IN (1, 3)");
    let handler = env.noting("[ $BACKLOG_ID = 3 ] || exit 127");
    let args = "process --table job --set date_inserted=at --ndays 9";
    env.run_at(MIDNIGHT, &format!("{args} --jobs 4 --order oldest -- {handler}")).success();
    assert_eq!(env.query("SELECT id, status FROM job ORDER BY id"), "1|ERROR\n3|SUCCESS");
    assert_eq!(env.handled(), ["1", "3"]);
}

/// A row that is locked when its turn comes is asked for again, and keeps its slot.
#[test]
fn rows_that_are_locked_before_their_handlers_hold_up_no_other() {
    let Some(database) = database() else { return };
    database.sql(TWINS);
    database
        .sql("DELETE FROM job; INSERT INTO job (id, k) SELECT n, n FROM generate_series(1, 12) n");
    let env = TestEnv::on(&database);
    let mut holder = database.client();
    holder.batch_execute("BEGIN; SELECT 1 FROM job WHERE id IN (2, 5, 7) FOR UPDATE").unwrap();
    let args = "process --table job --set date_inserted=at --ndays 9";
    let more = "--jobs 2 --order oldest --drain --now 2026-11-21T00:00:00Z --";
    let pass = env.command(&format!("{args} {more} {}", env.noting("exit 0"))).spawn().unwrap();
    wait_until("all others are done", || {
        database.query("SELECT count(*) FROM job WHERE status = 'SUCCESS'") == "9"
    });
    holder.batch_execute("COMMIT").unwrap();
    assert_eq!(pass.wait_with_output().unwrap().status.code(), Some(0));
    assert_eq!(database.query("SELECT DISTINCT status FROM job"), "SUCCESS");
    assert_eq!(env.handled().len(), 12);
}

/// Each costs its own turn, and no other record's.
#[test]
fn many_records_that_the_table_refuses_one_by_one_do_not_stop_the_pass() {
    let env = TestEnv::with_schema(TWINS);
    env.sql(
        "DELETE FROM job; INSERT INTO job (id, k, status) VALUES (100, 7, 'SUCCESS');
         INSERT INTO job (id, k) VALUES (1, 1), (99, 99);
         WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 30)
         INSERT INTO job (id, k) SELECT i, 7 FROM n",
    );
    let args = "process --table job --set date_inserted=at --ndays 9";
    let ran = env.run_at(MIDNIGHT, &format!("{args} --order oldest -- {}", env.noting("exit 0")));
    ran.fails(1, &["record 2 is not tried", "28 more records: the same (3, 4, 5, "]);
    assert_eq!(env.handled(), ["1", "99"]);
}

//! What job tables have besides an id, a status and a date: due columns, maxima, counters of attempts,
//! dates that are no column, and rows that are archived without a status. On both engines.

use test_support::cluster::{Database, cluster};

use crate::testenv::*;

/// A table on one of the engines.
struct Subject {
    env: TestEnv,
    server: Option<Database>,
}

impl Subject {
    fn query(&self, sql: &str) -> String {
        match &self.server {
            Some(database) => database.query(sql).trim_end().into(),
            None => self.env.query(sql),
        }
    }

    fn sql(&self, sql: &str) {
        match &self.server {
            Some(database) => database.sql(sql),
            None => self.env.sql(sql),
        }
    }
}

/// Calls `check` with the table on SQLite and on PostgreSQL. Words in the schema that differ are
/// `{instant}`, a type of dates, and in a condition `{clock}`, the time of the machine.
#[track_caller]
fn on_both(schema: &str, config: &str, check: impl Fn(&Subject)) {
    let write = |env: &TestEnv, now: &str| {
        let config = format!("[queue.jobs]\ntable = \"jobs\"\n{}", config.replace("{clock}", now));
        env.write("backlog.toml", config);
    };
    let env = TestEnv::with_schema(&schema.replace("{instant}", "TEXT"));
    write(&env, "strftime('%Y-%m-%dT%H:%M:%SZ', 'now')");
    check(&Subject { env, server: None });
    let Some(cluster) = cluster() else { return skipped("a mapping on PostgreSQL: no server") };
    let database = cluster.database();
    database.sql(&schema.replace("{instant}", "timestamptz"));
    database.sql(&format!(
        "ALTER DATABASE {} SET timezone TO 'UTC'",
        database.query("SELECT current_database()").trim()
    ));
    let env = TestEnv::on(&database);
    write(&env, "now()");
    check(&Subject { env, server: Some(database) });
}

const RUN_AT: &str = "
    CREATE TABLE jobs (id INTEGER PRIMARY KEY, state TEXT, attempts INTEGER NOT NULL DEFAULT 0, run_at {instant},
      created_at {instant} NOT NULL, error TEXT);
    INSERT INTO jobs VALUES (1, 'new', 0, '2026-11-20T10:00:00Z', '2026-11-20T10:00:00Z', NULL),
      (2, 'new', 0, NULL, '2026-11-20T10:00:00Z', NULL),
      (3, 'new', 0, '2999-01-01T00:00:00Z', '2026-11-20T10:00:00Z', NULL),
      (4, 'new', 0, '2026-11-20T10:00:00Z', '2026-11-20T10:00:00Z', NULL)";

const MAPPING: &str = r#"
    status = { column = "state", new = "new", error = "failed", success = "done", archived = "dead" }
    date_inserted = "created_at"
    failures = "attempts"
    last_error = "error"
    on_failure = { run_at = "{next}" }
    fibonacci = true
"#;

const SHOWN: &str =
    "SELECT id, state, attempts, substr(CAST(run_at AS text), 12, 5) FROM jobs ORDER BY id";

#[test]
fn the_next_attempt_is_written_into_the_due_column_and_waited_for() {
    on_both(RUN_AT, MAPPING, |db| {
        let handler = db.env.noting("[ $BACKLOG_ID = 4 ] || exit 1");
        let process = format!("process --queue jobs -- {handler}");
        db.env.run_at(MIDNIGHT, &process).success();
        assert_eq!(db.env.handled(), ["4", "2", "1"]);
        // Without a column of the last failure, and what succeeds keeps its instant.
        assert_eq!(
            db.query(SHOWN),
            "1|failed|1|00:01\n2|failed|1|00:01\n3|new|0|00:00\n4|done|0|10:00"
        );
        db.env.run_at(MIDNIGHT + 59, &process).success();
        assert_eq!(db.env.handled(), [""; 0]);
        db.env.run_at(MIDNIGHT + 60, &process).success();
        assert_eq!(db.env.handled(), ["2", "1"]);
        db.env.run_at(MIDNIGHT + 120, &process).success();
        assert_eq!(db.env.handled(), ["2", "1"]);
        // Fibonacci(3) is 2.
        assert_eq!(
            db.query("SELECT substr(CAST(run_at AS text), 12, 5) FROM jobs WHERE id = 1"),
            "00:04"
        );
        // The column has the last word: an application may write it, and so may a person.
        db.sql("UPDATE jobs SET run_at = '2026-11-21T00:02:30Z' WHERE id = 1");
        db.env.run_at(MIDNIGHT + 3 * MINUTE, &process).success();
        assert_eq!(db.env.handled(), ["1"]);
        let explained = db.env.run_at(MIDNIGHT + 3 * MINUTE, "explain --queue jobs 2");
        assert_contains(&explained.stdout, "00:04");
        db.env.run_at(MIDNIGHT + 3 * MINUTE, "retry --queue jobs 2").success();
        assert_eq!(db.query(SHOWN).lines().nth(1), Some("2|new|3|00:03"));
        db.env.run_at(MIDNIGHT + 3 * MINUTE, &process).success();
        assert_eq!(db.env.handled(), ["2"]);
    });
}

#[test]
fn a_condition_that_hides_what_waits_hides_it_from_no_command() {
    let config = format!("{MAPPING}\nwhere = \"(run_at IS NULL OR run_at <= {{clock}})\"\n");
    on_both(RUN_AT, &config, |db| {
        let process = format!("process --queue jobs -- {}", db.env.noting("exit 1"));
        // By the machine's own clock, as the condition has it.
        db.env.run(&process).success();
        assert_eq!(db.env.handled(), ["4", "2", "1"]);
        let status = db.env.run("status --queue jobs --json").success();
        assert_contains(&status.stdout, r#""ERROR":{"total":3"#);
        db.env.run(&process).success();
        assert_eq!(db.env.handled(), [""; 0]);
        db.env.run("retry --queue jobs 2").success();
        db.env.run("retry --queue jobs --all").success();
        assert_eq!(db.query("SELECT count(*) FROM jobs WHERE state = 'new'"), "4");
        assert_contains(&db.env.run("explain --queue jobs 3").success().stdout, "2999");
        db.env.run(&process).success();
        assert_eq!(db.env.handled(), ["4", "2", "1"]);
    });
}

#[test]
fn a_record_that_kills_its_pass_waits_as_if_it_had_failed() {
    on_both(RUN_AT, MAPPING, |db| {
        let killer = db.env.script("killer", "kill -9 $PPID");
        let ran = db.env.pass(&format!("--queue jobs --max-records 1 -- {killer}"));
        assert_eq!(ran.exit, None, "{ran:?}");
        assert_eq!(db.query(SHOWN).lines().last(), Some("4|failed|1|00:01"));
    });
}

#[test]
fn by_slots_the_next_one_is_written_until_there_is_none() {
    on_both(RUN_AT, &MAPPING.replace("fibonacci = true", "progressive = \"1d/1h,2d/6h\""), |db| {
        let process = format!("process --queue jobs -- {}", db.env.noting("exit 1"));
        db.env.run_at(MIDNIGHT, &process).success();
        assert_eq!(db.env.handled(), ["4", "2", "1"]);
        // Inserted at ten o'clock the day before, the records have slots in each hour of the day.
        db.env.run_at(MIDNIGHT + HOUR, &process).success();
        assert_eq!(db.env.handled().len(), 3);
        db.env.run_at(MIDNIGHT + 36 * HOUR, &process).success();
        assert_eq!(db.env.handled().len(), 3);
        // After two days they have had all of them.
        let years = "SELECT DISTINCT substr(CAST(run_at AS text), 1, 4) FROM jobs WHERE id <> 3";
        assert_eq!(db.query(years), "2286");
        db.env.run_at(MIDNIGHT + 72 * HOUR, &process).success();
        assert_eq!(db.env.handled(), [""; 0]);
    });
}

#[test]
fn a_schedule_that_does_not_know_the_next_attempt_is_refused() {
    on_both(RUN_AT, &MAPPING.replace("fibonacci = true", "ndays = 7"), |db| {
        db.env.run("process --queue jobs -- /bin/true").fails(
            2,
            &["on_failure sets run_at to {next}", "--policy, --fibonacci or --progressive"],
        );
    });
}

#[test]
fn archived_rows_without_a_status_are_told_and_brought_back() {
    let schema = "
        CREATE TABLE jobs (id INTEGER PRIMARY KEY, attempts INTEGER NOT NULL, failed_at {instant}, locked_at {instant},
          last_error TEXT, created_at {instant} NOT NULL);
        INSERT INTO jobs VALUES (1, 0, NULL, NULL, NULL, '2026-11-20T10:00:00Z'), (2, 2, NULL, NULL, NULL, '2026-11-20T10:00:00Z'),
          (3, 25, '2026-11-20T10:00:00Z', NULL, 'no', '2026-11-20T10:00:00Z'), (4, 0, NULL, '2026-11-20T10:00:00Z', NULL, '2026-11-20T10:00:00Z')";
    let config = r#"
        where = "failed_at IS NULL AND locked_at IS NULL"
        where_archived = "failed_at IS NOT NULL"
        date_inserted = "created_at"
        failures = "attempts"
        last_failure = ""
        on_success = "delete"
        on_archive = { failed_at = "{now}" }
        on_restore = { failed_at = "{null}" }
    "#;
    on_both(schema, config, |db| {
        let all = "SELECT id, attempts, failed_at IS NULL, locked_at IS NULL, created_at IS NULL FROM jobs ORDER BY id";
        let before = db.query(all);
        db.env.run("archive --queue jobs 1").success();
        assert_ne!(db.query(all), before);
        let list = db.env.run("list --queue jobs --status ARCHIVED").success();
        assert!(list.stdout.contains("\n1 ") && list.stdout.contains("\n3 "), "{list:?}");
        assert!(!list.stdout.contains("\n2 ") && !list.stdout.contains("\n4 "), "{list:?}");
        let status = db.env.run("status --queue jobs --json").success();
        assert_contains(&status.stdout, r#""ARCHIVED":{"total":2"#);
        db.env.run("restore --queue jobs 1").success();
        assert_eq!(db.query(all), before);
        db.env.run("restore --queue jobs --all").success();
        assert_eq!(db.query("SELECT attempts FROM jobs WHERE id = 3 AND failed_at IS NULL"), "0");
        // A row of another worker stays its own.
        assert!(db.env.run("restore --queue jobs 4").success().stdout.contains("not pending"));
        let config = db.env.path("backlog.toml");
        let in_vain =
            std::fs::read_to_string(&config).unwrap().replace("on_restore", "# on_restore");
        std::fs::write(&config, in_vain).unwrap();
        db.env.run("archive --queue jobs 1").success();
        db.env.run("restore --queue jobs 1").exits(1);
        assert_eq!(db.query("SELECT count(*) FROM jobs WHERE failed_at IS NULL"), "3");
    });
}

#[test]
fn each_record_may_have_a_maximum_of_its_own() {
    let schema = "
        CREATE TABLE jobs (id INTEGER PRIMARY KEY, status TEXT, failures INTEGER, max_attempts INTEGER, date_inserted {instant});
        INSERT INTO jobs VALUES (1, 'NEW', 0, 1, '2026-11-20T10:00:00Z'), (2, 'ERROR', 1, 3, '2026-11-20T10:00:00Z'),
          (3, 'ERROR', 2, 3, '2026-11-20T10:00:00Z'), (4, 'ERROR', 99, NULL, '2026-11-20T10:00:00Z'), (5, 'ERROR', 99, 0, '2026-11-20T10:00:00Z'),
          (6, 'ERROR', 3, 3, '2026-11-20T10:00:00Z')";
    on_both(schema, "max_attempts = { column = \"max_attempts\" }\nprogressive = true\n", |db| {
        let handler = db.env.noting("echo $BACKLOG_MAX_ATTEMPTS; exit 1");
        let process = format!("process --queue jobs --drain -- {handler}");
        let ran = db.env.run_at(MIDNIGHT + HOUR, &process);
        ran.fails(
            1,
            &["record 1 failed after 1 attempt; archived", "record 3 failed after 3 attempts"],
        );
        let status = "SELECT id, status FROM jobs WHERE id IN (1, 3, 4, 5, 6) ORDER BY id";
        assert_eq!(db.query(status), "1|ARCHIVED\n3|ARCHIVED\n4|ERROR\n5|ERROR\n6|ARCHIVED");
        assert_contains(&db.env.run("explain --queue jobs 2").success().stdout, "of 3 attempts");
        // The command line counts before the column.
        db.env.run_at(MIDNIGHT + HOUR, "process --queue jobs --max-attempts 9 --dry-run").success();
        let none = "explain --queue jobs --max-attempts 9 2";
        assert!(db.env.run(none).success().stdout.contains("of 9 attempts"));
    });
}

#[test]
fn a_counter_of_attempts_counts_the_one_that_succeeds() {
    let schema = "
        CREATE TABLE jobs (id INTEGER PRIMARY KEY, status TEXT, attempts INTEGER, date_inserted {instant});
        INSERT INTO jobs VALUES (1, 'NEW', 0, '2026-11-20T10:00:00Z'), (2, 'ERROR', 3, '2026-11-20T10:00:00Z'), (3, 'NEW', NULL, '2026-11-20T10:00:00Z')";
    for (counts, after) in [("attempts", "1|1\n2|4\n3|1"), ("failures", "1|0\n2|3\n3|1")] {
        let config =
            format!("failures = {{ column = \"attempts\", counts = \"{counts}\" }}\nndays = 7");
        on_both(schema, &config, |db| {
            let handler = db.env.script("handler", "[ $BACKLOG_ID != 3 ]");
            db.env.pass(&format!("--queue jobs -- {handler}")).success();
            assert_eq!(db.query("SELECT id, attempts FROM jobs ORDER BY id"), after);
        });
    }
}

#[test]
fn null_may_be_a_status() {
    let schema = "
        CREATE TABLE jobs (id INTEGER PRIMARY KEY, status TEXT, date_inserted {instant});
        INSERT INTO jobs VALUES (1, NULL, '2026-11-20T10:00:00Z'), (2, 'error', '2026-11-20T10:00:00Z'), (3, 'ok', '2026-11-20T10:00:00Z'),
          (4, NULL, '2026-11-20T10:00:00Z'), (5, 'null', '2026-11-20T10:00:00Z')";
    let config = "status = { column = \"status\", new = \"{null}\", error = \"error\", success = \"ok\", archived = \"dead\" }\nndays = 7";
    on_both(schema, config, |db| {
        let handler = db.env.noting("[ $BACKLOG_ID != 4 ]");
        db.env.pass(&format!("--queue jobs -- {handler}")).success();
        assert_eq!(db.env.handled(), ["4", "2", "1"]);
        let all = "SELECT id, coalesce(status, '-') FROM jobs ORDER BY id";
        assert_eq!(db.query(all), "1|ok\n2|ok\n3|ok\n4|error\n5|null");
        db.env.run("archive --queue jobs 4").success();
        db.env.run("restore --queue jobs 4").success();
        assert_eq!(db.query(all), "1|ok\n2|ok\n3|ok\n4|-\n5|null");
    });
}

#[test]
fn an_insertion_date_may_be_an_expression() {
    let schema = "
        CREATE TABLE jobs (id INTEGER PRIMARY KEY, status TEXT, day TEXT, clock TEXT);
        INSERT INTO jobs VALUES (1, 'NEW', '20.11.2026', '10:00:00'), (2, 'NEW', '21.11.2026', '10:00:00'), (3, 'NEW', '20.10.2026', '10:00:00'),
          (4, 'NEW', '', '')";
    let config = "date_inserted = { sql = \"substr(day, 7, 4) || '-' || substr(day, 4, 2) || '-' || substr(day, 1, 2) || ' ' || clock\" }\nndays = 7";
    on_both(schema, config, |db| {
        let handler = db.env.noting("cat >> rows; exit 1");
        let now = MIDNIGHT + 12 * HOUR;
        let ran = db.env.run_at(now, &format!("process -v --queue jobs -- {handler}")).success();
        assert_eq!(db.env.handled(), ["2", "1"]);
        assert_contains(&ran.stderr, "1 pending record is not tried");
        // The handler gets the row as it is.
        let rows = std::fs::read_to_string(db.env.path("rows")).unwrap();
        assert!(rows.lines().all(|row| row.matches(':').count() == 6), "{rows}");
        let list = db.env.run_at(now, "list --queue jobs").success().stdout;
        assert!(
            list.contains("2026-11-21T10:00:00Z") && list.contains("2026-10-20T10:00:00Z"),
            "{list}"
        );
        let typed = "explain --queue jobs 2";
        assert!(db.env.run_at(now, typed).success().stdout.contains("inserted 2026-11-21"));
        db.env.run("check --queue jobs");
        let wrong = "list --queue jobs --set 'date_inserted.sql=nosuch || clock'";
        db.env.run(wrong).fails(1, &["date_inserted.sql", "nosuch"]);
        db.env.run("add --queue jobs {}").fails(1, &["expression"]);
    });
}

#[test]
fn records_without_a_date_go_by_count_in_the_order_of_their_ids() {
    let schema = "
        CREATE TABLE jobs (id INTEGER PRIMARY KEY, status TEXT, failures INTEGER, last_failure {instant});
        INSERT INTO jobs VALUES (1, 'NEW', 0, NULL), (2, 'ERROR', 2, '2026-11-20T23:59:00Z'), (3, 'ERROR', 1, '2026-11-20T23:59:00Z')";
    on_both(schema, "date_inserted = false\nfibonacci = true\n", |db| {
        let handler = db.env.noting("exit 1");
        db.env
            .run_at(MIDNIGHT, &format!("process --queue jobs --max-records 1 -- {handler}"))
            .success();
        db.env.pass(&format!("--queue jobs -- {handler}")).success();
        assert_eq!(db.env.handled(), ["1", "3", "2"]);
        db.env.run("list --queue jobs").success();
        db.env.run("status --queue jobs").success();
        let by_age = "process --queue jobs --ndays 3 -- /bin/true";
        db.env.run(by_age).fails(2, &["no record has an age", "--fibonacci"]);
    });
}

#[test]
fn an_error_is_cut_to_its_limit() {
    let schema = "
        CREATE TABLE jobs (id INTEGER PRIMARY KEY, status TEXT, error TEXT, date_inserted {instant});
        INSERT INTO jobs VALUES (1, 'NEW', NULL, '2026-11-20T10:00:00Z')";
    on_both(schema, "last_error = { column = \"error\", max = 11 }\nndays = 7", |db| {
        let handler = db.env.script("handler", "echo a very long story of a failure >&2; exit 1");
        db.env.pass(&format!("--queue jobs -- {handler}")).success();
        assert_eq!(db.query("SELECT error FROM jobs"), "a very long");
    });
}

/// A pass at each of these minutes after midnight over one job, which always fails; how often it was tried.
fn tries(it: &Subject, minutes: &[i64]) -> usize {
    let handler = it.env.noting("exit 1");
    for minute in minutes {
        it.env.run_at(MIDNIGHT + minute * MINUTE, &format!("process --queue jobs -- {handler}"));
    }
    it.env.handled().len()
}

const ONE: &str = "
    CREATE TABLE jobs (id INTEGER PRIMARY KEY, attempts INTEGER NOT NULL DEFAULT 0, run_at {instant}, done_at {instant},
      created_at {instant} NOT NULL);
    INSERT INTO jobs (id, run_at, created_at) VALUES (1, '2026-11-20T10:00:00Z', '2026-11-20T10:00:00Z')";

const OF_ONE: &str = "
    date_inserted = \"created_at\"
    failures = \"attempts\"
    on_success = { done_at = \"{now}\" }
    on_failure = { run_at = \"{next}\" }
    policy = \"constant:delay=1h,spread=0%\"
";

#[test]
fn a_column_of_days_is_no_due_column_and_an_empty_one_gets_seconds() {
    // The insertion date is a day, and no row says how the due column is spelt.
    let days = ONE.replace("'2026-11-20T10:00:00Z', '2026-11-20T10:00:00Z'", "NULL, '2026-11-20'");
    on_both(&days, &format!("{OF_ONE}where = \"done_at IS NULL\""), |db| {
        assert_eq!(tries(db, &[0, 1, 2, 59, 60, 61]), 2);
    });
    let Some(cluster) = cluster() else { return skipped("due dates by the day: no server") };
    let database = cluster.database();
    database
        .sql(&ONE.replace("run_at {instant}", "run_at date").replace("{instant}", "timestamptz"));
    let env = TestEnv::on(&database);
    let config = format!("[queue.jobs]\ntable = \"jobs\"\nwhere = \"done_at IS NULL\"\n{OF_ONE}");
    env.write("backlog.toml", config);
    let ran = env.run("process --queue jobs -- /bin/true");
    ran.fails(1, &["column run_at of table jobs cannot hold due dates: it is date"]);
}

#[test]
fn a_condition_with_a_lower_bound_on_the_due_column_still_has_its_records() {
    on_both(
        ONE,
        &format!("{OF_ONE}where = \"run_at >= '2026-11-01' AND done_at IS NULL\""),
        |db| {
            assert_eq!(tries(db, &[0, 1, 60]), 2);
        },
    );
}

#[test]
fn what_stands_for_no_date_is_due_and_what_is_none_is_named() {
    on_both(
        &ONE.replace("run_at {instant}", "run_at TEXT"),
        &format!("{OF_ONE}where = \"done_at IS NULL\""),
        |db| {
            db.sql(
            "INSERT INTO jobs (id, run_at, created_at) VALUES (2, '0', '2026-11-20T10:00:00Z'), (3, ' ', '2026-11-20T10:00:00Z'),
               (4, '-0001-11-30 00:00:00', '2026-11-20T10:00:00Z'), (5, '20.11.2026 10:00', '2026-11-20T10:00:00Z')",
        );
            assert_eq!(tries(db, &[0]), 4);
            let checked = db.env.run("check --queue jobs");
            assert!(
                checked.stdout.contains(
                    "1 pending record never due, because the due column holds no date: 5 with"
                ),
                "{checked:?}"
            );
            let explained = db.env.run("explain --queue jobs 5").success().stdout;
            let why = "not tried: its due column holds no date; `backlog check` shows it\n";
            assert!(explained.contains(why) && !explained.contains("2286"), "{explained}");
        },
    );
}

#[test]
fn a_wait_over_the_end_of_summer_time_is_not_cut_short() {
    let clock = OF_ONE
        .replace(
            "date_inserted = \"created_at\"",
            "date_inserted = { column = \"created_at\", zone = \"Europe/Berlin\" }",
        )
        .replace("1h", "20m");
    let env =
        TestEnv::with_schema(&ONE.replace("{instant}", "TEXT").replace("T10:00:00Z", " 10:00:00"));
    std::fs::write(
        env.path("backlog.toml"),
        format!("[queue.jobs]\ntable = \"jobs\"\nwhere = \"done_at IS NULL\"\n{clock}"),
    )
    .unwrap();
    let handler = env.noting("exit 1");
    for minute in 0..5 {
        let at = format!("2026-10-25T01:0{minute}:00Z");
        env.run(&format!("process --now {at} --queue jobs -- {handler}")).success();
    }
    assert_eq!(env.handled().len(), 0, "inserted later");
    env.sql("UPDATE jobs SET created_at = '2026-10-20 10:00:00', run_at = '2026-10-20 10:00:00'");
    for minute in 0..5 {
        let at = format!("2026-10-25T01:0{minute}:00Z");
        env.run(&format!("process --now {at} --queue jobs -- {handler}")).success();
    }
    assert_eq!(env.handled().len(), 1);
}

#[test]
fn what_is_done_is_not_archived_whatever_a_condition_says() {
    let schema = "
        CREATE TABLE jobs (id INTEGER PRIMARY KEY, state TEXT, tries INTEGER, date_inserted {instant});
        INSERT INTO jobs VALUES (1, 'new', 50, '2026-11-20T10:00:00Z'), (2, 'done', 51, '2026-11-20T10:00:00Z'), (3, 'running', 60, '2026-11-20T10:00:00Z')";
    let config = r#"
        status = { column = "state", new = "new", error = "failed", success = "done" }
        where = "tries < 50"
        where_archived = "tries >= 50"
        failures = "tries"
        on_archive = { tries = 50 }
    "#;
    on_both(schema, config, |db| {
        assert!(
            db.env
                .run("restore --queue jobs --all")
                .success()
                .stdout
                .contains("restored 1 record\n")
        );
        assert_eq!(
            db.query("SELECT id, state, tries FROM jobs ORDER BY id"),
            "1|new|0\n2|done|51\n3|running|60"
        );
    });
}

#[test]
fn without_a_date_another_row_with_the_same_id_is_left_alone() {
    let env = TestEnv::with_schema(
        "CREATE TABLE jobs (id INTEGER PRIMARY KEY, body TEXT, tries INTEGER NOT NULL DEFAULT 0, last_failure TEXT);
         INSERT INTO jobs (body) VALUES ('first')",
    );
    let config = "[queue.jobs]\ntable = \"jobs\"\ndate_inserted = false\nwhere = \"1 = 1\"\nfailures = \"tries\"\npayload = \"body\"\non_success = \"delete\"\nfibonacci = true\n";
    env.write("backlog.toml", config);
    let db = env.path_text("test.db");
    let handler = env.script(
        "successor",
        &format!("sqlite3 {db} \"DELETE FROM jobs; INSERT INTO jobs (body) VALUES ('second')\""),
    );
    env.run(&format!("process --queue jobs -- {handler}"));
    assert_eq!(env.query("SELECT id, body FROM jobs"), "1|second");
}

#[test]
fn a_record_that_the_application_put_off_is_made_due_by_its_name_only() {
    on_both(RUN_AT, MAPPING, |db| {
        let at = MIDNIGHT + HOUR;
        assert!(
            db.env.run_at(at, "retry --queue jobs --all").success().stdout.contains("made due 0")
        );
        db.env.run_at(at, "retry --queue jobs 3").success();
        assert_eq!(db.query(SHOWN).lines().nth(2), Some("3|new|0|01:00"));
        assert!(db.env.run_at(at, "retry --queue jobs 2").stdout.contains("is NEW already"));
    });
}

#[test]
fn a_comment_in_an_expression_ends_there() {
    let schema = "
        CREATE TABLE jobs (id INTEGER PRIMARY KEY, status TEXT, created {instant});
        INSERT INTO jobs VALUES (1, 'NEW', '2026-11-20T10:00:00Z')";
    on_both(schema, "date_inserted = { sql = \"created -- when\" }\nndays = 7", |db| {
        db.env.pass(&format!("--queue jobs -- {}", db.env.noting("exit 0"))).success();
        assert_eq!(db.env.handled(), ["1"]);
    });
}

/// The number of all rows with a status, as `status` prints it.
fn total(status: &str, name: &str) -> u64 {
    let line = status.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
    line.split_whitespace().last().unwrap().parse().unwrap()
}

#[test]
fn a_success_without_a_status_column_is_counted_as_one() {
    let schema = "
        CREATE TABLE jobs (id INTEGER PRIMARY KEY, kind TEXT, created_at {instant} NOT NULL, done_at {instant}, result TEXT);
        INSERT INTO jobs VALUES (1, 'mail', '2026-11-20T23:00:00Z', NULL, NULL), (2, 'mail', '2026-11-20T23:00:00Z', NULL, NULL),
          (3, 'report', '2026-11-20T23:00:00Z', '2026-11-20T23:30:00Z', 'ok'),
          (4, 'mail', '2026-11-20T23:00:00Z', '2026-11-20T23:30:00Z', 'dropped by hand')";
    let config = r#"
        date_inserted = "created_at"
        where = "done_at IS NULL AND kind = 'mail'"
        on_success = { done_at = "{now}", result = "ok" }
    "#;
    on_both(schema, config, |db| {
        let handler = db.env.script("handler", "[ $BACKLOG_ID = 1 ]");
        db.env.pass(&format!("--queue jobs --ndays 1 -- {handler}")).silent();
        // 3 is of another queue, and 4 holds what no success writes.
        let status = db.env.run_at(MIDNIGHT, "status --queue jobs").success().stdout;
        let totals = ["SUCCESS", "ERROR", "not pending"].map(|name| total(&status, name));
        assert_eq!(totals, [1, 1, 2], "{status}");
        let listed = db.env.run("list --queue jobs --status SUCCESS").success().stdout;
        assert!(listed.lines().count() == 2 && listed.contains("\n1 "), "{listed}");
        let explained = db.env.run_at(MIDNIGHT, "explain --queue jobs --ndays 1 1");
        let explained = explained.success().stdout;
        assert_contains(
            &explained,
            "it is SUCCESS now, so its row does not show whether that pass tried it\n",
        );
        // An archived record might hold the same, unless `where_archived` tells.
        let archives = "on_archive={done_at=\"{now}\",result=\"ok\"}";
        let status =
            db.env.run(&format!("status --queue jobs --set {}", quoted(archives))).success().stdout;
        assert_eq!(["SUCCESS", "not pending"].map(|name| total(&status, name)), [0, 3], "{status}");
    });
}

#[test]
fn no_due_date_means_due_now_in_every_schedule() {
    let env = TestEnv::with_schema(
        "CREATE TABLE outbox (id INTEGER PRIMARY KEY, created TEXT, run_at TEXT, sent TEXT);
         INSERT INTO outbox (created, run_at) VALUES ('2026-11-01T00:00:00Z', NULL), ('2026-11-01T00:00:00Z', ''),
           ('2026-11-01T00:00:00Z', '0'), ('2026-11-01T00:00:00Z', '2026-11-20T00:00:00Z'),
           ('2026-11-01T00:00:00Z', '2026-12-20T00:00:00Z')",
    );
    env.write(
        "backlog.toml",
        "[queue.outbox]\ntable = 'outbox'\ndate_inserted = 'created'\nwhere = 'sent IS NULL'\n\
         on_success = { sent = '{now}' }\non_failure = { run_at = '{next}' }\n",
    );
    for schedule in ["--progressive", "--policy even --by-age"] {
        let planned =
            env.run_at(MIDNIGHT, &format!("process --queue outbox {schedule} --dry-run")).success();
        for id in 1..5 {
            assert_contains(&planned.stdout, &format!("{id}           try"));
        }
    }
    let explain = "explain 1 --queue outbox --progressive";
    let explained = env.run_at(MIDNIGHT, explain).success().stdout;
    assert_contains(&explained, "because     its due column is empty");
    env.run_at(MIDNIGHT, &format!("process --queue outbox --progressive -- {}", env.noting("")))
        .silent();
    assert_eq!(env.query("SELECT id FROM outbox WHERE sent IS NULL"), "5");
}

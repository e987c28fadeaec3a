//! `backlog adopt`: a mapping is proposed for tables that nobody has described, and nothing is written.

use std::fs;

use test_support::cluster::{Database, cluster};

use crate::testenv::*;

const EMAILS: &str = "
    CREATE TABLE emails (id INTEGER PRIMARY KEY, recipient TEXT, state TEXT NOT NULL, attempts INTEGER NOT NULL,
      max_attempts INTEGER NOT NULL, last_error TEXT, created_at {instant} NOT NULL, sent_at {instant},
      next_attempt_at {instant}, updated_at {instant});
    INSERT INTO emails
      WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200),
        t AS (SELECT i, CASE WHEN i % 50 = 0 THEN 'dead' WHEN i > 190 THEN 'queued' ELSE 'sent' END AS s, {at} AS at FROM n)
      SELECT i, 'a@example.com', s, CASE WHEN s = 'dead' THEN 5 WHEN i = 195 THEN 2 WHEN s = 'queued' THEN 0 ELSE 1 END, 5,
        CASE WHEN s = 'dead' OR i = 195 THEN 'timed out' END, at, CASE WHEN s = 'sent' THEN at END, CASE WHEN i = 195 THEN at END, at FROM t;
    CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT, created_at {instant})";

const ON_SQLITE: [(&str, &str); 2] =
    [("{instant}", "TEXT"), ("{at}", "datetime(1795000000 + i * 60, 'unixepoch')")];
const ON_POSTGRES: [(&str, &str); 2] =
    [("{instant}", "timestamptz"), ("{at}", "to_timestamp(1795000000 + i * 60)")];

fn on(sql: &str, words: [(&str, &str); 2]) -> String {
    words.iter().fold(sql.into(), |sql: String, (word, is)| sql.replace(word, is))
}

/// A database with a schema on PostgreSQL, if there is a server.
fn server(sql: &str) -> Option<(TestEnv, Database)> {
    let database = database()?;
    database.sql(&on(sql, ON_POSTGRES));
    Some((TestEnv::on(&database), database))
}

/// The section without its comments.
fn keys(ran: &Ran) -> String {
    let is_place = |line: &&str| ["db =", "state_dir ="].iter().any(|key| line.starts_with(key));
    let lines = ran.stdout.lines().filter(|line| !line.starts_with('#') && !is_place(line));
    lines.collect::<Vec<_>>().join("\n").trim().into()
}

const OF_EMAILS: &str = r#"[queue.emails]
table = "emails"
id = "id"
date_inserted = "created_at"
status = { column = "state", new = "queued", error = "queued", success = "sent", archived = "dead" }
failures = { column = "attempts", counts = "attempts" }
max_attempts = { column = "max_attempts" }
last_error = "last_error"
on_success = { sent_at = "{now}", updated_at = "{now}" }
on_failure = { next_attempt_at = "{next}", updated_at = "{now}" }
progressive = true"#;

#[test]
fn a_table_is_found_among_others_and_described_so_that_a_pass_can_work_on_it() {
    let env = TestEnv::with_schema(&on(EMAILS, ON_SQLITE));
    let mut on_both = vec![env];
    let held = server(EMAILS);
    match held {
        Some((env, ref _database)) => on_both.push(env),
        None => skipped("adopt on PostgreSQL: no server"),
    }
    for env in on_both {
        let adopted = env.run("adopt").success();
        assert_eq!(keys(&adopted), OF_EMAILS);
        assert_contains(&adopted.stdout, "# counts attempts, by its name");
        assert_contains(&adopted.stdout, "'dead' in 4 rows");
        // Standard output is the file alone; the findings of check and what to type stand beside it.
        assert_contains(&adopted.stderr, "ok       table       emails, 200 rows");
        assert_contains(&adopted.stderr, "\n  backlog check --queue emails\n");
        env.write("backlog.toml", &adopted.stdout);
        let handler = env.noting("exit 0");
        let mut command = env.command(&format!("process --queue emails -- {handler}"));
        command.env_remove("BACKLOG_DB").ran().success();
        assert_eq!(env.handled().len(), 9);
    }
}

#[test]
fn nothing_is_written() {
    let env = TestEnv::with_schema(&on(EMAILS, ON_SQLITE));
    let names = || {
        let mut names: Vec<_> = fs::read_dir(env.path("."))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let (before, files) = (fs::read(env.db()).unwrap(), names());
    env.run("adopt").success();
    assert_eq!((fs::read(env.db()).unwrap(), names()), (before, files));
    let Some((env, database)) = server(EMAILS) else { return skipped("adopt: no server") };
    // A user who may only read is enough.
    database
        .sql("CREATE ROLE adopter LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO adopter");
    let url = database.url().replace("postgres@", "adopter@");
    let adopted = env.run(&format!("adopt --db {url}")).success();
    assert_eq!(keys(&adopted), OF_EMAILS);
    drop(env);
    database.sql("DROP OWNED BY adopter; DROP ROLE adopter");
}

#[test]
fn what_the_rows_do_not_say_is_a_question_and_never_a_guess() {
    let schema = "
        CREATE TABLE sync_tasks (id INTEGER PRIMARY KEY, status INTEGER NOT NULL, created_at TEXT NOT NULL);
        INSERT INTO sync_tasks WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)
          SELECT i, i % 3, datetime(1795000000 + i * 60, 'unixepoch') FROM n;
        CREATE TABLE jobs_without_state (id INTEGER PRIMARY KEY, attempts INTEGER, run_at TEXT, created_at TEXT NOT NULL, locked_at TEXT);
        INSERT INTO jobs_without_state SELECT id, 0, created_at, created_at, NULL FROM sync_tasks";
    let env = TestEnv::with_schema(schema);
    for (table, question) in [
        ("sync_tasks", "status has the value 1 in 14 rows, 0 in 13 rows, 2 in 13 rows."),
        ("jobs_without_state", "which rows are pending"),
    ] {
        let adopted = env.run(&format!("adopt --table {table}")).exits(1);
        assert_contains(&adopted.stdout, &format!("# QUESTION: {question}"));
        assert!(adopted.stdout.parse::<toml::Table>().is_err(), "{adopted:?}");
        assert_lacks(&adopted.stdout, "\non_success = \"delete\"");
        assert_contains(&adopted.stderr, "1 question open");
        assert_lacks(&adopted.stderr, "ok       table");
        assert_eq!(env.run(&format!("adopt {table}")).stdout, adopted.stdout);
    }
    // Which of them it is, nobody knows either.
    env.run("adopt").fails(2, &["which table? name it with --table", "jobs_without_state"]);
    env.run("adopt --table mail").fails(1, &["no table \"mail\"; tables here: "]);
    // At a terminal it asks.
    let db = env.path_text("test.db");
    let asked = env.at_terminal(100, &format!("adopt --db {db} sync_tasks"), "x\n9\n2\n1\n3\n");
    let line = r#"status = { column = "status", new = 0, error = 1, success = 2 }"#;
    assert_contains(&asked.stdout, line);
    assert_eq!(asked.exit, Some(0), "{asked:?}");
    let asked = env.at_terminal(100, &format!("adopt --db {db} jobs_without_state"), "1\n");
    assert_contains(&asked.stdout, "on_success = \"delete\"");
}

const N: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)";

/// Output of `adopt` for a table `t` with 40 rows, which `{n}` numbers from 1 as `i`.
fn adopted(columns: &str, values: &str) -> Ran {
    let env = TestEnv::with_schema(&format!(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, {columns}, created_at TEXT NOT NULL);
         INSERT INTO t {N} SELECT i, {values}, datetime(1795000000 + i * 60, 'unixepoch') FROM n"
    ));
    env.run("adopt t")
}

#[test]
fn bytes_can_be_the_key_of_a_table() {
    let env = TestEnv::with_schema(
        "CREATE TABLE messages (id BLOB PRIMARY KEY NOT NULL, state TEXT, created_at TEXT);
         INSERT INTO messages VALUES (x'00ff', 'new', '2026-11-20'), (x'01ff', 'done', '2026-11-21')",
    );
    let adopted = env.run("adopt messages");
    assert_lacks(&adopted.stdout, "which columns identify a record?");
    assert_lacks(&adopted.stdout, "id = ?");
}

#[test]
fn new_orders_are_not_taken_for_jobs_whose_finished_ones_are_deleted() {
    let env = TestEnv::with_schema(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT, state TEXT DEFAULT 'new', created_at TEXT);
         INSERT INTO orders WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12)
           SELECT 1000 + i, 'customer ' || i, 'new', datetime(1795000000 + i * 60, 'unixepoch') FROM n",
    );
    let orders = env.run("adopt orders");
    let line = r#"status = { column = "state", new = "new", error = "new", success = ? }"#;
    assert!(orders.exit == Some(1) && keys(&orders).contains(line), "{orders:?}");
    assert!(!keys(&orders).contains("delete"), "{orders:?}");
    assert!(orders.stdout.parse::<toml::Table>().is_err());
    let db = env.path_text("test.db");
    let asked = env.at_terminal(100, &format!("adopt --db {db} orders"), "1\n");
    assert!(asked.exit == Some(0) && asked.stdout.contains("on_success = \"delete\""), "{asked:?}");
    // Once nothing is open, it lists what the mapping cannot do.
    for limit in ["to try all pending ones: backlog process --ndays 365", "(status.archived)"] {
        assert!(!orders.stderr.contains(limit) && asked.stdout.contains(limit), "{asked:?}");
    }
}

#[test]
fn what_names_and_values_leave_no_doubt_about_is_no_question() {
    for (columns, values, lines) in [
        (
            "status TEXT",
            "CASE WHEN i < 9 THEN 'new' WHEN i < 30 THEN 'done' ELSE 'failed' END",
            r#"status = { column = "status", new = "new", error = "failed", success = "done" }"#,
        ),
        (
            "payload TEXT, processed_at TEXT, attempts INTEGER NOT NULL DEFAULT 0",
            "'{}', CASE WHEN i < 30 THEN datetime(1795000000 + i * 60, 'unixepoch') END, i < 30",
            "where = \"processed_at IS NULL\"\n\
             failures = { column = \"attempts\", counts = \"attempts\" }\n\
             on_success = { processed_at = \"{now}\" }",
        ),
        // Those of the United States are no status, though OK is a word of one.
        (
            "state TEXT, status TEXT",
            "substr('AKOKCANY', 1 + 2 * (i % 4), 2), CASE WHEN i < 30 THEN 'sent' ELSE 'queued' END",
            r#"status = { column = "status", new = "queued", error = "queued", success = "sent" }"#,
        ),
        (
            "is_sent BOOLEAN NOT NULL",
            "i < 30",
            r#"status = { column = "is_sent", new = 0, error = 0, success = 1 }"#,
        ),
        // Values that a row may have, though none has.
        (
            "status TEXT CHECK (status IN ('new', 'failed') OR status = 'done')",
            "'new'",
            r#"status = { column = "status", new = "new", error = "failed", success = "done" }"#,
        ),
    ] {
        let adopted = adopted(columns, values).success();
        assert!(keys(&adopted).contains(lines), "{adopted:?}");
    }
}

#[test]
fn each_column_with_few_values_is_shown_and_words_that_nobody_knows_are_asked_about() {
    let german = "CASE WHEN i < 20 THEN 'offen' WHEN i < 35 THEN 'erledigt' ELSE 'fehler' END";
    let adopted = adopted("zweig TEXT, state TEXT", &format!("'z' || (i % 2), {german}"));
    for shown in [
        "# zweig: 'z0' in 20 rows, 'z1' in 20 rows",
        "# state: 'offen' in 19 rows, 'erledigt' in 15 rows, 'fehler' in 6 rows",
        "\nstatus = { column = \"state\", new = ?, error = ?, success = ? }",
    ] {
        assert_contains(&adopted.stdout, shown);
    }
    let env = TestEnv::with_schema(&format!(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, state TEXT, created_at TEXT NOT NULL);
         INSERT INTO t {N} SELECT i, {german}, datetime(1795000000 + i * 60, 'unixepoch') FROM n"
    ));
    let asked = env.at_terminal(100, &format!("adopt --db {} t", env.db().display()), "1\n3\n5\n");
    for text in [
        "state has the value 'offen' in 19 rows. Is it new, failed, done, given up, or none of these?",
        r#"status = { column = "state", new = "offen", error = "offen", success = "erledigt" }"#,
        "# left alone: 'fehler' in 6 rows",
    ] {
        assert!(asked.stdout.contains(text), "{text} {asked:?}");
    }
}

#[test]
fn what_may_take_pending_rows_out_of_the_queue_is_asked_about() {
    let at = "datetime(1795000000 + i * 60, 'unixepoch')";
    let done = format!("CASE WHEN i < 20 THEN {at} END");
    for (column, value, without) in [
        ("failed_at TEXT", format!("CASE WHEN i > 35 THEN {at} END"), "failed_at IS NULL"),
        ("locked_by TEXT", "CASE WHEN i = 40 THEN 'host' END".into(), "locked_by IS NULL"),
        ("deleted INTEGER", "i % 5 = 0".into(), "coalesce(deleted, 0) = 0"),
        ("tries INTEGER, max_tries INTEGER", "i % 4, 3".into(), "tries < max_tries"),
    ] {
        let asked = adopted(&format!("sent_at TEXT, {column}"), &format!("{done}, {value}"));
        let condition = format!("\n# where = \"sent_at IS NULL AND {without}\"\nwhere = ?\n");
        assert!(asked.exit == Some(1) && asked.stdout.contains(&condition), "{asked:?}");
        assert_contains(&asked.stdout, "it is NULL in 21 rows, set in 19");
    }
    // A record that has failed is pending as well.
    let status = "CASE WHEN i < 20 THEN 'done' WHEN i < 30 THEN 'new' ELSE 'failed' END";
    let deleted = format!("{status}, CASE WHEN i > 35 THEN {at} END");
    let asked = adopted("status TEXT, deleted_at TEXT", &deleted);
    assert_contains(&asked.stdout, "deleted_at is set in 5 of 21 rows that would be");
    // Before any of them is deleted this is a fact at least.
    let never = adopted("status TEXT, deleted_at TEXT", &format!("{status}, NULL")).success();
    assert_contains(&never.stdout, "# deleted_at: NULL in 40 rows\n");
    // Dates of rows that are done take nothing out.
    let opened = adopted("sent_at TEXT, opened_at TEXT", &format!("{done}, {done}")).success();
    assert!(keys(&opened).contains("where = \"sent_at IS NULL\""), "{opened:?}");
    // Such a name may mean another date, which a failure must not overwrite.
    for name in ["valid_until", "due_date", "next_birthday", "best_before"] {
        let perhaps = adopted(&format!("status TEXT, {name} TEXT"), &format!("{status}, {at}"));
        let question = "QUESTION: which column decides when a record is due?";
        assert!(perhaps.exit == Some(1) && perhaps.stdout.contains(question), "{perhaps:?}");
    }
    // Neither is a later date one that a record waits for.
    let later = adopted("status TEXT, valid TEXT", "'new', datetime('2030-01-01')");
    assert_contains(&later.stdout, "QUESTION: which column decides when a record is due?");
}

#[test]
fn a_question_has_both_directions_and_is_no_guess_by_a_name() {
    let status = "CASE WHEN i < 20 THEN 'done' ELSE 'new' END";
    let asked = adopted("status TEXT, active INTEGER", &format!("{status}, i % 2"));
    let question = "If all of them are, remove coalesce(active, 0) = 0 from this condition; if only the \
                    others are, replace it with coalesce(active, 0) <> 0:";
    let text = asked.stdout.replace("\n# ", " ");
    assert!(asked.exit == Some(1) && text.contains(question), "{asked:?}");
    // A counter that does not begin at 0 may be a limit.
    let limit = adopted("status TEXT, retries INTEGER NOT NULL", &format!("{status}, 5"));
    let question = "QUESTION: retries does not begin at 0. What is it?";
    assert!(limit.stdout.contains(question) && keys(&limit).contains("failures = ?"), "{limit:?}");
    // Which of two dates a success sets, nobody knows.
    let both = "status TEXT, sent_at TEXT, delivered_at TEXT";
    let two = adopted(both, &format!("{status}, NULL, NULL")).success();
    let comment =
        "# a success sets none of sent_at, delivered_at: add the right one to on_success\n";
    assert_contains(&two.stdout, comment);
    // What a CHECK constraint names is shown, though no row has it.
    let check = "status TEXT CHECK (status IN ('new', 'done', 'parked'))";
    let parked = adopted(check, status).success();
    assert_contains(&parked.stdout, "# left alone: 'parked' in no row\n");
    // Without a date there is nothing to choose from, and so nothing to ask at a terminal.
    let env = TestEnv::with_schema(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, status TEXT); INSERT INTO t VALUES (1, 'new'), (2, 'done')",
    );
    let asked = env.at_terminal(100, &format!("adopt --db {} t", env.db().display()), "");
    assert_contains(&asked.stdout, "\ndate_inserted = ?");
    assert_lacks(&asked.stdout, "1 to 0");
    // A column of that name is offered though some rows have no date.
    env.sql("ALTER TABLE t ADD COLUMN created_at TEXT; UPDATE t SET created_at = '2026-11-20' WHERE id = 1");
    let dated = env.run("adopt t");
    let offered = "# - created_at as iso: the newest is 2026-11-20T00:00:00Z, none in 1 row\n";
    assert!(
        keys(&dated).contains("date_inserted = ?") && dated.stdout.contains(offered),
        "{dated:?}"
    );
    // Other values than NULL may say that there is no date.
    for (column, none, condition) in [
        ("processed_at TEXT NOT NULL DEFAULT ''", "''", "coalesce(processed_at, '') = ''"),
        ("processed_at INTEGER NOT NULL", "0", "coalesce(processed_at, 0) = 0"),
    ] {
        let value = format!("CASE WHEN i < 20 THEN 1795000000 ELSE {none} END");
        let value = if none == "0" { value } else { value.replace("1795000000", "'2026-11-20'") };
        let empty = adopted(column, &value).success();
        let count = "it is empty in 21 rows, set in 19";
        let line = format!("where = \"{condition}\"");
        assert!(empty.stdout.contains(count) && keys(&empty).contains(&line), "{empty:?}");
    }
}

#[test]
fn a_word_alone_makes_no_status_and_no_date() {
    let at = "datetime(1795000000 + i * 60, 'unixepoch')";
    let done = format!("CASE WHEN i < 20 THEN {at} END");
    let event = "CASE i % 3 WHEN 0 THEN 'failed' WHEN 1 THEN 'delivered' ELSE 'open' END";
    // Types of events, and the states of a country, beside a date of what is done.
    for (columns, values, choice) in [
        ("event TEXT", event.to_string(), "# - event is the status: 'delivered' in 14 rows"),
        (
            "event TEXT, processed_at TEXT",
            format!("{event}, {done}"),
            "# - a record is pending while processed_at IS NULL",
        ),
        (
            "state TEXT, sent_at TEXT",
            format!("substr('CANYOK', 1 + 2 * (i % 3), 2), {done}"),
            "# - a record is pending while sent_at IS NULL",
        ),
    ] {
        let asked = adopted(columns, &values);
        let question = "# QUESTION: which rows are pending, and what happens to finished ones?";
        for text in [question, choice, "\nwhere = ?\n"] {
            let stdout = asked.stdout.replace(",\n# ", ", ");
            assert!(asked.exit == Some(1) && stdout.contains(text), "{text} {asked:?}");
        }
    }
    // `sent` may be a flag, a number or a date as long as every row has 0; and 1 may be one of many.
    for value in ["0", "i % 2"] {
        let sent = adopted("sent INTEGER NOT NULL DEFAULT 0", value);
        let question = "QUESTION: sent has the value 0 in";
        assert!(sent.exit == Some(1) && sent.stdout.contains(question), "{sent:?}");
        assert!(!keys(&sent).contains("{now}"), "{sent:?}");
    }
    let flag = adopted("sent BOOLEAN NOT NULL DEFAULT 0", "0").success();
    let line = "status = { column = \"sent\", new = 0, error = 0, success = 1 }";
    assert!(keys(&flag).contains(line), "{flag:?}");
    let flags = "CREATE TABLE t (id integer PRIMARY KEY, sent boolean NOT NULL DEFAULT false, created_at timestamptz NOT NULL);
        INSERT INTO t SELECT i, false, now() FROM generate_series(1, 9) AS i";
    match server(flags) {
        Some((env, _database)) => {
            let line = "status = { column = \"sent\", new = false, error = false, success = true }";
            assert!(keys(&env.run("adopt t").success()).contains(line));
        }
        None => skipped("adopt of flags on PostgreSQL: no server"),
    }
    // Flags in words, and one that is called as a date.
    let status = "CASE WHEN i < 20 THEN 'done' ELSE 'new' END";
    for (flag, value, no) in
        [("is_deleted TEXT", "substr('YN', 1 + i % 2, 1)", "'N'"), ("available INT", "i % 2", "0")]
    {
        let asked = adopted(&format!("status TEXT, {flag}"), &format!("{status}, {value}"));
        let (name, _) = flag.split_once(' ').unwrap();
        let condition = format!("\n# where = \"coalesce({name}, {no}) = {no}\"\nwhere = ?\n");
        assert_contains(&asked.stdout, &condition);
    }
    // A counter that new rows begin with 3 counts down.
    let down =
        adopted("status TEXT, tries INT", &format!("{status}, CASE WHEN i < 20 THEN 0 ELSE 3 END"));
    assert_contains(&down.stdout, "QUESTION: tries does not begin at 0.");
}

#[test]
fn a_proposal_in_which_check_finds_an_error_is_no_success() {
    let computed = "status TEXT GENERATED ALWAYS AS (CASE WHEN id < 9 THEN 'new' ELSE 'done' END)";
    let env = TestEnv::with_schema(&format!(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, created_at TEXT NOT NULL, {computed});
         INSERT INTO t {N} SELECT i, datetime(1795000000 + i * 60, 'unixepoch') FROM n"
    ));
    let adopted = env.run("adopt t");
    assert_contains(&adopted.stderr, "error    status      status cannot be");
    assert!(adopted.exit == Some(1) && !adopted.stdout.contains("QUESTION"), "{adopted:?}");
}

#[test]
fn a_number_is_a_date_only_in_the_one_format_in_which_all_are_plausible() {
    let dated = |value: &str| {
        let env = TestEnv::with_schema(&format!(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, status TEXT, created BIGINT NOT NULL);
             INSERT INTO t {N} SELECT i, CASE WHEN i < 9 THEN 'new' ELSE 'done' END, {value} FROM n"
        ));
        env.run("adopt t")
    };
    for (value, format) in [
        ("1795000000 + i", "epoch"),
        ("1795000000000 + i", "epoch-ms"),
        ("1795000000000000 + i", "epoch-us"),
        ("1795000000000000000 + i", "epoch-ns"),
        ("816692800 + i", "apple"),
    ] {
        let line = format!("date_inserted = {{ column = \"created\", format = \"{format}\" }}");
        let dated = dated(value).success();
        assert!(keys(&dated).contains(&line), "{dated:?}");
    }
    // Ticks of today are nanoseconds of Apple's of another year.
    let asked = dated("639306000000000000 + i");
    for text in
        ["created as ticks: the newest is 2026-11-", "created as apple: the newest is 2021-"]
    {
        assert_contains(&asked.stdout, text);
    }
    assert_contains(&asked.stdout, "\ndate_inserted = ?\n");
    // No format has these in this century, or has them only long from now.
    for value in ["2600000000 + i", "i", "CASE i WHEN 7 THEN 4000000000 ELSE 1795000000 END"] {
        let asked = dated(value);
        assert_contains(&asked.stdout, "\ndate_inserted = ?\n");
        assert_lacks(&asked.stdout, "format =");
    }
}

#[test]
fn a_value_that_a_check_refuses_is_not_written() {
    let env = TestEnv::with_schema(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, status TEXT CHECK (status <> 'done'), created_at TEXT NOT NULL);
         PRAGMA ignore_check_constraints = ON;
         INSERT INTO t VALUES (1, 'new', '2026-11-20 00:00:00'), (2, 'done', '2026-11-20 00:00:00');",
    );
    let asked = env.run("adopt t");
    assert!(keys(&asked).contains("success = ? }"), "{asked:?}");
    assert_contains(&asked.stdout, "left alone: 'done' in 1 row (a CHECK constraint refuses it)");
    let Some((env, database)) = server("CREATE TABLE t (id int PRIMARY KEY, status text DEFAULT 'new', created_at {instant} NOT NULL);
        INSERT INTO t VALUES (1, 'new', now()), (2, 'done', now());
        ALTER TABLE t ADD CHECK (status IN ('new', 'success')) NOT VALID") else {
        return skipped("adopt on PostgreSQL: no server");
    };
    let adopted = env.run("adopt t").success();
    assert!(keys(&adopted).contains(r#"error = "new", success = "success" }"#), "{adopted:?}");
    assert_contains(&adopted.stdout, "left alone: 'done' in 1 row (a CHECK constraint refuses it)");
    // Every pass has to find the same notes.
    assert_contains(&adopted.stdout, "\nstate_dir = \"/");
    drop(database);
}

#[test]
fn a_state_directory_that_is_named_is_written() {
    let env = TestEnv::with_schema(&on(EMAILS, ON_SQLITE));
    assert_contains(&env.run("adopt --state-dir kept").success().stdout, "/kept\"\n");
    let mut command = env.command("adopt");
    let adopted = command.env("BACKLOG_STATE_DIR", "/var/lib/kept").output().unwrap();
    assert_contains(&ran(&adopted).success().stdout, "state_dir = \"/var/lib/kept\"\n");
}

#[test]
fn counts_of_a_large_table_are_those_of_a_sample() {
    let env = TestEnv::with_schema(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, status TEXT, created_at TEXT NOT NULL);
         INSERT INTO t VALUES (1, 'done', '2026-11-20 00:00:00'), (300000, 'new', '2026-11-21 00:00:00')",
    );
    let adopted = env.run("adopt t");
    for text in [
        "the counts are from a sample",
        "# status: 'done' in 1 row, 'new' in 1 row",
        // A value that no row of a sample has may be in others.
        "# QUESTION: no value of status here means failed (all values: SELECT status, count(*)",
        "\nstatus = { column = \"status\", new = \"new\", error = ?, success = \"done\" }\n",
    ] {
        assert!(adopted.exit == Some(1) && adopted.stdout.contains(text), "{adopted:?}");
    }
}

#[test]
fn the_tables_of_other_software_are_known_by_their_columns() {
    let tables: toml::Table = include_str!("../../docs/job-tables.toml").parse().unwrap();
    for (queue, described) in tables["queue"].as_table().unwrap() {
        let schema = |engine: &str| {
            let tables = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tables");
            fs::read_to_string(format!("{tables}/{queue}.{engine}.sql")).unwrap()
        };
        let env = TestEnv::with_schema(&schema("sqlite"));
        let mut on_both = vec![env];
        let database = database();
        on_both.extend(database.as_ref().map(|database| {
            database.sql(&schema("postgres"));
            TestEnv::on(database)
        }));
        for env in on_both {
            let adopted = env.run("adopt");
            // One has a record without a date, which is an error of check's.
            assert_contains(&adopted.stderr, ", 0 questions open\n");
            env.write("adopted.toml", &adopted.stdout);
            let adopted: toml::Table = adopted.stdout.parse().unwrap();
            let mut adopted = adopted["queue"][&**queue].as_table().unwrap().clone();
            adopted.remove("db");
            adopted.remove("state_dir");
            let table = adopted.remove("table").unwrap();
            assert!(
                table.as_str().unwrap().eq_ignore_ascii_case(described["table"].as_str().unwrap())
            );
            adopted.retain(|key, value| described.get(key) != Some(value));
            adopted.remove("progressive");
            assert!(adopted.is_empty(), "{queue}: {adopted:?}");
            let pass = format!("process --config adopted.toml --queue {queue} --dry-run");
            env.run_at(MIDNIGHT, &pass).success();
        }
    }
}

#[test]
fn a_known_table_with_columns_of_its_own_is_another_one_or_they_are_shown() {
    let jobs = |column: &str, value: &str| {
        let env = TestEnv::with_schema(&format!(
            "CREATE TABLE jobs (id INTEGER PRIMARY KEY, queue TEXT NOT NULL, payload TEXT NOT NULL,
               attempts INTEGER NOT NULL, reserved_at INTEGER, available_at INTEGER NOT NULL,
               created_at INTEGER NOT NULL, {column});
             INSERT INTO jobs {N} SELECT i, 'default', '{{}}', 0, NULL, 1795000000, 1795000000,
               CASE WHEN i % 2 THEN {value} END FROM n"
        ));
        env.run("adopt")
    };
    let finished = jobs("finished_at INTEGER", "1795000000");
    assert!(!keys(&finished).contains("delete"), "{finished:?}");
    let tenant = jobs("tenant TEXT", "'a'").success();
    let shown = "# columns that this mapping does not use\n# tenant: NULL in 20 rows, ";
    assert!(keys(&tenant).contains("delete") && tenant.stdout.contains(shown), "{tenant:?}");
    // A date or a truth may take rows out.
    let cancelled = jobs("cancelled_at INTEGER", "1795000000");
    let question = "QUESTION: cancelled_at is set in 20 of 40 rows. Does that take rows out";
    for text in
        [question, "# where = \"queue = 'default' AND reserved_at IS NULL\"\n", "\nwhere = ?"]
    {
        assert!(cancelled.exit == Some(1) && cancelled.stdout.contains(text), "{cancelled:?}");
    }
}

#[test]
fn another_name_of_a_queue_is_taken_from_the_rows() {
    let schema =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tables/laravel.sqlite.sql"));
    let env = TestEnv::with_schema(&schema.unwrap());
    env.sql("UPDATE jobs SET queue = 'mail'");
    let adopted = env.run("adopt").success();
    assert!(
        keys(&adopted).contains("where = \"queue = 'mail' AND reserved_at IS NULL\""),
        "{adopted:?}"
    );
    env.sql("UPDATE jobs SET queue = 'other' WHERE id > 3");
    assert_contains(&env.run("adopt").exits(1).stdout, "QUESTION: which queue is processed?");
}

#[test]
fn a_password_is_in_no_proposal() {
    let Some((env, database)) = server(EMAILS) else { return skipped("adopt: no server") };
    let url = database.url().replace("postgres@", "postgres:secret@");
    let adopted = env.run(&format!("adopt --db {url}")).success();
    assert!(
        !adopted.stdout.contains("secret") && !adopted.stderr.contains("secret"),
        "{adopted:?}"
    );
    assert_contains(&adopted.stdout, "db = \"postgres://");
}

/// Result of comparing a proposal with the key of a table: see tests/tables/public/README.md.
#[derive(Debug, PartialEq)]
enum Mark {
    Right,
    Asked,
    Wrong(String),
}

fn texts(key: &toml::Table, name: &str) -> Vec<String> {
    let values = key.get(name).and_then(toml::Value::as_array).into_iter().flatten();
    values.map(|value| value.as_str().unwrap().to_lowercase()).collect()
}

/// The column of a key that is one, or has one.
fn column(mapping: &toml::Table, key: &str) -> Option<String> {
    let value = mapping.get(key)?;
    value.get("column").unwrap_or(value).as_str().map(str::to_lowercase)
}

fn id_columns(mapping: &toml::Table) -> Vec<String> {
    let id = &mapping["id"];
    let several = id.as_array().into_iter().flatten().chain(id.as_str().is_some().then_some(id));
    several.map(|value| value.as_str().unwrap().to_string()).collect()
}

fn mark(env: &TestEnv, database: Option<&Database>, key: &toml::Table) -> Mark {
    let table = key["table"].as_str().unwrap();
    let adopted = env.run(&format!("adopt --table {table}"));
    assert!(adopted.exit.is_some_and(|exit| exit < 2), "{table}: {adopted:?}");
    env.write("adopted.toml", &adopted.stdout);
    if adopted.stdout.contains("# QUESTION: ") {
        return Mark::Asked;
    }
    let mapping: toml::Table = adopted.stdout.parse().unwrap();
    let (queue, mapping) = mapping["queue"].as_table().unwrap().iter().next().unwrap();
    let mapping = mapping.as_table().unwrap();
    let wrong = |what: &str| Mark::Wrong(format!("{what}: {mapping:?}"));
    let id: Vec<_> = id_columns(mapping).iter().map(|name| name.to_lowercase()).collect();
    let ids = key["id"].as_array().unwrap().iter();
    let mut ids = ids.map(|id| {
        id.as_array()
            .unwrap()
            .iter()
            .map(|value| value.as_str().unwrap().to_lowercase())
            .collect::<Vec<_>>()
    });
    if !ids.any(|value| value == id) {
        return wrong("id");
    }
    let dates = [texts(key, "date_inserted"), texts(key, "date_inserted_tolerable")].concat();
    match column(mapping, "date_inserted") {
        Some(date) if !dates.contains(&date) => return wrong("date_inserted"),
        None if !texts(key, "date_inserted").is_empty() => return wrong("date_inserted"),
        _ => {}
    }
    let counters = [texts(key, "failures"), texts(key, "counts_tries")].concat();
    let is_of_attempts = mapping.get("failures").is_some_and(|value| value.get("counts").is_some());
    // Nobody sees values that a success writes to a row that it deletes.
    let is_deleted = mapping.get("on_success").and_then(toml::Value::as_str) == Some("delete");
    match column(mapping, "failures") {
        Some(counter) if !counters.contains(&counter) => return wrong("failures"),
        Some(_) if is_deleted => {}
        Some(counter) if is_of_attempts != texts(key, "counts_tries").contains(&counter) => {
            return wrong("counts");
        }
        _ => {}
    }
    if column(mapping, "last_error").is_some_and(|value| !texts(key, "last_error").contains(&value))
    {
        return wrong("last_error");
    }
    let due = mapping.get("on_failure").and_then(toml::Value::as_table).into_iter().flatten();
    let mut due = due
        .filter(|(_, value)| value.as_str() == Some("{next}"))
        .map(|(name, _)| name.to_lowercase());
    let (due, keys) = (due.next(), texts(key, "due"));
    if due.is_some() == keys.is_empty() || due.is_some_and(|due| !keys.contains(&due)) {
        return wrong("due");
    }
    if let (Some(status), Some(values)) = (mapping.get("status"), key.get("values")) {
        for (name, other) in [("success", vec!["success"]), ("archived", vec!["archived"])] {
            let values: Vec<_> =
                other.iter().flat_map(|value| texts(values.as_table().unwrap(), value)).collect();
            let said = match status.get(name) {
                Some(toml::Value::Array(all)) => {
                    all.iter().map(|value| value.as_str().unwrap().to_lowercase()).collect()
                }
                Some(toml::Value::String(one)) => vec![one.to_lowercase()],
                Some(one) => vec![one.to_string()],
                None => vec![],
            };
            // Labels that no row has are not in the key.
            let is_said_otherwise =
                said.iter().any(|value| {
                    !values.contains(value)
                        && key["values"].as_table().unwrap().keys().any(|name| {
                            texts(key["values"].as_table().unwrap(), name).contains(value)
                        })
                });
            if is_said_otherwise {
                return wrong(name);
            }
        }
    }
    // Which rows a pass would take, sooner or later.
    let list = format!("list --config adopted.toml --queue {queue} --status NEW,ERROR --json");
    let listed = env.run(&list).success().stdout;
    let part =
        |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), String::from);
    let mut listed: Vec<_> = listed
        .lines()
        .map(|row| {
            let row = json(row);
            let parts =
                row["id"].as_array().map(|parts| parts.iter().map(part).collect::<Vec<_>>());
            parts.map_or_else(|| part(&row["id"]), |parts| parts.join(","))
        })
        .collect();
    let quoted = |name: &str| format!("CAST(\"{}\" AS text)", name.replace('"', "\"\""));
    let names: Vec<_> = id_columns(mapping).iter().map(|name| quoted(name)).collect();
    let name = match database {
        Some(_) => table.split('.').map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join("."),
        None => format!("\"{table}\""),
    };
    let sql = format!(
        "SELECT {} FROM {name} WHERE {}",
        names.join(" || ',' || "),
        key["pending_sql"].as_str().unwrap()
    );
    let pending = database.map_or_else(|| env.query(&sql), |server| server.query(&sql));
    let mut pending: Vec<_> = pending.lines().map(String::from).collect();
    listed.sort();
    pending.sort();
    if listed == pending { Mark::Right } else { wrong("pending") }
}

/// Looks at the tables of public projects, each with a key that says what is right
/// (tests/tables/public/README.md), less the rows that are chosen by the table's name in SQL and its key.
/// None may be wrong; handed out are the names of the right ones and of those that are asked about.
fn look(without: impl Fn(&str, &toml::Table) -> Option<String>) -> (Vec<String>, Vec<String>) {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tables/public");
    let (mut right, mut asked, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let key: toml::Table = fs::read_to_string(&path).unwrap().parse().unwrap();
        let mut schema = fs::read_to_string(path.with_extension("sql")).unwrap();
        let parts = key["table"].as_str().unwrap().split('.').map(|name| format!("\"{name}\""));
        let table = parts.collect::<Vec<_>>().join(".");
        if let Some(condition) = without(&table, &key) {
            if key["dialect"].as_str() != Some("sqlite") {
                // Other tables may refer to these rows.
                schema += "\nSET session_replication_role = replica;";
            }
            schema += &format!("\nDELETE FROM {table} WHERE {condition};");
        }
        let mark = match key["dialect"].as_str() {
            Some("sqlite") => mark(&TestEnv::with_schema(&schema), None, &key),
            _ => {
                let Some(cluster) = cluster() else { continue };
                let database = cluster.database();
                database.sql(&schema);
                mark(&TestEnv::on(&database), Some(&database), &key)
            }
        };
        match mark {
            Mark::Right => right.push(name),
            Mark::Asked => asked.push(name),
            Mark::Wrong(why) => wrong.push(format!("{name}: {why}")),
        }
    }
    assert_eq!(wrong, [""; 0], "right: {right:?}, asked: {asked:?}");
    (right, asked)
}

#[test]
fn tables_of_public_projects_are_right_or_a_question() {
    let (right, asked) = look(|_, _| None);
    assert!(right.len() >= 2 && right.len() + asked.len() >= 6, "{right:?}, asked: {asked:?}");
}

#[test]
fn a_table_where_nothing_waits_is_right_or_a_question() {
    look(|_, key| key["pending_sql"].as_str().map(String::from));
}

#[test]
fn a_table_with_every_other_row_is_right_or_a_question() {
    look(|table, key| {
        let row = if key["dialect"].as_str() == Some("sqlite") { "rowid" } else { "ctid" };
        let numbered =
            format!("SELECT {row}, row_number() OVER (ORDER BY {row}) AS n FROM {table}");
        Some(format!("{row} IN (SELECT {row} FROM ({numbered}) AS all_rows WHERE n % 2 = 0)"))
    });
}

#[test]
fn what_a_row_holds_is_never_a_line_of_the_file() {
    let schema =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tables/laravel.sqlite.sql"));
    let env = TestEnv::with_schema(&schema.unwrap());
    let hostile =
        ["a\"b", "back\\slash", "' OR 1=1 --", "\"\nexec = [\"/bin/touch\", \"pwned\"]\n#"];
    for name in hostile {
        env.connection().execute("UPDATE jobs SET queue = ?1", [name]).unwrap();
        let adopted = env.run("adopt");
        // What would have to be spelt as SQL and as TOML is left to the user.
        assert!(adopted.stdout.ends_with("\nwhere = ?\nprogressive = true\n"), "{adopted:?}");
        let parsed: toml::Table = adopted.stdout.replace('?', "0").parse().unwrap();
        let queue = parsed["queue"]["laravel"].as_table().unwrap();
        assert!(!queue.contains_key("exec"), "{adopted:?}");
    }
    let odd = "CREATE TABLE \"odd\nexec = [1]\" (\"id\nx\" INTEGER PRIMARY KEY, status TEXT, created_at TEXT, \"updated\nat\" TEXT);
        INSERT INTO \"odd\nexec = [1]\" VALUES (1, 'new', '2026-11-20', NULL), (2, 'done', '2026-11-21', NULL)";
    let env = TestEnv::with_schema(odd);
    let adopted = env.run("adopt --table 'odd\nexec = [1]'");
    let parsed: toml::Table = adopted.stdout.parse().unwrap();
    assert!(parsed["queue"].as_table().unwrap().values().all(|value| value.get("exec").is_none()));
}

#[test]
fn what_does_not_show_is_escaped_in_what_is_proposed() {
    let env = TestEnv::with_schema(
        "CREATE TABLE \"jo\u{202e}bs\u{3164}\" (id INTEGER PRIMARY KEY, \"sta\u{200b}te\" TEXT, status TEXT, created_at TEXT);
         INSERT INTO \"jo\u{202e}bs\u{3164}\" VALUES (1, 'a', 'ne\u{2066}w', '2026-11-20 22:00:00'), (2, 'a', 'done', '2026-11-20 22:00:00')",
    );
    let ran = env.run("adopt --table jo\u{202e}bs\u{3164}");
    for c in ['\u{202e}', '\u{3164}', '\u{200b}', '\u{2066}'] {
        assert!(!ran.stdout.contains(c) && !ran.stderr.contains(c), "{c:?} {ran:?}");
    }
    let proposed: toml::Table = ran.stdout.parse().unwrap();
    assert!(proposed["queue"].to_string().contains("jo\u{202e}bs\u{3164}"), "{proposed}");
}

#[test]
fn what_is_proposed_can_be_appended_to_a_file_with_other_queues() {
    let env = TestEnv::with_schema(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT, created_at TEXT);
         INSERT INTO orders VALUES (1, 'new', '2026-11-20'), (2, 'done', '2026-11-21');
         CREATE TABLE mails (id INTEGER PRIMARY KEY, status TEXT, created_at TEXT);
         INSERT INTO mails VALUES (1, 'new', '2026-11-20'), (2, 'done', '2026-11-21')",
    );
    // The first file has an open question and no end of line.
    let mut file = String::from("[queue.orders]\ndb = ?\n# [queue.mails]");
    env.write("backlog.toml", &file);
    for (table, queue) in [("orders", "orders-2"), ("mails", "mails"), ("orders", "orders-3")] {
        let adopted = env.run(&format!("adopt {table}"));
        file += &adopted.stdout;
        env.write("backlog.toml", &file);
        let renamed =
            format!("backlog.toml has a queue {table} already: this one is named {queue}\n");
        assert_eq!(adopted.stderr.contains(&renamed), table != queue, "{adopted:?}");
        assert_contains(&adopted.stderr, &format!("backlog check --queue {queue}\n"));
    }
    let file: toml::Table = file.replace('?', "'a.db'").parse().unwrap();
    let queues: Vec<_> = file["queue"].as_table().unwrap().keys().collect();
    assert_eq!(queues, ["orders", "orders-2", "mails", "orders-3"]);
}

//! `init` and `add`.

use crate::testenv::*;

#[test]
fn init_creates_exactly_the_table_of_schema_sql() {
    let env = TestEnv::new();
    let by_hand = TestEnv::with_schema(SCHEMA);
    let schema = "SELECT type, name, sql FROM sqlite_master ORDER BY name";
    assert_eq!(env.query(schema), by_hand.query(schema));
    assert_eq!(env.query("PRAGMA journal_mode"), "wal");
}

#[test]
fn the_sqlite3_shell_runs_the_schema() {
    let env = TestEnv::empty();
    let schema = std::fs::File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/schema.sql")).unwrap();
    match std::process::Command::new("sqlite3").arg(env.db()).stdin(schema).output() {
        Ok(output) => assert!(output.status.success(), "{output:?}"),
        Err(error) => return skipped(&format!("schema.sql in sqlite3: {error}")),
    }
    assert_eq!(env.run("add {}").success().stdout, "added 1 record\n");
}

#[test]
fn init_minimal_creates_the_three_columns_and_the_payload() {
    let env = TestEnv::empty();
    env.run("init --minimal").success();
    let columns = env.query("SELECT name FROM pragma_table_info('BACKLOG')");
    assert_eq!(columns, "ID\nSTATUS\nDATE_INSERTED\nPAYLOAD");
    assert_eq!(env.query("SELECT count(*) FROM sqlite_master WHERE name NOT LIKE 'sqlite%'"), "1");
    env.run("add {}").success();
    env.run("process --ndays 1 -- true").silent();
    assert_eq!(env.statuses(), "1|SUCCESS");
}

#[test]
fn init_leaves_an_existing_table_and_journal_mode_alone() {
    let env = TestEnv::with_schema("CREATE TABLE OTHER (X)");
    env.run("init").success();
    assert_eq!(env.query("PRAGMA journal_mode"), "delete");
    env.run("add {}").success();
    let says = format!("backlog: table BACKLOG already exists in {}\n", env.db().display());
    for args in ["init", "init --minimal"] {
        assert_eq!(env.run(args).exits(1).stderr, says);
    }
    assert_eq!(env.statuses(), "1|NEW");
}

#[test]
fn a_name_that_is_taken_is_said_on_one_line() {
    for taken in ["CREATE VIEW BACKLOG AS SELECT 1", "CREATE TABLE BACKLOG_PENDING (X)"] {
        let env = TestEnv::with_schema(taken);
        let ran = env.run("init").fails(1, &["could not create the table in ", "already "]);
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    }
}

#[test]
fn add_takes_payloads_as_arguments() {
    let env = TestEnv::new();
    let ran = env.run(r#"add '{"order":1}' 2 '"three"'"#).success();
    assert_eq!(ran.stdout, "added 3 records\n");
    let rows = env.query("SELECT ID, STATUS, PAYLOAD, FAILURES FROM BACKLOG");
    assert_eq!(rows, "1|NEW|{\"order\":1}|0\n2|NEW|2|0\n3|NEW|\"three\"|0");
}

#[test]
fn add_stamps_records_with_now() {
    let env = TestEnv::new();
    env.run("add --now 2026-03-29T02:30:00+01:00 {}").success();
    assert_eq!(env.query("SELECT DATE_INSERTED FROM BACKLOG"), "2026-03-29T01:30:00Z");
}

#[test]
fn add_reads_one_document_per_line() {
    let env = TestEnv::new();
    let lines: String = (1..=2500).map(|i| format!("{{\"order\":{i}}}\n")).collect();
    let ran = env.run_with_input("add -", format!("{lines}\n  \n[]").as_bytes()).success();
    assert_eq!(ran.stdout, "added 2501 records\n");
    assert_eq!(
        env.query("SELECT PAYLOAD FROM BACKLOG WHERE ID IN (1, 2500)"),
        "{\"order\":1}\n{\"order\":2500}"
    );
}

#[test]
fn add_reads_a_file_and_says_which_one_is_wrong() {
    let env = TestEnv::new();
    env.write("orders.jsonl", "{\"order\":1}\n{\"order\":2}\n");
    assert_eq!(env.run("add orders.jsonl").success().stdout, "added 2 records\n");
    env.write("17", "{");
    assert_eq!(env.run("add 17").success().stdout, "added 1 record\n");
    assert_eq!(env.query("SELECT PAYLOAD FROM BACKLOG WHERE ID = 3"), "17");
    env.write("broken.jsonl", "{}\n{\n");
    let ran = env.run("add broken.jsonl");
    ran.fails(1, &["broken.jsonl: line 2 is not JSON", "; nothing was added\n"]);
    let ran = env.run("add missing.jsonl");
    ran.fails(2, &["payload 1 is not JSON (", "), nor a file; nothing was added: missing.jsonl\n"]);
    assert_eq!(env.count("NEW"), 3);
}

#[test]
fn the_database_needs_no_option_where_no_other_word_is_expected() {
    let env = TestEnv::empty();
    let created = env.run("init shop.db").success().stdout;
    assert_eq!(created, "created table BACKLOG in shop.db\n");
    env.run("add --db shop.db 1").success();
    for command in ["status", "list"] {
        let shown = env.run(&format!("{command} shop.db")).success().stdout;
        assert_contains(&shown, "NEW ");
    }
    assert_eq!(env.run("failures shop.db").success().stdout, "nothing has failed\n");
    let both = env.run("status shop.db --db shop.db");
    both.fails(2, &["the argument '[DATABASE]' cannot be used with '--db <FILE|URL>'"]);
    for command in ["check", "crontab"] {
        let ran = env.run(&format!("{command} shop.db"));
        ran.fails(2, &["put `--` before the handler (a database is given with --db)"]);
    }
    // Other words are ids.
    for command in
        ["process --progressive --db shop.db shop.db -- true", "explain --db shop.db shop.db"]
    {
        let ran = env.run(&command.split(' ').collect::<Vec<_>>());
        let says = "shop.db: no such record; if it is a database, write --db before it\n";
        assert!([ran.stdout, ran.stderr].concat().ends_with(says), "{command}");
    }
}

#[test]
fn a_malformed_line_is_named_and_nothing_of_its_batch_is_written() {
    for bad in ["{\"order\":", "{} {}", "\u{1}", "{'a':1}"] {
        let env = TestEnv::new();
        let mut lines = "{}\n".repeat(10_499);
        lines += bad;
        lines += &"\n{}".repeat(600);
        env.run_with_input("add -", lines.as_bytes())
            .fails(1, &["line 10500 is not JSON", "10000 records, up to line 10000, were added"]);
        assert_eq!(env.query("SELECT count(*) FROM BACKLOG"), "10000", "{bad}");
    }
    let env = TestEnv::new();
    // Large payloads are added in smaller batches.
    let large = format!("\"{}\"\n", "x".repeat(3 << 20)).repeat(4) + "{";
    env.run_with_input("add -", large.as_bytes())
        .fails(1, &["line 5 is not JSON", "3 records, up to line 3, were added"]);
    env.query("DELETE FROM BACKLOG");
    env.run_with_input("add -", b"{}\n\"\xff\"\n").fails(1, &["line 2 is not JSON", "utf-8"]);
    let ran = env.run_with_input("add -", b"{\n").fails(1, &["line 1 is not JSON"]);
    assert!(ran.stderr.ends_with("; nothing was added\n"), "{}", ran.stderr);
    env.run("add {} nonsense").fails(2, &["payload 2 is not JSON", "nothing was added"]);
    assert_eq!(env.query("SELECT count(*) FROM BACKLOG"), "0");
}

#[test]
fn add_works_on_a_table_with_integer_dates() {
    let env = TestEnv::with_schema(
        "CREATE TABLE backlog (id integer primary key, status text, date_inserted integer, payload)",
    );
    env.run("add --now @1795219200 {}").success();
    assert_eq!(env.query("SELECT * FROM backlog"), "1|NEW|1795219200|{}");
}

#[test]
fn add_says_what_a_table_lacks() {
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS, DATE_INSERTED)",
    );
    env.run("add {}").fails(1, &["no column PAYLOAD"]);
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (ID TEXT PRIMARY KEY, STATUS, DATE_INSERTED, PAYLOAD)",
    );
    env.run("add {}").fails(1, &["sets no ID in new rows"]);
    assert_eq!(env.query("SELECT count(*) FROM BACKLOG"), "0");
}

#[test]
fn a_database_in_memory_is_no_file_and_none_is_made() {
    let env = TestEnv::empty();
    for command in ["init", "status"] {
        let ran = env.run(&format!("{command} --db :memory:"));
        ran.fails(2, &["a database in memory would be lost when the command ends"]);
    }
    assert!(!env.path(":memory:").exists());
    env.run("init --db ./:memory:").success();
    assert!(env.path(":memory:").exists());
}

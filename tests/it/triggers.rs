//! What triggers, views and indexes of a SQLite database may use during a pass, which does not
//! trust its schema.

use crate::testenv::*;

/// The usual table with what hangs on it: a full-text index, an R-tree, an expression index, a
/// generated column, a CHECK and a view.
const HANGERS_ON: &str = "
CREATE TABLE BACKLOG (
  ID            INTEGER PRIMARY KEY,
  STATUS        TEXT NOT NULL DEFAULT 'NEW',
  DATE_INSERTED TEXT NOT NULL,
  PAYLOAD       TEXT CHECK (json_valid(PAYLOAD)),
  FAILURES      INTEGER NOT NULL DEFAULT 0,
  LAST_FAILURE  TEXT,
  LAST_ERROR    TEXT,
  KIND          TEXT AS (json_extract(PAYLOAD, '$.kind')),
  DAY           TEXT AS (date(DATE_INSERTED)) STORED
);
CREATE INDEX KINDS ON BACKLOG (json_extract(PAYLOAD, '$.kind'), abs(FAILURES));
CREATE VIRTUAL TABLE errors USING fts5(last_error, content = 'BACKLOG', content_rowid = 'ID');
CREATE VIRTUAL TABLE old_errors USING fts4(last_error);
CREATE VIRTUAL TABLE places USING rtree(id, x0, x1);
CREATE TABLE log (at TEXT, what TEXT, n INTEGER);
CREATE VIEW tags AS SELECT BACKLOG.ID, value FROM BACKLOG, json_each(PAYLOAD, '$.tags');
CREATE TRIGGER came AFTER INSERT ON BACKLOG BEGIN
  INSERT INTO errors(rowid, last_error) VALUES (new.ID, new.LAST_ERROR);
END;
CREATE TRIGGER settled AFTER UPDATE ON BACKLOG BEGIN
  INSERT INTO errors(errors, rowid, last_error) VALUES ('delete', old.ID, old.LAST_ERROR);
  INSERT INTO errors(rowid, last_error) VALUES (new.ID, new.LAST_ERROR);
  INSERT INTO old_errors(last_error) VALUES (new.LAST_ERROR);
  INSERT OR REPLACE INTO places VALUES (new.ID, json_extract(new.PAYLOAD, '$.x'), 100);
  INSERT INTO log SELECT strftime('%Y', new.LAST_FAILURE), group_concat(value, '+'), count(*)
    FROM tags WHERE ID = new.ID;
  INSERT INTO log SELECT snippet(errors, 0, '<', '>', '', 9), highlight(errors, 0, '<', '>'),
    unixepoch('now') > 0 FROM errors WHERE errors MATCH 'route' ORDER BY bm25(errors);
  INSERT INTO log SELECT offsets(old_errors), snippet(old_errors),
    length(matchinfo(old_errors)) + length(matchinfo(old_errors, 'pcx')) FROM old_errors
    WHERE last_error MATCH 'rou*' LIMIT 1;
END;";

#[test]
fn triggers_into_full_text_r_tree_json_and_date_functions_go_on_working() {
    let env = TestEnv::with_schema(HANGERS_ON);
    env.sql(
        "INSERT INTO BACKLOG (DATE_INSERTED, PAYLOAD) VALUES
         ('2026-11-20T23:00:00Z', '{\"kind\": \"a\", \"x\": 7, \"tags\": [\"u\", \"v\"]}')",
    );
    let fails = env.script("fails", "echo no route >&2; exit 1");
    let args = format!(r#"process --fibonacci --where "KIND = 'a'" -- {fails}"#);
    env.run_at(MIDNIGHT, &args).silent();
    assert_eq!(env.query("SELECT rowid FROM errors WHERE errors MATCH 'route'"), "1");
    assert_eq!(env.query("SELECT count(*) > 0 FROM old_errors WHERE last_error MATCH 'rou*'"), "1");
    assert_eq!(env.query("SELECT id FROM places WHERE x0 > 6 AND x1 > 99"), "1");
    let log = "SELECT DISTINCT at, what, n FROM log WHERE what IS NOT NULL ORDER BY 1";
    assert_eq!(env.query(log), "0 0 3 5|no <b>route</b>|40\n2026|u+v|2\nno <route>|no <route>|1");
    env.run("archive 1").success();
    env.run("check --fibonacci -- /bin/true").success();
}

#[test]
fn what_a_trigger_may_not_use_is_named_before_the_first_handler_and_by_check() {
    let env = TestEnv::with_records(1, MIDNIGHT);
    env.sql(
        "CREATE TABLE log (what);
         CREATE TRIGGER spy AFTER UPDATE OF STATUS ON BACKLOG BEGIN
           INSERT INTO log SELECT name FROM pragma_table_info('BACKLOG'); END",
    );
    let says = "unsafe use of virtual table \"pragma_table_info\" in a trigger or view of the \
                database, whose SQL is not trusted: write it without that";
    let handler = env.noting("");
    env.pass(&format!("--ndays 1 -- {handler}"))
        .fails(1, &["table BACKLOG refuses STATUS = 'ERROR': ", says, "no handler"]);
    assert_eq!((env.handled().len(), env.count("NEW")), (0, 1));
    let check = env.run("check --ndays 1 -- /bin/true");
    let finding = format!("error    trigger     the table refuses what a pass writes: {says}\n");
    assert!(check.exit == Some(1) && check.stdout.contains(&finding), "{check:?}");

    let env = TestEnv::new();
    env.sql("CREATE VIEW columns AS SELECT name FROM pragma_table_info('BACKLOG')");
    env.run("list --where 'ID IN (SELECT name FROM columns)'")
        .fails(1, &["is not a condition in SQL: unsafe use of virtual table"]);
}

/// A mistake in a trigger stops a pass just so.
#[test]
fn check_names_a_trigger_that_is_none() {
    let env = TestEnv::new();
    env.sql(
        "CREATE TRIGGER gone AFTER UPDATE ON BACKLOG BEGIN INSERT INTO nosuch VALUES (1); END;
         CREATE TRIGGER gone_too AFTER DELETE ON BACKLOG BEGIN SELECT nosuch(1); END",
    );
    let refused = "the table refuses what a pass writes: no such table: main.nosuch";
    let check = env.run("check --ndays 1 -- /bin/true");
    assert!(check.exit == Some(1) && check.stdout.contains(refused), "{check:?}");
    env.write("backlog.toml", "[defaults]\non_success = \"delete\"\n");
    assert_contains(&env.run("check --ndays 1 -- /bin/true").stdout, "no such function: nosuch");
}

#[test]
fn no_trigger_writes_to_the_tables_behind_a_virtual_one() {
    let env = TestEnv::with_records(1, MIDNIGHT);
    env.sql(
        "CREATE VIRTUAL TABLE words USING fts5(word);
         CREATE TRIGGER spoil AFTER UPDATE ON BACKLOG BEGIN
           UPDATE words_data SET block = x'00'; END",
    );
    env.pass("--ndays 1 -- true").fails(1, &["table words_data may not be modified"]);
}

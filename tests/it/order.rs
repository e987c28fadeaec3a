//! `order = "COLUMN desc"`: records by a column of the table, such as a priority.

use rusqlite::Connection;

use crate::testenv::*;

const JOBS: &str = "INSERT INTO jobs (id, status, date_inserted, priority) VALUES
    (1, 'NEW', '2026-11-20 00:00:01', 1), (2, 'NEW', '2026-11-20 00:00:02', 5),
    (3, 'NEW', '2026-11-20 00:00:03', NULL), (4, 'NEW', '2026-11-20 00:00:04', 5),
    (5, 'ERROR', '2026-11-20 00:00:05', 9), (6, 'ERROR', '2026-11-20 00:00:06', 2),
    (7, 'ERROR', '2026-11-20 00:00:07', 9)";

fn env() -> TestEnv {
    let table = "CREATE TABLE jobs (id INTEGER PRIMARY KEY, status TEXT, date_inserted TEXT, priority INTEGER)";
    let env = TestEnv::with_schema(&format!("{table};\n{JOBS}"));
    configure(&env);
    env
}

fn configure(env: &TestEnv) {
    let config = "[queue.default]\ntable = \"jobs\"\nndays = 30\norder = \"priority desc\"\n";
    env.write("backlog.toml", config);
}

fn tried(env: &TestEnv, options: &str) -> String {
    env.pass(&format!("{options} -- {}", env.noting("exit 1"))).silent();
    env.handled().join(" ")
}

#[test]
fn records_come_by_a_column_and_those_with_the_same_value_by_id() {
    let env = env();
    assert_eq!(tried(&env, ""), "5 7 2 4 6 1 3", "SQLite has NULL below all others");
    assert_eq!(tried(&env, "--order 'priority asc'"), "3 1 6 2 4 5 7");
    assert_eq!(tried(&env, "--order oldest"), "1 2 3 4 5 6 7");
    let listed = env.run_at(MIDNIGHT, "list --order 'priority asc' --limit 2").stdout;
    assert!(listed.lines().nth(1).unwrap().starts_with("3 "), "{listed}");
}

#[test]
fn a_capped_pass_tries_new_records_first_and_continues_after_the_last_failed_one() {
    let env = env();
    let capped = "--max-records 3";
    assert_eq!(tried(&env, capped), "2 4 1", "NEW comes before ERROR");
    assert_eq!(tried(&env, capped), "3 5 7");
    assert_eq!(tried(&env, capped), "2 4 6");
    assert_eq!(tried(&env, capped), "1 3 5", "from the end to the begin");
    // In the other direction it continues there too, but not by another column.
    assert_eq!(tried(&env, "--max-records 2 --order 'priority asc'"), "7 3");
    assert_eq!(tried(&env, "--max-records 2 --order newest"), "7 6");
}

#[test]
fn the_order_does_not_depend_on_how_dates_are_written() {
    let table =
        "CREATE TABLE jobs (id INTEGER PRIMARY KEY, status TEXT, date_inserted, priority INTEGER)";
    let env = TestEnv::with_schema(&format!("{table};\n{JOBS}"));
    configure(&env);
    env.sql("UPDATE jobs SET date_inserted = 1795132800 WHERE id IN (2, 5)");
    assert_eq!(tried(&env, "--ndays 20"), "5 7 2 4 6 1 3");
}

#[test]
fn check_prints_the_index_for_the_order() {
    let env = env();
    let index = "CREATE INDEX \"jobs_backlog_order\" ON \"jobs\" (\"priority\" DESC, \"id\" ASC) \
                 WHERE \"status\" IN ('NEW', 'ERROR')";
    let checked = env.run_at(MIDNIGHT, "check").stdout;
    assert_contains(&checked, "no index finds pending records in their order");
    assert_contains(&checked, index);
    Connection::open(env.db()).unwrap().execute_batch(index).unwrap();
    assert_lacks(&env.run_at(MIDNIGHT, "check").stdout, "in their order");
}

#[test]
fn an_order_that_is_none_is_refused() {
    let env = env();
    let process = |order| env.run(&format!("process --order {} -- true", quoted(order)));
    process("priority")
        .fails(2, &["--order priority: \"priority\" is not an order; use one of newest"]);
    let changes = "order: passes change status, so a record could miss its turn each time";
    process("status desc").fails(1, &[changes]);
    process("colour desc").fails(1, &["order: table jobs has no column colour; it has id, status"]);
}

#[test]
fn a_server_has_the_same_order_and_continues_in_it() {
    let Some(database) = database() else { return };
    database.sql("CREATE TABLE jobs (id int PRIMARY KEY, status text, date_inserted timestamp, priority numeric)");
    database.sql(JOBS);
    let env = TestEnv::on(&database);
    configure(&env);
    assert_eq!(tried(&env, ""), "3 5 7 2 4 6 1", "PostgreSQL has NULL above all others");
    let capped = "--max-records 4";
    assert_eq!(tried(&env, capped), "3 5 7 2");
    assert_eq!(tried(&env, capped), "4 6 1 3");
    let index = "CREATE INDEX CONCURRENTLY \"jobs_backlog_order\" ON \"public\".\"jobs\" (\"priority\" DESC, \
                 \"id\" ASC) WHERE \"status\" IN ('NEW', 'ERROR')";
    assert_contains(&env.run_at(MIDNIGHT, "check").stdout, index);
    database.sql(index);
    assert_lacks(&env.run_at(MIDNIGHT, "check").stdout, "in their order");
    assert_eq!(tried(&env, "--max-records 2 --order oldest"), "1 2", "a place of another type");
}

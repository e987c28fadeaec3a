//! Records that are larger than the memory that a command which shows them has.

use crate::testenv::*;

/// Commands that only show records.
const SHOWING: [&str; 8] = [
    "status --fibonacci",
    "list --fibonacci",
    "list --json",
    "explain 1 2 --fibonacci",
    "check --fibonacci -- /bin/true",
    "process --fibonacci --dry-run",
    "process --ndays 7 --dry-run",
    "simulate --from-table --fibonacci --for 1h",
];

/// Runs at midnight in so many KiB of address space.
fn run_within(env: &TestEnv, kib: u32, args: &str) -> Ran {
    let inner = env.command_at(MIDNIGHT, args);
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &format!("ulimit -v {kib}; exec \"$0\" \"$@\"")]);
    shell.arg(inner.get_program()).args(inner.get_args()).current_dir(env.path("")).env_clear();
    let variables = inner.get_envs().filter_map(|(name, value)| Some((name, value?)));
    // Each thread's own arena takes 64 MiB of address space, and next to no memory.
    shell.envs(variables).env("MALLOC_ARENA_MAX", "1");
    shell.ran()
}

#[test]
fn a_record_of_100_mb_costs_no_memory_where_it_is_only_shown() {
    let env = TestEnv::new();
    env.sql(&format!(
        "INSERT INTO BACKLOG (DATE_INSERTED, STATUS, FAILURES, LAST_FAILURE, LAST_ERROR, PAYLOAD)
         SELECT strftime('%Y-%m-%dT%H:%M:%SZ', {MIDNIGHT} - 7200, 'unixepoch'), 'ERROR', 1,
         strftime('%Y-%m-%dT%H:%M:%SZ', {MIDNIGHT} - 3600, 'unixepoch'), error, payload
         FROM (SELECT 'short' AS error, json_quote(printf('%.*c', 100000000, 'p')) AS payload
         UNION ALL SELECT printf('%.*c', 100000000, 'e'), '{{}}')"
    ));
    for args in SHOWING {
        let ran = run_within(&env, 98_304, args);
        assert_eq!((ran.exit, &*ran.stderr), (Some(0), ""), "{args:?}: {ran:?}");
    }
    let listed = run_within(&env, 98_304, "list").stdout;
    assert_contains(&listed, "  short\n");
    assert_contains(&listed, "  (100000000 bytes, too long to be shown)\n");
}

#[test]
fn a_row_that_is_too_big_for_the_memory_is_an_error_of_that_row() {
    let env = records(3);
    env.sql("UPDATE BACKLOG SET PAYLOAD = json_quote(printf('%.*c', 60000000, 'p')) WHERE ID = 2");
    let says = ["record 2 is not tried: it could not be read", "57 MiB do not fit into memory"];
    run_within(&env, 400_000, "process --ndays 1 -- true").fails(1, &says);
    assert_eq!(env.statuses(), "1|SUCCESS\n2|NEW\n3|SUCCESS");
}

#[test]
fn a_record_of_50_mb_on_a_server_costs_no_memory_where_it_is_only_shown() {
    let Some((database, env)) = server_with_table() else { return };
    database.sql(&format!(
        "INSERT INTO backlog (date_inserted, status, failures, last_failure, last_error, payload)
         SELECT to_timestamp({MIDNIGHT} - 7200), 'ERROR', 1, to_timestamp({MIDNIGHT} - 3600), error,
         to_jsonb(payload) FROM (VALUES ('short', repeat('p', 50000000)),
         (repeat('e', 50000000), '')) AS row (error, payload)"
    ));
    for args in SHOWING {
        let ran = run_within(&env, 98_304, args);
        assert_eq!((ran.exit, &*ran.stderr), (Some(0), ""), "{args:?}: {ran:?}");
    }
    let listed = env.run("list --json").success().stdout;
    assert_contains(&listed, &format!("\"last_error\":\"{}\"", "e".repeat(4_096)));
}

#[test]
fn a_long_error_is_cut_where_it_is_shown_and_whole_for_a_condition_and_a_handler() {
    let env = TestEnv::with_records(1, MIDNIGHT);
    env.sql("UPDATE BACKLOG SET STATUS = 'ERROR', LAST_ERROR = printf('%.*c', 5000, 'e') || '!'");
    let cut = format!("  {}...\n", "e".repeat(200));
    assert_contains(&env.run("explain 1 --fibonacci").success().stdout, cut.trim_start());
    let listed = env.run(r#"list --where "LAST_ERROR LIKE '%!'""#).success().stdout;
    assert!(listed.ends_with(&format!("  {}\n", "e".repeat(4_096))), "{listed}");
    let json = env.run("list --json").success().stdout;
    assert_contains(&json, &format!("\"last_error\":\"{}\"", "e".repeat(4_096)));
    let handler = env.script("handler", "grep -q '\"LAST_ERROR\":\"e\\{5000\\}!\"'");
    env.pass(&format!("--ndays 1 -- {handler}")).silent();
    assert_eq!(env.count("SUCCESS"), 1);
}

#[test]
fn edits_read_no_payloads() {
    let env = records(12);
    env.sql(
        "UPDATE BACKLOG SET STATUS = 'ERROR', LAST_ERROR = printf('%.*c', 6000, 'e'),
             PAYLOAD = json_quote(printf('%.*c', 20000000, 'p'))",
    );
    run_within(&env, 98_304, "archive --all --dry-run").success();
    env.run("archive --all").success();
    env.run("restore --all").success();
    let rows = "SELECT DISTINCT STATUS, length(LAST_ERROR), length(PAYLOAD) FROM BACKLOG";
    assert_eq!(env.query(rows), "NEW|6000|20000002", "and write nothing back that was cut");
}

#[test]
fn a_value_of_65_mb_on_a_server_fails_its_record() {
    let Some((database, env)) = server_with_table() else { return };
    database.sql(&format!(
        "INSERT INTO backlog (date_inserted, payload) VALUES \
         (to_timestamp({MIDNIGHT}), 'null'), (to_timestamp({MIDNIGHT}), to_json(repeat('x', 68000000))), \
         (to_timestamp({MIDNIGHT}), to_json(repeat('x', 1000000)))"
    ));
    let pass = "process --fibonacci --max-attempts 1 -- true";
    let says = ["failed after 1 attempt; archived: a value of its row has more than 64 MiB"];
    env.run_at(MIDNIGHT, pass).fails(1, &says);
    let statuses = "SELECT string_agg(status, ',' ORDER BY id) FROM backlog";
    assert_eq!(database.query(statuses).trim(), "SUCCESS,ARCHIVED,SUCCESS");
    env.run_at(MIDNIGHT, "restore --all").success();
}

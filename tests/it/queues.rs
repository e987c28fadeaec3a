//! The queues of backlog.toml: one that needs no name, and several on one screen.

use std::process::Command;

use crate::testenv::*;

/// Two queues, of which one is on fire, and one whose table is not there.
pub fn env(queues: &str) -> TestEnv {
    let env = TestEnv::with_schema(
        "CREATE TABLE orders (ID INTEGER PRIMARY KEY, STATUS TEXT DEFAULT 'NEW',
           DATE_INSERTED TEXT, LAST_ERROR TEXT);
         CREATE TABLE mails (ID INTEGER PRIMARY KEY, STATUS TEXT DEFAULT 'NEW',
           DATE_INSERTED TEXT, LAST_ERROR TEXT);
         INSERT INTO orders (ID, DATE_INSERTED) VALUES (1, '2026-11-20T23:00:00Z'),
           (2, '2026-11-17T00:00:00Z'), (3, '2026-11-20T23:00:00Z');
         INSERT INTO mails (ID, DATE_INSERTED) VALUES (1, '2026-11-20T23:00:00Z');",
    );
    let config = format!("[defaults]\ndb = 'test.db'\nndays = 9\n{queues}");
    env.write("backlog.toml", config);
    env
}

pub const ORDERS: &str = "[queue.orders]\ntable = 'orders'\n\
                      exec = ['/bin/sh', '-c', 'echo HTTP 503 >&2; exit 1']\n";
pub const MAILS: &str = "[queue.mails]\ntable = 'mails'\nexec = ['/bin/true']\n";
const GONE: &str = "[queue.gone]\ntable = 'gone'\n";

/// Without a database in the environment, which would choose another table.
pub fn run(env: &TestEnv, args: &str) -> Ran {
    let mut command: Command = env.command(&format!("{args} --now @{MIDNIGHT}"));
    command.env_remove("BACKLOG_DB").ran()
}

#[test]
fn the_only_queue_of_the_file_needs_no_name() {
    let env = env(ORDERS);
    run(&env, "init").fails(2, &["init creates only the table BACKLOG"]);
    let status = run(&env, "status").success().stdout;
    assert!(status.starts_with("orders in "), "{status}");
    run(&env, "process").silent();
    assert_eq!(env.query("SELECT DISTINCT STATUS, LAST_ERROR FROM orders"), "ERROR|HTTP 503");
    assert_eq!(run(&env, "retry --all").success().stdout, "made due 3 records\n");
    let printed = run(&env, "crontab").success().stdout;
    assert!(printed.ends_with("backlog.toml --queue orders\n"), "{printed}");
    // Another table is not of that queue.
    let other = run(&env, "status --table mails").success().stdout;
    assert!(other.starts_with("mails in "), "{other}");
    let other = run(&env, "list --table mails --json").success().stdout;
    assert_eq!(other.lines().count(), 1, "{other}");
}

#[test]
fn status_shows_all_queues_in_one_table() {
    let env = env(&[ORDERS, MAILS].concat());
    run(&env, "process --all-queues").silent();
    let expected = "\
QUEUE       PENDING    0-1d    1-7d   7-30d   older     DUE  FAILED  ARCHIVED  IN 24H  DUE FOR  SNOOZED  LAST PASS
orders            3       2       1       0       0       3       3         0       0        -        0  now: 3 failed
mails             0       0       0       0       0       0       0         0       0        -        0  now: ok

QUEUE       GROUP     RECORDS  SINCE                 UNTIL                 IDS           LAST ERROR
orders      d7a839de        3  2026-11-21T00:00:00Z  2026-11-21T00:00:00Z  2 1 3         HTTP 503
";
    for args in ["status", "status --all-queues"] {
        assert_eq!(run(&env, args).success().stdout, expected);
    }
    let lines = json_lines(&run(&env, "status --json").success().stdout);
    assert_eq!((&lines[0]["queue"], &lines[0]["failed"]), (&"orders".into(), &3.into()));
    assert_eq!((&lines[1]["queue"], &lines[1]["failed"]), (&"mails".into(), &0.into()));
    // One of them as ever.
    let one = run(&env, "status --queue mails").success().stdout;
    assert!(one.starts_with("mails in "), "{one}");
}

#[test]
fn a_queue_in_which_a_pass_gave_up_records_is_not_ok_for_a_day() {
    let give_up = "[queue.orders]\ntable = 'orders'\ngive_up_on = [65]\nexec = ['/bin/sh', '-c', 'exit 65']\n";
    let env = env(&[give_up, MAILS].concat());
    run(&env, "process --queue orders").fails(1, &["record 3 "]);
    let overview = |now: i64| {
        let mut status = env.command(&format!("status --now @{now}"));
        status.env_remove("BACKLOG_DB").ran().success().stdout
    };
    assert!(overview(MIDNIGHT).contains("         3       3        -        0  now: 3 archived\n"));
    run(&env, "process --queue orders").silent();
    assert_contains(&overview(MIDNIGHT + HOUR), "  1 h ago: 3 archived in 24 h\n");
    let next_day = overview(MIDNIGHT + DAY + 1);
    assert_contains(&next_day, "         3       0        -        0  1 d ago: ok\n");
    let one = run(&env, "status --queue orders").success().stdout;
    assert_contains(&one, "\narchived 24h    3 (`backlog failures --queue orders` says why)\n");
    let ran = run(&env, "status --all-queues --fail-if due>0");
    assert_eq!((ran.exit, &*ran.stdout), (Some(2), "CRITICAL: queue mails: due 1 (>0)\n"));
    let ran = run(&env, "status --queue orders --fail-if due>0");
    assert_eq!((ran.exit, &*ran.stdout), (Some(0), "OK: due 0; 3 archived in 24 h\n"));
    let json = run(&env, "status --queue orders --json").success().json();
    assert_eq!((&json["archived"], &json["archived_24h"]), (&3.into(), &3.into()));
}

#[test]
fn a_printed_command_chooses_its_queue() {
    let env = env(&[ORDERS, MAILS].concat());
    env.sql("UPDATE orders SET STATUS = 'ARCHIVED' WHERE ID = 1");
    let back = "backlog restore --queue orders 1";
    let explained = run(&env, "explain 1 --queue orders").success().stdout;
    assert!(explained.ends_with(&format!("\n  way back    {back}\n")), "{explained}");
    let why = format!("1: is ARCHIVED; `{back}` makes it NEW");
    run(&env, "process 1 --queue orders").fails(1, &[&why]);
    let named = run(&env, "explain 1 --db test.db --table orders").success();
    assert!(named.stdout.ends_with("backlog restore --db test.db --table orders 1\n"), "{named:?}");
    std::fs::rename(env.path("backlog.toml"), env.path("my queues.toml")).unwrap();
    let config = "--config 'my queues.toml' --queue orders";
    let explained = run(&env, &format!("explain 1 {config}")).success().stdout;
    let config = format!("--config '{}' --queue orders", env.path("my queues.toml").display());
    assert_contains(&explained, &format!("backlog restore {config} 1\n"));
}

#[test]
fn the_name_of_a_queue_is_no_database() {
    let env = env(&[ORDERS, MAILS].concat());
    for command in ["status", "list", "failures"] {
        let says = "orders is a queue, not a database: use --queue orders\n";
        run(&env, &format!("{command} orders")).fails(2, &[says]);
    }
}

#[test]
fn a_queue_that_cannot_be_looked_at_hides_no_other() {
    let env = env(&[GONE, MAILS].concat());
    let shown = run(&env, "status").exits(1);
    let lines: Vec<_> = shown.stdout.lines().collect();
    assert!(lines[1].starts_with("gone ") && lines[1].contains("gone"), "{shown:?}");
    assert!(lines[1].contains("no table"), "{shown:?}");
    assert!(lines[2].starts_with("mails             1 "), "{shown:?}");
    let status = run(&env, "status --json").stdout;
    let first = json(status.lines().next().unwrap());
    assert_eq!(first["queue"], "gone");
    assert!(first["error"].as_str().unwrap().contains("no table"), "{first}");
}

#[test]
fn what_looks_at_one_queue_looks_at_all() {
    let env = env(&[ORDERS, MAILS].concat());
    run(&env, "process --all-queues").silent();
    let failures = run(&env, "failures --all-queues").success().stdout;
    assert!(failures.starts_with("queue orders:\nGROUP "), "{failures}");
    assert!(failures.ends_with("HTTP 503\nqueue mails:\nnothing has failed\n"), "{failures}");
    let failures = run(&env, "failures --all-queues --json").success().stdout;
    assert!(failures.starts_with("{\"queue\":\"orders\",\"group\":\"d7a839de\","), "{failures}");
    let checked = run(&env, "check --all-queues").stdout;
    for queue in ["orders", "mails"] {
        assert_contains(&checked, &format!("queue {queue}:\nok       config      "));
    }
    let checked = run(&env, "check --all-queues --json").stdout;
    assert_eq!(checked.lines().count(), 2, "{checked}");
    let lines = run(&env, "crontab --all-queues --progressive").success().stdout;
    let lines: Vec<_> = lines.lines().collect();
    assert_eq!(lines.iter().filter(|line| line.starts_with("PATH=")).count(), 1, "{lines:?}");
    for queue in ["orders", "mails"] {
        let of_queue = |line: &&&str| line.ends_with(&format!("--queue {queue} --progressive"));
        assert_eq!(lines.iter().filter(of_queue).count(), 1, "{lines:?}");
    }
    run(&env, "failures")
        .fails(2, &["no queue chosen: ", "describes orders, mails; use --queue or --all-queues"]);
}

#[test]
fn a_queue_that_does_not_count_is_told_where_something_is_missing() {
    let env = TestEnv::new();
    env.write("backlog.toml", "[queue.mails]\nprogressive = true\nexec = ['true']\n");
    let db = env.path_text("test.db");
    let says = [
        "no handler",
        "no schedule",
        "--db names another table, so no queue of ",
        "use --queue to name one",
    ];
    env.run(&format!("process --db {db}")).fails(2, &says);
    env.run(&format!("process --db {db} --queue mails")).silent();
    std::fs::remove_file(env.path("backlog.toml")).unwrap();
    let ran = env.run(&format!("process --db {db}")).fails(2, &["no handler"]);
    assert_lacks(&ran.stderr, "names another table");
}

#[test]
fn a_dry_run_says_that_no_status_is_mapped() {
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS TEXT, DATE_INSERTED TEXT);
         INSERT INTO BACKLOG VALUES (1, 'open', '2026-11-20'), (2, 'shut', '2026-11-20')",
    );
    let ran = env.pass("--ndays 7 --dry-run");
    assert_eq!((ran.exit, ran.stdout.as_str()), (Some(0), ""));
    assert_contains(&ran.stderr, "nothing is pending: all 2 rows of table BACKLOG");
    assert_contains(&ran.stderr, "'open', 'shut'");
}

#[test]
fn the_passes_of_several_queues_are_those_of_one_that_is_named() {
    let env = env(&format!("{ORDERS}{MAILS}"));
    run(&env, "status --passes 3").fails(2, &["no queue chosen", "--queue"]);
    run(&env, "status --passes 3 --queue mails").success();
}

/// Each pass gives back what it had open before the next one begins.
#[test]
fn many_queues_need_no_more_descriptors_than_one() {
    const COUNT: usize = 120;
    let env = TestEnv::empty();
    let (mut tables, mut queues) = (String::new(), String::from("[defaults]\nndays = 9\n"));
    for number in 0..COUNT {
        // Every third queue has nothing to do.
        let is_idle = number % 3 == 0;
        let rows = if is_idle { "" } else { "INSERT INTO t VALUES (1, 'NEW', '2026-11-20')" };
        let table = format!(
            "CREATE TABLE t (ID INTEGER PRIMARY KEY, STATUS TEXT, DATE_INSERTED TEXT); {rows};"
        );
        tables += &table.replace(" t ", &format!(" t{number} "));
        queues += &format!("[queue.q{number}]\ntable = 't{number}'\n");
    }
    env.sql(&format!("BEGIN; {tables} COMMIT"));
    env.write("backlog.toml", queues);
    let args = format!("process --all-queues --on-archive true --now @{MIDNIGHT}");
    limited(&env, "--nofile=64", &format!("{args} -- true")).silent();
    let done = (0..COUNT).filter(|number| {
        env.query(&format!("SELECT count(*) FROM t{number} WHERE STATUS = 'SUCCESS'")) == "1"
    });
    assert_eq!(done.count(), COUNT * 2 / 3);
}

//! `status` and `list`.

use std::fs::File;
use std::process::Stdio;

use crate::testenv::*;
use test_support::cluster::Cluster;

/// Records of several ages and states.
fn mixed() -> TestEnv {
    let env = TestEnv::new();
    for (id, days) in [(1, 0), (2, 3), (3, 10), (4, 20), (5, 100), (6, 300), (7, 400), (8, 0)] {
        env.insert_one(id, MIDNIGHT - days * DAY - 60);
    }
    env.sql("UPDATE BACKLOG SET STATUS = 'SUCCESS' WHERE ID = 3");
    env.sql(
        "UPDATE BACKLOG SET STATUS = 'ERROR', FAILURES = 5, LAST_ERROR = 'no route',
         LAST_FAILURE = '2026-11-20T23:58:00Z' WHERE ID IN (2, 8)",
    );
    env
}

#[test]
fn status_counts_by_status_and_age() {
    let env = mixed();
    env.sql("PRAGMA ignore_check_constraints = 1; INSERT INTO BACKLOG (ID, STATUS, DATE_INSERTED) VALUES (9, 'PAUSED', 'never')");
    let ran = env.run_at(MIDNIGHT, "status --ndays 7").success();
    let expected = format!(
        "BACKLOG in {} at 2026-11-21T00:00:00Z

STATUS    0-1d  1-7d  7-14d  14-30d  30-180d  180-360d  older  undated  total
NEW          1     0      0       1        1         1      1        0      5
ERROR        1     1      0       0        0         0      0        0      2
SUCCESS      0     0      1       0        0         0      0        0      1
ARCHIVED     0     0      0       0        0         0      0        0      0
PAUSED       0     0      0       0        0         0      0        1      1

oldest pending  7, inserted 2025-10-16T23:59:00Z, 400d ago
due now         3 (--ndays 7)
oldest due      2, inserted 2026-11-17T23:59:00Z, 3d ago
due for         1m (the longest; oldest_due in limits)
waiting         0
never due       4 (too old for this line, or undated)
next due        now

no pass is recorded

GROUP     RECORDS  SINCE                 UNTIL                 IDS           LAST ERROR
e8721114        2  2026-11-20T23:58:00Z  2026-11-20T23:58:00Z  2 8           no route
",
        env.db().canonicalize().unwrap().display()
    );
    assert_eq!(ran.stdout, expected);
}

#[test]
fn a_value_spelled_like_a_status_does_not_count_as_that_status() {
    let env = TestEnv::with_schema(
        "CREATE TABLE j (id INTEGER PRIMARY KEY, state TEXT, at TEXT DEFAULT '2026-11-20T22:00:00Z');
         INSERT INTO j (state) VALUES ('NEW'), ('new'), ('new'), ('SUCCESS'), ('ERROR'), ('err')",
    );
    let status = r#"status={column="state", new="new", error="err", success="ok"}"#;
    let options = format!("--table j --set date_inserted=at --set {}", quoted(status));
    let limit = format!("status {options} --fail-if 'pending>2'");
    assert_contains(&env.run_at(MIDNIGHT, &limit).stdout, "pending 3 (>2)");
    let shown = env.run_at(MIDNIGHT, &format!("status {options}")).success().stdout;
    for line in [
        "NEW           2",
        "ERROR         1",
        "SUCCESS       0",
        "'NEW'         1",
        "'ERROR'       1",
    ] {
        assert_contains(&shown, line);
    }
}

#[test]
fn status_tells_the_next_due_instant() {
    let env = mixed();
    env.sql("DELETE FROM BACKLOG WHERE STATUS = 'NEW'");
    let ran = env.run_at(MIDNIGHT, "status --fibonacci").success();
    for line in [
        "due now         0 (--fibonacci)",
        "oldest due      none",
        "waiting         2",
        "next due        2026-11-21T00:03:00Z, in 3m",
    ] {
        assert_contains(&ran.stdout, line);
    }
    let ran = env.run_at(MIDNIGHT - DAY, "status --ndays 9 --min-ndays 3").success();
    assert_contains(&ran.stdout, "next due        2026-11-20T23:59:01Z, in 23h 59m");
}

#[test]
fn status_as_json_says_the_same() {
    let env = mixed();
    let ran = env.run_at(MIDNIGHT, "status --fibonacci --json").success();
    let status = ran.json();
    assert_eq!(status["table"], "BACKLOG");
    assert_eq!(status["now"], "2026-11-21T00:00:00Z");
    assert_eq!(status["statuses"]["NEW"]["total"], 5);
    assert_eq!(status["statuses"]["ERROR"]["by_age"]["1-7d"], 1);
    assert_eq!(status["due"], 5);
    assert_eq!(status["waiting"], 2);
    assert_eq!(status["oldest_pending"]["id"], 7);
    assert_eq!(status["oldest_due"]["date_inserted"], "2025-10-16T23:59:00Z");
    assert_eq!(status["next_due_at"], "2026-11-21T00:00:00Z");
    let ran = env.run_at(MIDNIGHT, "status --json").success();
    assert_eq!(ran.json().get("due"), None, "no policy, no verdict");
}

#[test]
fn list_shows_records_by_status() {
    let env = mixed();
    let ran = env.run_at(MIDNIGHT, "list --status error,success --fibonacci").success();
    assert_eq!(
        ran.stdout,
        "ID          STATUS    INSERTED              FAILURES  LAST FAILURE          NEXT ATTEMPT          LAST ERROR\n\
         8           ERROR     2026-11-20T23:59:00Z         5  2026-11-20T23:58:00Z  2026-11-21T00:03:00Z  no route\n\
         2           ERROR     2026-11-17T23:59:00Z         5  2026-11-20T23:58:00Z  2026-11-21T00:03:00Z  no route\n\
         3           SUCCESS   2026-11-10T23:59:00Z         0  -                     -\n"
    );
}

#[test]
fn list_due_is_what_a_pass_takes() {
    let env = mixed();
    for mode in ["--ndays 7", "--ndays 200 --min-ndays 1", "--fibonacci"] {
        let now = MIDNIGHT + 2 * MINUTE;
        let ran = env.run_at(now, &format!("list --due --json {mode}")).success();
        let listed: Vec<String> = ran
            .stdout
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].to_string())
            .collect();
        env.run_at(now, &format!("process {mode} -- {}", env.noting("exit 75"))).silent();
        assert_eq!(env.handled(), listed, "{mode:?}");
    }
    env.run("list --due").fails(2, &["--ndays, --fibonacci, --policy or --progressive"]);
    env.run("list --due --status SUCCESS --fibonacci")
        .fails(2, &["only NEW and ERROR records can be due"]);
}

#[test]
fn list_as_json_has_one_object_per_line() {
    let env = mixed();
    let ran =
        env.run_at(MIDNIGHT, "list --json --status ERROR --fibonacci --order oldest").success();
    assert_eq!(
        ran.stdout.lines().next().unwrap(),
        r#"{"id":2,"status":"ERROR","date_inserted":"2026-11-17T23:59:00Z","failures":5,"last_failure":"2026-11-20T23:58:00Z","last_error":"no route","due":false,"next_attempt_at":"2026-11-21T00:03:00Z"}"#
    );
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let env = TestEnv::with_records(20_000, MIDNIGHT);
    for args in ["list", "process --ndays 99999 --dry-run", "process --ndays 9999 --dry-run"] {
        let script = format!("{} {} | head -1", env!("CARGO_BIN_EXE_backlog"), args);
        let mut command = std::process::Command::new("bash");
        command.args(["-c", &format!("set -o pipefail; {script}")]).env("BACKLOG_DB", env.db());
        let ran = command.ran();
        if args.contains("99999") {
            ran.fails(2, &["--ndays"]);
        } else {
            assert_eq!((ran.exit, &*ran.stderr), (Some(0), ""), "{args:?}");
        }
    }
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let env = TestEnv::empty();
    let said = |args: &str| {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = env.command(args).stdout(full).stderr(Stdio::piped()).output().unwrap();
        ran(&output).exits(1).stderr
    };
    let full = "could not write to standard output: no space left on device\n";
    // What was done is said to be done.
    let created = format!("created table BACKLOG in {}", env.db().display());
    for (args, done) in [("init", &*created), ("add 1 2", "added 2 records")] {
        assert_eq!(said(args), format!("backlog: {done}, but this could not be printed: {full}"));
    }
    assert_eq!(env.count("NEW"), 2);
    // Less and more than a buffer holds.
    for more in [0, 1000] {
        env.insert(more, MIDNIGHT);
        for args in ["status", "list", "list --json", "process --ndays 1 --dry-run"] {
            assert_eq!(said(args), format!("backlog: {full}"), "{args:?}");
        }
    }
}

#[test]
fn status_and_list_read_a_database_that_cannot_be_written() {
    let env = TestEnv::with_schema(SCHEMA);
    env.insert(2, MIDNIGHT);
    let mut permissions = std::fs::metadata(env.db()).unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(env.db(), permissions).unwrap();
    assert_contains(&env.run_at(MIDNIGHT, "status").success().stdout, "NEW          2");
    assert_eq!(env.run("list").success().stdout.lines().count(), 3);
}

#[test]
fn what_is_given_up_is_not_due() {
    let env = mixed();
    env.sql("DELETE FROM BACKLOG WHERE STATUS = 'NEW'");
    let later = MIDNIGHT + 10 * MINUTE;
    for limit in ["--max-attempts 5", "--max-age 1h"] {
        let ran = env.run_at(later, &format!("status --ndays 1 {limit}")).success();
        let due = if limit.starts_with("--max-age") { 1 } else { 0 };
        for line in [&format!("due now         {due} (--ndays 1)"), "to be archived  1 (given up)"]
        {
            assert_contains(&ran.stdout, line);
        }
    }
    let mut command = env.command(&format!("list --fibonacci --now @{later}"));
    command.env("MAX_DEFAULT_RETRY_ATTEMPTS", "5");
    let listed = command.ran().success().stdout;
    assert_eq!(listed.matches("none: given up").count(), 2, "{listed}");
    env.run_at(later, "process --fibonacci --max-attempts 5 -- true").exits(1);
    assert_eq!(env.count("ARCHIVED"), 2);
}

#[test]
fn a_server_sorts_no_more_than_a_list_shows() {
    let Some(cluster) = Cluster::private(&["log_statement=all"]) else { return };
    let database = cluster.database();
    let env = TestEnv::on(&database);
    env.run("init").success();
    env.run("add 1 2 3 4").success();
    database.sql("UPDATE backlog SET status = 'ERROR', last_error = 'no route' WHERE id = 1");
    let listed = |args: &str| {
        let before = cluster.log().len();
        let ran = env.run(&format!("list --json --limit 2 {args}")).success();
        let ids = ran.stdout.lines().map(|line| json(line)["id"].as_i64().unwrap());
        (ids.collect::<Vec<_>>(), cluster.log()[before..].contains(" LIMIT 2"))
    };
    assert_eq!(listed(""), (vec![4, 3], true));
    assert_eq!(listed("--order oldest"), (vec![1, 2], true));
    assert_eq!(listed("--status NEW"), (vec![4, 3], true));
    // With these filters more than the first two records may be needed.
    assert_eq!(listed("--failure 'no route'"), (vec![1], false));
    assert_eq!(listed("--due --fibonacci"), (vec![4, 3], false));
    assert_eq!(listed("--since 1h"), (vec![4, 3], false));
    assert_eq!(listed("--shard 1/1").0, [4, 3]);
}

#[test]
fn rows_without_a_usable_id_do_not_shorten_a_list() {
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (ID, STATUS TEXT, DATE_INSERTED TEXT);
         INSERT INTO BACKLOG VALUES (1, 'NEW', '2026-11-20'), (2, 'NEW', '2026-11-20'),
         (3, 'NEW', '2026-11-20'), (NULL, 'NEW', '2026-11-21'), (NULL, 'NEW', '2026-11-21')",
    );
    let listed = env.run_at(MIDNIGHT, "list --json --limit 2").success();
    let ids = listed.stdout.lines().map(|line| line.split(',').next().unwrap().to_string());
    assert_eq!(ids.collect::<Vec<_>>(), ["{\"id\":3", "{\"id\":2"]);
}

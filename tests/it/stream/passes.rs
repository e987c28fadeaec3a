//! The examples, limits, other lines, servers, and what makes no sense.

use super::*;
use crate::pgmq::queue;
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use test_support::cluster::Database;

#[test]
fn the_examples_handle_records() {
    the_examples_handle_records_of(|| Some((TestEnv::new(), None)));
}

#[test]
fn the_examples_handle_records_on_a_server() {
    the_examples_handle_records_of(|| {
        let (database, env) = server_with_table()?;
        Some((env, Some(database)))
    });
}

fn the_examples_handle_records_of(make: impl Fn() -> Option<(TestEnv, Option<Database>)>) {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    for (interpreter, name) in
        [("sh", "stream.sh"), ("python3", "stream.py"), ("node", "stream.mjs")]
    {
        let Some((env, database)) = make() else { return };
        let query = |sql: &str| match &database {
            Some(database) => database.query(sql),
            None => env.query(sql),
        };
        let sql = |sql: &str| match &database {
            Some(database) => database.sql(sql),
            None => env.sql(sql),
        };
        let statuses = || query("SELECT STATUS, count(*) FROM BACKLOG GROUP BY STATUS ORDER BY 1");
        // The handler has no other PATH than a pass that cron starts.
        let there = env.script("there", &format!("command -v {interpreter} >/dev/null"));
        if !Command::new(there).env("PATH", "/usr/bin:/bin").status().unwrap().success() {
            skipped(&format!("examples/{name}: there is no {interpreter}"));
            continue;
        }
        let payloads: Vec<_> =
            (1..=100).map(|n| quoted(&format!("{{\"n\":{n},\"s\":\"a\\\\b\"}}"))).collect();
        env.run(&format!("add {}", payloads.join(" "))).success();
        let example = format!("{examples}/{name}");
        assert!(fs::read_to_string(&example).unwrap().lines().count() < 20, "{name}");
        // Without --stream it is given one record, and must not take that for the first line.
        env.run(&format!("process --ndays 1 --max-records 1 -- {example}")).silent();
        assert_eq!(statuses(), "ERROR|1\nNEW|99", "{name}");
        sql("UPDATE BACKLOG SET STATUS = 'NEW', FAILURES = 0");
        // It is started as it stands, so it must be executable and name its interpreter.
        env.run(&format!("process --ndays 1 --stream -- {example}")).silent();
        assert_eq!(statuses(), "SUCCESS|100", "{name}");
        let sent = lines(&env, "sent.jsonl");
        assert_eq!(sent.iter().collect::<BTreeSet<_>>().len(), 100, "{name}");
        assert!(sent.iter().all(|line| line.contains("a\\")), "{name}: {sent:?}");

        // Where it cannot write, it says so of each record and lives on.
        sql("UPDATE BACKLOG SET STATUS = 'NEW' WHERE ID <= 2");
        fs::remove_file(env.path("sent.jsonl")).unwrap();
        fs::create_dir(env.path("sent.jsonl")).unwrap();
        env.run(&format!("process --ndays 1 --stream -- {example}")).silent();
        let failures = "SELECT sum(FAILURES) FROM BACKLOG WHERE STATUS = 'ERROR'";
        assert_eq!(query(failures), "2", "{name}");
    }
}

#[test]
fn the_last_attempt_of_a_record_archives_it() {
    let env = midnight_records(1);
    env.sql(r#"UPDATE BACKLOG SET PAYLOAD = '{"outcome":"failure","error":"no"}'"#);
    let options = "--ndays 1 --max-attempts 2";
    let handler = obedient(&env);
    pass(&env, options, &format!("python3 {handler}")).silent();
    assert_eq!(rows(&env), "1|ERROR|1|no");
    pass(&env, options, &format!("python3 {handler}"))
        .fails(1, &["record 1 failed after 2 attempts; archived: no"]);
    assert_eq!(rows(&env), "1|ARCHIVED|2|no");
}

#[test]
fn a_process_gets_no_more_records_than_the_pass_may_try() {
    let env = midnight_records(5);
    let handler = format!("tee -a seen | {}", EXEC_SUCCEEDS.trim_start_matches("exec "));
    pass(&env, "--ndays 1 --max-records 2", &sh(&handler).to_string()).silent();
    assert_eq!(env.statuses(), "1|NEW\n2|NEW\n3|NEW\n4|SUCCESS\n5|SUCCESS");
    assert_eq!(lines(&env, "seen").len(), 3, "the first line and two records");
}

#[test]
fn a_drain_keeps_its_process_from_round_to_round() {
    let env = midnight_records(1);
    // The first record brings forth a second, and so on.
    let handler = python(
        &env,
        r#"
import sqlite3
note("starts")
for it in records():
    if it["ID"] < 4:
        with sqlite3.connect(os.environ["BACKLOG_DB"], timeout=60) as db:
            db.execute("INSERT INTO BACKLOG (ID, DATE_INSERTED) VALUES (?, ?)", (it["ID"] + 1, it["DATE_INSERTED"]))
    answer(it["ID"])
"#,
    );
    pass(&env, "--ndays 1 --drain", &format!("python3 {handler}")).silent();
    assert_eq!(env.statuses(), "1|SUCCESS\n2|SUCCESS\n3|SUCCESS\n4|SUCCESS");
    assert_eq!(lines(&env, "starts").len(), 1);
}

#[test]
fn what_a_process_has_in_flight_no_other_line_gets() {
    let env = midnight_records(5);
    let handler = python(
        &env,
        r#"
hand = [read()["ID"] for _ in range(3)]
note("began")
while not os.path.exists("go"): time.sleep(0.005)
for id in hand: answer(id)
for it in records(): sys.exit("more than it had in flight")
"#,
    );
    let child = begin(&env, "--ndays 1 --window 3", &format!("python3 {handler}"));
    wait_until("the handler begins", exists(&env.path("began")));
    let other = format!("tee seen | {}", EXEC_SUCCEEDS.trim_start_matches("exec "));
    pass(&env, "--ndays 2", &sh(&other).to_string()).silent();
    assert_eq!(env.query("SELECT ID FROM BACKLOG WHERE STATUS = 'SUCCESS' ORDER BY ID"), "1\n2");
    assert_eq!(lines(&env, "seen").len(), 3, "the first line and two records");
    env.write("go", "");
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert_eq!(env.count("SUCCESS"), 5);
}

#[test]
fn records_of_a_server_are_handled_alike() {
    let Some((database, env)) = server_with_table() else { return };
    database.sql(&format!(
        "INSERT INTO backlog (date_inserted, payload)
         SELECT to_timestamp({MIDNIGHT}), jsonb_build_object('n', n) FROM generate_series(1, 300) n"
    ));
    let handler = python(
        &env,
        r#"
for it in records():
    fails = it["payload"]["n"] % 100 == 0
    answer(it["id"], "failure" if fails else "success", error=f"it's {it['payload']['n']}")
"#,
    );
    pass(&env, "--fibonacci --jobs 2", &format!("python3 {handler}")).silent();
    assert_eq!(
        database.query("SELECT status, failures, count(*) FROM backlog GROUP BY 1, 2 ORDER BY 3"),
        "ERROR|1|3\nSUCCESS|0|297"
    );
    let failed = "SELECT id, last_failure, last_error FROM backlog WHERE id = 100";
    assert_eq!(database.query(failed), "100|2026-11-21 00:00:00+00|it's 100");

    // A process that ends has one record charged, the others are as they were.
    database.sql(&format!(
        "UPDATE backlog SET status = 'NEW', date_inserted = to_timestamp({})",
        MIDNIGHT + DAY
    ));
    let dies = "read -r hello; read -r record; exit 3";
    let now = MIDNIGHT + DAY;
    let args = format!("process --ndays 1 --stream -- {}", sh(dies));
    env.run_at(now, &args).fails(1, &["handlers were restarted 3 times; the pass stops here"]);
    assert_eq!(
        database.query("SELECT status, count(*) FROM backlog GROUP BY 1 ORDER BY 1"),
        "ERROR|4\nNEW|296"
    );
}

#[test]
fn messages_of_a_queue_are_handled_alike() {
    let Some((database, env)) = queue("jobs", 0) else { return };
    let outcomes = [
        r#"{"outcome":"success"}"#,
        r#"{"outcome":"failure","error":"no"}"#,
        r#"{"outcome":"give_up","error":"never"}"#,
        r#"{"outcome":"snooze","after":"2h"}"#,
    ];
    env.run(&format!("add --pgmq jobs {}", outcomes.map(quoted).join(" "))).success();
    let handler = python(
        &env,
        r#"
note("hello", hello["queue"], hello["id"])
for it in records():
    answer(it["msg_id"], **it["message"])
"#,
    );
    let args = format!("process --pgmq jobs --stream -- python3 {handler}");
    env.run(&args).fails(1, &["record 3 was given up by its handler"]);
    assert_eq!(lines(&env, "hello"), ["jobs ['msg_id']"]);
    assert_eq!(database.query("SELECT msg_id FROM pgmq.q_jobs ORDER BY 1"), "2\n4");
    let archived = "SELECT msg_id, headers ->> 'backlog_error' FROM pgmq.a_jobs ORDER BY 1";
    assert_eq!(database.query(archived), "1|\n3|never");
    let snoozed = "SELECT round(extract(epoch FROM vt - last_read_at) / 3600) FROM pgmq.q_jobs WHERE msg_id = 4";
    assert_eq!(database.query(snoozed), "2");
}

#[test]
fn what_makes_no_sense_is_said_before_anything_is_done() {
    let env = midnight_records(1);
    for (args, says) in [
        ("--stream --window 0 -- touch ran", "write a whole number from 1 to 1,024"),
        ("--stream --window 1025 -- touch ran", "write a whole number from 1 to 1,024"),
        ("--window 3 -- touch ran", "--window requires --stream"),
        ("--stream --post http://localhost/", "--stream and --post are two handlers: choose one"),
        (
            "--stream --give-up-on 3 -- touch ran",
            "--give-up-on requires a command for each record, or --post",
        ),
        ("--stream", "no handler: write the command after `--`"),
    ] {
        env.pass(&format!("--ndays 1 {args}")).fails(2, &[says]);
        assert!(!env.path("ran").exists(), "{args:?}");
        assert_eq!(env.statuses(), "1|NEW");
    }
}

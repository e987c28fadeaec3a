//! Passes that end early, run at once, or work on a server's table.

use super::*;
use crate::pgmq::queue;
use serde_json::Value;
use std::collections::HashSet;
use std::process::Child;
use test_support::server::{Answer, Server};

#[test]
fn a_request_that_outlives_the_grace_of_a_stop_leaves_its_record_as_it_was() {
    for mode in ["--ndays 1", "--fibonacci"] {
        let server = serving(Answer::default().hold());
        let env = records(5);
        let (now, url) = (format!("@{MIDNIGHT}"), server.url("/"));
        let args = format!("process --now {now} --post {url} --grace 0s --jobs 2");
        let child = env.spawn_logging(&format!("{args} {mode}"));
        server.wait_for_received(2);
        assert!(signal("-TERM", child.id()));
        child.ran().exits(143);
        let rows: Vec<_> = (1..=5).map(|id| format!("{id}|{UNTOUCHED}")).collect();
        assert_eq!(env.query(ROWS), rows.join("\n"));
        assert_eq!(keys(&server).into_iter().collect::<HashSet<_>>().len(), 2);
        assert_eq!(server.received().len(), 2);
    }
}

#[test]
fn a_signal_lets_running_requests_end_and_settles_them() {
    let server = serving(Answer::pause().and(fine()));
    let env = records(5);
    let (now, url) = (format!("@{MIDNIGHT}"), server.url("/"));
    let args = format!("process --ndays 1 --now {now} --post {url} --grace 1h -v --jobs 2");
    let child = env.spawn_logging(&args);
    server.wait_for_received(2);
    assert!(signal("-TERM", child.id()));
    env.logs("stopping on signal");
    server.let_go();
    child.ran().exits(143);
    assert_eq!(env.statuses(), "1|NEW\n2|NEW\n3|NEW\n4|SUCCESS\n5|SUCCESS");
    assert_eq!(server.received().len(), 2);
}

#[test]
fn a_second_signal_leaves_running_requests_no_more_time() {
    let server = serving(Answer::default().hold());
    let env = one_record();
    let (now, url) = (format!("@{MIDNIGHT}"), server.url("/"));
    let args = format!("process --ndays 1 --now {now} --post {url} --grace 1h -v");
    let child = env.spawn_logging(&args);
    server.wait_for_received(1);
    assert!(signal("-INT", child.id()));
    env.logs("stopping on signal 2");
    assert!(signal("-TERM", child.id()));
    child.ran().exits(130);
    assert_eq!(env.query(ROW), UNTOUCHED);
}

#[test]
fn so_many_failures_in_a_row_stop_the_pass() {
    let server = serving(Answer::new("500 Oops", &[], "down"));
    let env = records(5);
    let ran = pass(&env, &server.url("/"), "--max-consecutive-failures 2");
    let says = "2 attempts failed in a row, the last one: HTTP 500 Internal Server Error: down";
    assert_eq!(ran.exit, Some(1));
    assert_contains(&ran.stderr, says);
    assert_eq!(env.statuses(), "1|NEW\n2|NEW\n3|NEW\n4|ERROR\n5|ERROR");
    assert_eq!(server.received().len(), 2);
    // A snooze says as well that the server is not up to it.
    let server = serving(Answer::new("503 Oops", &["Retry-After: 600"], ""));
    let env = records(5);
    pass(&env, &server.url("/"), "--max-consecutive-failures 2").fails(1, &["in a row"]);
    assert_eq!(
        env.query("SELECT count(*) FROM BACKLOG WHERE STATUS = 'ERROR' AND FAILURES = 0"),
        "2"
    );
    assert_eq!(server.received().len(), 2);
}

#[test]
fn no_more_requests_are_begun_than_the_rate_allows() {
    let server = serving(fine());
    let env = records(20);
    let (now, url) = (format!("@{MIDNIGHT}"), server.url("/"));
    // The second one would come in an hour.
    let args = format!("process --ndays 1 --now {now} --post {url} --rate 1/h -v");
    let child = env.spawn_logging(&format!("{args} --jobs 8"));
    env.logs("record 20 succeeded");
    assert!(signal("-TERM", child.id()));
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(143));
    assert_eq!((keys(&server), env.count("NEW")), (vec![key(20)], 19));
    pass(&env, &url, "--rate 1000/s --jobs 8").silent();
    assert_eq!((env.count("SUCCESS"), server.received().len()), (20, 20));
}

#[test]
fn a_pass_that_the_rate_holds_back_ends_in_time() {
    let server = serving(fine());
    let env = records(5);
    let (now, url) = (format!("@{MIDNIGHT}"), server.url("/"));
    let args = format!("process --ndays 1 --now {now} --post {url} --jobs 8");
    let child = env.spawn(&format!("{args} --rate 1/h --max-runtime 300ms"));
    let mut child = Ended(child);
    wait_until("the pass ends", || child.0.try_wait().unwrap().is_some());
    assert!(server.received().len() <= 1);
}

/// A process that does not outlive its test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn who_is_told_of_archived_records_is_told_of_those_a_webhook_refused() {
    let server = Server::new(&[("/1", Answer::new("410 Gone", &[], "gone")), ("/2", fine())]);
    let env = records(2);
    let told = env.script("told", "cat >>json; echo \"$BACKLOG_ID $BACKLOG_ATTEMPT\" >>told.log");
    let args = format!("--give-up-on 4xx --on-archive {told}");
    pass(&env, &server.url("/{ID}"), &args).fails(1, &["record 1 was given up"]);
    assert_eq!(env.read("told.log"), "1 1\n");
    assert_eq!(json(&env.read("json"))["ID"], 1);
}

#[test]
fn the_log_and_the_joblog_say_what_became_of_each_request() {
    let server = Server::new(&[
        ("/1", fine()),
        ("/2", Answer::new("500 Oops", &[], "boom")),
        ("/3", Answer::new("429 Oops", &["Retry-After: 600"], "")),
        ("/4", Answer::new("404 Oops", &[], "")),
    ]);
    let env = records(4);
    let url = server.url("/{ID}");
    let args = format!("process --fibonacci --post {url} --give-up-on 4xx --joblog joblog");
    let ran = env.run_at(MIDNIGHT, &format!("{args} -v")).exits(1);
    for line in [
        "backlog: info: record 1 succeeded (attempt 1)\n",
        "backlog: warning: record 2 failed, will retry at 2026-11-21T00:01:00Z (attempt 1): \
         HTTP 500 Internal Server Error: boom\n",
        "backlog: warning: record 3 was snoozed, will retry at 2026-11-21T00:10:00Z (attempt 1): \
         HTTP 429 Too Many Requests\n",
        "backlog: record 4 was given up by its handler (attempt 1); archived: HTTP 404 Not \
         Found\n",
    ] {
        assert_contains(&ran.stderr, line);
    }
    let log = env.read("joblog");
    let shown = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        assert!(line["duration_ms"].is_u64() && line["run"].is_string());
        for changing in ["duration_ms", "run"] {
            line.as_object_mut().unwrap().shift_remove(changing);
        }
        line.to_string()
    };
    let line = |id: u8, outcome: &str, error: &str, status: &str, answer: u16| {
        format!(
            "{{\"id\":{id},\"attempt\":1,\"started_at\":\"2026-11-21T00:00:00Z\",\
             \"outcome\":\"{outcome}\",\"exit\":null,\"error\":{error},\"status\":\"{status}\",\
             \"queue\":\"default\",\"table\":\"BACKLOG\",\"policy\":\"--fibonacci\",\
             \"tick\":\"2026-11-21T00:00:00Z\",\"failures\":0,\
             \"date_inserted\":\"2026-11-20T23:59:00Z\",\"http_status\":{answer},\
             \"stderr\":null}}"
        )
    };
    assert_eq!(
        log.lines().map(shown).collect::<Vec<_>>(),
        [
            line(4, "give_up", "\"HTTP 404 Not Found\"", "ARCHIVED", 404),
            line(3, "snooze", "\"HTTP 429 Too Many Requests\"", "ERROR", 429),
            line(2, "failure", "\"HTTP 500 Internal Server Error: boom\"", "ERROR", 500),
            line(1, "success", "null", "SUCCESS", 200),
        ]
    );
}

#[test]
fn an_attempt_without_an_answer_has_no_http_status() {
    let server = serving(Answer::default().close());
    let env = records(1);
    pass(&env, &server.url("/"), "--joblog joblog").silent();
    assert_contains(&env.read("joblog"), "\"http_status\":null");
}

#[test]
fn a_row_that_the_application_changes_meanwhile_is_left_as_it_wrote_it() {
    for (answer, outcome) in [(fine(), "success"), (Answer::new("500 Oops", &[], ""), "failure")] {
        for change in ["UPDATE BACKLOG SET STATUS = 'CANCELLED'", "DELETE FROM BACKLOG"] {
            let server = serving(Answer::pause().and(answer.clone()));
            let env = TestEnv::with_schema(
                "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS, DATE_INSERTED)",
            );
            env.sql("INSERT INTO BACKLOG VALUES (7, 'NEW', '2026-11-21')");
            let (now, url) = (format!("@{MIDNIGHT}"), server.url("/"));
            let child = env.spawn(&format!("process --ndays 1 -v --now {now} --post {url}"));
            server.wait_for_received(1);
            env.sql(change);
            let left = env.query("SELECT * FROM BACKLOG");
            server.let_go();
            let ran = child.ran().success();
            let warning = format!(
                "backlog: warning: record 7 was changed or deleted by the application while its \
                 handler ran ({outcome}); the row is left as it is\n"
            );
            assert_contains(&ran.stderr, &warning);
            assert_eq!(env.query("SELECT * FROM BACKLOG"), left);
        }
    }
}

#[test]
fn a_killed_pass_loses_nothing() {
    for mode in ["--ndays 1", "--fibonacci"] {
        let (hung, ready) = (serving(Answer::default().hold()), serving(fine()));
        let env = records(5);
        let (now, url) = (format!("@{MIDNIGHT}"), hung.url("/"));
        let mut child = env.spawn(&format!("process --now {now} --jobs 3 --post {url} {mode}"));
        hung.wait_for_received(3);
        assert!(signal("-KILL", child.id()));
        child.wait().unwrap();
        // Records that were sent are charged for the pass that they may have killed.
        let sent = "SELECT ID FROM BACKLOG WHERE FAILURES = 1 AND LAST_ERROR = 'outcome unknown: attempt 1 began at 2026-11-21T00:00:00Z and has not reported back'";
        assert_eq!(env.query(sent), "3\n4\n5");
        let url = ready.url("/");
        // A guard may hold the claims of a killed pass for a moment; a drain waits for it.
        let args = format!("process --drain --jobs 2 --post {url} {mode}");
        env.run_at(MIDNIGHT + HOUR, &args).silent();
        assert_eq!(env.count("SUCCESS"), 5);
        let all: HashSet<_> = keys(&ready).into_iter().collect();
        assert_eq!((all.len(), ready.received().len()), (5, 5));
        assert!(keys(&hung).iter().all(|key| all.contains(key)));
        assert_eq!(env.query("SELECT ID FROM BACKLOG WHERE FAILURES = 1"), "3\n4\n5");
    }
}

#[test]
fn two_passes_at_once_send_each_record_once() {
    let server = serving(fine());
    let env = records(200);
    let (now, url) = (format!("@{MIDNIGHT}"), server.url("/"));
    let children = ["1", "2"].map(|ndays| {
        env.spawn(&format!("process --now {now} --ndays {ndays} --jobs 3 --post {url}"))
    });
    for child in children {
        child.ran().silent();
    }
    assert_eq!(env.count("SUCCESS"), 200);
    assert_eq!(server.received().len(), 200);
    assert_eq!(keys(&server).into_iter().collect::<HashSet<_>>().len(), 200);
}

#[test]
fn a_table_on_a_server_is_posted_as_well() {
    let Some((database, env)) = server_with_table() else { return };
    env.run(r#"add '{"order":  1.50}' '{"order":2}' '{"order":3}'"#).success();
    database.sql("UPDATE backlog SET date_inserted = '2026-11-20T23:59:00Z'");
    let server = Server::new(&[
        ("/1/NEW", fine()),
        ("/2/NEW", Answer::new("429 Oops", &["Retry-After: 600"], "")),
        ("/3/NEW", Answer::new("404 Oops", &[], "")),
    ]);
    let args = "--jobs 2 --give-up-on 4xx";
    pass(&env, &server.url("/{ID}/{Status}"), args).fails(1, &["record 3 was given up"]);
    assert_eq!(
        database.query(
            "SELECT id, status, failures, last_failure, last_error FROM backlog ORDER BY id"
        ),
        "1|SUCCESS|0||\n\
         2|ERROR|0|2026-11-21 00:00:00+00|snoozed until 2026-11-21T00:10:00Z: HTTP 429 Too Many Requests\n\
         3|ARCHIVED|1|2026-11-21 00:00:00+00|HTTP 404 Not Found"
    );
    let mut received = server.received();
    received.sort_by_key(|request| request.path.clone());
    assert_eq!(
        String::from_utf8(received[0].body.clone()).unwrap(),
        "{\"id\":1,\"status\":\"NEW\",\"date_inserted\":\"2026-11-20T23:59:00+00:00\",\
         \"payload\":{\"order\": 1.50},\"failures\":0,\"last_failure\":null,\"last_error\":null}"
    );
    let key = received[0].header("idempotency-key").unwrap();
    assert!(key.ends_with("backlog/1/2026-11-20T23:59:00+00:00"), "{key}");
    let missing = pass(&env, &server.url("/{ORDER}"), "");
    missing.fails(2, &["{ORDER} is not a column; use one of id, status"]);
}

#[test]
fn a_queue_of_pgmq_is_posted_as_well() {
    let Some((database, env)) = queue("jobs", 0) else { return };
    env.run(r#"add --pgmq jobs '{"n":1}' '{"n":2}' '{"n":3}' '{"n":4}'"#).success();
    let server = Server::new(&[
        ("/1", fine()),
        ("/2", Answer::new("503 Oops", &["Retry-After: 86400"], "")),
        ("/3", Answer::new("400 Oops", &[], "no such job")),
        ("/4", Answer::new("500 Oops", &[], "")),
    ]);
    let url = server.url("/{msg_id}");
    let args = format!("process --pgmq jobs --post {url} --give-up-on 4xx");
    env.run(&args).fails(1, &["record 3 was given up by its handler (attempt 1/5); archived: HTTP 400 Bad Request: no such job"]);
    assert_eq!(
        database.query("SELECT msg_id, headers ->> 'backlog_error' FROM pgmq.a_jobs ORDER BY 1"),
        "1|\n3|HTTP 400 Bad Request: no such job"
    );
    let waits = "SELECT msg_id, vt > now() + interval '20 hours', vt > now() - interval '1 minute' FROM pgmq.q_jobs ORDER BY 1";
    assert_eq!(database.query(waits), "2|t|t\n4|f|t");
    let mut received = server.received();
    received.sort_by_key(|request| request.path.clone());
    assert_eq!(received.len(), 4);
    let body: Value = serde_json::from_slice(&received[0].body).unwrap();
    assert_eq!((&body["msg_id"], &body["message"]["n"]), (&Value::from(1), &Value::from(1)));
    let key = received[0].header("idempotency-key").unwrap();
    let date =
        database.query("SELECT to_json(enqueued_at) #>> '{}' FROM pgmq.a_jobs WHERE msg_id = 1");
    assert!(key.strip_suffix(&date.replace(' ', "")).unwrap_or_default().ends_with("/1/"), "{key}");

    // The message alone, as it is.
    let server = serving(fine());
    env.run(r#"add --pgmq jobs '{"n":5}'"#).success();
    env.run(&format!("process --pgmq jobs --set payload=message --post {}", server.url("/")));
    let bodies = server.received().into_iter().map(|request| request.body);
    let bodies: Vec<Value> = bodies.map(|body| serde_json::from_slice(&body).unwrap()).collect();
    assert!(bodies.contains(&serde_json::json!({"n": 5})), "{bodies:?}");
}

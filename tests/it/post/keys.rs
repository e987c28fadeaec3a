//! What tells a receiver which record it gets, and whether it has it already.

use super::*;
use test_support::server::{Received, Server};

const SECRET: (&str, &str) = ("BACKLOG_WEBHOOK_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");

fn headers(server: &Server, name: &str) -> Vec<Option<String>> {
    let header = |request: &Received| request.header(name).map(String::from);
    server.received().iter().map(header).collect()
}

#[test]
fn another_record_with_the_id_of_a_deleted_one_is_another_one() {
    let server = serving(fine());
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS, DATE_INSERTED)",
    );
    for date in ["2026-11-20 12:00:00.5", "2026-11-20 12:00:01"] {
        env.sql(&format!("INSERT INTO BACKLOG (STATUS, DATE_INSERTED) VALUES ('NEW', '{date}')"));
        pass_in(&env, &[SECRET], &server.url("/"), "").silent();
        env.sql("DELETE FROM BACKLOG");
    }
    let names = ["BACKLOG/1/2026-11-20%2012:00:00.5", "BACKLOG/1/2026-11-20%2012:00:01"];
    assert_eq!(keys(&server), names);
    let ids = names.map(|key| Some(key.replace('.', "%2E")));
    assert_eq!(headers(&server, "webhook-id"), ids);
}

#[test]
fn the_id_of_a_deleted_row_is_not_given_again_where_init_made_the_table() {
    for env in [TestEnv::new(), TestEnv::minimal()] {
        env.run("add 1 2").success();
        env.sql("DELETE FROM BACKLOG");
        env.run("add 3").success();
        assert_eq!(env.query("SELECT ID FROM BACKLOG"), "3");
    }
}

#[test]
fn check_says_where_ids_are_given_again() {
    let says = "warning  ids         without AUTOINCREMENT a new row can get the id of a deleted one: only \
                DATE_INSERTED distinguishes them in webhook-id\n";
    let columns = "STATUS TEXT, DATE_INSERTED TEXT";
    for (schema, expected) in [
        (format!("CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, {columns})"), true),
        (format!("CREATE TABLE BACKLOG (id integer, {columns}, PRIMARY KEY (id))"), true),
        (format!("CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY AUTOINCREMENT, {columns})"), false),
        (format!("CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, {columns}) WITHOUT ROWID"), false),
        (format!("CREATE TABLE BACKLOG (ID TEXT PRIMARY KEY, {columns})"), false),
        (SCHEMA.into(), false),
    ] {
        let env = TestEnv::with_schema(&schema);
        let check = |handler: &str| {
            env.run_at(MIDNIGHT, &format!("check --ndays 1 {handler}")).success().stdout
        };
        let found = check(&format!("--post {NOBODY}"));
        assert_eq!(found.contains(says), expected, "{schema}: {found}");
        assert!(!check("-- /bin/true").contains("AUTOINCREMENT"));
    }
}

#[test]
fn databases_that_share_a_receiver_have_a_prefix_each() {
    let server = serving(fine());
    let env = one_record();
    pass_in(&env, &[SECRET], &server.url("/"), "--idempotency-key shop.eu/{id}").silent();
    assert_eq!(headers(&server, "idempotency-key"), [Some("shop.eu/7".into())]);
    assert_eq!(headers(&server, "webhook-id"), [Some("shop%2Eeu/7".into())]);
}

#[test]
fn the_whole_key_may_be_given_or_left_out() {
    let server = serving(fine());
    for (template, expected) in [
        ("{id}", Some("7")),
        ("order:{PAYLOAD}/{id}", Some("order:17/7")),
        ("{date_inserted}", Some("2026-11-20T23:59:00Z")),
        ("", None),
    ] {
        let env = one_record();
        env.sql("UPDATE BACKLOG SET PAYLOAD = '17'");
        let options = format!("--idempotency-key {}", quoted(template));
        pass_in(&env, &[SECRET], &server.url("/"), &options).silent();
        let request = server.received().pop().unwrap();
        assert_eq!(request.header("idempotency-key"), expected, "{template}");
        assert_eq!(request.header("webhook-id"), Some(expected.unwrap_or(&key(7))));
        let env = one_record();
        env.sql("UPDATE BACKLOG SET PAYLOAD = '17'");
        let file =
            format!("[defaults]\npost = '{}'\nidempotency_key = '{template}'\n", server.url("/"));
        env.write("backlog.toml", file);
        env.pass("--ndays 1").silent();
        let request = server.received().pop().unwrap();
        assert_eq!(request.header("idempotency-key"), expected, "{template}");
    }
}

#[test]
fn a_key_that_cannot_be_is_refused_before_anything_is_sent() {
    let server = serving(fine());
    let env = one_record();
    for (options, says) in [
        ("--idempotency-key {id", "--idempotency-key: a brace in the key is not closed"),
        ("--idempotency-key 'a {id}'", "--idempotency-key: ' ' is not legal in the key"),
        ("--idempotency-key {ORDER}", "--idempotency-key: {ORDER} is not a column; use one of ID"),
        (
            "--idempotency-key {payload} --secret-column PAYLOAD",
            "--secret-column: \"PAYLOAD\" would be sent in the key",
        ),
    ] {
        pass(&env, &server.url("/"), options).fails(2, &[says]);
    }
    let args = "process --ndays 1 --idempotency-key x -- true";
    env.run_at(MIDNIGHT, args).fails(2, &["--idempotency-key requires --post"]);
    assert_eq!((env.query(ROW).as_str(), server.connections()), (UNTOUCHED, 0));
    pass(&env, &server.url("/"), "--idempotency-key {payload}").silent();
    let why = "the key needs the column payload, which has no value";
    assert_eq!((env.query(ROW), server.connections()), (failed(why), 0));
}

#[test]
fn crontab_says_how_keys_are_made() {
    let env = one_record();
    let args = format!("crontab --fibonacci --post {NOBODY} --idempotency-key ''");
    assert_contains(&env.run(&args).success().stdout, " --idempotency-key '' ");
}

#[test]
fn the_date_in_a_key_does_not_depend_on_a_session() {
    let Some((database, env)) = server_with_table() else { return };
    env.run("add 1").success();
    database.sql("UPDATE backlog SET date_inserted = '2026-11-20T23:59:00.25+01'");
    let server = serving(fine());
    for zone in ["UTC", "America/New_York"] {
        for style in ["ISO, YMD", "German"] {
            database.sql(&format!(
                "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET timezone = ''{zone}''', \
                 current_database()); EXECUTE format('ALTER DATABASE %I SET datestyle = \
                 ''{style}''', current_database()); END $$"
            ));
            pass(&env, &server.url("/"), "").silent();
            database.sql("UPDATE backlog SET status = 'NEW'");
        }
    }
    let keys = keys(&server);
    assert_eq!(keys.len(), 4);
    assert!(
        keys.iter().all(|key| key.ends_with("backlog/1/2026-11-20T22:59:00.25+00:00")),
        "{keys:?}"
    );
}

/// The keys of attempts an hour from each other, each with an answer of its own.
fn keys_of(env: &TestEnv, answers: &[Answer], options: &str) -> Vec<String> {
    let mut keys = Vec::new();
    for (answer, hours) in answers.iter().zip(0..) {
        let server = serving(answer.clone());
        let args = format!("process --ndays 2 --timeout 300ms --post {}", server.url("/"));
        env.run_at(MIDNIGHT + hours * HOUR, &format!("{args} {options}")).silent();
        let received = server.received();
        let key = received.first().and_then(|request| request.header("idempotency-key"));
        keys.push(key.unwrap_or("none").to_string());
    }
    keys
}

fn oops() -> Answer {
    Answer::new("500 Oops", &[], "")
}

fn later() -> Answer {
    Answer::new("429 Oops", &["Retry-After: 10"], "")
}

fn lost() -> Answer {
    Answer::default().close()
}

fn silence() -> Answer {
    Answer::default().hold()
}

const LAST_ERROR: &str = "SELECT LAST_ERROR FROM BACKLOG";

#[test]
fn the_key_stays_while_the_outcome_is_unknown_and_changes_after_an_answer() {
    let env = one_record();
    let answers =
        [silence(), lost(), oops(), lost(), silence(), oops(), later(), lost(), oops(), fine()];
    let keys = keys_of(&env, &answers, "");
    let after = |hours: i64| format!("{}/{}", key(7), MIDNIGHT + hours * HOUR);
    let expected = [
        key(7),
        key(7),
        key(7),
        after(2),
        after(2),
        after(2),
        after(5),
        after(6),
        after(6),
        after(8),
    ];
    assert_eq!(keys, expected);
    assert_eq!(env.statuses(), "7|SUCCESS");
}

#[test]
fn the_last_error_says_what_the_key_of_the_next_attempt_is() {
    let env = one_record();
    let closed = "the connection was closed before an answer came";
    let refused = "HTTP 500 Internal Server Error";
    for (answer, says) in [
        (lost(), format!("outcome unknown: {closed}")),
        (oops(), refused.into()),
        (lost(), format!("outcome unknown (key {MIDNIGHT}): {closed}")),
        // Answered within the same second.
        (oops(), format!("next key {}: {refused}", MIDNIGHT + 1)),
    ] {
        keys_of(&env, &[answer], "");
        assert_eq!(env.query(LAST_ERROR), says);
    }
    let explained = env.run_at(MIDNIGHT, "explain 7 --ndays 2").success().stdout;
    assert_contains(&explained, &format!("next key {}", MIDNIGHT + 1));
}

#[test]
fn an_attempt_that_was_not_sent_says_nothing_of_the_one_before() {
    let env = one_record();
    let nobody = |hours: i64| {
        env.run_at(MIDNIGHT + hours * HOUR, &format!("process --ndays 2 --post {NOBODY}")).silent();
    };
    let before = keys_of(&env, &[lost()], "");
    nobody(1);
    assert_eq!(env.query(LAST_ERROR), format!("not sent: {REFUSED}"));
    assert_eq!(keys_of(&env, &[oops()], ""), before);
    let after = keys_of(&env, &[lost()], "");
    nobody(2);
    assert_eq!(keys_of(&env, &[lost()], ""), after);
    assert_eq!(after, [format!("{}/{MIDNIGHT}", key(7))]);
}

#[test]
fn webhook_id_is_the_same_for_every_attempt() {
    let env = one_record();
    for (answer, hours) in [oops(), lost(), oops(), fine()].into_iter().zip(0..) {
        let server = serving(answer);
        let now = format!("@{}", MIDNIGHT + hours * HOUR);
        let args = format!("process --ndays 2 --now {now} --post {}", server.url("/"));
        env.command(&args).envs([SECRET]).output().unwrap();
        assert_eq!(headers(&server, "webhook-id"), [Some(key(7))]);
    }
    assert_eq!(env.statuses(), "7|SUCCESS");
}

#[test]
fn the_key_survives_a_killed_pass() {
    for schema in [
        SCHEMA,
        // Nothing is charged, so nothing is written before the answer.
        "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS TEXT DEFAULT 'NEW', \
         DATE_INSERTED TEXT, LAST_ERROR TEXT)",
    ] {
        let env = TestEnv::with_schema(schema);
        env.insert_one(7, MIDNIGHT - 60);
        keys_of(&env, &[oops()], "");
        let hung = serving(silence());
        let (now, url) = (format!("@{}", MIDNIGHT + HOUR), hung.url("/"));
        let mut child = env.spawn(&format!("process --ndays 2 --now {now} --post {url}"));
        hung.wait_for_received(1);
        assert!(signal("-KILL", child.id()));
        child.wait().unwrap();
        let sent = keys(&hung);
        assert_ne!(sent, [key(7)]);
        // The guard of the killed pass may hold the claim for a moment.
        let ready = serving(lost());
        let args = format!("process --ndays 2 --drain --post {}", ready.url("/"));
        env.run_at(MIDNIGHT + 2 * HOUR, &args).silent();
        assert_eq!(keys(&ready), sent);
        assert_eq!(keys_of(&env, &[oops()], ""), sent);
        assert_ne!(keys_of(&env, &[fine()], ""), sent);
    }
}

#[test]
fn a_request_that_is_given_up_at_a_stop_has_its_key_again() {
    let env = one_record();
    keys_of(&env, &[oops()], "");
    let row = env.query(ROW);
    let hung = serving(silence());
    let (now, url) = (format!("@{}", MIDNIGHT + HOUR), hung.url("/"));
    let child = env.spawn(&format!("process --ndays 2 --now {now} --post {url} --grace 0s"));
    hung.wait_for_received(1);
    assert!(signal("-TERM", child.id()));
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(143));
    assert_eq!(env.query(ROW), row);
    assert_eq!(keys_of(&env, &[lost()], ""), keys(&hung));
}

#[test]
fn a_record_that_is_tried_again_by_hand_has_a_key_that_had_no_answer() {
    let env = one_record();
    let mut keys = keys_of(&env, &[oops(), oops()], "");
    for _ in 0..3 {
        env.run("archive 7").success();
        env.run("restore 7").success();
        let tried = keys_of(&env, &[lost(), oops()], "");
        assert_eq!(tried[0], tried[1]);
        keys.push(tried[0].clone());
        env.run("retry 7").success();
        keys.extend(keys_of(&env, &[oops()], ""));
    }
    let all: std::collections::HashSet<_> = keys.iter().collect();
    assert_eq!(all.len(), keys.len(), "{keys:?}");
}

#[test]
fn two_answers_in_one_second_are_two_answers() {
    let env = one_record();
    let mut keys = Vec::new();
    for _ in 0..4 {
        keys.extend(keys_of(&env, &[oops()], ""));
    }
    let after = |number: i64| format!("{}/{}", key(7), MIDNIGHT + number);
    assert_eq!(keys, [key(7), after(0), after(1), after(2)]);
}

#[test]
fn a_table_that_does_not_date_its_failures_says_so_in_its_errors() {
    for columns in
        ["", ", FAILURES INT", ", LAST_FAILURE TEXT", ", FAILURES INT, LAST_FAILURE REAL"]
    {
        let env = TestEnv::with_schema(&format!(
            "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS TEXT DEFAULT 'NEW', DATE_INSERTED \
             TEXT, LAST_ERROR TEXT{columns})"
        ));
        env.insert_one(7, MIDNIGHT - 60);
        let keys = keys_of(&env, &[lost(), oops(), lost(), oops(), oops(), fine()], "");
        let named = |number: i64| format!("{}/{number}", key(7));
        assert_eq!(keys, [key(7), key(7), named(1), named(1), named(2), named(3)], "{columns}");
        assert_eq!(env.query(LAST_ERROR), "next key 3: HTTP 500 Internal Server Error");
    }
}

#[test]
fn a_table_that_keeps_no_errors_has_one_key_for_ever() {
    let env = TestEnv::minimal();
    env.insert_one(7, MIDNIGHT - 60);
    assert_eq!(keys_of(&env, &[oops(), lost(), later(), fine()], ""), vec![key(7); 4]);
}

#[test]
fn what_the_application_writes_as_an_error_does_no_harm() {
    for text in
        ["n/a", "outcome unknown", "next key 99999999999999999999: x", "not sent to you", ""]
    {
        let env = one_record();
        env.sql(&format!("UPDATE BACKLOG SET LAST_ERROR = '{text}'"));
        let keys = keys_of(&env, &[lost(), oops(), lost(), oops(), fine()], "");
        assert!(keys[0] == keys[1] && keys[2] == keys[3], "{text}: {keys:?}");
        assert!(keys[1] != keys[2] && keys[3] != keys[4] && keys[4] != keys[0], "{text}: {keys:?}");
    }
}

#[test]
fn a_short_column_keeps_the_mark() {
    let Some((database, env)) = server_with("") else { return };
    database.sql(
        "CREATE TABLE backlog (id bigint PRIMARY KEY, status text DEFAULT 'NEW', date_inserted \
         timestamptz, failures int DEFAULT 0, last_failure timestamptz, last_error varchar(34)); \
         INSERT INTO backlog VALUES (7, 'NEW', '2026-11-20T23:59:00Z')",
    );
    let keys = keys_of(&env, &[oops(), lost(), lost(), oops(), fine()], "");
    let after = |hours: i64| format!("{}/{}", keys[0], MIDNIGHT + hours * HOUR);
    assert_eq!(keys[1..], [after(0), after(0), after(0), after(3)]);
    assert_eq!(database.query("SELECT last_error FROM backlog"), "HTTP 500 Internal Server Error");
}

#[test]
fn a_key_that_is_given_never_changes_and_leaves_no_mark() {
    for (template, expected) in [("{id}", "7"), ("", "none")] {
        let env = one_record();
        let keys = keys_of(
            &env,
            &[lost(), oops(), later(), lost()],
            &format!("--idempotency-key {}", quoted(template)),
        );
        assert_eq!(keys, vec![expected; 4]);
        assert_eq!(env.query(LAST_ERROR), "the connection was closed before an answer came");
    }
}

#[test]
fn a_command_leaves_no_mark() {
    let env = one_record();
    let handler = env.script("handler", "cat >seen; echo oh >&2; exit 1");
    for _ in 0..2 {
        env.pass(&format!("--ndays 2 -- {handler}")).silent();
        assert_eq!(env.query(LAST_ERROR), "oh");
    }
    // A webhook that follows begins with a key that nobody has seen.
    assert_eq!(keys_of(&env, &[oops()], ""), [format!("{}/{MIDNIGHT}", key(7))]);
}

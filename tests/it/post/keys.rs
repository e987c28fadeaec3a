//! What tells a receiver which record it gets, and whether it has it already.

use super::*;
use crate::cluster::cluster;
use crate::server::{Received, Server};
use crate::testenv::{MIDNIGHT, TestEnv};

const SECRET: (&str, &str) = ("BACKLOG_WEBHOOK_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");

fn headers(server: &Server, name: &str) -> Vec<Option<String>> {
    let header = |it: &Received| it.header(name).map(String::from);
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
        pass_in(&env, &[SECRET], &server.url("/"), &[]).silent();
        env.sql("DELETE FROM BACKLOG");
    }
    let keys = ["BACKLOG/1/2026-11-20%2012:00:00.5", "BACKLOG/1/2026-11-20%2012:00:01"];
    assert_eq!(super::keys(&server), keys);
    let ids = keys.map(|key| Some(key.replace('.', "%2E")));
    assert_eq!(headers(&server, "webhook-id"), ids);
}

#[test]
fn the_id_of_a_deleted_row_is_not_given_again_where_init_made_the_table() {
    for env in [TestEnv::new(), TestEnv::minimal()] {
        env.run(&["add", "1", "2"]).success();
        env.sql("DELETE FROM BACKLOG");
        env.run(&["add", "3"]).success();
        assert_eq!(env.query("SELECT ID FROM BACKLOG"), "3");
    }
}

#[test]
fn check_says_where_ids_are_given_again() {
    let says = "note  ids         without AUTOINCREMENT the id of a deleted row is given again: only \
                DATE_INSERTED tells such records apart in webhook-id\n";
    let columns = "STATUS TEXT, DATE_INSERTED TEXT";
    for (schema, expected) in [
        (format!("CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, {columns})"), true),
        (format!("CREATE TABLE BACKLOG (id integer, {columns}, PRIMARY KEY (id))"), true),
        (format!("CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY AUTOINCREMENT, {columns})"), false),
        (format!("CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, {columns}) WITHOUT ROWID"), false),
        (format!("CREATE TABLE BACKLOG (ID TEXT PRIMARY KEY, {columns})"), false),
        (include_str!("../../../schema.sql").into(), false),
    ] {
        let env = TestEnv::with_schema(&schema);
        let check = |handler: &[&str]| {
            env.run_at(MIDNIGHT, &[&["check", "--ndays", "1"], handler].concat()).success().stdout
        };
        let found = check(&["--post", NOBODY]);
        assert_eq!(found.contains(says), expected, "{schema}: {found}");
        assert!(!check(&["--", "/bin/true"]).contains("AUTOINCREMENT"));
    }
}

#[test]
fn databases_that_share_a_receiver_have_a_prefix_each() {
    let server = serving(fine());
    let env = one_record();
    pass_in(&env, &[SECRET], &server.url("/"), &["--key-prefix", "shop 1/eu"]).silent();
    let prefixed = format!("shop%201%2Feu/{}", key(7));
    assert_eq!(headers(&server, "idempotency-key"), [Some(prefixed.clone())]);
    assert_eq!(headers(&server, "webhook-id"), [Some(prefixed)]);
    let file = format!("[defaults]\npost = '{}'\nkey_prefix = 'b'\nndays = 1\n", server.url("/"));
    std::fs::write(env.path("backlog.toml"), file).unwrap();
    env.sql("UPDATE BACKLOG SET STATUS = 'NEW'");
    env.run_at(MIDNIGHT, &["process"]).silent();
    assert_eq!(keys(&server)[1], format!("b/{}", key(7)));
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
        let options = ["--idempotency-key", template, "--key-prefix", "p"];
        pass_in(&env, &[SECRET], &server.url("/"), &options).silent();
        let request = server.received().pop().unwrap();
        assert_eq!(request.header("idempotency-key"), expected, "{template}");
        assert_eq!(request.header("webhook-id"), Some(format!("p/{}", key(7)).as_str()));
        let env = one_record();
        env.sql("UPDATE BACKLOG SET PAYLOAD = '17'");
        let file =
            format!("[defaults]\npost = '{}'\nidempotency_key = '{template}'\n", server.url("/"));
        std::fs::write(env.path("backlog.toml"), file).unwrap();
        env.run_at(MIDNIGHT, &["process", "--ndays", "1"]).silent();
        let request = server.received().pop().unwrap();
        assert_eq!(request.header("idempotency-key"), expected, "{template}");
    }
}

#[test]
fn a_key_that_cannot_be_is_refused_before_anything_is_sent() {
    let server = serving(fine());
    let env = one_record();
    for (options, says) in [
        (&["--idempotency-key", "{id"][..], "--idempotency-key: a brace in the key is not closed"),
        (&["--idempotency-key", "a {id}"], "--idempotency-key: ' ' cannot stand in the key"),
        (
            &["--idempotency-key", "{ORDER}"],
            "--idempotency-key: table BACKLOG has no column \"ORDER\" for the key; legal are ID",
        ),
        (
            &["--idempotency-key", "{payload}", "--secret-column", "PAYLOAD"],
            "--secret-column: \"PAYLOAD\" would be sent in the key",
        ),
    ] {
        pass(&env, &server.url("/"), options).fails(2, &[says]);
    }
    for option in ["--idempotency-key", "--key-prefix"] {
        let args = ["process", "--ndays", "1", option, "x", "--", "true"];
        env.run_at(MIDNIGHT, &args).fails(2, &[option, "goes with --post"]);
    }
    assert_eq!((env.query(ROW).as_str(), server.connections()), (UNTOUCHED, 0));
    pass(&env, &server.url("/"), &["--idempotency-key", "{payload}"]).silent();
    let why = "the key needs the column payload, which has no value";
    assert_eq!((env.query(ROW), server.connections()), (failed(why), 0));
}

#[test]
fn crontab_says_how_keys_are_made() {
    let env = one_record();
    let args = ["crontab", "--fibonacci", "--post", NOBODY, "--key-prefix", "p"];
    let lines = env.run(&[&args[..], &["--idempotency-key", ""]].concat()).success().stdout;
    assert!(lines.contains(" --idempotency-key '' --key-prefix p "), "{lines}");
}

#[test]
fn the_date_in_a_key_does_not_depend_on_a_session() {
    let Some(cluster) = cluster() else { return };
    let database = cluster.database();
    let env = TestEnv::on(&database);
    env.run(&["init"]).success();
    env.run(&["add", "1"]).success();
    database.sql("UPDATE backlog SET date_inserted = '2026-11-20T23:59:00.25+01'");
    let server = serving(fine());
    for zone in ["UTC", "America/New_York"] {
        for style in ["ISO, YMD", "German"] {
            database.sql(&format!(
                "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET timezone = ''{zone}''', \
                 current_database()); EXECUTE format('ALTER DATABASE %I SET datestyle = \
                 ''{style}''', current_database()); END $$"
            ));
            pass(&env, &server.url("/"), &[]).silent();
            database.sql("UPDATE backlog SET status = 'NEW'");
        }
    }
    let keys = keys(&server);
    assert_eq!(keys.len(), 4);
    assert!(
        keys.iter().all(|it| it.ends_with("backlog/1/2026-11-20T22:59:00.25+00:00")),
        "{keys:?}"
    );
}

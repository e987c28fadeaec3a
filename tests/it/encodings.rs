//! Text that is not UTF-8: handed over as it is, or refused by name, and never changed.

use crate::testenv::*;
use test_support::server::{Answer, Server};

/// `a`, and a byte that is no character, as SQLite holds them in a column of text.
const TEXT: &str = "CAST(x'61FF' AS TEXT)";
const BYTES: &[u8] = b"a\xff";
const PAYLOADS: &str = "SELECT ID, hex(PAYLOAD), typeof(PAYLOAD) FROM BACKLOG";
const ERRORS: &str = "SELECT ID, STATUS, FAILURES, LAST_ERROR FROM BACKLOG ORDER BY ID";
const ADVISED: &str = "its PAYLOAD is not UTF-8, so JSON cannot hold it; pass it alone with \
                       --set payload=COLUMN, or fix it";

/// Records 1 to 3, of which the second has a payload of that text.
fn records() -> TestEnv {
    // That of `init` takes nothing but JSON for a payload.
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS TEXT DEFAULT 'NEW', DATE_INSERTED TEXT, PAYLOAD TEXT,
             FAILURES INTEGER NOT NULL DEFAULT 0, LAST_FAILURE TEXT, LAST_ERROR TEXT)",
    );
    env.insert(3, MIDNIGHT - 60);
    env.sql(&format!("UPDATE BACKLOG SET PAYLOAD = {TEXT} WHERE ID = 2"));
    env
}

fn one_record() -> TestEnv {
    let env = records();
    env.sql("DELETE FROM BACKLOG WHERE ID <> 2");
    env
}

#[test]
fn a_payload_passes_to_a_command_and_to_a_webhook_byte_by_byte() {
    let server = Server::new(&[("/", Answer::new("200 OK", &[], "fine"))]);
    let url = server.url("/");
    for handler in ["-- tee read", &format!("--post {url}")] {
        let env = one_record();
        env.pass(&format!("--fibonacci --set payload=PAYLOAD {handler}")).silent();
        let read = if handler.starts_with("-- ") {
            std::fs::read(env.path("read")).unwrap()
        } else {
            let [request] = server.received().try_into().unwrap();
            request.body
        };
        assert_eq!(read, BYTES);
        assert_eq!(env.statuses(), "2|SUCCESS");
        assert_eq!(env.query(PAYLOADS), "2|61FF|text", "and is not changed in the table");
    }
}

#[test]
fn arguments_and_variables_are_the_very_bytes() {
    let env = one_record();
    env.sql(&format!("UPDATE BACKLOG SET LAST_ERROR = {TEXT} || x'FE', STATUS = 'ERROR'"));
    let handler = env.script("said", "printf %s \"$1 $BACKLOG_ROW_LAST_ERROR\" >said");
    env.pass(&format!("--ndays 1 --set payload=PAYLOAD -- {handler} {{PAYLOAD}}")).silent();
    assert_eq!(std::fs::read(env.path("said")).unwrap(), b"a\xff a\xff\xfe");
}

#[test]
fn what_json_cannot_hold_fails_its_record_alone_and_runs_no_handler() {
    for mode in ["--ndays 1", "--fibonacci"] {
        let env = records();
        env.pass(&format!("{mode} -- {}", env.noting("exit 0"))).silent();
        assert_eq!(env.handled(), ["3", "1"]);
        assert_eq!(env.query(ERRORS), format!("1|SUCCESS|0|\n2|ERROR|1|{ADVISED}\n3|SUCCESS|0|"));
        assert_eq!(env.query(&format!("{PAYLOADS} WHERE ID = 2")), "2|61FF|text");
    }
}

#[test]
fn a_webhook_is_not_sent_what_json_or_a_url_cannot_hold() {
    for (path, why) in [
        ("", ADVISED),
        (
            "{PAYLOAD}",
            "its PAYLOAD is not UTF-8, as a URL, a key and a secret must be; fix the value",
        ),
    ] {
        let server = Server::new(&[("/", Answer::new("200 OK", &[], "fine"))]);
        let env = one_record();
        env.pass(&format!("--ndays 1 --post {}{path}", server.url("/"))).silent();
        assert_eq!(env.query(ERRORS), format!("2|ERROR|1|not sent: {why}"));
        assert!(server.received().is_empty());
    }
}

#[test]
fn a_co_process_is_not_sent_what_json_cannot_hold() {
    let env = records();
    let reply = r#"s/^{"ID":\([0-9]*\),.*/{"id":\1,"outcome":"success"}/p"#;
    let options = "--fibonacci --stream --set payload=PAYLOAD";
    env.pass(&format!("{options} -- sed -un {}", quoted(reply))).silent();
    let why = "its PAYLOAD is not UTF-8, so JSON cannot hold it; fix the value";
    assert_eq!(env.query(ERRORS), format!("1|SUCCESS|0|\n2|ERROR|1|{why}\n3|SUCCESS|0|"));
}

#[test]
fn a_charge_that_is_taken_back_leaves_the_very_bytes() {
    let env = one_record();
    env.sql(&format!("UPDATE BACKLOG SET LAST_ERROR = {TEXT}"));
    env.pass("--fibonacci --set payload=PAYLOAD -- true").silent();
    let row = "SELECT STATUS, FAILURES, hex(LAST_ERROR), typeof(LAST_ERROR) FROM BACKLOG";
    assert_eq!(env.query(row), "SUCCESS|0|61FF|text");
}

#[test]
fn a_row_that_was_changed_to_other_such_bytes_meanwhile_is_left_alone() {
    let env = one_record();
    let others = env.path_text("others.py");
    let change = "import sqlite3; it = sqlite3.connect('test.db', timeout=30)\n\
                  it.execute(\"UPDATE BACKLOG SET PAYLOAD = CAST(x'61FE' AS TEXT)\"); it.commit()\n";
    std::fs::write(&others, change).unwrap();
    let options = r#"--ndays 1 --set payload=PAYLOAD --where "PAYLOAD > ''""#;
    let ran = env.pass(&format!("{options} -- python3 {others}"));
    assert_eq!(env.query(PAYLOADS), "2|61FE|text");
    assert_eq!(env.statuses(), "2|ERROR", "{ran:?}");
}

#[test]
fn people_are_shown_that_something_is_no_character() {
    let env = one_record();
    env.sql(&format!("UPDATE BACKLOG SET LAST_ERROR = {TEXT}, STATUS = 'ERROR', FAILURES = 1"));
    for args in ["list", "list --json", "explain 2 --fibonacci"] {
        let shown = env.run_at(MIDNIGHT, args).success().stdout;
        assert!(shown.contains("a\u{fffd}"), "{args:?}: {shown}");
    }
    env.sql(&format!("UPDATE BACKLOG SET STATUS = {TEXT}, DATE_INSERTED = {TEXT}"));
    assert_contains(&env.run_at(MIDNIGHT, "status").success().stdout, "a\u{fffd}");
}

#[test]
fn ids_that_are_not_utf8_are_counted_and_said_once() {
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (ID TEXT, STATUS TEXT DEFAULT 'NEW', DATE_INSERTED TEXT DEFAULT '2026-11-20T23:00:00Z');
         INSERT INTO BACKLOG (ID) VALUES (CAST(x'FF' AS TEXT)), (CAST(x'FE' AS TEXT)), (CAST(x'61FF' AS TEXT)), (NULL), ('7');",
    );
    let ran = env.pass(&format!("--ndays 1 -- {}", env.noting("exit 0")));
    let says = "backlog: 1 pending record is not tried, because its id is NULL\n\
                backlog: 3 pending records are not tried, because their id is not UTF-8\n";
    assert_eq!((ran.exit, &*ran.stderr), (Some(1), says));
    assert_eq!(env.handled(), ["7"]);
}

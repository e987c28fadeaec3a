//! Outcomes of records by the answer of the receiver.

use super::*;
use test_support::server::{Answer, Server};

#[test]
fn the_answer_decides_what_becomes_of_the_record() {
    let elsewhere = serving(fine());
    let location = format!("Location: {}", elsewhere.url("/"));
    let moved = format!(
        "HTTP 307 Temporary Redirect: redirects are not followed; this one leads to {}",
        elsewhere.url("/")
    );
    for (answer, error) in [
        (fine(), None),
        (Answer::head("204 No Content", &[]), None),
        (Answer::new("299 Whatever", &["Retry-After: 600"], r#"{"error":"none"}"#), None),
        (
            Answer::head("304 Not Modified", &[]),
            Some("HTTP 304 Not Modified: redirects are not followed"),
        ),
        (Answer::new("307 There", &[&location], ""), Some(moved.as_str())),
        (
            Answer::new("400 No", &[], r#"{"message":"no such order","n":1}"#),
            Some("HTTP 400 Bad Request: no such order"),
        ),
        (Answer::new("404 No", &[], ""), Some("HTTP 404 Not Found")),
        (Answer::new("408 No", &[], "late\nand more"), Some("HTTP 408 Request Timeout: late")),
        (Answer::new("425 No", &[], "early"), Some("HTTP 425 Too Early: early")),
        (Answer::new("429 No", &[], "slower"), Some("HTTP 429 Too Many Requests: slower")),
        (Answer::new("429 No", &["Retry-After: tomorrow"], ""), Some("HTTP 429 Too Many Requests")),
        (
            Answer::new("500 No", &["Retry-After: 600"], "\u{1b}[1mboom"),
            Some("HTTP 500 Internal Server Error: [1mboom"),
        ),
        (Answer::new("503 No", &[], "down"), Some("HTTP 503 Service Unavailable: down")),
        (
            Answer::new("503 No", &[], "<!DOCTYPE html>\n<html><title>Closed today</title>"),
            Some("HTTP 503 Service Unavailable"),
        ),
    ] {
        let env = one_record();
        let server = serving(answer.clone());
        pass(&env, &server.url("/"), "").silent();
        assert_eq!(env.query(ROW), error.map_or(DONE.into(), failed), "{answer:?}");
        assert_eq!(keys(&server), [key(7)]);
    }
    assert!(elsewhere.received().is_empty());
}

#[test]
fn a_refused_record_is_archived_at_once_where_that_is_wanted() {
    for (status, words) in [
        ("400 No", "HTTP 400 Bad Request: no such order"),
        ("404 No", "HTTP 404 Not Found: no such order"),
        ("422 No", "HTTP 422 Unprocessable Entity: no such order"),
    ] {
        let server = serving(Answer::new(status, &[], "no such order"));
        let env = one_record();
        let ran = pass(&env, &server.url("/"), "--give-up-on 4xx");
        let says = format!(
            "backlog: record 7 was given up by its handler (attempt 1); archived: {words}\n{}",
            env.back(7)
        );
        assert_eq!((ran.exit, ran.stderr), (Some(1), says));
        assert_eq!(env.query(ROW), format!("ARCHIVED|1|2026-11-21T00:00:00Z|{words}"));
        pass(&env, &server.url("/"), "--give-up-on 4xx").silent();
        assert_eq!(server.received().len(), 1);
    }
}

#[test]
fn listed_statuses_archive_a_record_at_once() {
    let option = "--give-up-on 410,422,503";
    let (server, env) = (serving(Answer::new("503 Busy", &["Retry-After: 60"], "")), one_record());
    pass(&env, &server.url("/"), "--give-up-on 4xx,503");
    assert_eq!(env.statuses(), "7|ARCHIVED");
    for (status, more, expected) in [
        ("410 Gone", "X: y", "ARCHIVED"),
        ("503 Busy", "Retry-After: 60", "ARCHIVED"),
        ("404 No", "X: y", "ERROR"),
        ("200 OK", "X: y", "SUCCESS"),
    ] {
        let (server, env) = (serving(Answer::new(status, &[more], "")), one_record());
        let exit = pass(&env, &server.url("/"), option).exit;
        assert_eq!(exit, Some(i32::from(expected == "ARCHIVED")), "{status}");
        assert_eq!(env.statuses(), format!("7|{expected}"), "{status}");
    }
    let env = one_record();
    for (words, says) in [
        (
            "--give-up-on 600",
            "\"600\" is neither an exit code from 1 to 255, nor an HTTP status from 300 to 599, nor 4xx",
        ),
        ("--give-up-on 200", "--give-up-on: with --post use 4xx or HTTP statuses from 300 to 599"),
    ] {
        pass(&env, NOBODY, words).fails(2, &[says]);
    }
    env.run("process --fibonacci --give-up-on 410 -- true")
        .fails(2, &["--give-up-on: a command has exit codes from 1 to 255"]);
    let no_archive = TestEnv::with_schema(
        "CREATE TABLE T (ID INTEGER PRIMARY KEY, STATE INT, DATE_INSERTED TEXT)",
    );
    let status = "status={column='STATE',new=0,error=1,success=2}";
    let words = format!("process --ndays 1 --table T --set {} --post {NOBODY}", quoted(status));
    no_archive
        .run(&format!("{words} {option}"))
        .fails(1, &["--give-up-on needs to know how table "]);
}

#[test]
fn what_says_nothing_of_the_record_is_never_given_up() {
    for (status, words) in [
        ("302 Found", "HTTP 302 Found: redirects are not followed"),
        ("407 No", "HTTP 407 Proxy Authentication Required"),
        ("408 No", "HTTP 408 Request Timeout"),
        ("425 No", "HTTP 425 Too Early"),
        ("429 No", "HTTP 429 Too Many Requests"),
        ("500 No", "HTTP 500 Internal Server Error"),
    ] {
        let server = serving(Answer::new(status, &[], ""));
        let env = one_record();
        pass(&env, &server.url("/"), "--give-up-on 4xx").silent();
        assert_eq!(env.query(ROW), failed(words));
    }
    let env = one_record();
    pass(&env, NOBODY, "--give-up-on 4xx").silent();
    assert_eq!(env.query(ROW), unreached(REFUSED));
}

#[test]
fn the_last_attempt_archives() {
    let server = serving(Answer::new("500 Oops", &[], "boom"));
    let env = one_record();
    let ran = pass(&env, &server.url("/"), "--max-attempts 1");
    let words = "HTTP 500 Internal Server Error: boom";
    let says =
        format!("backlog: record 7 failed after 1 attempt; archived: {words}\n{}", env.back(7));
    assert_eq!((ran.exit, ran.stderr), (Some(1), says));
    assert_eq!(env.query(ROW), format!("ARCHIVED|1|2026-11-21T00:00:00Z|{words}"));
}

#[test]
fn a_server_that_asks_for_time_gets_it() {
    for (status, words) in
        [("429", "HTTP 429 Too Many Requests"), ("503", "HTTP 503 Service Unavailable")]
    {
        for after in ["600", "Sat, 21 Nov 2026 00:10:00 GMT", "Saturday, 21-Nov-26 00:10:00 GMT"] {
            for schedule in ["--fibonacci", "--ndays 1"] {
                let header = format!("Retry-After: {after}");
                let busy = serving(Answer::new(status, &[&header], r#"{"error":"busy"}"#));
                let ready = serving(fine());
                let env = one_record();
                let pass = |now, server: &Server| {
                    let url = server.url("/");
                    env.run_at(now, &format!("process --post {url} {schedule}")).silent();
                };
                pass(MIDNIGHT, &busy);
                let row = format!(
                    "ERROR|0|2026-11-21T00:00:00Z|snoozed until 2026-11-21T00:10:00Z: {words}: busy"
                );
                assert_eq!(env.query(ROW), row, "{after}");
                let args = format!("explain 7 {schedule}");
                let explained = env.run_at(MIDNIGHT + 599, &args).success().stdout;
                assert_contains(&explained, "waits until 2026-11-21T00:10:00Z");
                pass(MIDNIGHT + 599, &ready);
                assert_eq!(env.query(ROW), row);
                assert!(ready.received().is_empty());
                pass(MIDNIGHT + 600, &ready);
                assert_eq!(keys(&ready), [format!("{}/{MIDNIGHT}", key(7))]);
                assert!(env.query(ROW).starts_with("SUCCESS|0|"), "{}", env.query(ROW));
            }
        }
    }
}

#[test]
fn a_server_cannot_ask_for_less_time_than_the_policy_gives() {
    for (failures, after, wait) in [(0, "10", 60), (3, "10", 120), (3, "600", 600), (0, "0", 60)] {
        let busy = serving(Answer::new("429 Slow Down", &[&format!("Retry-After: {after}")], ""));
        let ready = serving(fine());
        let env = one_record();
        if failures > 0 {
            env.sql(&format!(
                "UPDATE BACKLOG SET STATUS = 'ERROR', FAILURES = {failures}, \
                 LAST_FAILURE = '2026-11-20T20:00:00Z', LAST_ERROR = 'before'"
            ));
        }
        let pass = |now, server: &Server| {
            env.run_at(now, &format!("process --fibonacci --post {}", server.url("/"))).silent();
        };
        pass(MIDNIGHT, &busy);
        assert_eq!(busy.received().len(), 1);
        let row = env.query(ROW);
        let begins = format!("ERROR|{failures}|2026-11-21T00:00:00Z|snoozed until ");
        assert!(row.starts_with(&begins), "{row}");
        assert!(row.ends_with("Z: HTTP 429 Too Many Requests"), "{row}");
        pass(MIDNIGHT + wait - 1, &ready);
        assert!(ready.received().is_empty(), "{failures} {after}");
        pass(MIDNIGHT + wait, &ready);
        assert_eq!(ready.received().len(), 1, "{failures} {after}");
    }
}

#[test]
fn a_table_that_counts_nothing_will_do() {
    for (answer, options, exit, status) in [
        (fine(), "--strict", 0, "7|SUCCESS"),
        (Answer::new("500 Oops", &[], ""), "", 0, "7|ERROR"),
        (Answer::new("500 Oops", &[], ""), "--strict", 1, "7|ERROR"),
        // A wait that could not be written down would be none.
        (Answer::new("429 Oops", &["Retry-After: 9"], ""), "--strict", 1, "7|ERROR"),
        (Answer::new("404 Oops", &[], ""), "", 0, "7|ERROR"),
        (Answer::new("404 Oops", &[], ""), "--give-up-on 4xx", 1, "7|ARCHIVED"),
    ] {
        let env = TestEnv::minimal();
        env.insert_one(7, MIDNIGHT - 60);
        let server = serving(answer.clone());
        let ran = pass(&env, &server.url("/"), options);
        assert_eq!((ran.exit, env.statuses().as_str()), (Some(exit), status), "{answer:?}");
    }
}

#[test]
fn no_answer_is_a_failure_that_says_why() {
    let closed = "the connection was closed before an answer came";
    let server = Server::new(&[
        ("/nothing", Answer::default().hold()),
        ("/slow", Answer::default().bytes("HTTP/1.1 200 OK\r\nX: ").trickle()),
        ("/drop", Answer::default().close()),
        ("/half", Answer::default().bytes("HTTP/1.1 200 OK\r\nContent-Le").close()),
        ("/ssh", Answer::default().bytes("SSH-2.0-OpenSSH_9.6\r\n\r\n").close()),
    ]);
    for (path, options, error) in [
        ("/nothing", "--timeout 300ms", "no answer within 300ms"),
        ("/slow", "--timeout 300ms", "no answer within 300ms"),
        ("/drop", "", closed),
        ("/half", "", closed),
    ] {
        let env = one_record();
        pass(&env, &server.url(path), options).silent();
        assert_eq!(env.query(ROW), unknown(error), "{path}");
    }
    let env = one_record();
    pass(&env, &server.url("/ssh"), "").silent();
    let says = format!("not sent: the answer of 127.0.0.1:{} is not HTTP", server.port);
    assert!(env.query(ROW).contains(&says), "{}", env.query(ROW));
    assert_eq!(keys(&server), vec![key(7); 5], "nothing is sent twice by one pass");
}

#[test]
fn the_status_counts_whatever_becomes_of_the_body() {
    let gigabyte = 1 << 30;
    let length = format!("Content-Length: {gigabyte}");
    let server = Server::new(&[
        ("/slow", Answer::head("200 OK", &["Content-Length: 100"]).trickle()),
        (
            "/stuck",
            Answer::head("500 Oops", &["Content-Length: 100"]).bytes("out of paper\n").hold(),
        ),
        ("/cut", Answer::head("200 OK", &["Content-Length: 100"]).bytes("x").close()),
        ("/long", Answer::head("200 OK", &[&length]).flood(gigabyte)),
        ("/endless", Answer::head("500 Oops", &[]).bytes("oh\n").flood(gigabyte)),
    ]);
    for (path, row) in [
        ("/slow", DONE.into()),
        ("/stuck", failed("HTTP 500 Internal Server Error: out of paper")),
        ("/cut", DONE.into()),
        ("/long", DONE.into()),
        ("/endless", failed("HTTP 500 Internal Server Error: oh")),
    ] {
        let env = one_record();
        pass(&env, &server.url(path), "").silent();
        assert_eq!(env.query(ROW), row, "{path}");
        if row.contains("oh") || path == "/long" {
            assert!(server.flooded() < gigabyte / 4);
        }
    }
}

//! `--post`: what becomes of records that are sent to a webhook.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::cluster::cluster;
use crate::server::{Answer, Received, Server};
use crate::testenv::{HOUR, MIDNIGHT, Ran, TestEnv, ran, wait_until};

const ROW: &str = "SELECT STATUS, FAILURES, LAST_FAILURE, LAST_ERROR FROM BACKLOG WHERE ID = 7";
const ROWS: &str = "SELECT ID, STATUS, FAILURES, LAST_FAILURE, LAST_ERROR FROM BACKLOG ORDER BY ID";
const UNTOUCHED: &str = "NEW|0||";
const DONE: &str = "SUCCESS|0||";

/// Nothing listens there, and nobody is ever given this port by chance.
const NOBODY: &str = "http://127.0.0.1:1/";
const REFUSED: &str = "could not connect to 127.0.0.1:1: connection refused";

/// One pass over what is a day old at most.
fn pass(env: &TestEnv, url: &str, options: &[&str]) -> Ran {
    env.run_at(MIDNIGHT, &[&["process", "--ndays", "1", "--post", url], options].concat())
}

/// The same with more variables in the environment.
fn pass_in(env: &TestEnv, variables: &[(&str, &str)], url: &str, options: &[&str]) -> Ran {
    let now = format!("@{MIDNIGHT}");
    let args = ["process", "--ndays", "1", "--now", &now, "--post", url];
    let mut command = env.command(&[&args, options].concat());
    ran(&command.envs(variables.iter().copied()).output().unwrap())
}

fn one_record() -> TestEnv {
    let env = TestEnv::new();
    env.insert_one(7, MIDNIGHT - 60);
    env
}

fn records(count: i64) -> TestEnv {
    let env = TestEnv::new();
    env.insert(count, MIDNIGHT - 60);
    env
}

/// The row of a record whose first attempt failed.
fn failed(error: &str) -> String {
    format!("ERROR|1|2026-11-21T00:00:00Z|{error}")
}

fn fine() -> Answer {
    Answer::new("200 OK", &[], "fine")
}

/// A server that says the same at its root, whatever it is sent.
fn serving(answer: Answer) -> Server {
    Server::new(&[("/", answer)])
}

fn keys(server: &Server) -> Vec<String> {
    let key = |it: &Received| it.header("idempotency-key").unwrap().to_string();
    server.received().iter().map(key).collect()
}

fn the_only(server: &Server) -> Received {
    let [request] = server.received().try_into().unwrap();
    request
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

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
    ] {
        let env = one_record();
        let server = serving(answer.clone());
        pass(&env, &server.url("/"), &[]).silent();
        assert_eq!(env.query(ROW), error.map_or(DONE.into(), failed), "{answer:?}");
        assert_eq!(keys(&server), ["BACKLOG/7"]);
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
        let ran = pass(&env, &server.url("/"), &["--give-up-on-4xx"]);
        let says = format!(
            "backlog: record 7 was given up by its handler (attempt 1); archived: {words}\n"
        );
        assert_eq!((ran.exit, ran.stderr), (Some(1), says));
        assert_eq!(env.query(ROW), format!("ARCHIVED|1|2026-11-21T00:00:00Z|{words}"));
        pass(&env, &server.url("/"), &["--give-up-on-4xx"]).silent();
        assert_eq!(server.received().len(), 1);
    }
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
        pass(&env, &server.url("/"), &["--give-up-on-4xx"]).silent();
        assert_eq!(env.query(ROW), failed(words));
    }
    let env = one_record();
    pass(&env, NOBODY, &["--give-up-on-4xx"]).silent();
    assert_eq!(env.query(ROW), failed(REFUSED));
}

#[test]
fn the_last_attempt_archives() {
    let server = serving(Answer::new("500 Oops", &[], "boom"));
    let env = one_record();
    let ran = pass(&env, &server.url("/"), &["--max-attempts", "1"]);
    let words = "HTTP 500 Internal Server Error: boom";
    let says = format!("backlog: record 7 failed after 1 attempt; archived: {words}\n");
    assert_eq!((ran.exit, ran.stderr), (Some(1), says));
    assert_eq!(env.query(ROW), format!("ARCHIVED|1|2026-11-21T00:00:00Z|{words}"));
}

#[test]
fn a_server_that_asks_for_time_gets_it() {
    for (status, words) in
        [("429", "HTTP 429 Too Many Requests"), ("503", "HTTP 503 Service Unavailable")]
    {
        for after in ["600", "Sat, 21 Nov 2026 00:10:00 GMT", "Saturday, 21-Nov-26 00:10:00 GMT"] {
            for schedule in [&["--fibonacci"][..], &["--ndays", "1"]] {
                let header = format!("Retry-After: {after}");
                let busy = serving(Answer::new(status, &[&header], r#"{"error":"busy"}"#));
                let ready = serving(fine());
                let env = one_record();
                let pass = |now, server: &Server| {
                    let url = server.url("/");
                    env.run_at(now, &[&["process", "--post", &url], schedule].concat()).silent();
                };
                pass(MIDNIGHT, &busy);
                let row = format!(
                    "ERROR|0|2026-11-21T00:00:00Z|snoozed until 2026-11-21T00:10:00Z: {words}: busy"
                );
                assert_eq!(env.query(ROW), row, "{after}");
                let args = [&["explain", "7"], schedule].concat();
                let explained = env.run_at(MIDNIGHT + 599, &args).success().stdout;
                let due = "waits until 2026-11-21T00:10:00Z";
                assert!(explained.contains(due), "{explained}");
                pass(MIDNIGHT + 599, &ready);
                assert_eq!(env.query(ROW), row);
                assert!(ready.received().is_empty());
                pass(MIDNIGHT + 600, &ready);
                assert_eq!(keys(&ready), ["BACKLOG/7"]);
                assert!(env.query(ROW).starts_with("SUCCESS|0|"), "{}", env.query(ROW));
            }
        }
    }
}

#[test]
fn a_server_cannot_ask_for_less_time_than_the_policy_gives() {
    for (failures, after, wait) in [(0, "10", 60), (3, "10", 120), (3, "600", 600), (0, "0", 60)] {
        let header = format!("Retry-After: {after}");
        let busy = serving(Answer::new("429 Slow Down", &[&header], ""));
        let ready = serving(fine());
        let env = one_record();
        if failures > 0 {
            env.sql(&format!(
                "UPDATE BACKLOG SET STATUS = 'ERROR', FAILURES = {failures}, \
                 LAST_FAILURE = '2026-11-20T20:00:00Z', LAST_ERROR = 'before'"
            ));
        }
        let pass = |now, server: &Server| {
            env.run_at(now, &["process", "--fibonacci", "--post", &server.url("/")]).silent();
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
        (fine(), &["--strict"][..], 0, "7|SUCCESS"),
        (Answer::new("500 Oops", &[], ""), &[], 0, "7|ERROR"),
        (Answer::new("500 Oops", &[], ""), &["--strict"], 1, "7|ERROR"),
        // A wait that could not be written down would be none.
        (Answer::new("429 Oops", &["Retry-After: 9"], ""), &["--strict"], 1, "7|ERROR"),
        (Answer::new("404 Oops", &[], ""), &[], 0, "7|ERROR"),
        (Answer::new("404 Oops", &[], ""), &["--give-up-on-4xx"], 1, "7|ARCHIVED"),
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
        ("/nothing", &["--timeout", "300ms"][..], "no answer within 300ms"),
        ("/slow", &["--timeout", "300ms"], "no answer within 300ms"),
        ("/drop", &[], closed),
        ("/half", &[], closed),
    ] {
        let env = one_record();
        pass(&env, &server.url(path), options).silent();
        assert_eq!(env.query(ROW), failed(error), "{path}");
    }
    let env = one_record();
    pass(&env, &server.url("/ssh"), &[]).silent();
    let begins = failed(&format!("could not understand the answer of 127.0.0.1:{}: ", server.port));
    assert!(env.query(ROW).starts_with(&begins), "{}", env.query(ROW));
    assert_eq!(keys(&server), ["BACKLOG/7"; 5], "nothing is sent twice by one pass");
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
        pass(&env, &server.url(path), &[]).silent();
        assert_eq!(env.query(ROW), row, "{path}");
        if row.contains("oh") || path == "/long" {
            assert!(server.flooded() < gigabyte / 4);
        }
    }
}

#[test]
fn a_pass_stops_at_the_third_record_in_a_row_for_which_there_is_no_connection() {
    // No resolver is asked for a name that is too long.
    let host = format!("{}.invalid", "a".repeat(64));
    for (url, error) in [
        (NOBODY.to_string(), REFUSED.to_string()),
        (format!("http://{host}/"), format!("could not find the host {host}: ")),
    ] {
        for schedule in [&["--ndays", "1"][..], &["--fibonacci"], &["--fibonacci", "--drain"]] {
            let env = records(5);
            let args = [&["process", "--post", &url], schedule].concat();
            let ran = env.run_at(MIDNIGHT, &args);
            assert_eq!(ran.exit, Some(1));
            let begins = format!("backlog: record 3 stays as it was: {error}");
            assert!(ran.stderr.starts_with(&begins), "{}", ran.stderr);
            let ends = ", 3 times in a row; the pass stops here\n";
            assert!(ran.stderr.ends_with(ends), "{}", ran.stderr);
            assert_eq!(ran.stderr.lines().count(), 1);
            let rows = env.query(ROWS);
            let rows: Vec<_> = rows.lines().collect();
            assert_eq!(rows[..3], ["1|NEW|0||", "2|NEW|0||", "3|NEW|0||"]);
            for (row, id) in rows[3..].iter().zip(4..) {
                assert!(row.starts_with(&format!("{id}|{}", failed(&error))), "{row}");
            }
        }
    }
}

#[test]
fn one_record_that_finds_no_connection_is_charged() {
    let host = format!("{}.invalid", "a".repeat(64));
    for (url, error) in [
        (NOBODY.to_string(), REFUSED.to_string()),
        (format!("http://{host}/"), format!("could not find the host {host}: ")),
    ] {
        let env = one_record();
        pass(&env, &url, &[]).silent();
        assert!(env.query(ROW).starts_with(&failed(&error)), "{}", env.query(ROW));
    }
}

#[test]
fn however_many_are_sent_at_a_time_two_are_charged_where_nobody_listens() {
    let env = records(20);
    let ran = pass(&env, NOBODY, &["--jobs", "8"]).fails(1, &["in a row; the pass stops here"]);
    assert!(ran.stderr.contains(REFUSED), "{}", ran.stderr);
    assert_eq!((env.count("NEW"), env.count("ERROR")), (18, 2));
    let touched = "SELECT count(*) FROM BACKLOG WHERE STATUS = 'NEW' AND (FAILURES > 0 OR LAST_FAILURE IS NOT NULL OR LAST_ERROR IS NOT NULL)";
    assert_eq!(env.query(touched), "0");
}

#[test]
fn records_without_a_connection_that_are_not_in_a_row_stop_nothing() {
    let server = serving(Answer::new("500 Oops", &[], ""));
    let env = records(8);
    // Every third one finds somebody.
    env.sql(&format!(
        "ALTER TABLE BACKLOG ADD COLUMN PORT INTEGER DEFAULT 1; \
         UPDATE BACKLOG SET PORT = {} WHERE ID % 3 = 0",
        server.port
    ));
    pass(&env, "http://127.0.0.1:{PORT}/", &[]).silent();
    let refused =
        format!("SELECT count(*) FROM BACKLOG WHERE FAILURES = 1 AND LAST_ERROR = '{REFUSED}'");
    assert_eq!(env.query(&refused), "6");
    assert_eq!(env.count("ERROR"), 8);
    assert_eq!(keys(&server), ["BACKLOG/6", "BACKLOG/3"]);
}

/// An authority, its file and a server that it vouches for.
fn trusted(env: &TestEnv, host: &str, name: &str) -> (String, ServerConfig) {
    let mut params = CertificateParams::new([]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new([host.to_string()]).unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    let file = env.path(&format!("{name}.pem"));
    std::fs::write(&file, authority.pem()).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let server = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    (file.display().to_string(), server)
}

#[test]
fn an_authority_in_the_file_is_believed() {
    let env = records(3);
    let (file, config) = trusted(&env, "127.0.0.1", "right");
    let server = Server::with_tls(&[("/", fine())], config);
    pass(&env, &server.url("/"), &["--ca-file", &file]).silent();
    assert_eq!(env.statuses(), "1|SUCCESS\n2|SUCCESS\n3|SUCCESS");
    assert_eq!(keys(&server), ["BACKLOG/3", "BACKLOG/2", "BACKLOG/1"]);
}

#[test]
fn nothing_is_told_to_a_server_that_cannot_prove_who_it_is() {
    for (host, believes, error) in [
        (
            "127.0.0.1",
            "other",
            "could not verify the certificate of 127.0.0.1: its authority is unknown; name its \
             authority with --ca-file",
        ),
        (
            "example.com",
            "one",
            "could not verify the certificate of 127.0.0.1: it is for another host; correct the \
             host in the URL",
        ),
    ] {
        // More than three, as this is no want of a connection.
        let env = records(4);
        let (_, config) = trusted(&env, host, "one");
        trusted(&env, host, "other");
        let (file, config) = match believes {
            "one" => {
                let (file, config) = trusted(&env, host, "one");
                (file, config)
            }
            _ => (env.path("other.pem").display().to_string(), config),
        };
        let server = Server::with_tls(&[("/", fine())], config);
        pass(&env, &server.url("/"), &["--ca-file", &file]).silent();
        let rows: Vec<_> = (1..=4).map(|id| format!("{id}|{}", failed(error))).collect();
        assert_eq!(env.query(ROWS), rows.join("\n"));
        assert!(server.received().is_empty());
    }
}

/// A server that speaks first, and in plain words.
fn blunt() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n").unwrap();
            // What is not read when it closes would take the words back.
            while stream.read(&mut [0; 1024]).is_ok_and(|count| count > 0) {}
        }
    });
    port
}

#[test]
fn a_server_without_tls_is_told_from_one_that_is_not_believed() {
    let env = one_record();
    let (file, _) = trusted(&env, "127.0.0.1", "one");
    let port = blunt();
    pass(&env, &format!("https://127.0.0.1:{port}/"), &["--ca-file", &file]).silent();
    let begins = failed(&format!("could not agree on TLS with 127.0.0.1:{port}: "));
    assert!(env.query(ROW).starts_with(&begins), "{}", env.query(ROW));
}

#[test]
fn the_body_is_the_record_as_one_json_object() {
    let server = serving(fine());
    let env = one_record();
    env.sql(
        "ALTER TABLE BACKLOG ADD COLUMN \"odd name\" BLOB; ALTER TABLE BACKLOG ADD COLUMN R REAL",
    );
    env.sql(
        "UPDATE BACKLOG SET PAYLOAD = '{\"a\": \"\u{1F600}\"} ', \"odd name\" = x'00ff', R = 0.5",
    );
    pass(&env, &server.url("/"), &[]).silent();
    let request = the_only(&server);
    assert_eq!(request.method, "POST");
    assert_eq!(
        String::from_utf8(request.body).unwrap(),
        "{\"ID\":7,\"STATUS\":\"NEW\",\"DATE_INSERTED\":\"2026-11-20T23:59:00Z\",\
         \"PAYLOAD\":\"{\\\"a\\\": \\\"\u{1F600}\\\"} \",\"FAILURES\":0,\"LAST_FAILURE\":null,\
         \"LAST_ERROR\":null,\"odd name\":\"00FF\",\"R\":0.5}"
    );
}

#[test]
fn the_body_may_be_one_column_as_it_is() {
    for (value, body) in [
        ("'{\"a\":  [1, 2.50]}'", b"{\"a\":  [1, 2.50]}".to_vec()),
        ("'\u{1F600}'", "\u{1F600}".into()),
        ("x'00ff0d0a017f'", vec![0, 255, 13, 10, 1, 127]),
        ("zeroblob(3000000)", vec![0; 3_000_000]),
        ("'12'", b"12".to_vec()),
        ("''", Vec::new()),
    ] {
        let server = serving(fine());
        let env = TestEnv::with_schema(
            "CREATE TABLE BACKLOG (ID INTEGER PRIMARY KEY, STATUS TEXT, DATE_INSERTED TEXT, BODY)",
        );
        env.sql(&format!("INSERT INTO BACKLOG VALUES (7, 'NEW', '2026-11-20 23:59', {value})"));
        pass(&env, &server.url("/"), &["--payload-column", "body"]).silent();
        assert!(the_only(&server).body == body, "{value}");
        assert_eq!(env.statuses(), "7|SUCCESS");
    }
}

#[test]
fn space_at_the_end_of_a_column_is_a_part_of_the_body() {
    for (value, body) in [
        ("'a line' || char(10)", b"a line\n".to_vec()),
        ("x'000d0a20'", vec![0, 13, 10, 32]),
        ("'  '", b"  ".to_vec()),
    ] {
        let server = serving(fine());
        let env = one_record();
        env.sql("ALTER TABLE BACKLOG ADD COLUMN BODY ANY");
        env.sql(&format!("UPDATE BACKLOG SET BODY = {value}"));
        pass(&env, &server.url("/"), &["--payload-column", "BODY"]).silent();
        assert_eq!(the_only(&server).body, body, "{value}");
    }
}

#[test]
fn columns_are_percent_encoded_into_the_url() {
    for (value, encoded) in [
        ("'a b/c?d&e=f#g%h+i'", "a%20b%2Fc%3Fd%26e%3Df%23g%25h%2Bi"),
        ("'\u{e9}\u{1F600}-._~{ID}'", "%C3%A9%F0%9F%98%80-._~%7BID%7D"),
        ("'..%2f' || char(13, 10)", "..%252f%0D%0A"),
        ("9007199254740993", "9007199254740993"),
        ("-0.5", "-0.5"),
        ("x'00ff'", "00FF"),
    ] {
        let path = format!("/{encoded}/7?v={encoded}&id=7");
        let server = Server::new(&[(&path, fine())]);
        let env = one_record();
        env.sql("ALTER TABLE BACKLOG ADD COLUMN \"the value\" ANY");
        env.sql(&format!("UPDATE BACKLOG SET \"the value\" = {value}"));
        let url = server.url("/{the value}/{id}?v={THE VALUE}&id={ID}#{ID}");
        pass(&env, &url, &[]).silent();
        assert_eq!(env.query(ROW), DONE, "{value}");
        assert_eq!(the_only(&server).path, path);
    }
}

#[test]
fn a_record_whose_values_make_no_url_fails_alone() {
    let server = Server::new(&[("/1", fine()), ("/5", fine())]);
    let env = records(5);
    env.sql("ALTER TABLE BACKLOG ADD COLUMN V ANY; UPDATE BACKLOG SET V = ID");
    env.sql("UPDATE BACKLOG SET V = NULL WHERE ID = 2; UPDATE BACKLOG SET V = '..' WHERE ID = 3");
    env.sql("UPDATE BACKLOG SET V = '.' WHERE ID = 4");
    pass(&env, &server.url("/{V}"), &["--give-up-on-4xx"]).silent();
    let dots = |dots| format!("the URL's path \"/{dots}\" has a segment of nothing but dots");
    let rows = [
        format!("1|{DONE}"),
        format!("2|{}", failed("the URL needs the column V, which has no value")),
        format!("3|{}", failed(&dots(".."))),
        format!("4|{}", failed(&dots("."))),
        format!("5|{DONE}"),
    ];
    assert_eq!(env.query(ROWS), rows.join("\n"));
    assert_eq!(keys(&server), ["BACKLOG/5", "BACKLOG/1"]);
}

#[test]
fn a_column_of_the_url_that_is_missing_is_named_with_those_there_are() {
    let server = serving(fine());
    let env = one_record();
    let url = server.url("/{ID}/{ORDER}");
    let ran = pass(&env, &url, &[]);
    let says = "backlog: --post: table BACKLOG has no column \"ORDER\" for the URL; legal are \
                ID, STATUS, DATE_INSERTED, PAYLOAD, FAILURES, LAST_FAILURE, LAST_ERROR\n";
    assert_eq!((ran.exit, ran.stderr.as_str()), (Some(2), says));
    assert_eq!(env.query(ROW), UNTOUCHED);
    assert_eq!(server.connections(), 0);
}

#[test]
fn a_dry_run_refuses_a_url_that_the_pass_would_refuse() {
    let env = one_record();
    let ran = pass(&env, "http://h/{ORDER}", &["--dry-run"]);
    ran.fails(2, &["table BACKLOG has no column \"ORDER\" for the URL; legal are ID"]);
}

#[test]
fn a_request_says_what_it_is_and_whose() {
    let server = serving(fine());
    let env = one_record();
    let url = server.url("/").replace("127.", "us%20er:p%40w@127.");
    pass(&env, &url, &["--header", "X-Mine: a: b ", "--header", "X-Empty:"]).silent();
    let request = the_only(&server);
    let (host, length) = (format!("127.0.0.1:{}", server.port), request.body.len().to_string());
    for (name, value) in [
        ("host", Some(host.as_str())),
        ("content-type", Some("application/json")),
        ("content-length", Some(length.as_str())),
        ("user-agent", Some(concat!("backlog/", env!("CARGO_PKG_VERSION")))),
        ("authorization", Some("Basic dXMgZXI6cEB3")),
        ("idempotency-key", Some("BACKLOG/7")),
        ("x-mine", Some("a: b")),
        ("transfer-encoding", None),
        ("webhook-id", None),
        ("webhook-timestamp", None),
        ("webhook-signature", None),
    ] {
        assert_eq!(request.header(name), value, "{name}");
    }
    let env = one_record();
    let own = ["--header", "content-type: text/plain", "--header", "Authorization: Bearer x"];
    pass(&env, &url, &[&own[..], &["--header", "User-Agent: mine"]].concat()).silent();
    let request = server.received().pop().unwrap();
    assert_eq!(request.header("content-type"), Some("text/plain"));
    assert_eq!(request.header("authorization"), Some("Bearer x"));
    assert_eq!(request.header("user-agent"), Some("mine"));
}

#[test]
fn every_record_has_a_key_of_its_own_that_stays_the_same() {
    let server = serving(Answer::new("500 Oops", &[], ""));
    let env = TestEnv::with_schema(
        "CREATE TABLE \"odd.\u{e9} table\" (ID TEXT PRIMARY KEY, STATUS TEXT DEFAULT 'NEW', \
         DATE_INSERTED TEXT DEFAULT '2026-11-20 23:59')",
    );
    env.sql(
        "INSERT INTO \"odd.\u{e9} table\" (ID) VALUES ('a.b'), ('a%2Eb'), ('x/y z'), \
         ('\u{1F600}' || char(13, 10) || 'Host: x'), ('007'), ('7'), ('7.0')",
    );
    let args = ["--table", "odd.\u{e9} table"];
    pass(&env, &server.url("/"), &args).silent();
    let first: HashSet<_> = keys(&server).into_iter().collect();
    let table = "odd%2E%C3%A9%20table";
    let ids = ["a%2Eb", "a%252Eb", "x/y%20z", "%F0%9F%98%80%0D%0AHost:%20x", "007", "7", "7%2E0"];
    assert_eq!(first, ids.map(|id| format!("{table}/{id}")).into());
    pass(&env, &server.url("/"), &args).silent();
    let both = keys(&server);
    assert_eq!(both.len(), 14);
    assert_eq!(both.into_iter().collect::<HashSet<_>>(), first);
}

#[test]
fn a_key_of_several_columns_is_one_key() {
    let server = serving(fine());
    let env = TestEnv::with_schema(
        "CREATE TABLE BACKLOG (SHOP TEXT, NR INTEGER, STATUS TEXT DEFAULT 'NEW', \
         DATE_INSERTED TEXT DEFAULT '2026-11-20 23:59', PRIMARY KEY (SHOP, NR))",
    );
    env.sql("INSERT INTO BACKLOG (SHOP, NR) VALUES ('a,1', 2), ('a', 12), ('a', 1)");
    pass(&env, &server.url("/"), &["--id-column", "SHOP,NR"]).silent();
    let keys = keys(&server);
    assert_eq!(keys.iter().collect::<HashSet<_>>().len(), 3, "{keys:?}");
    assert!(keys.contains(&"BACKLOG/a,12".to_string()), "{keys:?}");
}

/// HMAC-SHA256 as RFC 2104 writes it down.
fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    assert!(key.len() <= 64);
    let pad = |byte: u8| {
        let mut block = [byte; 64];
        block.iter_mut().zip(key).for_each(|(block, key)| *block ^= key);
        block.to_vec()
    };
    let inner = Sha256::digest([&pad(0x36), message].concat());
    Sha256::digest([pad(0x5c), inner.to_vec()].concat()).to_vec()
}

#[test]
fn a_request_is_signed_with_every_secret() {
    let (old, new) = (b"an old secret, soon gone".as_slice(), b"a new one".as_slice());
    let whsec = |secret: &[u8]| format!("whsec_{}", STANDARD.encode(secret));
    for (variable, secrets) in [
        (whsec(new), vec![new]),
        (STANDARD.encode(new), vec![new]),
        (format!("{} {}", whsec(new), whsec(old)), vec![new, old]),
    ] {
        let server = serving(fine());
        let env = TestEnv::with_schema(
            "CREATE TABLE BACKLOG (ID TEXT PRIMARY KEY, STATUS TEXT, DATE_INSERTED TEXT, BODY)",
        );
        env.sql("INSERT INTO BACKLOG VALUES ('a.7 \u{e9}', 'NEW', '2026-11-20 23:59', x'00ff80')");
        let variables = [("BACKLOG_WEBHOOK_SECRET", variable.as_str())];
        for options in [&[][..], &["--payload-column", "BODY"]] {
            pass_in(&env, &variables, &server.url("/"), options).silent();
            let request = server.received().pop().unwrap();
            let header = |name| request.header(name).unwrap();
            assert_eq!(header("webhook-id"), "BACKLOG/a%2E7%20%C3%A9");
            assert_eq!(header("idempotency-key"), header("webhook-id"));
            assert_eq!(header("webhook-timestamp"), MIDNIGHT.to_string());
            let head = format!("{}.{MIDNIGHT}.", header("webhook-id"));
            let signed = [head.as_bytes(), &request.body].concat();
            let signatures = secrets.iter().map(|it| STANDARD.encode(hmac(it, &signed)));
            let signatures: Vec<_> = signatures.map(|it| format!("v1,{it}")).collect();
            assert_eq!(header("webhook-signature"), signatures.join(" "));
            env.sql("UPDATE BACKLOG SET STATUS = 'NEW'");
        }
        assert_eq!(server.received()[1].body, [0, 255, 128]);
    }
}

#[test]
fn what_cannot_be_used_is_said_before_anything_is_touched_and_without_its_secrets() {
    let server = serving(fine());
    let env = one_record();
    let fine = server.url("/");
    let https = fine.replace("http:", "https:");
    let (no_file, not_pem) = (env.path("none.pem"), env.path("not.pem"));
    std::fs::write(&not_pem, "S3kr").unwrap();
    let (no_file, not_pem) = (no_file.display().to_string(), not_pem.display().to_string());
    let secret = "BACKLOG_WEBHOOK_SECRET";
    for (variables, url, options, exit, says) in [
        (&[(secret, "whsec_S3kr!t")][..], fine.as_str(), &[][..], 2, "is no base64"),
        (&[(secret, "whsk_S3kr")], &fine, &[], 2, "of the asymmetric kind"),
        (&[(secret, " ")], &fine, &[], 2, "BACKLOG_WEBHOOK_SECRET: the signing secret is empty"),
        (&[], &fine, &["--header", "Authorization S3kr"], 2, "--header: the header"),
        (&[], &fine, &["--header", "X: S3kr\u{e9}"], 2, "must be printable ASCII"),
        (&[], &fine, &["--header", "Host: S3kr"], 2, "is set by backlog itself"),
        (&[], &fine, &["--header", "Idempotency-Key: S3kr"], 2, "is set by backlog itself"),
        (&[], "ftp://u:S3kr@h/", &[], 2, "--post: the URL begins with ftp://"),
        (&[], "u:S3kr@h", &[], 2, "--post: the URL has no scheme"),
        (&[], "http://u:S3kr@h o/", &[], 2, "' ' cannot stand in the URL"),
        (&[], "http://u:S3kr@h/{ID", &[], 2, "is not closed"),
        (&[], "http://u:S3kr@/x", &[], 2, "is no host name"),
        (&[], "http://u:S3kr@h:99999/", &[], 2, "is no port number"),
        (&[], "http://{ID}:S3kr@h/", &[], 2, "can hold no column"),
        (&[], "", &[], 2, "--post"),
        (&[], &https, &["--ca-file", &no_file], 1, "could not read the certificate"),
        (&[], &https, &["--ca-file", &not_pem], 1, "there is no certificate in"),
        (&[("http_proxy", "ftp://u:S3kr@p:1")], &fine, &[], 1, "http_proxy names a proxy"),
        (&[("http_proxy", "http://u:S3kr@/")], &fine, &[], 1, "http_proxy is no URL of a proxy"),
    ] {
        let ran = pass_in(&env, variables, url, options).fails(exit, &[says, "backlog: "]);
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
        assert!(!ran.stderr.contains("S3kr"), "{}", ran.stderr);
        assert_eq!(env.query(ROW), UNTOUCHED, "{says}");
    }
    assert_eq!(server.connections(), 0);
}

#[test]
fn a_secret_that_is_no_text_is_not_overlooked() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let server = serving(fine());
    let env = one_record();
    let now = format!("@{MIDNIGHT}");
    let url = server.url("/");
    let mut command = env.command(&["process", "--ndays", "1", "--now", &now, "--post", &url]);
    command.env("BACKLOG_WEBHOOK_SECRET", OsStr::from_bytes(b"whsec_\xff"));
    ran(&command.output().unwrap()).fails(2, &["BACKLOG_WEBHOOK_SECRET"]);
    assert_eq!(env.query(ROW), UNTOUCHED);
    assert!(server.received().is_empty());
}

#[test]
fn the_log_and_the_table_show_no_secrets() {
    let proxy = Server::new(&[("/", Answer::new("407 No", &[], ""))]);
    let env = one_record();
    let at = proxy.url("/").replace("127", "u:S3kr1@127");
    let variables = [("BACKLOG_WEBHOOK_SECRET", "whsec_UzNrcjI="), ("http_proxy", at.as_str())];
    let header = ["--header", "Authorization: Bearer S3kr3", "-vv", "--joblog", "joblog"];
    let ran = pass_in(&env, &variables, "http://u:S3kr4@nosuch.invalid/", &header).success();
    assert_eq!(env.query(ROW), failed("HTTP 407 Proxy Authentication Required"));
    let request = the_only(&proxy);
    assert_eq!(request.header("authorization"), Some("Bearer S3kr3"));
    assert_eq!(request.header("proxy-authorization"), Some("Basic dTpTM2tyMQ=="));
    let joblog = std::fs::read_to_string(env.path("joblog")).unwrap();
    let all = format!("{}{}{joblog}", ran.stderr, ran.stdout);
    for secret in ["S3kr", "UzNrcjI", "dTpTM2ty"] {
        assert!(!all.contains(secret), "{secret} is in {all}");
    }
}

#[test]
fn connections_are_kept_and_are_no_more_than_are_needed() {
    for jobs in [1, 4] {
        let server = serving(fine());
        let env = records(60);
        pass(&env, &server.url("/"), &["--jobs", &jobs.to_string()]).silent();
        assert_eq!(env.count("SUCCESS"), 60);
        assert_eq!(keys(&server).into_iter().collect::<HashSet<_>>().len(), 60);
        assert_eq!(server.received().len(), 60);
        // One that was idle for a second is not used again, and this machine may be slow.
        assert!(server.connections() <= jobs + 10, "{}", server.connections());
        assert!(server.most_at_once() <= jobs, "{}", server.most_at_once());
    }
}

#[test]
fn as_many_requests_run_at_a_time_as_there_are_jobs() {
    for jobs in [1, 2, 7] {
        // The first requests are answered once they are all there.
        let server = serving(Answer::gather(jobs).and(fine()));
        let env = records(20);
        pass(&env, &server.url("/"), &["--jobs", &jobs.to_string()]).silent();
        assert_eq!(env.count("SUCCESS"), 20);
        assert_eq!(server.most_at_once(), jobs);
    }
}

#[test]
fn one_slow_answer_holds_nothing_up() {
    let server = Server::new(&[("/9", Answer::gather(10).and(fine())), ("/x", fine())]);
    let env = records(10);
    env.sql("ALTER TABLE BACKLOG ADD COLUMN P ANY; UPDATE BACKLOG SET P = 'x'");
    env.sql("UPDATE BACKLOG SET P = '9' WHERE ID = 9");
    pass(&env, &server.url("/{P}"), &["--jobs", "2"]).silent();
    assert_eq!(env.count("SUCCESS"), 10);
}

#[test]
fn a_proxy_is_taken_from_the_environment() {
    let (proxy, server) = (serving(fine()), serving(fine()));
    let at = proxy.url("/");
    for (variable, list, goes_by_proxy) in [
        ("http_proxy", "", true),
        ("all_proxy", "", true),
        ("ALL_PROXY", "localhost,example.com", true),
        // A web server would let a client set this one.
        ("HTTP_PROXY", "", false),
        ("https_proxy", "", false),
        ("http_proxy", "localhost,127.0.0.1", false),
        ("http_proxy", "127.0.0.0/8", false),
        ("http_proxy", "*", false),
    ] {
        let env = one_record();
        let before = (proxy.received().len(), server.received().len());
        let variables = [(variable, at.as_str()), ("NO_PROXY", list)];
        pass_in(&env, &variables, &server.url("/"), &[]).silent();
        assert_eq!(env.query(ROW), DONE);
        let after = (proxy.received().len(), server.received().len());
        let way = (after.0 - before.0, after.1 - before.1);
        assert_eq!(way, if goes_by_proxy { (1, 0) } else { (0, 1) }, "{variable} {list}");
    }
    let urls = proxy.received().into_iter().map(|request| request.path);
    assert_eq!(urls.collect::<Vec<_>>(), [server.url("/"), server.url("/"), server.url("/")]);
}

#[test]
fn an_encrypted_request_goes_through_a_tunnel() {
    let env = one_record();
    let (file, config) = trusted(&env, "127.0.0.1", "tunnel");
    let server = Server::with_tls(&[("/", fine())], config);
    let proxy = Server::new(&[]);
    let at = proxy.url("/");
    let args = ["--ca-file", &file, "--header", "X-Mine: 1"];
    pass_in(&env, &[("https_proxy", &at)], &server.url("/"), &args).silent();
    assert_eq!(env.query(ROW), DONE);
    let connect = the_only(&proxy);
    assert_eq!((connect.method.as_str(), connect.header("x-mine")), ("CONNECT", None));
    assert_eq!(the_only(&server).header("x-mine"), Some("1"));
}

#[test]
fn a_proxy_out_of_reach_stops_the_pass() {
    let env = records(4);
    let ran = pass_in(&env, &[("http_proxy", NOBODY)], "http://nosuch.invalid/", &[]);
    let says = format!(
        "backlog: record 2 stays as it was: {REFUSED}; it is the proxy of http_proxy, 3 times in a \
         row; the pass stops here\n"
    );
    assert_eq!((ran.exit, ran.stderr), (Some(1), says));
    assert_eq!(env.statuses(), "1|NEW\n2|NEW\n3|ERROR\n4|ERROR");
}

/// A file that describes the default queue.
fn describe(env: &TestEnv, lines: &str) {
    let text = format!("[defaults]\nndays = 1\n{lines}\n");
    std::fs::write(env.path("backlog.toml"), text).unwrap();
}

#[test]
fn a_webhook_may_stand_in_the_file() {
    let env = one_record();
    let (file, config) = trusted(&env, "127.0.0.1", "ca");
    assert!(file.ends_with("/ca.pem"));
    let server = Server::with_tls(&[("/7", Answer::new("404 No", &[], ""))], config);
    let url = server.url("/{ID}");
    describe(
        &env,
        &format!(
            "post = '{url}'\nheader = ['X-A: 1, 2', 'X-B: 3']\nca_file = 'ca.pem'\ngive_up_on_4xx = true"
        ),
    );
    let ran = env.run_at(MIDNIGHT, &["process"]);
    assert_eq!((ran.exit, env.statuses().as_str()), (Some(1), "7|ARCHIVED"), "{ran:?}");
    let request = the_only(&server);
    assert_eq!(request.header("x-a"), Some("1, 2"));
    assert_eq!(request.header("x-b"), Some("3"));
}

#[test]
fn a_webhook_may_stand_in_the_environment() {
    let env = one_record();
    let server = serving(Answer::new("404 No", &[], ""));
    let now = format!("@{MIDNIGHT}");
    let mut command = env.command(&["process", "--ndays", "1", "--now", &now]);
    command.env("BACKLOG_POST", server.url("/")).env("BACKLOG_HEADER", "X-A: 1, 2\nX-B: 3");
    command.env("BACKLOG_GIVE_UP_ON_4XX", "yes");
    ran(&command.output().unwrap()).fails(1, &["given up"]);
    let request = the_only(&server);
    assert_eq!(request.header("x-a"), Some("1, 2"));
    assert_eq!(request.header("x-b"), Some("3"));
}

#[test]
fn a_command_that_is_typed_replaces_the_webhook_of_the_file() {
    command_over_webhook("");
}

#[test]
fn a_command_that_is_typed_replaces_what_goes_with_the_webhook_as_well() {
    for more in ["header = ['X: 1']", "ca_file = 'ca.pem'", "give_up_on_4xx = true"] {
        command_over_webhook(more);
    }
}

/// A pass with a command, where a webhook stands in the file.
fn command_over_webhook(more: &str) {
    let server = serving(fine());
    let env = one_record();
    describe(&env, &format!("post = '{}'\n{more}", server.url("/")));
    let handler = env.noting("exit 0");
    env.run_at(MIDNIGHT, &["process", "--", &handler]).silent();
    assert_eq!(env.handled(), ["7"], "{more}");
    assert!(server.received().is_empty());
}

#[test]
fn a_webhook_that_is_typed_replaces_the_handler_of_the_file() {
    for lines in [
        "exec = ['false']",
        "exec = ['false']\ngive_up_on = '65'",
        "exec = ['false']\nstream = true",
        "post = 'http://127.0.0.1:1/'",
        "post = 'http://127.0.0.1:1/'\ngive_up_on_4xx = true",
    ] {
        webhook_over_file(lines);
    }
}

#[test]
fn a_webhook_that_is_typed_replaces_what_goes_with_a_co_process_as_well() {
    webhook_over_file("exec = ['false']\nstream = true\nwindow = 5");
    webhook_over_file("exec = ['false']\nstream = true\nrestarts = 1");
}

/// A pass with a webhook, where another handler stands in the file.
fn webhook_over_file(lines: &str) {
    let server = serving(fine());
    let env = one_record();
    describe(&env, lines);
    env.run_at(MIDNIGHT, &["process", "--post", &server.url("/")]).silent();
    assert_eq!(env.query(ROW), DONE, "{lines}");
    assert_eq!(keys(&server), ["BACKLOG/7"], "{lines}");
}

#[test]
fn a_queue_with_a_command_does_without_the_webhook_of_the_others() {
    own_command("");
}

#[test]
fn a_queue_with_a_command_does_without_the_headers_of_the_others() {
    own_command("header = ['X: 1']");
}

/// A pass over a queue that has a command, where all others have a webhook.
fn own_command(more: &str) {
    let server = serving(fine());
    let env = one_record();
    let handler = env.noting("exit 0");
    describe(
        &env,
        &format!("post = '{}'\n{more}\n[queue.own]\nexec = ['{handler}']", server.url("/")),
    );
    env.run_at(MIDNIGHT, &["process", "--queue", "own"]).silent();
    assert_eq!(env.handled(), ["7"], "{more}");
    assert!(server.received().is_empty());
}

#[test]
fn what_does_not_go_with_a_webhook_is_said() {
    let env = one_record();
    for (args, says) in [
        (&["--post", NOBODY, "--stream"][..], "--stream"),
        (&["--post", NOBODY, "--", "true"], "--post"),
        (&["--post", NOBODY, "--give-up-on", "65"], "--give-up-on goes with a command"),
        (&["--post", NOBODY, "--window", "5"], "--window goes with --stream"),
        (&["--header", "X: 1", "--", "true"], "--header goes with --post"),
        (&["--ca-file", "x", "--", "true"], "--ca-file goes with --post"),
        (&["--give-up-on-4xx", "--", "true"], "--give-up-on-4xx goes with --post"),
    ] {
        let args = [&["process", "--ndays", "1"], args].concat();
        env.run_at(MIDNIGHT, &args).fails(2, &[says]);
    }
    assert_eq!(env.query(ROW), UNTOUCHED);
}

#[test]
fn a_dry_run_sends_nothing() {
    let server = serving(fine());
    let env = one_record();
    let ran = pass(&env, &server.url("/"), &["--dry-run"]).success();
    assert!(ran.stdout.starts_with("7 "), "{}", ran.stdout);
    assert_eq!((server.connections(), env.query(ROW).as_str()), (0, UNTOUCHED));
}

#[test]
fn a_request_that_outlives_the_grace_of_a_stop_leaves_its_record_as_it_was() {
    for mode in [&["--ndays", "1"][..], &["--fibonacci"]] {
        let server = serving(Answer::default().hold());
        let env = records(5);
        let (now, url) = (format!("@{MIDNIGHT}"), server.url("/"));
        let args = ["process", "--now", &now, "--post", &url, "--grace", "0s", "--jobs", "2"];
        let child = env.spawn_logging(&[&args[..], mode].concat());
        server.wait_for_received(2);
        signal(&child, "-TERM");
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(143), "{output:?}");
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
    let args = [
        "process", "--ndays", "1", "--now", &now, "--post", &url, "--grace", "1h", "-v", "--jobs",
        "2",
    ];
    let child = env.spawn_logging(&args);
    server.wait_for_received(2);
    signal(&child, "-TERM");
    env.logs("stopping on signal");
    server.let_go();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143), "{output:?}");
    assert_eq!(env.statuses(), "1|NEW\n2|NEW\n3|NEW\n4|SUCCESS\n5|SUCCESS");
    assert_eq!(server.received().len(), 2);
}

#[test]
fn a_second_signal_leaves_running_requests_no_more_time() {
    let server = serving(Answer::default().hold());
    let env = one_record();
    let (now, url) = (format!("@{MIDNIGHT}"), server.url("/"));
    let args = ["process", "--ndays", "1", "--now", &now, "--post", &url, "--grace", "1h", "-v"];
    let child = env.spawn_logging(&args);
    server.wait_for_received(1);
    signal(&child, "-INT");
    env.logs("stopping on signal 2");
    signal(&child, "-TERM");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert_eq!(env.query(ROW), UNTOUCHED);
}

#[test]
fn so_many_failures_in_a_row_stop_the_pass() {
    let server = serving(Answer::new("500 Oops", &[], "down"));
    let env = records(5);
    let ran = pass(&env, &server.url("/"), &["--max-consecutive-failures", "2"]);
    let says = "2 attempts failed in a row, the last one: HTTP 500 Internal Server Error: down";
    assert_eq!(ran.exit, Some(1));
    assert!(ran.stderr.contains(says), "{}", ran.stderr);
    assert_eq!(env.statuses(), "1|NEW\n2|NEW\n3|NEW\n4|ERROR\n5|ERROR");
    assert_eq!(server.received().len(), 2);
    // A snooze says as well that the server is not up to it.
    let server = serving(Answer::new("503 Oops", &["Retry-After: 600"], ""));
    let env = records(5);
    pass(&env, &server.url("/"), &["--max-consecutive-failures", "2"]).fails(1, &["in a row"]);
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
    let args = ["process", "--ndays", "1", "--now", &now, "--post", &url, "--rate", "1/h", "-v"];
    let child = env.spawn_logging(&[&args[..], &["--jobs", "8"]].concat());
    env.logs("record 20 succeeded");
    signal(&child, "-TERM");
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(143));
    assert_eq!((keys(&server), env.count("NEW")), (vec!["BACKLOG/20".into()], 19));
    pass(&env, &url, &["--rate", "1000/s", "--jobs", "8"]).silent();
    assert_eq!((env.count("SUCCESS"), server.received().len()), (20, 20));
}

#[test]
fn a_pass_that_the_rate_holds_back_ends_in_time() {
    let server = serving(fine());
    let env = records(5);
    let (now, url) = (format!("@{MIDNIGHT}"), server.url("/"));
    let args = ["process", "--ndays", "1", "--now", &now, "--post", &url, "--jobs", "8"];
    let child = env.spawn(&[&args[..], &["--rate", "1/h", "--max-runtime", "300ms"]].concat());
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
fn a_password_that_is_not_encoded_is_not_shown() {
    let env = one_record();
    let ran = pass(&env, "http://u:S3kr/et@h/", &[]).fails(2, &["--post: "]);
    assert!(!ran.stderr.contains("S3kr"), "{}", ran.stderr);
}

#[test]
fn who_is_told_of_archived_records_is_told_of_those_a_webhook_refused() {
    let server = Server::new(&[("/1", Answer::new("410 Gone", &[], "gone")), ("/2", fine())]);
    let env = records(2);
    let told = env.script("told", "cat >>json; echo \"$BACKLOG_ID $BACKLOG_ATTEMPT\" >>told.log");
    let args = ["--give-up-on-4xx", "--on-archive", &told];
    pass(&env, &server.url("/{ID}"), &args).fails(1, &["record 1 was given up"]);
    assert_eq!(std::fs::read_to_string(env.path("told.log")).unwrap(), "1 1\n");
    let json = std::fs::read_to_string(env.path("json")).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["ID"], 1);
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
    let args = ["process", "--fibonacci", "--post", &url, "--give-up-on-4xx", "--joblog", "joblog"];
    let ran = env.run_at(MIDNIGHT, &[&args[..], &["-v"]].concat());
    assert_eq!(ran.exit, Some(1));
    for line in [
        "backlog: info: record 1 succeeded (attempt 1)\n",
        "backlog: warning: record 2 failed, will retry at 2026-11-21T00:01:00Z (attempt 1): \
         HTTP 500 Internal Server Error: boom\n",
        "backlog: warning: record 3 was snoozed, will retry at 2026-11-21T00:10:00Z (attempt 1): \
         HTTP 429 Too Many Requests\n",
        "backlog: record 4 was given up by its handler (attempt 1); archived: HTTP 404 Not \
         Found\n",
    ] {
        assert!(ran.stderr.contains(line), "{line:?} is not in {}", ran.stderr);
    }
    let log = std::fs::read_to_string(env.path("joblog")).unwrap();
    let shown = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        assert!(line["duration_ms"].is_u64());
        line.as_object_mut().unwrap().shift_remove("duration_ms");
        line.to_string()
    };
    let line = |id: u8, outcome: &str, error: &str, status: &str| {
        format!(
            "{{\"id\":{id},\"attempt\":1,\"started_at\":\"2026-11-21T00:00:00Z\",\
             \"outcome\":\"{outcome}\",\"exit\":null,\"error\":{error},\"status\":\"{status}\"}}"
        )
    };
    assert_eq!(
        log.lines().map(shown).collect::<Vec<_>>(),
        [
            line(4, "give_up", "\"HTTP 404 Not Found\"", "ARCHIVED"),
            line(3, "snooze", "\"HTTP 429 Too Many Requests\"", "ERROR"),
            line(2, "failure", "\"HTTP 500 Internal Server Error: boom\"", "ERROR"),
            line(1, "success", "null", "SUCCESS"),
        ]
    );
}

#[test]
fn check_shows_the_webhook_without_its_password_and_sends_nothing() {
    let server = serving(fine());
    let env = one_record();
    let url = server.url("/{ID}").replace("127.", "us:S3kr@127.");
    let ran = env.run_at(MIDNIGHT, &["check", "--fibonacci", "--post", &url]).success();
    let line = format!("ok    handler     POST {}\n", server.url("/{ID}"));
    assert!(ran.stdout.contains(&line), "{}", ran.stdout);
    assert!(!ran.stdout.contains("S3kr") && !ran.stderr.contains("S3kr"));
    assert_eq!((server.connections(), env.query(ROW).as_str()), (0, UNTOUCHED));
}

#[test]
fn check_finds_what_a_pass_would_refuse() {
    let env = one_record();
    for (args, says) in [
        (&["--post", "http://h/{ORDER}"][..], "no column \"ORDER\""),
        (&["--post", "https://h/", "--ca-file", "/nowhere/ca.pem"], "/nowhere/ca.pem"),
    ] {
        let ran = env.run_at(MIDNIGHT, &[&["check", "--fibonacci"], args].concat());
        assert_ne!(ran.exit, Some(0), "{ran:?}");
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(said.contains(says), "{said}");
    }
}

#[test]
fn crontab_prints_a_line_that_does_what_was_typed() {
    let server = Server::new(&[("/it's/7?a%20b=%7", fine()), ("/it's/7?a%20b=%25", fine())]);
    let env = one_record();
    let url = server.url("/it's/{ID}?a%20b=%25");
    let header = "X-Mine: 50% \"off\" $HOME";
    let args = ["crontab", "--progressive", "--post", &url, "--header", header, "--give-up-on-4xx"];
    let lines = env.run(&args).success().stdout;
    let line = lines.lines().find(|line| line.contains(" process ")).unwrap();
    // Cron takes a percent sign for the end of the line.
    assert!(!line.replace("\\%", "").contains('%'), "{line}");
    let command = line.splitn(6, ' ').last().unwrap().replace("\\%", "%");
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &command]).env_clear().env("HOME", "/").current_dir("/");
    ran(&shell.env("PATH", "/usr/bin:/bin").output().unwrap()).silent();
    assert_eq!(env.statuses(), "7|SUCCESS");
    let request = the_only(&server);
    assert_eq!(request.path, "/it's/7?a%20b=%25");
    assert_eq!(request.header("x-mine"), Some(header.split_once(": ").unwrap().1));
}

#[test]
fn crontab_says_that_requests_are_signed_and_not_by_what() {
    let env = one_record();
    let args = ["crontab", "--progressive", "--post", NOBODY];
    let mut command = env.command(&args);
    let ran = ran(&command.env("BACKLOG_WEBHOOK_SECRET", "whsec_UzNrcjI=").output().unwrap());
    let lines = ran.success().stdout;
    assert!(lines.contains("\nBACKLOG_WEBHOOK_SECRET=\"whsec_...\"\n"), "{lines}");
    // Pasted as it is, it lets nothing go out unsigned.
    let variables = [("BACKLOG_WEBHOOK_SECRET", "whsec_...")];
    pass_in(&env, &variables, NOBODY, &[]).fails(2, &["is no base64"]);
    assert!(!env.run(&args).success().stdout.contains("SECRET"));
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
            let child =
                env.spawn(&["process", "--ndays", "1", "-v", "--now", &now, "--post", &url]);
            server.wait_for_received(1);
            env.sql(change);
            let left = env.query("SELECT * FROM BACKLOG");
            server.let_go();
            let ran = ran(&child.wait_with_output().unwrap()).success();
            let warning = format!(
                "backlog: warning: record 7 was changed or deleted by the application while its \
                 handler ran ({outcome}); the row is left as it is\n"
            );
            assert!(ran.stderr.contains(&warning), "{}", ran.stderr);
            assert_eq!(env.query("SELECT * FROM BACKLOG"), left);
        }
    }
}

#[test]
fn a_killed_pass_loses_nothing() {
    for mode in [&["--ndays", "1"][..], &["--fibonacci"]] {
        let (hung, ready) = (serving(Answer::default().hold()), serving(fine()));
        let env = records(5);
        let (now, url) = (format!("@{MIDNIGHT}"), hung.url("/"));
        let args = ["process", "--now", &now, "--jobs", "3", "--post", &url];
        let mut child = env.spawn(&[&args[..], mode].concat());
        hung.wait_for_received(3);
        signal(&child, "-KILL");
        child.wait().unwrap();
        // Those that were sent are charged for the pass that they may have killed.
        let sent = "SELECT ID FROM BACKLOG WHERE FAILURES = 1 AND LAST_ERROR = 'attempt 1 began at 2026-11-21T00:00:00Z and has not reported back'";
        assert_eq!(env.query(sent), "3\n4\n5");
        let url = ready.url("/");
        // A guard may hold the claims of a killed pass for a moment; a drain waits for it.
        let args = [&["process", "--drain", "--jobs", "2", "--post", &url], mode].concat();
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
        env.spawn(&["process", "--now", &now, "--ndays", ndays, "--jobs", "3", "--post", &url])
    });
    for child in children {
        ran(&child.wait_with_output().unwrap()).silent();
    }
    assert_eq!(env.count("SUCCESS"), 200);
    assert_eq!(server.received().len(), 200);
    assert_eq!(keys(&server).into_iter().collect::<HashSet<_>>().len(), 200);
}

#[test]
fn a_table_on_a_server_is_posted_as_well() {
    let Some(cluster) = cluster() else { return };
    let database = cluster.database();
    let env = TestEnv::on(&database);
    env.run(&["init"]).success();
    env.run(&["add", r#"{"order":  1.50}"#, r#"{"order":2}"#, r#"{"order":3}"#]).success();
    database.sql("UPDATE backlog SET date_inserted = '2026-11-20T23:59:00Z'");
    let server = Server::new(&[
        ("/1/NEW", fine()),
        ("/2/NEW", Answer::new("429 Oops", &["Retry-After: 600"], "")),
        ("/3/NEW", Answer::new("404 Oops", &[], "")),
    ]);
    let args = ["--jobs", "2", "--give-up-on-4xx"];
    pass(&env, &server.url("/{ID}/{Status}"), &args).fails(1, &["record 3 was given up"]);
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
    assert!(key.to_ascii_lowercase().ends_with("backlog/1"), "{key}");
    let missing = pass(&env, &server.url("/{ORDER}"), &[]);
    missing.fails(2, &["no column \"ORDER\" for the URL; legal are id, status"]);
}

#[test]
fn a_queue_of_pgmq_is_posted_as_well() {
    let Some(cluster) = cluster() else { return };
    let database = cluster.database();
    if !database.install_pgmq() {
        return;
    }
    let env = TestEnv::on(&database);
    env.run(&["init", "--pgmq", "jobs"]).success();
    env.run(&["add", "--pgmq", "jobs", r#"{"n":1}"#, r#"{"n":2}"#, r#"{"n":3}"#, r#"{"n":4}"#])
        .success();
    let server = Server::new(&[
        ("/1", fine()),
        ("/2", Answer::new("503 Oops", &["Retry-After: 86400"], "")),
        ("/3", Answer::new("400 Oops", &[], "no such job")),
        ("/4", Answer::new("500 Oops", &[], "")),
    ]);
    let url = server.url("/{msg_id}");
    let args = ["process", "--pgmq", "jobs", "--post", &url, "--give-up-on-4xx"];
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
    assert!(key.ends_with("/1"), "{key}");

    // The message alone, as it is.
    let server = serving(fine());
    env.run(&["add", "--pgmq", "jobs", r#"{"n":5}"#]).success();
    env.run(&[
        "process",
        "--pgmq",
        "jobs",
        "--payload-column",
        "message",
        "--post",
        &server.url("/"),
    ]);
    let bodies = server.received().into_iter().map(|request| request.body);
    let bodies: Vec<Value> = bodies.map(|body| serde_json::from_slice(&body).unwrap()).collect();
    assert!(bodies.contains(&serde_json::json!({"n": 5})), "{bodies:?}");
}

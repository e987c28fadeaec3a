//! Connections to servers, and the records that find none.

use super::*;
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::TcpListener;
use test_support::server::{Answer, Server};

#[test]
fn where_nobody_listens_two_records_fail_uncharged_and_the_others_stay_as_they_were() {
    // No resolver is asked for a name that is too long.
    let host = format!("{}.invalid", "a".repeat(64));
    for (url, error) in [
        (NOBODY.to_string(), REFUSED.to_string()),
        (format!("http://{host}/"), format!("could not find the host {host}: ")),
    ] {
        for schedule in ["--ndays 1", "--fibonacci", "--fibonacci --drain"] {
            let env = records(5);
            let ran = env.pass(&format!("--post {url} {schedule}")).exits(1);
            let begins = format!("backlog: record 3 stays as it was: {error}");
            assert!(ran.stderr.starts_with(&begins), "{}", ran.stderr);
            assert_contains(&ran.stderr, "backlog: 2 more records: the same");
            assert_eq!(ran.stderr.lines().count(), 2);
            let rows = env.query(ROWS);
            let rows: Vec<_> = rows.lines().collect();
            assert_eq!(rows[..3], ["1|NEW|0||", "2|NEW|0||", "3|NEW|0||"]);
            for (row, id) in rows[3..].iter().zip(4..) {
                assert!(row.starts_with(&format!("{id}|{}", unreached(&error))), "{row}");
            }
        }
    }
}

#[test]
fn one_record_that_finds_no_connection_fails_uncharged() {
    let host = format!("{}.invalid", "a".repeat(64));
    for (url, error) in [
        (NOBODY.to_string(), REFUSED.to_string()),
        (format!("http://{host}/"), format!("could not find the host {host}: ")),
    ] {
        let env = one_record();
        pass(&env, &url, "").silent();
        assert!(env.query(ROW).starts_with(&unreached(&error)), "{}", env.query(ROW));
    }
}

#[test]
fn however_many_are_sent_at_a_time_two_fail_where_nobody_listens() {
    let env = records(20);
    let ran = pass(&env, NOBODY, "--jobs 8").fails(1, &["in a row got nowhere"]);
    assert_contains(&ran.stderr, REFUSED);
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
    pass(&env, "http://127.0.0.1:{PORT}/", "--allow-host 127.0.0.1").silent();
    let refused = format!(
        "SELECT count(*) FROM BACKLOG WHERE FAILURES = 1 AND LAST_ERROR = 'not sent: {REFUSED}'"
    );
    assert_eq!(env.query(&refused), "6");
    assert_eq!(env.count("ERROR"), 8);
    assert_eq!(keys(&server), [key(6), key(3)]);
}

#[test]
fn an_authority_in_the_file_is_believed() {
    let env = records(3);
    let (file, config) = trusted(&env, "127.0.0.1", "right");
    let server = Server::with_tls(&[("/", fine())], config);
    pass(&env, &server.url("/"), &format!("--ca-file {file}")).silent();
    assert_eq!(env.statuses(), "1|SUCCESS\n2|SUCCESS\n3|SUCCESS");
    assert_eq!(keys(&server), [key(3), key(2), key(1)]);
}

#[test]
fn nothing_is_told_to_a_server_that_cannot_prove_who_it_is() {
    for (host, believes, error) in [
        (
            "127.0.0.1",
            "other",
            "could not verify the certificate of 127.0.0.1: it is signed by an unknown authority; pass the certificate of the authority with --ca-file",
        ),
        (
            "example.com",
            "one",
            "could not verify the certificate of 127.0.0.1: it is for another host; correct the \
             host in the URL",
        ),
    ] {
        let env = records(4);
        let (_, config) = trusted(&env, host, "one");
        trusted(&env, host, "other");
        let (file, config) = match believes {
            "one" => {
                let (file, config) = trusted(&env, host, "one");
                (file, config)
            }
            _ => (env.path_text("other.pem"), config),
        };
        let server = Server::with_tls(&[("/", fine())], config);
        let ran = pass(&env, &server.url("/"), &format!("--ca-file {file}"));
        ran.fails(1, &["record 2 stays as it was", error]);
        let failed = unreached(error);
        let rows = format!("1|{UNTOUCHED}\n2|{UNTOUCHED}\n3|{failed}\n4|{failed}");
        assert_eq!(env.query(ROWS), rows);
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
fn a_server_without_tls_costs_two_records_an_attempt_and_cron_one_mail_an_hour() {
    let env = records(5);
    let (file, _) = trusted(&env, "127.0.0.1", "one");
    let port = blunt();
    let url = format!("https://127.0.0.1:{port}/");
    let pass = |now: i64| {
        let args = format!("process --ndays 1 --post {url} --ca-file {file} --jobs 1");
        env.run_at(now, &args).exits(1).stderr
    };
    let says = format!(
        "backlog: record 3 stays as it was: could not agree on TLS with 127.0.0.1:{port}: its answer is not \
         TLS; should the URL begin with http://?\n"
    );
    let said = pass(MIDNIGHT);
    assert!(said.starts_with(&says), "{said}");
    assert_eq!(env.statuses(), "1|NEW\n2|NEW\n3|NEW\n4|ERROR\n5|ERROR");
    assert_eq!(pass(MIDNIGHT + HOUR - 1), "");
    assert_ne!(pass(MIDNIGHT + HOUR), "");
}

#[test]
fn connections_are_kept_and_are_no_more_than_are_needed() {
    for jobs in [1, 4] {
        let server = serving(fine());
        let env = records(60);
        pass(&env, &server.url("/"), &format!("--jobs {jobs}")).silent();
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
        pass(&env, &server.url("/"), &format!("--jobs {jobs}")).silent();
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
    pass(&env, &server.url("/{P}"), "--jobs 2").silent();
    assert_eq!(env.count("SUCCESS"), 10);
}

#[test]
fn a_proxy_is_taken_from_the_environment() {
    let (proxy, server) = (Server::new(&[]), serving(fine()));
    let at = proxy.url("/");
    for (variable, list, goes_by_proxy) in [
        ("http_proxy", "", true),
        ("all_proxy", "", true),
        ("ALL_PROXY", "localhost,example.com", true),
        // A web server would let a client set this one.
        ("HTTP_PROXY", "", false),
        ("https_proxy", "", false),
        ("http_proxy", "localhost,127.0.0.1", false),
        // Networks are not known.
        ("http_proxy", "127.0.0.0/8", true),
        ("http_proxy", "*", false),
    ] {
        let env = one_record();
        let before = (proxy.received().len(), server.received().len());
        let variables = [(variable, at.as_str()), ("NO_PROXY", list)];
        pass_in(&env, &variables, &server.url("/"), "").silent();
        assert_eq!(env.query(ROW), DONE);
        let after = (proxy.received().len(), server.received().len());
        let way = (after.0 - before.0, after.1 - before.1);
        assert_eq!(way, (usize::from(goes_by_proxy), 1), "{variable} {list}");
    }
    for request in proxy.received() {
        let host = format!("127.0.0.1:{}", server.port);
        assert_eq!((request.method.as_str(), request.path), ("CONNECT", host));
    }
}

#[test]
fn an_encrypted_request_goes_through_a_tunnel() {
    let env = one_record();
    let (file, config) = trusted(&env, "127.0.0.1", "tunnel");
    let server = Server::with_tls(&[("/", fine())], config);
    let proxy = Server::new(&[]);
    let at = proxy.url("/");
    let args = format!("--ca-file {file} --header 'X-Mine: 1'");
    pass_in(&env, &[("https_proxy", &at)], &server.url("/"), &args).silent();
    assert_eq!(env.query(ROW), DONE);
    let connect = the_only(&proxy);
    assert_eq!((connect.method.as_str(), connect.header("x-mine")), ("CONNECT", None));
    assert_eq!(the_only(&server).header("x-mine"), Some("1"));
}

#[test]
fn a_proxy_out_of_reach_is_nobody_as_well() {
    let env = records(4);
    let ran = pass_in(&env, &[("http_proxy", NOBODY)], "http://nosuch.invalid/", "");
    let why = format!("stays as it was: {REFUSED}; it is the proxy of http_proxy");
    let says = format!("backlog: record 2 {why}\nbacklog: 1 more record: the same (1)\n");
    assert_eq!((ran.exit, ran.stderr), (Some(1), says));
    assert_eq!(env.statuses(), "1|NEW\n2|NEW\n3|ERROR\n4|ERROR");
}

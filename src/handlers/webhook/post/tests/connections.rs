//! Connections that are opened, kept and lost.

use std::collections::HashSet;
use std::net::TcpListener;
use std::thread;

use super::{BODY, NOW, broken, client, record, send, success, unreachable};
use test_support::server::{Answer, Server};

#[test]
fn connections_are_kept() {
    let chunked = &["Transfer-Encoding: chunked"];
    let server = Server::new(&[
        ("/a", Answer::new("200 OK", &[], "x")),
        ("/b", Answer::new("500 Oops", &[], &"x".repeat(64 * 1024))),
        ("/c", Answer::head("200 OK", chunked).bytes("1\r\nx\r\n0\r\n\r\n")),
        ("/d", Answer::head("204 No Content", &[])),
        ("/e", Answer::new("302 Found", &["Location: /a"], "x")),
    ]);
    let client = client(&server.url("/{path}"));
    for path in ["a", "b", "c", "d", "e", "a"] {
        client.send(&record("7", &[("path", path)]), BODY, NOW).unwrap();
    }
    assert_eq!(server.received().len(), 6);
    assert_eq!(server.connections(), 1);
}

#[test]
fn there_are_no_more_connections_than_jobs() {
    let server = Server::new(&[("/", Answer::new("200 OK", &[], "x"))]);
    let client = client(&server.url("/"));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..25).for_each(|_| assert_eq!(send(&client), success())));
        }
    });
    assert_eq!(server.received().len(), 100);
    assert!(server.connections() <= 4);
}

#[test]
fn a_server_may_announce_that_it_closes_the_connection() {
    let answer = Answer::new("200 OK", &["Connection: close"], "x").close();
    let server = Server::new(&[("/", answer)]);
    let client = client(&server.url("/"));
    (0..20).for_each(|_| assert_eq!(send(&client), success()));
    assert_eq!(server.connections(), 20);
}

#[test]
fn a_connection_that_was_closed_while_idle_is_not_used() {
    let server = Server::new(&[("/", Answer::new("200 OK", &[], "x").close())]);
    let client = client(&server.url("/"));
    for count in 1..=10 {
        assert_eq!(send(&client), success());
        server.wait_for_closed(count);
    }
    assert_eq!(server.received().len(), 10);
}

#[test]
fn nothing_is_sent_twice_when_a_server_keeps_no_connection() {
    for answer in [Answer::close, Answer::late_close] {
        let server = Server::new(&[("/", answer(Answer::new("200 OK", &[], "x")))]);
        let client = client(&server.url("/"));
        let send = |id: u8| client.send(&record(&id.to_string(), &[]), BODY, NOW).unwrap().0;
        let sent: Vec<_> = (0..100).map(send).collect();
        let received = server.received();
        let keys: HashSet<_> =
            received.iter().map(|request| request.header("idempotency-key")).collect();
        assert_eq!(keys.len(), received.len());
        let lost: Vec<_> = sent.into_iter().filter(|sent| *sent != success()).collect();
        let closed = broken("the connection was closed before an answer came");
        assert!(lost.iter().all(|sent| *sent == closed), "{lost:?}");
    }
}

#[test]
fn a_request_that_the_server_has_read_is_not_repeated() {
    let server = Server::new(&[
        ("/fine", Answer::new("200 OK", &[], "x")),
        ("/drop", Answer::default().close()),
    ]);
    let client = client(&server.url("/{path}"));
    let post = |path: &str| client.send(&record("7", &[("path", path)]), BODY, NOW).unwrap().0;
    assert_eq!(post("fine"), success());
    assert_eq!(post("drop"), broken("the connection was closed before an answer came"));
    assert_eq!(post("fine"), success());
    let connections: Vec<_> = server.received().iter().map(|request| request.connection).collect();
    assert_eq!(connections, [0, 0, 1]);
}

#[test]
fn nothing_was_sent_where_nobody_listens() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let expected = format!("could not connect to 127.0.0.1:{port}: connection refused");
    let sent = send(&client(&format!("http://127.0.0.1:{port}/")));
    assert_eq!(sent, unreachable(&expected));
}

#[test]
fn nothing_was_sent_where_there_is_no_host() {
    // The name is too long for any resolver, so no server is asked.
    let host = format!("{}.invalid", "a".repeat(64));
    let sent = send(&client(&format!("http://{host}/")));
    let message = sent.error().unwrap();
    assert!(message.starts_with(&format!("could not find the host {host}: ")), "{message}");
    assert_eq!(sent, unreachable(message));
}

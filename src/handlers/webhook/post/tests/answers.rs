//! Requests as they are sent, and the outcomes of their replies.

use std::thread;
use std::time::Duration;

use backlog_schedule::Outcome;

use super::{
    BODY, NOW, broken, client, client_of, context, failure, hasty, record, send, success,
    unreachable, webhook,
};
use crate::handlers::webhook::post::Client;
use crate::handlers::webhook::{GivesUp, Header, Secret, Signing, Webhook};
use test_support::server::{Answer, Server, UNREAD};

#[test]
fn a_request_carries_what_it_should() {
    let server = Server::new(&[("/a/x%2Fy?z=1", Answer::new("200 OK", &[], "fine"))]);
    let url = server.url("/a/{name}?z={z}").replace("//", "//us%20er:pw@");
    let client = client_of(Webhook {
        headers: vec![Header::parse("X-Mine: 1").unwrap()],
        signing: Signing::Shared(Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap()),
        ..webhook(&url)
    });
    let record = record("é.7", &[("z", "1"), ("name", "x/y")]);
    assert_eq!(client.send(&record, BODY, NOW).unwrap().0, success());
    let [request] = server.received().try_into().unwrap();
    assert_eq!((request.method.as_str(), request.body.as_slice()), ("POST", BODY));
    let host = format!("127.0.0.1:{}", server.port);
    for (name, value) in [
        ("host", Some(host.as_str())),
        ("content-type", Some("application/json")),
        ("content-length", Some("20")),
        ("user-agent", Some(concat!("backlog/", env!("CARGO_PKG_VERSION")))),
        ("authorization", Some("Basic dXMgZXI6cHc=")),
        ("x-mine", Some("1")),
        ("idempotency-key", Some("orders/%C3%A9.7/2021-02-25")),
        ("webhook-id", Some("orders/%C3%A9%2E7/2021-02-25")),
        ("webhook-timestamp", Some("1614265330")),
        ("accept-encoding", Some("identity")),
        ("cookie", None),
    ] {
        assert_eq!(request.header(name), value, "{name}");
    }
    assert!(request.header("webhook-signature").unwrap().starts_with("v1,"));
}

#[test]
fn bodies_of_all_sizes_arrive() {
    let server = Server::new(&[("/", Answer::new("200 OK", &[], ""))]);
    let client = client(&server.url("/"));
    for size in [0, 1, 128 * 1024, 3_000_000] {
        let body: Vec<u8> = (0..size).map(|n: u32| n.to_le_bytes()[0]).collect();
        assert_eq!(client.send(&record("7", &[]), &body, NOW).unwrap().0, success());
        assert!(server.received().pop().unwrap().body == body, "{size}");
    }
    assert_eq!(server.connections(), 1);
}

#[test]
fn every_status_is_an_answer() {
    let moved = server_that_moved();
    let server = Server::new(&[
        ("/204", Answer::head("204 No Content", &[])),
        ("/304", Answer::head("304 Not Modified", &[])),
        ("/400", Answer::new("400 Bad Request", &[], "no\nway")),
        ("/429", Answer::new("429 Slow Down", &["Retry-After: 9"], r#"{"error":"busy"}"#)),
        ("/500", Answer::new("500 Oops", &[], "")),
        (
            "/early",
            Answer::head("103 Early Hints", &[])
                .bytes("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"),
        ),
        ("/moved", Answer::new("307 There", &[&format!("Location: {}", moved.url("/"))], "")),
        (
            "/chunked",
            Answer::head("502 Bad", &["Transfer-Encoding: chunked"]).bytes("3\r\nout\r\n0\r\n\r\n"),
        ),
        ("/old", Answer::default().bytes("HTTP/1.0 500 Oops\r\n\r\nuntil the end").close()),
    ]);
    let sent = |path: &str| send(&client(&server.url(path)));
    assert_eq!(sent("/204"), success());
    assert_eq!(sent("/early"), success());
    assert_eq!(sent("/304"), failure("HTTP 304 Not Modified: redirects are not followed"));
    assert_eq!(sent("/400"), failure("HTTP 400 Bad Request: no"));
    assert_eq!(sent("/500"), failure("HTTP 500 Internal Server Error"));
    assert_eq!(sent("/chunked"), failure("HTTP 502 Bad Gateway: out"));
    assert_eq!(sent("/old"), failure("HTTP 500 Internal Server Error: until the end"));
    let (error, after) = ("HTTP 429 Too Many Requests: busy".into(), Some(Duration::from_secs(9)));
    assert_eq!(sent("/429"), Outcome::Snooze { error, after });
    let Outcome::Failure { error } = sent("/moved") else { panic!() };
    assert!(error.ends_with(&format!("leads to {}", moved.url("/"))), "{error}");
    assert!(moved.received().is_empty());
    let client = client_of(Webhook {
        gives_up: GivesUp { on_4xx: true, ..GivesUp::default() },
        ..webhook(&server.url("/400"))
    });
    let error = "HTTP 400 Bad Request: no".into();
    assert_eq!(send(&client), Outcome::GiveUp { error });
}

fn server_that_moved() -> Server {
    Server::new(&[("/", Answer::new("200 OK", &[], ""))])
}

#[test]
fn a_timeout_is_reported() {
    let server = Server::new(&[
        ("/nothing", Answer::default().hold()),
        ("/line", Answer::default().bytes("HTTP/1.1 200").hold()),
        ("/headers", Answer::default().bytes("HTTP/1.1 200 OK\r\nX: ").trickle()),
    ]);
    for path in ["/nothing", "/line", "/headers"] {
        assert_eq!(send(&hasty(&server.url(path))), broken("no answer within 300ms"), "{path}");
    }
    server.wait_for_received(3);
    assert_eq!(server.connections(), 3);
}

#[test]
fn the_body_cannot_change_what_the_status_says() {
    let long = &["Content-Length: 100"];
    let server = Server::new(&[
        ("/hold", Answer::head("200 OK", long).hold()),
        ("/trickle", Answer::head("200 OK", long).trickle()),
        ("/endless", Answer::head("200 OK", &[]).trickle()),
        ("/broken", Answer::head("200 OK", long).bytes("x").close()),
        ("/chunk", Answer::head("200 OK", &["Transfer-Encoding: chunked"]).bytes("zz\r\n").close()),
        ("/error", Answer::head("500 Oops", long).bytes("out of paper\nx").hold()),
        ("/error2", Answer::head("500 Oops", long).bytes("out of paper\nx").close()),
    ]);
    let expect = |path: &str, expected: Outcome| {
        let timeout = Some(Duration::from_secs(1));
        let client = Client::new(webhook(&server.url(path)), context(timeout), None).unwrap();
        assert_eq!(send(&client), expected, "{path}");
    };
    let expect = &expect;
    thread::scope(|scope| {
        for path in ["/hold", "/trickle", "/endless", "/broken", "/chunk"] {
            scope.spawn(move || expect(path, success()));
        }
        for path in ["/error", "/error2"] {
            let expected = failure("HTTP 500 Internal Server Error: out of paper");
            scope.spawn(move || expect(path, expected));
        }
    });
    assert_eq!(server.received().len(), 7);
}

#[test]
fn without_a_timeout_a_body_is_not_waited_for_forever() {
    let server = Server::new(&[("/", Answer::head("200 OK", &["Content-Length: 9"]).hold())]);
    let client = Client::new(webhook(&server.url("/")), context(None), None).unwrap();
    assert_eq!(send(&client), success());
}

#[test]
fn a_long_body_is_not_read() {
    let gigabyte = 1 << 30;
    let length = format!("Content-Length: {gigabyte}");
    let server = Server::new(&[
        ("/known", Answer::head("200 OK", &[&length]).flood(gigabyte)),
        ("/unknown", Answer::head("500 Oops", &[]).bytes("oh\n").flood(gigabyte)),
    ]);
    assert_eq!(send(&client(&server.url("/known"))), success());
    assert!(server.flooded() < gigabyte / 4);
    let sent = send(&client(&server.url("/unknown")));
    assert_eq!(sent, failure("HTTP 500 Internal Server Error: oh"));
    assert!(server.flooded() < gigabyte / 4);
}

#[test]
fn invalid_answers_are_reported() {
    let server = Server::new(&[
        ("/drop", Answer::default().close()),
        ("/half", Answer::default().bytes("HTTP/1.1 200 OK\r\nX").close()),
        ("/ssh", Answer::default().bytes("SSH-2.0-OpenSSH\r\n\r\n").close()),
        ("/huge", Answer::default().bytes("HTTP/1.1 200 OK\r\nX: ").flood(1 << 24)),
    ]);
    let closed = broken("the connection was closed before an answer came");
    assert_eq!(send(&client(&server.url("/drop"))), closed);
    assert_eq!(send(&client(&server.url("/half"))), closed);
    for path in ["/ssh", "/huge"] {
        let sent = send(&client(&server.url(path)));
        let message = sent.error().unwrap();
        assert!(message.contains("answer"), "{message}");
        assert_eq!(sent, if path == "/ssh" { unreachable(message) } else { broken(message) });
    }
    assert_eq!(server.received().len(), 4);
}

#[test]
fn an_answer_that_comes_before_the_body_is_read_may_be_lost() {
    let answer = Answer::new("413 Too Large", &[], "too long").close();
    let server = Server::new(&[(UNREAD, answer)]);
    let answered = failure("HTTP 413 Payload Too Large: too long");
    let closed = broken("the connection was closed before an answer came");
    for _ in 0..20 {
        let long = vec![b'x'; 3_000_000];
        let sent = client(&server.url(UNREAD)).send(&record("7", &[]), &long, NOW).unwrap().0;
        assert!(sent == answered || sent == closed, "{sent:?}");
    }
}

#[test]
fn a_record_may_have_no_url() {
    let server = Server::new(&[]);
    let client = client(&server.url("/{nr}/x"));
    for values in [&[][..], &[("nr", "..")]] {
        assert!(client.send(&record("7", values), BODY, NOW).is_err(), "{values:?}");
    }
    assert_eq!(server.connections(), 0);
}

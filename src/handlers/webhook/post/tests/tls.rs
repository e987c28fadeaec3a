//! Certificates that are trusted, and certificates that are not.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::thread;

use backlog_schedule::{Outcome, Reach};

use super::{client_of, context, send, success, unreachable, webhook};
use crate::handlers::webhook::Webhook;
use crate::handlers::webhook::post::{Client, probe};
use test_support::server::{Answer, Server, Trusted};

fn client(url: &str, trusted: &Trusted) -> Client {
    client_of(Webhook { ca_file: Some(trusted.file()), ..webhook(url) })
}

fn answers() -> [(&'static str, Answer); 2] {
    [("/", Answer::new("200 OK", &[], "x")), ("/closed", Answer::new("200 OK", &[], "x").close())]
}

#[test]
fn an_authority_in_the_file_is_believed() {
    let trusted = Trusted::new("127.0.0.1", "right");
    let server = Server::with_tls(&answers(), trusted.server.clone());
    let client = client(&server.url("/"), &trusted);
    (0..5).for_each(|_| assert_eq!(send(&client), success()));
    assert_eq!(server.connections(), 1);
}

#[test]
fn an_encrypted_connection_that_was_closed_is_not_used() {
    let trusted = Trusted::new("127.0.0.1", "closed");
    let server = Server::with_tls(&answers(), trusted.server.clone());
    let client = client(&server.url("/closed"), &trusted);
    for count in 1..=5 {
        assert_eq!(send(&client), success());
        server.wait_for_closed(count);
    }
}

#[test]
fn other_authorities_are_not_believed() {
    let trusted = Trusted::new("127.0.0.1", "wrong");
    let other = Trusted::new("127.0.0.1", "other");
    let server = Server::with_tls(&answers(), other.server.clone());
    let expected = unreachable(
        "could not verify the certificate of 127.0.0.1: it is signed by an unknown authority; pass the certificate of the authority with --ca-file",
    );
    assert_eq!(send(&client(&server.url("/"), &trusted)), expected);
    assert!(server.received().is_empty());
}

#[test]
fn a_certificate_is_for_one_host() {
    let trusted = Trusted::new("example.com", "name");
    let server = Server::with_tls(&answers(), trusted.server.clone());
    let sent = send(&client(&server.url("/"), &trusted));
    let message = sent.error().unwrap();
    assert!(message.contains("127.0.0.1: it is for another host"), "{message}");
    assert_eq!(sent, unreachable(message));
}

#[test]
fn nothing_was_sent_to_a_server_without_tls() {
    let trusted = Trusted::new("127.0.0.1", "plain");
    for (answer, expected) in [
        (
            "HTTP/1.1 400 Bad Request\r\n\r\n",
            "its answer is not TLS; should the URL begin with http://?",
        ),
        ("", "unexpected end of file"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}/", listener.local_addr().unwrap());
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            assert!(stream.read(&mut [0; 4_096]).unwrap() > 0);
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let sent = send(&client(&url, &trusted));
        server.join().unwrap();
        let message = sent.error().unwrap();
        assert_eq!(sent, unreachable(message));
        assert!(message.ends_with(expected), "{message}");
    }
}

#[test]
fn a_port_of_another_protocol_has_processed_nothing() {
    for answer in ["\u{15}\u{3}\u{1}\0\u{2}\u{2}F", "220 mail\r\n", "SSH-2.0-x\r\n"] {
        let server = Server::new(&[("/", Answer::default().bytes(answer).close())]);
        let sent = send(&client_of(webhook(&server.url("/"))));
        let message = sent.error().unwrap();
        assert_eq!(sent, unreachable(message));
        assert!(message.ends_with("is not HTTP: is this an HTTPS port?"), "{message}");
    }
    // This may come from a receiver that has processed the request.
    let server = Server::new(&[("/", Answer::default().bytes("HTTP/1.1 OK\r\n\r\n").close())]);
    let sent = send(&client_of(webhook(&server.url("/"))));
    assert!(matches!(sent, Outcome::Unanswered { reach: Reach::MayHaveWorked, .. }), "{sent:?}");
}

#[test]
fn a_probe_connects_as_requests_do_and_sends_nothing() {
    let trusted = Trusted::new("127.0.0.1", "probe");
    let plain = Server::new(&answers());
    let tls = Server::with_tls(&answers(), trusted.server.clone());
    for server in [&plain, &tls] {
        let webhook = Webhook { ca_file: Some(trusted.file()), ..webhook(&server.url("/{id}")) };
        probe(webhook).unwrap();
        server.wait_for_closed(1);
        assert!(server.received().is_empty());
    }
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = probe(webhook(&format!("http://127.0.0.1:{port}/"))).unwrap_err().to_string();
    assert!(error.ends_with(": connection refused"), "{error}");
}

#[test]
fn a_bad_file_is_named() {
    let empty = std::env::temp_dir().join(format!("backlog-{}-empty.pem", std::process::id()));
    std::fs::write(&empty, "").unwrap();
    for (file, expected) in [
        (PathBuf::from("/nowhere/ca.pem"), "could not read the certificate /nowhere/ca.pem: "),
        (empty.clone(), "there is no certificate in "),
    ] {
        let webhook = |url| Webhook { ca_file: Some(file.clone()), ..webhook(url) };
        let client = |url| Client::new(webhook(url), context(None), None);
        let error = client("https://h/").err().unwrap().to_string();
        assert!(error.contains(expected) && error.contains(file.to_str().unwrap()), "{error}");
        assert!(client("http://h/").is_ok());
    }
    std::fs::remove_file(empty).unwrap();
}

//! Certificates that are trusted, and those that are not.

use std::path::PathBuf;

use backlog_schedule::{Outcome, Reach};

use super::{SHORT, client_of, context, send, success, unreachable, webhook};
use crate::handlers::post::Client;
use crate::handlers::webhook::Webhook;
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
        "could not verify the certificate of 127.0.0.1: its authority is unknown; name its \
         authority with --ca-file",
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
fn a_server_without_tls_is_told_from_one_that_is_not_believed() {
    let trusted = Trusted::new("127.0.0.1", "plain");
    let server = Server::new(&answers());
    let url = server.url("/").replace("http:", "https:");
    let webhook = Webhook { ca_file: Some(trusted.file()), ..webhook(&url) };
    let sent = send(&Client::new(webhook, context(Some(SHORT))).unwrap());
    assert!(matches!(sent, Outcome::Unanswered { reach: Reach::MayHaveWorked, .. }), "{sent:?}");
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
        let client = |url| Client::new(webhook(url), context(None));
        let error = client("https://h/").err().unwrap().to_string();
        assert!(error.contains(expected) && error.contains(file.to_str().unwrap()), "{error}");
        assert!(client("http://h/").is_ok());
    }
    std::fs::remove_file(empty).unwrap();
}

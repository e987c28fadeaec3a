//! Whose certificates are believed.

use std::path::PathBuf;
use std::sync::Arc;

use crate::handler::post::client::{Client, PostSettings, Sent};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::{broken, send, settings, success};
use crate::server::{Answer, Server};

/// An authority, its file and a server that it vouches for.
pub struct Trusted {
    pub file: PathBuf,
    pub server: ServerConfig,
}

impl Trusted {
    /// The file is removed with the directory it is in.
    pub fn new(host: &str, name: &str) -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([host.to_string()]).unwrap();
        let certificate = params.signed_by(&key, &authority).unwrap();
        let file = std::env::temp_dir().join(format!("backlog-{}-{name}.pem", std::process::id()));
        std::fs::write(&file, authority.pem()).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let server = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        Self { file, server }
    }
}

impl Drop for Trusted {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

fn client(url: &str, trusted: &Trusted) -> Client {
    Client::new(PostSettings { ca_file: Some(trusted.file.clone()), ..settings(url) }).unwrap()
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
    let expected = broken(
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
    let Sent::Broken(message) = sent else { panic!("{sent:?}") };
    assert!(message.contains("127.0.0.1: it is for another host"), "{message}");
}

#[test]
fn a_server_without_tls_is_told_from_one_that_is_not_believed() {
    let trusted = Trusted::new("127.0.0.1", "plain");
    let server = Server::new(&answers());
    let url = server.url("/").replace("http:", "https:");
    let sent = send(
        &Client::new(PostSettings {
            ca_file: Some(trusted.file.clone()),
            timeout: Some(super::SHORT),
            ..settings(&url)
        })
        .unwrap(),
    );
    assert!(matches!(sent, Sent::Broken(_)), "{sent:?}");
}

#[test]
fn a_bad_file_is_named() {
    let empty = std::env::temp_dir().join(format!("backlog-{}-empty.pem", std::process::id()));
    std::fs::write(&empty, "").unwrap();
    for (file, expected) in [
        (PathBuf::from("/nowhere/ca.pem"), "could not read the certificate /nowhere/ca.pem: "),
        (empty.clone(), "there is no certificate in "),
    ] {
        let settings = |url| PostSettings { ca_file: Some(file.clone()), ..settings(url) };
        let error = Client::new(settings("https://h/")).err().unwrap().to_string();
        assert!(error.contains(expected) && error.contains(file.to_str().unwrap()), "{error}");
        assert!(Client::new(settings("http://h/")).is_ok());
    }
    std::fs::remove_file(empty).unwrap();
}

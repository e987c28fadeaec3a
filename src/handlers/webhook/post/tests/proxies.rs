//! Requests that go through a proxy.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use super::{client_of, send, success, unreachable, webhook};
use crate::handlers::webhook::post::Client;
use crate::handlers::webhook::{Proxies, Webhook};
use test_support::server::{Answer, Server, Trusted, splice};

fn client(url: &str, env: &[(&str, &str)], trusted: Option<&Trusted>) -> Client {
    let value = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, it)| (*it).into());
    let ca_file = trusted.map(Trusted::file);
    client_of(Webhook { proxies: Proxies::from_env(&value), ca_file, ..webhook(url) })
}

fn fine() -> Answer {
    Answer::new("200 OK", &[], "x")
}

fn assert_two_requests_share_a_tunnel(client: &Client, proxy: &Server, server: &Server) {
    assert_eq!(send(client), success());
    assert_eq!(send(client), success());
    let [connect] = proxy.received().try_into().unwrap();
    assert_eq!(connect.method, "CONNECT");
    assert_eq!(connect.path, format!("127.0.0.1:{}", server.port));
    assert_eq!(connect.header("proxy-authorization"), Some("Basic dXMgZXI6cHc="));
}

#[test]
fn a_plain_request_goes_through_a_tunnel() {
    let server = Server::new(&[("/a?b", fine())]);
    let proxy = Server::new(&[]);
    let at = proxy.url("/").replace("//", "//us%20er:pw@");
    let client = client(&server.url("/a?b"), &[("http_proxy", &at)], None);
    assert_two_requests_share_a_tunnel(&client, &proxy, &server);
    for request in server.received() {
        assert_eq!((request.path.as_str(), request.body.as_slice()), ("/a?b", super::BODY));
        assert_eq!(request.header("proxy-authorization"), None);
    }
    assert_eq!((server.received().len(), server.connections()), (2, 1));
}

#[test]
fn an_encrypted_request_goes_through_a_tunnel() {
    let trusted = Trusted::new("127.0.0.1", "tunnel");
    let server = Server::with_tls(&[("/", fine())], trusted.server.clone());
    let proxy = Server::new(&[]);
    let at = proxy.url("/").replace("//", "//us%20er:pw@");
    let client = client(&server.url("/"), &[("HTTPS_PROXY", &at)], Some(&trusted));
    assert_two_requests_share_a_tunnel(&client, &proxy, &server);
    assert_eq!(server.received().len(), 2);
    assert_eq!(server.received()[0].header("proxy-authorization"), None);
}

#[test]
fn each_scheme_has_its_own_proxy() {
    let server = Server::new(&[("/", fine())]);
    let env = [("https_proxy", "127.0.0.1:1"), ("HTTP_PROXY", "127.0.0.1:1")];
    assert_eq!(send(&client(&server.url("/"), &env, None)), success());
}

#[test]
fn the_list_of_exceptions_is_heeded() {
    let server = Server::new(&[("/", fine())]);
    let env = [("http_proxy", "127.0.0.1:1"), ("NO_PROXY", "localhost,127.0.0.1")];
    assert_eq!(send(&client(&server.url("/"), &env, None)), success());
}

#[test]
fn a_proxy_may_be_out_of_reach() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let at = format!("127.0.0.1:{port}");
    let trusted = Trusted::new("127.0.0.1", "unreachable");
    for (url, kind) in [
        ("http://nosuch.invalid/", "http"),
        ("https://nosuch.invalid/", "http"),
        ("http://nosuch.invalid/", "socks5h"),
    ] {
        let env = [("all_proxy", format!("{kind}://{at}"))];
        let env = env.each_ref().map(|(name, value)| (*name, value.as_str()));
        let expected =
            format!("could not connect to {at}: connection refused; it is the proxy of all_proxy");
        let sent = send(&client(url, &env, Some(&trusted)));
        assert_eq!(sent, unreachable(&expected), "{url} {kind}");
    }
}

#[test]
fn a_proxy_may_refuse() {
    let trusted = Trusted::new("127.0.0.1", "refused");
    let proxy = Server::new(&[("h:443", Answer::new("403 Forbidden", &[], ""))]);
    let at = proxy.url("/");
    let error =
        "the proxy of https_proxy could not connect to h:443: proxy server responded 403/403";
    let sent = send(&client("https://h/", &[("https_proxy", &at)], Some(&trusted)));
    assert_eq!(sent, unreachable(error));
}

#[test]
fn socks_proxies_work() {
    let server = Server::new(&[("/", fine())]);
    let at = socks();
    for kind in ["socks5", "socks5h"] {
        let at = format!("{kind}://{at}");
        assert_eq!(send(&client(&server.url("/"), &[("ALL_PROXY", &at)], None)), success());
    }
    assert_eq!(server.received()[0].path, "/");
}

/// A SOCKS5 proxy without logins, for IPv4 addresses.
fn socks() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap().to_string();
    thread::spawn(move || listener.incoming().for_each(|near| relay(near.unwrap())));
    at
}

fn relay(mut near: TcpStream) {
    let mut greeting = [0; 2];
    near.read_exact(&mut greeting).unwrap();
    near.read_exact(&mut vec![0; usize::from(greeting[1])]).unwrap();
    near.write_all(&[5, 0]).unwrap();
    let mut request = [0; 4];
    near.read_exact(&mut request).unwrap();
    let host = match request[3] {
        1 => {
            let mut host = [0; 4];
            near.read_exact(&mut host).unwrap();
            host.map(|byte| byte.to_string()).join(".")
        }
        _ => {
            let mut length = [0];
            near.read_exact(&mut length).unwrap();
            let mut host = vec![0; usize::from(length[0])];
            near.read_exact(&mut host).unwrap();
            String::from_utf8(host).unwrap()
        }
    };
    let mut port = [0; 2];
    near.read_exact(&mut port).unwrap();
    let far = TcpStream::connect((host, u16::from_be_bytes(port))).unwrap();
    near.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).unwrap();
    thread::spawn(move || splice(near, far));
}

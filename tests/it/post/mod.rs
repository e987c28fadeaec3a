//! `--post`: what becomes of records that are sent to a webhook.

mod choice;
mod connections;
mod hosts;
mod keys;
mod outcomes;
mod passes;
mod requests;

use rustls::ServerConfig;

use crate::testenv::*;
use test_support::server::{Answer, Received, Server, Trusted};

const ROW: &str = "SELECT STATUS, FAILURES, LAST_FAILURE, LAST_ERROR FROM BACKLOG WHERE ID = 7";
const ROWS: &str = "SELECT ID, STATUS, FAILURES, LAST_FAILURE, LAST_ERROR FROM BACKLOG ORDER BY ID";
const UNTOUCHED: &str = "NEW|0||";
const DONE: &str = "SUCCESS|0||";

/// Nothing listens there, and nobody is ever given this port by chance.
const NOBODY: &str = "http://127.0.0.1:1/";
const REFUSED: &str = "could not connect to 127.0.0.1:1: connection refused";

/// One pass over what is a day old at most.
fn pass(env: &TestEnv, url: &str, options: &str) -> Ran {
    pass_in(env, &[], url, options)
}

/// The same with more variables in the environment.
fn pass_in(env: &TestEnv, variables: &[(&str, &str)], url: &str, options: &str) -> Ran {
    let args = format!("process --ndays 1 --post {} {options}", quoted(url));
    env.command_at(MIDNIGHT, &args).envs(variables.iter().copied()).ran()
}

/// The row of a record whose first attempt failed.
fn failed(error: &str) -> String {
    format!("ERROR|1|2026-11-21T00:00:00Z|{error}")
}

/// The same of one that was not sent.
fn unsent(error: &str) -> String {
    failed(&format!("not sent: {error}"))
}

/// The same of one that nobody received, which is no failure of the record.
fn unreached(error: &str) -> String {
    unsent(error).replace("|1|", "|0|")
}

/// The same of one of which nobody knows whether it arrived.
fn unknown(error: &str) -> String {
    failed(&format!("outcome unknown: {error}"))
}

fn fine() -> Answer {
    Answer::new("200 OK", &[], "fine")
}

/// A server that says the same at its root, whatever it is sent.
fn serving(answer: Answer) -> Server {
    Server::new(&[("/", answer)])
}

fn keys(server: &Server) -> Vec<String> {
    let key = |request: &Received| request.header("idempotency-key").unwrap().to_string();
    server.received().iter().map(key).collect()
}

/// The key of a record that was inserted a minute ago, in the table that `init` creates.
fn key(id: u64) -> String {
    format!("BACKLOG/{id}/2026-11-20T23:59:00Z")
}

fn the_only(server: &Server) -> Received {
    let [request] = server.received().try_into().unwrap();
    request
}

/// The file of an authority, and a server that it vouches for.
fn trusted(env: &TestEnv, host: &str, name: &str) -> (String, ServerConfig) {
    let trusted = Trusted::new(host, name);
    let file = env.path(&format!("{name}.pem"));
    std::fs::copy(trusted.file(), &file).unwrap();
    (file.display().to_string(), trusted.server.clone())
}

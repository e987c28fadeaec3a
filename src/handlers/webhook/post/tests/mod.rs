//! The client against a server of its own.

mod answers;
mod connections;
mod proxies;
mod tls;

use std::time::Duration;

use backlog_schedule::{Id, Instant, Outcome, Reach, Record, Value};

use super::Client;
use crate::handlers::HandlerContext;
use crate::handlers::webhook::{GivesUp, Hosts, IdempotencyKey, Proxies, Signing, Target, Webhook};

/// Long enough for every answer, and short enough to wait for answers that never come.
const SHORT: Duration = Duration::from_millis(300);
const NOW: Instant = Instant(1_614_265_330);
const BODY: &[u8] = br#"{"test": 2432232314}"#;

fn webhook(url: &str) -> Webhook {
    Webhook {
        target: Target::new(url).unwrap(),
        headers: Vec::new(),
        ca_file: None,
        gives_up: GivesUp::default(),
        signing: Signing::None,
        hosts: Hosts::default(),
        key: IdempotencyKey::Name,
        proxies: Proxies::default(),
    }
}

fn context(timeout: Option<Duration>) -> HandlerContext {
    HandlerContext { timeout, jobs: 4, table: "orders".into(), ..HandlerContext::default() }
}

fn client_of(webhook: Webhook) -> Client {
    Client::new(webhook, context(Some(Duration::from_secs(20))), None).unwrap()
}

fn client(url: &str) -> Client {
    client_of(webhook(url))
}

/// A client with a short timeout.
fn hasty(url: &str) -> Client {
    Client::new(webhook(url), context(Some(SHORT)), None).unwrap()
}

fn send(client: &Client) -> Outcome {
    client.send(&record("7", &[]), BODY, NOW).unwrap().0
}

fn record(id: &str, values: &[(&str, &str)]) -> Record {
    let values: Vec<_> =
        values.iter().map(|(name, it)| (*name, Value::Text((*it).into()))).collect();
    let inserted = Value::Text("2021-02-25".into());
    Record { id: Id::Text(id.into()), inserted, ..crate::handlers::tests::record(&values) }
}

fn success() -> Outcome {
    Outcome::Success
}

fn failure(error: &str) -> Outcome {
    Outcome::Failure { error: error.into() }
}

/// Outcome of a request that the server may have read.
fn broken(error: &str) -> Outcome {
    Outcome::Unanswered { error: error.into(), reach: Reach::MayHaveWorked }
}

/// Outcome of a request without a connection.
fn unreachable(error: &str) -> Outcome {
    Outcome::Unanswered { error: error.into(), reach: Reach::Nobody { counts: false } }
}

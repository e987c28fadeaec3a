//! The HTTP client: one request, and the outcome that it comes to.

use std::io::Read;

use anyhow::Result;
use http::{HeaderMap, HeaderValue, Request, Response, Uri};
use ureq::{Agent, Body};

use super::agent::{self, Proxy};
use super::outcome::{Attempt, Reply, of_failure, of_reply};
use crate::handlers::HandlerContext;
use crate::handlers::webhook::{self, Webhook};
use crate::record::series::Series;
use crate::record::{Outcome, Reach, Record};
use crate::time::Instant;

/// How much of an answer is read. A longer one costs its connection.
const MOST_READ: usize = 64 * 1024;

/// An HTTP client for several threads, which keeps their connections.
pub struct Client {
    pub webhook: Webhook,
    pub context: HandlerContext,
    direct: Agent,
    /// The proxy, and the agent that goes through it.
    proxied: Option<(Proxy, Agent)>,
    /// What all requests have in common.
    headers: HeaderMap,
}

impl Client {
    /// Reads the certificates if any are needed.
    pub fn new(webhook: Webhook, context: HandlerContext) -> Result<Self> {
        let is_https = webhook.target.is_https;
        let proxy = Proxy::chosen(&webhook.proxies, is_https)?;
        let needs_tls = is_https || proxy.as_ref().is_some_and(Proxy::is_https);
        let tls = needs_tls.then(|| agent::tls_config(webhook.ca_file.as_deref())).transpose()?;
        let tls = tls.unwrap_or_default();
        // A host that a proxy looks up is for the proxy to judge.
        let through = |proxy: &Proxy| agent::agent(&context, &tls, Some(proxy), false);
        let proxied = proxy.map(|proxy| (proxy.clone(), through(&proxy)));
        let headers = webhook::common(&webhook.headers, webhook.target.authorization.as_deref())?;
        let direct = agent::agent(&context, &tls, None, webhook.names_any_host());
        Ok(Self { direct, proxied, headers, webhook, context })
    }

    /// The columns of which the requests are made, besides the body.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        let Webhook { target, key, signing, .. } = &self.webhook;
        target.columns().chain(key.columns()).chain(signing.column())
    }

    /// Sends one record and waits for the answer. The request is sent once at most.
    pub fn send(&self, record: &Record, body: &[u8], now: Instant) -> Outcome {
        self.outcome(record, body, now).unwrap_or_else(|error| {
            let error = format!("{error:#}");
            Outcome::Unanswered { error, reach: Reach::NotSent }
        })
    }

    /// The error is that of values which make no request that may be sent.
    fn outcome(&self, record: &Record, body: &[u8], now: Instant) -> Result<Outcome> {
        let timeout = &self.context.timeout;
        let uri = self.uri(record)?;
        let proxied = self.proxied.as_ref().filter(|(proxy, _)| !proxy.proxy.is_no_proxy(&uri));
        let request = self.request(&uri, record, body, now)?;
        let (proxy, agent) = proxied.map(|(proxy, agent)| (proxy, agent)).unzip();
        Ok(match agent.unwrap_or(&self.direct).run(request) {
            Ok(response) => self.answered(response, now),
            Err(error) => of_failure(&error, &Attempt { uri: &uri, timeout: *timeout, proxy }),
        })
    }

    /// The URL for one record, whose host is one that a record may name.
    fn uri(&self, record: &Record) -> Result<Uri> {
        let webhook = &self.webhook;
        let uri = webhook.target.fill(&|column| value(record, column))?;
        if webhook.target.has_column_in_authority() {
            webhook.hosts.check(uri.host().unwrap_or_default())?;
        }
        Ok(uri)
    }

    fn request<'b>(
        &self,
        uri: &Uri,
        record: &Record,
        body: &'b [u8],
        now: Instant,
    ) -> Result<Request<&'b [u8]>> {
        let Self { webhook, context: HandlerContext { table, series, .. }, .. } = self;
        let (id, inserted) = (record.id.text(), record.inserted.to_string());
        let name = webhook::name(webhook.key_prefix.as_deref(), table, &id, &inserted);
        let series = series.and_then(|source| Series::of(record, source).number);
        let value = &|column: &str| value(record, column);
        let mut headers = self.headers.clone();
        if let Some(key) = webhook.key.fill(&name, series, value)? {
            headers.insert("idempotency-key", HeaderValue::from_str(&key)?);
        }
        if let Some(secret) = webhook.signing.secret(value)? {
            // It may hold no dot, because dots separate what is signed.
            let id = name.replace('.', "%2E");
            let signatures = secret.signatures(&id, now.0, body);
            headers.insert("webhook-id", HeaderValue::from_str(&id)?);
            headers.insert("webhook-timestamp", HeaderValue::from(now.0));
            headers.insert("webhook-signature", HeaderValue::from_str(&signatures)?);
        }
        let mut request = Request::post(uri).body(body)?;
        *request.headers_mut() = headers;
        Ok(request)
    }

    /// The status has decided before the body is read.
    fn answered(&self, mut response: Response<Body>, now: Instant) -> Outcome {
        let body = beginning(response.body_mut());
        let header = |name: &str| response.headers().get(name)?.to_str().ok();
        let reply = Reply {
            status: response.status().as_u16(),
            retry_after: header("retry-after"),
            location: header("location"),
            body: &body,
        };
        of_reply(&reply, self.webhook.give_up_on_4xx, now)
    }
}

fn value(record: &Record, column: &str) -> Option<String> {
    record.row.get(column).filter(|it| !it.is_null()).map(ToString::to_string)
}

/// Reads a short body to its end, after which its connection is kept.
fn beginning(body: &mut Body) -> Vec<u8> {
    let mut read = Vec::new();
    let most = u64::try_from(MOST_READ).unwrap_or(u64::MAX);
    // What was read before an error stays.
    let _ = body.as_reader().take(most.saturating_add(1)).read_to_end(&mut read);
    read.truncate(MOST_READ);
    read
}

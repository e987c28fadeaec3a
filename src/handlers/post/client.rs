//! The HTTP client: one request, and the outcome that it comes to.

use std::io::Read;
use std::time::Duration;

use anyhow::Result;
use http::{HeaderMap, HeaderValue, Request, Response, Uri};
use ureq::{Agent, Body};

use super::agent::Proxy;
use super::agent::{self, Proxied};
use super::failure::{self, Attempt};
use super::reply::{self, Reply};
use crate::handlers::webhook::{self, Webhook};
use crate::record::series::SeriesSource;
use crate::record::{Outcome, Reach};
use crate::time::Instant;

/// How much of an answer is read. A longer one costs its connection.
const MOST_READ: usize = 64 * 1024;

/// The settings of a webhook; the same for every record of a pass.
#[derive(Clone)]
pub struct PostSettings {
    pub webhook: Webhook,
    /// For the whole of a request.
    pub timeout: Option<Duration>,
    /// How many requests there are at once, at most.
    pub jobs: usize,
    pub table: String,
    /// What tells the series of attempts apart, each of which has a key of its own.
    pub series: Option<SeriesSource>,
    /// The column that is the body, instead of the whole record.
    pub payload: Option<String>,
}

/// A record as it is sent.
#[derive(Clone, Copy)]
pub struct Outgoing<'a> {
    pub id: &'a str,
    /// The insertion date, as the row holds it.
    pub inserted: &'a str,
    /// The series of attempts that share an Idempotency-Key; `None` for the first.
    pub series: Option<i64>,
    pub value: &'a dyn Fn(&str) -> Option<String>,
    pub body: &'a [u8],
    pub now: Instant,
}

/// An HTTP client for several threads, which keeps their connections.
pub struct Client {
    pub settings: PostSettings,
    direct: Agent,
    proxied: Option<Proxied>,
    /// What all requests have in common.
    headers: HeaderMap,
}

impl Client {
    /// Reads the certificates if any are needed.
    pub fn new(settings: PostSettings) -> Result<Self> {
        let is_https = settings.webhook.target.is_https();
        let proxy = Proxy::chosen(&settings.webhook.proxies, is_https)?;
        let needs_tls = is_https || proxy.as_ref().is_some_and(Proxy::is_https);
        let tls = needs_tls
            .then(|| agent::tls_config(settings.webhook.ca_file.as_deref()))
            .transpose()?;
        let proxied =
            proxy.map(|proxy| Proxied::new(&settings, tls.as_ref(), &proxy)).transpose()?;
        let headers =
            webhook::common(&settings.webhook.headers, settings.webhook.target.authorization())?;
        let direct = agent::direct(&settings, tls.as_ref());
        Ok(Self { direct, proxied, headers, settings })
    }

    /// The columns of which the requests are made, besides the body.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        let Webhook { target, key, signing, .. } = &self.settings.webhook;
        target.columns().chain(key.columns()).chain(signing.column())
    }

    /// Sends one record and waits for the answer. The request is sent once at most.
    pub fn send(&self, outgoing: &Outgoing<'_>) -> Outcome {
        self.outcome(outgoing).unwrap_or_else(|error| {
            let error = format!("{error:#}");
            Outcome::Unanswered { error, reach: Reach::NotSent }
        })
    }

    /// The error is that of values which make no request that may be sent.
    fn outcome(&self, outgoing: &Outgoing<'_>) -> Result<Outcome> {
        let PostSettings { webhook, timeout, .. } = &self.settings;
        let uri = self.uri(outgoing.value)?;
        let proxied = self.proxied.as_ref().filter(|_| !webhook.proxies.is_bypassed(&uri));
        let request = self.request(&uri, outgoing, proxied)?;
        let agent = proxied.map_or(&self.direct, |proxied| &proxied.agent);
        Ok(match agent.run(request) {
            Ok(response) => self.answered(response, outgoing.now),
            Err(error) => {
                let proxy = proxied.map(|proxied| proxied.origin);
                failure::outcome(&error, &Attempt { uri: &uri, timeout: *timeout, proxy })
            }
        })
    }

    /// The URL for one record, whose host is one that a record may name.
    fn uri(&self, value: &dyn Fn(&str) -> Option<String>) -> Result<Uri> {
        let webhook = &self.settings.webhook;
        let uri = webhook.target.fill(value)?;
        if webhook.target.has_column_in_authority() {
            webhook.hosts.check(uri.host().unwrap_or_default())?;
        }
        Ok(uri)
    }

    fn request<'b>(
        &self,
        uri: &Uri,
        outgoing: &Outgoing<'b>,
        proxied: Option<&Proxied>,
    ) -> Result<Request<&'b [u8]>> {
        let Outgoing { id, inserted, series, value, body, now } = *outgoing;
        let webhook = &self.settings.webhook;
        let name = webhook::name(webhook.key_prefix.as_deref(), &self.settings.table, id, inserted);
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
        if let Some(login) = proxied.and_then(|proxied| proxied.authorization.clone()) {
            headers.insert("proxy-authorization", login);
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
        reply::outcome(&reply, self.settings.webhook.give_up_on_4xx, now)
    }
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

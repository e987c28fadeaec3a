//! `--post URL`: a request to a webhook for each record.

mod agent;
mod outcome;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Result, bail};
use backlog_schedule::{Attempt, Id, Instant, Outcome, Reach, Record, Value};
use backlog_store::{OwnedThread, Stage, Stop, chain, lock};
use http::{HeaderMap, HeaderValue, Response, Uri};
use ureq::{Agent, Body};

use super::{IdempotencyKey, Webhook, common_headers, record_name};
use crate::handlers::placeholders::is_id;
use crate::handlers::{Handler, HandlerContext, Job, Workers, document};
use outcome::{Reply, reply_outcome};

pub use agent::{Proxy, agent, tls_config};
pub use outcome::{RequestInfo, failure_outcome};

/// Number of consecutive requests without a connection after which the server counts as unreachable.
const UNREACHABLE: u32 = 3;

const PROBE: Duration = Duration::from_secs(5);

/// Connects to the server of a webhook as a request does, and sends nothing.
pub fn probe(webhook: Webhook) -> Result<()> {
    let uri = webhook.target.fill(&|_| Some("0".into()))?;
    let context = HandlerContext { timeout: Some(PROBE), jobs: 1, ..HandlerContext::default() };
    let client = Client::new(webhook, context, Some(uri.clone()))?;
    match client.run(http::Request::post(&uri).body(&[][..])?) {
        Err(Outcome::Unanswered { error, .. }) => bail!(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

pub struct Post {
    workers: Workers,
    shared: Arc<PostState>,
    /// Thread that abandons running requests at a stop.
    end: Mutex<Option<OwnedThread>>,
}

struct PostState {
    client: Client,
    stop: Arc<Stop>,
    unreachable: AtomicU32,
    /// Jobs of running requests. A request cannot be cancelled, but its job can be answered.
    in_flight: Mutex<HashMap<Id, Job>>,
    has_abandoned: AtomicBool,
}

impl Post {
    pub fn new(webhook: Webhook, context: HandlerContext, stop: Arc<Stop>) -> Result<Self> {
        let shared = Arc::new(PostState {
            client: Client::new(webhook, context, None)?,
            stop,
            unreachable: AtomicU32::new(0),
            in_flight: Mutex::default(),
            has_abandoned: AtomicBool::new(false),
        });
        let state = shared.clone();
        let workers = Workers::start(shared.client.context.jobs, move |job, _| state.attempt(job))?;
        let state = shared.clone();
        let end = OwnedThread::start("webhook stop", move |over| {
            if state.stop.wait_for_end(over) {
                state.abandon(lock(&state.in_flight).drain().map(|(_, job)| job).collect());
            }
        });
        Ok(Self { workers, shared, end: Mutex::new(Some(end?)) })
    }
}

impl Handler for Post {
    fn capacity(&self) -> usize {
        self.workers.capacity()
    }

    fn start(&self, jobs: Vec<Job>) {
        self.workers.start(jobs);
    }

    /// Abandons the requests. A receiver may still process one; the idempotency key shows that the next is the same.
    fn interrupt(&self, ids: &[Id], _: Duration) {
        let abandoned: Vec<_> = {
            let mut in_flight = lock(&self.shared.in_flight);
            ids.iter().filter_map(|id| in_flight.remove(id)).collect()
        };
        self.shared.abandon(abandoned);
    }

    fn join(&self) {
        drop(lock(&self.end).take());
        // An abandoned request may never end.
        if !self.shared.has_abandoned.load(Ordering::SeqCst) {
            self.workers.join();
        }
    }
}

impl PostState {
    fn attempt(&self, job: Job) {
        let record = job.record.clone();
        // The job is registered before the stop is read, so that a later stop finds it.
        lock(&self.in_flight).insert(record.id.clone(), job);
        let began = self.stop.clock.monotonic();
        let not_sent = |error| (Outcome::Unanswered { error, reach: Reach::NotSent }, None);
        let (outcome, http_status) = match self.stop.stage() > Stage::Running {
            true => (Outcome::Interrupted, None),
            false => self.send(&record).unwrap_or_else(not_sent),
        };
        let duration = self.stop.clock.monotonic().saturating_duration_since(began);
        // If the job was abandoned, another request may have registered the same record.
        let mut in_flight = lock(&self.in_flight);
        let is_own = in_flight.get(&record.id).is_some_and(|job| Arc::ptr_eq(&job.record, &record));
        let job = if is_own { in_flight.remove(&record.id) } else { None };
        drop(in_flight);
        if let Some(job) = job {
            (job.submit)(vec![Attempt { duration, http_status, ..job.ended(outcome) }]);
        }
    }

    /// Sends a record. The error says why it makes no request.
    fn send(&self, record: &Record) -> Result<Answered, String> {
        let answered = self.client.send(record, &self.body(record)?, self.stop.clock.now());
        let (outcome, http_status) = answered.map_err(|error| chain(&error))?;
        let Outcome::Unanswered { error, reach: Reach::Nobody { .. } } = outcome else {
            self.unreachable.store(0, Ordering::SeqCst);
            return Ok((outcome, http_status));
        };
        // A record that names the host causes the error itself. Otherwise the server may be away for a moment only.
        let counts = self.client.webhook.target.has_column_in_authority();
        let may_be_short =
            counts || self.unreachable.fetch_add(1, Ordering::SeqCst) + 1 < UNREACHABLE;
        let outcome = match may_be_short {
            true => Outcome::Unanswered { error, reach: Reach::Nobody { counts } },
            false => Outcome::Unable { error, ends_pass: false },
        };
        Ok((outcome, None))
    }

    fn body(&self, record: &Record) -> Result<Vec<u8>, String> {
        let Client { webhook: Webhook { target, key, signing, .. }, context, .. } = &self.client;
        let mut columns = target.columns().chain(key.columns()).chain(signing.column());
        let is_bytes = |column: &&str| matches!(record.row.get(column), Some(Value::Bytes(_)));
        if let Some(column) = columns.find(is_bytes) {
            return Err(format!(
                "its {column} is not UTF-8, as a URL, a key and a secret must be; fix the value"
            ));
        }
        // The column of a secret is not sent.
        document(record, context.payload.as_deref(), signing.column())
    }

    fn abandon(&self, jobs: Vec<Job>) {
        for job in jobs {
            self.has_abandoned.store(true, Ordering::SeqCst);
            (job.submit)(vec![job.ended(Outcome::Interrupted)]);
        }
    }
}

/// The outcome of a request, and the status code of its answer.
type Answered = (Outcome, Option<u16>);

/// Maximum number of bytes read of an answer. The connection is closed after a longer one.
const MOST_READ: u64 = 64 * 1024;

struct Client {
    webhook: Webhook,
    context: HandlerContext,
    direct: Agent,
    proxied: Option<(Proxy, Agent)>,
    common: HeaderMap,
}

impl Client {
    fn new(webhook: Webhook, context: HandlerContext, probed: Option<Uri>) -> Result<Self> {
        let is_https = webhook.target.is_https;
        let proxy = Proxy::choose(&webhook.proxies, is_https)?;
        let needs_tls = Proxy::needs_tls(is_https, proxy.as_ref());
        let tls = needs_tls.then(|| tls_config(webhook.ca_file.as_deref())).transpose()?;
        let tls = tls.unwrap_or_default();
        // A proxy resolves host names itself.
        let (timeout, jobs) = (context.timeout, context.jobs);
        let through =
            |proxy: &Proxy| agent(timeout, jobs, &tls, Some(proxy), false, probed.clone());
        let proxied = proxy.map(|proxy| (proxy.clone(), through(&proxy)));
        let common = common_headers(&webhook.headers, webhook.target.authorization.as_deref())?;
        let direct = agent(timeout, jobs, &tls, None, webhook.names_any_host(), probed);
        Ok(Self { direct, proxied, common, webhook, context })
    }

    /// Sends one record at most once, and waits for the answer. It is an error if its values make no legal request.
    fn send(&self, record: &Record, body: &[u8], now: Instant) -> Result<Answered> {
        let Webhook { target, hosts, .. } = &self.webhook;
        let uri = target.fill(&|column| value(record, column))?;
        if target.has_column_in_authority() {
            hosts.check(uri.host().unwrap_or_default())?;
        }
        let mut request = http::Request::post(&uri).body(body)?;
        *request.headers_mut() = self.headers(record, body, now)?;
        let answered = self.run(request).map(|response| self.answered(response, now));
        Ok(answered.unwrap_or_else(|outcome| (outcome, None)))
    }

    /// The response, or the outcome of a request without one.
    fn run(&self, request: http::Request<&[u8]>) -> Result<Response<Body>, Outcome> {
        let (uri, timeout) = (request.uri().clone(), self.context.timeout);
        let proxied = self.proxied.as_ref().filter(|(proxy, _)| !proxy.proxy.is_no_proxy(&uri));
        let (proxy, agent) = proxied.map(|(proxy, agent)| (proxy, agent)).unzip();
        agent.unwrap_or(&self.direct).run(request).map_err(|error| {
            failure_outcome(&error, &RequestInfo { uri: &uri, timeout, proxy, ca: "--ca-file" })
        })
    }

    fn headers(&self, record: &Record, body: &[u8], now: Instant) -> Result<HeaderMap> {
        let Self { webhook, context: HandlerContext { table, series, .. }, .. } = self;
        let (id, inserted) = (record.id.text(), record.inserted.to_string());
        let name = record_name(table, &id, &inserted);
        let series = series.and_then(|source| record.series(source).number);
        let value = &|column: &str| value(record, column);
        let mut headers = self.common.clone();
        let key = webhook.key.fill(&name, series, value)?;
        if let Some(key) = &key {
            headers.insert("idempotency-key", HeaderValue::from_str(key)?);
        }
        if let Some(secret) = webhook.signing.secret(value)? {
            let is_given = matches!(webhook.key, IdempotencyKey::Given(_));
            // Dots separate the signed parts.
            let id = key.filter(|_| is_given).unwrap_or(name).replace('.', "%2E");
            let signatures = secret.signatures(&id, now.0, body);
            headers.insert("webhook-id", HeaderValue::from_str(&id)?);
            headers.insert("webhook-timestamp", HeaderValue::from(now.0));
            headers.insert("webhook-signature", HeaderValue::from_str(&signatures)?);
        }
        Ok(headers)
    }

    fn answered(&self, mut response: Response<Body>, now: Instant) -> Answered {
        let mut body = Vec::new();
        // An error while the body is read does not change the outcome.
        let _ = response.body_mut().as_reader().take(MOST_READ + 1).read_to_end(&mut body);
        let header = |name: &str| response.headers().get(name)?.to_str().ok();
        let reply = Reply {
            status: response.status().as_u16(),
            retry_after: header("retry-after"),
            location: header("location"),
            content_type: header("content-type"),
            content_encoding: header("content-encoding"),
            body: &body,
        };
        let outcome = reply_outcome(&reply, &self.webhook.gives_up, now);
        (outcome, Some(reply.status))
    }
}

fn value(record: &Record, column: &str) -> Option<String> {
    match record.row.get(column) {
        Some(value) if value.is_null() => None,
        Some(value) => Some(String::from_utf8_lossy(&record.text_of(value)).into_owned()),
        None => is_id(column).then(|| record.id.text().into_owned()),
    }
}

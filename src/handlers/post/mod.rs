//! `--post URL`: a request to a webhook for each record.

mod address;
mod agent;
mod bypass;
mod client;
mod failure;
mod forward;
mod host_name;
mod hosts;
mod key;
mod proxy;
mod reply;
mod request;
mod signature;
mod target;
mod template;
#[cfg(test)]
mod tests;
mod tls;
mod wire;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant as Monotonic};

use anyhow::Result;

use super::workers::Workers;
use super::{Handler, Job, json};
use crate::clock::Clock;
use crate::lock::lock;
use crate::record::series::{Series, SeriesSource};
use crate::record::{Attempt, Id, Outcome, Reach, Record, Value};
use client::{Client, Outgoing, Sent};

pub use client::{PostSettings, Signing, Webhook};
pub use hosts::Hosts;
pub use key::IdempotencyKey;
pub use proxy::Proxies;
pub use request::Header;
pub use signature::Secret;
pub use target::{Target, without_login};

/// So many requests in a row for which there is no connection: then nobody is there.
const UNREACHABLE: u32 = 3;

/// Worker threads, each of which makes one request at a time.
pub struct Post {
    capacity: usize,
    workers: Workers,
    shared: Arc<Shared>,
}

/// The state that all workers share.
struct Shared {
    client: Client,
    clock: Clock,
    payload: Option<String>,
    /// The column with the secret of each row, which no body shows.
    secret_column: Option<String>,
    series: Option<SeriesSource>,
    no_more: AtomicBool,
    /// Whether the authority of the URL has a column in it.
    records_name_host: bool,
    /// How many requests in a row found no connection.
    unreachable: AtomicU32,
    /// What is being sent. A request cannot be ended; its record can be taken away from it.
    sending: Mutex<HashMap<Id, Job>>,
    answered: Condvar,
    /// Whether a record was taken away from its request.
    has_abandoned: AtomicBool,
}

impl Post {
    pub fn new(settings: PostSettings, clock: Clock) -> Result<Self> {
        let (capacity, payload) = (settings.jobs, settings.payload.clone());
        let series = settings.series;
        let records_name_host = settings.webhook.target.has_column_in_authority();
        let secret_column = settings.webhook.signing.column().map(String::from);
        let shared = Arc::new(Shared {
            client: Client::new(settings)?,
            clock,
            payload,
            secret_column,
            series,
            no_more: AtomicBool::new(false),
            records_name_host,
            unreachable: AtomicU32::new(0),
            sending: Mutex::default(),
            answered: Condvar::new(),
            has_abandoned: AtomicBool::new(false),
        });
        let seen = shared.clone();
        let workers = Workers::start(capacity, move |job| seen.attempt(job))?;
        Ok(Self { capacity, workers, shared })
    }
}

impl Handler for Post {
    fn capacity(&self) -> usize {
        self.capacity
    }

    fn start(&self, jobs: Vec<Job>) {
        self.workers.take(jobs);
    }

    fn begin_no_more(&self) {
        self.shared.no_more.store(true, Ordering::SeqCst);
    }

    fn stop(&self, grace: Duration) {
        self.begin_no_more();
        let shared = self.shared.clone();
        let deadline = shared.clock.monotonic().checked_add(grace);
        let waiting = shared.clone();
        let waiter = std::thread::Builder::new().spawn(move || waiting.abandon_at(deadline));
        if waiter.is_err() {
            shared.abandon_at(None);
        }
    }

    fn join(&self) {
        if self.shared.has_abandoned.load(Ordering::SeqCst) {
            self.workers.leave();
        } else {
            self.workers.join();
        }
    }
}

impl Shared {
    fn attempt(&self, job: Job) {
        let record = job.record.clone();
        if self.no_more.load(Ordering::SeqCst) {
            return reply(&job, Outcome::Interrupted, Duration::ZERO);
        }
        lock(&self.sending).insert(record.id.clone(), job);
        let began = self.clock.monotonic();
        let outcome = self.send(&record);
        let duration = self.clock.monotonic().saturating_duration_since(began);
        let job = lock(&self.sending).remove(&record.id);
        self.answered.notify_all();
        if let Some(job) = job {
            reply(&job, outcome, duration);
        }
    }

    fn send(&self, record: &Record) -> Outcome {
        let unanswered = |error, reach| Outcome::Unanswered { error, reach };
        let value = |column: &str| {
            record.row.get(column).filter(|it| !it.is_null()).map(ToString::to_string)
        };
        let body = match self.body(record) {
            Ok(body) => body,
            Err(error) => return unanswered(error, Reach::NotSent),
        };
        let sent = self.client.send(&Outgoing {
            id: &record.id.text(),
            inserted: &record.inserted.to_string(),
            series: self.series.and_then(|source| Series::of(record, source).number),
            value: &value,
            body: &body,
            now: self.clock.now(),
        });
        if !matches!(sent, Sent::Unreachable(_)) {
            self.unreachable.store(0, Ordering::SeqCst);
        }
        match sent {
            Sent::Answered(outcome) => outcome,
            Sent::Broken(error) => unanswered(error, Reach::MayHaveWorked),
            Sent::Unusable(error) => unanswered(error, Reach::NotSent),
            Sent::Unreachable(error) if self.may_be_the_records_fault() => {
                unanswered(error, Reach::Nobody)
            }
            Sent::Unreachable(error) => Outcome::Unable { error, ends_pass: false },
        }
    }

    /// Whether a record is charged for a host that cannot be reached: where it names the host
    /// itself, and where so few in a row found nobody there that it may be a moment's trouble.
    fn may_be_the_records_fault(&self) -> bool {
        self.records_name_host || self.unreachable.fetch_add(1, Ordering::SeqCst) + 1 < UNREACHABLE
    }

    /// The body of a record's request; the error says why there is none.
    fn body(&self, record: &Record) -> Result<Vec<u8>, String> {
        let is_bytes = |column: &&str| matches!(record.row.get(column), Some(Value::Bytes(_)));
        if let Some(column) = self.client.columns().find(is_bytes) {
            return Err(format!(
                "its {column} is not UTF-8, which no URL, key or secret can be; mend it"
            ));
        }
        match &self.payload {
            Some(column) => Ok(json::column(record, column)),
            None => json::document(record, self.secret_column.as_deref())
                .map_err(|error| json::advised(&error)),
        }
    }

    /// Waits until nothing is being sent, and takes away what still is at the deadline.
    fn abandon_at(&self, deadline: Option<Monotonic>) {
        let mut sending = lock(&self.sending);
        while let Some(left) = deadline.map(|deadline| self.clock.until(deadline))
            && !left.is_zero()
            && !sending.is_empty()
        {
            let waited = self.answered.wait_timeout(sending, left);
            sending = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let abandoned: Vec<_> = sending.drain().map(|(_, job)| job).collect();
        drop(sending);
        for job in abandoned {
            self.has_abandoned.store(true, Ordering::SeqCst);
            reply(&job, Outcome::Interrupted, Duration::ZERO);
        }
    }
}

fn reply(job: &Job, outcome: Outcome, duration: Duration) {
    (job.submit)(vec![Attempt { duration, ..job.ended(outcome) }]);
}

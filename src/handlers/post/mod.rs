//! `--post URL`: a request to a webhook for each record.

mod agent;
mod client;
mod outcome;
mod resolver;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::pipe::{PipeFlags, pipe_with};

use super::workers::Workers;
use super::{Handler, HandlerContext, Job, Webhook, json};
use crate::clock::Clock;
use crate::lock::lock;
use crate::record::{Attempt, Id, Outcome, Reach, Record, Value};
use crate::stop::{Stage, Stop};
use client::Client;

pub use agent::Proxy;

/// So many requests in a row for which there is no connection: then nobody is there.
const UNREACHABLE: u32 = 3;

/// Worker threads, each of which makes one request at a time.
pub struct Post {
    workers: Workers,
    shared: Arc<Shared>,
    /// Closed when everything is answered, which ends the wait for the stop.
    open: Mutex<Option<OwnedFd>>,
}

/// The state that all workers share.
struct Shared {
    client: Client,
    clock: Clock,
    stop: Arc<Stop>,
    /// How many requests in a row found no connection.
    unreachable: AtomicU32,
    /// What is being sent. A request cannot be ended; its record can be taken away from it.
    sending: Mutex<HashMap<Id, Job>>,
    /// Whether a record was taken away from its request.
    has_abandoned: AtomicBool,
}

impl Post {
    pub fn new(
        webhook: Webhook,
        context: HandlerContext,
        stop: Arc<Stop>,
        clock: Clock,
    ) -> Result<Self> {
        let jobs = context.jobs;
        let shared = Arc::new(Shared {
            client: Client::new(webhook, context)?,
            clock,
            stop,
            unreachable: AtomicU32::new(0),
            sending: Mutex::default(),
            has_abandoned: AtomicBool::new(false),
        });
        let seen = shared.clone();
        let workers = Workers::start(jobs, move |job| seen.attempt(job))?;
        let (over, open) = pipe_with(PipeFlags::CLOEXEC).context("could not make a pipe")?;
        let waiting = shared.clone();
        std::thread::Builder::new()
            .name("webhook stop".into())
            .spawn(move || waiting.abandon_at_end(&over))
            .context("could not start the thread that stops webhooks")?;
        Ok(Self { workers, shared, open: Mutex::new(Some(open)) })
    }
}

impl Handler for Post {
    fn capacity(&self) -> usize {
        self.shared.client.context.jobs
    }

    fn start(&self, jobs: Vec<Job>) {
        self.workers.take(jobs);
    }

    fn join(&self) {
        *lock(&self.open) = None;
        // A request that lost its record may last for ever.
        if !self.shared.has_abandoned.load(Ordering::SeqCst) {
            self.workers.join();
        }
    }
}

impl Shared {
    fn attempt(&self, job: Job) {
        let record = job.record.clone();
        // Before the look at the stop: whatever comes after it takes the record away.
        lock(&self.sending).insert(record.id.clone(), job);
        let began = self.clock.monotonic();
        let is_stopped = self.stop.stage() > Stage::Running;
        let outcome = if is_stopped { Outcome::Interrupted } else { self.send(&record) };
        let duration = self.clock.monotonic().saturating_duration_since(began);
        let job = lock(&self.sending).remove(&record.id);
        if let Some(job) = job {
            reply(&job, outcome, duration);
        }
    }

    fn send(&self, record: &Record) -> Outcome {
        let body = match self.body(record) {
            Ok(body) => body,
            Err(error) => return Outcome::Unanswered { error, reach: Reach::NotSent },
        };
        let outcome = self.client.send(record, &body, self.clock.now());
        let Outcome::Unanswered { error, reach: Reach::Nobody } = outcome else {
            self.unreachable.store(0, Ordering::SeqCst);
            return outcome;
        };
        if self.may_be_the_records_fault() {
            Outcome::Unanswered { error, reach: Reach::Nobody }
        } else {
            Outcome::Unable { error, ends_pass: false }
        }
    }

    /// Whether a record is charged for a host that cannot be reached: where it names the host
    /// itself, and where so few in a row found nobody there that it may be a moment's trouble.
    fn may_be_the_records_fault(&self) -> bool {
        self.client.webhook.target.has_column_in_authority()
            || self.unreachable.fetch_add(1, Ordering::SeqCst) + 1 < UNREACHABLE
    }

    /// The body of a record's request; the error says why there is none.
    fn body(&self, record: &Record) -> Result<Vec<u8>, String> {
        let is_bytes = |column: &&str| matches!(record.row.get(column), Some(Value::Bytes(_)));
        if let Some(column) = self.client.columns().find(is_bytes) {
            return Err(format!(
                "its {column} is not UTF-8, which no URL, key or secret can be; mend it"
            ));
        }
        let Client { webhook, context, .. } = &self.client;
        match &context.payload {
            Some(column) => Ok(json::column(record, column)),
            // No body shows the secret of its row.
            None => json::document(record, webhook.signing.column())
                .map_err(|error| json::advised(&error)),
        }
    }

    /// Takes away what is still being sent when the stop ends it.
    fn abandon_at_end(&self, over: &OwnedFd) {
        if !self.stop.wait_for_end(over) {
            return;
        }
        let abandoned: Vec<_> = lock(&self.sending).drain().map(|(_, job)| job).collect();
        for job in abandoned {
            self.has_abandoned.store(true, Ordering::SeqCst);
            reply(&job, Outcome::Interrupted, Duration::ZERO);
        }
    }
}

fn reply(job: &Job, outcome: Outcome, duration: Duration) {
    (job.submit)(vec![Attempt { duration, ..job.ended(outcome) }]);
}

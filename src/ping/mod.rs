//! Pings: a monitoring service is told when a pass begins, and when and how it has ended, so that it
//! misses the pass that does not come. A thread of its own tells it: no record waits for the service.

#[cfg(feature = "webhook")]
mod request;

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use crate::handlers::Proxies;
use crate::options::{Event, Ping};
#[cfg(feature = "webhook")]
use request::Reporter;

/// How long the second try of a request waits.
const PAUSE: Duration = Duration::from_millis(500);
/// For how long the end of a pass waits for all that is still to be told.
pub const MOST_WAIT: Duration = Duration::from_secs(10);
/// How much of a summary is sent, in bytes: as much as the service keeps.
const MOST_BODY: usize = 10_000;

/// The thread that reports a pass, and what is to be reported.
pub struct Pings {
    events: Sender<(Event, String)>,
    /// What came of it, once the end of the pass is reported.
    result: Receiver<Result<(), String>>,
}

impl Pings {
    /// Starts the thread. `line` names the crontab line in the URL, and `run` the pass.
    pub fn new(ping: Ping, proxies: Proxies, line: String, run: String) -> Self {
        let (events, told) = channel();
        let (answer, result) = channel();
        let reporter = Reporter::new(ping, proxies, line, run);
        // Without a thread nobody answers, which is said at the end.
        let _ = thread::Builder::new().name("ping".into()).spawn(move || {
            // Who has waited long enough does not hear it any more.
            let _ = answer.send(report_all(reporter, &told));
        });
        Self { events, result }
    }

    pub fn begin(&self) {
        self.tell(Event::Start, String::new());
    }

    /// Reports the exit status of the pass with what it came to.
    pub fn end(&self, exit: u8, summary: &str) {
        self.tell(Event::End(exit), cut(summary));
    }

    /// What came of all reports, once that is known: an error says why one was not made.
    pub fn result(&self, wait: Duration) -> Option<Result<(), String>> {
        match self.result.recv_timeout(wait) {
            Ok(result) => Some(result),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Err("its thread has ended".into())),
        }
    }

    fn tell(&self, event: Event, summary: String) {
        // A thread that does not listen has failed, and its result says why.
        let _ = self.events.send((event, summary));
    }
}

fn cut(summary: &str) -> String {
    let mut ends = (0..=summary.len().min(MOST_BODY)).rev();
    ends.find_map(|end| summary.get(..end)).unwrap_or_default().into()
}

/// Why an event was not reported, and whether another try is worth it.
struct Failure {
    message: String,
    is_lasting: bool,
}

/// Reports what is told up to the end of the pass, each event by two tries at most. The first failure is
/// that of all.
fn report_all(mut reporter: Reporter, told: &Receiver<(Event, String)>) -> Result<(), String> {
    let (mut result, mut next) = (Ok(()), told.recv().ok());
    while let Some((event, summary)) = next.take() {
        let mut reported = reporter.report(event, &summary);
        if reported.as_ref().is_err_and(|failure| !failure.is_lasting) {
            // Once the pass has ended nobody wants to know when it began.
            next = told.recv_timeout(PAUSE).ok();
            if next.is_none() {
                reported = reporter.report(event, &summary);
            }
        }
        result = result.and(reported.map_err(|failure| failure.message));
        if event == Event::Start {
            next = next.or_else(|| told.recv().ok());
        }
    }
    result
}

/// A program without webhooks makes no requests: its options refuse pings.
#[cfg(not(feature = "webhook"))]
struct Reporter;

#[cfg(not(feature = "webhook"))]
impl Reporter {
    fn new(_: Ping, _: Proxies, _: String, _: String) -> Self {
        Self
    }

    fn report(&mut self, _: Event, _: &str) -> Result<(), Failure> {
        Ok(())
    }
}

//! Pings: requests to a monitoring service when a pass begins and ends. A thread makes them, so no record waits.

#[cfg(feature = "webhook")]
mod request;

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use crate::handlers::Proxies;
use crate::options::{Event, Ping};
#[cfg(not(feature = "webhook"))]
use NoPingClient as PingClient;
#[cfg(feature = "webhook")]
use request::PingClient;

/// Pause before the second try of a request.
const PAUSE: Duration = Duration::from_millis(500);
/// Maximum wait for the pings at the end of a pass.
pub const MAX_WAIT: Duration = Duration::from_secs(10);
/// Maximum number of bytes of a summary, which is the limit of the service.
const MAX_BODY: usize = 10_000;

pub struct Pings {
    events: Sender<(Event, String)>,
    /// Receives the result after the end of the pass is reported.
    result: Receiver<Result<(), String>>,
}

impl Pings {
    /// Starts the thread. `line` names the crontab line in the URL, and `run` the pass.
    pub fn new(ping: Ping, proxies: Proxies, line: String, run: String) -> Self {
        let (events, receiver) = channel();
        let (sender, result) = channel();
        let client = PingClient::new(ping, proxies, line, run);
        // Without a thread, the missing result is reported at the end.
        let _ = thread::Builder::new().name("ping".into()).spawn(move || {
            let _ = sender.send(report_all(client, &receiver));
        });
        Self { events, result }
    }

    pub fn send(&self, event: Event, summary: &str) {
        // The result shows that the thread has ended.
        let _ = self.events.send((event, truncate(summary)));
    }

    /// The result of all reports. `None` if it is not known after `wait`.
    pub fn result(&self, wait: Duration) -> Option<Result<(), String>> {
        match self.result.recv_timeout(wait) {
            Ok(result) => Some(result),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Err("its thread has ended".into())),
        }
    }
}

fn truncate(summary: &str) -> String {
    let mut ends = (0..=summary.len().min(MAX_BODY)).rev();
    ends.find_map(|end| summary.get(..end)).unwrap_or_default().into()
}

/// The error of a report. A lasting one is not tried again.
struct PingError {
    message: String,
    is_lasting: bool,
}

/// Reports events up to the end of the pass, each with at most two tries. Returns the first error.
fn report_all(mut client: PingClient, events: &Receiver<(Event, String)>) -> Result<(), String> {
    let (mut result, mut next) = (Ok(()), events.recv().ok());
    while let Some((event, summary)) = next.take() {
        let mut reported = client.report(event, &summary);
        if reported.as_ref().is_err_and(|error| !error.is_lasting) {
            // After the end of the pass, its start need not be reported.
            next = events.recv_timeout(PAUSE).ok();
            if next.is_none() {
                reported = client.report(event, &summary);
            }
        }
        result = result.and(reported.map_err(|error| error.message));
        if event == Event::Start {
            next = next.or_else(|| events.recv().ok());
        }
    }
    result
}

/// Without the feature, the options refuse pings, and nothing is reported.
#[cfg(not(feature = "webhook"))]
struct NoPingClient;

#[cfg(not(feature = "webhook"))]
impl NoPingClient {
    fn new(_: Ping, _: Proxies, _: String, _: String) -> Self {
        Self
    }

    fn report(&mut self, _: Event, _: &str) -> Result<(), PingError> {
        Ok(())
    }
}

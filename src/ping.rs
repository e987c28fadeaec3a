//! Pings: a monitoring service is told when a pass begins, and when and how it has ended, so that it
//! misses the pass that does not come. A thread of its own tells it: no record waits for the service.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use http::header::{AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{Request, StatusCode, Uri};
use ureq::tls::TlsConfig;
use ureq::{Agent, ProxyProtocol};

use crate::handlers::{Exchange, PROGRAM, Proxies, Proxy, Target, agent, of_failure, tls_config};
use crate::options::{Event, Ping};
use crate::system_error::chain;

/// For how long one request is waited for.
const TIMEOUT: Duration = Duration::from_secs(5);
const TRIES: u32 = 2;
const PAUSE: Duration = Duration::from_millis(500);
/// For how long the end of a pass waits for all that is still to be told.
const MOST_WAIT: Duration = Duration::from_secs(10);
/// How much is told of a pass, in bytes: as much as the service keeps.
const MOST_TOLD: usize = 10_000;
/// How an answer begins that is a refusal, although its status is 200: `OK (not found)`.
const REFUSED: &[u8] = b"OK (";

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
        let reporter = Reporter { ping, proxies, line, run, tls: None };
        // Without a thread nobody answers, which is said at the end.
        let _ = thread::Builder::new().name("ping".into()).spawn(move || {
            // Who has waited long enough does not hear it any more.
            let _ = answer.send(reporter.report_all(&told));
        });
        Self { events, result }
    }

    pub fn begin(&self) {
        self.tell(Event::Start, String::new());
    }

    /// Reports the exit status of the pass with what it came to. Fails if anything was not reported.
    pub fn end(self, exit: u8, summary: &str) -> Result<(), String> {
        self.tell(Event::End(exit), cut(summary));
        let late = |_| Err(format!("no answer within {}", humantime::format_duration(MOST_WAIT)));
        self.result.recv_timeout(MOST_WAIT).unwrap_or_else(late)
    }

    fn tell(&self, event: Event, summary: String) {
        // Whoever does not listen has failed, and its result says why.
        let _ = self.events.send((event, summary));
    }
}

/// As much of a summary as is told.
fn cut(summary: &str) -> String {
    let end = (0..=summary.len().min(MOST_TOLD)).rev().find(|end| summary.is_char_boundary(*end));
    summary[..end.unwrap_or(0)].into()
}

struct Reporter {
    ping: Ping,
    proxies: Proxies,
    line: String,
    run: String,
    /// The authorities of the system, once they were read.
    tls: Option<TlsConfig>,
}

/// Why an event was not reported, and whether another try is worth it.
struct Failure {
    message: String,
    is_lasting: bool,
}

impl Reporter {
    /// Reports what is told up to the end of the pass. The first failure is that of all.
    fn report_all(mut self, told: &Receiver<(Event, String)>) -> Result<(), String> {
        let (mut result, mut next) = (Ok(()), told.recv().ok());
        while let Some((event, summary)) = next.take() {
            for left in (0..TRIES).rev() {
                let Err(failure) = self.report(event, &summary) else { break };
                if !failure.is_lasting && left > 0 {
                    // Once the pass has ended nobody wants to know when it began.
                    next = told.recv_timeout(PAUSE).ok();
                }
                if failure.is_lasting || left == 0 || next.is_some() {
                    result = result.and(Err(failure.message));
                    break;
                }
            }
            if event != Event::Start {
                break;
            }
            next = next.or_else(|| told.recv().ok());
        }
        result
    }

    fn report(&mut self, event: Event, summary: &str) -> Result<(), Failure> {
        let lasting = |error: anyhow::Error| Failure { message: chain(&error), is_lasting: true };
        let Some(target) = self.ping.target(event, &self.run) else { return Ok(()) };
        // The error would show the URL.
        let unusable = |_| Failure { message: "the URL cannot be used".into(), is_lasting: true };
        let target = target.map_err(unusable)?;
        let uri = target.fill(&|_| Some(self.line.clone())).map_err(unusable)?;
        let proxy = Proxy::chosen(&self.proxies, target.is_https).map_err(lasting)?;
        let proxy = proxy.filter(|proxy| !proxy.proxy.is_no_proxy(&uri));
        let agent = self.agent(target.is_https, proxy.as_ref()).map_err(lasting)?;
        let request = request(&uri, &target, summary).map_err(lasting)?;
        let exchange = Exchange {
            uri: &uri,
            timeout: Some(TIMEOUT),
            proxy: proxy.as_ref(),
            ca: "SSL_CERT_FILE",
        };
        let mut response = agent.run(request).map_err(|error| {
            let outcome = of_failure(&error, &exchange);
            Failure { message: outcome.error().unwrap_or_default().into(), is_lasting: false }
        })?;
        let status = response.status();
        let answer = response.body_mut().with_config().limit(100).read_to_vec().unwrap_or_default();
        refusal(uri.host().unwrap_or_default(), status, &answer).map_or(Ok(()), Err)
    }

    fn agent(&mut self, is_https: bool, proxy: Option<&Proxy>) -> Result<Agent> {
        let is_secure = |it: &Proxy| it.proxy.protocol() == ProxyProtocol::Https;
        if self.tls.is_none() && (is_https || proxy.is_some_and(is_secure)) {
            self.tls = Some(tls_config(None)?);
        }
        Ok(agent(Some(TIMEOUT), 1, &self.tls.clone().unwrap_or_default(), proxy, false))
    }
}

fn request(uri: &Uri, target: &Target, summary: &str) -> Result<Request<String>> {
    let mut request = Request::post(uri)
        .header(USER_AGENT, PROGRAM)
        .header(CONTENT_TYPE, "text/plain; charset=utf-8");
    if let Some(login) = &target.authorization {
        request = request.header(AUTHORIZATION, login);
    }
    Ok(request.body(summary.into())?)
}

/// What is wrong by an answer, if anything is.
fn refusal(host: &str, status: StatusCode, answer: &[u8]) -> Option<Failure> {
    let is_lasting = !status.is_server_error() && status != StatusCode::TOO_MANY_REQUESTS;
    let told = if !status.is_success() {
        format!("HTTP {status}")
    } else if answer.starts_with(REFUSED) {
        String::from_utf8_lossy(answer).into_owned()
    } else {
        return None;
    };
    Some(Failure { message: format!("{host} answered {told}"), is_lasting })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_no_success_is_told_and_a_lasting_one_not_tried_again() {
        for (status, answer, expected) in [
            (200, "OK", None),
            (202, "", None),
            (200, "OK (not found)", Some(("hc answered OK (not found)", true))),
            (404, "no", Some(("hc answered HTTP 404 Not Found", true))),
            (429, "", Some(("hc answered HTTP 429 Too Many Requests", false))),
            (502, "", Some(("hc answered HTTP 502 Bad Gateway", false))),
        ] {
            let found = refusal("hc", StatusCode::from_u16(status).unwrap(), answer.as_bytes());
            let found = found.as_ref().map(|it| (it.message.as_str(), it.is_lasting));
            assert_eq!(found, expected, "{status} {answer}");
        }
    }
}

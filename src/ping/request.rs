//! The requests of pings, with the proxies and certificate authorities of the system.

use std::time::Duration;

use anyhow::Result;
use backlog_store::chain;
use http::header::{AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{Request, StatusCode, Uri};
use ureq::Agent;
use ureq::tls::TlsConfig;

use super::PingError;
use crate::handlers::{
    PROGRAM, Proxies, Proxy, RequestInfo, Target, agent, failure_outcome, tls_config,
};
use crate::options::{Event, Ping};

const TIMEOUT: Duration = Duration::from_secs(5);
/// Start of a refusal with status 200: `OK (not found)`.
const REFUSED: &[u8] = b"OK (";

pub struct PingClient {
    ping: Ping,
    proxies: Proxies,
    line: String,
    run: String,
    tls: Option<TlsConfig>,
}

impl PingClient {
    pub fn new(ping: Ping, proxies: Proxies, line: String, run: String) -> Self {
        Self { ping, proxies, line, run, tls: None }
    }

    pub fn report(&mut self, event: Event, summary: &str) -> Result<(), PingError> {
        let lasting = |error: anyhow::Error| PingError { message: chain(&error), is_lasting: true };
        let Some(target) = self.ping.target(event, &self.run) else { return Ok(()) };
        // The error would contain the secret URL.
        let unusable = |_| PingError { message: "the URL cannot be used".into(), is_lasting: true };
        let target = target.map_err(unusable)?;
        let uri = target.fill(&|_| Some(self.line.clone())).map_err(unusable)?;
        let proxy = Proxy::choose(&self.proxies, target.is_https).map_err(lasting)?;
        let proxy = proxy.filter(|proxy| !proxy.proxy.is_no_proxy(&uri));
        let agent = self.agent(target.is_https, proxy.as_ref()).map_err(lasting)?;
        let request = request(&uri, &target, summary).map_err(lasting)?;
        let exchange = RequestInfo {
            uri: &uri,
            timeout: Some(TIMEOUT),
            proxy: proxy.as_ref(),
            ca: "SSL_CERT_FILE",
        };
        let mut response = agent.run(request).map_err(|error| {
            let outcome = failure_outcome(&error, &exchange);
            PingError { message: outcome.error().unwrap_or_default().into(), is_lasting: false }
        })?;
        let status = response.status();
        let answer = response.body_mut().with_config().limit(100).read_to_vec().unwrap_or_default();
        refusal(uri.host().unwrap_or_default(), status, &answer).map_or(Ok(()), Err)
    }

    fn agent(&mut self, is_https: bool, proxy: Option<&Proxy>) -> Result<Agent> {
        if self.tls.is_none() && Proxy::needs_tls(is_https, proxy) {
            self.tls = Some(tls_config(None)?);
        }
        Ok(agent(Some(TIMEOUT), 1, &self.tls.clone().unwrap_or_default(), proxy, false, None))
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

fn refusal(host: &str, status: StatusCode, answer: &[u8]) -> Option<PingError> {
    let is_lasting = !status.is_server_error() && status != StatusCode::TOO_MANY_REQUESTS;
    let answer = if !status.is_success() {
        format!("HTTP {status}")
    } else if answer.starts_with(REFUSED) {
        String::from_utf8_lossy(answer).into_owned()
    } else {
        return None;
    };
    Some(PingError { message: format!("{host} answered {answer}"), is_lasting })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_no_success_is_an_error_and_may_be_lasting() {
        for (status, answer, expected) in [
            (200, "OK", None),
            (202, "", None),
            (200, "OK (not found)", Some(("hc answered OK (not found)", true))),
            (404, "no", Some(("hc answered HTTP 404 Not Found", true))),
            (429, "", Some(("hc answered HTTP 429 Too Many Requests", false))),
            (502, "", Some(("hc answered HTTP 502 Bad Gateway", false))),
        ] {
            let found = refusal("hc", StatusCode::from_u16(status).unwrap(), answer.as_bytes());
            let found = found.as_ref().map(|error| (error.message.as_str(), error.is_lasting));
            assert_eq!(found, expected, "{status} {answer}");
        }
    }
}

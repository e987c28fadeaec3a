//! Outcomes of requests: by the status code and the headers of a reply, or by the error if there is none.

use std::io::ErrorKind::{
    AddrNotAvailable, BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset,
    HostUnreachable, NetworkUnreachable, UnexpectedEof,
};
use std::time::{Duration, UNIX_EPOCH};

use backlog_schedule::{Instant, Outcome, Reach, one_line};
use backlog_store::system_error::reason;
use backlog_store::tls_roots;
use http::{StatusCode, Uri};
use rustls::{CertificateError, Error as TlsError};
use serde_json::Value;
use ureq::{Error, Timeout};

use super::agent::{ConnectError, Proxy};
use crate::handlers::GivesUp;

const MAX_MESSAGE_CHARS: usize = 200;
const MAX_WAIT: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Keys of error messages in JSON, the most precise first.
const MESSAGES: [&str; 7] =
    ["message", "error_description", "detail", "error", "errors", "msg", "title"];

#[derive(Debug, Clone, Copy, Default)]
pub struct Reply<'a> {
    pub status: u16,
    pub retry_after: Option<&'a str>,
    pub location: Option<&'a str>,
    pub content_type: Option<&'a str>,
    pub content_encoding: Option<&'a str>,
    pub body: &'a [u8],
}

pub fn reply_outcome(reply: &Reply<'_>, gives_up: &GivesUp, now: Instant) -> Outcome {
    let error = error(reply);
    let wait = reply.retry_after.and_then(|text| wait(text, now));
    match (reply.status, wait) {
        (200..=299, _) => Outcome::Success,
        (status, _) if gives_up.on.contains(&status) => Outcome::GiveUp { error },
        (429 | 503, Some(after)) => Outcome::Snooze { error, after: Some(after) },
        // These are about the moment or the proxy, not about the request.
        (407 | 408 | 425 | 429, _) => Outcome::Failure { error },
        (400..=499, _) if gives_up.on_4xx => Outcome::GiveUp { error },
        _ => Outcome::Failure { error },
    }
}

/// Parses the value of Retry-After.
fn wait(text: &str, now: Instant) -> Option<Duration> {
    let text = text.trim();
    let seconds = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // It fails only for a number that is too large.
        text.parse().unwrap_or(u64::MAX)
    } else {
        let date = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
        let ahead = i128::from(date.as_secs()) - i128::from(now.0);
        u64::try_from(ahead.max(0)).unwrap_or(u64::MAX)
    };
    Some(Duration::from_secs(seconds).min(MAX_WAIT))
}

fn error(reply: &Reply<'_>) -> String {
    let status = reply.status;
    let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    let title = reason.map_or(format!("HTTP {status}"), |reason| format!("HTTP {status} {reason}"));
    let words = match (status, reply.location.and_then(first_line)) {
        (300..=399, Some(location)) => {
            Some(format!("redirects are not followed; this one leads to {location}"))
        }
        (300..=399, None) => Some("redirects are not followed".into()),
        _ => message_in(reply),
    };
    match words.filter(|words| reason != Some(words)) {
        Some(words) => format!("{title}: {words}"),
        None => title,
    }
}

/// The server's message on one line, unless the body is a page or not text.
fn message_in(reply: &Reply<'_>) -> Option<String> {
    let media_type = reply.content_type.unwrap_or("text/plain").to_ascii_lowercase();
    let is_text = media_type.starts_with("text/") || media_type.contains("json");
    let is_identity = |encoding: &str| encoding.eq_ignore_ascii_case("identity");
    let is_plain = reply.content_encoding.is_none_or(is_identity);
    // The last character may have been cut.
    let chunk = reply.body.utf8_chunks().next()?;
    let is_utf8 = chunk.valid().len() + chunk.invalid().len() == reply.body.len();
    let text = chunk.valid().trim_start_matches('\u{feff}');
    if !is_utf8 || !is_text || !is_plain || text.trim_start().starts_with('<') {
        return None;
    }
    let json: Value = serde_json::from_str(text).unwrap_or_default();
    message_of(&json).or_else(|| first_line(text))
}

/// The first text under one of the keys of an object, or of the first object in a list.
fn message_of(json: &Value) -> Option<String> {
    let object = json.get(0).unwrap_or(json);
    MESSAGES.iter().find_map(|key| {
        let value = object.get(key)?;
        let text = value.get(0).unwrap_or(value).as_str();
        text.and_then(first_line).or_else(|| message_of(value))
    })
}

fn first_line(text: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let line: String = line.chars().filter(|c| !c.is_control()).collect();
        let line: String = one_line(line.trim()).chars().take(MAX_MESSAGE_CHARS).collect();
        (!line.is_empty()).then_some(line)
    })
}

#[derive(Debug)]
pub struct RequestInfo<'a> {
    pub uri: &'a Uri,
    pub timeout: Option<Duration>,
    pub proxy: Option<&'a Proxy>,
    /// Option or variable that names certificates of authorities.
    pub ca: &'static str,
}

/// Outcome of a request without an answer. Nothing is sent before the connection is complete.
pub fn failure_outcome(error: &Error, request: &RequestInfo<'_>) -> Outcome {
    // The first connection leads to the proxy if there is one.
    let with_proxy = |message: String| match request.proxy {
        Some(proxy) => format!("{message}; it is the proxy of {}", proxy.variable),
        None => message,
    };
    let unsent = if let Error::Other(error) = error { error.downcast_ref() } else { None };
    let (error, reach) = match unsent {
        Some(ConnectError::Probed) => return Outcome::Interrupted,
        Some(ConnectError::NoAddress { message, reach: Reach::Nobody { counts: false } }) => {
            (with_proxy(message.clone()), Reach::Nobody { counts: false })
        }
        Some(ConnectError::NoAddress { message, reach }) => (message.clone(), *reach),
        Some(ConnectError::NotConnected(Error::Io(error)))
            if matches!(
                error.kind(),
                AddrNotAvailable | ConnectionRefused | HostUnreachable | NetworkUnreachable
            ) =>
        {
            let address = request.proxy.map_or_else(|| address(request.uri), Proxy::address);
            let message = format!("could not connect to {address}: {}", reason(error));
            (with_proxy(message), Reach::Nobody { counts: false })
        }
        Some(ConnectError::NotConnected(error)) => {
            (message(error, request, false), Reach::Nobody { counts: false })
        }
        None if matches!(error, Error::Protocol(error) if error.to_string().ends_with(NO_HTTP)) => {
            let address = address(request.uri);
            let message = format!("the answer of {address} is not HTTP: is this an HTTPS port?");
            (message, Reach::Nobody { counts: false })
        }
        None => (message(error, request, true), Reach::MayHaveWorked),
    };
    Outcome::Unanswered { error, reach }
}

/// Error message of ureq for an answer that does not begin with `HTTP/`.
const NO_HTTP: &str = "invalid HTTP version";

fn address(uri: &Uri) -> String {
    let port = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    format!("{}:{}", uri.host().unwrap_or_default(), uri.port_u16().unwrap_or(port))
}

fn tls_error(error: &Error) -> Option<&TlsError> {
    if let Error::Rustls(error) = error {
        return Some(error);
    }
    if let Error::Io(error) = error { error.get_ref()?.downcast_ref() } else { None }
}

fn message(error: &Error, request: &RequestInfo<'_>, is_connected: bool) -> String {
    let address = address(request.uri);
    if let Some(TlsError::InvalidCertificate(error)) = tls_error(error) {
        let host = request.uri.host().unwrap_or_default();
        format!("could not verify the certificate of {host}: {}", distrust(error, request.ca))
    } else if let Some(TlsError::InvalidMessage(_)) = tls_error(error) {
        format!(
            "could not agree on TLS with {address}: its answer is not TLS; should the URL begin with http://?"
        )
    } else if let Some(error) = tls_error(error) {
        format!("could not agree on TLS with {address}: {error}")
    } else if let Error::Tls(error) = error {
        format!("could not agree on TLS with {address}: {error}")
    } else if let Error::Io(error) = error
        && !is_connected
    {
        format!("could not connect to {address}: {}", reason(error))
    } else if let Error::Io(error) = error
        && let BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof = error.kind()
    {
        "the connection was closed before an answer came".into()
    } else if let Error::Io(error) = error {
        format!("the connection to {address} broke: {}", reason(error))
    } else if let Error::Timeout(phase) = error {
        let to =
            if is_connected { String::new() } else { format!("could not connect to {address}: ") };
        match request.timeout.filter(|_| *phase != Timeout::Connect) {
            Some(timeout) => {
                format!("{to}no answer within {}", humantime::format_duration(timeout))
            }
            None => format!("{to}no answer"),
        }
    } else if let Error::Protocol(error) = error {
        format!("could not understand the answer of {address}: {error}")
    } else if let Error::ConnectProxyFailed(reason) = error {
        let variable = request.proxy.map_or("the environment", |proxy| proxy.variable);
        format!("the proxy of {variable} could not connect to {address}: {reason}")
    } else if let Error::LargeResponseHeader(_, most) = error {
        format!("the answer of {address} has more than {most} bytes of headers")
    } else {
        error.to_string()
    }
}

fn distrust(error: &CertificateError, ca: &str) -> String {
    use CertificateError as Wrong;
    // An authority with the right name and another key makes a bad signature.
    let words = if matches!(error, Wrong::UnknownIssuer | Wrong::BadSignature) {
        return format!(
            "it is signed by an unknown authority; pass the certificate of the authority with {ca}"
        );
    } else if matches!(error, Wrong::Expired | Wrong::ExpiredContext { .. }) {
        "it has expired; is the clock right?"
    } else if matches!(error, Wrong::NotValidYet | Wrong::NotValidYetContext { .. }) {
        "it is not valid yet; is the clock right?"
    } else if matches!(error, Wrong::NotValidForName | Wrong::NotValidForNameContext { .. }) {
        "it is for another host; correct the host in the URL"
    } else if tls_roots::is_ca_as_server(error) {
        "it is the certificate of an authority; install a server certificate that the authority has signed"
    } else {
        return format!("{error}; pass the certificate of its authority with {ca}");
    };
    words.into()
}

#[cfg(test)]
mod tests;

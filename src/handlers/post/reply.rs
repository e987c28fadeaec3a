//! Replies of a webhook: which status code and which header make which outcome.

use std::time::{Duration, UNIX_EPOCH};

use http::StatusCode;
use serde_json::{Map, Value};

use crate::record::{Outcome, one_line};
use crate::time::Instant;

/// How much of a server's words goes into the error.
const SHOWN: usize = 200;
/// Nobody means a later time than this, whatever they wrote.
const LONGEST_WAIT: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Where servers put their words.
const KEYS: [&str; 3] = ["error", "message", "detail"];

/// A server's reply: status, headers, and the beginning of the body.
#[derive(Debug, Clone, Copy)]
pub struct Reply<'a> {
    pub status: u16,
    pub retry_after: Option<&'a str>,
    pub location: Option<&'a str>,
    pub body: &'a [u8],
}

pub fn outcome(reply: &Reply<'_>, give_up_on_4xx: bool, now: Instant) -> Outcome {
    let error = error(reply);
    let wait = reply.retry_after.and_then(|text| wait(text, now));
    match (reply.status, wait) {
        (200..=299, _) => Outcome::Success,
        (429 | 503, Some(after)) => Outcome::Snooze { error, after: Some(after) },
        // Words about the moment or the proxy, not about the request.
        (407 | 408 | 425 | 429, _) => Outcome::Failure { error },
        (400..=499, _) if give_up_on_4xx => Outcome::GiveUp { error },
        _ => Outcome::Failure { error },
    }
}

/// How long the server asks to be left alone, if it says so in a form that HTTP has.
fn wait(text: &str, now: Instant) -> Option<Duration> {
    let text = text.trim();
    let seconds = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // Only a number beyond all bounds fails here.
        text.parse().unwrap_or(u64::MAX)
    } else {
        let date = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
        let ahead = i128::from(date.as_secs()) - i128::from(now.0);
        u64::try_from(ahead.max(0)).unwrap_or(u64::MAX)
    };
    Some(Duration::from_secs(seconds).min(LONGEST_WAIT))
}

fn error(reply: &Reply<'_>) -> String {
    let status = reply.status;
    let reason = StatusCode::from_u16(status).ok().and_then(|it| it.canonical_reason());
    let title = reason.map_or(format!("HTTP {status}"), |reason| format!("HTTP {status} {reason}"));
    let words = match (status, reply.location.and_then(first_line)) {
        (300..=399, Some(location)) => {
            Some(format!("redirects are not followed; this one leads to {location}"))
        }
        (300..=399, None) => Some("redirects are not followed".into()),
        _ => words(reply.body),
    };
    words.map_or(title.clone(), |words| format!("{title}: {words}"))
}

/// What the server says about it, on one line.
fn words(body: &[u8]) -> Option<String> {
    let object: Option<Map<String, Value>> = serde_json::from_slice(body).ok();
    let mut texts = KEYS.iter().filter_map(|key| object.as_ref()?.get(*key)?.as_str());
    let from_json = texts.find_map(first_line);
    from_json.or_else(|| first_line(&String::from_utf8_lossy(body)))
}

fn first_line(text: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let line: String = line.chars().filter(|c| !c.is_control()).collect();
        let line: String = one_line(line.trim()).chars().take(SHOWN).collect();
        (!line.is_empty()).then_some(line)
    })
}

#[cfg(test)]
mod tests;

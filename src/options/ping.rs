//! URLs of pings. They are secret: anybody who knows a URL can report passes.

use std::collections::HashMap;

use anyhow::Result;
use backlog_schedule::unknown_name;
use toml::{Table, Value};

use super::raw::Raw;
use crate::handlers::Target;

const LINE: &str = "line";
const EVENTS: [&str; 3] = ["start", "success", "failure"];

#[derive(Clone, PartialEq, Eq)]
pub enum Ping {
    /// The URL of a check. The event is appended to its path.
    Check(String),
    /// URLs of [`EVENTS`]. Other events are not reported.
    Each(HashMap<String, String>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    Start,
    /// With the exit status of the pass.
    End(u8),
}

impl Ping {
    /// Parses a URL, or a table of URLs. No error repeats them.
    pub fn parse(raw: Raw) -> Result<Self, String> {
        let ping = match raw {
            Raw::Toml(Value::Table(urls)) => parse_each(urls)?,
            Raw::Toml(ref value) if !value.is_str() => {
                return Err("write a URL, or { start, success, failure }".into());
            }
            Raw::Words(_) | Raw::Toml(_) => Self::Check(raw.into_text()?),
        };
        ping.require_usable()?;
        Ok(ping)
    }

    fn require_usable(&self) -> Result<(), String> {
        let urls = match self {
            Self::Check(url) => vec![url],
            Self::Each(urls) => urls.values().collect(),
        };
        if urls.is_empty() {
            return Err(format!("there is no URL; write one for {}", EVENTS.join(", ")));
        }
        let is_usable = |url: &String| {
            let target = Target::new(url).ok()?;
            let is_line = target.columns().all(|name| name == LINE);
            target.fill(&|_| Some("line".into())).ok().filter(|_| is_line)
        };
        if urls.into_iter().all(|url| is_usable(url).is_some()) {
            return Ok(());
        }
        Err(format!(
            "the URL cannot be used; it must begin with https:// or http://, be percent-encoded, and \
             have only {{{LINE}}} in braces"
        ))
    }

    /// The URL of an event of a pass; `None` if the event is not reported.
    pub fn target(&self, event: Event, run: &str) -> Option<Result<Target>> {
        Some(match (self, event) {
            (Self::Check(url), Event::Start) => Target::new(&append(url, "start", run)),
            (Self::Check(url), Event::End(exit)) => {
                Target::new(&append(url, &exit.to_string(), run))
            }
            (Self::Each(urls), Event::Start) => Target::new(urls.get("start")?),
            (Self::Each(urls), Event::End(0)) => Target::new(urls.get("success")?),
            (Self::Each(urls), Event::End(_)) => Target::new(urls.get("failure")?),
        })
    }
}

/// Appends an event to the path, and the run to the query: `https://hc-ping.com/UUID/start?rid=...`
fn append(url: &str, event: &str, run: &str) -> String {
    let url = url.split('#').next().unwrap_or_default();
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let and = if query.is_empty() { "" } else { "&" };
    format!("{}/{event}?{query}{and}rid={}", path.trim_end_matches('/'), as_uuid(run))
}

/// A UUID, which the service requires, from the 16 hexadecimal digits of a run.
fn as_uuid(run: &str) -> String {
    let (high, low) = run.split_at_checked(4).unwrap_or((run, ""));
    format!("00000000-0000-0000-{high}-{low}")
}

fn parse_each(urls: Table) -> Result<Ping, String> {
    let url = |(event, url): (String, Value)| match url.as_str() {
        _ if !EVENTS.contains(&&*event) => Err(unknown_name("key", &event, EVENTS)),
        None => Err(format!("{event} is not text; write its URL in quotes")),
        Some(url) => Ok((event, url.into())),
    };
    urls.into_iter().map(url).collect::<Result<_, _>>().map(Ping::Each)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(ping: &Ping, event: Event) -> Option<String> {
        let target = ping.target(event, "0123456789abcdef")?.unwrap();
        Some(target.fill(&|_| Some("orders-ndays-1".into())).unwrap().to_string())
    }

    #[test]
    fn the_event_is_appended_to_the_path_of_a_check() {
        let rid = "rid=00000000-0000-0000-0123-456789abcdef";
        for (check, start) in [
            ("https://hc-ping.com/uuid", format!("https://hc-ping.com/uuid/start?{rid}")),
            ("https://hc-ping.com/uuid/", format!("https://hc-ping.com/uuid/start?{rid}")),
            (
                "https://hc-ping.com/key/{line}?create=1#x",
                format!("https://hc-ping.com/key/orders-ndays-1/start?create=1&{rid}"),
            ),
        ] {
            let ping = Ping::Check(check.into());
            ping.require_usable().unwrap();
            assert_eq!(url(&ping, Event::Start), Some(start.clone()));
            assert_eq!(url(&ping, Event::End(75)), Some(start.replace("/start", "/75")));
        }
    }

    #[test]
    fn an_event_without_a_url_is_not_reported() {
        let table: Table = "success = 'http://a/up'\nfailure = 'http://a/down'".parse().unwrap();
        let ping = parse_each(table).unwrap();
        let urls = [Event::Start, Event::End(0), Event::End(1), Event::End(75)];
        let urls = urls.map(|event| url(&ping, event));
        let [none, up, down, later] = urls.each_ref().map(Option::as_deref);
        assert_eq!((none, up), (None, Some("http://a/up")));
        assert_eq!((down, later), (Some("http://a/down"), Some("http://a/down")));
    }

    #[test]
    fn no_error_shows_the_url() {
        for text in [
            "hc-ping.com/S3krit",
            "hc-ping.com/S3krit?next=https://x",
            "https://hc-ping.com/{S3krit}",
            "https://hc-ping.com/S3krit/../{line}",
            "https://hc-ping.com/S3kritä",
            "ftp://S3krit",
            "",
        ] {
            let error = Ping::parse(Raw::from(text)).err().unwrap();
            assert!(error.starts_with("the URL cannot be used; "), "{error}");
            assert!(!error.contains("S3krit"), "{error}");
        }
    }
}

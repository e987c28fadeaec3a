//! The headers of a request.

use anyhow::{Result, bail};
use http::header::{AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const PROGRAM: HeaderValue =
    HeaderValue::from_static(concat!("backlog/", env!("CARGO_PKG_VERSION")));

/// Headers that only the program can get right.
const OURS: [&str; 7] = [
    "host",
    "content-length",
    "transfer-encoding",
    "idempotency-key",
    "webhook-id",
    "webhook-timestamp",
    "webhook-signature",
];

/// Words in the name of a header that say that its value lets in whoever knows it.
const OF_CREDENTIALS: [&str; 8] =
    ["authorization", "auth", "cookie", "token", "secret", "key", "apikey", "password"];

/// A header of the user's.
#[derive(Clone)]
pub struct Header {
    name: HeaderName,
    value: HeaderValue,
}

impl Header {
    /// Reads `Name: value`. Errors never show the value, which may be a password.
    pub fn parse(text: &str) -> Result<Self> {
        let Some((name, value)) = text.split_once(':') else {
            let start = text.split_whitespace().next().unwrap_or_default();
            bail!("the header {start:?} has no colon; write it as 'Name: value'");
        };
        let Ok(parsed) = HeaderName::from_bytes(name.as_bytes()) else {
            bail!("{name:?} is no name for a header; write it as 'Name: value'");
        };
        if OURS.contains(&parsed.as_str()) {
            bail!("the header {name} is set by backlog itself; leave it out");
        }
        let value = Some(value.trim()).filter(|value| value.is_ascii());
        let Some(mut value) = value.and_then(|value| HeaderValue::from_str(value).ok()) else {
            bail!("the value of the header {name} must be printable ASCII");
        };
        value.set_sensitive(true);
        Ok(Self { name: parsed, value })
    }

    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Whether whoever gets the header can pass for the sender elsewhere.
    pub fn is_credential(&self) -> bool {
        self.name().split(['-', '_']).any(|word| OF_CREDENTIALS.contains(&word))
    }
}

/// The headers that are the same for all requests.
pub fn common(user: &[Header], authorization: Option<&str>) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for header in user {
        headers.append(header.name.clone(), header.value.clone());
    }
    headers.entry(CONTENT_TYPE).or_insert(JSON);
    headers.entry(USER_AGENT).or_insert(PROGRAM);
    if let Some(login) = authorization {
        let mut login = HeaderValue::from_str(login)?;
        login.set_sensitive(true);
        headers.entry(AUTHORIZATION).or_insert(login);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_a_name_and_a_value() {
        for (text, name, value) in
            [("X-Test: a: b ", "x-test", "a: b"), ("x:1", "x", "1"), ("X-Empty:", "x-empty", "")]
        {
            let header = Header::parse(text).unwrap();
            assert_eq!((header.name.as_str(), header.value.to_str().unwrap()), (name, value));
        }
    }

    #[test]
    fn bad_headers_are_refused_without_their_value() {
        for (text, expected) in [
            ("Authorization S3krit", "the header \"Authorization\" has no colon"),
            ("Content Type: S3krit", "\"Content Type\" is no name for a header"),
            (": S3krit", "\"\" is no name for a header"),
            ("X: S3krit\r\nHost: x", "the value of the header X must be printable ASCII"),
            ("X: S3krité", "the value of the header X must be printable ASCII"),
            ("Host: S3krit", "the header Host is set by backlog itself"),
            ("CONTENT-LENGTH: 0", "the header CONTENT-LENGTH is set by backlog itself"),
            ("Webhook-Signature: v1,S3krit", "is set by backlog itself"),
        ] {
            let error = Header::parse(text).err().unwrap().to_string();
            assert!(error.contains(expected) && !error.contains("S3krit"), "{error}");
        }
    }

    #[test]
    fn a_credential_is_known_by_its_name() {
        for (name, expected) in [
            ("Authorization", true),
            ("Proxy-Authorization", true),
            ("Cookie", true),
            ("X-Api-Key", true),
            ("X-Auth-Token", true),
            ("X_APIKEY", true),
            ("X-Source", false),
            ("X-Author", false),
            ("Accept", false),
        ] {
            let header = Header::parse(&format!("{name}: x")).unwrap();
            assert_eq!(header.is_credential(), expected, "{name}");
        }
    }

    #[test]
    fn the_users_headers_come_first() {
        let user = ["content-type: text/plain", "X: 1", "X: 2", "authorization: Bearer x"];
        let user: Vec<_> = user.iter().map(|text| Header::parse(text).unwrap()).collect();
        let headers = common(&user, Some("Basic eDp5")).unwrap();
        assert_eq!(headers["content-type"], "text/plain");
        assert_eq!(headers["authorization"], "Bearer x");
        assert_eq!(headers.get_all("x").iter().count(), 2);
        let headers = common(&[], Some("Basic eDp5")).unwrap();
        assert_eq!(headers["content-type"], "application/json");
        assert_eq!(headers["authorization"], "Basic eDp5");
        assert!(headers["user-agent"].to_str().unwrap().starts_with("backlog/"));
    }
}

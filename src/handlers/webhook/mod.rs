//! Settings of a webhook: the URL and the headers of requests, their idempotency key, and the signature
//! of Standard Webhooks, an HMAC of id, time and body.

mod hosts;
#[cfg(feature = "webhook")]
pub mod post;
mod target;

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use http::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use sha2::Sha256;

use super::placeholders::without_columns;
pub use hosts::{Hosts, Proxies};
use target::{ColumnValues, Template};
pub use target::{Target, without_login};

/// Webhook that records are posted to. It holds secrets, so it is not `Debug`.
#[derive(Clone)]
pub struct Webhook {
    pub target: Target,
    pub headers: Vec<Header>,
    /// Certificates of authorities that replace the system's.
    pub ca_file: Option<PathBuf>,
    pub gives_up: GivesUp,
    pub signing: Signing,
    pub hosts: Hosts,
    pub key: IdempotencyKey,
    pub proxies: Proxies,
}

/// Answers of a webhook, or exit codes of a command, that give a record up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GivesUp {
    pub on_4xx: bool,
    pub on: Vec<u16>,
}

impl Webhook {
    /// True if a record can name any host, because `--allow-host` lists none.
    pub fn names_any_host(&self) -> bool {
        self.target.has_column_in_authority() && self.hosts.is_empty()
    }
}

pub const PROGRAM: HeaderValue =
    HeaderValue::from_static(concat!("backlog/", env!("CARGO_PKG_VERSION")));

const RESERVED_HEADERS: [&str; 7] = [
    "host",
    "content-length",
    "transfer-encoding",
    "idempotency-key",
    "webhook-id",
    "webhook-timestamp",
    "webhook-signature",
];

/// Words in names of headers whose value is a secret.
const CREDENTIAL_WORDS: [&str; 8] =
    ["authorization", "auth", "cookie", "token", "secret", "key", "apikey", "password"];

#[derive(Clone)]
pub struct Header {
    name: HeaderName,
    value: HeaderValue,
}

impl Header {
    /// Parses `Name: value`. Errors never show the value, which may be a password.
    pub fn parse(text: &str) -> Result<Self> {
        let Some((name, value)) = text.split_once(':') else {
            let start = text.split_whitespace().next().unwrap_or_default();
            bail!("the header {start:?} has no colon; write it as 'Name: value'");
        };
        let no_name = || format!("{name:?} is not the name of a header; write it as 'Name: value'");
        let parsed: HeaderName = name.parse().ok().with_context(no_name)?;
        let is_reserved = RESERVED_HEADERS.contains(&parsed.as_str());
        ensure!(!is_reserved, "the header {name} is set by backlog itself; leave it out");
        let value = without_columns(value.trim()).with_context(|| {
            format!(
                "the value of the header {name} has a word in braces, and headers have no \
                 placeholders; double the braces to send them"
            )
        })?;
        let value = Some(value).filter(|value| value.is_ascii());
        let value = value.and_then(|value| HeaderValue::from_str(&value).ok());
        let not_ascii = || format!("the value of the header {name} must be printable ASCII");
        let mut value = value.with_context(not_ascii)?;
        value.set_sensitive(true);
        Ok(Self { name: parsed, value })
    }

    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    pub fn is_credential(&self) -> bool {
        self.name().split(['-', '_']).any(|word| CREDENTIAL_WORDS.contains(&word))
    }
}

pub fn common_headers(user: &[Header], authorization: Option<&str>) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for header in user {
        headers.append(header.name.clone(), header.value.clone());
    }
    headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
    headers.entry(USER_AGENT).or_insert(PROGRAM);
    // Messages show a part of the answer, which must not be compressed.
    headers.entry(ACCEPT_ENCODING).or_insert(HeaderValue::from_static("identity"));
    if let Some(login) = authorization {
        let mut login = HeaderValue::from_str(login)?;
        login.set_sensitive(true);
        headers.entry(AUTHORIZATION).or_insert(login);
    }
    Ok(headers)
}

/// Characters that a header cannot hold, and the percent sign, so that no two values are encoded alike.
const UNSAFE: &AsciiSet = &CONTROLS.add(b' ').add(b'%');
/// The same, and the slash that separates the parts of a record's name.
const SEPARATOR: &AsciiSet = &UNSAFE.add(b'/');

#[derive(Clone)]
pub enum IdempotencyKey {
    /// The record's name, with the number of the series of attempts if there is one.
    Name,
    Given(Template),
    None,
}

impl IdempotencyKey {
    pub fn parse(text: &str) -> Result<Self> {
        if text.is_empty() {
            return Ok(Self::None);
        }
        let check = |literal: &str| {
            let odd = literal.chars().find(|c| !c.is_ascii_graphic() || *c == '}');
            odd.map_or(Ok(()), |odd| {
                bail!("{odd:?} is not legal in the key; use printable ASCII without blanks")
            })
        };
        Template::parse(text, "the key", check).map(Self::Given)
    }

    pub fn columns(&self) -> impl Iterator<Item = &str> {
        let template = if let Self::Given(template) = self { Some(template) } else { None };
        template.into_iter().flat_map(Template::columns)
    }

    /// The key of one series of attempts, because a receiver repeats its answer to a known key, errors included.
    pub fn fill(
        &self,
        name: &str,
        series: Option<i64>,
        value: ColumnValues,
    ) -> Result<Option<String>> {
        match self {
            Self::Name => Ok(Some(match series {
                None => name.into(),
                Some(number) => format!("{name}/{number}"),
            })),
            Self::Given(template) => {
                let key = template.fill(value, UNSAFE)?;
                ensure!(!key.is_empty(), "the key {template} has no value");
                Ok(Some(key))
            }
            Self::None => Ok(None),
        }
    }
}

/// Unique name of a record, `TABLE/ID/DATE`: a database may reuse the id of a deleted row.
pub fn record_name(table: &str, id: &str, inserted: &str) -> String {
    [table, id, inserted].map(|part| utf8_percent_encode(part, SEPARATOR).to_string()).join("/")
}

/// Standard Webhooks asks for 24 to 64 bytes: shorter keys can be guessed.
const SHORTEST: usize = 24;

const MAKE_ONE: &str = "make one with: echo whsec_$(openssl rand -base64 32)";

const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

type SigningKey = Hmac<Sha256>;

fn signing_key(text: &str) -> Result<SigningKey> {
    let invalid = |why| format!("the signing secret {why}; {MAKE_ONE}");
    let encoded =
        text.strip_prefix("whsec_").with_context(|| invalid("does not begin with whsec_"))?;
    // The decoder's error would quote a part of the secret.
    let bytes = LENIENT.decode(encoded).ok().with_context(|| invalid("is not base64"))?;
    let length = bytes.len();
    ensure!(
        length >= SHORTEST,
        "the signing secret has {length} bytes and needs at least {SHORTEST}; {MAKE_ONE}"
    );
    Hmac::new_from_slice(&bytes).context("could not use the signing secret")
}

/// Keys of the signatures: several while a secret is being replaced.
#[derive(Clone)]
pub struct Secret(Vec<SigningKey>);

impl Secret {
    /// Parses secrets separated by white space, the current one first.
    pub fn parse(text: &str) -> Result<Self> {
        let keys = text.split_whitespace().map(signing_key).collect::<Result<Vec<_>>>()?;
        ensure!(!keys.is_empty(), "the signing secret is empty; {MAKE_ONE}");
        Ok(Self(keys))
    }

    pub fn signatures(&self, id: &str, timestamp_secs: i64, body: &[u8]) -> String {
        let sign = |key: &SigningKey| {
            let hmac = key.clone().chain_update(format!("{id}.{timestamp_secs}."));
            let code = hmac.chain_update(body).finalize().into_bytes();
            format!("v1,{}", STANDARD.encode(code))
        };
        self.0.iter().map(sign).collect::<Vec<_>>().join(" ")
    }
}

#[derive(Clone)]
pub enum Signing {
    None,
    Shared(Secret),
    Own { column: String },
}

impl Signing {
    pub fn column(&self) -> Option<&str> {
        if let Self::Own { column } = self { Some(column) } else { None }
    }

    /// The secret of a record. A missing or invalid secret is an error: no request is left unsigned.
    pub fn secret(&self, value: ColumnValues) -> Result<Option<Secret>> {
        Ok(match self {
            Self::None => None,
            Self::Shared(secret) => Some(secret.clone()),
            Self::Own { column } => {
                let secret = Secret::parse(&value(column).unwrap_or_default());
                Some(secret.with_context(|| format!("the column {column} of the record"))?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_a_name_and_a_value() {
        for (text, name, value) in [
            ("X-Test: a: b ", "x-test", "a: b"),
            ("x:1", "x", "1"),
            ("X-Empty:", "x-empty", ""),
            ("X: {{id}}", "x", "{id}"),
        ] {
            let header = Header::parse(text).unwrap();
            assert_eq!((header.name.as_str(), header.value.to_str().unwrap()), (name, value));
        }
    }

    #[test]
    fn bad_headers_are_refused_without_their_value() {
        for (text, expected) in [
            ("Authorization S3krit", "the header \"Authorization\" has no colon"),
            ("Content Type: S3krit", "\"Content Type\" is not the name of a header"),
            (": S3krit", "\"\" is not the name of a header"),
            ("X: S3krit\r\nHost: x", "the value of the header X must be printable ASCII"),
            ("X: S3krité", "the value of the header X must be printable ASCII"),
            ("Host: S3krit", "the header Host is set by backlog itself"),
            ("CONTENT-LENGTH: 0", "the header CONTENT-LENGTH is set by backlog itself"),
            ("Webhook-Signature: v1,S3krit", "is set by backlog itself"),
            ("X: {S3krit}", "the value of the header X has a word in braces"),
        ] {
            let error = Header::parse(text).err().unwrap().to_string();
            assert!(error.contains(expected) && !error.contains("S3krit"), "{error}");
        }
    }

    #[test]
    fn credentials_are_recognized_by_name() {
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
    fn headers_of_the_user_replace_ours() {
        let user = ["content-type: text/plain", "X: 1", "X: 2", "authorization: Bearer x"];
        let user: Vec<_> = user.iter().map(|text| Header::parse(text).unwrap()).collect();
        let headers = common_headers(&user, Some("Basic eDp5")).unwrap();
        assert_eq!(headers["content-type"], "text/plain");
        assert_eq!(headers["authorization"], "Bearer x");
        assert_eq!(headers.get_all("x").iter().count(), 2);
        let headers = common_headers(&[], Some("Basic eDp5")).unwrap();
        assert_eq!(headers["content-type"], "application/json");
        assert_eq!(headers["authorization"], "Basic eDp5");
        assert!(headers["user-agent"].to_str().unwrap().starts_with("backlog/"));
    }
}

#[cfg(test)]
mod key_tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn no_two_records_have_the_same_name() {
        let date = "2026-11-20T23:59:00Z";
        assert_eq!(record_name("orders", "7", date), "orders/7/2026-11-20T23:59:00Z");
        assert_eq!(
            record_name("public.orders", "a\n \u{e9}%", ""),
            "public.orders/a%0A%20%C3%A9%25/"
        );
        for (one, other) in [
            (record_name("t", "\n", date), record_name("t", "%0A", date)),
            (record_name("t", "7", "2026-11-20 00:00"), record_name("t", "7", "2026-11-21 00:00")),
            (record_name("t", "7/2026", "11/20"), record_name("t", "7", "2026/11/20")),
            (record_name("a/b", "7", date), record_name("a", "b/7", date)),
        ] {
            assert_ne!(one, other);
        }
        assert!(HeaderValue::from_str(&record_name("t\0", "\u{7f}\u{1F600}", "\r\n")).is_ok());
    }

    fn key(template: &str, value: Option<&str>) -> Result<Option<String>> {
        let value = |_: &str| value.map(String::from);
        IdempotencyKey::parse(template)?.fill("t/7/x", Some(3), &value)
    }

    #[test]
    fn a_key_is_filled_from_its_template() {
        for (template, value, expected) in [
            ("", "x", None),
            ("{id}", "7", Some("7")),
            ("order-{id}/{id}", "a:b/c+d", Some("order-a:b/c+d/a:b/c+d")),
            ("{id}", "a b%\r\n\u{e9}", Some("a%20b%25%0D%0A%C3%A9")),
            ("fixed", "x", Some("fixed")),
        ] {
            assert_eq!(key(template, Some(value)).unwrap().as_deref(), expected, "{template}");
        }
        for (series, expected) in [(None, "t/7/x"), (Some(3), "t/7/x/3")] {
            let key = IdempotencyKey::Name.fill("t/7/x", series, &|_| None);
            assert_eq!(key.unwrap().as_deref(), Some(expected));
        }
    }

    #[test]
    fn a_bad_key_is_refused() {
        for (template, value, says) in [
            ("{id", Some("7"), "a brace in the key is not closed"),
            ("{}", Some("7"), "braces in the key are empty"),
            ("id}", Some("7"), "'}' is not legal in the key"),
            ("a {id}", Some("7"), "' ' is not legal in the key"),
            ("\u{e9}{id}", Some("7"), "is not legal in the key; use printable ASCII"),
            ("{id}", None, "the key needs the column id, which has no value"),
            ("{id}", Some(""), "the key {id} has no value"),
        ] {
            let error = key(template, value).unwrap_err().to_string();
            assert!(error.contains(says), "{template}: {error}");
        }
    }
}

#[cfg(test)]
mod signature_tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const TIME: i64 = 1_614_265_330;
    const BODY: &[u8] = br#"{"test": 2432232314}"#;
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    #[test]
    fn the_signature_is_that_of_the_published_example() {
        for secret in [SECRET.into(), format!(" {SECRET}\n")] {
            let secret = Secret::parse(&secret).unwrap();
            assert_eq!(secret.signatures(ID, TIME, BODY), SIGNATURE);
        }
    }

    #[test]
    fn every_secret_signs() {
        let both = Secret::parse(&format!("{SECRET} whsec_{}", STANDARD.encode([7; 24]))).unwrap();
        let signatures = both.signatures(ID, TIME, BODY);
        let (first, second) = signatures.split_once(' ').unwrap();
        assert_eq!(first, SIGNATURE);
        assert!(second.starts_with("v1,") && second != first);
    }

    #[test]
    fn the_signature_covers_id_time_and_body() {
        let secret = Secret::parse(SECRET).unwrap();
        assert_ne!(secret.signatures("msg_x", TIME, BODY), SIGNATURE);
        assert_ne!(secret.signatures(ID, TIME + 1, BODY), SIGNATURE);
        assert_ne!(secret.signatures(ID, TIME, b"{}"), SIGNATURE);
    }

    #[test]
    fn padding_may_be_left_out() {
        let padded = format!("whsec_{}", STANDARD.encode([7; 25]));
        let bare = padded.trim_end_matches('=');
        assert_ne!(bare, padded);
        let [padded, bare] = [&padded, bare].map(|secret| Secret::parse(secret).unwrap());
        assert_eq!(bare.signatures(ID, TIME, BODY), padded.signatures(ID, TIME, BODY));
    }

    #[test]
    fn a_bad_secret_is_not_shown() {
        for (secret, expected) in [
            ("", "the signing secret is empty"),
            ("whsec_", "has 0 bytes and needs at least 24"),
            ("whsec_S3kr!t", "the signing secret is not base64"),
            ("S3kritS3kritS3kritS3kritS3kritS3krit", "does not begin with whsec_"),
            ("whsec_S3kritS3kritS3kritS3kritS3kr", "has 21 bytes and needs at least 24"),
            ("whsk_S3krit", "does not begin with whsec_"),
        ] {
            let error = format!("{:#}", Secret::parse(secret).err().unwrap());
            assert!(error.contains(expected) && !error.contains("S3kr"), "{error}");
        }
    }
}

//! Connection parameters: those of a `postgres://` URL, which is read as libpq reads it, then libpq's variables. No
//! error quotes the URL: any part of a malformed one may be the password.

use std::collections::HashMap;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use backlog_schedule::listed;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::scheme::split_scheme;

/// The parameters of a URL, and the variables that stand in for them, where libpq has any.
const KNOWN: [(&str, &str); 20] = [
    ("host", "PGHOST"),
    ("hostaddr", "PGHOSTADDR"),
    ("port", "PGPORT"),
    ("dbname", "PGDATABASE"),
    ("user", "PGUSER"),
    ("password", "PGPASSWORD"),
    ("passfile", "PGPASSFILE"),
    ("sslmode", "PGSSLMODE"),
    ("sslrootcert", "PGSSLROOTCERT"),
    ("sslcert", "PGSSLCERT"),
    ("sslkey", "PGSSLKEY"),
    ("application_name", "PGAPPNAME"),
    ("connect_timeout", "PGCONNECT_TIMEOUT"),
    ("options", "PGOPTIONS"),
    ("target_session_attrs", "PGTARGETSESSIONATTRS"),
    ("channel_binding", "PGCHANNELBINDING"),
    ("keepalives", ""),
    ("keepalives_idle", ""),
    ("keepalives_interval", ""),
    ("keepalives_count", ""),
];

/// Variables that lead to another server or restrict a connection, in ways that are not supported.
const REFUSED: &str = "PGSERVICE PGREQUIREAUTH PGREQUIREPEER PGSSLCRL PGSSLCRLDIR PGSSLCERTMODE \
                       PGGSSENCMODE PGSSLMINPROTOCOLVERSION PGSSLMAXPROTOCOLVERSION";

/// The files of certificates and keys that a URL or a variable names.
pub fn certificates(url: &str, environment: &dyn Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    let Ok(parameters) = Parameters::gather(url, environment) else { return Vec::new() };
    let files = ["sslrootcert", "sslcert", "sslkey"].into_iter();
    let files = files.filter_map(|key| parameters.text(key)).filter(|file| *file != "system");
    files.map(PathBuf::from).collect()
}

fn known(key: &str) -> Option<&'static str> {
    KNOWN.into_iter().map(|(known, _)| known).find(|known| *known == key)
}

/// The values that are not empty, each with the parameter or variable that it comes from. Not to be shown: the
/// password is one of them.
pub struct Parameters(HashMap<&'static str, (String, &'static str)>);

impl Parameters {
    pub fn gather(url: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let is_set = |name: &&str| environment(name).is_some_and(|value| !value.is_empty());
        if let Some(name) = REFUSED.split_whitespace().find(is_set) {
            let legal = KNOWN.iter().map(|(_, name)| *name).filter(|name| !name.is_empty());
            let legal = listed(legal);
            bail!("{name} is not supported; unset it; legal are {legal}");
        }
        let variables = KNOWN.into_iter().map(|(key, name)| (key, name, environment(name)));
        let variables = variables.filter_map(|(key, name, text)| Some((key, name, text?)));
        let in_url = parse(url)?.into_iter().map(|(key, text)| (key, key, text));
        let mut values = HashMap::new();
        for (key, source, text) in variables.chain(in_url).filter(|(.., text)| !text.is_empty()) {
            ensure!(!text.contains('\0'), "{source} contains a zero byte");
            values.insert(key, (text, source));
        }
        Ok(Self(values))
    }

    pub fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(|(text, _)| text.as_str())
    }

    /// The parameter or variable that the value comes from.
    pub fn source(&self, key: &'static str) -> &'static str {
        self.0.get(key).map_or(key, |(_, source)| source)
    }

    pub fn list(&self, key: &str) -> Vec<&str> {
        self.text(key).map(|text| text.split(',').collect()).unwrap_or_default()
    }

    /// One of the legal words.
    pub fn choice<T: Copy>(&self, key: &'static str, legal: &[(&str, T)]) -> Result<Option<T>> {
        let names: Vec<_> = legal.iter().map(|(name, _)| *name).collect();
        self.read(key, &format!("one of: {}", names.join(", ")), |text| {
            legal.iter().find(|(name, _)| *name == text).map(|(_, value)| *value)
        })
    }

    pub fn number(&self, key: &'static str) -> Result<Option<u32>> {
        self.read(key, "a whole number, at least 0", |text| text.trim().parse().ok())
    }

    /// The value, which must be `legal`. The error does not quote it: it may be a part of the password.
    pub fn read<T>(
        &self,
        key: &'static str,
        legal: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>> {
        let source = self.source(key);
        let read = |text| parse(text).with_context(|| format!("{source} must be {legal}"));
        self.text(key).map(read).transpose()
    }
}

/// The ports in a list. None if one is not legal.
pub fn ports(list: &str) -> Option<Vec<u16>> {
    let port = |text: &str| match text.trim() {
        "" => Some(5432),
        text => text.parse().ok().filter(|port| *port > 0),
    };
    list.split(',').map(port).collect()
}

const UNCLEAR: &str = "the database URL is not clear: write the signs of a user, a password, a \
                       database and a value with percent: @ as %40, / as %2F, ? as %3F, & as %26";

/// The parts of a URL as they are written: `user:password`, `host:port/database`, and the query.
fn split(rest: &str) -> Result<(&str, &str, &str)> {
    // Like libpq, the first `@` ends the credentials, unless a `/` precedes it; unlike libpq, a `?` that begins a
    // parameter is never part of them.
    let found = rest.split_once('@').filter(|(credentials, _)| !credentials.contains('/'));
    let (credentials, rest) = found.unwrap_or(("", rest));
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let has_parameter = |text: &str| text.split('?').skip(1).any(begins_parameter);
    let is_unclear = credentials.split(':').next().is_some_and(|user| user.contains('?'))
        || has_parameter(credentials)
        || place.contains('@')
        || query.split('&').any(has_parameter);
    ensure!(!is_unclear, UNCLEAR);
    Ok((credentials, place, query))
}

/// Whether the text is `name=` and more, of a parameter that is known.
fn begins_parameter(text: &str) -> bool {
    text.split_once('=').is_some_and(|(key, _)| decode(key).is_ok_and(|key| known(&key).is_some()))
}

/// The parameters in a URL. The later of two wins.
fn parse(url: &str) -> Result<Vec<(&'static str, String)>> {
    let (_, rest) = split_scheme(url).context("a database URL begins with postgres://")?;
    let (credentials, place, query) = split(rest)?;
    let (authority, database) = place.split_once('/').unwrap_or((place, ""));
    let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
    let (mut hosts, mut ports) = (Vec::new(), Vec::new());
    for part in authority.split(',') {
        let (host, port) = match part.strip_prefix('[') {
            None => part.split_once(':').unwrap_or((part, "")),
            Some(part) => {
                let (host, port) = part.split_once(']').unwrap_or_default();
                let port = port.strip_prefix(':').or(port.is_empty().then_some(""));
                port.filter(|_| !host.is_empty()).map(|port| (host, port)).context(
                    "an IPv6 address in the database URL must end with `]`, and only a port may \
                     follow",
                )?
            }
        };
        hosts.push(host);
        ports.push(port);
    }
    let mut found = vec![
        ("user", decode(user)?),
        ("password", decode(password)?),
        ("host", decode(&hosts.join(","))?),
        ("port", decode(&ports.join(","))?),
        ("dbname", decode(database)?),
    ];
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (key, value) = part.split_once('=').context(
            "a parameter of the database URL has no value; write it as name=value, and the sign & \
             in a value as %26",
        )?;
        let key = decode(key)?;
        let Some(key) = known(&key) else {
            // A name after a password, or before an `@`, may be the second half of the password.
            let is_safe = key.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
                && !query.contains('@')
                && found.last().is_none_or(|(before, _)| *before != "password");
            let key = if is_safe { key } else { String::new() };
            let name = if is_safe { format!("the parameter {key}") } else { "a parameter".into() };
            let legal = KNOWN.map(|(key, _)| key);
            let legal = listed(legal);
            bail!("the database URL has {name}, which is not supported; legal are {legal}");
        };
        found.push((key, decode(value)?));
    }
    Ok(found)
}

fn decode(text: &str) -> Result<String> {
    let is_code = |code: &str| code != "00" && code.bytes().all(|byte| byte.is_ascii_hexdigit());
    ensure!(
        text.split('%').skip(1).all(|behind| behind.get(..2).is_some_and(is_code)),
        "a % in the database URL must be followed by two hexadecimal digits, not 00; the sign \
         itself is %25"
    );
    let decoded = percent_decode_str(text).decode_utf8().ok();
    Ok(decoded.context("the database URL has bytes that are not UTF-8")?.into_owned())
}

const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A text with percent signs for what would end it in a URL.
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// The URL as it was typed, without its password. Nothing of a malformed URL is shown.
pub fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = split_scheme(url) else { return url.into() };
    let is_legal = |(key, value): &(&str, String)| *key != "port" || ports(value).is_some();
    let is_legal = parse(url).is_ok_and(|found| found.iter().all(is_legal));
    let Some((credentials, place, query)) = split(rest).ok().filter(|_| is_legal) else {
        return format!("{scheme}...");
    };
    let user = credentials.split(':').next().filter(|user| !user.is_empty());
    let user = user.map_or_else(String::new, |user| format!("{user}@"));
    let key = |part: &str| decode(part.split('=').next()?).ok();
    let query = query.split('&').filter(|part| key(part).as_deref() != Some("password"));
    let query = query.collect::<Vec<_>>().join("&");
    let question = if query.is_empty() { "" } else { "?" };
    format!("{scheme}{user}{place}{question}{query}")
}

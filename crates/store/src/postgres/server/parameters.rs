//! Connection parameters from a `postgres://` URL, parsed as libpq does, and from libpq's environment variables. Errors
//! never quote the URL, because any part of a malformed one may be the password.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use backlog_schedule::listed;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use tokio_postgres::config::Config;

use crate::scheme::split_scheme;

const NUMBER: &str = "a whole number, at least 0";
const PORTS: &str = "a whole number from 1 to 65535";
const ADDRESSES: &str = "an IP address";

/// The parameters of a URL, each with its environment variable, if any, and a description of legal values.
const PARAMETERS: [(&str, &str, &str); 20] = [
    ("host", "PGHOST", ""),
    ("hostaddr", "PGHOSTADDR", ADDRESSES),
    ("port", "PGPORT", PORTS),
    ("passfile", "PGPASSFILE", ""),
    ("sslmode", "PGSSLMODE", "one of: disable, allow, prefer, require, verify-ca, verify-full"),
    ("sslrootcert", "PGSSLROOTCERT", ""),
    ("sslcert", "PGSSLCERT", ""),
    ("sslkey", "PGSSLKEY", ""),
    ("user", "PGUSER", ""),
    ("password", "PGPASSWORD", ""),
    ("dbname", "PGDATABASE", ""),
    ("application_name", "PGAPPNAME", ""),
    ("connect_timeout", "PGCONNECT_TIMEOUT", NUMBER),
    ("options", "PGOPTIONS", ""),
    ("target_session_attrs", "PGTARGETSESSIONATTRS", "one of: any, read-write, read-only"),
    ("channel_binding", "PGCHANNELBINDING", "one of: disable, prefer, require"),
    ("keepalives", "", NUMBER),
    ("keepalives_idle", "", NUMBER),
    ("keepalives_interval", "", NUMBER),
    ("keepalives_count", "", NUMBER),
];
/// Index of the first parameter that the library reads, too.
const FIRST_OF_LIBRARY: usize = 8;

/// Variables that select another server or restrict a connection in unsupported ways.
const REFUSED: &str = "PGSERVICE PGREQUIREAUTH PGREQUIREPEER PGSSLCRL PGSSLCRLDIR PGSSLCERTMODE \
                       PGGSSENCMODE PGSSLMINPROTOCOLVERSION PGSSLMAXPROTOCOLVERSION";

pub fn certificates(url: &str, environment: &dyn Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    let Ok(parameters) = Parameters::gather(url, environment) else { return Vec::new() };
    let files = ["sslrootcert", "sslcert", "sslkey", "passfile"].into_iter();
    let files = files.filter_map(|key| parameters.text(key)).filter(|file| *file != "system");
    files.map(PathBuf::from).collect()
}

/// The non-empty values, each with its parameter or variable. It has no `Debug`, because one of them is the password.
pub struct Parameters(HashMap<&'static str, (String, &'static str)>);

impl Parameters {
    pub fn gather(url: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let is_set = |name: &&str| environment(name).is_some_and(|value| !value.is_empty());
        if let Some(name) = REFUSED.split_whitespace().find(is_set) {
            let supported = PARAMETERS.map(|(_, name, _)| name);
            let supported = listed(supported.into_iter().filter(|name| !name.is_empty()));
            bail!("{name} is not supported; unset it, or use one of {supported}");
        }
        let variables = PARAMETERS.into_iter().map(|(key, name, _)| (key, name, environment(name)));
        let variables = variables.filter_map(|(key, name, text)| Some((key, name, text?)));
        let in_url = parse(url)?.0.into_iter().map(|(key, text)| (key, key, text));
        let defaults = [("application_name", "backlog"), ("connect_timeout", "10")];
        let mut values = HashMap::from(defaults.map(|(key, text)| (key, (text.into(), key))));
        for (key, source, text) in variables.chain(in_url).filter(|(.., text)| !text.is_empty()) {
            values.insert(key, (text, source));
        }
        for (key, _, legal) in PARAMETERS {
            let Some((text, source)) = values.get(key) else { continue };
            ensure!(is_legal(text, legal), "{source} must be {legal}");
        }
        Ok(Self(values))
    }

    pub fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(|(text, _)| text.as_str())
    }

    pub fn source(&self, key: &'static str) -> &'static str {
        self.0.get(key).map_or(key, |(_, source)| source)
    }

    /// Returns the library's configuration. Its keepalives find a dead server in a minute; the default is two hours.
    pub fn config(&self) -> Result<Config> {
        let keepalives = "keepalives_idle=30 keepalives_interval=10 keepalives_retries=3";
        let mut config = keepalives.to_owned();
        for (key, ..) in &PARAMETERS[FIRST_OF_LIBRARY..] {
            let Some(text) = self.text(key) else { continue };
            let key = if *key == "keepalives_count" { "keepalives_retries" } else { key };
            let text = text.replace('\\', "\\\\").replace('\'', "\\'");
            config += &format!(" {key}='{text}'");
        }
        config.parse().ok().context("the parameters of the connection cannot be combined")
    }
}

/// Parses one port of a list.
pub fn port(text: &str) -> Option<u16> {
    if text.is_empty() { Some(5432) } else { text.parse().ok() }.filter(|port| *port > 0)
}

fn is_legal(text: &str, legal: &str) -> bool {
    match legal {
        "" => true,
        NUMBER => text.parse::<u32>().is_ok(),
        PORTS => text.split(',').all(|text| port(text).is_some()),
        ADDRESSES => text.split(',').all(|text| text.is_empty() || text.parse::<IpAddr>().is_ok()),
        list => list.trim_start_matches("one of: ").split(", ").any(|value| value == text),
    }
}

const UNCLEAR: &str = "the database URL is ambiguous: in user names, passwords, database \
                       names and values, write @ as %40, / as %2F, ? as %3F and & as %26";

/// Splits a URL into `user:password`, `host:port/database` and the query, all still encoded.
fn split(rest: &str) -> Result<(&str, &str, &str)> {
    // Like libpq, the first `@` ends the credentials, unless a `/` precedes it; unlike libpq, a `?` that begins a
    // parameter is never part of them.
    let found = rest.split_once('@').filter(|(credentials, _)| !credentials.contains('/'));
    let (credentials, rest) = found.unwrap_or(("", rest));
    let (location, query) = rest.split_once('?').unwrap_or((rest, ""));
    let begins_parameter =
        |text: &str| text.split_once('=').is_some_and(|(key, _)| known(key).is_some());
    let has_parameter = |text: &str| text.split('?').skip(1).any(begins_parameter);
    let is_unclear = credentials.split(':').next().is_some_and(|user| user.contains('?'))
        || has_parameter(credentials)
        || location.contains('@')
        || query.split('&').any(has_parameter);
    ensure!(!is_unclear, UNCLEAR);
    Ok((credentials, location, query))
}

/// Returns the parameter of this name, which may be percent-encoded.
fn known(key: &str) -> Option<&'static str> {
    let key = decode(key).ok()?;
    PARAMETERS.into_iter().map(|(known, ..)| known).find(|known| *known == key)
}

/// Returns the parameters of a URL, of which the last with a name counts, and the URL as typed without its password.
fn parse(url: &str) -> Result<(Vec<(&'static str, String)>, String)> {
    let (scheme, rest) = split_scheme(url).context("a database URL begins with postgres://")?;
    let (credentials, location, query) = split(rest)?;
    let (authority, database) = location.split_once('/').unwrap_or((location, ""));
    let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
    let (mut hosts, mut ports) = (Vec::new(), Vec::new());
    for part in authority.split(',') {
        let (host, port) = match part.strip_prefix('[') {
            None => part.split_once(':').unwrap_or((part, "")),
            Some(part) => part
                .split_once("]:")
                .or_else(|| Some((part.strip_suffix(']')?, "")))
                .filter(|(host, _)| !host.is_empty())
                .context(
                    "an IPv6 address in the database URL must end with `]`, and only a port may \
                     follow",
                )?,
        };
        hosts.push(host);
        ports.push(port);
    }
    // Not quoted: in a URL without a host, an illegal port may be the password.
    let ports = decode(&ports.join(","))?;
    ensure!(is_legal(&ports, PORTS), "port must be {PORTS}");
    let mut found = vec![
        ("user", decode(user)?),
        ("password", decode(password)?),
        ("host", decode(&hosts.join(","))?),
        ("port", ports),
        ("dbname", decode(database)?),
    ];
    let at = if user.is_empty() { "" } else { "@" };
    let (mut shown, mut sign) = (format!("{scheme}{user}{at}{location}"), "?");
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (key, value) = part.split_once('=').context(
            "a parameter of the database URL has no value; write it as name=value, and & in a \
             value as %26",
        )?;
        let Some(known) = known(key) else {
            // After a password or before an `@`, the name may be the second half of the password.
            let is_safe = key.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
                && !query.contains('@')
                && found.last().is_none_or(|(before, _)| *before != "password");
            let name = if is_safe { format!("the parameter {key}") } else { "a parameter".into() };
            let supported = listed(PARAMETERS.map(|(key, ..)| key));
            bail!("the database URL has {name}, which is not supported; use one of {supported}");
        };
        if known != "password" {
            shown += &format!("{sign}{part}");
            sign = "&";
        }
        found.push((known, decode(value)?));
    }
    Ok((found, shown))
}

fn decode(text: &str) -> Result<String> {
    let is_code = |code: &str| code != "00" && code.bytes().all(|byte| byte.is_ascii_hexdigit());
    ensure!(
        text.split('%').skip(1).all(|after| after.get(..2).is_some_and(is_code)),
        "a % in the database URL must be followed by two hexadecimal digits, not 00; write % itself \
         as %25"
    );
    let decoded = percent_decode_str(text).decode_utf8().ok();
    Ok(decoded.context("the database URL has bytes that are not UTF-8")?.into_owned())
}

const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// Returns the URL as typed without its password; only the scheme of a malformed URL.
pub fn without_password(url: &str) -> String {
    let Some((scheme, _)) = split_scheme(url) else { return url.into() };
    parse(url).map_or_else(|_| format!("{scheme}..."), |(_, shown)| shown)
}

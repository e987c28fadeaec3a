//! Connection parameters: those of a `postgres://` URL, which is read as libpq reads it, then those of a
//! service, and then those of the environment. Also shows a URL without its password. No error quotes the
//! URL: if it is malformed, any part of it may be the password.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::names::listed;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::service;
use crate::store::location::split_scheme;

/// The parameters that a URL may have, by libpq's names, and the variables that stand in for them.
const KNOWN: [(&str, Option<&str>); 32] = [
    ("host", Some("PGHOST")),
    ("hostaddr", Some("PGHOSTADDR")),
    ("port", Some("PGPORT")),
    ("dbname", Some("PGDATABASE")),
    ("user", Some("PGUSER")),
    ("password", Some("PGPASSWORD")),
    ("passfile", Some("PGPASSFILE")),
    ("sslmode", Some("PGSSLMODE")),
    ("sslrootcert", Some("PGSSLROOTCERT")),
    ("sslcert", Some("PGSSLCERT")),
    ("sslkey", Some("PGSSLKEY")),
    ("sslcertmode", Some("PGSSLCERTMODE")),
    ("ssl_min_protocol_version", Some("PGSSLMINPROTOCOLVERSION")),
    ("ssl_max_protocol_version", Some("PGSSLMAXPROTOCOLVERSION")),
    ("sslcrl", Some("PGSSLCRL")),
    ("sslcrldir", Some("PGSSLCRLDIR")),
    ("gssencmode", Some("PGGSSENCMODE")),
    ("requirepeer", Some("PGREQUIREPEER")),
    ("require_auth", Some("PGREQUIREAUTH")),
    ("application_name", Some("PGAPPNAME")),
    ("connect_timeout", Some("PGCONNECT_TIMEOUT")),
    ("options", Some("PGOPTIONS")),
    ("target_session_attrs", Some("PGTARGETSESSIONATTRS")),
    ("channel_binding", Some("PGCHANNELBINDING")),
    ("load_balance_hosts", Some("PGLOADBALANCEHOSTS")),
    ("tcp_user_timeout", None),
    ("keepalives", None),
    ("keepalives_idle", None),
    ("keepalives_interval", None),
    ("keepalives_count", None),
    // The name that the Rust client gives to keepalives_count.
    ("keepalives_retries", None),
    ("service", Some("PGSERVICE")),
];

fn known(key: &str) -> Option<&'static str> {
    KNOWN.into_iter().map(|(known, _)| known).find(|known| *known == key)
}

/// The values, none of them empty. Not to be shown: the password is one of them.
pub struct Parameters {
    values: HashMap<&'static str, Said>,
}

struct Said {
    text: String,
    source: Source,
}

/// Where a parameter comes from.
enum Source {
    Url(&'static str),
    Variable(&'static str),
    /// A parameter, and the name of the service that has it.
    Service(&'static str, String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(name) | Self::Variable(name) => f.write_str(name),
            Self::Service(key, service) => write!(f, "{key} of service {service}"),
        }
    }
}

impl Parameters {
    pub fn gather(url: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let variables = KNOWN.into_iter().filter_map(|(key, by)| {
            let by = by?;
            Some((key, Source::Variable(by), environment(by)?))
        });
        let in_url = parse(url)?.into_iter().map(|(key, text)| (key, Source::Url(key), text));
        let (mut of_environment, mut of_url) = (Self::of(variables)?, Self::of(in_url)?);
        let service = of_environment.values.remove("service");
        if let Some(Said { text, source }) = of_url.values.remove("service").or(service) {
            let of_service = service::read(&text, &source.to_string(), environment)?;
            let of_service = of_service.into_iter().map(|(key, value)| {
                let key = known(&key).with_context(|| {
                    let shown = if is_plain(&key) { &key } else { "a parameter" };
                    format!("service {text} has {shown}, which is not known")
                })?;
                Ok((key, Source::Service(key, text.clone()), value))
            });
            let of_service = of_service.collect::<Result<Vec<_>>>()?;
            of_environment.values.extend(Self::of(of_service)?.values);
        }
        of_environment.values.extend(of_url.values);
        Ok(of_environment)
    }

    fn of(all: impl IntoIterator<Item = (&'static str, Source, String)>) -> Result<Self> {
        let mut values = HashMap::new();
        for (key, source, text) in all.into_iter().filter(|(_, _, text)| !text.is_empty()) {
            ensure!(!text.contains('\0'), "{source} contains a zero byte");
            values.insert(key, Said { text, source });
        }
        Ok(Self { values })
    }

    pub fn text(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(|said| said.text.as_str())
    }

    /// The name of the parameter in the URL or a service, or of the variable, that the value comes from.
    pub fn said_by(&self, key: &str) -> String {
        self.values.get(key).map_or_else(|| key.into(), |said| said.source.to_string())
    }

    pub fn is_in_url(&self, key: &str) -> bool {
        self.values.get(key).is_some_and(|said| matches!(said.source, Source::Url(_)))
    }

    pub fn list(&self, key: &str) -> Vec<&str> {
        self.text(key).map(|text| text.split(',').collect()).unwrap_or_default()
    }

    /// Fails if something is demanded that no connection here would be checked for: what restricts
    /// is obeyed, or it is an error, but never passed over.
    pub fn refuse_unmet_demands(&self) -> Result<()> {
        let no_list = "lists of revoked certificates are not read";
        for (key, why, legal) in [
            ("require_auth", "the way of authentication is the server's to choose", None),
            ("sslcrl", no_list, None),
            ("sslcrldir", no_list, None),
            ("gssencmode", "GSSAPI encryption is not supported", Some(["disable", "prefer"])),
            (
                "sslcertmode",
                "it is not told whether the server asks for a certificate",
                Some(["disable", "allow"]),
            ),
        ] {
            let Some(Said { source, .. }) = self.values.get(key) else { continue };
            let (demand, instead) = match legal {
                None => ("", String::new()),
                Some([one, other]) => {
                    let choices = [("require", false), (one, true), (other, true)];
                    if self.choice(key, &choices)? == Some(true) {
                        continue;
                    }
                    ("=require", format!(", or say {one} or {other}"))
                }
            };
            let way_out = match source {
                Source::Variable(name) => format!("unset {name}"),
                Source::Url(name) => format!("remove {name}= from the URL"),
                Source::Service(key, service) => format!("remove {key}= from service {service}"),
            };
            bail!("{source}{demand} cannot be obeyed: {why}; leave it out ({way_out}){instead}");
        }
        Ok(())
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

    /// What is said, if anything is; `legal` says in the error what it must be. That does not quote
    /// the value: in a URL with a mistake it may be a part of the password.
    pub fn read<T>(
        &self,
        key: &'static str,
        legal: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>> {
        let read =
            |text| parse(text).with_context(|| format!("{} must be {legal}", self.said_by(key)));
        self.text(key).map(read).transpose()
    }

    /// A time that is said in seconds; like libpq, 0 leaves it to the system.
    pub fn seconds(&self, key: &'static str) -> Result<Option<Duration>> {
        let seconds = self.number(key)?.filter(|seconds| *seconds > 0);
        Ok(seconds.map(|seconds| Duration::from_secs(seconds.into())))
    }

    /// The ports, one for each host or one for all.
    pub fn ports(&self) -> Result<Vec<u16>> {
        let port = |text: &str| match text.trim() {
            "" => Ok(5432),
            text => text.parse().ok().filter(|port| *port > 0).with_context(|| {
                let by = self.said_by("port");
                format!("the {by} of the database must be a whole number from 1 to 65535")
            }),
        };
        self.list("port").into_iter().map(port).collect()
    }
}

/// What to do about a URL that libpq would cut in places that nobody meant.
const UNCLEAR: &str = "the database URL is not clear: write the signs of a user, a password, a \
                       database and a value with percent: @ as %40, / as %2F, ? as %3F, & as %26";

/// What stands for something else in a URL.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// What a URL says, under the names of libpq's parameters. The later of two wins, and what is empty
/// leaves the word to the environment.
fn parse(url: &str) -> Result<Vec<(&'static str, String)>> {
    let (_, rest) = split_scheme(url).context("a database URL begins with postgres://")?;
    let (credentials, rest) = split_credentials(rest)?;
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    if place.contains('@') {
        bail!(UNCLEAR);
    }
    let (authority, database) = place.split_once('/').unwrap_or((place, ""));
    let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
    let (hosts, ports) = hosts_and_ports(authority)?;
    let mut said = vec![
        ("user", decode(user)?),
        ("password", decode(password)?),
        ("host", decode(&hosts)?),
        ("port", decode(&ports)?),
        ("dbname", decode(database)?),
    ];
    said.extend(parse_query(query)?);
    Ok(said)
}

/// `user:password` and the rest. Like libpq, the first `@` ends the credentials, if no `/` stands
/// before it; unlike libpq, a `?` that begins a parameter is never part of them.
fn split_credentials(rest: &str) -> Result<(&str, &str)> {
    let found = rest.split_once('@').filter(|(credentials, _)| !credentials.contains('/'));
    let Some((credentials, rest)) = found else { return Ok(("", rest)) };
    let user = credentials.split(':').next().unwrap_or_default();
    if user.contains('?') || credentials.split('?').skip(1).any(begins_parameter) {
        bail!(UNCLEAR);
    }
    Ok((credentials, rest))
}

/// The hosts and the ports, each as a list with commas.
fn hosts_and_ports(authority: &str) -> Result<(String, String)> {
    let (mut hosts, mut ports) = (Vec::new(), Vec::new());
    for part in authority.split(',') {
        let (host, port) = match part.strip_prefix('[') {
            None => part.split_once(':').unwrap_or((part, "")),
            Some(part) => {
                let (host, after) = part
                    .split_once(']')
                    .filter(|(host, _)| !host.is_empty())
                    .context("an IPv6 address in the database URL must end with `]`")?;
                let port = after.strip_prefix(':').or(after.is_empty().then_some(""));
                (host, port.context("after the `]` of the database URL only a port may follow")?)
            }
        };
        hosts.push(host);
        ports.push(port);
    }
    Ok((hosts.join(","), ports.join(",")))
}

fn parse_query(query: &str) -> Result<Vec<(&'static str, String)>> {
    let mut said: Vec<(&'static str, String)> = Vec::new();
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let Some((key, value)) = part.split_once('=') else {
            bail!(
                "a parameter of the database URL has no value; write it as name=value, and the \
                   sign & in a value as %26"
            );
        };
        if value.split('?').skip(1).any(begins_parameter) {
            bail!(UNCLEAR);
        }
        let (key, value) = (decode(key)?, decode(value)?);
        // What JDBC's URLs say, which libpq understands as well.
        if key == "ssl" && value == "true" {
            said.push(("sslmode", "require".into()));
            continue;
        }
        let Some(key) = known(&key) else {
            // A name behind a password, or before an `@`, may be the password's second half.
            let is_safe = is_plain(&key)
                && !query.contains('@')
                && said.last().is_none_or(|(before, _)| *before != "password");
            let key = if is_safe { key } else { String::new() };
            let shown = if is_safe { format!("the parameter {key}") } else { "a parameter".into() };
            let legal = KNOWN.map(|(key, _)| key);
            bail!("the database URL has {shown}, which is not known; legal are {}", listed(legal));
        };
        said.push((key, value));
    }
    Ok(said)
}

/// Whether a key has only letters, digits and signs that are safe to show.
fn is_plain(key: &str) -> bool {
    key.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
}

/// Whether the text is `name=` and more, of a parameter that there is.
fn begins_parameter(text: &str) -> bool {
    text.split_once('=').is_some_and(|(key, _)| decode(key).is_ok_and(|key| known(&key).is_some()))
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

/// A text with percent signs for what would end it in a URL.
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// The URL as it was typed, without its password. Of a malformed one rather too much is left out
/// than too little; what is no URL comes back as it is.
pub fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = split_scheme(url) else {
        return url.into();
    };
    let mut questions = rest.match_indices('?').map(|(at, _)| at);
    let query = questions.find(|at| rest.get(at + 1..).is_some_and(begins_parameter));
    let (place, query) = rest.split_at(query.unwrap_or(rest.len()));
    let up_to_colon = |text: &str| text.split(':').next().unwrap_or_default().to_owned();
    let place = match (place.rsplit_once('@'), rest.rsplit_once('@')) {
        (Some((credentials, place)), _) => match up_to_colon(credentials) {
            user if user.is_empty() => place.to_owned(),
            user => format!("{user}@{place}"),
        },
        (None, Some((_, after))) if may_hide_password(place, query) => {
            return without_password(&format!("{scheme}{}@{after}", up_to_colon(place)));
        }
        (None, None) if may_hide_password(place, query) => up_to_colon(place),
        (None, _) => place.to_owned(),
    };
    format!("{scheme}{place}{}", query_without_password(query))
}

/// Whether what looks like host and port may be user and password, cut too early by a sign.
fn may_hide_password(place: &str, query: &str) -> bool {
    let authority = place.split('/').next().unwrap_or_default();
    let is_port = |ports: String| ports.chars().all(|c| c.is_ascii_digit() || c == ',');
    let has_ports = hosts_and_ports(authority).is_ok_and(|(_, ports)| is_port(ports));
    !has_ports || query.contains('@') && authority == place && authority.contains(':')
}

/// `?a=b&c=d` without the password and whatever may be a part of it.
fn query_without_password(query: &str) -> String {
    let mut shown = String::new();
    let mut is_password = false;
    for part in query.split(['?', '&']) {
        if begins_parameter(part) {
            let key = part.split('=').next().and_then(|key| decode(key).ok());
            is_password = key.as_deref() == Some("password");
        }
        if !is_password && !part.is_empty() {
            shown.push(if shown.is_empty() { '?' } else { '&' });
            shown.push_str(part);
        }
    }
    shown
}

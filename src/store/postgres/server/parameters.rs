//! Connection parameters: those of the URL, and where that is silent, those of the environment; the
//! password also from the password file, by libpq's rules.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::url;

/// The parameters that a URL may have, by libpq's names, and the variables that stand in for them.
pub const KNOWN: [(&str, Option<&str>); 32] = [
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

pub fn known(key: &str) -> Option<&'static str> {
    KNOWN.into_iter().map(|(known, _)| known).find(|known| *known == key)
}

pub fn legal() -> String {
    KNOWN.map(|(key, _)| key).join(", ")
}

/// The values, none of them empty. Not to be shown: the password is one of them.
pub struct Parameters {
    values: HashMap<&'static str, Said>,
}

struct Said {
    text: String,
    /// The parameter of the URL, or the variable.
    by: &'static str,
}

impl Said {
    /// How to take it back.
    fn way_out(&self) -> String {
        if self.by.starts_with("PG") {
            format!("unset {}", self.by)
        } else {
            format!("remove {}= from the URL", self.by)
        }
    }
}

impl Parameters {
    pub fn gather(url: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let mut values = HashMap::new();
        for (key, variable) in KNOWN {
            let Some(by) = variable else { continue };
            if let Some(text) = environment(by).filter(|text| !text.is_empty()) {
                if text.contains('\0') {
                    bail!("{by} contains a zero byte");
                }
                values.insert(key, Said { text, by });
            }
        }
        for (key, text) in url::parse(url)? {
            if !text.is_empty() {
                values.insert(key, Said { text, by: key });
            }
        }
        if let Some(said) = values.remove("service") {
            log::warn!("{} is not used: service files are not supported", said.by);
        }
        Ok(Self { values })
    }

    pub fn text(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(|said| said.text.as_str())
    }

    /// Which parameter of the URL or which variable said it.
    pub fn said_by(&self, key: &'static str) -> &'static str {
        self.values.get(key).map_or(key, |said| said.by)
    }

    /// The parts of a list with commas; none if nothing is said.
    pub fn list(&self, key: &str) -> Vec<&str> {
        self.text(key).map(|text| text.split(',').collect()).unwrap_or_default()
    }

    /// Fails if something is demanded that no connection here would be checked for: what restricts
    /// is obeyed, or it is an error, but never passed over.
    pub fn refuse_unmet_demands(&self) -> Result<()> {
        let demands = [
            ("require_auth", "the way of authentication is the server's to choose"),
            ("sslcrl", "lists of revoked certificates are not read"),
            ("sslcrldir", "lists of revoked certificates are not read"),
        ];
        for (key, why) in demands {
            if let Some(said) = self.values.get(key) {
                bail!("{} cannot be obeyed: {why}; leave it out ({})", said.by, said.way_out());
            }
        }
        for (key, why, legal) in [
            ("gssencmode", "GSSAPI encryption is not supported", ["disable", "prefer"]),
            (
                "sslcertmode",
                "it is not told whether the server asks for a certificate",
                ["disable", "allow"],
            ),
        ] {
            let choices = [("require", false), (legal[0], true), (legal[1], true)];
            if let (Some(false), Some(said)) = (self.choice(key, &choices)?, self.values.get(key)) {
                bail!(
                    "{}=require cannot be obeyed: {why}; leave it out ({}), or say {}",
                    said.by,
                    said.way_out(),
                    legal.join(" or ")
                );
            }
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

/// The lines of a password file. Not to be shown.
pub struct PassFile {
    pub path: PathBuf,
    text: String,
}

impl PassFile {
    /// None if there is none, or one that others may read: such a file is not used, so that
    /// nobody gets used to it.
    pub fn read(path: &Path) -> Option<Self> {
        let found = fs::metadata(path).ok()?;
        let shown = path.display();
        if !found.is_file() {
            log::warn!("the password file {shown} is not used: it is no plain file");
            return None;
        }
        if found.permissions().mode() & 0o077 != 0 {
            log::warn!(
                "the password file {shown} is not used: group or others have access to it; \
                 `chmod 600 {shown}` mends that"
            );
            return None;
        }
        let warn = |error: &_| log::warn!("could not read the password file {shown}: {error}");
        let bytes = fs::read(path).inspect_err(warn).ok()?;
        Some(Self { path: path.into(), text: String::from_utf8_lossy(&bytes).into_owned() })
    }

    /// The password of the first line that fits one of the host's names.
    pub fn password(
        &self,
        hosts: &[&str],
        port: u16,
        database: &str,
        user: &str,
    ) -> Option<String> {
        let port = port.to_string();
        let mut lines = self.text.lines().filter(|line| !line.starts_with('#'));
        let password = lines.find_map(|line| {
            let rest = hosts.iter().find_map(|host| strip_field(line, host))?;
            [&port, database, user].into_iter().try_fold(rest, strip_field)
        })?;
        // A comment may follow it.
        Some(split_field(password).0).filter(|password| !password.is_empty())
    }
}

/// What follows a field and its colon, if the field is `*` or this value.
fn strip_field<'a>(line: &'a str, value: &str) -> Option<&'a str> {
    if let Some(rest) = line.strip_prefix("*:") {
        return Some(rest);
    }
    let (field, rest) = split_field(line);
    rest.filter(|_| field == value)
}

/// The field up to the next colon, without its backslashes, and what follows the colon.
fn split_field(text: &str) -> (String, Option<&str>) {
    let mut field = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            ':' => return (field, Some(chars.as_str())),
            '\\' => field.push(chars.next().unwrap_or('\\')),
            c => field.push(c),
        }
    }
    (field, None)
}

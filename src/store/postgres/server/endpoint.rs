//! The hosts of a URL: where each listens, and its password, by libpq's rules also from the file.

use std::fs;
use std::net::{IpAddr, ToSocketAddrs};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::connection::Address;
use super::failure::Refusal;
use super::parameters::{Parameters, encode};
use crate::secure_file;
use crate::system_error::words;

/// Where PostgreSQL has its sockets: as Debian builds it, and as its source says.
const SOCKET_DIRECTORIES: [&str; 2] = ["/var/run/postgresql", "/tmp"];

pub struct Endpoint {
    pub place: Place,
    pub port: u16,
    pub password: Option<Password>,
}

pub enum Place {
    Socket(String),
    /// The name is that of the certificate, and what is looked up may be an address.
    Tcp {
        name: String,
        looked_up: String,
    },
}

/// Not to be shown.
#[derive(Clone)]
pub struct Password {
    pub secret: String,
    /// What it was read from, for messages.
    pub from: String,
}

impl Endpoint {
    /// For messages and for the identity.
    pub fn shown(&self) -> String {
        let host = match &self.place {
            Place::Socket(directory) => encode(directory),
            Place::Tcp { name, .. } if name.contains(':') => format!("[{name}]"),
            Place::Tcp { name, .. } => encode(&name.to_ascii_lowercase()),
        };
        format!("{host}:{}", self.port)
    }

    pub fn addresses(&self) -> Result<Vec<Address>, Refusal> {
        let (name, looked_up) = match &self.place {
            Place::Socket(at) => return Ok(vec![Address::Unix(socket_in(at, self.port))]),
            Place::Tcp { name, looked_up } => (name, looked_up.as_str()),
        };
        let found = (looked_up, self.port).to_socket_addrs().map_err(|error| {
            let cause = words(&error);
            // The resolver's words for EAI_AGAIN, of glibc and of musl.
            let passes = ["temporary failure", "try again"].iter().any(|it| cause.contains(it));
            if passes { Refusal::no_answer(cause) } else { Refusal::unknown_host(cause) }
        })?;
        Ok(found.map(|at| Address::Tcp(at, name.clone())).collect())
    }

    /// The names that a line of the password file may have.
    fn pass_file_names(&self) -> Vec<&str> {
        match &self.place {
            Place::Socket(directory) if SOCKET_DIRECTORIES.contains(&directory.as_str()) => {
                vec!["localhost", directory]
            }
            Place::Socket(directory) => vec![directory],
            Place::Tcp { name, .. } => vec![name],
        }
    }
}

pub fn endpoints(
    parameters: &Parameters,
    home: Option<&Path>,
    user: &str,
    database: &str,
) -> Result<Vec<Endpoint>> {
    let (hosts, addresses) = (parameters.list("host"), parameters.list("hostaddr"));
    let ports = parameters.ports()?;
    let count = hosts.len().max(addresses.len()).max(1);
    for (key, found) in
        [("host", hosts.len()), ("hostaddr", addresses.len()), ("port", ports.len())]
    {
        let is_for_all = key == "port" && found == 1;
        if found != 0 && found != count && !is_for_all {
            let by = parameters.said_by(key);
            bail!("{by} has a list of {found}, and there are {count} hosts");
        }
    }
    let said = parameters.text("password").map(|secret| {
        let from = match parameters.is_in_url("password") {
            true => "the URL".into(),
            false => parameters.said_by("password"),
        };
        Password { secret: secret.into(), from }
    });
    let path = parameters.text("passfile").map(PathBuf::from);
    let path = path.or_else(|| home.map(|home| home.join(".pgpass"))).filter(|_| said.is_none());
    let file = path.and_then(|path| Some((read_password_file(&path)?, path)));
    let endpoint = |index: usize| {
        let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
        let host = hosts.get(index).copied().unwrap_or_default();
        let address = addresses.get(index).filter(|address| !address.is_empty());
        let address = address.map(|it| it.parse::<IpAddr>().map(|it| it.to_string())).transpose();
        let Ok(address) = address else {
            bail!("{} must be an IP address", parameters.said_by("hostaddr"));
        };
        let place = match (host, address) {
            ("", None) => default_place(&SOCKET_DIRECTORIES, port),
            // The certificate has to be for the address then.
            ("", Some(address)) => Place::Tcp { name: address.clone(), looked_up: address },
            (host, None) if host.starts_with('/') => Place::Socket(host.into()),
            (host, address) => {
                let looked_up = address.unwrap_or_else(|| host.into());
                Place::Tcp { name: host.into(), looked_up }
            }
        };
        let mut endpoint = Endpoint { place, port, password: None };
        // What is said is for all hosts, and in a file each has its own line.
        endpoint.password = said.clone().or_else(|| {
            let (text, path) = file.as_ref()?;
            let secret = password_in(text, &endpoint, database, user)?;
            Some(Password { secret, from: path.display().to_string() })
        });
        Ok(endpoint)
    };
    (0..count).map(endpoint).collect()
}

fn socket_in(directory: &str, port: u16) -> PathBuf {
    Path::new(directory).join(format!(".s.PGSQL.{port}"))
}

/// The first directory that has the socket of a server.
pub fn default_place(directories: &[&str], port: u16) -> Place {
    match directories.iter().find(|directory| socket_in(directory, port).exists()) {
        Some(directory) => Place::Socket((*directory).into()),
        None => Place::Tcp { name: "localhost".into(), looked_up: "localhost".into() },
    }
}

/// The password in the first line of a password file that fits.
fn password_in(text: &str, endpoint: &Endpoint, database: &str, user: &str) -> Option<String> {
    let port = endpoint.port.to_string();
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let password = lines.find_map(|line| {
        let mut hosts = endpoint.pass_file_names().into_iter();
        let rest = hosts.find_map(|host| strip_field(line, host))?;
        [&port, database, user].into_iter().try_fold(rest, strip_field)
    })?;
    // A comment may follow it.
    Some(split_field(password).0).filter(|password| !password.is_empty())
}

/// None if there is none, or one that others may read: nobody is to get used to that.
fn read_password_file(path: &Path) -> Option<String> {
    let found = fs::metadata(path).ok()?;
    let shown = path.display();
    if !found.is_file() {
        log::warn!("the password file {shown} is not used: it is no plain file");
        return None;
    }
    if found.mode() & 0o077 != 0 {
        log::warn!(
            "the password file {shown} is not used: group or others have access to it; \
             `chmod 600 {shown}` mends that"
        );
        return None;
    }
    let warn = |error: &_| {
        log::warn!("could not read the password file {shown}: {}", words(error));
    };
    let (bytes, _) = secure_file::read(path).inspect_err(warn).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
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

//! The hosts of a URL: where each listens, and which password it gets.

use std::net::{IpAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::failure::Refusal;
use super::parameters::{Parameters, PassFile};
use super::url;

/// Where PostgreSQL has its sockets: as Debian builds it, and as its source says.
const SOCKET_DIRECTORIES: [&str; 2] = ["/var/run/postgresql", "/tmp"];

/// One host of a list.
pub struct Endpoint {
    pub place: Place,
    pub port: u16,
    pub password: Option<Password>,
}

pub enum Place {
    Socket(String),
    /// The address is looked up unless it is given.
    Tcp {
        name: String,
        address: Option<IpAddr>,
    },
}

pub struct Password {
    pub secret: String,
    /// What it was read from, for messages.
    pub from: String,
}

impl Endpoint {
    /// For messages and for the identity.
    pub fn shown(&self) -> String {
        let host = match &self.place {
            Place::Socket(directory) => url::encode(directory),
            Place::Tcp { name, .. } if name.contains(':') => format!("[{name}]"),
            Place::Tcp { name, .. } => url::encode(&name.to_ascii_lowercase()),
        };
        format!("{host}:{}", self.port)
    }

    /// The names that a line of the password file may have.
    fn names(&self) -> Vec<&str> {
        match &self.place {
            Place::Socket(directory) if SOCKET_DIRECTORIES.contains(&directory.as_str()) => {
                vec!["localhost", directory]
            }
            Place::Socket(directory) => vec![directory],
            Place::Tcp { name, .. } => vec![name],
        }
    }
}

/// The hosts, without passwords.
pub fn endpoints(parameters: &Parameters) -> Result<Vec<Endpoint>> {
    let (hosts, addresses) = (parameters.list("host"), parameters.list("hostaddr"));
    let ports = parameters.ports()?;
    let count = hosts.len().max(addresses.len()).max(1);
    for (key, found, may_be_one) in [
        ("host", hosts.len(), false),
        ("hostaddr", addresses.len(), false),
        ("port", ports.len(), true),
    ] {
        if found != 0 && found != count && !(may_be_one && found == 1) {
            let by = parameters.said_by(key);
            bail!("{by} has a list of {found}, and there are {count} hosts");
        }
    }
    let endpoint = |index: usize| {
        let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
        let address = match addresses.get(index).copied().unwrap_or_default() {
            "" => None,
            text => Some(text.parse::<IpAddr>().ok().with_context(|| {
                format!("{} must be an IP address", parameters.said_by("hostaddr"))
            })?),
        };
        let place = match (hosts.get(index).copied().unwrap_or_default(), address) {
            ("", None) => default_place(&SOCKET_DIRECTORIES, port),
            // The certificate has to be for the address then.
            ("", Some(address)) => Place::Tcp { name: address.to_string(), address: Some(address) },
            (host, None) => place(host),
            (host, address) => Place::Tcp { name: host.into(), address },
        };
        Ok(Endpoint { place, port, password: None })
    };
    (0..count).map(endpoint).collect()
}

fn place(host: &str) -> Place {
    match host.starts_with('/') {
        true => Place::Socket(host.into()),
        false => Place::Tcp { name: host.into(), address: None },
    }
}

/// The first directory that has the socket of a server.
pub fn default_place(directories: &[&str], port: u16) -> Place {
    let has_socket =
        |directory: &&&str| Path::new(directory).join(format!(".s.PGSQL.{port}")).exists();
    place(directories.iter().find(has_socket).copied().unwrap_or("localhost"))
}

/// The password that is said is for all hosts; of the password file each host has its own line.
pub fn give_passwords(
    endpoints: &mut [Endpoint],
    parameters: &Parameters,
    home: Option<&Path>,
    user: &str,
    database: &str,
) {
    if let Some(secret) = parameters.text("password") {
        let from = match parameters.said_by("password") {
            "password" => "the URL",
            variable => variable,
        };
        for endpoint in endpoints {
            endpoint.password = Some(Password { secret: secret.into(), from: from.into() });
        }
        return;
    }
    let path = parameters.text("passfile").map(PathBuf::from);
    let path = path.or_else(|| home.map(|home| home.join(".pgpass")));
    let Some(file) = path.and_then(|path| PassFile::read(&path)) else {
        return;
    };
    for endpoint in endpoints {
        let secret = file.password(&endpoint.names(), endpoint.port, database, user);
        let from = file.path.display().to_string();
        endpoint.password = secret.map(|secret| Password { secret, from });
    }
}

pub fn look_up(host: &str, port: u16) -> Result<Vec<IpAddr>, Refusal> {
    let found = (host, port).to_socket_addrs().map_err(|error| {
        let cause = error.to_string();
        // The resolver's words for EAI_AGAIN, of glibc and of musl.
        let is_temporary = ["Temporary failure", "Try again"].iter().any(|it| cause.contains(it));
        if is_temporary { Refusal::no_answer(cause) } else { Refusal::unknown_host(cause) }
    })?;
    Ok(found.map(|address| address.ip()).collect())
}

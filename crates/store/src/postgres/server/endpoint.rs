//! The hosts of a URL: the address of each, and its password, by libpq's rules also from the password file.

use std::fs;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, ensure};

use super::failure::{Kind, Refusal};
use super::parameters::{Parameters, encode, ports};
use crate::secure_file;
use crate::system_error::words;

/// Where PostgreSQL has its sockets: as Debian builds it, and as its source says.
const SOCKET_DIRECTORIES: [&str; 2] = ["/var/run/postgresql", "/tmp"];

pub struct Endpoint {
    /// The directory of the socket, or the name in the certificate.
    pub host: String,
    hostaddr: Option<IpAddr>,
    pub port: u16,
    pub password: Option<Password>,
}

/// Not to be shown.
#[derive(Clone)]
pub struct Password {
    pub secret: String,
    /// What it was read from, for messages.
    pub from: String,
}

#[derive(Clone)]
pub enum Address {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

impl Endpoint {
    pub fn is_socket(&self) -> bool {
        self.host.starts_with('/')
    }

    /// For messages and for the identity.
    pub fn shown(&self) -> String {
        let host = match &self.host {
            host if self.is_socket() => encode(host),
            host if host.contains(':') => format!("[{host}]"),
            host => encode(&host.to_ascii_lowercase()),
        };
        format!("{host}:{}", self.port)
    }

    pub fn addresses(&self) -> Result<Vec<Address>, Refusal> {
        if self.is_socket() {
            return Ok(vec![Address::Unix(socket_in(&self.host, self.port))]);
        }
        if let Some(ip) = self.hostaddr {
            return Ok(vec![Address::Tcp((ip, self.port).into())]);
        }
        // The error does not say whether the name is unknown or the resolver is out of reach.
        let found = (self.host.as_str(), self.port).to_socket_addrs().map_err(|error| {
            Refusal::new(Kind::Passing, words(&error), "; check the name of the host")
        })?;
        Ok(found.map(Address::Tcp).collect())
    }
}

pub fn endpoints(
    parameters: &Parameters,
    home: Option<&Path>,
    user: &str,
    database: &str,
) -> Result<Vec<Endpoint>> {
    let (hosts, addresses) = (parameters.list("host"), parameters.list("hostaddr"));
    let ports = parameters.read("port", "a whole number from 1 to 65535", ports)?;
    let ports = ports.unwrap_or_default();
    let count = hosts.len().max(addresses.len()).max(1);
    for (key, found) in
        [("host", hosts.len()), ("hostaddr", addresses.len()), ("port", ports.len())]
    {
        let is_legal = [0, count].contains(&found) || key == "port" && found == 1;
        let source = parameters.source(key);
        ensure!(is_legal, "{source} has a list of {found}, and there are {count} hosts");
    }
    let stated = parameters.text("password").map(|secret| {
        let source = parameters.source("password");
        let from = if source == "password" { "the URL" } else { source };
        Password { secret: secret.into(), from: from.into() }
    });
    let path = parameters.text("passfile").map(PathBuf::from);
    let path = path.or_else(|| home.map(|home| home.join(".pgpass"))).filter(|_| stated.is_none());
    let file = path.and_then(|path| Some((read_password_file(&path)?, path)));
    let endpoint = |index: usize| {
        let hostaddr = addresses.get(index).filter(|address| !address.is_empty());
        let hostaddr = hostaddr.map(|address| address.parse::<IpAddr>()).transpose();
        let source = parameters.source("hostaddr");
        let hostaddr = hostaddr.map_err(|_| anyhow!("{source} must be an IP address"))?;
        let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
        let host = match (hosts.get(index).copied().unwrap_or_default(), hostaddr) {
            ("", None) => default_host(&SOCKET_DIRECTORIES, port).into(),
            // The certificate has to be for the address then.
            ("", Some(address)) => address.to_string(),
            (host, _) => host.to_owned(),
        };
        // A stated password is for all hosts, and in a file each has its own line.
        let password = stated.clone().or_else(|| {
            let (text, path) = file.as_ref()?;
            let secret = password_in(text, [&host, &port.to_string(), database, user])?;
            Some(Password { secret, from: path.display().to_string() })
        });
        Ok(Endpoint { host, hostaddr, port, password })
    };
    (0..count).map(endpoint).collect()
}

fn socket_in(directory: &str, port: u16) -> PathBuf {
    Path::new(directory).join(format!(".s.PGSQL.{port}"))
}

/// The first directory that has the socket of a server.
pub fn default_host<'a>(directories: &[&'a str], port: u16) -> &'a str {
    let directory = directories.iter().find(|directory| socket_in(directory, port).exists());
    directory.copied().unwrap_or("localhost")
}

/// The password in the first line of a password file that fits.
fn password_in(text: &str, wanted: [&str; 4]) -> Option<String> {
    let is_localhost = SOCKET_DIRECTORIES.contains(&wanted[0]);
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let password = lines.find_map(|line| {
        wanted.iter().enumerate().try_fold(line, |line, (index, wanted)| {
            let (field, rest) = split_field(line);
            let fits = field == *wanted || index == 0 && is_localhost && field == "localhost";
            line.strip_prefix("*:").or(rest.filter(|_| fits))
        })
    })?;
    // A comment may follow it.
    Some(split_field(password).0).filter(|password| !password.is_empty())
}

/// None if there is no file, or one that others may read.
fn read_password_file(path: &Path) -> Option<String> {
    let mode = fs::metadata(path).ok()?.permissions().mode();
    let shown = path.display();
    let (why, text) = match secure_file::read(path) {
        _ if mode & 0o077 != 0 => {
            (format!("group or others have access to it; `chmod 600 {shown}` mends that"), None)
        }
        Ok((bytes, _)) => (String::new(), Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) => (words(&error), None),
    };
    if text.is_none() {
        log::warn!("the password file {shown} is not used: {why}");
    }
    text
}

/// The field up to the next colon, without its backslashes, and the text after the colon.
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

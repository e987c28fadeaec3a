//! The hosts of a URL, each with its addresses and its password. By libpq's rules that may come from the password file.

use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, ensure};
use backlog_schedule::counted;
use tokio_postgres::config::Config;

use super::parameters::{Parameters, encode, port};
use crate::ownership::user_name;
use crate::secure_file::{self, OTHERS_WRITE, is_trusted};
use crate::system_error::reason;

/// The default socket directories: of Debian's packages, and of PostgreSQL's source.
const SOCKET_DIRECTORIES: [&str; 2] = ["/var/run/postgresql", "/tmp"];

pub struct Endpoint {
    /// The directory of the socket, or the host name, which the certificate must have.
    pub host: String,
    hostaddr: Option<IpAddr>,
    pub port: u16,
    /// The source of the password, for messages.
    pub password_from: Option<String>,
    pub config: Config,
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

    pub fn addresses(&self) -> io::Result<Vec<Address>> {
        if self.is_socket() {
            return Ok(vec![Address::Unix(socket_in(&self.host, self.port))]);
        }
        if let Some(ip) = self.hostaddr {
            return Ok(vec![Address::Tcp((ip, self.port).into())]);
        }
        Ok((self.host.as_str(), self.port).to_socket_addrs()?.map(Address::Tcp).collect())
    }
}

/// As in a URL, with percent signs.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = match &self.host {
            host if self.is_socket() => encode(host),
            host if host.contains(':') => format!("[{host}]"),
            host => encode(&host.to_ascii_lowercase()),
        };
        write!(f, "{host}:{}", self.port)
    }
}

/// Returns the hosts, each with `config` and its password. The default password file is in `home`.
pub fn endpoints(
    parameters: &Parameters,
    home: Option<&Path>,
    config: &Config,
) -> Result<Vec<Arc<Endpoint>>> {
    let list = |key| parameters.text(key).map_or(Vec::new(), |text| text.split(',').collect());
    let [hosts, addresses, ports] = ["host", "hostaddr", "port"].map(list);
    let count = hosts.len().max(addresses.len()).max(1);
    for (key, found) in [("host", &hosts), ("hostaddr", &addresses), ("port", &ports)] {
        let (source, found) = (parameters.source(key), found.len());
        let is_legal = [0, count].contains(&found) || key == "port" && found == 1;
        let found = counted(found as u64, "value");
        ensure!(is_legal, "{source} has {found} for {count} hosts");
    }
    // A password of the URL or a variable is for all hosts; the password file has one for each.
    let stated = config.get_password().map(|_| match parameters.source("password") {
        "password" => "the URL".to_owned(),
        variable => variable.into(),
    });
    let path = parameters.text("passfile").map(PathBuf::from);
    let path = path.or_else(|| Some(home?.join(".pgpass"))).filter(|_| stated.is_none());
    let file = path.and_then(|path| Some((read_password_file(&path)?, path)));
    let endpoint = |index: usize| {
        let hostaddr = addresses.get(index).and_then(|address| address.parse::<IpAddr>().ok());
        let port = ports.get(index).or(ports.first()).and_then(|text| port(text)).unwrap_or(5432);
        let host = match (hosts.get(index).copied().unwrap_or_default(), hostaddr) {
            ("", None) => default_host(&SOCKET_DIRECTORIES, port).into(),
            // The certificate must be for the address then.
            ("", Some(address)) => address.to_string(),
            (host, _) => host.to_owned(),
        };
        let (mut config, mut password_from) = (config.clone(), stated.clone());
        if let (Some((text, path)), Some(user), Some(database)) =
            (&file, config.get_user(), config.get_dbname())
            && let Some(secret) = password_in(text, [&host, &port.to_string(), database, user])
        {
            config.password(secret);
            password_from = Some(path.display().to_string());
        }
        Arc::new(Endpoint { host, hostaddr, port, password_from, config })
    };
    Ok((0..count).map(endpoint).collect())
}

fn socket_in(directory: &str, port: u16) -> PathBuf {
    Path::new(directory).join(format!(".s.PGSQL.{port}"))
}

pub fn default_host<'a>(directories: &[&'a str], port: u16) -> &'a str {
    let is_server = |directory: &&&str| {
        let found = [socket_in(directory, port), directory.into()].map(fs::metadata);
        let [Ok(socket), Ok(directory)] = found else { return false };
        // In /tmp any user can make a socket, and would get the password.
        let (is_shared, owner) = (directory.mode() & OTHERS_WRITE != 0, socket.uid());
        !is_shared || is_trusted(owner) || user_name(owner).as_deref() == Some("postgres")
    };
    directories.iter().find(is_server).copied().unwrap_or("localhost")
}

fn password_in(text: &str, mut wanted: [&str; 4]) -> Option<String> {
    if SOCKET_DIRECTORIES.contains(&wanted[0]) {
        wanted[0] = "localhost";
    }
    let lines = text.lines().filter(|line| !line.starts_with('#')).map(fields);
    let matches = |fields: &Vec<String>| {
        let mut pairs = fields.iter().zip(wanted);
        fields.len() > 4 && pairs.all(|(field, wanted)| field == "*" || field == wanted)
    };
    // A comment may follow the password.
    let password = lines.filter(matches).find_map(|fields| fields.into_iter().nth(4))?;
    Some(password).filter(|password| !password.is_empty())
}

/// Splits a line at colons, and removes backslashes.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut field, mut chars) = (Vec::new(), String::new(), line.chars());
    while let Some(c) = chars.next() {
        match c {
            ':' => fields.push(std::mem::take(&mut field)),
            '\\' => field.push(chars.next().unwrap_or('\\')),
            c => field.push(c),
        }
    }
    fields.push(field);
    fields
}

/// Returns `None` if there is no file, or if others may read it.
fn read_password_file(path: &Path) -> Option<String> {
    let shown = path.display();
    let why = match secure_file::read(path) {
        Ok((_, found)) if found.permissions().mode() & 0o077 != 0 => {
            format!("group or others have access to it; `chmod 600 {shown}` fixes that")
        }
        Ok((bytes, _)) => return Some(String::from_utf8_lossy(&bytes).into_owned()),
        Err(_) if !path.exists() => return None,
        Err(error) => reason(&error),
    };
    log::warn!("the password file {shown} is not used: {why}");
    None
}

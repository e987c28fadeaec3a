//! Connections by the rules of libpq, from a URL and the environment, so that what works with
//! `psql` works here.

mod endpoint;
mod failure;
mod parameters;
#[cfg(test)]
mod tests;
mod tls;
mod url;

use std::hash::{BuildHasher, RandomState};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use std::{fmt, thread};

use anyhow::{Context, Result};
use nix::unistd::{Uid, User};
use postgres::config::{ChannelBinding, Config, SslMode, TargetSessionAttrs};
use postgres::{CancelToken, Client, Error as SqlError, NoTls};
use rustix::net::{Shutdown, shutdown};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::socket::Peer;
use crate::lock::lock;
use crate::store::Interrupter;
use endpoint::{Endpoint, Place, endpoints, give_passwords, look_up};
use failure::{Reason, Refusal, failure};
use parameters::Parameters;
use tls::Mode;

pub use url::without_password;

/// How long one host may take to let us in, unless the user says otherwise.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A database, and all it takes to connect to it.
pub struct Server {
    endpoints: Vec<Endpoint>,
    user: String,
    database: String,
    /// All that is the same for every host.
    config: Config,
    /// The limit for each address.
    timeout: Option<Duration>,
    is_shuffled: bool,
    mode: Mode,
    /// None if no connection can have TLS.
    tls: Option<MakeRustlsConnect>,
    /// The connections that are open.
    lines: Lines,
}

/// Without the password.
impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({})", self.shown())
    }
}

impl Server {
    /// Connects to nothing yet. What the URL leaves open comes from the variables that libpq
    /// knows, then from libpq's defaults.
    pub fn new(url: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let parameters = Parameters::gather(url, environment)?;
        parameters.refuse_unmet_demands()?;
        let home = environment("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
        let user = match parameters.text("user") {
            Some(user) => user.to_owned(),
            None => own_name()?,
        };
        let database = parameters.text("dbname").unwrap_or(&user).to_owned();
        let mut endpoints = endpoints(&parameters)?;
        give_passwords(&mut endpoints, &parameters, home.as_deref(), &user, &database);
        let mode = Mode::of(&parameters)?;
        let versions = tls::versions(&parameters)?;
        let has_tls = mode != Mode::Disable
            && endpoints.iter().any(|endpoint| matches!(endpoint.place, Place::Tcp { .. }));
        let connector = || tls::connector(mode, &versions, &parameters, home.as_deref());
        let tls = has_tls.then(connector).transpose()?;
        let timeout = match parameters.text("connect_timeout") {
            Some(_) => parameters.seconds("connect_timeout")?,
            None => Some(CONNECT_TIMEOUT),
        };
        let is_shuffled = parameters
            .choice("load_balance_hosts", &[("disable", false), ("random", true)])?
            .unwrap_or(false);
        let mut config = common_config(&parameters)?;
        config.user(&user).dbname(&database);
        if let Some(timeout) = timeout {
            config.connect_timeout(timeout);
        }
        let lines = Lines::default();
        Ok(Self { endpoints, user, database, config, timeout, is_shuffled, mode, tls, lines })
    }

    /// Opens a connection to the first host that is within reach. Says what it leads to. An error that
    /// may pass with the time is one to try again later.
    pub fn connect(&self) -> Result<(Client, Peer)> {
        let mut refusals = Vec::new();
        for endpoint in in_order(&self.endpoints, self.is_shuffled) {
            match self.connect_to(endpoint) {
                Ok(connected) => return Ok(connected),
                Err(refusal) if refusal.reason.is_of_this_host() => {
                    refusals.push((endpoint.shown(), refusal));
                }
                Err(refusal) => {
                    let from = endpoint.password.as_ref().map_or("", |password| &password.from);
                    refusals = vec![(endpoint.shown(), refusal.with_password_from(from))];
                    break;
                }
            }
        }
        Err(failure(&self.shown(), &refusals))
    }

    /// Where the database is, for messages.
    pub fn shown(&self) -> String {
        let user = url::encode(&self.user);
        match &self.endpoints[..] {
            [Endpoint { place: Place::Socket(directory), port, .. }] => {
                let database = url::encode(&self.database);
                format!("postgres://{user}@/{database}?host={directory}&port={port}")
            }
            _ => format!("postgres://{user}@{}", self.identity()),
        }
    }

    /// What tells this database from others, whoever connects to it.
    pub fn identity(&self) -> String {
        let hosts: Vec<_> = self.endpoints.iter().map(Endpoint::shown).collect();
        format!("{}/{}", hosts.join(","), url::encode(&self.database))
    }

    fn connect_to(&self, endpoint: &Endpoint) -> Result<(Client, Peer), Refusal> {
        let mut config = self.config.clone();
        config.port(endpoint.port);
        if let Some(password) = &endpoint.password {
            config.password(&password.secret);
        }
        let (name, addresses) = match &endpoint.place {
            Place::Socket(directory) => {
                config.host_path(directory);
                let connected = self.attempt(&config, SslMode::Disable);
                return connected.map(|client| (client, Peer::socket(endpoint.port)));
            }
            Place::Tcp { name, address: Some(address) } => (name, vec![*address]),
            Place::Tcp { name, address: None } => (name, look_up(name, endpoint.port)?),
        };
        let mut refused = Refusal::new(Reason::UnknownHost, "the host has no address");
        for address in in_order(&addresses, self.is_shuffled) {
            let mut config = config.clone();
            config.host(name).hostaddr(*address);
            match self.negotiate(&config) {
                Ok(client) => return Ok((client, Peer::tcp(*address, endpoint.port))),
                Err(refusal) => refused = refusal,
            }
            if !refused.reason.is_of_this_host() {
                break;
            }
        }
        Err(refused)
    }

    /// Connects with TLS or without, and the other way round where the mode leaves that open.
    fn negotiate(&self, config: &Config) -> Result<Client, Refusal> {
        let (first, second) = match self.mode {
            Mode::Disable => (SslMode::Disable, None),
            Mode::Allow => (SslMode::Disable, Some(SslMode::Require)),
            Mode::Prefer => (SslMode::Prefer, Some(SslMode::Disable)),
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => (SslMode::Require, None),
        };
        match (self.attempt(config, first), second) {
            (Err(refused), Some(second)) if refused.reason.may_differ_without_tls() => {
                self.attempt(config, second).map_err(|again| refused.or_second(again))
            }
            (connected, _) => connected,
        }
    }

    fn attempt(&self, config: &Config, mode: SslMode) -> Result<Client, Refusal> {
        let mut config = config.clone();
        config.ssl_mode(mode);
        let tls = self.tls.clone();
        let connect = move || match tls {
            Some(tls) => config.connect(tls),
            None => config.connect(NoTls),
        };
        let Some(timeout) = self.timeout else {
            return connect().map_err(|error| Refusal::of(&error));
        };
        within(timeout, connect)
    }
}

/// Runs it on another thread, because the crate's own limit ends with the TCP connection: a server
/// that accepts one and then says nothing would hold the program for ever.
fn within(
    limit: Duration,
    connect: impl FnOnce() -> Result<Client, SqlError> + Send + 'static,
) -> Result<Client, Refusal> {
    let (sender, receiver) = mpsc::channel();
    // Nobody receives it if it came too late, and then the connection is closed.
    let run = move || drop(sender.send(connect()));
    if let Err(error) = thread::Builder::new().name("connect".into()).spawn(run) {
        return Err(Refusal::new(Reason::Other, format!("could not start a thread: {error}")));
    }
    match receiver.recv_timeout(limit) {
        Ok(connected) => connected.map_err(|error| Refusal::of(&error)),
        Err(RecvTimeoutError::Timeout) => {
            Err(Refusal::new(Reason::NoAnswer, format!("no answer within {limit:?}")))
        }
        Err(RecvTimeoutError::Disconnected) => {
            Err(Refusal::new(Reason::Other, "the connection could not be set up"))
        }
    }
}

/// The places in the order in which they are tried.
fn in_order<T>(places: &[T], is_shuffled: bool) -> Vec<&T> {
    let mut order: Vec<_> = places.iter().enumerate().collect();
    if is_shuffled {
        let random = RandomState::new();
        order.sort_by_cached_key(|(index, _)| random.hash_one(index));
    }
    order.into_iter().map(|(_, place)| place).collect()
}

/// The name of the user who runs this, which libpq takes as well.
fn own_name() -> Result<String> {
    let uid = Uid::effective();
    let found = User::from_uid(uid).with_context(|| format!("could not look up user {uid}"))?;
    found.map(|user| user.name).with_context(|| {
        format!("user {uid} of this system has no name; say in the URL or in PGUSER who connects")
    })
}

/// What every connection has, whichever host it is to.
fn common_config(parameters: &Parameters) -> Result<Config> {
    use ChannelBinding::{Disable, Prefer, Require};
    use TargetSessionAttrs::{Any, ReadOnly, ReadWrite};
    let mut config = Config::new();
    config.application_name(parameters.text("application_name").unwrap_or("backlog"));
    if let Some(options) = parameters.text("options") {
        config.options(options);
    }
    // So that a server that is gone is noticed within a minute, and not after two hours.
    let idle = parameters.seconds("keepalives_idle")?;
    config.keepalives_idle(idle.unwrap_or(Duration::from_secs(30)));
    let interval = parameters.seconds("keepalives_interval")?;
    config.keepalives_interval(interval.unwrap_or(Duration::from_secs(10)));
    let retries = parameters.number("keepalives_count")?;
    let retries = retries.or(parameters.number("keepalives_retries")?).filter(|it| *it > 0);
    config.keepalives_retries(retries.unwrap_or(3));
    if let Some(keepalives) = parameters.number("keepalives")? {
        config.keepalives(keepalives != 0);
    }
    if let Some(millis) = parameters.number("tcp_user_timeout")?.filter(|it| *it > 0) {
        config.tcp_user_timeout(Duration::from_millis(millis.into()));
    }
    let targets = [("any", Any), ("read-write", ReadWrite), ("read-only", ReadOnly)];
    config
        .target_session_attrs(parameters.choice("target_session_attrs", &targets)?.unwrap_or(Any));
    let bindings = [("disable", Disable), ("prefer", Prefer), ("require", Require)];
    config.channel_binding(parameters.choice("channel_binding", &bindings)?.unwrap_or(Prefer));
    Ok(config)
}

/// A request to cancel is sent at the first call and at every one of so many that follow.
const CALLS_PER_REQUEST: u32 = 10;
/// After so many calls the server does not answer: the connections end.
const CALLS_TO_SHUTDOWN: u32 = 30;

/// An open connection, as far as it takes to end what it is at.
pub struct Line {
    cancel: CancelToken,
    socket: Option<Arc<OwnedFd>>,
}

/// The open connections to a server.
pub type Lines = Mutex<Vec<Weak<Line>>>;

impl Server {
    /// Has a connection ended with the others. It counts as open as long as the result lives.
    pub fn enlist(&self, cancel: CancelToken, socket: Option<Arc<OwnedFd>>) -> Arc<Line> {
        let line = Arc::new(Line { cancel, socket });
        let mut lines = lock(&self.lines);
        lines.retain(|line| line.strong_count() > 0);
        lines.push(Arc::downgrade(&line));
        line
    }

    pub fn interrupter(self: &Arc<Self>) -> Interrupter {
        let (server, mut calls) = (self.clone(), 0_u32);
        Box::new(move || {
            let lines: Vec<_> = lock(&server.lines).iter().filter_map(Weak::upgrade).collect();
            if calls >= CALLS_TO_SHUTDOWN {
                lines.iter().filter_map(|line| line.socket.as_ref()).for_each(|socket| {
                    // What is shut already needs no more.
                    let _ = shutdown(socket, Shutdown::Both);
                });
            } else if calls.is_multiple_of(CALLS_PER_REQUEST) {
                lines.iter().for_each(|line| server.request(line.cancel.clone()));
            }
            calls = calls.saturating_add(1);
        })
    }

    /// Asks for one cancellation. A server that hangs takes the request and never closes it, so
    /// nobody waits for that.
    fn request(&self, cancel: CancelToken) {
        let tls = self.tls.clone();
        let run = move || match tls {
            Some(tls) => cancel.cancel_query(tls),
            None => cancel.cancel_query(NoTls),
        };
        // Without one the connection is shut a moment later.
        let _ = thread::Builder::new().name("cancel".into()).spawn(run);
    }
}

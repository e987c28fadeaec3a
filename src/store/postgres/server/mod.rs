//! Connections by the rules of libpq, from a URL and the environment, so that what works with
//! `psql` works here.

mod connection;
mod endpoint;
mod failure;
mod parameters;
#[cfg(test)]
mod tests;
mod tls;
mod url;

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use std::{fmt, thread};

use anyhow::{Context, Result};
use nix::unistd::{Uid, User};
use rustix::net::{Shutdown, shutdown};
use tokio::io::empty;
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tokio_postgres::config::{ChannelBinding, Config};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::lock;
use crate::store::Interrupter;
use connection::{
    Address, Encryption, Exchange, Handle, Handshaken, SocketOptions, Wire, encrypt, log_in,
    runtime,
};
use endpoint::{Endpoint, Password, Place, endpoints, give_passwords, look_up};
use failure::{Kind, Refusal, failure};
use parameters::Parameters;
use tls::Mode;

pub use connection::Connection;
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
    /// Whether the session must be one that only reads, or one that writes.
    is_read_only: Option<bool>,
    socket: SocketOptions,
    mode: Mode,
    /// None if no connection can have TLS.
    tls: Option<MakeRustlsConnect>,
    /// The connections that are open.
    connections: Mutex<Vec<Weak<Handle>>>,
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
        let targets = [("any", None), ("read-write", Some(false)), ("read-only", Some(true))];
        let is_read_only = parameters.choice("target_session_attrs", &targets)?.flatten();
        let socket = SocketOptions::of(&parameters)?;
        let mut config = Config::new();
        config.user(&user).dbname(&database);
        config.application_name(parameters.text("application_name").unwrap_or("backlog"));
        if let Some(options) = parameters.text("options") {
            config.options(options);
        }
        let bindings = [
            ("disable", ChannelBinding::Disable),
            ("prefer", ChannelBinding::Prefer),
            ("require", ChannelBinding::Require),
        ];
        let binding = parameters.choice("channel_binding", &bindings)?;
        config.channel_binding(binding.unwrap_or(ChannelBinding::Prefer));
        Ok(Self {
            endpoints,
            user,
            database,
            config,
            timeout,
            is_shuffled,
            is_read_only,
            socket,
            mode,
            tls,
            connections: Mutex::default(),
        })
    }

    /// Opens a connection to the first host that is within reach. An error that may pass with the
    /// time is one to try again later.
    pub fn connect(&self) -> Result<Connection> {
        let runtime = runtime().context("could not set up a connection")?;
        let mut refusals = Vec::new();
        for endpoint in in_order(&self.endpoints, self.is_shuffled) {
            match self.connect_to(&runtime, endpoint) {
                Ok((client, exchange, handle)) => {
                    return Ok(Connection::new(runtime, client, exchange, self.enlist(handle)));
                }
                Err(refusal) if refusal.kind.is_of_this_host() => {
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

    fn connect_to(&self, runtime: &Runtime, endpoint: &Endpoint) -> Result<Opened, Refusal> {
        let Endpoint { place, port, password } = endpoint;
        let (name, addresses) = match place {
            Place::Socket(directory) => {
                let path = Path::new(directory).join(format!(".s.PGSQL.{port}"));
                let (address, password) = (Address::Unix(path), password.as_ref());
                return self.attempt(runtime, &address, password, Encryption::Never);
            }
            Place::Tcp { name, address: Some(address) } => (name, vec![*address]),
            Place::Tcp { name, address: None } => (name, look_up(name, *port)?),
        };
        let mut refused = Refusal::unknown_host("the host has no address");
        for address in in_order(&addresses, self.is_shuffled) {
            let address = Address::Tcp(SocketAddr::new(*address, *port), name.clone());
            match self.negotiate(runtime, &address, password.as_ref()) {
                Ok(opened) => return Ok(opened),
                Err(refusal) => refused = refusal,
            }
            if !refused.kind.is_of_this_host() {
                break;
            }
        }
        Err(refused)
    }

    /// Connects with TLS or without, and the other way round where the mode leaves that open.
    fn negotiate(
        &self,
        runtime: &Runtime,
        address: &Address,
        password: Option<&Password>,
    ) -> Result<Opened, Refusal> {
        use Encryption::{Never, Preferred, Required};
        let (first, second) = match self.mode {
            Mode::Disable => (Never, None),
            Mode::Allow => (Never, Some(Required)),
            Mode::Prefer => (Preferred, Some(Never)),
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => (Required, None),
        };
        let attempt = |encryption| self.attempt(runtime, address, password, encryption);
        match (attempt(first), second) {
            (Err(refused), Some(second)) if refused.kind.may_differ_without_tls() => {
                attempt(second).map_err(|again| refused.or_second(again))
            }
            (connected, _) => connected,
        }
    }

    fn attempt(
        &self,
        runtime: &Runtime,
        address: &Address,
        password: Option<&Password>,
        encryption: Encryption,
    ) -> Result<Opened, Refusal> {
        let open = self.open(address, password, encryption);
        let Some(limit) = self.timeout else { return runtime.block_on(open) };
        runtime
            .block_on(async { timeout(limit, open).await })
            .unwrap_or_else(|_| Err(Refusal::no_answer(format!("no answer within {limit:?}"))))
    }

    async fn open(
        &self,
        address: &Address,
        password: Option<&Password>,
        encryption: Encryption,
    ) -> Result<Opened, Refusal> {
        let (stream, socket) = self.socket.open(address).await?;
        let wire = encrypt(stream, self.tls.as_ref(), address, encryption).await?;
        let is_encrypted = matches!(wire, Wire::Encrypted(_));
        let mut config = self.config.clone();
        if let Some(password) = password {
            config.password(&password.secret);
        }
        let refused = |error| Refusal::of(&error, password.is_some());
        let (client, mut exchange) = log_in(config, wire).await.map_err(refused)?;
        if let Some(wanted) = self.is_read_only {
            let sql = "SHOW transaction_read_only";
            let rows = exchange.answer(client.simple_query(sql)).await.map_err(refused)?;
            let is_on =
                |it: &_| matches!(it, SimpleQueryMessage::Row(row) if row.get(0) == Some("on"));
            let found = rows.iter().any(is_on);
            if found != wanted {
                let cause = if found { "does not allow writes" } else { "is not read only" };
                let hint = "; target_session_attrs asks for that";
                return Err(Refusal::new(Kind::Passing, format!("database {cause}"), hint));
            }
        }
        let encryption = if is_encrypted { Encryption::Required } else { Encryption::Never };
        let (cancel, address) = (client.cancel_token(), address.clone());
        let handle = Handle { cancel, address, encryption, socket: Arc::new(socket) };
        Ok((client, exchange, handle))
    }
}

/// A connection that is logged in.
type Opened = (Client, Exchange, Handle);

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

/// A request to cancel is sent at the first call and at every one of so many that follow.
const CALLS_PER_REQUEST: u32 = 10;
/// After so many calls the server does not answer: the connections end.
const CALLS_TO_SHUTDOWN: u32 = 30;

impl Server {
    /// Has a connection ended with the others. It counts as open as long as the result lives.
    fn enlist(&self, handle: Handle) -> Arc<Handle> {
        let handle = Arc::new(handle);
        let mut connections = lock(&self.connections);
        connections.retain(|handle| handle.strong_count() > 0);
        connections.push(Arc::downgrade(&handle));
        handle
    }

    pub fn interrupter(self: &Arc<Self>) -> Interrupter {
        let (server, mut calls) = (self.clone(), 0_u32);
        Box::new(move || {
            let open: Vec<_> = lock(&server.connections).iter().filter_map(Weak::upgrade).collect();
            if calls >= CALLS_TO_SHUTDOWN {
                for handle in &open {
                    // What is shut already needs no more.
                    let _ = shutdown(&handle.socket, Shutdown::Both);
                }
            } else if calls.is_multiple_of(CALLS_PER_REQUEST) {
                for handle in open {
                    // A server that hangs takes the request and never answers, so nobody waits for
                    // that. Without a thread the connection is shut a moment later.
                    let server = server.clone();
                    let run = move || server.cancel(&handle);
                    let _ = thread::Builder::new().name("cancel".into()).spawn(run);
                }
            }
            calls = calls.saturating_add(1);
        })
    }

    /// Asks for one cancellation, over a socket of its own.
    fn cancel(&self, handle: &Handle) {
        let request = async {
            let (stream, _) = self.socket.open(&handle.address).await?;
            let wire =
                encrypt(stream, self.tls.as_ref(), &handle.address, handle.encryption).await?;
            let sent = match wire {
                Wire::Plain(stream) => handle.cancel.cancel_query_raw(stream, NoTls).await,
                Wire::Encrypted(stream) => {
                    handle.cancel.cancel_query_raw(empty(), Handshaken(*stream)).await
                }
            };
            sent.map_err(|error| Refusal::of(&error, true))
        };
        if let Ok(runtime) = runtime() {
            let _ = runtime.block_on(async { timeout(CONNECT_TIMEOUT, request).await });
        }
    }
}

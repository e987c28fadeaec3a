//! Connections by libpq's rules, from URL and environment: what works with `psql` works here.

mod connection;
mod endpoint;
mod failure;
mod parameters;
mod service;
#[cfg(test)]
mod tests;
mod tls;

use std::hash::{BuildHasher, RandomState};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use std::{fmt, thread};

use anyhow::{Context, Result};
use nix::unistd::{Uid, User};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::net::{Shutdown, shutdown};
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tokio_postgres::config::{ChannelBinding, Config, SslMode};
use tokio_postgres::{Client, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::lock;
use crate::store::{Interrupter, Sessions, Wakeup};
use connection::{Address, Answers, Driver, Exchange, Handle, Handshake, SocketOptions, runtime};
use endpoint::{Endpoint, Place, endpoints};
use failure::{Kind, Refusal, failure};
use parameters::{Parameters, encode};
use tls::Mode;

pub use connection::{Connection, Failure};
pub use failure::is_lack_of_connections;
pub use parameters::without_password;

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
    connections: Mutex<Vec<Weak<Handle>>>,
    /// Readable when there is a new connection, or when claims are to be taken back.
    changed: OwnedFd,
    answers: Arc<Answers>,
    runtime: Arc<Runtime>,
}

/// Without the password.
impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({})", self.shown())
    }
}

impl Server {
    /// Connects to nothing yet. Behind the URL stand libpq's variables, then its defaults.
    pub fn new(url: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let parameters = Parameters::gather(url, environment)?;
        parameters.refuse_unmet_demands()?;
        let home = environment("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
        let user = match parameters.text("user") {
            Some(user) => user.to_owned(),
            None => own_name()?,
        };
        let database = parameters.text("dbname").unwrap_or(&user).to_owned();
        let endpoints = endpoints(&parameters, home.as_deref(), &user, &database)?;
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
            changed: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
                .context("could not make an eventfd")?,
            answers: Arc::default(),
            runtime: Arc::new(runtime().context("could not prepare to wait for a server")?),
        })
    }

    /// Opens a connection to the first host that is within reach. An error that may pass with the
    /// time is one to try again later.
    pub fn connect(&self) -> Result<Connection> {
        let mut refusals = Vec::new();
        for endpoint in in_order(&self.endpoints, self.is_shuffled) {
            match self.connect_to(endpoint) {
                Ok(connection) => return Ok(connection),
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
        let user = encode(&self.user);
        match &self.endpoints[..] {
            [Endpoint { place: Place::Socket(directory), port, .. }] => {
                let database = encode(&self.database);
                format!("postgres://{user}@/{database}?host={directory}&port={port}")
            }
            _ => format!("postgres://{user}@{}", self.identity()),
        }
    }

    pub fn user(&self) -> &str {
        &self.user
    }

    /// What tells this database from others, whoever connects to it.
    pub fn identity(&self) -> String {
        let hosts: Vec<_> = self.endpoints.iter().map(Endpoint::shown).collect();
        format!("{}/{}", hosts.join(","), encode(&self.database))
    }

    /// What the password of the first host was read from, if there is one.
    pub fn password_from(&self) -> Option<&str> {
        let password = self.endpoints.first()?.password.as_ref()?;
        Some(&password.from)
    }

    fn connect_to(&self, endpoint: &Endpoint) -> Result<Connection, Refusal> {
        let mut config = self.config.clone();
        if let Some(password) = &endpoint.password {
            config.password(&password.secret);
        }
        let mut refused = Refusal::unknown_host("the host has no address");
        for address in in_order(&endpoint.addresses()?, self.is_shuffled) {
            match self.negotiate(address, &mut config) {
                Err(refusal) if refusal.kind.is_of_this_host() => refused = refusal,
                connected => return connected,
            }
        }
        Err(refused)
    }

    /// Connects with TLS or without, and the other way round where the mode leaves that open.
    fn negotiate(&self, address: &Address, config: &mut Config) -> Result<Connection, Refusal> {
        let (first, second) = match (address, self.mode) {
            (Address::Unix(_), _) | (_, Mode::Disable) => (SslMode::Disable, None),
            (_, Mode::Allow) => (SslMode::Disable, Some(SslMode::Require)),
            (_, Mode::Prefer) => (SslMode::Prefer, Some(SslMode::Disable)),
            (_, Mode::Require | Mode::VerifyCa | Mode::VerifyFull) => (SslMode::Require, None),
        };
        let mut attempt = |mode| self.attempt(address, config.ssl_mode(mode));
        match (attempt(first), second) {
            (Err(refused), Some(second)) if refused.kind.may_differ_without_tls() => {
                attempt(second).map_err(|again| refused.or_second(again))
            }
            (connected, _) => connected,
        }
    }

    fn attempt(&self, address: &Address, config: &Config) -> Result<Connection, Refusal> {
        let limit = self.timeout.unwrap_or(Duration::MAX);
        let opened = self
            .runtime
            .block_on(async { timeout(limit, self.open(address, config)).await })
            .unwrap_or_else(|_| Err(Refusal::no_answer(format!("no answer within {limit:?}"))));
        if opened.as_ref().err().is_none_or(|refusal| refusal.is_answer) {
            self.answers.note();
        }
        let (client, exchange, socket) = opened?;
        let handle = self.enlist(Handle {
            cancel: client.cancel_token(),
            address: address.clone(),
            socket: Arc::new(socket),
            has_ended: AtomicBool::new(false),
            is_waiting: AtomicBool::new(false),
            answers: self.answers.clone(),
        });
        Ok(Connection::new(client, Driver { runtime: self.runtime.clone(), exchange }, handle))
    }

    async fn open(
        &self,
        address: &Address,
        config: &Config,
    ) -> Result<(Client, Exchange, OwnedFd), Refusal> {
        let (stream, socket) = self.socket.open(address).await?;
        let tls = Handshake::new(self.tls.as_ref(), address);
        let (has_begun, needs_tls) =
            (tls.has_begun.clone(), config.get_ssl_mode() == SslMode::Require);
        let refused = |error| {
            let lacks_tls = needs_tls && !has_begun.get();
            Refusal::of(&error, lacks_tls, config.get_password().is_some())
        };
        let (client, connection) = config.connect_raw(stream, tls).await.map_err(refused)?;
        let mut exchange = Exchange(Some(connection));
        if let Some(wanted) = self.is_read_only {
            let asked = client.simple_query(SHOW_READ_ONLY);
            let found = is_on(&exchange.answer(asked).await.map_err(refused)?);
            if found != wanted {
                let cause = if found { "does not allow writes" } else { "is not read only" };
                let hint = "; target_session_attrs asks for that";
                return Err(Refusal::new(Kind::Passing, format_args!("database {cause}"), hint));
            }
        }
        Ok((client, exchange, socket))
    }
}

const SHOW_READ_ONLY: &str = "SHOW transaction_read_only";

fn is_on(rows: &[SimpleQueryMessage]) -> bool {
    rows.iter().any(|it| matches!(it, SimpleQueryMessage::Row(row) if row.get(0) == Some("on")))
}

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
        self.wake();
        handle
    }

    /// Wakes the thread that watches the sessions.
    pub fn wake(&self) {
        // The write fails only if the counter is full, and then the thread is awake anyway.
        let _ = rustix::io::write(&self.changed, &1u64.to_ne_bytes());
    }

    fn open_handles(&self) -> Vec<Arc<Handle>> {
        let open = lock(&self.connections).iter().filter_map(Weak::upgrade).collect::<Vec<_>>();
        open.into_iter().filter(|handle| !handle.has_ended.load(Ordering::Relaxed)).collect()
    }

    /// Whether a new connection could write.
    pub fn can_write(&self) -> bool {
        self.connect().is_ok_and(|mut connection| {
            let shown = connection.wait(async |client| client.simple_query(SHOW_READ_ONLY).await);
            shown.is_ok_and(|rows| !is_on(&rows))
        })
    }

    /// Closes all open connections, even while a statement runs.
    pub fn end_connections(&self) {
        for handle in lock(&self.connections).iter().filter_map(Weak::upgrade) {
            // An error means that the socket is shut down already.
            let _ = shutdown(&handle.socket, Shutdown::Both);
        }
    }

    pub fn interrupter(self: &Arc<Self>) -> Interrupter {
        let (server, mut calls) = (self.clone(), 0_u32);
        Box::new(move || {
            let open = server.open_handles();
            if calls >= CALLS_TO_SHUTDOWN {
                server.end_connections();
            } else if calls.is_multiple_of(CALLS_PER_REQUEST) {
                // A server that hangs takes the request and never answers, so nobody waits for that.
                // Without a thread the connection is shut a moment later.
                open.iter().for_each(|handle| server.cancel_soon(handle));
            }
            calls = calls.saturating_add(1);
        })
    }

    /// Has the server cancel the statement of a connection, without waiting for that.
    pub fn cancel_soon(self: &Arc<Self>, handle: &Arc<Handle>) {
        let (server, handle) = (self.clone(), handle.clone());
        let run = move || server.cancel_statement(&handle);
        let _ = thread::Builder::new().name("cancel".into()).spawn(run);
    }

    fn cancel_statement(&self, handle: &Handle) {
        let request = async {
            if let Ok((stream, _)) = self.socket.open(&handle.address).await {
                let tls = Handshake::new(self.tls.as_ref(), &handle.address);
                let _ = handle.cancel.cancel_query_raw(stream, tls).await;
            }
        };
        if let Ok(runtime) = runtime() {
            let _ = runtime.block_on(async { timeout(CONNECT_TIMEOUT, request).await });
        }
    }
}

impl Sessions for Arc<Server> {
    fn wait(&self, end: &OwnedFd, timeout: Duration) -> Wakeup {
        let handles = self.open_handles();
        let mut events =
            vec![PollFd::new(end, PollFlags::IN), PollFd::new(&self.changed, PollFlags::IN)];
        // Answers that arrive are read by the thread that asked, so only the end of a connection counts.
        events.extend(handles.iter().map(|it| PollFd::new(&*it.socket, PollFlags::RDHUP)));
        let timeout = Timespec::try_from(timeout).ok();
        if poll(&mut events, timeout.as_ref()).is_err() {
            return Wakeup::Time;
        }
        let came: Vec<_> = events.iter().map(|event| !event.revents().is_empty()).collect();
        if came[0] {
            return Wakeup::End;
        }
        if came[1] {
            let _ = rustix::io::read(&self.changed, &mut [0; 8]);
        }
        let ended = handles.iter().zip(&came[2..]).filter(|(_, has_ended)| **has_ended);
        let ended =
            ended.map(|(handle, _)| handle.has_ended.store(true, Ordering::Relaxed)).count();
        if ended == 0 { Wakeup::Time } else { Wakeup::SessionEnded }
    }

    fn cancel(&self) {
        self.open_handles().iter().for_each(|handle| self.cancel_soon(handle));
    }

    /// Zero for a server that is reached by a Unix socket, because its sessions end with it. Also zero while
    /// a request such as a search runs, which may take minutes: meanwhile TCP keepalives probe the server.
    fn silent_for(&self) -> Duration {
        let is_remote = |endpoint: &Endpoint| matches!(endpoint.place, Place::Tcp { .. });
        let is_waiting = |handle: &Arc<Handle>| handle.is_waiting.load(Ordering::Relaxed);
        match self.endpoints.iter().any(is_remote) && !self.open_handles().iter().any(is_waiting) {
            true => self.answers.silent_for(),
            false => Duration::ZERO,
        }
    }
}

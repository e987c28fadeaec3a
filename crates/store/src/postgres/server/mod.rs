//! Connections by libpq's rules, from URL and environment: what works with `psql` works here, or is refused by name.

mod connection;
mod endpoint;
mod failure;
mod parameters;
#[cfg(test)]
mod tests;
mod tls;

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use std::{fmt, thread};

use anyhow::{Context, Result};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::net::{Shutdown, shutdown};
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tokio_postgres::config::{ChannelBinding, Config, SslMode};
use tokio_postgres::{Client, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::mutex::lock;
use crate::ownership::user_name;
use crate::store::{Interrupter, Sessions, Wakeup};
use crate::watchdog::boottime;
use connection::{Exchange, Handle, Handshake, open_socket, runtime};
use endpoint::{Address, Endpoint, endpoints};
use failure::{Kind, Refusal, failure};
use parameters::{Parameters, encode};
use tls::Mode;

pub use connection::{Connection, Failure};
pub use failure::is_lack_of_connections;
pub use parameters::{certificates, without_password};

/// How long one host may take to let us in, unless the user says otherwise.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A database, and all it takes to connect to it.
pub struct Server {
    endpoints: Vec<Endpoint>,
    pub user: String,
    database: String,
    /// What is the same for every host.
    config: Config,
    /// The limit for each address.
    timeout: Option<Duration>,
    /// Whether the session must be one that only reads, or one that writes.
    is_read_only: Option<bool>,
    mode: Mode,
    tls: MakeRustlsConnect,
    connections: Mutex<Vec<Weak<Handle>>>,
    /// Readable when there is a new connection, or when claims are to be taken back.
    changed: OwnedFd,
    /// When the server has answered on any connection, in milliseconds since boot.
    answered_at: AtomicU64,
    /// The same for all connections, so that they can be waited for together.
    runtime: Runtime,
}

/// Without the password.
impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({})", self.shown())
    }
}

impl Server {
    /// Reads the parameters, and connects to nothing yet.
    pub fn new(url: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let parameters = Parameters::gather(url, environment)?;
        let home = environment("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
        let user = match parameters.text("user") {
            Some(user) => user.to_owned(),
            None => own_name()?,
        };
        let database = parameters.text("dbname").unwrap_or(&user).to_owned();
        let endpoints = endpoints(&parameters, home.as_deref(), &user, &database)?;
        let mut mode = Mode::of(&parameters)?;
        if endpoints.iter().all(Endpoint::is_socket) {
            mode = Mode::Disable;
        }
        let timeout = match parameters.number("connect_timeout")? {
            None => Some(CONNECT_TIMEOUT),
            Some(secs) => Some(Duration::from_secs(secs.into())).filter(|limit| !limit.is_zero()),
        };
        let targets = [("any", None), ("read-write", Some(false)), ("read-only", Some(true))];
        let bindings = [
            ("disable", ChannelBinding::Disable),
            ("prefer", ChannelBinding::Prefer),
            ("require", ChannelBinding::Require),
        ];
        let binding = parameters.choice("channel_binding", &bindings)?;
        // By default a server that is gone is noticed within a minute, and not after two hours.
        let number = |key, default: u32| -> Result<u32> {
            Ok(parameters.number(key)?.filter(|number| *number > 0).unwrap_or(default))
        };
        let mut config = Config::new();
        config
            .user(&user)
            .dbname(&database)
            .application_name(parameters.text("application_name").unwrap_or("backlog"))
            .channel_binding(binding.unwrap_or(ChannelBinding::Prefer))
            .keepalives(parameters.number("keepalives")? != Some(0))
            .keepalives_idle(Duration::from_secs(number("keepalives_idle", 30)?.into()))
            .keepalives_interval(Duration::from_secs(number("keepalives_interval", 10)?.into()))
            .keepalives_retries(number("keepalives_count", 3)?);
        // Poolers refuse this parameter, even if it is empty.
        if let Some(options) = parameters.text("options") {
            config.options(options);
        }
        Ok(Self {
            endpoints,
            user,
            database,
            config,
            timeout,
            is_read_only: parameters.choice("target_session_attrs", &targets)?.flatten(),
            mode,
            tls: tls::connector(mode, &parameters, home.as_deref())?,
            connections: Mutex::default(),
            changed: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
                .context("could not make an eventfd")?,
            answered_at: AtomicU64::default(),
            runtime: runtime().context("could not prepare to wait for a server")?,
        })
    }

    /// Opens a connection to the first host that is within reach. An error that may pass with the
    /// time is one to try again later.
    pub fn connect(self: &Arc<Self>) -> Result<Connection> {
        let mut refusals = Vec::new();
        for endpoint in &self.endpoints {
            match self.connect_to(endpoint) {
                Ok(connection) => return Ok(connection),
                Err(refusal) if refusal.kind.is_temporary() => {
                    refusals.push((endpoint.shown(), refusal));
                }
                // A host that refuses the user is not passed over.
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
            [Endpoint { host, port, .. }] if host.starts_with('/') => {
                let database = encode(&self.database);
                format!("postgres://{user}@/{database}?host={host}&port={port}")
            }
            _ => format!("postgres://{user}@{}", self.identity()),
        }
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

    /// Connects with TLS or without, and the other way round where the mode leaves that open.
    fn connect_to(self: &Arc<Self>, endpoint: &Endpoint) -> Result<Connection, Refusal> {
        let mut config = self.config.clone();
        if let Some(password) = &endpoint.password {
            config.password(&password.secret);
        }
        let modes: &[SslMode] = match self.mode {
            _ if endpoint.is_socket() => &[SslMode::Disable],
            Mode::Disable => &[SslMode::Disable],
            Mode::Allow => &[SslMode::Disable, SslMode::Require],
            Mode::Prefer => &[SslMode::Prefer, SslMode::Disable],
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => &[SslMode::Require],
        };
        let mut refused = Refusal::no_answer("the host has no address");
        for address in endpoint.addresses()? {
            for (index, mode) in modes.iter().enumerate() {
                let refusal = match self.attempt(endpoint, &address, config.ssl_mode(*mode)) {
                    Ok(connection) => return Ok(connection),
                    Err(refusal) => refusal,
                };
                let goes_on = refusal.kind.depends_on_tls();
                if index == 0 || matches!(refusal.kind, Kind::PasswordWrong | Kind::Other) {
                    refused = refusal;
                }
                if !goes_on {
                    break;
                }
            }
            if !refused.kind.is_temporary() {
                break;
            }
        }
        Err(refused)
    }

    fn attempt(
        self: &Arc<Self>,
        endpoint: &Endpoint,
        address: &Address,
        config: &Config,
    ) -> Result<Connection, Refusal> {
        let limit = self.timeout.unwrap_or(Duration::MAX);
        let open = async { timeout(limit, self.open(&endpoint.host, address, config)).await };
        let opened = self.runtime.block_on(open);
        let no_answer = || Err(Refusal::no_answer(format!("no answer within {limit:?}")));
        let opened = opened.unwrap_or_else(|_| no_answer());
        if opened.as_ref().err().is_none_or(|refusal| refusal.is_answer) {
            self.note_answer();
        }
        let (client, exchange, socket) = opened?;
        let handle = self.enlist(Handle {
            cancel: client.cancel_token(),
            address: address.clone(),
            host: endpoint.host.clone(),
            socket: Arc::new(socket),
            has_ended: AtomicBool::new(false),
            is_waiting: AtomicBool::new(false),
        });
        let mut connection = Connection::new(self.clone(), client, exchange, handle);
        if let Some(wanted) = self.is_read_only {
            connection.limit = self.timeout;
            if is_read_only(&mut connection) != Some(wanted) {
                let cause = if wanted { "is not read only" } else { "does not allow writes" };
                let hint = "; target_session_attrs asks for that";
                return Err(Refusal::new(Kind::Passing, format_args!("database {cause}"), hint));
            }
            connection.limit = None;
        }
        Ok(connection)
    }

    async fn open(
        &self,
        host: &str,
        address: &Address,
        config: &Config,
    ) -> Result<(Client, Exchange, OwnedFd), Refusal> {
        let (stream, socket) = open_socket(address, config).await?;
        let tls = Handshake::new(&self.tls, host);
        let has_begun = tls.has_begun.clone();
        let (client, exchange) = config.connect_raw(stream, tls).await.map_err(|error| {
            let lacks_tls = config.get_ssl_mode() == SslMode::Require && !has_begun.get();
            Refusal::of(&error, lacks_tls, config.get_password().is_some())
        })?;
        Ok((client, exchange, socket))
    }
}

/// None if the server does not say so.
fn is_read_only(connection: &mut Connection) -> Option<bool> {
    let show = async |client: &Client| client.simple_query("SHOW transaction_read_only").await;
    let is_on = |message: &SimpleQueryMessage| matches!(message, SimpleQueryMessage::Row(row) if row.get(0) == Some("on"));
    Some(connection.wait(show).ok()?.iter().any(is_on))
}

fn millis_since_boot() -> u64 {
    u64::try_from(boottime().as_millis()).unwrap_or(u64::MAX)
}

/// The name of the user who runs this, which libpq takes as well.
fn own_name() -> Result<String> {
    let uid = rustix::process::geteuid().as_raw();
    user_name(uid).with_context(|| {
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

    fn note_answer(&self) {
        self.answered_at.store(millis_since_boot(), Ordering::Relaxed);
    }

    fn open_handles(&self) -> Vec<Arc<Handle>> {
        let open = lock(&self.connections).iter().filter_map(Weak::upgrade).collect::<Vec<_>>();
        open.into_iter().filter(|handle| !handle.has_ended.load(Ordering::Relaxed)).collect()
    }

    /// Whether a new connection could write.
    pub fn can_write(self: &Arc<Self>) -> bool {
        self.connect().is_ok_and(|mut connection| is_read_only(&mut connection) == Some(false))
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
        let run = move || {
            let request = async {
                let (stream, _) = open_socket(&handle.address, &server.config).await.ok()?;
                let tls = Handshake::new(&server.tls, &handle.host);
                handle.cancel.cancel_query_raw(stream, tls).await.ok()
            };
            if let Ok(runtime) = runtime() {
                let _ = runtime.block_on(async { timeout(CONNECT_TIMEOUT, request).await });
            }
        };
        let _ = thread::Builder::new().name("cancel".into()).spawn(run);
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
        for (handle, _) in handles.iter().zip(&came[2..]).filter(|(_, has_ended)| **has_ended) {
            handle.has_ended.store(true, Ordering::Relaxed);
        }
        if came[2..].contains(&true) { Wakeup::SessionEnded } else { Wakeup::Time }
    }

    fn cancel(&self) {
        self.open_handles().iter().for_each(|handle| self.cancel_soon(handle));
    }

    /// Zero for a server that is reached by a Unix socket, because its sessions end with it. Also zero while
    /// a request such as a search runs, which may take minutes: meanwhile TCP keepalives probe the server.
    fn silent_for(&self) -> Duration {
        let is_waiting = |handle: &Arc<Handle>| handle.is_waiting.load(Ordering::Relaxed);
        let is_local = self.endpoints.iter().all(Endpoint::is_socket);
        if is_local || self.open_handles().iter().any(is_waiting) {
            return Duration::ZERO;
        }
        let answered_at = self.answered_at.load(Ordering::Relaxed);
        Duration::from_millis(millis_since_boot().saturating_sub(answered_at))
    }
}

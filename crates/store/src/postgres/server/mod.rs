//! Connections by libpq's rules, from a URL and the environment: they work as with `psql`, or are refused by name.

mod connection;
mod endpoint;
mod failure;
mod parameters;
#[cfg(test)]
mod tests;
mod tls;

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use std::{fmt, thread};

use anyhow::{Context, Result, ensure};
use futures_util::future::join;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::net::{Shutdown, shutdown};
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tokio_postgres::config::{SslMode, SslNegotiation, TargetSessionAttrs};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::StoreError;
use crate::mutex::lock;
use crate::ownership::user_name;
use crate::store::{Interrupter, Sessions, Wakeup};
use crate::system_error::reason;
use crate::watchdog::since_boot;
use connection::{ByteStream, Driver, Handle, Route, runtime};
use endpoint::{Endpoint, endpoints};
use failure::{ConnectFailure, FailureKind};
use parameters::{Parameters, encode};

pub use connection::{Connection, RequestError};
pub use parameters::{certificates, without_password};

const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);

/// A database on a server, and the parameters to connect to it.
pub struct Server {
    endpoints: Vec<Arc<Endpoint>>,
    pub user: String,
    database: String,
    /// TLS modes in the order in which they are tried.
    modes: &'static [SslMode],
    tls: MakeRustlsConnect,
    /// True once a transaction has begun. From then on a refusal by PgBouncer (08P01) counts as temporary.
    has_accepted: AtomicBool,
    connections: Mutex<Vec<Weak<Handle>>>,
    /// Readable after a new connection, or when claims are to be taken back.
    changed: OwnedFd,
    /// Boot time of the last answer on any connection.
    answered_at: Mutex<Duration>,
    /// Shared by all connections, so that one thread can wait for several.
    runtime: Runtime,
}

/// The URL without the password.
impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = encode(&self.user);
        match &self.endpoints[..] {
            [endpoint] if endpoint.is_socket() => {
                let (Endpoint { host, port, .. }, database) = (&**endpoint, encode(&self.database));
                write!(f, "postgres://{user}@/{database}?host={host}&port={port}")
            }
            _ => write!(f, "postgres://{user}@{}", self.identity()),
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({self})")
    }
}

impl Server {
    /// Reads the parameters, without connecting.
    pub fn new(url: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let parameters = Parameters::gather(url, environment)?;
        let home = environment("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
        let user = parameters.text("user").map(String::from).map_or_else(os_user, Ok)?;
        let database = parameters.text("dbname").unwrap_or(&user).to_owned();
        let mut config = parameters.config()?;
        config.user(&user).dbname(&database);
        let endpoints = endpoints(&parameters, home.as_deref(), &config)?;
        let is_local = endpoints.iter().all(|endpoint| endpoint.is_socket());
        let (modes, tls) = tls::connector(&parameters, home.as_deref(), is_local)?;
        Ok(Self {
            endpoints,
            user,
            database,
            modes,
            tls,
            has_accepted: AtomicBool::default(),
            connections: Mutex::default(),
            changed: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
                .context("could not create an eventfd")?,
            answered_at: Mutex::default(),
            runtime: runtime().context("could not set up the event loop")?,
        })
    }

    /// Connects to the first host that accepts. The error is a [`StoreError::TryLater`] if it may be temporary.
    pub fn connect(self: &Arc<Self>) -> Result<Connection> {
        let mut failures = Vec::new();
        for endpoint in &self.endpoints {
            let ConnectFailure { kind, message, .. } = match self.connect_to(endpoint) {
                Ok(connection) => return Ok(connection),
                Err(failure) => failure,
            };
            let is_one = self.endpoints.len() == 1;
            let host = if is_one { String::new() } else { format!("{endpoint}: ") };
            // After a host that refuses the user, no other one is tried.
            ensure!(kind.is_temporary(), "could not connect to {self}: {host}{message}");
            failures.push(host + &message);
        }
        let failures = failures.join("; ");
        Err(StoreError::TryLater(format!("could not connect to {self}: {failures}")).into())
    }

    /// Returns a name for this database that is the same for all users.
    pub fn identity(&self) -> String {
        let hosts: Vec<_> = self.endpoints.iter().map(ToString::to_string).collect();
        format!("{}/{}", hosts.join(","), encode(&self.database))
    }

    pub fn password_from(&self) -> Option<&str> {
        self.endpoints.first()?.password_from.as_deref()
    }

    /// Connects to a host, with TLS, without it or both in turn, as the mode allows.
    fn connect_to(
        self: &Arc<Self>,
        endpoint: &Arc<Endpoint>,
    ) -> Result<Connection, ConnectFailure> {
        let modes = if endpoint.is_socket() { &[SslMode::Disable] } else { self.modes };
        let mut worst = ConnectFailure::no_answer("the host has no address");
        // The error does not tell an unknown name from an unreachable resolver.
        let unresolved = |error| {
            let hint = "; check the name of the host";
            ConnectFailure::new(FailureKind::Temporary, reason(&error), hint)
        };
        for address in endpoint.addresses().map_err(unresolved)? {
            for (index, mode) in modes.iter().enumerate() {
                let (endpoint, address) = (endpoint.clone(), address.clone());
                let failure = match self.attempt(Route { endpoint, address, mode: *mode }) {
                    Ok(connection) => return Ok(connection),
                    Err(failure) => failure,
                };
                let is_temporary = failure.kind == FailureKind::Temporary;
                if index == 0 || failure.kind > worst.kind {
                    worst = failure;
                }
                if is_temporary {
                    break;
                }
            }
            if !worst.kind.is_temporary() {
                break;
            }
        }
        Err(worst)
    }

    fn attempt(self: &Arc<Self>, route: Route) -> Result<Connection, ConnectFailure> {
        let endpoint = route.endpoint.clone();
        let limit = endpoint.config.get_connect_timeout().copied();
        let no_answer = || {
            ConnectFailure::no_answer(format!("no answer within {:?}", limit.unwrap_or_default()))
        };
        let open = async { timeout(limit.unwrap_or(Duration::MAX), self.open(route)).await };
        let opened = self.runtime.block_on(open).unwrap_or_else(|_| Err(no_answer()));
        if opened.as_ref().err().is_none_or(|failure| failure.is_answer) {
            self.note_answer();
        }
        let mut connection = opened?;
        connection.limit = limit;
        // A pooler that lends connections for single statements refuses a transaction.
        if !self.has_accepted.load(Ordering::Relaxed) {
            let begin = async |client: &Client| {
                // The empty query goes alone: with BEGIN right behind it, PgBouncer would drop its answer.
                client.batch_execute("").await?;
                let run = |sql| client.batch_execute(sql);
                Ok(join(run("BEGIN"), run("ROLLBACK")).await.0)
            };
            let begun = connection.wait(begin).map_err(|error| match error {
                RequestError::Sql(error) => ConnectFailure::from_sql(error, &endpoint, false),
                RequestError::Silent(_) => no_answer(),
            })?;
            begun.map_err(|error| ConnectFailure::from_sql(error, &endpoint, true))?;
            self.has_accepted.store(true, Ordering::Relaxed);
        }
        let target = endpoint.config.get_target_session_attrs();
        let reads = target == TargetSessionAttrs::ReadOnly;
        if target != TargetSessionAttrs::Any && is_read_only(&mut connection) != Some(reads) {
            let cause = match reads {
                true => "the server accepts writes, but target_session_attrs=read-only",
                false => "the server is read-only, but target_session_attrs=read-write",
            };
            return Err(ConnectFailure::new(FailureKind::Temporary, cause, ""));
        }
        connection.limit = None;
        Ok(connection)
    }

    async fn open(self: &Arc<Self>, mut route: Route) -> Result<Connection, ConnectFailure> {
        let (stream, socket) = route.open().await?;
        let mut config = route.endpoint.config.clone();
        // TLS is negotiated already.
        config.ssl_mode(route.mode).ssl_negotiation(SslNegotiation::Direct);
        let connected = config.connect_raw(stream, self.tls_to(&route.endpoint)).await;
        let is_final = config.get_options().is_some() && !self.has_accepted.load(Ordering::Relaxed);
        let refused = |error| ConnectFailure::from_sql(error, &route.endpoint, is_final);
        let (client, exchange) = connected.map_err(refused)?;
        let handle = self.register(Handle {
            cancel: client.cancel_token(),
            route,
            socket,
            has_ended: AtomicBool::new(false),
            is_waiting: AtomicBool::new(false),
        });
        let driver = Driver { server: self.clone(), exchange: Some(tokio::spawn(exchange)) };
        Ok(Connection { pending: None, client: Arc::new(client), driver, handle, limit: None })
    }

    fn tls_to(&self, endpoint: &Endpoint) -> Tls {
        let mut tls = self.tls.clone();
        let Ok(tls) =
            MakeTlsConnect::<Box<dyn ByteStream>>::make_tls_connect(&mut tls, &endpoint.host);
        tls
    }
}

type Tls = <MakeRustlsConnect as MakeTlsConnect<Box<dyn ByteStream>>>::TlsConnect;

/// Returns `None` if the server does not know the setting.
fn is_read_only(connection: &mut Connection) -> Option<bool> {
    let show = async |client: &Client| client.simple_query("SHOW transaction_read_only").await;
    let is_on = |message: &SimpleQueryMessage| matches!(message, SimpleQueryMessage::Row(row) if row.get(0) == Some("on"));
    Some(connection.wait(show).ok()?.iter().any(is_on))
}

/// Returns the name of the user who runs this program, the default of libpq.
fn os_user() -> Result<String> {
    let uid = rustix::process::geteuid().as_raw();
    user_name(uid).with_context(|| {
        format!(
            "user {uid} of this system has no name; set the database user in the URL or in PGUSER"
        )
    })
}

/// Number of calls of an interrupter from one cancel request to the next.
const CALLS_PER_REQUEST: u32 = 10;
/// Number of calls after which an interrupter closes the connections, because the server does not answer.
const CALLS_TO_SHUTDOWN: u32 = 30;

impl Server {
    /// Adds a connection to the open ones, for as long as the result lives.
    fn register(&self, handle: Handle) -> Arc<Handle> {
        let handle = Arc::new(handle);
        let mut connections = lock(&self.connections);
        connections.retain(|handle| handle.strong_count() > 0);
        connections.push(Arc::downgrade(&handle));
        self.wake();
        handle
    }

    /// Wakes the thread that watches the sessions.
    pub fn wake(&self) {
        // The write fails only if the counter is full, when the thread is awake already.
        let _ = rustix::io::write(&self.changed, &1u64.to_ne_bytes());
    }

    fn note_answer(&self) {
        *lock(&self.answered_at) = since_boot();
    }

    fn open_handles(&self) -> Vec<Arc<Handle>> {
        let open = lock(&self.connections).iter().filter_map(Weak::upgrade).collect::<Vec<_>>();
        open.into_iter().filter(|handle| !handle.has_ended.load(Ordering::Relaxed)).collect()
    }

    pub fn can_write(self: &Arc<Self>) -> bool {
        self.connect().is_ok_and(|mut connection| is_read_only(&mut connection) == Some(false))
    }

    /// Closes all open connections, also during a statement.
    pub fn end_connections(&self) {
        for handle in self.open_handles() {
            // An error means that the socket is shut down already.
            let _ = shutdown(&handle.socket, Shutdown::Both);
        }
    }

    pub fn interrupter(self: &Arc<Self>) -> Interrupter {
        let (server, mut calls) = (self.clone(), 0_u32);
        Box::new(move || {
            if calls >= CALLS_TO_SHUTDOWN {
                server.end_connections();
            } else if calls.is_multiple_of(CALLS_PER_REQUEST) {
                // A server that hangs may accept the request and never answer. Then the connections are closed later.
                server.cancel();
            }
            calls = calls.saturating_add(1);
        })
    }

    /// Asks the server to cancel the statement of a connection, without waiting.
    pub fn cancel_soon(self: &Arc<Self>, handle: &Arc<Handle>) {
        let (server, handle) = (self.clone(), handle.clone());
        let run = move || {
            let request = async {
                let (stream, _) = handle.route.clone().open().await.ok()?;
                let tls = server.tls_to(&handle.route.endpoint);
                handle.cancel.cancel_query_raw(stream, tls).await.ok()
            };
            if let Ok(runtime) = runtime() {
                let _ = runtime.block_on(async { timeout(CANCEL_TIMEOUT, request).await });
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
        // Other threads read the answers, so only the end of a connection counts.
        events.extend(handles.iter().map(|handle| PollFd::new(&handle.socket, PollFlags::RDHUP)));
        let timeout = Timespec::try_from(timeout).ok();
        if poll(&mut events, timeout.as_ref()).is_err() {
            return Wakeup::Time;
        }
        let is_ready: Vec<_> = events.iter().map(|event| !event.revents().is_empty()).collect();
        if is_ready[0] {
            return Wakeup::End;
        }
        // Fails without waiting if `changed` is not readable.
        let _ = rustix::io::read(&self.changed, &mut [0; 8]);
        for (handle, _) in handles.iter().zip(&is_ready[2..]).filter(|(_, has_ended)| **has_ended) {
            handle.has_ended.store(true, Ordering::Relaxed);
        }
        if is_ready[2..].contains(&true) { Wakeup::SessionEnded } else { Wakeup::Time }
    }

    fn cancel(&self) {
        self.open_handles().iter().for_each(|handle| self.cancel_soon(handle));
    }

    /// Zero for a Unix socket, whose sessions end with the server, and in unlimited requests, when keepalives probe it.
    fn silent_for(&self) -> Duration {
        let is_waiting = |handle: &Arc<Handle>| handle.is_waiting.load(Ordering::Relaxed);
        let is_local = self.endpoints.iter().all(|endpoint| endpoint.is_socket());
        if is_local || self.open_handles().iter().any(is_waiting) {
            return Duration::ZERO;
        }
        since_boot().saturating_sub(*lock(&self.answered_at))
    }
}

//! A connection to a server. The socket is opened here, so that other threads can watch it and shut it down. The client
//! of tokio-postgres has no thread: it works only while somebody waits for an answer.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{Either, select};
use rustix::net::{Shutdown, shutdown, sockopt};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::{self, Runtime};
use tokio::task::{JoinHandle, yield_now};
use tokio::time::timeout;
use tokio_postgres::config::{Config, SslMode};
use tokio_postgres::{CancelToken, Client, Error as SqlError};

use super::Server;
use super::endpoint::{Address, Endpoint};
use super::failure::{ConnectFailure, FailureKind};

pub trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for S {}

#[derive(Clone)]
pub struct Route {
    pub endpoint: Arc<Endpoint>,
    pub address: Address,
    pub mode: SslMode,
}

/// The message of the protocol that asks for TLS: its length and its code.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

impl Route {
    /// Connects and negotiates TLS. Then the mode is `Require` if the server waits for a handshake, and else `Disable`.
    pub async fn open(&mut self) -> Result<(Box<dyn ByteStream>, OwnedFd), ConnectFailure> {
        let (mut stream, socket): (Box<dyn ByteStream>, _) = match &self.address {
            Address::Unix(path) => {
                let stream = UnixStream::connect(path).await?;
                let socket = stream.as_fd().try_clone_to_owned()?;
                (Box::new(stream), socket)
            }
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                let socket = stream.as_fd().try_clone_to_owned()?;
                keep_alive(&socket, &self.endpoint.config)?;
                (Box::new(stream), socket)
            }
        };
        if self.mode != SslMode::Disable {
            stream.write_all(&SSL_REQUEST).await?;
            let has_tls = stream.read_u8().await? == b'S';
            if self.mode == SslMode::Require && !has_tls {
                let hint = "; sslmode=prefer connects without TLS";
                return Err(ConnectFailure::new(
                    FailureKind::Route,
                    "the server does not support TLS",
                    hint,
                ));
            }
            self.mode = if has_tls { SslMode::Require } else { SslMode::Disable };
        }
        Ok((stream, socket))
    }
}

fn keep_alive(socket: &OwnedFd, config: &Config) -> io::Result<()> {
    let idle = config.get_keepalives_idle();
    let interval = config.get_keepalives_interval().unwrap_or(idle);
    let count = config.get_keepalives_retries().filter(|count| *count > 0).unwrap_or(3);
    sockopt::set_socket_keepalive(socket, config.get_keepalives())?;
    sockopt::set_tcp_keepidle(socket, idle)?;
    sockopt::set_tcp_keepintvl(socket, interval)?;
    sockopt::set_tcp_keepcnt(socket, count)?;
    // Unacknowledged data times out together with the keepalives.
    let silence = u32::try_from((idle + interval * count).as_millis());
    Ok(sockopt::set_tcp_user_timeout(socket, silence.unwrap_or(u32::MAX))?)
}

/// Time limit for the answer of a healthy server.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

pub struct Connection {
    // `pending` and `client` are dropped before the driver, which then ends the session.
    /// A request that was sent without waiting for the answer.
    pub(super) pending: Option<PendingRequest>,
    pub client: Arc<Client>,
    pub(super) driver: Driver,
    /// For other threads, while the connection exists.
    pub handle: Arc<Handle>,
    /// Time limit for an answer, after which the connection is closed.
    pub limit: Option<Duration>,
}

#[derive(Debug)]
pub enum RequestError {
    Sql(SqlError),
    /// No answer within the time limit.
    Silent(Duration),
}

impl From<SqlError> for RequestError {
    fn from(error: SqlError) -> Self {
        Self::Sql(error)
    }
}

type PendingRequest = Pin<Box<dyn Future<Output = Result<(), SqlError>> + Send>>;

pub(super) struct Driver {
    pub server: Arc<Server>,
    /// The task that sends requests and receives answers until the connection ends. `None` once its error was returned.
    pub exchange: Option<JoinHandle<Result<(), SqlError>>>,
}

/// Ends the session, without waiting long for a server that hangs.
impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(exchange) = self.exchange.take() {
            let abort = exchange.abort_handle();
            let runtime = &self.server.runtime;
            let _ = runtime.block_on(async { timeout(ANSWER_TIMEOUT, exchange).await });
            abort.abort();
        }
    }
}

/// An open connection as other threads see it.
pub struct Handle {
    pub cancel: CancelToken,
    pub route: Route,
    /// The session lasts while any process has the socket open. Polling it shows the end.
    pub socket: OwnedFd,
    pub has_ended: AtomicBool,
    /// True while a request without a time limit runs.
    pub is_waiting: AtomicBool,
}

impl Connection {
    /// Sends a request without waiting for the answer. Only one such request may be open at a time.
    pub fn send<A>(&mut self, request: impl FnOnce(Arc<Client>) -> A) -> Result<(), RequestError>
    where
        A: Future<Output = Result<(), SqlError>> + Send + 'static,
    {
        self.pending = Some(Box::pin(request(self.client.clone())));
        self.has_answered().map(|_| ())
    }

    /// Returns true if no request is pending any more, without waiting.
    pub fn has_answered(&mut self) -> Result<bool, RequestError> {
        let Some(pending) = &mut self.pending else { return Ok(true) };
        // The first round sends the request, and the second receives an answer that has arrived.
        let rounds = pin!(yield_now().then(|()| yield_now()));
        let polled = self.driver.server.runtime.block_on(select(pending, rounds));
        let Either::Left((answer, _)) = polled else { return Ok(false) };
        self.pending = None;
        self.note_result(answer.map_err(RequestError::from)).map(|()| true)
    }

    pub fn wait_for_answer(&mut self) -> Result<(), RequestError> {
        match self.pending.take() {
            Some(pending) => self.wait(async |_| pending.await),
            None => Ok(()),
        }
    }

    pub fn wait<T>(
        &mut self,
        request: impl AsyncFnOnce(&Client) -> Result<T, SqlError>,
    ) -> Result<T, RequestError> {
        self.handle.is_waiting.store(self.limit.is_none(), Ordering::Relaxed);
        let limit = self.limit.unwrap_or(Duration::MAX);
        let request = async { timeout(limit, request(&self.client)).await };
        let answer = self.driver.server.runtime.block_on(request);
        let answer = answer.map_err(|_| RequestError::Silent(limit));
        self.note_result(answer.and_then(|answer| Ok(answer?)))
    }

    pub fn wait_with<T>(
        &mut self,
        other: &Self,
        request: impl AsyncFnOnce(&Client, &Client) -> T,
    ) -> Result<T, RequestError> {
        self.wait(async |client| Ok(request(client, &other.client).await))
    }

    /// Notes the time of an answer, or gives up the connection. Returns the error that closed it, if one did.
    fn note_result<T>(&mut self, result: Result<T, RequestError>) -> Result<T, RequestError> {
        self.handle.is_waiting.store(false, Ordering::Relaxed);
        match &result {
            Err(RequestError::Silent(_)) => self.give_up(),
            Err(RequestError::Sql(error)) if error.as_db_error().is_none() => {
                let Driver { server, exchange } = &mut self.driver;
                let ended = exchange.take_if(|_| error.is_closed());
                if let Some(Ok(Err(error))) = ended.map(|ended| server.runtime.block_on(ended)) {
                    return Err(error.into());
                }
            }
            Ok(_) | Err(RequestError::Sql(_)) => self.driver.server.note_answer(),
        }
        result
    }

    /// Ends the connection without a message. Closing the socket would not suffice: the watchdog may have it open, too.
    fn give_up(&mut self) {
        self.pending = None;
        if let Some(exchange) = self.driver.exchange.take() {
            exchange.abort();
        }
        self.handle.has_ended.store(true, Ordering::Relaxed);
        let _ = shutdown(&self.handle.socket, Shutdown::Both);
    }

    /// Returns true unless the connection is known to have ended. Does not ask the server.
    pub fn is_open(&self) -> bool {
        self.driver.exchange.as_ref().is_some_and(|exchange| !exchange.is_finished())
            && !self.client.is_closed()
            && !self.handle.has_ended.load(Ordering::Relaxed)
    }

    pub fn is_alive(&mut self) -> bool {
        let limit = self.limit.replace(ANSWER_TIMEOUT);
        let is_alive =
            self.is_open() && self.wait(async |client| client.simple_query("").await).is_ok();
        self.limit = limit;
        is_alive
    }
}

/// A runtime that works on the thread that waits.
pub fn runtime() -> io::Result<Runtime> {
    runtime::Builder::new_current_thread().enable_all().build()
}

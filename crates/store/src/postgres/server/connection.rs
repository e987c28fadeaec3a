//! A connection to a server, whose socket is opened here so that its descriptor is at hand. The client of tokio-postgres
//! works only while somebody waits for an answer; it has no thread.

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

/// One way to a server.
#[derive(Clone)]
pub struct Route {
    pub endpoint: Arc<Endpoint>,
    pub address: Address,
    /// Whether there is TLS.
    pub mode: SslMode,
}

/// A message of the protocol: its length, and its number.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

impl Route {
    /// Connects a socket, of which there is another descriptor then, and agrees on TLS: the server waits for it to
    /// begin if the mode is `Require` afterwards, and otherwise there is none.
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
                let hint = "; sslmode=prefer goes on without";
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
    // Data may stay unacknowledged for as long as keepalives probe a silent server.
    let silence = u32::try_from((idle + interval * count).as_millis());
    Ok(sockopt::set_tcp_user_timeout(socket, silence.unwrap_or(u32::MAX))?)
}

/// Time in which a living server answers.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

pub struct Connection {
    // Both are dropped before the driver, which then takes leave of the server.
    /// A request that was sent without waiting for the answer.
    pub(super) sent: Option<PendingRequest>,
    pub client: Arc<Client>,
    pub(super) driver: Driver,
    /// Ends its statements, as long as it lives.
    pub handle: Arc<Handle>,
    /// Time limit of an answer. After it the connection is given up.
    pub limit: Option<Duration>,
}

type PendingRequest = Pin<Box<dyn Future<Output = Result<(), SqlError>> + Send>>;

pub(super) struct Driver {
    pub server: Arc<Server>,
    /// Sends requests and receives answers until the connection ends. None once its error was returned.
    pub exchange: Option<JoinHandle<Result<(), SqlError>>>,
}

/// Says that the session is over. A server that hangs is not waited for.
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

/// The failure of a request.
#[derive(Debug)]
pub enum RequestError {
    Sql(SqlError),
    /// No answer came within the limit.
    Silent(Duration),
}

impl From<SqlError> for RequestError {
    fn from(error: SqlError) -> Self {
        Self::Sql(error)
    }
}

/// An open connection, for other threads than the one that uses it.
pub struct Handle {
    pub cancel: CancelToken,
    pub route: Route,
    /// The session lives as long as a process has it open, and a process that polls it sees the end.
    pub socket: OwnedFd,
    /// Whether the connection is known to have ended.
    pub has_ended: AtomicBool,
    /// Whether a request is running whose answer may take any time.
    pub is_waiting: AtomicBool,
}

impl Connection {
    /// Sends a request whose answer is waited for later: one at a time.
    pub fn send<A>(&mut self, ask: impl FnOnce(Arc<Client>) -> A) -> Result<(), RequestError>
    where
        A: Future<Output = Result<(), SqlError>> + Send + 'static,
    {
        self.sent = Some(Box::pin(ask(self.client.clone())));
        self.has_answered().map(|_| ())
    }

    /// Whether the answer to the request that was sent has come, or none was sent.
    pub fn has_answered(&mut self) -> Result<bool, RequestError> {
        let Some(sent) = &mut self.sent else { return Ok(true) };
        // In the first round the request is sent, and in the next an answer received that is there by then.
        let rounds = pin!(yield_now().then(|()| yield_now()));
        let polled = self.driver.server.runtime.block_on(select(sent, rounds));
        let Either::Left((answer, _)) = polled else { return Ok(false) };
        self.sent = None;
        self.heard(answer.map_err(RequestError::from)).map(|()| true)
    }

    /// Waits for the answer to the request that was sent, if one was.
    pub fn wait_for_answer(&mut self) -> Result<(), RequestError> {
        match self.sent.take() {
            Some(sent) => self.wait(async |_| sent.await),
            None => Ok(()),
        }
    }

    /// Waits for an answer to what is asked of the client.
    pub fn wait<T>(
        &mut self,
        ask: impl AsyncFnOnce(&Client) -> Result<T, SqlError>,
    ) -> Result<T, RequestError> {
        self.handle.is_waiting.store(self.limit.is_none(), Ordering::Relaxed);
        let limit = self.limit.unwrap_or(Duration::MAX);
        let ask = async { timeout(limit, ask(&self.client)).await };
        let waited = self.driver.server.runtime.block_on(ask);
        let waited = waited.map_err(|_| RequestError::Silent(limit));
        self.heard(waited.and_then(|answer| Ok(answer?)))
    }

    /// Waits for what is asked of two clients.
    pub fn wait_with<T>(
        &mut self,
        other: &Self,
        ask: impl AsyncFnOnce(&Client, &Client) -> T,
    ) -> Result<T, RequestError> {
        self.wait(async |client| Ok(ask(client, &other.client).await))
    }

    /// Notes the time of an answer. A connection that did not answer in time is given up. The error that has ended
    /// a connection says more than that it is closed.
    fn heard<T>(&mut self, waited: Result<T, RequestError>) -> Result<T, RequestError> {
        self.handle.is_waiting.store(false, Ordering::Relaxed);
        match &waited {
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
        waited
    }

    /// Ends the connection without a message to the server. The socket is shut down and not only closed,
    /// because the watchdog may have it open as well.
    fn give_up(&mut self) {
        self.sent = None;
        if let Some(exchange) = self.driver.exchange.take() {
            exchange.abort();
        }
        self.handle.has_ended.store(true, Ordering::Relaxed);
        let _ = shutdown(&self.handle.socket, Shutdown::Both);
    }

    /// Whether the connection is open, as far as is known without asking the server.
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

/// A runtime on the thread that waits.
pub fn runtime() -> io::Result<Runtime> {
    runtime::Builder::new_current_thread().enable_all().build()
}

//! A connection to a server, whose socket is opened here so that its descriptor is at hand. The client of tokio-postgres
//! works only while somebody waits for an answer; it has no thread.

use std::cell::Cell;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;
use std::{future, io};

use rustix::net::{Shutdown, shutdown, sockopt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::{self, Runtime};
use tokio::task::{JoinHandle, yield_now};
use tokio::time::timeout;
use tokio_postgres::config::Config;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{CancelToken, Client, Error as SqlError};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::Server;
use super::endpoint::Address;

pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

type Plain = Box<dyn Stream>;
type Connector = <MakeRustlsConnect as MakeTlsConnect<Plain>>::TlsConnect;
type Encrypted = <MakeRustlsConnect as MakeTlsConnect<Plain>>::Stream;

/// Sends requests and receives answers, until the connection ends.
pub type Exchange = tokio_postgres::Connection<Plain, Encrypted>;

/// Begins TLS, and notes that the server was willing to.
pub struct Handshake {
    connector: Connector,
    pub has_begun: Rc<Cell<bool>>,
}

impl Handshake {
    pub fn new(tls: &MakeRustlsConnect, host: &str) -> Self {
        let Ok(connector) = MakeTlsConnect::<Plain>::make_tls_connect(&mut tls.clone(), host);
        Self { connector, has_begun: Rc::default() }
    }
}

impl TlsConnect<Plain> for Handshake {
    type Stream = Encrypted;
    type Error = io::Error;
    type Future = <Connector as TlsConnect<Plain>>::Future;

    fn connect(self, stream: Plain) -> Self::Future {
        self.has_begun.set(true);
        self.connector.connect(stream)
    }
}

/// A connected socket, and another descriptor of it.
pub async fn open_socket(address: &Address, config: &Config) -> io::Result<(Plain, OwnedFd)> {
    match address {
        Address::Unix(path) => {
            let stream = UnixStream::connect(path).await?;
            let socket = stream.as_fd().try_clone_to_owned()?;
            Ok((Box::new(stream), socket))
        }
        Address::Tcp(address) => {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let socket = stream.as_fd().try_clone_to_owned()?;
            let (idle, count) =
                (config.get_keepalives_idle(), config.get_keepalives_retries().unwrap_or(1));
            let interval = config.get_keepalives_interval().unwrap_or(idle);
            sockopt::set_socket_keepalive(&socket, config.get_keepalives())?;
            sockopt::set_tcp_keepidle(&socket, idle)?;
            sockopt::set_tcp_keepintvl(&socket, interval)?;
            sockopt::set_tcp_keepcnt(&socket, count)?;
            // Data may stay unacknowledged for as long as keepalives probe a silent server.
            let silence = u32::try_from((idle + interval * count).as_millis());
            sockopt::set_tcp_user_timeout(&socket, silence.unwrap_or(u32::MAX))?;
            Ok((Box::new(stream), socket))
        }
    }
}

/// How long a living server takes to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

pub struct Connection {
    // Both are dropped before the driver, which then takes leave of the server.
    /// A request that was sent without waiting for the answer.
    sent: Option<Sent>,
    pub client: Arc<Client>,
    driver: Driver,
    /// Ends its statements, as long as it lives.
    pub handle: Arc<Handle>,
    /// How long an answer may take. If it takes longer, the connection is given up.
    pub limit: Option<Duration>,
}

type Sent = Pin<Box<dyn Future<Output = Result<(), SqlError>> + Send>>;

struct Driver {
    server: Arc<Server>,
    /// None once its error was returned.
    exchange: Option<JoinHandle<Result<(), SqlError>>>,
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
pub enum Failure {
    Sql(SqlError),
    /// No answer came within the limit.
    Silent(Duration),
}

impl From<SqlError> for Failure {
    fn from(error: SqlError) -> Self {
        Self::Sql(error)
    }
}

/// An open connection, for other threads than the one that uses it.
pub struct Handle {
    pub cancel: CancelToken,
    pub address: Address,
    /// The name in the certificate of the server.
    pub host: String,
    /// Whoever holds it keeps the session alive, and sees that it ends.
    pub socket: Arc<OwnedFd>,
    /// Whether the connection is known to have ended.
    pub has_ended: AtomicBool,
    /// Whether a request is running whose answer may take any time.
    pub is_waiting: AtomicBool,
}

impl Connection {
    pub fn new(
        server: Arc<Server>,
        client: Client,
        exchange: Exchange,
        handle: Arc<Handle>,
    ) -> Self {
        let exchange = Some(server.runtime.spawn(exchange));
        let driver = Driver { server, exchange };
        Self { sent: None, client: Arc::new(client), driver, handle, limit: None }
    }

    /// Sends a request whose answer is waited for later: one at a time.
    pub fn send<A>(&mut self, ask: impl FnOnce(Arc<Client>) -> A) -> Result<(), Failure>
    where
        A: Future<Output = Result<(), SqlError>> + Send + 'static,
    {
        self.sent = Some(Box::pin(ask(self.client.clone())));
        self.has_answered().map(|_| ())
    }

    /// Whether the answer to the request that was sent has come, or none was sent.
    pub fn has_answered(&mut self) -> Result<bool, Failure> {
        let Some(sent) = &mut self.sent else { return Ok(true) };
        // In the first round the request is sent, and in the second an answer received that is there by then.
        let polled = self.driver.server.runtime.block_on(async {
            for _ in 0..2 {
                let polled = future::poll_fn(|cx| Poll::Ready(sent.as_mut().poll(cx))).await;
                if polled.is_ready() {
                    return polled;
                }
                yield_now().await;
            }
            future::poll_fn(|cx| Poll::Ready(sent.as_mut().poll(cx))).await
        });
        let Poll::Ready(answer) = polled else { return Ok(false) };
        self.sent = None;
        self.heard(answer.map_err(Failure::from)).map(|()| true)
    }

    /// Waits for the answer to the request that was sent, if one was.
    pub fn wait_for_answer(&mut self) -> Result<(), Failure> {
        match self.sent.take() {
            Some(sent) => self.wait(async |_| sent.await),
            None => Ok(()),
        }
    }

    /// Waits for an answer to what is asked of the client.
    pub fn wait<T>(
        &mut self,
        ask: impl AsyncFnOnce(&Client) -> Result<T, SqlError>,
    ) -> Result<T, Failure> {
        self.handle.is_waiting.store(self.limit.is_none(), Ordering::Relaxed);
        let waited = self.driver.server.runtime.block_on(within(self.limit, ask(&self.client)));
        self.heard(waited)
    }

    /// Waits for what is asked of two clients.
    pub fn wait_with<T>(
        &mut self,
        other: &Self,
        ask: impl AsyncFnOnce(&Client, &Client) -> T,
    ) -> Result<T, Failure> {
        let both = async { Ok(ask(&self.client, &other.client).await) };
        let waited = self.driver.server.runtime.block_on(within(self.limit, both));
        self.heard(waited)
    }

    /// Notes the time of an answer. A connection that did not answer in time is given up. The error that has ended
    /// a connection says more than that it is closed.
    fn heard<T>(&mut self, waited: Result<T, Failure>) -> Result<T, Failure> {
        self.handle.is_waiting.store(false, Ordering::Relaxed);
        match &waited {
            Ok(_) => self.driver.server.note_answer(),
            Err(Failure::Silent(_)) => self.give_up(),
            Err(Failure::Sql(error)) if error.as_db_error().is_some() => {
                self.driver.server.note_answer();
            }
            Err(Failure::Sql(error)) => {
                let Driver { server, exchange } = &mut self.driver;
                let ended = exchange.take_if(|_| error.is_closed());
                if let Some(Ok(Err(error))) = ended.map(|ended| server.runtime.block_on(ended)) {
                    return Err(error.into());
                }
            }
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

async fn within<T>(
    limit: Option<Duration>,
    answer: impl Future<Output = Result<T, SqlError>>,
) -> Result<T, Failure> {
    match limit {
        None => Ok(answer.await?),
        Some(limit) => Ok(timeout(limit, answer).await.map_err(|_| Failure::Silent(limit))??),
    }
}

/// A runtime on the thread that waits.
pub fn runtime() -> io::Result<Runtime> {
    runtime::Builder::new_current_thread().enable_all().build()
}

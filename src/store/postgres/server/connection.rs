//! A connection to a server. Its socket is opened here, so that the descriptor is at hand and the
//! stage at which a connection fails is known; the client of tokio-postgres is driven by whoever
//! waits for an answer, without a thread of its own.

use std::cell::Cell;
use std::future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::Result;
use nix::unistd::{Uid, User};
use rustix::net::{Shutdown, shutdown, sockopt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::{self, Runtime};
use tokio::time::timeout;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{CancelToken, Client, Error as SqlError};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::failure::{Kind, Refusal};
use super::parameters::Parameters;
use crate::store::watchdog::boottime;

#[derive(Clone)]
pub enum Address {
    Unix(PathBuf),
    /// With the name that its certificate is for.
    Tcp(SocketAddr, String),
}

pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

type Plain = Box<dyn Stream>;
type Encrypted = <MakeRustlsConnect as MakeTlsConnect<Plain>>::Stream;

/// What begins TLS, where a connection can have it, and tells its failure from those of a login.
pub struct Handshake {
    connector: Option<Connector>,
    /// Whether the server was willing to begin it.
    pub has_begun: Rc<Cell<bool>>,
}

type Connector = <MakeRustlsConnect as MakeTlsConnect<Plain>>::TlsConnect;

impl Handshake {
    pub fn new(tls: Option<&MakeRustlsConnect>, address: &Address) -> Self {
        let connector = match (tls, address) {
            (Some(tls), Address::Tcp(_, name)) => {
                MakeTlsConnect::<Plain>::make_tls_connect(&mut tls.clone(), name).ok()
            }
            (None, _) | (_, Address::Unix(_)) => None,
        };
        Self { connector, has_begun: Rc::default() }
    }
}

impl TlsConnect<Plain> for Handshake {
    type Stream = Encrypted;
    type Error = Refusal;
    type Future = Pin<Box<dyn Future<Output = Result<Encrypted, Refusal>> + Send>>;

    fn connect(self, stream: Plain) -> Self::Future {
        self.has_begun.set(true);
        let connector = self.connector;
        Box::pin(async {
            let no_tls = || Refusal::new(Kind::Tls, "there is no TLS on this connection", "");
            let connected = connector.ok_or_else(no_tls)?.connect(stream).await;
            connected.map_err(|error| Refusal::of_handshake(&error))
        })
    }
}

/// What the parameters ask of a socket.
pub struct SocketOptions {
    /// When a silent server is asked whether it is there, how often, and how many times.
    keepalive: Option<(Duration, Duration, u32)>,
    user_timeout_millis: Option<u32>,
    /// The user that a server on this machine must run as.
    required_peer: Option<String>,
}

impl SocketOptions {
    pub fn of(parameters: &Parameters) -> Result<Self> {
        // So that a server that is gone is noticed within a minute, and not after two hours.
        let idle = parameters.seconds("keepalives_idle")?.unwrap_or(Duration::from_secs(30));
        let interval =
            parameters.seconds("keepalives_interval")?.unwrap_or(Duration::from_secs(10));
        let count = parameters.number("keepalives_count")?;
        let count = count.or(parameters.number("keepalives_retries")?).filter(|it| *it > 0);
        let has_keepalive = parameters.number("keepalives")? != Some(0);
        let keepalive = has_keepalive.then_some((idle, interval, count.unwrap_or(3)));
        // Data may stay unacknowledged for as long as keepalives probe a silent server.
        let silence = keepalive.map(|(idle, interval, count)| idle + interval * count);
        let silence = silence.unwrap_or(Duration::from_secs(60));
        let user_timeout = u32::try_from(silence.as_millis()).ok();
        let user_timeout = parameters.number("tcp_user_timeout")?.or(user_timeout);
        Ok(Self {
            keepalive,
            user_timeout_millis: user_timeout.filter(|millis| *millis > 0),
            required_peer: parameters.text("requirepeer").map(String::from),
        })
    }

    /// A connected socket, and another descriptor of it.
    pub async fn open(&self, address: &Address) -> Result<(Plain, OwnedFd), Refusal> {
        Ok(match address {
            Address::Unix(path) => {
                let stream = UnixStream::connect(path).await?;
                self.check_peer(&stream)?;
                let socket = stream.as_fd().try_clone_to_owned()?;
                (Box::new(stream), socket)
            }
            Address::Tcp(address, _) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                let socket = stream.as_fd().try_clone_to_owned()?;
                self.keep_alive(&socket).map_err(io::Error::from)?;
                (Box::new(stream), socket)
            }
        })
    }

    fn keep_alive(&self, socket: &OwnedFd) -> rustix::io::Result<()> {
        if let Some(millis) = self.user_timeout_millis {
            sockopt::set_tcp_user_timeout(socket, millis)?;
        }
        if let Some((idle, interval, count)) = self.keepalive {
            sockopt::set_socket_keepalive(socket, true)?;
            sockopt::set_tcp_keepidle(socket, idle)?;
            sockopt::set_tcp_keepintvl(socket, interval)?;
            sockopt::set_tcp_keepcnt(socket, count)?;
        }
        Ok(())
    }

    fn check_peer(&self, stream: &UnixStream) -> Result<(), Refusal> {
        let Some(required) = &self.required_peer else { return Ok(()) };
        let uid = stream.peer_cred()?.uid();
        let found = User::from_uid(Uid::from_raw(uid)).ok().flatten();
        let found = found.map_or_else(|| uid.to_string(), |user| user.name);
        if found == *required {
            return Ok(());
        }
        let cause = format!("the server runs as {found}, and requirepeer asks for {required}");
        Err(Refusal::new(Kind::Other, cause, ""))
    }
}

/// How long a living server takes to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

pub struct Connection {
    // Both are dropped before the driver, which then takes leave of the server.
    /// What was asked without waiting for the answer.
    sent: Option<Sent>,
    pub client: Arc<Client>,
    pub driver: Driver,
    /// What ends its statements, as long as it lives.
    pub handle: Arc<Handle>,
    /// How long an answer may take. If it takes longer, the connection is given up.
    pub limit: Option<Duration>,
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

/// An open connection, as far as it takes to end what it is at.
pub struct Handle {
    pub cancel: CancelToken,
    pub address: Address,
    /// Whoever holds it keeps the session alive, and sees that it ends.
    pub socket: Arc<OwnedFd>,
    /// Whether the connection is known to have ended.
    pub has_ended: AtomicBool,
    /// Whether a request is running whose answer may take any time.
    pub is_waiting: AtomicBool,
    pub answers: Arc<Answers>,
}

/// The time of the server's last answer on any connection.
#[derive(Default)]
pub struct Answers {
    millis_since_boot: AtomicU64,
}

impl Answers {
    pub fn note(&self) {
        self.millis_since_boot.store(millis_since_boot(), Ordering::Relaxed);
    }

    pub fn silent_for(&self) -> Duration {
        let answered_at = self.millis_since_boot.load(Ordering::Relaxed);
        Duration::from_millis(millis_since_boot().saturating_sub(answered_at))
    }
}

fn millis_since_boot() -> u64 {
    u64::try_from(boottime().as_millis()).unwrap_or(u64::MAX)
}

type Sent = Pin<Box<dyn Future<Output = Result<(), SqlError>> + Send>>;

/// What sends requests and receives answers; none of it is left once the connection has ended.
pub struct Exchange(pub Option<tokio_postgres::Connection<Plain, Encrypted>>);

pub struct Driver {
    /// The same for all connections of a server, so that they can be waited for together.
    pub runtime: Arc<Runtime>,
    pub exchange: Exchange,
}

impl Exchange {
    /// Sends and receives; the error is what has ended it.
    fn poll(&mut self, cx: &mut Context<'_>) -> Result<(), SqlError> {
        if let Some(exchange) = &mut self.0
            && let Poll::Ready(ended) = Pin::new(exchange).poll(cx)
        {
            self.0 = None;
            ended?;
        }
        Ok(())
    }

    /// Sends and receives what can be without waiting, and looks whether there is an answer by then.
    async fn poll_once<T>(
        &mut self,
        mut asked: Pin<&mut (dyn Future<Output = Result<T, SqlError>> + Send)>,
    ) -> Poll<Result<T, SqlError>> {
        future::poll_fn(|cx| {
            // It is asked for only once it is polled.
            let polled = asked.as_mut().poll(cx);
            Poll::Ready(match self.poll(cx) {
                _ if polled.is_ready() => polled,
                Ok(()) => asked.as_mut().poll(cx),
                Err(error) => Poll::Ready(Err(error)),
            })
        })
        .await
    }

    /// Waits for the answer to a request, and sends and receives meanwhile. If the server answers and hangs
    /// up, the answer counts, also if it is an error. Without an answer the error of the connection is
    /// returned.
    pub async fn answer<T>(
        &mut self,
        asked: impl Future<Output = Result<T, SqlError>>,
    ) -> Result<T, SqlError> {
        let mut asked = pin!(asked);
        future::poll_fn(|cx| {
            let ended = self.poll(cx);
            match (ended, asked.as_mut().poll(cx)) {
                (Err(_), Poll::Ready(Ok(answer))) => Poll::Ready(Ok(answer)),
                (Err(_), Poll::Ready(Err(error))) if error.as_db_error().is_some() => {
                    Poll::Ready(Err(error))
                }
                (Err(error), _) => Poll::Ready(Err(error)),
                (Ok(()), polled) => polled,
            }
        })
        .await
    }
}

impl Connection {
    pub fn new(client: Client, driver: Driver, handle: Arc<Handle>) -> Self {
        Self { sent: None, client: Arc::new(client), driver, handle, limit: None }
    }

    /// Asks something of the client, whose answer is waited for later: one such thing at a time.
    pub fn send<A>(&mut self, ask: impl FnOnce(Arc<Client>) -> A) -> Result<(), Failure>
    where
        A: Future<Output = Result<(), SqlError>> + Send + 'static,
    {
        self.sent = Some(Box::pin(ask(self.client.clone())));
        self.has_answered().map(|_| ())
    }

    /// Whether the answer to what was sent has come, or nothing was sent.
    pub fn has_answered(&mut self) -> Result<bool, Failure> {
        let Some(sent) = &mut self.sent else { return Ok(true) };
        let Driver { runtime, exchange } = &mut self.driver;
        let polled = runtime.block_on(async {
            let polled = exchange.poll_once(sent.as_mut()).await;
            // Meanwhile the runtime sees what has come.
            tokio::task::yield_now().await;
            if polled.is_pending() { exchange.poll_once(sent.as_mut()).await } else { polled }
        });
        let Poll::Ready(answer) = polled else { return Ok(false) };
        self.sent = None;
        Ok(answer.map(|()| true)?)
    }

    /// Waits for the answer to what was sent, if anything was.
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
        let Driver { runtime, exchange } = &mut self.driver;
        let answer = exchange.answer(ask(&self.client));
        self.handle.is_waiting.store(self.limit.is_none(), Ordering::Relaxed);
        let waited = runtime.block_on(within(self.limit, answer));
        self.heard(waited)
    }

    /// Waits for what is asked of two clients.
    pub fn wait_with<T>(
        &mut self,
        other: &mut Self,
        ask: impl AsyncFnOnce(&Client, &Client) -> T,
    ) -> Result<T, Failure> {
        let clients = [&self.client, &other.client].map(Arc::clone);
        let mut asked = pin!(ask(&clients[0], &clients[1]));
        let Driver { runtime, exchange } = &mut self.driver;
        let mut exchanges = [exchange, &mut other.driver.exchange];
        let both = future::poll_fn(|cx| {
            // What is asked of one that has ended fails.
            for exchange in &mut exchanges {
                let _ = exchange.poll(cx);
            }
            asked.as_mut().poll(cx)
        });
        let waited = runtime.block_on(within(self.limit, async { Ok(both.await) }));
        self.heard(waited)
    }

    /// Notes the time of an answer. A connection that did not answer in time is given up.
    fn heard<T>(&mut self, waited: Result<T, Failure>) -> Result<T, Failure> {
        self.handle.is_waiting.store(false, Ordering::Relaxed);
        match &waited {
            Ok(_) => self.handle.answers.note(),
            Err(Failure::Silent(_)) => self.give_up(),
            Err(Failure::Sql(error)) if error.as_db_error().is_some() => self.handle.answers.note(),
            Err(Failure::Sql(_)) => {}
        }
        waited
    }

    /// Ends the connection without a message to the server. The socket is shut down and not only closed,
    /// because the watchdog may have it open as well.
    fn give_up(&mut self) {
        self.sent = None;
        self.driver.exchange.0 = None;
        self.handle.has_ended.store(true, Ordering::Relaxed);
        let _ = shutdown(&self.handle.socket, Shutdown::Both);
    }

    /// Whether the connection is open, as far as is known without asking the server.
    pub fn is_open(&self) -> bool {
        self.driver.exchange.0.is_some()
            && !self.client.is_closed()
            && !self.handle.has_ended.load(Ordering::Relaxed)
    }

    pub fn is_alive(&mut self) -> bool {
        let limit = self.limit.replace(ANSWER_TIMEOUT);
        let is_alive = self.is_open() && self.wait(async |it| it.simple_query("").await).is_ok();
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

/// Says that the session is over. A server that hangs is not waited for.
impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(exchange) = self.exchange.0.take() {
            let _ = self.runtime.block_on(async { timeout(ANSWER_TIMEOUT, exchange).await });
        }
    }
}

/// A runtime on the thread that waits.
pub fn runtime() -> io::Result<Runtime> {
    runtime::Builder::new_current_thread().enable_all().build()
}

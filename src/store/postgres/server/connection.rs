//! A connection to a server. Its socket is opened here, so that the descriptor is at hand and the
//! stage at which a connection fails is known; the client of tokio-postgres is driven by whoever
//! waits for an answer, without a thread of its own.

use std::convert::Infallible;
use std::future::{self, Ready};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use anyhow::Result;
use nix::unistd::{Uid, User};
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, empty};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::{self, Runtime};
use tokio::time::timeout;
use tokio_postgres::config::{Config, SslMode, SslNegotiation};
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{CancelToken, Client, Error as SqlError, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::failure::{Kind, Refusal};
use super::parameters::Parameters;

/// Where a server listens.
#[derive(Clone)]
pub enum Address {
    Unix(PathBuf),
    /// With the name that its certificate is for.
    Tcp(SocketAddr, String),
}

/// Whether a connection is to have TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encryption {
    Never,
    /// If the server has it.
    Preferred,
    Required,
}

pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

type Plain = Box<dyn Stream>;
type Encrypted = <MakeRustlsConnect as MakeTlsConnect<Plain>>::Stream;

/// What the protocol of PostgreSQL is spoken over.
pub enum Wire {
    Plain(Plain),
    Encrypted(Box<Encrypted>),
}

/// A handshake that is done already: the client takes the encrypted stream for its result.
pub struct Handshaken(pub Encrypted);

impl<S> TlsConnect<S> for Handshaken {
    type Stream = Encrypted;
    type Error = Infallible;
    type Future = Ready<Result<Encrypted, Self::Error>>;

    fn connect(self, _: S) -> Self::Future {
        future::ready(Ok(self.0))
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
        Ok(Self {
            keepalive: has_keepalive.then_some((idle, interval, count.unwrap_or(3))),
            user_timeout_millis: parameters.number("tcp_user_timeout")?.filter(|it| *it > 0),
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

/// Agrees with the server on whether there is TLS, and has it begin.
pub async fn encrypt(
    mut stream: Plain,
    tls: Option<&MakeRustlsConnect>,
    address: &Address,
    encryption: Encryption,
) -> Result<Wire, Refusal> {
    /// The request for TLS: its length and its code.
    const REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];
    let (Some(tls), Address::Tcp(_, name), true) = (tls, address, encryption != Encryption::Never)
    else {
        return Ok(Wire::Plain(stream));
    };
    stream.write_all(&REQUEST).await?;
    if stream.read_u8().await? == b'S' {
        let Ok(connector) = MakeTlsConnect::<Plain>::make_tls_connect(&mut tls.clone(), name);
        let encrypted = connector.connect(stream).await;
        let wire = |encrypted| Wire::Encrypted(Box::new(encrypted));
        return encrypted.map(wire).map_err(|error| Refusal::of_handshake(&error));
    }
    if encryption == Encryption::Required {
        let hint = "; sslmode=prefer goes on without";
        return Err(Refusal::new(Kind::Tls, "the server does not support TLS", hint));
    }
    Ok(Wire::Plain(stream))
}

/// How long a living server takes to answer.
const PATIENCE: Duration = Duration::from_secs(2);

pub struct Connection {
    // Dropped before the driver, which then takes leave of the server.
    client: Client,
    driver: Driver,
    /// What ends its statements, as long as it lives.
    handle: Arc<Handle>,
}

/// An open connection, as far as it takes to end what it is at.
pub struct Handle {
    pub cancel: CancelToken,
    pub address: Address,
    pub encryption: Encryption,
    pub socket: Arc<OwnedFd>,
}

/// What sends requests and receives answers.
pub struct Exchange(Option<Unended>);

/// None of it is left once the connection has ended.
type Unended = Pin<Box<dyn Future<Output = Result<(), SqlError>> + Send>>;

struct Driver {
    runtime: Runtime,
    exchange: Exchange,
}

impl Exchange {
    /// The answer to what is asked of the client. Meanwhile it sends and receives.
    pub async fn answer<T>(
        &mut self,
        asked: impl Future<Output = Result<T, SqlError>>,
    ) -> Result<T, SqlError> {
        let mut asked = pin!(asked);
        future::poll_fn(|cx| {
            if let Some(exchange) = &mut self.0
                && let Poll::Ready(ended) = exchange.as_mut().poll(cx)
            {
                self.0 = None;
                ended?;
            }
            asked.as_mut().poll(cx)
        })
        .await
    }
}

impl Connection {
    pub fn new(runtime: Runtime, client: Client, exchange: Exchange, handle: Arc<Handle>) -> Self {
        Self { client, driver: Driver { runtime, exchange }, handle }
    }

    /// Waits for an answer to what is asked of the client.
    pub fn wait<T>(
        &mut self,
        ask: impl AsyncFnOnce(&Client) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        let Driver { runtime, exchange } = &mut self.driver;
        runtime.block_on(exchange.answer(ask(&self.client)))
    }

    pub fn is_alive(&mut self) -> bool {
        let ask = async |client: &Client| Ok(timeout(PATIENCE, client.simple_query("")).await);
        !self.client.is_closed() && self.wait(ask).is_ok_and(|it| matches!(it, Ok(Ok(_))))
    }

    /// Whoever holds it keeps the session alive, and sees that it ends.
    pub fn socket(&self) -> &Arc<OwnedFd> {
        &self.handle.socket
    }
}

/// Says that the session is over. A server that hangs is not waited for.
impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(exchange) = self.exchange.0.take() {
            let _ = self.runtime.block_on(async { timeout(PATIENCE, exchange).await });
        }
    }
}

/// A runtime on the thread that waits.
pub fn runtime() -> io::Result<Runtime> {
    runtime::Builder::new_current_thread().enable_all().build()
}

/// Logs in on a socket.
pub async fn log_in(mut config: Config, wire: Wire) -> Result<(Client, Exchange), SqlError> {
    match wire {
        Wire::Plain(stream) => {
            let (client, exchange) =
                config.ssl_mode(SslMode::Disable).connect_raw(stream, NoTls).await?;
            Ok((client, Exchange(Some(Box::pin(exchange)))))
        }
        Wire::Encrypted(stream) => {
            config.ssl_mode(SslMode::Require).ssl_negotiation(SslNegotiation::Direct);
            let (client, exchange) = config.connect_raw(empty(), Handshaken(*stream)).await?;
            Ok((client, Exchange(Some(Box::pin(exchange)))))
        }
    }
}

//! A connection to a server, driven by whoever waits for an answer: the client of tokio-postgres
//! without a thread of its own.

use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::io::empty;
use tokio::runtime::{self, Runtime};
use tokio::time::timeout;
use tokio_postgres::config::{Config, SslMode, SslNegotiation};
use tokio_postgres::{CancelToken, Client, Error as SqlError, NoTls};

use super::socket::{Address, Encryption, Handshaken, Wire};

/// How long a living server takes to answer.
const PATIENCE: Duration = Duration::from_secs(2);

pub struct Connection {
    // Dropped before the driver, which then takes leave of the server.
    client: Client,
    driver: Driver,
    /// What ends its statements, as long as it lives.
    line: Arc<Line>,
}

/// An open connection, as far as it takes to end what it is at.
pub struct Line {
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
        poll_fn(|cx| {
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
    pub fn new(runtime: Runtime, client: Client, exchange: Exchange, line: Arc<Line>) -> Self {
        Self { client, driver: Driver { runtime, exchange }, line }
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
        &self.line.socket
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

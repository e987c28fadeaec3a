//! How connections are made: tells failures before anything was sent from those after, and keeps
//! no connections to servers that do not keep them.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, NextTimeout, Transport};

/// So many kept connections in a row may turn out closed before no more are kept.
const DISAPPOINTMENTS: u32 = 3;

/// Nothing was sent, because there was no connection.
#[derive(Debug)]
pub struct Unreachable(pub String);

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unreachable {}

fn unreachable(message: String) -> Error {
    Error::Other(Box::new(Unreachable(message)))
}

/// Finds addresses; those of the proxy for every URL, if requests are handed to one as they are.
#[derive(Debug, Default)]
pub struct Lookup {
    pub proxy: Option<Uri>,
    system: DefaultResolver,
}

impl Lookup {
    pub fn new(proxy: Option<Uri>) -> Self {
        Self { proxy, system: DefaultResolver::default() }
    }
}

impl Resolver for Lookup {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let uri = self.proxy.as_ref().unwrap_or(uri);
        let host = uri.host().unwrap_or_default();
        self.system.resolve(uri, config, timeout).map_err(|error| {
            if matches!(error, Error::Timeout(_)) {
                return error;
            }
            let reason =
                if let Error::Io(error) = &error { words(error) } else { error.to_string() };
            unreachable(format!("could not find the host {host}: {reason}"))
        })
    }
}

/// An error of the system in lower case and without its number.
pub fn words(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split_once(" (os error").map_or(text.as_str(), |(text, _)| text);
    let text = text.strip_prefix("failed to lookup address information: ").unwrap_or(text);
    let mut chars = text.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

/// Whether the other side has closed the connection.
pub fn is_hangup(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// `host:port`, as messages name a server.
pub fn place(uri: &Uri) -> String {
    let port = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    format!("{}:{}", uri.host().unwrap_or_default(), uri.port_u16().unwrap_or(port))
}

/// Opens a connection as the connector inside does.
#[derive(Debug)]
pub struct Dial<C> {
    inner: C,
    proxy: Option<Uri>,
    trust: Arc<Trust>,
}

impl<C> Dial<C> {
    pub fn new(inner: C, proxy: Option<Uri>, trust: Arc<Trust>) -> Self {
        Self { inner, proxy, trust }
    }

    fn explain(&self, error: Error, details: &ConnectionDetails) -> Error {
        let Error::Io(error) = error else { return error };
        let place = place(self.proxy.as_ref().unwrap_or(details.uri));
        unreachable(format!("could not connect to {place}: {}", words(&error)))
    }
}

impl<In: Transport, C: Connector<In>> Connector<In> for Dial<C> {
    type Out = Watched<C::Out>;

    fn connect(
        &self,
        details: &ConnectionDetails,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        // What another has opened is watched already.
        let trust = chained.is_none().then(|| self.trust.clone());
        let opened = self.inner.connect(details, chained);
        let opened = opened.map_err(|error| self.explain(error, details))?;
        Ok(opened.map(|inner| Watched { inner, trust, was_kept: false }))
    }
}

/// Whether the server keeps connections that it promised to keep. A request that meets the end
/// of one is lost, and whether the server has seen it cannot be known.
#[derive(Debug, Default)]
pub struct Trust {
    disappointments: AtomicU32,
}

impl Trust {
    fn is_lost(&self) -> bool {
        self.disappointments.load(Ordering::Relaxed) >= DISAPPOINTMENTS
    }

    fn confirm(&self) {
        self.disappointments.store(0, Ordering::Relaxed);
    }

    fn disappoint(&self) {
        self.disappointments.fetch_add(1, Ordering::Relaxed);
    }
}

/// A connection that notes whether it was kept.
#[derive(Debug)]
pub struct Watched<T> {
    inner: T,
    trust: Option<Arc<Trust>>,
    was_kept: bool,
}

impl<T> Watched<T> {
    /// Notes how a connection fared that had been kept.
    fn note(&self, is_well: bool) {
        let Some(trust) = self.trust.as_ref().filter(|_| self.was_kept) else { return };
        if is_well { trust.confirm() } else { trust.disappoint() }
    }
}

impl<T: Transport> Transport for Watched<T> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.inner.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        match self.inner.transmit_output(amount, timeout) {
            // It may have answered before it hung up, say that the body is too large.
            Err(Error::Io(error)) if is_hangup(&error) => Ok(()),
            sent => sent,
        }
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let read = self.inner.await_input(timeout);
        if !matches!(read, Err(Error::Timeout(_))) {
            self.note(matches!(read, Ok(true)));
        }
        read
    }

    /// Asked before a connection is kept, and again before it is taken.
    fn is_open(&mut self) -> bool {
        if self.trust.as_ref().is_some_and(|trust| trust.is_lost()) {
            return false;
        }
        let is_open = self.inner.is_open();
        if !is_open && let Some(trust) = &self.trust {
            trust.disappoint();
        }
        self.was_kept = is_open;
        is_open
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}

//! Connectors: tell failures before anything was sent from those after, keep no connections to
//! servers that do not keep them, and where records name the host, connect to public addresses only.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fmt, io};

use http::Uri;
use ureq::Error;
use ureq::config::Config;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, NextTimeout, Transport};

/// So many kept connections in a row may turn out closed before no more are kept.
const DISAPPOINTMENTS: u32 = 3;

/// The reason why nothing was sent.
#[derive(Debug)]
pub enum Unsent {
    /// There was no connection.
    Unreachable(String),
    /// The host is none that a record may name.
    Refused(String),
}

impl fmt::Display for Unsent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Unreachable(message) | Self::Refused(message)) = self;
        f.write_str(message)
    }
}

impl std::error::Error for Unsent {}

impl From<Unsent> for Error {
    fn from(unsent: Unsent) -> Self {
        Self::Other(Box::new(unsent))
    }
}

/// Finds addresses; those of the proxy for every URL, if requests are handed to one as they are.
#[derive(Debug, Default)]
pub struct Lookup<R = DefaultResolver> {
    pub proxy: Option<Uri>,
    /// Whether hosts with an address that is not public are refused. These are the very addresses
    /// that are then connected to, so that no second lookup can say otherwise.
    pub is_public_only: bool,
    pub system: R,
}

impl<R: Resolver> Resolver for Lookup<R> {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let uri = self.proxy.as_ref().unwrap_or(uri);
        let host = uri.host().unwrap_or_default();
        let found = self.system.resolve(uri, config, timeout).map_err(|error| {
            if matches!(error, Error::Timeout(_)) {
                return error;
            }
            let reason =
                if let Error::Io(error) = &error { words(error) } else { error.to_string() };
            Unsent::Unreachable(format!("could not find the host {host}: {reason}")).into()
        })?;
        let private = found.iter().map(SocketAddr::ip).find(|address| !is_public(*address));
        match private.filter(|_| self.is_public_only) {
            Some(address) => Err(Error::from(Unsent::Refused(format!(
                "the host {host:?} has the address {address}, which is not public; list it with \
                 --allow-host"
            )))),
            None => Ok(found),
        }
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
        Unsent::Unreachable(format!("could not connect to {place}: {}", words(&error))).into()
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

/// Trust in the server's keep-alive: whether it keeps connections that it promised to keep. A
/// request that meets the end of one is lost, and whether the server has seen it cannot be known.
#[derive(Debug, Default)]
pub struct Trust {
    disappointments: AtomicU32,
}

impl Trust {
    fn is_lost(&self) -> bool {
        self.disappointments.load(Ordering::Relaxed) >= DISAPPOINTMENTS
    }

    /// Notes how a connection fared that had been kept.
    fn note(&self, is_well: bool) {
        if is_well {
            self.disappointments.store(0, Ordering::Relaxed);
        } else {
            self.disappointments.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A connection that notes whether it was kept.
#[derive(Debug)]
pub struct Watched<T> {
    inner: T,
    trust: Option<Arc<Trust>>,
    was_kept: bool,
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
        if let Some(trust) = self.trust.as_ref().filter(|_| self.was_kept)
            && !matches!(read, Err(Error::Timeout(_)))
        {
            trust.note(matches!(read, Ok(true)));
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
            trust.note(false);
        }
        self.was_kept = is_open;
        is_open
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}

/// Whether an address is one of the internet's, as far as its number shows: not of this host, of a
/// private or a shared network, link-local, for benchmarks, multicast or reserved. One of IPv6 that
/// carries one of IPv4 counts as what it carries.
pub fn is_public(address: IpAddr) -> bool {
    let address = match address {
        IpAddr::V4(address) => {
            return !matches!(
                address.octets(),
                [0 | 10 | 127 | 224.., ..]
                    | [100, 64..=127, ..]
                    | [169, 254, ..]
                    | [172, 16..=31, ..]
                    | [192, 168, ..]
                    | [198, 18..=19, ..]
            );
        }
        IpAddr::V6(address) => address,
    };
    if let Some(carried) = carried(address) {
        return is_public(carried.into());
    }
    let [first, second, third, ..] = address.segments();
    // Link-local addresses, and the site-local ones that came before unique local ones.
    let is_local = first & 0xff80 == 0xfe80;
    // NAT64 as a network makes it for itself, in which the address of IPv4 may stand anywhere.
    let is_local_nat64 = [first, second, third] == [0x64, 0xff9b, 1];
    !(address.is_unique_local() || is_local || address.is_multicast() || is_local_nat64)
}

/// The address of IPv4 that one of IPv6 leads to: compatible (with `::` and `::1` among them),
/// mapped, translated, NAT64 or 6to4.
fn carried(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let of = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Some(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => of(high, low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use ureq::unversioned::transport::time::Duration;

    use super::*;

    /// A resolver that always finds these addresses.
    #[derive(Debug)]
    struct Found(Vec<SocketAddr>);

    impl Resolver for Found {
        fn resolve(
            &self,
            _uri: &Uri,
            _config: &Config,
            _timeout: NextTimeout,
        ) -> Result<ResolvedSocketAddrs, Error> {
            let mut addresses = self.empty();
            self.0.iter().for_each(|address| addresses.push(*address));
            Ok(addresses)
        }
    }

    fn resolved(is_public_only: bool, addresses: &[&str]) -> Result<Vec<SocketAddr>, Error> {
        let system = Found(addresses.iter().map(|it| it.parse().unwrap()).collect());
        let lookup = Lookup { proxy: None, is_public_only, system };
        let timeout = NextTimeout { after: Duration::NotHappening, ..NextTimeout::default() };
        let uri = Uri::from_static("http://rebound.example.com/");
        lookup.resolve(&uri, &Config::default(), timeout).map(|found| found.to_vec())
    }

    #[test]
    fn a_name_with_an_address_that_is_not_public_is_refused() {
        for addresses in [
            &["127.0.0.1:80"][..],
            &["1.1.1.1:80", "169.254.169.254:80"],
            &["[::1]:80", "1.1.1.1:80"],
            &["[::ffff:10.0.0.1]:80"],
        ] {
            let Err(Error::Other(error)) = resolved(true, addresses) else { panic!() };
            let Some(Unsent::Refused(error)) = error.downcast_ref() else { panic!() };
            assert!(error.contains("rebound.example.com"), "{error}");
            assert!(error.ends_with("is not public; list it with --allow-host"), "{error}");
            assert_eq!(resolved(false, addresses).unwrap().len(), addresses.len());
        }
        assert_eq!(resolved(true, &["1.1.1.1:80", "[2606:4700::1111]:80"]).unwrap().len(), 2);
    }
}

#[cfg(test)]
mod address_tests {
    use super::*;

    #[test]
    fn what_is_no_address_of_the_internet_is_told() {
        for (address, expected) in [
            ("1.1.1.1", true),
            ("9.255.255.255", true),
            ("100.63.255.255", true),
            ("100.128.0.0", true),
            ("169.253.0.1", true),
            ("172.15.255.255", true),
            ("172.32.0.0", true),
            ("192.167.0.1", true),
            ("198.17.255.255", true),
            ("198.20.0.0", true),
            ("223.255.255.255", true),
            ("0.0.0.0", false),
            ("0.1.2.3", false),
            ("10.0.0.1", false),
            ("100.64.0.0", false),
            ("100.127.255.255", false),
            ("127.0.0.1", false),
            ("127.255.255.255", false),
            ("169.254.169.254", false),
            ("172.16.0.0", false),
            ("172.31.255.255", false),
            ("192.168.0.1", false),
            ("198.18.0.0", false),
            ("198.19.255.255", false),
            ("224.0.0.1", false),
            ("239.255.255.255", false),
            ("240.0.0.1", false),
            ("255.255.255.255", false),
            ("2606:4700::1111", true),
            ("2001:db8::1", true),
            ("::", false),
            ("::1", false),
            ("fc00::1", false),
            ("fdff::1", false),
            ("fe80::1", false),
            ("febf::1", false),
            ("fec0::1", false),
            ("ff02::1", false),
            ("::ffff:1.1.1.1", true),
            ("::ffff:127.0.0.1", false),
            ("::ffff:a9fe:a9fe", false),
            ("::1.1.1.1", true),
            ("::10.0.0.1", false),
            ("::ffff:0:1.1.1.1", true),
            ("::ffff:0:10.0.0.1", false),
            ("64:ff9b::1.1.1.1", true),
            ("64:ff9b::10.0.0.1", false),
            ("64:ff9b::169.254.169.254", false),
            ("64:ff9b:1::1.1.1.1", false),
            ("64:ff9b:1:2:3::", false),
            ("2002:101:101::1", true),
            ("2002:7f00:1::1", false),
            ("2002:c0a8:1::1", false),
        ] {
            assert_eq!(is_public(address.parse().unwrap()), expected, "{address}");
        }
    }
}

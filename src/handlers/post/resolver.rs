//! The addresses of hosts: those that there are, and where records name the host, public ones only.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use http::Uri;
use ureq::Error;
use ureq::config::Config;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

use super::outcome::words;

/// Why a host has no address that may be connected to.
#[derive(Debug)]
pub enum NoAddress {
    /// Nobody knows the host.
    NotFound(String),
    /// The host is none that a record may name.
    NotPublic(String),
}

impl fmt::Display for NoAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::NotFound(message) | Self::NotPublic(message)) = self;
        f.write_str(message)
    }
}

impl std::error::Error for NoAddress {}

impl From<NoAddress> for Error {
    fn from(why: NoAddress) -> Self {
        Self::Other(Box::new(why))
    }
}

/// Finds addresses.
#[derive(Debug, Default)]
pub struct Lookup<R = DefaultResolver> {
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
        let host = uri.host().unwrap_or_default();
        let found = self.system.resolve(uri, config, timeout).map_err(|error| {
            if matches!(error, Error::Timeout(_)) {
                return error;
            }
            let reason =
                if let Error::Io(error) = &error { words(error) } else { error.to_string() };
            NoAddress::NotFound(format!("could not find the host {host}: {reason}")).into()
        })?;
        let private = found.iter().map(SocketAddr::ip).find(|address| !is_public(*address));
        match private.filter(|_| self.is_public_only) {
            Some(address) => Err(Error::from(NoAddress::NotPublic(format!(
                "the host {host:?} has the address {address}, which is not public; list it with \
                 --allow-host"
            )))),
            None => Ok(found),
        }
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
        let lookup = Lookup { is_public_only, system };
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
            let Some(NoAddress::NotPublic(error)) = error.downcast_ref() else { panic!() };
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

//! The agents that send requests. An error before the connection is complete, TLS included, is a [`ConnectError`].

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use backlog_schedule::Reach;
use backlog_store::system_error::reason;
use backlog_store::tls_roots;
use http::Uri;
use rustls::crypto::ring;
use ureq::config::Config;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    ConnectionDetails, Connector, DefaultConnector, NextTimeout, Transport,
};
use ureq::{Agent, Error, ProxyProtocol};

use crate::handlers::webhook::Proxies;

/// Maximum time to read the body of an answer.
const BODY_TIMEOUT: Duration = Duration::from_secs(2);
/// Some servers close connections that are idle for two seconds or more, which may cost an attempt.
const LONGEST_IDLE: Duration = Duration::from_secs(1);

/// Makes an agent. A request for the URI `probed` ends once it is connected, and sends nothing.
pub fn agent(
    timeout: Option<Duration>,
    connections: usize,
    tls: &TlsConfig,
    proxy: Option<&Proxy>,
    is_public_only: bool,
    probed: Option<Uri>,
) -> Agent {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .timeout_global(timeout)
        .timeout_recv_body(Some(BODY_TIMEOUT))
        .max_idle_connections(connections)
        .max_idle_connections_per_host(connections)
        .max_idle_age(LONGEST_IDLE)
        .proxy(proxy.map(|proxy| proxy.proxy.clone()))
        .tls_config(tls.clone())
        .build();
    let connector = ProbingConnector { probed, ..ProbingConnector::default() };
    let resolver: HostResolver = HostResolver { is_public_only, ..HostResolver::default() };
    Agent::with_parts(config, connector, resolver)
}

#[derive(Debug)]
pub enum ConnectError {
    NoAddress { message: String, reach: Reach },
    NotConnected(Error),
    Probed,
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for ConnectError {}

impl From<ConnectError> for Error {
    fn from(why: ConnectError) -> Self {
        Self::Other(Box::new(why))
    }
}

#[derive(Debug, Default)]
struct ProbingConnector {
    connector: DefaultConnector,
    probed: Option<Uri>,
}

impl Connector for ProbingConnector {
    type Out = Box<dyn Transport>;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<()>,
    ) -> Result<Option<Self::Out>, Error> {
        let connected = self.connector.connect(details, chained).map_err(|error| {
            // Other errors come from the resolver, or from the connection to a proxy.
            let is_connecting = !matches!(error, Error::Other(_));
            if is_connecting { ConnectError::NotConnected(error).into() } else { error }
        })?;
        match self.probed.as_ref() == Some(details.uri) {
            true => Err(ConnectError::Probed.into()),
            false => Ok(connected),
        }
    }
}

pub fn tls_config(ca_file: Option<&Path>) -> Result<TlsConfig> {
    let found = match ca_file {
        Some(path) => tls_roots::from_file(path)?,
        None => tls_roots::from_system("--ca-file FILE")?,
    };
    tls_roots::roots(&found)?;
    // It fails if a provider is installed, which is the same one.
    let _ = ring::default_provider().install_default();
    let found = found.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
    Ok(TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .root_certs(RootCerts::Specific(Arc::new(found)))
        .build())
}

/// A valid proxy, with the hosts that are reached directly.
#[derive(Debug, Clone)]
pub struct Proxy {
    pub variable: &'static str,
    pub proxy: ureq::Proxy,
}

impl Proxy {
    /// The proxy for URLs of one scheme, if there is one. Errors do not show its URL, which may hold a password.
    pub fn choose(proxies: &Proxies, is_https: bool) -> Result<Option<Self>> {
        let Some((name, text)) = proxies.for_scheme(is_https) else { return Ok(None) };
        let text = text.trim();
        let text = if text.contains("://") { text.into() } else { format!("http://{text}") };
        let hint = || format!("{name} is not the URL of a proxy; write it as http://host:port");
        let uri: Uri = text.parse().with_context(hint)?;
        let scheme = uri.scheme_str().with_context(hint)?;
        let authority =
            uri.authority().filter(|authority| !authority.host().is_empty()).with_context(hint)?;
        let given = ureq::Proxy::new(&text).ok().with_context(|| {
            format!("{name} is a proxy of the scheme {scheme}; use http, https or socks5")
        })?;
        // Default ports of curl.
        let port = authority.port_u16().unwrap_or(if scheme == "https" { 443 } else { 1080 });
        let mut proxy = ureq::Proxy::builder(given.protocol()).host(given.host()).port(port);
        if let Some(user) = given.username() {
            proxy = proxy.username(user).password(given.password().unwrap_or_default());
        }
        let proxy = proxies.bypass.iter().fold(proxy, |proxy, entry| proxy.no_proxy(entry));
        let proxy = proxy.build().with_context(hint)?;
        Ok(Some(Self { variable: *name, proxy }))
    }

    pub fn needs_tls(is_https: bool, proxy: Option<&Self>) -> bool {
        is_https || proxy.is_some_and(|proxy| proxy.proxy.protocol() == ProxyProtocol::Https)
    }

    pub fn address(&self) -> String {
        format!("{}:{}", self.proxy.host(), self.proxy.port())
    }
}

#[derive(Debug, Default)]
struct HostResolver<R = DefaultResolver> {
    is_public_only: bool,
    system: R,
}

impl<R: Resolver> Resolver for HostResolver<R> {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let host = uri.host().unwrap_or_default();
        let none = |reach, message| ConnectError::NoAddress { message, reach }.into();
        let found = self.system.resolve(uri, config, timeout).map_err(|error| {
            if matches!(error, Error::Timeout(_)) {
                return ConnectError::NotConnected(error).into();
            }
            let reason =
                if let Error::Io(error) = &error { reason(error) } else { error.to_string() };
            none(
                Reach::Nobody { counts: false },
                format!("could not find the host {host}: {reason}"),
            )
        })?;
        let private = found.iter().map(SocketAddr::ip).find(|address| !is_public(*address));
        private.filter(|_| self.is_public_only).map_or(Ok(found), |address| {
            let why = format!("has the address {address}, which is not public");
            Err(none(Reach::NotSent, format!("the host {host:?} {why}; list it with --allow-host")))
        })
    }
}

/// True unless the address is of this host, private, shared, link-local, for benchmarks, multicast or reserved.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !matches!(
            address.octets(),
            [0 | 10 | 127 | 224.., ..]
                | [100, 64..=127, ..]
                | [169, 254, ..]
                | [172, 16..=31, ..]
                | [192, 168, ..]
                | [198, 18..=19, ..]
        ),
        IpAddr::V6(address) => match address.segments() {
            // Compatible (including `::` and `::1`), mapped, translated, NAT64 or 6to4.
            [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
            | [0, 0, 0, 0, 0xffff, 0, high, low]
            | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
            | [0x2002, high, low, ..] => {
                is_public(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)).into())
            }
            // NAT64 of a network: the position of the IPv4 address is unknown.
            [0x64, 0xff9b, 1, ..] => false,
            // Unique local, link-local, site-local and multicast.
            [0xfc00..=0xfdff | 0xfe80..=0xffff, ..] => false,
            _ => true,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(env: &[(&str, &str)]) -> Proxies {
        let value =
            |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).into());
        Proxies::from_env(&value)
    }

    fn chosen(env: &[(&str, &str)], is_https: bool) -> Option<String> {
        let chosen = Proxy::choose(&proxies(env), is_https).unwrap()?;
        let (kind, place) = (chosen.proxy.protocol().to_string().to_lowercase(), chosen.address());
        Some(format!("{} {kind}://{place}/", chosen.variable))
    }

    #[test]
    fn variables_are_read_in_the_order_of_curl() {
        let all = [
            ("http_proxy", "a:1"),
            ("HTTP_PROXY", "b:1"),
            ("https_proxy", "c:1"),
            ("HTTPS_PROXY", "d:1"),
            ("all_proxy", "e:1"),
            ("ALL_PROXY", "f:1"),
        ];
        assert_eq!(chosen(&all, false).unwrap(), "http_proxy http://a:1/");
        assert_eq!(chosen(&all, true).unwrap(), "https_proxy http://c:1/");
        assert_eq!(chosen(&all[1..], false).unwrap(), "all_proxy http://e:1/");
        assert_eq!(chosen(&all[3..], true).unwrap(), "HTTPS_PROXY http://d:1/");
        assert_eq!(chosen(&all[5..], true).unwrap(), "ALL_PROXY http://f:1/");
        assert_eq!(chosen(&all[1..2], false), None);
        assert_eq!(
            chosen(&[("http_proxy", " "), ("ALL_PROXY", "f:1")], false).unwrap(),
            "ALL_PROXY http://f:1/"
        );
    }

    #[test]
    fn a_proxy_has_a_kind_a_port_and_a_login() {
        for (text, expected) in [
            ("proxy", "http://proxy:1080/"),
            ("http://proxy:3128/", "http://proxy:3128/"),
            ("https://proxy", "https://proxy:443/"),
            ("socks5h://u:p@proxy", "socks5h://proxy:1080/"),
            ("[::1]:3128", "http://[::1]:3128/"),
        ] {
            let chosen = chosen(&[("all_proxy", text)], false).unwrap();
            assert_eq!(chosen, format!("all_proxy {expected}"));
        }
        let login =
            Proxy::choose(&proxies(&[("all_proxy", "u%20x:p%40@proxy")]), false).unwrap().unwrap();
        assert_eq!((login.proxy.username(), login.proxy.password()), (Some("u x"), Some("p@")));
    }

    #[test]
    fn a_bad_proxy_is_not_shown() {
        for text in
            ["ftp://u:S3krit@proxy", "http://u:S3krit@", "http://u:S3krit@pro xy", "://S3krit"]
        {
            let error =
                format!("{:#}", Proxy::choose(&proxies(&[("all_proxy", text)]), true).unwrap_err());
            assert!(error.contains("all_proxy") && !error.contains("S3krit"), "{error}");
        }
    }

    fn is_bypassed(list: (&str, &str), url: &str) -> bool {
        let env = [list, ("NO_PROXY", "b"), ("all_proxy", "proxy")];
        let proxy = Proxy::choose(&proxies(&env), false).unwrap().unwrap();
        proxy.proxy.is_no_proxy(&url.parse().unwrap())
    }

    #[test]
    fn the_lower_case_list_comes_first() {
        assert!(is_bypassed(("no_proxy", "a"), "http://a/"));
        assert!(!is_bypassed(("no_proxy", "a"), "http://b/"));
    }

    #[test]
    fn hosts_are_found_in_the_list() {
        for (list, host, expected) in [
            ("*", "example.com", true),
            ("example.com", "example.com", true),
            ("example.com", "EXAMPLE.com", true),
            ("example.com", "www.example.com", true),
            ("example.com", "badexample.com", false),
            (".example.com", "www.example.com", true),
            (".example.com", "example.com", true),
            ("*.example.com", "www.example.com", true),
            ("Example.COM.", "example.com", true),
            ("a, b\tc", "c", true),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.11", false),
            ("::1", "[::1]", true),
            ("[::1]", "[::1]", true),
            ("::1", "127.0.0.1", false),
            (".", "example.com", false),
            // The library does not support ports and networks.
            ("example.com:80", "example.com", false),
            ("10.0.0.0/8", "10.9.8.7", false),
        ] {
            let found = is_bypassed(("no_proxy", list), &format!("http://{host}/"));
            assert_eq!(found, expected, "{list} {host}");
        }
    }
}

#[cfg(test)]
mod lookup_tests {
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
        let system = Found(addresses.iter().map(|address| address.parse().unwrap()).collect());
        let lookup = HostResolver { is_public_only, system };
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
            let Some(ConnectError::NoAddress { message: error, reach: Reach::NotSent }) =
                error.downcast_ref()
            else {
                panic!()
            };
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
    fn addresses_that_are_not_public_are_recognized() {
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

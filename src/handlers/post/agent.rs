//! The agents that requests are sent with: what they wait for, keep, trust and connect to, through
//! a proxy or without one.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Uri};
use rustls::crypto::ring;
use ureq::config::Config;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};
use ureq::unversioned::transport::{
    Buffers, ConnectProxyConnector, ConnectionDetails, Connector, NextTimeout, RustlsConnector,
    SocksConnector, TcpConnector, Transport,
};
use ureq::{Agent, Error, ProxyProtocol};

use super::wire::{Dial, Lookup, Trust};
use crate::handlers::HandlerContext;
use crate::handlers::webhook::Proxies;
use crate::tls_roots;

/// For how long an answer is read whose status is known already.
const PATIENCE: Duration = Duration::from_secs(2);
/// Servers close what is idle after two seconds and more, and a request may meet that.
const LONGEST_IDLE: Duration = Duration::from_secs(1);

/// The agent that sends through a proxy.
pub struct Proxied {
    pub agent: Agent,
    /// The variable that names the proxy.
    pub origin: &'static str,
    /// What the proxy is told with each request, unless it is told once for the connection.
    pub authorization: Option<HeaderValue>,
}

impl Proxied {
    pub fn new(
        is_https: bool,
        config: &dyn Fn(Option<&Proxy>) -> Config,
        proxy: &Proxy,
    ) -> Result<Self> {
        let origin = proxy.origin;
        // Only such a proxy can be handed a request as it is.
        let is_plain = proxy.proxy.protocol() == ProxyProtocol::Http;
        if is_https || !is_plain {
            let agent = agent(config(Some(proxy)), false);
            return Ok(Self { agent, origin, authorization: None });
        }
        let agent = forwarding_agent(config(None), proxy);
        Ok(Self { agent, origin, authorization: proxy.authorization()? })
    }
}

pub fn config(context: &HandlerContext, tls: &TlsConfig, proxy: Option<&Proxy>) -> Config {
    Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .timeout_global(context.timeout)
        .timeout_recv_body(Some(PATIENCE))
        .max_idle_connections(context.jobs)
        .max_idle_connections_per_host(context.jobs)
        .max_idle_age(LONGEST_IDLE)
        .proxy(proxy.map(|proxy| proxy.proxy.clone()))
        .tls_config(tls.clone())
        .build()
}

/// Connects to the host, with a tunnel through the proxy if the configuration has one, or only to a
/// host of the internet.
pub fn agent(config: Config, is_public_only: bool) -> Agent {
    let trust = Arc::new(Trust::default());
    let socks = config.proxy().map(|proxy| proxy.uri().clone());
    let connector =
        ().chain(Dial::new(SocksConnector::default(), socks, trust.clone()))
            .chain(ConnectProxyConnector::default())
            .chain(Dial::new(TcpConnector::default(), None, trust))
            .chain(RustlsConnector::default());
    let lookup: Lookup = Lookup { is_public_only, ..Lookup::default() };
    Agent::with_parts(config, connector, lookup)
}

/// Connects to the proxy, and hands it requests that are not encrypted as they are.
fn forwarding_agent(config: Config, proxy: &Proxy) -> Agent {
    let connector =
        ().chain(Dial::new(TcpConnector::default(), Some(proxy.uri.clone()), Arc::default()))
            .chain(Forward);
    let lookup: Lookup = Lookup { proxy: Some(proxy.uri.clone()), ..Lookup::default() };
    Agent::with_parts(config, connector, lookup)
}

/// Reads the authorities: those of the file alone if there is one, otherwise the system's.
pub fn tls_config(ca_file: Option<&Path>) -> Result<TlsConfig> {
    let found = match ca_file {
        Some(path) => tls_roots::of_file(path)?,
        None => tls_roots::of_system("--ca-file FILE")?,
    };
    tls_roots::roots(&found)?;
    let found = found.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
    Ok(TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .root_certs(RootCerts::Specific(Arc::new(found)))
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
        .build())
}

/// A proxy that can be used.
#[derive(Debug, Clone)]
pub struct Proxy {
    pub origin: &'static str,
    pub uri: Uri,
    pub proxy: ureq::Proxy,
}

impl Proxy {
    /// The proxy for URLs of one scheme, if there is one.
    pub fn chosen(proxies: &Proxies, is_https: bool) -> Result<Option<Self>> {
        proxies.of_scheme(is_https).map(|(name, value)| parse(name, value)).transpose()
    }

    /// Whether the way to the proxy itself is encrypted.
    pub fn is_https(&self) -> bool {
        self.proxy.protocol() == ProxyProtocol::Https
    }

    /// The login that its URL has.
    pub fn authorization(&self) -> Result<Option<HeaderValue>> {
        let Some(user) = self.proxy.username() else { return Ok(None) };
        let login = format!("{user}:{}", self.proxy.password().unwrap_or_default());
        let mut value = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(login)))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }
}

/// Errors do not show the value.
fn parse(name: &'static str, text: &str) -> Result<Proxy> {
    let text = text.trim();
    let text = if text.contains("://") { text.into() } else { format!("http://{text}") };
    let hint = || format!("{name} is no URL of a proxy; it must look like http://host:port");
    let uri: Uri = text.parse().with_context(hint)?;
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        bail!("{}", hint());
    };
    if authority.host().is_empty() {
        bail!("{}", hint());
    }
    // What curl takes when there is no port.
    let port = authority.port_u16().unwrap_or(if scheme == "https" { 443 } else { 1080 });
    let login = authority.as_str().rsplit_once('@').map_or("", |(login, _)| login);
    let at = if login.is_empty() { "" } else { "@" };
    let whole = format!("{scheme}://{login}{at}{}:{port}/", authority.host());
    let Ok(proxy) = ureq::Proxy::new(&whole) else {
        bail!("{name} names a proxy of the kind {scheme}; it must be http, https or socks5");
    };
    let uri = format!("{scheme}://{}:{port}/", authority.host()).parse().with_context(hint)?;
    Ok(Proxy { origin: name, uri, proxy })
}

/// The only method there is, and the space after it.
const METHOD: &[u8] = b"POST ";

/// The library knows but CONNECT, which proxies refuse for ports that are not for TLS.
#[derive(Debug)]
pub struct Forward;

impl<In: Transport> Connector<In> for Forward {
    type Out = Forwarded<In>;

    fn connect(
        &self,
        _details: &ConnectionDetails,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        Ok(chained.map(|inner| Forwarded { inner, is_between: true }))
    }
}

/// A connection to the proxy.
#[derive(Debug)]
pub struct Forwarded<T> {
    inner: T,
    /// Whether what is sent next begins a request.
    is_between: bool,
}

impl<T: Transport> Forwarded<T> {
    /// Puts the scheme and the host, which is read from the headers, before the path.
    fn complete(&mut self, amount: usize) -> Result<usize, Error> {
        let output = self.inner.buffers().output();
        let head = output.get(..amount).unwrap_or_default();
        let completed = completed(head).ok_or(Error::Tls("the request has no host"))?;
        let Some(room) = output.get_mut(..completed.len()) else {
            return Err(Error::LargeResponseHeader(completed.len(), output.len()));
        };
        room.copy_from_slice(&completed);
        Ok(completed.len())
    }
}

/// The head of a request with its URL in full.
fn completed(head: &[u8]) -> Option<Vec<u8>> {
    let path = head.strip_prefix(METHOD)?;
    let host = head.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"host: "))?;
    Some([METHOD, b"http://", host.trim_ascii(), path].concat())
}

impl<T: Transport> Transport for Forwarded<T> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.inner.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let amount = if self.is_between { self.complete(amount)? } else { amount };
        self.is_between = false;
        self.inner.transmit_output(amount, timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.is_between = true;
        self.inner.await_input(timeout)
    }

    fn is_open(&mut self) -> bool {
        self.inner.is_open()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(env: &[(&str, &str)]) -> Proxies {
        let value =
            |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, it)| (*it).into());
        Proxies::from_env(&value)
    }

    fn chosen(env: &[(&str, &str)], is_https: bool) -> Option<String> {
        Proxy::chosen(&proxies(env), is_https)
            .unwrap()
            .map(|it| format!("{} {}", it.origin, it.uri))
    }

    #[test]
    fn the_variables_have_curls_order() {
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
        for (text, uri) in [
            ("proxy", "http://proxy:1080/"),
            ("http://proxy:3128/", "http://proxy:3128/"),
            ("https://proxy", "https://proxy:443/"),
            ("socks5h://u:p@proxy", "socks5h://proxy:1080/"),
            ("[::1]:3128", "http://[::1]:3128/"),
        ] {
            let chosen = chosen(&[("all_proxy", text)], false).unwrap();
            assert_eq!(chosen, format!("all_proxy {uri}"));
        }
        let login =
            Proxy::chosen(&proxies(&[("all_proxy", "u%20x:p%40@proxy")]), false).unwrap().unwrap();
        assert_eq!(login.authorization().unwrap().unwrap(), "Basic dSB4OnBA");
    }

    #[test]
    fn a_bad_proxy_is_not_shown() {
        for text in
            ["ftp://u:S3krit@proxy", "http://u:S3krit@", "http://u:S3krit@pro xy", "://S3krit"]
        {
            let error =
                format!("{:#}", Proxy::chosen(&proxies(&[("all_proxy", text)]), true).unwrap_err());
            assert!(error.contains("all_proxy") && !error.contains("S3krit"), "{error}");
        }
    }

    #[test]
    fn the_lower_case_list_goes_first() {
        let proxies = proxies(&[("no_proxy", "a"), ("NO_PROXY", "b")]);
        assert!(proxies.is_bypassed(&Uri::from_static("http://a/")));
        assert!(!proxies.is_bypassed(&Uri::from_static("http://b/")));
    }
}

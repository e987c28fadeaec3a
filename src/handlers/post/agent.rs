//! The agents that requests are sent with: what they wait for, keep and connect to.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use http::HeaderValue;
use rustls::crypto::ring;
use ureq::Agent;
use ureq::config::Config;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};
use ureq::unversioned::transport::{
    ConnectProxyConnector, Connector, RustlsConnector, SocksConnector, TcpConnector,
};

use super::client::PostSettings;
use super::forward::Forward;
use super::proxy::Proxy;
use super::wire::{Dial, Lookup, Trust};
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
    pub fn new(settings: &PostSettings, tls: Option<&TlsConfig>, proxy: &Proxy) -> Result<Self> {
        let origin = proxy.origin;
        if settings.webhook.target.is_https() || !proxy.is_plain() {
            let agent = agent(config(settings, tls, Some(proxy)), Lookup::default());
            return Ok(Self { agent, origin, authorization: None });
        }
        let agent = forwarding_agent(config(settings, tls, None), proxy);
        Ok(Self { agent, origin, authorization: proxy.authorization()? })
    }
}

fn config(settings: &PostSettings, tls: Option<&TlsConfig>, proxy: Option<&Proxy>) -> Config {
    let builder = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .timeout_global(settings.timeout)
        .timeout_recv_body(Some(PATIENCE))
        .max_idle_connections(settings.jobs)
        .max_idle_connections_per_host(settings.jobs)
        .max_idle_age(LONGEST_IDLE)
        .proxy(proxy.map(|proxy| proxy.proxy.clone()));
    match tls {
        Some(tls) => builder.tls_config(tls.clone()).build(),
        None => builder.build(),
    }
}

/// Connects without a proxy. Where records name any host, that is one of the internet's.
pub fn direct(settings: &PostSettings, tls: Option<&TlsConfig>) -> Agent {
    let names_any = settings.webhook.names_any_host();
    let lookup = if names_any { Lookup::public_only() } else { Lookup::default() };
    agent(config(settings, tls, None), lookup)
}

/// Connects to the host, with a tunnel through the proxy if the configuration has one.
fn agent(config: Config, lookup: Lookup) -> Agent {
    let trust = Arc::new(Trust::default());
    let socks = config.proxy().map(|proxy| proxy.uri().clone());
    let connector =
        ().chain(Dial::new(SocksConnector::default(), socks, trust.clone()))
            .chain(ConnectProxyConnector::default())
            .chain(Dial::new(TcpConnector::default(), None, trust))
            .chain(RustlsConnector::default());
    Agent::with_parts(config, connector, lookup)
}

/// Connects to the proxy, and hands it requests that are not encrypted as they are.
fn forwarding_agent(config: Config, proxy: &Proxy) -> Agent {
    let connector =
        ().chain(Dial::new(TcpConnector::default(), Some(proxy.uri.clone()), Arc::default()))
            .chain(Forward);
    Agent::with_parts(config, connector, Lookup::of_proxy(proxy.uri.clone()))
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

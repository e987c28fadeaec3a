//! Proxies of webhooks, as curl reads them from the environment: `http_proxy` and its like, and in
//! `NO_PROXY` the hosts that are reached without one.

use std::net::IpAddr;

use http::Uri;

use super::hosts::{bare, is_below};

/// The proxies that the environment names.
#[derive(Clone, Default)]
pub struct Proxies {
    http: Option<Variable>,
    https: Option<Variable>,
    bypass: Vec<Entry>,
}

/// A variable and what it holds, which may be a password.
type Variable = (&'static str, String);

impl Proxies {
    /// `HTTP_PROXY` is not read: a web server would let a client set it for a CGI program.
    pub fn from_env(env: &dyn Fn(&str) -> Option<String>) -> Self {
        let first = |names: &[&'static str]| {
            let mut given = names.iter().filter_map(|name| Some((*name, env(name)?)));
            given.find(|(_, value)| !value.trim().is_empty())
        };
        let list = first(&["no_proxy", "NO_PROXY"]).unwrap_or_default().1;
        let items = list.split([',', ' ', '\t']).filter(|item| !item.is_empty());
        Self {
            http: first(&["http_proxy", "all_proxy", "ALL_PROXY"]),
            https: first(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]),
            bypass: items.map(Entry::new).collect(),
        }
    }

    /// The variable that names the proxy for URLs of one scheme, and what it holds.
    pub fn of_scheme(&self, is_https: bool) -> Option<(&'static str, &str)> {
        let variable = if is_https { &self.https } else { &self.http };
        variable.as_ref().map(|(name, value)| (*name, value.as_str()))
    }

    /// The variable that names a proxy which some URL of one scheme goes through.
    pub fn variable(&self, is_https: bool) -> Option<&'static str> {
        let bypasses_all = self.bypass.iter().any(|entry| matches!(entry.hosts, Group::All));
        self.of_scheme(is_https).filter(|_| !bypasses_all).map(|(name, _)| name)
    }

    pub fn is_bypassed(&self, uri: &Uri) -> bool {
        let standard = if uri.scheme_str() == Some("https") { 443 } else { 80 };
        let host = bare(uri.host().unwrap_or_default()).to_ascii_lowercase();
        let port = uri.port_u16().unwrap_or(standard);
        self.bypass.iter().any(|entry| entry.has(&host, port))
    }
}

/// Hosts that are reached without the proxy.
#[derive(Clone)]
struct Entry {
    hosts: Group,
    /// The only port that it is for, if it is not for all.
    port: Option<u16>,
}

#[derive(Clone)]
enum Group {
    All,
    /// A host and all below it.
    Domain(String),
    Network(IpAddr, u32),
}

impl Entry {
    fn new(text: &str) -> Self {
        // The colons of an address are no port's.
        let with_port = text.rsplit_once(':').filter(|_| network(text).is_none());
        let with_port = with_port.and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let (host, port) = with_port.map_or((text, None), |(host, port)| (host, Some(port)));
        let hosts = match network(host) {
            _ if text == "*" => Group::All,
            Some((address, bits)) => Group::Network(address, bits),
            None => {
                let name = host.strip_prefix('*').unwrap_or(host);
                let name = name.strip_prefix('.').unwrap_or(name);
                Group::Domain(bare(name).to_ascii_lowercase())
            }
        };
        Self { hosts, port }
    }

    fn has(&self, host: &str, port: u16) -> bool {
        let address = host.parse::<IpAddr>();
        let has_host = match &self.hosts {
            Group::All => true,
            Group::Domain(name) => address.is_err() && (host == name || is_below(host, name)),
            Group::Network(network, bits) => address.is_ok_and(|it| share(it, *network, *bits)),
        };
        has_host && self.port.is_none_or(|only| only == port)
    }
}

/// An address, or a whole network as `address/bits`.
fn network(text: &str) -> Option<(IpAddr, u32)> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse().ok()?)),
        None => (text, None),
    };
    let address: IpAddr = bare(address).parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.unwrap_or(most);
    (bits <= most).then_some((address, bits))
}

fn share(one: IpAddr, other: IpAddr, bits: u32) -> bool {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            (one.to_bits() ^ other.to_bits()).leading_zeros() >= bits
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => {
            (one.to_bits() ^ other.to_bits()).leading_zeros() >= bits
        }
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_found_in_the_list() {
        for (list, host, port, expected) in [
            ("*", "example.com", 80, true),
            ("", "example.com", 80, false),
            ("example.com", "example.com", 80, true),
            ("example.com", "EXAMPLE.com.", 80, true),
            ("example.com", "www.example.com", 80, true),
            ("example.com", "badexample.com", 80, false),
            (".example.com", "www.example.com", 80, true),
            (".example.com", "example.com", 80, true),
            ("*.example.com", "www.example.com", 80, true),
            ("Example.COM.", "example.com", 80, true),
            ("a, b\tc", "c", 80, true),
            ("example.com:8080", "example.com", 8080, true),
            ("example.com:8080", "example.com", 80, false),
            ("127.0.0.1", "127.0.0.1", 80, true),
            ("127.0.0.1:81", "127.0.0.1", 80, false),
            ("127.0.0.1", "127.0.0.11", 80, false),
            ("0.0.1", "127.0.0.1", 80, false),
            ("10.0.0.0/8", "10.9.8.7", 80, true),
            ("10.0.0.0/8", "11.9.8.7", 80, false),
            ("0.0.0.0/0", "11.9.8.7", 80, true),
            ("10.0.0.0/33", "10.0.0.0", 80, false),
            ("::1", "[::1]", 80, true),
            ("[::1]", "[0:0::1]", 80, true),
            ("[::1]:81", "[::1]", 80, false),
            ("fe80::/10", "[fe80::2]", 80, true),
            ("::1", "127.0.0.1", 80, false),
            (".", "example.com", 80, false),
        ] {
            let env = |name: &str| (name == "NO_PROXY").then(|| list.to_string());
            let uri = format!("http://{host}:{port}/").parse().unwrap();
            let is_bypassed = Proxies::from_env(&env).is_bypassed(&uri);
            assert_eq!(is_bypassed, expected, "{list} {host} {port}");
        }
    }
}

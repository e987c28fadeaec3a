//! Proxies of webhooks, as curl reads them from the environment: `http_proxy` and its like, and in
//! `NO_PROXY` the hosts that are reached without one.

use std::net::Ipv6Addr;

/// The proxies that the environment names.
#[derive(Clone, Default)]
pub struct Proxies {
    http: Option<Variable>,
    https: Option<Variable>,
    /// Hosts that are reached without one, as the HTTP library writes them: `.name` is all below a
    /// name, and `*` are all.
    pub bypass: Vec<String>,
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
            bypass: items.flat_map(entries).collect(),
        }
    }

    /// The variable that names the proxy for URLs of one scheme, and what it holds.
    pub fn of_scheme(&self, is_https: bool) -> Option<(&'static str, &str)> {
        let variable = if is_https { &self.https } else { &self.http };
        variable.as_ref().map(|(name, value)| (*name, value.as_str()))
    }

    /// The variable that names a proxy which some URL of one scheme goes through.
    pub fn variable(&self, is_https: bool) -> Option<&'static str> {
        let bypasses_all = self.bypass.iter().any(|entry| entry == "*");
        self.of_scheme(is_https).filter(|_| !bypasses_all).map(|(name, _)| name)
    }
}

/// What an item of the list stands for: a host and all below it, or an address.
fn entries(item: &str) -> Vec<String> {
    if item == "*" {
        return vec![item.into()];
    }
    let name = item.strip_prefix('*').unwrap_or(item);
    let name = name.strip_prefix('.').unwrap_or(name);
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.is_empty() {
        return Vec::new();
    }
    if name.parse::<Ipv6Addr>().is_ok() {
        return vec![format!("[{name}]")];
    }
    vec![name.into(), format!(".{name}")]
}

//! Which proxy a request goes through, as curl reads it from the environment.

use http::Uri;

use super::bypass::Bypass;

/// The proxies that the environment names.
#[derive(Debug, Clone, Default)]
pub struct Proxies {
    http: Option<Variable>,
    https: Option<Variable>,
    bypass: Bypass,
}

/// A variable and what it holds, which may be a password.
#[derive(Clone)]
struct Variable {
    name: &'static str,
    value: String,
}

impl std::fmt::Debug for Variable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Proxies {
    /// `HTTP_PROXY` is not read: a web server would let a client set it for a CGI program.
    pub fn from_env(env: &dyn Fn(&str) -> Option<String>) -> Self {
        let first = |names: &[&'static str]| {
            names.iter().find_map(|name| {
                let value = env(name).filter(|value| !value.trim().is_empty())?;
                Some(Variable { name, value })
            })
        };
        let list = first(&["no_proxy", "NO_PROXY"]).map(|it| it.value).unwrap_or_default();
        Self {
            http: first(&["http_proxy", "all_proxy", "ALL_PROXY"]),
            https: first(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]),
            bypass: Bypass::new(&list),
        }
    }

    /// The variable that names the proxy for URLs of one scheme, and what it holds.
    pub fn of_scheme(&self, is_https: bool) -> Option<(&'static str, &str)> {
        let variable = if is_https { &self.https } else { &self.http };
        variable.as_ref().map(|it| (it.name, it.value.as_str()))
    }

    /// The variable that names a proxy which some URL of one scheme goes through.
    pub fn variable(&self, is_https: bool) -> Option<&'static str> {
        let variable = if is_https { &self.https } else { &self.http };
        variable.as_ref().filter(|_| !self.bypass.is_all()).map(|it| it.name)
    }

    /// Whether requests to this URL go to its host directly.
    pub fn is_bypassed(&self, uri: &Uri) -> bool {
        let standard = if uri.scheme_str() == Some("https") { 443 } else { 80 };
        self.bypass.has(uri.host().unwrap_or_default(), uri.port_u16().unwrap_or(standard))
    }
}

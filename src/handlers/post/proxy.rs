//! Which proxy a request goes through, as curl reads it from the environment.

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ureq::ProxyProtocol;
use ureq::http::{HeaderValue, Uri};

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

/// A proxy that can be used.
#[derive(Debug, Clone)]
pub struct Proxy {
    /// The variable that names it.
    pub origin: &'static str,
    pub uri: Uri,
    pub proxy: ureq::Proxy,
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

    /// The proxy for URLs of one scheme.
    pub fn proxy(&self, is_https: bool) -> Result<Option<Proxy>> {
        let variable = if is_https { &self.https } else { &self.http };
        variable.as_ref().map(parse).transpose()
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

impl Proxy {
    /// Whether the way to the proxy itself is encrypted.
    pub fn is_https(&self) -> bool {
        self.proxy.protocol() == ProxyProtocol::Https
    }

    /// Whether it can be handed a request as it is.
    pub fn is_plain(&self) -> bool {
        self.proxy.protocol() == ProxyProtocol::Http
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
fn parse(variable: &Variable) -> Result<Proxy> {
    let name = variable.name;
    let text = variable.value.trim();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(env: &[(&str, &str)]) -> Proxies {
        let value =
            |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, it)| (*it).into());
        Proxies::from_env(&value)
    }

    fn chosen(env: &[(&str, &str)], is_https: bool) -> Option<String> {
        proxies(env).proxy(is_https).unwrap().map(|it| format!("{} {}", it.origin, it.uri))
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
        let login = proxies(&[("all_proxy", "u%20x:p%40@proxy")]).proxy(false).unwrap().unwrap();
        assert_eq!(login.authorization().unwrap().unwrap(), "Basic dSB4OnBA");
    }

    #[test]
    fn a_bad_proxy_is_not_shown() {
        for text in
            ["ftp://u:S3krit@proxy", "http://u:S3krit@", "http://u:S3krit@pro xy", "://S3krit"]
        {
            let error = format!("{:#}", proxies(&[("all_proxy", text)]).proxy(true).unwrap_err());
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

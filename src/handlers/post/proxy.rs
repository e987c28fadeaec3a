//! A proxy that the environment names, as one that can be used.

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Uri};
use ureq::ProxyProtocol;

use crate::handlers::webhook::Proxies;

/// A proxy that can be used.
#[derive(Debug, Clone)]
pub struct Proxy {
    /// The variable that names it.
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

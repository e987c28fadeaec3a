//! Hosts that a webhook may reach: `--allow-host` for hosts that a column names, and proxies.

use std::net::{IpAddr, Ipv6Addr};

use anyhow::{Result, bail, ensure};

const LEGAL: &str = "write it as example.com, *.example.com, 192.0.2.1 or 2001:db8::1";

/// Allowlist of canonical hosts; `.name` allows the subdomains of a name. An empty list allows all public names.
#[derive(Debug, Clone, Default)]
pub struct Hosts(Vec<String>);

impl Hosts {
    pub fn parse<'a>(entries: impl Iterator<Item = &'a str>) -> Result<Self> {
        let entry = |text: &str| {
            let below = text.trim().strip_prefix("*.");
            let host = canonical(below.unwrap_or(text.trim()));
            if below.is_none() && host.parse::<IpAddr>().is_ok() {
                return Ok(host);
            }
            ensure!(is_name(&host) && !is_address(&host), "{text:?} is not a host; {LEGAL}");
            Ok(if below.is_some() { format!(".{host}") } else { host })
        };
        entries.map(entry).collect::<Result<_>>().map(Self)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Fails for a host that is not listed; without a list, for an address and for a name without a dot.
    pub fn check(&self, host: &str) -> Result<()> {
        let found = canonical(host);
        let is_match = |entry: &String| match entry.starts_with('.') {
            true => found.len() > entry.len() && found.ends_with(entry),
            false => found == *entry,
        };
        if self.0.iter().any(is_match) {
            return Ok(());
        }
        let why = if !self.is_empty() {
            bail!("the host {host:?} is not listed with --allow-host");
        } else if is_address(&found) {
            "an address"
        } else if !found.contains('.') {
            "a name without a dot"
        } else {
            return Ok(());
        };
        bail!("the host {host:?} is {why}; list it with --allow-host")
    }
}

/// The one spelling of a host: lower case, without the brackets of an IPv6 address and the dot of a full name.
fn canonical(host: &str) -> String {
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let bare = inner.unwrap_or(host.strip_suffix('.').unwrap_or(host));
    bare.parse().map_or(bare.to_ascii_lowercase(), |address: IpAddr| address.to_string())
}

/// True if a resolver may read the text as an address: `127.1`, `0x7f.1` and `2130706433` end with a number.
fn is_address(bare: &str) -> bool {
    let last = bare.rsplit('.').next().unwrap_or_default();
    let is_number = match last.strip_prefix("0x") {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit()),
    };
    is_number || bare.parse::<Ipv6Addr>().is_ok()
}

pub fn is_name(text: &str) -> bool {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    text.split('.').all(|label| !label.is_empty() && label.bytes().all(is_legal))
}

/// Proxies of the environment, read as curl reads them.
#[derive(Clone, Default)]
pub struct Proxies {
    http: Option<Variable>,
    https: Option<Variable>,
    /// Hosts that are reached directly: `.name` means the subdomains of a name, and `*` all hosts.
    pub bypass: Vec<String>,
}

/// A variable and its value, which may hold a password.
pub type Variable = (&'static str, String);

impl Proxies {
    /// Reads the variables. `HTTP_PROXY` is left out, because clients of a web server can set it for a CGI program.
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

    pub fn for_scheme(&self, is_https: bool) -> Option<&Variable> {
        if is_https { self.https.as_ref() } else { self.http.as_ref() }
    }

    /// The variable that names the proxy for a scheme, unless all hosts are reached directly.
    pub fn variable(&self, is_https: bool) -> Option<&'static str> {
        let bypasses_all = self.bypass.iter().any(|entry| entry == "*");
        self.for_scheme(is_https).filter(|_| !bypasses_all).map(|(name, _)| *name)
    }
}

/// The entries for one item of the list: a host and its subdomains, or an address.
fn entries(item: &str) -> Vec<String> {
    let name = item.trim_start_matches(['*', '.']).trim_end_matches('.');
    match name {
        "" if item == "*" => vec![item.into()],
        "" => Vec::new(),
        address if address.parse::<Ipv6Addr>().is_ok() => vec![format!("[{address}]")],
        name => vec![name.into(), format!(".{name}")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(entries: &[&str]) -> Hosts {
        Hosts::parse(entries.iter().copied()).unwrap()
    }

    #[test]
    fn an_entry_lists_a_host_or_all_below_it() {
        for (entry, host, expected) in [
            ("example.com", "example.com", true),
            ("example.com", "EXAMPLE.com.", true),
            ("Example.COM.", "example.com", true),
            ("example.com", "www.example.com", false),
            ("example.com", "badexample.com", false),
            ("*.example.com", "www.example.com", true),
            ("*.example.com", "a.b.example.com.", true),
            ("*.Example.com.", "WWW.example.COM", true),
            ("*.example.com", "example.com", false),
            ("*.example.com", ".example.com", false),
            ("*.example.com", "badexample.com", false),
            ("*.example.com", "www.example.com.evil.net", false),
            ("localhost", "localhost.", true),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.1.", true),
            ("127.0.0.1", "127.1", false),
            ("127.0.0.1", "2130706433", false),
            ("127.0.0.1", "127.0.0.11", false),
            ("::1", "[::1]", true),
            ("[0:0::1]", "[::1]", true),
            ("::1", "[::ffff:127.0.0.1]", false),
        ] {
            let found = hosts(&["unlike.org", entry]).check(host);
            assert_eq!(found.is_ok(), expected, "{entry} {host}");
        }
        let error = hosts(&["a.org"]).check("b.org").unwrap_err().to_string();
        assert_eq!(error, "the host \"b.org\" is not listed with --allow-host");
    }

    #[test]
    fn without_a_list_a_host_must_be_a_name_with_a_dot() {
        for host in ["example.com", "a.b.example.com.", "1.2.3.example", "0x7f.example", "x.0xg"] {
            assert!(hosts(&[]).check(host).is_ok(), "{host}");
        }
        for host in [
            "127.0.0.1",
            "127.0.0.1.",
            "127.1",
            "0x7f.1",
            "0X7F.1",
            "2130706433",
            "017700000001",
            "1.2.3.0x4",
            "x.0x",
            "8.8.8.8",
            "[::1]",
            "[2606:4700::1111]",
            "[::ffff:127.0.0.1]",
        ] {
            let error = hosts(&[]).check(host).unwrap_err().to_string();
            assert_eq!(
                error,
                format!("the host {host:?} is an address; list it with --allow-host")
            );
        }
        for host in ["localhost", "localhost.", "LOCALHOST", "db"] {
            let error = hosts(&[]).check(host).unwrap_err().to_string();
            assert!(error.contains("is a name without a dot"), "{error}");
        }
    }

    #[test]
    fn a_bad_entry_is_refused() {
        for entry in [
            "",
            " ",
            "*",
            "*.",
            ".",
            "*.*.example.com",
            "a.*.com",
            "*example.com",
            "example.com:80",
            "https://example.com",
            "example.com/",
            "[::1]:80",
            "[::1",
            "127.1",
            "2130706433",
            "*.0.0.1",
            "*.127.0.0.1",
            "*.[::1]",
            "ex ample.com",
            "ex\u{e4}mple.com",
            "a..b",
        ] {
            let error = Hosts::parse([entry].into_iter()).unwrap_err().to_string();
            assert_eq!(error, format!("{entry:?} is not a host; {LEGAL}"));
        }
    }
}

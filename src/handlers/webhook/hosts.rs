//! Hosts that a webhook may reach: the list of `--allow-host` for those of a column, and proxies.

use std::net::{IpAddr, Ipv6Addr};

use anyhow::{Result, bail, ensure};

const LEGAL: &str = "legal are example.com, *.example.com, 192.0.2.1 and 2001:db8::1";

/// Allowlist of canonical hosts; `.name` allows all below a name. An empty list allows all public names.
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
            ensure!(is_name(&host) && !is_address(&host), "{text:?} is no host; {LEGAL}");
            Ok(if below.is_some() { format!(".{host}") } else { host })
        };
        entries.map(entry).collect::<Result<_>>().map(Self)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Fails for a host that is not listed, or, without a list, for one that is not a name with a dot.
    pub fn check(&self, host: &str) -> Result<()> {
        let found = canonical(host);
        let has = |entry: &String| match entry.starts_with('.') {
            true => found.len() > entry.len() && found.ends_with(entry),
            false => found == *entry,
        };
        if self.0.iter().any(has) {
            return Ok(());
        }
        let why = if !self.is_empty() {
            bail!("the host {host:?} is none of those that --allow-host lists");
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

/// A host without the brackets of an IPv6 address and without the dot of a full name, in one spelling.
fn canonical(host: &str) -> String {
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let bare = inner.unwrap_or(host.strip_suffix('.').unwrap_or(host));
    bare.parse().map_or(bare.to_ascii_lowercase(), |address: IpAddr| address.to_string())
}

/// Whether a resolver may read it as an address: `127.1`, `0x7f.1`, `2130706433` end with a number.
fn is_address(bare: &str) -> bool {
    let last = bare.rsplit('.').next().unwrap_or_default();
    let is_number = match last.strip_prefix("0x") {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit()),
    };
    is_number || bare.parse::<Ipv6Addr>().is_ok()
}

/// Whether a text consists of labels as host names do, in ASCII.
pub fn is_name(text: &str) -> bool {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    text.split('.').all(|label| !label.is_empty() && label.bytes().all(is_legal))
}

/// The proxies of the environment, which is read as curl does.
#[derive(Clone, Default)]
pub struct Proxies {
    http: Option<Variable>,
    https: Option<Variable>,
    /// Hosts that are reached without a proxy: `.name` stands for all below a name, and `*` for all.
    pub bypass: Vec<String>,
}

/// A variable and its value, which may hold a password.
pub type Variable = (&'static str, String);

impl Proxies {
    /// `HTTP_PROXY` is not read: clients of a web server can set it for a CGI program.
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

    /// The variable of the proxy for URLs of one scheme, unless all hosts are reached without it.
    pub fn variable(&self, is_https: bool) -> Option<&'static str> {
        let bypasses_all = self.bypass.iter().any(|entry| entry == "*");
        self.for_scheme(is_https).filter(|_| !bypasses_all).map(|(name, _)| *name)
    }
}

/// The entries for an item of the list: a host and all below it, or an address.
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
        assert_eq!(error, "the host \"b.org\" is none of those that --allow-host lists");
    }

    #[test]
    fn without_a_list_only_a_name_with_a_dot_will_do() {
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
    fn what_is_no_host_is_no_entry() {
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
            assert_eq!(error, format!("{entry:?} is no host; {LEGAL}"));
        }
    }
}

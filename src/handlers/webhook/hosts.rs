//! The allowlist of `--allow-host`: which hosts a column in the URL may name.

use std::net::{IpAddr, Ipv6Addr};

use anyhow::{Result, bail};

/// How an entry may be written.
const LEGAL: &str = "legal are example.com, *.example.com, 192.0.2.1 and 2001:db8::1";

/// Allowlist of hosts. Without an entry any name of the public internet will do.
#[derive(Debug, Clone, Default)]
pub struct Hosts(Vec<Entry>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    Name(String),
    /// Every name below this one, at any depth, and not the name itself.
    Below(String),
    Address(IpAddr),
}

impl Hosts {
    pub fn parse<'a>(entries: impl Iterator<Item = &'a str>) -> Result<Self> {
        entries.map(Entry::parse).collect::<Result<_>>().map(Self)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Fails if a host that comes from a record is not listed, or, where there is no list, if it
    /// is not a name that others look up as well. The addresses of such a name are looked at when
    /// they are known.
    pub fn check(&self, host: &str) -> Result<()> {
        let bare = bare(host).to_ascii_lowercase();
        if !self.is_empty() {
            if self.0.iter().any(|entry| entry.has(&bare)) {
                return Ok(());
            }
            bail!("the host {host:?} is none of those that --allow-host lists");
        }
        if is_address(&bare) {
            bail!("the host {host:?} is an address; list it with --allow-host");
        }
        if !bare.contains('.') {
            bail!("the host {host:?} is a name without a dot; list it with --allow-host");
        }
        Ok(())
    }
}

impl Entry {
    fn parse(text: &str) -> Result<Self> {
        let below = text.trim().strip_prefix("*.");
        let bare = bare(below.unwrap_or(text.trim())).to_ascii_lowercase();
        match bare.parse() {
            Ok(address) if below.is_none() => Ok(Self::Address(address)),
            _ if !is_name(&bare) || is_address(&bare) => bail!("{text:?} is no host; {LEGAL}"),
            _ if below.is_some() => Ok(Self::Below(bare)),
            _ => Ok(Self::Name(bare)),
        }
    }

    /// Whether it lists a host, which is bare and in lower case.
    fn has(&self, host: &str) -> bool {
        match self {
            Self::Name(name) => host == name,
            Self::Below(name) => is_below(host, name),
            Self::Address(address) => host.parse() == Ok(*address),
        }
    }
}

/// Whether a host is an address in any spelling that a resolver takes: also `127.1`, `0x7f.1` and
/// `2130706433`, which end with a number as no name does.
fn is_address(bare: &str) -> bool {
    let last = bare.rsplit('.').next().unwrap_or_default();
    let is_number = match last.strip_prefix("0x") {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit()),
    };
    is_number || bare.parse::<Ipv6Addr>().is_ok()
}

/// A host without the brackets of an IPv6 address and without the dot of a full name.
pub fn bare(host: &str) -> &str {
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    inner.unwrap_or(host.strip_suffix('.').unwrap_or(host))
}

/// Whether a name is below another, at any depth; none is below itself.
pub fn is_below(host: &str, name: &str) -> bool {
    let left = host.strip_suffix(name).filter(|_| !name.is_empty());
    left.is_some_and(|left| left.len() > 1 && left.ends_with('.'))
}

/// Whether a text is made of labels as names of hosts are, in ASCII.
pub fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let mut bytes = label.bytes();
        !label.is_empty() && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    text.split('.').all(is_label)
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

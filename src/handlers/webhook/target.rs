//! The URL that records are posted to, with `{column}` in it.

use std::fmt;
use std::net::Ipv6Addr;
use std::num::NonZeroU16;

use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::hosts::is_name;

/// All characters but the unreserved ones of RFC 3986, so that no value is read as punctuation.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

const PUNCTUATION: &str = "-._~:/?#[]@!$&'()*+,;=%";

#[derive(Clone)]
pub struct Target {
    pub is_https: bool,
    authority: Template,
    /// Path and query.
    rest: Template,
    /// Value of the `Authorization` header, if the URL has a user.
    pub authorization: Option<String>,
}

impl fmt::Display for Target {
    /// Writes the template, without the login.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_https { "https://" } else { "http://" })?;
        write!(f, "{}{}", self.authority, self.rest)
    }
}

impl Target {
    /// Parses a URL. The user and the password become a header.
    pub fn new(text: &str) -> Result<Self> {
        let no_scheme = "the URL has no scheme; begin it with https:// or http://";
        let (scheme, rest) = text.split_once("://").context(no_scheme)?;
        let is_https = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            other => bail!("the URL begins with {other}://; use https:// or http://"),
        };
        let (login, authority, rest) = parts(rest);
        // A fragment is never sent.
        let rest = rest.split('#').next().unwrap_or_default();
        let target = Self {
            is_https,
            authority: Template::parse(authority, "the URL", check_literal)?,
            rest: Template::parse(rest, "the URL", check_literal)?,
            authorization: login.map(basic_authorization).transpose()?,
        };
        if target.columns().next().is_none() {
            target.fill(&|_| None)?;
        }
        Ok(target)
    }

    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.authority.columns().chain(self.rest.columns())
    }

    pub fn has_column_in_authority(&self) -> bool {
        self.authority.columns().next().is_some()
    }

    /// The URL for a record, without the user. A value that would change the URL's structure is an error.
    pub fn fill(&self, value: ColumnValues) -> Result<Uri> {
        let authority = self.authority.fill(value, RESERVED)?;
        let rest = self.rest.fill(value, RESERVED)?;
        check_authority(&authority)?;
        check_path(&rest)?;
        let scheme = if self.is_https { "https" } else { "http" };
        let slash = if rest.starts_with('/') { "" } else { "/" };
        let url = format!("{scheme}://{authority}{slash}{rest}");
        url.parse().with_context(|| format!("the URL {url} cannot be used"))
    }
}

pub fn without_login(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.into() };
    let (_, authority, rest) = parts(rest);
    format!("{scheme}://{authority}{rest}")
}

/// The parts of a URL without its scheme: the user, the authority without the user, and the rest.
fn parts(url: &str) -> (Option<&str>, &str, &str) {
    let (authority, rest) = url.split_at(url.find(['/', '?', '#']).unwrap_or(url.len()));
    match authority.rsplit_once('@') {
        Some((login, authority)) => (Some(login), authority, rest),
        None => (None, authority, rest),
    }
}

fn check_literal(text: &str) -> Result<()> {
    let is_fine = |c: &char| c.is_ascii_alphanumeric() || PUNCTUATION.contains(*c);
    if let Some(c) = text.chars().find(|c| !is_fine(c)) {
        bail!("{c:?} is not legal in the URL; percent-encode it, or write the host as xn--");
    }
    Ok(())
}

fn basic_authorization(login: &str) -> Result<String> {
    let is_plain = !login.contains(['{', '}']);
    ensure!(is_plain, "the user in the URL cannot have a placeholder; use a header");
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    let login =
        [user, password].map(|part| percent_decode_str(part).collect::<Vec<u8>>()).join(&b':');
    Ok(format!("Basic {}", STANDARD.encode(login)))
}

/// Values are percent-encoded, so a value with an illegal character contains a percent sign.
fn check_authority(authority: &str) -> Result<()> {
    let parts = authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']'));
    let (host, port) = parts.map_or((authority, None), |(host, port)| (host, Some(port)));
    let is_host = match host.strip_prefix('[') {
        Some(inner) => {
            inner.strip_suffix(']').is_some_and(|address| address.parse::<Ipv6Addr>().is_ok())
        }
        None => is_name(host.strip_suffix('.').unwrap_or(host)),
    };
    ensure!(is_host, "the URL's host {host:?} is not a host name");
    // A password that is not encoded may look like a port.
    ensure!(
        port.is_none_or(|port| !port.starts_with('+') && port.parse::<NonZeroU16>().is_ok()),
        "the URL's port is not a number from 1 to 65535; percent-encode a `/` or `#` in a password"
    );
    Ok(())
}

/// Rejects segments of dots, also encoded, behind a backslash or before a semicolon, because servers resolve them.
fn check_path(rest: &str) -> Result<()> {
    let path = rest.split_once('?').map_or(rest, |(path, _)| path);
    let decoded = percent_decode_str(path).collect::<Vec<u8>>();
    let is_dots = |segment: &[u8]| {
        let name = segment.split(|byte| *byte == b';').next();
        matches!(name, Some(b"." | b".."))
    };
    let climbs = decoded.split(|byte| matches!(byte, b'/' | b'\\')).any(is_dots);
    ensure!(!climbs, "the URL's path {path:?} has a segment of dots only");
    Ok(())
}

pub type ColumnValues<'a> = &'a dyn Fn(&str) -> Option<String>;

#[derive(Clone)]
pub struct Template {
    what: &'static str,
    /// Columns, each with the text before it.
    columns: Vec<(String, String)>,
    rest: String,
}

impl Template {
    pub fn parse(text: &str, what: &'static str, check: fn(&str) -> Result<()>) -> Result<Self> {
        let mut columns = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            check(before)?;
            let (name, after) = after.split_once('}').with_context(|| {
                format!("a brace in {what} is not closed; write a column as {{name}}")
            })?;
            ensure!(!name.is_empty(), "braces in {what} are empty; write a column as {{name}}");
            columns.push((before.into(), name.into()));
            rest = after;
        }
        check(rest)?;
        Ok(Self { what, columns, rest: rest.into() })
    }

    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|(_, name)| name.as_str())
    }

    /// Fills in the values. Characters of `encoded` and beyond ASCII are percent-encoded.
    pub fn fill(&self, value: ColumnValues, encoded: &'static AsciiSet) -> Result<String> {
        let what = self.what;
        let mut text = String::new();
        for (before, name) in &self.columns {
            let value = value(name)
                .with_context(|| format!("{what} needs the column {name}, which has no value"))?;
            text += before;
            text.extend(utf8_percent_encode(&value, encoded));
        }
        Ok(text + &self.rest)
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.columns.iter().try_for_each(|(text, name)| write!(f, "{text}{{{name}}}"))?;
        f.write_str(&self.rest)
    }
}

#[cfg(test)]
mod tests;

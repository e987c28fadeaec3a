//! The password file, by libpq's rules: the first line that fits has the password.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The lines of a password file. Not to be shown.
pub struct PassFile {
    pub path: PathBuf,
    text: String,
}

impl PassFile {
    /// None if there is none, or one that others may read: such a file is not used, so that
    /// nobody gets used to it.
    pub fn read(path: &Path) -> Option<Self> {
        let found = fs::metadata(path).ok()?;
        let shown = path.display();
        if !found.is_file() {
            log::warn!("the password file {shown} is not used: it is no plain file");
            return None;
        }
        if found.permissions().mode() & 0o077 != 0 {
            log::warn!(
                "the password file {shown} is not used: group or others have access to it; \
                 `chmod 600 {shown}` mends that"
            );
            return None;
        }
        match fs::read(path) {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                Some(Self { path: path.into(), text })
            }
            Err(error) => {
                log::warn!("could not read the password file {shown}: {error}");
                None
            }
        }
    }

    /// The password of the first line that fits one of the host's names.
    pub fn password(
        &self,
        hosts: &[&str],
        port: u16,
        database: &str,
        user: &str,
    ) -> Option<String> {
        let port = port.to_string();
        let password =
            self.text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
                let rest = hosts.iter().find_map(|host| strip_field(line, host))?;
                let rest = strip_field(rest, &port)?;
                let rest = strip_field(rest, database)?;
                strip_field(rest, user)
            })?;
        Some(unescape(password)).filter(|password| !password.is_empty())
    }
}

/// What follows a field and its colon, if the field is `*` or this value.
fn strip_field<'a>(line: &'a str, value: &str) -> Option<&'a str> {
    if let Some(rest) = line.strip_prefix("*:") {
        return Some(rest);
    }
    let mut wanted = value.chars();
    let mut chars = line.chars();
    loop {
        match chars.next()? {
            ':' if wanted.as_str().is_empty() => return Some(chars.as_str()),
            '\\' => {
                if chars.next()? != wanted.next()? {
                    return None;
                }
            }
            c => {
                if c != wanted.next()? {
                    return None;
                }
            }
        }
    }
}

/// The password: up to the next colon, which a comment may follow.
fn unescape(text: &str) -> String {
    let mut password = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            ':' => break,
            '\\' => password.push(chars.next().unwrap_or('\\')),
            c => password.push(c),
        }
    }
    password
}

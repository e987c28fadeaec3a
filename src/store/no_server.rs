//! The place of servers in a program that is built without the feature `postgres`: there are none.

use anyhow::{Result, bail};

#[derive(Debug)]
pub enum Server {}

impl Server {
    /// # Errors
    /// Always: no server can be spoken to.
    pub fn new(_url: &str, _env: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        bail!(
            "this program was built without PostgreSQL, the feature postgres; --db can be a file"
        );
    }

    pub fn identity(&self) -> String {
        match *self {}
    }

    pub fn shown(&self) -> String {
        match *self {}
    }
}

pub fn is_url(text: &str) -> bool {
    let scheme = text.split("://").next().filter(|scheme| scheme.len() < text.len());
    scheme
        .is_some_and(|it| ["postgres", "postgresql"].iter().any(|url| it.eq_ignore_ascii_case(url)))
}

/// Nothing of it is needed, and somewhere in it is the password.
pub fn without_password(url: &str) -> String {
    if is_url(url) { "postgres://...".into() } else { url.into() }
}

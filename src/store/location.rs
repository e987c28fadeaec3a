//! The location of a table: a file, a server, or a queue on a server.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

#[cfg(feature = "postgres")]
use super::postgres::{self, pgmq};
use super::sqlite;
use super::{Database, Server};
use crate::mapping::Mapping;

#[derive(Debug, Clone)]
pub enum Location {
    File(PathBuf),
    Server(Arc<Server>),
    /// A queue of pgmq there.
    Queue(Arc<Server>, String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// No statement can write: a condition is SQL, and calls whatever it likes.
    ReadOnly,
    ReadWrite,
    /// To work records off, and to wait no longer than this for whoever has it locked.
    Pass(Duration),
}

/// The schema of the usual table, in each dialect.
pub struct Schemas {
    pub sqlite: &'static str,
    pub postgres: &'static str,
}

impl Location {
    /// Opens an existing database; never creates one.
    pub fn open(&self, mapping: &Mapping, access: Access) -> Result<Box<dyn Database>> {
        Ok(match self {
            Self::File(path) => Box::new(sqlite::open(path, mapping, access)?),
            #[cfg(feature = "postgres")]
            Self::Server(server) => Box::new(postgres::open(server, mapping, access)?),
            #[cfg(feature = "postgres")]
            Self::Queue(server, queue) => Box::new(pgmq::open(server, queue, mapping, access)?),
            #[cfg(not(feature = "postgres"))]
            Self::Server(server) | Self::Queue(server, _) => match **server {},
        })
    }

    /// Creates the table or queue, and a file if there is none. Says what was made.
    pub fn create(&self, table: &str, schemas: &Schemas) -> Result<String> {
        match self {
            Self::File(path) => sqlite::create(path, table, schemas.sqlite)?,
            #[cfg(feature = "postgres")]
            Self::Server(server) => postgres::create(server, table, schemas.postgres)?,
            #[cfg(feature = "postgres")]
            Self::Queue(server, queue) => {
                pgmq::create(server, queue)?;
                return Ok(format!("queue {queue}"));
            }
            #[cfg(not(feature = "postgres"))]
            Self::Server(server) | Self::Queue(server, _) => match **server {},
        }
        Ok(format!("table {table}"))
    }

    /// What tells it from others, whoever asks.
    pub fn identity(&self) -> String {
        match self {
            Self::File(path) => path.canonicalize().as_ref().unwrap_or(path).display().to_string(),
            Self::Server(server) => server.identity(),
            Self::Queue(server, queue) => format!("{} {queue}", server.identity()),
        }
    }

    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Server(_) | Self::Queue(..) => None,
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Server(server) | Self::Queue(server, _) => f.write_str(&server.shown()),
        }
    }
}

/// The scheme of a PostgreSQL URL, and what follows it.
pub fn split_scheme(text: &str) -> Option<(&str, &str)> {
    ["postgres://", "postgresql://"].into_iter().find_map(|scheme| {
        let (start, rest) = text.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some((start, rest))
    })
}

pub fn is_url(text: &str) -> bool {
    split_scheme(text).is_some()
}

/// The place of servers in a program that is built without them: there are none.
#[cfg(not(feature = "postgres"))]
pub mod no_server {
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

    /// Nothing of it is needed, and somewhere in it is the password.
    pub fn without_password(url: &str) -> String {
        if super::is_url(url) { "postgres://...".into() } else { url.into() }
    }
}

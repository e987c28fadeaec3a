//! The location of a table: a file, a server, or a queue on a server.

use std::fmt;
use std::path::{Path, PathBuf};
#[cfg(feature = "postgres")]
use std::sync::Arc;

use anyhow::Result;

use super::sqlite;
use crate::clock::Clock;
use crate::database::{Access, Database};
use crate::explore::Explore;
use crate::mapping::Mapping;
#[cfg(feature = "postgres")]
use crate::postgres::{self, Server, pgmq};

#[derive(Debug, Clone)]
pub enum Location {
    File(PathBuf),
    /// The queue is one of pgmq.
    #[cfg(feature = "postgres")]
    Server(Arc<Server>, Option<String>),
}

impl Location {
    #[cfg(feature = "postgres")]
    pub fn from_url(
        url: &str,
        queue: Option<&str>,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self> {
        Ok(Self::Server(Arc::new(Server::new(url, env)?), queue.map(String::from)))
    }

    #[cfg(not(feature = "postgres"))]
    pub fn from_url(_: &str, _: Option<&str>, _: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        anyhow::bail!(
            "this program was built without PostgreSQL (feature postgres): --db must name a file"
        );
    }

    /// Opens an existing database; never creates one.
    pub fn open(
        &self,
        mapping: &Mapping,
        access: Access,
        clock: Clock,
    ) -> Result<Box<dyn Database>> {
        Ok(match self {
            Self::File(path) => Box::new(sqlite::open(path, mapping, access, clock)?),
            #[cfg(feature = "postgres")]
            Self::Server(server, None) => Box::new(postgres::open(server, mapping, access, clock)?),
            #[cfg(feature = "postgres")]
            Self::Server(server, Some(queue)) => {
                Box::new(pgmq::open(server, queue, mapping, access, clock)?)
            }
        })
    }

    pub fn explore(&self) -> Result<Box<dyn Explore>> {
        Ok(match self {
            Self::File(path) => Box::new(sqlite::explore(path)?),
            #[cfg(feature = "postgres")]
            Self::Server(server, _) => Box::new(postgres::explore(server)?),
        })
    }

    /// Creates the table from its schema, or the queue. Returns its description, and true if it is new.
    pub fn create(&self, table: &str, schemas: [&str; 2]) -> Result<(String, bool)> {
        let is_new = match self {
            Self::File(path) => sqlite::create(path, table, schemas[0])?,
            #[cfg(feature = "postgres")]
            Self::Server(server, None) => postgres::create(server, table, schemas[1])?,
            #[cfg(feature = "postgres")]
            Self::Server(server, Some(queue)) => {
                return Ok((format!("queue {queue}"), pgmq::create(server, queue)?));
            }
        };
        Ok((format!("table {table}"), is_new))
    }

    /// A name that is the same for all users and directories.
    pub fn identity(&self) -> String {
        match self {
            Self::File(path) => path.canonicalize().as_ref().unwrap_or(path).display().to_string(),
            #[cfg(feature = "postgres")]
            Self::Server(server, None) => server.identity(),
            #[cfg(feature = "postgres")]
            Self::Server(server, Some(queue)) => format!("{} {queue}", server.identity()),
        }
    }

    /// Its name in metrics, without following links: it stays the same if the database is gone.
    pub fn name(&self) -> String {
        match self {
            Self::File(path) => {
                let absolute = std::path::absolute(path).ok();
                absolute.as_ref().unwrap_or(path).display().to_string()
            }
            #[cfg(feature = "postgres")]
            Self::Server(..) => self.identity(),
        }
    }

    pub fn queue(&self) -> Option<&str> {
        match self {
            Self::File(_) => None,
            #[cfg(feature = "postgres")]
            Self::Server(_, queue) => queue.as_deref(),
        }
    }

    pub fn password_from(&self) -> Option<&str> {
        match self {
            Self::File(_) => None,
            #[cfg(feature = "postgres")]
            Self::Server(server, _) => server.password_from(),
        }
    }

    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            #[cfg(feature = "postgres")]
            Self::Server(..) => None,
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            #[cfg(feature = "postgres")]
            Self::Server(server, _) => write!(f, "{server}"),
        }
    }
}

#[cfg(not(feature = "postgres"))]
pub fn certificates(_url: &str, _environment: &dyn Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    Vec::new()
}

/// Hides the whole URL, which may contain a password anywhere.
#[cfg(not(feature = "postgres"))]
pub fn without_password(url: &str) -> String {
    if crate::scheme::is_url(url) { "postgres://...".into() } else { url.into() }
}

//! The queue that the options describe: where its records are, and what their table means.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use clap::Args;
use serde::Deserialize;
use toml::{Table, Value};

use super::Environment;
use super::keys::require_known;
use super::value;
use crate::exit::{ExitError, usage};
use crate::mapping::Mapping;
use crate::query::Shard;
use crate::store::{self, Location, Server};

/// A queue: where its records are, and what their table means.
#[derive(Debug, Clone)]
pub struct Queue {
    pub name: String,
    pub db: Location,
    pub mapping: Mapping,
    /// The part of the records that is worked off, if not all of them.
    pub shard: Option<Shard>,
    pub state_dir: Option<PathBuf>,
    /// The handler, if it stands in backlog.toml.
    pub exec: Vec<OsString>,
    /// What gets each record that is archived, if that stands there or in the environment.
    pub on_archive: Option<Vec<OsString>>,
}

impl Queue {
    /// Whether both are about the same rows.
    pub fn is_same(&self, other: &Self) -> bool {
        let (table, others) = (&self.mapping.table.text, &other.mapping.table.text);
        self.db.identity() == other.db.identity()
            && table.eq_ignore_ascii_case(others)
            && self.mapping.conditions == other.mapping.conditions
            && self.shard == other.shard
    }
}

/// Where the records are.
#[derive(Default, Args, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "The table")]
pub struct QueueOptions {
    /// An option of every subcommand, typed in front of it as well.
    #[arg(skip)]
    #[serde(deserialize_with = "value::typed")]
    pub db: Option<PathBuf>,

    #[arg(skip)]
    #[serde(deserialize_with = "value::typed")]
    pub state_dir: Option<PathBuf>,

    /// The table [default: BACKLOG]
    #[arg(long, value_name = "NAME")]
    #[serde(deserialize_with = "value::typed")]
    pub table: Option<String>,

    /// A queue of pgmq instead of a table (with a database postgres://...)
    #[arg(long, value_name = "QUEUE", conflicts_with = "table")]
    #[serde(deserialize_with = "value::typed")]
    pub pgmq: Option<String>,

    /// Only the I-th of N parts of the records, 2/3: other lines or machines take the others
    #[arg(long, value_name = "I/N")]
    #[serde(deserialize_with = "value::typed")]
    pub shard: Option<Shard>,

    /// A key of backlog.toml, id=order_id or 'status={column="state",new=[2,3]}'; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    #[serde(skip)]
    pub set: Vec<Setting>,

    /// Only rows for which this SQL condition holds, besides that of backlog.toml
    #[arg(long = "where", value_name = "SQL")]
    #[serde(skip)]
    pub condition: Option<String>,
}

/// A key of backlog.toml with its value, as `--set` has them. The key may be one in a table,
/// `status.new`.
#[derive(Debug, Clone)]
pub struct Setting {
    pub text: String,
    pub key: String,
    pub value: Value,
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (path, value) = text.split_once('=').ok_or("write KEY=VALUE, as in id=order_id")?;
        let mut path = path.split('.').map(str::trim);
        let key = path.next().unwrap_or_default();
        require_known(key)?;
        let part = |value, name: &str| Value::Table(Table::from_iter([(name.into(), value)]));
        let parsed = format!("value = {value}").parse::<Table>().ok();
        let alone = parsed.filter(|table| table.len() == 1).and_then(|mut it| it.remove("value"));
        // A bare word is a text.
        let value = path.rfold(alone.unwrap_or_else(|| Value::String(value.into())), part);
        Ok(Self { text: text.into(), key: key.into(), value })
    }
}

/// Whether it is hardly the name of a file.
fn is_nearly_a_url(text: &str) -> bool {
    let text = text.trim_start().to_ascii_lowercase();
    let starts = ["postgres:", "postgresql:", "postgres//", "postgresql//", "pg:", "host="];
    text.contains("://")
        || text.contains("password=")
        || starts.iter().any(|it| text.starts_with(it))
}

/// A file, or a server if it looks like a URL.
pub fn location(
    db: PathBuf,
    pgmq: Option<&str>,
    environment: &Environment,
) -> Result<Location, ExitError> {
    let Some(url) = db.to_str().filter(|text| store::is_url(text)) else {
        // It may have a password in it, so nothing of it is said again.
        if db.to_str().is_some_and(is_nearly_a_url) {
            return Err(usage(
                "--db looks like a connection string, but is no URL: write \
                 postgres://user@host:port/database",
            ));
        }
        return match pgmq {
            None => Ok(Location::File(db)),
            Some(_) => Err(usage("a queue of pgmq is on a server: say --db postgres://...")),
        };
    };
    let variable = |name: &str| Some(environment.get(name)?.to_str()?.to_string());
    let server = Server::new(url, &variable).map_err(|error| usage(format!("{error:#}")))?;
    let server = Arc::new(server);
    Ok(match pgmq {
        None => Location::Server(server),
        Some(queue) => Location::Queue(server, queue.into()),
    })
}

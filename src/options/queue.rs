//! The queue that the options describe: its database, and the mapping of its table.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use backlog_schedule::{Id, Shard};
use backlog_store::{Location, Mapping, chain, is_url, without_password};

use super::environment::Environment;
use super::value::PruneAfter;
use crate::exit::{ExitError, usage};

#[derive(Debug, Clone)]
pub struct Queue {
    pub name: String,
    pub db: Location,
    pub mapping: Mapping,
    pub shard: Option<Shard>,
    pub state_dir: Option<PathBuf>,
    /// False for a user's default directory, which several queues share.
    pub has_own_state_dir: bool,
    pub on_archive: Option<Vec<OsString>>,
    pub prune_after: PruneAfter,
}

impl Queue {
    /// The table as it was typed, or the queue of pgmq.
    pub fn table_name(&self) -> &str {
        self.db.queue().unwrap_or(self.mapping.table_name())
    }

    pub fn holds(&self, id: &Id) -> bool {
        self.shard.is_none_or(|shard| shard.holds(id))
    }

    /// True if `self` is `other`, or a part of it by a further condition or a shard.
    pub fn is_within(&self, other: &Self) -> bool {
        let (own, whole) = (&self.mapping, &other.mapping);
        let is_same = own.conditions == whole.conditions && self.shard == other.shard;
        let is_part = self.name == other.name
            && whole.conditions.iter().all(|condition| own.conditions.contains(condition))
            && (other.shard.is_none() || self.shard == other.shard);
        self.db.identity() == other.db.identity()
            && own.table_name().eq_ignore_ascii_case(whole.table_name())
            && (is_same || is_part)
    }
}

/// True for a text that is probably a URL with a mistake, and not the name of a file.
fn resembles_url(text: &str) -> bool {
    let text = text.trim_start().to_ascii_lowercase();
    let postgres = ["postgres:", "postgresql:", "postgres//", "postgresql//", "pg:", "host="];
    let sqlite = ["file:", "sqlite:", "sqlite3:"];
    ["://", "password="].iter().any(|part| text.contains(part))
        || postgres.iter().chain(&sqlite).any(|start| text.starts_with(start))
}

/// The database of `--db`: a server if the text is a URL, or else a file.
pub fn location(
    db: PathBuf,
    pgmq: Option<&str>,
    environment: &Environment,
) -> Result<Location, ExitError> {
    let text = db.to_str().unwrap_or_default();
    if db.as_os_str().as_bytes().trim_ascii().is_empty() {
        return Err(usage("--db is empty: name a SQLite file, or postgres://user@host/database"));
    }
    if is_url(text) {
        let found = Location::from_url(text, pgmq, &|name| environment.text(name));
        return found.map_err(|error| usage(chain(&error)));
    }
    // The message does not repeat the text, which may contain a password.
    if resembles_url(text) {
        return Err(usage(
            "--db must be the path of a SQLite file, without a scheme, or \
             postgres://user@host:port/database",
        ));
    }
    // HOST:PORT/NAME, unless HOST:PORT is a directory.
    let host = text.split_once('/').map_or("", |(host, _)| host);
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if has_port && !environment.directory.join(host).is_dir() {
        let url = without_password(&format!("postgres://{text}"));
        return Err(usage(format!("--db names a server, not a file: write it as {url}")));
    }
    if text == ":memory:" {
        return Err(usage(
            "--db: a database in memory would be lost when the command ends: name a file (./:memory: for \
             one of that name)",
        ));
    }
    match pgmq {
        None => Ok(Location::File(db)),
        Some(_) => Err(usage("a pgmq queue is on a server: use --db postgres://...")),
    }
}

//! The parsed values of all keys.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use backlog_schedule::{Order, Shard};

use super::Ping;
use super::raw::Raw;
use super::table::TableSettings;
use super::value::{PruneAfter, at_least_one, order, set};
use crate::engine::RateLimit;
use crate::handlers::GivesUp;

/// A field for each key. Times as integers are whole seconds.
#[derive(Default)]
pub struct Settings {
    pub db: Option<PathBuf>,
    pub state_dir: Option<PathBuf>,
    pub pgmq: Option<String>,
    pub shard: Option<Shard>,
    pub table: TableSettings,
    pub prune_after: PruneAfter,

    pub ndays: Option<i64>,
    pub min_ndays: Option<i64>,
    pub fibonacci: bool,
    /// Only a simulation takes several.
    pub policies: Vec<String>,
    /// `true`, or the tiers.
    pub progressive: Option<String>,
    pub by_age: bool,
    pub every: Option<i64>,
    pub spread: Option<u8>,
    pub max_attempts: Option<u32>,
    pub max_age: Option<i64>,

    pub jobs: usize,
    pub timeout: Option<Option<Duration>>,
    pub grace: Duration,
    pub order: Order,
    pub rate: Option<RateLimit>,
    pub max_records: Option<u64>,
    pub max_runtime: Option<Duration>,
    pub max_consecutive_failures: Option<u32>,
    pub strict: bool,
    pub joblog: Option<PathBuf>,
    pub on_archive: Option<Vec<OsString>>,
    pub ping: Option<Ping>,
    pub metrics: Option<PathBuf>,

    pub exec: Vec<OsString>,
    pub give_up_on: GivesUp,
    pub stream: bool,
    pub window: usize,
    pub post: Option<String>,
    pub header: Vec<String>,
    pub allow_hosts: Vec<String>,
    pub secret_column: Option<String>,
    pub idempotency_key: Option<String>,
    pub ca_file: Option<PathBuf>,
}

impl Settings {
    pub fn set_order(&mut self, raw: Raw) -> Result<(), String> {
        (self.order, self.table.mapping.order) = order(raw)?;
        Ok(())
    }

    /// A number, or `{ column = "max_tries" }`.
    pub fn set_max_attempts(&mut self, raw: Raw) -> Result<(), String> {
        let Some(parts) = raw.as_table() else {
            return set(&mut self.max_attempts, raw.parse(at_least_one));
        };
        let column = parts.get("column").and_then(toml::Value::as_str).map(String::from);
        let column = column.ok_or("write a number, or { column = \"max_tries\" }".into());
        set(&mut self.table.mapping.max_attempts, column)
    }
}

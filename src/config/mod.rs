//! From what the user typed, and from what stands in the environment and in backlog.toml, to what
//! the program goes by. Nothing behind this sees a raw flag.

mod crontab;
mod environment;
mod file;
mod mapping;
mod schedule;
mod section;
mod sources;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

pub use crontab::CrontabLine;
pub use environment::Environment;
pub use schedule::{Schedule, simulated};
pub use section::is_of_the_choice as is_of_the_schedule;
pub use sources::{Place, Resolved, Sources};

use crate::cli;
use crate::engine::Limits;
use crate::exit::{ExitError, usage};
use crate::mapping::Mapping;
use crate::record::Status;
use crate::selection::{Order, Shard};
use crate::store::Location;

/// The name of a queue that has none.
const DEFAULT_QUEUE: &str = "default";

/// Where the records are, and what their table means.
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
}

/// How a pass is to be run.
pub struct PassSettings {
    pub schedule: Schedule,
    pub limits: Limits,
    pub order: Order,
    pub dry_run: bool,
    pub wait: bool,
    pub strict: bool,
    pub joblog: Option<PathBuf>,
    pub handler: Vec<OsString>,
    pub jobs: usize,
    pub timeout: Option<Duration>,
}

impl Queue {
    /// The handler that was typed, or else the one that stands in backlog.toml.
    pub fn handler<'a>(&'a self, typed: &'a [OsString]) -> Result<&'a [OsString], ExitError> {
        match (typed, &self.exec[..]) {
            ([], []) => Err(usage(
                "which handler? write the command behind `--`, or as exec into backlog.toml",
            )),
            ([], described) => Ok(described),
            (typed, _) => Ok(typed),
        }
    }

    /// Whether both are about the same rows.
    pub fn is_same(&self, other: &Self) -> bool {
        let (table, others) = (&self.mapping.table.text, &other.mapping.table.text);
        self.db.identity() == other.db.identity()
            && table.eq_ignore_ascii_case(others)
            && self.mapping.conditions == other.mapping.conditions
            && self.shard == other.shard
    }
}

impl PassSettings {
    pub fn new(process: cli::Process, queue: &Queue) -> Result<Self, ExitError> {
        let handler = match queue.handler(&process.handler) {
            Err(error) if !process.dry_run => return Err(error),
            handler => handler.unwrap_or_default().to_vec(),
        };
        Ok(Self {
            schedule: Schedule::required(&process.schedule)?,
            limits: Limits {
                max_records: process.max_records,
                max_runtime: process.max_runtime,
                grace: process.grace,
                drain: process.drain,
            },
            order: process.order.into(),
            dry_run: process.dry_run,
            wait: process.wait,
            strict: process.strict,
            joblog: process.joblog,
            handler,
            jobs: process.jobs.into(),
            timeout: process.timeout.0,
        })
    }
}

impl From<cli::Order> for Order {
    fn from(order: cli::Order) -> Self {
        match order {
            cli::Order::Newest => Self::Newest,
            cli::Order::Oldest => Self::Oldest,
        }
    }
}

impl From<cli::StatusName> for Status {
    fn from(name: cli::StatusName) -> Self {
        match name {
            cli::StatusName::New => Self::New,
            cli::StatusName::Error => Self::Error,
            cli::StatusName::Success => Self::Success,
            cli::StatusName::Archived => Self::Archived,
        }
    }
}

//! Options, from the command line, the environment and backlog.toml: one struct for each group of
//! them, read from the merged layers. Nothing behind this sees a raw flag.

mod environment;
mod file;
mod handler;
pub mod keys;
mod layers;
mod limits;
mod queue;
mod schedule;
mod sources;
mod table;
pub mod value;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

pub use environment::Environment;
pub use handler::{Handler, HandlerOptions, WEBHOOK_SECRET};
pub use layers::{Layers, Origin};
pub use limits::{OrderOption, PassOptions};
pub use queue::QueueOptions;
pub use schedule::{Pace, ScheduleOptions};
pub use sources::{Resolved, Sources, TypedOptions};

pub use crate::schedule::Schedule;

use crate::engine::PassLimits;
use crate::exit::ExitError;
use crate::mapping::Mapping;
use crate::query::{Order, Shard};
use crate::store::Location;

/// How long a command or the answer to a webhook may take, unless told otherwise.
const TIMEOUT: Duration = Duration::from_secs(3_600);
const POST_TIMEOUT: Duration = Duration::from_secs(30);
/// Between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(10);

/// The name of a queue that has none.
pub const DEFAULT_QUEUE: &str = "default";

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

/// The settings of a pass.
pub struct PassSettings {
    pub schedule: Schedule,
    pub limits: PassLimits,
    pub order: Order,
    pub wait: bool,
    pub strict: bool,
    pub joblog: Option<PathBuf>,
    /// None if nothing is to be handled.
    pub handler: Option<Handler>,
    pub jobs: usize,
    pub timeout: Option<Duration>,
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

impl PassSettings {
    /// `is_dry` says that nothing is to be handled.
    pub fn new(resolved: &Resolved<'_>, queue: &Queue, is_dry: bool) -> Result<Self, ExitError> {
        let handler = resolved.handler(queue)?;
        let timeout = match &handler {
            None if !is_dry => return Err(Handler::none()),
            Some(Handler::Post(_)) => POST_TIMEOUT,
            Some(Handler::Exec { .. } | Handler::Stream { .. }) | None => TIMEOUT,
        };
        let pass = resolved.pass()?;
        Ok(Self {
            schedule: resolved.schedule()?.ok_or_else(Schedule::none)?,
            limits: PassLimits {
                max_records: pass.max_records.map(|most| most.0),
                max_runtime: pass.max_runtime.map(Duration::from),
                grace: pass.grace.map_or(GRACE, |grace| grace.0),
                drain: false,
                max_consecutive_failures: pass.max_consecutive_failures.map(|most| most.0),
                rate: pass.rate,
            },
            order: pass.order.order.unwrap_or_default(),
            wait: false,
            strict: pass.strict,
            joblog: pass.joblog,
            handler,
            jobs: pass.jobs.map_or(1, |jobs| jobs.0.into()),
            timeout: pass.timeout.map_or(Some(timeout), |limit| limit.0),
        })
    }
}

/// Fails if a command names no program, which would be looked for in vain for each record.
fn require_program(argv: &[OsString]) -> Result<(), &'static str> {
    if argv.first().is_some_and(|program| program.is_empty()) {
        return Err("the command is empty: its first word must name a program");
    }
    Ok(())
}

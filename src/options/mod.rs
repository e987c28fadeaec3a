//! From what the user typed, and from what stands in the environment and in backlog.toml, to what
//! the program goes by. Nothing behind this sees a raw flag.

mod crontab;
mod environment;
mod file;
mod handler;
mod mapping;
mod schedule;
mod section;
mod source_file;
mod sources;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

pub use crontab::CrontabLine;
pub use environment::Environment;
pub use handler::{HEADER, Handler, WEBHOOK_SECRET};
pub use schedule::{Schedule, simulated};
pub use section::is_of_the_choice as is_of_the_schedule;
pub use sources::{Place, Resolved, Sources};

use crate::cli;
use crate::engine::PassLimits;
use crate::exit::{ExitError, usage};
use crate::mapping::Mapping;
use crate::query::{Order, Shard};
use crate::record::Status;
use crate::store::Location;

/// How long a command or the answer to a webhook may take, unless told otherwise.
const TIMEOUT: Duration = Duration::from_hours(1);
const POST_TIMEOUT: Duration = Duration::from_secs(30);

/// What is said of a command whose first word is empty.
const EMPTY_COMMAND: &str = "the command is empty: its first word must name a program";

/// The name of a queue that has none.
const DEFAULT_QUEUE: &str = "default";

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
    pub dry_run: bool,
    pub wait: bool,
    pub strict: bool,
    pub joblog: Option<PathBuf>,
    /// None if nothing is to be handled.
    pub handler: Option<Handler>,
    /// What gets each record that is archived.
    pub on_archive: Option<Vec<OsString>>,
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
    /// The option by which a record may be given up before its last attempt, if one says so.
    pub fn gives_up(&self) -> Option<&'static str> {
        self.handler.as_ref().and_then(Handler::gives_up)
    }

    pub fn new(
        process: cli::Process,
        queue: &Queue,
        environment: &Environment,
    ) -> Result<Self, ExitError> {
        let handler = Handler::chosen(&process.handler, queue, environment)?;
        let timeout = match &handler {
            None if !process.dry_run => return Err(Handler::none()),
            Some(Handler::Post(_)) => POST_TIMEOUT,
            Some(Handler::Exec { .. } | Handler::Stream { .. }) | None => TIMEOUT,
        };
        Ok(Self {
            schedule: Schedule::required(&process.schedule)?,
            limits: PassLimits {
                max_records: process.max_records,
                max_runtime: process.max_runtime,
                grace: process.grace,
                drain: process.drain,
                max_consecutive_failures: process.max_consecutive_failures,
                rate: process.rate,
            },
            order: process.order.into(),
            dry_run: process.dry_run,
            wait: process.wait,
            strict: process.strict,
            joblog: process.joblog,
            handler,
            on_archive: process.on_archive.as_deref().map(command).transpose()?,
            jobs: process.jobs.into(),
            timeout: process.timeout.map_or(Some(timeout), |limit| limit.0),
        })
    }
}

/// The words of a command as a shell would see them.
fn command(text: &str) -> Result<Vec<OsString>, ExitError> {
    let words = shlex::split(text).filter(|words| !words.is_empty());
    let words = words.ok_or_else(|| usage(format!("--on-archive: {text:?} is no command")))?;
    let words: Vec<_> = words.into_iter().map(OsString::from).collect();
    require_program(&words).map_err(|error| usage(format!("--on-archive: {error}")))?;
    Ok(words)
}

/// Fails if a command names no program, which would be looked for in vain for each record.
fn require_program(argv: &[OsString]) -> Result<(), &'static str> {
    if argv.first().is_some_and(|program| program.is_empty()) {
        return Err(EMPTY_COMMAND);
    }
    Ok(())
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

//! From what the user typed to what the program goes by. Nothing behind this sees a raw flag.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::cli;
use crate::engine::Limits;
use crate::exit::{ExitError, usage};
use crate::policy::{Age, Fibonacci, Policy};
use crate::record::Status;
use crate::selection::Order;

/// The name of the queue where none is configured.
const DEFAULT_QUEUE: &str = "default";

/// Where the records are.
#[derive(Debug, Clone)]
pub struct Queue {
    pub name: String,
    pub db: PathBuf,
    pub table: String,
    pub state_dir: Option<PathBuf>,
}

/// How a pass is to be run.
pub struct PassSettings {
    pub policy: Policy,
    pub limits: Limits,
    pub order: Order,
    pub wait: bool,
    pub strict: bool,
    pub joblog: Option<PathBuf>,
    pub handler: Vec<OsString>,
    pub jobs: usize,
    pub timeout: Option<Duration>,
}

impl Queue {
    pub fn new(global: cli::Global) -> Result<Self, ExitError> {
        let db = global
            .db
            .ok_or_else(|| usage("which database? name it with --db FILE or in BACKLOG_DB"))?;
        Ok(Self {
            name: DEFAULT_QUEUE.into(),
            db,
            table: global.table,
            state_dir: global.state_dir,
        })
    }
}

/// The policy that was chosen, if one was.
pub fn policy(schedule: &cli::Schedule) -> Result<Option<Policy>, ExitError> {
    if schedule.fibonacci {
        return Ok(Some(Policy::Fibonacci(Fibonacci {
            unit_secs: schedule.unit.unwrap_or(60),
            every_secs: schedule.every.unwrap_or(60),
        })));
    }
    if schedule.unit.or(schedule.every).is_some() {
        return Err(usage("--unit and --every go with --fibonacci"));
    }
    let Some(max_secs) = schedule.ndays else {
        return Ok(None);
    };
    let min_secs = schedule.min_ndays.unwrap_or(0);
    if min_secs >= max_secs {
        return Err(usage(
            "--min-ndays must be less than --ndays: no record is that old and that young",
        ));
    }
    Ok(Some(Policy::Age(Age { min_secs, max_secs })))
}

impl PassSettings {
    pub fn new(process: cli::Process) -> Result<Self, ExitError> {
        let policy = policy(&process.schedule)?
            .ok_or_else(|| usage("when is a record due? say --ndays N or --fibonacci"))?;
        Ok(Self {
            policy,
            limits: Limits {
                max_records: process.max_records,
                max_runtime: process.max_runtime,
                max_attempts: process.max_attempts,
                grace: process.grace,
                drain: process.drain,
            },
            order: process.order.into(),
            wait: process.wait,
            strict: process.strict,
            joblog: process.joblog,
            handler: process.handler,
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

//! From what the user typed to what the program goes by. Nothing behind this sees a raw flag.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::cli;
use crate::engine::Limits;
use crate::exit::{ExitError, usage};
use crate::policy::{self, Age, Options, Policy, Slots, Tiers};
use crate::record::Status;
use crate::selection::Order;

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
        Ok(Self { name: global.queue, db, table: global.table, state_dir: global.state_dir })
    }
}

/// The policy that was chosen, if one was.
pub fn policy(schedule: &cli::Schedule) -> Result<Option<Policy>, ExitError> {
    let chosen = [
        (schedule.ndays.is_some(), "--ndays"),
        (schedule.fibonacci, "--fibonacci"),
        (schedule.policy.is_some(), "--policy"),
        (schedule.progressive.is_some(), "--progressive"),
    ];
    let chosen: Vec<_> = chosen.iter().filter(|(is, _)| *is).map(|(_, name)| *name).collect();
    if let [first, second, ..] = chosen[..] {
        return Err(usage(format!("{first} and {second} exclude each other; choose one")));
    }
    // What only one of them knows. clap does not ask for what is excluded by another choice.
    for (given, option, goes_with) in [
        (schedule.min_ndays.is_some(), "--min-ndays", "--ndays"),
        (schedule.unit.is_some(), "--unit", "--fibonacci"),
        (schedule.by_age, "--by-age", "--policy"),
    ] {
        if given && !chosen.contains(&goes_with) {
            return Err(usage(format!("{option} goes with {goes_with}")));
        }
    }
    if let Some(max_secs) = schedule.ndays {
        no_pace(&schedule.pace)?;
        return age(schedule.min_ndays.unwrap_or(0), max_secs).map(Some);
    }
    if let Some(tiers) = &schedule.progressive {
        return progressive(tiers.as_deref(), &schedule.pace).map(Some);
    }
    let options = options(&schedule.pace, policy::EVERY_SECS);
    if schedule.fibonacci {
        let fibonacci = policy::plain_fibonacci(schedule.unit.unwrap_or(60), options);
        return Ok(Some(Policy::Counted(fibonacci)));
    }
    match &schedule.policy {
        Some(spec) => by_spec(spec, options, schedule.by_age).map(Some),
        None => no_pace(&schedule.pace).map(|()| None),
    }
}

/// The policies that are to be simulated: the article's two first, then the others as typed.
pub fn simulated(args: &cli::Simulate) -> Result<Vec<Policy>, ExitError> {
    let options = options(&args.pace, policy::EVERY_SECS);
    let mut policies = Vec::new();
    if args.fibonacci {
        policies.push(Policy::Counted(policy::plain_fibonacci(60, options)));
    }
    if let Some(tiers) = &args.progressive {
        policies.push(progressive(tiers.as_deref(), &args.pace)?);
    }
    for spec in &args.policy {
        policies.push(by_spec(spec, options, args.by_age)?);
    }
    if policies.is_empty() {
        return Err(usage("which policies? say --policy SPEC, --fibonacci or --progressive"));
    }
    Ok(policies)
}

fn age(min_secs: i64, max_secs: i64) -> Result<Policy, ExitError> {
    if min_secs >= max_secs {
        return Err(usage(
            "--min-ndays must be less than --ndays: no record is that old and that young",
        ));
    }
    Ok(Policy::Age(Age { min_secs, max_secs }))
}

/// A policy by its tiers, the default ones if none are given.
pub fn progressive(tiers: Option<&str>, pace: &cli::Pace) -> Result<Policy, ExitError> {
    if pace.spread.is_some() {
        return Err(usage("--progressive spreads its load evenly already; leave out --spread"));
    }
    let options = options(pace, policy::PROGRESSIVE_EVERY_SECS);
    let tiers = Tiers::parse(tiers.unwrap_or(policy::DEFAULT_TIERS), options)
        .map_err(|error| usage(format!("--progressive: {error}")))?;
    Ok(Policy::Slots(Slots::Progressive(tiers)))
}

/// A policy by what was typed behind `--policy`.
pub fn by_spec(spec: &str, options: Options, by_age: bool) -> Result<Policy, ExitError> {
    let parsed =
        if by_age { policy::parse_for_age(spec, options) } else { policy::parse(spec, options) };
    let backoff = parsed.map_err(|error| usage(format!("--policy: {error}")))?;
    Ok(if by_age { Policy::Slots(Slots::ByAge(backoff)) } else { Policy::Counted(backoff) })
}

pub fn options(pace: &cli::Pace, usual_every_secs: i64) -> Options {
    Options {
        every_secs: pace.every.unwrap_or(usual_every_secs),
        salt: pace.salt,
        spread: pace.spread,
    }
}

/// By plain age nothing is spread, and cron's period is nobody's business.
fn no_pace(pace: &cli::Pace) -> Result<(), ExitError> {
    if pace.every.is_none() && pace.spread.is_none() && pace.salt == 0 {
        return Ok(());
    }
    Err(usage("--every, --spread and --salt go with --fibonacci, --policy or --progressive"))
}

/// The number of the last attempt: by flag, else by the queue's variable, else by the policy.
pub fn max_attempts(
    flag: Option<u32>,
    queue: &str,
    policy: &Policy,
) -> Result<Option<u32>, ExitError> {
    if flag.is_some() {
        return Ok(flag);
    }
    let name: String = queue
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
        .collect();
    let variable = format!("MAX_{name}_RETRY_ATTEMPTS");
    let Some(value) = std::env::var_os(&variable) else {
        // By age the policy itself ends, and nobody counts.
        return Ok(if policy.needs_counter() { policy.max_attempts() } else { None });
    };
    let attempts = value.to_str().and_then(|value| value.trim().parse().ok());
    attempts.filter(|attempts| *attempts > 0).map(Some).ok_or_else(|| {
        usage(format!("{variable} is {value:?}; it must be a whole number, at least 1"))
    })
}

impl PassSettings {
    pub fn new(process: cli::Process, queue: &str) -> Result<Self, ExitError> {
        let policy = policy(&process.schedule)?.ok_or_else(|| {
            usage("when is a record due? say --ndays, --fibonacci, --policy or --progressive")
        })?;
        let max_attempts = max_attempts(process.max_attempts, queue, &policy)?;
        Ok(Self {
            policy,
            limits: Limits {
                max_records: process.max_records,
                max_runtime: process.max_runtime,
                max_attempts,
                max_age_secs: process.max_age,
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

//! The schedule that the options choose, checked.

use std::path::Path;

use crate::cli;
use crate::exit::{ExitError, usage};
use crate::mapping::Counting;
use crate::schedule::{self, AgeWindow, Options, Policy, Rules, Slots, Spec, Tiers};
use crate::secure_file;

/// When records are due, and when they are given up.
#[derive(Debug, Clone)]
pub struct Schedule {
    pub policy: Policy,
    pub max_attempts: Option<u32>,
    pub max_age_secs: Option<i64>,
}

impl Schedule {
    /// The one that was chosen, if one was.
    pub fn chosen(args: &cli::Schedule) -> Result<Option<Self>, ExitError> {
        let Some(policy) = policy(args)? else {
            if args.max_attempts.is_some() || args.max_age.is_some() {
                return Err(usage(format!("--max-attempts and --max-age go with {CHOICES}")));
            }
            return Ok(None);
        };
        let max_attempts = args.max_attempts.or_else(|| own_max_attempts(&policy));
        Ok(Some(Self { policy, max_attempts, max_age_secs: args.max_age }))
    }

    /// The one that was chosen, where there must be one.
    pub fn required(args: &cli::Schedule) -> Result<Self, ExitError> {
        let needed = || usage(format!("when is a record due? say {CHOICES}"));
        Self::chosen(args)?.ok_or_else(needed)
    }

    /// What is said instead of when a record is due, where none was chosen and none need be.
    pub fn unknown() -> String {
        format!("schedule unknown: use {CHOICES}, or say it in backlog.toml")
    }

    /// With what the table has to count failures in, and whether it can archive.
    pub fn rules(&self, counting: Counting, can_archive: bool) -> Rules {
        let Self { max_attempts, max_age_secs, .. } = *self;
        Rules {
            has_counter: counting != Counting::No,
            can_snooze: counting == Counting::Dated,
            can_archive,
            may_give_up: false,
            max_attempts,
            series: None,
            max_age_secs,
        }
    }
}

const CHOICES: &str = "--ndays, --fibonacci, --policy or --progressive";

/// The policy that was chosen, if one was.
fn policy(schedule: &cli::Schedule) -> Result<Option<Policy>, ExitError> {
    // What only one of them knows. clap does not ask for what is excluded by another choice.
    for (given, option, goes_with) in [
        (schedule.min_ndays.is_some() && schedule.ndays.is_none(), "--min-ndays", "--ndays"),
        (schedule.unit.is_some() && !schedule.fibonacci, "--unit", "--fibonacci"),
        (schedule.by_age && schedule.policy.is_none(), "--by-age", "--policy"),
    ] {
        if given {
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
    let options = options(&schedule.pace, schedule::EVERY_SECS);
    if schedule.fibonacci {
        let fibonacci = schedule::plain_fibonacci(schedule.unit.unwrap_or(60), options);
        return Ok(Some(Policy::Counted(fibonacci)));
    }
    match &schedule.policy {
        Some(spec) => by_spec(spec, options, schedule.by_age).map(Some),
        None => no_pace(&schedule.pace).map(|()| None),
    }
}

/// The lines that are to be simulated: those with an option of their own first, then the others
/// as typed.
pub fn simulated(args: &cli::Simulate) -> Result<Vec<Schedule>, ExitError> {
    let options = options(&args.pace, schedule::EVERY_SECS);
    let mut policies = Vec::new();
    if args.fibonacci {
        policies.push(Policy::Counted(schedule::plain_fibonacci(60, options)));
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
    let schedule = |policy: Policy| {
        let max_attempts = args.max_attempts.or_else(|| own_max_attempts(&policy));
        Schedule { policy, max_attempts, max_age_secs: None }
    };
    Ok(policies.into_iter().map(schedule).collect())
}

fn age(min_secs: i64, max_secs: i64) -> Result<Policy, ExitError> {
    if min_secs >= max_secs {
        return Err(usage(
            "--min-ndays must be less than --ndays: no record is that old and that young",
        ));
    }
    Ok(Policy::Age(AgeWindow { min_secs, max_secs }))
}

/// A policy by its tiers, the default ones if none are given.
fn progressive(tiers: Option<&str>, pace: &cli::Pace) -> Result<Policy, ExitError> {
    if pace.spread.is_some() {
        return Err(usage("--progressive spreads its load evenly already; leave out --spread"));
    }
    let options = options(pace, schedule::PROGRESSIVE_EVERY_SECS);
    let tiers = Tiers::parse(tiers.unwrap_or(schedule::DEFAULT_TIERS), options)
        .map_err(|error| usage(format!("--progressive: {error}")))?;
    Ok(Policy::Slots(Slots::Progressive(tiers)))
}

/// A policy by what was typed behind `--policy`.
fn by_spec(spec: &str, options: Options, by_age: bool) -> Result<Policy, ExitError> {
    let file = schedule::file_of(spec).filter(|path| !path.is_empty()).map(|path| {
        let read = secure_file::read(Path::new(path), secure_file::LONGEST).map(|(text, _)| text);
        read.map_err(|error| usage(format!("--policy: could not read {path}: {error}")))
    });
    let file = file.transpose()?;
    let spec = Spec { text: spec, file: file.as_deref() };
    let parsed = if by_age {
        schedule::parse_for_age(spec, options)
    } else {
        schedule::parse(spec, options)
    };
    let backoff = parsed.map_err(|error| usage(format!("--policy: {error}")))?;
    Ok(if by_age { Policy::Slots(Slots::ByAge(backoff)) } else { Policy::Counted(backoff) })
}

fn options(pace: &cli::Pace, usual_every_secs: i64) -> Options {
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

/// The policy's own; by age it ends without one, because nobody counts.
fn own_max_attempts(policy: &Policy) -> Option<u32> {
    policy.max_attempts().filter(|_| policy.needs_counter())
}

//! The schedule that the options describe.

use std::path::Path;

use backlog_schedule::{
    AgeWindow, DEFAULT_TIERS, EVERY_SECS, PROGRESSIVE_EVERY_SECS, Policy, PolicyOptions,
    RetryLimits, Schedule, Slots, Tiers, parse_policy, parse_policy_by_age, plain_fibonacci,
    policy_file,
};
use backlog_store::secure_file;
use backlog_store::system_error::reason;

use super::settings::Settings;
use crate::exit::{ExitError, usage};

pub fn schedule_from(settings: &Settings) -> Result<Option<Schedule>, ExitError> {
    let policy = policy(settings)?;
    let is_limited = settings.max_attempts.is_some()
        || settings.table.mapping.max_attempts.is_some()
        || settings.max_age.is_some();
    if policy.is_none() && is_limited {
        return Err(usage(format!("--max-attempts and --max-age require one of {CHOICES}")));
    }
    Ok(policy.map(|policy| limited(policy, settings)))
}

fn limited(policy: Policy, settings: &Settings) -> Schedule {
    // A policy by age has no limit of attempts, because nothing counts them.
    let own_limit = policy.max_attempts().filter(|_| policy.needs_counter());
    let limits = RetryLimits {
        max_attempts: settings.max_attempts.or(own_limit),
        is_per_record: settings.table.mapping.max_attempts.is_some(),
        max_age_secs: settings.max_age,
    };
    Schedule { policy, limits, shard: None }
}

pub fn no_schedule() -> ExitError {
    usage(format!("no schedule: use one of {CHOICES}"))
}

pub fn unknown_schedule() -> String {
    format!("schedule unknown: use one of {CHOICES}, or set it in backlog.toml")
}

const CHOICES: &str = "--ndays, --fibonacci, --policy, --progressive";

fn policy(settings: &Settings) -> Result<Option<Policy>, ExitError> {
    let choices = [
        ("--ndays", settings.ndays.is_some()),
        ("--fibonacci", settings.fibonacci),
        ("--policy", !settings.policies.is_empty()),
        ("--progressive", settings.progressive.is_some()),
    ];
    let chosen: Vec<_> = choices.iter().filter(|(_, is_chosen)| *is_chosen).collect();
    if let [(one, _), (other, _), ..] = chosen[..] {
        return Err(usage(format!("{one} and {other} are two schedules: choose one")));
    }
    if settings.policies.len() > 1 {
        return Err(usage("--policy: only `backlog simulate` takes several policies: choose one"));
    }
    if settings.min_ndays.is_some() && settings.ndays.is_none() {
        return Err(usage("--min-ndays requires --ndays"));
    }
    let policy = policies(settings)?.pop();
    // With --ndays, cron alone decides how often records are tried.
    if policy.is_none() && (settings.every.is_some() || settings.spread.is_some()) {
        return Err(usage("--every and --spread require --fibonacci, --policy or --progressive"));
    }
    let Some(max_secs) = settings.ndays else { return Ok(policy) };
    let min_secs = settings.min_ndays.unwrap_or(0);
    if min_secs >= max_secs {
        return Err(usage("--min-ndays must be less than --ndays"));
    }
    Ok(Some(Policy::Age(AgeWindow { min_secs, max_secs })))
}

pub fn simulated(settings: &Settings) -> Result<Vec<Schedule>, ExitError> {
    let policies = policies(settings)?.into_iter();
    let all: Vec<_> = policies.map(|policy| limited(policy, settings)).collect();
    let none = || usage("no policy: use --policy SPEC, --fibonacci or --progressive");
    if all.is_empty() { Err(none()) } else { Ok(all) }
}

/// The policies of --fibonacci, --progressive and --policy, in this order.
fn policies(settings: &Settings) -> Result<Vec<Policy>, ExitError> {
    if settings.by_age && settings.policies.is_empty() {
        return Err(usage("--by-age requires --policy"));
    }
    let options = options(settings, EVERY_SECS);
    let mut policies = Vec::new();
    if settings.fibonacci {
        policies.push(Policy::Counted(plain_fibonacci(options)));
    }
    if let Some(tiers) = &settings.progressive {
        policies.push(progressive(tiers, settings)?);
    }
    for spec in &settings.policies {
        let policy = by_spec(spec, options, settings.by_age);
        policies.push(policy.map_err(|error| usage(format!("--policy: {error}")))?);
    }
    Ok(policies)
}

/// The policy of tiers; `true` means the default tiers.
fn progressive(tiers: &str, settings: &Settings) -> Result<Policy, ExitError> {
    if settings.spread.is_some() {
        return Err(usage("--progressive already spreads its load evenly; leave out --spread"));
    }
    let options = options(settings, PROGRESSIVE_EVERY_SECS);
    let tiers = if tiers == "true" { DEFAULT_TIERS } else { tiers };
    let tiers = Tiers::parse(tiers, options).map(|tiers| Policy::Slots(Slots::Progressive(tiers)));
    tiers.map_err(|error| usage(format!("--progressive: {error}")))
}

fn by_spec(spec: &str, options: PolicyOptions, by_age: bool) -> Result<Policy, String> {
    let file = policy_file(spec).filter(|path| !path.is_empty()).map(|path| {
        let read = secure_file::read(Path::new(path)).map(|(text, _)| text);
        read.map_err(|error| format!("could not read {path}: {}", reason(&error)))
    });
    let file = file.transpose()?;
    if !by_age {
        return parse_policy(spec, file.as_deref(), options).map(Policy::Counted);
    }
    let backoff = parse_policy_by_age(spec, file.as_deref(), options)?;
    Ok(Policy::Slots(Slots::ByAge(backoff)))
}

fn options(settings: &Settings, default_every_secs: i64) -> PolicyOptions {
    let every_secs = settings.every.unwrap_or(default_every_secs);
    PolicyOptions { every_secs, spread: settings.spread }
}

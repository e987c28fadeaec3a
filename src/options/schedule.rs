//! The schedule that the options choose, checked.

use std::path::Path;

use backlog_schedule::{AgeWindow, Policy, PolicyOptions, RetryLimits, Schedule, Slots, Tiers};
use backlog_store::secure_file;
use backlog_store::system_error::words;
use clap::Args;
use serde::Deserialize;

use super::keys;
use super::value::{self, AgeSecs, Attempts, Days, DaysAboveZero, Percent, WholeSecs, truth};
use crate::exit::{ExitError, usage};

/// By which rule records are due, and when they are given up.
#[derive(Default, Args, Deserialize)]
#[serde(default)]
#[command(group = clap::ArgGroup::new("when")
    .args(["ndays", "fibonacci", "policy", "progressive"])
    .multiple(false))]
#[command(next_help_heading = "Schedule")]
pub struct ScheduleOptions {
    /// Try records of the last N days; cron says when
    ///
    /// A day is 86,400 seconds, and N may be a fraction. Needs no column: a crontab line for each range
    /// of ages, each with a frequency of its own, is the schedule.
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub ndays: Option<DaysAboveZero>,

    /// With --ndays: leave out records of the last M days
    ///
    /// Another crontab line takes those.
    #[arg(long, value_name = "M", allow_hyphen_values = true, hide_short_help = true)]
    pub min_ndays: Option<Days>,

    /// Wait Fibonacci(f) minutes after f failures
    ///
    /// Needs the columns FAILURES and LAST_FAILURE. It is --policy fibonacci:unit=1m,spread=0%.
    #[arg(long)]
    #[serde(deserialize_with = "value::flag")]
    pub fibonacci: bool,

    /// Wait as a policy has it: even, list:1m,1h, ...
    ///
    /// Needs the columns FAILURES and LAST_FAILURE, or --by-age. The policies are constant, fibonacci,
    /// exponential, linear, arithmetic, geometric, even, sidekiq, buckets, list and sns; their
    /// parameters follow a colon: exponential:first=1m,base=2,max=1h. `backlog simulate` draws what a
    /// policy does.
    #[arg(long, value_name = "SPEC")]
    #[serde(deserialize_with = "value::typed")]
    pub policy: Option<String>,

    /// Try older records less often, on one line
    ///
    /// Needs no column. TIERS are pairs of a maximal age and an interval; without them
    /// 1d/5m,7d/1h,14d/12h,30d/24h,180d/96h,360d/192h. Each record has a place of its own in each
    /// interval, so that many old ones are an even load.
    #[arg(long, value_name = "TIERS", num_args = 0..=1, default_missing_value = "true", value_parser = tiers)]
    #[serde(deserialize_with = "value::flag_or_text")]
    pub progressive: Option<String>,

    /// With --policy: go by age instead of the count of failures
    ///
    /// Then the policy needs no column.
    #[arg(long, hide_short_help = true)]
    #[serde(deserialize_with = "value::flag")]
    pub by_age: bool,

    #[command(flatten)]
    #[serde(flatten)]
    pub pace: Pace,

    /// Archive a record whose N-th attempt fails
    ///
    /// Needs the column FAILURES. MAX_EMAILS_RETRY_ATTEMPTS in the environment is the limit of queue
    /// emails.
    #[arg(long, value_name = "N")]
    pub max_attempts: Option<Attempts>,

    /// Archive a failed record that is older than this
    ///
    /// It has no further attempt; a NEW one is tried first.
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    pub max_age: Option<AgeSecs>,
}

/// Tiers, or what turns the default ones on or off, and not the id in `explain --progressive 7`.
fn tiers(text: &str) -> Result<String, &'static str> {
    let is_meant = text.contains('/') || ["true", "false"].contains(&text);
    let hint = "write maximal age / interval, as in 7d/1h, and an id before --progressive";
    is_meant.then(|| text.into()).ok_or(hint)
}

/// The tick and the spread of a policy.
#[derive(Default, Args, Deserialize)]
#[serde(default)]
pub struct Pace {
    /// How often cron runs this
    ///
    /// Waits are counted in such ticks, so that a pass which starts a little early misses none.
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    pub every: Option<WholeSecs>,

    /// How far the retries of records that fail together are kept apart
    ///
    /// From 0%, where they stay together, to 100%, where they fill the time between two waits of the
    /// policy evenly. Nothing is drawn at random.
    #[arg(long, value_name = "PERCENT", hide_short_help = true)]
    pub spread: Option<Percent>,
}

pub fn chosen_schedule(args: &ScheduleOptions) -> Result<Option<Schedule>, ExitError> {
    let policy = policy(args)?;
    if policy.is_none() && (args.max_attempts.is_some() || args.max_age.is_some()) {
        return Err(usage(format!("--max-attempts and --max-age go with {CHOICES}")));
    }
    Ok(policy.map(|policy| limited(policy, args)))
}

fn limited(policy: Policy, args: &ScheduleOptions) -> Schedule {
    // The policy's own; by age it ends without one, because nobody counts.
    let own = policy.max_attempts().filter(|_| policy.needs_counter());
    let (max_attempts, is_per_record) = match args.max_attempts {
        Some(Attempts::Most(most)) => (Some(most), false),
        Some(Attempts::OfEachRecord) => (own, true),
        None => (own, false),
    };
    let max_age_secs = args.max_age.map(|age| age.0);
    let limits = RetryLimits { max_attempts, is_per_record, max_age_secs };
    Schedule { policy, limits, shard: None }
}

/// What is said where one must be chosen and none was.
pub fn no_schedule() -> ExitError {
    usage(format!("no schedule: use one of {CHOICES}"))
}

/// What is said instead of when a record is due, where none was chosen and none need be.
pub fn unknown_schedule() -> String {
    format!("schedule unknown: use one of {CHOICES}, or say it in backlog.toml")
}

const CHOICES: &str = "--ndays, --fibonacci, --policy, --progressive";

fn policy(schedule: &ScheduleOptions) -> Result<Option<Policy>, ExitError> {
    let ScheduleOptions { ndays, fibonacci, policy, progressive, .. } = schedule;
    let is_chosen = [ndays.is_some(), *fibonacci, policy.is_some(), progressive.is_some()];
    let chosen = keys::CHOICES.into_iter().zip(is_chosen).filter(|(_, is_chosen)| *is_chosen);
    if let [(one, _), (other, _), ..] = chosen.collect::<Vec<_>>()[..] {
        return Err(usage(format!("{one} and {other} are two schedules: pick one")));
    }
    // What only one of them knows. clap does not ask for what is excluded by another choice.
    if schedule.min_ndays.is_some() && schedule.ndays.is_none() {
        return Err(usage("--min-ndays goes with --ndays"));
    }
    if schedule.by_age && schedule.policy.is_none() {
        return Err(usage("--by-age goes with --policy"));
    }
    let policy = policies(schedule, schedule.policy.as_slice())?.pop();
    // By plain age nothing is spread, and cron's period is nobody's business.
    let Pace { every, spread } = &schedule.pace;
    if policy.is_none() && (every.is_some() || spread.is_some()) {
        return Err(usage("--every and --spread go with --fibonacci, --policy or --progressive"));
    }
    let Some(DaysAboveZero(max_secs)) = schedule.ndays else { return Ok(policy) };
    let min_secs = schedule.min_ndays.map_or(0, |days| days.0);
    if min_secs >= max_secs {
        let why = "--min-ndays must be less than --ndays: no record is that old and that young";
        return Err(usage(why));
    }
    Ok(Some(Policy::Age(AgeWindow { min_secs, max_secs })))
}

pub fn simulated(chosen: &ScheduleOptions, specs: &[String]) -> Result<Vec<Schedule>, ExitError> {
    let policies = policies(chosen, specs)?.into_iter();
    let all: Vec<_> = policies.map(|policy| limited(policy, chosen)).collect();
    let none = || usage("no policies: use --policy SPEC, --fibonacci or --progressive");
    if all.is_empty() { Err(none()) } else { Ok(all) }
}

/// The policies other than by plain age, those of `--policy` last.
fn policies(chosen: &ScheduleOptions, specs: &[String]) -> Result<Vec<Policy>, ExitError> {
    let options = options(&chosen.pace, backlog_schedule::EVERY_SECS);
    let mut policies = Vec::new();
    if chosen.fibonacci {
        policies.push(Policy::Counted(backlog_schedule::plain_fibonacci(options)));
    }
    if let Some(tiers) = &chosen.progressive {
        policies.push(progressive(tiers, &chosen.pace)?);
    }
    for spec in specs {
        let policy = by_spec(spec, options, chosen.by_age);
        policies.push(policy.map_err(|error| usage(format!("--policy: {error}")))?);
    }
    Ok(policies)
}

/// The default tiers if it is only turned on.
fn progressive(tiers: &str, pace: &Pace) -> Result<Policy, ExitError> {
    if pace.spread.is_some() {
        return Err(usage("--progressive spreads its load evenly already; leave out --spread"));
    }
    let options = options(pace, backlog_schedule::PROGRESSIVE_EVERY_SECS);
    let tiers = if truth(tiers) == Some(true) { backlog_schedule::DEFAULT_TIERS } else { tiers };
    let tiers = Tiers::parse(tiers, options).map(|tiers| Policy::Slots(Slots::Progressive(tiers)));
    tiers.map_err(|error| usage(format!("--progressive: {error}")))
}

fn by_spec(spec: &str, options: PolicyOptions, by_age: bool) -> Result<Policy, String> {
    let file = backlog_schedule::policy_file(spec).filter(|path| !path.is_empty()).map(|path| {
        let read = secure_file::read(Path::new(path)).map(|(text, _)| text);
        read.map_err(|error| format!("could not read {path}: {}", words(&error)))
    });
    let file = file.transpose()?;
    if !by_age {
        return backlog_schedule::parse_policy(spec, file.as_deref(), options).map(Policy::Counted);
    }
    let backoff = backlog_schedule::parse_policy_by_age(spec, file.as_deref(), options)?;
    Ok(Policy::Slots(Slots::ByAge(backoff)))
}

fn options(pace: &Pace, usual_every_secs: i64) -> PolicyOptions {
    PolicyOptions {
        every_secs: pace.every.map_or(usual_every_secs, |every| every.0),
        spread: pace.spread.map(|spread| spread.0),
    }
}

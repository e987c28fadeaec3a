//! The schedule that the options choose, checked.

use std::path::Path;

use clap::Args;
use serde::Deserialize;

use super::keys;
use super::value::{self, Attempts, Days, DaysAboveZero, Percent, WholeSecs, truth};
use crate::exit::{ExitError, usage};
use crate::schedule::{self, AgeWindow, Options, Policy, RetryLimits, Schedule, Slots, Tiers};
use crate::secure_file;

/// By which rule records are due, and when they are given up.
#[derive(Default, Args, Deserialize)]
#[serde(default)]
#[command(group = clap::ArgGroup::new("when")
    .args(["ndays", "fibonacci", "policy", "progressive"])
    .multiple(false))]
pub struct ScheduleOptions {
    /// Records inserted in the last N days, as often as this is run; may be a fraction
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub ndays: Option<DaysAboveZero>,

    /// Leave out the records of the last M days: another line takes them
    #[arg(long, value_name = "M", allow_hyphen_values = true)]
    pub min_ndays: Option<Days>,

    /// After f failures wait Fibonacci(f) minutes (columns FAILURES and LAST_FAILURE)
    #[arg(long)]
    #[serde(deserialize_with = "value::flag")]
    pub fibonacci: bool,

    /// Wait after a failure as this policy has it: even, sidekiq, exponential:first=1m,base=2, ...
    #[arg(long, value_name = "SPEC")]
    #[serde(deserialize_with = "value::typed")]
    pub policy: Option<String>,

    /// The older, the less often, from one crontab line: tiers of maximal age / interval
    /// [default: 1d/5m,7d/1h,14d/12h,30d/24h,180d/96h,360d/192h]
    #[arg(long, value_name = "TIERS", num_args = 0..=1, default_missing_value = "true")]
    #[serde(deserialize_with = "value::flag_or_text")]
    pub progressive: Option<String>,

    /// With --policy: go by the age instead of the count of failures; no column is needed
    #[arg(long)]
    #[serde(deserialize_with = "value::flag")]
    pub by_age: bool,

    #[command(flatten)]
    #[serde(flatten)]
    pub pace: Pace,

    #[arg(
        long,
        value_name = "N",
        help = "Archive a record whose N-th attempt fails (column FAILURES) [env: \
                MAX_<QUEUE>_RETRY_ATTEMPTS]"
    )]
    pub max_attempts: Option<Attempts>,

    /// Archive a failed record that is older than this: 360days
    #[arg(long, value_name = "DURATION")]
    pub max_age: Option<WholeSecs>,
}

/// The tick, the spread and the salt of a policy.
#[derive(Default, Args, Deserialize)]
#[serde(default)]
pub struct Pace {
    /// How often cron runs this: waits are counted in such ticks [default: 1m; 5m with
    /// --progressive]
    #[arg(long, value_name = "DURATION")]
    pub every: Option<WholeSecs>,

    /// How far the waits of records that fail together are kept apart, from 0% to 100% [default:
    /// 100%; 0% with --fibonacci]
    #[arg(long, value_name = "PERCENT")]
    pub spread: Option<Percent>,

    /// Another number makes other records neighbours [default: 0]
    #[arg(long, value_name = "NUMBER")]
    #[serde(deserialize_with = "value::typed")]
    pub salt: Option<u64>,
}

impl Schedule {
    pub fn chosen(args: &ScheduleOptions) -> Result<Option<Self>, ExitError> {
        let policy = policy(args)?;
        if policy.is_none() && (args.max_attempts.is_some() || args.max_age.is_some()) {
            return Err(usage(format!("--max-attempts and --max-age go with {CHOICES}")));
        }
        Ok(policy.map(|policy| Self::limited(policy, args)))
    }

    fn limited(policy: Policy, args: &ScheduleOptions) -> Self {
        // The policy's own; by age it ends without one, because nobody counts.
        let own = policy.max_attempts().filter(|_| policy.needs_counter());
        let max_attempts = args.max_attempts.map(|most| most.0).or(own);
        let max_age_secs = args.max_age.map(|age| age.0);
        Self { policy, limits: RetryLimits { max_attempts, max_age_secs }, shard: None }
    }

    /// What is said where one must be chosen and none was.
    pub fn none() -> ExitError {
        usage(format!("no schedule: use one of {CHOICES}"))
    }

    /// What is said instead of when a record is due, where none was chosen and none need be.
    pub fn unknown() -> String {
        format!("schedule unknown: use one of {CHOICES}, or say it in backlog.toml")
    }
}

const CHOICES: &str = "--ndays, --fibonacci, --policy, --progressive";

fn policy(schedule: &ScheduleOptions) -> Result<Option<Policy>, ExitError> {
    let ScheduleOptions { ndays, fibonacci, policy, progressive, .. } = schedule;
    let is_chosen = [ndays.is_some(), *fibonacci, policy.is_some(), progressive.is_some()];
    let chosen = keys::CHOICES.into_iter().zip(is_chosen).filter(|(_, is_chosen)| *is_chosen);
    if let [(one, _), (other, _), ..] = chosen.collect::<Vec<_>>()[..] {
        return Err(usage(format!("{one} and {other} are two schedules: leave one out")));
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
    let Pace { every, spread, salt } = &schedule.pace;
    if policy.is_none() && (every.is_some() || spread.is_some() || salt.unwrap_or(0) != 0) {
        let why = "--every, --spread and --salt go with --fibonacci, --policy or --progressive";
        return Err(usage(why));
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
    let all: Vec<_> = policies.map(|policy| Schedule::limited(policy, chosen)).collect();
    let none = || usage("no policies: use --policy SPEC, --fibonacci or --progressive");
    if all.is_empty() { Err(none()) } else { Ok(all) }
}

/// The policies other than by plain age, those of `--policy` last.
fn policies(chosen: &ScheduleOptions, specs: &[String]) -> Result<Vec<Policy>, ExitError> {
    let options = options(&chosen.pace, schedule::EVERY_SECS);
    let mut policies = Vec::new();
    if chosen.fibonacci {
        policies.push(Policy::Counted(schedule::plain_fibonacci(options)));
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
    let options = options(pace, schedule::PROGRESSIVE_EVERY_SECS);
    let tiers = if truth(tiers) == Some(true) { schedule::DEFAULT_TIERS } else { tiers };
    let tiers = Tiers::parse(tiers, options).map(|tiers| Policy::Slots(Slots::Progressive(tiers)));
    tiers.map_err(|error| usage(format!("--progressive: {error}")))
}

fn by_spec(spec: &str, options: Options, by_age: bool) -> Result<Policy, String> {
    let file = schedule::file_of(spec).filter(|path| !path.is_empty()).map(|path| {
        let read = secure_file::read(Path::new(path)).map(|(text, _)| text);
        read.map_err(|error| format!("could not read {path}: {error}"))
    });
    let file = file.transpose()?;
    if !by_age {
        return schedule::parse(spec, file.as_deref(), options).map(Policy::Counted);
    }
    let backoff = schedule::parse_for_age(spec, file.as_deref(), options)?;
    Ok(Policy::Slots(Slots::ByAge(backoff)))
}

fn options(pace: &Pace, usual_every_secs: i64) -> Options {
    Options {
        every_secs: pace.every.map_or(usual_every_secs, |every| every.0),
        salt: pace.salt.unwrap_or(0),
        spread: pace.spread.map(|spread| spread.0),
    }
}

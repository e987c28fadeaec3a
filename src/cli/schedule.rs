//! Options that say when records are due.

use clap::Args;

use super::value;

/// By which rule records are due, and when they are given up.
#[derive(Clone, Args)]
#[command(group = clap::ArgGroup::new("when")
    .args(["ndays", "fibonacci", "policy", "progressive"])
    .multiple(false))]
pub struct Schedule {
    /// Records inserted in the last N days, as often as this is run; may be a fraction
    #[arg(long, value_name = "N", value_parser = value::days_above_zero, allow_hyphen_values = true)]
    pub ndays: Option<i64>,

    /// Leave out the records of the last M days: another line takes them
    #[arg(long, value_name = "M", value_parser = value::days, allow_hyphen_values = true)]
    pub min_ndays: Option<i64>,

    /// After f failures wait Fibonacci(f) minutes (columns FAILURES and LAST_FAILURE)
    #[arg(long)]
    pub fibonacci: bool,

    /// Wait after a failure as this policy has it: even, sidekiq, exponential:first=1m,base=2, ...
    #[arg(long, value_name = "SPEC")]
    pub policy: Option<String>,

    /// The older, the less often, from one crontab line: tiers of maximal age / interval
    /// [default: 1d/5m,7d/1h,14d/12h,30d/24h,180d/96h,360d/192h]
    #[arg(long, value_name = "TIERS", num_args = 0..=1)]
    pub progressive: Option<Option<String>>,

    /// With --policy: go by the age instead of the count of failures; no column is needed
    #[arg(long)]
    pub by_age: bool,

    /// Fibonacci(1): 30s, 1m, 1h [default: 1m]
    #[arg(long, value_name = "DURATION", value_parser = value::whole_secs)]
    pub unit: Option<i64>,

    #[command(flatten)]
    pub pace: Pace,

    #[arg(
        long,
        value_name = "N",
        value_parser = value::at_least_one::<u32>,
        help = "Archive a record whose N-th attempt fails (column FAILURES) [env: \
                MAX_<QUEUE>_RETRY_ATTEMPTS]"
    )]
    pub max_attempts: Option<u32>,

    /// Archive a failed record that is older than this: 360days
    #[arg(long, value_name = "DURATION", value_parser = value::whole_secs)]
    pub max_age: Option<i64>,
}

/// How the waits of a policy are kept apart and counted.
#[derive(Clone, Args)]
pub struct Pace {
    /// How often cron runs this: waits are counted in such ticks [default: 1m; 5m with
    /// --progressive]
    #[arg(long, value_name = "DURATION", value_parser = value::whole_secs)]
    pub every: Option<i64>,

    /// How far the waits of records that fail together are kept apart, from 0% to 100% [default:
    /// 100%; 0% with --fibonacci]
    #[arg(long, value_name = "PERCENT", value_parser = value::percent)]
    pub spread: Option<u8>,

    /// Another number makes other records neighbours
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub salt: u64,
}

//! Specifications of policies, `--policy NAME:KEY=VALUE,...`, and the formulas of their delays.

use std::iter::successors;
use std::time::Duration;

use num_bigint::BigUint;

use crate::backoff::{Backoff, Delays, Jitter};
use crate::keys::{
    MAX_MS, PolicyKeys, Syntax, above_zero, milliseconds, parse_percent, ratio, retries,
};
use crate::text::unknown_name;
use crate::time::DAY;
use crate::zaqar::{self, Curve, half_up};

/// Default of `--every`: cron starts a pass each minute.
pub const EVERY_SECS: i64 = 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyOptions {
    /// `--every`, the tick in seconds: at least 1.
    pub every_secs: i64,
    /// `--spread`, in percent; `spread=` in the specification overrides it.
    pub spread: Option<u8>,
}

impl PolicyOptions {
    pub fn non_default(&self, default_every_secs: i64) -> String {
        let Self { every_secs, spread } = self;
        let options = [
            (*every_secs != default_every_secs)
                .then(|| format!(" --every {}", format_secs(*every_secs))),
            spread.map(|percent| format!(" --spread {percent}%")),
        ];
        options.into_iter().flatten().collect()
    }

    fn backoff(self, name: &str, typed: &str, base: Delays, jitter: Jitter) -> Backoff {
        let options = format!("{typed}{}", self.non_default(EVERY_SECS));
        let every_secs = self.every_secs;
        Backoff { name: name.into(), options, base, jitter, every_secs, max_attempts: None }
    }
}

pub fn format_secs(secs: i64) -> String {
    let duration = Duration::from_secs(secs.unsigned_abs());
    humantime::format_duration(duration).to_string().replace(' ', "")
}

/// The delays to spread; and the delays to draw, which a policy that has them uses unless `spread` is set.
type DelayTables = (Delays, Option<(Delays, Jitter)>);

type Formula = fn(&PolicyKeys, PolicyOptions) -> Result<DelayTables, String>;

const POLICIES: [(Syntax, Formula); 10] = [
    policy("constant", &["delay"], "constant:delay=5m", constant),
    policy("fibonacci", &["unit"], "fibonacci:unit=1m", fibonacci),
    policy(
        "exponential",
        &["first", "base", "offset", "min", "retries", "jitter"],
        "exponential:first=1m,base=2,offset=3m",
        exponential,
    ),
    policy("linear", &["min", "retries"], "linear:min=5s,max=260s,retries=10", |keys, _| {
        between(keys, Curve::Linear)
    }),
    policy(
        "arithmetic",
        &["min", "retries"],
        "arithmetic:min=5s,max=260s,retries=10",
        |keys, _| between(keys, Curve::Arithmetic),
    ),
    policy(
        "geometric",
        &["first", "ratio", "min", "retries"],
        "geometric:first=1m,ratio=5/4,max=24h",
        geometric,
    ),
    policy("even", &["first", "ratio"], "even", even),
    policy("sidekiq", &[], "sidekiq", sidekiq),
    policy("buckets", &[], "buckets", buckets),
    (Syntax { name: "list", keys: &[], is_list: true, example: "list:0s,10m,1h" }, |keys, _| {
        Ok((Delays::new(keys.entries()?), None))
    }),
];

const fn policy(
    name: &'static str,
    keys: &'static [&'static str],
    example: &'static str,
    formula: Formula,
) -> (Syntax, Formula) {
    (Syntax { name, keys, is_list: false, example }, formula)
}

pub fn policy_names() -> impl Iterator<Item = &'static str> {
    POLICIES.iter().map(|(syntax, _)| syntax.name).chain(["sns"])
}

pub fn policy_file(spec: &str) -> Option<&str> {
    spec.strip_prefix("sns:")
}

/// Parses a specification. `file` is the content of the file that `sns:FILE` names.
pub fn parse_policy(
    spec: &str,
    file: Option<&[u8]>,
    options: PolicyOptions,
) -> Result<Backoff, String> {
    let (name, rest) = spec.split_once(':').unwrap_or((spec, ""));
    let typed = format!("--policy {spec}");
    let spread = |percent: Option<u8>| Jitter::Spread { percent: percent.unwrap_or(100) };
    if name == "sns" {
        let file = file.ok_or("sns needs a file, as in: sns:policy.json")?;
        let (waits, last) = zaqar::parse(file).map_err(|error| format!("sns: {rest}: {error}"))?;
        let backoff = options.backoff(spec, &typed, waits, spread(options.spread));
        return Ok(Backoff { max_attempts: Some(last), ..backoff });
    }
    let Some((syntax, formula)) = POLICIES.iter().find(|(syntax, _)| syntax.name == name) else {
        return Err(unknown_name("policy", name, policy_names()));
    };
    let keys = PolicyKeys::parse(syntax, rest)?;
    let (base, drawn) = formula(&keys, options)?;
    let percent = keys.get("spread", parse_percent)?.or(options.spread);
    let (base, jitter) = match (drawn, percent) {
        (Some(drawn), None) => drawn,
        (Some(_), Some(_)) if keys.has("jitter") => {
            return Err(format!("{name}: jitter and spread exclude each other; leave one out"));
        }
        _ => (base, spread(percent)),
    };
    Ok(options.backoff(spec, &typed, base, jitter))
}

/// Parses a specification for `--by-age`. Drawn delays are spread instead: an age cannot be compared with their sum.
pub fn parse_policy_by_age(
    spec: &str,
    file: Option<&[u8]>,
    options: PolicyOptions,
) -> Result<Backoff, String> {
    let mut backoff = parse_policy(spec, file, options)?;
    if matches!(backoff.jitter, Jitter::Drawn { .. }) {
        let spread = parse_policy(spec, file, PolicyOptions { spread: Some(100), ..options })
            .map_err(|_| format!("{spec}: jitter= cannot be used with --by-age; leave it out"))?;
        backoff = Backoff { options: backoff.options, ..spread };
    }
    if backoff.base.last() == 0 {
        return Err(format!(
            "{spec}: the last delay is 0, so with --by-age the attempts never end"
        ));
    }
    Ok(backoff)
}

/// `--fibonacci`: delays of Fibonacci numbers of minutes, spread only with `--spread`.
pub fn plain_fibonacci(options: PolicyOptions) -> Backoff {
    let jitter = Jitter::Spread { percent: options.spread.unwrap_or(0) };
    options.backoff("fibonacci", "--fibonacci", fibonacci_up_to(MINUTE_MS, MAX_MS), jitter)
}

const MINUTE_MS: u64 = 60_000;

fn constant(keys: &PolicyKeys, _: PolicyOptions) -> Result<DelayTables, String> {
    let delay = keys.require("delay", milliseconds)?;
    keys.max_from("delay", delay)?;
    Ok((Delays::new([delay]), None))
}

fn fibonacci(keys: &PolicyKeys, _: PolicyOptions) -> Result<DelayTables, String> {
    let unit = keys.get("unit", above_zero)?.unwrap_or(MINUTE_MS);
    Ok((fibonacci_up_to(unit, keys.max_from("unit", unit)?), None))
}

/// Fibonacci(1), Fibonacci(2), ... units: 1, 1, 2, 3, 5, 8.
fn fibonacci_up_to(unit: u64, max: u64) -> Delays {
    let next = |(this, next): &(u64, u64)| Some((*next, this.saturating_add(*next)));
    Delays::rising(max, successors(Some((unit, unit)), next).map(|(this, _)| this))
}

/// offset + first * base^n; or Zaqar's curve from min to max.
fn exponential(keys: &PolicyKeys, _: PolicyOptions) -> Result<DelayTables, String> {
    if keys.has("min") || keys.has("retries") {
        return between(keys, Curve::Exponential);
    }
    let first = keys.require("first", above_zero)?;
    let (over, under) = keys.require("base", ratio)?;
    let offset = keys.get("offset", milliseconds)?.unwrap_or(0);
    let max = keys.max_from("first", first.saturating_add(offset))?;
    let wait = |n| {
        let exact = BigUint::from(first) * BigUint::from(over).pow(n);
        offset.saturating_add(half_up(&exact, &BigUint::from(under).pow(n)))
    };
    let base = Delays::rising(max, (0..).map(wait));
    let drawn = keys.get("jitter", parse_percent)?.map(|percent| {
        let widths = base.waits.iter().map(|wait| wait * u64::from(percent) / 100);
        (base.clone(), Jitter::Drawn { unit_ms: 1, widths: Delays::new(widths) })
    });
    Ok((base, drawn))
}

/// From the first delay by a ratio, in whole ticks; or Zaqar's curve from min to max.
fn geometric(keys: &PolicyKeys, options: PolicyOptions) -> Result<DelayTables, String> {
    if keys.has("min") || keys.has("retries") {
        return between(keys, Curve::Geometric);
    }
    let first = keys.require("first", above_zero)?;
    let ratio = keys.require("ratio", ratio)?;
    Ok(in_ticks(first, ratio, keys.max_from("first", first)?, options))
}

/// [`geometric`] with a small ratio, so that the load of records that fail together falls evenly.
fn even(keys: &PolicyKeys, options: PolicyOptions) -> Result<DelayTables, String> {
    let first = keys.get("first", above_zero)?.unwrap_or(MINUTE_MS);
    let ratio = keys.get("ratio", ratio)?.unwrap_or((5, 4));
    let max = keys.get("max", milliseconds)?.unwrap_or(DAY.unsigned_abs() * 1000);
    Ok(in_ticks(first, ratio, keys.checked_max("first", first, max)?, options))
}

/// From the first delay by a ratio, each at least a tick longer than the one before.
fn in_ticks(
    first: u64,
    (over, under): (u64, u64),
    max: u64,
    options: PolicyOptions,
) -> DelayTables {
    let tick = options.every_secs.unsigned_abs() * 1000;
    let grown = |ticks: &u64| {
        let product = u128::from(*ticks) * u128::from(over) / u128::from(under);
        Some((ticks + 1).max(u64::try_from(product).unwrap_or(u64::MAX)))
    };
    let waits =
        successors(Some(first.div_ceil(tick)), grown).map(|ticks| ticks.saturating_mul(tick));
    (Delays::rising(max.div_ceil(tick).saturating_mul(tick), waits), None)
}

/// Sidekiq's n^4 + 15 + U[0, 30 (n + 1)) seconds; n^4 + 15 if spread.
fn sidekiq(keys: &PolicyKeys, _: PolicyOptions) -> Result<DelayTables, String> {
    let low = |n: u64| n.saturating_pow(4).saturating_add(15);
    let high = |n| low(n).saturating_add(30 * (n + 1));
    Ok(drawn_in_secs(keys.max()?, low, high, None))
}

/// U[n^3, (n + 2)^3) seconds; their mean if spread.
fn buckets(keys: &PolicyKeys, _: PolicyOptions) -> Result<DelayTables, String> {
    let max = keys.max()?;
    let bound = |n: u64| n.saturating_pow(3);
    let mean = |n| (2 * bound(n)).saturating_add(3 * n * n + 2 * n + 1) / 2 * 1000;
    let mean = Delays::rising(max, (0..).map(mean));
    Ok(drawn_in_secs(max, bound, |n| bound(n + 2), Some(mean)))
}

/// Delays drawn between two rising bounds in seconds, both cut to `max` milliseconds.
fn drawn_in_secs(
    max: u64,
    low: impl Fn(u64) -> u64,
    high: impl Fn(u64) -> u64,
    mean: Option<Delays>,
) -> DelayTables {
    let base = Delays::rising(max, (0..).map(|n| low(n).saturating_mul(1000)));
    let width = |(n, low)| high(n).saturating_mul(1000).min(max) - low;
    let widths = (0..).zip(&base.waits).map(width);
    let drawn = Jitter::Drawn { unit_ms: 1000, widths: Delays::new(widths) };
    (mean.unwrap_or_else(|| base.clone()), Some((base, drawn)))
}

fn between(keys: &PolicyKeys, curve: Curve) -> Result<DelayTables, String> {
    keys.require_only(&["min", "retries"])?;
    let min = match curve {
        Curve::Linear | Curve::Arithmetic => keys.require("min", milliseconds)?,
        // No ratio leads from 0 to `max`.
        Curve::Geometric | Curve::Exponential => keys.require("min", above_zero)?,
    };
    let max = keys.checked_max("min", min, keys.require("max", milliseconds)?)?;
    let waits = zaqar::between(curve, min, max, keys.require("retries", retries)?);
    Ok((Delays::new(waits), None))
}

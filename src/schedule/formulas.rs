//! The formulas of the policies: base delays in milliseconds, as functions of the count.
//!
//! The four that lead from a shortest to a longest delay are those of the Zaqar specification. It
//! divides `linear` by the number of retries and then claims that the last delay is the longest;
//! only one less gives that, so one less it is. Delays are rounded half up to whole milliseconds,
//! and the last one is the longest exactly.

use num_bigint::BigUint;
use serde::Deserialize;

use super::backoff::Delays;
use crate::time::DAY;

/// Fibonacci(1), Fibonacci(2), ... units: 1, 1, 2, 3, 5, 8, up to `max`.
pub fn fibonacci(unit: u64, max: u64) -> Delays {
    let next = |(this, next): &(u64, u64)| Some((*next, this.saturating_add(*next)));
    Delays::rising(max, std::iter::successors(Some((unit, unit)), next).map(|(this, _)| this))
}

/// offset + first * base^n, up to `max`.
pub fn exponential(first: u64, (over, under): (u64, u64), offset: u64, max: u64) -> Delays {
    let delays = (0..).map(|n| {
        let exact = BigUint::from(first) * BigUint::from(over).pow(n);
        offset.saturating_add(half_up(&exact, &BigUint::from(under).pow(n)))
    });
    Delays::rising(max, delays)
}

/// `even` is [`geometric`] with this first delay, ratio and longest delay, unless they are given: with
/// so small a ratio the load of records that fail together, once it is spread, falls evenly.
pub const EVEN_FIRST_MS: u64 = 60_000;
pub const EVEN_RATIO: (u64, u64) = (5, 4);
pub const EVEN_MAX_MS: u64 = DAY.unsigned_abs() * 1000;

/// `geometric`: from the first delay by a ratio, in whole ticks of `every_secs`, each at
/// least a tick longer than the one before, up to `max`.
pub fn geometric(first: u64, (over, under): (u64, u64), max: u64, every_secs: i64) -> Delays {
    let tick = every_secs.unsigned_abs() * 1000;
    let (first, max) = (first.div_ceil(tick), max.div_ceil(tick));
    let grown = |ticks: &u64| {
        let product = u128::from(*ticks) * u128::from(over) / u128::from(under);
        Some((ticks + 1).max(u64::try_from(product).unwrap_or(u64::MAX)))
    };
    Delays::rising(
        max.saturating_mul(tick),
        std::iter::successors(Some(first), grown).map(|ticks| ticks.saturating_mul(tick)),
    )
}

/// Sidekiq's n^4 + 15 seconds, to which it adds up to 30 (n + 1) at random.
pub fn sidekiq(n: u64) -> u64 {
    secs(n.saturating_pow(4).saturating_add(15))
}

/// What Sidekiq adds at most.
pub fn sidekiq_width(n: u64) -> u64 {
    secs(30 * (n + 1))
}

/// The bounds of the buckets, n^3 seconds: delay n is drawn between bound n and bound n + 2.
pub fn bucket(n: u64) -> u64 {
    secs(n.saturating_pow(3))
}

/// The mean of a bucket.
pub fn bucket_mean(n: u64) -> u64 {
    secs((2 * n.saturating_pow(3)).saturating_add(3 * n * n + 2 * n + 1) / 2)
}

fn secs(secs: u64) -> u64 {
    secs.saturating_mul(1000)
}

/// A function that leads from a shortest to a longest delay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Curve {
    #[default]
    Linear,
    Arithmetic,
    Geometric,
    Exponential,
}

/// The delays number 0 to `retries - 1`, in milliseconds. `min` is at most `max`, and for the
/// last two curves at least 1.
pub fn between(curve: Curve, min: u64, max: u64, retries: u32) -> impl Iterator<Item = u64> {
    (0..retries)
        .map(move |n| if n + 1 == retries { max } else { wait(curve, min, max, n, retries) })
}

fn wait(curve: Curve, min: u64, max: u64, n: u32, retries: u32) -> u64 {
    let way = BigUint::from(max - min);
    match curve {
        // min + n (max - min) / (retries - 1)
        Curve::Linear => min + half_up(&(way * n), &BigUint::from(retries - 1)),
        // min + f (f - 1) / 2 * 2 (max - min) / (retries (retries - 1)), where f = n + 1
        Curve::Arithmetic => {
            min + half_up(&(way * (n + 1) * n), &(BigUint::from(retries) * (retries - 1)))
        }
        // min (max / min)^(n / (retries - 1)). The exponential is written differently, as
        // (min / k) k^f where k is the root of max / min, and is the same.
        Curve::Geometric | Curve::Exponential => {
            let degree = retries - 1;
            let product = BigUint::from(min).pow(degree - n) * BigUint::from(max).pow(n);
            // Half of the root of 2^degree times that, rounded up: exact, without a float.
            let twice = (product << degree).nth_root(degree);
            u64::try_from((twice + 1u8) / 2u8).unwrap_or(u64::MAX)
        }
    }
}

/// The quotient, rounded half up.
pub fn half_up(numerator: &BigUint, denominator: &BigUint) -> u64 {
    u64::try_from((numerator * 2u8 + denominator) / (denominator * 2u8)).unwrap_or(u64::MAX)
}

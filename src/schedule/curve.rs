//! Waits that lead from a shortest to a longest one: the four functions of the Zaqar
//! specification. It divides `linear` by the number of retries and then claims that the last
//! wait is the longest; only one less gives that, so one less it is. Waits are rounded half up
//! to whole milliseconds, and the last one is the longest exactly.

use num_bigint::BigUint;
use serde::Deserialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Curve {
    Linear,
    Arithmetic,
    Geometric,
    Exponential,
}

/// The waits number 0 to `retries - 1`, in milliseconds. `min` is at most `max`, and for the
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

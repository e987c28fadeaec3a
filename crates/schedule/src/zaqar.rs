//! Retry policies of OpenStack Zaqar and Amazon SNS, with Zaqar's curves, because Amazon does not publish its own.
//! Zaqar's `linear` never reaches the maximum delay; here the divisor is one retry less. Delays are rounded half up to
//! whole milliseconds, and the last one is exactly the maximum.

use num_bigint::BigUint;
use serde::Deserialize;
use serde_json::Value;

use crate::backoff::Delays;

/// The delay before each retry, and the number of the last attempt.
type Phases = (Delays, u32);

/// A healthy retry policy, with the defaults that AWS documents.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "a retry policy")]
struct Sns {
    #[serde(default = "usual::<20>")]
    min_delay_target: i64,
    #[serde(default = "usual::<20>")]
    max_delay_target: i64,
    #[serde(default = "usual::<3>")]
    num_retries: i64,
    #[serde(default)]
    num_no_delay_retries: i64,
    #[serde(default)]
    num_min_delay_retries: i64,
    #[serde(default)]
    num_max_delay_retries: i64,
    #[serde(default)]
    backoff_function: Curve,
}

fn usual<const NUMBER: i64>() -> i64 {
    NUMBER
}

/// Zaqar's `_retry_policy`, with Zaqar's defaults.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a retry policy")]
struct Zaqar {
    #[serde(default = "usual::<3>")]
    retries_with_no_delay: i64,
    #[serde(default = "usual::<3>")]
    minimum_delay_retries: i64,
    #[serde(default = "usual::<5>")]
    minimum_delay: i64,
    #[serde(default = "usual::<30>")]
    maximum_delay: i64,
    #[serde(default = "usual::<3>")]
    maximum_delay_retries: i64,
    #[serde(default)]
    retry_backoff_function: Curve,
    /// Concerns subscriptions only.
    #[serde(default, rename = "ignore_subscription_override")]
    _ignore_subscription_override: bool,
}

/// Number of retries in Zaqar's backoff phase; the policy has no key for it.
const ZAQAR_BACKOFF_RETRIES: u32 = 5;

pub fn parse(text: &[u8]) -> Result<Phases, String> {
    let mut json: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    if let Some(inner) = json.get_mut("_retry_policy") {
        return zaqar(inner.take());
    }
    // The policy of a subscription, then of a topic.
    for outer in ["/healthyRetryPolicy", "/http/defaultHealthyRetryPolicy"] {
        if let Some(inner) = json.pointer_mut(outer) {
            return sns(inner.take());
        }
    }
    let Some(keys) = json.as_object() else {
        return Err("not a JSON object with a retry policy".into());
    };
    if keys.keys().any(|key| key.contains('_')) { zaqar(json) } else { sns(json) }
}

fn keyed<T: serde::de::DeserializeOwned>(json: Value) -> Result<T, String> {
    if json.is_array() {
        return Err("invalid type: sequence, expected a retry policy".into());
    }
    serde_path_to_error::deserialize(json).map_err(|error| match error.path().to_string() {
        path if path == "." => error.into_inner().to_string(),
        path => format!("{path}: {}", error.inner()),
    })
}

fn sns(json: Value) -> Result<Phases, String> {
    let sns: Sns = keyed(json)?;
    let immediate = count("numNoDelayRetries", sns.num_no_delay_retries)?;
    let pre_backoff = count("numMinDelayRetries", sns.num_min_delay_retries)?;
    let post_backoff = count("numMaxDelayRetries", sns.num_max_delay_retries)?;
    let num_retries = count("numRetries", sns.num_retries)?;
    let in_phases = immediate + pre_backoff + post_backoff;
    let backoff = num_retries.checked_sub(in_phases).ok_or_else(|| {
        format!("numRetries is {num_retries}, but the phases have {in_phases} retries already")
    })?;
    let delays =
        delays(("minDelayTarget", sns.min_delay_target), ("maxDelayTarget", sns.max_delay_target))?;
    Ok(phases([immediate, pre_backoff, backoff, post_backoff], delays, sns.backoff_function))
}

fn zaqar(json: Value) -> Result<Phases, String> {
    let zaqar: Zaqar = keyed(json)?;
    let immediate = count("retries_with_no_delay", zaqar.retries_with_no_delay)?;
    let pre_backoff = count("minimum_delay_retries", zaqar.minimum_delay_retries)?;
    let post_backoff = count("maximum_delay_retries", zaqar.maximum_delay_retries)?;
    let counts = [immediate, pre_backoff, ZAQAR_BACKOFF_RETRIES, post_backoff];
    let delays =
        delays(("minimum_delay", zaqar.minimum_delay), ("maximum_delay", zaqar.maximum_delay))?;
    Ok(phases(counts, delays, zaqar.retry_backoff_function))
}

fn count(key: &str, count: i64) -> Result<u32, String> {
    let legal = u32::try_from(count).ok().filter(|count| *count <= 100);
    legal.ok_or_else(|| format!("{key} is {count}; use 0 to 100"))
}

/// Checks the minimum and the maximum delay, and converts seconds to milliseconds.
fn delays(min: (&str, i64), max: (&str, i64)) -> Result<(u64, u64), String> {
    let checked = |(key, secs): (&str, i64)| {
        let legal = u64::try_from(secs).ok().filter(|secs| (1..=3600).contains(secs));
        legal.ok_or_else(|| format!("{key} is {secs}; use 1 to 3600 seconds"))
    };
    let (min_secs, max_secs) = (checked(min)?, checked(max)?);
    if min_secs > max_secs {
        return Err(format!("{} ({min_secs}) is above {} ({max_secs})", min.0, max.0));
    }
    Ok((min_secs * 1000, max_secs * 1000))
}

fn phases(counts: [u32; 4], (min, max): (u64, u64), curve: Curve) -> Phases {
    let [immediate, pre_backoff, backoff, post_backoff] = counts;
    let phase = |count: u32, wait: u64| (0..count).map(move |_| wait);
    let waits = phase(immediate, 0)
        .chain(phase(pre_backoff, min))
        .chain(between(curve, min, max, backoff))
        .chain(phase(post_backoff, max));
    (Delays::new(waits), counts.iter().sum::<u32>() + 1)
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Curve {
    #[default]
    Linear,
    Arithmetic,
    Geometric,
    Exponential,
}

/// `retries` delays, in milliseconds. `min` is at most `max`, and for the last two curves at least 1.
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
        // min (max / min)^(n / (retries - 1)): as (min / k) k^f, k being the root of max / min.
        Curve::Geometric | Curve::Exponential => {
            let degree = retries - 1;
            let product = BigUint::from(min).pow(degree - n) * BigUint::from(max).pow(n);
            // Half of the root of product * 2^degree, rounded up: exact, without floats.
            let twice = (product << degree).nth_root(degree);
            u64::try_from((twice + 1u8) / 2u8).unwrap_or(u64::MAX)
        }
    }
}

pub fn half_up(numerator: &BigUint, denominator: &BigUint) -> u64 {
    u64::try_from((numerator * 2u8 + denominator) / (denominator * 2u8)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(json: &str) -> Vec<u64> {
        let (waits, max_attempts) = parse(json.as_bytes()).unwrap();
        (0..u64::from(max_attempts) - 1).map(|n| waits.wait(n)).collect()
    }

    const WORKED: [u64; 14] = [
        0, 0, 0, 5_000, 5_000, 5_000, 5_000, 11_250, 17_500, 23_750, 30_000, 30_000, 30_000, 30_000,
    ];

    #[test]
    fn the_four_phases_follow_each_other() {
        let inner = r#"{"minDelayTarget":5,"maxDelayTarget":30,"numRetries":14,
            "numNoDelayRetries":3,"numMinDelayRetries":3,"numMaxDelayRetries":3,
            "backoffFunction":"linear"}"#;
        assert_eq!(waits(inner), WORKED);
        assert_eq!(waits(&format!(r#"{{"healthyRetryPolicy":{inner}}}"#)), WORKED);
        let topic = format!(r#"{{"http":{{"defaultHealthyRetryPolicy":{inner}}}}}"#);
        assert_eq!(waits(&topic), WORKED);
    }

    #[test]
    fn an_empty_policy_of_zaqar_has_zaqars_defaults() {
        assert_eq!(waits(r#"{"_retry_policy":{}}"#), WORKED);
        let inner = r#"{"minimum_delay":5,"maximum_delay":30,"ignore_subscription_override":true}"#;
        assert_eq!(waits(inner), WORKED);
    }

    #[test]
    fn an_illegal_value_is_named() {
        for (json, says) in [
            (r#"{"numRetries":101}"#, "numRetries is 101; use 0 to 100"),
            (r#"{"numRetries":-1}"#, "numRetries is -1"),
            (r#"{"minDelayTarget":0}"#, "minDelayTarget is 0; use 1 to 3600 seconds"),
            (r#"{"maxDelayTarget":3601}"#, "maxDelayTarget is 3601"),
            (r#"{"minDelayTarget":30}"#, "minDelayTarget (30) is above maxDelayTarget (20)"),
            (r#"{"numNoDelayRetries":4}"#, "numRetries is 3, but the phases have 4"),
            (r#"{"numRetires":3}"#, "unknown field `numRetires`, expected one of"),
            (r#"{"backoffFunction":"cubic"}"#, "unknown variant `cubic`, expected one of `linear`"),
            (r#"{"_retry_policy":{"minimum_delay":0}}"#, "minimum_delay is 0"),
            (r#"{"numRetries":"3"}"#, "numRetries: invalid type: string \"3\""),
            (r#"{"_retry_policy":{"minimum_delay":1.5}}"#, "minimum_delay: invalid type"),
            (r#"{"healthyRetryPolicy":null}"#, "invalid type: null, expected a retry policy"),
            (r#"{"healthyRetryPolicy":[5,30,14,3,3,3,"linear"]}"#, "expected a retry policy"),
            (r#"{"_retry_policy":[]}"#, "invalid type: sequence, expected a retry policy"),
            ("[]", "not a JSON object"),
            ("{", "EOF"),
        ] {
            let error = parse(json.as_bytes()).unwrap_err();
            assert!(error.contains(says), "{json}: {error}");
        }
    }
}

//! Single values on the command line: what is legal, and what is said of the rest.

use std::num::ParseIntError;
use std::str::FromStr;
use std::time::Duration;

use crate::record::split;
use crate::time::DAY;

pub use crate::schedule::percent;

/// Values with commas between them.
#[derive(Clone)]
pub struct Several(pub Vec<String>);

/// A comma or a backslash that is part of a value has a backslash before it.
pub fn several(text: &str) -> Result<Several, String> {
    let values = split(text);
    if values.iter().any(String::is_empty) {
        return Err("a value is empty".into());
    }
    Ok(Several(values))
}

/// A duration, or none.
#[derive(Clone, Copy)]
pub struct Limit(pub Option<Duration>);

/// More than this is no age of a record, in days.
const MAX_DAYS: f64 = 36_500.0;

pub fn days(text: &str) -> Result<i64, String> {
    let error = || format!("not a number of days from 0 to {MAX_DAYS}");
    let days: f64 = text.parse().map_err(|_| error())?;
    if !(0.0..=MAX_DAYS).contains(&days) {
        return Err(error());
    }
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "the edge where a fraction becomes whole seconds; both are far below 2^53"
    )]
    Ok((days * DAY as f64).round() as i64)
}

pub fn days_above_zero(text: &str) -> Result<i64, String> {
    match days(text) {
        Ok(0) => Err(format!("must be more than 0, and at most {MAX_DAYS} days")),
        other => other,
    }
}

pub fn at_least_one<N>(text: &str) -> Result<N, String>
where
    N: FromStr<Err = ParseIntError> + PartialOrd + From<u8>,
{
    let number: N = text.parse().map_err(|error: ParseIntError| error.to_string())?;
    if number < N::from(1) {
        return Err("must be at least 1".into());
    }
    Ok(number)
}

pub fn whole_secs(text: &str) -> Result<i64, String> {
    let duration = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    i64::try_from(duration.as_secs())
        .ok()
        .filter(|secs| (1..=365 * DAY).contains(secs) && duration.subsec_nanos() == 0)
        .ok_or_else(|| "must be whole seconds, from 1s to 365days".into())
}

/// A number of bytes; units are powers of 1024.
pub fn size(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match &text[digits.len()..] {
        "" => Some(1),
        "K" | "KiB" => Some(1 << 10),
        "M" | "MiB" => Some(1 << 20),
        "G" | "GiB" => Some(1 << 30),
        _ => None,
    };
    let bytes =
        digits.parse().ok().zip(unit).and_then(|(size, unit)| usize::checked_mul(size, unit));
    bytes
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| "write a number of bytes, or 512K, 64M, 1G".into())
}

/// A time that somebody waits for.
pub fn grace(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let most = Duration::from_secs(365 * DAY.unsigned_abs());
    if duration > most { Err("must be at most 365days".into()) } else { Ok(duration) }
}

pub fn duration_or_none(text: &str) -> Result<Limit, String> {
    if text == "none" {
        return Ok(Limit(None));
    }
    let duration = humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write 30s, 5m, 1h or none"))?;
    if duration.is_zero() {
        return Err("must be more than 0; `none` sets no limit".into());
    }
    Ok(Limit(Some(duration)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_a_number_of_bytes_or_of_a_unit() {
        for (text, bytes) in [
            ("1", 1),
            ("512K", 524_288),
            ("64M", 67_108_864),
            ("64MiB", 67_108_864),
            ("1G", 1 << 30),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "0", "0M", "M", "64 M", "64MB", "-1", "1.5G", "1KK", "99999999999G"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}

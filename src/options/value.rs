//! Values of options: one type each for the command line, the environment and backlog.toml, with the
//! text that is legal and the message for the rest.

use std::ffi::OsString;
use std::fmt::Display;
use std::num::ParseIntError;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Deserializer, de::Error};
use toml::Value;

use super::require_program;
use crate::record::split;
use crate::schedule::percent;
use crate::time::DAY;

/// An age in seconds, typed as a number of days that may be a fraction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Days(pub i64);

/// The same, and more than nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DaysAboveZero(pub i64);

/// A duration of whole seconds, from one to a year.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WholeSecs(pub i64);

/// A part of a hundred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Percent(pub u8);

/// A number of at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AtLeastOne<N>(pub N);

/// A number from 1 to 1024: of handlers, or of records in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpTo1024(pub u16);

/// A number of bytes, of which there is at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub usize);

/// A duration that somebody waits for, of at most a year.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grace(pub Duration);

/// A duration, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit(pub Option<Duration>);

/// Values with commas between them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub struct Several(pub Vec<String>);

/// A command and its arguments, in one text as for a shell, or as words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLine(pub Vec<OsString>);

/// More than this is no age of a record, in days.
const MAX_DAYS: f64 = 36_500.0;

impl FromStr for Days {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
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
        Ok(Self((days * DAY as f64).round() as i64))
    }
}

impl FromStr for DaysAboveZero {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse()? {
            Days(0) => Err(format!("must be more than 0, and at most {MAX_DAYS} days")),
            Days(secs) => Ok(Self(secs)),
        }
    }
}

impl FromStr for WholeSecs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let duration = humantime::parse_duration(text).map_err(|error| error.to_string())?;
        i64::try_from(duration.as_secs())
            .ok()
            .filter(|secs| (1..=365 * DAY).contains(secs) && duration.subsec_nanos() == 0)
            .map(Self)
            .ok_or_else(|| "must be whole seconds, from 1s to 365days".into())
    }
}

impl FromStr for Percent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        percent(text).map(Self)
    }
}

impl<N: FromStr<Err = ParseIntError> + PartialOrd + From<u8>> FromStr for AtLeastOne<N> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number: N = text.parse().map_err(|error: ParseIntError| error.to_string())?;
        if number < N::from(1) {
            return Err("must be at least 1".into());
        }
        Ok(Self(number))
    }
}

impl FromStr for UpTo1024 {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number: i64 = text.parse().map_err(|error: ParseIntError| error.to_string())?;
        let legal = u16::try_from(number).ok().filter(|number| (1..=1024).contains(number));
        legal.map(Self).ok_or_else(|| format!("{number} is not in 1..=1024"))
    }
}

impl FromStr for Size {
    type Err = String;

    /// A number of bytes; units are powers of 1024.
    fn from_str(text: &str) -> Result<Self, String> {
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
            .map(Self)
            .ok_or_else(|| "write a number of bytes, or 512K, 64M, 1G".into())
    }
}

impl FromStr for Grace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let duration = humantime::parse_duration(text).map_err(|error| error.to_string())?;
        let most = Duration::from_secs(365 * DAY.unsigned_abs());
        if duration > most { Err("must be at most 365days".into()) } else { Ok(Self(duration)) }
    }
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(None));
        }
        let duration = humantime::parse_duration(text)
            .map_err(|error| format!("{error}; write 30s, 5m, 1h or none"))?;
        if duration.is_zero() {
            return Err("must be more than 0; `none` sets no limit".into());
        }
        Ok(Self(Some(duration)))
    }
}

impl FromStr for Several {
    type Err = String;

    /// A comma or a backslash that is part of a value has a backslash before it.
    fn from_str(text: &str) -> Result<Self, String> {
        Self::checked(split(text))
    }
}

impl Several {
    fn checked(values: Vec<String>) -> Result<Self, String> {
        if values.iter().any(String::is_empty) {
            return Err("a value is empty".into());
        }
        Ok(Self(values))
    }
}

impl TryFrom<Value> for Several {
    type Error = String;

    /// One value, or an array of them.
    fn try_from(value: Value) -> Result<Self, String> {
        let values = if let Value::Array(values) = value { values } else { vec![value] };
        Self::checked(values.into_iter().map(text).collect::<Result<_, _>>()?)
    }
}

impl FromStr for CommandLine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words = shlex::split(text).filter(|words| !words.is_empty());
        Self::checked(words.ok_or_else(|| format!("{text:?} is no command"))?)
    }
}

impl CommandLine {
    fn checked(words: Vec<String>) -> Result<Self, String> {
        let words: Vec<_> = words.into_iter().map(OsString::from).collect();
        require_program(&words)?;
        Ok(Self(words))
    }
}

impl TryFrom<Value> for CommandLine {
    type Error = String;

    /// The words of a command, as backlog.toml has them.
    fn try_from(value: Value) -> Result<Self, String> {
        const NONE: &str = "write the command and its arguments, [\"/bin/echo\", \"{id}\"]";
        let Value::Array(words) = value else { return Err(NONE.into()) };
        let words = words.into_iter().map(text).collect::<Result<Vec<_>, _>>()?;
        if words.is_empty() { Err(NONE.into()) } else { Self::checked(words) }
    }
}

/// A value of backlog.toml as it would be typed.
pub fn text(value: Value) -> Result<String, String> {
    let text = match value {
        Value::String(text) => text,
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(is) => u8::from(is).to_string(),
        Value::Datetime(_) | Value::Array(_) | Value::Table(_) => {
            return Err("write text or a number".into());
        }
    };
    if text.contains('\0') {
        return Err("the text holds a NUL character".into());
    }
    Ok(text)
}

/// The words for yes and no.
pub fn truth(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Some(true),
        "0" | "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// Deserializes a value that this reads.
pub fn read<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    read: impl FnOnce(Value) -> Result<T, String>,
) -> Result<T, D::Error> {
    read(Value::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// Deserializes what is typed as text, and may be a number in backlog.toml.
pub fn typed<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    read(deserializer, |value| {
        if value.is_bool() {
            return Err("write text or a number".into());
        }
        text(value)?.parse().map(Some).map_err(|error: T::Err| error.to_string())
    })
}

/// Deserializes one of a few names.
pub fn choice<'de, D: Deserializer<'de>, T: ValueEnum>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let name = read(deserializer, text)?;
    T::from_str(&name, false).map(Some).map_err(|_| {
        let legal = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        let legal: Vec<_> = legal.map(|legal| legal.get_name().to_string()).collect();
        D::Error::custom(format!("invalid value '{name}'; possible values: {}", legal.join(", ")))
    })
}

pub fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    read(deserializer, |value| {
        let is = value.as_bool().or_else(|| value.as_str().and_then(truth));
        is.ok_or_else(|| "write true or false".into())
    })
}

/// Deserializes a flag that may have a value.
pub fn flag_or_text<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<String>, D::Error> {
    read(deserializer, text).map(Some)
}

/// Deserializes entries, of which a text has one in each line.
pub fn lines<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    read(deserializer, |value| {
        if let Value::Array(entries) = value {
            return entries.into_iter().map(text).collect();
        }
        Ok(text(value)?.split('\n').map(String::from).collect())
    })
}

/// Deserializes what is one text, as it is typed, or an array.
pub fn text_or_array<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err = String> + TryFrom<Value, Error = String>,
{
    read(deserializer, |value| value.as_str().map(str::parse).unwrap_or_else(|| T::try_from(value)))
        .map(Some)
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
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for text in ["", "0", "0M", "M", "64 M", "64MB", "-1", "1.5G", "1KK", "99999999999G"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }
}

//! Values of options: one type each for the command line, the environment and backlog.toml, with the
//! text that is legal and the message for the rest.

use std::ffi::OsString;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use backlog_schedule::{DAY, Instant, parse_duration, parse_percent, split_id};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use toml::{Table, Value};

use crate::handlers::GivesUp;

/// Makes a type of each kind of value, which the function behind it reads from text.
macro_rules! values {
    ($($(#[$doc:meta])* $name:ident($held:ty) = $read:path;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name(pub $held);

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                $read(text).map(Self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                of_text(deserializer)
            }
        }
    )*};
}

values! {
    /// An age in seconds, typed as a number of days that may be a fraction.
    Days(i64) = days;
    /// The same, and more than nothing.
    DaysAboveZero(i64) = days_above_zero;
    /// A duration of whole seconds, from one to a year.
    WholeSecs(i64) = whole_secs;
    /// The same of an age, which is mostly one of days.
    AgeSecs(i64) = age;
    Percent(u8) = parse_percent;
    Records(u64) = at_least_one;
    MostFailures(u32) = at_least_one;
    /// A number from 1 to 1024: of handlers, or of records in flight.
    UpTo1024(u16) = up_to_1024;
    Runtime(Duration) = parse_duration;
    /// A duration that somebody waits for, of at most a year.
    Grace(Duration) = grace;
    Limit(Option<Duration>) = limit;
}

/// The most attempts: a number, or the column that has that of each record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempts {
    Most(u32),
    OfEachRecord,
}

impl FromStr for Attempts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        at_least_one(text).map(Self::Most)
    }
}

impl<'de> Deserialize<'de> for Attempts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The mapping has its name.
        read(deserializer, |value| match value.is_table() {
            true => Ok(Self::OfEachRecord),
            false => text_or_number(value)?.parse(),
        })
    }
}

/// An instant, or how long ago it was.
#[derive(Debug, Clone, Copy)]
pub enum Since {
    Ago(i64),
    At(Instant),
}

impl Since {
    pub fn instant(self, now: Instant) -> Instant {
        match self {
            Self::Ago(secs) => now.saturating_sub(secs),
            Self::At(at) => at,
        }
    }
}

impl FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let at = || text.parse().map(Self::At);
        let wrong = "write a duration, 2h or 7days, or an instant, 2026-11-21T03:40:00Z";
        whole_secs(text).map(Self::Ago).or_else(|_| at()).map_err(|_: String| wrong.into())
    }
}

/// Values with commas between them.
#[derive(Debug, Clone)]
pub struct Several(pub Vec<String>);

/// Exit codes of a command, or refusals of a webhook.
#[derive(Debug, Clone, Default)]
pub struct GiveUpOn {
    on_4xx: bool,
    codes: Vec<u16>,
}

/// A command and its arguments, in one text as for a shell, or as words.
#[derive(Debug, Clone)]
pub struct CommandLine(pub Vec<OsString>);

/// More than this is no age of a record, in days.
const MAX_DAYS: f64 = 36_500.0;

fn days(text: &str) -> Result<i64, String> {
    let days = text.parse().ok().filter(|days| (0.0..=MAX_DAYS).contains(days));
    let days: f64 = days.ok_or_else(|| {
        let meant = in_days(text).map_or_else(String::new, |days| format!(": write {days}"));
        format!("not a number of days from 0 to {MAX_DAYS}{meant}")
    })?;
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "the edge where a fraction becomes whole seconds; both are far below 2^53"
    )]
    Ok((days * DAY as f64).round() as i64)
}

/// The number of days that somebody means who writes a duration: `1d`, `12h`.
fn in_days(text: &str) -> Option<f64> {
    let secs = parse_duration(text).ok()?.as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a day has far fewer seconds than 2^53")]
    Some((secs / DAY as f64 * 1e3).round() / 1e3)
}

fn days_above_zero(text: &str) -> Result<i64, String> {
    match days(text)? {
        0 => Err(format!("must be more than 0, and at most {MAX_DAYS} days")),
        secs => Ok(secs),
    }
}

fn whole_secs(text: &str) -> Result<i64, String> {
    let duration = parse_duration(text)?;
    let secs = i64::try_from(duration.as_secs()).ok().filter(|_| duration.subsec_nanos() == 0);
    secs.filter(|secs| (1..=365 * DAY).contains(secs))
        .ok_or_else(|| "must be whole seconds, from 1s to 365days".into())
}

fn age(text: &str) -> Result<i64, String> {
    whole_secs(text).map_err(|why| match text.trim().parse::<u64>() {
        Ok(age) => format!("not a duration: write {age}days, {age}h, {age}m or {age}s"),
        Err(_) => why,
    })
}

/// What is said of what is no number, or one that is far too large.
pub const WHOLE: &str = "write a whole number";

/// What `adopt` writes in place of an answer.
pub const OPEN: &str = "?";

/// What is said where it still stands.
pub const OPEN_QUESTION: &str = "a question is open: write the answer in place of ?";

/// What is said of a table or an array with bare words in it, which TOML does not know.
pub const QUOTED: &str = "put each text in quotes, as in {column=\"state\"} or [\"a\",\"b\"]";

fn at_least_one<N: FromStr + Default + PartialEq>(text: &str) -> Result<N, String> {
    let number = text.parse().map_err(|_| format!("{WHOLE}, at least 1"))?;
    if number == N::default() { Err("must be at least 1".into()) } else { Ok(number) }
}

fn up_to_1024(text: &str) -> Result<u16, String> {
    let legal = text.parse().ok().filter(|number| (1..=1024).contains(number));
    legal.ok_or_else(|| format!("{WHOLE} from 1 to 1,024"))
}

fn grace(text: &str) -> Result<Duration, String> {
    let (grace, most) = (parse_duration(text)?, Duration::from_secs(365 * DAY.unsigned_abs()));
    if grace > most { Err("must be at most 365days".into()) } else { Ok(grace) }
}

fn limit(text: &str) -> Result<Option<Duration>, String> {
    if text == "none" {
        return Ok(None);
    }
    let limit = parse_duration(text).map_err(|error| format!("{error}, or none for no limit"))?;
    if limit.is_zero() {
        return Err("must be more than 0; `none` sets no limit".into());
    }
    Ok(Some(limit))
}

/// Has a type of several values be read from text: a comma or a backslash that is part of a value has a
/// backslash before it.
macro_rules! lists {
    ($($name:ident)*) => {$(
        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                Self::try_from(Value::from(split_id(text)))
            }
        }
    )*};
}

lists! { Several GiveUpOn }

impl TryFrom<Value> for Several {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let values = texts(value)?;
        let is_empty = values.iter().any(String::is_empty);
        if is_empty { Err("a value is empty".into()) } else { Ok(Self(values)) }
    }
}

const EXITS: RangeInclusive<u16> = 1..=255;
const STATUSES: RangeInclusive<u16> = 300..=599;

impl TryFrom<Value> for GiveUpOn {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let mut codes = Self::default();
        for text in Several::try_from(value)?.0 {
            let code = text.trim().parse().ok();
            match code.filter(|code| EXITS.contains(code) || STATUSES.contains(code)) {
                Some(code) => codes.codes.push(code),
                None if text.trim() == "4xx" => codes.on_4xx = true,
                None => {
                    return Err(format!(
                        "{text:?} is no exit code from 1 to 255, no HTTP status from 300 to 599, and \
                         not 4xx"
                    ));
                }
            }
        }
        Ok(codes)
    }
}

impl GiveUpOn {
    pub fn of_a_command(self) -> Result<Vec<i32>, String> {
        if self.on_4xx || self.codes.iter().any(|code| !EXITS.contains(code)) {
            return Err("--give-up-on: a command has exit codes from 1 to 255".into());
        }
        Ok(self.codes.into_iter().map(i32::from).collect())
    }

    pub fn of_a_webhook(self) -> Result<GivesUp, String> {
        if self.codes.iter().any(|code| !STATUSES.contains(code)) {
            return Err("--give-up-on: with --post use 4xx or HTTP statuses from 300 to 599".into());
        }
        Ok(GivesUp { on_4xx: self.on_4xx, on: self.codes })
    }
}

impl FromStr for CommandLine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words = shlex::split(text).filter(|words| !words.is_empty());
        Self::try_from(Value::from(words.ok_or_else(|| format!("{text:?} is no command"))?))
    }
}

impl TryFrom<Value> for CommandLine {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let words = if value.is_array() { texts(value)? } else { Vec::new() };
        if words.is_empty() {
            return Err("write the command and its arguments, [\"/bin/echo\", \"{id}\"]".into());
        }
        let words: Vec<_> = words.into_iter().map(OsString::from).collect();
        require_program(&words)?;
        Ok(Self(words))
    }
}

/// Fails if a command names no program, which would be looked for in vain for each record.
pub fn require_program(argv: &[OsString]) -> Result<(), &'static str> {
    if argv.first().is_some_and(|program| program.is_empty()) {
        return Err("the command is empty: its first word must name a program");
    }
    Ok(())
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

/// The parts of a value that may also be one of them alone, which was made a table before.
pub fn parts(value: Value) -> Result<Table, String> {
    if let Value::Table(parts) = value {
        return Ok(parts);
    }
    Err("write a column, or a table of its parts".into())
}

/// One of several words.
pub fn chosen<const N: usize>(
    value: Value,
    legal: [&'static str; N],
) -> Result<&'static str, String> {
    let typed = text(value)?;
    let found = legal.into_iter().find(|word| *word == typed);
    found.ok_or_else(|| format!("{typed:?} is none; legal are {}", legal.join(", ")))
}

/// A number of characters, of which there is at least one.
pub fn characters(value: Value) -> Result<usize, String> {
    at_least_one(&text(value)?)
}

pub fn truth(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Some(true),
        "0" | "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

pub fn read<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    read: impl FnOnce(Value) -> Result<T, String>,
) -> Result<T, D::Error> {
    read(Value::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// What is typed as text, and may be a number in backlog.toml.
pub fn text_or_number(value: Value) -> Result<String, String> {
    if value.is_bool() { Err("write text or a number".into()) } else { text(value) }
}

fn of_text<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(it: D) -> Result<T, D::Error> {
    read(it, |value| text_or_number(value)?.parse().map_err(|error: T::Err| error.to_string()))
}

/// The same of an option whose type is none of these.
pub fn typed<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    of_text(deserializer).map(Some)
}

/// A parser for a command line that takes the names of values.
pub fn named<T>(names: impl IntoIterator<Item = &'static str>) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err = String> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(names).try_map(|name| name.parse())
}

pub fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    read(deserializer, |value| {
        let is = value.as_bool().or_else(|| value.as_str().and_then(truth));
        is.ok_or_else(|| "write true or false".into())
    })
}

pub fn flag_or_text<'de, D: Deserializer<'de>>(it: D) -> Result<Option<String>, D::Error> {
    read(it, text).map(Some)
}

/// Deserializes one value, or an array of them.
pub fn entries<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    read(deserializer, texts)
}

fn texts(value: Value) -> Result<Vec<String>, String> {
    let values = if let Value::Array(values) = value { values } else { vec![value] };
    values.into_iter().map(text).collect()
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

//! Parsers of values. Errors name the legal values.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use backlog_schedule::{DAY, Instant, Order, Status, parse_duration, parse_secs, split_id};
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::raw::{Raw, texts};
use crate::handlers::GivesUp;

pub use backlog_schedule::parse_percent;

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

pub fn since(text: &str) -> Result<Since, String> {
    let form = "write a duration such as 2h or 7days, or an instant such as 2026-11-21T03:40:00Z";
    whole_secs(text)
        .map(Since::Ago)
        .or_else(|_| text.parse().map(Since::At))
        .map_err(|_: String| form.into())
}

const MAX_DAYS: f64 = 36_500.0;

/// An age in seconds from a number of days, which may be a fraction.
pub fn days(text: &str) -> Result<i64, String> {
    let days = text.parse().ok().filter(|days| (0.0..=MAX_DAYS).contains(days));
    let days: f64 = days.ok_or_else(|| {
        let hint = in_days(text).map_or_else(String::new, |days| format!(": write {days}"));
        format!("not a number of days from 0 to {MAX_DAYS}{hint}")
    })?;
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "the edge where a fraction becomes whole seconds; both are far below 2^53"
    )]
    Ok((days * DAY as f64).round() as i64)
}

fn in_days(text: &str) -> Option<f64> {
    let secs = parse_duration(text).ok()?.as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a day has far fewer seconds than 2^53")]
    Some((secs / DAY as f64 * 1e3).round() / 1e3)
}

pub fn days_above_zero(text: &str) -> Result<i64, String> {
    match days(text)? {
        0 => Err(format!("must be more than 0, and at most {MAX_DAYS} days")),
        secs => Ok(secs),
    }
}

pub fn whole_secs(text: &str) -> Result<i64, String> {
    parse_secs(text, 365)
}

/// An age in seconds, up to a year.
pub fn age(text: &str) -> Result<i64, String> {
    age_up_to(365, text)
}

/// An age in seconds, up to a hundred years, because finished records may be kept.
pub fn finished_age(text: &str) -> Result<i64, String> {
    age_up_to(36_500, text)
}

fn age_up_to(days: i64, text: &str) -> Result<i64, String> {
    parse_secs(text, days).map_err(|why| match text.trim().parse::<u64>() {
        Ok(age) => format!("not a duration: write {age}days, {age}h, {age}m or {age}s"),
        Err(_) => why,
    })
}

pub const WHOLE_NUMBER: &str = "write a whole number";

pub fn at_least_one<N: FromStr + Default + PartialEq>(text: &str) -> Result<N, String> {
    let number = text.parse().map_err(|_| format!("{WHOLE_NUMBER}, at least 1"))?;
    if number == N::default() { Err("must be at least 1".into()) } else { Ok(number) }
}

pub fn up_to_1024(text: &str) -> Result<usize, String> {
    let legal = text.parse().ok().filter(|number| (1..=1024).contains(number));
    legal.ok_or_else(|| format!("{WHOLE_NUMBER} from 1 to 1,024"))
}

pub fn duration_up_to_a_year(text: &str) -> Result<Duration, String> {
    let (duration, max) = (parse_duration(text)?, Duration::from_secs(365 * DAY.unsigned_abs()));
    if duration > max { Err("must be at most 365days".into()) } else { Ok(duration) }
}

/// `none` means no timeout.
pub fn timeout(text: &str) -> Result<Option<Duration>, String> {
    if text == "none" {
        return Ok(None);
    }
    positive_duration(text).map(Some).map_err(|error| format!("{error}, or none for no limit"))
}

pub fn positive_duration(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text)?;
    if duration.is_zero() { Err("must be more than 0".into()) } else { Ok(duration) }
}

/// Tiers, or a switch for the default tiers.
pub fn tiers(raw: Raw) -> Result<String, String> {
    match raw.as_bool() {
        Some(is_on) => Ok(is_on.to_string()),
        None => raw.parse(tiers_or_switch),
    }
}

/// Refuses words that are neither tiers nor a switch: in `explain --progressive 7` the 7 is probably meant as an id.
pub fn tiers_or_switch(text: &str) -> Result<String, String> {
    let hint = "write maximum age/interval, as in 7d/1h; write ids before --progressive";
    let is_legal = text.contains('/') || ["true", "false"].contains(&text);
    if is_legal { Ok(text.into()) } else { Err(hint.into()) }
}

/// An order, and the column and direction of an order by column.
pub fn order(raw: Raw) -> Result<(Order, Option<(String, Order)>), String> {
    let text = raw.into_text()?;
    let (column, direction) = match text.trim().rsplit_once(' ') {
        None if text == "newest" => return Ok((Order::Newest, None)),
        None if text == "oldest" => return Ok((Order::Oldest, None)),
        Some((column, word)) if word.eq_ignore_ascii_case("desc") => (column, Order::Newest),
        Some((column, word)) if word.eq_ignore_ascii_case("asc") => (column, Order::Oldest),
        Some(_) | None => {
            let example = "newest, oldest, \"COLUMN asc\" or \"COLUMN desc\"";
            return Err(format!("{text:?} is not an order; use one of {example}"));
        }
    };
    Ok((Order::Column, Some((column.trim().into(), direction))))
}

pub type PruneAfter = Vec<(Status, i64)>;

pub fn prune_after(raw: Raw) -> Result<PruneAfter, String> {
    let legal = "write { SUCCESS = \"30d\", ARCHIVED = \"1y\" }, or one of them";
    let Raw::Toml(toml::Value::Table(ages)) = raw else { return Err(legal.into()) };
    let parse = |(name, value): (String, toml::Value)| {
        let mut finished = Status::FINISHED.into_iter();
        let status = finished.find(|status| status.name().eq_ignore_ascii_case(&name));
        let status = status.ok_or_else(|| format!("{name}: {legal}"))?;
        Ok((status, Raw::Toml(value).parse(finished_age).map_err(|why| format!("{name}: {why}"))?))
    };
    ages.into_iter().map(parse).collect()
}

pub fn chosen(raw: Raw, legal: &[&'static str]) -> Result<&'static str, String> {
    let typed = raw.into_text()?;
    let found = legal.iter().find(|word| **word == typed);
    found.copied().ok_or_else(|| format!("{typed:?} is not one of {}", legal.join(", ")))
}

pub fn several(raw: Raw) -> Result<Vec<String>, String> {
    let values = raw.into_texts()?;
    let is_empty = values.iter().any(String::is_empty);
    if is_empty { Err("must not be empty".into()) } else { Ok(values) }
}

const EXITS: RangeInclusive<u16> = 1..=255;
const STATUSES: RangeInclusive<u16> = 300..=599;

/// Exit codes of a command, or HTTP statuses of a webhook.
pub fn give_up_on(raw: Raw) -> Result<GivesUp, String> {
    let mut gives_up = GivesUp::default();
    for text in raw.into_texts()?.iter().flat_map(|text| split_id(text)) {
        let code = text.trim().parse().ok();
        match code.filter(|code| EXITS.contains(code) || STATUSES.contains(code)) {
            Some(code) => gives_up.on.push(code),
            None if text.trim() == "4xx" => gives_up.on_4xx = true,
            None => {
                return Err(format!(
                    "{text:?} is neither an exit code from 1 to 255, nor an HTTP status from 300 to \
                     599, nor 4xx"
                ));
            }
        }
    }
    Ok(gives_up)
}

pub fn exit_codes(gives_up: &GivesUp) -> Result<Vec<i32>, String> {
    if gives_up.on_4xx || gives_up.on.iter().any(|code| !EXITS.contains(code)) {
        return Err("--give-up-on: a command has exit codes from 1 to 255".into());
    }
    Ok(gives_up.on.iter().copied().map(i32::from).collect())
}

pub fn refusals(gives_up: &GivesUp) -> Result<GivesUp, String> {
    if gives_up.on.iter().any(|code| !STATUSES.contains(code)) {
        return Err("--give-up-on: with --post use 4xx or HTTP statuses from 300 to 599".into());
    }
    Ok(gives_up.clone())
}

pub fn handler(raw: Raw) -> Result<Vec<OsString>, String> {
    let words = match raw {
        Raw::Words(words) => words,
        Raw::Toml(value) if value.is_array() => {
            texts(value)?.into_iter().map(OsString::from).collect()
        }
        Raw::Toml(_) => Vec::new(),
    };
    if words.is_empty() {
        return Err(
            "write the command and its arguments as an array, [\"/bin/echo\", \"{id}\"]".into()
        );
    }
    if words.first().is_some_and(|program| program.is_empty()) {
        return Err("the command is empty: its first word must name a program".into());
    }
    Ok(words)
}

/// A command as a text with the quotes of a shell, or as an array.
pub fn command(raw: Raw) -> Result<Vec<OsString>, String> {
    let Some(text) = raw.as_str() else { return handler(raw) };
    let words = shlex::split(text).filter(|words| !words.is_empty());
    let words = words.ok_or_else(|| {
        format!("{text:?} is not a command: it is empty, or a quote is not closed")
    })?;
    handler(Raw::Words(words.into_iter().map(OsString::from).collect()))
}

pub fn one_of<const N: usize>(statuses: [Status; N]) -> impl TypedValueParser<Value = Status> {
    PossibleValuesParser::new(statuses.map(Status::name)).try_map(|name| name.parse::<Status>())
}

pub fn set<T>(field: &mut Option<T>, value: Result<T, String>) -> Result<(), String> {
    replace(field, value.map(Some))
}

pub fn replace<T>(field: &mut T, value: Result<T, String>) -> Result<(), String> {
    *field = value?;
    Ok(())
}

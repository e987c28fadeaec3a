//! Keys of a policy specification, `NAME:KEY=VALUE,...`.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::time::{DAY, parse_duration};

/// Default of `max=`: 30 days.
pub const MAX_MS: u64 = 30 * DAY.unsigned_abs() * 1000;
/// Upper bound of every delay: ten years.
const LONGEST_MS: u64 = 3650 * DAY.unsigned_abs() * 1000;
const MOST_RETRIES: u32 = 100;
const COMMON: [&str; 2] = ["max", "spread"];

pub struct Syntax {
    pub name: &'static str,
    /// Legal keys besides [`COMMON`].
    pub keys: &'static [&'static str],
    /// True if values without a key form a list.
    pub is_list: bool,
    pub example: &'static str,
}

pub struct PolicyKeys<'a> {
    syntax: &'a Syntax,
    values: BTreeMap<&'a str, &'a str>,
    entries: Vec<&'a str>,
}

impl<'a> PolicyKeys<'a> {
    pub fn parse(syntax: &'a Syntax, text: &'a str) -> Result<Self, String> {
        let Syntax { name, is_list, example, .. } = syntax;
        let legal: Vec<_> = syntax.keys.iter().chain(&COMMON).copied().collect();
        let (mut values, mut entries) = (BTreeMap::new(), Vec::new());
        for pair in text.split(',').map(str::trim).filter(|pair| *is_list || !pair.is_empty()) {
            if *is_list && !pair.contains('=') {
                entries.push(pair);
                continue;
            }
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (key, value) = (key.trim(), value.trim());
            if !legal.contains(&key) {
                let legal = legal.join(", ");
                return Err(format!(
                    "{name} has no key {key:?}; use one of {legal}, as in: {example}"
                ));
            }
            if values.insert(key, value).is_some() {
                return Err(format!("{name}: {key} is given twice"));
            }
        }
        Ok(Self { syntax, values, entries })
    }

    pub fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    /// Fails if there are other keys, which belong to the other syntax of the policy.
    pub fn require_only(&self, keys: &[&str]) -> Result<(), String> {
        let Syntax { name, example, .. } = self.syntax;
        let is_other = |key: &&&str| !keys.contains(key) && !COMMON.contains(key);
        let Some(other) = self.values.keys().find(is_other) else { return Ok(()) };
        Err(format!(
            "{name}: {other} cannot be used with min and retries; write either {name}:min=5s,\
             max=260s,retries=10 or {example}"
        ))
    }

    pub fn get<T>(
        &self,
        key: &str,
        parse: fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        let Some(value) = self.values.get(key) else { return Ok(None) };
        let wrong = |error| format!("{}: {key}={value}: {error}", self.syntax.name);
        parse(value).map(Some).map_err(wrong)
    }

    pub fn require<T>(&self, key: &str, parse: fn(&str) -> Result<T, String>) -> Result<T, String> {
        let Syntax { name, example, .. } = self.syntax;
        self.get(key, parse)?.ok_or_else(|| format!("{name} needs {key}=, as in: {example}"))
    }

    /// The durations without a key: at least one, none above `max`.
    pub fn entries(&self) -> Result<Vec<u64>, String> {
        let Syntax { name, example, .. } = self.syntax;
        let max = self.get("max", milliseconds)?.unwrap_or(LONGEST_MS);
        let entry = |entry: &&str| {
            let wait =
                milliseconds(entry).map_err(|error| format!("{name}: {entry:?}: {error}"))?;
            self.checked_max("an entry", wait, max).map(|_| wait)
        };
        if self.entries.is_empty() {
            return Err(format!("{name} needs a list of delays, as in: {example}"));
        }
        self.entries.iter().map(entry).collect()
    }

    pub fn max(&self) -> Result<u64, String> {
        Ok(self.get("max", above_zero)?.unwrap_or(MAX_MS))
    }

    /// The maximum delay. Fails if the first delay is above it.
    pub fn max_from(&self, key: &str, first: u64) -> Result<u64, String> {
        self.checked_max(key, first, self.max()?)
    }

    /// Returns `max`, or fails if the first delay is above it.
    pub fn checked_max(&self, key: &str, first: u64, max: u64) -> Result<u64, String> {
        if first <= max {
            return Ok(max);
        }
        let [first, max] =
            [first, max].map(|ms| humantime::format_duration(Duration::from_millis(ms)));
        let name = self.syntax.name;
        Err(format!("{name}: {key} ({first}) is above max ({max}); write a larger max="))
    }
}

pub fn retries(text: &str) -> Result<u32, String> {
    let retries = text.parse().ok().filter(|retries| (2..=MOST_RETRIES).contains(retries));
    retries.ok_or_else(|| format!("must be a whole number from 2 to {MOST_RETRIES}"))
}

/// `30%`, or `30`: from 0 to 100.
pub fn parse_percent(text: &str) -> Result<u8, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    let percent = number.parse().ok().filter(|percent| *percent <= 100);
    percent.ok_or_else(|| "must be a whole number from 0% to 100%".into())
}

/// A factor above 1: `2`, `1.5`, `5/4`.
pub fn ratio(text: &str) -> Result<(u64, u64), String> {
    let parsed = match text.split_once('/') {
        Some((over, under)) => over.trim().parse().ok().zip(under.trim().parse().ok()),
        None => decimal(text),
    };
    parsed
        .filter(|(over, under): &(u64, u64)| {
            let (over, under) = (u128::from(*over), u128::from(*under));
            under > 0 && over * 100 >= under * 101 && over <= under * 1000
        })
        .ok_or_else(|| "must be a number above 1, from 1.01 to 1000: 2, 1.5 or 5/4".into())
}

/// A decimal number as a fraction, `1.25` as 125/100.
fn decimal(text: &str) -> Option<(u64, u64)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 6 {
        return None;
    }
    let scale = 10u64.pow(u32::try_from(fraction.len()).ok()?);
    Some((format!("{whole}{fraction}").parse().ok()?, scale))
}

pub fn milliseconds(text: &str) -> Result<u64, String> {
    let duration = parse_duration(text)?;
    u64::try_from(duration.as_millis())
        .ok()
        .filter(|ms| *ms <= LONGEST_MS)
        .ok_or_else(|| "longer than 3650 days".into())
}

pub fn above_zero(text: &str) -> Result<u64, String> {
    match milliseconds(text)? {
        0 => Err("must be more than 0".into()),
        ms => Ok(ms),
    }
}

//! The spelling of one date column, so that what is written there looks like the rest.

use chrono::{Datelike, Timelike};

use super::{Dates, Format, Unit, Zone, is_compact};
use crate::record::Value;
use crate::time::Instant;

const EXAMPLE: Instant = Instant(1_795_232_401);

/// The spelling of instants in one column.
#[derive(Debug, Clone, PartialEq)]
pub enum Spelling {
    Epoch { unit: Unit, as_text: bool },
    Compact { as_text: bool },
    Iso { clock: IsoClock, suffix: String },
}

/// The clock part of an ISO date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IsoClock {
    None,
    /// The character before the hours, and how many digits of a second.
    Seconds {
        separator: char,
        digits: usize,
    },
}

impl Spelling {
    /// How the program spells an instant where nobody else does: RFC 3339 in UTC.
    pub fn rfc3339() -> Self {
        let clock = IsoClock::Seconds { separator: 'T', digits: 0 };
        Self::Iso { clock, suffix: "Z".into() }
    }

    /// As SQL has it that knows no zone: `2026-11-21 03:40:00`.
    pub fn sql() -> Self {
        let clock = IsoClock::Seconds { separator: ' ', digits: 0 };
        Self::Iso { clock, suffix: String::new() }
    }

    /// The day alone.
    pub fn date() -> Self {
        Self::Iso { clock: IsoClock::None, suffix: String::new() }
    }

    pub fn epoch() -> Self {
        Self::Epoch { unit: Unit::Seconds, as_text: false }
    }

    /// How this value is spelt, if it is a date.
    pub fn of(value: &Value, dates: &Dates) -> Option<Self> {
        dates.read(value)?;
        let (number, as_text) = match value {
            Value::Text(text) if is_compact(text) => return Some(Self::Compact { as_text: true }),
            Value::Text(text) => match text.parse() {
                Ok(number) => (number, true),
                Err(_) => return Some(Self::of_iso(text)),
            },
            Value::Integer(number) => (*number, false),
            Value::Real(_)
            | Value::Null
            | Value::Bytes(_)
            | Value::Blob(_)
            | Value::Boolean(_)
            | Value::Json(_) => return Some(Self::epoch()),
        };
        let unit = Unit::ALL.into_iter().find(|unit| unit.range().contains(&number));
        Some(unit.map_or(Self::Compact { as_text }, |unit| Self::Epoch { unit, as_text }))
    }

    fn of_iso(text: &str) -> Self {
        let text = text.trim_end();
        let clock = text.get(10..).unwrap_or_default();
        let Some(separator) = clock.chars().next() else {
            return Self::date();
        };
        let end = clock[1..].find(|c: char| !c.is_ascii_digit() && c != ':' && c != '.');
        let (shown, suffix) = clock.split_at(end.map_or(clock.len(), |end| end + 1));
        let digits = shown.split_once('.').map_or(0, |(_, digits)| digits.len());
        // What is written is UTC, in the same form.
        let suffix = suffix.replace('-', "+").replace(|c: char| c.is_ascii_digit(), "0");
        Self::Iso { clock: IsoClock::Seconds { separator, digits }, suffix }
    }

    pub fn format(&self) -> Format {
        match self {
            Self::Epoch { unit, .. } => Format::Epoch(*unit),
            Self::Compact { .. } => Format::Compact,
            Self::Iso { .. } => Format::Iso,
        }
    }

    /// Whether what is written so is read as the same instant, to the second.
    pub fn reads_back(&self, dates: &Dates) -> bool {
        dates.read(&self.example(&dates.zone)) == Some(EXAMPLE)
    }

    /// Some instant in this spelling.
    pub fn example(&self, zone: &Zone) -> Value {
        self.write(EXAMPLE, zone)
    }

    pub fn is_text(&self) -> bool {
        match self {
            Self::Epoch { as_text, .. } | Self::Compact { as_text } => *as_text,
            Self::Iso { .. } => true,
        }
    }

    /// Whether what is spelt so sorts as time passes.
    pub fn sorts(&self, zone: &Zone) -> bool {
        match self {
            Self::Epoch { .. } => true,
            Self::Compact { .. } => zone.fixed_secs().is_some(),
            Self::Iso { clock: IsoClock::None, .. } => false,
            Self::Iso { suffix, .. } => !suffix.is_empty() || zone.fixed_secs().is_some(),
        }
    }

    /// An instant in this spelling.
    pub fn write(&self, at: Instant, zone: &Zone) -> Value {
        let of = |number: i64, as_text: bool| {
            if as_text { Value::Text(number.to_string()) } else { Value::Integer(number) }
        };
        match self {
            Self::Epoch { unit, as_text } => of(at.0.saturating_mul(unit.per_second()), *as_text),
            Self::Compact { as_text } => {
                let shown = zone.shown(at).format("%Y%m%d%H%M%S").to_string();
                if *as_text { Value::Text(shown) } else { of(shown.parse().unwrap_or(0), false) }
            }
            Self::Iso { clock, suffix } => {
                let shown = if suffix.is_empty() { zone.shown(at) } else { Zone::UTC.shown(at) };
                let date = format!("{:04}-{:02}-{:02}", shown.year(), shown.month(), shown.day());
                Value::Text(match clock {
                    IsoClock::None => date,
                    IsoClock::Seconds { separator, digits } => {
                        let (h, m, s) = (shown.hour(), shown.minute(), shown.second());
                        let point = if *digits > 0 { "." } else { "" };
                        format!(
                            "{date}{separator}{h:02}:{m:02}:{s:02}{point}{:0<digits$}{suffix}",
                            ""
                        )
                    }
                })
            }
        }
    }
}

//! The spelling of one date column, so that what is written there looks like the rest.

use super::{Dates, Format, Unit, Zone, is_compact};
use crate::record::Value;
use crate::time::Instant;

const EXAMPLE: Instant = Instant(1_795_232_401);

/// The day alone, as chrono formats it.
const DAY: &str = "%Y-%m-%d";

/// The spelling of instants in one column. An ISO date has the format in which chrono writes its day
/// and clock, and behind that the name of UTC; an empty one if it is the time of the table's zone.
#[derive(Debug, Clone, PartialEq)]
pub enum Spelling {
    Epoch { unit: Unit, as_text: bool },
    Compact { as_text: bool },
    Iso { format: String, suffix: String },
}

impl Spelling {
    /// How the program spells an instant where nobody else does: RFC 3339 in UTC.
    pub fn rfc3339() -> Self {
        Self::Iso { format: "%Y-%m-%dT%H:%M:%S".into(), suffix: "Z".into() }
    }

    /// As SQL has it that knows no zone: `2026-11-21 03:40:00`.
    pub fn sql() -> Self {
        Self::Iso { format: "%Y-%m-%d %H:%M:%S".into(), suffix: String::new() }
    }

    /// The day alone.
    pub fn date() -> Self {
        Self::Iso { format: DAY.into(), suffix: String::new() }
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
        let Some(separator) = clock.chars().next() else { return Self::date() };
        let end = clock[1..].find(|c: char| !c.is_ascii_digit() && c != ':' && c != '.');
        let (shown, suffix) = clock.split_at(end.map_or(clock.len(), |end| end + 1));
        let fraction = shown.find('.').map_or("", |point| &shown[point..]);
        let fraction = fraction.replace(|c: char| c.is_ascii_digit(), "0");
        // What is written is UTC, in the same form.
        let suffix = suffix.replace('-', "+").replace(|c: char| c.is_ascii_digit(), "0");
        Self::Iso { format: format!("{DAY}{separator}%H:%M:%S{fraction}"), suffix }
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
            Self::Iso { format, .. } if format == DAY => false,
            Self::Iso { suffix, .. } => !suffix.is_empty() || zone.fixed_secs().is_some(),
        }
    }

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
            Self::Iso { format, suffix } => {
                let shown = if suffix.is_empty() { zone.shown(at) } else { Zone::UTC.shown(at) };
                Value::Text(format!("{}{suffix}", shown.format(format)))
            }
        }
    }
}

//! Date formats of tables: every spelling is read, and each column is written in its own.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use chrono::{DateTime, FixedOffset, NaiveDateTime};
use clap::ValueEnum;

use crate::record::Value;
use crate::time::{DAY, Instant, WRITABLE};

#[derive(Debug, Clone, PartialEq)]
pub struct Dates {
    /// The only one that counts; without it each value is read as what it looks like.
    pub format: Option<Format>,
    /// What the clock showed that wrote a date without a zone.
    pub zone: Zone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// `2026-11-21 03:40:00` and its many relatives.
    Iso,
    /// `20261121034000`, as text or as a number.
    Compact,
    Epoch,
    EpochMs,
    EpochUs,
    EpochNs,
}

/// A stretch of a column, in the column's own order, that can hold instants of a window.
#[derive(Debug, Clone, PartialEq)]
pub struct Stretch {
    pub from: Value,
    /// Excluded.
    pub to: Value,
    pub is_text: bool,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        ValueEnum::from_str(text, false).map_err(|_| {
            let names: Vec<_> = Self::value_variants().iter().map(Self::to_string).collect();
            format!("{text:?} is no format of dates; legal are {}", names.join(", "))
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_possible_value().map_or(Ok(()), |value| f.write_str(value.get_name()))
    }
}

impl Format {
    pub const EPOCHS: [Self; 4] = [Self::Epoch, Self::EpochMs, Self::EpochUs, Self::EpochNs];
    /// Those that numbers can have, in the order of the numbers.
    const NUMBERS: [Self; 5] =
        [Self::Epoch, Self::EpochMs, Self::Compact, Self::EpochUs, Self::EpochNs];

    /// How many of its units are in a second, if it counts them from the epoch.
    fn per_second(self) -> Option<i64> {
        match self {
            Self::Iso | Self::Compact => None,
            Self::Epoch => Some(1),
            Self::EpochMs => Some(1_000),
            Self::EpochUs => Some(1_000_000),
            Self::EpochNs => Some(1_000_000_000),
        }
    }

    /// Numbers that can be an instant in this format: of units the years 1973 to 2286, of nanoseconds
    /// to 2262. So a number's size says its format, and what lies outside (0, 20261120) is none.
    fn range(self) -> Range<i64> {
        let Some(unit) = self.per_second() else { return COMPACT };
        100_000_000 * unit..10_000_000_000_i64.saturating_mul(unit)
    }

    /// An instant as such a number, cut to what can be one.
    pub fn number(self, at: Instant) -> i64 {
        let number = match self.per_second() {
            Some(unit) => at.0.saturating_mul(unit),
            None if at.0 < 0 => COMPACT.start,
            None => compact_bound(at).parse().map_or(i64::MAX, |day: i64| day * 1_000_000),
        };
        number.clamp(self.range().start, self.range().end)
    }
}

/// `YYYYMMDDHHMMSS` from 1970 on: between the milliseconds and the microseconds.
const COMPACT: Range<i64> = 19_700_101_000_000..100_000_000_000_000;

impl Default for Dates {
    fn default() -> Self {
        Self { format: None, zone: Zone::UTC }
    }
}

impl Dates {
    /// The instant that a value stands for. NULL, 0, '0000-00-00' and what cannot be read are none.
    pub fn read(&self, value: &Value) -> Option<Instant> {
        match value {
            Value::Text(text) => self.read_text(text),
            Value::Integer(number) => self.read_number(*number),
            // The cast saturates, and saturated values are out of range.
            Value::Real(number) => self.read_number(number.floor() as i64),
            Value::Json(number) => self.read(&Value::Real(number.parse().ok()?)),
            Value::Null | Value::Bytes(_) | Value::Blob(_) | Value::Boolean(_) => None,
        }
    }

    fn read_number(&self, number: i64) -> Option<Instant> {
        let format = self.numbers().find(|format| format.range().contains(&number))?;
        match format.per_second() {
            Some(unit) => Some(Instant(number.div_euclid(unit))),
            None => self.compact(&number.to_string()),
        }
    }

    pub fn read_text(&self, text: &str) -> Option<Instant> {
        match self.format {
            None | Some(Format::Compact) if is_compact(text) => self.compact(text),
            None | Some(Format::Iso) => {
                let at = Instant::parse(text)?;
                Some(if has_zone(text) { at } else { self.zone.instant(at.0) })
            }
            // Text of digits is not guessed at.
            Some(Format::Compact) => None,
            Some(_) if !text.bytes().all(|byte| byte.is_ascii_digit()) => None,
            Some(_) => self.read_number(text.parse().ok()?),
        }
    }

    fn compact(&self, digits: &str) -> Option<Instant> {
        let shown = NaiveDateTime::parse_from_str(digits, "%Y%m%d%H%M%S").ok()?;
        Some(self.zone.instant(shown.and_utc().timestamp()))
    }

    /// The stretches of a column that can hold an instant from `from` on and before `until`, in
    /// descending order. Each value lies in one of them at most.
    pub fn stretches(&self, from: Instant, until: Option<Instant>) -> Vec<Stretch> {
        let until = until.unwrap_or(Instant(i64::MAX));
        // A day wider on either side, because a clock may differ from UTC.
        let (early, late) = (from.saturating_sub(DAY), until.saturating_add(2 * DAY));
        let text = match self.format {
            // In one stretch, because each must be walked in the column's own order.
            None => [text_bound(early, &Instant::date), compact_bound(late)],
            Some(Format::Iso) => [early, late].map(|at| text_bound(at, &Instant::date)),
            Some(Format::Compact) => [early, late].map(compact_bound),
            // Digits as text do not sort as numbers.
            Some(_) => ["0".into(), ":".into()],
        };
        let [first, last] = text.map(Value::Text);
        let mut stretches = vec![Stretch { from: first, to: last, is_text: true }];
        let numbers = self.numbers().rev().map(|format| {
            let is_compact = format == Format::Compact;
            let (from, until) = if is_compact { (early, late) } else { (from, until) };
            let [from, to] = [from, until].map(|at| Value::Integer(format.number(at)));
            Stretch { from, to, is_text: false }
        });
        stretches.extend(numbers);
        stretches
    }

    /// The formats in which a number can be an instant, in the order of the numbers.
    fn numbers(&self) -> impl DoubleEndedIterator<Item = Format> {
        let is_taken = |format: &Format| self.format.is_none_or(|only| only == *format);
        Format::NUMBERS.into_iter().filter(is_taken)
    }

    /// Of numbers that can be an instant, in ascending order.
    pub fn ranges(&self) -> impl Iterator<Item = Range<i64>> {
        self.numbers().map(Format::range)
    }
}

/// What text is compared with: what sorts below all digits before the year 0, above after 9999.
pub fn text_bound(at: Instant, shown: &dyn Fn(&Instant) -> String) -> String {
    if at.0 < *WRITABLE.start() {
        "/".into()
    } else if at.0 > *WRITABLE.end() {
        ":".into()
    } else {
        shown(&at)
    }
}

fn compact_bound(at: Instant) -> String {
    text_bound(at, &|at| at.date().replace('-', ""))
}

fn is_compact(text: &str) -> bool {
    text.len() == 14 && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn has_zone(text: &str) -> bool {
    let clock = text.get(10..).unwrap_or_default().trim_end();
    clock.ends_with(['Z', 'z']) || clock.ends_with("UTC") || clock.contains(['+', '-'])
}

#[derive(Debug, Clone, PartialEq)]
pub enum Zone {
    /// So many seconds ahead of UTC.
    Fixed(i64),
    /// By the rules of the system's time zone database.
    Named(Arc<tz::TimeZone>),
}

impl Zone {
    pub const UTC: Self = Self::Fixed(0);

    /// `UTC`, `Z` or `+02:00`.
    pub fn fixed(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case("UTC") || text.eq_ignore_ascii_case("Z") {
            return Some(Self::UTC);
        }
        let offset = text.parse::<FixedOffset>().ok()?;
        Some(Self::Fixed(offset.local_minus_utc().into()))
    }

    /// By the rules in a file of the time zone database (RFC 8536).
    pub fn from_rules(file: &[u8]) -> Option<Self> {
        tz::TimeZone::from_tz_data(file).ok().map(|rules| Self::Named(Arc::new(rules)))
    }

    /// How many seconds ahead of UTC it always is; `None` for one that is set now and then.
    pub fn fixed_secs(&self) -> Option<i64> {
        if let Self::Fixed(ahead) = self { Some(*ahead) } else { None }
    }

    fn ahead(&self, at: i64) -> i64 {
        match self {
            Self::Fixed(ahead) => *ahead,
            Self::Named(rules) => {
                rules.find_local_time_type(at).map_or(0, |found| found.ut_offset().into())
            }
        }
    }

    /// When the clock showed what a clock of UTC shows at `shown`. Of an hour that it showed twice
    /// the first is meant; one that it skipped is taken as if it had not been.
    pub fn instant(&self, shown: i64) -> Instant {
        let (before, after) = (self.ahead(shown - DAY), self.ahead(shown + DAY));
        let [first, second] = [before, after].map(|ahead| shown - ahead);
        let is_second = self.ahead(first) != before && self.ahead(second) == after;
        Instant(if is_second { second } else { first })
    }

    pub fn shown(&self, at: Instant) -> NaiveDateTime {
        let at = writable(at).0;
        DateTime::from_timestamp(at + self.ahead(at), 0).unwrap_or_default().naive_utc()
    }
}

/// The nearest instant that can be written in every zone.
fn writable(at: Instant) -> Instant {
    Instant(at.0.clamp(*WRITABLE.start() + DAY, *WRITABLE.end() - DAY))
}

/// Some instant, whose seconds are not 0.
const EXAMPLE: Instant = Instant(1_795_232_401);

/// An instant as RFC 3339 has it, without the Z of UTC, as chrono formats it.
const RFC3339: &str = "%Y-%m-%dT%H:%M:%S";

/// The day alone, as chrono formats it.
const DATE: &str = "%Y-%m-%d";

/// The spelling of instants in one column. An ISO date has the format in which chrono writes its day
/// and clock, and behind that the name of UTC; an empty one if it is the time of the table's zone.
#[derive(Debug, Clone, PartialEq)]
pub enum Spelling {
    Number { format: Format, as_text: bool },
    Iso { format: String, suffix: String },
}

impl Spelling {
    /// How the program spells an instant where nobody else does: RFC 3339 in UTC.
    pub fn rfc3339() -> Self {
        Self::Iso { format: RFC3339.into(), suffix: "Z".into() }
    }

    /// As SQL has it that knows no zone: `2026-11-21 03:40:00`.
    pub fn sql() -> Self {
        Self::Iso { format: "%Y-%m-%d %H:%M:%S".into(), suffix: String::new() }
    }

    pub fn date() -> Self {
        Self::Iso { format: DATE.into(), suffix: String::new() }
    }

    pub fn epoch() -> Self {
        Self::Number { format: Format::Epoch, as_text: false }
    }

    pub fn of(value: &Value, dates: &Dates) -> Option<Self> {
        dates.read(value)?;
        let (number, as_text) = if let Value::Text(text) = value {
            if is_compact(text) {
                return Some(Self::Number { format: Format::Compact, as_text: true });
            }
            let Ok(number) = text.parse() else { return Some(Self::of_iso(text)) };
            (number, true)
        } else {
            let Value::Integer(number) = value else { return Some(Self::epoch()) };
            (*number, false)
        };
        let format = Format::NUMBERS.into_iter().find(|it| it.range().contains(&number))?;
        Some(Self::Number { format, as_text })
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
        Self::Iso { format: format!("{DATE}{separator}%H:%M:%S{fraction}"), suffix }
    }

    pub fn format(&self) -> Format {
        if let Self::Number { format, .. } = self { *format } else { Format::Iso }
    }

    /// Whether what is written so is read as the same instant, to the second.
    pub fn reads_back(&self, dates: &Dates) -> bool {
        dates.read(&self.example(&dates.zone)) == Some(EXAMPLE)
    }

    pub fn example(&self, zone: &Zone) -> Value {
        self.write(EXAMPLE, zone)
    }

    pub fn is_text(&self) -> bool {
        matches!(self, Self::Iso { .. } | Self::Number { as_text: true, .. })
    }

    /// Whether what is spelt so sorts as time passes.
    pub fn sorts(&self, zone: &Zone) -> bool {
        match self {
            Self::Number { format, .. } if *format != Format::Compact => true,
            Self::Iso { format, .. } if format == DATE => false,
            Self::Iso { suffix, .. } if !suffix.is_empty() => true,
            Self::Number { .. } | Self::Iso { .. } => zone.fixed_secs().is_some(),
        }
    }

    pub fn write(&self, at: Instant, zone: &Zone) -> Value {
        match self {
            Self::Number { format, as_text } => {
                let number = match format.per_second() {
                    Some(unit) => at.0.saturating_mul(unit).to_string(),
                    None => zone.shown(at).format("%Y%m%d%H%M%S").to_string(),
                };
                let as_number = number.parse().ok().filter(|_| !as_text);
                as_number.map_or(Value::Text(number), Value::Integer)
            }
            // The usual spelling is that of the program itself, which is written without a format.
            Self::Iso { format, suffix } if format == RFC3339 && suffix == "Z" => {
                Value::Text(writable(at).to_string())
            }
            Self::Iso { format, suffix } => {
                let shown = if suffix.is_empty() { zone.shown(at) } else { Zone::UTC.shown(at) };
                Value::Text(format!("{}{suffix}", shown.format(format)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Instant = Instant(1_795_232_400);

    fn dates(format: &str, zone: &str) -> Dates {
        Dates { format: format.parse().ok(), zone: zone_of(zone) }
    }

    fn zone_of(name: &str) -> Zone {
        let rules = || std::fs::read(format!("/usr/share/zoneinfo/{name}")).unwrap();
        Zone::fixed(name).unwrap_or_else(|| Zone::from_rules(&rules()).unwrap())
    }

    fn text(text: &str) -> Value {
        Value::Text(text.into())
    }

    #[test]
    fn the_usual_spelling_is_that_of_its_format() {
        let by_format = |at| Value::Text(format!("{}Z", Zone::UTC.shown(at).format(RFC3339)));
        for secs in [i64::MIN, -62_167_219_200, -1, 0, AT.0, 253_402_300_799, i64::MAX] {
            let at = Instant(secs);
            assert_eq!(Spelling::rfc3339().write(at, &Zone::UTC), by_format(at), "{secs}");
        }
    }

    #[test]
    fn every_format_is_told_by_the_value_itself_and_written_back_the_same() {
        let any = Dates::default();
        for (value, spelt) in [
            (text("2026-11-21T03:40:00Z"), None),
            (text("2026-11-21 03:40:00"), None),
            (text("2026-11-21 03:40:00.000000"), None),
            (text("2026-11-21T03:40:00.000+00:00"), None),
            (text("2026-11-21 03:40:00+0000"), None),
            (text("2026-11-21 03:40:00 UTC"), None),
            (text("2026-11-20 22:40:00-05:00"), Some(text("2026-11-21 03:40:00+00:00"))),
            (text("2026-11-21 03:40"), Some(text("2026-11-21 03:40:00"))),
            (text("20261121034000"), None),
            (Value::Integer(20_261_121_034_000), None),
            (Value::Integer(1_795_232_400), None),
            (Value::Integer(1_795_232_400_000), None),
            (Value::Integer(1_795_232_400_000_000), None),
            (Value::Integer(1_795_232_400_000_000_000), None),
            (Value::Real(1_795_232_400.9), Some(Value::Integer(1_795_232_400))),
        ] {
            assert_eq!(any.read(&value), Some(AT), "{value:?}");
            let spelling = Spelling::of(&value, &any).unwrap();
            assert_eq!(spelling.write(AT, &any.zone), spelt.unwrap_or(value));
        }
        let day = Spelling::of(&text("2026-11-20"), &any).unwrap();
        assert_eq!(day.write(AT, &any.zone), text("2026-11-21"));
    }

    #[test]
    fn what_is_no_date_is_not_guessed_at() {
        let any = Dates::default();
        for value in [
            text("0000-00-00 00:00:00"),
            text("0000-00-00"),
            text("1795232400"),
            text("20261321034000"),
            text("2026112103400"),
            Value::Integer(0),
            Value::Integer(2026),
            Value::Integer(20_261_121),
            Value::Integer(20_261_321_034_000),
            Value::Integer(i64::MIN),
            Value::Null,
            Value::Blob(b"2026-11-21".to_vec()),
        ] {
            assert_eq!(any.read(&value), None, "{value:?}");
        }
    }

    #[test]
    fn a_format_that_is_set_is_the_only_one() {
        for (format, good) in [
            ("iso", text("2026-11-21 03:40:00")),
            ("compact", text("20261121034000")),
            ("compact", Value::Integer(20_261_121_034_000)),
            ("epoch", Value::Integer(1_795_232_400)),
            ("epoch", text("1795232400")),
            ("epoch-ms", Value::Integer(1_795_232_400_000)),
            ("epoch-us", Value::Integer(1_795_232_400_000_000)),
            ("epoch-ns", text("1795232400000000000")),
        ] {
            for name in Format::value_variants().iter().map(Format::to_string) {
                let expected = (name == format).then_some(AT);
                assert_eq!(dates(&name, "UTC").read(&good), expected, "{good:?} as {name}");
            }
        }
    }

    #[test]
    fn a_zone_counts_where_the_value_has_none() {
        for (zone, shown, secs) in [
            ("+02:00", "2026-11-21 05:40:00", AT.0),
            ("Europe/Berlin", "2026-11-21 04:40:00", AT.0),
            ("Europe/Berlin", "20261121044000", AT.0),
            ("Europe/Berlin", "2026-07-01 12:00:00", 1_782_900_000),
            ("Europe/Berlin", "2026-07-01T10:00:00Z", 1_782_900_000),
            // Shown twice, and never.
            ("Europe/Berlin", "2026-10-25 02:30:00", 1_792_888_200),
            ("Europe/Berlin", "2026-03-29 02:30:00", 1_774_747_800),
        ] {
            assert_eq!(dates("", zone).read(&text(shown)), Some(Instant(secs)), "{shown} {zone}");
        }
        let berlin = dates("", "Europe/Berlin");
        let spelling = Spelling::of(&text("2026-11-21 04:40:00"), &berlin).unwrap();
        assert_eq!(spelling.write(AT, &berlin.zone), text("2026-11-21 04:40:00"));
        assert!(!spelling.sorts(&berlin.zone) && spelling.sorts(&Zone::UTC));
        assert_eq!((Zone::fixed("utc"), Zone::fixed("UTC+2")), (Some(Zone::UTC), None));
    }

    #[test]
    fn each_date_lies_in_one_stretch_and_only_if_it_can_be_within() {
        let any = Dates::default();
        let values = [
            text("2026-11-21 03:40:00"),
            text("2026-11-21T03:40:00Z"),
            text("20261121034000"),
            Value::Integer(20_261_121_034_000),
            Value::Integer(1_795_232_400),
            Value::Integer(1_795_232_400_000),
            Value::Integer(1_795_232_400_000_000),
            Value::Integer(1_795_232_400_000_000_000),
        ];
        let lies_in = |value: &Value, stretch: &Stretch| match (value, &stretch.from, &stretch.to) {
            (Value::Integer(it), Value::Integer(from), Value::Integer(to)) => it >= from && it < to,
            (Value::Text(it), Value::Text(from), Value::Text(to)) => it >= from && it < to,
            _ => false,
        };
        let (before, after) = (AT.saturating_sub(3 * DAY), AT.saturating_add(3 * DAY));
        for (from, until, expected) in [
            (before, None, 1),
            (before, Some(after), 1),
            (Instant(i64::MIN), Some(after), 1),
            (Instant(i64::MIN), None, 1),
            (AT, Some(AT.saturating_add(1)), 1),
            (after, None, 0),
            (before, Some(before), 0),
        ] {
            for value in &values {
                let stretches = any.stretches(from, until);
                let found = stretches.iter().filter(|it| lies_in(value, it)).count();
                // Text in two formats is walked as it sorts, and so may be met in vain.
                let is_met_in_vain = matches!(value, Value::Text(_)) && found == 1;
                let text = format!("{value:?} in {from:?}..{until:?}");
                assert!(found == expected || is_met_in_vain, "{found}: {text}");
            }
        }
    }
}

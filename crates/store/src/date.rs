//! Date formats of tables: every spelling is read, and each column is written in its own.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use backlog_schedule::{DAY, Instant, Iso, Value, WRITABLE};
use chrono::{DateTime, FixedOffset, NaiveDateTime};

use crate::clock::Clock;

#[derive(Debug, Clone, PartialEq)]
pub struct Dates {
    /// The only one that counts; without it each value is read as what it looks like.
    pub format: Option<Format>,
    /// The format of numbers, where `format` leaves it open and their size does not tell it.
    pub numbers: Option<Format>,
    /// What the clock showed that wrote a date without a zone.
    pub zone: Zone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `2026-11-21 03:40:00` and its many relatives.
    Iso,
    /// `20261121034000`, as text or as a number.
    Compact,
    Epoch,
    EpochMs,
    EpochUs,
    EpochNs,
    /// Units of 100 ns since the year 1, as .NET counts them.
    Ticks,
    /// Units of 100 ns since 1601, as Windows counts them.
    Filetime,
    /// Seconds or nanoseconds since 2001, as Core Data and `CFAbsoluteTime` count them.
    Apple,
    AppleNs,
}

/// Units in a second, and the instant from which they count: 1970, or January 1 of the year 1, 1601 or 2001.
type Scale = (i64, i64);

const FORMATS: [(Format, &str, Option<Scale>); 10] = [
    (Format::Iso, "iso", None),
    (Format::Compact, "compact", None),
    (Format::Epoch, "epoch", Some((1, 0))),
    (Format::EpochMs, "epoch-ms", Some((1_000, 0))),
    (Format::EpochUs, "epoch-us", Some((1_000_000, 0))),
    (Format::EpochNs, "epoch-ns", Some((1_000_000_000, 0))),
    (Format::Ticks, "ticks", Some((10_000_000, -62_135_596_800))),
    (Format::Filetime, "filetime", Some((10_000_000, -11_644_473_600))),
    (Format::Apple, "apple", Some((1, YEAR_2001))),
    (Format::AppleNs, "apple", Some((1_000_000_000, YEAR_2001))),
];
const YEAR_2001: i64 = 978_307_200;

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
        let found = FORMATS.iter().find(|(_, name, _)| *name == text);
        found.map(|(format, ..)| *format).ok_or_else(|| {
            let mut names = FORMATS.map(|(_, name, _)| name).to_vec();
            names.dedup();
            format!("{text:?} is no format of dates; legal are {}", names.join(", "))
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, name, _) = FORMATS[*self as usize];
        f.write_str(name)
    }
}

impl Format {
    /// Those that the size of a number tells apart, in the order of the numbers.
    const DETECTED: [Self; 5] =
        [Self::Epoch, Self::EpochMs, Self::Compact, Self::EpochUs, Self::EpochNs];
    /// Those that must be named, because their numbers look like others.
    pub const NAMED_ONLY: [Self; 3] = [Self::Ticks, Self::Filetime, Self::Apple];

    /// Every format that has a name. Apple's stands for both of its units.
    pub fn readable() -> impl Iterator<Item = Self> {
        FORMATS.into_iter().map(|(format, ..)| format).filter(|format| *format != Self::AppleNs)
    }

    fn scale(self) -> Option<Scale> {
        let (.., scale) = FORMATS[self as usize];
        scale
    }

    /// Numbers that can be an instant in this format: the years 1973 to 2286, of nanoseconds to 2262, of
    /// Apple's from 2004 on. So the size of a number says which of [`Format::DETECTED`] it has, if any.
    pub fn range(self) -> Range<i64> {
        let Some((unit, origin)) = self.scale() else { return COMPACT };
        let [first, last] = [LEAST.max(LEAST - origin), 100 * LEAST - origin];
        first.saturating_mul(unit)..last.saturating_mul(unit)
    }

    /// An instant as such a number, cut to what can be one.
    pub fn number(self, at: Instant) -> i64 {
        let number = match self.scale() {
            Some((unit, origin)) => at.0.saturating_sub(origin).saturating_mul(unit),
            None if at.0 < 0 => COMPACT.start,
            None => compact_bound(at).parse().map_or(i64::MAX, |day: i64| day * 1_000_000),
        };
        number.clamp(self.range().start, self.range().end)
    }
}

/// The least number of seconds that is read as an instant.
pub const LEAST: i64 = 100_000_000;

/// `YYYYMMDDHHMMSS` from 1970 on: between the milliseconds and the microseconds.
const COMPACT: Range<i64> = 19_700_101_000_000..100_000_000_000_000;

impl Default for Dates {
    fn default() -> Self {
        Self { format: None, numbers: None, zone: Zone::UTC }
    }
}

#[derive(Clone, Copy)]
enum Reading {
    At(Instant),
    /// What the clock of the zone showed, in seconds as a clock of UTC shows them.
    Shown(i64),
}

impl Dates {
    /// The instant that a value stands for. NULL, 0, '0000-00-00' and what cannot be read are none.
    pub fn read(&self, value: &Value) -> Option<Instant> {
        self.reading(value).map(|reading| self.first(reading))
    }

    pub fn read_text(&self, text: &str) -> Option<Instant> {
        self.reading_of_text(text).map(|reading| self.first(reading))
    }

    /// The instant in a cell. Of an hour that the clock showed twice, the latest that is not after now.
    pub fn read_past(&self, cell: Result<&str, Value>, clock: &Clock) -> Option<Instant> {
        let reading =
            cell.map_or_else(|value| self.reading(&value), |text| self.reading_of_text(text))?;
        if let Reading::Shown(shown) = reading
            && self.zone.fixed_secs().is_none()
        {
            let [first, second] = self.zone.instants(shown);
            return Some(if first < second && second <= clock.now() { second } else { first });
        }
        Some(self.first(reading))
    }

    fn first(&self, reading: Reading) -> Instant {
        match reading {
            Reading::At(at) => at,
            Reading::Shown(shown) => self.zone.instant(shown),
        }
    }

    fn reading(&self, value: &Value) -> Option<Reading> {
        match value {
            Value::Text(text) => self.reading_of_text(text),
            Value::Integer(_) | Value::Real(_) | Value::Json(_) => self.of_number(number(value)?),
            Value::Null | Value::Bytes(_) | Value::Blob(_) | Value::Boolean(_) => None,
        }
    }

    fn of_number(&self, number: i64) -> Option<Reading> {
        let format = self.format_of(number)?;
        match format.scale() {
            Some((unit, origin)) => Some(Reading::At(Instant(number.div_euclid(unit) + origin))),
            None => compact(&number.to_string()),
        }
    }

    fn format_of(&self, number: i64) -> Option<Format> {
        self.numbers().find(|format| format.range().contains(&number))
    }

    fn reading_of_text(&self, text: &str) -> Option<Reading> {
        match self.format {
            None | Some(Format::Compact) if is_compact(text) => compact(text),
            None | Some(Format::Iso) => {
                if let Some(at) = Instant::parse_own(text) {
                    return Some(Reading::At(at));
                }
                let Iso { at, has_zone, .. } = Iso::parse(text)?;
                let secs = at.and_utc().timestamp();
                Some(if has_zone { Reading::At(Instant(secs)) } else { Reading::Shown(secs) })
            }
            // Text of digits is not guessed at.
            Some(Format::Compact) => None,
            Some(_) => {
                let whole = text.split_once('.').map_or(text, |(whole, _)| whole);
                self.of_number(whole.parse().ok().filter(|_| is_number(text))?)
            }
        }
    }

    /// The stretches of a column that can hold an instant of a window, in descending order, without overlap.
    pub fn stretches(&self, from: Instant, until: Option<Instant>) -> Vec<Stretch> {
        let until = until.unwrap_or(Instant(i64::MAX));
        // A day wider on either side, because a clock may differ from UTC.
        let (early, late) = (from.saturating_sub(DAY), until.saturating_add(2 * DAY));
        let text = match self.format {
            // Extended and basic in one stretch, because each must be walked in the column's own order. SQLite
            // would compare digits alone with a column of type datetime as a number.
            None | Some(Format::Iso) => {
                [text_bound(early, &Instant::date), compact_bound(late) + "-"]
            }
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
    pub fn numbers(&self) -> impl DoubleEndedIterator<Item = Format> + use<> {
        let named = self.format.or(self.numbers);
        let formats = match named {
            None => Format::DETECTED.map(Some),
            Some(Format::Iso) => [None; 5],
            Some(Format::Apple) => [named, Some(Format::AppleNs), None, None, None],
            Some(_) => [named, None, None, None, None],
        };
        formats.into_iter().flatten()
    }

    /// The formats that have to be named for numbers, with the instant that each makes of this one.
    pub fn other_readings(&self, value: &Value) -> impl Iterator<Item = (Format, Instant)> {
        Format::NAMED_ONLY.into_iter().filter_map(|format| {
            let dates = Self { format: Some(format), ..self.clone() };
            Some((format, dates.read(value)?))
        })
    }
}

/// The whole number that a value is or that is next below it. A cast that saturates is out of range.
fn number(value: &Value) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "what saturates is out of every range")]
    match value {
        Value::Integer(number) => Some(*number),
        Value::Real(number) => Some(number.floor() as i64),
        Value::Json(number) => {
            number.parse().ok().or_else(|| Some(number.parse::<f64>().ok()?.floor() as i64))
        }
        Value::Null | Value::Text(_) | Value::Bytes(_) | Value::Blob(_) | Value::Boolean(_) => None,
    }
}

fn compact(digits: &str) -> Option<Reading> {
    let shown = NaiveDateTime::parse_from_str(digits, "%Y%m%d%H%M%S").ok()?;
    Some(Reading::Shown(shown.and_utc().timestamp()))
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
    text.len() == 14 && is_digits(text)
}

pub fn is_number(text: &str) -> bool {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    is_digits(whole) && is_digits(fraction)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
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

    /// The instant at which the clock showed this. Of an hour that it showed twice the first is meant.
    pub fn instant(&self, shown: i64) -> Instant {
        self.instants(shown)[0]
    }

    /// The first and the last time when the clock showed that; mostly the same.
    fn instants(&self, shown: i64) -> [Instant; 2] {
        let (before, after) = (self.ahead(shown - DAY), self.ahead(shown + DAY));
        let [first, second] = [before, after].map(|ahead| shown - ahead);
        let [is_first, is_second] =
            [(first, before), (second, after)].map(|(at, ahead)| self.ahead(at) == ahead);
        match (is_first, is_second) {
            (true, true) => [Instant(first), Instant(second)],
            (false, true) => [Instant(second); 2],
            (true | false, false) => [Instant(first); 2],
        }
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

const DATE: &str = "%Y-%m-%d";

/// The spelling of instants in one column. An ISO date has a format of chrono, and UTC's name as its suffix.
#[derive(Debug, Clone, PartialEq)]
pub enum Spelling {
    Number { format: Format, as_text: bool },
    Iso { format: String, suffix: String },
}

/// The program's own: RFC 3339 in UTC.
impl Default for Spelling {
    fn default() -> Self {
        Self::Iso { format: RFC3339.into(), suffix: "Z".into() }
    }
}

impl Spelling {
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

    /// That of the format which is named for a column of text or numbers that is still empty.
    pub fn named(dates: &Dates, as_text: bool) -> Option<Self> {
        let format = dates.format.or(dates.numbers)?;
        let is_iso = format == Format::Iso;
        Some(if is_iso { Self::default() } else { Self::Number { format, as_text } })
    }

    pub fn of(value: &Value, dates: &Dates) -> Option<Self> {
        dates.read(value)?;
        let (number, as_text) = if let Value::Text(text) = value {
            if is_compact(text) {
                return Some(Self::Number { format: Format::Compact, as_text: true });
            }
            let whole = text.split_once('.').map_or(text.as_str(), |(whole, _)| whole);
            let Ok(number) = whole.parse() else { return Self::of_iso(text) };
            (number, true)
        } else {
            (number(value)?, false)
        };
        Some(Self::Number { format: dates.format_of(number)?, as_text })
    }

    fn of_iso(text: &str) -> Option<Self> {
        let Iso { day, separator, clock, zone, .. } = Iso::parse(text)?;
        if separator.is_empty() {
            return Some(Self::date());
        }
        let date = if day.contains('-') { DATE } else { "%Y%m%d" };
        let time = if clock.len() == 2 || clock.contains(':') { "%H:%M:%S" } else { "%H%M%S" };
        let fraction = clock.trim_start_matches(|c: char| c.is_ascii_digit() || c == ':');
        let fraction = fraction.replace(|c: char| c.is_ascii_digit(), "0");
        // What is written is UTC, in the same form.
        let suffix = zone.replace(['-', '\u{2212}'], "+");
        let suffix = suffix.replace(|c: char| c.is_ascii_digit(), "0");
        Some(Self::Iso { format: format!("{date}{separator}{time}{fraction}"), suffix })
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

    /// Whether each instant has a spelling of its own: not where a clock shows an hour twice.
    pub fn is_unique(&self, zone: &Zone) -> bool {
        let is_local = match self {
            Self::Number { format, .. } => *format == Format::Compact,
            Self::Iso { suffix, .. } => suffix.is_empty(),
        };
        !is_local || zone.fixed_secs().is_some()
    }

    /// Whether what is spelt so sorts as time passes.
    pub fn sorts(&self, zone: &Zone) -> bool {
        let is_date = matches!(self, Self::Iso { format, .. } if format == DATE);
        !is_date && self.is_unique(zone)
    }

    pub fn write(&self, at: Instant, zone: &Zone) -> Value {
        match self {
            Self::Number { format, as_text } => {
                let number = match format.scale() {
                    Some((unit, origin)) => {
                        at.0.saturating_sub(origin).saturating_mul(unit).to_string()
                    }
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
        Dates { format: format.parse().ok(), zone: zone_of(zone), ..Dates::default() }
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
            assert_eq!(Spelling::default().write(at, &Zone::UTC), by_format(at), "{secs}");
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
            (Value::Real(1_795_232_400_900.0), Some(Value::Integer(1_795_232_400_000))),
            (text("20261121T034000Z"), None),
            (text("20261121T034000,000+00"), None),
            (text("2026-11-21T034000Z"), None),
            (text("2026-11-21\u{a0}03:40:00"), None),
            (text("2026-11-21T03:40:00,000Z"), None),
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
            ("ticks", Value::Integer(639_308_292_000_000_000)),
            ("ticks", text("639308292000000000")),
            ("filetime", Value::Integer(134_397_060_000_000_000)),
            ("apple", Value::Integer(816_925_200)),
            ("apple", Value::Real(816_925_200.25)),
            ("apple", Value::Integer(816_925_200_000_000_000)),
        ] {
            for name in FORMATS.map(|(_, name, _)| name) {
                let read = dates(name, "UTC").read(&good);
                // By its size alone a number may be a date of another time.
                assert_eq!(read == Some(AT), name == format, "{good:?} as {name}");
            }
            let named = dates(format, "UTC");
            let spelling = Spelling::of(&good, &named).unwrap();
            assert_eq!(named.read(&spelling.write(AT, &Zone::UTC)), Some(AT), "{good:?}");
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
        let cell = |shown| Ok::<_, Value>(shown);
        for (now, secs) in
            [(0, 1_792_888_200), (1_792_891_799, 1_792_888_200), (1_792_891_800, 1_792_891_800)]
        {
            let clock = Clock::at(Instant(now));
            let at = berlin.read_past(cell("2026-10-25 02:30:00"), &clock);
            assert_eq!(at, Some(Instant(secs)), "the hour that comes twice, at {now}");
            let at = berlin.read_past(cell("2026-10-25 02:30:00+02:00"), &clock);
            assert_eq!(at, Some(Instant(1_792_888_200)), "an offset leaves no doubt");
        }
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

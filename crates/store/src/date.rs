//! Date formats of tables: dates are read in every spelling, and written in the spelling of their column.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use backlog_schedule::{DAY, Instant, Iso, Value, WRITABLE};
use chrono::{DateTime, FixedOffset, NaiveDateTime};

use crate::clock::Clock;

#[derive(Debug, Clone, PartialEq)]
pub struct Dates {
    /// The only format that is read. Without it, the format of each value is detected.
    pub format: Option<Format>,
    /// The format of numbers, if `format` is not set and the size of the numbers does not tell.
    pub numbers: Option<Format>,
    /// Time zone of dates without one.
    pub zone: Zone,
    /// The format of the column's newest rows, and the plausible instants. An earlier one is no date if its number is
    /// detected as another format, or is plausible in a format that must be named.
    pub usual: Option<(Format, Range<Instant>)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `2026-11-21 03:40:00` and the other spellings of ISO 8601 and SQL.
    Iso,
    /// `20261121034000`, as text or as a number.
    Compact,
    Epoch,
    EpochMs,
    EpochUs,
    EpochNs,
    /// Units of 100 ns since the year 1 (.NET).
    Ticks,
    /// Units of 100 ns since 1601 (Windows).
    Filetime,
    /// Seconds since 2001 (Core Data, `CFAbsoluteTime`).
    Apple,
    /// Nanoseconds since 2001.
    AppleNs,
}

/// Number of units in a second, and the epoch in seconds since 1970: 1970, or January 1 of the year 1, 1601 or 2001.
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

#[derive(Debug, Clone, PartialEq)]
pub struct ValueRange {
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
            format!("{text:?} is not a format of dates; use one of {}", names.join(", "))
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
    /// Formats that are detected by the size of a number, in the order of their numbers.
    const DETECTED: [Self; 5] =
        [Self::Epoch, Self::EpochMs, Self::Compact, Self::EpochUs, Self::EpochNs];
    /// Formats that must be named, because their numbers look like those of other formats.
    pub const NAMED_ONLY: [Self; 3] = [Self::Ticks, Self::Filetime, Self::Apple];

    /// All formats by name. `apple` means both of Apple's units.
    pub fn readable() -> impl Iterator<Item = Self> {
        FORMATS.into_iter().map(|(format, ..)| format).filter(|format| *format != Self::AppleNs)
    }

    fn scale(self) -> Option<Scale> {
        let (.., scale) = FORMATS[self as usize];
        scale
    }

    /// Numbers of the years 1973 to 2286, nanoseconds to 2262, Apple's from 2004. No two of [`Self::DETECTED`] overlap.
    pub fn range(self) -> Range<i64> {
        let Some((unit, origin)) = self.scale() else { return COMPACT };
        let [first, last] = [LEAST.max(LEAST - origin), 100 * LEAST - origin];
        first.saturating_mul(unit)..last.saturating_mul(unit)
    }

    /// Lower bound of the numbers of an instant, clamped to [`Format::range`].
    pub fn number(self, at: Instant) -> i64 {
        let number = match self.scale() {
            Some((unit, origin)) => at.0.saturating_sub(origin).saturating_mul(unit),
            None if at.0 < 0 => COMPACT.start,
            None => compact_bound(at).parse().map_or(i64::MAX, |day: i64| day * 1_000_000),
        };
        number.clamp(self.range().start, self.range().end)
    }
}

/// Plausible dates of records: ten years back, one year ahead.
pub fn plausible(now: Instant) -> Range<Instant> {
    now.saturating_sub(3_652 * DAY)..now.saturating_add(365 * DAY)
}

/// Minimum number of seconds that is read as an instant.
pub const LEAST: i64 = 100_000_000;

/// `YYYYMMDDHHMMSS` from 1970 on: larger than milliseconds, smaller than microseconds.
const COMPACT: Range<i64> = 19_700_101_000_000..100_000_000_000_000;

impl Default for Dates {
    fn default() -> Self {
        Self { format: None, numbers: None, zone: Zone::UTC, usual: None }
    }
}

#[derive(Clone, Copy)]
enum Reading {
    Instant(Instant),
    /// Local time in the zone, in seconds as if it were UTC.
    Local(i64),
}

impl Dates {
    /// The instant in a value. NULL, 0, '0000-00-00' and unreadable values have none.
    pub fn read(&self, value: &Value) -> Option<Instant> {
        self.reading(value).map(|reading| self.first(reading))
    }

    pub fn read_text(&self, text: &str) -> Option<Instant> {
        self.reading_of_text(text).map(|reading| self.first(reading))
    }

    /// The instant in a cell. In the hour that the clock shows twice, it is the second one if past, else the first.
    pub fn read_past(&self, cell: Result<&str, Value>, clock: &Clock) -> Option<Instant> {
        let reading =
            cell.map_or_else(|value| self.reading(&value), |text| self.reading_of_text(text))?;
        if let Reading::Local(local) = reading
            && self.zone.fixed_secs().is_none()
        {
            let [first, second] = self.zone.instants(local);
            return Some(if first < second && second <= clock.now() { second } else { first });
        }
        Some(self.first(reading))
    }

    fn first(&self, reading: Reading) -> Instant {
        match reading {
            Reading::Instant(at) => at,
            Reading::Local(local) => self.zone.instant(local),
        }
    }

    fn reading(&self, value: &Value) -> Option<Reading> {
        match value {
            Value::Text(text) => self.reading_of_text(text),
            Value::Integer(_) | Value::Real(_) | Value::Json(_) => {
                self.reading_of_number(whole_number(value)?)
            }
            Value::Null | Value::Bytes(_) | Value::Blob(_) | Value::Boolean(_) => None,
        }
    }

    fn reading_of_number(&self, number: i64) -> Option<Reading> {
        let format = self.format_of(number)?;
        match format.scale() {
            Some((unit, origin)) => {
                let at = Instant(number.div_euclid(unit) + origin);
                let is_detected = self.format.or(self.numbers).is_none();
                let usual = self.usual.as_ref().filter(|_| is_detected);
                let is_foreign = usual.is_some_and(|(usual, plausible)| {
                    at < plausible.start
                        && (format != *usual || self.is_otherwise_within(number, plausible))
                });
                (!is_foreign).then_some(Reading::Instant(at))
            }
            None => parse_compact(&number.to_string()),
        }
    }

    fn format_of(&self, number: i64) -> Option<Format> {
        self.numbers().find(|format| format.range().contains(&number))
    }

    fn reading_of_text(&self, text: &str) -> Option<Reading> {
        match self.format {
            None | Some(Format::Compact) if is_compact(text) => parse_compact(text),
            None | Some(Format::Iso) => {
                if let Some(at) = Instant::parse_own(text) {
                    return Some(Reading::Instant(at));
                }
                let Iso { at, has_zone, .. } = Iso::parse(text)?;
                let secs = at.and_utc().timestamp();
                Some(if has_zone { Reading::Instant(Instant(secs)) } else { Reading::Local(secs) })
            }
            Some(Format::Compact) => None,
            Some(_) => {
                let whole = text.split_once('.').map_or(text, |(whole, _)| whole);
                self.reading_of_number(whole.parse().ok().filter(|_| is_number(text))?)
            }
        }
    }

    /// The ranges of a column that can hold an instant of a window, in descending order, without overlap.
    pub fn value_ranges(&self, from: Instant, until: Option<Instant>) -> Vec<ValueRange> {
        let until = until.unwrap_or(Instant(i64::MAX));
        // A day earlier and two days later: local time differs from UTC, and the upper bound is a midnight.
        let (early, late) = (from.saturating_sub(DAY), until.saturating_add(2 * DAY));
        let text = match self.format {
            // Extended and basic dates share a range, because rows are read in the column's order. The hyphen keeps
            // SQLite from comparing the digits as a number with a column of type datetime.
            None | Some(Format::Iso) => {
                [text_bound(early, &Instant::date), compact_bound(late) + "-"]
            }
            Some(Format::Compact) => [early, late].map(compact_bound),
            // Numbers as text do not sort by value.
            Some(_) => ["0".into(), ":".into()],
        };
        let [first, last] = text.map(Value::Text);
        let mut value_ranges = vec![ValueRange { from: first, to: last, is_text: true }];
        let numbers = self.numbers().rev().map(|format| {
            let is_compact = format == Format::Compact;
            let (from, until) = if is_compact { (early, late) } else { (from, until) };
            let [from, to] = [from, until].map(|at| Value::Integer(format.number(at)));
            ValueRange { from, to, is_text: false }
        });
        value_ranges.extend(numbers);
        value_ranges
    }

    /// Formats in which numbers are read, in the order of the numbers.
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

    fn is_otherwise_within(&self, number: i64, range: &Range<Instant>) -> bool {
        self.other_readings(&Value::Integer(number)).any(|(_, at)| range.contains(&at))
    }

    pub fn other_readings(&self, value: &Value) -> impl Iterator<Item = (Format, Instant)> {
        Format::NAMED_ONLY.into_iter().filter_map(|format| {
            let dates = Self { format: Some(format), ..self.clone() };
            Some((format, dates.read(value)?))
        })
    }
}

/// A number, rounded down.
fn whole_number(value: &Value) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "saturated numbers are out of every range")]
    match value {
        Value::Integer(number) => Some(*number),
        Value::Real(number) => Some(number.floor() as i64),
        Value::Json(number) => {
            number.parse().ok().or_else(|| Some(number.parse::<f64>().ok()?.floor() as i64))
        }
        Value::Null | Value::Text(_) | Value::Bytes(_) | Value::Blob(_) | Value::Boolean(_) => None,
    }
}

fn parse_compact(digits: &str) -> Option<Reading> {
    let local = NaiveDateTime::parse_from_str(digits, "%Y%m%d%H%M%S").ok()?;
    Some(Reading::Local(local.and_utc().timestamp()))
}

/// A text that sorts as the instant does: below all digits before the year 0, above all digits after 9999.
pub fn text_bound(at: Instant, write: &dyn Fn(&Instant) -> String) -> String {
    if at.0 < *WRITABLE.start() {
        "/".into()
    } else if at.0 > *WRITABLE.end() {
        ":".into()
    } else {
        write(&at)
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
    /// Number of seconds ahead of UTC.
    Fixed(i64),
    Named(Arc<tz::TimeZone>),
}

impl Zone {
    pub const UTC: Self = Self::Fixed(0);

    /// Parses `UTC`, `Z` or `+02:00`.
    pub fn fixed(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case("UTC") || text.eq_ignore_ascii_case("Z") {
            return Some(Self::UTC);
        }
        let offset = text.parse::<FixedOffset>().ok()?;
        Some(Self::Fixed(offset.local_minus_utc().into()))
    }

    /// Reads a file of the time zone database (RFC 8536).
    pub fn from_rules(file: &[u8]) -> Option<Self> {
        tz::TimeZone::from_tz_data(file).ok().map(|rules| Self::Named(Arc::new(rules)))
    }

    /// Number of seconds ahead of UTC; `None` for a zone whose offset changes.
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

    /// The instant of a local time; the first one in the hour that the clock shows twice.
    pub fn instant(&self, local: i64) -> Instant {
        self.instants(local)[0]
    }

    /// The first and the last instant of a local time. They differ only in the hour that the clock shows twice.
    fn instants(&self, local: i64) -> [Instant; 2] {
        let (before, after) = (self.ahead(local - DAY), self.ahead(local + DAY));
        let [first, second] = [before, after].map(|ahead| local - ahead);
        let [is_first, is_second] =
            [(first, before), (second, after)].map(|(at, ahead)| self.ahead(at) == ahead);
        match (is_first, is_second) {
            (true, true) => [Instant(first), Instant(second)],
            (false, true) => [Instant(second); 2],
            (true | false, false) => [Instant(first); 2],
        }
    }

    fn local_time(&self, at: Instant) -> NaiveDateTime {
        let at = writable(at).0;
        DateTime::from_timestamp(at + self.ahead(at), 0).unwrap_or_default().naive_utc()
    }
}

/// The nearest instant that can be written in every zone.
fn writable(at: Instant) -> Instant {
    Instant(at.0.clamp(*WRITABLE.start() + DAY, *WRITABLE.end() - DAY))
}

/// An instant with seconds that are not 0.
const EXAMPLE: Instant = Instant(1_795_232_401);

/// RFC 3339 without the zone, in the notation of chrono.
const RFC3339: &str = "%Y-%m-%dT%H:%M:%S";

const DATE: &str = "%Y-%m-%d";

/// The spelling of dates in one column. An ISO date has a format of chrono and a suffix for UTC.
#[derive(Debug, Clone, PartialEq)]
pub enum Spelling {
    Number { format: Format, as_text: bool },
    Iso { format: String, suffix: String },
}

impl Default for Spelling {
    fn default() -> Self {
        Self::Iso { format: RFC3339.into(), suffix: "Z".into() }
    }
}

impl Spelling {
    pub fn sql() -> Self {
        Self::Iso { format: "%Y-%m-%d %H:%M:%S".into(), suffix: String::new() }
    }

    pub fn date() -> Self {
        Self::Iso { format: DATE.into(), suffix: String::new() }
    }

    pub fn epoch() -> Self {
        Self::Number { format: Format::Epoch, as_text: false }
    }

    /// The spelling for an empty column of text or numbers, if a format is named.
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
            (whole_number(value)?, false)
        };
        Some(Self::Number { format: dates.format_of(number)?, as_text })
    }

    fn of_iso(text: &str) -> Option<Self> {
        let Iso { date, separator, time, zone, .. } = Iso::parse(text)?;
        if separator.is_empty() {
            return Some(Self::date());
        }
        let date_format = if date.contains('-') { DATE } else { "%Y%m%d" };
        let time_format = if time.len() == 2 || time.contains(':') { "%H:%M:%S" } else { "%H%M%S" };
        let fraction = time.trim_start_matches(|c: char| c.is_ascii_digit() || c == ':');
        let fraction = fraction.replace(|c: char| c.is_ascii_digit(), "0");
        // Dates are written in UTC, with the suffix in the same form.
        let suffix = zone.replace(['-', '\u{2212}'], "+");
        let suffix = suffix.replace(|c: char| c.is_ascii_digit(), "0");
        Some(Self::Iso {
            format: format!("{date_format}{separator}{time_format}{fraction}"),
            suffix,
        })
    }

    pub fn format(&self) -> Format {
        if let Self::Number { format, .. } = self { *format } else { Format::Iso }
    }

    /// True if a written instant is read as the same instant, to the second.
    pub fn reads_back(&self, dates: &Dates) -> bool {
        dates.read(&self.example(&dates.zone)) == Some(EXAMPLE)
    }

    pub fn example(&self, zone: &Zone) -> Value {
        self.write(EXAMPLE, zone)
    }

    pub fn is_text(&self) -> bool {
        matches!(self, Self::Iso { .. } | Self::Number { as_text: true, .. })
    }

    /// True if the zone leaves no doubt about the instant, unlike local time in the hour that a clock shows twice.
    pub fn is_unambiguous(&self, zone: &Zone) -> bool {
        let is_local = match self {
            Self::Number { format, .. } => *format == Format::Compact,
            Self::Iso { suffix, .. } => suffix.is_empty(),
        };
        !is_local || zone.fixed_secs().is_some()
    }

    pub fn sorts(&self, zone: &Zone) -> bool {
        let is_date = matches!(self, Self::Iso { format, .. } if format == DATE);
        !is_date && self.is_unambiguous(zone)
    }

    pub fn write(&self, at: Instant, zone: &Zone) -> Value {
        match self {
            Self::Number { format, as_text } => {
                let number = match format.scale() {
                    Some((unit, origin)) => {
                        at.0.saturating_sub(origin).saturating_mul(unit).to_string()
                    }
                    None => zone.local_time(at).format("%Y%m%d%H%M%S").to_string(),
                };
                let as_number = number.parse().ok().filter(|_| !as_text);
                as_number.map_or(Value::Text(number), Value::Integer)
            }
            // The usual spelling is written without a format, which is faster.
            Self::Iso { format, suffix } if format == RFC3339 && suffix == "Z" => {
                Value::Text(writable(at).to_string())
            }
            Self::Iso { format, suffix } => {
                let zone = if suffix.is_empty() { zone } else { &Zone::UTC };
                Value::Text(format!("{}{suffix}", zone.local_time(at).format(format)))
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
    fn the_usual_spelling_is_written_as_its_format() {
        let by_format = |at| Value::Text(format!("{}Z", Zone::UTC.local_time(at).format(RFC3339)));
        for secs in [i64::MIN, -62_167_219_200, -1, 0, AT.0, 253_402_300_799, i64::MAX] {
            let at = Instant(secs);
            assert_eq!(Spelling::default().write(at, &Zone::UTC), by_format(at), "{secs}");
        }
    }

    #[test]
    fn the_format_of_a_value_is_detected_and_kept() {
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
    fn other_values_are_not_dates() {
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
    fn a_format_that_is_set_is_the_only_one_read() {
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
    fn the_zone_applies_to_dates_without_one() {
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
    fn a_date_lies_in_one_range_if_it_can_be_in_the_window() {
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
        let lies_in = |value: &Value, range: &ValueRange| match (value, &range.from, &range.to) {
            (Value::Integer(at), Value::Integer(from), Value::Integer(to)) => at >= from && at < to,
            (Value::Text(at), Value::Text(from), Value::Text(to)) => at >= from && at < to,
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
                let value_ranges = any.value_ranges(from, until);
                let found = value_ranges.iter().filter(|range| lies_in(value, range)).count();
                // Text in two formats is walked as it sorts, and so may be met in vain.
                let is_met_in_vain = matches!(value, Value::Text(_)) && found == 1;
                let text = format!("{value:?} in {from:?}..{until:?}");
                assert!(found == expected || is_met_in_vain, "{found}: {text}");
            }
        }
    }
}

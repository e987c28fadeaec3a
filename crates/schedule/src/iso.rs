//! Dates of ISO 8601 and SQL, extended (`2026-11-21T03:40:00Z`) or basic (`20261121T034000Z`).

use std::ops::Range;

use chrono::{Days, FixedOffset, NaiveDate, NaiveDateTime};

#[derive(Debug, PartialEq, Eq)]
pub struct Iso<'a> {
    /// In UTC if the text has a zone, otherwise the local time in the text.
    pub at: NaiveDateTime,
    pub has_zone: bool,
    pub date: &'a str,
    /// `T` or blanks; empty if nothing follows the date.
    pub separator: &'a str,
    pub time: &'a str,
    /// The rest: blanks and the zone.
    pub zone: &'a str,
}

impl<'a> Iso<'a> {
    /// Parses `2026-11-21`, `2026-11-21 03:40`, `2026-11-21T03:40:00.5` or `20261121T034000`, followed by `Z`, ` UTC`,
    /// `+02:00`, `+0200`, `+02` or nothing. A decimal comma is legal, 24:00 is the end of the day, and any Unicode
    /// white space is a blank. Dates must sort as text, so 2026-9-5 is not one. A basic date needs a time.
    pub fn parse(text: &'a str) -> Option<Self> {
        let text = text.trim_end();
        let is_extended = text.as_bytes().get(4) == Some(&b'-');
        let (date, rest) = text.split_at_checked(if is_extended { 10 } else { 8 })?;
        let day = parse_date(date, is_extended)?;
        if rest.is_empty() {
            let at = day.and_hms_opt(0, 0, 0)?;
            let midnight = Self { at, has_zone: false, date, separator: "", time: "", zone: "" };
            return is_extended.then_some(midnight);
        }
        let (separator, rest) = rest.split_at_checked(rest.find(|c: char| c.is_ascii_digit())?)?;
        let is_separator = separator.eq_ignore_ascii_case("t") || separator.trim_start().is_empty();
        let end = rest.find(|c: char| !c.is_ascii_digit() && ![':', '.', ','].contains(&c));
        let (time, zone) = rest.split_at_checked(end.unwrap_or(rest.len()))?;
        let local = parse_time(time, day).filter(|_| is_separator && !separator.is_empty())?;
        let (at, has_zone) = match zone.trim_start() {
            "" => (local, false),
            "Z" | "z" | "UTC" => (local, true),
            offset => (local.checked_sub_offset(parse_offset(offset)?)?, true),
        };
        Some(Self { at, has_zone, date, separator, time, zone })
    }
}

fn parse_date(date: &str, is_extended: bool) -> Option<NaiveDate> {
    let (month, day) = if is_extended { (5..7, 8..10) } else { (4..6, 6..8) };
    let is_legal = has_shape(date, "0000-00-00") || has_shape(date, "00000000");
    let year = date.get(..4)?.parse().ok()?;
    NaiveDate::from_ymd_opt(year, number(date, month)?, number(date, day)?).filter(|_| is_legal)
}

/// Parses `03:40:00.5`, `03:40`, `034000`, `0340` or `03`. Fractions of a second are cut off.
fn parse_time(time: &str, day: NaiveDate) -> Option<NaiveDateTime> {
    let split = time.split_once(['.', ',']);
    let (whole, fraction) = split.unwrap_or((time, "0"));
    let has_seconds = has_shape(whole, "00:00:00") || has_shape(whole, "000000");
    let is_short = ["00:00", "0000", "00"].iter().any(|shape| has_shape(whole, shape));
    let is_fraction = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let is_time = has_seconds || is_short && split.is_none();
    if !is_time || !is_fraction {
        return None;
    }
    let step = if whole.contains(':') { 3 } else { 2 };
    let part = |at: usize| number(whole, at..at + 2).unwrap_or(0);
    let (hours, minutes, seconds) = (part(0), part(step), part(2 * step));
    if (hours, minutes, seconds) == (24, 0, 0) && fraction.bytes().all(|byte| byte == b'0') {
        return day.checked_add_days(Days::new(1))?.and_hms_opt(0, 0, 0);
    }
    // A leap second is read as the one before it.
    day.and_hms_opt(hours, minutes, if seconds == 60 { 59 } else { seconds })
}

/// Parses `+02:00`, `-0500` or `+02`. The sign may be the typographic minus of ISO 8601.
fn parse_offset(offset: &str) -> Option<FixedOffset> {
    let length = offset.chars().count();
    let is_legal = [3, 5, 6].contains(&length) && !offset.contains(char::is_whitespace);
    let minutes = if length == 3 { "00" } else { "" };
    format!("{offset}{minutes}").parse().ok().filter(|_| is_legal)
}

/// True if the text has digits where the shape has zeros, and the same characters elsewhere.
pub fn has_shape(text: &str, shape: &str) -> bool {
    let is_like = |(byte, like): (u8, u8)| byte == like || like == b'0' && byte.is_ascii_digit();
    text.len() == shape.len() && text.bytes().zip(shape.bytes()).all(is_like)
}

pub fn number(digits: &str, range: Range<usize>) -> Option<u32> {
    digits.get(range)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Option<i64> {
        Iso::parse(text).map(|iso| iso.at.and_utc().timestamp())
    }

    #[test]
    fn all_spellings_of_an_instant_are_equal() {
        for text in [
            "2026-11-21T03:40:00Z",
            "2026-11-21t03:40:00z",
            "2026-11-21 03:40:00",
            "2026-11-21  03:40:00",
            "2026-11-21T03:40",
            "2026-11-21 03:40:00.999",
            "2026-11-21T03:40:00,999Z",
            "2026-11-21 03:40:00 UTC",
            "2026-11-21T03:40:00UTC",
            "2026-11-21T05:40:00+02:00",
            "2026-11-21 05:40:00+0200",
            "2026-11-21 05:40:00 +02",
            "2026-11-20T22:40:00.25-05:00",
            "2026-11-20T22:40:00\u{2212}05:00",
            "2026-11-21T03:40:00Z \u{3000}",
            "2026-11-21\u{a0}03:40:00",
            "2026-11-21\u{202f}03:40:00\u{2009}Z",
            "20261121T034000Z",
            "20261121T034000.5Z",
            "20261121T0340",
            "20261121 034000",
            "2026-11-21T034000Z",
            "20261121T05:40:00+0200",
        ] {
            assert_eq!(at(text), Some(1_795_232_400), "{text}");
        }
        for (text, secs) in [
            ("2026-11-21", 1_795_219_200),
            ("2026-11-20T24:00", 1_795_219_200),
            ("2026-11-20T24:00:00,000Z", 1_795_219_200),
            ("2026-12-31T24:00:00Z", 1_798_761_600),
            ("20261121T03", 1_795_230_000),
            ("2026-11-21T03:40:60Z", 1_795_232_459),
        ] {
            assert_eq!(at(text), Some(secs), "{text}");
        }
    }

    #[test]
    fn other_texts_are_not_dates() {
        for text in [
            "",
            "now",
            "12:30",
            "0000-00-00",
            "0000-00-00 00:00:00",
            "2026-02-30",
            "2026-02-30T00:00:00Z",
            "2026-11-21T24:00:01Z",
            "2026-11-21T24:00:00.1Z",
            "2026-11-21T25:00:00Z",
            "2026-11-21T03:4x:00Z",
            "2026-11-21T03:40:00.",
            "2026-11-21T03:40.5",
            "2026-11-21T03:40:00.5.5",
            "2026-11-21T03:4",
            "2026-11-21T034:00",
            "2026-11-21T",
            "2026-11-21 Z",
            "2026-11-2103:40:00",
            "2026-11-21T03:40:00+2",
            "2026-11-21T03:40:00+02:60",
            "2026-11-21T03:40:00+99:00",
            "2026-11-21T03:40:00 CET",
            "2026-11-21 é03:40",
            "2026-11-2é03:40",
            "2026-1é",
            "é026-11-21",
            "2026-13-01",
            "20261120",
            "20261120101500",
            "1795232400",
            "2460000.5",
            "21.11.2026",
            " 2026-11-21T03:40:00Z",
            "+2026-11-21",
            "2026-9-5 10:00:00",
            "2026-11-2",
            "26-11-20",
            "026-11-20",
        ] {
            assert_eq!(at(text), None, "{text}");
        }
    }

    #[test]
    fn no_text_causes_a_panic() {
        for blank in
            (0..=u32::from(char::MAX)).filter_map(char::from_u32).filter(|c| c.is_whitespace())
        {
            for text in [
                format!("2026-11-21{blank}03:40:00"),
                format!("20261121{blank}034000"),
                format!("2026-11-21T03:40:00{blank}Z"),
                format!("2026-11-21T03:40:00{blank}"),
            ] {
                assert_eq!(at(&text), Some(1_795_232_400), "{text:?}");
            }
            assert_eq!(at(&format!("{blank}2026-11-21")), None);
        }
        let date = "2026-11-21T03:40:00.5+02:00";
        for place in 0..=date.len() {
            for sign in ["é", "\u{a0}", "😀", "\0", "-", ":", "."] {
                let (before, after) = date.split_at(place);
                Iso::parse(&format!("{before}{sign}{after}"));
                Iso::parse(&format!("{before}{sign}"));
            }
        }
    }
}

//! Notes in front of the last error: the end of a snooze, and then the mark of a series of attempts. An answer ends a
//! series, whose attempts share an idempotency key so that a receiver can treat them as one. Without a mark, a record
//! without an error is in its first series, and any other record in the series that began with its last failure.

use crate::time::{Instant, WRITABLE};

/// `snoozed until 2026-11-21T03:40:00Z: HTTP 429 Too Many Requests`
pub fn snoozed(until: Instant, error: &str) -> String {
    format!("snoozed until {until}: {error}")
}

pub fn split_snooze(last_error: &str) -> Option<(Instant, &str)> {
    let (until, error) = last_error.strip_prefix("snoozed until ")?.split_once(": ")?;
    Some((until.parse().ok()?, error))
}

pub fn snoozed_until(last_error: &str) -> Option<Instant> {
    split_snooze(last_error).map(|(until, _)| until)
}

fn without_snooze(last_error: &str) -> &str {
    split_snooze(last_error).map_or(last_error, |(_, error)| error)
}

/// The last error of a record while the outcome of its attempt is unknown.
pub fn begun(attempt: u32, at: Instant) -> String {
    format!("attempt {attempt} began at {at} {NOT_REPORTED}")
}

const NOT_REPORTED: &str = "and has not reported back";

/// True if the outcome of the last attempt is unknown: it runs, or its pass was killed.
pub fn is_begun(last_error: &str) -> bool {
    last_error.ends_with(NOT_REPORTED)
}

/// The error without the notes in front of it.
pub fn bare(last_error: &str) -> &str {
    let error = without_snooze(last_error);
    let unmarked = parse_mark(error).and_then(|_| error.split_once(": "));
    unmarked.map_or(error, |(_, error)| error)
}

/// Escapes an error of a handler that looks like the note of a snooze.
pub fn escape_snooze(error: &str) -> String {
    escape(error, split_snooze(error).is_some())
}

fn escape(error: &str, is_ambiguous: bool) -> String {
    if is_ambiguous { format!("failed: {error}") } else { error.into() }
}

pub const OPEN: &str = "outcome unknown";
/// Mark of an attempt that sent nothing, so that it does not answer the attempts before it.
pub const UNSENT: &str = "not sent";
/// Mark of an answered attempt whose instant does not number the next series.
const NEXT: &str = "next key ";

/// Lower numbers count the series; numbers from here on are instants.
const FIRST_INSTANT: i64 = 1_000_000_000;

/// The column that distinguishes one series of attempts from the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeriesSource {
    /// The instant of the answer, with a precision of a second; each attempt is charged.
    LastFailure,
    /// The mark in front of the last error.
    LastError,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Series {
    /// `None` for the first.
    pub number: Option<i64>,
    source: SeriesSource,
}

impl Series {
    pub(crate) fn read(last_error: &str, failed_at: Option<Instant>, source: SeriesSource) -> Self {
        let text = without_snooze(last_error);
        if let Some(number) = parse_mark(text) {
            return Self { number, source };
        }
        let failed_at = failed_at.filter(|_| source == SeriesSource::LastFailure);
        // An error without an instant: the record was restored, or another program wrote the error.
        let number = (!text.is_empty()).then(|| failed_at.map_or(0, |at| at.0));
        Self { number, source }
    }

    /// The last error after an attempt without an answer: `mark` is [`OPEN`] or [`UNSENT`].
    pub fn unanswered(self, mark: &str, error: &str) -> String {
        match self.number {
            None => format!("{mark}: {error}"),
            Some(number) => format!("{mark} (key {number}): {error}"),
        }
    }

    pub fn answered(self, error: &str, at: Instant) -> String {
        let next = |number: i64| format!("{NEXT}{number}: {error}");
        let before = self.number.map_or(0, |number| number.saturating_add(1));
        // A restored record has no instant, so its series are counted from then on.
        let is_counted = self.number.is_some_and(|number| number < FIRST_INSTANT);
        match self.source {
            SeriesSource::LastError => next(before.max(1)),
            SeriesSource::LastFailure if !is_counted && at.0 >= before => {
                escape(error, parse_mark(error).is_some())
            }
            // The series are counted, the clock was set back, or both answers came within a second.
            SeriesSource::LastFailure => next(before),
        }
    }
}

/// Parses a mark in front of an error, and the number in it. The column may have cut the error.
fn parse_mark(text: &str) -> Option<Option<i64>> {
    let number = |rest: &str, end: &str| {
        let number: i64 = rest.split_once(end)?.0.parse().ok()?;
        (0..=*WRITABLE.end()).contains(&number).then_some(Some(number))
    };
    if let Some(rest) = text.strip_prefix(NEXT) {
        return number(rest, ":");
    }
    let rest = [OPEN, UNSENT].iter().find_map(|mark| text.strip_prefix(mark))?;
    match rest.strip_prefix(" (key ") {
        None => rest.starts_with(':').then_some(None),
        Some(rest) => number(rest, ")"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Id;
    use crate::record::Record;

    const AT: Instant = Instant(1_795_232_400);

    fn record(failures: u32, last_failure_at: Option<Instant>, last_error: &str) -> Record {
        let last_error = Some(last_error.into());
        Record { failures, last_failure_at, last_error, ..Record::new(Id::Integer(7), None) }
    }

    fn number(failures: u32, last_failure_at: Option<Instant>, last_error: &str) -> Option<i64> {
        record(failures, last_failure_at, last_error).series(SeriesSource::LastFailure).number
    }

    #[test]
    fn a_row_shows_its_series() {
        assert_eq!(
            Record::new(Id::Integer(7), None).series(SeriesSource::LastFailure).number,
            None
        );
        for (failures, at, last_error, expected) in [
            (0, None, "", None),
            (1, Some(AT), "HTTP 500: no", Some(AT.0)),
            (0, Some(AT), "snoozed until 2026-11-21T03:50:00Z: HTTP 429: no", Some(AT.0)),
            (0, None, "HTTP 500: no", Some(0)),
            (1, Some(AT), "outcome unknown: no answer", None),
            (2, Some(AT), "outcome unknown (key 17): no answer", Some(17)),
            (2, Some(AT), "outcome unknown (key 17)", Some(17)),
            (2, Some(AT), "not sent: no", None),
            (2, Some(AT), "not sent (key 17): no", Some(17)),
            (2, Some(AT), "next key 17: HTTP 500", Some(17)),
            (2, Some(AT), "snoozed until 2026-11-21T03:50:00Z: next key 17: HTTP 429", Some(17)),
        ] {
            assert_eq!(number(failures, at, last_error), expected, "{last_error}");
        }
        let by_error = |text| record(1, Some(AT), text).series(SeriesSource::LastError).number;
        assert_eq!(by_error("HTTP 500: no"), Some(0));
        assert_eq!(by_error("next key 17: no"), Some(17));
    }

    #[test]
    fn text_that_only_looks_like_a_mark_is_part_of_the_error() {
        for last_error in [
            "outcome unknown",
            "outcome unknown (key x): no",
            "outcome unknown (key -1): no",
            "outcome unknown (key 17",
            "outcome unknown (key 99999999999999999999): no",
            "outcome unknown (key 253402300800): no",
            "not sent",
            "not sent to you: no",
            "next key x: no",
            "next key 17",
            "the next key 17: no",
        ] {
            assert_eq!(number(1, Some(AT), last_error), Some(AT.0), "{last_error}");
        }
        let series = Record::new(Id::Integer(7), None).series(SeriesSource::LastFailure);
        let error = "next key 17: no";
        assert_eq!(series.answered(error, AT), format!("failed: {error}"));
    }

    #[test]
    fn a_mark_is_written_if_the_row_does_not_show_the_series() {
        let series =
            |last_error: &str| record(1, Some(AT), last_error).series(SeriesSource::LastFailure);
        let later = Instant(AT.0 + 1);
        for (last_error, key, answered) in [
            ("", "", "no"),
            ("HTTP 500", " (key 1795232400)", "no"),
            ("outcome unknown: x", "", "no"),
            ("not sent (key 1795232300): x", " (key 1795232300)", "no"),
            ("next key 1795232500: x", " (key 1795232500)", "next key 1795232501: no"),
            ("next key 3: x", " (key 3)", "next key 4: no"),
        ] {
            let series = series(last_error);
            assert_eq!(series.unanswered(OPEN, "no"), format!("outcome unknown{key}: no"));
            assert_eq!(series.unanswered(UNSENT, "no"), format!("not sent{key}: no"));
            assert_eq!(series.answered("no", later), answered);
        }
        assert_eq!(series("HTTP 500").answered("no", AT), "next key 1795232401: no");
    }

    #[test]
    fn an_error_that_looks_like_a_snooze_is_escaped() {
        let noted = snoozed(Instant(1_795_232_400), "busy");
        assert_eq!(escape_snooze(&noted), format!("failed: {noted}"));
        assert_eq!(snoozed_until(&escape_snooze(&noted)), None);
        assert_eq!(escape_snooze("busy"), "busy");
    }

    #[test]
    fn the_note_of_a_snooze_is_read_back() {
        let at = Instant(1_795_232_400);
        let noted = snoozed(at, "HTTP 429: wait: a little");
        assert_eq!(noted, "snoozed until 2026-11-21T03:40:00Z: HTTP 429: wait: a little");
        assert_eq!(snoozed_until(&noted), Some(at));
        assert_eq!(without_snooze(&noted), "HTTP 429: wait: a little");
        assert_eq!(without_snooze("HTTP 429: wait: a little"), "HTTP 429: wait: a little");
        for other in ["", "snoozed until ", "snoozed until tomorrow: x", "not snoozed until 1: x"] {
            assert_eq!(snoozed_until(other), None, "{other}");
        }
    }
}

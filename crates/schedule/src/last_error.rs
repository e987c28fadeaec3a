//! Notes in front of the last error: until when a record is snoozed, and its series of attempts.
//!
//! Attempts belong to one series until one is answered, and receivers must be able to take them for
//! one. Mostly the row tells: a record without an error is in its first series, another one in that
//! which its last failure began. Otherwise the last error says so, behind the note of a snooze.

use crate::time::{Instant, WRITABLE};

/// `snoozed until 2026-11-21T03:40:00Z: HTTP 429 Too Many Requests`
pub fn snoozed(until: Instant, error: &str) -> String {
    format!("snoozed until {until}: {error}")
}

/// Until when a record is snoozed, and the error behind that note.
pub fn split_snooze(last_error: &str) -> Option<(Instant, &str)> {
    let (until, error) = last_error.strip_prefix("snoozed until ")?.split_once(": ")?;
    Some((until.parse().ok()?, error))
}

pub fn snoozed_until(last_error: &str) -> Option<Instant> {
    split_snooze(last_error).map(|(until, _)| until)
}

/// What is noted of an attempt that begins, as long as nothing is known of its end.
pub fn begun(attempt: u32, at: Instant) -> String {
    format!("attempt {attempt} began at {at} {NOT_REPORTED}")
}

const NOT_REPORTED: &str = "and has not reported back";

/// Whether nothing is known of the end of the last attempt: it runs, or its pass was killed.
pub fn is_begun(last_error: &str) -> bool {
    last_error.ends_with(NOT_REPORTED)
}

/// The error of a column without the notes in front of it.
pub fn bare(last_error: &str) -> &str {
    let error = split_snooze(last_error).map_or(last_error, |(_, error)| error);
    let behind = marked(error).and_then(|_| error.split_once(": "));
    behind.map_or(error, |(_, error)| error)
}

/// An error that says of itself that the record is snoozed, and does not mean it.
pub fn not_snoozed(error: &str) -> String {
    plain(error, split_snooze(error).is_some())
}

fn plain(error: &str, has_note: bool) -> String {
    if has_note { format!("failed: {error}") } else { error.into() }
}

/// Stands in front while it is not known what the last attempt came to.
pub const OPEN: &str = "outcome unknown";
/// Stands in front where it came to nothing, which says nothing of those before.
pub const UNSENT: &str = "not sent";
/// Stands in front of an answer whose instant is not what begins the next series.
const NEXT: &str = "next key ";

/// Numbers below are counted up from one series to the next; those from here on are instants.
const FIRST_INSTANT: i64 = 1_000_000_000;

/// The column that tells one series of attempts from the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeriesSource {
    /// The instant of the answer, which the row holds to the second. Attempts are charged for.
    LastFailure,
    /// What stands in front of the last error.
    LastError,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Series {
    /// `None` for the first.
    pub number: Option<i64>,
    source: SeriesSource,
}

impl Series {
    pub(crate) fn of(last_error: &str, failed_at: Option<Instant>, source: SeriesSource) -> Self {
        let text = split_snooze(last_error).map_or(last_error, |(_, error)| error);
        if let Some(number) = marked(text) {
            return Self { number, source };
        }
        let failed_at = failed_at.filter(|_| source == SeriesSource::LastFailure);
        // An error that has no instant is of a record that was restored, or it is not ours.
        let number = (!text.is_empty()).then(|| failed_at.map_or(0, |at| at.0));
        Self { number, source }
    }

    /// The last error of an attempt that leaves the record in its series: [`OPEN`] or [`UNSENT`].
    pub fn carried(self, mark: &str, error: &str) -> String {
        match self.number {
            None => format!("{mark}: {error}"),
            Some(number) => format!("{mark} (key {number}): {error}"),
        }
    }

    /// The last error of an attempt that was answered at this instant.
    pub fn answered(self, error: &str, at: Instant) -> String {
        let next = |number: i64| format!("{NEXT}{number}: {error}");
        let before = self.number.map_or(0, |number| number.saturating_add(1));
        // A record that was restored has no instant: it counts on for good.
        let counts_on = self.number.is_some_and(|number| number < FIRST_INSTANT);
        match self.source {
            SeriesSource::LastError => next(before.max(1)),
            SeriesSource::LastFailure if !counts_on && at.0 >= before => {
                plain(error, marked(error).is_some())
            }
            // Or the clock was set back, or both were answered within a second.
            SeriesSource::LastFailure => next(before),
        }
    }
}

/// The number in front of an error, if anything is there. A column may have cut what is behind.
fn marked(text: &str) -> Option<Option<i64>> {
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

    fn without_snooze(last_error: &str) -> &str {
        split_snooze(last_error).map_or(last_error, |(_, error)| error)
    }

    fn record(failures: u32, last_failure_at: Option<Instant>, last_error: &str) -> Record {
        let last_error = Some(last_error.into());
        Record { failures, last_failure_at, last_error, ..Record::new(Id::Integer(7), None) }
    }

    fn number(failures: u32, last_failure_at: Option<Instant>, last_error: &str) -> Option<i64> {
        record(failures, last_failure_at, last_error).series(SeriesSource::LastFailure).number
    }

    #[test]
    fn a_row_tells_its_series() {
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
        let told_by_error = |text| record(1, Some(AT), text).series(SeriesSource::LastError).number;
        assert_eq!(told_by_error("HTTP 500: no"), Some(0));
        assert_eq!(told_by_error("next key 17: no"), Some(17));
    }

    #[test]
    fn what_only_looks_like_a_mark_is_none() {
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
    fn a_mark_is_written_where_the_row_does_not_tell() {
        let of =
            |last_error: &str| record(1, Some(AT), last_error).series(SeriesSource::LastFailure);
        let later = Instant(AT.0 + 1);
        for (last_error, carried, answered) in [
            ("", "", "no"),
            ("HTTP 500", " (key 1795232400)", "no"),
            ("outcome unknown: x", "", "no"),
            ("not sent (key 1795232300): x", " (key 1795232300)", "no"),
            ("next key 1795232500: x", " (key 1795232500)", "next key 1795232501: no"),
            ("next key 3: x", " (key 3)", "next key 4: no"),
        ] {
            let series = of(last_error);
            assert_eq!(series.carried(OPEN, "no"), format!("outcome unknown{carried}: no"));
            assert_eq!(series.carried(UNSENT, "no"), format!("not sent{carried}: no"));
            assert_eq!(series.answered("no", later), answered);
        }
        assert_eq!(of("HTTP 500").answered("no", AT), "next key 1795232401: no");
    }

    #[test]
    fn an_error_that_only_looks_like_it_is_none() {
        let noted = snoozed(Instant(1_795_232_400), "busy");
        assert_eq!(not_snoozed(&noted), format!("failed: {noted}"));
        assert_eq!(snoozed_until(&not_snoozed(&noted)), None);
        assert_eq!(not_snoozed("busy"), "busy");
    }

    #[test]
    fn what_is_noted_is_read_and_nothing_else_is() {
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

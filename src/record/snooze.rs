//! The snooze mark: an instant in front of the last error, which says until when a record was
//! snoozed where no column can.

use crate::time::Instant;

const BEFORE: &str = "snoozed until ";
const BEHIND: &str = ": ";

/// `snoozed until 2026-11-21T03:40:00Z: HTTP 429 Too Many Requests`
pub fn noted(until: Instant, error: &str) -> String {
    format!("{BEFORE}{until}{BEHIND}{error}")
}

/// An error that says of itself that the record is snoozed, and does not mean it.
pub fn plain(error: &str) -> String {
    if until(error).is_some() { format!("failed: {error}") } else { error.into() }
}

/// Until when, if the error says so.
pub fn until(last_error: &str) -> Option<Instant> {
    let (until, _) = last_error.strip_prefix(BEFORE)?.split_once(BEHIND)?;
    until.parse().ok()
}

/// The error without what is noted in front of it.
pub fn without_note(last_error: &str) -> &str {
    let noted = until(last_error).and_then(|_| last_error.split_once(BEHIND));
    noted.map_or(last_error, |(_, error)| error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_only_looks_like_it_is_none() {
        let noted = noted(Instant(1_795_232_400), "busy");
        assert_eq!(plain(&noted), format!("failed: {noted}"));
        assert_eq!(until(&plain(&noted)), None);
        assert_eq!(plain("busy"), "busy");
    }

    #[test]
    fn what_is_noted_is_read_and_nothing_else_is() {
        let at = Instant(1_795_232_400);
        let noted = noted(at, "HTTP 429: wait: a little");
        assert_eq!(noted, "snoozed until 2026-11-21T03:40:00Z: HTTP 429: wait: a little");
        assert_eq!(until(&noted), Some(at));
        assert_eq!(without_note(&noted), "HTTP 429: wait: a little");
        assert_eq!(without_note("HTTP 429: wait: a little"), "HTTP 429: wait: a little");
        for other in ["", "snoozed until ", "snoozed until tomorrow: x", "not snoozed until 1: x"] {
            assert_eq!(until(other), None, "{other}");
        }
    }
}

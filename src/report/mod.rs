//! What is shown, as text and as JSON. Nothing here prints.

mod attempt;
mod list;
mod status;

pub use attempt::{joblog_line, summary};
pub use list::{Fate, dry_run_line, list_header, list_json, list_line};
pub use status::{DueReport, Oldest, StatusReport, status_json, status_text};

use crate::instant::Instant;
use crate::record::Id;

fn id_json(id: &Id) -> serde_json::Value {
    match id {
        Id::Integer(id) => (*id).into(),
        Id::Text(id) => id.as_ref().into(),
    }
}

fn instant_json(at: Option<Instant>) -> serde_json::Value {
    at.map(|at| at.to_string()).into()
}

/// A span of time in its largest unit and the next smaller one, `3d 4h`.
fn span(secs: i64) -> String {
    let secs = secs.max(0);
    let units = [("d", 86_400, i64::MAX), ("h", 3_600, 24), ("m", 60, 60), ("s", 1, 60)];
    let mut counts = units
        .map(|(unit, length, most)| (unit, secs / length % most))
        .into_iter()
        .skip_while(|(_, count)| *count == 0);
    let Some((unit, count)) = counts.next() else { return "0s".into() };
    match counts.next() {
        Some((next, more)) if more > 0 => format!("{count}{unit} {more}{next}"),
        _ => format!("{count}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_shows_its_two_largest_units() {
        for (secs, shown) in [
            (0, "0s"),
            (59, "59s"),
            (61, "1m 1s"),
            (86_400, "1d"),
            (86_460, "1d"),
            (98_765, "1d 3h"),
            (-5, "0s"),
        ] {
            assert_eq!(span(secs), shown);
        }
    }
}

//! Limits on figures of `status`, such as `archived_24h>0,oldest_due>1h`, and the line that monitoring reads.

use std::cmp::{Ordering, Reverse};

use backlog_schedule::{one_line, parse_duration, unknown_name};
use backlog_store::chain;

use super::figures::{FIGURES, Figure, StatusReport};
use super::status::QueueStatus;
use crate::exit::Exit;

struct Limit {
    figure: &'static Figure,
    sign: &'static str,
    is_exceeded: OrderingTest,
    number: i64,
}

type OrderingTest = fn(Ordering) -> bool;

/// The signs of limits. Longer signs come first, because `>` is the beginning of `>=`.
const SIGNS: [(&str, OrderingTest); 4] = [
    (">=", Ordering::is_ge),
    ("<=", Ordering::is_le),
    (">", Ordering::is_gt),
    ("<", Ordering::is_lt),
];

impl Limit {
    fn parse(text: &str) -> Result<Self, String> {
        let cut = |(sign, is_exceeded)| Some((sign, is_exceeded, text.split_once(sign)?));
        let Some((sign, is_exceeded, (name, number))) = SIGNS.into_iter().find_map(cut) else {
            return Err(format!(
                "{text:?} is not a limit: write it as archived_24h>0 or oldest_due>1h"
            ));
        };
        let (name, number) = (name.trim(), number.trim());
        let figure = FIGURES.iter().find(|figure| figure.name == name).ok_or_else(|| {
            unknown_name("figure", name, FIGURES.iter().map(|figure| figure.name))
        })?;
        let parsed = if figure.is_time() {
            parse_duration(number).map(|time| i64::try_from(time.as_secs()).unwrap_or(i64::MAX))
        } else {
            number.parse::<u32>().map(i64::from).map_err(|_| "write a whole number".into())
        };
        let number = parsed.map_err(|why| format!("{name}{sign}{number}: {why}"))?;
        Ok(Self { figure, sign, is_exceeded, number })
    }

    /// Returns the state, which is `beyond` if the figure exceeds it; the figure; and the limit if it is exceeded.
    fn judge(&self, beyond: Exit, report: &StatusReport) -> (Exit, String, String) {
        let Self { figure, sign, is_exceeded, number } = self;
        let value = match figure.value(report) {
            Ok(value) => value,
            Err(why) => return (Exit::Unknown, format!("{}: {why}", figure.name), "".into()),
        };
        let text = value.map_or_else(|| "never".into(), |value| figure.format(value));
        let text = format!("{} {text}", figure.name);
        // `never` counts as longer than any duration, so only > and >= are exceeded.
        match is_exceeded(value.map_or(Ordering::Greater, |value| value.cmp(number))) {
            true => (beyond, text, format!(" ({sign}{})", figure.format(*number))),
            false => (Exit::Done, text, String::new()),
        }
    }
}

/// The limits of `--fail-if`, followed by the limits of `--warn-if`.
pub struct Thresholds(Vec<(Exit, Limit)>);

impl Thresholds {
    pub fn parse(warn_if: Option<&str>, fail_if: Option<&str>) -> Result<Self, String> {
        let mut all = Vec::new();
        for (option, exit, text) in
            [("--fail-if", Exit::Critical, fail_if), ("--warn-if", Exit::Warning, warn_if)]
        {
            for limit in text.into_iter().flat_map(|text| text.split(',')) {
                let limit = Limit::parse(limit).map_err(|why| format!("{option}: {why}"))?;
                all.push((exit, limit));
            }
        }
        Ok(Self(all))
    }

    pub fn any(&self, is_meant: fn(&Figure) -> bool) -> bool {
        self.0.iter().any(|(_, limit)| is_meant(limit.figure))
    }

    pub fn judge(&self, queues: &[QueueStatus]) -> (Exit, String) {
        let of_queue = |(name, report): &QueueStatus| match (queues, self.of_queue(report)) {
            ([_], judged) => judged,
            (_, (state, why)) => (state, format!("queue {}: {why}", one_line(name))),
        };
        let mut judged: Vec<_> = queues.iter().map(of_queue).collect();
        judged.sort_by_key(|(state, _)| Reverse(*state));
        let (worst, why) = worst_of(judged, "; ");
        (worst, line(worst, &why))
    }

    fn of_queue(&self, report: &anyhow::Result<StatusReport>) -> (Exit, String) {
        let report = match report {
            Ok(report) => report,
            Err(error) => return (Exit::Unknown, one_line(&chain(error))),
        };
        let mut judged: Vec<(Exit, String, String)> = Vec::new();
        for (exit, limit) in &self.0 {
            let (state, figure, exceeded) = limit.judge(*exit, report);
            // A figure that exceeds both of its limits is named once.
            if !judged.iter().any(|(other, named, _)| *other >= state && *named == figure) {
                judged.push((state, figure, exceeded));
            }
        }
        let judged =
            judged.into_iter().map(|(state, figure, exceeded)| (state, figure + &exceeded));
        let (worst, why) = worst_of(judged.collect(), ", ");
        // These facts often explain the state.
        let paused =
            report.paused.as_ref().map(|pause| pause.sentence(|at| at.to_string(), &report.choice));
        let archived = Some(report.passes.of_last_day(|day| day.archived));
        let archived = archived.filter(|records| *records > 0 && !why.contains("archived_24h"));
        let archived = archived.map(|records| format!("{records} archived in 24 h"));
        let parts = [Some(why), paused, archived].into_iter().flatten();
        (worst, parts.collect::<Vec<_>>().join("; "))
    }
}

/// The worst state, and the texts of all bad states, or of all states if none is bad.
fn worst_of(judged: Vec<(Exit, String)>, separator: &str) -> (Exit, String) {
    let worst = judged.iter().map(|(state, _)| *state).max().unwrap_or(Exit::Done);
    let texts = judged.into_iter().filter(|(state, _)| *state > Exit::Done || worst == Exit::Done);
    (worst, texts.map(|(_, text)| text).collect::<Vec<_>>().join(separator))
}

/// `CRITICAL: archived_24h 3 (>0)`
pub fn line(exit: Exit, why: &str) -> String {
    let state = if exit == Exit::Done { "OK".into() } else { format!("{exit:?}").to_uppercase() };
    // Monitoring takes text after a bar for figures.
    format!("{state}: {}\n", why.replace('|', "/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_limits_name_the_valid_form() {
        for (text, says) in [
            ("", "is not a limit: write it as archived_24h>0"),
            ("archived_24h", "is not a limit"),
            ("archived>0,", "\"\" is not a limit"),
            ("oldst_due>1h", "no figure \"oldst_due\"; use one of pending, oldest_pending, due,"),
            ("archived>1h", "archived>1h: write a whole number"),
            ("archived>-1", "write a whole number"),
            ("last_pass>15", "write 15s, 15m or 15h"),
        ] {
            let Err(error) = Thresholds::parse(None, Some(text)) else { panic!("{text}") };
            assert!(error.starts_with("--fail-if: ") && error.contains(says), "{text}: {error}");
        }
        let limits = Thresholds::parse(Some(" due >= 3 , last_pass>1h30m"), None).unwrap();
        assert_eq!((limits.0[0].1.sign, limits.0[0].1.number), (">=", 3));
        assert_eq!((limits.0[1].1.sign, limits.0[1].1.number), (">", 5_400));
    }
}

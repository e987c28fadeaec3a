//! Limits that figures of `status` are held to, as monitoring plugins have it: an expression such as
//! `archived_24h>0,oldest_due>1h`, and one line that says which limits are passed.

use std::cmp::Ordering;

use super::LinePasses;
use super::status::{QueueStatus, StatusReport};
use crate::nearest::hint;
use crate::record::{Status, one_line};
use crate::store::{Counts, PassEntry};
use crate::system_error::chain;
use crate::time::{DAY, Instant, parse_duration, span};

/// A figure that a limit may be set for.
pub struct Figure {
    pub name: &'static str,
    pub says: &'static str,
    source: Source,
    unit: Unit,
    value: fn(&StatusReport) -> Value,
}

/// The part of a report that a figure is read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    PendingRecords,
    Counts,
    /// The record of passes and the pauses, which are kept outside the database.
    Passes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Count,
    Time,
}

enum Value {
    Known(i64),
    /// It has never been: longer ago than any time.
    Never,
    /// It cannot be told, and why.
    Unknown(String),
}

const fn count(
    name: &'static str,
    source: Source,
    says: &'static str,
    value: fn(&StatusReport) -> Value,
) -> Figure {
    Figure { name, says, source, unit: Unit::Count, value }
}

const fn time(
    name: &'static str,
    source: Source,
    says: &'static str,
    value: fn(&StatusReport) -> Value,
) -> Figure {
    Figure { name, says, source, unit: Unit::Time, value }
}

/// All figures: what is due by the schedule, the records, and the passes.
pub const FIGURES: [Figure; 14] = [
    count("due", Source::PendingRecords, "records that are due", |it| {
        of_due(it, |due| rows(due.due))
    }),
    time(
        "oldest_due",
        Source::PendingRecords,
        "how long the one has waited that has been due the longest",
        |it| of_due(it, |due| due.oldest_due_secs.unwrap_or(0)),
    ),
    count("pending", Source::Counts, "records that are NEW or ERROR", |it| {
        Value::Known(with_status(it, Status::is_pending))
    }),
    time("oldest_pending", Source::PendingRecords, "the age of the oldest of them", |it| {
        let oldest = it.oldest_pending.as_ref();
        Value::Known(oldest.map_or(0, |oldest| it.now.0.saturating_sub(oldest.date_inserted.0)))
    }),
    count("failed", Source::PendingRecords, "pending records whose last attempt failed", |it| {
        Value::Known(rows(it.failed))
    }),
    count("archived", Source::Counts, "records that are ARCHIVED", |it| {
        Value::Known(with_status(it, |status| status == Status::Archived))
    }),
    count("archived_24h", Source::Passes, "records that passes have archived in 24 hours", |it| {
        of_a_day(it, |counts| counts.archived)
    }),
    count("failed_24h", Source::Passes, "attempts that failed in 24 hours", |it| {
        of_a_day(it, |counts| counts.failed.saturating_add(counts.archived))
    }),
    count("succeeded_24h", Source::Passes, "attempts that succeeded in 24 hours", |it| {
        of_a_day(it, |counts| counts.succeeded)
    }),
    count("paused", Source::Passes, "1 if the queue or its table is paused", |it| {
        Value::Known(i64::from(it.paused.is_some()))
    }),
    time(
        "last_pass",
        Source::Passes,
        "since a pass began or ended, or the running one had an outcome",
        |it| since(it, last_sign(it)),
    ),
    time("last_success", Source::Passes, "since a pass ended with exit 0", |it| {
        since(it, last_success(it))
    }),
    count("hung_lines", Source::Passes, "crontab lines whose pass hangs", |it| {
        lines(it, |line| line.history.hangs_for(it.now).is_some())
    }),
    count(
        "overdue_lines",
        Source::Passes,
        "crontab lines without a pass for twice the usual time",
        |it| lines(it, |line| line.overdue(it.now).is_some()),
    ),
];

fn rows(rows: u64) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

fn of_due(report: &StatusReport, value: impl Fn(&super::DueReport) -> i64) -> Value {
    let none = "no schedule says what is due: use --ndays, --fibonacci, --policy or --progressive";
    report.due.as_ref().map_or(Value::Unknown(none.into()), |due| Value::Known(value(due)))
}

fn lines(report: &StatusReport, is_meant: impl Fn(&LinePasses) -> bool) -> Value {
    let lines = report.passes.lines.iter().filter(|line| is_meant(line));
    unread(report).unwrap_or(Value::Known(rows(lines.count() as u64)))
}

fn with_status(report: &StatusReport, is_meant: impl Fn(Status) -> bool) -> i64 {
    let meant = report.counts.iter().filter(|count| is_meant(count.status));
    rows(meant.map(|count| count.rows).sum())
}

fn entries(report: &StatusReport) -> impl Iterator<Item = &PassEntry> {
    report.passes.lines.iter().flat_map(|line| &line.history.entries)
}

/// What the passes of the last 24 hours came to. One that runs counts with what it has noted.
fn of_a_day(report: &StatusReport, count: impl Fn(&Counts) -> u64) -> Value {
    if let Some(unread) = unread(report) {
        return unread;
    }
    let begin = report.now.saturating_sub(DAY);
    let recent = entries(report).filter(|entry| entry.ended.is_none_or(|at| at >= begin));
    let recent = recent.filter(|entry| entry.ended.is_some() || entry.began >= begin);
    Value::Known(recent.fold(0, |sum: i64, entry| sum.saturating_add(rows(count(&entry.counts)))))
}

/// When a pass was last known to be alive.
fn last_sign(report: &StatusReport) -> Option<Instant> {
    let ends = entries(report).map(|entry| entry.ended.unwrap_or(entry.began));
    let histories = report.passes.lines.iter().map(|line| &line.history);
    let running = histories.filter(|it| it.running().is_some()).map(|it| it.last_outcome);
    ends.chain(running).max()
}

/// When a pass ended last with exit 0.
fn last_success(report: &StatusReport) -> Option<Instant> {
    entries(report).filter(|entry| entry.exit == Some(0)).filter_map(|entry| entry.ended).max()
}

/// Why nothing is said of passes, if those of some line cannot be read.
fn unread(report: &StatusReport) -> Option<Value> {
    report.passes.errors.first().map(|why| Value::Unknown(why.clone()))
}

fn since(report: &StatusReport, at: Option<Instant>) -> Value {
    if let Some(unread) = unread(report) {
        return unread;
    }
    at.map_or(Value::Never, |at| Value::Known(report.now.0.saturating_sub(at.0).max(0)))
}

/// `no figure "duh"; did you mean due?; legal are due, oldest_due, ...`
fn no_figure(name: &str) -> String {
    let names = FIGURES.map(|figure| figure.name);
    format!("no figure {name:?}{}; legal are {}", hint(name, names), names.join(", "))
}

/// A figure and the side of a number on which it is alarming.
struct Limit {
    figure: &'static Figure,
    /// As it is typed.
    sign: &'static str,
    /// Whether a value passes the limit, by how it compares with the number.
    is_passed: IsPassed,
    number: i64,
}

type IsPassed = fn(Ordering) -> bool;

/// Those of two letters first, which begin like others.
const SIGNS: [(&str, IsPassed); 4] = [
    (">=", Ordering::is_ge),
    ("<=", Ordering::is_le),
    (">", Ordering::is_gt),
    ("<", Ordering::is_lt),
];

impl Limit {
    fn parse(text: &str) -> Result<Self, String> {
        let cut = |(sign, is_passed)| Some((sign, is_passed, text.split_once(sign)?));
        let Some((sign, is_passed, (name, number))) = SIGNS.into_iter().find_map(cut) else {
            return Err(format!(
                "{text:?} is no limit: write it as archived_24h>0 or oldest_due>1h"
            ));
        };
        let (name, number) = (name.trim(), number.trim());
        let figure = FIGURES.iter().find(|figure| figure.name == name);
        let figure = figure.ok_or_else(|| no_figure(name))?;
        let parsed = match figure.unit {
            Unit::Count => {
                number.parse::<u32>().map(i64::from).map_err(|_| "write a whole number".into())
            }
            Unit::Time => {
                parse_duration(number).map(|time| i64::try_from(time.as_secs()).unwrap_or(i64::MAX))
            }
        };
        let number = parsed.map_err(|why: String| format!("{name}{sign}{number}: {why}"))?;
        Ok(Self { figure, sign, is_passed, number })
    }

    fn shown(&self, value: i64) -> String {
        match self.figure.unit {
            Unit::Count => value.to_string(),
            Unit::Time => span(value),
        }
    }

    /// Whether a report passes the limit, and its figure in words.
    fn judge(&self, report: &StatusReport) -> Result<(bool, String), String> {
        let Self { figure: Figure { name, value, .. }, is_passed, number, .. } = self;
        match value(report) {
            Value::Known(value) => {
                Ok((is_passed(value.cmp(number)), format!("{name} {}", self.shown(value))))
            }
            Value::Never => Ok((is_passed(Ordering::Greater), format!("{name} never"))),
            Value::Unknown(why) => Err(format!("{name}: {why}")),
        }
    }
}

/// The limits of `--warn-if` and of `--fail-if`.
pub struct Thresholds {
    warning: Vec<Limit>,
    critical: Vec<Limit>,
}

/// The state of a monitored service, from good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Ok,
    Unknown,
    Warning,
    Critical,
}

impl Severity {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Unknown => "UNKNOWN",
            Self::Warning => "WARNING",
            Self::Critical => "CRITICAL",
        }
    }
}

impl Thresholds {
    pub fn parse(warn_if: Option<&str>, fail_if: Option<&str>) -> Result<Self, String> {
        let limits = |text: Option<&str>, option: &str| {
            let limits = text.into_iter().flat_map(|text| text.split(','));
            let limits: Result<Vec<_>, _> = limits.map(Limit::parse).collect();
            limits.map_err(|why| format!("{option}: {why}"))
        };
        Ok(Self { warning: limits(warn_if, "--warn-if")?, critical: limits(fail_if, "--fail-if")? })
    }

    /// Whether any limit is for a figure from this part of a report.
    pub fn need(&self, source: Source) -> bool {
        self.warning.iter().chain(&self.critical).any(|limit| limit.figure.source == source)
    }

    /// The worst state of all queues, and a line that says why.
    pub fn judge(&self, queues: &[QueueStatus]) -> (Severity, String) {
        let judged: Vec<_> = queues.iter().map(|(_, report)| self.of_queue(report)).collect();
        let worst = judged.iter().map(|(severity, _)| *severity).max().unwrap_or(Severity::Ok);
        let mut told: Vec<_> = queues.iter().map(|(name, _)| name).zip(&judged).collect();
        told.sort_by_key(|(_, (severity, _))| std::cmp::Reverse(*severity));
        let told =
            told.into_iter().filter(|(_, (it, _))| *it > Severity::Ok || worst == Severity::Ok);
        let is_one = queues.len() == 1;
        let queue =
            |name: &str| if is_one { String::new() } else { format!("queue {}: ", one_line(name)) };
        let told: Vec<_> = told.map(|(name, (_, why))| queue(name) + why).collect();
        (worst, line(worst, &told.join("; ")))
    }

    fn of_queue(&self, report: &anyhow::Result<StatusReport>) -> (Severity, String) {
        let report = match report {
            Ok(report) => report,
            Err(error) => return (Severity::Unknown, one_line(&chain(error))),
        };
        let (mut worst, mut alarming, mut fine) = (Severity::Ok, Vec::new(), Vec::new());
        let limits = self.critical.iter().map(|limit| (Severity::Critical, limit));
        let limits = limits.chain(self.warning.iter().map(|limit| (Severity::Warning, limit)));
        for (severity, limit) in limits {
            match limit.judge(report) {
                Ok((false, shown)) if fine.contains(&shown) => {}
                Ok((false, shown)) => fine.push(shown),
                Ok((true, shown)) => {
                    worst = worst.max(severity);
                    // The limit of a warning is passed with that of a failure.
                    if !alarming.iter().any(|it: &String| it.starts_with(&shown)) {
                        let (sign, number) = (limit.sign, limit.shown(limit.number));
                        alarming.push(format!("{shown} ({sign}{number})"));
                    }
                }
                Err(why) => {
                    worst = worst.max(Severity::Unknown);
                    alarming.push(why);
                }
            }
        }
        let told = if alarming.is_empty() { fine } else { alarming }.join(", ");
        // A person who is woken need not look for why.
        let paused = report.paused.as_ref().map(|pause| pause.sentence(|at| at.to_string()));
        (worst, paused.map_or(told.clone(), |paused| format!("{told}; {paused}")))
    }
}

/// `CRITICAL: archived_24h 3 (>0)`
pub fn line(severity: Severity, why: &str) -> String {
    // Behind a bar plugins have figures for machines.
    format!("{}: {}\n", severity.name(), why.replace('|', "/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_limit_is_told_with_what_is_legal() {
        for (text, says) in [
            ("", "is no limit: write it as archived_24h>0"),
            ("archived_24h", "is no limit"),
            ("archived>0,", "\"\" is no limit"),
            ("oldst_due>1h", "no figure \"oldst_due\"; did you mean oldest_due?"),
            ("archived>1h", "archived>1h: write a whole number"),
            ("archived>-1", "write a whole number"),
            ("last_pass>15", "write 15s, 15m or 15h"),
        ] {
            let Err(error) = Thresholds::parse(None, Some(text)) else { panic!("{text}") };
            assert!(error.starts_with("--fail-if: ") && error.contains(says), "{text}: {error}");
        }
        let limits = Thresholds::parse(Some(" due >= 3 , last_pass>1h30m"), None).unwrap();
        assert_eq!((limits.warning[0].sign, limits.warning[0].number), (">=", 3));
        assert_eq!((limits.warning[1].sign, limits.warning[1].number), (">", 5_400));
    }
}

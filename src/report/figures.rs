//! The figures of a queue. Each is a row of `FIGURES`, from which text, JSON, page, metrics and limits are made.

use backlog_schedule::{Causes, HOUR, Id, Instant, Policy, Record, Status, Verdict, span};
use backlog_store::{PassCounts, Pause, StatusCount};
use serde::Serialize;

use super::passes::{LineReport, Passes};
use super::screen::ScreenColumn;

type Text = &'static str;

pub const FIGURES: &[Figure] = &[
    Figure::new("pending", Statuses(&Status::PENDING)).help("records that are NEW or ERROR"),
    Figure::new("oldest_pending", Oldest)
        .help("age of the oldest pending record")
        .line(StatusLine::Always("oldest pending", "")),
    Figure::new("due", Judged(|verdict| matches!(verdict, Verdict::Due(_))))
        .help("records that are due")
        .line(StatusLine::Always("due now", "{line}"))
        .column(ScreenColumn::number("DUE", 6))
        .metric("backlog_due_records", "Records that are due by the schedule of the crontab line."),
    Figure::new("oldest_due", Due(|due| due.oldest_due_secs))
        .help("longest time that a record has been due")
        .line(StatusLine::IfAny("due for", "the longest; oldest_due in limits"))
        .column(ScreenColumn::number("DUE FOR", 7).wide(90))
        .metric(
            "backlog_oldest_due_seconds",
            "Seconds since the record that has been due the longest became due.",
        ),
    Figure::new("waiting", Judged(|verdict| matches!(verdict, Verdict::Wait { .. })))
        .help("pending records whose next attempt is still to come")
        .line(StatusLine::Always("waiting", "")),
    Figure::new("to_be_archived", Judged(|verdict| matches!(verdict, Verdict::Archive(_))))
        .help("pending records that the next pass archives without an attempt")
        .line(StatusLine::IfAny("to be archived", "given up")),
    Figure::new("never_due", Judged(|verdict| matches!(verdict, Verdict::Never(_))))
        .help("pending records that the schedule never tries")
        .line(StatusLine::IfAny("never due", "too old for this line, or undated")),
    Figure::new("snoozed", Pending(|record| record.is_snoozed))
        .help("pending records that are put off by their handler")
        .column(ScreenColumn::number("SNOOZED", 7).wide(90))
        .metric("backlog_snoozed_records", "Pending records that are put off by their handler."),
    Figure::new("failed", Pending(|record| record.has_failed && !record.is_snoozed))
        .help("pending records whose last attempt failed")
        .column(ScreenColumn::number("FAILED", 6))
        .metric("backlog_failed_records", "Pending records whose last attempt failed."),
    Figure::new("in_hand", Pending(|record| record.is_in_hand))
        .help("pending records that a running pass most likely has in hand")
        .line(StatusLine::IfAny("in hand", "of a pass that runs")),
    Figure::new("archived", Statuses(&[Status::Archived]))
        .help("records that are ARCHIVED")
        .column(ScreenColumn::number("ARCHIVED", 8)),
    Figure::new("archived_24h", LastDay(|counts| counts.archived))
        .help("records that passes archived in the last 24 hours")
        .line(StatusLine::IfAny("archived 24h", "`backlog failures{choice}` says why"))
        .column(ScreenColumn::number("IN 24H", 6).wide(60)),
    Figure::new("failed_24h", LastDay(|counts| counts.failed.saturating_add(counts.archived)))
        .help("failed attempts and archived records in the last 24 hours"),
    Figure::new("succeeded_24h", LastDay(|counts| counts.succeeded))
        .help("attempts that succeeded in the last 24 hours"),
    Figure::new("failing", Begun(|passes| passes.failing.as_ref().map(|failing| failing.since)))
        .help("time without a success, once it is an hour with 10 failed attempts at new records")
        .metric(
            "backlog_failing_seconds",
            "Seconds in which nothing succeeded and new records failed.",
        ),
    Figure::new("paused", Flag(|report| report.paused.is_some()))
        .help("1 if the queue or its table is paused")
        .metric("backlog_paused", "Whether the queue or the table is paused."),
    Figure::new("last_pass", Since(LineReport::last_sign))
        .help("time since a pass began or ended, or the running pass got an outcome"),
    Figure::new("last_success", Since(LineReport::last_success))
        .help("time since a pass ended with exit 0"),
    Figure::new("hung_lines", Lines(|line, now| line.history.hangs_for(now)))
        .help("crontab lines whose pass hangs"),
    Figure::new("overdue_lines", Lines(LineReport::overdue))
        .help("crontab lines without a pass for twice the usual interval, at least an hour"),
];

pub struct Figure {
    /// The name in limits and JSON.
    pub name: Text,
    pub help: Text,
    pub source: Source,
    pub line: Option<StatusLine>,
    pub column: Option<ScreenColumn>,
    /// The name and the help of the metric.
    pub metric: Option<(Text, Text)>,
}

/// The calculation of a figure. JSON has no member for `Lines`, `Begun` and `Since`.
pub enum Source {
    /// Number of pending records with such a verdict.
    Judged(fn(Verdict) -> bool),
    /// A time in seconds that depends on the schedule.
    Due(fn(&DueReport) -> Option<i64>),
    Pending(fn(PendingRecord) -> bool),
    /// Age of the oldest pending record. Text and JSON show the record.
    Oldest,
    Statuses(&'static [Status]),
    /// 1 or 0.
    Flag(fn(&StatusReport) -> bool),
    /// Number of attempts of the last 24 hours.
    LastDay(fn(&PassCounts) -> u64),
    /// Number of crontab lines for which the function returns a time.
    Lines(fn(&LineReport, Instant) -> Option<i64>),
    /// Time since the beginning of a state that lasts, otherwise 0.
    Begun(fn(&Passes) -> Option<Instant>),
    /// Time since the latest event of any line.
    Since(fn(&LineReport) -> Option<Instant>),
}

const NO_SCHEDULE: &str =
    "no schedule says what is due: use --ndays, --fibonacci, --policy or --progressive";

use Source::{Begun, Due, Flag, Judged, LastDay, Lines, Oldest, Pending, Since, Statuses};

/// A line of text: a label, and a note behind the figure, in which `{line}` is the schedule.
pub enum StatusLine {
    Always(Text, Text),
    /// Left out for 0.
    IfAny(Text, Text),
}

impl Figure {
    const fn new(name: Text, source: Source) -> Self {
        Self { name, help: "", source, line: None, column: None, metric: None }
    }

    const fn help(self, help: Text) -> Self {
        Self { help, ..self }
    }

    const fn line(self, line: StatusLine) -> Self {
        Self { line: Some(line), ..self }
    }

    const fn column(self, column: ScreenColumn) -> Self {
        Self { column: Some(column), ..self }
    }

    const fn metric(self, name: Text, help: Text) -> Self {
        Self { metric: Some((name, help)), ..self }
    }

    pub fn needs_schedule(&self) -> bool {
        matches!(self.source, Judged(_) | Due(_))
    }

    pub fn needs_records(&self) -> bool {
        self.needs_schedule() || matches!(self.source, Pending(_) | Oldest)
    }

    pub fn needs_counts(&self) -> bool {
        matches!(self.source, Statuses(_))
    }

    pub fn is_time(&self) -> bool {
        matches!(self.source, Due(_) | Oldest | Begun(_) | Since(_))
    }

    pub fn format(&self, value: i64) -> String {
        if self.is_time() { span(value) } else { value.to_string() }
    }

    /// The oldest record, for the figure that is its age.
    pub fn oldest<'a>(&self, report: &'a StatusReport) -> Option<&'a Option<OldestRecord>> {
        matches!(self.source, Oldest).then_some(&report.of_records.oldest)
    }

    /// A count, or seconds, which are 0 if there is no such record; `None` if the event has never happened.
    pub fn value(&self, report: &StatusReport) -> Result<Option<i64>, String> {
        let count = |number: u64| Some(i64::try_from(number).unwrap_or(i64::MAX));
        let due = || report.due.as_ref().ok_or(NO_SCHEDULE);
        let lines = || match report.passes.errors.first() {
            Some(why) => Err(why.clone()),
            None => Ok(report.passes.lines.iter()),
        };
        let since = |at: Instant| report.now.0.saturating_sub(at.0);
        Ok(match self.source {
            Judged(_) => due().map(|_| count(report.of_records.of(self)))?,
            Due(time) => time(due()?).or(Some(0)),
            Pending(_) => count(report.of_records.of(self)),
            Oldest => {
                let oldest = report.of_records.oldest.as_ref();
                Some(oldest.map_or(0, |record| since(record.date_inserted)))
            }
            Statuses(statuses) => {
                let counts = report.counts.iter();
                let counts = counts.filter(|count| statuses.contains(&count.status));
                count(counts.map(|count| count.rows).sum())
            }
            Flag(is_set) => Some(is_set(report).into()),
            LastDay(part) => lines().map(|_| count(report.passes.of_last_day(part)))?,
            Lines(time) => count(lines()?.filter_map(|line| time(line, report.now)).count() as u64),
            Begun(begin) => lines().map(|_| Some(begin(&report.passes).map_or(0, since)))?,
            Since(event) => lines()?.filter_map(event).max().map(|at| since(at).max(0)),
        })
    }
}

#[derive(Default)]
pub struct RecordFigures {
    /// The number of pending records that match, for each figure.
    numbers: [u64; FIGURES.len()],
    oldest: Option<OldestRecord>,
}

impl RecordFigures {
    pub fn add(&mut self, record: &Record, state: PendingRecord) {
        keep_older(&mut self.oldest, record);
        for (figure, number) in FIGURES.iter().zip(&mut self.numbers) {
            match figure.source {
                Judged(matches) if state.verdict.is_some_and(matches) => *number += 1,
                Pending(matches) if matches(state) => *number += 1,
                Judged(_) | Pending(_) | Oldest | Due(_) | Statuses(_) | Flag(_) => {}
                LastDay(_) | Lines(_) | Begun(_) | Since(_) => {}
            }
        }
    }

    fn of(&self, figure: &Figure) -> u64 {
        let mut all = FIGURES.iter().zip(self.numbers);
        all.find(|(row, _)| row.name == figure.name).map_or(0, |(_, number)| number)
    }
}

#[derive(Clone, Copy)]
pub struct PendingRecord {
    pub verdict: Option<Verdict>,
    /// True if its last attempt failed, or its handler snoozed it.
    pub has_failed: bool,
    pub is_snoozed: bool,
    pub is_in_hand: bool,
}

pub struct StatusReport {
    pub queue: String,
    pub db: String,
    pub table: String,
    pub now: Instant,
    pub counts: Vec<StatusCount>,
    pub of_records: RecordFigures,
    pub due: Option<DueReport>,
    /// The crontab line of the schedule, with its conditions.
    pub line: Option<String>,
    pub passes: Passes,
    pub causes: Causes,
    pub paused: Option<Pause>,
    pub archived: Vec<Record>,
    pub choice: String,
}

#[derive(Clone, Serialize)]
pub struct OldestRecord {
    pub id: Id,
    pub date_inserted: Instant,
}

#[derive(Default)]
pub struct DueReport {
    pub line: String,
    pub oldest_due: Option<OldestRecord>,
    /// Time since the first of the due records became due, if known.
    pub oldest_due_secs: Option<i64>,
    pub next_due_at: Option<Instant>,
    /// The time at which the first waiting record is due, and the number of them in each of the next hours.
    pub next_waiting_at: Option<Instant>,
    pub hours: [u64; 24],
    /// The tick of the schedule. `None` with --ndays.
    pub every_secs: Option<i64>,
}

impl DueReport {
    pub fn new(policy: &Policy) -> Self {
        Self { line: policy.options(), every_secs: policy.pass_interval(), ..Self::default() }
    }

    /// Adds a pending record. It has been due since `since`, if it is due.
    pub fn add(&mut self, record: &Record, verdict: Verdict, since: Option<Instant>, now: Instant) {
        match verdict {
            Verdict::Due(_) => {
                let secs = since.map(|since| now.0.saturating_sub(since.0).max(0));
                self.oldest_due_secs = self.oldest_due_secs.max(secs);
                self.next_due_at = Some(now);
                keep_older(&mut self.oldest_due, record);
            }
            Verdict::Wait { until } => self.add_waiting(until, now),
            Verdict::Archive(_) | Verdict::Never(_) => {}
        }
    }

    fn add_waiting(&mut self, until: Instant, now: Instant) {
        for next in [&mut self.next_due_at, &mut self.next_waiting_at] {
            *next = Some(next.map_or(until, |next| next.min(until)));
        }
        let hour = until.0.saturating_sub(now.0).max(0) / HOUR;
        let hour = usize::try_from(hour).ok().and_then(|hour| self.hours.get_mut(hour));
        hour.into_iter().for_each(|records| *records += 1);
    }
}

fn keep_older(oldest: &mut Option<OldestRecord>, record: &Record) {
    if let Some(date_inserted) = record.inserted_at
        && oldest.as_ref().is_none_or(|oldest| date_inserted < oldest.date_inserted)
    {
        *oldest = Some(OldestRecord { id: record.id.clone(), date_inserted });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_begins_with_its_first_second_and_ends_before_the_next() {
        let mut due = DueReport::default();
        for until in [0, 1, 3_599, 3_600, 86_399, 86_400, i64::MAX] {
            due.add_waiting(Instant(until), Instant(0));
        }
        assert_eq!((due.hours[0], due.hours[1], due.hours[23]), (3, 1, 1));
        assert_eq!(due.hours.iter().sum::<u64>(), 5, "two are later");
        assert_eq!((due.next_waiting_at, due.next_due_at), (Some(Instant(0)), Some(Instant(0))));
    }

    #[test]
    fn each_figure_has_a_name_of_its_own_and_help() {
        for (place, figure) in FIGURES.iter().enumerate() {
            assert!(FIGURES[..place].iter().all(|other| other.name != figure.name));
            assert!(!figure.help.is_empty() && !figure.help.ends_with('.'), "{}", figure.name);
            if let Some((name, help)) = figure.metric {
                assert!(name.starts_with("backlog_") && help.ends_with('.'), "{name}: {help}");
            }
        }
    }
}

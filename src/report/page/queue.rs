//! The section of a queue: what is wrong and how much there is, why records fail, what was given up, when
//! records are tried next, how the last passes went, and all records by status and age.

use serde::Serialize;

use super::bars::{self, Chart, Hour, hours, hours_in_numbers, pass_in_words};
use super::instants::{Moment, Part, sentence};
use super::overview::of_status;
use super::{Detail, NAME, shortened};
use crate::record::{Cause, Group, Record, Status, last_error};
use crate::report::failures::samples;
use crate::report::passes::{alarms, sentences};
use crate::report::screen::{Screen, grouped};
use crate::report::status::{
    COLUMNS, DueReport, StatusReport, band_names, last_pass, status_lines,
};
use crate::store::Count;
use crate::system_error::chain;
use crate::time::rough_span;

/// More statuses that are none of ours are summed up.
const MOST_STATUSES: usize = 12;
/// More lines of a crontab are not told one by one.
const MOST_LINES: usize = 8;
/// How many of the last passes are told in words.
const IN_WORDS: usize = 10;

#[derive(Serialize)]
pub struct QueueSection {
    anchor: String,
    name: String,
    /// Why nothing is known of it.
    error: Option<String>,
    known: Option<Known>,
}

/// The anchor of the queue with this number.
pub fn anchor(number: usize) -> String {
    format!("q{number}")
}

impl QueueSection {
    pub fn new(
        number: usize,
        name: &str,
        report: &anyhow::Result<StatusReport>,
        is_one_of_several: bool,
        detail: Detail,
        screen: &Screen,
    ) -> Self {
        let option = is_one_of_several.then(|| shlex::try_quote(name).ok()).flatten();
        let option = option.map(|name| format!(" --queue {name}")).unwrap_or_default();
        let known = report.as_ref().ok();
        Self {
            anchor: anchor(number),
            name: shortened(name, NAME),
            error: report.as_ref().err().map(|error| shortened(&chain(error), 400)),
            known: known.map(|report| Known::new(report, &option, detail, screen)),
        }
    }
}

#[derive(Serialize)]
struct Known {
    place: String,
    alarms: Vec<Vec<Part>>,
    figures: Vec<Figure>,
    causes: Causes,
    archived: Archived,
    attempts: Option<Attempts>,
    passes: Passes,
    matrix: Option<Matrix>,
    /// What chooses the queue on a command line.
    option: String,
}

impl Known {
    fn new(report: &StatusReport, option: &str, detail: Detail, screen: &Screen) -> Self {
        let place = format!("table {} in {}", report.table, report.db);
        let attempts = report.due.as_ref().map(|due| Attempts::new(due, screen));
        Self {
            place: shortened(&place, 300),
            alarms: told(&urgent(report, screen)),
            figures: figures(report, screen),
            causes: Causes::new(report, detail),
            archived: Archived::new(report, detail),
            attempts,
            passes: Passes::new(report, screen),
            matrix: Matrix::new(&report.counts),
            option: shortened(option, NAME),
        }
    }
}

/// What is to be known first: that the queue is paused, and what is wrong with its passes.
fn urgent(report: &StatusReport, screen: &Screen) -> Vec<String> {
    let paused = report.paused.iter().map(|pause| pause.sentence(|at| screen.at(at)));
    paused.chain(alarms(&report.passes, screen)).collect()
}

fn told(sentences: &[String]) -> Vec<Vec<Part>> {
    sentences.iter().take(MOST_LINES).map(|text| sentence(text)).collect()
}

/// A number that is to be seen at a glance.
#[derive(Serialize)]
struct Figure {
    label: &'static str,
    value: String,
    note: String,
    /// How urgent it is, as a class.
    mood: &'static str,
}

impl Figure {
    fn new(label: &'static str, count: u64, note: impl Into<String>) -> Self {
        Self { label, value: grouped(count), note: note.into(), mood: "plain" }
    }

    fn urgent(self, mood: &'static str) -> Self {
        Self { mood, ..self }
    }
}

fn figures(report: &StatusReport, screen: &Screen) -> Vec<Figure> {
    let pending: u64 = Status::PENDING.map(|status| of_status(report, status)).iter().sum();
    let archived = of_status(report, Status::Archived);
    let has_alarm = !alarms(&report.passes, screen).is_empty();
    let failed = Figure::new("Failed", report.failed, format!("of {} pending", grouped(pending)));
    let mut figures = vec![failed.urgent(if report.failed > 0 { "bad" } else { "well" })];
    figures.extend(report.due.iter().flat_map(|due| due_figures(due, screen)));
    if report.snoozed > 0 {
        figures.push(Figure::new("Snoozed", report.snoozed, "put off by their handler"));
    }
    if report.in_hand > 0 {
        figures.push(Figure::new("In hand", report.in_hand, "of a pass that runs"));
    }
    let put_aside = Figure::new("Archived", archived, "given up, or put aside");
    figures.push(put_aside.urgent(if archived > 0 { "warning" } else { "plain" }));
    let last_pass = last_pass(report, screen);
    figures.push(Figure {
        label: "Last pass",
        value: shortened(&last_pass, 100),
        note: String::new(),
        mood: if has_alarm { "bad words" } else { "plain words" },
    });
    figures
}

fn due_figures(due: &DueReport, screen: &Screen) -> Vec<Figure> {
    let waits = due.oldest_due_secs.map(|secs| format!("the longest for {}", rough_span(secs)));
    let now = Figure::new("Due now", due.due, waits.unwrap_or_default());
    let next = due.by_hour.next.map(|at| format!("the next is due {}", screen.distance(at)));
    let waiting = Figure::new("Waiting", due.waiting, next.unwrap_or_default());
    let to_be = Figure::new("To be archived", due.to_be_archived, "given up, by the next pass");
    let never = Figure::new("Never due", due.never_due, "too old for this line, or undated");
    let others = [to_be, never].into_iter().zip([due.to_be_archived, due.never_due]);
    let others = others.filter(|(_, count)| *count > 0).map(|(it, _)| it.urgent("warning"));
    [now, waiting].into_iter().chain(others).collect()
}

#[derive(Serialize)]
struct Causes {
    rows: Vec<CauseRow>,
    more: usize,
}

#[derive(Serialize)]
struct CauseRow {
    id: String,
    records: String,
    since: Option<Moment>,
    until: Option<Moment>,
    samples: String,
    error: String,
}

impl Causes {
    fn new(report: &StatusReport, detail: Detail) -> Self {
        let ranked = report.failures.causes.ranked();
        let rows =
            ranked.iter().take(detail.causes).map(|(cause, group)| row(cause, group, detail));
        Self { rows: rows.collect(), more: ranked.len().saturating_sub(detail.causes) }
    }
}

fn row(cause: &Cause, group: &Group, detail: Detail) -> CauseRow {
    CauseRow {
        id: cause.id(),
        records: grouped(group.records),
        since: group.since.map(Moment::to_the_minute),
        until: group.until.map(Moment::to_the_minute),
        samples: shortened(&samples(group), 60),
        error: shortened(cause.text(), detail.error),
    }
}

#[derive(Serialize)]
struct Archived {
    rows: Vec<ArchivedRow>,
    total: String,
    is_all: bool,
}

#[derive(Serialize)]
struct ArchivedRow {
    id: String,
    inserted: Option<Moment>,
    failed: Option<Moment>,
    error: String,
}

impl Archived {
    fn new(report: &StatusReport, detail: Detail) -> Self {
        let total = of_status(report, Status::Archived);
        let row = |record: &Record| ArchivedRow {
            id: shortened(&record.id.full(), 60),
            inserted: record.inserted_at.map(Moment::to_the_minute),
            failed: record.last_failure_at.map(Moment::to_the_minute),
            error: error_of(record, detail),
        };
        let rows: Vec<_> = report.archived.iter().take(detail.archived).map(row).collect();
        Self { total: grouped(total), is_all: rows.len() as u64 >= total, rows }
    }
}

fn error_of(record: &Record, detail: Detail) -> String {
    let error = record.last_error.as_deref().map(last_error::bare);
    shortened(error.unwrap_or_default(), detail.error)
}

#[derive(Serialize)]
struct Attempts {
    line: String,
    is_by_age: bool,
    due: String,
    chart: Chart,
    /// None if nothing is due in any of them.
    hours: Vec<Hour>,
    /// The hours at which the axis is labelled.
    ticks: Vec<String>,
    others: Vec<(&'static str, String)>,
}

impl Attempts {
    fn new(due: &DueReport, screen: &Screen) -> Self {
        let by_hour = &due.by_hour;
        let waits = by_hour.hours.iter().any(|records| *records > 0);
        let at = |hours: i64| screen.now.saturating_add(hours * 3_600).to_string();
        let clock = |at: String| at.get(11..16).map(String::from).unwrap_or(at);
        let others = [
            ("due now", due.due),
            ("later than in 24 hours", by_hour.later),
            ("archived by the next pass", due.to_be_archived),
            ("never", due.never_due),
        ];
        Self {
            line: shortened(&due.line, 200),
            is_by_age: due.is_by_age,
            due: grouped(due.due),
            hours: if waits { hours_in_numbers(by_hour, screen.now) } else { Vec::new() },
            chart: hours(by_hour),
            ticks: [0, 6, 12, 18, 24].into_iter().map(|hours| clock(at(hours))).collect(),
            others: others.into_iter().map(|(when, count)| (when, grouped(count))).collect(),
        }
    }
}

#[derive(Serialize)]
struct Passes {
    sentences: Vec<Vec<Part>>,
    errors: Vec<String>,
    worker: Option<String>,
    count: usize,
    chart: Chart,
    recent: Vec<PassRow>,
}

#[derive(Serialize)]
struct PassRow {
    began: Moment,
    line: String,
    what: Vec<Part>,
}

impl Passes {
    fn new(report: &StatusReport, screen: &Screen) -> Self {
        let passes = &report.passes;
        let recent = passes.recent();
        let rows = recent.iter().take(IN_WORDS).map(|(entry, history)| PassRow {
            began: Moment::new(entry.last_began()),
            line: shortened(&history.line.policy, 60),
            what: sentence(&pass_in_words(entry, history)),
        });
        let worker = passes.worker.as_ref();
        let worker = worker.map(|(user, host)| format!("passes of user {user} on {host}"));
        Self {
            sentences: told(&sentences(passes, screen)),
            errors: passes.errors.iter().take(3).map(|error| shortened(error, 200)).collect(),
            worker: worker.map(|text| shortened(&text, 200)),
            count: recent.len(),
            chart: bars::passes(&recent),
            recent: rows.collect(),
        }
    }
}

/// The records by status and age, each cell shaded by its share of the status.
#[derive(Serialize)]
struct Matrix {
    bands: Vec<String>,
    rows: Vec<MatrixRow>,
    totals: Vec<String>,
}

#[derive(Serialize)]
struct MatrixRow {
    status: String,
    cells: Vec<Cell>,
    total: String,
}

#[derive(Serialize)]
struct Cell {
    records: String,
    shade: u64,
}

type Line = (String, [u64; COLUMNS]);

impl Matrix {
    /// None of a table without records.
    fn new(counts: &[Count]) -> Option<Self> {
        let lines = few(status_lines(counts));
        let sums: Vec<u64> =
            (0..COLUMNS).map(|band| lines.iter().map(|(_, cells)| cells[band]).sum()).collect();
        let total: u64 = sums.iter().sum();
        let totals = sums.into_iter().chain([total]).map(grouped);
        (total > 0).then(|| Self {
            bands: band_names().collect(),
            rows: lines.iter().map(matrix_row).collect(),
            totals: totals.collect(),
        })
    }
}

/// The lines with those behind the first summed up.
fn few(mut lines: Vec<Line>) -> Vec<Line> {
    if lines.len() <= MOST_STATUSES {
        return lines;
    }
    let rest = lines.split_off(MOST_STATUSES - 1);
    let name = format!("{} other statuses", rest.len());
    let sum = |band: usize| rest.iter().map(|(_, cells)| cells[band]).sum();
    lines.push((name, std::array::from_fn(sum)));
    lines
}

fn matrix_row((status, cells): &Line) -> MatrixRow {
    let total: u64 = cells.iter().sum();
    let cell = |records: &u64| Cell {
        records: grouped(*records),
        shade: records.saturating_mul(5).div_ceil(total.max(1)),
    };
    MatrixRow {
        status: shortened(status, 40),
        cells: cells.iter().map(cell).collect(),
        total: grouped(total),
    }
}

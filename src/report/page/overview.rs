//! The overview: what is most urgent in all queues, and a line for each where there are several.

use serde::Serialize;

use super::queue::anchor;
use super::{NAME, shortened};
use crate::record::{Status, counted};
use crate::report::passes::alarms;
use crate::report::screen::{Screen, grouped};
use crate::report::status::{QueueStatus, StatusReport, last_pass};
use crate::system_error::chain;
use crate::time::rough_span;

#[derive(Serialize)]
pub struct Overview {
    /// In one sentence.
    summary: String,
    is_well: bool,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    anchor: String,
    name: String,
    /// Why nothing is known of the queue.
    error: Option<String>,
    cells: Option<Cells>,
}

#[derive(Serialize)]
struct Cells {
    failed: String,
    has_failed: bool,
    due: String,
    /// How long the record has waited that has been due the longest.
    due_for: String,
    pending: String,
    snoozed: String,
    archived: String,
    has_archived: bool,
    last_pass: String,
    is_alarming: bool,
}

impl Overview {
    pub fn new(queues: &[QueueStatus], screen: &Screen) -> Self {
        let known = || queues.iter().filter_map(|(_, report)| report.as_ref().ok());
        let failed: u64 = known().map(|report| report.failed).sum();
        let archived: u64 = known().map(|report| of_status(report, Status::Archived)).sum();
        let alarming = known().filter(|report| !alarms(&report.passes, screen).is_empty()).count();
        let paused = known().filter(|report| report.paused.is_some()).count();
        let unknown = queues.len() - known().count();
        let queues_with = |count: usize, what| match count {
            0 => None,
            count => Some(format!("{what} {}", counted(count as u64, "queue"))),
        };
        let parts = [
            queues_with(unknown, "nothing is known of"),
            queues_with(alarming, "passes need attention in"),
            queues_with(paused, "paused is"),
            (failed > 0).then(|| format!("{} failed", records(failed, "has", "have"))),
            (archived > 0).then(|| format!("{} archived", records(archived, "is", "are"))),
        ];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        let summary = if parts.is_empty() { "nothing has failed".into() } else { parts.join("; ") };
        let rows = queues.iter().zip(1..).map(|(queue, number)| Row::new(queue, number, screen));
        Self { summary, is_well: unknown + alarming == 0 && failed == 0, rows: rows.collect() }
    }
}

/// `1 record has`, `4,055 records have`
fn records(count: u64, has: &str, have: &str) -> String {
    match count {
        1 => format!("1 record {has}"),
        count => format!("{} records {have}", grouped(count)),
    }
}

impl Row {
    fn new((name, report): &QueueStatus, number: usize, screen: &Screen) -> Self {
        let error = report.as_ref().err().map(|error| shortened(&chain(error), 200));
        let cells = report.as_ref().ok().map(|report| Cells::new(report, screen));
        Self { anchor: anchor(number), name: shortened(name, NAME), error, cells }
    }
}

impl Cells {
    fn new(report: &StatusReport, screen: &Screen) -> Self {
        let due = report.due.as_ref();
        let pending = Status::PENDING.map(|status| of_status(report, status)).iter().sum();
        let archived = of_status(report, Status::Archived);
        Self {
            failed: grouped(report.failed),
            has_failed: report.failed > 0,
            due: due.map_or_else(|| "not known".into(), |due| grouped(due.due)),
            due_for: match due.filter(|due| due.due > 0) {
                Some(due) => due.oldest_due_secs.map_or_else(|| "not known".into(), rough_span),
                None => "none".into(),
            },
            pending: grouped(pending),
            snoozed: grouped(report.snoozed),
            archived: grouped(archived),
            has_archived: archived > 0,
            last_pass: last_pass(report, screen),
            is_alarming: !alarms(&report.passes, screen).is_empty(),
        }
    }
}

/// How many records of the table have a status.
pub fn of_status(report: &StatusReport, status: Status) -> u64 {
    report.counts.iter().filter(|count| count.status == status).map(|count| count.rows).sum()
}

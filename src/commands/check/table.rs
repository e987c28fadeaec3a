//! The table: its columns, values, dates, ids, indexes and triggers.

use backlog_schedule::{Instant, Status, counted, span};
use backlog_store::{Inspection, Pending, Table};

use super::findings::Findings;
use crate::report::{Finding, Level};

/// Below this number of rows, a table is read from one end to the other in no time.
const SMALL: u64 = 100_000;
/// How far a date may lie in the future.
const SKEW_SECS: i64 = 60;

pub fn check(findings: &mut Findings, table: &Table, found: &Inspection, now: Instant) {
    let rows = found.rows.map_or("its rows not counted".into(), |rows| counted(rows, "row"));
    let at_least = if found.pending.is_cut { "at least " } else { "" };
    let aside = if found.aside.is_empty() { String::new() } else { format!("; {}", found.aside) };
    let pending = found.pending.rows;
    findings.ok("table", format!("{}, {rows}, {at_least}{pending} pending{aside}", table.name));
    let columns =
        table.roles().map(|(role, _, it)| format!("{role} = {} {}", it.name, it.declared));
    let columns: Vec<_> = columns.map(|it| it.trim_end().to_string()).collect();
    findings.ok("columns", columns.join(", "));
    for why in found.unread.shown() {
        findings.error("table", why);
    }
    if let Some(why) = &found.hidden {
        findings.warning("table", why);
    }
    for complaint in &table.complaints {
        findings.error("columns", complaint);
    }
    statuses(findings, table, found);
    dates(findings, table.inserted.label(), &found.pending, now);
    if let Some((records, first)) = &found.pending.without_id {
        let records = counted(*records, "pending record");
        findings.error("ids", format!("{records} never tried, because the id is none: {first}"));
    }
    if let Some(it) = table.statuses.column.as_ref().filter(|column| column.is_generated) {
        findings.error("status", format!("{} cannot be written: the table computes it", it.name));
    }
    if let Some(id) = &found.duplicate {
        findings.error("ids", format!("more than one row has the id {id}: none of them is tried"));
    }
    for (finds, statement) in found.missing.iter().flatten() {
        let is_small = found.rows.is_some_and(|rows| rows < SMALL);
        findings.0.push(Finding {
            level: if is_small { Level::Warning } else { Level::Error },
            about: "index",
            text: format!("no index finds {finds}: the whole table is read for that"),
            statement: Some(format!("{statement};")),
        });
    }
    if found.missing.as_ref().is_some_and(Vec::is_empty) {
        findings.ok("index", "pending records and single ones are found by an index");
    }
    for trigger in &found.triggers {
        findings.warning("trigger", format!("{trigger} runs with what is written"));
    }
    for why in &found.refused {
        findings.error("trigger", format!("the table refuses what a pass writes: {why}"));
    }
}

fn statuses(findings: &mut Findings, table: &Table, found: &Inspection) {
    let of = |status| found.values.iter().filter(move |value| value.status == status);
    let mapped = |status: Status| {
        let values: Vec<_> = of(status).map(|it| format!("{} ({})", it.shown, it.rows)).collect();
        (!values.is_empty()).then(|| format!("{} = {}", status.name(), values.join(", ")))
    };
    let shown: Vec<_> = Status::OURS.into_iter().filter_map(mapped).collect();
    if !shown.is_empty() {
        findings.ok("status", shown.join("; "));
    } else if let Some(column) = table.statuses.column.as_ref().filter(|_| !found.values.is_empty())
    {
        let name = &column.name;
        findings.error(
            "status",
            format!(
                "no row has a value that is mapped to a status: write status = {{ column = {name:?}, \
                 new = ..., error = ..., success = ... }}, or if {name} is something else, status = \
                 false with `where`"
            ),
        );
    }
    for value in of(Status::Foreign) {
        let left = format!("{}: {} left alone", value.shown, counted(value.rows, "row"));
        match &value.like {
            Some(like) => findings
                .error("status", format!("{left}, because it is not {like}: map it as well")),
            None => findings.warning("status", format!("{left}, mapped to no status")),
        }
    }
}

fn dates(findings: &mut Findings, column: &str, found: &Pending, now: Instant) {
    let formats = found.formats.iter().map(|(format, (rows, id))| {
        format!("{format} in {}, such as {id}", counted(*rows, "record"))
    });
    if found.formats.len() > 1 {
        let each = formats.collect::<Vec<_>>().join("; ");
        findings.warning("dates", format!("{column} is written in several ways: {each}"));
    } else if let Some(format) = found.formats.keys().next() {
        findings.ok("dates", format!("{column} is written as {format}"));
    }
    for (undated, what) in [
        (&found.undated, format!("without a readable {column}")),
        (&found.without_due_date, "never due, because that is no date".into()),
    ] {
        if undated.rows > 0 {
            let records = counted(undated.rows, "pending record");
            findings.error("dates", format!("{records} {what}: {}", undated.shown()));
        }
    }
    if let Some(newest) = found.newest.filter(|at| *at > now.saturating_add(SKEW_SECS)) {
        let ahead = span(newest.0 - now.0);
        findings.warning(
            "clock",
            format!(
                "the newest pending record is from {newest}, {ahead} from now: another clock, another \
                 zone of date_inserted, or a date to come"
            ),
        );
    }
}

//! Inspection of the database and the table, as findings.

use super::Findings;
use crate::options::Queue;
use crate::record::{Status, counted};
use crate::report::{Finding, Level};
use crate::store::{Database, Inspection, Pending, Table};
use crate::time::{Instant, span};

/// Below this a table is read from one end to the other in no time.
const SMALL: u64 = 100_000;
/// How far a date may lie in the future without a word.
const SKEW_SECS: i64 = 60;

pub fn the_database(findings: &mut Findings, queue: &Queue, database: &mut dyn Database) {
    let place = database.place();
    match findings.wrong("database", database.obstacle()) {
        Some(None) => findings.ok("database", place),
        Some(Some(why)) => findings.error("database", format!("{place}: {why}")),
        None => {}
    }
    let state = database.state_dir(queue.state_dir.as_deref());
    let state =
        state.and_then(|state| state.check_writable(&database.table().name).map(|()| state));
    if let Some(state) = findings.wrong("claims", state) {
        let path = state.path().display();
        let by_server = if state.is_of_a_server() { "by the server, cursors " } else { "" };
        findings.ok("claims", format!("kept {by_server}in {path}"));
    }
}

pub fn the_table(findings: &mut Findings, table: &Table, found: &Inspection, now: Instant) {
    let rows = found.rows.map(|rows| counted(rows, "row"));
    let rows = rows.unwrap_or_else(|| "its rows not counted".into());
    let at_least = if found.pending.is_cut { "at least " } else { "" };
    let pending = format!("{at_least}{} pending", found.pending.rows);
    let aside = if found.aside.is_empty() { String::new() } else { format!("; {}", found.aside) };
    findings.ok("table", format!("{}, {rows}, {pending}{aside}", table.name));
    let columns: Vec<_> = table
        .roles()
        .map(|(role, it)| format!("{role} = {} {}", it.name, it.declared).trim_end().to_string())
        .collect();
    findings.ok("columns", columns.join(", "));
    for why in found.unread.shown() {
        findings.error("table", why);
    }
    for complaint in &table.complaints {
        findings.error("columns", complaint.clone());
    }
    the_statuses(findings, found);
    the_dates(findings, &table.inserted.name, &found.pending, now);
    if let Some((records, first)) = &found.pending.without_id {
        let records = counted(*records, "pending record");
        findings.error("ids", format!("{records} never tried, because the id is none: {first}"));
    }
    if let Some(column) = table.statuses.column.as_ref().filter(|column| column.is_generated) {
        findings
            .error("status", format!("{} cannot be written: the table computes it", column.name));
    }
    if let Some(id) = &found.duplicate {
        findings.error("ids", format!("more than one row has the id {id}: none of them is tried"));
    }
    the_indexes(findings, found);
    for trigger in &found.triggers {
        findings.warning("trigger", format!("{trigger} runs with what is written"));
    }
    for why in &found.refused {
        findings.error("trigger", format!("the table refuses what a pass writes: {why}"));
    }
}

fn the_indexes(findings: &mut Findings, found: &Inspection) {
    for missing in found.missing.iter().flatten() {
        let is_small = found.rows.is_some_and(|rows| rows < SMALL);
        let level = if is_small { Level::Warning } else { Level::Error };
        let text = format!("no index finds {}: the whole table is read for that", missing.finds);
        let statement = Some(format!("{};", missing.statement));
        findings.0.push(Finding { level, about: "index", text, statement });
    }
    if found.missing.as_ref().is_some_and(Vec::is_empty) {
        findings.ok("index", "pending records and single ones are found by an index");
    }
}

fn the_statuses(findings: &mut Findings, found: &Inspection) {
    let mapped = |status: Status| {
        let of = found.values.iter().filter(|value| value.status == status);
        let values: Vec<_> = of.map(|it| format!("{} ({})", it.shown, it.rows)).collect();
        (!values.is_empty()).then(|| format!("{} = {}", status.name(), values.join(", ")))
    };
    let shown: Vec<_> = Status::OURS.into_iter().filter_map(mapped).collect();
    if !shown.is_empty() {
        findings.ok("status", shown.join("; "));
    } else if !found.values.is_empty() {
        findings.error("status", "no row has a value that is mapped to a status");
    }
    for value in found.values.iter().filter(|value| value.status == Status::Foreign) {
        let rows = counted(value.rows, "row");
        match &value.like {
            Some(like) => findings.error(
                "status",
                format!(
                    "{}: {rows} left alone, because it is not {like}: map it as well",
                    value.shown
                ),
            ),
            None => findings.warning(
                "status",
                format!("{}: {rows} left alone, mapped to no status", value.shown),
            ),
        }
    }
}

fn the_dates(findings: &mut Findings, column: &str, found: &Pending, now: Instant) {
    let formats: Vec<_> =
        found.formats.iter().map(|(format, (rows, id))| (format, *rows, id)).collect();
    match &formats[..] {
        [] => {}
        [(format, _, _)] => findings.ok("dates", format!("{column} is written as {format}")),
        several => {
            let each = several.iter().map(|(format, rows, id)| {
                format!("{format} in {}, such as {id}", counted(*rows, "record"))
            });
            let each = each.collect::<Vec<_>>().join("; ");
            findings.warning("dates", format!("{column} is written in several ways: {each}"));
        }
    }
    if found.undated.rows > 0 {
        let records = counted(found.undated.rows, "pending record");
        let shown = found.undated.shown();
        findings.error("dates", format!("{records} without a readable {column}: {shown}"));
    }
    if let Some(newest) = found.newest.filter(|at| *at > now.saturating_add(SKEW_SECS)) {
        let ahead = span(newest.0 - now.0);
        findings.warning(
            "clock",
            format!(
                "the newest pending record is from {newest}, {ahead} from now: another clock, \
                 another zone of date_inserted, or a date to come"
            ),
        );
    }
}

//! What is found of the database and the table.

use std::path::Path;

use rustix::fs::{Access, access};

use super::super::line::state_dir;
use super::Findings;
use crate::config::Queue;
use crate::instant::{Instant, span};
use crate::record::{Status, counted};
use crate::report::{Finding, Level};
use crate::store::{Database, Examination};

/// Below this a table is read from one end to the other in no time.
const SMALL: u64 = 100_000;
/// How far a date may lie in the future without a word.
const SKEW_SECS: i64 = 60;

pub fn the_database(findings: &mut Findings, queue: &Queue, database: &Database) {
    let path = database.path.display();
    // Its journal is made beside it.
    let directory = database.path.parent().unwrap_or(Path::new("/"));
    let writable = access(&database.path, Access::WRITE_OK)
        .and_then(|()| access(directory, Access::WRITE_OK | Access::EXEC_OK));
    match writable {
        Ok(()) => findings.fine("database", path.to_string()),
        Err(error) => findings.mend(
            "database",
            format!("{path} or its directory cannot be written by this user: {error}"),
        ),
    }
    match state_dir(queue, database) {
        Ok(state) => match state.check_writable() {
            Ok(()) => findings.fine("claims", format!("kept in {}", state.path().display())),
            Err(error) => findings.mend("claims", format!("{error:#}")),
        },
        Err(error) => findings.mend("claims", format!("{error:#}")),
    }
}

pub fn the_table(findings: &mut Findings, database: &Database, found: &Examination, now: Instant) {
    let table = &database.table;
    let (rows, pending) = (counted(found.rows, "row"), found.pending);
    findings.fine(
        "table",
        format!("{}, {rows}, {pending} pending; journal mode {}", table.name, found.journal_mode),
    );
    let columns: Vec<_> = found
        .columns
        .iter()
        .map(|it| format!("{} = {} {}", it.role, it.name, it.declared).trim_end().to_string())
        .collect();
    findings.fine("columns", columns.join(", "));
    the_statuses(findings, found);
    the_dates(findings, &table.inserted.name, found, now);
    if let Some((records, first)) = &found.without_id {
        let records = counted(*records, "pending record");
        findings.mend("ids", format!("{records} never tried, because the id is none: {first}"));
    }
    if let Some(column) = table.statuses.column.as_ref().filter(|column| column.is_generated) {
        findings
            .mend("status", format!("{} cannot be written: the table computes it", column.name));
    }
    if let Some(id) = &found.duplicate {
        findings.mend("ids", format!("more than one row has the id {id}: none of them is tried"));
    }
    for missing in &found.missing {
        let level = if found.rows < SMALL { Level::Note } else { Level::Mend };
        let text = format!("no index finds {}: the whole table is read for that", missing.finds);
        let statement = Some(format!("{};", missing.statement));
        findings.0.push(Finding { level, about: "index", text, statement });
    }
    if found.missing.is_empty() {
        findings.fine("index", "pending records and single ones are found by an index");
    }
    for trigger in &found.triggers {
        findings.note("trigger", format!("{trigger} runs with what is written"));
    }
}

fn the_statuses(findings: &mut Findings, found: &Examination) {
    let mapped = |status: Status| {
        let of = found.values.iter().filter(|value| value.status == status);
        let values: Vec<_> = of.map(|it| format!("{} ({})", it.shown, it.rows)).collect();
        (!values.is_empty()).then(|| format!("{} = {}", status.name(), values.join(", ")))
    };
    let shown: Vec<_> = Status::OURS.into_iter().filter_map(mapped).collect();
    if !shown.is_empty() {
        findings.fine("status", shown.join("; "));
    } else if !found.values.is_empty() {
        findings.mend("status", "no row has a value that is mapped to a status");
    }
    for value in found.values.iter().filter(|value| value.status == Status::Foreign) {
        let rows = counted(value.rows, "row");
        match &value.like {
            Some(like) => findings.mend(
                "status",
                format!(
                    "{}: {rows} left alone, because it is not {like}: map it as well",
                    value.shown
                ),
            ),
            None => findings
                .note("status", format!("{}: {rows} left alone, mapped to no status", value.shown)),
        }
    }
}

fn the_dates(findings: &mut Findings, column: &str, found: &Examination, now: Instant) {
    let formats: Vec<_> =
        found.formats.iter().map(|(format, rows, id)| (format, *rows, id)).collect();
    match &formats[..] {
        [] => {}
        [(format, _, _)] => findings.fine("dates", format!("{column} is written as {format}")),
        several => {
            let each = several.iter().map(|(format, rows, id)| {
                format!("{format} in {}, such as {id}", counted(*rows, "record"))
            });
            let each = each.collect::<Vec<_>>().join("; ");
            findings.note("dates", format!("{column} is written in several ways: {each}"));
        }
    }
    if found.undated.rows > 0 {
        let records = counted(found.undated.rows, "pending record");
        let shown = found.undated.shown();
        findings.mend("dates", format!("{records} without a readable {column}: {shown}"));
    }
    if let Some(newest) = found.newest.filter(|at| *at > now.saturating_add(SKEW_SECS)) {
        let ahead = span(newest.0 - now.0);
        findings.note(
            "clock",
            format!(
                "the newest pending record is from {newest}, {ahead} from now: another clock, \
                 another --zone, or a date to come"
            ),
        );
    }
}

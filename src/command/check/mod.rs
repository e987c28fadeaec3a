//! `backlog check`: whether the table, the handler and the crontab are as they must be. Nothing is
//! written, and what is wrong in one place does not keep the others from being looked at.

mod around;
mod table;

use std::io::Write;

use anyhow::Result;

use super::handlers::require;
use super::{open, require_columns};
use crate::cli;
use crate::config::{Handler, Place, Schedule, Sources};
use crate::exit::Exit;
use crate::instant::Instant;
use crate::report::{self, Finding, Level};
use crate::store::Access;
use around::{the_crontab, the_handler};
use table::{the_database, the_table};

struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, level: Level, about: &'static str, text: impl Into<String>) {
        self.0.push(Finding { level, about, text: text.into(), statement: None });
    }

    fn fine(&mut self, about: &'static str, text: impl Into<String>) {
        self.add(Level::Fine, about, text);
    }

    fn note(&mut self, about: &'static str, text: impl Into<String>) {
        self.add(Level::Note, about, text);
    }

    fn mend(&mut self, about: &'static str, text: impl Into<String>) {
        self.add(Level::Mend, about, text);
    }
}

/// What it means for a receiver that ids of deleted rows are given again.
fn reused(inserted: &str) -> String {
    format!(
        "without AUTOINCREMENT the id of a deleted row is given again: only {inserted} tells such \
         records apart in webhook-id"
    )
}

pub fn run(
    place: Place,
    args: &cli::Check,
    sources: &Sources,
    now: Instant,
    out: &mut dyn Write,
) -> Result<Exit> {
    let mut findings = Findings(Vec::new());
    for complaint in place.complaints() {
        findings.mend("options", complaint);
    }
    let queue = place.queue()?;
    let schedule = Schedule::chosen(&args.schedule)?;
    if schedule.is_none() {
        findings.note("schedule", "none is configured: it stands in each line");
    }
    if let Some(file) = sources.path() {
        findings.fine("config", format!("{}, queue {}", file.display(), queue.name));
        if let Some(what) = sources.exposed() {
            let shown = file.display();
            findings.mend("config", format!("others can read {what}: chmod 600 {shown}"));
        }
    }
    let handler = Handler::chosen(&args.handler, &queue, sources.environment());
    let by_count = schedule.as_ref().is_some_and(|it| it.policy.needs_counter());
    match open(&queue, Access::ReadOnly) {
        Err(error) => findings.mend("database", format!("{error:#}")),
        Ok(mut database) => {
            database.leave_alone()?;
            the_database(&mut findings, &queue, &mut *database);
            let found = database.examine(by_count)?;
            let table = database.table();
            if let Err(error) = table.require_success() {
                findings.mend("on_success", format!("{error:#}"));
            }
            for key in table.ends_that_change_nothing() {
                findings.mend(key, "it sets no column that `where` reads: the row stays pending");
            }
            if let Some(schedule) = &schedule {
                match require_columns(table, schedule) {
                    Ok(()) => findings.fine("schedule", schedule.policy.line()),
                    Err(error) => findings.mend("schedule", format!("{error:#}")),
                }
            }
            if let Ok(Some(handler)) = &handler
                && let Err(error) = require(handler, queue.on_archive.as_deref(), table)
            {
                findings.mend("handler", format!("{error:#}"));
            }
            for condition in &queue.mapping.conditions {
                findings.fine("where", condition.clone());
            }
            the_table(&mut findings, table, &found, now);
            if found.reuses_ids && matches!(handler, Ok(Some(Handler::Post(_)))) {
                findings.note("ids", reused(&table.inserted.name));
            }
        }
    }
    match &handler {
        Ok(handler) => the_handler(&mut findings, handler.as_ref(), sources.environment()),
        Err(error) => findings.mend("handler", error.message.clone()),
    }
    the_crontab(&mut findings, &queue, sources);
    let text = if args.json {
        let db = queue.db.to_string();
        report::findings_json(&queue.name, &db, &queue.mapping.table.text, &findings.0)
    } else {
        report::findings_text(&findings.0)
    };
    out.write_all(text.as_bytes())?;
    let is_fine = findings.0.iter().all(|finding| finding.level != Level::Mend);
    Ok(if is_fine { Exit::Done } else { Exit::Failed })
}

//! `backlog check`: whether the table, the handler and the crontab are as they must be. Nothing is
//! written, and what is wrong in one place does not keep the others from being looked at.

mod environment;
mod table;

use anyhow::Result;
use serde_json::json;

use super::assemble::require;
use super::{Console, open, require_columns};
use crate::exit::Exit;
use crate::options::{Handler, Resolved};
use crate::record::json_line;
use crate::report::{Finding, Level, findings_text};
use crate::store::Access;
use environment::{the_crontab, the_handler};
use table::{the_database, the_table};

struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, level: Level, about: &'static str, text: impl Into<String>) {
        self.0.push(Finding { level, about, text: text.into(), statement: None });
    }

    fn ok(&mut self, about: &'static str, text: impl Into<String>) {
        self.add(Level::Ok, about, text);
    }

    fn warning(&mut self, about: &'static str, text: impl Into<String>) {
        self.add(Level::Warning, about, text);
    }

    fn error(&mut self, about: &'static str, text: impl Into<String>) {
        self.add(Level::Error, about, text);
    }

    fn wrong<T>(&mut self, about: &'static str, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.error(about, format!("{error:#}"))).ok()
    }
}

pub fn run(resolved: &Resolved<'_>, is_json: bool, console: &mut Console<'_>) -> Result<Exit> {
    let sources = resolved.sources;
    let mut findings = Findings(Vec::new());
    for complaint in resolved.complaints() {
        findings.error("options", complaint);
    }
    let queue = resolved.queue()?;
    let schedule = resolved.schedule()?;
    if schedule.is_none() {
        findings.warning("schedule", "none is configured: it stands in each line");
    }
    if let Some(file) = &sources.file {
        let shown = file.path.display();
        findings.ok("config", format!("{shown}, queue {}", queue.name));
        if let Some(what) = file.exposed() {
            findings.error("config", format!("others can read {what}: chmod 600 {shown}"));
        }
    }
    let handler = resolved.handler(&queue);
    let by_count = schedule.as_ref().is_some_and(|it| it.policy.needs_counter());
    if let Some(mut database) = findings.wrong("database", open(&queue, Access::ReadOnly)) {
        database.leave_alone()?;
        the_database(&mut findings, &queue, &mut *database);
        let found = database.inspect(by_count)?;
        let table = database.table();
        findings.wrong("on_success", table.require_success());
        for key in table.ends_that_change_nothing() {
            findings.error(key, "it sets no column that `where` reads: the row stays pending");
        }
        if let Some(schedule) = &schedule
            && findings.wrong("schedule", require_columns(table, schedule)).is_some()
        {
            findings.ok("schedule", schedule.policy.line());
        }
        if let Ok(Some(handler)) = &handler {
            findings.wrong("handler", require(handler, &queue, table));
        }
        for condition in &queue.mapping.conditions {
            findings.ok("where", condition.clone());
        }
        the_table(&mut findings, table, &found, console.clock.now());
        if found.reuses_ids && matches!(handler, Ok(Some(Handler::Post(_)))) {
            let why = format!(
                "without AUTOINCREMENT the id of a deleted row is given again: only {} tells \
                     such records apart in webhook-id",
                table.inserted.name
            );
            findings.warning("ids", why);
        }
    }
    let (level, text) = match &handler {
        Ok(handler) => the_handler(handler.as_ref(), &sources.environment),
        Err(error) => (Level::Error, error.message.clone()),
    };
    findings.add(level, "handler", text);
    the_crontab(&mut findings, &queue, &sources.environment);
    let ok = findings.0.iter().all(|finding| finding.level != Level::Error);
    let text = if is_json {
        let (name, db, table) = (&queue.name, queue.db.to_string(), &queue.mapping.table.text);
        let findings = &findings.0;
        json_line(
            &json!({ "queue": name, "db": db, "table": table, "ok": ok, "findings": findings }),
        )
    } else {
        findings_text(&findings.0)
    };
    console.out.write_all(text.as_bytes())?;
    Ok(if ok { Exit::Done } else { Exit::Failed })
}

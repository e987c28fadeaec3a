//! `backlog check`: checks the table, the handler and the crontab. Only a rehearsal writes, and an error in
//! one place does not keep the others from being checked.

mod findings;
mod handler;
mod lines;
mod queues;
mod rehearsal;
mod table;

use anyhow::Result;
use backlog_schedule::json_line;
use backlog_store::system_error::chain;
use backlog_store::{Access, StateDir, Table};
use serde_json::json;

use super::assemble::require;
use super::{Console, open, passes, require_columns, state_dir};
use crate::cli::Check;
use crate::exit::Exit;
use crate::options::{Handler, Queue, Resolved};
use crate::report::{Level, Screen, findings_text};

use findings::Findings;
use lines::QueueLines;

pub fn run(resolved: &Resolved<'_>, args: &Check, console: &mut Console<'_>) -> Result<Exit> {
    let (sources, clock) = (resolved.sources, console.clock);
    let mut findings = Findings::default();
    for complaint in resolved.complaints() {
        findings.error("options", complaint);
    }
    let (queue, schedule) = (resolved.queue()?, resolved.schedule()?);
    let distrusted = resolved.complaints_of_owners();
    for (about, why) in &distrusted {
        findings.error(about, why);
    }
    let opened = distrusted.is_empty().then(|| open(&queue, Access::ReadOnly, clock));
    let database = opened.and_then(|opened| findings.wrong("database", opened));
    let table = database.as_ref().map(|database| database.table());
    let lines = QueueLines::read(&queue, table, &console.screen);
    if schedule.is_none() && !lines.is_any() {
        findings.warning("schedule", "none is configured: write it into each line");
    }
    if let Some(file) = &sources.file {
        let path = file.path.display();
        findings.ok("config", format!("{path}, queue {}", queue.name));
        if let Some(what) = file.exposed() {
            findings.error("config", format!("others can read {what}: chmod 600 {path}"));
        }
    }
    let chosen = resolved.handler(&queue);
    let mut is_running = false;
    if let Some(mut database) = database {
        database.leave_alone()?;
        match database.obstacle() {
            Ok(None) => findings.ok("database", database.place()),
            Ok(Some(why)) => findings.error("database", format!("{}: {why}", database.place())),
            Err(error) => findings.error("database", chain(&error)),
        }
        let state = findings.wrong("claims", state_dir(&queue, &*database));
        if let Some(state) = &state {
            check_state(&mut findings, &queue, state, database.table(), &console.screen);
        }
        let by_count = schedule.as_ref().is_some_and(|it| it.policy.needs_counter());
        let found = database.inspect(by_count)?;
        let deletion = findings.wrong("on_success", database.deletion()).flatten();
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
        let handler = chosen.as_ref().ok().and_then(Option::as_ref);
        findings.wrong("handler", require(handler, &queue, table));
        if !matches!(handler, Some(Handler::Post(_) | Handler::Stream(_))) {
            handler::check_variables(&mut findings, table);
        }
        for condition in &queue.mapping.conditions {
            findings.ok("where", condition);
        }
        table::check(&mut findings, table, &found, clock.now());
        if let Some(what) = &deletion {
            findings.warning("on_success", what);
        }
        if found.reuses_ids && matches!(handler, Some(Handler::Post(_))) {
            let why = "without AUTOINCREMENT the id of a deleted row is given again: only";
            let tells = format!("{} tells such records apart in webhook-id", table.inserted.name);
            findings.warning("ids", format!("{why} {tells}"));
        }
        queues::check(&mut findings, &queue, resolved, &mut *database, clock);
        if let Some(state) = state.filter(|state| !state.is_none()) {
            let (table, screen) = (database.table(), &console.screen);
            is_running = check_passes(&mut findings, resolved, &state, table, screen);
        }
        if args.rehearse {
            let rehearsed =
                rehearsal::check(&mut findings, &queue, schedule.as_ref(), handler, clock);
            findings.wrong("rehearsal", rehearsed);
        }
    }
    if let Some(chosen) = findings.wrong("handler", chosen.map_err(anyhow::Error::from)) {
        let (environment, has_lines) = (&sources.environment, lines.is_any());
        handler::check(&mut findings, chosen.as_ref(), environment, has_lines);
    }
    lines.check(&mut findings, is_running);
    let ok = findings.0.iter().all(|finding| finding.level != Level::Error);
    let text = if args.format.json {
        json_line(&json!({
            "queue": queue.name,
            "db": queue.db.to_string(),
            "table": queue.mapping.table.text,
            "ok": ok,
            "findings": findings.0,
        }))
    } else {
        findings_text(&findings.0)
    };
    console.out.write_all(text.as_bytes())?;
    Ok(if ok { Exit::Done } else { Exit::Failed })
}

/// Checks where claims are kept, and whether there is a pause.
fn check_state(
    findings: &mut Findings,
    queue: &Queue,
    state: &StateDir,
    table: &Table,
    screen: &Screen,
) {
    match findings.wrong("claims", state.check_writable(&table.name)) {
        Some(Some(lost)) => findings.warning("claims", lost),
        Some(None) => {
            let by_server = if state.is_of_a_server() { "by the server, cursors " } else { "" };
            findings.ok("claims", format!("kept {by_server}in {}", state.path().display()));
        }
        None => {}
    }
    if let Some(pause) = state.pause(&queue.name, &table.name, screen.now) {
        let pause = pause.sentence(|at| at.to_string());
        findings.warning("pause", format!("{pause}; `backlog resume` ends it"));
    }
}

/// Reports the last pass of each line, as `status` does, and tells whether all lines run on time.
fn check_passes(
    findings: &mut Findings,
    resolved: &Resolved<'_>,
    state: &StateDir,
    table: &Table,
    screen: &Screen,
) -> bool {
    let (histories, unread) = state.histories(0);
    for error in unread {
        findings.warning("passes", format!("some are not known: {}", chain(&error)));
    }
    let mut lines = passes::of_queue(resolved, table, histories, screen.now);
    lines.retain(|line| line.is_scheduled());
    if lines.is_empty() {
        findings.warning("passes", "no pass yet: is cron running, is the line installed?");
    }
    let mut is_running = !lines.is_empty();
    for line in &lines {
        let (missing, is_silent) = (line.missing(screen.now), line.silent(screen.now).is_some());
        is_running &= line.is_judged() && !is_silent;
        let level = match &missing {
            Some(_) => Level::Error,
            None if is_silent => Level::Warning,
            None => Level::Ok,
        };
        let policy = &line.history.line.policy;
        let text = missing.unwrap_or_else(|| line.in_short(screen));
        let asks = if is_silent { ": is cron running, is the line installed?" } else { "" };
        findings.add(level, "passes", format!("{policy}: {text}{asks}"));
    }
    is_running
}

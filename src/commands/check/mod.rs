//! `backlog check`: whether the table, the handler and the crontab are as they must be. Nothing is
//! written but by a rehearsal, and what is wrong in one place does not keep the others from being
//! looked at.

mod lines;
mod programs;
mod queues;
mod rehearsal;

use anyhow::Result;
use backlog_schedule::{Instant, Schedule, Status, counted, json_line, span};
use backlog_store::system_error::chain;
use backlog_store::{Access, Database, Inspection, Pending, Table};
use serde_json::json;

use self::lines::QueueLines;
use self::programs::of_command;
use super::assemble::require;
use super::{Console, open, passes, require_columns, state_dir};
use crate::cli::Check;
use crate::exit::{Exit, ExitError};
use crate::handlers::placeholders::variables;
use crate::handlers::{Signing, StreamSettings};
use crate::options::{Environment, Handler, Queue, Resolved};
use crate::report::{Finding, Level, Screen, findings_text};

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
        result.map_err(|error| self.error(about, chain(&error))).ok()
    }
}

pub fn run(resolved: &Resolved<'_>, args: &Check, console: &mut Console<'_>) -> Result<Exit> {
    let sources = resolved.sources;
    let mut findings = Findings(Vec::new());
    for complaint in resolved.complaints() {
        findings.error("options", complaint);
    }
    let queue = resolved.queue()?;
    let schedule = resolved.schedule()?;
    let distrusted = resolved.complaints_of_owners();
    for (about, why) in &distrusted {
        findings.error(about, why);
    }
    let opened = || open(&queue, Access::ReadOnly, console.clock);
    let is_trusted = distrusted.is_empty();
    let database = is_trusted.then(|| findings.wrong("database", opened())).flatten();
    let table = database.as_ref().map(|database| database.table());
    let lines = QueueLines::read(&queue, table, &console.screen);
    if schedule.is_none() && !lines.is_any() {
        findings.warning("schedule", "none is configured: write it into each line");
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
    let mut is_running = false;
    if let Some(mut database) = database {
        database.leave_alone()?;
        the_database(&mut findings, &queue, &mut *database);
        the_pause(&mut findings, &queue, &*database, console.clock.now());
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
        if let Ok(handler) = &handler {
            findings.wrong("handler", require(handler.as_ref(), &queue, table));
        }
        if !matches!(handler, Ok(Some(Handler::Post(_) | Handler::Stream(_)))) {
            the_variables(&mut findings, table);
        }
        for condition in &queue.mapping.conditions {
            findings.ok("where", condition.clone());
        }
        the_table(&mut findings, table, &found, console.clock.now());
        if let Some(what) = &deletion {
            findings.warning("on_success", what.clone());
        }
        if found.reuses_ids && matches!(handler, Ok(Some(Handler::Post(_)))) {
            let why = "without AUTOINCREMENT the id of a deleted row is given again: only";
            let tells = format!("{} tells such records apart in webhook-id", table.inserted.name);
            findings.warning("ids", format!("{why} {tells}"));
        }
        queues::check(&mut findings, &queue, resolved, &mut *database, console.clock);
        is_running = the_passes(&mut findings, &queue, resolved, &*database, &console.screen);
        if args.rehearse {
            the_rehearsal(&mut findings, &queue, schedule.as_ref(), &handler, console);
        }
    }
    if let Some(handler) = findings.wrong("handler", handler.map_err(anyhow::Error::from)) {
        let (level, text) = the_handler(handler.as_ref(), &sources.environment, lines.is_any());
        findings.add(level, "handler", text);
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

fn the_handler(
    handler: Option<&Handler>,
    environment: &Environment,
    has_lines: bool,
) -> (Level, String) {
    match handler {
        None if has_lines => (Level::Ok, "each line has its own".into()),
        None => (
            Level::Warning,
            "none is configured: set exec or post, or write the command behind `--` in each line"
                .into(),
        ),
        Some(Handler::Exec { argv, .. } | Handler::Stream(StreamSettings { argv, .. })) => {
            of_command(argv, environment, has_lines)
        }
        Some(Handler::Post(webhook)) => {
            let signed = match &webhook.signing {
                Signing::None => "not signed".into(),
                Signing::Shared(_) => "signed".into(),
                Signing::Own { column } => format!("signed with {column} of each record"),
            };
            (Level::Ok, format!("POST {}, {signed}", webhook.target))
        }
    }
}

/// The columns that a command finds in no variable.
fn the_variables(findings: &mut Findings, table: &Table) {
    let names: Vec<_> = table.columns.iter().map(|column| column.name.as_str()).collect();
    let without = variables(&names).into_iter().filter(|(_, variable)| variable.is_none());
    let without: Vec<_> = without.map(|(name, _)| name).collect();
    if !without.is_empty() {
        let why = "have no variable, because their variables would have the same name";
        findings.warning("handler", format!("the columns {} {why}", without.join(", ")));
    }
}

/// Below this a table is read from one end to the other in no time.
const SMALL: u64 = 100_000;
/// How far a date may lie in the future without a word.
const SKEW_SECS: i64 = 60;

fn the_database(findings: &mut Findings, queue: &Queue, database: &mut dyn Database) {
    let place = database.place();
    match database.obstacle() {
        Ok(None) => findings.ok("database", place),
        Ok(Some(why)) => findings.error("database", format!("{place}: {why}")),
        Err(error) => findings.error("database", chain(&error)),
    }
    let usable = || {
        let state = state_dir(queue, database)?;
        state.check_writable(&database.table().name).map(|lost| (state, lost))
    };
    match findings.wrong("claims", usable()) {
        Some((_, Some(lost))) => findings.warning("claims", lost),
        Some((state, None)) => {
            let path = state.path().display();
            let by_server = if state.is_of_a_server() { "by the server, cursors " } else { "" };
            findings.ok("claims", format!("kept {by_server}in {path}"));
        }
        None => {}
    }
}

/// The rehearsal of a pass that begins now.
fn the_rehearsal(
    findings: &mut Findings,
    queue: &Queue,
    schedule: Option<&Schedule>,
    handler: &Result<Option<Handler>, ExitError>,
    console: &Console<'_>,
) {
    let handler = handler.as_ref().ok().and_then(Option::as_ref);
    let Some(schedule) = schedule else {
        let why = "it goes by a schedule: say one, --ndays, --policy, --fibonacci or --progressive";
        return findings.warning("rehearsal", why);
    };
    let rehearsed = rehearsal::check(findings, queue, schedule, handler, console.clock);
    findings.wrong("rehearsal", rehearsed);
}

/// What the record of passes says of the lines, as `status` does; whether all of them run.
fn the_passes(
    findings: &mut Findings,
    queue: &Queue,
    resolved: &Resolved<'_>,
    database: &dyn Database,
    screen: &Screen,
) -> bool {
    // Why there is no directory stands among the findings.
    let Ok(state) = state_dir(queue, database) else { return false };
    if state.is_none() {
        return false;
    }
    let (histories, unread) = state.histories(0);
    for error in unread {
        findings.warning("passes", format!("some are not known: {}", chain(&error)));
    }
    let lines = passes::of_queue(resolved, database.table(), histories, screen.now);
    let lines: Vec<_> = lines.iter().filter(|line| line.is_scheduled()).collect();
    if lines.is_empty() {
        findings.warning("passes", "no pass yet: is cron running, is the line installed?");
    }
    for line in &lines {
        let policy = &line.history.line.policy;
        let (why, is_silent) = (line.missing(screen.now), line.silent(screen.now).is_some());
        let level = match &why {
            Some(_) => Level::Error,
            None if is_silent => Level::Warning,
            None => Level::Ok,
        };
        let text = why.unwrap_or_else(|| line.in_short(screen));
        let asks = if is_silent { ": is cron running, is the line installed?" } else { "" };
        findings.add(level, "passes", format!("{policy}: {text}{asks}"));
    }
    !lines.is_empty()
        && lines.iter().all(|line| line.is_judged() && line.silent(screen.now).is_none())
}

fn the_pause(findings: &mut Findings, queue: &Queue, database: &dyn Database, now: Instant) {
    // Why there is no directory stands among the findings.
    let state = state_dir(queue, database).ok();
    let pause = state.and_then(|state| state.pause(&queue.name, &database.table().name, now));
    if let Some(pause) = pause {
        let said = pause.sentence(|at| at.to_string());
        findings.warning("pause", format!("{said}; `backlog resume` ends it"));
    }
}

fn the_table(findings: &mut Findings, table: &Table, found: &Inspection, now: Instant) {
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
        findings.warning("table", why.clone());
    }
    for complaint in &table.complaints {
        findings.error("columns", complaint.clone());
    }
    the_statuses(findings, table, found);
    the_dates(findings, table.inserted.label(), &found.pending, now);
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

fn the_statuses(findings: &mut Findings, table: &Table, found: &Inspection) {
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
        let column = &column.name;
        findings.error("status", format!(
            "no row has a value that is mapped to a status: write status = {{ column = {column:?}, new = \
             ..., error = ..., success = ... }}, or if {column} is something else, status = false with \
             `where`"
        ));
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

fn the_dates(findings: &mut Findings, column: &str, found: &Pending, now: Instant) {
    if found.formats.len() > 1 {
        let each = found.formats.iter().map(|(format, (rows, id))| {
            format!("{format} in {}, such as {id}", counted(*rows, "record"))
        });
        let each = each.collect::<Vec<_>>().join("; ");
        findings.warning("dates", format!("{column} is written in several ways: {each}"));
    } else if let Some(format) = found.formats.keys().next() {
        findings.ok("dates", format!("{column} is written as {format}"));
    }
    if found.undated.rows > 0 {
        let records = counted(found.undated.rows, "pending record");
        let shown = found.undated.shown();
        findings.error("dates", format!("{records} without a readable {column}: {shown}"));
    }
    if found.without_due_date.rows > 0 {
        let records = counted(found.without_due_date.rows, "pending record");
        let shown = found.without_due_date.shown();
        findings.error("dates", format!("{records} never due, because that is no date: {shown}"));
    }
    if let Some(newest) = found.newest.filter(|at| *at > now.saturating_add(SKEW_SECS)) {
        let text = format!(
            "the newest pending record is from {newest}, {} from now: another clock, another zone \
             of date_inserted, or a date to come",
            span(newest.0 - now.0)
        );
        findings.warning("clock", text);
    }
}

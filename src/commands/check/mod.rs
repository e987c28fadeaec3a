//! `backlog check`: checks the table, the handler and the crontab. Only a rehearsal writes.

mod lines;
mod queues;
mod rehearsal;

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use anyhow::Result;
use backlog_schedule::{Instant, RetryLimits, Status, counted, json_line, span};
use backlog_store::{Access, Clock, Inspection, PendingRows, StateDir, Table, chain};
use serde_json::json;

use super::assemble::require_handler;
use super::prune::Finished;
use super::{Console, SUCCESS_DELETES, line_name, open, passes, require_columns, state_dir};
use crate::cli::CheckArgs;
use crate::crontab::CRON_PATH;
use crate::exit::Exit;
use crate::handlers::placeholders::variables;
use crate::handlers::{Signing, StreamSettings};
#[cfg(feature = "webhook")]
use crate::handlers::{Webhook, probe};
use crate::options::{Environment, HandlerSpec, Queue, Resolved};
use crate::report::{ASKS, CheckFinding, Findings, Level, LineReport, Screen};

use lines::program_file;

pub fn run(resolved: &Resolved<'_>, args: &CheckArgs, console: &mut Console<'_>) -> Result<Exit> {
    let (sources, clock) = (resolved.sources, console.clock);
    let mut findings = Findings::default();
    let (of_passes, complaints) = resolved.pass_settings();
    for complaint in complaints {
        findings.error("options", complaint);
    }
    for why in resolved.unknown_limits() {
        findings.warning("limits", why);
    }
    let (mut queue, schedule) = (resolved.queue()?, resolved.schedule()?);
    queue.mapping.order = of_passes.table.mapping.order;
    let distrusted = resolved.ownership_complaints();
    for (about, why) in &distrusted {
        findings.error(about, why);
    }
    let opened = distrusted.is_empty().then(|| open(&queue, Access::ReadOnly, clock));
    let database = opened.and_then(|opened| findings.wrong("database", opened));
    let table = database.as_ref().map(|database| database.table());
    let lines = lines::check(&queue, table);
    let has_lines = !lines.0.is_empty();
    if schedule.is_none() && !has_lines {
        findings.warning("schedule", "none is configured: write it into each line");
    }
    if let Some(file) = &sources.file {
        let path = file.path.display();
        findings.ok("config", format!("{path}, queue {}", queue.name));
        if let Some(what) = file.exposed_secret() {
            findings.error("config", format!("others can read {what}: chmod 600 {path}"));
        }
    }
    let chosen = resolved.handler();
    let mut is_running = false;
    if let Some(mut database) = database {
        database.make_read_only()?;
        match database.why_read_only() {
            Ok(None) => findings.ok("database", database.label()),
            Ok(Some(why)) => findings.error("database", format!("{}: {why}", database.label())),
            Err(error) => findings.error("database", chain(&error)),
        }
        let state = findings.wrong("claims", state_dir(&queue, &*database));
        if let Some(state) = &state {
            check_state(&mut findings, resolved, &queue, state, database.table(), &console.screen);
        }
        let by_count = schedule.as_ref().is_some_and(|it| it.policy.needs_counter());
        let found = database.inspect(by_count)?;
        let deletion = findings.wrong("on_success", database.deletion(SUCCESS_DELETES)).flatten();
        let table = database.table();
        findings.wrong("on_success", table.require_success());
        for key in table.ends_that_change_nothing() {
            findings.error(key, "it sets no column that `where` reads: the row stays pending");
        }
        if let Some(schedule) = &schedule
            && findings.wrong("schedule", require_columns(table, schedule)).is_some()
        {
            findings.ok("schedule", schedule.policy.line());
            check_limits(&mut findings, &schedule.limits);
        }
        let handler = chosen.as_ref().ok().and_then(Option::as_ref);
        findings.wrong("handler", require_handler(handler, &queue, table));
        if !matches!(handler, Some(HandlerSpec::Post(_) | HandlerSpec::Stream(_))) {
            check_variables(&mut findings, table);
        }
        for condition in &queue.mapping.conditions {
            findings.ok("where", condition);
        }
        check_table(&mut findings, table, &found, clock.now());
        check_commands(&mut findings, resolved, &queue, table);
        if let Some(what) = &deletion {
            findings.warning("on_success", what);
        }
        if found.reuses_ids && matches!(handler, Some(HandlerSpec::Post(_))) {
            let why = "without AUTOINCREMENT the id of a deleted row is given again: only";
            let tells = format!("{} tells such records apart in webhook-id", table.inserted.name);
            findings.warning("ids", format!("{why} {tells}"));
        }
        check_pruning(&mut findings, &queue, table, clock);
        queues::check(&mut findings, &queue, resolved, &mut *database, clock);
        if let Some(state) = state.filter(|state| !state.is_none()) {
            let (table, screen) = (database.table(), &console.screen);
            is_running = check_passes(&mut findings, resolved, &queue, &state, table, screen);
        }
        if args.rehearse {
            let rehearsed =
                rehearsal::check(&mut findings, &queue, schedule.as_ref(), handler, clock);
            findings.wrong("rehearsal", rehearsed);
        }
    }
    if let Some(chosen) = findings.wrong("handler", chosen.map_err(anyhow::Error::from)) {
        check_handler(&mut findings, chosen.as_ref(), &sources.environment, has_lines);
    }
    findings.0.extend(lines.0);
    if !has_lines {
        report_no_line(&mut findings, resolved, is_running);
    }
    print(&findings, &queue, args.format.json, console.out)
}

fn print(findings: &Findings, queue: &Queue, json: bool, out: &mut dyn Write) -> Result<Exit> {
    let ok = findings.0.iter().all(|finding| finding.level != Level::Error);
    let text = if json {
        json_line(&json!({
            "queue": queue.name,
            "db": queue.db.to_string(),
            "table": queue.mapping.table_name(),
            "ok": ok,
            "findings": findings.0,
        }))
    } else {
        findings.text()
    };
    out.write_all(text.as_bytes())?;
    Ok(if ok { Exit::Done } else { Exit::Failed })
}

/// Reports when a record is archived: where it never is, a record that always fails is silent.
fn check_limits(findings: &mut Findings, limits: &RetryLimits) {
    let RetryLimits { max_attempts, is_per_record, max_age_secs } = *limits;
    let own = is_per_record.then(|| "its own limit of attempts".into());
    let attempts = max_attempts.map(|most| counted(most.into(), "attempt"));
    let age = max_age_secs.map(|secs| format!("an age of {}", span(secs)));
    let ends: Vec<_> = own.into_iter().chain(attempts).chain(age).collect();
    if ends.is_empty() {
        let what = "no max_attempts and no max_age: nobody is told of a record that always fails";
        findings.warning("limits", format!("{what}; with one, it is archived and cron mails that"));
    } else {
        findings.ok("limits", format!("a failing record is archived after {}", ends.join(" or ")));
    }
}

/// Checks where claims are kept, and whether there is a pause.
fn check_state(
    findings: &mut Findings,
    resolved: &Resolved<'_>,
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
        findings.warning("pause", pause.sentence(|at| at.to_string(), &resolved.choice()));
    }
}

/// Reports the last pass of each line, as `status` does, and tells whether all lines run on time.
fn check_passes(
    findings: &mut Findings,
    resolved: &Resolved<'_>,
    queue: &Queue,
    state: &StateDir,
    table: &Table,
    screen: &Screen,
) -> bool {
    let histories = match state.histories(0) {
        Ok(histories) => histories,
        Err(error) => {
            findings.warning("passes", format!("none is known: {}", chain(&error)));
            return false;
        }
    };
    let mut lines = passes::of_queue(resolved, table, histories, screen.now);
    lines.retain(LineReport::is_scheduled);
    if lines.is_empty() {
        findings.warning("passes", format!("no pass yet: {ASKS}"));
    }
    let mut is_running = !lines.is_empty();
    let of_queue = line_name(queue, &table.name, String::new());
    if let Some(Some(failing)) = findings.wrong("passes", state.failing(&of_queue))
        && failing.is_serious(screen.now)
    {
        findings.warning("passes", failing.sentence(|at| screen.at(at)));
    }
    for line in &lines {
        let (missing, is_silent) = (line.missing(screen.now), line.silent(screen.now).is_some());
        is_running &= line.is_judged() && !is_silent;
        let hangs = line.history.hangs_for(screen.now).is_some();
        let level = match &missing {
            Some(_) => Level::Error,
            None if hangs => Level::Error,
            None if is_silent => Level::Warning,
            None => Level::Ok,
        };
        let policy = &line.history.line.policy;
        let text = missing.unwrap_or_else(|| line.in_short(screen));
        let asks = if is_silent { format!(": {ASKS}") } else { String::new() };
        findings.add(level, "passes", format!("{policy}: {text}{asks}"));
    }
    is_running
}

/// `is_running` says that the passes of the queue run on time.
fn report_no_line(findings: &mut Findings, resolved: &Resolved<'_>, is_running: bool) {
    if is_running {
        let none = "no line of this queue can be read here, but its passes run";
        findings.ok("crontab", format!("{none}: something else starts them"));
    } else {
        let none = "no line that can be read here works on this queue";
        let choice = resolved.choice();
        findings.warning("crontab", format!("{none}; `backlog crontab{choice}` prints one"));
    }
}

/// Below this number of rows, a table is read from one end to the other in no time.
const SMALL: u64 = 100_000;
/// How far a date may lie in the future.
const SKEW_SECS: i64 = 60;

fn check_table(findings: &mut Findings, table: &Table, found: &Inspection, now: Instant) {
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
    check_statuses(findings, table, found);
    check_dates(findings, table.inserted.label(), &found.pending, now);
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
        findings.0.push(CheckFinding {
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

/// Reports the commands that do not work with this mapping.
fn check_commands(findings: &mut Findings, resolved: &Resolved<'_>, queue: &Queue, table: &Table) {
    let pause = resolved.require_state_dir(queue).map_err(anyhow::Error::from);
    for (command, required) in [
        ("retry", table.require_renewal(&resolved.choice())),
        ("archive", table.require_archived("`archive`")),
        ("restore", table.require_told_archived()),
        ("pause", pause),
    ] {
        if let Err(why) = required {
            findings.warning(command, chain(&why));
        }
    }
}

/// Checks what `prune_after` needs: a date, the privilege to delete, an index.
fn check_pruning(findings: &mut Findings, queue: &Queue, table: &Table, clock: Clock) {
    for (status, age) in &queue.prune_after {
        let inspect = || -> Result<_> {
            let finished = Finished::new(queue, table, *status, *age, &[], clock.now())?;
            let mut database = finished.open(Access::ReadOnly, clock)?;
            let act = format!("after {} prune_after deletes {} rows", span(*age), status.name());
            let suffix = if *status == Status::Success { "success" } else { "archived" };
            let (obstacle, deletion) = (database.why_read_only()?, database.deletion(&act)?);
            Ok((obstacle, deletion, database.missing_index(&finished.query(), suffix)?))
        };
        let Some(found) = findings.wrong("prune", inspect()) else { continue };
        let (obstacle, deletion, index) = found;
        if let Some(why) = obstacle {
            findings.error("prune", why);
        }
        if let Some(what) = deletion {
            findings.warning("prune", what);
        }
        if let Some(statement) = index {
            findings.0.push(CheckFinding {
                level: Level::Warning,
                about: "index",
                text: format!("no index finds {} records by their end date", status.name()),
                statement: Some(format!("{statement};")),
            });
        }
    }
}

fn check_statuses(findings: &mut Findings, table: &Table, found: &Inspection) {
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
        let why = format!(
            "no row has a value that is mapped to a status: write status = {{ column = {name:?}, new = \
             ..., error = ..., success = ... }}, or if {name} is something else, status = false with \
             `where`"
        );
        findings.error("status", why);
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

fn check_dates(findings: &mut Findings, column: &str, found: &PendingRows, now: Instant) {
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
        let why = format!(
            "the newest pending record is from {newest}, {ahead} from now: another clock, another zone \
             of date_inserted, or a date to come"
        );
        findings.warning("clock", why);
    }
}

/// `has_lines` says that crontab lines name the queue, which may have handlers of their own.
fn check_handler(
    findings: &mut Findings,
    handler: Option<&HandlerSpec>,
    environment: &Environment,
    has_lines: bool,
) {
    match handler {
        None if has_lines => findings.ok("handler", "each line has its own"),
        None => findings.warning(
            "handler",
            "none is configured: set exec or post, or write the command behind `--` in each line",
        ),
        Some(HandlerSpec::Exec { argv, .. } | HandlerSpec::Stream(StreamSettings { argv, .. })) => {
            let (level, text) = of_command(argv, environment, has_lines);
            findings.add(level, "handler", text);
        }
        Some(HandlerSpec::Post(webhook)) => {
            let signed = match &webhook.signing {
                Signing::None => "not signed".into(),
                Signing::Shared(_) => "signed".into(),
                Signing::Own { column } => format!("signed with {column} of each record"),
            };
            findings.ok("handler", format!("POST {}, {signed}", webhook.target));
            #[cfg(feature = "webhook")]
            if !webhook.target.has_column_in_authority() {
                match probe(Webhook::clone(webhook)) {
                    Ok(()) => findings.ok("handler", "it can be connected to"),
                    Err(error) => findings.warning("handler", chain(&error)),
                }
            }
        }
    }
}

/// Reports the columns that no variable of a command holds.
fn check_variables(findings: &mut Findings, table: &Table) {
    let names: Vec<_> = table.columns.iter().map(|column| column.name.as_str()).collect();
    let without = variables(&names).into_iter().filter(|(_, variable)| variable.is_none());
    let without: Vec<_> = without.map(|(name, _)| name).collect();
    if !without.is_empty() {
        let why = "have no variable, because their variables would have the same name";
        findings.warning("handler", format!("the columns {} {why}", without.join(", ")));
    }
}

/// Whether cron can run a command. Each line has a PATH and a directory of its own.
fn of_command(argv: &[OsString], environment: &Environment, has_lines: bool) -> (Level, String) {
    let own = environment.get("PATH").map_or(OsStr::new(CRON_PATH), OsString::as_os_str);
    let mut argv = argv.to_vec();
    let path = argv.first_mut().filter(|it| has_lines && it.as_bytes().contains(&b'/'));
    if let Some(program) = path {
        *program = environment.directory.join(&*program).into();
    }
    match (program_file(&argv, OsStr::new(CRON_PATH)), program_file(&argv, own)) {
        (Ok(file), _) => (Level::Ok, file.display().to_string()),
        (Err(_), Ok(file)) if has_lines => (Level::Ok, file.display().to_string()),
        (Err(why), Ok(_)) => (Level::Warning, why),
        (Err(why), Err(_)) => (Level::Error, why),
    }
}

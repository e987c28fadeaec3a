//! `backlog check`: checks the table, the handler and the crontab. Only a rehearsal writes.

mod lines;
mod queues;
mod rehearsal;

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use anyhow::Result;
use backlog_schedule::{Instant, RetryLimits, Schedule, Status, counted, json_line, span};
use backlog_store::ownership::shared_directory;
use backlog_store::{Access, Clock, Database, Inspection, PendingRows, StateDir, Table, chain};
use serde_json::json;

use super::assemble::require_handler;
use super::prune::FinishedRecords;
use super::{Console, SUCCESS_DELETES, line_name, open, passes, require_columns, state_dir};
use crate::cli::CheckArgs;
use crate::crontab::CRON_PATH;
use crate::exit::{Exit, ExitError};
use crate::handlers::placeholders::variables;
use crate::handlers::{Signing, StreamSettings};
#[cfg(feature = "webhook")]
use crate::handlers::{Webhook, probe};
use crate::options::{Environment, HandlerSpec, Queue, Resolved};
use crate::report::{Findings, IS_CRON_RUNNING, Level, LineReport, Screen};

use lines::program_file;

pub fn run(resolved: &Resolved<'_>, args: &CheckArgs, console: &mut Console<'_>) -> Result<Exit> {
    let (queue, schedule) = (resolved.queue()?, resolved.schedule()?);
    let (handler, findings) = (resolved.handler(), Findings::default());
    let Console { clock, screen, .. } = *console;
    let mut check = QueueCheck { findings, resolved, queue, schedule, handler, clock, screen };
    let database = check.check_options();
    let lines = lines::check(&check.queue, database.as_ref().map(|database| database.table()));
    let has_lines = !lines.0.is_empty();
    check.check_config(has_lines);
    let is_running = match database {
        Some(database) => check.check_database(database, args.rehearse)?,
        None => false,
    };
    check.check_handler(has_lines);
    check.findings.0.extend(lines.0);
    if !has_lines {
        check.report_no_line(is_running);
    }
    check.print(args.format.json, console.out)
}

struct QueueCheck<'a> {
    findings: Findings,
    resolved: &'a Resolved<'a>,
    queue: Queue,
    schedule: Option<Schedule>,
    handler: Result<Option<HandlerSpec>, ExitError>,
    clock: Clock,
    screen: Screen,
}

/// Below this number of rows, reading a whole table takes no noticeable time.
const SMALL: u64 = 100_000;
/// Tolerated distance of a date in the future.
const SKEW_SECS: i64 = 60;

const BY_LAST_FAILURE: &str = "the age of ARCHIVED records is counted from their last failure, however late they are \
                               archived: to count it from then, let on_archive set a column to {now}, and name it in \
                               finished_at";

impl QueueCheck<'_> {
    /// Checks options and owners of files, and opens the database unless a file has an owner that is not trusted.
    fn check_options(&mut self) -> Option<Box<dyn Database>> {
        let (pass_settings, complaints) = self.resolved.pass_settings();
        self.findings.extend(Level::Error, "options", complaints);
        self.findings.extend(Level::Warning, "limits", self.resolved.unknown_limits());
        self.queue.mapping.order = pass_settings.table.mapping.order;
        let complaints = self.resolved.ownership_complaints();
        for (about, why) in &complaints {
            self.findings.error(about, why);
        }
        let opened = || open(&self.queue, Access::ReadOnly, self.clock);
        complaints
            .is_empty()
            .then(opened)
            .and_then(|opened| self.findings.or_error("database", opened))
    }

    fn check_config(&mut self, has_lines: bool) {
        if self.schedule.is_none() && !has_lines {
            self.findings.warning("schedule", "none is configured: write it into each line");
        }
        if let Some(file) = &self.resolved.sources.file {
            let path = file.path.display();
            self.findings.ok("config", format!("{path}, queue {}", self.queue.name));
            if let Some(secret) = file.exposed_secret() {
                let why = format!("others can read {secret}: chmod 600 {path}");
                self.findings.error("config", why);
            }
        }
    }

    /// Checks the table and everything that depends on it. Returns whether the passes of all lines run on time.
    fn check_database(&mut self, mut database: Box<dyn Database>, rehearse: bool) -> Result<bool> {
        database.make_read_only()?;
        let label = database.label();
        match self.findings.or_error("database", database.why_read_only()) {
            Some(None) => self.findings.ok("database", label),
            Some(Some(why)) => self.findings.error("database", format!("{label}: {why}")),
            None => {}
        }
        let shared = self.queue.db.file().and_then(shared_directory);
        self.findings.extend(Level::Warning, "database", shared);
        let state = self.findings.or_error("claims", state_dir(&self.queue, &*database));
        if let Some(state) = &state {
            self.check_state(state, database.table());
        }
        let is_counted =
            self.schedule.as_ref().is_some_and(|schedule| schedule.policy.needs_counter());
        let found = database.inspect(is_counted)?;
        let deletion = database.deletion(SUCCESS_DELETES);
        let deletion = self.findings.or_error("on_success", deletion).flatten();
        let table = database.table();
        self.check_mapping(table);
        self.check_table(table, &found);
        self.check_commands(table);
        self.findings.extend(Level::Warning, "on_success", deletion);
        if found.reuses_ids && matches!(self.handler, Ok(Some(HandlerSpec::Post(_)))) {
            let why = "without AUTOINCREMENT a new row can get the id of a deleted one: only";
            let tells = format!("{} distinguishes them in webhook-id", table.inserted.name);
            self.findings.warning("ids", format!("{why} {tells}"));
        }
        self.check_pruning(table);
        queues::check(&mut self.findings, &self.queue, self.resolved, &mut *database, self.clock);
        let state = state.filter(|state| !state.is_none());
        let is_running = state.is_some_and(|state| self.check_passes(&state, database.table()));
        if rehearse {
            let (schedule, handler) = (self.schedule.as_ref(), self.handler.as_ref());
            let handler = handler.ok().and_then(Option::as_ref);
            let findings = &mut self.findings;
            let rehearsed = rehearsal::check(findings, &self.queue, schedule, handler, self.clock);
            findings.or_error("rehearsal", rehearsed);
        }
        Ok(is_running)
    }

    fn check_state(&mut self, state: &StateDir, table: &Table) {
        match self.findings.or_error("claims", state.check_writable(&table.name)) {
            Some(Some(lost)) => self.findings.warning("claims", lost),
            Some(None) => {
                let by_server = if state.is_of_a_server() { "by the server, cursors " } else { "" };
                let path = state.path().display();
                self.findings.ok("claims", format!("kept {by_server}in {path}"));
            }
            None => {}
        }
        if let Some(pause) = state.pause(&self.queue.name, &table.name, self.screen.now) {
            let sentence = pause.sentence(|at| at.to_string(), &self.resolved.choice());
            self.findings.warning("pause", sentence);
        }
    }

    fn check_mapping(&mut self, table: &Table) {
        let findings = &mut self.findings;
        findings.or_error("on_success", table.require_success());
        for key in table.ineffective_ends() {
            findings.error(key, "it sets no column that `where` reads: the row stays pending");
        }
        if let Some(schedule) = &self.schedule
            && findings.or_error("schedule", require_columns(table, schedule)).is_some()
        {
            findings.ok("schedule", schedule.policy.options());
            check_limits(findings, &schedule.limits);
        }
        let handler = self.handler.as_ref().ok().and_then(Option::as_ref);
        findings.or_error("handler", require_handler(handler, &self.queue, table));
        if !matches!(handler, Some(HandlerSpec::Post(_) | HandlerSpec::Stream(_))) {
            check_variables(findings, table);
        }
        findings.extend(Level::Ok, "where", &self.queue.mapping.conditions);
    }

    fn check_table(&mut self, table: &Table, found: &Inspection) {
        let findings = &mut self.findings;
        let rows = found.rows.map_or("its rows not counted".into(), |rows| counted(rows, "row"));
        let at_least = if found.pending.is_incomplete { "at least " } else { "" };
        let others =
            if found.details.is_empty() { String::new() } else { format!("; {}", found.details) };
        let pending = found.pending.rows;
        findings
            .ok("table", format!("{}, {rows}, {at_least}{pending} pending{others}", table.name));
        let columns = table.roles().map(|(role, _, column)| {
            format!("{role} = {} {}", column.name, column.declared).trim_end().to_string()
        });
        findings.ok("columns", columns.collect::<Vec<_>>().join(", "));
        findings.extend(Level::Error, "table", found.unread.messages());
        findings.extend(Level::Warning, "table", &found.hidden);
        findings.extend(Level::Error, "columns", &table.complaints);
        check_statuses(findings, table, found);
        check_dates(findings, table.inserted.label(), &found.pending, self.clock.now());
        for (key, column) in &found.occupied {
            let why = format!(
                "every NEW record has a value in {column}, which an attempt overwrites: is it this column?"
            );
            findings.warning(key, why);
        }
        if let Some((records, first)) = &found.pending.without_id {
            let records = counted(*records, "pending record");
            let why = format!("{records} never tried, because the id is not usable: {first}");
            findings.error("ids", why);
        }
        if let Some(column) = table.statuses.column.as_ref().filter(|column| column.is_generated) {
            let why = format!("{} cannot be written: the table computes it", column.name);
            findings.error("status", why);
        }
        if let Some(id) = &found.duplicate {
            let why = format!("more than one row has the id {id}: none of them is tried");
            findings.error("ids", why);
        }
        check_access(findings, found);
    }

    fn check_commands(&mut self, table: &Table) {
        let pause = self.resolved.require_state_dir(&self.queue).map_err(anyhow::Error::from);
        for (command, required) in [
            ("retry", table.require_renewal(&self.resolved.choice())),
            ("archive", table.require_archived("`archive`")),
            ("restore", table.require_archived_condition()),
            ("pause", pause),
        ] {
            let why = required.err().map(|error| chain(&error));
            self.findings.extend(Level::Warning, command, why);
        }
    }

    /// Checks that the table has a date, an index and the privilege to delete, which `prune_after` needs.
    fn check_pruning(&mut self, table: &Table) {
        for (status, age) in &self.queue.prune_after {
            let name = status.name();
            let inspect = || -> Result<_> {
                let now = self.clock.now();
                let finished = FinishedRecords::new(&self.queue, table, *status, *age, &[], now)?;
                let mut database = finished.open(Access::ReadOnly, self.clock)?;
                let deletes = format!("after {} prune_after deletes {name} rows", span(*age));
                let suffix = if *status == Status::Success { "success" } else { "archived" };
                let (why_read_only, deletion) =
                    (database.why_read_only()?, database.deletion(&deletes)?);
                let index = database.missing_index(&finished.query(), suffix)?;
                Ok((why_read_only, deletion, index, finished.by_last_failure()))
            };
            let findings = &mut self.findings;
            let Some(found) = findings.or_error("prune", inspect()) else { continue };
            let (why_read_only, deletion, index, is_by_last_failure) = found;
            if is_by_last_failure {
                findings.warning("prune", BY_LAST_FAILURE);
            }
            findings.extend(Level::Error, "prune", why_read_only);
            findings.extend(Level::Warning, "prune", deletion);
            if let Some(statement) = index {
                let why = format!("no index finds {name} records by their end date");
                findings.missing_index(Level::Warning, why, &statement);
            }
        }
    }

    /// Reports the last pass of each line, as `status` does. Returns whether the passes of all lines run on time.
    fn check_passes(&mut self, state: &StateDir, table: &Table) -> bool {
        let (findings, screen) = (&mut self.findings, &self.screen);
        let histories = match state.histories(0) {
            Ok(histories) => histories,
            Err(error) => {
                findings.warning("passes", format!("none is known: {}", chain(&error)));
                return false;
            }
        };
        let mut lines = passes::of_queue(self.resolved, table, histories, screen.now);
        lines.retain(LineReport::is_scheduled);
        if lines.is_empty() {
            findings.warning("passes", format!("no pass yet: {IS_CRON_RUNNING}"));
        }
        let of_queue = line_name(&self.queue, &table.name, String::new());
        if let Some(Some(failing)) = findings.or_error("passes", state.failing(&of_queue))
            && failing.is_serious(screen.now)
        {
            findings.warning("passes", failing.sentence(|at| screen.at(at)));
        }
        let mut is_running = !lines.is_empty();
        for line in &lines {
            let (missing, is_silent) =
                (line.missing(screen.now), line.silent(screen.now).is_some());
            is_running &= line.is_judged() && !is_silent;
            let hangs = line.history.hangs_for(screen.now).is_some();
            let level = match &missing {
                Some(_) => Level::Error,
                None if hangs => Level::Error,
                None if is_silent => Level::Warning,
                None => Level::Ok,
            };
            let policy = &line.history.line.policy;
            let text = missing.unwrap_or_else(|| line.summary(screen));
            let hint = if is_silent { format!(": {IS_CRON_RUNNING}") } else { String::new() };
            findings.add(level, "passes", format!("{policy}: {text}{hint}"));
        }
        is_running
    }

    /// Checks that the handler can be started or reached. With crontab lines, each may have its own handler.
    fn check_handler(&mut self, has_lines: bool) {
        let findings = &mut self.findings;
        let handler = match &self.handler {
            Ok(handler) => handler,
            Err(error) => return findings.error("handler", &error.message),
        };
        match handler {
            None if has_lines => findings.ok("handler", "each line has its own"),
            None => findings.warning(
                "handler",
                "none is configured: set exec or post, or write the command behind `--` in each line",
            ),
            Some(
                HandlerSpec::Exec { argv, .. } | HandlerSpec::Stream(StreamSettings { argv, .. }),
            ) => {
                let environment = &self.resolved.sources.environment;
                let (level, text) = check_program(argv, environment, has_lines);
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
                        Ok(()) => findings.ok("handler", "it accepts connections"),
                        Err(error) => findings.warning("handler", chain(&error)),
                    }
                }
            }
        }
    }

    fn report_no_line(&mut self, is_running: bool) {
        if is_running {
            let none = "no line of this queue can be read here, but its passes run";
            self.findings.ok("crontab", format!("{none}: something else starts them"));
        } else {
            let none = "no line that can be read here works on this queue";
            let prints = format!("`backlog crontab{}` prints one", self.resolved.choice());
            self.findings.warning("crontab", format!("{none}; {prints}"));
        }
    }

    fn print(&self, json: bool, out: &mut dyn Write) -> Result<Exit> {
        let (findings, queue) = (&self.findings, &self.queue);
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
}

/// Reports when a record is archived. Without a limit, nobody learns of a record that always fails.
fn check_limits(findings: &mut Findings, limits: &RetryLimits) {
    let RetryLimits { max_attempts, is_per_record, max_age_secs } = *limits;
    let own = is_per_record.then(|| "its own limit of attempts".into());
    let attempts = max_attempts.map(|most| counted(most.into(), "attempt"));
    let age = max_age_secs.map(|secs| format!("an age of {}", span(secs)));
    let ends: Vec<_> = own.into_iter().chain(attempts).chain(age).collect();
    if ends.is_empty() {
        let what =
            "without max_attempts or max_age, a record that always fails is retried in silence";
        findings.warning("limits", format!("{what}; with one, it is archived and cron mails that"));
    } else {
        findings.ok("limits", format!("a failing record is archived after {}", ends.join(" or ")));
    }
}

/// Reports missing indexes, and triggers that run on the writes of a pass or refuse them.
fn check_access(findings: &mut Findings, found: &Inspection) {
    for (finds, statement) in found.missing.iter().flatten() {
        let is_small = found.rows.is_some_and(|rows| rows < SMALL);
        let level = if is_small { Level::Warning } else { Level::Error };
        let why = format!("no index finds {finds}: the whole table is read for that");
        findings.missing_index(level, why, statement);
    }
    if found.missing.as_ref().is_some_and(Vec::is_empty) {
        findings.ok("index", "indexes find pending records and single ones");
    }
    let runs = |trigger: &String| format!("{trigger} runs when a pass writes");
    findings.extend(Level::Warning, "trigger", found.triggers.iter().map(runs));
    let refuses = |why: &String| format!("the table refuses what a pass writes: {why}");
    findings.extend(Level::Error, "trigger", found.refused.iter().map(refuses));
}

fn check_statuses(findings: &mut Findings, table: &Table, found: &Inspection) {
    let values_of = |status| found.values.iter().filter(move |value| value.status == status);
    let mapped = |status: Status| {
        let values = values_of(status).map(|value| format!("{} ({})", value.literal, value.rows));
        let values = values.collect::<Vec<_>>().join(", ");
        (!values.is_empty()).then(|| format!("{} = {values}", status.name()))
    };
    let mapped: Vec<_> = Status::OURS.into_iter().filter_map(mapped).collect();
    if !mapped.is_empty() {
        findings.ok("status", mapped.join("; "));
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
    for value in values_of(Status::Foreign) {
        let left = format!("{}: {} left alone", value.literal, counted(value.rows, "row"));
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
        findings.warning("dates", format!("{column} has several formats: {each}"));
    } else if let Some(format) = found.formats.keys().next() {
        findings.ok("dates", format!("{column} is written as {format}"));
    }
    for (undated, what) in [
        (&found.undated, format!("without a readable {column}")),
        (&found.without_due_date, "never due, because the due column holds no date".into()),
    ] {
        if undated.rows > 0 {
            let records = counted(undated.rows, "pending record");
            findings.error("dates", format!("{records} {what}: {}", undated.examples()));
        }
    }
    if let Some(newest) = found.newest.filter(|at| *at > now.saturating_add(SKEW_SECS)) {
        let ahead = span(newest.0 - now.0);
        let why = format!(
            "the newest pending record is from {newest}, {ahead} from now: another clock, another zone \
             of date_inserted, or a planned date"
        );
        findings.warning("clock", why);
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

/// Checks that cron can run a command. Each line has its own PATH and directory.
fn check_program(argv: &[OsString], environment: &Environment, has_lines: bool) -> (Level, String) {
    let own = environment.get("PATH").map_or(OsStr::new(CRON_PATH), OsString::as_os_str);
    let mut argv = argv.to_vec();
    let is_path = |program: &&mut OsString| has_lines && program.as_bytes().contains(&b'/');
    if let Some(program) = argv.first_mut().filter(is_path) {
        *program = environment.directory.join(&*program).into();
    }
    match (program_file(&argv, OsStr::new(CRON_PATH)), program_file(&argv, own)) {
        (Ok(file), _) => (Level::Ok, file.display().to_string()),
        (Err(_), Ok(file)) if has_lines => (Level::Ok, file.display().to_string()),
        (Err(why), Ok(_)) => (Level::Warning, why),
        (Err(why), Err(_)) => (Level::Error, why),
    }
}

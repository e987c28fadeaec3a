//! `backlog check`: whether the table, the handler and the crontab are as they must be.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use rustix::fs::{Access, access};

use super::line::state_dir;
use super::{open, require_columns};
use crate::cli;
use crate::config::{CrontabLine, Environment, Place, Queue, Schedule, Sources};
use crate::exit::Exit;
use crate::instant::{Instant, days, span};
use crate::policy;
use crate::record::{Status, counted};
use crate::report::{self, Finding, Level};
use crate::store::{Database, Examination};

/// What cron looks for programs in, unless the crontab says otherwise.
const CRON_PATH: &str = "/usr/bin:/bin";
/// Below this a table is read from one end to the other in no time.
const SMALL: u64 = 100_000;
/// How far a date may lie in the future without a word.
const SKEW_SECS: i64 = 60;

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
    }
    match open(&queue) {
        Err(error) => findings.mend("database", format!("{error:#}")),
        Ok(database) => {
            database.leave_alone()?;
            the_database(&mut findings, &queue, &database);
            if let Err(error) = database.require_success() {
                findings.mend("on_success", format!("{error:#}"));
            }
            for key in database.table.ends_that_change_nothing() {
                findings.mend(key, "it sets no column that `where` reads: the row stays pending");
            }
            if let Some(schedule) = &schedule {
                match require_columns(&database, schedule) {
                    Ok(()) => findings.fine("schedule", schedule.policy.line()),
                    Err(error) => findings.mend("schedule", format!("{error:#}")),
                }
            }
            let by_count = schedule.as_ref().is_some_and(|it| it.policy.needs_counter());
            for condition in &queue.mapping.conditions {
                findings.fine("where", condition.clone());
            }
            the_table(&mut findings, &database, &database.examine(by_count)?, now);
        }
    }
    let handler = queue.handler(&args.handler).ok().and_then(<[_]>::first);
    the_handler(&mut findings, handler.map(OsString::as_os_str), sources.environment());
    the_crontab(&mut findings, &queue, sources);
    let text = if args.json {
        let db = queue.db.display().to_string();
        report::findings_json(&queue.name, &db, &queue.mapping.table.text, &findings.0)
    } else {
        report::findings_text(&findings.0)
    };
    out.write_all(text.as_bytes())?;
    let is_fine = findings.0.iter().all(|finding| finding.level != Level::Mend);
    Ok(if is_fine { Exit::Done } else { Exit::Failed })
}

fn the_database(findings: &mut Findings, queue: &Queue, database: &Database) {
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

fn the_table(findings: &mut Findings, database: &Database, found: &Examination, now: Instant) {
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

fn the_handler(findings: &mut Findings, program: Option<&OsStr>, environment: &Environment) {
    let Some(program) = program else {
        findings.note("handler", "none is configured: it stands behind `--` in each line");
        return;
    };
    let shown = program.display();
    let search = |path: &OsStr| {
        let found =
            |directory: PathBuf| Some(directory.join(program)).filter(|it| is_executable(it));
        std::env::split_paths(path).find_map(found)
    };
    if Path::new(program).components().count() > 1 {
        if Path::new(program).is_relative() {
            findings
                .mend("handler", format!("{shown} is not where cron starts: write its whole path"));
        } else if is_executable(Path::new(program)) {
            findings.fine("handler", shown.to_string());
        } else {
            findings.mend("handler", format!("{shown} is no file that can be executed"));
        }
        return;
    }
    let own = environment.get("PATH").and_then(|path| search(path));
    match (search(OsStr::new(CRON_PATH)), own) {
        (Some(found), _) => findings.fine("handler", found.display().to_string()),
        (None, Some(found)) => findings.note(
            "handler",
            format!("{} is not in cron's PATH, {CRON_PATH}: write its whole path", found.display()),
        ),
        (None, None) => findings.mend("handler", format!("there is no {shown} in PATH")),
    }
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

/// The lines of this user's crontab that work on the same queue.
fn the_crontab(findings: &mut Findings, queue: &Queue, sources: &Sources) {
    let crontab = std::process::Command::new("crontab").arg("-l").output();
    let Ok(crontab) = crontab else {
        findings.note("crontab", "there is no cron here");
        return;
    };
    let text = String::from_utf8_lossy(&crontab.stdout);
    let mut ages = Vec::new();
    for line in sources.crontab_lines(&text) {
        match line {
            CrontabLine::Unclear { number, why } => {
                findings.mend("crontab", format!("line {number}: {why}"));
            }
            CrontabLine::Pass { times, queue: other, schedule } if other.is_same(queue) => {
                let (from, to) = schedule.policy.ages();
                findings.fine(
                    "crontab",
                    format!("{times}: {}, {}", schedule.policy.line(), band(from, to)),
                );
                ages.push((from, to));
            }
            CrontabLine::Pass { .. } => {}
        }
    }
    if ages.is_empty() {
        findings.note(
            "crontab",
            "no line of this user works on this queue; `backlog crontab` prints one",
        );
        return;
    }
    for (from, to) in policy::gaps(&ages) {
        let band = band(from, Some(to));
        findings.mend("crontab", format!("no line tries records of {band}"));
    }
    for (from, to) in policy::overlaps(&ages) {
        findings.note("crontab", format!("several lines try records of {}", band(from, to)));
    }
}

fn band(from: i64, to: Option<i64>) -> String {
    match (from, to) {
        (0, None) => "all ages".into(),
        (from, None) => format!("more than {} days", days(from)),
        (from, Some(to)) => format!("{} to {} days", days(from), days(to)),
    }
}

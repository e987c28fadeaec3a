//! Lines of crontabs: whether one is installed that names this program and this queue, and whether
//! cron runs it. What the reader does not understand is not checked, and never called good.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, process};

use backlog_schedule::Instant;
use backlog_store::ownership::OwnerRule;
use backlog_store::system_error::chain;
use backlog_store::{Location, Table, secure_file};
use chrono::{Local, NaiveDateTime, TimeZone};
use nix::unistd::{User, geteuid};
use rustix::fs::{Access, access};

use super::super::assemble::require;
use super::super::owner_rule;
use super::Findings;
use super::programs::file_of;
use crate::cli::{self, Typed};
use crate::crontab::{CRON_PATH, Command, Crontab, Line, is_user};
use crate::exit::ExitError;
use crate::handlers::StreamSettings;
use crate::options::{Environment, Handler, Queue, Resolved, Sources, no_schedule};
use crate::report::{Level, Screen};

/// Where cron looks for what sends mail.
const SENDMAIL: [&str; 2] = ["/usr/sbin/sendmail", "/usr/lib/sendmail"];

/// What is said of the lines that name a queue.
#[derive(Default)]
pub struct QueueLines {
    found: Vec<(Level, String)>,
    /// Whether one of the lines says something to somebody by mail.
    is_mailed: bool,
}

impl QueueLines {
    /// `table` is that of the queue, if it can be opened.
    pub fn read(queue: &Queue, table: Option<&Table>, screen: &Screen) -> Self {
        let now = Local.timestamp_opt(screen.now.0, 0).single().unwrap_or_default().naive_local();
        let mut lines = Self::default();
        for line in crontabs().iter().flat_map(|crontab| crontab.lines(now)) {
            lines.judge(&line, (queue, table), screen);
        }
        lines
    }

    /// Whether a line names the queue, or may do so.
    pub fn is_any(&self) -> bool {
        !self.found.is_empty()
    }

    /// `is_running` says that passes come as they should.
    pub fn check(self, findings: &mut Findings, is_running: bool) {
        let has_lines = !self.found.is_empty();
        for (level, text) in self.found {
            findings.add(level, "crontab", text);
        }
        if !has_lines && is_running {
            let other = "no line that can be read here: something else starts the passes";
            findings.ok("crontab", other);
        } else if !has_lines {
            let none = "no line that can be read here works on this queue";
            findings.warning("crontab", format!("{none}; `backlog crontab` prints one"));
        }
        if self.is_mailed && !SENDMAIL.iter().any(|it| Path::new(it).exists()) {
            findings.warning(
                "mail",
                "cron has nothing to send mail with: without sendmail what a pass says is lost, so \
                 append it to a file (>>FILE 2>&1)",
            );
        }
    }

    /// Lines of other queues and other users are passed over.
    fn judge(&mut self, line: &Line, queue: (&Queue, Option<&Table>), screen: &Screen) {
        let me = User::from_uid(geteuid()).ok().flatten();
        let is_of_others =
            |name: &String| is_user(name) && me.as_ref().is_none_or(|me| me.name != *name);
        if line.user.as_ref().is_some_and(is_of_others) {
            return;
        }
        let home = line.variables.get("HOME").map(PathBuf::from);
        let home = home.or(me.map(|me| me.dir)).unwrap_or_else(|| "/".into());
        let mut found: Vec<_> = line.faults.iter().map(|why| (Level::Error, why.clone())).collect();
        let mut unknown = Some("a shell makes more of it than plain words".to_string());
        if let Some(command) = &line.command {
            let complaints = Installed { line, command, home }.found(queue);
            if matches!(complaints, Ok(None)) {
                return;
            }
            if let (Some(user), None) = (command.before.first(), &line.user)
                && is_user(user)
            {
                let why =
                    "which is for /etc/crontab and /etc/cron.d: a user's crontab has no such field";
                found.push((Level::Error, format!("it begins with the user {user}, {why}")));
            }
            if command.is_whole {
                unknown = complaints.map(|why| found.extend(why.into_iter().flatten())).err();
                self.is_mailed |= command.stderr.is_none()
                    && line.variables.get("MAILTO").is_none_or(|to| !to.is_empty());
            }
        }
        if let Some(why) = unknown.filter(|_| found.is_empty()) {
            found.push(not_checked(&why));
        }
        if found.is_empty() {
            found.push((Level::Ok, next_runs(line, screen)));
        }
        let named = found.into_iter().map(|(level, why)| (level, format!("{}: {why}", line.place)));
        self.found.extend(named);
    }
}

fn not_checked(why: &str) -> (Level, String) {
    (Level::Warning, format!("not checked: {why}; read it yourself"))
}

/// The crontab of this user, and those of the system that can be read.
fn crontabs() -> Vec<Crontab> {
    let own = process::Command::new("crontab").arg("-l").output().ok();
    let own = own.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let own = own.map(|text| Crontab { path: None, text, fault: None });
    let directory = fs::read_dir("/etc/cron.d").into_iter().flatten().flatten();
    let mut paths: Vec<_> = directory.map(|entry| entry.path()).filter(|it| has_name(it)).collect();
    paths.sort_unstable();
    paths.insert(0, "/etc/crontab".into());
    let of_system = paths.into_iter().filter(|path| path.is_file()).filter_map(|path| {
        let text = String::from_utf8_lossy(&secure_file::read(&path).ok()?.0).into_owned();
        Some(Crontab { path: Some(path.display().to_string()), text, fault: fault(&path) })
    });
    own.into_iter().chain(of_system).collect()
}

/// Whether cron does not pass over a file of /etc/cron.d because of its name.
fn has_name(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte))
}

/// Why Debian's cron does not trust a file of the system.
fn fault(path: &Path) -> Option<String> {
    let (named, found) = (fs::symlink_metadata(path).ok()?, fs::metadata(path).ok()?);
    let writable = secure_file::GROUP_WRITE | secure_file::OTHERS_WRITE;
    let is_trusted = (named.uid(), found.uid(), found.nlink()) == (0, 0, 1);
    (!is_trusted || found.mode() & writable != 0)
        .then(|| "it must be root's, have one name, and be writable by root alone".into())
}

/// `*/5 * * * *, next 2026-11-21T00:05:00Z and 2026-11-21T00:10:00Z`
fn next_runs(line: &Line, screen: &Screen) -> String {
    let instant = |at: &NaiveDateTime| Local.from_local_datetime(at).earliest();
    let next = line.next.iter().filter_map(instant);
    let next: Vec<_> = next.map(|at| screen.at(Instant(at.timestamp()))).collect();
    let unknown = line.command.as_ref().filter(|command| command.is_conditional);
    let unknown = unknown.map(|_| "run not known: a condition before the program decides".into());
    format!("{}, next {}", line.times, unknown.unwrap_or_else(|| next.join(" and ")))
}

/// A line whose command is understood.
struct Installed<'a> {
    line: &'a Line,
    command: &'a Command,
    home: PathBuf,
}

impl Installed<'_> {
    /// What is wrong with the line; `None` if it names another queue. Its options count as under cron.
    fn found(
        &self,
        (queue, table): (&Queue, Option<&Table>),
    ) -> Result<Option<Vec<(Level, String)>>, String> {
        let argv = [&self.command.program].into_iter().chain(&self.command.arguments);
        let typed = Typed::parse(argv.map(OsString::from)).map_err(|error| {
            let text = error.to_string();
            text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_string()
        })?;
        let cli::Command::Process(process) = &typed.cli.command else { return Ok(None) };
        let variables = self.line.variables.iter().map(|(name, it)| (name.into(), it.into()));
        let home = ("HOME".into(), self.home.clone().into());
        let variables: HashMap<_, _> = variables.chain([home]).collect();
        let (global, in_words) = (&typed.cli.global, |error: ExitError| error.to_string());
        let rule = OwnerRule::Reported;
        let mut environment = Environment { variables, directory: self.home.clone(), rule };
        environment.rule = owner_rule(rule, global, &environment).map_err(in_words)?;
        let sources = Sources::find(global.config.as_deref(), environment).map_err(in_words)?;
        let names = match process.all_queues {
            true => sources.queues().map_err(in_words)?.into_iter().map(Some).collect(),
            false => vec![None],
        };
        for name in names {
            let resolved = sources.resolve(&typed.options, name.as_deref()).map_err(in_words)?;
            let mut named = resolved.queue().map_err(in_words)?;
            if let Some(path) = named.db.file() {
                named.db = Location::File(self.home.join(path));
            }
            if named.is_within(queue) {
                let mut complaints = self.complaints((queue, table), &named, &resolved);
                let is_dry = "it only lists what would be tried: leave --dry-run out";
                complaints.extend(process.dry_run.then(|| (Level::Warning, is_dry.into())));
                return Ok(Some(complaints));
            }
        }
        Ok(None)
    }

    /// `named` is the queue as the line has it.
    fn complaints(
        &self,
        (queue, table): (&Queue, Option<&Table>),
        named: &Queue,
        resolved: &Resolved<'_>,
    ) -> Vec<(Level, String)> {
        let Self { line, command, .. } = self;
        let variable = |name: &str| line.variables.get(name).map(String::as_str);
        let path = OsStr::new(variable("PATH").unwrap_or(CRON_PATH));
        let mut errors: Vec<_> =
            file_of(&[OsString::from(&command.program)], path).err().into_iter().collect();
        for file in command.stdout.iter().chain(&command.stderr) {
            if !can_append(&self.home.join(file)) {
                errors.push(format!("{file} cannot be written: the shell starts nothing then"));
            }
        }
        errors.dedup();
        if queue.db.password_from().is_some() && named.db.password_from().is_none() {
            errors.push(format!("it finds no password for {}: write it into ~/.pgpass", queue.db));
        }
        errors.extend(resolved.complaints_of_owners().into_iter().map(|(_, why)| why));
        let handler = resolved.handler(named);
        if let (Ok(handler), Some(table)) = (&handler, table) {
            errors.extend(require(handler.as_ref(), named, table).err().map(|why| chain(&why)));
        }
        match &handler {
            Ok(Some(Handler::Exec { argv, .. } | Handler::Stream(StreamSettings { argv, .. }))) => {
                errors.extend(file_of(argv, path).err());
            }
            Ok(None) => errors.push(Handler::none().to_string()),
            Ok(Some(_)) => {}
            Err(why) => errors.push(why.to_string()),
        }
        let schedule = resolved.schedule().and_then(|chosen| chosen.ok_or_else(no_schedule));
        errors.extend(schedule.err().map(|why| why.to_string()));
        let shell = Path::new(variable("SHELL").unwrap_or("sh"));
        let is_thrown_away = match &command.stderr {
            Some(file) => file == "/dev/null",
            None => variable("MAILTO") == Some(""),
        };
        let warning = |is_so: bool, why: &str| is_so.then(|| (Level::Warning, why.to_string()));
        let warnings = [
            warning(
                !["sh", "dash", "bash"].iter().any(|name| shell.ends_with(name)),
                "not checked: SHELL is no sh, dash or bash; read it yourself",
            ),
            warning(
                line.next.is_empty() && line.faults.is_empty(),
                "no next run is known: a record that fails waits for it",
            ),
            warning(
                is_thrown_away,
                "what a pass says is thrown away, by MAILTO=\"\" or /dev/null: it says nothing unless \
                 somebody has to look, so let cron mail it, or append it to a file (>>FILE 2>&1)",
            ),
        ];
        let errors = errors.into_iter().map(|why| (Level::Error, why));
        errors.chain(warnings.into_iter().flatten()).collect()
    }
}

fn can_append(file: &Path) -> bool {
    let is_writable = |path: &Path| access(path, Access::WRITE_OK).is_ok();
    match fs::metadata(file) {
        Ok(found) => !found.is_dir() && is_writable(file),
        Err(_) => file.parent().is_some_and(is_writable),
    }
}

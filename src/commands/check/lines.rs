//! Lines of crontabs: whether one is installed that names this program and this queue, and whether
//! cron runs it. What the reader does not understand is not checked, and never called good.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process;

use chrono::{Local, NaiveDateTime, TimeZone};
use nix::unistd::{User, geteuid};
use toml::Value;

use super::super::assemble::require;
use super::Findings;
use super::programs::Search;
use crate::crontab::{CRON_PATH, Command, Crontab, Line, Sink, is_user};
use crate::exit::ExitError;
use crate::handlers::{StreamSettings, is_executable};
use crate::options::{Environment, Handler, Origin, Queue, Resolved, Sources, TypedOptions};
use crate::ownership::OwnerRule;
use crate::report::{Level, Screen};
use crate::secure_file;
use crate::store::{Location, Table};
use crate::system_error::{chain, words};
use crate::time::Instant;

/// Where cron looks for what sends mail.
const SENDMAIL: [&str; 2] = ["/usr/sbin/sendmail", "/usr/lib/sendmail"];

/// What is said of the lines that name a queue.
pub struct QueueLines {
    found: Vec<(Level, String)>,
    /// Why files could not be read.
    unread: Vec<String>,
    /// Whether there is a cron.
    is_any: bool,
    /// Whether one of the lines says something to somebody by mail.
    is_mailed: bool,
}

impl QueueLines {
    /// `table` is that of the queue, if it can be opened.
    pub fn read(
        queue: &Queue,
        resolved: &Resolved<'_>,
        table: Option<&Table>,
        screen: &Screen,
    ) -> Self {
        let (crontabs, unread) = crontabs();
        let is_any = crontabs.iter().any(|it| it.path.is_none());
        let mut lines = Self { found: Vec::new(), unread, is_any, is_mailed: false };
        let now = local(screen.now);
        for line in crontabs.iter().flat_map(|crontab| crontab.lines(now)) {
            lines.judge(&line, (queue, table), resolved, screen);
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
        match (has_lines, is_running) {
            (true, _) => {}
            (false, true) => {
                findings.ok("crontab", "no line of this user: something else starts the passes");
            }
            (false, false) if !self.is_any => {
                findings.warning("crontab", "there is no cron here");
            }
            (false, false) => {
                let none = "no line of this user works on this queue; `backlog crontab` prints one";
                findings.warning("crontab", none);
            }
        }
        if !self.unread.is_empty() {
            findings.warning("unread", format!("not checked: {}", self.unread.join("; ")));
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
    fn judge(
        &mut self,
        line: &Line,
        queue: (&Queue, Option<&Table>),
        resolved: &Resolved<'_>,
        screen: &Screen,
    ) {
        let me = User::from_uid(geteuid()).ok().flatten();
        let is_of_others =
            |name: &String| is_user(name) && me.as_ref().is_none_or(|me| me.name != *name);
        if line.user.as_ref().is_some_and(is_of_others) {
            return;
        }
        let home = line.variables.get("HOME").map(PathBuf::from);
        let home = home.or_else(|| resolved.sources.environment.path("HOME"));
        let home = home.or(me.map(|me| me.dir)).unwrap_or_else(|| "/".into());
        let mut found: Vec<_> = line.faults.iter().map(|why| (Level::Error, why.clone())).collect();
        match &line.command {
            Some(command) if command.is_program() => {
                let place = LinePlace::new(line, command, home);
                match place.found(queue, resolved) {
                    Ok(None) => return,
                    Ok(Some(complaints)) => found.extend(complaints),
                    Err(why) => found.push(not_checked(&why.to_string())),
                }
                self.is_mailed |= command.stderr == Sink::Mail
                    && line.variables.get("MAILTO").is_none_or(|to| !to.is_empty());
            }
            Some(command) if line.user.is_none() && is_user(&command.program) => {
                let why = format!("it begins with the user {}", command.program);
                let why = format!("{why}, which is for /etc/crontab and /etc/cron.d: a user's");
                found.push((Level::Error, format!("{why} crontab has no such field")));
            }
            Some(_) | None if found.is_empty() => {
                found.push(not_checked("a shell makes more of it than plain words"));
            }
            Some(_) | None => {}
        }
        if line.is_passed_over {
            let why = "cron passes over a file whose name has more than letters, digits, - and _";
            found = vec![(Level::Warning, format!("{why}: rename it"))];
        } else if found.is_empty() {
            found.push((Level::Ok, next_runs(line, screen)));
        }
        let named = found.into_iter().map(|(level, why)| (level, format!("{}: {why}", line.place)));
        self.found.extend(named);
    }
}

fn not_checked(why: &str) -> (Level, String) {
    (Level::Warning, format!("not checked: {why}; read it yourself"))
}

/// The crontab of this user, those of the system, and what could not be read of them.
fn crontabs() -> (Vec<Crontab>, Vec<String>) {
    let own = process::Command::new("crontab").arg("-l").output().ok();
    let own = own.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let own = own.map(|text| Crontab { path: None, text, fault: None, is_passed_over: false });
    let (mut crontabs, mut unread): (Vec<_>, _) = (own.into_iter().collect(), Vec::new());
    let directory = fs::read_dir("/etc/cron.d").into_iter().flatten().flatten();
    let mut paths: Vec<_> = directory.map(|entry| entry.path()).collect();
    paths.sort_unstable();
    paths.insert(0, "/etc/crontab".into());
    for path in paths.into_iter().filter(|path| path.is_file()) {
        let shown = path.display().to_string();
        match secure_file::read(&path) {
            Ok((bytes, _)) => crontabs.push(Crontab {
                path: Some(shown),
                text: String::from_utf8_lossy(&bytes).into_owned(),
                fault: fault(&path),
                is_passed_over: is_passed_over(&path),
            }),
            Err(error) => unread.push(format!("{shown}: {}", words(&error))),
        }
    }
    (crontabs, unread)
}

fn is_passed_over(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    !name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte))
}

/// Why Debian's cron does not trust a file of the system.
fn fault(path: &Path) -> Option<String> {
    let (named, found) = (fs::symlink_metadata(path).ok()?, fs::metadata(path).ok()?);
    if named.uid() != 0 || found.uid() != 0 {
        return Some("it does not belong to root".into());
    }
    if found.mode() & (secure_file::GROUP_WRITE | secure_file::OTHERS_WRITE) != 0 {
        return Some("its group or others may write it: chmod 644".into());
    }
    (found.nlink() != 1).then(|| "it has another name, a hard link".into())
}

/// `*/5 * * * *, next 2026-11-21T00:05:00Z and 2026-11-21T00:10:00Z`
fn next_runs(line: &Line, screen: &Screen) -> String {
    let instant = |at: &NaiveDateTime| Local.from_local_datetime(at).earliest();
    let next = line.next.iter().filter_map(instant);
    let next: Vec<_> = next.map(|at| screen.at(Instant(at.timestamp()))).collect();
    format!("{}, next {}", line.times, next.join(" and "))
}

fn local(now: Instant) -> NaiveDateTime {
    Local.timestamp_opt(now.0, 0).single().unwrap_or_default().naive_local()
}

/// A line with where its command starts.
struct LinePlace<'a> {
    line: &'a Line,
    command: &'a Command,
    home: PathBuf,
    directory: PathBuf,
    /// The words of the program, and those behind `--`.
    options: &'a [String],
    handler: &'a [String],
}

impl<'a> LinePlace<'a> {
    fn new(line: &'a Line, command: &'a Command, home: PathBuf) -> Self {
        let directory = command.directory.as_ref().map_or(home.clone(), |path| home.join(path));
        let mut parts = command.arguments.splitn(2, |word| word == "--");
        let mut part = || parts.next().unwrap_or_default();
        Self { line, command, home, directory, options: part(), handler: part() }
    }

    /// The last value of an option.
    fn option(&self, name: &str) -> Option<String> {
        let value = |(at, word): (usize, &String)| {
            let rest = word.strip_prefix(name)?;
            let next = || self.options.get(at + 1).cloned();
            if rest.is_empty() { next() } else { rest.strip_prefix('=').map(String::from) }
        };
        self.options.iter().enumerate().filter_map(value).next_back()
    }

    /// What is wrong with the line; `None` if it names another queue. Its options count as under cron.
    fn found(
        &self,
        (queue, table): (&Queue, Option<&Table>),
        resolved: &Resolved<'_>,
    ) -> Result<Option<Vec<(Level, String)>>, ExitError> {
        let variables = self.line.variables.iter().map(|(name, it)| (name.into(), it.into()));
        let mut variables: HashMap<_, _> = variables.collect();
        variables.insert("HOME".into(), self.home.clone().into());
        let is_waived = self.options.iter().any(|word| word == "--trust-owner")
            || self.line.variables.contains_key("BACKLOG_TRUST_OWNER");
        let rule = if is_waived { OwnerRule::Waived } else { OwnerRule::Reported };
        let environment = Environment { variables, directory: self.directory.clone(), rule };
        let sources =
            Sources::find(self.option("--config").as_deref().map(Path::new), environment)?;
        let mut typed = TypedOptions {
            known: resolved.typed.known.clone(),
            name: self.option("--queue"),
            handler: self.handler.iter().map(OsString::from).collect(),
            is_about_a_table: true,
            ..TypedOptions::default()
        };
        for key in ["db", "table", "pgmq", "shard"] {
            if let Some(value) = self.option(&format!("--{key}")) {
                typed.layer.insert(key, Value::String(value), Origin::CommandLine);
            }
        }
        typed.layer.conditions.extend(self.option("--where"));
        let is_all = self.options.iter().any(|word| word == "--all-queues");
        let names =
            if is_all { sources.queues()?.into_iter().map(Some).collect() } else { vec![None] };
        for name in names {
            let resolved = sources.resolve(&typed, name.as_deref())?;
            let mut named = resolved.queue()?;
            if let Some(path) = named.db.file() {
                named.db = Location::File(self.directory.join(path));
            }
            if named.is_same(queue) {
                return Ok(Some(self.complaints((queue, table), &named, &resolved)));
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
        let Self { line, command, directory, .. } = self;
        let variable = |name: &str| line.variables.get(name).map(String::as_str);
        let path = variable("PATH").unwrap_or(CRON_PATH);
        let search = Search { path, directory, is_chosen: command.directory.is_some() };
        let is_missing = |directory: &Path| matches!(directory.try_exists(), Ok(false));
        let mut errors = Vec::new();
        if is_missing(directory) {
            let directory = directory.display();
            errors.push(format!("there is no directory {directory}, where it goes first"));
        }
        let shell = variable("SHELL");
        let is_understood =
            |it: &str| ["/sh", "/dash", "/bash"].iter().any(|end| it.ends_with(end));
        if let Some(shell) = shell.filter(|it| !is_executable(Path::new(it))) {
            let why = format!("SHELL={shell} above the line is no program: cron cannot start it");
            errors.push(why);
        }
        for file in &command.files {
            if directory.join(file).parent().is_some_and(is_missing) {
                let why =
                    format!("there is no directory for {file}: the shell starts nothing then");
                errors.push(why);
            }
        }
        errors.extend(search.file(OsStr::new(&command.program)).err());
        if let Some(from) = queue.db.password_from().filter(|_| named.db.password_from().is_none())
        {
            let (db, file) = (&queue.db, self.home.join(".pgpass"));
            let why =
                format!("it finds no password for {db}, which here is in {from}: write it into");
            errors.push(format!("{why} {}, or PGPASSFILE above the line", file.display()));
        }
        if line.next.is_empty() && line.faults.is_empty() && line.times != REBOOT {
            errors.push(format!("{} never comes", line.times));
        }
        errors.extend(resolved.complaints_of_owners().into_iter().map(|(_, why)| why));
        let handler = resolved.handler(named);
        if let (Ok(handler), Some(table)) = (&handler, table) {
            errors.extend(require(handler.as_ref(), named, table).err().map(|why| chain(&why)));
        }
        let of_handler = match &handler {
            Ok(Some(Handler::Exec { argv, .. } | Handler::Stream(StreamSettings { argv, .. }))) => {
                search.of_handler(argv)
            }
            Ok(Some(Handler::Post(_))) => None,
            Ok(None) if self.option("--post").is_some() => None,
            Ok(None) => Some((Level::Error, Handler::none().to_string())),
            Err(why) => Some((Level::Error, why.to_string())),
        };
        let is_told = ["--ping", "--on-archive"];
        let is_told = is_told.iter().any(|option| self.option(option).is_some())
            || named.on_archive.is_some()
            || resolved.pass().is_ok_and(|pass| pass.ping.is_some());
        let is_silent = command.stderr == Sink::Mail && variable("MAILTO") == Some("");
        let warnings = [
            (
                self.options.iter().any(|word| word == "--dry-run"),
                "it only lists what would be tried: leave --dry-run out",
            ),
            (
                shell.is_some_and(|it| is_executable(Path::new(it)) && !is_understood(it)),
                "not checked: SHELL is neither sh, dash nor bash; read it yourself",
            ),
            (
                line.times == REBOOT,
                "@reboot runs it once: records that fail wait for the next boot",
            ),
            (
                command.is_split,
                "sh reads &> as & and >: the pass runs in the background, and its output is not \
                 redirected: write >>FILE 2>&1",
            ),
            (
                command.stderr == Sink::Nothing,
                "what a pass says is thrown away: it says nothing unless somebody has to look, so \
                 leave the redirection out, or append it to a file",
            ),
            (
                is_silent && !is_told,
                "MAILTO is empty and its output goes nowhere else: nobody hears of archived \
                 records; name who gets the mail, or append it to a file",
            ),
        ];
        let warnings = warnings.into_iter().filter(|(is_so, _)| *is_so);
        let warnings = warnings.map(|(_, why)| (Level::Warning, why.to_string()));
        let errors = errors.into_iter().map(|why| (Level::Error, why));
        errors.chain(of_handler).chain(warnings).collect()
    }
}

const REBOOT: &str = "@reboot";

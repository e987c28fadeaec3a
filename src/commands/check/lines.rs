//! Crontab lines that name this program and this queue. A line that cannot be read is never reported as correct.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, process};

use anyhow::{Result, anyhow, bail};
use backlog_store::ownership::OwnerRule;
use backlog_store::{Location, Table, chain, secure_file};
use nix::unistd::{User, geteuid};
use rustix::fs::{Access, access};

use super::super::assemble::require_handler;
use super::super::owner_rule;
use crate::cli::{self, Typed};
use crate::crontab::{CRON_PATH, CronCommand, CronLine, Crontab};
use crate::handlers::{self, StreamSettings, is_executable, one_word_hint, program, script_fault};
use crate::options::{Environment, HandlerSpec, PassSettings, Queue, Resolved, Sources};
use crate::report::{Findings, Level};

/// The programs with which cron sends mail.
const SENDMAIL: [&str; 2] = ["/usr/sbin/sendmail", "/usr/lib/sendmail"];

/// Checks the lines of this user that may name the queue, and their mail. `table` is the table of the queue.
pub fn check(queue: &Queue, table: Option<&Table>) -> Findings {
    let me = User::from_uid(geteuid()).ok().flatten();
    let (mut findings, mut is_mailed) = (Findings::default(), false);
    for line in crontabs().iter().flat_map(Crontab::lines) {
        let is_me = |name: &String| me.as_ref().is_some_and(|me| me.name == *name);
        if !line.user.as_ref().is_none_or(is_me) {
            continue;
        }
        let home = line.variables.get("HOME").map(PathBuf::from);
        let home = home.or(me.as_ref().map(|me| me.dir.clone()));
        let home = home.unwrap_or_else(|| "/".into());
        let installed = InstalledLine { line: &line, home, queue, table };
        let Some(mut found) = installed.findings() else { continue };
        if found.is_empty() {
            found.push((Level::Ok, line.times.clone()));
        }
        for (level, text) in found {
            findings.add(level, "crontab", format!("{}: {text}", line.location));
        }
        is_mailed |=
            line.command.is_some_and(|command| command.is_whole && command.stderr.is_none())
                && line.variables.get("MAILTO").is_none_or(|to| !to.is_empty());
    }
    if is_mailed && !SENDMAIL.iter().any(|program| Path::new(program).exists()) {
        findings.warning(
            "mail",
            "cron finds no sendmail, so the messages of a pass are lost: append them to a file \
             (>>FILE 2>&1)",
        );
    }
    findings
}

/// The crontab of this user, and those of the system that can be read.
fn crontabs() -> Vec<Crontab> {
    let own = process::Command::new("crontab").arg("-l").output().ok();
    let own = own.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let own = own.map(|text| Crontab { path: None, text, fault: None });
    // Cron ignores files with other names.
    let has_name = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte))
    };
    let directory = fs::read_dir("/etc/cron.d").into_iter().flatten().flatten();
    let mut paths: Vec<_> = directory.map(|entry| entry.path()).filter(has_name).collect();
    paths.sort_unstable();
    paths.insert(0, "/etc/crontab".into());
    let of_system = paths.into_iter().filter(|path| path.is_file()).filter_map(|path| {
        let text = String::from_utf8_lossy(&secure_file::read(&path).ok()?.0).into_owned();
        Some(Crontab { path: Some(path.display().to_string()), text, fault: fault(&path) })
    });
    own.into_iter().chain(of_system).collect()
}

/// The fault for which Debian's cron ignores a crontab of the system.
fn fault(path: &Path) -> Option<String> {
    let (named, found) = (fs::symlink_metadata(path).ok()?, fs::metadata(path).ok()?);
    let writable = secure_file::GROUP_WRITE | secure_file::OTHERS_WRITE;
    let is_trusted = (named.uid(), found.uid(), found.nlink()) == (0, 0, 1);
    (!is_trusted || found.mode() & writable != 0).then(|| {
        "it must be owned by root, have no other hard link, and be writable only by root".into()
    })
}

struct InstalledLine<'a> {
    line: &'a CronLine,
    home: PathBuf,
    queue: &'a Queue,
    table: Option<&'a Table>,
}

impl InstalledLine<'_> {
    /// The faults of the line; `None` if it names another queue.
    fn findings(&self) -> Option<Vec<(Level, String)>> {
        let faults = self.line.faults.iter().map(|why| (Level::Error, why.clone()));
        let mut found: Vec<_> = faults.collect();
        match self.command_faults().transpose()? {
            Ok(faults) => found.extend(faults),
            Err(why) if found.is_empty() => {
                let why = format!("not checked: {why}; read it yourself");
                found.push((Level::Warning, why));
            }
            Err(_) => {}
        }
        Some(found)
    }

    /// The faults of its command; `None` if it names another queue. The error is the reason why it cannot be read.
    fn command_faults(&self) -> Result<Option<Vec<(Level, String)>>> {
        let not_plain = || anyhow!("it uses more of the shell than plain words");
        let command = self.line.command.as_ref().ok_or_else(not_plain)?;
        let typed = Typed::parse(command.words.iter().map(OsString::from)).map_err(|error| {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            anyhow!("{}", first.trim_start_matches("error: "))
        })?;
        let cli::CliCommand::Process(process) = &typed.cli.command else { return Ok(None) };
        if let Some(id) = process.ids.first() {
            bail!("{id:?} is taken for the id of a record");
        }
        let variables = self.line.variables.iter().map(|(name, it)| (name.into(), it.into()));
        let variables = variables.chain([("HOME".into(), self.home.clone().into())]).collect();
        let global = &typed.cli.global;
        let rule = OwnerRule::Reported;
        let mut environment = Environment { variables, directory: self.home.clone(), rule };
        environment.rule = owner_rule(rule, global, &environment)?;
        let sources = Sources::find(global.config.as_deref(), environment)?;
        let names = match process.all_queues {
            true => sources.queues()?.into_iter().map(Some).collect(),
            false => vec![None],
        };
        for name in names {
            let resolved = sources.resolve(&typed.options, name.as_deref())?;
            let mut named = resolved.queue()?;
            if let Some(path) = named.db.file() {
                named.db = Location::File(self.home.join(path));
            }
            if named.is_within(self.queue) {
                command.is_whole.then_some(()).ok_or_else(not_plain)?;
                let errors = self.errors(command, &named, &resolved).into_iter();
                let warnings = self.warnings(command, process.dry_run).into_iter();
                let warnings = warnings.map(String::from).chain(resolved.unknown_limits());
                let warnings = warnings.map(|why| (Level::Warning, why));
                let all = errors.map(|why| (Level::Error, why)).chain(warnings);
                return Ok(Some(all.collect()));
            }
        }
        Ok(None)
    }

    fn variable(&self, name: &str) -> Option<&str> {
        self.line.variables.get(name).map(String::as_str)
    }

    /// The reasons why a pass would fail. `named` is the queue by the options of the line.
    fn errors(&self, command: &CronCommand, named: &Queue, resolved: &Resolved<'_>) -> Vec<String> {
        let path = OsStr::new(self.variable("PATH").unwrap_or(CRON_PATH));
        let mut errors = Vec::new();
        errors.extend(program_file(&[OsString::from(&command.words[0])], path).err());
        for file in command.stdout.iter().chain(&command.stderr) {
            if !can_append(&self.home.join(file)) {
                errors.push(format!("{file} cannot be written: the shell starts nothing then"));
            }
        }
        errors.dedup();
        let db = &self.queue.db;
        if db.password_from().is_some() && named.db.password_from().is_none() {
            errors.push(format!("it finds no password for {db}: write it into ~/.pgpass"));
        }
        errors.extend(resolved.ownership_complaints().into_iter().map(|(_, why)| why));
        errors.extend(resolved.errors.iter().cloned());
        let handler = PassSettings::new(resolved, false).map(|settings| settings.handler);
        if let (Ok(handler), Some(table)) = (&handler, self.table) {
            errors.extend(
                require_handler(handler.as_ref(), named, table).err().map(|why| chain(&why)),
            );
        }
        match handler {
            Ok(Some(
                HandlerSpec::Exec { argv, .. } | HandlerSpec::Stream(StreamSettings { argv, .. }),
            )) => {
                errors.extend(program_file(&argv, path).err());
            }
            // After an invalid value, other options may only seem to be missing.
            Err(why) if resolved.errors.is_empty() => errors.push(why.to_string()),
            Ok(_) | Err(_) => {}
        }
        errors
    }

    fn warnings(&self, command: &CronCommand, is_dry: bool) -> Vec<&'static str> {
        let mut warnings = Vec::new();
        let shell = Path::new(self.variable("SHELL").unwrap_or("sh"));
        if !["sh", "dash", "bash"].iter().any(|name| shell.ends_with(name)) {
            warnings.push("not checked: SHELL is not sh, dash or bash; read it yourself");
        }
        if self.line.times == "@reboot" {
            warnings.push("no next run is known: a record that fails waits for it");
        }
        let is_thrown_away = match &command.stderr {
            Some(file) => file == "/dev/null",
            None => self.variable("MAILTO") == Some(""),
        };
        if is_thrown_away {
            warnings.push(
                "MAILTO=\"\" or /dev/null discards the messages of a pass, which are rare and need action: \
                 let cron mail them, or append them to a file (>>FILE 2>&1)",
            );
        }
        if is_dry {
            warnings.push("it only lists what would be tried: leave --dry-run out");
        }
        warnings
    }
}

fn can_append(file: &Path) -> bool {
    let is_writable = |path: &Path| access(path, Access::WRITE_OK).is_ok();
    match fs::metadata(file) {
        Ok(found) => !found.is_dir() && is_writable(file),
        Err(_) => file.parent().is_some_and(is_writable),
    }
}

/// The file of a command's program, or why cron cannot run it. `path` is the PATH of its line.
pub fn program_file(argv: &[OsString], path: &OsStr) -> Result<PathBuf, String> {
    if let Some(why) = one_word_hint(argv, path) {
        return Err(why);
    }
    let program = program(argv);
    let (name, is_path) = (handlers::display_name(program), program.as_bytes().contains(&b'/'));
    if is_path && Path::new(program).is_relative() {
        let why = "depends on the directory that cron starts it in: write its whole path";
        return Err(format!("{name} {why}"));
    }
    let file = handlers::find_program(program, path).ok_or_else(|| match is_path {
        true => format!("there is no {name}"),
        false => format!(
            "cron does not find {name} in {}, where variables are not expanded: write its whole path, or \
             PATH=... above the line",
            path.display()
        ),
    })?;
    if !is_executable(&file) {
        return Err(format!("{0} is not executable: chmod +x {0}", file.display()));
    }
    match script_fault(&file, path) {
        None => Ok(file),
        Some(why) => Err(format!("{} cannot be run: {why}", file.display())),
    }
}

//! The handler: whether cron finds its program, and can run it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use backlog_store::Table;

use crate::crontab::CRON_PATH;
use crate::handlers::placeholders::variables;
use crate::handlers::{
    self, Signing, StreamSettings, in_one_word, is_executable, obstacle, program,
};
use crate::options::{Environment, Handler};
use crate::report::{Findings, Level};

/// `has_lines` says that crontab lines name the queue, which may have handlers of their own.
pub fn check(
    findings: &mut Findings,
    handler: Option<&Handler>,
    environment: &Environment,
    has_lines: bool,
) {
    match handler {
        None if has_lines => findings.ok("handler", "each line has its own"),
        None => findings.warning(
            "handler",
            "none is configured: set exec or post, or write the command behind `--` in each line",
        ),
        Some(Handler::Exec { argv, .. } | Handler::Stream(StreamSettings { argv, .. })) => {
            let (level, text) = of_command(argv, environment, has_lines);
            findings.add(level, "handler", text);
        }
        Some(Handler::Post(webhook)) => {
            let signed = match &webhook.signing {
                Signing::None => "not signed".into(),
                Signing::Shared(_) => "signed".into(),
                Signing::Own { column } => format!("signed with {column} of each record"),
            };
            findings.ok("handler", format!("POST {}, {signed}", webhook.target));
        }
    }
}

/// Reports the columns that no variable of a command holds.
pub fn check_variables(findings: &mut Findings, table: &Table) {
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
    let relative = argv.first_mut().filter(|program| program.as_bytes().contains(&b'/'));
    if let Some(program) = relative.filter(|_| has_lines) {
        *program = environment.directory.join(&*program).into();
    }
    match (file_of(&argv, OsStr::new(CRON_PATH)), file_of(&argv, own)) {
        (Ok(file), _) => (Level::Ok, file.display().to_string()),
        (Err(_), Ok(file)) if has_lines => (Level::Ok, file.display().to_string()),
        (Err(why), Ok(_)) => (Level::Warning, why),
        (Err(why), Err(_)) => (Level::Error, why),
    }
}

/// The file of a command's program, or why cron cannot run it. `path` is the PATH of its line.
pub fn file_of(argv: &[OsString], path: &OsStr) -> Result<PathBuf, String> {
    if let Some(why) = in_one_word(argv, path) {
        return Err(why);
    }
    let program = program(argv);
    let (shown, is_path) = (handlers::shown(program), program.as_bytes().contains(&b'/'));
    if is_path && Path::new(program).is_relative() {
        let why = "depends on the directory that cron starts it in: write its whole path";
        return Err(format!("{shown} {why}"));
    }
    let file = handlers::file_of(program, path).ok_or_else(|| match is_path {
        true => format!("there is no {shown}"),
        false => format!(
            "cron finds no {shown} in {}, where it replaces no variable: write its whole path, or \
             PATH=... above the line",
            path.display()
        ),
    })?;
    if !is_executable(&file) {
        return Err(format!("{0} is not executable: chmod +x {0}", file.display()));
    }
    match obstacle(&file, path) {
        None => Ok(file),
        Some(why) => Err(format!("{} cannot be run: {why}", file.display())),
    }
}

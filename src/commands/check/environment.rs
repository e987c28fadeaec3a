//! Inspection of the handler and of the user's crontab.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::Findings;
use crate::cli::{Command, Typed};
use crate::crontab;
use crate::exit::ExitError;
use crate::handlers::{Signing, in_one_word, is_executable, obstacle};
use crate::options::{Environment, Handler, Queue, Schedule, Sources};
use crate::report::Level;
use crate::schedule;
use crate::store::Location;
use crate::time::days;

/// What cron looks for programs in, unless the crontab says otherwise.
const CRON_PATH: &str = "/usr/bin:/bin";

pub fn the_handler(handler: Option<&Handler>, environment: &Environment) -> (Level, String) {
    match handler {
        None => (Level::Warning, "none is configured: it stands behind `--` in each line".into()),
        Some(Handler::Exec { argv, .. } | Handler::Stream { argv, .. }) => {
            the_program(argv, environment)
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

fn the_program(argv: &[OsString], environment: &Environment) -> (Level, String) {
    let own = environment.get("PATH").map_or(OsStr::new(CRON_PATH), OsString::as_os_str);
    if let Some(why) = in_one_word(argv, own) {
        return (Level::Error, why);
    }
    let program = argv.first().map_or(Path::new(""), Path::new);
    let (shown, is_path) = (program.display(), program.components().count() > 1);
    if is_path && program.is_relative() {
        let why = format!("{shown} is not where cron starts: write its whole path");
        return (Level::Error, why);
    }
    // From the root on it is found in every directory.
    let search = |path: &OsStr| {
        let mut files = std::env::split_paths(path).map(|directory| directory.join(program));
        files.find(|file| is_executable(file))
    };
    match (search(OsStr::new(CRON_PATH)), search(own)) {
        (Some(file), _) => match obstacle(&file, own) {
            None => (Level::Ok, file.display().to_string()),
            Some(why) => (Level::Error, format!("{} cannot be run: {why}", file.display())),
        },
        (None, Some(file)) => {
            let why = format!("is not in cron's PATH, {CRON_PATH}: write its whole path");
            (Level::Warning, format!("{} {why}", file.display()))
        }
        (None, None) if is_path => {
            (Level::Error, format!("{shown} is no file that can be executed"))
        }
        (None, None) => (Level::Error, format!("there is no {shown} in PATH")),
    }
}

/// The lines of this user's crontab that work on the same queue.
pub fn the_crontab(findings: &mut Findings, queue: &Queue, environment: &Environment) {
    let crontab = std::process::Command::new("crontab").arg("-l").output();
    let Ok(crontab) = crontab else {
        findings.warning("crontab", "there is no cron here");
        return;
    };
    let text = String::from_utf8_lossy(&crontab.stdout);
    let mut ages = Vec::new();
    for line in crontab::lines(&text, "backlog") {
        let passes = passes(&line, environment).unwrap_or_else(|why| {
            findings.error("crontab", format!("line {}: {why}", line.number));
            Vec::new()
        });
        for (_, Schedule { policy, .. }) in passes.iter().filter(|(it, _)| it.is_same(queue)) {
            let (from, to) = policy.ages();
            let text = format!("{}: {}, {}", line.times, policy.line(), band(from, to));
            findings.ok("crontab", text);
            ages.push((from, to));
        }
    }
    if ages.is_empty() {
        findings.warning(
            "crontab",
            "no line of this user works on this queue; `backlog crontab` prints one",
        );
        return;
    }
    for (from, to) in schedule::gaps(&ages) {
        let band = band(from, Some(to));
        findings.error("crontab", format!("no line tries records of {band}"));
    }
    for (from, to) in schedule::overlaps(&ages) {
        findings.warning("crontab", format!("several lines try records of {}", band(from, to)));
    }
}

/// The passes that a line of a crontab runs, as many as it has queues. They are read as under cron,
/// which starts a line in the user's home with next to no environment.
fn passes(
    line: &crontab::Line,
    environment: &Environment,
) -> Result<Vec<(Queue, Schedule)>, String> {
    let home = environment.path("HOME").unwrap_or_else(|| PathBuf::from("/"));
    // As a shell does.
    let expand = |word: &str| {
        let home = home.to_string_lossy();
        let word = word.replace("${HOME}", &home).replace("$HOME", &home);
        word.strip_prefix("~/").map_or(word.clone(), |rest| format!("{home}/{rest}"))
    };
    let directory = line.directory.as_ref().map_or(home.clone(), |it| home.join(expand(it)));
    let mut variables: HashMap<_, _> =
        [(OsString::from("HOME"), home.clone().into_os_string())].into();
    variables.extend(line.environment.iter().map(|(name, it)| (name.into(), expand(it).into())));
    let environment = Environment { variables, directory };
    let argv = std::iter::once("backlog".into())
        .chain(line.arguments.iter().map(|word| expand(word).into()));
    let typed = match Typed::parse(argv) {
        Ok(typed) => typed,
        Err(error) if !error.use_stderr() => return Ok(Vec::new()),
        // Without clap's hints.
        Err(error) => return Err(error.to_string().lines().next().unwrap_or_default().into()),
    };
    let Command::Process(args) = &typed.cli.command else { return Ok(Vec::new()) };
    let passes = || -> Result<Vec<_>, ExitError> {
        let sources = Sources::find(typed.options.config.as_deref(), environment)?;
        let queues: Vec<_> = match args.all_queues {
            true => sources.queues()?.into_iter().map(Some).collect(),
            false => vec![None],
        };
        let mut passes = Vec::new();
        for queue in queues {
            let resolved = sources.resolve(&typed.options, queue.as_deref())?;
            let mut queue = resolved.queue()?;
            if let Location::File(path) = &mut queue.db {
                *path = sources.environment.directory.join(&*path);
            }
            passes.push((queue, resolved.schedule()?.ok_or_else(Schedule::none)?));
        }
        Ok(passes)
    };
    passes().map_err(|error| error.message)
}

fn band(from: i64, to: Option<i64>) -> String {
    match (from, to) {
        (0, None) => "all ages".into(),
        (from, None) => format!("more than {} days", days(from)),
        (from, Some(to)) => format!("{} to {} days", days(from), days(to)),
    }
}

//! Cadence of a queue's passes: which lines of this user's crontab and which systemd timers run them.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process;

use crate::cli::{Command, Typed};
use crate::crontab::{self, Line, UnitDirectory};
use crate::exit::{ExitError, usage};
use crate::options::{Environment, Queue, Schedule, Sources};
use crate::store::Location;

const PROGRAM: &str = "backlog";

/// The lines of this user's crontab, and then the timers of the system and of this user. None where
/// there is no cron and no timer.
pub fn lines(environment: &Environment) -> Option<Vec<Line>> {
    let crontab = process::Command::new("crontab").arg("-l").output().ok();
    let text = crontab.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let of_crontab = text.map(|text| crontab::lines(&text, PROGRAM));
    let timers = crontab::timers(&unit_directories(environment), PROGRAM);
    match of_crontab {
        None if timers.is_empty() => None,
        of_crontab => Some([of_crontab.unwrap_or_default(), timers].concat()),
    }
}

fn unit_directories(environment: &Environment) -> Vec<UnitDirectory> {
    let system = UnitDirectory { path: "/etc/systemd/system".into(), starts_in: Some("/") };
    let own = environment.config_dir().map(|directory| directory.join("systemd/user"));
    let own = own.map(|path| UnitDirectory { path, starts_in: None });
    [system].into_iter().chain(own).collect()
}

/// The passes that a line runs, as many as it has queues. They are read as under cron, which starts a
/// line in the user's home with next to no environment; so does systemd.
pub fn passes(line: &Line, environment: &Environment) -> Result<Vec<(Queue, Schedule)>, ExitError> {
    let home = environment.path("HOME").unwrap_or_else(|| PathBuf::from("/"));
    // As a shell does.
    let expand = |word: &str| {
        let home = home.to_string_lossy();
        let word = word.replace("${HOME}", &home).replace("$HOME", &home);
        word.strip_prefix("~/").map_or(word.clone(), |rest| format!("{home}/{rest}"))
    };
    let directory = line.directory.as_ref().map_or(home.clone(), |it| home.join(expand(it)));
    let own = [(OsString::from("HOME"), OsString::from(&home))].into_iter();
    let set = line.environment.iter().map(|(name, it)| (name.into(), expand(it).into()));
    let environment = Environment { variables: own.chain(set).collect(), directory };
    let words = line.arguments.iter().map(|word| expand(word).into());
    let typed = match Typed::parse(std::iter::once("backlog".into()).chain(words)) {
        Ok(typed) => typed,
        Err(error) if !error.use_stderr() => return Ok(Vec::new()),
        // Without clap's hints.
        Err(error) => return Err(usage(error.to_string().lines().next().unwrap_or_default())),
    };
    let Command::Process(args) = &typed.cli.command else { return Ok(Vec::new()) };
    let sources = Sources::find(typed.cli.global.config.as_deref(), environment)?;
    let pass = |queue: Option<&str>| {
        let resolved = sources.resolve(&typed.options, queue)?;
        let mut queue = resolved.queue()?;
        if let Some(path) = queue.db.file() {
            queue.db = Location::File(sources.environment.directory.join(path));
        }
        Ok((queue, resolved.schedule()?.ok_or_else(Schedule::none)?))
    };
    if !args.all_queues {
        return Ok(vec![pass(None)?]);
    }
    sources.queues()?.iter().map(|queue| pass(Some(queue))).collect()
}

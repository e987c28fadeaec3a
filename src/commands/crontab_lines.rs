//! Lines of a crontab: the passes that they run, read as under cron, which starts a line in the
//! user's home with next to no environment.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;

use crate::cli::{Command, Typed, first_line};
use crate::crontab;
use crate::exit::ExitError;
use crate::options::{Environment, Queue, Schedule, Sources, TypedOptions};
use crate::store::Location;

/// A pass that a line of a crontab runs.
pub enum CrontabLine {
    Pass { times: String, queue: Box<Queue>, schedule: Box<Schedule> },
    Unclear { number: usize, why: String },
}

/// The passes that a user's crontab runs, of whatever queue.
pub fn crontab_lines(crontab: &str, environment: &Environment) -> Vec<CrontabLine> {
    let lines = crontab::lines(crontab, "backlog").into_iter();
    lines.flat_map(|line| crontab_line(&line, environment)).collect()
}

/// What one line runs: as many passes as it has queues.
fn crontab_line(line: &crontab::Line, environment: &Environment) -> Vec<CrontabLine> {
    let home = environment.path("HOME").unwrap_or_else(|| PathBuf::from("/"));
    let expand = |word: &str| expanded(word, &home.to_string_lossy());
    let directory = line.directory.as_ref().map_or(home.clone(), |it| home.join(expand(it)));
    let mut variables: HashMap<_, _> =
        [(OsString::from("HOME"), home.clone().into_os_string())].into();
    variables.extend(line.environment.iter().map(|(name, it)| (name.into(), expand(it).into())));
    let environment = Environment { variables, directory };
    let unclear = |why: String| CrontabLine::Unclear { number: line.number, why };
    let argv = std::iter::once("backlog".into())
        .chain(line.arguments.iter().map(|word| expand(word).into()));
    let typed = match Typed::parse(argv) {
        Ok(typed) => typed,
        Err(error) if error.use_stderr() => return vec![unclear(first_line(&error))],
        Err(_) => return Vec::new(),
    };
    let Command::Process(args) = &typed.cli.command else { return Vec::new() };
    let passes = || {
        let sources = Sources::find(typed.options.config.as_deref(), environment)?;
        let queues: Vec<_> = match args.all_queues {
            true => sources.queues()?.into_iter().map(Some).collect(),
            false => vec![None],
        };
        queues.into_iter().map(|queue| pass(&sources, &typed.options, queue.as_deref())).collect()
    };
    match passes() {
        Ok(passes) => {
            let passes: Vec<(Queue, Schedule)> = passes;
            let pass = |(queue, schedule)| CrontabLine::Pass {
                times: line.times.clone(),
                queue: Box::new(queue),
                schedule: Box::new(schedule),
            };
            passes.into_iter().map(pass).collect()
        }
        Err(ExitError { message, .. }) => vec![unclear(message)],
    }
}

/// What a pass would go by.
fn pass(
    sources: &Sources,
    typed: &TypedOptions,
    queue: Option<&str>,
) -> Result<(Queue, Schedule), ExitError> {
    let resolved = sources.resolve(typed, queue)?;
    let mut queue = resolved.queue()?;
    if let Location::File(path) = &mut queue.db {
        *path = sources.environment.directory.join(&*path);
    }
    Ok((queue, resolved.schedule()?.ok_or_else(Schedule::none)?))
}

/// What a shell makes of the home directory in a word.
fn expanded(word: &str, home: &str) -> String {
    let word = word.replace("${HOME}", home).replace("$HOME", home);
    match word.strip_prefix("~/") {
        Some(rest) => format!("{home}/{rest}"),
        None => word,
    }
}

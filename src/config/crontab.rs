//! From the lines of a crontab to what they run, and from a command line to one that means the same
//! under cron.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::environment::Environment;
use super::section::{KEYS, Kind, Section, is_of_the_choice};
use super::{DEFAULT_QUEUE, Queue, Resolved, Schedule, Sources};
use crate::cli::{self, Typed};
use crate::crontab;
use crate::exit::{ExitError, usage};

/// What a line of a crontab comes to.
pub enum CrontabLine {
    Pass { times: String, queue: Box<Queue>, schedule: Box<Schedule> },
    Unclear { number: usize, why: String },
}

impl Sources {
    /// The passes that a user's crontab runs, of whatever queue.
    pub fn crontab_lines(&self, crontab: &str) -> Vec<CrontabLine> {
        let lines = crontab::lines(crontab, "backlog").into_iter();
        lines.flat_map(|line| self.crontab_line(&line)).collect()
    }

    /// What one line runs: as many passes as it has queues. Cron starts it in the user's home and
    /// with next to no environment.
    fn crontab_line(&self, line: &crontab::Line) -> Vec<CrontabLine> {
        let home = self.environment.path("HOME").unwrap_or_else(|| PathBuf::from("/"));
        let directory = line.directory.as_ref().map_or(home.clone(), |it| home.join(it));
        let mut variables: HashMap<_, _> = [(OsString::from("HOME"), home.into_os_string())].into();
        variables.extend(line.environment.iter().map(|(name, value)| (name.into(), value.into())));
        let environment = Environment { variables, directory };
        let unclear = |why: String| CrontabLine::Unclear { number: line.number, why };
        let argv = std::iter::once("backlog".into()).chain(line.arguments.iter().map(Into::into));
        let typed = match Typed::parse(argv) {
            Ok(typed) => typed,
            Err(error) if error.use_stderr() => {
                let error = error.to_string();
                return vec![unclear(error.lines().next().unwrap_or_default().to_string())];
            }
            Err(_) => return Vec::new(),
        };
        let cli::Command::Process(args) = &typed.line.cli.command else { return Vec::new() };
        let passes = || {
            let sources = Self::find(&typed, environment)?;
            let queues: Vec<_> = match args.all_queues {
                true => sources.queues()?.into_iter().map(Some).collect(),
                false => vec![None],
            };
            queues.into_iter().map(|queue| sources.pass(&typed, queue.as_deref())).collect()
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
    fn pass(&self, typed: &Typed, queue: Option<&str>) -> Result<(Queue, Schedule), ExitError> {
        let Resolved { command, place } = self.resolve(typed, queue)?;
        let cli::Command::Process(args) = command else {
            return Err(usage("this is no pass"));
        };
        let mut queue = place.queue()?;
        queue.db = self.environment.directory.join(queue.db);
        Ok((queue, Schedule::required(&args.schedule)?))
    }

    /// The options that make `process` mean the same queue from anywhere: what was typed, what
    /// stands in the environment, and where the file is.
    pub fn arguments(&self, typed: &Typed, queue: &Queue) -> Result<Vec<String>, ExitError> {
        let mut section = Section::default();
        for (long, value) in typed.options() {
            if let Some(key) = KEYS.iter().find(|key| key.long == long) {
                section.options.insert(key.long, value.map(String::from));
            }
        }
        section = section.over(self.environment.section(&queue.name)?);
        let mut words = Vec::new();
        if let Some(file) = &self.file {
            words.extend(["--config".into(), absolute(&self.environment, &file.path)?]);
        }
        if queue.name != DEFAULT_QUEUE {
            words.extend(["--queue".into(), queue.name.clone()]);
        }
        for (long, value) in section.options {
            if is_of_the_choice(long) {
                continue;
            }
            let is_path = KEYS.iter().any(|it| it.long == long && it.kind == Kind::Path);
            let value = match value {
                Some(path) if is_path => Some(absolute(&self.environment, Path::new(&path))?),
                value => value,
            };
            words.push(format!("--{long}"));
            words.extend(value);
        }
        let conditions = typed.options().filter(|(long, _)| *long == "where");
        for condition in
            conditions.filter_map(|(_, value)| value).chain(section.condition.as_deref())
        {
            words.extend(["--where".into(), condition.into()]);
        }
        Ok(words)
    }
}

/// A path from the root on.
fn absolute(environment: &Environment, path: &Path) -> Result<String, ExitError> {
    let path = environment.directory.join(path);
    let path = path.canonicalize().unwrap_or(path);
    path.to_str().map(String::from).ok_or_else(|| usage("a path is not UTF-8"))
}

//! Command lines under cron: what the lines of a crontab run, and the arguments that mean the same
//! from there.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::environment::Environment;
use super::section::{Kind, Said, Section, is_of_the_choice, options};
use super::{DEFAULT_QUEUE, Queue, Resolved, Schedule, Sources};
use crate::cli::{self, Typed};
use crate::crontab;
use crate::exit::{ExitError, usage};
use crate::handlers::without_login;
use crate::schedule;
use crate::store::{self, Location};

/// A pass that a line of a crontab runs.
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
        let expand = |word: &str| expanded(word, &home.to_string_lossy());
        let directory = line.directory.as_ref().map_or(home.clone(), |it| home.join(expand(it)));
        let mut variables: HashMap<_, _> =
            [(OsString::from("HOME"), home.clone().into_os_string())].into();
        variables
            .extend(line.environment.iter().map(|(name, it)| (name.into(), expand(it).into())));
        let environment = Environment { variables, directory };
        let unclear = |why: String| CrontabLine::Unclear { number: line.number, why };
        let argv = std::iter::once("backlog".into())
            .chain(line.arguments.iter().map(|word| expand(word).into()));
        let typed = match Typed::parse(argv) {
            Ok(typed) => typed,
            Err(error) if error.use_stderr() => return vec![unclear(cli::first_line(&error))],
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
        if let Location::File(path) = &mut queue.db {
            *path = self.environment.directory.join(&*path);
        }
        Ok((queue, Schedule::required(&args.schedule)?))
    }

    /// The options that make `process` mean the same from anywhere: what was typed, what stands in
    /// the environment, and where the file is. `with_schedule` says whether the schedule is among
    /// them.
    pub fn arguments(
        &self,
        typed: &Typed,
        queue: &Queue,
        with_schedule: bool,
    ) -> Result<Vec<String>, ExitError> {
        let mut section = Section::default();
        for (long, value) in typed.options() {
            if let Some(key) = options().find(|key| key.long == long) {
                let value = value.map(String::from);
                section.options.insert(key.long, value.map_or(Said::On, Said::Value));
            }
        }
        // A token that stands in the environment is none for a command line, which every user of
        // the machine sees.
        let mut environment = self.environment.section(&queue.name)?;
        environment.options.remove("header");
        let mut section = section.over(environment);
        let mut words = Vec::new();
        if let Some(file) = &self.file {
            words.extend(option("config", Some(self.absolute(&file.path)?)));
        }
        // Where cron and systemd start it, no variable may say so.
        if let (None, Some(place)) = (queue.db.file(), &queue.state_dir) {
            section.options.insert("state-dir", Said::Value(self.absolute(place)?));
        }
        if queue.name != DEFAULT_QUEUE {
            words.extend(option("queue", Some(queue.name.clone())));
        }
        let given = section.given();
        for (long, value) in given.filter(|(long, _)| with_schedule || !is_of_the_choice(long)) {
            let is_path = options().any(|it| it.long == long && it.kind == Kind::Path);
            let file = value.as_deref().filter(|_| long == "policy").and_then(schedule::file_of);
            let value = match (&value, file) {
                // A password is no word for a command line, which every user of the machine sees.
                (Some(url), _) if store::is_url(url) => Some(store::without_password(url)),
                (Some(url), _) if long == "post" => Some(without_login(url)),
                (Some(path), _) if is_path => Some(self.absolute(Path::new(path))?),
                (Some(spec), Some(file)) => {
                    Some(spec.replace(file, &self.absolute(Path::new(file))?))
                }
                _ => value,
            };
            let kind = options().find(|it| it.long == long).map(|it| it.kind);
            match (kind, value) {
                (Some(Kind::Lines), Some(lines)) => {
                    words.extend(lines.lines().flat_map(|line| option(long, Some(line.into()))));
                }
                (Some(Kind::Command), Some(text)) => {
                    words.extend(option(long, Some(self.command(&text)?)));
                }
                (_, value) => words.extend(option(long, value)),
            }
        }
        let typed = typed.options().find(|(long, _)| *long == "where").and_then(|(_, it)| it);
        let conditions: Vec<_> =
            self.environment.option("where")?.into_iter().chain(typed.map(String::from)).collect();
        let condition = match &conditions[..] {
            [first, second] => Some(format!("({first}) AND ({second})")),
            conditions => conditions.first().cloned(),
        };
        words.extend(condition.into_iter().flat_map(|it| option("where", Some(it))));
        Ok(words)
    }

    /// Whether the URL of the webhook has a login in it, that was typed or stands in the
    /// environment.
    pub fn has_login(&self, typed: &Typed) -> Result<bool, ExitError> {
        let said = typed.options().find(|(long, _)| *long == "post").and_then(|(_, url)| url);
        let url =
            said.map_or_else(|| self.environment.option("post"), |url| Ok(Some(url.into())))?;
        Ok(url.is_some_and(|url| without_login(&url) != url))
    }

    /// The variables that a connection to a server depends on, but for the password.
    pub fn connection_variables(&self, queue: &Queue) -> Vec<(String, String)> {
        if queue.db.file().is_some() {
            return Vec::new();
        }
        let variables = self.environment.variables.iter();
        let text = variables.filter_map(|(name, it)| Some((name.to_str()?, it.to_str()?)));
        let mut of_libpq: Vec<_> = text
            .filter(|(name, _)| name.starts_with("PG") && *name != "PGPASSWORD")
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect();
        of_libpq.sort();
        of_libpq
    }

    /// A handler that can be started from anywhere.
    pub fn program(&self, program: &str) -> Result<String, ExitError> {
        if program.contains('/') { self.absolute(Path::new(program)) } else { Ok(program.into()) }
    }

    /// The same of a command with its arguments in one text.
    fn command(&self, text: &str) -> Result<String, ExitError> {
        let mut words = shlex::split(text).unwrap_or_default();
        if let Some(program) = words.first_mut() {
            *program = self.program(program)?;
        }
        shlex::try_join(words.iter().map(String::as_str))
            .map_err(|error| usage(format!("{text:?} is no command: {error}")))
    }

    /// A path from the root on.
    fn absolute(&self, path: &Path) -> Result<String, ExitError> {
        let path = self.environment.directory.join(path);
        let path = path.canonicalize().unwrap_or(path);
        path.to_str().map(String::from).ok_or_else(|| usage("a path is not UTF-8"))
    }
}

/// An option in the words of a command line.
fn option(long: &str, value: Option<String>) -> Vec<String> {
    match value {
        None => vec![format!("--{long}")],
        // It would look like an option of its own.
        Some(value) if value.starts_with('-') => vec![format!("--{long}={value}")],
        Some(value) => vec![format!("--{long}"), value],
    }
}

/// What a shell makes of the home directory in a word.
fn expanded(word: &str, home: &str) -> String {
    let word = word.replace("${HOME}", home).replace("$HOME", home);
    match word.strip_prefix("~/") {
        Some(rest) => format!("{home}/{rest}"),
        None => word,
    }
}

//! Arguments that make `process` mean the same under cron, from any directory and without the
//! environment of the person who typed it.

use std::path::Path;

use toml::Value;

use crate::exit::{ExitError, usage};
use crate::handlers::without_login;
use crate::options::keys::{FLAGS, PATHS, is_of_the_choice, long};
use crate::options::value::truth;
use crate::options::{DEFAULT_QUEUE, Environment, Origin, Queue, Sources, TypedOptions};
use crate::{schedule, store};

/// What was typed and what stands in the environment, seen from anywhere.
pub struct CronArguments<'a> {
    pub sources: &'a Sources,
    pub typed: &'a TypedOptions,
}

impl CronArguments<'_> {
    fn environment(&self) -> &Environment {
        &self.sources.environment
    }

    /// The options that were typed, those of the environment, and where the file is.
    /// `with_schedule` says whether the schedule is among them.
    pub fn words(&self, queue: &Queue, with_schedule: bool) -> Result<Vec<String>, ExitError> {
        let mut words = Vec::new();
        if let Some(file) = self.sources.path() {
            words.extend(option("config", Some(self.absolute(file)?)));
        }
        if queue.name != DEFAULT_QUEUE {
            words.extend(option("queue", Some(queue.name.clone())));
        }
        // A token that stands in the environment is none for a command line, which every user of
        // the machine sees.
        let mut layers = self.environment().layer(&queue.name)?;
        layers.remove("header");
        let mut layers = self.typed.layer.clone().over(layers);
        layers.remove("exec");
        // Where cron and systemd start it, no variable may say so.
        if let (None, Some(place)) = (queue.db.file(), &queue.state_dir) {
            layers.insert("state_dir", Value::String(self.absolute(place)?), Origin::CommandLine);
        }
        for (key, value) in layers.iter().filter(|(key, _)| with_schedule || !is_of_the_choice(key))
        {
            for value in values(key, value) {
                let value = value.map(|value| self.value(key, value)).transpose()?;
                words.extend(option(&long(key), value));
            }
        }
        for setting in &self.typed.queue.set {
            words.extend(option("set", Some(setting.text.clone())));
        }
        let conditions = self.environment().option("where")?.into_iter();
        let conditions: Vec<_> = conditions.chain(self.typed.queue.condition.clone()).collect();
        let condition = match &conditions[..] {
            [first, second] => Some(format!("({first}) AND ({second})")),
            conditions => conditions.first().cloned(),
        };
        words.extend(condition.into_iter().flat_map(|it| option("where", Some(it))));
        Ok(words)
    }

    /// A value as it is from anywhere, and for everybody to read.
    fn value(&self, key: &str, value: &str) -> Result<String, ExitError> {
        let file = Some(value).filter(|_| key == "policy").and_then(schedule::file_of);
        Ok(match file {
            // A password is no word for a command line, which every user of the machine sees.
            _ if store::is_url(value) => store::without_password(value),
            _ if key == "post" => without_login(value),
            _ if key == "exec_on_archive" => self.command(value)?,
            _ if PATHS.contains(&key) => self.absolute(Path::new(value))?,
            Some(file) => value.replace(file, &self.absolute(Path::new(file))?),
            None => value.into(),
        })
    }

    /// Whether the URL of the webhook has a login in it, that was typed or stands in the environment.
    pub fn has_login(&self) -> Result<bool, ExitError> {
        let typed = self.typed.layer.text("post").map(String::from);
        let url = typed.map_or_else(|| self.environment().option("post"), |url| Ok(Some(url)))?;
        Ok(url.is_some_and(|url| without_login(&url) != url))
    }

    /// The variables that a connection to a server depends on, but for the password.
    pub fn connection_variables(&self, queue: &Queue) -> Vec<(String, String)> {
        if queue.db.file().is_some() {
            return Vec::new();
        }
        let variables = self.environment().variables.iter();
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
        let path = self.environment().directory.join(path);
        let path = path.canonicalize().unwrap_or(path);
        path.to_str().map(String::from).ok_or_else(|| usage("a path is not UTF-8"))
    }
}

/// The values of an option, each of which is typed with the option; none for a flag.
fn values<'a>(key: &str, value: &'a Value) -> Vec<Option<&'a str>> {
    let has_lines = ["header", "allow_hosts"].contains(&key);
    match value {
        Value::Array(values) => values.iter().map(Value::as_str).collect(),
        Value::String(lines) if has_lines => lines.lines().map(Some).collect(),
        Value::String(text) if !is_flag(key, text) => vec![Some(text)],
        Value::String(_)
        | Value::Integer(_)
        | Value::Float(_)
        | Value::Boolean(_)
        | Value::Datetime(_)
        | Value::Table(_) => vec![None],
    }
}

/// Whether a flag was turned on by a word.
fn is_flag(key: &str, text: &str) -> bool {
    FLAGS.contains(&key) && (key != "progressive" || truth(text) == Some(true))
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

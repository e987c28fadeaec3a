//! Arguments that make `process` mean the same under cron, from any directory and without the
//! environment of the person who typed it.

use std::path::Path;

use toml::Value;

use crate::exit::{ExitError, usage};
use crate::handlers::without_login;
use crate::options::keys::{FLAGS, PATHS, is_of_the_choice, long};
use crate::options::value::truth;
use crate::options::{DEFAULT_QUEUE, Environment, Origin, Queue, Resolved};
use crate::{schedule, store};

/// The options that were typed, those of the environment, and where the file is, seen from anywhere.
/// `with_schedule` says whether the schedule is among them.
pub fn words(
    resolved: &Resolved<'_>,
    queue: &Queue,
    with_schedule: bool,
) -> Result<Vec<String>, ExitError> {
    let (typed, environment) = (resolved.typed, &resolved.sources.environment);
    let mut words = Vec::new();
    if let Some(file) = &resolved.sources.file {
        words.extend(option("config", Some(absolute(environment, &file.path)?)));
    }
    if queue.name != DEFAULT_QUEUE {
        words.extend(option("queue", Some(queue.name.clone())));
    }
    // A token that stands in the environment is none for a command line, which every user of the
    // machine sees.
    let mut layers = environment.layer(&queue.name)?;
    layers.retain(|key| key != "header");
    let mut layers = typed.layer.clone().over(layers);
    layers.retain(|key| key != "exec");
    // Where cron and systemd start it, no variable may say so.
    if let (None, Some(place)) = (queue.db.file(), &queue.state_dir) {
        let place = Value::String(absolute(environment, place)?);
        layers.insert("state_dir", place, Origin::CommandLine);
    }
    let is_wanted = |key: &str| with_schedule || !is_of_the_choice(key);
    for (key, value, _) in layers.iter().filter(|(key, ..)| is_wanted(key)) {
        for value in values(key, value) {
            let value = value.map(|value| self::value(environment, key, value)).transpose()?;
            words.extend(option(&long(key), value));
        }
    }
    for setting in &typed.set {
        words.extend(option("set", Some(setting.text.clone())));
    }
    match &layers.conditions[..] {
        [] => {}
        [one] => words.extend(option("where", Some(one.clone()))),
        several => words.extend(option("where", Some(format!("({})", several.join(") AND ("))))),
    }
    Ok(words)
}

/// A value as it is from anywhere, and for everybody to read.
fn value(environment: &Environment, key: &str, value: &str) -> Result<String, ExitError> {
    let file = Some(value).filter(|_| key == "policy").and_then(schedule::file_of);
    Ok(match file {
        // A password is no word for a command line, which every user of the machine sees.
        _ if store::is_url(value) => store::without_password(value),
        _ if key == "post" => without_login(value),
        _ if key == "exec_on_archive" => command(environment, value)?,
        _ if PATHS.contains(&key) => absolute(environment, Path::new(value))?,
        Some(file) => value.replace(file, &absolute(environment, Path::new(file))?),
        None => value.into(),
    })
}

/// Whether the URL of the webhook has a login in it, that was typed or stands in the environment.
pub fn has_login(resolved: &Resolved<'_>) -> Result<bool, ExitError> {
    let typed = resolved.typed.layer.text("post");
    let url = resolved.sources.environment.typed_or(typed, "post")?;
    Ok(url.is_some_and(|url| without_login(&url) != url))
}

/// The variables that a connection to a server depends on, but for the password.
pub fn connection_variables(environment: &Environment, queue: &Queue) -> Vec<(String, String)> {
    if queue.db.file().is_some() {
        return Vec::new();
    }
    let variables = environment.variables.iter();
    let text = variables.filter_map(|(name, it)| Some((name.to_str()?, it.to_str()?)));
    let mut of_libpq: Vec<_> = text
        .filter(|(name, _)| name.starts_with("PG") && *name != "PGPASSWORD")
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect();
    of_libpq.sort();
    of_libpq
}

/// A handler that can be started from anywhere.
pub fn program(environment: &Environment, program: &str) -> Result<String, ExitError> {
    if program.contains('/') {
        absolute(environment, Path::new(program))
    } else {
        Ok(program.into())
    }
}

/// The same of a command with its arguments in one text.
fn command(environment: &Environment, text: &str) -> Result<String, ExitError> {
    let mut words = shlex::split(text).unwrap_or_default();
    if let Some(name) = words.first_mut() {
        *name = program(environment, name)?;
    }
    shlex::try_join(words.iter().map(String::as_str))
        .map_err(|error| usage(format!("{text:?} is no command: {error}")))
}

/// A path from the root on.
fn absolute(environment: &Environment, path: &Path) -> Result<String, ExitError> {
    let path = environment.directory.join(path);
    let path = path.canonicalize().unwrap_or(path);
    path.to_str().map(String::from).ok_or_else(|| usage("a path is not UTF-8"))
}

/// The values of an option, each of which is typed with the option; none for a flag.
fn values<'a>(key: &str, value: &'a Value) -> Vec<Option<&'a str>> {
    let has_lines = ["header", "allow_hosts"].contains(&key);
    // A flag may be turned on by a word.
    let is_flag =
        |text| FLAGS.contains(&key) && (key != "progressive" || truth(text) == Some(true));
    if let Value::Array(values) = value {
        return values.iter().map(Value::as_str).collect();
    }
    match value.as_str() {
        Some(lines) if has_lines => lines.lines().map(Some).collect(),
        Some(text) if !is_flag(text) => vec![Some(text)],
        Some(_) | None => vec![None],
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

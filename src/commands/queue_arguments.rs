//! The options of a queue as arguments that mean the same in any directory and environment.

use std::ffi::OsString;
use std::path::Path;

use anyhow::Result;
use backlog_schedule::{Id, policy_file};
use backlog_store::ownership::OwnerRule;

use crate::exit::{ExitError, usage};
use crate::handlers::without_login;
use crate::options::key::{EXEC, Key, KeyKind};
use crate::options::raw::Raw;
use crate::options::{Environment, Origin, Resolved};

/// The typed options, those in the environment, and the file, as far as the keys are wanted.
pub fn queue_arguments(
    resolved: &Resolved<'_>,
    wants: impl Fn(&Key) -> bool,
) -> Result<Vec<String>, ExitError> {
    let (typed, environment) = (resolved.typed, &resolved.sources.environment);
    let queue = resolved.queue()?;
    let mut arguments = Vec::new();
    if environment.rule == OwnerRule::Waived {
        arguments.extend(option("trust-owner", None));
    }
    if let Some(file) = &resolved.sources.file {
        arguments.extend(option("config", Some(absolute(environment, &file.path)?)));
    }
    if let Some(name) = resolved.named() {
        arguments.extend(option("queue", Some(name.into())));
    }
    // Every user of the machine sees a command line, so secrets stay in the environment.
    let mut layers = environment.layer(&queue.name)?;
    layers.retain(|key| !["header", "ping"].contains(&key.name));
    layers = typed.layer.clone().over(layers);
    layers.retain(|key| key.name != EXEC && wants(key));
    // Under cron and systemd, the variable that names it may be missing.
    if let (None, Some(path)) = (queue.db.file(), &queue.state_dir)
        && let Some(key) = Key::named("state_dir")
    {
        layers.insert(key, Raw::from(&*absolute(environment, path)?), Origin::CommandLine);
    }
    for (key, raw, _) in layers.iter() {
        if key.kind == KeyKind::Flag || key.kind == KeyKind::Optional && raw.as_bool() == Some(true)
        {
            arguments.extend(option(key.long, None));
            continue;
        }
        for value in raw.clone().into_texts().map_err(usage)? {
            arguments.extend(option(key.long, Some(portable(environment, key, &value)?)));
        }
    }
    let is_wanted = |name: &str| name != "ping" && Key::named(name).is_some_and(&wants);
    for setting in typed.set.iter().filter(|setting| is_wanted(&setting.key)) {
        arguments.extend(option("set", Some(setting.text.clone())));
    }
    let wants_condition = Key::named("where").is_some_and(&wants);
    let condition = match &layers.conditions[..] {
        [] => return Ok(arguments),
        _ if !wants_condition => return Ok(arguments),
        [one] => one.clone(),
        several => format!("({})", several.join(") AND (")),
    };
    arguments.extend(option("where", Some(condition)));
    Ok(arguments)
}

/// A command about the table of a queue, with or without the conditions of the options.
pub fn table_command(
    resolved: &Resolved<'_>,
    command: &str,
    more: &[&str],
    with_condition: bool,
) -> Result<String, ExitError> {
    let is_of_table = |key: &Key| !key.is_option || key.group() == "Table";
    let wants = |key: &Key| is_of_table(key) && (with_condition || key.name != "where");
    let arguments = queue_arguments(resolved, wants)?;
    let words = ["backlog", command].into_iter().chain(arguments.iter().map(String::as_str));
    let joined = shlex::try_join(words.chain(more.iter().copied()));
    joined.map_err(|error| usage(format!("could not write `backlog {command}`: {error}")))
}

/// An id behind a suggested command, quoted for a shell: rows of others may contain any text.
pub fn id_argument(id: &Id) -> String {
    let text = id.full();
    let end_of_options = if text.starts_with('-') { "-- " } else { "" };
    let quoted = shlex::try_quote(&text).unwrap_or_default();
    format!("{end_of_options}{quoted}")
}

fn portable(environment: &Environment, key: &Key, value: &str) -> Result<String, ExitError> {
    let file = policy_file(value).filter(|_| key.name == "policy");
    Ok(match key.name {
        _ if backlog_store::is_url(value) => backlog_store::without_password(value),
        "post" => without_login(value),
        "exec_on_archive" => {
            let mut words = shlex::split(value).unwrap_or_default();
            make_absolute(environment, &mut words)?;
            let joined = shlex::try_join(words.iter().map(String::as_str));
            joined.map_err(|error| usage(format!("{value:?} is not a command: {error}")))?
        }
        _ if key.kind == KeyKind::Path => absolute(environment, Path::new(value))?,
        _ => match file {
            Some(file) => value.replace(file, &absolute(environment, Path::new(file))?),
            None => value.into(),
        },
    })
}

pub fn make_absolute(environment: &Environment, words: &mut [String]) -> Result<(), ExitError> {
    if let Some(program) = words.first_mut().filter(|program| program.contains('/')) {
        *program = absolute(environment, Path::new(program))?;
    }
    Ok(())
}

/// Links stay, because they may change, and a program may depend on the name by which it is called.
fn absolute(environment: &Environment, path: &Path) -> Result<String, ExitError> {
    let path = environment.directory.join(path);
    let path = std::path::absolute(&path).unwrap_or(path);
    path.to_str().map(String::from).ok_or_else(|| usage("a path is not UTF-8"))
}

fn option(long: &str, value: Option<String>) -> Vec<String> {
    match value {
        None => vec![format!("--{long}")],
        // It would look like an option.
        Some(value) if value.starts_with('-') => vec![format!("--{long}={value}")],
        Some(value) => vec![format!("--{long}"), value],
    }
}

pub fn utf8(word: OsString) -> Result<String> {
    word.into_string().map_err(|word| usage(format!("{} is not UTF-8", word.display())).into())
}

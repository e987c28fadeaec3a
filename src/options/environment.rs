//! The environment of a command line: the variables, and the directory.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use backlog_schedule::listed;
use backlog_store::TOKEN;
use backlog_store::ownership::{self, OwnerRule};

use super::key::{Key, KeyKind, variable};
use super::layers::{Layers, Origin};
use super::raw::Raw;
use super::value::at_least_one;
use crate::exit::{ExitError, usage};

/// Variables that handlers get for their record: a `backlog` in a handler may be about another table.
const OF_HANDLERS: [&str; 3] = ["queue", "table", "max-attempts"];

#[derive(Clone)]
pub struct Environment {
    pub variables: HashMap<OsString, OsString>,
    pub directory: PathBuf,
    /// How root's rule applies to the files that are named here.
    pub rule: OwnerRule,
}

impl Environment {
    pub fn own() -> Self {
        Self {
            variables: std::env::vars_os().collect(),
            directory: std::env::current_dir().unwrap_or_else(|_| PathBuf::from(".")),
            rule: OwnerRule::Enforced,
        }
    }

    /// Fails if root would work on a file that others can change.
    pub fn require_trusted(&self, path: &Path, kind: ownership::PathKind) -> Result<(), ExitError> {
        match self.complaint(path, kind) {
            Some(complaint) if self.rule == OwnerRule::Enforced => Err(usage(complaint)),
            _ => Ok(()),
        }
    }

    /// Who else can change a file that root works on, unless that is allowed.
    pub fn complaint(&self, path: &Path, kind: ownership::PathKind) -> Option<String> {
        let is_waived = self.rule == OwnerRule::Waived;
        if is_waived { None } else { ownership::complaint(&self.directory.join(path), kind) }
    }

    /// A variable that is set, even if it is empty.
    pub fn raw(&self, name: &str) -> Option<&OsString> {
        self.variables.get(OsStr::new(name))
    }

    /// A variable that is set and not empty.
    pub fn get(&self, name: &str) -> Option<&OsString> {
        self.raw(name).filter(|value| !value.is_empty())
    }

    pub fn text(&self, name: &str) -> Option<String> {
        self.get(name)?.to_str().map(String::from)
    }

    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(|path| self.directory.join(path))
    }

    /// The value from the command line, or else that of the option's variable.
    pub fn typed_or(&self, typed: Option<&str>, long: &str) -> Result<Option<String>, ExitError> {
        typed.map_or_else(|| self.option(long), |typed| Ok(Some(typed.into())))
    }

    pub fn option(&self, long: &str) -> Result<Option<String>, ExitError> {
        let value = self.variable_of(long);
        value.map(|value| utf8(&variable(long), value)).transpose()
    }

    fn variable_of(&self, long: &str) -> Option<&OsString> {
        let is_of_handler = self.raw(TOKEN).is_some() && OF_HANDLERS.contains(&long);
        self.get(&variable(long)).filter(|_| !is_of_handler)
    }

    pub fn layer(&self, queue: &str) -> Result<Layers, ExitError> {
        let mut layer = Layers::default();
        // Few variables are of this program, and there are many keys.
        for name in self.variables.keys().filter_map(|name| name.to_str()) {
            let Some(name) = name.strip_prefix("BACKLOG_") else { continue };
            let long = name.to_ascii_lowercase().replace('_', "-");
            if let (Some(key), Some(value)) = (Key::by_long_name(&long), self.variable_of(&long)) {
                layer.insert(key, words(key, value), Origin::Environment);
            }
        }
        layer.conditions.extend(self.option("where")?);
        let variable = attempts_variable(queue);
        if let (Some(value), Some(key)) = (self.raw(&variable), Key::named("max_attempts")) {
            let value = value.to_string_lossy();
            let count = value.trim();
            let wrong = |why| usage(format!("{variable} is {value:?}: {why}"));
            at_least_one::<u32>(count).map_err(wrong)?;
            layer.insert(key, Raw::from(count), Origin::Environment);
        }
        Ok(layer)
    }

    /// The variables that limit the attempts of another queue than these, each in a sentence.
    pub fn unknown_limits(&self, queues: &[String]) -> Vec<String> {
        let known: Vec<_> = queues.iter().map(|queue| attempts_variable(queue)).collect();
        let names = self.variables.keys().filter_map(|name| name.to_str());
        let limits = names.filter(|it| it.starts_with("MAX_") && it.ends_with("_RETRY_ATTEMPTS"));
        let mut strange: Vec<_> =
            limits.filter(|name| !known.iter().any(|it| it == name)).collect();
        strange.sort_unstable();
        let legal = listed(known.iter().map(String::as_str));
        let sentence = |name| format!("{name} is the limit of no queue here; legal are {legal}");
        strange.into_iter().map(sentence).collect()
    }

    pub fn state_dir(&self) -> Option<PathBuf> {
        Some(self.of_user("XDG_STATE_HOME", ".local/state")?.join("backlog"))
    }

    fn of_user(&self, variable: &str, in_home: &str) -> Option<PathBuf> {
        self.path(variable).or_else(|| Some(self.path("HOME")?.join(in_home)))
    }

    /// The default files, in the order in which they are looked for.
    pub fn default_files(&self) -> Vec<PathBuf> {
        let user = self.of_user("XDG_CONFIG_HOME", ".config");
        let user = user.map(|directory| directory.join("backlog/config.toml"));
        let files = [Some(self.directory.join("backlog.toml")), user];
        files.into_iter().flatten().chain(["/etc/backlog.toml".into()]).collect()
    }
}

/// A list has a line for each value.
fn words(key: &Key, value: &OsString) -> Raw {
    match value.to_str().filter(|_| key.kind == KeyKind::List) {
        Some(lines) => Raw::Words(lines.lines().map(OsString::from).collect()),
        None => Raw::Words(vec![value.clone()]),
    }
}

/// `MAX_EMAILS_RETRY_ATTEMPTS` for the queue `emails`.
pub fn attempts_variable(queue: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("MAX_{}_RETRY_ATTEMPTS", queue.chars().map(letter).collect::<String>())
}

pub fn utf8(name: &str, value: &OsStr) -> Result<String, ExitError> {
    let text = value.to_str().map(String::from);
    text.ok_or_else(|| usage(format!("the variable {name} is not UTF-8")))
}

//! The environment of the program: variables and current directory.

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

/// Options whose variables describe a record to its handler. A `backlog` that a handler runs ignores them.
const SET_FOR_HANDLERS: [&str; 3] = ["queue", "table", "max-attempts"];

#[derive(Clone)]
pub struct Environment {
    pub variables: HashMap<OsString, OsString>,
    pub directory: PathBuf,
    /// Treatment of files that other users than root can change.
    pub rule: OwnerRule,
}

impl Environment {
    pub fn current() -> Self {
        Self {
            variables: std::env::vars_os().collect(),
            directory: std::env::current_dir().unwrap_or_else(|_| PathBuf::from(".")),
            rule: OwnerRule::Enforced,
        }
    }

    /// Fails if root would use a file that other users can change.
    pub fn require_trusted(&self, path: &Path, kind: ownership::PathKind) -> Result<(), ExitError> {
        let complaint = self.complaint(path, kind).filter(|_| self.rule == OwnerRule::Enforced);
        complaint.map_or(Ok(()), |complaint| Err(usage(complaint)))
    }

    /// For root: other users who can change a file, unless that is allowed.
    pub fn complaint(&self, path: &Path, kind: ownership::PathKind) -> Option<String> {
        let is_checked = self.rule != OwnerRule::Waived;
        is_checked.then(|| ownership::complaint(&self.directory.join(path), kind))?
    }

    /// A variable, which may be empty.
    pub fn raw(&self, name: &str) -> Option<&OsString> {
        self.variables.get(OsStr::new(name))
    }

    pub fn get(&self, name: &str) -> Option<&OsString> {
        self.raw(name).filter(|value| !value.is_empty())
    }

    pub fn text(&self, name: &str) -> Option<String> {
        self.get(name)?.to_str().map(String::from)
    }

    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(|path| self.directory.join(path))
    }

    pub fn typed_or(&self, typed: Option<&str>, long: &str) -> Result<Option<String>, ExitError> {
        typed.map_or_else(|| self.option(long), |typed| Ok(Some(typed.into())))
    }

    pub fn option(&self, long: &str) -> Result<Option<String>, ExitError> {
        let value = self.raw_option(long);
        value.map(|value| utf8(&variable(long), value)).transpose()
    }

    fn raw_option(&self, long: &str) -> Option<&OsString> {
        let is_for_handler = self.raw(TOKEN).is_some() && SET_FOR_HANDLERS.contains(&long);
        self.get(&variable(long)).filter(|_| !is_for_handler)
    }

    pub fn layer(&self, queue: &str) -> Result<Layers, ExitError> {
        let mut layer = Layers::default();
        for name in self.variables.keys().filter_map(|name| name.to_str()) {
            let Some(name) = name.strip_prefix("BACKLOG_") else { continue };
            let long = name.to_ascii_lowercase().replace('_', "-");
            if let (Some(key), Some(value)) = (Key::by_long_name(&long), self.raw_option(&long)) {
                layer.insert(key, split_list(key, value), Origin::Environment);
            }
        }
        layer.conditions.extend(self.option("where")?);
        let variable = attempts_variable(queue);
        if let (Some(value), Some(key)) = (self.raw(&variable), Key::named("max_attempts")) {
            let value = value.to_string_lossy();
            let count = value.trim();
            let with_name = |why| usage(format!("{variable} is {value:?}: {why}"));
            at_least_one::<u32>(count).map_err(with_name)?;
            layer.insert(key, Raw::from(count), Origin::Environment);
        }
        Ok(layer)
    }

    /// A message for each variable that matches none of these queues.
    pub fn unknown_limits(&self, queues: &[String]) -> Vec<String> {
        let known: Vec<_> = queues.iter().map(|queue| attempts_variable(queue)).collect();
        let is_limit = |name: &&str| name.starts_with("MAX_") && name.ends_with("_RETRY_ATTEMPTS");
        let limits = self.variables.keys().filter_map(|name| name.to_str()).filter(is_limit);
        let mut unknown: Vec<_> =
            limits.filter(|name| !known.iter().any(|known| known == name)).collect();
        unknown.sort_unstable();
        let legal = listed(known.iter().map(String::as_str));
        let message = |name| format!("{name} matches no queue; use one of {legal}");
        unknown.into_iter().map(message).collect()
    }

    pub fn state_dir(&self) -> Option<PathBuf> {
        Some(self.user_path("XDG_STATE_HOME", ".local/state")?.join("backlog"))
    }

    fn user_path(&self, variable: &str, in_home: &str) -> Option<PathBuf> {
        self.path(variable).or_else(|| Some(self.path("HOME")?.join(in_home)))
    }

    /// The paths of the default files. The first one that exists is read.
    pub fn default_files(&self) -> Vec<PathBuf> {
        let user = self.user_path("XDG_CONFIG_HOME", ".config");
        let user = user.map(|directory| directory.join("backlog/config.toml"));
        let files = [Some(self.directory.join("backlog.toml")), user];
        files.into_iter().flatten().chain(["/etc/backlog.toml".into()]).collect()
    }
}

/// A variable of a list has one value on each line.
fn split_list(key: &Key, value: &OsString) -> Raw {
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

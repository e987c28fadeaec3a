//! The environment that a command line is read in.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use toml::Value;

use super::keys::{key_of, long_of, successor, variable};
use super::sources::{Layers, Origin};
use crate::exit::{ExitError, usage};
use crate::store::TOKEN;

/// What a handler is told of its record under the names of options. A `backlog` that the handler
/// runs may be about another table.
const TOLD_TO_HANDLERS: [&str; 3] = ["queue", "table", "max-attempts"];

/// The variable that limits the attempts of one queue.
fn attempts_variable(queue: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("MAX_{}_RETRY_ATTEMPTS", queue.chars().map(letter).collect::<String>())
}

#[derive(Clone)]
pub struct Environment {
    pub variables: HashMap<OsString, OsString>,
    pub directory: PathBuf,
}

impl Environment {
    /// This process's own.
    pub fn own() -> Self {
        Self {
            variables: std::env::vars_os().collect(),
            directory: std::env::current_dir().unwrap_or_else(|_| PathBuf::from(".")),
        }
    }

    /// A variable that is set and not empty.
    pub fn get(&self, name: &str) -> Option<&OsString> {
        self.variables.get(&OsString::from(name)).filter(|value| !value.is_empty())
    }

    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(|path| self.directory.join(path))
    }

    /// What was typed for an option, or else its variable says.
    pub fn typed_or(&self, typed: Option<&str>, long: &str) -> Result<Option<String>, ExitError> {
        typed.map_or_else(|| self.option(long), |typed| Ok(Some(typed.into())))
    }

    /// The value of an option, which must be text.
    pub fn option(&self, long: &str) -> Result<Option<String>, ExitError> {
        if self.variables.contains_key(&OsString::from(TOKEN)) && TOLD_TO_HANDLERS.contains(&long) {
            return Ok(None);
        }
        let name = variable(long);
        let not_text = || usage(format!("the variable {name} is not UTF-8"));
        let value = self.get(&name);
        value.map(|value| value.to_str().map(String::from).ok_or_else(not_text)).transpose()
    }

    /// All options that stand in the environment for a queue.
    pub fn layer(&self, queue: &str) -> Result<Layers, ExitError> {
        let mut layer = Layers::default();
        // Few variables are about this program, and there are many options.
        for name in self.variables.keys() {
            let Some(long) = name.to_str().and_then(long_of) else { continue };
            let Some(value) = self.option(&long)? else { continue };
            if let Some(key) = key_of(&long) {
                layer.insert(key, Value::String(value), Origin::Environment);
            } else if let Some(now) = successor(&long) {
                return Err(usage(format!(
                    "the variable {} is retired; use {now}",
                    variable(&long)
                )));
            }
        }
        layer.conditions.extend(self.option("where")?);
        let variable = attempts_variable(queue);
        if let Some(value) = self.variables.get(&OsString::from(&variable)) {
            let value = value.to_string_lossy();
            let is_count = value.trim().parse::<u32>().is_ok_and(|count| count > 0);
            if !is_count {
                return Err(usage(format!(
                    "{variable} is {value:?}; it must be a whole number, at least 1"
                )));
            }
            layer.insert("max_attempts", Value::String(value.trim().into()), Origin::Environment);
        }
        Ok(layer)
    }

    pub fn knows(&self, queue: &str) -> bool {
        self.variables.contains_key(&OsString::from(attempts_variable(queue)))
    }

    /// Where a user's programs keep what they remember.
    pub fn state_dir(&self) -> Option<PathBuf> {
        Some(self.of_user("XDG_STATE_HOME", ".local/state")?.join("backlog"))
    }

    /// A directory of the user's, which stands in a variable or is in his home.
    fn of_user(&self, variable: &str, in_home: &str) -> Option<PathBuf> {
        self.path(variable).or_else(|| Some(self.path("HOME")?.join(in_home)))
    }

    /// Where backlog.toml is looked for, in this order.
    pub fn places(&self) -> Vec<PathBuf> {
        let user = self.of_user("XDG_CONFIG_HOME", ".config");
        let user = user.map(|directory| directory.join("backlog/config.toml"));
        let here = self.directory.join("backlog.toml");
        std::iter::once(here).chain(user).chain([Path::new("/etc/backlog.toml").into()]).collect()
    }
}

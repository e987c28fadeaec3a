//! The description of a setting, for all sources of options, the help, the manual and completion.

use super::raw::Raw;
use super::settings::Settings;

/// A setting of a queue: `max_runtime` in TOML, `--max-runtime`, `BACKLOG_MAX_RUNTIME`.
#[derive(Debug)]
pub struct Key {
    pub name: &'static str,
    /// Name of the option, without the leading hyphens.
    pub long: &'static str,
    pub short: Option<char>,
    pub kind: KeyKind,
    pub parse: Parse,
    /// Name of the value in the help; empty for flags, and for keys that are no options.
    pub placeholder: &'static str,
    /// The legal values.
    #[cfg_attr(not(test), expect(dead_code, reason = "a test writes docs/reference.md with it"))]
    pub takes: &'static str,
    pub default: KeyDefault,
    /// A legal value in TOML.
    pub example: &'static str,
    /// A phrase for `-h`, and sentences for `--help`. Keys that are no options have only sentences.
    pub help: [&'static str; 2],
    pub role: KeyRole,
    pub is_option: bool,
    pub is_in_short_help: bool,
    /// The value may contain a password, so no message repeats it.
    pub is_secret: bool,
}

type Parse = fn(&mut Settings, Raw) -> Result<(), String>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    Flag,
    Value,
    /// An option with an optional value.
    Optional,
    List,
    /// A file or directory. In backlog.toml it is relative to the directory of that file.
    Path,
    Command,
    /// A column, or a table with these parts.
    Column(&'static [&'static str]),
    Assignments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyDefault {
    None,
    Value(&'static str),
    /// Only displayed: other code supplies the value, which may depend on other options.
    Text(&'static str),
}

/// Of lower layers, a schedule replaces the schedule and a command the handler; a webhook keeps the webhook keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyRole {
    Independent,
    Schedule,
    ScheduleDetail,
    /// The command, or how it is run.
    Command,
    /// The webhook, or how it is called.
    Webhook,
    /// The exit codes or statuses for which records are given up.
    GiveUpOn,
}

pub const DB: &str = "db";
pub const EXEC: &str = "exec";
pub const POST: &str = "post";

impl Key {
    const fn new(name: &'static str, kind: KeyKind, parse: Parse) -> Self {
        Self {
            name,
            long: name,
            short: None,
            kind,
            parse,
            placeholder: "",
            takes: "",
            default: KeyDefault::None,
            example: "",
            help: ["", ""],
            role: KeyRole::Independent,
            is_option: false,
            is_in_short_help: false,
            is_secret: false,
        }
    }

    pub const fn flag(name: &'static str, parse: Parse, help: [&'static str; 2]) -> Self {
        let flag = Self::option(name, KeyKind::Flag, "", parse, help);
        Self { default: KeyDefault::Text("false"), ..flag.takes("true or false", "true") }
    }

    pub const fn option(
        name: &'static str,
        kind: KeyKind,
        placeholder: &'static str,
        parse: Parse,
        help: [&'static str; 2],
    ) -> Self {
        Self { placeholder, help, is_option: true, ..Self::new(name, kind, parse) }
    }

    /// A key that is no option: part of the mapping, or the handler, which follows `--`.
    pub const fn file_only(
        name: &'static str,
        kind: KeyKind,
        parse: Parse,
        help: &'static str,
    ) -> Self {
        Self { help: ["", help], ..Self::new(name, kind, parse) }
    }

    pub const fn takes(self, takes: &'static str, example: &'static str) -> Self {
        Self { takes, example, ..self }
    }

    pub const fn default(self, value: &'static str) -> Self {
        Self { default: KeyDefault::Value(value), ..self }
    }

    pub const fn default_text(self, text: &'static str) -> Self {
        Self { default: KeyDefault::Text(text), ..self }
    }

    pub const fn role(self, role: KeyRole) -> Self {
        Self { role, ..self }
    }

    pub const fn long_name(self, long: &'static str) -> Self {
        Self { long, ..self }
    }

    pub const fn short_name(self, short: char) -> Self {
        Self { short: Some(short), ..self }
    }

    pub const fn in_short_help(self) -> Self {
        Self { is_in_short_help: true, ..self }
    }

    pub const fn secret(self) -> Self {
        Self { is_secret: true, ..self }
    }

    pub const fn displayed_default(&self) -> Option<&'static str> {
        match self.default {
            KeyDefault::None => None,
            KeyDefault::Value(text) | KeyDefault::Text(text) => Some(text),
        }
    }
}

pub fn variable(long: &str) -> String {
    format!("BACKLOG_{}", long.to_ascii_uppercase().replace('-', "_"))
}

//! The help of the options and subcommands: to what stands beside each option comes what the reference
//! of the keys says, and to each subcommand its examples and exit codes. clap lays it out.

use std::fmt::Write as _;

use clap::{Arg, ArgAction, Command};
use toml::{Table, Value};

use super::examples::{examples, exits};
use super::typed::key_of_option;
use crate::options::keys::variable;
use crate::options::{DEFAULT_QUEUE, Key};

/// Columns of the help, at most: also in a pipe, and in a window as wide as the screen.
pub const WIDTH: usize = 80;
/// A default that has more letters stands in the long help only.
const SHORT: usize = 7;

/// Options of every subcommand that are no keys of a queue, and stand in the environment as well.
const ELSEWHERE: [&str; 3] = ["config", "queue", "where"];

/// The command with all that its help is to say.
pub fn with_help(command: Command) -> Command {
    let command = command.mut_args(described);
    match after(command.get_name()) {
        Some(text) => command.after_long_help(text),
        None => command,
    }
}

/// The option with its default, its variable, and an example.
fn described(arg: Arg) -> Arg {
    let (Some(long), Some(help)) = (arg.get_long().map(String::from), arg.get_help()) else {
        return arg;
    };
    let help = help.to_string();
    // Other options are called like keys that only backlog.toml has: --status filters.
    let key = key_of_option(&arg).or_else(|| ELSEWHERE.into_iter().find(|it| *it == long));
    let key = key.and_then(Key::named);
    let default = default(&long, key);
    let short = default.filter(|it| it.len() <= SHORT).map(|it| format!("{help} [default: {it}]"));
    let mut text = arg.get_long_help().map_or_else(|| help.clone(), ToString::to_string);
    let mut notes = Vec::new();
    notes.extend(default.map(|default| format!("[default: {default}]")));
    if key.is_some() || ELSEWHERE.contains(&&*long) {
        notes.push(format!("[env: {}]", variable(&long)));
    }
    notes.extend(key.map(|key| format!("[example: {}]", example(&arg, &long, key.example))));
    if !notes.is_empty() {
        // Writing to a text does not fail.
        let _ = write!(text, "\n\n{}", notes.join(" "));
    }
    arg.help(short.unwrap_or(help)).long_help(text)
}

fn default(long: &str, key: Option<&'static Key>) -> Option<&'static str> {
    let default = match long {
        "queue" => DEFAULT_QUEUE,
        "config" => "./backlog.toml, ~/.config/backlog/config.toml or /etc/backlog.toml",
        _ => key.map_or("", |key| key.default),
    };
    Some(default).filter(|default| !["", "false"].contains(default))
}

/// The example of a key as it is typed: `--jobs 4`, `--header 'X-Source: shop'`.
pub fn example(arg: &Arg, long: &str, value: &str) -> String {
    if matches!(arg.get_action(), ArgAction::SetTrue) {
        return format!("--{long}");
    }
    let parsed = format!("value = {value}").parse::<Table>();
    let value = match parsed.as_ref().ok().and_then(|table| table.get("value")) {
        Some(Value::Array(words)) => {
            // A command is one text, and else the entries of a list have commas between them.
            let is_command = arg.get_value_names().is_some_and(|names| names == ["COMMAND"]);
            let words: Vec<_> = words.iter().map(word).collect();
            words.join(if is_command { " " } else { "," })
        }
        Some(one) => word(one),
        None => value.into(),
    };
    format!("--{long} {}", quoted(&value))
}

fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), String::from)
}

/// A word as a shell has to have it. shlex would quote what no shell takes for special.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/.:,=%+-_".contains(c);
    match word.contains('\'') {
        _ if word.chars().all(is_plain) => word.into(),
        true => format!("\"{word}\""),
        false => format!("'{word}'"),
    }
}

/// The text after the options.
fn after(command: &str) -> Option<String> {
    let mut text = String::from("Examples:");
    for line in examples(command)? {
        let _ = write!(text, "\n  {line}");
    }
    text += "\n\nExit codes:";
    for (exit, says) in exits(command) {
        let _ = write!(text, "\n  {:<4}{says}", exit.code());
    }
    Some(text)
}

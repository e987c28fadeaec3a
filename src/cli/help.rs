//! Defaults, environment variables, examples and exit codes in `--help`. A test runs each example.

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::{Arg, ArgAction, Command};
use toml::{Table, Value};

use crate::options::key::variable;
use crate::options::{DEFAULT_QUEUE, Key};

pub const WIDTH: usize = 80;
const PROGRAM: &str = "backlog";
const MAX_SHORT_DEFAULT: usize = 7;

/// Options with an environment variable that are not generated from a key.
const WITH_VARIABLE: [&str; 4] = ["config", "queue", "trust-owner", "where"];

pub fn with_help(command: Command) -> Command {
    let command = command.mut_args(describe);
    match epilog(command.get_name()) {
        Some(text) => command.after_long_help(text),
        None => command,
    }
}

fn describe(arg: Arg) -> Arg {
    let (Some(long), Some(help)) = (arg.get_long().map(String::from), arg.get_help()) else {
        return arg;
    };
    let help = help.to_string();
    // The id of a key's option is the name of the key.
    let key = Key::named(arg.get_id().as_str()).filter(|key| key.is_option);
    let text = match (key, arg.get_long_help()) {
        (Some(Key { help: [phrase, sentences], .. }), _) if !sentences.is_empty() => {
            format!("{phrase}\n\n{sentences}")
        }
        (_, long) => long.map_or_else(|| help.clone(), ToString::to_string),
    };
    let default = match long.as_str() {
        "queue" => Some(DEFAULT_QUEUE),
        "config" => Some("./backlog.toml, ~/.config/backlog/config.toml or /etc/backlog.toml"),
        _ => key.and_then(Key::displayed_default).filter(|default| *default != "false"),
    };
    let mut notes = Vec::new();
    notes.extend(default.map(|default| format!("[default: {default}]")));
    if key.is_some() || WITH_VARIABLE.contains(&&*long) {
        notes.push(format!("[env: {}]", variable(&long)));
    }
    let example_of = key.or_else(|| Key::named(&long).filter(|_| long == "where"));
    notes.extend(example_of.map(|key| format!("[example: {}]", example(&arg, &long, key.example))));
    let short_default = default.filter(|default| default.len() <= MAX_SHORT_DEFAULT);
    let short = short_default.map(|default| format!("{help} [default: {default}]"));
    let text = if notes.is_empty() { text } else { format!("{text}\n\n{}", notes.join(" ")) };
    arg.help(short.unwrap_or(help)).long_help(text)
}

/// An option with the example value of its key: `--jobs 4`, `--header 'X-Source: shop'`.
pub fn example(arg: &Arg, long: &str, value: &str) -> String {
    if matches!(arg.get_action(), ArgAction::SetTrue) {
        return format!("--{long}");
    }
    let parsed = format!("value = {value}").parse::<Table>();
    let value = match parsed.as_ref().ok().and_then(|table| table.get("value")) {
        Some(Value::Array(words)) => {
            let is_command = arg.get_value_names().is_some_and(|names| names == ["COMMAND"]);
            let words: Vec<_> = words.iter().map(plain).collect();
            words.join(if is_command { " " } else { "," })
        }
        Some(value) => plain(value),
        None => value.into(),
    };
    format!("--{long} {}", quoted(&value))
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), String::from)
}

/// Quotes a word for a shell. shlex would also quote characters that no shell treats specially.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/.:,=%+-_".contains(c);
    match word.contains('\'') {
        _ if word.chars().all(is_plain) => word.into(),
        true => format!("\"{word}\""),
        false => format!("'{word}'"),
    }
}

fn epilog(command: &str) -> Option<String> {
    let mut text = String::from("Examples:");
    for line in examples(command)? {
        let _ = write!(text, "\n  {line}");
    }
    if command == PROGRAM {
        text += "\n\nDocuments:";
        for (name, about, _) in TOPICS {
            let _ = write!(text, "\n  backlog help {name:<14}{about}");
        }
    }
    text += "\n\nExit codes:";
    for (exit, meaning) in exits(command) {
        let _ = write!(text, "\n  {exit:<4}{meaning}");
    }
    Some(text)
}

/// The documents of `backlog help NAME`: name, summary, text.
const TOPICS: [(&str, &str, &str); 3] = [
    ("handlers", "what handlers get, and how they reply", include_str!("../../docs/handlers.md")),
    ("schedules", "when a record is tried again", include_str!("../../docs/schedules.md")),
    ("backlog.toml", "the file, and all its keys", include_str!("../../docs/reference.md")),
];

/// The document of `backlog help NAME`. It begins at the heading NAME, if there is one.
pub fn help_document(argv: &[OsString]) -> Option<&'static str> {
    let [_, help, name] = argv else { return None };
    let (name, _, text) = TOPICS.into_iter().find(|(topic, ..)| help == "help" && topic == name)?;
    text.get(text.find(&format!("## {name}\n")).unwrap_or(0)..)
}

/// A section for each subcommand: command lines below comments.
const EXAMPLES: &str = include_str!("examples.txt");
/// Sections for subcommands with the same exit codes. The last section is for all other subcommands.
const EXITS: &str = include_str!("exits.txt");

pub fn examples(command: &str) -> Option<impl Iterator<Item = &'static str>> {
    let mut sections = EXAMPLES.split("\n\n");
    let lines = sections.find_map(|section| section.strip_prefix(command)?.strip_prefix(":\n"))?;
    Some(lines.lines())
}

pub fn exits(command: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let mut sections = EXITS.split("\n\n").filter_map(|section| section.split_once(":\n"));
    let is_listed = |names: &str| names == "others" || names.split(' ').any(|name| name == command);
    let section = sections.find(|(names, _)| is_listed(names));
    let lines = section.into_iter().flat_map(|(_, lines)| lines.lines());
    lines.filter_map(|line| line.split_once(' '))
}

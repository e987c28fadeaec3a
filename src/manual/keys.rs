//! The keys in docs/reference.md, each with its text, its values, its default, its option and its variable.

use std::fmt::Write as _;

use clap::{Arg, Command};

use crate::cli::example;
use crate::options::keys::{long, variable};
use crate::options::{Key, SECTIONS};

/// The heading of the first section of keys.
pub const BEGIN: &str = "\n## Database and table\n";

/// As Markdown. The command must be whole, because the texts are those of its options.
pub fn markdown(command: &Command) -> String {
    let mut text = String::new();
    for (section, keys) in &SECTIONS {
        // Writing to a text does not fail.
        let _ = write!(text, "\n## {section}\n");
        for key in *keys {
            text += &entry(key, option(command, key));
        }
    }
    text
}

/// The option of a key, if it has one, which subcommand may take it.
fn option<'a>(command: &'a Command, key: &Key) -> Option<&'a Arg> {
    // An option may be called like a key that it is not: --on-archive is exec_on_archive.
    let is_option = !key.is_of_the_file || key.name == "where";
    let long = is_option.then(|| long(key.name))?;
    let has = |arg: &&Arg| arg.get_long() == Some(&long);
    let of_process = command.find_subcommand("process")?;
    of_process.get_arguments().find(has)
}

fn entry(key: &Key, option: Option<&Arg>) -> String {
    let Key { name, takes, default, example: value, text, .. } = key;
    let says = text.map_or_else(|| option.map_or_else(String::new, says), String::from);
    let mut entry = format!("\n### `{name}`\n\n{says}\n\n- Takes: {takes}.\n");
    if !default.is_empty() {
        let _ = writeln!(entry, "- Default: {default}.");
    }
    let _ = writeln!(entry, "- Example: `{name} = {value}`");
    let typed = option.and_then(|arg| Some((arg.get_long()?, arg)));
    if let Some((long, arg)) = typed {
        let _ = writeln!(entry, "- Option: `{}`", example(arg, long, value));
        let _ = writeln!(entry, "- Environment: `{}`", variable(long));
    } else if *name == "exec" {
        entry += "- Option: the words behind `--`\n";
    } else {
        let _ = writeln!(entry, "- Option: `--set {name}=...`");
    }
    entry
}

/// The long help of an option, without the notes that stand in the entry as well.
fn says(option: &Arg) -> String {
    let help = option.get_long_help().or_else(|| option.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let is_note = |part: &&str| part.starts_with('[');
    let parts: Vec<_> = help.split("\n\n").filter(|part| !is_note(part)).collect();
    // The first is a headline.
    let ends = |part: &str| part.ends_with(['.', '!', '?']);
    let sentences =
        parts.iter().map(|part| if ends(part) { (*part).into() } else { format!("{part}.") });
    sentences.collect::<Vec<_>>().join(" ")
}

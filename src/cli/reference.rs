//! Test that docs/reference.md lists the keys as their table does; it can also write the file.

use std::fmt::Write as _;
use std::{env, fs};

use clap::Command;

use super::help::example;
use super::whole_command;
use crate::options::Key;
use crate::options::key::{EXEC, variable};
use crate::options::keys::KEYS;

const PATH: &str = "docs/reference.md";
/// The first generated heading.
const BEGIN: &str = "\n## Table\n";

#[test]
fn the_reference_lists_the_keys_as_their_table_does() {
    let mut command = whole_command();
    command.build();
    let found = fs::read_to_string(PATH).unwrap();
    let (by_hand, _) = found.split_once(BEGIN).unwrap();
    let written = format!("{by_hand}{}", sections(&command));
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(PATH, &written).unwrap();
    } else {
        assert!(
            found == written,
            "{PATH} is out of date: UPDATE_DOCS=1 cargo test --lib updates it"
        );
    }
}

fn sections(command: &Command) -> String {
    let mut text = String::new();
    for (group, keys) in &KEYS {
        write!(text, "\n## {group}\n").unwrap();
        for key in *keys {
            text += &entry(key, command);
        }
    }
    text
}

fn entry(key: &Key, command: &Command) -> String {
    let Key { name, takes, example: value, help: [phrase, sentences], .. } = key;
    let stop = if phrase.is_empty() || phrase.ends_with('.') { "" } else { "." };
    let text = format!("{phrase}{stop} {sentences}");
    let mut entry = format!("\n### `{name}`\n\n{}\n\n- Takes: {takes}.\n", text.trim());
    if let Some(default) = key.displayed_default() {
        writeln!(entry, "- Default: {default}.").unwrap();
    }
    writeln!(entry, "- Example: `{name} = {value}`").unwrap();
    let process = command.find_subcommand("process").unwrap();
    let has_option = key.is_option || *name == "where";
    let mut args = process.get_arguments().filter(|_| has_option);
    if let Some(arg) = args.find(|arg| arg.get_long() == Some(key.long)) {
        writeln!(entry, "- Option: `{}`", example(arg, key.long, value)).unwrap();
        writeln!(entry, "- Environment: `{}`", variable(key.long)).unwrap();
    } else if *name == EXEC {
        entry += "- Option: the words after `--`\n";
    } else {
        writeln!(entry, "- Option: `--set {name}=...`").unwrap();
    }
    entry
}

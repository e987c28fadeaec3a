//! Examples and exit codes at the end of `--help` and of manual pages. A test runs each example.

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

//! The examples and exit codes of each subcommand, which `--help` and the manual pages end with. A test
//! runs each example.

use crate::exit::Exit;

/// A section for each subcommand: command lines, each below a comment that says what it is for.
const EXAMPLES: &str = include_str!("examples.txt");

/// The example lines of a subcommand, if it has any.
pub fn examples(command: &str) -> Option<impl Iterator<Item = &'static str>> {
    let mut sections = EXAMPLES.split("\n\n");
    let lines = sections.find_map(|section| section.strip_prefix(command)?.strip_prefix(":\n"))?;
    Some(lines.lines())
}

pub fn exits(command: &str) -> &'static [(Exit, &'static str)] {
    match command {
        "backlog" | "process" => OF_A_PASS,
        "status" => OF_A_STATUS,
        "archive" | "restore" | "retry" => OF_AN_EDIT,
        "explain" => OF_A_LOOK,
        "check" => OF_A_CHECK,
        "adopt" => OF_ADOPT,
        "completions" => &[DONE, FAILED, USAGE],
        _ => USUAL,
    }
}

const DONE: (Exit, &str) = (Exit::Done, "done");
const FAILED: (Exit, &str) = (Exit::Failed, "the command failed");
const USAGE: (Exit, &str) = (Exit::Usage, "the command line or backlog.toml is wrong");
const TRY_LATER: (Exit, &str) =
    (Exit::TryLater, "the database stays locked or out of reach; try later");
const USUAL: &[(Exit, &str)] = &[DONE, FAILED, USAGE, TRY_LATER];

const OF_A_PASS: &[(Exit, &str)] = &[
    (Exit::Done, "the pass is complete; records that failed will be tried again"),
    (Exit::Failed, "a record was archived (with --strict: failed), or could not be handled"),
    USAGE,
    (Exit::TryLater, "the database stays locked or out of reach, or the running pass hangs"),
    (Exit::Signal(1), "stopped by SIGHUP"),
    (Exit::Signal(2), "stopped by SIGINT"),
    (Exit::Signal(15), "stopped by SIGTERM"),
];

const OF_A_STATUS: &[(Exit, &str)] = &[
    (Exit::Done, "done; with limits: all figures are within them"),
    (Exit::Failed, "the command failed; with limits: a figure is beyond --warn-if"),
    (Exit::Usage, "wrong command line or backlog.toml; with limits: a figure is beyond --fail-if"),
    (Exit::Unknown, "with limits: a figure is unknown"),
    TRY_LATER,
];

const OF_AN_EDIT: &[(Exit, &str)] = &[
    DONE,
    (Exit::Failed, "a record does not exist, or could not be changed"),
    USAGE,
    (Exit::TryLater, "a pass has claimed a record, or the database stays locked; try later"),
];

const OF_A_LOOK: &[(Exit, &str)] =
    &[DONE, (Exit::Failed, "a record does not exist, or the command failed"), USAGE, TRY_LATER];

const OF_A_CHECK: &[(Exit, &str)] = &[
    (Exit::Done, "no finding is an error: a pass will work"),
    (Exit::Failed, "a finding is an error"),
    USAGE,
    TRY_LATER,
];

const OF_ADOPT: &[(Exit, &str)] = &[
    DONE,
    (Exit::Failed, "a question is open, the proposal has an error, or the command failed"),
    (Exit::Usage, "the command line is wrong, or does not say which table is meant"),
    TRY_LATER,
];

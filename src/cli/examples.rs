//! The examples and exit codes of each subcommand, which `--help` and the manual pages end with. A test
//! runs each example.

use crate::exit::Exit;

/// A section for each subcommand: command lines, each below a comment that says what it is for.
const EXAMPLES: &str = include_str!("examples.txt");

/// The lines of a subcommand in it, if it has any.
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
const FAILED: (Exit, &str) = (Exit::Failed, "it could not be done");
const USAGE: (Exit, &str) = (Exit::Usage, "the command line or backlog.toml makes no sense");
const TRY_LATER: (Exit, &str) =
    (Exit::TryLater, "the database stays locked or out of reach: try later");
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
    (Exit::Done, "done; with limits: none is passed"),
    (Exit::Failed, "it could not be done; with limits: one of --warn-if is passed"),
    (Exit::Usage, "it makes no sense; with limits: one of --fail-if is passed"),
    (Exit::Unknown, "with limits: it cannot be told"),
    TRY_LATER,
];

const OF_AN_EDIT: &[(Exit, &str)] = &[
    DONE,
    (Exit::Failed, "a record does not exist, or could not be changed"),
    USAGE,
    (Exit::TryLater, "a record is in the hands of a pass, or the database is locked"),
];

const OF_A_LOOK: &[(Exit, &str)] =
    &[DONE, (Exit::Failed, "a record does not exist, or it could not be done"), USAGE, TRY_LATER];

const OF_A_CHECK: &[(Exit, &str)] = &[
    (Exit::Done, "nothing keeps a pass from working"),
    (Exit::Failed, "a finding is an error"),
    USAGE,
    TRY_LATER,
];

const OF_ADOPT: &[(Exit, &str)] = &[
    DONE,
    (Exit::Failed, "a question is open, the proposal has an error, or it could not be made"),
    (Exit::Usage, "the command line makes no sense, or it is not clear which table is meant"),
    TRY_LATER,
];

//! The errors of a command line: clap's own, with the word of this program where one that other programs
//! have was typed.

use std::ffi::OsString;

use clap::Arg;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Options, commands and statuses of other programs, and what they are called here.
const SYNONYMS: [(&[&str], &str); 26] = [
    (&["--max-retries", "--retries", "--tries"], "--max-attempts"),
    (&["--concurrency", "--workers", "--parallel", "--threads", "-j"], "--jobs"),
    (&["--limit", "--batch-size"], "--max-records"),
    (&["--database", "--dsn", "--database-url"], "--db"),
    (&["--backoff", "--strategy"], "--policy"),
    (&["--days"], "--ndays"),
    (&["--interval", "--tick"], "--every"),
    (&["--url", "--webhook"], "--post"),
    (&["--dry"], "--dry-run"),
    (&["--force"], "--yes"),
    (&["--sort"], "--order"),
    (&["run", "work", "start", "exec"], "process"),
    (&["show", "inspect", "why"], "explain"),
    (&["ls", "query"], "list"),
    (&["logs", "log", "stats", "info", "watch"], "status"),
    (&["errors"], "failures"),
    (&["delete", "rm", "remove", "discard", "cancel"], "archive"),
    (&["unarchive", "undelete"], "restore"),
    (&["requeue", "replay", "redrive"], "retry"),
    (&["push", "enqueue", "insert"], "add"),
    (&["create", "setup", "migrate"], "init"),
    (&["import", "map"], "adopt"),
    (&["stop"], "pause"),
    (&["doctor", "validate", "test"], "check"),
    (&["FAILED"], "ERROR"),
    (&["DEAD", "DISCARDED"], "ARCHIVED"),
];

/// The same error, with what was meant by a word of other programs.
pub fn with_synonym(
    mut error: clap::Error,
    command: &clap::Command,
    argv: &[OsString],
) -> clap::Error {
    let (typed, suggested) = if error.kind() == ErrorKind::UnknownArgument {
        (ContextKind::InvalidArg, ContextKind::SuggestedArg)
    } else if error.kind() == ErrorKind::InvalidSubcommand {
        (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand)
    } else if error.kind() == ErrorKind::InvalidValue {
        (ContextKind::InvalidValue, ContextKind::SuggestedValue)
    } else {
        return error;
    };
    let Some(ContextValue::String(word)) = error.get(typed).cloned() else { return error };
    // clap's tip to write a word after `--` would make an option a part of the handler.
    error.remove(ContextKind::Suggested);
    let named: Vec<_> = argv.iter().filter_map(|word| command.find_subcommand(word)).collect();
    let has = |is_it: &dyn Fn(&Arg) -> bool| named.iter().any(|it| it.get_arguments().any(is_it));
    if suggested == ContextKind::SuggestedArg
        && !word.starts_with('-')
        && !argv.iter().any(|word| word == "--")
        && has(&Arg::is_last_set)
    {
        let tip = StyledStr::from(format!("write `--` before the handler: -- {word}"));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
    let is_meant = |words: &[&str]| words.iter().any(|other| other.eq_ignore_ascii_case(&word));
    let meant = SYNONYMS.into_iter().find(|(words, _)| is_meant(words)).map(|(_, meant)| meant);
    let is_known = |meant: &str| {
        let long = meant.strip_prefix("--");
        long.is_none() || has(&|arg| arg.get_long() == long)
    };
    if let Some(meant) = meant.filter(|meant| is_known(meant)) {
        // It would show what clap suggested.
        error.remove(ContextKind::Usage);
        error.insert(suggested, ContextValue::String(meant.into()));
    }
    error
}

//! The errors of a command line: those of clap, with a suggestion if a word of another program was typed.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};

use clap::builder::StyledStr;
use clap::error::{ContextKind as Context, ContextValue, ErrorKind};
use clap::{Arg, Command, Error};
use strsim::normalized_damerau_levenshtein;

use crate::handlers::find_program;

/// Options, commands and statuses of other programs, and what they are called here.
const SYNONYMS: &str = include_str!("synonyms.txt");

/// How much a suggested name must resemble a word, from 0 to 1; clap's own suggestion for `--delay` is `--ndays`.
const SIMILAR: f64 = 0.6;

/// The same error. A word of another program gets the name that it has here as a suggestion.
pub fn with_synonym(mut error: Error, command: &Command, argv: &[OsString]) -> Error {
    let kinds = [
        (ErrorKind::UnknownArgument, Context::InvalidArg, Context::SuggestedArg),
        (ErrorKind::InvalidSubcommand, Context::InvalidSubcommand, Context::SuggestedSubcommand),
        (ErrorKind::InvalidValue, Context::InvalidValue, Context::SuggestedValue),
    ];
    let found = kinds.into_iter().find(|(kind, ..)| *kind == error.kind());
    let Some((_, typed, suggested)) = found else { return error };
    let Some(ContextValue::String(mut word)) = error.get(typed).cloned() else { return error };
    // clap's tip to write a word after `--` would make an option a part of the handler.
    error.remove(Context::Suggested);
    let named: Vec<_> = argv.iter().filter_map(|word| command.find_subcommand(word)).collect();
    let has = |is_it: &dyn Fn(&Arg) -> bool| named.iter().any(|it| it.get_arguments().any(is_it));
    // An option of the handler that follows the program.
    let words: Vec<_> = argv.iter().map(|word| word.to_string_lossy()).collect();
    let follows =
        |pair: &&[Cow<'_, str>]| !pair[0].starts_with('-') && looks_like_program(&pair[1]);
    if suggested == Context::SuggestedArg
        && let Some(pair) = words.windows(2).skip(1).find(follows)
    {
        word = pair[1].to_string();
        error.insert(typed, ContextValue::String(word.clone()));
    }
    if suggested == Context::SuggestedArg
        && !word.starts_with('-')
        && !argv.iter().any(|word| word == "--")
        && has(&Arg::is_last_set)
    {
        let tip = StyledStr::from(format!(
            "a database follows --db; write `--` before the handler: -- {word}"
        ));
        error.insert(Context::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
    let is_known = |meant: &&str| match meant.strip_prefix("--") {
        Some(long) => has(&|arg| arg.get_long() == Some(long)),
        None if suggested == Context::SuggestedSubcommand => {
            command.find_subcommand(meant).is_some()
        }
        None => true,
    };
    let found = error.remove(suggested).map(|names| names.to_string()).unwrap_or_default();
    // The last one resembles the word most.
    let similar = || found.split(", ").last().filter(|name| is_similar(&word, name));
    let meant = synonym(&word).filter(is_known).or_else(similar).unwrap_or_default();
    if meant != found {
        // It would show what clap suggested.
        error.remove(Context::Usage);
    }
    if !meant.is_empty() {
        error.insert(suggested, ContextValue::String(meant.into()));
    }
    error
}

/// Whether a word is a path or the name of a program, and not the id of a record.
pub fn looks_like_program(word: &str) -> bool {
    let search = std::env::var_os("PATH").unwrap_or_default();
    word.starts_with(['.', '/']) || find_program(OsStr::new(word), &search).is_some()
}

/// The name here for a word of another program. `--max-retries` counts as `--retries`.
fn synonym(word: &str) -> Option<&'static str> {
    let word = word.replacen("--max-", "--", 1);
    let is_meant = |words: &str| words.split(' ').any(|other| other.eq_ignore_ascii_case(&word));
    let mut lines = SYNONYMS.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(words, _)| is_meant(words)).map(|(_, meant)| meant)
}

fn is_similar(word: &str, name: &str) -> bool {
    let [word, name] = [word, name].map(|it| it.trim_start_matches('-').to_lowercase());
    name.contains(&word) || normalized_damerau_levenshtein(&word, &name) > SIMILAR
}

//! Errors of clap, with suggestions for words of other programs.

use std::ffi::{OsStr, OsString};

use clap::builder::StyledStr;
use clap::error::{ContextKind as Context, ContextValue, ErrorKind};
use clap::{Arg, Command, Error};
use strsim::normalized_damerau_levenshtein;

use crate::handlers::find_program;

/// Options, commands and statuses of other programs with their names here.
const SYNONYMS: &str = include_str!("synonyms.txt");

/// Minimum similarity of a suggestion, from 0 to 1. clap alone would suggest `--ndays` for `--delay`.
const MIN_SIMILARITY: f64 = 0.6;

/// Replaces clap's suggestion by the synonym of an unknown word, if there is one.
pub fn with_synonym(mut error: Error, command: &Command, argv: &[OsString]) -> Error {
    let kinds = [
        (ErrorKind::UnknownArgument, Context::InvalidArg, Context::SuggestedArg),
        (ErrorKind::InvalidSubcommand, Context::InvalidSubcommand, Context::SuggestedSubcommand),
        (ErrorKind::InvalidValue, Context::InvalidValue, Context::SuggestedValue),
    ];
    let kind = kinds.into_iter().find(|(kind, ..)| *kind == error.kind());
    let Some((_, invalid, suggested)) = kind else { return error };
    let Some(ContextValue::String(mut word)) = error.get(invalid).cloned() else { return error };
    // clap's tip to write a word after `--` would make an option a part of the handler.
    error.remove(Context::Suggested);
    let named: Vec<_> = argv.iter().filter_map(|word| command.find_subcommand(word)).collect();
    let has_arg =
        |is_meant: &dyn Fn(&Arg) -> bool| named.iter().any(|sub| sub.get_arguments().any(is_meant));
    if suggested == Context::SuggestedArg {
        // The unknown option may be one of a handler without `--`.
        if let Some(program) = program_without_hyphens(argv) {
            error.insert(invalid, ContextValue::String(program.clone()));
            word = program;
        }
        let has_hyphens = argv.iter().any(|word| word == "--");
        if !word.starts_with('-') && !has_hyphens && has_arg(&Arg::is_last_set) {
            let tip =
                format!("put `--` before the handler (a database is given with --db): -- {word}");
            let tips = ContextValue::StyledStrs(vec![StyledStr::from(tip)]);
            error.insert(Context::Suggested, tips);
        }
    }
    let is_known = |name: &&str| match name.strip_prefix("--") {
        Some(long) => has_arg(&|arg| arg.get_long() == Some(long)),
        None if suggested == Context::SuggestedSubcommand => {
            command.find_subcommand(name).is_some()
        }
        None => true,
    };
    let by_clap = error.remove(suggested).map(|names| names.to_string()).unwrap_or_default();
    // clap puts the most similar name last.
    let similar = || by_clap.split(", ").last().filter(|name| is_similar(&word, name));
    let suggestion = synonym(&word).filter(is_known).or_else(similar).unwrap_or_default();
    if suggestion != by_clap {
        // The usage would show clap's suggestion.
        error.remove(Context::Usage);
    }
    if !suggestion.is_empty() {
        error.insert(suggested, ContextValue::String(suggestion.into()));
    }
    error
}

/// A program that follows another word where `--` is missing.
fn program_without_hyphens(argv: &[OsString]) -> Option<String> {
    let words = argv.iter().take_while(|word| *word != "--").map(|word| word.to_string_lossy());
    let words: Vec<_> = words.collect();
    let mut pairs = words.windows(2).skip(1);
    let pair = pairs.find(|pair| !pair[0].starts_with('-') && looks_like_program(&pair[1]))?;
    Some(pair[1].to_string())
}

/// True for paths and names of programs, which are no ids of records.
pub fn looks_like_program(word: &str) -> bool {
    let search = std::env::var_os("PATH").unwrap_or_default();
    word.starts_with(['.', '/']) || find_program(OsStr::new(word), &search).is_some()
}

fn synonym(word: &str) -> Option<&'static str> {
    let word = word.replacen("--max-", "--", 1);
    let has_word = |words: &str| words.split(' ').any(|other| other.eq_ignore_ascii_case(&word));
    let mut lines = SYNONYMS.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(words, _)| has_word(words)).map(|(_, name)| name)
}

fn is_similar(word: &str, name: &str) -> bool {
    let [word, name] = [word, name].map(|text| text.trim_start_matches('-').to_lowercase());
    name.contains(&word) || normalized_damerau_levenshtein(&word, &name) > MIN_SIMILARITY
}

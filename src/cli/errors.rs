//! The errors of a command line, in words that help more than clap's where there are such.

use std::error::Error;
use std::ffi::OsString;
use std::num::ParseIntError;

use clap::Arg;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::nearest::nearest;
use crate::options::keys::{CHOICES, successor};
use crate::options::value::WHOLE;

/// The same error, in words that help more.
pub fn explained(
    mut error: clap::Error,
    command: &mut clap::Command,
    argv: &[OsString],
) -> clap::Error {
    let kind = error.kind();
    // clap's tip to pass an unknown option as a value, behind `--`, would make it a handler.
    error.remove(ContextKind::Suggested);
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return error };
    let word = &word.clone();
    let retired =
        || Some(format!("{word} is retired; use {}", successor(word.strip_prefix("--")?)?));
    let why = if kind == ErrorKind::UnknownArgument {
        retired().or_else(|| of_a_handler(word, command, argv))
    } else if kind == ErrorKind::ArgumentConflict {
        of_a_choice(word, error.get(ContextKind::PriorArg))
    } else if error.source().is_some_and(<dyn Error>::is::<ParseIntError>) {
        let value = error.get(ContextKind::InvalidValue);
        value.map(|value| format!("invalid value '{value}' for '{word}': {WHOLE}"))
    } else {
        None
    };
    match why {
        Some(why) => {
            let name = subcommand_at(command, argv).and_then(|at| argv[at].to_str());
            let error = clap::Error::raw(kind, why);
            match command.find_subcommand_mut(name.unwrap_or_default()) {
                Some(named) => error.format(named),
                None => error.format(command),
            }
        }
        None if kind == ErrorKind::UnknownArgument => with_tip(error, word, command, argv),
        None => error,
    }
}

/// Where the subcommand stands among the words: behind options of all commands, whose values may be
/// called like one.
fn subcommand_at(command: &clap::Command, argv: &[OsString]) -> Option<usize> {
    let is_option = |word: &OsString, arg: &Arg| {
        let long = word.to_str().and_then(|word| word.strip_prefix("--"));
        arg.get_action().takes_values() && long.is_some() && arg.get_long() == long
    };
    let takes_next = |word| command.get_arguments().any(|arg| is_option(word, arg));
    let is_one = |at: &usize| command.find_subcommand(&argv[*at]).is_some();
    (1..argv.len()).find(|at| is_one(at) && !takes_next(&argv[at - 1]))
}

/// The message for two options that both choose a schedule or a handler.
fn of_a_choice(word: &str, other: Option<&ContextValue>) -> Option<String> {
    let other = other?.to_string();
    let name = |shown: &str| shown.split([' ', ',']).next().map(|it| it.replace("--", ""));
    let [one, another] = [name(word)?, name(&other)?];
    let are_of = |names: &[&str]| names.contains(&&*one) && names.contains(&&*another);
    let choice = if are_of(&CHOICES) {
        "schedule"
    } else if are_of(&["stream", "post", "[COMMAND]..."]) {
        "handler"
    } else {
        return None;
    };
    Some(format!("the argument '{word}' cannot be used with '{other}': pick one {choice}"))
}

/// The error with the option that was meant, if there is one that is near. clap's own tips take those
/// for near that share some letters.
fn with_tip(
    mut error: clap::Error,
    word: &str,
    command: &clap::Command,
    argv: &[OsString],
) -> clap::Error {
    let tip = tip(word, command, argv);
    if tip.is_some() || error.get(ContextKind::SuggestedArg).is_some() {
        error.remove(ContextKind::SuggestedArg);
        error.remove(ContextKind::Usage);
    }
    if let Some(tip) = tip {
        let tips = vec![StyledStr::from(tip)];
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
    error
}

fn tip(word: &str, command: &clap::Command, argv: &[OsString]) -> Option<String> {
    let typed = word.strip_prefix("--")?;
    let at = subcommand_at(command, argv)?;
    let named = command.find_subcommand(&argv[at])?;
    let longs: Vec<_> = named.get_arguments().filter_map(Arg::get_long).collect();
    if longs.contains(&typed) && argv[..at].iter().any(|arg| arg == word) {
        return Some(format!("it goes behind the command: backlog {} {word}", named.get_name()));
    }
    let begins = longs.iter().copied().find(|long| long.starts_with(typed));
    let nearest = begins.or_else(|| nearest(typed, longs.iter().copied()))?;
    Some(format!("a similar argument exists: '--{nearest}'"))
}

/// The message for a word in the place of a handler's that has no `--` before it. Nothing else of the
/// command line is said again but a number: there may be a password in it.
fn of_a_handler(word: &str, command: &clap::Command, argv: &[OsString]) -> Option<String> {
    let named = command.find_subcommand(&argv[subcommand_at(command, argv)?])?;
    let takes_one = named.get_arguments().any(Arg::is_last_set);
    let is_one = takes_one && !word.starts_with('-') && !argv.iter().any(|arg| arg == "--");
    let at = argv.iter().position(|arg| is_one && arg == word)?;
    let is_number = |word: &OsString| word.as_encoded_bytes().iter().all(u8::is_ascii_digit);
    let mut before = String::new();
    if let [.., option, number] = &argv[..at]
        && is_number(number)
    {
        before = format!("{} {} ", option.display(), number.display());
    }
    Some(format!(
        "unexpected argument '{word}' found: the handler stands behind `--`: ... {before}-- {word}"
    ))
}

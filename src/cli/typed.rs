//! A command line, parsed: its subcommand, and the layer of options that it makes.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, CommandFactory, FromArgMatches};
use toml::Value;

use super::{Cli, Command};
use crate::options::keys::{EXEC, PATHS, key_of, successor, variable};
use crate::options::{Layers, Origin, QueueOptions, TypedOptions};

pub struct Typed {
    pub cli: Cli,
    pub options: TypedOptions,
}

/// Options of every subcommand that are no keys of a queue, and stand in the environment as well.
const ELSEWHERE: [&str; 3] = ["config", "queue", "where"];

impl Typed {
    pub fn parse(argv: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let argv: Vec<_> = argv.into_iter().collect();
        let mut command = command(&argv);
        let matches = command.try_get_matches_from_mut(&argv);
        let typed = matches.and_then(|matches| {
            Self::new(&command, &matches).map_err(|error| error.format(&mut command))
        });
        typed.map_err(|error| retold(error, &mut command, &argv))
    }

    fn new(command: &clap::Command, matches: &ArgMatches) -> Result<Self, clap::Error> {
        let cli = Cli::from_arg_matches(matches)?;
        let named = matches.subcommand().filter(|_| !matches!(cli.command, Command::Watchdog));
        let Some((name, matches)) = named else {
            return Ok(Self { cli, options: TypedOptions::default() });
        };
        let (mut layer, mut known) = (Layers::default(), HashSet::new());
        let command = command.find_subcommand(name);
        for arg in command.into_iter().flat_map(clap::Command::get_arguments) {
            let Some(key) = arg.get_long().and_then(key_of) else { continue };
            known.insert(key);
            if matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine) {
                layer.insert(key, value(arg, matches), Origin::CommandLine);
            }
        }
        let path = |key| Some((key, matches.try_get_one::<PathBuf>(key).ok()??.clone()));
        let handler = matches.try_get_many::<OsString>("command").ok().flatten();
        let handler: Vec<_> = handler.into_iter().flatten().cloned().collect();
        if !handler.is_empty() {
            layer.insert(EXEC, Value::Array(Vec::new()), Origin::CommandLine);
        }
        let QueueOptions { set, condition, .. } = QueueOptions::from_arg_matches(matches)?;
        layer.conditions.extend(condition);
        let options = TypedOptions {
            layer,
            known,
            set,
            name: cli.global.queue.clone(),
            handler,
            paths: PATHS.into_iter().filter_map(path).collect(),
            is_about_a_table: cli.command.is_about_a_table(),
        };
        Ok(Self { cli, options })
    }
}

/// The command line as clap has to know it, as far as it names subcommands.
fn command(argv: &[OsString]) -> clap::Command {
    let is_named = |command: &clap::Command| argv.iter().any(|arg| arg == command.get_name());
    let is_help = |arg: &OsString| ["-h", "--help", "help"].iter().any(|it| arg == it);
    let shows_help = argv.iter().take_while(|arg| *arg != "--").any(is_help);
    let augment = |command| if is_named(&command) { Command::augment(command) } else { command };
    let command = Cli::command().mut_subcommands(augment);
    if !shows_help {
        return command;
    }
    command.mut_args(with_variable).mut_subcommands(|command| command.mut_args(with_variable))
}

fn with_variable(arg: Arg) -> Arg {
    // This one names its own.
    let long = arg.get_long().filter(|long| *long != "max-attempts");
    let long = long.filter(|long| key_of(long).is_some() || ELSEWHERE.contains(long));
    let (Some(long), Some(help)) = (long, arg.get_help()) else { return arg };
    let help = format!("{help} [env: {}]", variable(long));
    arg.help(help)
}

/// What was typed for an option, as a layer holds it.
fn value(arg: &Arg, matches: &ArgMatches) -> Value {
    let raw = matches.get_raw(arg.get_id().as_str()).into_iter().flatten();
    let values = raw.map(|value| Value::String(value.to_string_lossy().into_owned()));
    match &values.collect::<Vec<_>>()[..] {
        _ if !arg.get_action().takes_values() => Value::Boolean(true),
        [one] => one.clone(),
        several => Value::Array(several.into()),
    }
}

/// The same error, in words that help more where there are such.
fn retold(error: clap::Error, command: &mut clap::Command, argv: &[OsString]) -> clap::Error {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return error };
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let retired = word.strip_prefix("--").and_then(successor);
    let retired = retired.map(|now| format!("{word} is retired; use {now}"));
    match retired.or_else(|| of_a_handler(word, command, argv)) {
        Some(why) => clap::Error::raw(ErrorKind::UnknownArgument, why).format(command),
        None => error,
    }
}

/// What is said of a word in the place of a handler's that has no `--` before it. Nothing else of the
/// command line is said again but a number: there may be a password in it.
fn of_a_handler(word: &str, command: &clap::Command, argv: &[OsString]) -> Option<String> {
    let named = argv.iter().find_map(|arg| command.find_subcommand(arg))?;
    let is_one = !word.starts_with('-')
        && named.get_arguments().any(Arg::is_last_set)
        && !argv.iter().any(|arg| arg == "--");
    let at = argv.iter().position(|arg| is_one && arg == word)?;
    let is_number = |word: &OsString| word.as_encoded_bytes().iter().all(u8::is_ascii_digit);
    let before = match &argv[..at] {
        [.., option, number] if is_number(number) => {
            format!("{} {} ", option.display(), number.display())
        }
        _ => String::new(),
    };
    Some(format!(
        "unexpected argument '{word}' found: the handler stands behind `--`: ... {before}-- {word}\n"
    ))
}

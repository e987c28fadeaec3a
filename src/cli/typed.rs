//! The command-line layer: the subcommand that was typed, and the options that its words make.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, FromArgMatches};
use toml::Value;

use super::errors::with_synonym;
use super::{Cli, Command, command};
use crate::options::keys::{EXEC, PATHS, key_of};
use crate::options::{Layers, Origin, QueueOptions, TypedOptions};

/// A command line, parsed: its subcommand, and the layer of options that it makes.
pub struct Typed {
    pub cli: Cli,
    pub options: TypedOptions,
}

impl Typed {
    pub fn parse(argv: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let argv: Vec<_> = argv.into_iter().collect();
        let mut command = command(&argv);
        let matches = command.try_get_matches_from_mut(&argv);
        let typed = matches.and_then(|matches| {
            Self::new(&command, &matches).map_err(|error| error.format(&mut command))
        });
        let typed = typed.map_err(|error| with_synonym(error, &command, &argv));
        // The texts of all options are left to the end of the process: to free them one by one takes
        // longer than to parse the line.
        std::mem::forget(command);
        typed
    }

    fn new(command: &clap::Command, matches: &ArgMatches) -> Result<Self, clap::Error> {
        let cli = Cli::from_arg_matches(matches)?;
        let named = matches.subcommand().filter(|_| cli.command.is_about_a_queue());
        let Some((name, matches)) = named else {
            return Ok(Self { cli, options: TypedOptions::default() });
        };
        let (mut layer, mut known) = (Layers::default(), HashSet::new());
        let command = command.find_subcommand(name);
        for arg in command.into_iter().flat_map(clap::Command::get_arguments) {
            let Some(key) = key_of_option(arg) else { continue };
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
            may_be_about_all: matches.try_contains_id("all_queues").is_ok(),
            may_be_about_none: matches!(&cli.command, Command::Simulate(it) if !it.from_table),
        };
        Ok(Self { cli, options })
    }
}

/// The key of an option, unless it is one of its subcommand's own, which has an id of its own then.
pub fn key_of_option(arg: &Arg) -> Option<&'static str> {
    let long = arg.get_long().filter(|_| arg.get_id() != "table_metrics")?;
    key_of(long)
}

fn value(arg: &Arg, matches: &ArgMatches) -> Value {
    let raw = matches.get_raw(arg.get_id().as_str()).into_iter().flatten();
    let values = raw.map(|value| Value::String(value.to_string_lossy().into_owned()));
    match &values.collect::<Vec<_>>()[..] {
        _ if !arg.get_action().takes_values() => Value::Boolean(true),
        [one] => one.clone(),
        several => Value::Array(several.into()),
    }
}

//! The parsed command line: the subcommand, and the layer of its options.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, FromArgMatches};
use toml::Value;

use super::args::TableArgs;
use super::errors::{looks_like_program, with_synonym};
use super::key_args::{DATABASE, HANDLER, keys_of, uses_queue};
use super::{Cli, CliCommand, command};
use crate::options::key::{DB, EXEC, KeyKind};
use crate::options::raw::Raw;
use crate::options::{Key, Origin, TypedOptions};

pub struct Typed {
    pub cli: Cli,
    pub options: TypedOptions,
    pub uses_queue: bool,
}

impl Typed {
    pub fn parse(argv: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let argv: Vec<_> = argv.into_iter().collect();
        let mut command = command(&argv);
        let matches = command.try_get_matches_from_mut(&argv);
        let typed = matches
            .and_then(|matches| Self::new(&matches).map_err(|error| error.format(&mut command)));
        let typed = typed.map_err(|error| with_synonym(error, &command, &argv));
        // Freeing the texts of all options takes longer than parsing the command line.
        std::mem::forget(command);
        typed
    }

    fn new(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let cli = Cli::from_arg_matches(matches)?;
        let mut options =
            TypedOptions { name: cli.global.queue.clone(), ..TypedOptions::default() };
        let Some((subcommand, matches)) = matches.subcommand() else {
            return Ok(Self { cli, options, uses_queue: false });
        };
        for key in keys_of(subcommand) {
            options.known.insert(key.name);
            if matches.value_source(key.name) == Some(ValueSource::CommandLine) {
                options.layer.insert(key, value(key, matches), Origin::CommandLine);
            }
        }
        let uses_queue = uses_queue(subcommand);
        if uses_queue {
            let TableArgs { set, condition } = TableArgs::from_arg_matches(matches)?;
            options.set = set;
            options.layer.conditions.extend(condition);
        }
        for (argument, key) in [(HANDLER, EXEC), (DATABASE, DB)] {
            let words = matches.try_get_many::<OsString>(argument).ok().flatten();
            if let (Some(words), Some(key)) = (words, Key::named(key)) {
                let words = Raw::Words(words.cloned().collect());
                options.layer.insert(key, words, Origin::CommandLine);
            }
        }
        options.takes_all_queues = matches.try_contains_id("all_queues").is_ok();
        options.works_without_queue =
            matches!(&cli.command, CliCommand::Simulate(args) if !args.from_table);
        if let CliCommand::Process(args) = &cli.command {
            options.works_without_schedule = !args.ids.is_empty();
            let program = args.ids.iter().find(|id| looks_like_program(id));
            if let (None, Some(program)) = (options.layer.get(EXEC), program) {
                let mut error = clap::Error::new(ErrorKind::UnknownArgument);
                error.insert(ContextKind::InvalidArg, ContextValue::String(program.clone()));
                return Err(error);
            }
        }
        Ok(Self { cli, options, uses_queue })
    }
}

fn value(key: &Key, matches: &ArgMatches) -> Raw {
    if key.kind == KeyKind::Flag {
        return Raw::Toml(Value::Boolean(true));
    }
    let words = matches.get_raw(key.name).into_iter().flatten();
    Raw::Words(words.map(OsString::from).collect())
}

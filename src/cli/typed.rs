//! A command line before what stands elsewhere is added to it.

use std::collections::HashSet;
use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches};

use super::{Cli, Command};

pub struct Typed {
    argv: Vec<OsString>,
    pub cli: Cli,
    /// The long options that were typed, and those that the subcommand knows.
    typed: HashSet<String>,
    known: HashSet<String>,
}

/// A long option and its value, if it takes one.
pub type Given = (&'static str, Option<String>);

impl Typed {
    pub fn parse(argv: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let argv: Vec<_> = argv.into_iter().collect();
        let mut command = Cli::command();
        let matches = command.try_get_matches_from_mut(&argv)?;
        let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
        let (mut typed, mut known) = (HashSet::new(), HashSet::new());
        if let Some((name, matches)) = matches.subcommand()
            && let Some(subcommand) = command.find_subcommand(name)
        {
            for arg in subcommand.get_arguments() {
                let Some(long) = arg.get_long() else { continue };
                known.insert(long.to_string());
                if matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine) {
                    typed.insert(long.to_string());
                }
            }
        }
        Ok(Self { argv, cli, typed, known })
    }

    /// Whether an option was typed.
    pub fn has(&self, long: &str) -> bool {
        self.typed.contains(long)
    }

    /// Whether the subcommand has such an option.
    pub fn knows(&self, long: &str) -> bool {
        self.known.contains(long)
    }

    /// Whether it works on a table: all but the making of one, and simulations of made-up records.
    pub fn is_about_a_table(&self) -> bool {
        match &self.cli.command {
            Command::Init(_) | Command::Guard { .. } => false,
            Command::Simulate(simulate) => simulate.from_table,
            Command::Add(_)
            | Command::Process(_)
            | Command::Status(_)
            | Command::List(_)
            | Command::Explain(_)
            | Command::Archive(_)
            | Command::Restore(_)
            | Command::Retry(_) => true,
        }
    }

    /// The same command line with more options, as if they had been typed as well.
    pub fn with(&self, options: &[Given]) -> Result<Cli, clap::Error> {
        let end = self.argv.iter().position(|arg| arg == "--").unwrap_or(self.argv.len());
        let (before, after) = self.argv.split_at(end);
        let more =
            options.iter().map(|(long, value)| OsString::from(argument(long, value.as_deref())));
        Cli::try_parse_from_iter(before.iter().cloned().chain(more).chain(after.iter().cloned()))
    }
}

impl Cli {
    fn try_parse_from_iter(argv: impl Iterator<Item = OsString>) -> Result<Self, clap::Error> {
        <Self as clap::Parser>::try_parse_from(argv)
    }
}

/// Why this value is none for an option of `process`, if it is none.
pub fn complaint((long, value): &Given) -> Option<String> {
    let argv = ["backlog", "process", &argument(long, value.as_deref())].map(OsString::from);
    let error = Cli::try_parse_from_iter(argv.into_iter()).err()?.to_string();
    let first = error.lines().next().unwrap_or_default();
    // Behind the option, whose name would be another one than the user wrote.
    let reason = first.split_once(">': ").map_or(first, |(_, reason)| reason);
    Some(reason.strip_prefix("error: ").unwrap_or(reason).to_string())
}

fn argument(long: &str, value: Option<&str>) -> String {
    value.map_or_else(|| format!("--{long}"), |value| format!("--{long}={value}"))
}

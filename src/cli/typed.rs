//! A command line before what stands elsewhere is added to it.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, CommandFactory, FromArgMatches};

use super::{Cli, Command, Table};

pub struct Typed {
    argv: Vec<OsString>,
    pub line: CommandLine,
    /// The long options that were typed, with their values if they take any.
    typed: BTreeMap<String, Option<String>>,
    /// Those that the subcommand knows.
    known: HashSet<String>,
    /// What clap knows by now.
    command: RefCell<clap::Command>,
}

/// A command line, understood.
#[derive(Clone)]
pub struct CommandLine {
    pub cli: Cli,
    pub table: Table,
}

/// A long option and its value, if it takes one.
pub type Given = (&'static str, Option<String>);

/// The command line as clap has to know it, as far as it names subcommands.
fn command(argv: &[OsString]) -> clap::Command {
    let command = Cli::command();
    let names = command.get_subcommands().map(|it| it.get_name().to_string());
    let named: Vec<_> = names.filter(|name| argv.iter().any(|arg| arg == name.as_str())).collect();
    named
        .iter()
        .fold(command, |command, name| command.mut_subcommand(name, Command::augmentation(name)))
}

/// What clap makes of a command line. A command that has been told of all it needs is used again.
fn understood(
    command: &mut clap::Command,
    argv: &[OsString],
) -> Result<(CommandLine, ArgMatches), clap::Error> {
    let matches = command.try_get_matches_from_mut(argv)?;
    let cli = Cli::from_arg_matches(&matches);
    let line = cli.and_then(|cli| {
        let table = match (&cli.command, matches.subcommand()) {
            (Command::Watchdog, _) | (_, None) => Table::default(),
            (_, Some((_, matches))) => Table::from_arg_matches(matches)?,
        };
        Ok(CommandLine { cli, table })
    });
    Ok((line.map_err(|error| error.format(command))?, matches))
}

impl Typed {
    pub fn parse(argv: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let argv: Vec<_> = argv.into_iter().collect();
        let mut command = command(&argv);
        let understood = understood(&mut command, &argv);
        let (line, matches) =
            understood.map_err(|error| of_a_handler(error, &mut command, &argv))?;
        let (mut typed, mut known) = (BTreeMap::new(), HashSet::new());
        if let Some((name, matches)) = matches.subcommand()
            && let Some(subcommand) = command.find_subcommand(name)
        {
            for arg in subcommand.get_arguments() {
                let Some(long) = arg.get_long() else { continue };
                known.insert(long.to_string());
                if matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine) {
                    let takes_value = arg.get_action().takes_values();
                    let values = matches.get_raw(arg.get_id().as_str()).into_iter().flatten();
                    let values: Vec<_> = values.map(|value| value.to_string_lossy()).collect();
                    // What was cut is joined as it was; what was repeated is a line each time.
                    let between = arg.get_value_delimiter().unwrap_or('\n').to_string();
                    let value = (takes_value && !values.is_empty()).then(|| values.join(&between));
                    typed.insert(long.to_string(), value);
                }
            }
        }
        Ok(Self { argv, line, typed, known, command: RefCell::new(command) })
    }

    /// Whether an option was typed.
    pub fn has(&self, long: &str) -> bool {
        self.typed.contains_key(long)
    }

    /// Whether a handler was typed.
    pub fn has_handler(&self) -> bool {
        self.argv.iter().skip_while(|arg| *arg != "--").count() > 1
    }

    /// All options that were typed, with their values if they take any.
    pub fn options(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.typed.iter().map(|(long, value)| (long.as_str(), value.as_deref()))
    }

    /// Whether the subcommand has such an option.
    pub fn knows(&self, long: &str) -> bool {
        self.known.contains(long)
    }

    /// Whether it works on a table: all but the making of one, and simulations of made-up records.
    pub fn is_about_a_table(&self) -> bool {
        match &self.line.cli.command {
            Command::Init(_) | Command::Watchdog => false,
            Command::Simulate(simulate) => simulate.from_table,
            Command::Add(_)
            | Command::Check(_)
            | Command::Crontab(_)
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
    pub fn with(&self, options: &[Given]) -> Result<CommandLine, clap::Error> {
        if options.is_empty() {
            return Ok(self.line.clone());
        }
        let end = self.argv.iter().position(|arg| arg == "--").unwrap_or(self.argv.len());
        let (before, after) = self.argv.split_at(end);
        let more: Vec<_> = options.iter().map(|given| OsString::from(argument(given))).collect();
        let argv = [before, &more, after].concat();
        understood(&mut self.command.borrow_mut(), &argv).map(|(line, _)| line)
    }
}

/// What is said of a word in the place of a handler's that has no `--` before it. Nothing else of
/// the
/// command line is said again but a number: there may be a password in it.
fn of_a_handler(error: clap::Error, command: &mut clap::Command, argv: &[OsString]) -> clap::Error {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return error };
    let takes_one = |command: &clap::Command| command.get_arguments().any(Arg::is_last_set);
    let named = argv.iter().find_map(|arg| command.find_subcommand(arg));
    let is_one = error.kind() == ErrorKind::UnknownArgument
        && !word.starts_with('-')
        && named.is_some_and(takes_one)
        && !argv.iter().any(|arg| arg == "--");
    let Some(at) = argv.iter().position(|arg| is_one && arg == word.as_str()) else { return error };
    let is_number = |word: &OsString| word.as_encoded_bytes().iter().all(u8::is_ascii_digit);
    let before = match &argv[..at] {
        [.., option, number] if is_number(number) => {
            format!("{} {} ", option.display(), number.display())
        }
        _ => String::new(),
    };
    let why = format!(
        "unexpected argument '{word}' found: the handler stands behind `--`: ... {before}-- {word}\n"
    );
    clap::Error::raw(ErrorKind::UnknownArgument, why).format(command)
}

/// Why this value is none for an option of `process`, if it is none.
pub fn complaint(given: &Given) -> Option<String> {
    let argv = ["backlog", "process", &argument(given)].map(OsString::from);
    let error = understood(&mut command(&argv), &argv).err()?.to_string();
    let mut lines = error.lines();
    let first = lines.next().unwrap_or_default();
    // Behind the option, whose name would be another one than the user wrote.
    let reason = first.split_once(">': ").map_or(first, |(_, reason)| reason);
    let reason = reason.split_once(" for '--").map_or(reason, |(reason, _)| reason);
    let legal = lines.next().map_or("", str::trim).trim_start_matches('[').trim_end_matches(']');
    let legal = if legal.is_empty() { String::new() } else { format!("; {legal}") };
    Some(format!("{}{legal}", reason.strip_prefix("error: ").unwrap_or(reason)))
}

/// What clap says, without its hints.
pub fn first_line(error: &clap::Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_string()
}

fn argument((long, value): &Given) -> String {
    value.as_ref().map_or_else(|| format!("--{long}"), |value| format!("--{long}={value}"))
}

//! The command line: subcommands and their options, and the layer that those which are typed make.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use toml::Value;

use crate::options::keys::{EXEC, PATHS, key_of, successor, variable};
use crate::options::value::{Attempts, Percent, Records, Since, WholeSecs};
use crate::options::{
    HandlerOptions, Layers, Origin, Pace, PassOptions, QueueOptions, ScheduleOptions, TypedOptions,
};
use crate::query::Order;
use crate::record;
use crate::time::Instant;

/// Works off a table of pending records: each goes to your own command or webhook, failed ones are
/// tried again, less and less often.
///
/// What an option says may also stand in backlog.toml (max_runtime = "4m30s") or in the environment
/// (BACKLOG_MAX_RUNTIME=4m30s): what is typed counts first, then the environment, then the file.
#[derive(Parser)]
#[command(version, arg_required_else_help = true, propagate_version = true)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,

    #[command(subcommand)]
    pub command: Command,
}

#[derive(Args)]
#[command(next_help_heading = "Everywhere")]
pub struct Global {
    /// The SQLite database, or a PostgreSQL server: postgres://user@host/database
    #[arg(long, global = true, value_name = "FILE|URL")]
    pub db: Option<PathBuf>,

    /// Where the queues are described [default: ./backlog.toml, then
    /// ~/.config/backlog/config.toml, then /etc/backlog.toml]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// One of the queues described there, or just a name for handlers [default: default]
    #[arg(long, global = true, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub queue: Option<String>,

    /// Where claims and cursors are kept [default: FILE.backlog; ~/.local/state/backlog with a
    /// server]
    #[arg(long, global = true, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,

    /// Pretend that it is this instant: 2026-11-21T03:40:00Z, or @ and epoch seconds
    #[arg(long, global = true, value_name = "INSTANT")]
    pub now: Option<Instant>,

    /// Say more: every record; twice, everything (RUST_LOG overrides)
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
}

// clap is told of the options of a subcommand only if it is named, by `Command::augment`: what starts
// every minute starts in no time.
#[derive(Subcommand)]
#[command(defer = true)]
pub enum Command {
    /// Create the table
    Init(Box<Init>),
    /// Add records
    Add(Box<Add>),
    /// Hand the due records to a command or a webhook
    Process(Box<Process>),
    /// Count the records, and say what is due
    Status(Box<Status>),
    /// List the records
    List(Box<List>),
    /// Group the failed records by their errors, and say how many there are of each, and since when
    Failures(Box<Failures>),
    /// Say of records why they were or were not tried, and when they will be
    Explain(Box<Explain>),
    /// Take pending records out of the way; they are kept
    Archive(Box<Edit>),
    /// Bring archived records back as new ones
    Restore(Box<Edit>),
    /// Make failed or archived records due now; their count of failures is kept
    Retry(Box<Edit>),
    /// Look whether the table, the handler and the crontab are as they must be; touch nothing
    Check(Box<Format>),
    /// Print the crontab lines for a queue
    Crontab(Box<Crontab>),
    /// Draw the load that a policy makes, before a crontab is changed
    Simulate(Box<Simulate>),
    /// End the handlers of a killed pass (started by `process`)
    #[command(hide = true)]
    Watchdog,
}

impl Command {
    /// Tells clap of all options of a subcommand, in the order of its help: those of the groups
    /// that it has, its own, and those of the table.
    fn augment(command: clap::Command) -> clap::Command {
        let about = command.get_about().cloned();
        let (schedule, handler) = (ScheduleOptions::augment_args, HandlerOptions::augment_args);
        let own: &[fn(clap::Command) -> clap::Command] = match command.get_name() {
            "init" => &[Init::augment_args],
            "add" => &[Add::augment_args],
            "process" => &[schedule, PassOptions::augment_args, Process::augment_args, handler],
            "status" => &[schedule, Status::augment_args],
            "list" => &[schedule, List::augment_args],
            "failures" => &[Failures::augment_args],
            "explain" => &[Explain::augment_args, schedule],
            "archive" | "restore" | "retry" => &[Edit::augment_args],
            "check" => &[schedule, Format::augment_args, handler],
            "crontab" => &[schedule, Crontab::augment_args, handler],
            "simulate" => &[Simulate::augment_args],
            _ => return command,
        };
        // Here is all that was put off. A group of options has set its own text.
        let command = command.defer(std::convert::identity);
        let command = own.iter().fold(command, |command, augment| augment(command));
        QueueOptions::augment_args(command).about(about.unwrap_or_default())
    }
}

#[derive(Args)]
pub struct Init {
    /// Only ID, STATUS, DATE_INSERTED and PAYLOAD
    #[arg(long)]
    pub minimal: bool,
}

#[derive(Args)]
pub struct Add {
    /// JSON documents; `-` reads one from each line of standard input
    #[arg(required = true, value_name = "PAYLOAD")]
    pub payloads: Vec<String>,
}

#[derive(Args)]
pub struct Process {
    /// Print what would be tried, and why not the others; touch nothing
    #[arg(long, conflicts_with_all = ["drain", "wait"])]
    pub dry_run: bool,

    /// Go on until nothing is due
    #[arg(long)]
    pub drain: bool,

    /// Wait for a running pass of the same line, instead of leaving the work to it
    #[arg(long)]
    pub wait: bool,

    /// Each queue of backlog.toml after the other; one that fails does not stop the next
    #[arg(long, conflicts_with = "queue")]
    pub all_queues: bool,
}

#[derive(Args)]
pub struct Format {
    /// One JSON object, for each queue
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub queues: AllQueues,
}

#[derive(Args)]
pub struct Status {
    /// The last N passes of all lines as well
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub passes: usize,

    #[command(flatten)]
    pub format: Format,
}

#[derive(Args)]
pub struct AllQueues {
    /// The same for each queue of backlog.toml
    #[arg(long, conflicts_with = "queue")]
    pub all_queues: bool,
}

#[derive(Args)]
pub struct List {
    /// Which records go first [default: newest]
    #[arg(long, value_enum)]
    pub order: Option<Order>,

    /// Only these: NEW, ERROR, SUCCESS, ARCHIVED
    #[arg(long, value_enum, value_delimiter = ',', ignore_case = true)]
    pub status: Vec<record::Status>,

    /// Only what is due (with --ndays, --fibonacci, --policy or --progressive)
    #[arg(long)]
    pub due: bool,

    /// Only those that were inserted since then: 2h, 7days, or 2026-11-21T03:40:00Z
    #[arg(long, value_name = "DURATION|INSTANT")]
    pub since: Option<Since>,

    /// Only those that failed by this cause: its id, as `backlog failures` shows it, or a text of it
    #[arg(long, value_name = "GROUP")]
    pub failure: Option<String>,

    /// No more than so many
    #[arg(long, value_name = "N")]
    pub limit: Option<Records>,

    /// One JSON object for each record
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct Failures {
    /// Only these: ERROR, ARCHIVED, or NEW where no column tells failed records [default: pending]
    #[arg(long, value_enum, value_delimiter = ',', ignore_case = true)]
    pub status: Vec<record::Status>,

    /// One JSON object for each group
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub queues: AllQueues,
}

#[derive(Args)]
pub struct Explain {
    /// The records
    #[arg(required = true, value_name = "ID", allow_negative_numbers = true)]
    pub ids: Vec<String>,
}

#[derive(Args)]
pub struct Edit {
    /// Ids of records
    #[arg(value_name = "ID", allow_negative_numbers = true)]
    #[arg(conflicts_with_all = ["all", "failure", "older_than"])]
    pub ids: Vec<String>,

    /// All records of the usual statuses: NEW and ERROR with `archive`, ARCHIVED with `restore`, ERROR
    /// with `retry`
    #[arg(long)]
    pub all: bool,

    /// Records that failed by this cause: its id in `backlog failures`, or a part of its text that no
    /// other has
    #[arg(long, value_name = "GROUP")]
    pub failure: Option<String>,

    /// Those that were inserted longer ago than this: 7days, 12h
    #[arg(long, value_name = "DURATION")]
    pub older_than: Option<WholeSecs>,

    /// Only records with one of these statuses: NEW, ERROR, ARCHIVED
    #[arg(long, value_enum, value_delimiter = ',', ignore_case = true)]
    pub status: Vec<record::Status>,

    /// Change more than 1,000 records without asking
    #[arg(long, short)]
    pub yes: bool,

    /// Say what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Args)]
pub struct Crontab {
    /// Six lines, one for each age, instead of one
    #[arg(long)]
    pub classic: bool,

    /// Units of systemd, a service and a timer for each line
    #[arg(long)]
    pub systemd: bool,

    #[command(flatten)]
    pub queues: AllQueues,
}

#[derive(Args)]
pub struct Simulate {
    /// A policy, as behind `process --policy`; several are compared
    #[arg(long, value_name = "SPEC")]
    pub policy: Vec<String>,

    /// As with `process`
    #[arg(long)]
    pub fibonacci: bool,

    /// As with `process`
    #[arg(long, value_name = "TIERS", num_args = 0..=1, default_missing_value = "true")]
    pub progressive: Option<String>,

    /// The policies by age
    #[arg(long, requires = "policy")]
    pub by_age: bool,

    #[command(flatten)]
    pub pace: Pace,

    /// So many records, which fail all at once
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub records: u32,

    /// These records instead
    #[arg(long, value_name = "ID,...", value_delimiter = ',', conflicts_with = "records")]
    #[arg(allow_hyphen_values = true, value_parser = NonEmptyStringValueParser::new())]
    pub ids: Vec<String>,

    /// The pending records of the table instead, from now on
    #[arg(long, conflicts_with_all = ["records", "ids", "arrivals"])]
    pub from_table: bool,

    /// For how long: 2h, 30days [default: 2h; 7days with --from-table]
    #[arg(long = "for", value_name = "DURATION")]
    pub span: Option<WholeSecs>,

    /// The records arrive evenly over this time, instead of all at once
    #[arg(long, value_name = "DURATION")]
    pub arrivals: Option<WholeSecs>,

    /// Attempts succeed after K failures, instead of never
    #[arg(long, value_name = "K", conflicts_with = "failure_rate")]
    pub success_after: Option<u32>,

    /// So many of a hundred attempts fail, instead of all
    #[arg(long, value_name = "PERCENT")]
    pub failure_rate: Option<Percent>,

    /// The N-th failure archives a record
    #[arg(long, value_name = "N")]
    pub max_attempts: Option<Attempts>,

    /// Draw a picture: a panel for each policy, a dot for each retry
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    /// One JSON line for each attempt instead of tables and charts
    #[arg(long)]
    pub jsonl: bool,
}

/// A command line, parsed: its subcommand, and the layer of options that it makes.
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
        let typed = typed.map(|mut typed| {
            typed.options.words = argv.iter().skip(1).cloned().collect();
            typed
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
        let makes_up = matches!(&cli.command, Command::Simulate(it) if !it.from_table);
        let options = TypedOptions {
            words: Vec::new(),
            layer,
            known,
            set,
            name: cli.global.queue.clone(),
            handler,
            paths: PATHS.into_iter().filter_map(path).collect(),
            may_be_about_all: matches.try_contains_id("all_queues").is_ok(),
            is_about_a_table: !makes_up && !matches!(cli.command, Command::Init(_)),
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
    let kind = ErrorKind::UnknownArgument;
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return error };
    let retired = word.strip_prefix("--").and_then(successor);
    let retired = retired.map(|now| format!("{word} is retired; use {now}"));
    match retired.or_else(|| of_a_handler(word, command, argv)) {
        Some(why) if error.kind() == kind => clap::Error::raw(kind, why).format(command),
        _ => error,
    }
}

/// What is said of a word in the place of a handler's that has no `--` before it. Nothing else of the
/// command line is said again but a number: there may be a password in it.
fn of_a_handler(word: &str, command: &clap::Command, argv: &[OsString]) -> Option<String> {
    let named = argv.iter().find_map(|arg| command.find_subcommand(arg))?;
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
        "unexpected argument '{word}' found: the handler stands behind `--`: ... {before}-- {word}\n"
    ))
}

//! The command line: subcommands and their options, and the layer that those which are typed make.

mod completion;
mod errors;
mod examples;
mod help;

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::parser::ValueSource;
use clap::{
    Arg, ArgAction, ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum,
};
use toml::Value;

use crate::options::keys::{EXEC, PATHS, key_of};
use crate::options::value::{Attempts, Percent, Records, Since, WholeSecs};
use crate::options::{
    HandlerOptions, Layers, Origin, Pace, PassOptions, QueueOptions, ScheduleOptions, TypedOptions,
};
use crate::query::Order;
use crate::record;
use crate::time::Instant;

use errors::retold;

pub use completion::{REQUEST, answer, registration};
pub use examples::Manual;
pub use help::typed as example;

/// Work off a table of pending records from cron
///
/// Each due record goes to your own command or webhook. Those that fail are tried again, less and less
/// often.
///
/// What an option says may also stand in backlog.toml (max_runtime = "4m30s") or in the environment
/// (BACKLOG_MAX_RUNTIME=4m30s): what is typed counts first, then the environment, then the file.
#[derive(Parser)]
#[command(version, arg_required_else_help = true, propagate_version = true)]
#[command(max_term_width = help::WIDTH, disable_help_flag = true, disable_version_flag = true)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,

    #[command(subcommand)]
    pub command: Command,
}

#[derive(Args)]
#[command(next_help_heading = "Table")]
pub struct Global {
    /// The SQLite file, or postgres://user@host/database
    ///
    /// What the URL of a server leaves out is in libpq's variables (PGHOST, PGUSER, PGSSLMODE ...), and
    /// the password, best, in ~/.pgpass.
    #[arg(long, global = true, value_name = "FILE|URL")]
    pub db: Option<PathBuf>,

    /// The file that describes the queues
    ///
    /// Without it the first that is there of the default places.
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub config: Option<PathBuf>,

    /// A queue of backlog.toml
    ///
    /// A file with one queue needs none. Without a file it is a name for handlers and MAX_<NAME>_RETRY_ATTEMPTS.
    #[arg(long, global = true, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub queue: Option<String>,

    /// The directory for claims, cursors and the record of passes
    #[arg(long, global = true, value_name = "DIR", hide_short_help = true)]
    pub state_dir: Option<PathBuf>,

    /// Pretend that it is another time
    ///
    /// 2026-11-21T03:40:00Z, or @ and epoch seconds.
    #[arg(long, global = true, value_name = "INSTANT", hide_short_help = true)]
    pub now: Option<Instant>,

    /// Say more: each record; -vv says everything
    ///
    /// RUST_LOG overrides it.
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = None, display_order = 997)]
    pub verbose: u8,

    /// Print help; --help says more
    #[arg(short, long, global = true, action = ArgAction::Help, help_heading = None, display_order = 998)]
    pub help: Option<bool>,

    /// Print the version
    #[arg(short = 'V', long, global = true, action = ArgAction::Version, help_heading = None)]
    #[arg(hide_short_help = true, display_order = 999)]
    pub version: Option<bool>,
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
    /// Group failed records by cause: how many, and since when
    Failures(Box<Failures>),
    /// Say why records were or were not tried, and when they will be
    Explain(Box<Explain>),
    /// Take pending records out of the way, and keep them
    Archive(Box<Edit>),
    /// Bring archived records back as new ones
    Restore(Box<Edit>),
    /// Make failed or archived records due now
    ///
    /// Their count of failures is kept.
    Retry(Box<Edit>),
    /// Look whether table, handler and crontab are as they must be
    ///
    /// Nothing is written.
    Check(Box<Format>),
    /// Print the crontab lines for a queue
    Crontab(Box<Crontab>),
    /// Draw the load that policies make, before a crontab is changed
    Simulate(Box<Simulate>),
    /// Print what completes command lines in a shell
    Completions(Completions),
    /// Write the manual pages below a directory, /usr/local/share/man
    #[command(hide = true)]
    Man(Man),
    /// End the handlers of a killed pass (started by `process`)
    #[command(hide = true)]
    Watchdog,
}

impl Command {
    /// Whether it has the options of a queue.
    pub fn is_about_a_queue(&self) -> bool {
        !matches!(self, Self::Watchdog | Self::Completions(_) | Self::Man(_))
    }

    /// Tells clap of all options of a subcommand, in the order of its help: those of the groups
    /// that it has, its own, and those of the table.
    fn augment(command: clap::Command) -> clap::Command {
        let about = command.get_about().cloned().unwrap_or_default();
        let long_about = command.get_long_about().cloned();
        let (schedule, handler) = (ScheduleOptions::augment_args, HandlerOptions::augment_args);
        let own: &[fn(clap::Command) -> clap::Command] = match command.get_name() {
            "init" => &[Init::augment_args],
            "add" => &[Add::augment_args],
            "process" => &[schedule, PassOptions::augment_args, Process::augment_args, handler],
            "status" => &[Status::augment_args, schedule],
            "list" => &[List::augment_args, schedule],
            "failures" => &[Failures::augment_args],
            "explain" => &[Explain::augment_args, schedule],
            "archive" | "restore" | "retry" => &[Edit::augment_args],
            "check" => &[Format::augment_args, schedule, handler],
            "crontab" => &[Crontab::augment_args, schedule, handler],
            "simulate" => &[Simulate::augment_args],
            "completions" => return command.defer(Completions::augment_args).about(about),
            "man" => return command.defer(Man::augment_args).about(about),
            _ => return command,
        };
        // Here is all that was put off. A group of options has set its own text.
        let command = command.defer(std::convert::identity);
        let command = own.iter().fold(command, |command, augment| augment(command));
        let command = QueueOptions::augment_args(command).about(about.clone());
        command.long_about(long_about.unwrap_or(about))
    }
}

#[derive(Args)]
pub struct Init {
    /// Only ID, STATUS, DATE_INSERTED and PAYLOAD
    #[arg(long)]
    pub minimal: bool,

    /// Leave a table that is there as it is
    #[arg(long)]
    pub if_missing: bool,
}

#[derive(Args)]
pub struct Add {
    /// JSON documents, or - for one in each line of standard input
    #[arg(required = true, value_name = "PAYLOAD")]
    pub payloads: Vec<String>,
}

#[derive(Args)]
pub struct Process {
    /// Print what would be tried, and do nothing
    ///
    /// And why the others would not be.
    #[arg(long, conflicts_with_all = ["drain", "wait"])]
    pub dry_run: bool,

    /// Go on until nothing is due
    #[arg(long)]
    pub drain: bool,

    /// Wait for a running pass of the same line
    ///
    /// Without it the work is left to that one.
    #[arg(long, hide_short_help = true)]
    pub wait: bool,

    /// Each queue of backlog.toml after the other
    ///
    /// One that fails does not stop the next.
    #[arg(long, conflicts_with = "queue", hide_short_help = true)]
    pub all_queues: bool,
}

#[derive(Args)]
pub struct Format {
    /// One line of JSON for each queue
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub queues: AllQueues,
}

#[derive(Args)]
pub struct Status {
    /// Show the last N passes of all crontab lines as well
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
    /// Which records go first, newest or oldest
    #[arg(long, value_enum, hide_possible_values = true)]
    pub order: Option<Order>,

    /// Only these: NEW, ERROR, SUCCESS, ARCHIVED
    #[arg(long, value_name = "STATUS,...", value_enum, hide_possible_values = true)]
    #[arg(value_delimiter = ',', ignore_case = true)]
    pub status: Vec<record::Status>,

    /// Only what is due, by the schedule
    #[arg(long)]
    pub due: bool,

    /// Only those inserted since then: 2h, 7days, or an instant
    #[arg(long, value_name = "INSTANT")]
    pub since: Option<Since>,

    /// Only those that failed by one cause
    ///
    /// Its id, as `backlog failures` shows it, or a text that no other has.
    #[arg(long, value_name = "GROUP")]
    pub failure: Option<String>,

    /// Show no more than N
    #[arg(long, value_name = "N")]
    pub limit: Option<Records>,

    /// One line of JSON for each record
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct Failures {
    /// Only these: ERROR, ARCHIVED; without it all that wait
    ///
    /// NEW where no column tells failed records from new ones.
    #[arg(long, value_name = "STATUS,...", value_enum, hide_possible_values = true)]
    #[arg(value_delimiter = ',', ignore_case = true)]
    pub status: Vec<record::Status>,

    /// One line of JSON for each cause
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub queues: AllQueues,
}

#[derive(Args)]
pub struct Explain {
    /// Ids of records
    #[arg(required = true, value_name = "ID", allow_negative_numbers = true)]
    pub ids: Vec<String>,
}

#[derive(Args)]
pub struct Edit {
    /// Ids of records
    #[arg(value_name = "ID", allow_negative_numbers = true)]
    #[arg(conflicts_with_all = ["all", "failure", "older_than"])]
    pub ids: Vec<String>,

    /// All records of the usual statuses
    ///
    /// NEW and ERROR with `archive`, ARCHIVED with `restore`, ERROR with `retry`.
    #[arg(long)]
    pub all: bool,

    /// Records that failed by one cause
    ///
    /// Its id, as `backlog failures` shows it, or a text that no other has.
    #[arg(long, value_name = "GROUP")]
    pub failure: Option<String>,

    /// Records inserted longer ago than this: 7days, 12h
    #[arg(long, value_name = "DURATION")]
    pub older_than: Option<WholeSecs>,

    /// Only records that are NEW, ERROR or ARCHIVED
    #[arg(long, value_name = "STATUS,...", value_enum, hide_possible_values = true)]
    #[arg(value_delimiter = ',', ignore_case = true)]
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
    /// Six lines, one for each range of ages
    #[arg(long)]
    pub classic: bool,

    /// A service and a timer of systemd for each line
    #[arg(long)]
    pub systemd: bool,

    #[command(flatten)]
    pub queues: AllQueues,
}

#[derive(Args)]
pub struct Simulate {
    /// A policy; several are compared
    #[arg(long, value_name = "SPEC")]
    pub policy: Vec<String>,

    /// The schedule of process --fibonacci
    #[arg(long)]
    pub fibonacci: bool,

    /// The schedule of process --progressive
    #[arg(long, value_name = "TIERS", num_args = 0..=1, default_missing_value = "true")]
    pub progressive: Option<String>,

    /// The policies by age, as without counts of failures
    #[arg(long, requires = "policy")]
    pub by_age: bool,

    #[command(flatten)]
    pub pace: Pace,

    /// So many records, which all fail at once
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub records: u32,

    /// Records with these ids instead
    #[arg(long, value_name = "ID,...", value_delimiter = ',', conflicts_with = "records")]
    #[arg(allow_hyphen_values = true, value_parser = NonEmptyStringValueParser::new())]
    pub ids: Vec<String>,

    /// The pending records of the table instead
    #[arg(long, conflicts_with_all = ["records", "ids", "arrivals"])]
    pub from_table: bool,

    /// For how long [default: 2h; of a table 7days]
    #[arg(long = "for", value_name = "DURATION")]
    pub span: Option<WholeSecs>,

    /// The records arrive evenly over this time
    #[arg(long, value_name = "DURATION")]
    pub arrivals: Option<WholeSecs>,

    /// Attempts succeed after K failures, not never
    #[arg(long, value_name = "K", conflicts_with = "failure_rate")]
    pub success_after: Option<u32>,

    /// So many of a hundred attempts fail, not all
    #[arg(long, value_name = "PERCENT")]
    pub failure_rate: Option<Percent>,

    /// The N-th failure archives a record
    #[arg(long, value_name = "N")]
    pub max_attempts: Option<Attempts>,

    /// What the policies are called; may be repeated
    ///
    /// The labels are those of --fibonacci, of --progressive, and of each --policy, in this order.
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub label: Vec<String>,

    /// Draw a picture, with a dot for each retry
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    /// A line of JSON for each attempt, no charts
    #[arg(long)]
    pub jsonl: bool,
}

#[derive(Args)]
pub struct Completions {
    #[arg(value_enum)]
    pub shell: Shell,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

#[derive(Args)]
pub struct Man {
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

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
        let typed = typed.map(|mut typed| {
            typed.options.words = argv.iter().skip(1).cloned().collect();
            typed
        });
        typed.map_err(|error| retold(error, &mut command, &argv))
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
    if shows_help { with_help(command) } else { command }
}

/// The command line with all its subcommands, their options and their help.
pub fn whole_command() -> clap::Command {
    with_help(Cli::command().mut_subcommands(Command::augment))
}

fn with_help(command: clap::Command) -> clap::Command {
    help::with_help(command).mut_subcommands(help::with_help)
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

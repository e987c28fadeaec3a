//! The command line: subcommands and their options as clap parses them, and nothing else.

mod deferred;
mod handler;
mod schedule;
mod table;
mod typed;
mod value;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::engine::RateLimit;
use crate::time::Instant;

use deferred::Deferred;

pub use handler::Handler;
pub use schedule::{Pace, Schedule};
pub use table::Table;
pub use typed::{CommandLine, Given, Typed, complaint, first_line};
pub use value::Several;

/// Works off a table of pending records: each goes to your own command or webhook, failed ones are
/// tried again, less and less often.
///
/// What an option says may also stand in backlog.toml (max_runtime = "4m30s") or in the environment
/// (BACKLOG_MAX_RUNTIME=4m30s): what is typed counts first, then the environment, then the file.
#[derive(Clone, Parser)]
#[command(version, arg_required_else_help = true, propagate_version = true)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,

    #[command(subcommand)]
    pub command: Command,
}

#[derive(Clone, Args)]
pub struct Global {
    /// The SQLite database, or a PostgreSQL server: postgres://user@host/database
    #[arg(long, global = true, help_heading = "Everywhere", value_name = "FILE|URL")]
    pub db: Option<PathBuf>,

    /// Where the queues are described [default: ./backlog.toml, then
    /// ~/.config/backlog/config.toml, then /etc/backlog.toml]
    #[arg(long, global = true, help_heading = "Everywhere", value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// One of the queues described there, or just a name for handlers [default: default]
    #[arg(
        long,
        global = true,
        help_heading = "Everywhere",
        value_name = "NAME",
        value_parser = clap::builder::NonEmptyStringValueParser::new()
    )]
    pub queue: Option<String>,

    /// Where claims and cursors are kept [default: FILE.backlog; ~/.local/state/backlog with a
    /// server]
    #[arg(long, global = true, help_heading = "Everywhere", value_name = "DIR")]
    pub state_dir: Option<PathBuf>,

    /// Pretend that it is this instant: 2026-11-21T03:40:00Z, or @ and epoch seconds
    #[arg(long, global = true, help_heading = "Everywhere", value_name = "INSTANT")]
    pub now: Option<Instant>,

    /// Say more: every record; twice, everything (RUST_LOG overrides)
    #[arg(short, long, global = true, help_heading = "Everywhere", action = clap::ArgAction::Count)]
    pub verbose: u8,
}

#[derive(Clone, Subcommand)]
pub enum Command {
    /// Create the table
    Init(Deferred<Init>),
    /// Add records
    Add(Deferred<Add>),
    /// Hand the due records to a command or a webhook
    Process(Deferred<Process>),
    /// Count the records, and say what is due
    Status(Deferred<Status>),
    /// List the records
    List(Deferred<List>),
    /// Say of records why they were or were not tried, and when they will be
    Explain(Deferred<Explain>),
    /// Take pending records out of the way; they are kept
    Archive(Deferred<Edit>),
    /// Bring archived records back as new ones
    Restore(Deferred<Restore>),
    /// Make failed or archived records due now; their count of failures is kept
    Retry(Deferred<Edit>),
    /// Look whether the table, the handler and the crontab are as they must be; touch nothing
    Check(Deferred<Check>),
    /// Print the crontab lines for a queue
    Crontab(Deferred<Crontab>),
    /// Draw the load that a policy makes, before a crontab is changed
    Simulate(Deferred<Simulate>),
    /// End the handlers of a killed pass (started by `process`)
    #[command(hide = true)]
    Watchdog,
}

impl Command {
    /// What tells clap of the options of a subcommand.
    fn augmentation(name: &str) -> fn(clap::Command) -> clap::Command {
        match name {
            "init" => Deferred::<Init>::augment,
            "add" => Deferred::<Add>::augment,
            "process" => Deferred::<Process>::augment,
            "status" => Deferred::<Status>::augment,
            "list" => Deferred::<List>::augment,
            "explain" => Deferred::<Explain>::augment,
            "archive" | "retry" => Deferred::<Edit>::augment,
            "restore" => Deferred::<Restore>::augment,
            "check" => Deferred::<Check>::augment,
            "crontab" => Deferred::<Crontab>::augment,
            "simulate" => Deferred::<Simulate>::augment,
            _ => |command| command,
        }
    }
}

#[derive(Clone, Args)]
pub struct Init {
    /// Only ID, STATUS, DATE_INSERTED and PAYLOAD
    #[arg(long)]
    pub minimal: bool,
}

#[derive(Clone, Args)]
pub struct Add {
    /// JSON documents; `-` reads one from each line of standard input
    #[arg(required = true, value_name = "PAYLOAD")]
    pub payloads: Vec<String>,
}

#[derive(Clone, Args)]
pub struct Process {
    #[command(flatten)]
    pub schedule: Schedule,

    /// Handlers at a time; with --stream so many processes, each with its --window
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: u16,

    /// End a handler that runs longer, or with --stream is silent for longer, as a failure; `none`
    /// for no limit [default: 1h; 30s with --post]
    #[arg(long, value_name = "DURATION", value_parser = value::duration_or_none)]
    pub timeout: Option<value::Limit>,

    /// What a handler gets to end in before it is killed
    #[arg(long, value_name = "DURATION", value_parser = value::grace, default_value = "10s")]
    pub grace: Duration,

    /// Stop after N attempts; the next pass goes on behind them
    #[arg(long, value_name = "N", value_parser = value::at_least_one::<u64>)]
    pub max_records: Option<u64>,

    /// End the pass after this long, 4m30s: no more handlers are started, and those that run get
    /// --grace to end
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub max_runtime: Option<Duration>,

    /// Stop after N records in a row that failed: what they need is down, and the rest is left as
    /// it
    /// is
    #[arg(long, value_name = "N", value_parser = value::at_least_one::<u32>)]
    pub max_consecutive_failures: Option<u32>,

    /// Begin no more attempts than this: 50/s, 100/m, 1000/h
    #[arg(long, value_name = "RATE")]
    pub rate: Option<RateLimit>,

    /// A command for each record that is archived, "notify {id}"; it gets what a handler gets
    #[arg(long, value_name = "COMMAND")]
    pub on_archive: Option<String>,

    /// Which records go first
    #[arg(long, value_enum, default_value_t = Order::Newest)]
    pub order: Order,

    /// Print what would be tried, and why not the others; touch nothing
    #[arg(long, conflicts_with_all = ["drain", "wait"])]
    pub dry_run: bool,

    /// Go on until nothing is due
    #[arg(long)]
    pub drain: bool,

    /// Exit 1 if any record failed
    #[arg(long)]
    pub strict: bool,

    /// Wait for a running pass of the same line, instead of leaving the work to it
    #[arg(long)]
    pub wait: bool,

    /// Append one JSON line for each attempt
    #[arg(long, value_name = "FILE")]
    pub joblog: Option<PathBuf>,

    /// Each queue of backlog.toml after the other; one that fails does not stop the next
    #[arg(long, conflicts_with = "queue")]
    pub all_queues: bool,

    #[command(flatten)]
    pub handler: Handler,
}

#[derive(Clone, Args)]
pub struct Status {
    #[command(flatten)]
    pub schedule: Schedule,

    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Args)]
pub struct List {
    #[command(flatten)]
    pub schedule: Schedule,

    /// Only these: NEW, ERROR, SUCCESS, ARCHIVED
    #[arg(long, value_enum, value_delimiter = ',', ignore_case = true)]
    pub status: Vec<StatusName>,

    /// Only what is due (with --ndays, --fibonacci, --policy or --progressive)
    #[arg(long)]
    pub due: bool,

    /// Which records go first
    #[arg(long, value_enum, default_value_t = Order::Newest)]
    pub order: Order,

    /// One JSON object for each record
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Args)]
pub struct Explain {
    /// The records
    #[arg(required = true, value_name = "ID", allow_negative_numbers = true)]
    pub ids: Vec<String>,

    #[command(flatten)]
    pub schedule: Schedule,
}

#[derive(Clone, Args)]
pub struct Edit {
    /// The records
    #[arg(required = true, value_name = "ID", allow_negative_numbers = true)]
    pub ids: Vec<String>,

    /// Say what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Clone, Args)]
#[command(group = clap::ArgGroup::new("which").args(["ids", "all"]).required(true))]
pub struct Restore {
    /// The records
    #[arg(value_name = "ID", allow_negative_numbers = true)]
    pub ids: Vec<String>,

    /// Every archived record, as far as --where holds: "LAST_ERROR LIKE '%timeout%'"
    #[arg(long)]
    pub all: bool,

    /// Say what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Clone, Args)]
pub struct Check {
    #[command(flatten)]
    pub schedule: Schedule,

    /// One JSON object
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub handler: Handler,
}

#[derive(Clone, Args)]
pub struct Crontab {
    #[command(flatten)]
    pub schedule: Schedule,

    /// Six lines, one for each age, instead of one
    #[arg(long)]
    pub classic: bool,

    /// Units of systemd, a service and a timer for each line
    #[arg(long)]
    pub systemd: bool,

    #[command(flatten)]
    pub handler: Handler,
}

#[derive(Clone, Args)]
pub struct Simulate {
    /// A policy, as behind `process --policy`; several are compared
    #[arg(long, value_name = "SPEC")]
    pub policy: Vec<String>,

    /// As with `process`
    #[arg(long)]
    pub fibonacci: bool,

    /// As with `process`
    #[arg(long, value_name = "TIERS", num_args = 0..=1)]
    pub progressive: Option<Option<String>>,

    /// The policies by age
    #[arg(long, requires = "policy")]
    pub by_age: bool,

    #[command(flatten)]
    pub pace: Pace,

    /// So many records, which fail all at once
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub records: u32,

    /// These records instead
    #[arg(
        long,
        value_name = "ID,...",
        value_delimiter = ',',
        conflicts_with = "records",
        value_parser = clap::builder::NonEmptyStringValueParser::new(),
        allow_hyphen_values = true
    )]
    pub ids: Vec<String>,

    /// The pending records of the table instead, from now on
    #[arg(long, conflicts_with_all = ["records", "ids", "arrivals"])]
    pub from_table: bool,

    /// For how long: 2h, 30days [default: 2h; 7days with --from-table]
    #[arg(long = "for", value_name = "DURATION", value_parser = value::whole_secs)]
    pub span: Option<i64>,

    /// The records arrive evenly over this time, instead of all at once
    #[arg(long, value_name = "DURATION", value_parser = value::whole_secs)]
    pub arrivals: Option<i64>,

    /// Attempts succeed after K failures, instead of never
    #[arg(long, value_name = "K", conflicts_with = "failure_rate")]
    pub success_after: Option<u32>,

    /// So many of a hundred attempts fail, instead of all
    #[arg(long, value_name = "PERCENT", value_parser = value::percent)]
    pub failure_rate: Option<u8>,

    /// The N-th failure archives a record
    #[arg(long, value_name = "N", value_parser = value::at_least_one::<u32>)]
    pub max_attempts: Option<u32>,

    /// Draw a picture: a panel for each policy, a dot for each retry
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    /// One JSON line for each attempt instead of tables and charts
    #[arg(long)]
    pub jsonl: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Order {
    Newest,
    Oldest,
}

#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "UPPER")]
pub enum StatusName {
    New,
    Error,
    Success,
    Archived,
}

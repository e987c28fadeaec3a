//! The command line: subcommands and their options as clap parses them, and nothing else.

mod typed;

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgAction, Args, Parser, Subcommand};

use crate::options::value::{Attempts, Percent, WholeSecs};
use crate::options::{
    HandlerOptions, OrderOption, Pace, PassOptions, QueueOptions, ScheduleOptions,
};
use crate::record::Status;
use crate::time::Instant;

pub use typed::Typed;

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
    Status(Box<Format>),
    /// List the records
    List(Box<List>),
    /// Say of records why they were or were not tried, and when they will be
    Explain(Box<Explain>),
    /// Take pending records out of the way; they are kept
    Archive(Box<Edit>),
    /// Bring archived records back as new ones
    Restore(Box<Restore>),
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
    /// Whether it works on a table that is there: all but the making of one, and simulations of
    /// made-up records.
    fn is_about_a_table(&self) -> bool {
        let makes_up = matches!(self, Self::Simulate(simulate) if !simulate.from_table);
        !makes_up && !matches!(self, Self::Init(_) | Self::Watchdog)
    }

    /// Tells clap of all options of a subcommand, in the order of its help: those of the groups
    /// that it has, its own, and those of the table.
    fn augment(command: clap::Command) -> clap::Command {
        let about = command.get_about().cloned();
        let (schedule, handler) = (ScheduleOptions::augment_args, HandlerOptions::augment_args);
        let own: &[fn(clap::Command) -> clap::Command] = match command.get_name() {
            "init" => &[Init::augment_args],
            "add" => &[Add::augment_args],
            "process" => &[schedule, PassOptions::augment_args, Process::augment_args, handler],
            "status" => &[schedule, Format::augment_args],
            "list" => &[schedule, OrderOption::augment_args, List::augment_args],
            "explain" => &[Explain::augment_args, schedule],
            "archive" | "retry" => &[Edit::augment_args],
            "restore" => &[Restore::augment_args],
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
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct List {
    /// Only these: NEW, ERROR, SUCCESS, ARCHIVED
    #[arg(long, value_enum, value_delimiter = ',', ignore_case = true)]
    pub status: Vec<Status>,

    /// Only what is due (with --ndays, --fibonacci, --policy or --progressive)
    #[arg(long)]
    pub due: bool,

    /// One JSON object for each record
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct Explain {
    /// The records
    #[arg(required = true, value_name = "ID", allow_negative_numbers = true)]
    pub ids: Vec<String>,
}

#[derive(Args)]
pub struct Edit {
    /// The records
    #[arg(required = true, value_name = "ID", allow_negative_numbers = true)]
    pub ids: Vec<String>,

    /// Say what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Args)]
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

#[derive(Args)]
pub struct Crontab {
    /// Six lines, one for each age, instead of one
    #[arg(long)]
    pub classic: bool,

    /// Units of systemd, a service and a timer for each line
    #[arg(long)]
    pub systemd: bool,
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

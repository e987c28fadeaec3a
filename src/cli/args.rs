//! The options of each subcommand that are its own, and no keys of a queue.

use std::path::PathBuf;

use backlog_schedule::{Order, Status as RecordStatus};
use clap::{Args, ValueEnum};

use crate::options::Pace;
use crate::options::value::{AgeSecs, Attempts, Records, Since, WholeSecs, named};
use crate::report::{FIGURES, Figure};

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
pub struct Adopt {
    /// The table [default: the one that looks like a queue]
    #[arg(value_name = "TABLE")]
    pub name: Option<String>,

    /// Name of the table, like TABLE
    #[arg(long, conflicts_with = "name", id = "adopted_table", value_name = "NAME")]
    pub table: Option<String>,
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
pub struct Pause {
    /// For how long [default: until `resume`]
    #[arg(long = "for", value_name = "DURATION")]
    pub span: Option<WholeSecs>,

    /// What passes and `status` say of it
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

#[derive(Args, Default)]
pub struct Format {
    /// One line of JSON for each queue
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub queues: AllQueues,
}

#[derive(Args, Default)]
pub struct Check {
    /// Try what a pass writes for a record, and take it back
    ///
    /// For one that is NEW and one that is ERROR: the record is claimed, and in a transaction that is
    /// rolled back the triggers of the table run with all that a pass may write. No handler is started.
    #[arg(long)]
    pub rehearse: bool,

    #[command(flatten)]
    pub format: Format,
}

#[derive(Args)]
pub struct Status {
    /// Show the last N passes of all crontab lines as well
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub passes: usize,

    /// Forget the passes of a line that is gone
    ///
    /// LINE is its policy, as `status --passes 9` lists it: --forget='--ndays 1'. A line is forgotten
    /// by itself after 30 days without a pass, and when backlog.toml does not describe it any more.
    #[arg(long, value_name = "LINE", allow_hyphen_values = true)]
    #[arg(conflicts_with_all = ["all_queues", "json", "html", "warn_if", "fail_if", "table_metrics"])]
    pub forget: Option<String>,

    /// Exit 1 if a figure is beyond its limit: due>100,oldest_due>1h
    #[arg(long, long_help = warn_if(), value_name = "LIMITS", conflicts_with = "json")]
    pub warn_if: Option<String>,

    /// Exit 2 if a figure is beyond its limit: archived_24h>0
    ///
    /// Both may be given: exit 2 goes before exit 1.
    #[arg(long, value_name = "LIMITS", conflicts_with = "json")]
    pub fail_if: Option<String>,

    /// Write the figures for Prometheus as well
    ///
    /// The file is one of node_exporter's textfile collector. Passes and tables may share it.
    #[arg(long = "metrics", id = "table_metrics", value_name = "FILE")]
    pub table_metrics: Option<PathBuf>,

    /// Make a web page of it instead, for cron
    ///
    /// One file with all in it, which asks no other for anything. A reader never sees half of it. The page is loaded
    /// again every 5 minutes, or as often as passes run where that is less often, and says in red when no newer one
    /// has come.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "passes"])]
    pub html: Option<PathBuf>,

    #[command(flatten)]
    pub format: Format,
}

/// The help of `--warn-if`, with all figures.
fn warn_if() -> String {
    let mut text = String::from(
        "Exit 1 if a figure is beyond its limit: due>100,oldest_due>1h\n\n\
         One line says which, as monitoring plugins have it, and nothing else is shown; exit 3 says \
         that it cannot be told. A limit is >, >=, < or <= with a number, or of the figures oldest_... \
         and last_... with a duration: 90s, 15m, 1h30m, 2days. The figures:\n",
    );
    for Figure { name, says, .. } in &FIGURES {
        text += &format!("\n- {name}: {says}");
    }
    text
}

impl Status {
    /// Whether it is asked by monitoring, which gets a line and an exit code of its own.
    pub fn has_limits(&self) -> bool {
        self.warn_if.is_some() || self.fail_if.is_some()
    }
}

#[derive(Args, Default)]
pub struct AllQueues {
    /// Work on each queue of backlog.toml
    #[arg(long, conflicts_with = "queue")]
    pub all_queues: bool,
}

#[derive(Args)]
pub struct List {
    /// Which records go first, newest or oldest
    #[arg(long, value_parser = named::<Order>(Order::NAMES), hide_possible_values = true)]
    pub order: Option<Order>,

    /// Only these: NEW, ERROR, SUCCESS, ARCHIVED
    #[arg(long, value_name = "STATUS,...", value_parser = named::<RecordStatus>(RecordStatus::OURS.map(RecordStatus::name)))]
    #[arg(hide_possible_values = true, value_delimiter = ',', ignore_case = true)]
    pub status: Vec<RecordStatus>,

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
    /// Only records that are NEW, ERROR or ARCHIVED
    ///
    /// Without it those that wait. NEW records have failed too where the table does not tell them from
    /// failed ones.
    #[arg(long, value_name = "STATUS,...", value_parser = named::<RecordStatus>(RecordStatus::OURS.map(RecordStatus::name)))]
    #[arg(hide_possible_values = true, value_delimiter = ',', ignore_case = true)]
    pub status: Vec<RecordStatus>,

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

    /// All records that the command can change
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
    pub older_than: Option<AgeSecs>,

    /// Only records that are NEW, ERROR or ARCHIVED
    #[arg(long, value_name = "STATUS,...", value_parser = named::<RecordStatus>(RecordStatus::OURS.map(RecordStatus::name)))]
    #[arg(hide_possible_values = true, value_delimiter = ',', ignore_case = true)]
    pub status: Vec<RecordStatus>,

    /// Change more than 1,000 records without asking
    #[arg(long, short)]
    pub yes: bool,

    /// Say what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Whose systemd runs a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Systemd {
    System,
    User,
}

#[derive(Args)]
pub struct Crontab {
    /// Six lines, one for each range of ages
    #[arg(long)]
    pub classic: bool,

    /// A service and a timer of systemd instead
    ///
    /// They are those of the system, with the user who types this; with --systemd=user those of that
    /// user's own systemd.
    #[arg(long, value_name = "OF", num_args = 0..=1, require_equals = true, default_missing_value = "system")]
    #[arg(conflicts_with = "classic")]
    pub systemd: Option<Systemd>,

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
    #[arg(long, requires = "policy", hide_short_help = true)]
    pub by_age: bool,

    #[command(flatten)]
    pub pace: Pace,

    /// Number of records, which all fail at once
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub records: u32,

    /// The pending records of the table instead
    #[arg(long, conflicts_with = "records")]
    pub from_table: bool,

    /// For how long [default: 2h; of a table 7days]
    #[arg(long = "for", value_name = "DURATION")]
    pub span: Option<WholeSecs>,

    /// The N-th failure archives a record
    #[arg(long, value_name = "N")]
    pub max_attempts: Option<Attempts>,

    /// Draw a picture, with a dot for each retry
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    /// A line of JSON for each attempt, no charts
    #[arg(long)]
    pub jsonl: bool,
}

#[derive(Args)]
pub struct Completions {
    /// The shell
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
    /// The directory, as /usr/local/share/man
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

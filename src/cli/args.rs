//! Options of subcommands that are not keys of a queue.

use std::path::PathBuf;
use std::time::Duration;

use backlog_schedule::{Instant, Status, parse_duration};
use clap::{Args, ValueEnum, ValueHint};

use crate::options::Setting;
use crate::options::value::{Since, age, at_least_one, finished_age, one_of, since, whole_secs};
use crate::report::{FIGURES, Figure};

#[derive(Args)]
pub struct InitArgs {
    /// Create only ID, STATUS, DATE_INSERTED and PAYLOAD
    #[arg(long)]
    pub minimal: bool,

    /// Do nothing if the table exists
    #[arg(long)]
    pub if_missing: bool,
}

#[derive(Args)]
pub struct AdoptArgs {
    /// Name of the table [default: the one that looks like a queue]
    #[arg(value_name = "TABLE")]
    pub name: Option<String>,

    /// Name of the table, same as TABLE
    #[arg(long, conflicts_with = "name", id = "adopted_table", value_name = "NAME")]
    pub table: Option<String>,
}

#[derive(Args)]
pub struct AddArgs {
    /// JSON documents, or a file with one on each line
    ///
    /// With -, the documents are read from standard input.
    #[arg(required = true, value_name = "PAYLOAD", value_hint = ValueHint::FilePath)]
    pub payloads: Vec<String>,
}

// These options narrow or extend the values of lower layers, instead of replacing them.
#[derive(Args)]
#[command(next_help_heading = "Table")]
pub struct TableArgs {
    /// Set a key of backlog.toml: id=order_id; repeatable
    ///
    /// Write the value as in backlog.toml, or without quotes: 'status={column="state",new=[2,3]}'.
    #[arg(long, value_name = "KEY=VALUE", hide_short_help = true)]
    pub set: Vec<Setting>,

    /// SQL condition that the records must meet
    ///
    /// It narrows the condition of backlog.toml.
    #[arg(long = "where", value_name = "SQL", hide_short_help = true)]
    pub condition: Option<String>,
}

#[derive(Args)]
#[command(next_help_heading = "Pass")]
pub struct ProcessArgs {
    /// Ids of records to try now, due or not
    ///
    /// Only pending records are tried, and no schedule is needed. Prints the result of each record, and exits
    /// with 0 if all succeeded. This is not a pass, and passes under cron continue meanwhile.
    #[arg(value_name = "ID", allow_negative_numbers = true)]
    #[arg(conflicts_with_all = ["dry_run", "drain", "wait", "all_queues"])]
    // clap completes the word after `--` as the first positional argument.
    #[arg(value_hint = ValueHint::ExecutablePath)]
    pub ids: Vec<String>,

    /// With ID: also try SUCCESS records
    #[arg(long, requires = "ids", hide_short_help = true)]
    pub again: bool,

    /// Print what would be tried, and do nothing
    ///
    /// Also prints why other records would not be tried.
    #[arg(long, short = 'n', conflicts_with_all = ["drain", "wait"])]
    pub dry_run: bool,

    /// At a terminal, print no more than under cron
    #[arg(long, short, hide_short_help = true)]
    pub quiet: bool,

    /// Continue until no record is due
    #[arg(long)]
    pub drain: bool,

    /// Wait for a running pass of the same crontab line
    ///
    /// Without this option, the new pass exits at once and leaves the work to the running one.
    #[arg(long, hide_short_help = true)]
    pub wait: bool,

    /// Process all queues of backlog.toml, one after the other
    ///
    /// A queue that fails does not stop the next one.
    #[arg(long, conflicts_with = "queue", hide_short_help = true)]
    pub all_queues: bool,
}

#[derive(Args)]
pub struct PauseArgs {
    /// Length of the pause [default: until `resume`]
    #[arg(long = "for", value_name = "DURATION", value_parser = whole_secs)]
    pub span: Option<i64>,

    /// End of the pause
    ///
    /// INSTANT is 2026-11-21T03:40:00Z, or @ and the seconds since 1970.
    #[arg(long, value_name = "INSTANT", conflicts_with = "span")]
    pub until: Option<Instant>,

    /// Reason that passes and `status` print
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

#[derive(Args, Default)]
pub struct FormatArgs {
    /// Print one line of JSON for each queue
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub queues: AllQueuesArgs,
}

#[derive(Args, Default)]
pub struct CheckArgs {
    /// Try all writes of a pass, and roll them back
    ///
    /// Claims one NEW and one ERROR record, and makes all changes that a pass may make to them. The triggers
    /// of the table run, and the transaction is rolled back. No handler is started.
    #[arg(long)]
    pub rehearse: bool,

    #[command(flatten)]
    pub format: FormatArgs,
}

#[derive(Args)]
pub struct StatusArgs {
    /// Also show the last N passes of all crontab lines
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub passes: usize,

    /// Forget the passes of a removed line
    ///
    /// LINE is the policy as `status --passes 9` prints it: --forget='--ndays 1'. A line is forgotten
    /// automatically after 30 days without a pass, and when backlog.toml no longer describes it.
    #[arg(long, value_name = "LINE", allow_hyphen_values = true)]
    #[arg(conflicts_with_all = ["all_queues", "json", "html", "warn_if", "fail_if", "table_metrics"])]
    pub forget: Option<String>,

    /// Exit 1 if a figure is beyond its limit: due>100
    #[arg(long, long_help = warn_if(), value_name = "LIMITS", conflicts_with = "json")]
    pub warn_if: Option<String>,

    /// Exit 2 if a figure is beyond its limit: archived_24h>0
    ///
    /// Can be combined with --warn-if; exit 2 takes precedence.
    #[arg(long, value_name = "LIMITS", conflicts_with = "json")]
    pub fail_if: Option<String>,

    /// Also write the figures for Prometheus
    ///
    /// The file is for the textfile collector of node_exporter. Passes and tables may share it.
    #[arg(long = "metrics", id = "table_metrics", value_name = "FILE")]
    pub table_metrics: Option<PathBuf>,

    /// Write a web page instead
    ///
    /// The page is one self-contained file, which is replaced atomically. It reloads every 5 minutes, or
    /// less often if passes run less often, and shows a red warning if the next version is late.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "passes"])]
    pub html: Option<PathBuf>,

    #[command(flatten)]
    pub format: FormatArgs,
}

/// The help of `--warn-if`, with all figures.
fn warn_if() -> String {
    let mut text = String::from(
        "Exit 1 if a figure is beyond its limit: due>100,oldest_due>1h\n\n\
         Prints only one line, which names the figures beyond their limits, as monitoring plugins do. Exit \
         3 means that the figures are unknown. A limit is >, >=, < or <= and a number; for `failing` and for \
         figures that begin with oldest_ or last_, it is a duration: 90s, 15m, 1h30m, 2days. The figures:\n",
    );
    for Figure { name, help, .. } in FIGURES {
        text += &format!("\n- {name}: {help}");
    }
    text
}

impl StatusArgs {
    /// With limits, monitoring gets one line and the exit codes of a plugin.
    pub fn has_limits(&self) -> bool {
        self.warn_if.is_some() || self.fail_if.is_some()
    }
}

#[derive(Args, Default)]
pub struct AllQueuesArgs {
    /// Use all queues of backlog.toml
    #[arg(long, conflicts_with = "queue")]
    pub all_queues: bool,
}

#[derive(Args)]
pub struct ListArgs {
    /// Only NEW, ERROR, SUCCESS or ARCHIVED records
    #[arg(long, value_name = "STATUS,...", value_parser = one_of(Status::OURS))]
    #[arg(hide_possible_values = true, value_delimiter = ',', ignore_case = true)]
    pub status: Vec<Status>,

    /// Only records that are due by the schedule
    #[arg(long)]
    pub due: bool,

    /// Only records inserted since this time
    ///
    /// INSTANT is 2026-11-21T03:40:00Z, or a duration before now, such as 2h or 7days.
    #[arg(long, value_name = "INSTANT", value_parser = since)]
    pub since: Option<Since>,

    /// Only records with this cause of failure
    ///
    /// GROUP is the id of a cause in `backlog failures`, or text that only this cause contains.
    #[arg(long, value_name = "GROUP")]
    pub failure: Option<String>,

    /// Show at most N records
    #[arg(long, value_name = "N", value_parser = at_least_one::<u64>)]
    pub limit: Option<u64>,

    /// Print one line of JSON for each record
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct FailuresArgs {
    /// Only NEW, ERROR or ARCHIVED records
    ///
    /// By default, pending records are grouped, and ARCHIVED ones below them. NEW records may have failed too,
    /// if the table cannot distinguish new records from failed ones.
    #[arg(long, value_name = "STATUS,...", value_parser = one_of(Status::OURS))]
    #[arg(hide_possible_values = true, value_delimiter = ',', ignore_case = true)]
    pub status: Vec<Status>,

    /// Print one line of JSON for each cause
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub queues: AllQueuesArgs,
}

#[derive(Args)]
pub struct ShowArgs {
    /// Ids of records, or their first six or more characters
    #[arg(required = true, value_name = "ID", allow_negative_numbers = true)]
    pub ids: Vec<String>,

    /// Print each record as its handler gets it
    #[arg(long)]
    pub json: bool,
}

// The records of `explain` and `stop`.
#[derive(Args)]
pub struct IdsArgs {
    /// Ids of records, or their first six or more characters
    #[arg(required = true, value_name = "ID", allow_negative_numbers = true)]
    pub ids: Vec<String>,
}

#[derive(Args)]
pub struct EditArgs {
    /// Ids of records, or their first six or more characters
    #[arg(value_name = "ID", allow_negative_numbers = true)]
    #[arg(conflicts_with_all = ["all", "failure", "older_than"])]
    pub ids: Vec<String>,

    /// Change all records that the command can change
    ///
    /// These are NEW and ERROR records for `archive`, ARCHIVED ones for `restore`, ERROR ones for `retry`.
    #[arg(long)]
    pub all: bool,

    /// Change the records with this cause of failure
    ///
    /// GROUP is the id of a cause in `backlog failures`, or text that only this cause contains.
    #[arg(long, value_name = "GROUP")]
    pub failure: Option<String>,

    /// Change records older than this: 7days, 12h
    ///
    /// The age of a record counts from its insertion date.
    #[arg(long, value_name = "DURATION", value_parser = age)]
    pub older_than: Option<i64>,

    /// Only NEW, ERROR or ARCHIVED records
    #[arg(long, value_name = "STATUS,...", value_parser = one_of(Status::OURS))]
    #[arg(hide_possible_values = true, value_delimiter = ',', ignore_case = true)]
    pub status: Vec<Status>,

    /// Change more than 1,000 records without asking
    #[arg(long, short)]
    pub yes: bool,

    /// Print what would be done, and do nothing
    #[arg(long, short = 'n')]
    pub dry_run: bool,
}

#[derive(Args)]
pub struct PruneArgs {
    /// Delete records finished longer ago than this: 30d, 1y
    ///
    /// The date is in the column `finished_at`, or for ARCHIVED records the last failure. Without this option, the
    /// ages of prune_after in backlog.toml apply.
    #[arg(long, value_name = "DURATION", value_parser = finished_age)]
    pub older_than: Option<i64>,

    /// Only SUCCESS or ARCHIVED records
    #[arg(long, value_name = "STATUS,...", value_parser = one_of(Status::FINISHED))]
    #[arg(value_delimiter = ',', ignore_case = true)]
    pub status: Vec<Status>,

    /// Stop after this time
    #[arg(long = "max-runtime", id = "prune_runtime", value_name = "DURATION", value_parser = parse_duration)]
    pub max_runtime: Option<Duration>,

    /// Delete more than 1,000 records without asking
    #[arg(long, short)]
    pub yes: bool,

    /// Count the records, and do nothing
    #[arg(long, short = 'n')]
    pub dry_run: bool,
}

/// The service manager of a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Systemd {
    System,
    User,
}

#[derive(Args)]
pub struct CrontabArgs {
    /// Print six lines, one for each range of ages
    #[arg(long)]
    pub classic: bool,

    /// Print a systemd service and timer instead
    ///
    /// They are system units that run as you; --systemd=user prints user units.
    #[arg(long, value_name = "MANAGER", num_args = 0..=1, require_equals = true, default_missing_value = "system")]
    #[arg(conflicts_with = "classic")]
    pub systemd: Option<Systemd>,

    #[command(flatten)]
    pub queues: AllQueuesArgs,
}

#[derive(Args)]
pub struct SimulateArgs {
    /// Number of records that fail at the same time
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub records: u32,

    /// Use the pending records of the table instead
    #[arg(long, conflicts_with = "records")]
    pub from_table: bool,

    /// Simulated time [default: 2h; with --from-table 7days]
    #[arg(long = "for", value_name = "DURATION", value_parser = whole_secs)]
    pub span: Option<i64>,

    /// Write a picture with a dot for each retry
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    /// Print a line of JSON for each attempt instead of charts
    #[arg(long)]
    pub jsonl: bool,
}

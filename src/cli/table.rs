//! Options that say what the user's table means, which every subcommand has. All of them may stand
//! in backlog.toml instead.

use clap::Args;

use super::value::{self, Several};
use crate::date::Format;
use crate::query::Shard;

#[derive(Clone, Default, Args)]
#[command(next_help_heading = "The table")]
pub struct Table {
    /// The table [default: BACKLOG]
    #[arg(long, value_name = "NAME")]
    pub table: Option<String>,

    /// A queue of pgmq instead of a table (with a database postgres://...)
    #[arg(long, value_name = "QUEUE", conflicts_with = "table")]
    pub pgmq: Option<String>,

    /// Only the I-th of N parts of the records, 2/3: other lines or machines take the others
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,

    /// What names a record, several columns with commas between them [default: ID]
    #[arg(long, value_name = "COLUMN,...", value_parser = value::several)]
    pub id_column: Option<Several>,

    /// What a record is: never tried, failed, done or given up [default: STATUS, if there is one or
    /// no --where]
    #[arg(long, value_name = "COLUMN")]
    pub status_column: Option<String>,

    /// A record is pending as long as --where holds
    #[arg(long, conflicts_with_all = ["status_column", "new", "error", "success", "archived"])]
    pub no_status_column: bool,

    /// The status of records that were never tried [default: NEW]
    #[arg(long, value_name = "VALUE,...", value_parser = value::several, allow_hyphen_values = true)]
    pub new: Option<Several>,

    /// Of those that failed and will be tried again; the first value is written [default: ERROR]
    #[arg(long, value_name = "VALUE,...", value_parser = value::several, allow_hyphen_values = true)]
    pub error: Option<Several>,

    /// Of those that are done [default: SUCCESS]
    #[arg(long, value_name = "VALUE,...", value_parser = value::several, allow_hyphen_values = true)]
    pub success: Option<Several>,

    /// Of those that ran out of attempts [default: ARCHIVED]
    #[arg(long, value_name = "VALUE,...", value_parser = value::several, allow_hyphen_values = true)]
    pub archived: Option<Several>,

    /// When a record was inserted [default: DATE_INSERTED]
    #[arg(long, value_name = "COLUMN")]
    pub date_column: Option<String>,

    /// How that is written: iso, compact, epoch, epoch-ms, epoch-us, epoch-ns [default: as each
    /// value looks]
    #[arg(long, value_name = "FORMAT")]
    pub date_format: Option<Format>,

    /// The zone of dates without one: UTC, +02:00, Europe/Berlin [default: UTC]
    #[arg(long, value_name = "ZONE", allow_hyphen_values = true)]
    pub zone: Option<String>,

    /// Counts failed attempts; "" for none [default: FAILURES, if there is one]
    #[arg(long, value_name = "COLUMN")]
    pub failures_column: Option<String>,

    /// When the last attempt failed; "" for none [default: LAST_FAILURE, if there is one]
    #[arg(long, value_name = "COLUMN")]
    pub last_failure_column: Option<String>,

    /// What it failed with, for people [default: LAST_ERROR, if there is one]
    #[arg(long, value_name = "COLUMN")]
    pub last_error_column: Option<String>,

    /// One column as the handler's standard input or the webhook's body, instead of the whole
    /// record
    #[arg(long, value_name = "COLUMN")]
    pub payload_column: Option<String>,

    /// Only rows for which this SQL condition holds, besides that of backlog.toml
    #[arg(long = "where", value_name = "SQL")]
    pub condition: Option<String>,
}

impl Table {
    /// An option that was given, and that says nothing of a queue of pgmq.
    pub fn of_a_table_only(&self) -> Option<&'static str> {
        let given = [
            ("--shard", self.shard.is_some()),
            ("--id-column", self.id_column.is_some()),
            ("--status-column", self.status_column.is_some()),
            ("--no-status-column", self.no_status_column),
            ("--new", self.new.is_some()),
            ("--error", self.error.is_some()),
            ("--success", self.success.is_some()),
            ("--archived", self.archived.is_some()),
            ("--date-column", self.date_column.is_some()),
            ("--date-format", self.date_format.is_some()),
            ("--zone", self.zone.is_some()),
            ("--failures-column", self.failures_column.is_some()),
            ("--last-failure-column", self.last_failure_column.is_some()),
            ("--last-error-column", self.last_error_column.is_some()),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(option, _)| option)
    }
}

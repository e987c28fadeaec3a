//! Options that say what handles the records.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::value::{self, Several};

#[derive(Clone, Args)]
#[command(next_help_heading = "The handler")]
pub struct Handler {
    /// One process for many records, which reads a JSON line for each and answers with one
    #[arg(long, conflicts_with = "post")]
    pub stream: bool,

    /// How many records it may have in hand [default: 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub window: Option<u16>,

    /// How many bytes of records it may have in hand, 512K, 64M or 1G; one record alone always goes
    /// [default: 64M]
    #[arg(long, value_name = "SIZE", value_parser = value::size)]
    pub window_bytes: Option<usize>,

    /// How often a pass may start it again when it has died [default: 3]
    #[arg(long, value_name = "N")]
    pub restarts: Option<u32>,

    /// Send each record to a webhook; {column} in the URL is replaced by the record's value; signed
    /// with BACKLOG_WEBHOOK_SECRET, if that is set
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    pub post: Option<String>,

    /// One more header of the request, "Authorization: Bearer abc"; may be repeated
    #[arg(long, value_name = "HEADER")]
    pub header: Vec<String>,

    /// A host that a column in the URL may name, example.com or *.example.com (all below it); may
    /// be
    /// repeated [default: any name of the public internet, without credentials]
    #[arg(long, value_name = "HOST")]
    pub allow_host: Vec<String>,

    /// The column with the secret that each record is signed with, instead of
    /// BACKLOG_WEBHOOK_SECRET
    #[arg(long, value_name = "COLUMN")]
    pub secret_column: Option<String>,

    /// What stands in front of webhook-id and Idempotency-Key, for databases that share a receiver
    #[arg(long, value_name = "PREFIX")]
    pub key_prefix: Option<String>,

    /// The whole Idempotency-Key, {column} being replaced; "" leaves it out [default: the table,
    /// the
    /// id and the insertion date, and another one after each answer]
    #[arg(long, value_name = "KEY")]
    pub idempotency_key: Option<String>,

    /// The authorities that certify the webhook's server [default: those of the system]
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,

    /// Exits of the command after which a record is archived at once: 65,100
    #[arg(long, value_name = "EXIT,...", value_parser = value::several)]
    pub give_up_on: Option<Several>,

    /// Archive a record at once that the webhook refuses with 4xx, other than 407, 408, 425 and 429
    #[arg(long)]
    pub give_up_on_4xx: bool,

    /// The handler; without --stream {column} in an argument is replaced by the record's value
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

//! The limits and the ways of a pass, as options.

use std::path::PathBuf;

use clap::Args;
use serde::Deserialize;

use super::value::{self, AtLeastOne, CommandLine, Grace, Limit, UpTo1024};
use crate::engine::RateLimit;
use crate::query::Order;

/// How far a pass goes, and how.
#[derive(Default, Args, Deserialize)]
#[serde(default)]
pub struct PassOptions {
    /// Handlers at a time; with --stream so many processes, each with its --window [default: 1]
    #[arg(long, value_name = "N")]
    #[serde(deserialize_with = "value::typed")]
    pub jobs: Option<UpTo1024>,

    /// End a handler that runs longer, or with --stream is silent for longer, as a failure; `none`
    /// for no limit [default: 1h; 30s with --post]
    #[arg(long, value_name = "DURATION")]
    #[serde(deserialize_with = "value::typed")]
    pub timeout: Option<Limit>,

    /// How long a handler may go on when the pass is to stop, before SIGTERM; and between SIGTERM and
    /// SIGKILL after --timeout [default: 10s]
    #[arg(long, value_name = "DURATION")]
    #[serde(deserialize_with = "value::typed")]
    pub grace: Option<Grace>,

    /// Stop after N attempts; the next pass goes on behind them
    #[arg(long, value_name = "N")]
    #[serde(deserialize_with = "value::typed")]
    pub max_records: Option<AtLeastOne<u64>>,

    /// End the pass after this long, 4m30s: no more handlers are started, and those that run get
    /// --grace to end
    #[arg(long, value_name = "DURATION")]
    #[serde(deserialize_with = "value::typed")]
    pub max_runtime: Option<humantime::Duration>,

    /// Stop after N records in a row that failed: what they need is down, and the rest is left as it
    /// is
    #[arg(long, value_name = "N")]
    #[serde(deserialize_with = "value::typed")]
    pub max_consecutive_failures: Option<AtLeastOne<u32>>,

    /// Begin no more attempts than this: 50/s, 100/m, 1000/h
    #[arg(long, value_name = "RATE")]
    #[serde(deserialize_with = "value::typed")]
    pub rate: Option<RateLimit>,

    /// A command for each record that is archived, "notify {id}"; it gets what a handler gets
    #[arg(long, value_name = "COMMAND")]
    #[serde(rename = "exec_on_archive", deserialize_with = "value::command")]
    pub on_archive: Option<CommandLine>,

    #[command(flatten)]
    #[serde(flatten)]
    pub order: OrderOption,

    /// Exit 1 if any record failed
    #[arg(long)]
    #[serde(deserialize_with = "value::flag")]
    pub strict: bool,

    /// Append one JSON line for each attempt
    #[arg(long, value_name = "FILE")]
    #[serde(deserialize_with = "value::typed")]
    pub joblog: Option<PathBuf>,
}

/// The order of a pass or a list.
#[derive(Default, Args, Deserialize)]
#[serde(default)]
pub struct OrderOption {
    /// Which records go first [default: newest]
    #[arg(long, value_enum)]
    #[serde(deserialize_with = "value::choice")]
    pub order: Option<Order>,
}

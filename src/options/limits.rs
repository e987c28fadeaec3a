//! The limits and the ways of a pass: its options, and the settings that they make.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Deserialize;

use super::value::{self, Attempts, CommandLine, Grace, Limit, Records, UpTo1024};
use super::{Handler, Queue, Resolved, Schedule};
use crate::engine::{PassLimits, RateLimit};
use crate::exit::ExitError;
use crate::query::Order;

/// How far a pass goes, and how.
#[derive(Default, Args, Deserialize)]
#[serde(default)]
pub struct PassOptions {
    /// Handlers at a time; with --stream so many processes, each with its --window [default: 1]
    #[arg(long, value_name = "N")]
    pub jobs: Option<UpTo1024>,

    /// End a handler that runs longer, or with --stream is silent for longer, as a failure; `none`
    /// for no limit [default: 1h; 30s with --post]
    #[arg(long, value_name = "DURATION")]
    pub timeout: Option<Limit>,

    /// How long a handler may go on when the pass is to stop, before SIGTERM; and between SIGTERM and
    /// SIGKILL after --timeout [default: 10s]
    #[arg(long, value_name = "DURATION")]
    pub grace: Option<Grace>,

    /// Stop after N attempts; the next pass goes on behind them
    #[arg(long, value_name = "N")]
    pub max_records: Option<Records>,

    /// End the pass after this long, 4m30s: no more handlers are started, and those that run get
    /// --grace to end
    #[arg(long, value_name = "DURATION")]
    #[serde(deserialize_with = "value::typed")]
    pub max_runtime: Option<humantime::Duration>,

    /// Stop after N records in a row that failed: what they need is down, and the rest is left as it
    /// is
    #[arg(long, value_name = "N")]
    pub max_consecutive_failures: Option<Attempts>,

    /// Begin no more attempts than this: 50/s, 100/m, 1000/h
    #[arg(long, value_name = "RATE")]
    #[serde(deserialize_with = "value::typed")]
    pub rate: Option<RateLimit>,

    /// A command for each record that is archived, "notify {id}"; it gets what a handler gets
    #[arg(long, value_name = "COMMAND")]
    #[serde(rename = "exec_on_archive", deserialize_with = "value::text_or_array")]
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

pub struct PassSettings {
    pub schedule: Schedule,
    pub limits: PassLimits,
    pub order: Order,
    pub wait: bool,
    pub strict: bool,
    pub joblog: Option<PathBuf>,
    /// None if nothing is to be handled.
    pub handler: Option<Handler>,
    pub jobs: usize,
    pub timeout: Option<Duration>,
}

impl PassSettings {
    /// `is_dry` says that nothing is to be handled.
    pub fn new(resolved: &Resolved<'_>, queue: &Queue, is_dry: bool) -> Result<Self, ExitError> {
        let handler = resolved.handler(queue)?;
        let timeout_secs = match &handler {
            None if !is_dry => return Err(Handler::none()),
            Some(Handler::Post(_)) => 30,
            Some(Handler::Exec { .. } | Handler::Stream { .. }) | None => 3_600,
        };
        let pass = resolved.pass()?;
        Ok(Self {
            schedule: resolved.schedule()?.ok_or_else(Schedule::none)?,
            limits: PassLimits {
                max_records: pass.max_records.map(|most| most.0),
                max_runtime: pass.max_runtime.map(Duration::from),
                grace: pass.grace.map_or(Duration::from_secs(10), |grace| grace.0),
                drain: false,
                max_consecutive_failures: pass.max_consecutive_failures.map(|most| most.0),
                rate: pass.rate,
            },
            order: pass.order.order.unwrap_or_default(),
            wait: false,
            strict: pass.strict,
            joblog: pass.joblog,
            handler,
            jobs: pass.jobs.map_or(1, |jobs| jobs.0.into()),
            timeout: pass.timeout.map_or(Some(Duration::from_secs(timeout_secs)), |limit| limit.0),
        })
    }
}

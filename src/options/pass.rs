//! The pass that the options choose, checked: its handler, its limits and its ways.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Deserialize;

use super::command_line::command_line;
use super::keys::{OF_A_WEBHOOK, long};
use super::sources::utf8;
use super::value::{self, Attempts, CommandLine, Grace, Limit, Records, Several, Size, UpTo1024};
use super::{Environment, Queue, Resolved, Schedule};
use crate::engine::{PassLimits, RateLimit};
use crate::exit::{ExitError, usage};
use crate::handlers::{
    Header, Hosts, IdempotencyKey, Proxies, Secret, Signing, StreamSettings, Target, Webhook,
};
use crate::query::Order;

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

    /// Which records go first [default: newest]
    #[arg(long, value_enum)]
    #[serde(deserialize_with = "value::choice")]
    pub order: Option<Order>,

    /// Exit 1 if any record failed
    #[arg(long)]
    #[serde(deserialize_with = "value::flag")]
    pub strict: bool,

    /// Append one JSON line for each attempt
    #[arg(long, value_name = "FILE")]
    #[serde(deserialize_with = "value::typed")]
    pub joblog: Option<PathBuf>,
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
    /// The command line, without passwords.
    pub typed: String,
}

impl PassSettings {
    /// `is_dry` says that nothing is to be handled.
    pub fn new(resolved: &Resolved<'_>, queue: &Queue, is_dry: bool) -> Result<Self, ExitError> {
        let handler = resolved.handler(queue)?;
        if handler.is_none() && !is_dry {
            return Err(Handler::none());
        }
        let usual_secs = if matches!(handler, Some(Handler::Post(_))) { 30 } else { 3_600 };
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
            order: pass.order.unwrap_or_default(),
            wait: false,
            strict: pass.strict,
            joblog: pass.joblog,
            handler,
            jobs: pass.jobs.map_or(1, |jobs| jobs.0.into()),
            typed: command_line(&resolved.typed.words),
            timeout: pass.timeout.map_or(Some(Duration::from_secs(usual_secs)), |limit| limit.0),
        })
    }
}

#[derive(Default, Args, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "The handler")]
pub struct HandlerOptions {
    /// One process for many records, which reads a JSON line for each and answers with one
    #[arg(long, conflicts_with = "post")]
    #[serde(deserialize_with = "value::flag")]
    pub stream: bool,

    /// How many records it may have in hand [default: 64]
    #[arg(long, value_name = "N")]
    pub window: Option<UpTo1024>,

    /// How many bytes of records it may have in hand, 512K, 64M or 1G; one record alone always goes
    /// [default: 64M]
    #[arg(long, value_name = "SIZE")]
    pub window_bytes: Option<Size>,

    /// How often a pass may start it again when it has died [default: 3]
    #[arg(long, value_name = "N")]
    #[serde(deserialize_with = "value::typed")]
    pub restarts: Option<u32>,

    /// Send each record to a webhook; {column} in the URL is replaced by the record's value; signed
    /// with BACKLOG_WEBHOOK_SECRET, if that is set
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    #[serde(deserialize_with = "value::typed")]
    pub post: Option<String>,

    /// One more header of the request, "Authorization: Bearer abc"; may be repeated
    #[arg(long, value_name = "HEADER")]
    #[serde(deserialize_with = "value::entries")]
    pub header: Vec<String>,

    /// A host that a column in the URL may name, example.com or *.example.com (all below it); may be
    /// repeated [default: any name of the public internet, without credentials]
    #[arg(long, value_name = "HOST")]
    #[serde(rename = "allow_hosts", deserialize_with = "value::entries")]
    pub allow_host: Vec<String>,

    /// The column with the secret that each record is signed with, instead of BACKLOG_WEBHOOK_SECRET
    #[arg(long, value_name = "COLUMN")]
    #[serde(deserialize_with = "value::typed")]
    pub secret_column: Option<String>,

    /// What stands in front of webhook-id and Idempotency-Key, for databases that share a receiver
    #[arg(long, value_name = "PREFIX")]
    #[serde(deserialize_with = "value::typed")]
    pub key_prefix: Option<String>,

    /// The whole Idempotency-Key, {column} being replaced; "" leaves it out [default: the table, the
    /// id and the insertion date, and another one after each answer]
    #[arg(long, value_name = "KEY")]
    #[serde(deserialize_with = "value::typed")]
    pub idempotency_key: Option<String>,

    /// The authorities that certify the webhook's server [default: those of the system]
    #[arg(long, value_name = "FILE")]
    #[serde(deserialize_with = "value::typed")]
    pub ca_file: Option<PathBuf>,

    /// Exits of the command after which a record is archived at once: 65,100
    #[arg(long, value_name = "EXIT,...")]
    #[serde(deserialize_with = "value::text_or_array")]
    pub give_up_on: Option<Several>,

    /// Archive a record at once that the webhook refuses with 4xx, other than 407, 408, 425 and 429
    #[arg(long = "give-up-on-4xx")]
    #[serde(deserialize_with = "value::flag")]
    pub give_up_on_4xx: bool,

    /// The handler; without --stream {column} in an argument is replaced by the record's value
    #[arg(last = true, value_name = "COMMAND")]
    #[serde(skip)]
    pub command: Vec<OsString>,
}

#[derive(Clone)]
pub enum Handler {
    Exec { argv: Vec<OsString>, give_up_on: Vec<i32> },
    Stream(StreamSettings),
    Post(Box<Webhook>),
}

/// The variable that holds what requests are signed with. It is no option, because every user of
/// the machine sees a command line.
pub const WEBHOOK_SECRET: &str = "BACKLOG_WEBHOOK_SECRET";

fn webhook(
    url: &str,
    args: &HandlerOptions,
    payload: Option<&str>,
    environment: &Environment,
) -> Result<Webhook, ExitError> {
    let wrong =
        |option: &'static str| move |error: anyhow::Error| usage(format!("{option}: {error:#}"));
    let headers = args.header.iter().flat_map(|it| it.lines()).map(Header::parse);
    // An empty line is an entry as well, which is none.
    let hosts = Hosts::parse(args.allow_host.iter().flat_map(|it| it.split('\n')));
    let key = args.idempotency_key.as_deref().map(IdempotencyKey::parse);
    let webhook = Webhook {
        target: Target::new(url).map_err(wrong("--post"))?,
        headers: headers.collect::<Result<_, _>>().map_err(wrong("--header"))?,
        ca_file: args.ca_file.clone(),
        give_up_on_4xx: args.give_up_on_4xx,
        signing: signing(args, environment)?,
        hosts: hosts.map_err(wrong("--allow-host"))?,
        key: key.transpose().map_err(wrong("--idempotency-key"))?.unwrap_or(IdempotencyKey::Name),
        key_prefix: args.key_prefix.clone().filter(|prefix| !prefix.is_empty()),
        proxies: Proxies::from_env(&|name| environment.text(name)),
    };
    require_hosts(&webhook)?;
    require_secrecy(&webhook, payload)?;
    Ok(webhook)
}

/// Whoever writes records could have credentials sent to himself, or a proxy connect to what this
/// machine would not: then the hosts must be listed.
fn require_hosts(webhook: &Webhook) -> Result<(), ExitError> {
    if !webhook.names_any_host() {
        return Ok(());
    }
    let target = &webhook.target;
    let header = webhook.headers.iter().find(|header| header.is_credential());
    let proxy = webhook.proxies.variable(target.is_https);
    let (why, or) = if target.authorization.is_some() {
        ("would get the login of the URL".into(), ", or leave the login out")
    } else if let Some(header) = header {
        (format!("would get the header {}", header.name()), ", or leave the header out")
    } else if matches!(webhook.signing, Signing::Shared(_)) {
        let or =
            ", or unset the variable and give each record a secret of its own (--secret-column)";
        (format!("would get signatures by {WEBHOOK_SECRET}"), or)
    } else if let Some(proxy) = proxy {
        (format!("the proxy of {proxy} would look up"), "")
    } else {
        return Ok(());
    };
    Err(usage(format!(
        "--post: records choose the host of {target}, which {why}; list the hosts with \
         --allow-host{or}"
    )))
}

/// What signs a request must not stand in it.
fn require_secrecy(webhook: &Webhook, payload: Option<&str>) -> Result<(), ExitError> {
    let Some(column) = webhook.signing.column() else { return Ok(()) };
    let is_it = |other: &str| other.eq_ignore_ascii_case(column);
    let places = [
        (webhook.target.columns().any(is_it), "the URL", "--post"),
        (webhook.key.columns().any(is_it), "the key", "--idempotency-key"),
        (payload.is_some_and(is_it), "the body", "--set payload=..."),
    ];
    let Some((_, place, option)) = places.into_iter().find(|(is_sent, ..)| *is_sent) else {
        return Ok(());
    };
    Err(usage(format!(
        "--secret-column: {column:?} would be sent in {place}; name another column there ({option})"
    )))
}

/// A secret of each record's own goes before that of the environment, which other lines may need.
/// One that is there and cannot be used must not leave requests unsigned.
fn signing(args: &HandlerOptions, environment: &Environment) -> Result<Signing, ExitError> {
    if let Some(column) = &args.secret_column {
        return Ok(Signing::Own { column: column.clone() });
    }
    let Some(secret) = environment.raw(WEBHOOK_SECRET) else { return Ok(Signing::None) };
    let secret = Secret::parse(&utf8(WEBHOOK_SECRET, secret)?);
    secret.map(Signing::Shared).map_err(|error| usage(format!("{WEBHOOK_SECRET}: {error:#}")))
}

impl Handler {
    /// What was typed goes before what stands in backlog.toml.
    pub fn chosen(
        args: &HandlerOptions,
        says: impl Fn(&str) -> bool,
        queue: &Queue,
        environment: &Environment,
    ) -> Result<Option<Self>, ExitError> {
        if args.stream && args.post.is_some() {
            return Err(usage("stream and post are two handlers: leave one out"));
        }
        let argv = queue.exec.clone();
        let is_command = args.post.is_none() && !args.stream;
        for (keys, goes_with, is_legal) in [
            (&["window", "window_bytes", "restarts"][..], "--stream", args.stream),
            (&OF_A_WEBHOOK, "--post", args.post.is_some()),
            (&["give_up_on"], "a command for each record", is_command),
        ] {
            if let Some(key) = keys.iter().find(|key| !is_legal && says(key)) {
                return Err(usage(format!("--{} goes with {goes_with}", long(key))));
            }
        }
        if let Some(url) = &args.post {
            if cfg!(not(feature = "webhook")) {
                let why = "--post: this program was built without webhooks, the feature webhook";
                return Err(usage(why));
            }
            let payload = queue.mapping.payload.as_deref();
            return Ok(Some(Self::Post(Box::new(webhook(url, args, payload, environment)?))));
        }
        if argv.is_empty() {
            return Ok(None);
        }
        value::require_program(&argv).map_err(usage)?;
        if !args.stream {
            let exit = |text: &String| match text.trim().parse::<u8>() {
                Ok(code) if code > 0 => Ok(code.into()),
                _ => Err(usage(format!(
                    "--give-up-on: {text:?} is no exit of a failure; legal are 1 to 255"
                ))),
            };
            let exits = args.give_up_on.iter().flat_map(|it| &it.0).map(exit);
            return Ok(Some(Self::Exec { argv, give_up_on: exits.collect::<Result<_, _>>()? }));
        }
        Ok(Some(Self::Stream(StreamSettings {
            argv,
            window: args.window.map_or(64, |window| window.0.into()),
            window_bytes: args.window_bytes.map_or(64 << 20, |size| size.0),
            restarts: args.restarts.unwrap_or(3),
        })))
    }

    pub fn none() -> ExitError {
        usage(
            "no handler: write the command behind `--`, or as exec into backlog.toml, or use --post \
             URL",
        )
    }

    /// Whether its receiver is told which attempts it may take for one.
    pub fn goes_by_series(&self) -> bool {
        matches!(self, Self::Post(webhook) if matches!(webhook.key, IdempotencyKey::Name))
    }

    /// The option by which a record may be given up before its last attempt, if one says so.
    pub fn gives_up(&self) -> Option<&'static str> {
        match self {
            Self::Exec { give_up_on, .. } => (!give_up_on.is_empty()).then_some("--give-up-on"),
            Self::Post(webhook) => webhook.give_up_on_4xx.then_some("--give-up-on-4xx"),
            Self::Stream(_) => None,
        }
    }
}

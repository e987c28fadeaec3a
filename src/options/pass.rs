//! The pass that the options choose, checked: its handler, its limits and its ways.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use backlog_schedule::{Order, Shard};
use backlog_store::system_error::chain;
use clap::{Args, ValueHint};
use serde::Deserialize;

use super::keys::{OF_A_WEBHOOK, long};
use super::schedule::no_schedule;
use super::sources::utf8;
use super::value::{
    self, CommandLine, GiveUpOn, Grace, Limit, MostFailures, Records, Runtime, UpTo1024,
};
use super::{Environment, Ping, Queue, Resolved, Schedule, ScheduleOptions};
use crate::engine::{PassLimits, RateLimit};
use crate::exit::{ExitError, usage};
use crate::handlers::{
    GivesUp, Header, Hosts, IdempotencyKey, Proxies, Secret, Signing, StreamSettings, Target,
    Webhook,
};

#[derive(Default, Args, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "Pass")]
pub struct PassOptions {
    /// Run so many handlers at a time
    ///
    /// With --stream so many processes, each with a --window of its own.
    #[arg(long, value_name = "N")]
    pub jobs: Option<UpTo1024>,

    /// End a handler that runs longer, as a failure
    ///
    /// With --stream it is how long a process may be silent while it has records, with --post how long
    /// the whole exchange may take. `none` sets no limit.
    #[arg(long, value_name = "DURATION")]
    pub timeout: Option<Limit>,

    /// Time for running handlers to end when the pass is to stop
    ///
    /// After it they get SIGTERM, and SIGKILL a second later. It is also the time between SIGTERM and
    /// SIGKILL after --timeout.
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    pub grace: Option<Grace>,

    /// Stop after N attempts
    ///
    /// The next pass goes on with the records after them, so that no block of failing records keeps the others from
    /// being tried.
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub max_records: Option<Records>,

    /// Stop after this time
    ///
    /// No more handlers are started, and those that run get --grace to end.
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    pub max_runtime: Option<Runtime>,

    /// Stop after N records in a row that failed
    ///
    /// The service behind them is taken for down then, and the rest is left as it is.
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub max_consecutive_failures: Option<MostFailures>,

    /// Begin at most so many attempts: 50/s, 100/m, 1000/h
    #[arg(long, value_name = "RATE", hide_short_help = true)]
    #[serde(deserialize_with = "value::typed")]
    pub rate: Option<RateLimit>,

    /// Run a command for each record that is archived
    ///
    /// It gets what a handler gets, with BACKLOG_STATUS=ARCHIVED.
    #[arg(long, value_name = "COMMAND", hide_short_help = true)]
    #[serde(rename = "exec_on_archive", deserialize_with = "value::text_or_array")]
    pub on_archive: Option<CommandLine>,

    /// Which records go first
    #[arg(long, value_parser = value::named::<Order>(Order::NAMES), hide_short_help = true)]
    #[serde(deserialize_with = "value::typed")]
    pub order: Option<Order>,

    /// Exit 1 if any record failed
    ///
    /// Without it only what is archived or could not be done makes a pass fail.
    #[arg(long, hide_short_help = true)]
    #[serde(deserialize_with = "value::flag")]
    pub strict: bool,

    /// Append a line of JSON for each attempt
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    #[serde(deserialize_with = "value::typed")]
    pub joblog: Option<PathBuf>,

    /// Report each pass to a monitoring service, as healthchecks.io has it
    ///
    /// URL/start when the pass begins, and URL/EXIT with its exit status when it has ended. {line} is
    /// replaced by the name of the crontab line. The URL is a secret, and does not belong on a command
    /// line, which every user of the machine sees: backlog.toml may have it, or the variable.
    #[arg(long, value_name = "URL", hide_short_help = true)]
    pub ping: Option<Ping>,

    /// Write figures of the pass for Prometheus
    ///
    /// The file is one of node_exporter's textfile collector, and lines may share it.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    #[serde(deserialize_with = "value::typed")]
    pub metrics: Option<PathBuf>,
}

pub struct PassSettings {
    pub schedule: Schedule,
    /// How often a pass is to come, in seconds, if the option or the key says so.
    pub every: Option<i64>,
    /// What backlog.toml alone says of the line.
    pub described: Option<(Schedule, Vec<String>, Option<Shard>)>,
    pub limits: PassLimits,
    pub order: Order,
    pub wait: bool,
    pub strict: bool,
    pub joblog: Option<PathBuf>,
    /// With the proxies that lead to the service.
    pub ping: Option<(Ping, Proxies)>,
    pub metrics: Option<PathBuf>,
    /// None if nothing is to be handled.
    pub handler: Option<Handler>,
    pub jobs: usize,
    pub timeout: Option<Duration>,
}

impl PassSettings {
    /// `is_dry` says that nothing is to be handled.
    pub fn new(resolved: &Resolved<'_>, queue: &Queue, is_dry: bool) -> Result<Self, ExitError> {
        let (handler, schedule) = (resolved.handler(queue)?, resolved.schedule()?);
        // What is said wrong goes before what is not said.
        resolved.require_all(is_dry)?;
        let usual_secs = if matches!(handler, Some(Handler::Post(_))) { 30 } else { 3_600 };
        let pass = resolved.pass()?;
        require_ping(pass.ping.as_ref())?;
        Ok(Self {
            schedule: schedule.ok_or_else(no_schedule)?,
            every: resolved.read::<ScheduleOptions>()?.pace.every.map(|every| every.0),
            described: resolved.described(),
            limits: PassLimits {
                max_records: pass.max_records.map(|most| most.0),
                max_runtime: pass.max_runtime.map(|runtime| runtime.0),
                grace: pass.grace.map_or(Duration::from_secs(10), |grace| grace.0),
                drain: false,
                max_consecutive_failures: pass.max_consecutive_failures.map(|most| most.0),
                rate: pass.rate,
            },
            order: pass.order.unwrap_or_default(),
            wait: false,
            strict: pass.strict,
            joblog: pass.joblog,
            ping: pass.ping.map(|ping| {
                let environment = &resolved.sources.environment;
                (ping, Proxies::from_env(&|name| environment.text(name)))
            }),
            metrics: pass.metrics,
            handler,
            jobs: pass.jobs.map_or(1, |jobs| jobs.0.into()),
            timeout: pass.timeout.map_or(Some(Duration::from_secs(usual_secs)), |limit| limit.0),
        })
    }
}

fn require_ping(ping: Option<&Ping>) -> Result<(), ExitError> {
    if ping.is_some() && cfg!(not(feature = "webhook")) {
        return Err(usage("--ping: this program was built without webhooks, the feature webhook"));
    }
    let checked = ping.map_or(Ok(()), Ping::check);
    checked.map_err(|error| usage(format!("--ping: {}", chain(&error))))
}

#[derive(Default, Args, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "Handler")]
pub struct HandlerOptions {
    /// Start the command once, for many records
    ///
    /// It reads a line of JSON for each record, and answers with a line of JSON. Start-up costs once.
    #[arg(long, conflicts_with = "post")]
    #[serde(deserialize_with = "value::flag")]
    pub stream: bool,

    /// With --stream: how many records a process may have in hand
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub window: Option<UpTo1024>,

    /// Send each record to a webhook
    ///
    /// {column} in the URL is replaced by the record's value, percent-encoded. Requests are signed with
    /// the secret in the environment variable BACKLOG_WEBHOOK_SECRET, if that is set.
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    #[serde(deserialize_with = "value::typed")]
    pub post: Option<String>,

    /// With --post: a header of the request; may be repeated
    ///
    /// A token does not belong on a command line, which every user of the machine sees: the key may
    /// stand in backlog.toml, and the variable has a line for each header.
    #[arg(long, value_name = "HEADER", hide_short_help = true)]
    #[serde(deserialize_with = "value::entries")]
    pub header: Vec<String>,

    /// With --post: a host that a column may name; may be repeated
    ///
    /// *.example.com stands for all below it. Without a list a column may name hosts of the public
    /// internet, and no credentials are sent there.
    #[arg(long, value_name = "HOST", hide_short_help = true)]
    #[serde(rename = "allow_hosts", deserialize_with = "value::entries")]
    pub allow_host: Vec<String>,

    /// With --post: the column with each record's own secret
    ///
    /// Requests are signed with it instead of BACKLOG_WEBHOOK_SECRET, and it is not sent.
    #[arg(long, value_name = "COLUMN", hide_short_help = true)]
    #[serde(deserialize_with = "value::typed")]
    pub secret_column: Option<String>,

    /// With --post: the Idempotency-Key of all attempts of a record
    ///
    /// {column} is replaced; an empty key leaves the header out. Without the option the key is the table,
    /// the id and the insertion date, and changes after each answer that is no success. webhook-id is the
    /// same key, so that databases which share a receiver can have different ones: shop-eu/{id}.
    #[arg(long, value_name = "KEY", hide_short_help = true)]
    #[serde(deserialize_with = "value::typed")]
    pub idempotency_key: Option<String>,

    /// With --post: authorities that certify the server, as PEM
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    #[serde(deserialize_with = "value::typed")]
    pub ca_file: Option<PathBuf>,

    /// Exit codes or HTTP statuses that archive a record at once
    ///
    /// Exit codes of a command: 65,100. With --post HTTP statuses from 300 to 599, also with a
    /// Retry-After, or 4xx, which leaves out 407, 408, 425 and 429: 4xx,503.
    #[arg(long, value_name = "CODE,...", hide_short_help = true)]
    #[serde(deserialize_with = "value::text_or_array")]
    pub give_up_on: Option<GiveUpOn>,

    /// The handler: a command and its arguments
    ///
    /// It is started without a shell. It gets the record as JSON on standard input; {column} in an
    /// argument is replaced by the record's value. Exit 0 is a success, any other a failure;
    /// backlog-handlers(7) has the rest.
    #[arg(last = true, value_name = "COMMAND", value_hint = ValueHint::ExecutablePath)]
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
    let wrong = |option: &'static str| {
        move |error: anyhow::Error| usage(format!("{option}: {}", chain(&error)))
    };
    let headers = args.header.iter().flat_map(|it| it.lines()).map(Header::parse);
    // An empty line is an entry as well, which is none.
    let hosts = Hosts::parse(args.allow_host.iter().flat_map(|it| it.split('\n')));
    let key = args.idempotency_key.as_deref().map(IdempotencyKey::parse);
    let webhook = Webhook {
        target: Target::new(url).map_err(wrong("--post"))?,
        headers: headers.collect::<Result<_, _>>().map_err(wrong("--header"))?,
        ca_file: args.ca_file.clone(),
        gives_up: args.give_up_on.clone().unwrap_or_default().of_a_webhook().map_err(usage)?,
        signing: signing(args, environment)?,
        hosts: hosts.map_err(wrong("--allow-host"))?,
        key: key.transpose().map_err(wrong("--idempotency-key"))?.unwrap_or(IdempotencyKey::Name),
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
    secret
        .map(Signing::Shared)
        .map_err(|error| usage(format!("{WEBHOOK_SECRET}: {}", chain(&error))))
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
            return Err(usage("stream and post are two handlers: pick one"));
        }
        let argv = queue.exec.clone();
        for (keys, goes_with, is_legal) in [
            (&["window"][..], "--stream", args.stream),
            (&OF_A_WEBHOOK, "--post", args.post.is_some()),
            (&["give_up_on"], "a command for each record, or --post", !args.stream),
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
            let give_up_on = args.give_up_on.clone().unwrap_or_default();
            let give_up_on = give_up_on.of_a_command().map_err(usage)?;
            return Ok(Some(Self::Exec { argv, give_up_on }));
        }
        Ok(Some(Self::Stream(StreamSettings {
            argv,
            window: args.window.map_or(64, |window| window.0.into()),
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

    /// Whether a record may be given up before its last attempt, by --give-up-on.
    pub fn gives_up(&self) -> bool {
        match self {
            Self::Exec { give_up_on, .. } => !give_up_on.is_empty(),
            Self::Post(webhook) => webhook.gives_up != GivesUp::default(),
            Self::Stream(_) => false,
        }
    }
}

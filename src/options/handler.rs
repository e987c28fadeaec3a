//! The handler that the options describe.

use std::ffi::OsString;

use backlog_store::chain;

use super::environment::{Environment, utf8};
use super::key::KeyRole;
use super::layers::Layers;
use super::settings::Settings;
use super::value::{exit_codes, refusals};
use crate::exit::{ExitError, usage};
use crate::handlers::{
    GivesUp, Header, Hosts, IdempotencyKey, Proxies, Secret, Signing, StreamSettings, Target,
    Webhook,
};

#[derive(Clone)]
pub enum HandlerSpec {
    Exec { argv: Vec<OsString>, give_up_on: Vec<i32> },
    Stream(StreamSettings),
    Post(Box<Webhook>),
}

/// Variable of the secret that signs requests. It is no option, because other users can read command lines.
pub const WEBHOOK_SECRET: &str = "BACKLOG_WEBHOOK_SECRET";

fn webhook(
    url: &str,
    settings: &Settings,
    environment: &Environment,
) -> Result<Webhook, ExitError> {
    let with_option = |option: &'static str| {
        move |error: anyhow::Error| usage(format!("{option}: {}", chain(&error)))
    };
    let headers = settings.header.iter().map(|header| Header::parse(header));
    let hosts = Hosts::parse(settings.allow_hosts.iter().map(String::as_str));
    let key = settings.idempotency_key.as_deref().map(IdempotencyKey::parse);
    let webhook = Webhook {
        target: Target::new(url).map_err(with_option("--post"))?,
        headers: headers.collect::<Result<_, _>>().map_err(with_option("--header"))?,
        ca_file: settings.ca_file.clone(),
        gives_up: refusals(&settings.give_up_on).map_err(usage)?,
        signing: signing(settings, environment)?,
        hosts: hosts.map_err(with_option("--allow-host"))?,
        key: key
            .transpose()
            .map_err(with_option("--idempotency-key"))?
            .unwrap_or(IdempotencyKey::Name),
        proxies: Proxies::from_env(&|name| environment.text(name)),
    };
    require_hosts(&webhook)?;
    require_secrecy(&webhook, settings.table.mapping.payload.as_deref())?;
    Ok(webhook)
}

/// Requires a list of hosts where a record could send credentials to any host, or make a proxy look it up.
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
        let or = ", or unset the variable and give each record its own secret (--secret-column)";
        (format!("would get requests signed with {WEBHOOK_SECRET}"), or)
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

/// Fails if requests would contain the secret that signs them.
fn require_secrecy(webhook: &Webhook, payload: Option<&str>) -> Result<(), ExitError> {
    let Some(column) = webhook.signing.column() else { return Ok(()) };
    let is_secret = |other: &str| other.eq_ignore_ascii_case(column);
    let parts = [
        (webhook.target.columns().any(is_secret), "the URL", "--post"),
        (webhook.key.columns().any(is_secret), "the key", "--idempotency-key"),
        (payload.is_some_and(is_secret), "the body", "--set payload=..."),
    ];
    let Some((_, part, option)) = parts.into_iter().find(|(has_secret, ..)| *has_secret) else {
        return Ok(());
    };
    Err(usage(format!(
        "--secret-column: {column:?} would be sent in {part}; name another column there ({option})"
    )))
}

fn signing(settings: &Settings, environment: &Environment) -> Result<Signing, ExitError> {
    if let Some(column) = &settings.secret_column {
        return Ok(Signing::Own { column: column.clone() });
    }
    let Some(secret) = environment.raw(WEBHOOK_SECRET) else { return Ok(Signing::None) };
    let secret = Secret::parse(&utf8(WEBHOOK_SECRET, secret)?);
    secret
        .map(Signing::Shared)
        .map_err(|error| usage(format!("{WEBHOOK_SECRET}: {}", chain(&error))))
}

pub fn no_handler() -> ExitError {
    usage("no handler: write the command after `--`, or as exec in backlog.toml, or use --post URL")
}

impl HandlerSpec {
    pub fn from_settings(
        settings: &Settings,
        layers: &Layers,
        environment: &Environment,
    ) -> Result<Option<Self>, ExitError> {
        if settings.stream && settings.post.is_some() {
            return Err(usage("--stream and --post are two handlers: choose one"));
        }
        for (key, ..) in layers.iter() {
            let required = if key.name == "window" && !settings.stream {
                "--stream"
            } else if key.role == KeyRole::Webhook && settings.post.is_none() {
                "--post"
            } else if key.role == KeyRole::GiveUpOn && settings.stream {
                "a command for each record, or --post"
            } else {
                continue;
            };
            return Err(usage(format!("--{} requires {required}", key.long)));
        }
        if let Some(url) = &settings.post {
            if cfg!(not(feature = "webhook")) {
                let why = "--post: this program was built without webhooks (feature `webhook`)";
                return Err(usage(why));
            }
            return Ok(Some(Self::Post(Box::new(webhook(url, settings, environment)?))));
        }
        let argv = settings.exec.clone();
        if argv.is_empty() {
            return Ok(None);
        }
        if settings.stream {
            return Ok(Some(Self::Stream(StreamSettings { argv, window: settings.window })));
        }
        let give_up_on = exit_codes(&settings.give_up_on).map_err(usage)?;
        Ok(Some(Self::Exec { argv, give_up_on }))
    }

    pub fn uses_default_key(&self) -> bool {
        matches!(self, Self::Post(webhook) if matches!(webhook.key, IdempotencyKey::Name))
    }

    /// True if --give-up-on may archive a record before its last attempt.
    pub fn gives_up(&self) -> bool {
        match self {
            Self::Exec { give_up_on, .. } => !give_up_on.is_empty(),
            Self::Post(webhook) => webhook.gives_up != GivesUp::default(),
            Self::Stream(_) => false,
        }
    }
}

//! What handles the records of a pass.

use std::sync::Arc;

use anyhow::Result;

use crate::authorities;
use crate::clock::Clock;
use crate::config::{self, PassSettings, Queue};
use crate::engine::Handlers;
use crate::exit::usage;
use crate::handler::{
    Exec, ExecSettings, Handler, Hello, Post, PostSettings, Stream, StreamSettings,
};
use crate::store::{self, Table};

/// What handlers are told besides their records.
pub struct Around {
    hello: Hello,
    payload: Option<String>,
    /// The fixed part of the environment: queue, table and the pass's token.
    env: Vec<(&'static str, String)>,
}

impl Around {
    pub fn new(queue: &Queue, settings: &PassSettings, table: &Table, token: &str) -> Self {
        let mut env = vec![
            ("BACKLOG_QUEUE", queue.name.clone()),
            ("BACKLOG_TABLE", table.name.clone()),
            (store::TOKEN, token.into()),
        ];
        let most = settings.schedule.max_attempts;
        env.extend(most.map(|most| ("BACKLOG_MAX_ATTEMPTS", most.to_string())));
        let hello = Hello {
            queue: queue.name.clone(),
            table: table.name.clone(),
            id: table.id.iter().map(|column| column.name.clone()).collect(),
        };
        Self { hello, payload: queue.mapping.payload.clone(), env }
    }
}

/// Fails if the table has not what the handler goes by.
pub fn require(handler: &config::Handler, table: &Table) -> Result<()> {
    if let Some(option) = handler.gives_up() {
        table.require_archived(option)?;
    }
    let config::Handler::Post(webhook) = handler else { return Ok(()) };
    if let Some(path) = &webhook.ca_file {
        authorities::of_file(path)?;
    }
    let names = || table.columns.iter().map(|column| column.name.as_str());
    for column in webhook.target.columns() {
        if !names().any(|name| name.eq_ignore_ascii_case(column)) {
            let (table, legal) = (&table.name, names().collect::<Vec<_>>().join(", "));
            return Err(usage(format!(
                "--post: table {table} has no column {column:?} for the URL; legal are {legal}"
            ))
            .into());
        }
    }
    Ok(())
}

pub fn handlers(settings: &PassSettings, around: &Around, clock: Clock) -> Result<Handlers> {
    let PassSettings { jobs, timeout, limits, .. } = settings;
    let exec = |argv: &[_], jobs: usize, give_up_on: &[i32]| {
        let settings = ExecSettings {
            argv: argv.to_vec(),
            jobs,
            timeout: *timeout,
            grace: limits.grace,
            give_up_on: give_up_on.to_vec(),
            payload: around.payload.clone(),
            env: around.env.clone(),
        };
        Ok::<Arc<dyn Handler>, anyhow::Error>(Arc::new(Exec::new(settings, clock)?))
    };
    let handler = match &settings.handler {
        None => return Err(config::Handler::none().into()),
        Some(config::Handler::Exec { argv, give_up_on }) => exec(argv, *jobs, give_up_on)?,
        Some(config::Handler::Stream { argv, window, restarts }) => {
            let settings = StreamSettings {
                argv: argv.clone(),
                jobs: *jobs,
                window: *window,
                restarts: *restarts,
                timeout: *timeout,
                grace: limits.grace,
                hello: around.hello.clone(),
                env: around.env.clone(),
            };
            Arc::new(Stream::new(settings, clock)?)
        }
        Some(config::Handler::Post(webhook)) => {
            let config::Webhook { target, headers, ca_file, give_up_on_4xx, secret, proxies } =
                &**webhook;
            let settings = PostSettings {
                target: target.clone(),
                headers: headers.clone(),
                timeout: *timeout,
                ca_file: ca_file.clone(),
                give_up_on_4xx: *give_up_on_4xx,
                secret: secret.clone(),
                jobs: *jobs,
                table: around.hello.table.clone(),
                proxies: proxies.clone(),
            };
            Arc::new(Post::new(settings, around.payload.clone(), clock)?)
        }
    };
    let on_archive = settings.on_archive.as_ref().map(|argv| exec(argv, 1, &[])).transpose()?;
    Ok(Handlers { handler, on_archive })
}

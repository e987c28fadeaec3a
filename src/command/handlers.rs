//! What handles the records of a pass.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use crate::authorities;
use crate::clock::Clock;
use crate::config::{self, PassSettings, Queue};
use crate::engine::Handlers;
use crate::exit::usage;
use crate::handler::{
    Exec, ExecSettings, Handler, Hello, Post, PostSettings, Stream, StreamSettings,
    check_injection, misspelt,
};
use crate::record::one_line;
use crate::record::series::SeriesSource;
use crate::store::{self, Table};

/// How long a co-process may keep its first reply to itself until somebody is told, if --timeout
/// is not about to end it anyway.
const PATIENCE: Duration = Duration::from_secs(10);

/// What handlers are told besides their records.
pub struct Common {
    hello: Hello,
    payload: Option<String>,
    last_error: Option<String>,
    series: Option<SeriesSource>,
    /// The fixed part of the environment: queue, table and the pass's token.
    env: Vec<(&'static str, String)>,
}

impl Common {
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
        let series = settings.handler.as_ref().and_then(|it| series(it, table));
        let last_error = table.last_error.as_ref().map(|column| column.name.clone());
        Self { hello, payload: queue.mapping.payload.clone(), last_error, series, env }
    }
}

/// What tells the series of attempts of a record apart, if the handler goes by them.
pub fn series(handler: &config::Handler, table: &Table) -> Option<SeriesSource> {
    table.series_source().filter(|_| handler.goes_by_series())
}

/// Fails if a command would run what a record says, or has a column in it that is misspelt and
/// would go out as it stands.
pub fn refuse_injection(
    handler: &config::Handler,
    on_archive: Option<&[OsString]>,
    table: &Table,
) -> Result<()> {
    let columns: Vec<_> = table.columns.iter().map(|column| column.name.as_str()).collect();
    let is_column = |name: &str| columns.iter().any(|column| column.eq_ignore_ascii_case(name));
    let harmless = |argv: &[OsString], which: &str| {
        check_injection(argv, &is_column).map_err(|error| usage(format!("{which}{error}")))?;
        let misspelt = argv.iter().find_map(|word| misspelt(word, &columns));
        misspelt.map_or(Ok(()), |(name, meant)| {
            let name = one_line(name);
            Err(usage(format!("{which}{{{name}}} is no column; did you mean {{{meant}}}?")))
        })
    };
    match handler {
        config::Handler::Exec { argv, .. } => harmless(argv, "")?,
        // Their arguments hold no columns.
        config::Handler::Stream { .. } | config::Handler::Post(_) => {}
    }
    if let Some(argv) = on_archive {
        harmless(argv, "--on-archive: ")?;
    }
    Ok(())
}

/// Fails if the table has not what the handler goes by, or a command would run what a record says.
pub fn require(
    handler: &config::Handler,
    on_archive: Option<&[OsString]>,
    table: &Table,
) -> Result<()> {
    refuse_injection(handler, on_archive, table)?;
    if let Some(option) = handler.gives_up() {
        table.require_archived(option)?;
    }
    let config::Handler::Post(webhook) = handler else { return Ok(()) };
    webhook.proxies.proxy(webhook.target.is_https())?;
    if let Some(path) = &webhook.ca_file {
        authorities::of_file(path)?;
    }
    for column in webhook.target.columns() {
        require_column(table, column, "--post", "the URL")?;
    }
    for column in webhook.key.columns() {
        require_column(table, column, "--idempotency-key", "the key")?;
    }
    let secret = webhook.signing.column();
    secret.map_or(Ok(()), |it| require_column(table, it, "--secret-column", "the secrets"))
}

fn require_column(table: &Table, column: &str, option: &str, wanted_for: &str) -> Result<()> {
    let names = || table.columns.iter().map(|column| column.name.as_str());
    if names().any(|name| name.eq_ignore_ascii_case(column)) {
        return Ok(());
    }
    let (table, legal) = (&table.name, names().collect::<Vec<_>>().join(", "));
    Err(usage(format!(
        "{option}: table {table} has no column {column:?} for {wanted_for}; legal are {legal}"
    ))
    .into())
}

pub fn handlers(settings: &PassSettings, common: &Common, clock: Clock) -> Result<Handlers> {
    let handler = match &settings.handler {
        None => return Err(config::Handler::none().into()),
        Some(config::Handler::Exec { argv, give_up_on }) => {
            exec(settings, common, argv, settings.jobs, give_up_on, clock)?
        }
        Some(config::Handler::Stream { argv, window, window_bytes, restarts }) => {
            let settings = StreamSettings {
                argv: argv.clone(),
                jobs: settings.jobs,
                window: *window,
                window_bytes: *window_bytes,
                restarts: *restarts,
                timeout: settings.timeout,
                patience: settings.timeout.map_or(PATIENCE, |timeout| PATIENCE.min(timeout / 2)),
                grace: settings.limits.grace,
                hello: common.hello.clone(),
                env: common.env.clone(),
            };
            Arc::new(Stream::new(settings, clock)?)
        }
        Some(config::Handler::Post(webhook)) => {
            let settings = PostSettings {
                webhook: (**webhook).clone(),
                timeout: settings.timeout,
                jobs: settings.jobs,
                table: common.hello.table.clone(),
                series: common.series,
                payload: common.payload.clone(),
            };
            Arc::new(Post::new(settings, clock)?)
        }
    };
    let on_archive = settings.on_archive.as_ref();
    let on_archive =
        on_archive.map(|argv| exec(settings, common, argv, 1, &[], clock)).transpose()?;
    Ok(Handlers { handler, on_archive })
}

fn exec(
    settings: &PassSettings,
    common: &Common,
    argv: &[OsString],
    jobs: usize,
    give_up_on: &[i32],
    clock: Clock,
) -> Result<Arc<dyn Handler>> {
    let settings = ExecSettings {
        argv: argv.to_vec(),
        jobs,
        timeout: settings.timeout,
        grace: settings.limits.grace,
        give_up_on: give_up_on.to_vec(),
        payload: common.payload.clone(),
        last_error: common.last_error.clone(),
        env: common.env.clone(),
    };
    Ok(Arc::new(Exec::new(settings, clock)?))
}

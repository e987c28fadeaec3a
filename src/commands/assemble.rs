//! The parts of a pass from options and table: the crontab line with the cursor of its last pass, and the handlers.

use std::ffi::OsString;
use std::iter;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use backlog_schedule::{Instant, Schedule, Shard};
#[cfg(feature = "webhook")]
use backlog_store::tls_roots;
use backlog_store::{
    Access, Clock, Column, ColumnType, Database, LineLock, LineName, LineState, StateDir, Stop,
    Stoppable, StoredLine, Table,
};

use super::{line_name, open, or_warn, require_columns, state_dir};
use crate::engine::{Handlers, LineSchedule, Observer, Pass};
use crate::exit::usage;
use crate::handlers::{
    CommandEnv, Exec, Handler, HandlerContext, Stream, jobs_within_limits, one_word_hint,
    placeholders, preflight_error,
};
#[cfg(feature = "webhook")]
use crate::handlers::{Post, Proxy};
use crate::options::{self, PassSettings, Queue};

pub struct Assembly {
    pub line: LineSchedule,
    pub state: StateDir,
    /// Independent of the handler: lines that differ only in it would try the same records.
    pub name: LineName,
    /// The column that orders the records, if it is not the insertion date.
    order: Option<String>,
    pub last: Option<StoredLine>,
}

impl Assembly {
    /// An assembly for reports. An unreadable cursor causes only a warning.
    pub fn new(queue: &Queue, schedule: &Schedule, database: &dyn Database) -> Result<Self> {
        let mut assembly = Self::without_cursor(queue, schedule, database)?;
        let last = or_warn(assembly.state.line_to_read(&assembly.name));
        assembly.continue_from(last, database.table());
        Ok(assembly)
    }

    /// An assembly with the lock of its line. There is no lock if another pass has it and this one does not `wait`.
    pub fn locked(
        queue: &Queue,
        schedule: &Schedule,
        database: &mut dyn Database,
        wait: bool,
        now: Instant,
    ) -> Result<(Self, Option<LineLock>)> {
        let mut assembly = Self::without_cursor(queue, schedule, database)?;
        let line = assembly.name.to_string();
        let lock = match assembly.state.prepare()? {
            true => assembly.state.lock_line(&line, wait)?,
            false => database.lock_line(&line, wait)?.then(LineLock::held_by_session),
        };
        if lock.is_some() {
            let last = assembly.state.line(&assembly.name, now);
            assembly.continue_from(last, database.table());
        }
        Ok((assembly, lock))
    }

    fn without_cursor(queue: &Queue, schedule: &Schedule, database: &dyn Database) -> Result<Self> {
        require_columns(database.table(), schedule)?;
        let schedule = Schedule { shard: queue.shard, ..schedule.clone() };
        let state = state_dir(queue, database)?;
        let table = database.table();
        let policy = line_policy(&schedule, &queue.mapping.conditions, queue.shard);
        let name = line_name(queue, &table.name, policy);
        let line = LineSchedule::new(schedule, table.capabilities());
        let order = table.order.as_ref().map(|(column, _)| column.name.clone());
        Ok(Self { line, state, name, order, last: None })
    }

    fn continue_from(&mut self, last: Option<StoredLine>, table: &Table) {
        let Some(mut last) = last else { return };
        let is_same_order = last.state.order == self.order;
        last.state.cursor = last.state.cursor.without_foreign_keys(table.id.len(), is_same_order);
        self.line.cursor.clone_from(&last.state.cursor);
        self.line.later.clone_from(&last.state.later);
        self.last = Some(last);
    }

    /// The state from which the next pass continues if this one gets no further.
    pub fn next(&self, now: Instant, drain: bool) -> LineState {
        LineState {
            began_at: Some(now),
            began_behind: self.line.pass_time(now, drain).span.map(|span| span.after),
            later: self.line.slots_later(now),
            order: self.order.clone(),
            ..self.last.as_ref().map(|last| last.state.clone()).unwrap_or_default()
        }
    }

    pub fn pass(
        &self,
        database: Box<dyn Database>,
        settings: &PassSettings,
        now: Instant,
        stop: Arc<Stop>,
        token: &str,
        observer: Box<dyn Observer + Send>,
    ) -> Result<Pass> {
        if self.line.has_clock_gone_back(now) {
            log::warn!("the last pass ran in the future: the clock was set back");
        }
        let store = Stoppable::open(database, &self.state, stop.clone())?;
        Ok(Pass {
            store: Box::new(store),
            line: self.line.clone(),
            began_at: now,
            order: settings.options.order,
            limits: settings.limits.clone(),
            clock: stop.clock,
            stop,
            token: Some(token.into()),
            observer,
        })
    }
}

/// The policy of a crontab line as options, with the conditions and the shard that narrow the records.
pub fn line_policy(schedule: &Schedule, conditions: &[String], shard: Option<Shard>) -> String {
    let conditions = conditions.iter().map(|condition| format!(" --where {condition}"));
    let shard = shard.map(|shard| format!(" --shard {shard}"));
    iter::once(schedule.policy.options()).chain(conditions).chain(shard).collect()
}

pub fn open_to_read(
    queue: &Queue,
    schedule: Option<&Schedule>,
    clock: Clock,
) -> Result<(Box<dyn Database>, Option<Assembly>)> {
    let database = open(queue, Access::ReadOnly, clock)?;
    let assembly = schedule.map(|schedule| Assembly::new(queue, schedule, &*database));
    Ok((database, assembly.transpose()?))
}

/// The context of the handlers of a pass. `token` marks their processes, and `run` is the name of the pass.
pub fn context(
    queue: &Queue,
    settings: &PassSettings,
    table: &Table,
    token: &str,
    run: &str,
) -> Result<HandlerContext> {
    let variables = [
        ("BACKLOG_RUN", run.into()),
        ("BACKLOG_QUEUE", queue.name.clone()),
        ("BACKLOG_TABLE", table.name.clone()),
        (backlog_store::TOKEN, token.into()),
    ];
    let most = settings.schedule.limits.max_attempts;
    let most = most.map(|most| ("BACKLOG_MAX_ATTEMPTS", most.to_string()));
    let variables: Vec<_> = variables.into_iter().chain(most).collect();
    let uses_default_key =
        settings.handler.as_ref().is_some_and(options::HandlerSpec::uses_default_key);
    Ok(HandlerContext {
        queue: queue.name.clone(),
        table: table.name.clone(),
        id: table.id.iter().map(|column| column.name.clone()).collect(),
        jobs: settings.options.jobs,
        timeout: settings.timeout,
        payload: queue.mapping.payload.clone(),
        series: table.series_source().filter(|_| uses_default_key),
        keeps_stderr: settings.options.joblog.is_some(),
        environment: CommandEnv::new(&variables)?,
    })
}

/// The columns that placeholders may name. `{id}` is an integer if the only column of the id is.
fn placeholder_columns(table: &Table) -> placeholders::Columns<'_> {
    let is_integer = |column: &&Column| column.column_type == ColumnType::Integer;
    let integers = table.columns.iter().filter(is_integer).map(|column| column.name.as_str());
    let id = matches!(&table.id[..], [id] if is_integer(&id)).then_some("id");
    placeholders::Columns {
        names: table.columns.iter().map(|column| column.name.as_str()).collect(),
        integers: integers.chain(id).collect(),
    }
}

/// Fails if a command could run a value of a record as code, or if a placeholder names no column.
pub fn check_placeholders(
    handler: &options::HandlerSpec,
    queue: &Queue,
    table: &Table,
) -> Result<()> {
    let columns = placeholder_columns(table);
    let exec =
        if let options::HandlerSpec::Exec { argv, .. } = handler { Some(argv) } else { None };
    let on_archive = queue.on_archive.iter().map(|argv| (argv, "--on-archive: "));
    for (argv, option) in exec.map(|argv| (argv, "")).into_iter().chain(on_archive) {
        if let Err(why) = placeholders::check(argv, &columns) {
            let path = std::env::var_os("PATH").unwrap_or_default();
            let why = one_word_hint(argv, &path).unwrap_or(why);
            bail!(usage(format!("{option}{why}")));
        }
    }
    Ok(())
}

/// Fails if the table lacks a column that the handler needs, or a command could run a value of a record as code.
pub fn require_handler(
    handler: Option<&options::HandlerSpec>,
    queue: &Queue,
    table: &Table,
) -> Result<()> {
    let Some(handler) = handler else { return Ok(()) };
    check_placeholders(handler, queue, table)?;
    // Otherwise the error would come after the first record is archived.
    if let Some(why) = queue.on_archive.as_deref().and_then(preflight_error) {
        bail!("--on-archive: {why}");
    }
    if handler.gives_up() {
        table.require_archived("--give-up-on")?;
    }
    let options::HandlerSpec::Post(webhook) = handler else { return Ok(()) };
    #[cfg(feature = "webhook")]
    {
        Proxy::choose(&webhook.proxies, webhook.target.is_https)?;
        if let Some(path) = &webhook.ca_file {
            tls_roots::from_file(path)?;
        }
    }
    let columns = placeholder_columns(table);
    let url = webhook.target.columns().map(|column| (column, "--post"));
    let key = webhook.key.columns().map(|column| (column, "--idempotency-key"));
    let missing = url.chain(key).find(|(name, _)| !columns.has(name));
    // The secret is in a column, while `{id}` need not be one.
    let secret = webhook.signing.column().map(|column| (column, "--secret-column"));
    let no_secret = secret.filter(|(name, _)| !placeholders::has(&columns.names, name));
    let Some((column, option)) = missing.or(no_secret) else { return Ok(()) };
    bail!(usage(format!("{option}: {}", columns.unknown(column))))
}

/// Starts the handlers of a pass. The handler of records has a part of the pass's stop.
pub fn start_handlers(
    handler: Option<options::HandlerSpec>,
    on_archive: Option<Vec<OsString>>,
    context: &HandlerContext,
    stop_of_pass: Arc<Stop>,
) -> Result<Handlers> {
    let stop = stop_of_pass.part().context("could not create an eventfd")?;
    let of_records = HandlerContext { jobs: jobs_within_limits(context.jobs), ..context.clone() };
    let handler: Arc<dyn Handler> = match handler.ok_or_else(options::no_handler)? {
        options::HandlerSpec::Exec { argv, give_up_on } => {
            Arc::new(Exec::start_workers(argv, give_up_on, of_records, stop.clone())?)
        }
        options::HandlerSpec::Stream(settings) => {
            Arc::new(Stream::new(settings, of_records, stop.clone())?)
        }
        #[cfg(not(feature = "webhook"))]
        options::HandlerSpec::Post(_) => return Err(options::no_handler().into()),
        #[cfg(feature = "webhook")]
        options::HandlerSpec::Post(webhook) => {
            Arc::new(Post::new(*webhook, of_records, stop.clone())?)
        }
    };
    let on_archive = on_archive.map(|argv| -> Result<Arc<dyn Handler>> {
        let context = HandlerContext { jobs: 1, ..context.clone() };
        Ok(Arc::new(Exec::start_workers(argv, Vec::new(), context, stop_of_pass)?))
    });
    Ok(Handlers { handler, stop, on_archive: on_archive.transpose()? })
}

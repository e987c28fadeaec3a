//! Assembly of a pass, from the options and the table: the crontab line with what its last pass left
//! in the state directory, and the handlers. A pass, a dry run, a simulation, and what is said of the
//! next pass all begin here.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::open_for;
use crate::clock::Clock;
use crate::engine::{CronLine, Handlers, Observer, Pass};
use crate::exit::usage;
use crate::handlers::{
    Exec, ExecSettings, Handler, Hello, Stream, StreamSettings, check_injection, misspelt,
};
use crate::options::{self, PassSettings, Queue, Schedule};
use crate::record::series::SeriesSource;
use crate::record::{Status, one_line};
use crate::schedule::Capabilities;
use crate::stop::Stop;
use crate::store::{
    self, Access, Database, Interruptible, LineLock, LineState, Purpose, StateDir, Table,
};
use crate::time::Instant;

#[cfg(feature = "webhook")]
use crate::{
    handlers::{Post, PostSettings, Proxy},
    tls_roots,
};

/// The parts of a pass that are there before it begins.
pub struct Assembly {
    pub line: CronLine,
    pub state: StateDir,
    /// What tells the line from others in the state directory.
    pub name: String,
    /// What the last pass left.
    pub last: LineState,
}

impl Assembly {
    /// To look only: whoever does may have no right to the cursor.
    pub fn new(queue: &Queue, schedule: &Schedule, database: &dyn Database) -> Result<Self> {
        let mut assembly = Self::at_first(queue, schedule, database)?;
        match assembly.state.line_state(&assembly.name, Purpose::Read) {
            Ok(last) => assembly.go_on_from(last, database.table()),
            Err(error) => log::warn!("{error:#}"),
        }
        Ok(assembly)
    }

    /// With the lock of the line: two passes of one line never run at once. `None` if there is one,
    /// unless this is to `wait` for its end.
    pub fn locked(
        queue: &Queue,
        schedule: &Schedule,
        database: &dyn Database,
        wait: bool,
    ) -> Result<Option<(Self, LineLock)>> {
        let mut assembly = Self::at_first(queue, schedule, database)?;
        let Some(lock) = assembly.state.lock_line(&assembly.name, wait)? else { return Ok(None) };
        let last = assembly.state.line_state(&assembly.name, Purpose::Write)?;
        assembly.go_on_from(last, database.table());
        Ok(Some((assembly, lock)))
    }

    /// As if the line had had no pass yet.
    fn at_first(queue: &Queue, schedule: &Schedule, database: &dyn Database) -> Result<Self> {
        let table = database.table();
        let schedule = Schedule { shard: queue.shard, ..schedule.clone() };
        let capabilities = Capabilities {
            has_counter: table.failures.is_some(),
            can_snooze: table.can_snooze(),
            can_archive: table.can_be(Status::Archived),
            ..Capabilities::default()
        };
        let line = CronLine {
            is_kept_by_store: table.due_at.is_some(),
            ..CronLine::new(schedule, capabilities)
        };
        let state = database.state_dir(queue.state_dir.as_deref())?;
        let name = name(queue, &line.schedule, database);
        Ok(Self { line, state, name, last: LineState::default() })
    }

    fn go_on_from(&mut self, last: LineState, table: &Table) {
        self.line.cursor = last.cursor.taken_up(table.id.len());
        self.last = LineState { cursor: self.line.cursor.clone(), ..last };
    }

    pub fn pass(
        &self,
        database: Box<dyn Database>,
        settings: &PassSettings,
        now: Instant,
        clock: Clock,
        token: &str,
        observer: Box<dyn Observer + Send>,
    ) -> Result<Pass> {
        if self.line.is_ahead_of(now) {
            log::warn!("the last pass ran in the future: the clock was set back");
        }
        let limits = settings.limits.clone();
        let stop = Stop::new(clock, limits.grace, limits.max_runtime)
            .context("could not make an eventfd")?;
        let store = Interruptible::open(database, &self.state, stop.clone(), clock)?;
        Ok(Pass {
            store: Box::new(store),
            line: self.line.clone(),
            began_at: now,
            order: settings.order,
            limits,
            clock,
            stop,
            token: Some(token.into()),
            observer,
        })
    }
}

/// What tells a line from others: queue, table, policy, conditions and shard. The handler does not
/// count, because two lines with different ones would be after the same records.
fn name(queue: &Queue, schedule: &Schedule, database: &dyn Database) -> String {
    let mut name = format!("{} {} {}", queue.name, database.table().name, schedule.policy.line());
    for condition in &queue.mapping.conditions {
        name += &format!(" --where {condition}");
    }
    if let Some(shard) = &queue.shard {
        name += &format!(" --shard {shard}");
    }
    name
}

/// The table of a queue, to be looked at, and what a pass would begin with, if a schedule is chosen.
pub fn look(
    queue: &Queue,
    schedule: Option<&Schedule>,
) -> Result<(Box<dyn Database>, Option<Assembly>)> {
    let database = open_for(queue, schedule, Access::ReadOnly)?;
    let assembly = schedule.map(|schedule| Assembly::new(queue, schedule, &*database));
    let assembly = assembly.transpose()?;
    Ok((database, assembly))
}

/// How long a co-process may keep its first reply to itself until somebody is told, if --timeout
/// is not about to end it anyway.
const FIRST_REPLY_WITHIN: Duration = Duration::from_secs(10);

/// The context of all handlers of a pass: what they are told besides their records.
pub struct HandlerContext {
    hello: Hello,
    /// What tells the series of attempts of a record apart, if the handler goes by them.
    pub series: Option<SeriesSource>,
    /// What all commands have in common.
    exec: ExecSettings,
    on_archive: Option<Vec<OsString>>,
}

impl HandlerContext {
    pub fn new(queue: &Queue, settings: &PassSettings, table: &Table, token: &str) -> Self {
        let mut env = vec![
            ("BACKLOG_QUEUE", queue.name.clone()),
            ("BACKLOG_TABLE", table.name.clone()),
            (store::TOKEN, token.into()),
        ];
        let most = settings.schedule.limits.max_attempts;
        env.extend(most.map(|most| ("BACKLOG_MAX_ATTEMPTS", most.to_string())));
        let hello = Hello {
            queue: queue.name.clone(),
            table: table.name.clone(),
            id: table.id.iter().map(|column| column.name.clone()).collect(),
        };
        let goes_by_series =
            settings.handler.as_ref().is_some_and(options::Handler::goes_by_series);
        let series = table.series_source().filter(|_| goes_by_series);
        let exec = ExecSettings {
            argv: Vec::new(),
            jobs: 1,
            timeout: settings.timeout,
            give_up_on: Vec::new(),
            payload: queue.mapping.payload.clone(),
            last_error: table.last_error.as_ref().map(|column| column.name.clone()),
            env,
        };
        Self { hello, series, exec, on_archive: queue.on_archive.clone() }
    }
}

/// Fails if a command would run what a record says, or has a column in it that is misspelt and
/// would go out as it stands.
pub fn refuse_injection(handler: &options::Handler, queue: &Queue, table: &Table) -> Result<()> {
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
    // The arguments of the others hold no columns.
    if let options::Handler::Exec { argv, .. } = handler {
        harmless(argv, "")?;
    }
    if let Some(argv) = &queue.on_archive {
        harmless(argv, "--on-archive: ")?;
    }
    Ok(())
}

/// Fails if the table has not what the handler goes by, or a command would run what a record says.
pub fn require(handler: &options::Handler, queue: &Queue, table: &Table) -> Result<()> {
    refuse_injection(handler, queue, table)?;
    if let Some(option) = handler.gives_up() {
        table.require_archived(option)?;
    }
    let options::Handler::Post(webhook) = handler else { return Ok(()) };
    #[cfg(feature = "webhook")]
    {
        Proxy::chosen(&webhook.proxies, webhook.target.is_https)?;
        if let Some(path) = &webhook.ca_file {
            tls_roots::of_file(path)?;
        }
    }
    let url = webhook.target.columns().map(|column| (column, "--post", "the URL"));
    let key = webhook.key.columns().map(|column| (column, "--idempotency-key", "the key"));
    let secret = webhook.signing.column();
    let secret = secret.map(|column| (column, "--secret-column", "the secrets"));
    let names: Vec<_> = table.columns.iter().map(|column| column.name.as_str()).collect();
    for (column, option, wanted_for) in url.chain(key).chain(secret) {
        if !names.iter().any(|name| name.eq_ignore_ascii_case(column)) {
            let (table, legal) = (&table.name, names.join(", "));
            bail!(usage(format!(
                "{option}: table {table} has no column {column:?} for {wanted_for}; legal are \
                 {legal}"
            )));
        }
    }
    Ok(())
}

/// The handlers of a pass: those of records heed a part of its stop, `of_pass`.
pub fn handlers(
    settings: &PassSettings,
    context: &HandlerContext,
    of_pass: Arc<Stop>,
    clock: Clock,
) -> Result<Handlers> {
    let stop = of_pass.part().context("could not make an eventfd")?;
    let exec = |settings, stop| -> Result<Arc<dyn Handler>> {
        Ok(Arc::new(Exec::new(settings, stop, clock)?))
    };
    let (jobs, timeout) = (settings.jobs, settings.timeout);
    let handler = match settings.handler.clone() {
        None => return Err(options::Handler::none().into()),
        Some(options::Handler::Exec { argv, give_up_on }) => {
            exec(ExecSettings { argv, jobs, give_up_on, ..context.exec.clone() }, stop.clone())?
        }
        Some(options::Handler::Stream { argv, window, window_bytes, restarts }) => {
            let settings = StreamSettings {
                argv,
                jobs,
                window,
                window_bytes,
                restarts,
                timeout,
                first_reply_within: timeout
                    .map_or(FIRST_REPLY_WITHIN, |timeout| FIRST_REPLY_WITHIN.min(timeout / 2)),
                hello: context.hello.clone(),
                env: context.exec.env.clone(),
            };
            Arc::new(Stream::new(settings, stop.clone(), clock)?)
        }
        #[cfg(not(feature = "webhook"))]
        Some(options::Handler::Post(_)) => return Err(options::Handler::none().into()),
        #[cfg(feature = "webhook")]
        Some(options::Handler::Post(webhook)) => {
            let settings = PostSettings {
                webhook: *webhook,
                timeout,
                jobs,
                table: context.hello.table.clone(),
                series: context.series,
                payload: context.exec.payload.clone(),
            };
            Arc::new(Post::new(settings, stop.clone(), clock)?)
        }
    };
    let on_archive = context.on_archive.clone();
    let on_archive =
        on_archive.map(|argv| exec(ExecSettings { argv, ..context.exec.clone() }, of_pass));
    Ok(Handlers { handler, stop, on_archive: on_archive.transpose()? })
}

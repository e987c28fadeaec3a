//! A function for each subcommand: it acquires, calls one function of a layer below, and reports.

mod assemble;
mod cadence;
mod check;
mod crontab;
mod edit;
mod failures;
mod look;
mod passes;
mod process;
mod simulate;

use std::io::Write;

use anyhow::{Result, bail};

use crate::cli::{Command, Process, Typed};
use crate::exit::{self, Exit, usage};
use crate::options::{Environment, PassSettings, Queue, Resolved, Schedule, Sources, TypedOptions};
use crate::record::{Id, Record, one_line};
use crate::report::Screen;
use crate::schedule::Policy;
use crate::store::{self, Access, Database, Found, Reader, Table};
use crate::terminal::Terminal;
use crate::time::Clock;

/// The console of a command: its clock, standard error, and standard output with what shows it.
pub struct Console<'a> {
    pub clock: Clock,
    pub terminal: &'a Terminal,
    pub screen: Screen,
    pub out: &'a mut dyn Write,
}

pub fn run(typed: Typed, environment: Environment, console: &mut Console<'_>) -> Result<Exit> {
    let Typed { cli, options } = typed;
    // It knows nothing of queues.
    if let Command::Watchdog = cli.command {
        return store::run_watchdog().map(|()| Exit::Done);
    }
    let sources = Sources::find(cli.global.config.as_deref(), environment)?;
    if let Command::Process(args) = &cli.command
        && args.all_queues
    {
        return all_queues(args, &sources, &options, console);
    }
    let resolved = sources.resolve(&options, None)?;
    if let Some(name) = sources.mere_name(&options) {
        log::warn!("no backlog.toml, {name:?} is only a name");
    }
    match &cli.command {
        Command::Init(args) => edit::init(&resolved.queue()?, args.minimal, console),
        Command::Add(args) => edit::add(&resolved.queue()?, &args.payloads, console),
        Command::Process(args) => pass(args, &resolved, console),
        Command::Status(args) => look::status(&resolved, args.json, console),
        Command::List(args) => look::list(&resolved, args, console),
        Command::Failures(args) => failures::run(&resolved, args, console),
        Command::Explain(args) => look::explain(&resolved, &args.ids, console),
        Command::Archive(args) => edit::edit(&resolved, &edit::ARCHIVE, args, console),
        Command::Restore(args) => edit::edit(&resolved, &edit::RESTORE, args, console),
        Command::Retry(args) => edit::edit(&resolved, &edit::RETRY, args, console),
        Command::Simulate(args) => simulate::run(&resolved, args, console),
        Command::Check(args) => check::run(&resolved, args.json, console),
        Command::Crontab(args) => crontab::run(&resolved, args, console),
        Command::Watchdog => store::run_watchdog().map(|()| Exit::Done),
    }
}

/// Each queue's own pass. What stops one of them does not stop the next, but a signal does.
fn all_queues(
    args: &Process,
    sources: &Sources,
    typed: &TypedOptions,
    console: &mut Console<'_>,
) -> Result<Exit> {
    if typed.layer.says("table") {
        bail!(usage("--all-queues goes through the tables of backlog.toml: leave out --table"));
    }
    let mut worst = Exit::Done;
    for queue in sources.queues()? {
        if args.dry_run {
            writeln!(console.out, "queue {}:", one_line(&queue))?;
        }
        console.terminal.name_queue(Some(&queue));
        let resolved = sources.resolve(typed, Some(&queue)).map_err(anyhow::Error::from);
        let exit = resolved.and_then(|resolved| pass(args, &resolved, console));
        let exit = exit.unwrap_or_else(|error| {
            console.terminal.say_error(&error);
            exit::of(&error)
        });
        console.terminal.name_queue(None);
        if matches!(exit, Exit::Signal(_)) {
            return Ok(exit);
        }
        worst = worst.max(exit);
    }
    Ok(worst)
}

fn pass(args: &Process, resolved: &Resolved<'_>, console: &mut Console<'_>) -> Result<Exit> {
    if let Some(name) = resolved.named() {
        console.terminal.name_queue(Some(name));
    }
    let queue = resolved.queue()?;
    let mut settings = PassSettings::new(resolved, &queue, args.dry_run)?;
    (settings.limits.drain, settings.wait) = (args.drain, args.wait);
    if args.dry_run {
        process::dry_run(&queue, &settings, console)
    } else {
        process::run(&queue, &settings, console)
    }
}

fn open(queue: &Queue, access: Access) -> Result<Box<dyn Database>> {
    queue.db.open(&queue.mapping, access)
}

/// Fails if the table has not the columns that the schedule goes by.
fn require_columns(table: &Table, schedule: &Schedule) -> Result<()> {
    if table.capabilities().keeps_schedule && matches!(schedule.policy, Policy::Age(_)) {
        bail!(usage(
            "a queue keeps the waits of its messages itself, and --ndays has none: say --policy, \
             --fibonacci or --progressive",
        ));
    }
    if schedule.policy.needs_counter() {
        table.require_counter(&schedule.policy.line(), true)?;
    }
    if schedule.limits.max_attempts.is_some() {
        table.require_counter("a limit of attempts", false)?;
        table.require_archived("a limit of attempts")?;
    }
    if schedule.limits.max_age_secs.is_some() {
        table.require_archived("a limit of age")?;
    }
    Ok(())
}

/// The record with an id of so many columns, as it is typed; or why there is none.
fn find(reader: &mut dyn Reader, id: &str, columns: usize) -> Result<Result<Record, &'static str>> {
    for id in Id::typed(id, columns) {
        match reader.read(&id)? {
            Found::Record(record) => return Ok(Ok(*record)),
            Found::Ambiguous => return Ok(Err(AMBIGUOUS)),
            Found::Gone => {}
        }
    }
    Ok(Err(GONE))
}

const AMBIGUOUS: &str = "more than one row has this id";
const GONE: &str = "no such record";

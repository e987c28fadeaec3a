//! A function for each subcommand: it acquires, calls one function of a layer below, and reports.

mod adopt;
mod archived;
mod assemble;
mod cadence;
mod check;
mod crontab;
mod edit;
mod failures;
mod look;
mod manual;
mod monitoring;
mod page;
mod passes;
mod pause;
mod process;
mod progress;
mod queue_arguments;
mod signals;
mod simulate;
mod status;

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use anyhow::{Result, bail};

pub use monitoring::Endings;
pub use signals::Signals;

use crate::cli::{self, Cli, Command, Process, Typed};
use crate::exit::{self, Exit, usage};
use crate::options::{Environment, PassSettings, Queue, Resolved, Schedule, Sources, TypedOptions};
use crate::record::{Id, Record, one_line, split};
use crate::report::{self, Screen};
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
    pub endings: Endings,
    pub signals: Signals,
}

pub fn run(typed: Typed, environment: Environment, console: &mut Console<'_>) -> Result<Exit> {
    let Typed { cli, options } = typed;
    let result = run_command(&cli, &options, environment, console);
    console.endings.wait(&console.clock, &console.signals);
    // One that has come since the pass was over.
    let signal = console.signals.first().filter(|_| result.is_ok());
    if let Some(signal) = signal {
        return Ok(Exit::Signal(signal));
    }
    match (&cli.command, &result) {
        (Command::Status(args), Err(error)) if args.has_limits() => status::unknown(error, console),
        _ => result,
    }
}

fn run_command(
    cli: &Cli,
    options: &TypedOptions,
    environment: Environment,
    console: &mut Console<'_>,
) -> Result<Exit> {
    let sources = if cli.command.is_about_a_queue() {
        Sources::find(cli.global.config.as_deref(), environment)?
    } else {
        Sources { environment, file: None }
    };
    let one = || resolve(&sources, options);
    let command = match &cli.command {
        Command::Process(args) => QueueCommand::Process(args),
        Command::Status(args) => QueueCommand::Status(args),
        Command::Failures(args) => QueueCommand::Failures(args),
        Command::Check(args) => QueueCommand::Check(args),
        Command::Crontab(args) => QueueCommand::Crontab(args),
        Command::Adopt(args) => {
            return adopt::run(cli.global.db.as_deref(), args, &sources.environment, console);
        }
        Command::Init(args) => return edit::init(&one()?.queue()?, args, console),
        Command::Add(args) => return edit::add(&one()?.queue()?, &args.payloads, console),
        Command::List(args) => return look::list(&one()?, args, console),
        Command::Explain(args) => return look::explain(&one()?, &args.ids, console),
        Command::Archive(args) => return edit::edit(&one()?, &edit::ARCHIVE, args, console),
        Command::Restore(args) => return edit::edit(&one()?, &edit::RESTORE, args, console),
        Command::Retry(args) => return edit::edit(&one()?, &edit::RETRY, args, console),
        Command::Pause(args) => return pause::pause(&one()?, args, console),
        Command::Resume => return pause::resume(&one()?, console),
        Command::Simulate(args) => return simulate::run(&one()?, args, console),
        Command::Completions(args) => return manual::completions(args.shell, console),
        Command::Man(args) => return manual::man(&args.directory, console),
        Command::Watchdog => return store::run_watchdog().map(|()| Exit::Done),
    };
    if command.is_about_all() {
        return all_queues(command, &sources, options, console);
    }
    // The passes are those of one queue.
    if let QueueCommand::Status(args) = command
        && args.passes == 0
        && let Some(queues) = sources.undecided(options)?
        && queues.len() > 1
    {
        return status::overview(&queues, &sources, options, args, console);
    }
    command.run(&one()?, true, console)
}

/// The options of the queue that is chosen.
fn resolve<'a>(sources: &'a Sources, typed: &'a TypedOptions) -> Result<Resolved<'a>> {
    let resolved = sources.resolve(typed, None)?;
    if let Some(name) = sources.mere_name(typed) {
        log::warn!("no backlog.toml, {name:?} is only a name");
    }
    Ok(resolved)
}

/// A command that is about one queue, or about each that backlog.toml describes.
#[derive(Clone, Copy)]
enum QueueCommand<'a> {
    Process(&'a Process),
    Status(&'a cli::Status),
    Failures(&'a cli::Failures),
    Check(&'a cli::Check),
    Crontab(&'a cli::Crontab),
}

impl QueueCommand<'_> {
    fn is_about_all(self) -> bool {
        match self {
            Self::Process(args) => args.all_queues,
            Self::Status(args) => args.format.queues.all_queues,
            Self::Check(args) => args.format.queues.all_queues,
            Self::Failures(args) => args.queues.all_queues,
            Self::Crontab(args) => args.queues.all_queues,
        }
    }

    fn is_json(self) -> bool {
        match self {
            Self::Status(args) => args.format.json,
            Self::Check(args) => args.format.json,
            Self::Failures(args) => args.json,
            Self::Process(_) | Self::Crontab(_) => false,
        }
    }

    /// `is_first` says that no other queue's output stands above.
    fn run(
        self,
        resolved: &Resolved<'_>,
        is_first: bool,
        console: &mut Console<'_>,
    ) -> Result<Exit> {
        match self {
            Self::Process(args) => pass(args, resolved, console),
            Self::Status(args) => status::run(resolved, args, console),
            Self::Failures(args) => failures::run(resolved, args, console),
            Self::Check(args) => check::run(resolved, args, console),
            Self::Crontab(args) => crontab::run(resolved, args, is_first, console),
        }
    }

    /// What stands before the output of one of several queues, where that does not name it.
    fn heading(self, queue: &str) -> String {
        let queue = one_line(queue);
        let names = match self {
            Self::Process(args) => args.dry_run,
            Self::Status(_) | Self::Check(_) | Self::Failures(_) => !self.is_json(),
            Self::Crontab(_) => return format!("\n# Queue {queue}.\n"),
        };
        if names { format!("queue {queue}:\n") } else { String::new() }
    }
}

/// A command for each queue of backlog.toml. What stops one of them does not stop the next, but a
/// signal does.
fn all_queues(
    command: QueueCommand<'_>,
    sources: &Sources,
    typed: &TypedOptions,
    console: &mut Console<'_>,
) -> Result<Exit> {
    if typed.layer.says("table") {
        bail!(usage("--all-queues goes through the tables of backlog.toml: leave out --table"));
    }
    let queues = sources.queues()?;
    if let QueueCommand::Status(args) = command {
        return status::overview(&queues, sources, typed, args, console);
    }
    let mut worst = Exit::Done;
    for (queue, number) in queues.iter().zip(0..) {
        console.out.write_all(command.heading(queue).as_bytes())?;
        console.terminal.name_queue(Some(queue));
        let resolved = sources.resolve(typed, Some(queue)).map_err(anyhow::Error::from);
        let exit = resolved.and_then(|resolved| {
            // What panics over one queue has said so, and is no reason to leave the others.
            let run = AssertUnwindSafe(|| command.run(&resolved, number == 0, console));
            catch_unwind(run).unwrap_or_else(|_| bail!("the program has a bug: it panicked"))
        });
        let exit = match exit {
            Ok(exit) => exit,
            Err(error) if command.is_json() => {
                console.out.write_all(report::unknown_queue_json(queue, &error).as_bytes())?;
                exit::of(&error)
            }
            Err(error) => {
                console.terminal.say_error(&error);
                exit::of(&error)
            }
        };
        console.terminal.name_queue(None);
        if matches!(exit, Exit::Signal(_)) || console.signals.first().is_some() {
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
    resolved.require_database(args.dry_run)?;
    let queue = resolved.queue()?;
    let mut settings = PassSettings::new(resolved, &queue, args.dry_run)?;
    (settings.limits.drain, settings.wait) = (args.drain, args.wait);
    if args.dry_run {
        process::dry_run(&queue, &settings, console)
    } else {
        process::run(resolved, &queue, &settings, console)
    }
}

fn open(queue: &Queue, access: Access, clock: Clock) -> Result<Box<dyn Database>> {
    queue.db.open(&queue.mapping, access, clock).map_err(|error| match &queue.elsewhere {
        Some(elsewhere) if exit::of(&error) == Exit::Failed => error.context(elsewhere.clone()),
        _ => error,
    })
}

/// Fails if the table has not the columns that the schedule goes by.
fn require_columns(table: &Table, schedule: &Schedule) -> Result<()> {
    if table.capabilities().keeps_schedule && matches!(schedule.policy, Policy::Age(_)) {
        bail!(usage(
            "a queue keeps the waits of its messages itself, and --ndays has none: say --policy, \
             --fibonacci or --progressive",
        ));
    }
    if let (Some(due_at), Policy::Age(_)) = (table.due_column(), &schedule.policy) {
        bail!(usage(format!(
            "on_failure sets {} to {{next}}, the next attempt, and by --ndays cron alone knows that: \
             say --policy, --fibonacci or --progressive",
            due_at.name
        )));
    }
    if table.has_no_dates() && !matches!(schedule.policy, Policy::Counted(_)) {
        bail!(usage(
            "without date_inserted no record has an age: say --fibonacci, or --policy without --by-age",
        ));
    }
    if table.has_no_dates() && schedule.limits.max_age_secs.is_some() {
        bail!(usage("--max-age goes by date_inserted, and the table has none"));
    }
    if schedule.policy.needs_counter() {
        table.require_counter(&schedule.policy.line(), true)?;
    }
    if schedule.limits.limits_attempts() {
        table.require_counter("a limit of attempts", false)?;
        table.require_archived("a limit of attempts")?;
    }
    if schedule.limits.max_age_secs.is_some() {
        table.require_archived("a limit of age")?;
    }
    Ok(())
}

/// The record with an id of so many columns, as it is typed; or why there is none.
fn find(reader: &mut dyn Reader, id: &str, columns: usize) -> Result<Result<Record, String>> {
    for id in Id::typed(id, columns) {
        match reader.read(&id)? {
            Found::Record(record) => return Ok(Ok(*record)),
            Found::Ambiguous => return Ok(Err(AMBIGUOUS.into())),
            Found::Gone => {}
        }
    }
    Ok(Err(gone(id, columns)))
}

/// Why there is no record with an id that was typed.
fn gone(id: &str, columns: usize) -> String {
    let parts = split(id).len();
    if columns == 1 || parts == columns {
        return GONE.into();
    }
    format!(
        "{GONE}: an id has {columns} columns with commas between them, not {parts}; a comma within a \
         value has a backslash before it"
    )
}

const AMBIGUOUS: &str = "more than one row has this id";
const GONE: &str = "no such record";

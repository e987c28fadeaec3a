//! The subcommands: each opens its queue, calls one of the other modules, and reports the result.

mod adopt;
mod archived;
mod assemble;
mod check;
mod crontab;
mod dry_run;
mod edit;
mod explain;
mod failures;
mod list;
mod monitoring;
mod passes;
mod pause;
mod process;
mod prune;
mod queue_arguments;
mod show;
mod signals;
mod simulate;
mod status;
mod stop;

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use anyhow::{Context, Result, bail};
use backlog_schedule::{Id, Policy, Record, Schedule, json_line, one_line, split_id};
use backlog_store::ownership::OwnerRule;
use backlog_store::{
    Access, Clock, Database, LineName, MOST_IDS, ReadResult, StateDir, Table, chain, secure_file,
};

pub use monitoring::LastPings;
pub use signals::Signals;

use crate::cli::{self, Cli, CliCommand, GlobalArgs, Typed};
use crate::exit::{Exit, ExitError, usage};
use crate::options::raw::truth;
use crate::options::{Environment, Queue, Resolved, Sources, TypedOptions};
use crate::report::{self, Screen};
use crate::terminal::Terminal;

pub struct Console<'a> {
    pub clock: Clock,
    /// Standard error.
    pub terminal: &'a Terminal,
    pub screen: Screen,
    /// Standard output.
    pub out: &'a mut dyn Write,
    pub last_pings: LastPings,
    pub signals: Signals,
}

pub fn run(typed: Typed, environment: Environment, console: &mut Console<'_>) -> Result<Exit> {
    let Typed { cli, options, uses_queue } = typed;
    let result = with_owner_rule(&cli, environment).and_then(|environment| {
        let sources = if uses_queue {
            Sources::find(cli.global.config.as_deref(), environment)?
        } else {
            Sources { environment, file: None }
        };
        run_command(&cli, &options, &sources, console)
    });
    console.last_pings.wait(&console.clock, &console.signals);
    // A signal that came after the pass.
    if let (Some(signal), Ok(_)) = (console.signals.first(), &result) {
        return Ok(Exit::Signal(signal));
    }
    match (&cli.command, &result) {
        (CliCommand::Status(args), Err(error)) if args.has_limits() => {
            status::unknown(error, console)
        }
        _ => result,
    }
}

fn run_command(
    cli: &Cli,
    options: &TypedOptions,
    sources: &Sources,
    console: &mut Console<'_>,
) -> Result<Exit> {
    let queues = Queues { sources, typed: options };
    let one = || queues.one();
    let heading = |is_json: bool| (!is_json).then_some(HEADING);
    match &cli.command {
        CliCommand::Process(args) => {
            let heading = if args.dry_run { HEADING } else { "" };
            queues.run(args.all_queues, Some(heading), &**args, process::run, console)
        }
        CliCommand::Status(args) => match queues.of_status(args)? {
            Some(names) => status::overview(&names, sources, options, args, console),
            None => status::run(&one()?, args, console),
        },
        CliCommand::Failures(args) => {
            queues.run(args.queues.all_queues, heading(args.json), &**args, failures::run, console)
        }
        CliCommand::Check(args) => {
            let (all, heading) = (args.format.queues.all_queues, heading(args.format.json));
            queues.run(all, heading, &**args, check::run, console)
        }
        CliCommand::Crontab(args) => {
            let heading = Some("\n# Queue {}.\n");
            queues.run(args.queues.all_queues, heading, &**args, crontab::run, console)
        }
        CliCommand::Adopt(args) => adopt::run(options, args, &sources.environment, console),
        CliCommand::Init(args) => edit::init(&one()?.queue()?, args, console),
        CliCommand::Add(args) => edit::add(&one()?.queue()?, &args.payloads, console),
        CliCommand::List(args) => list::run(&one()?, args, console),
        CliCommand::Stop(args) => stop::run(&one()?, args, console),
        CliCommand::Show(args) => show::run(&one()?, args, console),
        CliCommand::Explain(args) => explain::run(&one()?, &args.ids, console),
        CliCommand::Archive(args) => edit::edit(&one()?, &edit::ARCHIVE, args, console),
        CliCommand::Restore(args) => edit::edit(&one()?, &edit::RESTORE, args, console),
        CliCommand::Retry(args) => edit::edit(&one()?, &edit::RETRY, args, console),
        CliCommand::Prune(args) => prune::run(&one()?, args, console),
        CliCommand::Pause(args) => pause::pause(&one()?, args, console),
        CliCommand::Resume => pause::resume(&one()?, console),
        CliCommand::Simulate(args) => simulate::run(&one()?, args, console),
        CliCommand::Completions { shell } => {
            console.out.write_all(&cli::registration(shell)?)?;
            Ok(Exit::Done)
        }
        CliCommand::Man { directory } => man(directory, console),
        CliCommand::Watchdog => backlog_store::run_watchdog().map(|()| Exit::Done),
    }
}

const HEADING: &str = "queue {}:\n";

type QueueCommand<A> = fn(&Resolved<'_>, &A, &mut Console<'_>) -> Result<Exit>;

fn with_owner_rule(cli: &Cli, environment: Environment) -> Result<Environment> {
    let is_check = matches!(cli.command, CliCommand::Check(_));
    let usual = if is_check { OwnerRule::Reported } else { OwnerRule::Enforced };
    let rule = owner_rule(usual, &cli.global, &environment)?;
    Ok(Environment { rule, ..environment })
}

/// The usual rule for owners of files, unless the option or its variable waives it.
fn owner_rule(
    usual: OwnerRule,
    global: &GlobalArgs,
    environment: &Environment,
) -> Result<OwnerRule, ExitError> {
    let set = environment.option("trust-owner")?.map(|text| {
        let why = || usage(format!("BACKLOG_TRUST_OWNER is {text:?}; it must be 1 or 0"));
        truth(&text).ok_or_else(why)
    });
    let is_waived = global.trust_owner || set.transpose()?.unwrap_or(false);
    Ok(if is_waived { OwnerRule::Waived } else { usual })
}

struct Queues<'a> {
    sources: &'a Sources,
    typed: &'a TypedOptions,
}

impl Queues<'_> {
    fn one(&self) -> Result<Resolved<'_>> {
        let resolved = self.sources.resolve(self.typed, None)?.require_usable()?;
        if let Some(name) = self.sources.undescribed_name(self.typed.name.as_deref()) {
            log::warn!("no backlog.toml found: --queue {name:?} selects no settings");
        }
        Ok(resolved)
    }

    fn all(&self) -> Result<Vec<String>> {
        if self.typed.layer.has("table") {
            bail!(usage("--all-queues goes through the tables of backlog.toml: leave out --table"));
        }
        Ok(self.sources.queues()?)
    }

    /// The queues of an overview by `status`; `None` for the status of one queue.
    fn of_status(&self, args: &cli::StatusArgs) -> Result<Option<Vec<String>>> {
        if args.format.queues.all_queues {
            return self.all().map(Some);
        }
        // Only the status of one queue lists passes or forgets a line.
        let is_overview = args.passes == 0 && args.forget.is_none();
        let undecided = if is_overview { self.sources.open_choice(self.typed)? } else { None };
        Ok(undecided.filter(|queues| queues.len() > 1))
    }

    /// Runs a command for one or all queues. An error does not end the run, a signal does. JSON has no heading.
    fn run<A>(
        &self,
        is_about_all: bool,
        heading: Option<&str>,
        args: &A,
        command: QueueCommand<A>,
        console: &mut Console<'_>,
    ) -> Result<Exit> {
        if !is_about_all {
            return command(&self.one()?, args, console);
        }
        let mut worst = Exit::Done;
        for queue in &self.all()? {
            let heading_of_queue = heading.unwrap_or_default().replace("{}", &one_line(queue));
            console.out.write_all(heading_of_queue.as_bytes())?;
            console.terminal.name_queue(Some(queue));
            let resolved = self.sources.resolve(self.typed, Some(queue));
            let exit = resolved.map_err(anyhow::Error::from).and_then(|resolved| {
                let resolved = resolved.require_usable()?;
                // A panic has printed its message.
                let run = AssertUnwindSafe(|| command(&resolved, args, console));
                catch_unwind(run).unwrap_or_else(|_| bail!("the program has a bug: it panicked"))
            });
            let exit = exit.or_else(|error| {
                match heading {
                    Some(_) => console.terminal.say_error(&error),
                    None => {
                        let unknown = report::unknown_queue_json(queue, &error);
                        console.out.write_all(json_line(&unknown).as_bytes())?;
                    }
                }
                anyhow::Ok(Exit::from(&error))
            })?;
            console.terminal.name_queue(None);
            if matches!(exit, Exit::Signal(_)) || console.signals.first().is_some() {
                return Ok(exit);
            }
            worst = worst.max(exit);
        }
        Ok(worst)
    }
}

/// Writes the manual pages, `man1/backlog.1` and so on, into a directory that `man` searches.
fn man(directory: &Path, console: &mut Console<'_>) -> Result<Exit> {
    let section = directory.join("man1");
    for (file, text) in cli::pages()? {
        let path = section.join(file);
        let written = secure_file::create_directories(&section).and_then(|()| {
            // Another user may have made the link.
            let is_link = section.is_symlink() || path.is_symlink();
            let replace = || secure_file::replace(&path, &text, 0o644);
            if is_link { Err(secure_file::not_a_regular_file()) } else { replace() }
        });
        written.with_context(|| format!("could not write {}", path.display()))?;
        writeln!(console.out, "{}", path.display())?;
    }
    Ok(Exit::Done)
}

/// The name of a crontab line in the state directory, or of the whole queue if the policy is empty.
fn line_name(queue: &Queue, table: &str, policy: String) -> LineName {
    LineName { queue: queue.name.clone(), table: table.into(), policy }
}

fn open(queue: &Queue, access: Access, clock: Clock) -> Result<Box<dyn Database>> {
    queue.db.open(&queue.mapping, access, clock)
}

/// Turns an error into a warning, for optional parts of a report.
fn or_warn<T>(result: Result<T>) -> Option<T> {
    result.inspect_err(|error| log::warn!("{}", chain(error))).ok()
}

/// The state directory of a queue. With a server, the default one in the user's home is optional.
fn state_dir(queue: &Queue, database: &dyn Database) -> Result<StateDir> {
    let state = database.state_dir(queue.state_dir.as_deref())?;
    Ok(if queue.has_own_state_dir { state } else { state.optional() })
}

fn require_columns(table: &Table, schedule: &Schedule) -> Result<()> {
    if table.capabilities().keeps_schedule && matches!(schedule.policy, Policy::Age(_)) {
        bail!(usage(
            "a pgmq queue needs the delay of each message, which --ndays does not define: use --policy, \
             --fibonacci or --progressive",
        ));
    }
    if let (Some(due_at), Policy::Age(_)) = (table.due_column(), &schedule.policy) {
        bail!(usage(format!(
            "on_failure sets {} to {{next}}, the time of the next attempt, which --ndays does not \
             define: use --policy, --fibonacci or --progressive",
            due_at.name
        )));
    }
    if table.is_undated && !matches!(schedule.policy, Policy::Counted(_)) {
        bail!(usage(
            "without date_inserted no record has an age: use --fibonacci, or --policy without --by-age",
        ));
    }
    if table.is_undated && schedule.limits.max_age_secs.is_some() {
        bail!(usage("--max-age needs date_inserted, and the table has no such column"));
    }
    if schedule.policy.needs_counter() {
        table.require_counter(&schedule.policy.options(), true)?;
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

/// Minimum length of an abbreviated id.
const MIN_PREFIX_LEN: usize = 6;

/// The record with this id, or the only one whose id begins with it; otherwise the reason why there is none.
fn find(database: &mut dyn Database, id: &str) -> Result<Result<Record, String>> {
    let table = database.table();
    let columns = table.id.len();
    let readings = Id::readings(id, columns).into_iter().filter(|id| table.can_have(id));
    let mut found: Option<Record> = None;
    for id in readings.collect::<Vec<_>>() {
        match (database.read(&id)?, &found) {
            (ReadResult::Gone, _) => {}
            (ReadResult::Record(record), _) if is_converted(&id, &record.id) => {}
            (ReadResult::Record(record), None) => found = Some(*record),
            (ReadResult::Record(record), Some(other)) if record.id == other.id => {}
            // A column of SQLite can hold text and bytes that are displayed alike.
            (ReadResult::Record(_) | ReadResult::Ambiguous, _) => return Ok(Err(AMBIGUOUS.into())),
        }
    }
    if let Some(record) = found {
        return Ok(Ok(record));
    }
    let begin = Some(id).filter(|id| id.len() >= MIN_PREFIX_LEN);
    let ids = begin.map_or(Ok(Vec::new()), |begin| database.ids_from(begin))?;
    match &ids[..] {
        [only] if only != id => find(database, only),
        [_, _, ..] => {
            let more = if ids.len() == MOST_IDS { " or more" } else { "" };
            let (count, ids) = (ids.len(), ids.join(", "));
            Ok(Err(format!("{count}{more} ids begin with it: {ids}; type more of it")))
        }
        _ => Ok(Err(not_found(id, columns))),
    }
}

/// True if SQLite has read typed text as another number: `1e3` as 1000, and `9007199254740993.0` rounded.
fn is_converted(typed: &Id, found: &Id) -> bool {
    typed.parts().iter().zip(found.parts()).any(|(typed, found)| match (typed, found) {
        (Id::Text(text), Id::Integer(number)) => text.trim().parse() != Ok(*number),
        _ => false,
    })
}

fn not_found(id: &str, columns: usize) -> String {
    if Path::new(id).is_file() {
        return format!("{GONE}; if it is a database, write --db before it");
    }
    let parts = split_id(id).len();
    if parts == columns {
        return GONE.into();
    }
    if columns == 1 {
        return format!("{GONE}; separate ids with blanks, not commas");
    }
    format!(
        "{GONE}: an id has {columns} columns separated by commas, not {parts}; write a comma within a \
         value as \\,"
    )
}

const SUCCESS_DELETES: &str = "a success deletes its row";
const AMBIGUOUS: &str = "more than one row has this id";
const GONE: &str = "no such record";

//! One file for each subcommand. Each acquires what it needs, calls one function of the layers
//! below, and reports.

mod add;
mod dry_run;
mod explain;
mod init;
mod line;
mod list;
mod mend;
mod process;
mod simulate;
mod status;

use std::io::Write;

use anyhow::{Context, Result};

use crate::cli::{Cli, Command};
use crate::clock::Clock;
use crate::config::{PassSettings, Queue, Schedule};
use crate::exit::Exit;
use crate::record::{Id, Record};
use crate::store::{self, Database, Found, Reader};
use crate::terminal::Terminal;
use mend::Mending;

pub fn run(cli: Cli, clock: Clock, terminal: &Terminal, out: &mut dyn Write) -> Result<Exit> {
    let Cli { global, command } = cli;
    match command {
        Command::Init(args) => init::run(&Queue::new(global)?, args.minimal, out),
        Command::Add(args) => add::run(&Queue::new(global)?, &args.payloads, clock.now(), out),
        Command::Process(args) => {
            let queue = Queue::new(global)?;
            let settings = PassSettings::new(*args, &queue.name)?;
            if settings.dry_run {
                dry_run::run(&queue, &settings, clock.now(), out)
            } else {
                process::run(&queue, &settings, clock, terminal)
            }
        }
        Command::Status(args) => status::run(&Queue::new(global)?, &args, clock.now(), out),
        Command::List(args) => list::run(&Queue::new(global)?, args, clock.now(), out),
        Command::Explain(args) => explain::run(&Queue::new(global)?, &args, clock.now(), out),
        Command::Archive(args) => mend::run(
            &Queue::new(global)?,
            &Mending::archive(args.ids, args.dry_run),
            clock.now(),
            out,
        ),
        Command::Restore(args) => {
            mend::run(&Queue::new(global)?, &Mending::restore(args)?, clock.now(), out)
        }
        Command::Retry(args) => mend::run(
            &Queue::new(global)?,
            &Mending::retry(args.ids, args.dry_run),
            clock.now(),
            out,
        ),
        Command::Simulate(args) => simulate::run(global, &args, clock, out),
        Command::Guard { token } => {
            store::keep_watch(&token)?;
            Ok(Exit::Done)
        }
    }
}

/// Says what was done. Where that cannot be said, it is done all the same.
fn confirm(out: &mut dyn Write, done: &str) -> Result<()> {
    let said = writeln!(out, "{done}").and_then(|()| out.flush());
    said.with_context(|| format!("{done}, but this could not be said"))
}

fn open(queue: &Queue) -> Result<Database> {
    Database::open(&queue.db, &queue.mapping)
}

/// Opens the database and makes sure that it has the columns that the schedule goes by.
fn open_for(queue: &Queue, schedule: Option<&Schedule>) -> Result<Database> {
    let database = open(queue)?;
    schedule.map_or(Ok(()), |schedule| require_columns(&database, schedule))?;
    Ok(database)
}

fn require_columns(database: &Database, schedule: &Schedule) -> Result<()> {
    if schedule.policy.needs_counter() {
        database.require_counter(&schedule.policy.line(), true)?;
    }
    if schedule.max_attempts.is_some() {
        database.require_counter("a limit of attempts", false)?;
        database.require_archived("a limit of attempts")?;
    }
    if schedule.max_age_secs.is_some() {
        database.require_archived("a limit of age")?;
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

//! One file for each subcommand. Each acquires what it needs, calls one function of the layers
//! below, and reports.

mod add;
mod dry_run;
mod explain;
mod init;
mod list;
mod mend;
mod process;
mod simulate;
mod status;

use std::io::Write;

use anyhow::{Context, Result};

use crate::cli::{Cli, Command};
use crate::clock::Clock;
use crate::config::{PassSettings, Queue, policy};
use crate::exit::Exit;
use crate::instant::Instant;
use crate::policy::{Moment, Policy};
use crate::record::{Id, Record};
use crate::selection::Reached;
use crate::store::{self, Database, Found, Reader};
use crate::terminal::Terminal;
use mend::Mending;

pub fn run(cli: Cli, clock: Clock, terminal: &Terminal, out: &mut dyn Write) -> Result<Exit> {
    if let Command::Guard { token } = &cli.command {
        store::keep_watch(token)?;
        return Ok(Exit::Done);
    }
    if let Command::Simulate(args) = &cli.command {
        return simulate::run(cli.global, args, clock, out);
    }
    let queue = Queue::new(cli.global)?;
    match cli.command {
        Command::Init(args) => init::run(&queue, args.minimal, out),
        Command::Add(args) => add::run(&queue, &args.payloads, clock.now(), out),
        Command::Process(args) if args.dry_run => {
            dry_run::run(&queue, &PassSettings::new(*args, &queue.name)?, clock.now(), out)
        }
        Command::Process(args) => {
            process::run(&queue, &PassSettings::new(*args, &queue.name)?, clock, terminal)
        }
        Command::Status(args) => {
            let policy = policy(&args.schedule)?;
            status::run(&queue, policy.as_ref(), args.json, clock.now(), out)
        }
        Command::List(args) => list::run(&queue, args, clock.now(), out),
        Command::Explain(args) => explain::run(&queue, &args, clock.now(), out),
        Command::Archive(args) => mend::run(&queue, &Mending::archive(args.ids, args.dry_run), out),
        Command::Restore(args) => mend::run(&queue, &Mending::restore(args)?, out),
        Command::Retry(args) => mend::run(&queue, &Mending::retry(args.ids, args.dry_run), out),
        // Done above: they need no database.
        Command::Simulate(_) | Command::Guard { .. } => Ok(Exit::Done),
    }
}

/// Says what was done. Where that cannot be said, it is done all the same.
fn confirm(out: &mut dyn Write, done: &str) -> Result<()> {
    let said = writeln!(out, "{done}").and_then(|()| out.flush());
    said.with_context(|| format!("{done}, but this could not be said"))
}

fn open(queue: &Queue) -> Result<Database> {
    Database::open(&queue.db, &queue.table)
}

/// Opens the database and makes sure that it has the columns that the policy goes by.
fn open_for(queue: &Queue, policy: Option<&Policy>, max_attempts: Option<u32>) -> Result<Database> {
    let database = open(queue)?;
    match (policy, max_attempts) {
        (Some(policy), _) if policy.needs_counter() => database.require_counter(&policy.line())?,
        (_, Some(_)) => database.require_counter("--max-attempts")?,
        _ => {}
    }
    Ok(database)
}

/// The record with an id as it is typed, a number or text; or why there is none.
fn find(reader: &mut dyn Reader, id: &str) -> Result<Result<Record, &'static str>> {
    let ids = id.parse().ok().map(Id::Integer).into_iter().chain([Id::Text(id.into())]);
    for id in ids {
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

/// What a pass of the line would look at now.
fn moment(queue: &Queue, policy: &Policy, database: &Database, now: Instant) -> Result<Moment> {
    let state = process::state_dir(queue, database)?;
    let reached = match state.line_state(&process::line(queue, policy, database)).reached {
        Some(Reached::Slot(slot)) => Some(slot),
        Some(Reached::Key(_)) | None => None,
    };
    Ok(policy.moment(reached, now, false))
}

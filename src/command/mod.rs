//! One file for each subcommand. Each acquires what it needs, calls one function of the layers
//! below, and reports.

mod add;
mod dry_run;
mod init;
mod list;
mod process;
mod status;

use std::io::Write;

use anyhow::{Context, Result};

use crate::cli::{Cli, Command};
use crate::clock::Clock;
use crate::config::{PassSettings, Queue, policy};
use crate::exit::Exit;
use crate::policy::Policy;
use crate::store::{self, Database};
use crate::terminal::Terminal;

pub fn run(cli: Cli, clock: Clock, terminal: &Terminal, out: &mut dyn Write) -> Result<Exit> {
    if let Command::Guard { token } = &cli.command {
        store::keep_watch(token)?;
        return Ok(Exit::Done);
    }
    let queue = Queue::new(cli.global)?;
    match cli.command {
        Command::Init(args) => init::run(&queue, args.minimal, out),
        Command::Add(args) => add::run(&queue, &args.payloads, clock.now(), out),
        Command::Process(args) if args.dry_run => {
            dry_run::run(&queue, &PassSettings::new(*args)?, clock.now(), out)
        }
        Command::Process(args) => process::run(&queue, &PassSettings::new(*args)?, clock, terminal),
        Command::Status(args) => {
            let policy = policy(&args.schedule)?;
            status::run(&queue, policy.as_ref(), args.json, clock.now(), out)
        }
        Command::List(args) => list::run(&queue, args, clock.now(), out),
        Command::Guard { .. } => Ok(Exit::Done),
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
    let wanted_by = match (policy, max_attempts) {
        (Some(policy), _) if policy.needs_counter() => "--fibonacci",
        (_, Some(_)) => "--max-attempts",
        _ => return Ok(database),
    };
    database.require_counter(wanted_by)?;
    Ok(database)
}

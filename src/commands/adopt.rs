//! `backlog adopt`: proposes a backlog.toml for a table. Standard output is the file alone. The database is only read.

use std::io::{self, IsTerminal};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use backlog_schedule::{counted, listed, one_line, toml_text};
use backlog_store::ownership::PathKind;
use backlog_store::{Access, CatalogTable, chain, secure_file};

use super::{Console, LastPings, Signals, check, open};
use crate::adopt::{Proposal, is_known, propose, resembles_queue};
use crate::cli::{AdoptArgs, CheckArgs};
use crate::exit::{Exit, usage};
use crate::options::keys::all;
use crate::options::{DEFAULT_QUEUE, Environment, File, Resolved, Sources, TypedOptions, location};

pub fn run(
    typed: &TypedOptions,
    args: &AdoptArgs,
    environment: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit> {
    let terminal = console.terminal;
    let layers = typed.layer.clone().over(environment.layer(DEFAULT_QUEUE)?);
    let Some(db) = layers.path("db") else {
        bail!(usage("no database: use --db FILE or --db postgres://..., or BACKLOG_DB"));
    };
    let is_server = backlog_store::is_url(&db.to_string_lossy());
    if !is_server {
        environment.require_trusted(&db, PathKind::File)?;
    }
    let mut database = location(db.clone(), None, environment)?.explore()?;
    let name = match args.table.as_ref().or(args.name.as_ref()) {
        Some(name) => name.clone(),
        None => choose_table(&database.tables()?, &database.label(), console)?,
    };
    let outline = database.outline(&name)?;
    let mut proposal = propose(&outline, console.clock.now(), terminal)?;
    // The file may have open questions, so it need not be TOML.
    let file = secure_file::read(&environment.directory.join("backlog.toml"));
    let file =
        file.map_or_else(|_| String::new(), |(bytes, _)| String::from_utf8_lossy(&bytes).into());
    choose_free_name(&mut proposal, &file);
    let state_dir = layers.path("state_dir").map(|path| environment.directory.join(path));
    // Every pass has to find the same state.
    let state_dir = state_dir.or_else(|| environment.state_dir().filter(|_| is_server));
    let section = |db: &Path| proposal.section(&db.to_string_lossy(), state_dir.as_deref());
    // A file has its whole path, a URL no password.
    let db_in_file = match is_server {
        true => backlog_store::without_password(&db.to_string_lossy()).into(),
        false => environment.directory.join(&db),
    };
    let (table, label) = (one_line(&outline.name), one_line(&database.label()));
    let gap = if file.is_empty() { "" } else { "\n" };
    let text = format!(
        "{gap}# Proposed by `backlog adopt` for table {table} of {label}.\n# Nothing was changed there.\n\n{}",
        section(&db_in_file)
    );
    console.out.write_all(printable(&text, &table)?.as_bytes())?;
    console.out.flush()?;
    drop(database);
    let columns = counted(outline.columns.len() as u64, "column");
    let open = counted(proposal.questions as u64, "question");
    terminal.say(&format!("table {table}: {columns}, {open} open"));
    let mut exit = Exit::Failed;
    if proposal.questions == 0 {
        // With the database as it was typed: its URL may have a password.
        let path = environment.directory.join("backlog.toml, as proposed");
        let file = Some(File::proposed(path, &section(&db))?);
        let sources = Sources { environment: environment.clone(), file };
        let known = all().map(|key| key.name).collect();
        let typed = TypedOptions { known, ..TypedOptions::default() };
        let resolved = sources.resolve(&typed, Some(&proposal.queue))?;
        exit = check_proposal(&resolved, outline.is_large, console)?;
    }
    print_next_steps(&proposal, &outline.name);
    Ok(exit)
}

fn choose_free_name(proposal: &mut Proposal<'_>, file: &str) {
    let is_taken = |name: &str| file.lines().any(|line| line.trim() == format!("[queue.{name}]"));
    let usual = proposal.queue.clone();
    let mut number = 2;
    while is_taken(&proposal.queue) {
        proposal.queue = format!("{usual}-{number}");
        number += 1;
    }
    if proposal.queue != usual {
        let named = format!("this one is named {}", proposal.queue);
        proposal.terminal.say(&format!("backlog.toml has a queue {usual} already: {named}"));
    }
}

/// Escapes hidden characters. Fails if the text then means something else, or is no TOML.
fn printable(text: &str, table: &str) -> Result<String> {
    let cannot = |why: &str| anyhow!("table {table} cannot be described as TOML: {why}");
    // An open question counts as a value here.
    let parse = |text: &str| text.replace('?', "0").parse::<toml::Table>();
    let meant = parse(text).map_err(|error| cannot(error.message()))?;
    let escaped = toml_text(text);
    if parse(&escaped).ok() != Some(meant) {
        bail!(cannot("a name has characters that do not show"));
    }
    Ok(escaped)
}

fn print_next_steps(proposal: &Proposal<'_>, table: &str) {
    let say = |line: &str| proposal.terminal.say(line);
    say("next:");
    if io::stdout().is_terminal() {
        let table = shlex::try_quote(table).unwrap_or_default();
        say(&format!("  backlog adopt {table} --db ... >> backlog.toml"));
    }
    if proposal.questions > 0 {
        say("  answer each QUESTION in backlog.toml, in place of its ?");
    }
    say("  name your command as exec in backlog.toml");
    for (command, option) in [("check", ""), ("process", " --dry-run"), ("crontab", "")] {
        say(&format!("  backlog {command} --queue {}{option}", proposal.queue));
    }
}

/// The only table that is known or resembles a queue; otherwise a choice at the terminal.
fn choose_table(tables: &[CatalogTable], label: &str, console: &Console<'_>) -> Result<String> {
    let with = |is: fn(&CatalogTable) -> bool| -> Vec<String> {
        tables.iter().filter(|table| is(table)).map(|table| table.name.clone()).collect()
    };
    let found = [with(is_known), with(resembles_queue)].into_iter().find(|names| !names.is_empty());
    if let Some([only]) = found.as_deref() {
        return Ok(only.clone());
    }
    let mut names = found.unwrap_or_else(|| with(|_| true));
    if names.is_empty() {
        bail!("there are no tables in {label}");
    }
    let index = console.terminal.choose("which table is the queue?", &names)?;
    index.map(|index| names.swap_remove(index)).ok_or_else(|| {
        let names = listed(names.iter().map(String::as_str));
        usage(format!("which table? name it with --table: {names}")).into()
    })
}

/// Checks the proposal as a part of backlog.toml, and prints the limits of its mapping.
fn check_proposal(resolved: &Resolved<'_>, is_large: bool, console: &Console<'_>) -> Result<Exit> {
    let mut exit = Exit::Done;
    let Console { clock, terminal, screen, .. } = *console;
    if is_large {
        terminal.say("not checked, because the table has many rows: run `backlog check`");
    } else {
        let (last_pings, signals) = (LastPings::default(), Signals::default());
        let out = &mut io::stderr();
        let mut console = Console { clock, terminal, screen, out, last_pings, signals };
        exit = check::run(resolved, &CheckArgs::default(), &mut console)?;
    }
    let Ok(database) = open(&resolved.queue()?, Access::ReadOnly, clock) else { return Ok(exit) };
    let table = database.table();
    terminal.say("limitations of this mapping:");
    let error = table.last_error.as_ref().map(drop);
    for limit in [
        table.require_counter("a limit of attempts, and any schedule by count,", false),
        error.context("no column for errors: the table does not keep why a record failed"),
    ] {
        if let Err(why) = limit {
            terminal.say(&format!("  {}", chain(&why)));
        }
    }
    Ok(exit)
}

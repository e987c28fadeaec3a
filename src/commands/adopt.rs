//! `backlog adopt`: proposes a backlog.toml for a table. Standard output is the file alone; nothing is written to
//! the database.

use std::io::{self, IsTerminal};
use std::iter;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use backlog_schedule::{counted, listed, one_line, toml_text};
use backlog_store::ownership::PathKind;
use backlog_store::{Access, CatalogTable, chain, secure_file};

use super::{Console, LastPings, Signals, check, open};
use crate::adopt::{is_known, propose, resembles_queue};
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
        None => chosen(&database.tables()?, &database.label(), console)?,
    };
    let outline = database.outline(&name)?;
    let mut proposal = propose(&outline, console.clock.now(), terminal)?;
    // The file may have open questions, so it need not be TOML.
    let file = secure_file::read(&environment.directory.join("backlog.toml"));
    let file =
        file.map_or_else(|_| String::new(), |(bytes, _)| String::from_utf8_lossy(&bytes).into());
    let is_taken = |name: &str| file.lines().any(|line| line.trim() == format!("[queue.{name}]"));
    let usual = proposal.queue.clone();
    let mut names =
        iter::once(usual.clone()).chain((2..).map(|number| format!("{usual}-{number}")));
    if let Some(free) = names.find(|name| !is_taken(name)).filter(|name| *name != usual) {
        terminal
            .say(&format!("backlog.toml has a queue {usual} already: this one is named {free}"));
        proposal.queue = free;
    }
    let state_dir = layers.path("state_dir").map(|path| environment.directory.join(path));
    // Every pass has to find the same state.
    let state_dir = state_dir.or_else(|| environment.state_dir().filter(|_| is_server));
    let section = |db: &Path| proposal.section(&db.to_string_lossy(), state_dir.as_deref());
    // A file by its whole path, a server without its password.
    let written = match is_server {
        true => backlog_store::without_password(&db.to_string_lossy()).into(),
        false => environment.directory.join(&db),
    };
    let (table, place) = (one_line(&outline.name), one_line(&database.label()));
    let gap = if file.is_empty() { "" } else { "\n" };
    let text = format!(
        "{gap}# Proposed by `backlog adopt` for table {table} of {place}.\n# Nothing was changed there.\n\n{}",
        section(&written)
    );
    let cannot = |why: &str| anyhow!("table {table} cannot be described as TOML: {why}");
    // A question that is open counts as a value here.
    let parsed = |text: &str| text.replace('?', "0").parse::<toml::Table>();
    let meant = parsed(&text).map_err(|error| cannot(error.message()))?;
    let shown = toml_text(&text);
    if parsed(&shown).ok() != Some(meant) {
        bail!(cannot("a name has characters that do not show"));
    }
    console.out.write_all(shown.as_bytes())?;
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
        exit = checked(&resolved, outline.is_large, console)?;
    }
    terminal.say("next:");
    if io::stdout().is_terminal() {
        let table = shlex::try_quote(&outline.name).unwrap_or_default();
        terminal.say(&format!("  backlog adopt {table} --db ... >> backlog.toml"));
    }
    if proposal.questions > 0 {
        terminal.say("  answer each QUESTION in backlog.toml, in place of its ?");
    }
    terminal.say("  name your command as exec in backlog.toml");
    for (command, option) in [("check", ""), ("process", " --dry-run"), ("crontab", "")] {
        terminal.say(&format!("  backlog {command} --queue {}{option}", proposal.queue));
    }
    Ok(exit)
}

/// The only table that is known or has columns of a queue; or the one that somebody at the terminal chooses.
fn chosen(tables: &[CatalogTable], place: &str, console: &Console<'_>) -> Result<String> {
    let with = |is: fn(&CatalogTable) -> bool| -> Vec<String> {
        tables.iter().filter(|table| is(table)).map(|table| table.name.clone()).collect()
    };
    let found = [with(is_known), with(resembles_queue)].into_iter().find(|it| !it.is_empty());
    if let Some([only]) = found.as_deref() {
        return Ok(only.clone());
    }
    let mut names = found.unwrap_or_else(|| with(|_| true));
    if names.is_empty() {
        bail!("there are no tables in {place}");
    }
    let index = console.terminal.choose("which table is the queue?", &names)?;
    index.map(|index| names.swap_remove(index)).ok_or_else(|| {
        let names = listed(names.iter().map(String::as_str));
        usage(format!("which table? name it with --table: {names}")).into()
    })
}

/// Checks the proposal as if it stood in backlog.toml, and says what the mapping cannot do.
fn checked(resolved: &Resolved<'_>, is_large: bool, console: &Console<'_>) -> Result<Exit> {
    let mut exit = Exit::Done;
    let Console { clock, terminal, screen, .. } = *console;
    if is_large {
        terminal.say("it has many rows, so that `backlog check` takes longer: that is left to you");
    } else {
        let (last_pings, signals) = (LastPings::default(), Signals::default());
        let out = &mut io::stderr();
        let mut console = Console { clock, terminal, screen, out, last_pings, signals };
        exit = check::run(resolved, &CheckArgs::default(), &mut console)?;
    }
    let Ok(database) = open(&resolved.queue()?, Access::ReadOnly, clock) else { return Ok(exit) };
    let table = database.table();
    terminal.say("what this mapping cannot do:");
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

//! `backlog adopt`: proposes a backlog.toml for a table that nobody has described. Standard output is the
//! file alone; questions, findings and what to type next go to standard error. Nothing is written to
//! the database.

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use anyhow::{Result, anyhow, bail};
use backlog_schedule::{counted, listed, one_line, toml_text};
use backlog_store::ownership::Kind;
use backlog_store::{Column, Listed};

use super::{Console, Endings, Signals, check};
use crate::adopt::{Proposal, is_known, is_like_a_queue, propose};
use crate::cli::{Adopt, Check};
use crate::exit::{Exit, usage};
use crate::options::key::all;
use crate::options::{DEFAULT_QUEUE, Environment, Sources, TypedOptions, location};

pub fn run(
    typed: &TypedOptions,
    args: &Adopt,
    environment: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit> {
    let layers = typed.layer.clone().over(environment.layer(DEFAULT_QUEUE)?);
    let Some(db) = layers.path("db") else {
        bail!(usage("no database: use --db FILE or --db postgres://..., or BACKLOG_DB"));
    };
    let is_server = backlog_store::is_url(&db.to_string_lossy());
    if !is_server {
        environment.require_trusted(&db, Kind::File)?;
    }
    let mut database = location(db.clone(), None, environment)?.explore()?;
    let name = match args.table.as_ref().or(args.name.as_ref()) {
        Some(name) => name.clone(),
        None => chosen(&database.tables()?, &database.place(), console)?,
    };
    let outline = database.outline(&name)?;
    let proposal = propose(&mut *database, &outline, console.clock.now(), console.terminal)?;
    let state_dir = layers.path("state_dir").map(|path| environment.directory.join(path));
    // Every pass has to find the same state.
    let state_dir = state_dir.or_else(|| environment.state_dir().filter(|_| is_server));
    let section = |db: &Path| proposal.section(&db.to_string_lossy(), state_dir.as_deref());
    // A file by its whole path, a server without its password.
    let written = match is_server {
        true => backlog_store::without_password(&db.to_string_lossy()).into(),
        false => environment.directory.join(&db),
    };
    let (table, place) = (one_line(&outline.name), one_line(&database.place()));
    let text = format!(
        "# Proposed by `backlog adopt` for table {table} of {place}.\n# Nothing was changed there.\n\n{}",
        section(&written)
    );
    let cannot = |why: &str| anyhow!("table {table} cannot be described as TOML: {why}");
    // A question that is open counts as a value here.
    let parsed = |text: &str| text.replace('?', "0").parse::<toml::Table>();
    let meant = parsed(&text).map_err(|error| cannot(error.message()))?;
    let shown = toml_text(&text);
    if parsed(&shown).ok().as_ref() != Some(&meant) {
        bail!(cannot("a name has characters that do not show"));
    }
    console.out.write_all(shown.as_bytes())?;
    console.out.flush()?;
    drop(database);
    let columns = counted(outline.columns.len() as u64, "column");
    let open = proposal.questions;
    say(&format!("table {table}: {columns}, {} open", counted(open as u64, "question")))?;
    let mut exit = if open == 0 { Exit::Done } else { Exit::Failed };
    if outline.is_large() {
        say("it has many rows, so that `backlog check` takes longer: that is left to you")?;
    } else if open == 0 {
        // With the database as it was typed: its URL may have a password.
        exit = checked(&section(&db), &proposal.queue, environment, console)?;
    }
    let so_far = if open > 0 { ", without what is open" } else { "" };
    say(&format!("what this mapping cannot do{so_far}:"))?;
    let keys = meant.get("queue").and_then(|queues| queues.get(&proposal.queue)?.as_table());
    for limit in keys.into_iter().flat_map(|keys| limits(keys, &outline.columns)) {
        say(&format!("  {limit}"))?;
    }
    next(&proposal, &outline.name)?;
    Ok(exit)
}

/// The only table that is known, or that has columns of a queue; or the one that somebody at the terminal
/// chooses from these, or from all tables.
fn chosen(tables: &[Listed], place: &str, console: &Console<'_>) -> Result<String> {
    let with = |is: fn(&Listed) -> bool| -> Vec<String> {
        tables.iter().filter(|table| is(table)).map(|table| table.name.clone()).collect()
    };
    let found = [with(is_known), with(is_like_a_queue)];
    let mut found = found.into_iter().find(|found| !found.is_empty()).unwrap_or_default();
    if found.len() == 1 {
        return Ok(found.remove(0));
    }
    let mut names = if found.is_empty() { with(|_| true) } else { found };
    if names.is_empty() {
        bail!("there are no tables in {place}");
    }
    match console.terminal.choose("which table is the queue?", &names)? {
        Some(index) => Ok(names.swap_remove(index)),
        None => bail!(usage(format!(
            "which table? name it with --table: {}",
            listed(names.iter().map(String::as_str))
        ))),
    }
}

/// Checks the proposal as if it stood in backlog.toml.
fn checked(
    section: &str,
    queue: &str,
    environment: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit> {
    let path = environment.directory.join("backlog.toml, as proposed");
    let sources = Sources::proposed(path, section, environment.clone())?;
    let typed =
        TypedOptions { known: all().map(|key| key.name).collect(), ..TypedOptions::default() };
    let resolved = sources.resolve(&typed, Some(queue))?;
    let (endings, signals) = (Endings::default(), Signals::default());
    let Console { clock, terminal, screen, .. } = *console;
    let mut console = Console { clock, terminal, screen, out: &mut io::stderr(), endings, signals };
    check::run(&resolved, &Check::default(), &mut console)
}

/// What a mapping cannot do, because columns or values are missing.
fn limits(keys: &toml::Table, columns: &[Column]) -> impl Iterator<Item = &'static str> {
    // Columns with the usual names need no key.
    let has = |key: &str| {
        let is_usual = |column: &Column| column.name.eq_ignore_ascii_case(key);
        keys.contains_key(key) || columns.iter().any(is_usual)
    };
    let status = |key: &str| keys.get("status").and_then(|status| status.get(key));
    let on_failure = keys.get("on_failure").and_then(toml::Value::as_table);
    let sets_next = on_failure.into_iter().flatten().any(|(_, to)| to.as_str() == Some("{next}"));
    let tells_failed = status("error").is_some() && status("error") != status("new");
    let can_archive = status("archived").is_some()
        || keys.contains_key("on_archive")
        || keys.contains_key("where_archived");
    let limits = [
        (
            has("failures"),
            "no column counts failures: --fibonacci, --policy and --max-attempts have nothing to \
             go by",
        ),
        (
            tells_failed || has("last_failure") || sets_next,
            "no column that `retry` could change; try all pending: `backlog \
             process --ndays 365`",
        ),
        (
            can_archive,
            "no value for what is given up: `archive` and --max-attempts need status.archived, or \
             on_archive with where_archived",
        ),
        (has("last_error"), "no column for errors: the table does not keep why a record failed"),
    ];
    limits.into_iter().filter(|(has, _)| !has).map(|(_, limit)| limit)
}

/// What to type next.
fn next(proposal: &Proposal<'_>, table: &str) -> Result<()> {
    let queue = &proposal.queue;
    say("next:")?;
    if io::stdout().is_terminal() {
        let table = shlex::try_quote(table).unwrap_or_default();
        say(&format!("  backlog adopt {table} --db ... > backlog.toml"))?;
    }
    if proposal.questions > 0 {
        say("  answer each QUESTION in backlog.toml, in place of its ?")?;
    }
    say("  name your command as exec in backlog.toml")?;
    say(&format!("  backlog check --queue {queue}"))?;
    say(&format!("  backlog process --queue {queue} --dry-run"))?;
    say(&format!("  backlog crontab --queue {queue}"))
}

fn say(line: &str) -> Result<()> {
    Ok(writeln!(io::stderr(), "{}", one_line(line))?)
}

//! `backlog adopt`: proposes a backlog.toml for a table that nobody has described. Standard output is the
//! file alone; questions, findings and what to type next go to standard error. Nothing is written to
//! the database.

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use anyhow::{Result, anyhow, bail};

use super::{Console, check};
use crate::adopt::{Proposal, is_known, is_like_a_queue, limits, propose};
use crate::cli::{Adopt, Check};
use crate::exit::{Exit, usage};
use crate::names::listed;
use crate::options::key::all;
use crate::options::{DEFAULT_QUEUE, Environment, Sources, TypedOptions, location};
use crate::ownership::Kind;
use crate::record::{counted, one_line, toml_text};
use crate::store::{self, Listed};

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
    let is_server = store::is_url(&db.to_string_lossy());
    if !is_server {
        environment.require_trusted(&db, Kind::File)?;
    }
    let place = location(db.clone(), None, environment)?;
    let mut database = place.explore()?;
    let name = match args.table.as_ref().or(args.name.as_ref()) {
        Some(name) => name.clone(),
        None => chosen(&database.tables()?, &database.place(), console)?,
    };
    let outline = database.outline(&name)?;
    let mut ask = |question: &str, answers: &[String]| console.terminal.choose(question, answers);
    let mut proposal = propose(&mut *database, &outline, console.clock.now(), &mut ask)?;
    let state_dir = layers.path("state_dir").map(|it| environment.directory.join(it));
    proposal.state_dir = state_dir.or_else(|| environment.state_dir().filter(|_| is_server));
    let open = proposal.open_questions();
    let written = written_db(&db, environment);
    let text = format!(
        "# Proposed by `backlog adopt` for table {} of {}.\n# Nothing was changed there.\n\n{}",
        one_line(&outline.name),
        one_line(&database.place()),
        proposal.section(&written)
    );
    let cannot =
        |why: &str| anyhow!("table {} cannot be described as TOML: {why}", one_line(&outline.name));
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
    let questions = counted(open as u64, "question");
    say(&format!("table {}: {columns}, {questions} open", outline.name))?;
    let mut exit = if open == 0 { Exit::Done } else { Exit::Failed };
    if outline.is_large() {
        say("it has many rows, so that `backlog check` takes longer: that is left to you")?;
    } else if open == 0 {
        // With the database as it was typed: its URL may have a password.
        let section = proposal.section(&db.to_string_lossy());
        exit = checked(&section, &proposal.queue, environment, console)?;
    }
    let section = meant.get("queue").and_then(|queues| queues.get(&proposal.queue)?.as_table());
    let so_far = if open > 0 { ", without what is open" } else { "" };
    say(&format!("what this mapping cannot do{so_far}:"))?;
    section
        .map_or_else(Vec::new, |section| limits(section, &outline))
        .iter()
        .try_for_each(|limit| say(&format!("  {limit}")))?;
    next(&proposal, open, &outline.name)?;
    Ok(exit)
}

/// The database as backlog.toml names it: a file by its whole path, a server without its password.
fn written_db(db: &Path, environment: &Environment) -> String {
    let text = db.to_string_lossy();
    if store::is_url(&text) {
        return store::without_password(&text);
    }
    environment.directory.join(db).display().to_string()
}

/// The only table that is known, or that has columns of a queue; or the one that somebody at the terminal
/// chooses from these, or from all tables.
fn chosen(tables: &[Listed], place: &str, console: &Console<'_>) -> Result<String> {
    let with = |is: fn(&Listed) -> bool| -> Vec<String> {
        tables.iter().filter(|table| is(table)).map(|table| table.name.clone()).collect()
    };
    let [known, likely] = [with(is_known), with(is_like_a_queue)];
    let found = if known.is_empty() { likely } else { known };
    if let [only] = &found[..] {
        return Ok(only.clone());
    }
    let names = if found.is_empty() { with(|_| true) } else { found };
    if names.is_empty() {
        bail!("there are no tables in {place}");
    }
    match console.terminal.choose("which table is the queue?", &names)? {
        Some(index) => Ok(names[index].clone()),
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
    let Console { clock, terminal, screen, .. } = console;
    let mut stderr = io::stderr();
    let mut aside = Console {
        clock: *clock,
        terminal,
        screen: *screen,
        out: &mut stderr,
        endings: super::Endings::default(),
        signals: super::Signals::default(),
    };
    check::run(&resolved, &Check::default(), &mut aside)
}

/// What to type next.
fn next(proposal: &Proposal, open: usize, table: &str) -> Result<()> {
    let queue = shlex::try_quote(&proposal.queue).unwrap_or_default();
    let mut steps = Vec::new();
    if io::stdout().is_terminal() {
        let table = shlex::try_quote(table).unwrap_or_default();
        steps.push(format!("backlog adopt {table} --db ... > backlog.toml"));
    }
    if open > 0 {
        steps.push("answer each QUESTION in backlog.toml, in place of its ?".into());
    }
    steps.push("name your command as exec in backlog.toml".into());
    steps.push(format!("backlog check --queue {queue}"));
    steps.push(format!("backlog process --queue {queue} --dry-run"));
    steps.push(format!("backlog crontab --queue {queue}"));
    say("next:")?;
    steps.iter().try_for_each(|step| say(&format!("  {step}")))
}

fn say(line: &str) -> Result<()> {
    let text = line.trim_start();
    let line = format!("{}{}\n", line.strip_suffix(text).unwrap_or_default(), one_line(text));
    Ok(io::stderr().write_all(line.as_bytes())?)
}

//! `backlog adopt`: proposes a backlog.toml for a table that nobody has described. Standard output is the
//! file alone; questions, findings and what to type next go to standard error. Nothing is written to
//! the database.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};

use super::{Console, check};
use crate::adopt::{Proposal, Question, likeness, propose};
use crate::cli::{Adopt, Check};
use crate::exit::{Exit, usage};
use crate::names::listed;
use crate::options::{Environment, SECTIONS, Sources, TypedOptions, location};
use crate::ownership::Kind;
use crate::record::{counted, one_line, toml_text};
use crate::store::{self, COUNTED, Listed, Outline};

/// What a table that is clearly one of jobs is at least, and by how much before the next.
const CLEARLY: u32 = 6;
const BEFORE: u32 = 4;

pub fn run(
    db: Option<&Path>,
    args: &Adopt,
    environment: &Environment,
    console: &mut Console<'_>,
) -> Result<Exit> {
    let db = db.map(Path::to_path_buf).or_else(|| environment.get("BACKLOG_DB").map(PathBuf::from));
    let Some(db) = db else {
        bail!(usage("no database: use --db FILE or --db postgres://..., or BACKLOG_DB"));
    };
    if !store::is_url(&db.to_string_lossy()) {
        environment.require_trusted(&db, Kind::File)?;
    }
    let place = location(db.clone(), None, environment)?;
    let mut database = place.explore()?;
    let name = match &args.table {
        Some(name) => name.clone(),
        None => chosen(&database.tables()?, &database.place(), console)?,
    };
    let outline = database.outline(&name)?;
    let proposal = propose(&mut *database, &outline);
    let proposal = proposal.answered(|question| answer(question, console))?;
    let open = proposal.questions().count();
    let written = written_db(&db, environment);
    let text = format!(
        "# Proposed by `backlog adopt` for table {} of {}.\n# Nothing was changed there.\n\n{}",
        one_line(&outline.name),
        one_line(&database.place()),
        proposal.section(&written)
    );
    let cannot =
        |why: &str| anyhow!("table {} cannot be described as TOML: {why}", one_line(&outline.name));
    let meant = text.parse::<toml::Table>().map_err(|error| cannot(error.message()))?;
    let shown = toml_text(&text);
    if shown.parse::<toml::Table>().ok() != Some(meant) {
        bail!(cannot("a name has characters that do not show"));
    }
    console.out.write_all(shown.as_bytes())?;
    console.out.flush()?;
    drop(database);
    say(&format!("table {}: {}", outline.name, found(&proposal, &outline)))?;
    if outline.rows.is_some_and(|rows| rows > COUNTED) {
        say("it has many rows, so that `backlog check` takes longer: that is left to you")?;
    } else if open == 0 {
        // With the database as it was typed: its URL may have a password.
        let section = proposal.section(&db.to_string_lossy());
        checked(&section, &proposal.queue, environment, console)?;
    }
    next(&proposal, open, args, console)?;
    Ok(if open == 0 { Exit::Done } else { Exit::Failed })
}

/// The database as backlog.toml names it: a file by its whole path, a server without its password.
fn written_db(db: &Path, environment: &Environment) -> String {
    let text = db.to_string_lossy();
    if store::is_url(&text) {
        return store::without_password(&text);
    }
    environment.directory.join(db).display().to_string()
}

/// The table that is meant: the only one that is clearly one of jobs, or as somebody at the terminal
/// says.
fn chosen(tables: &[Listed], place: &str, console: &Console<'_>) -> Result<String> {
    let mut ranked: Vec<_> = tables.iter().map(|it| (likeness(it), it)).collect();
    ranked.sort_by_key(|(likeness, _)| std::cmp::Reverse(*likeness));
    let names = || listed(tables.iter().map(|it| it.name.as_str()));
    let likely: Vec<_> = ranked.iter().filter(|(it, _)| *it >= CLEARLY).collect();
    match likely[..] {
        [] if tables.is_empty() => bail!("there are no tables in {place}"),
        [] => bail!(usage(format!(
            "no table of {place} looks like one of jobs: name yours with --table; tables here: {}",
            names()
        ))),
        [(_, only)] => Ok(only.name.clone()),
        [(first, one), (second, _), ..] if *first >= second + BEFORE => {
            let others = likely[1..].iter().map(|(_, it)| it.name.as_str());
            say(&format!("other tables that may be meant, by --table: {}", listed(others)))?;
            Ok(one.name.clone())
        }
        _ => {
            let names: Vec<_> = likely.iter().map(|(_, it)| it.name.clone()).collect();
            match console.terminal.choose("which table is the queue?", &names)? {
                Some(index) => Ok(names[index].clone()),
                None => bail!(usage(format!(
                    "which table? name it with --table; these look like one of jobs: {}",
                    listed(names.iter().map(String::as_str))
                ))),
            }
        }
    }
}

/// The answer of somebody at the terminal, if there is one.
fn answer(question: &Question, console: &Console<'_>) -> Result<Option<usize>> {
    let choices: Vec<_> = question
        .choices
        .iter()
        .map(|choice| format!("{}: {}", choice.says, choice.lines.join("; ")))
        .collect();
    console.terminal.choose(&format!("{} {}.", question.about, question.why), &choices)
}

fn found(proposal: &Proposal, outline: &Outline) -> String {
    let columns = counted(outline.columns.len() as u64, "column");
    match proposal.questions().count() {
        0 => format!("{columns}, no question is open"),
        open => format!("{columns}, {} open", counted(open as u64, "question")),
    }
}

/// Checks the proposal as if it stood in backlog.toml.
fn checked(
    section: &str,
    queue: &str,
    environment: &Environment,
    console: &mut Console<'_>,
) -> Result<()> {
    let path = environment.directory.join("backlog.toml, as proposed");
    let sources = Sources::proposed(path, section, environment.clone())?;
    let typed = TypedOptions {
        known: SECTIONS.iter().flat_map(|(_, keys)| *keys).map(|key| key.name).collect(),
        ..TypedOptions::default()
    };
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
    check::run(&resolved, &Check::default(), &mut aside).map(drop)
}

/// What to type next.
fn next(proposal: &Proposal, open: usize, args: &Adopt, console: &Console<'_>) -> Result<()> {
    let queue = shlex::try_quote(&proposal.queue).unwrap_or_default();
    let mut steps = Vec::new();
    if io::stdout().is_terminal() || console.terminal.attended {
        let table =
            args.table.as_ref().map_or_else(String::new, |table| format!(" --table {table}"));
        steps.push(format!("backlog adopt --db ...{table} > backlog.toml"));
    }
    if open > 0 {
        steps.push("take the # from one answer below each QUESTION in backlog.toml".into());
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

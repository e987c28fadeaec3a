//! `backlog pause` and `resume`. A pause is a file. Each pass checks for it before it claims records.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use backlog_schedule::cut;
use backlog_store::{Access, Clock, LineHistory, Pause, PauseScope, StateDir};

use super::edit::confirm;
use super::passes::user_name;
use super::queue_arguments::table_command;
use super::{Console, open, state_dir};
use crate::cli::PauseArgs;
use crate::exit::{Exit, usage};
use crate::options::{Queue, Resolved};

struct PauseTarget {
    state: StateDir,
    scope: PauseScope,
    table_option: &'static str,
    /// The queue, and the table as the database spells it.
    queue: Queue,
    table: String,
    /// The recorded passes of the lines in the scope.
    histories: Vec<LineHistory>,
}

impl PauseTarget {
    fn find(resolved: &Resolved<'_>, clock: Clock) -> Result<Self> {
        let typed = &resolved.typed.layer;
        if typed.has("shard") || !typed.conditions.is_empty() {
            bail!(usage("a pause holds for a whole queue or table: leave out --shard and --where"));
        }
        let queue = resolved.queue()?;
        resolved.require_state_dir(&queue)?;
        let database = open(&queue, Access::ReadOnly, clock)?;
        let state = state_dir(&queue, &*database)?;
        let table = database.table().name.clone();
        let is_of_pgmq = database.table().capabilities().keeps_schedule;
        let table_option = if is_of_pgmq { "--pgmq" } else { "--table" };
        let scope = match resolved.is_named {
            true => PauseScope::Queue(queue.name.clone()),
            false => PauseScope::Table(table.clone()),
        };
        // Passes that cannot be read do not prevent a pause.
        let mut histories = state.histories(1).unwrap_or_default();
        histories.retain(|history| scope.covers(&history.line.queue, &history.line.table));
        Ok(Self { state, scope, table_option, queue, table, histories })
    }

    fn resume_command(&self, scope: &PauseScope) -> String {
        let (option, name) = match scope {
            PauseScope::Queue(name) => ("--queue", name),
            PauseScope::Table(name) => (self.table_option, name),
        };
        let quoted = shlex::try_quote(name).map_or_else(|_| name.clone(), String::from);
        format!("`backlog resume {option} {quoted}`")
    }

    fn others(&self) -> Vec<PauseScope> {
        match &self.scope {
            PauseScope::Queue(_) => vec![PauseScope::Table(self.table.clone())],
            PauseScope::Table(_) => {
                let known = self.histories.iter().map(|history| history.line.queue.clone());
                let queues: BTreeSet<_> = known.chain([self.queue.name.clone()]).collect();
                queues.into_iter().map(PauseScope::Queue).collect()
            }
        }
    }
}

pub fn pause(resolved: &Resolved<'_>, args: &PauseArgs, console: &mut Console<'_>) -> Result<Exit> {
    let target = PauseTarget::find(resolved, console.clock)?;
    let resume = table_command(resolved, "resume", &[], false)?;
    let now = console.clock.now();
    let until = args.until.or(args.span.map(|span| now.saturating_add(span)));
    if let Some(at) = until.filter(|at| *at <= now) {
        bail!(usage(format!("--until {at} is past: it is {now}")));
    }
    let reason = args.reason.clone().map(cut);
    let pause = Pause { since: Some(now), until, reason, by: Some(user_name()) };
    target.state.begin_pause(&target.scope, &pause)?;
    let until = until.map_or_else(String::new, |at| format!(" until {}", console.screen.when(at)));
    let scope = &target.scope;
    confirm(console.out, &format!("paused {scope}{until}; this ends it: {resume}"))?;
    for history in target.histories.iter().filter(|history| history.is_running) {
        let pid = history.running().map(|running| format!(" (pid {})", running.pid));
        let pid = pid.unwrap_or_default();
        confirm(console.out, &format!("the running pass{pid} begins nothing more"))?;
    }
    if target.state.is_named() && target.histories.is_empty() {
        let path = target.state.path().display();
        let unknown = format!(
            "no passes of {scope} are recorded in {path}: do its crontab lines use the same --state-dir?"
        );
        confirm(console.out, &unknown)?;
    }
    Ok(Exit::Done)
}

pub fn resume(resolved: &Resolved<'_>, console: &mut Console<'_>) -> Result<Exit> {
    let target = PauseTarget::find(resolved, console.clock)?;
    let now = console.clock.now();
    let scope = &target.scope;
    let was_paused = target.state.end_pause(scope, now)?;
    let (done, not) = (format!("resumed {scope}"), format!("{scope} is not paused"));
    confirm(console.out, if was_paused { &done } else { &not })?;
    for other in target.others() {
        if let Some(pause) = target.state.pause_of(&other, now) {
            let (paused, resume) =
                (pause.text(|at| console.screen.at(at)), target.resume_command(&other));
            confirm(console.out, &format!("{other} is still {paused}; {resume} ends that"))?;
        }
    }
    Ok(Exit::Done)
}

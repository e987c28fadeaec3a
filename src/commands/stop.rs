//! `backlog stop`: asks the pass that tries a record to end the handler. This process sends no signal.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use backlog_schedule::{Record, one_line};
use backlog_store::{Access, Clock, Database, ReadResult, SlowHandler, StateDir};

use super::assemble::Assembly;
use super::failures::KnownFailures;
use super::{Console, find, open, state_dir};
use crate::cli::IdsArgs;
use crate::exit::Exit;
use crate::options::Resolved;
use crate::report::next_attempt;

/// Time beyond the grace for a pass to take a request and to write the outcome.
const LEEWAY: Duration = Duration::from_secs(5);
const ENDED: &str = "not stopped: its handler ended by itself";
const POLL: Duration = Duration::from_millis(100);

pub fn run(resolved: &Resolved<'_>, args: &IdsArgs, console: &mut Console<'_>) -> Result<Exit> {
    let (queue, clock) = (resolved.queue()?, console.clock);
    let mut database = open(&queue, Access::ReadOnly, clock)?;
    let state = state_dir(&queue, &*database)?;
    // A pass reports errors of the schedule.
    let schedule = resolved.pass_schedule();
    let assembly = schedule.and_then(|schedule| Assembly::new(&queue, &schedule, &*database).ok());
    let wait = resolved.pass_settings().0.grace.saturating_add(LEEWAY);
    let mut worst = Exit::Done;
    for typed in &args.ids {
        let record = match find(&mut *database, typed)? {
            Ok(record) => record,
            Err(why) => {
                worst = worst.max(Exit::Failed);
                log::error!("{}: {why}", one_line(typed));
                continue;
            }
        };
        let (exit, mut text) = stop(&record, &state, &*database, wait, clock)?;
        let after = database.read(&record.id)?;
        if let (Exit::Done, ReadResult::Record(after)) = (exit, after) {
            // The charge of an interrupted attempt is taken back.
            let is_restored = after.failures < record.failures || record.failures == 0;
            if !after.status.is_pending() || !is_restored {
                text = ENDED.into();
            } else if let Some(assembly) = &assembly {
                let verdict = assembly.line.due_rule(clock.now(), false).verdict(after.facts());
                let next = next_attempt(&after, verdict, &console.screen);
                text += &format!("; next attempt {next}");
            }
        }
        worst = worst.max(exit);
        writeln!(console.out, "{}: {}", record.id, one_line(&text))?;
    }
    Ok(worst)
}

/// Asks the pass to end the handler of a record, and waits until the pass has released the record.
fn stop(
    record: &Record,
    state: &StateDir,
    database: &dyn Database,
    wait: Duration,
    clock: Clock,
) -> Result<(Exit, String)> {
    let handler = || -> Result<_> {
        let known = KnownFailures::new(state, database.table(), &state.histories(1)?);
        Ok((known.slow.get(&record.id).cloned(), known.is_in_hand(record)))
    };
    let SlowHandler { run, pid, .. } = match handler()? {
        (Some(handler), _) => handler,
        (None, true) => {
            let why = "not stopped: passes note a handler after 10 s, and look for requests then";
            return Ok((Exit::TryLater, format!("{why}; try again")));
        }
        (None, false) => {
            let others = "; passes of another user have their own --state-dir";
            let others = if state.is_of_a_server() { others } else { "" };
            let path = state.path().display();
            let why = format!("not stopped: no pass in {path} has had it in hand for 10 s{others}");
            return Ok((Exit::Failed, why));
        }
    };
    state.request_stop(&run, &record.id)?;
    let until = clock.monotonic() + wait;
    let is_in_hand =
        || Ok::<_, anyhow::Error>(handler()?.0.is_some_and(|handler| handler.run == run));
    while is_in_hand()? && clock.monotonic() < until {
        thread::sleep(POLL);
    }
    let was_taken = !state.withdraw_stop(&run, &record.id)?;
    Ok(match (is_in_hand()?, was_taken) {
        (false, true) => (Exit::Done, "stopped; the attempt does not count".into()),
        (false, false) => (Exit::Done, ENDED.into()),
        (true, _) => {
            (Exit::TryLater, format!("not stopped: the pass, pid {pid}, has not released it yet"))
        }
    })
}

//! `backlog explain`: the reasons why records are tried or not.

use anyhow::Result;
use backlog_schedule::{Status, one_line};

use super::assemble::open_to_read;
use super::failures::KnownFailures;
use super::queue_arguments::id_argument;
use super::{Console, GONE, find, or_warn, state_dir};
use crate::exit::Exit;
use crate::options::{Resolved, unknown_schedule};
use crate::report::{self, LineReport};

pub fn run(resolved: &Resolved<'_>, ids: &[String], console: &mut Console<'_>) -> Result<Exit> {
    let queue = resolved.queue()?;
    let (mut database, assembly) =
        open_to_read(&queue, resolved.schedule()?.as_ref(), console.clock)?;
    let now = console.clock.now();
    let passes = assembly.as_ref().and_then(|assembly| {
        let history = or_warn(assembly.state.history(&assembly.name)).flatten()?;
        Some(LineReport { history })
    });
    let due = assembly.map(|assembly| {
        (assembly.line.due_rule(now, false), assembly.last.unwrap_or_default().state)
    });
    let state = state_dir(&queue, &*database)?;
    if let Some(pause) = state.pause(&queue.name, &database.table().name, now) {
        let sentence = pause.sentence(|at| console.screen.at(at), &resolved.choice());
        console.out.write_all(console.screen.wrap(&sentence).as_bytes())?;
    }
    let known = KnownFailures::of(&queue, &*database)?;
    let joblog = resolved.pass_text("joblog");
    let joblog = joblog.map_or_else(String::new, |joblog| format!(": see the joblog {joblog}"));
    let deleted = database.table().deletes_succeeded.then(|| {
        format!("; on_success deletes the records that succeed, so it may have succeeded{joblog}")
    });
    let restores = database.table().require_archived_condition().is_ok();
    let mut exit = Exit::Done;
    for typed in ids {
        let text = match find(&mut *database, typed)? {
            Ok(mut record) => {
                let unstored = known.stored.fill_in(&mut record);
                let view = known.view(&record, &console.screen);
                let mut text = match &due {
                    Some((rule, last)) => view.explanation(rule, last, passes.as_ref()),
                    None => format!("{}  {}\n", view.unscheduled(), unknown_schedule()),
                };
                if record.status == Status::Archived && restores {
                    let (choice, id) = (resolved.choice(), id_argument(&record.id));
                    text += &format!("  way back    backlog restore{choice} {id}\n");
                }
                text + &unstored.map_or_else(String::new, report::unstored)
            }
            Err(why) => {
                exit = Exit::Failed;
                let deleted = deleted.as_deref().filter(|_| why == GONE).unwrap_or_default();
                format!("{}: {why}{deleted}\n", one_line(typed))
            }
        };
        let lines = text.lines().map(|line| console.screen.wrap(line));
        console.out.write_all(lines.collect::<String>().as_bytes())?;
    }
    Ok(exit)
}

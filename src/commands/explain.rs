//! `backlog explain`: why a record was or was not tried, and when it will be.

use std::io::Write;

use anyhow::Result;

use super::assemble::Assembly;
use super::{find, open_for};
use crate::exit::Exit;
use crate::mapping::Counting;
use crate::options::{Queue, Resolved, Schedule};
use crate::query::Reached;
use crate::record::{Record, one_line};
use crate::report::{self, Explanation, LastPass};
use crate::schedule::{Forecast, Look, Obstacle, Span, Verdict};
use crate::store::{Access, Database, LineState};
use crate::time::Instant;

/// How many of the attempts to come are shown.
const ATTEMPTS: usize = 5;

pub fn run(
    resolved: &Resolved<'_>,
    ids: &[String],
    now: Instant,
    out: &mut dyn Write,
) -> Result<Exit> {
    let queue = &resolved.queue()?;
    let Some(schedule) = resolved.schedule()? else {
        return without_schedule(queue, ids, out);
    };
    let mut database = open_for(queue, Some(&schedule), Access::ReadOnly)?;
    let Assembly { line, last, .. } = Assembly::new(queue, &schedule, &*database)?;
    let look = line.look(now, false);
    each(&mut *database, ids, out, |record| report::explanation(&explain(record, &look, &last)))
}

/// The records as far as they can be told of.
fn without_schedule(queue: &Queue, ids: &[String], out: &mut dyn Write) -> Result<Exit> {
    let mut database = open_for(queue, None, Access::ReadOnly)?;
    let table = database.table();
    let has_counter = table.counting() != Counting::No;
    let unknown = Schedule::unknown();
    each(&mut *database, ids, out, |record| {
        format!("{}  {unknown}\n", report::unscheduled(record, has_counter))
    })
}

/// Says something of each record that there is.
fn each(
    database: &mut dyn Database,
    ids: &[String],
    out: &mut dyn Write,
    say: impl Fn(&Record) -> String,
) -> Result<Exit> {
    let mut exit = Exit::Done;
    let columns = database.table().id.len();
    for id in ids {
        match find(database, id, columns)? {
            Ok(record) => out.write_all(say(&record).as_bytes())?,
            Err(why) => {
                writeln!(out, "{}: {why}", one_line(id))?;
                exit = Exit::Failed;
            }
        }
    }
    Ok(exit)
}

fn explain<'a>(record: &'a Record, look: &'a Look, last: &LineState) -> Explanation<'a> {
    let facts = record.facts();
    // A line has one pass in each tick.
    let now = look.time.now;
    let next_pass = last
        .began_at
        .filter(|at| *at <= now)
        .map_or(now, |at| at.next_tick(look.schedule.policy.every_secs()).max(now));
    Explanation {
        record,
        look,
        // What a queue has been through does not show in a message.
        last_pass: last
            .began_at
            .filter(|_| record.due_at.is_none())
            .map(|at| last_pass(record, look, at, last)),
        verdict: look.verdict(facts),
        attempts: Forecast::new(look, facts, next_pass).take(ATTEMPTS).collect(),
    }
}

/// What the last pass of the line, which began at `at`, had to do with the record, as far as the
/// row still shows it.
fn last_pass(record: &Record, look: &Look, at: Instant, last: &LineState) -> (Instant, LastPass) {
    let facts = record.facts();
    let mut time = look.schedule.policy.pass_time(None, at, false);
    let until = last.cursor.reached.as_ref().and_then(Reached::slot).map(|slot| slot.tick);
    if let (Some(span), Some(after), Some(until)) = (&mut time.span, last.began_behind, until) {
        *span = Span { after, until };
    }
    let then = Look { time, ..look.clone() };
    let failed_since = facts.last_failure_at.filter(|failed_at| *failed_at >= at);
    let words = match (failed_since, then.verdict(facts)) {
        (Some(failed_at), _) => LastPass::Tried { failed_at },
        (None, Verdict::Archive(_) | Verdict::Never(Obstacle::NotPending)) => LastPass::NotPending,
        (None, _) if facts.inserted_at.is_some_and(|inserted_at| inserted_at > at) => {
            LastPass::NotYetThere
        }
        (None, verdict) => LastPass::Verdict(verdict),
    };
    (at, words)
}

//! `backlog explain`: why a record was or was not tried, and when it will be.

use std::io::Write;

use anyhow::Result;

use super::assemble::Assembly;
use super::{find, open_for};
use crate::exit::Exit;
use crate::mapping::Counting;
use crate::options::{Queue, Resolved, Schedule};
use crate::query::Position;
use crate::record::{Record, one_line};
use crate::report::{self, Explanation, LastPass};
use crate::schedule::{DueRule, Forecast, Obstacle, Span, Verdict};
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
    let rule = line.due_rule(now, false);
    each(&mut *database, ids, out, |record| report::explanation(&explain(record, &rule, &last)))
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

fn explain<'a>(record: &'a Record, rule: &'a DueRule, last: &LineState) -> Explanation<'a> {
    let facts = record.facts();
    // A line has one pass in each tick.
    let now = rule.time.now;
    let next_pass = last
        .began_at
        .filter(|at| *at <= now)
        .map_or(now, |at| at.next_tick(rule.schedule.policy.every_secs()).max(now));
    Explanation {
        record,
        rule,
        // What a queue has been through does not show in a message.
        last_pass: last
            .began_at
            .filter(|_| record.due_at.is_none())
            .map(|at| last_pass(record, rule, at, last)),
        verdict: rule.verdict(facts),
        attempts: Forecast::new(rule, facts, next_pass).take(ATTEMPTS).collect(),
    }
}

/// What the last pass of the line, which began at `at`, had to do with the record, as far as the
/// row still shows it.
fn last_pass(
    record: &Record,
    rule: &DueRule,
    at: Instant,
    last: &LineState,
) -> (Instant, LastPass) {
    let facts = record.facts();
    let mut time = rule.schedule.policy.pass_time(None, at, false);
    let until = last.cursor.reached.as_ref().and_then(Position::slot).map(|slot| slot.tick);
    if let (Some(span), Some(after), Some(until)) = (&mut time.span, last.began_behind, until) {
        *span = Span { after, until };
    }
    let then = DueRule { time, ..rule.clone() };
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

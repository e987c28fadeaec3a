//! `backlog explain`: why a record was or was not tried, and when it will be.

use anyhow::Result;

use super::assemble::look;
use super::{Console, find};
use crate::exit::Exit;
use crate::options::{Resolved, Schedule};
use crate::query::Position;
use crate::record::{Facts, Record, one_line};
use crate::report;
use crate::schedule::{DueRule, Span, Verdict};
use crate::store::LineState;
use crate::time::Instant;

/// How many of the attempts to come are shown.
const ATTEMPTS: usize = 5;

pub fn run(resolved: &Resolved<'_>, ids: &[String], console: &mut Console<'_>) -> Result<Exit> {
    let (mut database, assembly) = look(&resolved.queue()?, resolved.schedule()?.as_ref())?;
    let due = assembly.map(|it| (it.line.due_rule(console.clock.now(), false), it.last));
    let columns = database.table().id.len();
    let has_counter = database.table().failures.is_some();
    let mut exit = Exit::Done;
    for id in ids {
        let record = match find(&mut *database, id, columns)? {
            Ok(record) => record,
            Err(why) => {
                writeln!(console.out, "{}: {why}", one_line(id))?;
                exit = Exit::Failed;
                continue;
            }
        };
        let text = match &due {
            Some((rule, last)) => explain(&record, rule, last),
            None => {
                let known = report::unscheduled(&record, has_counter);
                format!("{known}  {}\n", Schedule::unknown())
            }
        };
        console.out.write_all(text.as_bytes())?;
    }
    Ok(exit)
}

fn explain(record: &Record, rule: &DueRule, last: &LineState) -> String {
    let facts = record.facts();
    // A line has one pass in each tick.
    let now = rule.time.now;
    let next_pass = last
        .began_at
        .filter(|at| *at <= now)
        .map_or(now, |at| at.next_tick(rule.schedule.policy.every_secs()).max(now));
    // What a queue has been through does not show in a message.
    let last_pass = last.began_at.filter(|_| !rule.capabilities.keeps_schedule);
    let last_pass = last_pass.map(|at| (at, verdict_then(facts, rule, at, last)));
    let attempts: Vec<_> = rule.forecast(facts, next_pass).take(ATTEMPTS).collect();
    report::explanation(record, rule, last_pass, &attempts)
}

/// The verdict of the last pass of the line, which began at `at`, as far as the row still shows it.
fn verdict_then(facts: Facts<'_>, rule: &DueRule, at: Instant, last: &LineState) -> Verdict {
    let mut time = rule.schedule.policy.pass_time(None, at, false);
    let until = last.cursor.reached.as_ref().and_then(Position::slot).map(|slot| slot.tick);
    if let (Some(span), Some(after), Some(until)) = (&mut time.span, last.began_behind, until) {
        *span = Span { after, until };
    }
    DueRule { time, ..rule.clone() }.verdict(facts)
}

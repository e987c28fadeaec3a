//! `backlog status`: how many records there are, what is due, the passes, and why records fail.

use std::ops::ControlFlow::Continue;

use anyhow::Result;

use super::assemble::look;
use super::failures::Failed;
use super::{Console, passes};
use crate::cli;
use crate::exit::{self, Exit};
use crate::options::{Resolved, Sources, TypedOptions};
use crate::query::Order;
use crate::record::{Causes, Status, json_line};
use crate::report::{self, BANDS, DueReport, Failures, QueueStatus, StatusReport, keep_older};
use crate::time::{DAY, Instant};

pub fn run(resolved: &Resolved<'_>, args: &cli::Status, console: &mut Console<'_>) -> Result<Exit> {
    let found = report_on(resolved, args.passes, console.clock.now())?;
    let text = match args.format.json {
        true => json_line(&found),
        false => report::status_text(&found, &console.screen),
    };
    console.out.write_all(text.as_bytes())?;
    Ok(Exit::Done)
}

/// All queues on one screen. One that cannot be looked at says why in its place.
pub fn overview(
    queues: &[String],
    sources: &Sources,
    typed: &TypedOptions,
    args: &cli::Status,
    console: &mut Console<'_>,
) -> Result<Exit> {
    let now = console.clock.now();
    let mut exit = Exit::Done;
    let mut found: Vec<QueueStatus> = Vec::new();
    for queue in queues {
        let resolved = sources.resolve(typed, Some(queue)).map_err(anyhow::Error::from);
        let report = resolved.and_then(|resolved| report_on(&resolved, args.passes, now));
        exit = exit.max(report.as_ref().err().map_or(Exit::Done, exit::of));
        found.push((queue.clone(), report));
    }
    if !args.format.json {
        console.out.write_all(report::overview_text(&found, &console.screen).as_bytes())?;
        return Ok(exit);
    }
    for (queue, report) in &found {
        let line = match report {
            Ok(report) => json_line(report),
            Err(error) => report::unknown_queue_json(queue, error),
        };
        console.out.write_all(line.as_bytes())?;
    }
    Ok(exit)
}

/// The status of a queue, with its last passes, so many.
fn report_on(resolved: &Resolved<'_>, recent: usize, now: Instant) -> Result<StatusReport> {
    let queue = resolved.queue()?;
    let (mut database, assembly) = look(&queue, resolved.schedule()?.as_ref())?;
    let rule = assembly.map(|assembly| assembly.line.due_rule(now, false));
    let counts = database.census(&BANDS.map(|days| days * DAY), now)?;
    let mut oldest_pending = None;
    let line = rule.as_ref().map(|rule| rule.schedule.policy.line());
    let mut due = line.map(|line| DueReport { line, ..DueReport::default() });
    let state = database.state_dir(queue.state_dir.as_deref())?;
    let (histories, unread) = state.histories(recent);
    let known = Failed::new(&state, database.table(), &histories);
    let mut causes = Causes::default();
    let [mut snoozed, mut failed, mut in_hand] = [0; 3];
    database.scan(&Status::PENDING, Order::Oldest, &mut |mut record| {
        keep_older(&mut oldest_pending, &record);
        let facts = record.facts();
        let verdict = rule.as_ref().map(|rule| rule.verdict(facts));
        let is_snoozed = facts.snoozed_until.is_some_and(|until| until > now);
        snoozed += u64::from(is_snoozed);
        if known.is(&mut record) {
            failed += u64::from(!is_snoozed);
            causes.add(&record);
        }
        in_hand += u64::from(known.has_in_hand(&record));
        if let (Some(due), Some(verdict)) = (&mut due, verdict) {
            due.add(&record, verdict, now);
        }
        Ok(Continue(()))
    })?;
    known.known.date(&mut causes);
    let environment = &resolved.sources.environment;
    let lines = passes::of_queue(&queue, database.table(), histories, environment);
    let passes = passes::report(&state, lines, &unread, recent, now);
    Ok(StatusReport {
        db: database.place(),
        table: database.table().name.clone(),
        now,
        counts,
        oldest_pending,
        due,
        passes,
        queue: queue.name.clone(),
        snoozed,
        failed,
        in_hand,
        failures: Failures { queue: queue.name, causes },
    })
}

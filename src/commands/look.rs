//! `backlog status`, `list` and `explain`: how many records there are, which, and why one is tried.

use std::ops::ControlFlow::{Break, Continue};

use anyhow::{Result, bail};

use super::assemble::look;
use super::failures::Failed;
use super::{Console, find, passes};
use crate::cli::List;
use crate::exit::{Exit, usage};
use crate::options::{Resolved, Schedule};
use crate::query::{Order, Position};
use crate::record::{Causes, Record, Status, json_line, one_line};
use crate::report::{self, BANDS, DueReport, Listing, Oldest, StatusReport};
use crate::schedule::{DueRule, Span, Verdict};
use crate::store::LineState;
use crate::time::DAY;

pub fn status(resolved: &Resolved<'_>, is_json: bool, console: &mut Console<'_>) -> Result<Exit> {
    let (now, queue) = (console.clock.now(), resolved.queue()?);
    let (mut database, assembly) = look(&queue, resolved.schedule()?.as_ref())?;
    let rule = assembly.map(|assembly| assembly.line.due_rule(now, false));
    let counts = database.census(&BANDS.map(|days| days * DAY), now)?;
    let mut oldest_pending = None;
    let line = rule.as_ref().map(|rule| rule.schedule.policy.line());
    let mut due = line.map(|line| DueReport { line, ..DueReport::default() });
    let (failed, mut failures) = (Failed::of(&queue, &*database)?, Causes::default());
    database.scan(&Status::PENDING, Order::Oldest, &mut |mut record| {
        keep_older(&mut oldest_pending, &record);
        let verdict = rule.as_ref().map(|rule| rule.verdict(record.facts()));
        if failed.is(&mut record) {
            failures.add(&record);
        }
        let (Some(due), Some(verdict)) = (&mut due, verdict) else { return Ok(Continue(())) };
        match verdict {
            Verdict::Due(_) => {
                due.due += 1;
                due.next_due_at = Some(now);
                keep_older(&mut due.oldest_due, &record);
            }
            Verdict::Archive(_) => due.to_be_archived += 1,
            Verdict::Wait { until } => {
                due.waiting += 1;
                due.next_due_at = Some(due.next_due_at.map_or(until, |next| next.min(until)));
            }
            Verdict::Never(_) => due.never_due += 1,
        }
        Ok(Continue(()))
    })?;
    let (db, table) = (database.place(), database.table().name.clone());
    failed.known.date(&mut failures);
    let passes = passes::of_queue(&queue, &*database, &resolved.sources.environment, now)?;
    let found = StatusReport { db, table, now, counts, oldest_pending, due, passes, failures };
    let text =
        if is_json { json_line(&found) } else { report::status_text(&found, &console.screen) };
    console.out.write_all(text.as_bytes())?;
    Ok(Exit::Done)
}

fn keep_older(oldest: &mut Option<Oldest>, record: &Record) {
    if let Some(date_inserted) = record.inserted_at
        && oldest.as_ref().is_none_or(|oldest| date_inserted < oldest.date_inserted)
    {
        *oldest = Some(Oldest { id: record.id.clone(), date_inserted });
    }
}

pub fn list(resolved: &Resolved<'_>, args: &List, console: &mut Console<'_>) -> Result<Exit> {
    let (queue, schedule) = (resolved.queue()?, resolved.schedule()?);
    if args.due && schedule.is_none() {
        bail!(usage("--due goes by --ndays, --fibonacci, --policy or --progressive; say which"));
    }
    let mut statuses = args.status.clone();
    if args.due {
        let all = if statuses.is_empty() { &Status::OURS[..] } else { &statuses };
        statuses = all.iter().copied().filter(|status| status.is_pending()).collect();
        if statuses.is_empty() {
            bail!(usage("only NEW and ERROR records can be due"));
        }
    }
    let (mut database, assembly) = look(&queue, schedule.as_ref())?;
    let now = console.clock.now();
    let rule = assembly.map(|assembly| assembly.line.due_rule(now, false));
    let failed = Failed::of(&queue, &*database)?;
    let all = if statuses.is_empty() { &Status::OURS[..] } else { &statuses };
    let cause = args.failure.as_ref().map(|it| failed.cause(it, &queue, &mut *database, all));
    let (cause, since) = (cause.transpose()?, args.since.map(|since| since.instant(now)));
    let counts = database.table().failures.is_some();
    let mut listing = Listing::new(rule.is_some(), counts, console.screen);
    let order = resolved.pass()?.order.unwrap_or_default();
    let mut left = args.limit.map_or(u64::MAX, |limit| limit.0);
    database.scan(&statuses, order, &mut |mut record| {
        let verdict = rule.as_ref().map(|rule| rule.verdict(record.facts()));
        failed.known.fill_in(&mut record);
        let is_meant = (!args.due || matches!(verdict, Some(Verdict::Due(_))))
            && queue.holds(&record.id)
            && since.is_none_or(|since| record.inserted_at.is_some_and(|at| at >= since))
            && cause.as_ref().is_none_or(|cause| failed.is_by(&mut record, cause));
        if is_meant {
            let text = match args.json {
                true => report::list_json(&record, verdict, counts),
                false => listing.add(&record, verdict),
            };
            console.out.write_all(text.as_bytes())?;
            left -= 1;
        }
        Ok(if left == 0 { Break(()) } else { Continue(()) })
    })?;
    if !args.json {
        console.out.write_all(listing.finish().as_bytes())?;
    }
    Ok(Exit::Done)
}

/// How many of the attempts to come are shown.
const ATTEMPTS: usize = 5;

pub fn explain(resolved: &Resolved<'_>, ids: &[String], console: &mut Console<'_>) -> Result<Exit> {
    let queue = resolved.queue()?;
    let (mut database, assembly) = look(&queue, resolved.schedule()?.as_ref())?;
    let due = assembly.map(|it| (it.line.due_rule(console.clock.now(), false), it.last));
    let columns = database.table().id.len();
    let has_counter = database.table().failures.is_some();
    let failed = Failed::of(&queue, &*database)?;
    let mut exit = Exit::Done;
    for id in ids {
        let mut found = find(&mut *database, id, columns)?;
        if let Ok(record) = &mut found {
            failed.known.fill_in(record);
        }
        let text = match (found, &due) {
            (Ok(record), Some((rule, last))) => explanation(&record, rule, last),
            (Ok(record), None) => {
                let known = report::unscheduled(&record, has_counter);
                format!("{known}  {}\n", Schedule::unknown())
            }
            (Err(why), _) => {
                exit = Exit::Failed;
                format!("{}: {why}\n", one_line(id))
            }
        };
        console.out.write_all(text.as_bytes())?;
    }
    Ok(exit)
}

fn explanation(record: &Record, rule: &DueRule, last: &LineState) -> String {
    let (facts, policy) = (record.facts(), &rule.schedule.policy);
    // A line has one pass in each tick.
    let now = rule.time.now;
    let began_at = last.began_at.filter(|at| *at <= now);
    let next_pass = began_at.map_or(now, |at| at.next_tick(policy.every_secs()).max(now));
    // What a queue has been through does not show in a message.
    let last_pass = last.began_at.filter(|_| !rule.capabilities.keeps_schedule).map(|at| {
        // The verdict then, as far as the row still shows it.
        let mut time = policy.pass_time(None, at, false);
        let until = last.cursor.reached.as_ref().and_then(Position::slot).map(|slot| slot.tick);
        if let (Some(span), Some(after), Some(until)) = (&mut time.span, last.began_behind, until) {
            *span = Span { after, until };
        }
        (at, DueRule { time, ..rule.clone() }.verdict(facts))
    });
    let attempts: Vec<_> = rule.forecast(facts, next_pass).take(ATTEMPTS).collect();
    report::explanation(record, rule, last_pass, &attempts)
}

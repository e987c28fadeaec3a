//! `backlog list` and `explain`: which records there are, and why one is tried.

use std::ops::ControlFlow::{Break, Continue};

use anyhow::{Result, bail};
use backlog_schedule::{DueRule, Position, Record, Span, Status, Verdict, one_line};
use backlog_store::system_error::chain;
use backlog_store::{LineHistory, LineState};

use super::assemble::look;
use super::failures::{CauseFilter, kept_errors};
use super::{Console, find, state_dir};
use crate::cli::List;
use crate::exit::{Exit, usage};
use crate::options::{Resolved, unknown_schedule};
use crate::report::{self, Listing, Screen};

pub fn list(resolved: &Resolved<'_>, args: &List, console: &mut Console<'_>) -> Result<Exit> {
    let (queue, schedule) = (resolved.queue()?, resolved.schedule()?);
    if args.due && schedule.is_none() {
        bail!(usage("--due goes by --ndays, --fibonacci, --policy or --progressive; say which"));
    }
    let mut statuses = args.status.clone();
    if args.due {
        statuses.retain(|status| status.is_pending());
        if statuses.is_empty() && !args.status.is_empty() {
            bail!(usage("only NEW and ERROR records can be due"));
        }
        if statuses.is_empty() {
            statuses = Status::PENDING.into();
        }
    }
    let (mut database, assembly) = look(&queue, schedule.as_ref(), console.clock)?;
    let now = console.clock.now();
    let rule = assembly.map(|assembly| assembly.line.due_rule(now, false));
    let kept = kept_errors(&queue, &*database)?;
    let all = if statuses.is_empty() { &Status::OURS[..] } else { &statuses };
    let filter = |meant: &String| CauseFilter::new(meant, &queue, &mut *database, all);
    let cause = args.failure.as_ref().map(filter);
    let (cause, since) = (cause.transpose()?, args.since.map(|since| since.instant(now)));
    let counts = database.table().failures.is_some();
    let mut listing = Listing::new(rule.is_some(), counts, console.screen);
    let order = resolved.settings.order;
    let mut left = args.limit.unwrap_or(u64::MAX);
    let mut each = |mut record: Record| {
        let verdict = rule.as_ref().map(|rule| rule.verdict(record.facts()));
        kept.fill_in(&mut record);
        let is_meant = (!args.due || matches!(verdict, Some(Verdict::Due(_))))
            && queue.holds(&record.id)
            && since.is_none_or(|since| record.inserted_at.is_some_and(|at| at >= since))
            && cause.as_ref().is_none_or(|cause| cause.holds(&mut record));
        if is_meant {
            let json = args.json.then(|| report::list_json(&record, verdict, counts));
            let text = json.unwrap_or_else(|| listing.add(&record, verdict));
            console.out.write_all(text.as_bytes())?;
            left -= 1;
        }
        Ok(if left == 0 { Break(()) } else { Continue(()) })
    };
    let is_filtered =
        args.due || args.since.is_some() || args.failure.is_some() || queue.shard.is_some();
    database.scan(&statuses, order, args.limit.filter(|_| !is_filtered), &mut each)?;
    if !args.json {
        console.out.write_all(listing.finish().as_bytes())?;
    }
    Ok(Exit::Done)
}

const ATTEMPTS: usize = 5;

pub fn explain(resolved: &Resolved<'_>, ids: &[String], console: &mut Console<'_>) -> Result<Exit> {
    let queue = resolved.queue()?;
    let (mut database, assembly) = look(&queue, resolved.schedule()?.as_ref(), console.clock)?;
    let history = assembly.as_ref().and_then(|it| {
        let history = it.state.history(&it.name);
        history.inspect_err(|error| log::warn!("{}", chain(error))).ok().flatten()
    });
    let due = assembly.map(|it| (it.line.due_rule(console.clock.now(), false), it.last));
    let state = state_dir(&queue, &*database)?;
    if let Some(pause) = state.pause(&queue.name, &database.table().name, console.clock.now()) {
        let said = pause.sentence(|at| console.screen.at(at));
        console.out.write_all(console.screen.wrap(&said).as_bytes())?;
    }
    let columns = database.table().id.len();
    let has_counter = database.table().failures.is_some();
    let kept = kept_errors(&queue, &*database)?;
    let mut exit = Exit::Done;
    for id in ids {
        let mut found = find(&mut *database, id, columns)?;
        let unstored = found.as_mut().ok().and_then(|record| kept.fill_in(record));
        let mut text = match (found, &due) {
            (Ok(record), Some((rule, last))) => {
                explanation(&record, rule, last, history.as_ref(), &console.screen)
            }
            (Ok(record), None) => {
                let known = report::unscheduled(&record, has_counter, &console.screen);
                format!("{known}  {}\n", unknown_schedule())
            }
            (Err(why), _) => {
                exit = Exit::Failed;
                format!("{}: {why}\n", one_line(id))
            }
        };
        text += &unstored.map_or_else(String::new, report::unstored);
        let lines = text.lines().map(|line| console.screen.wrap(line));
        console.out.write_all(lines.collect::<String>().as_bytes())?;
    }
    Ok(exit)
}

fn explanation(
    record: &Record,
    rule: &DueRule,
    last: &LineState,
    history: Option<&LineHistory>,
    screen: &Screen,
) -> String {
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
    report::explanation(record, rule, last_pass, &attempts, history, screen)
}

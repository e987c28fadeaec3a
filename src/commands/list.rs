//! `backlog list`: the records of a table.

use std::ops::ControlFlow::{Break, Continue};

use anyhow::{Result, bail};
use backlog_schedule::{Record, Status, Verdict};

use super::Console;
use super::assemble::open_to_read;
use super::failures::{CauseFilter, KnownFailures};
use crate::cli::ListArgs;
use crate::exit::{Exit, usage};
use crate::options::Resolved;
use crate::report;

pub fn run(resolved: &Resolved<'_>, args: &ListArgs, console: &mut Console<'_>) -> Result<Exit> {
    let (queue, schedule) = (resolved.queue()?, resolved.schedule()?);
    if args.due && schedule.is_none() {
        bail!(usage("--due needs a schedule: use --ndays, --fibonacci, --policy or --progressive"));
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
    let (mut database, assembly) = open_to_read(&queue, schedule.as_ref(), console.clock)?;
    let now = console.clock.now();
    let rule = assembly.map(|assembly| assembly.line.due_rule(now, false));
    let known = KnownFailures::of(&queue, &*database)?;
    let all = if statuses.is_empty() { &Status::OURS[..] } else { &statuses };
    let filter = |cause: &String| {
        CauseFilter::new(cause, resolved, &mut *database, all, ("list", &Status::OURS))
    };
    let cause = args.failure.as_ref().map(filter);
    let (cause, since) = (cause.transpose()?, args.since.map(|since| since.instant(now)));
    let screen = console.screen;
    let mut table = report::list_table(rule.is_some(), screen);
    let order = resolved.settings.order;
    let mut left = args.limit.unwrap_or(u64::MAX);
    let mut each = |mut record: Record| {
        let verdict = rule.as_ref().map(|rule| rule.verdict(record.facts()));
        known.stored.fill_in(&mut record);
        let is_listed = (!args.due || matches!(verdict, Some(Verdict::Due(_))))
            && queue.holds(&record.id)
            && since.is_none_or(|since| record.inserted_at.is_some_and(|at| at >= since))
            && cause.as_ref().is_none_or(|cause| cause.matches(&mut record));
        if is_listed {
            let view = known.view(&record, &screen);
            let text = match args.json {
                true => view.list_json(verdict),
                false => table.add(view.list_row(verdict)),
            };
            console.out.write_all(text.as_bytes())?;
            left -= 1;
        }
        Ok(if left == 0 { Break(()) } else { Continue(()) })
    };
    let is_filtered =
        args.due || args.since.is_some() || args.failure.is_some() || queue.shard.is_some();
    database.scan(&statuses, order, args.limit.filter(|_| !is_filtered), &mut each)?;
    if !args.json {
        console.out.write_all(table.finish().as_bytes())?;
    }
    Ok(Exit::Done)
}

//! `backlog list`: the records, one line each.

use anyhow::{Result, bail};

use super::Console;
use super::assemble::look;
use crate::cli::List;
use crate::exit::{Exit, usage};
use crate::options::{OrderOption, Resolved};
use crate::record::Status;
use crate::report;
use crate::schedule::Verdict;

pub fn run(resolved: &Resolved<'_>, args: &List, console: &mut Console<'_>) -> Result<Exit> {
    let queue = &resolved.queue()?;
    let schedule = resolved.schedule()?;
    if args.due && schedule.is_none() {
        bail!(usage("--due goes by --ndays, --fibonacci, --policy or --progressive; say which"));
    }
    let mut statuses = args.status.clone();
    if args.due {
        if statuses.is_empty() {
            statuses = Status::PENDING.to_vec();
        }
        statuses.retain(|status| status.is_pending());
        if statuses.is_empty() {
            bail!(usage("only NEW and ERROR records can be due"));
        }
    }
    let (mut database, assembly) = look(queue, schedule.as_ref())?;
    let rule = assembly.map(|assembly| assembly.line.due_rule(console.clock.now(), false));
    if !args.json {
        console.out.write_all(report::list_header(rule.is_some()).as_bytes())?;
    }
    let has_counter = database.table().failures.is_some();
    let OrderOption { order } = resolved.read()?;
    database.scan(&statuses, order.unwrap_or_default(), &mut |record| {
        if queue.shard.is_some_and(|shard| !shard.holds(&record.id)) {
            return Ok(());
        }
        let verdict = rule.as_ref().map(|rule| rule.verdict(record.facts()));
        if args.due && !matches!(verdict, Some(Verdict::Due(_))) {
            return Ok(());
        }
        let line = if args.json {
            report::list_json(&record, verdict, has_counter)
        } else {
            report::list_line(&record, verdict, has_counter)
        };
        Ok(console.out.write_all(line.as_bytes())?)
    })?;
    Ok(Exit::Done)
}

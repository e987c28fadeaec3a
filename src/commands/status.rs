//! `backlog status`: how many records there are, and what is due.

use anyhow::Result;

use super::Console;
use super::assemble::look;
use crate::exit::Exit;
use crate::options::Resolved;
use crate::query::Order;
use crate::record::{Record, Status, json_line};
use crate::report::{BANDS, DueReport, Oldest, StatusReport, status_text};
use crate::schedule::Verdict;
use crate::time::DAY;

pub fn run(resolved: &Resolved<'_>, is_json: bool, console: &mut Console<'_>) -> Result<Exit> {
    let now = console.clock.now();
    let queue = &resolved.queue()?;
    let schedule = resolved.schedule()?;
    let (mut database, assembly) = look(queue, schedule.as_ref())?;
    let rule = assembly.map(|assembly| assembly.line.due_rule(now, false));
    let counts = database.census(&BANDS.map(|days| days * DAY), now)?;
    let mut oldest_pending = None;
    let mut due = rule
        .as_ref()
        .map(|rule| DueReport { line: rule.schedule.policy.line(), ..DueReport::default() });
    database.scan(&Status::PENDING, Order::Oldest, &mut |record| {
        keep_older(&mut oldest_pending, &record);
        let (Some(due), Some(rule)) = (&mut due, &rule) else {
            return Ok(());
        };
        match rule.verdict(record.facts()) {
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
        Ok(())
    })?;
    let found = StatusReport {
        db: database.place(),
        table: database.table().name.clone(),
        now,
        counts,
        oldest_pending,
        due,
    };
    let text = if is_json { json_line(&found) } else { status_text(&found) };
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

//! `backlog process --dry-run`, and the error about a table in which no status is mapped.

use std::collections::HashSet;
use std::ops::ControlFlow::Continue;

use anyhow::Result;
use backlog_schedule::{DAY, Instant, Status, Verdict, counted, cut_line};
use backlog_store::{Access, Clock, Database, ReadResult, StatusCount};

use super::assemble::{Assembly, require_handler};
use super::passes::PassLog;
use super::{AMBIGUOUS, Console, SUCCESS_DELETES, open};
use crate::engine::{Candidate, DueQueue};
use crate::exit::Exit;
use crate::options::{PassSettings, Queue};
use crate::report::{Screen, dry_run_line, verdict_line};
use crate::terminal::Terminal;

/// Prints the records that a pass would try or archive now, in its order, then the others. Claims and writes nothing.
pub fn dry_run(queue: &Queue, settings: &PassSettings, console: &mut Console<'_>) -> Result<Exit> {
    let mut reader = open(queue, Access::ReadOnly, console.clock)?;
    reader.table().require_valid_columns()?;
    require_handler(settings.handler.as_ref(), queue, reader.table())?;
    let Assembly { line, state, name, .. } = Assembly::new(queue, &settings.schedule, &*reader)?;
    if let Some(warning) = reader.deletion(SUCCESS_DELETES)? {
        console.terminal.say(&warning);
    }
    if let Some(pause) = state.pause(&name.queue, &name.table, console.clock.now()) {
        let screen = Screen { width: console.terminal.width, now: console.clock.now() };
        console.terminal.say(&pause.sentence(|at| screen.at(at), ""));
    }
    let limits = &settings.limits;
    let plan = line.plan(settings.options.order, limits);
    let rule = line.due_rule(console.clock.now(), limits.drain);
    let has_counter = rule.capabilities.has_counter;
    let mut candidates = DueQueue::new(&plan, rule.clone());
    let mut left = limits.max_records.unwrap_or(u64::MAX);
    let (mut printed, mut ambiguous) = (HashSet::new(), HashSet::new());
    while left > 0
        && let Some(Candidate { id, .. }) = candidates.next_few(1, &mut *reader)?.pop()
    {
        // A restored record may have kept its slot, and so come twice.
        if printed.contains(&id) {
            continue;
        }
        match reader.read(&id)? {
            ReadResult::Gone => {}
            ReadResult::Ambiguous => {
                ambiguous.insert(id);
            }
            ReadResult::Record(record) => {
                let verdict = rule.verdict(record.facts());
                if let Verdict::Archive(_) | Verdict::Due(_) = verdict {
                    left -= u64::from(matches!(verdict, Verdict::Due(_)));
                    let line = verdict_line(&record, verdict, has_counter, &console.screen);
                    console.out.write_all(line.as_bytes())?;
                    printed.insert(id);
                }
            }
        }
    }
    let mut is_pending = false;
    reader.scan(&Status::PENDING, settings.options.order, None, &mut |record| {
        is_pending = true;
        if printed.contains(&record.id) {
            return Ok(Continue(()));
        }
        let verdict = rule.verdict(record.facts());
        let line = if ambiguous.contains(&record.id) {
            dry_run_line(&record, "skip", AMBIGUOUS)
        } else if left == 0 && matches!(verdict, Verdict::Due(_) | Verdict::Archive(_)) {
            dry_run_line(&record, "skip", "due, but beyond --max-records")
        } else {
            // It may be due by now.
            verdict_line(&record, verdict, has_counter, &console.screen)
        };
        writeln!(console.out, "{}", console.screen.fit(&line))?;
        Ok(Continue(()))
    })?;
    if !is_pending && let Some(why) = unmapped(&mut *reader, console.clock.now())? {
        log::error!("nothing is pending: {why}");
    }
    Ok(Exit::Done)
}

/// Maximum number of unmapped values that an error lists.
const LISTED: usize = 5;

/// Reports that no row has a mapped status, because the queue would only seem to be empty. Under cron once a day.
pub fn report_unmapped(
    queue: &Queue,
    log: &PassLog,
    clock: Clock,
    terminal: &Terminal,
) -> Result<()> {
    let now = clock.now();
    let sought_at = log.record(|record| record.next.unmapped_sought_at).flatten();
    let is_recent = sought_at.is_some_and(|at| (0..DAY).contains(&now.0.saturating_sub(at.0)));
    if terminal.width.is_none() && is_recent {
        return Ok(());
    }
    let mut database = open(queue, Access::ReadOnly, clock)?;
    database.make_read_only()?;
    if let Some(why) = unmapped(&mut *database, now)? {
        log::error!("nothing was due: {why}");
    }
    log.record(|record| record.next.unmapped_sought_at = Some(now));
    Ok(())
}

fn unmapped(database: &mut dyn Database, now: Instant) -> Result<Option<String>> {
    let foreign = if database.any_mapped()? { Vec::new() } else { database.census(&[], now)? };
    let rows: u64 = foreign.iter().map(|count| count.rows).sum();
    if rows == 0 {
        return Ok(None);
    }
    let quoted = |count: &StatusCount| format!("'{}'", cut_line(&count.text));
    let values: Vec<_> = foreign.iter().take(LISTED).map(quoted).collect();
    let more = if foreign.len() > LISTED { ", ..." } else { "" };
    Ok(Some(format!(
        "all {} of table {} have a status that is not mapped: {}{more}; map it as status.new, see \
         `backlog check`",
        counted(rows, "row"),
        database.table().name,
        values.join(", ")
    )))
}

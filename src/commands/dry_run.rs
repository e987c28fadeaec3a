//! `backlog process --dry-run`: what a pass would do now. The same candidates in the same order,
//! but nothing is claimed, and nothing is written.

use std::collections::HashSet;

use anyhow::Result;

use super::assemble::{Assembly, require};
use super::{AMBIGUOUS, Console, open_for};
use crate::engine::DueQueue;
use crate::exit::Exit;
use crate::options::{PassSettings, Queue};
use crate::record::Status;
use crate::report::{dry_run_line, verdict_line};
use crate::schedule::Verdict;
use crate::store::{Access, Found};

pub fn run(queue: &Queue, settings: &PassSettings, console: &mut Console<'_>) -> Result<Exit> {
    let mut reader = open_for(queue, Some(&settings.schedule), Access::ReadOnly)?;
    reader.table().require_sound_counters()?;
    if let Some(handler) = &settings.handler {
        require(handler, queue, reader.table())?;
    }
    let line = Assembly::new(queue, &settings.schedule, &*reader)?.line;
    let limits = &settings.limits;
    let plan = line.plan(settings.order, limits);
    let rule = line.due_rule(console.clock.now(), limits.drain);
    let counts = rule.capabilities.has_counter;
    let mut candidates = DueQueue::new(&plan, rule.clone());
    let mut left = limits.max_records.unwrap_or(u64::MAX);
    // What is said of each due record at once, or, of an id that is not unique, below.
    let (mut told, mut ambiguous) = (HashSet::new(), HashSet::new());
    while left > 0
        && let Some(id) = candidates.next_few(1, &mut *reader)?.pop()
    {
        let record = match reader.read(&id)? {
            Found::Record(record) => record,
            Found::Gone => continue,
            Found::Ambiguous => {
                ambiguous.insert(id);
                continue;
            }
        };
        let verdict = rule.verdict(record.facts());
        match verdict {
            Verdict::Archive(_) => {}
            Verdict::Due(_) => left -= 1,
            Verdict::Wait { .. } | Verdict::Never(_) => continue,
        }
        console.out.write_all(verdict_line(&record, verdict, counts).as_bytes())?;
        told.insert(id);
    }
    reader.scan(&Status::PENDING, settings.order, &mut |record| {
        if told.contains(&record.id) {
            return Ok(());
        }
        let verdict = rule.verdict(record.facts());
        let line = if ambiguous.contains(&record.id) {
            dry_run_line(&record, "skip", AMBIGUOUS)
        } else if left == 0 && matches!(verdict, Verdict::Due(_) | Verdict::Archive(_)) {
            dry_run_line(&record, "skip", "due, but beyond --max-records")
        } else {
            // What is due all the same has come since the due ones were read.
            verdict_line(&record, verdict, counts)
        };
        Ok(console.out.write_all(line.as_bytes())?)
    })?;
    Ok(Exit::Done)
}

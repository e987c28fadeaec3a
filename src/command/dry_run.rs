//! `backlog process --dry-run`: what a pass would do now. The same candidates in the same order,
//! but nothing is claimed, and nothing is written.

use std::collections::HashSet;
use std::io::Write;

use anyhow::Result;

use super::open_for;
use super::process::{line, plan, state_dir};
use crate::config::{PassSettings, Queue};
use crate::engine::{Candidates, Look};
use crate::exit::Exit;
use crate::instant::Instant;
use crate::policy::{Verdict, exhausted};
use crate::record::Status;
use crate::report::{self, Fate};
use crate::store::{Found, Reader};

pub fn run(
    queue: &Queue,
    settings: &PassSettings,
    now: Instant,
    out: &mut dyn Write,
) -> Result<Exit> {
    let mut reader = open_for(queue, Some(&settings.policy), settings.limits.max_attempts)?;
    let state = state_dir(queue, &reader)?;
    let last = state.line_state(&line(queue, &settings.policy, &reader));
    let plan = plan(settings, last, now);
    let limits = &settings.limits;
    let look = Look {
        policy: settings.policy.clone(),
        rules: limits.rules(reader.has_counter()),
        moment: settings.policy.moment(plan.reached(), now, limits.drain),
    };
    let mut candidates = Candidates::new(&plan, look.clone());
    let mut left = limits.max_records.unwrap_or(u64::MAX);
    let mut tried = HashSet::new();
    while left > 0
        && let Some(id) = candidates.next(&mut reader)?
    {
        let record = match reader.read(&id)? {
            Found::Record(record) => record,
            Found::Ambiguous | Found::Gone => continue,
        };
        let end = exhausted(record.facts(), look.rules, now);
        let fate = match (look.verdict(record.facts()), end) {
            (_, Some(end)) => Fate::Archive(end),
            (Verdict::Due(_), None) => {
                left -= 1;
                Fate::Try
            }
            (Verdict::Wait { .. } | Verdict::Never(_), None) => continue,
        };
        out.write_all(report::dry_run_line(&record, fate).as_bytes())?;
        tried.insert(id);
    }
    reader.scan(&Status::PENDING, settings.order, &mut |record| {
        if tried.contains(&record.id) {
            return Ok(());
        }
        let fate = match look.verdict(record.facts()) {
            Verdict::Due(_) if left == 0 => Fate::BeyondLimit,
            Verdict::Due(_) => Fate::Ambiguous,
            Verdict::Wait { until } => Fate::Wait(until),
            Verdict::Never(obstacle) => Fate::Never(obstacle),
        };
        Ok(out.write_all(report::dry_run_line(&record, fate).as_bytes())?)
    })?;
    Ok(Exit::Done)
}

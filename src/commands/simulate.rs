//! `backlog simulate`: the load of policies, with made-up records or the records of a table.

use std::io::Write;
use std::ops::ControlFlow::Continue;
use std::panic::resume_unwind;
use std::thread::ScopedJoinHandle;

use anyhow::{Context, Result};
use backlog_schedule::{Capabilities, DAY, Id, Instant, Order, Record, Schedule, Status};
use backlog_store::{Access, Clock, secure_file};

use super::assemble::Assembly;
use super::{Console, open};
use crate::cli::SimulateArgs;
use crate::engine::LineSchedule;
use crate::exit::Exit;
use crate::options::{Resolved, simulated};
use crate::report;
use crate::simulation::{self, Scenario, SimulatedRun};

pub fn run(
    resolved: &Resolved<'_>,
    args: &SimulateArgs,
    console: &mut Console<'_>,
) -> Result<Exit> {
    let Console { clock, screen, out, .. } = console;
    let schedules = simulated(&resolved.settings)?;
    let ((rows, lines), start, usual_secs) = if args.from_table {
        (of_table(resolved, &schedules, *clock)?, clock.now(), 7 * DAY)
    } else {
        (made_up(schedules, args.records), Instant(0), 2 * 3_600)
    };
    let secs = args.span.unwrap_or(usual_secs);
    let scenario = Scenario { rows, is_cohort: !args.from_table, start, secs };
    // The log of the engine is about real records.
    log::set_max_level(log::LevelFilter::Off);
    let runs = simulate(&scenario, &lines, *clock)?;
    if args.jsonl {
        attempts(&runs, &scenario, out)?;
    } else {
        out.write_all(report::figures_table(&runs, screen).as_bytes())?;
        for (run, chart) in runs.iter().zip(report::load_charts(&runs, &scenario, screen)) {
            write!(out, "\n{chart}")?;
            if args.from_table {
                out.write_all(report::days_table(run, &scenario, screen).as_bytes())?;
            }
        }
    }
    if let Some(path) = &args.svg {
        let picture = report::picture(&runs, &scenario)?;
        secure_file::replace(path, picture.as_bytes(), 0o666)
            .with_context(|| format!("could not write {}", path.display()))?;
    }
    Ok(Exit::Done)
}

/// Each line on a thread of its own.
fn simulate(
    scenario: &Scenario,
    lines: &[LineSchedule],
    clock: Clock,
) -> Result<Vec<SimulatedRun>> {
    std::thread::scope(|scope| {
        let run = |line| scope.spawn(move || simulation::run(scenario, line, clock));
        let threads: Vec<_> = lines.iter().map(run).collect();
        let results = threads.into_iter().map(ScopedJoinHandle::join);
        results.map(|result| result.unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}

fn made_up(schedules: Vec<Schedule>, records: u32) -> (Vec<Record>, Vec<LineSchedule>) {
    let row = |id| Record::new(Id::Integer(id), Some(Instant(0)));
    let line = |schedule: Schedule| {
        let counts = schedule.policy.needs_counter() || schedule.limits.limits_attempts();
        let capabilities = Capabilities {
            has_counter: counts,
            can_snooze: counts,
            shows_failed: true,
            can_archive: true,
            ..Capabilities::default()
        };
        LineSchedule::new(schedule, capabilities)
    };
    let rows = (1..=i64::from(records)).map(row).collect();
    (rows, schedules.into_iter().map(line).collect())
}

fn of_table(
    resolved: &Resolved<'_>,
    schedules: &[Schedule],
    clock: Clock,
) -> Result<(Vec<Record>, Vec<LineSchedule>)> {
    let queue = &resolved.queue()?;
    let mut database = open(queue, Access::ReadOnly, clock)?;
    let line = |schedule| Ok(Assembly::new(queue, schedule, &*database)?.line);
    let lines = schedules.iter().map(line).collect::<Result<_>>()?;
    let mut rows = Vec::new();
    database.scan(&Status::PENDING, Order::Oldest, None, &mut |record| {
        // Only what policies depend on is kept.
        if queue.holds(&record.id) {
            let kept = Record::new(record.id, record.inserted_at);
            let Record { status, failures, last_failure_at, due_at, .. } = record;
            rows.push(Record { status, failures, last_failure_at, due_at, ..kept });
        }
        Ok(Continue(()))
    })?;
    Ok((rows, lines))
}

fn attempts(runs: &[SimulatedRun], scenario: &Scenario, out: &mut dyn Write) -> Result<()> {
    for run in runs {
        let name = run.policy.name();
        let mut last = vec![None; scenario.rows.len()];
        for tried in &run.attempts {
            let row = tried.row as usize;
            let before = last[row].replace(tried.at);
            let line = report::attempt_json(&name, &scenario.rows[row].id, tried, before);
            out.write_all(line.as_bytes())?;
        }
    }
    Ok(())
}

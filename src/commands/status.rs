//! `backlog status`: as text, as JSON, as a page, as figures for Prometheus, and compared with limits.

use std::ops::ControlFlow::{Break, Continue};
use std::path::Path;

use anyhow::{Result, bail};
use backlog_schedule::{
    Causes, DAY, DueRule, Instant, Order, Record, Status, json_line, listed, one_line,
};
use backlog_store::{Access, Clock, Database, PASSES_OF_A_DAY, chain};

use super::assemble::open_to_read;
use super::failures::KnownFailures;
use super::monitoring::{make_page, mode_of_reports, update_metrics};
use super::{Console, line_name, open, passes, state_dir};
use crate::cli;
use crate::exit::{Exit, ExitError, usage};
use crate::options::{Queue, Resolved, Sources, TypedOptions};
use crate::report::{
    self, BANDS, DueReport, Figure, Labels, LineReport, Passes, PendingRecord, QueueStatus,
    RecordFigures, StatusReport, Thresholds, state_line,
};

/// The status of a queue. There is no queue if its options are wrong.
struct QueueResult {
    queue: Option<Queue>,
    status: QueueStatus,
}

struct StatusCommand<'a> {
    args: &'a cli::StatusArgs,
    thresholds: Thresholds,
    clock: Clock,
}

pub fn run(
    resolved: &Resolved<'_>,
    args: &cli::StatusArgs,
    console: &mut Console<'_>,
) -> Result<Exit> {
    if let Some(policy) = &args.forget {
        return forget(resolved, policy, console);
    }
    let command = StatusCommand::new(args, console.clock)?;
    let result = command.read(resolved.name(), Ok(resolved));
    command.print(vec![result], None, console)
}

fn forget(resolved: &Resolved<'_>, policy: &str, console: &mut Console<'_>) -> Result<Exit> {
    let queue = resolved.queue()?;
    let database = open(&queue, Access::ReadOnly, console.clock)?;
    let state = state_dir(&queue, &*database)?;
    let line = line_name(&queue, &database.table().name, policy.into());
    match state.history(&line)? {
        Some(history) if history.is_running => bail!("a pass of {policy} is running"),
        Some(_) => state.forget(&line)?,
        None => {
            let histories = state.histories(0)?;
            let lines =
                passes::of_queue(resolved, database.table(), histories, console.clock.now());
            let known = listed(lines.iter().map(|line| line.history.line.policy.as_str()));
            let known = if known.is_empty() { "none".into() } else { known };
            bail!(usage(format!("no line {policy:?}; known are {known}")));
        }
    }
    writeln!(console.out, "forgot the passes of {}", one_line(policy))?;
    Ok(Exit::Done)
}

/// All queues on one screen. A queue that cannot be read has its error in its row.
pub fn overview(
    queues: &[String],
    sources: &Sources,
    typed: &TypedOptions,
    args: &cli::StatusArgs,
    console: &mut Console<'_>,
) -> Result<Exit> {
    let command = StatusCommand::new(args, console.clock)?;
    let results = queues.iter().map(|queue| {
        let resolved = sources.resolve(typed, Some(queue)).and_then(Resolved::require_usable);
        command.read(queue, resolved.as_ref().map_err(Clone::clone))
    });
    command.print(results.collect(), Some(sources.choice() + " --all-queues"), console)
}

/// Answers monitoring if the status is not known.
pub fn unknown(error: &anyhow::Error, console: &mut Console<'_>) -> Result<Exit> {
    console.out.write_all(state_line(Exit::Unknown, &chain(error)).as_bytes())?;
    Ok(Exit::Unknown)
}

impl<'a> StatusCommand<'a> {
    fn new(args: &'a cli::StatusArgs, clock: Clock) -> Result<Self> {
        let thresholds = Thresholds::parse(args.warn_if.as_deref(), args.fail_if.as_deref());
        Ok(Self { args, thresholds: thresholds.map_err(usage)?, clock })
    }

    fn read(&self, name: &str, resolved: Result<&Resolved<'_>, ExitError>) -> QueueResult {
        match resolved.and_then(|resolved| Ok((resolved, resolved.queue()?))) {
            Ok((resolved, queue)) => {
                let report = self.report(&queue, resolved);
                QueueResult { status: (name.into(), report), queue: Some(queue) }
            }
            Err(error) => QueueResult { queue: None, status: (name.into(), Err(error.into())) },
        }
    }

    /// Writes the page and the metrics, prints the status or the result of limits. Printed commands contain `overview`.
    fn print(
        &self,
        results: Vec<QueueResult>,
        overview: Option<String>,
        console: &mut Console<'_>,
    ) -> Result<Exit> {
        let Self { args, thresholds, .. } = self;
        let mode = mode_of_reports(results.iter().filter_map(|result| result.queue.as_ref()));
        let mut least = Exit::Done;
        if let Some(path) = &args.table_metrics
            && let Err(error) = write_metrics(path, mode, &results, console.clock.now())
        {
            log::error!("{}", chain(&error));
            least = Exit::Failed;
        }
        let mut found: Vec<_> = results.into_iter().map(|result| result.status).collect();
        if let Some(path) = &args.html {
            let made = make_page(&found, path, mode, console);
            if !args.has_limits() {
                return Ok(made?.max(least));
            }
            made.map_or_else(|error| log::error!("{}", chain(&error)), drop);
        }
        if args.has_limits() {
            let (exit, line) = thresholds.judge(&found);
            console.out.write_all(line.as_bytes())?;
            return Ok(exit);
        }
        let is_error = |(_, report): &mut QueueStatus| overview.is_none() && report.is_err();
        if let Some((_, Err(error))) = found.pop_if(is_error) {
            return Err(error);
        }
        let text = match (&found[..], overview) {
            (found, _) if args.format.json => {
                found.iter().map(|status| json_line(&report::status_json(status))).collect()
            }
            ([(_, Ok(report))], None) => report::status_text(report, &console.screen),
            (found, choice) => {
                report::overview_text(found, &choice.unwrap_or_default(), &console.screen)
            }
        };
        console.out.write_all(text.as_bytes())?;
        let errors = found.iter().filter_map(|(_, report)| report.as_ref().err());
        Ok(errors.map(Exit::from).fold(least, Exit::max))
    }

    fn report(&self, queue: &Queue, resolved: &Resolved<'_>) -> Result<StatusReport> {
        let Self { args, thresholds, clock } = self;
        // If only limits are checked, only the sources of their figures are read.
        let is_whole = !args.has_limits() || args.html.is_some() || args.table_metrics.is_some();
        let (recent, most_archived) =
            if args.html.is_some() { (report::PASSES, report::ARCHIVED) } else { (args.passes, 0) };
        let now = clock.now();
        let (mut database, assembly) = open_to_read(queue, resolved.schedule()?.as_ref(), *clock)?;
        let (rule, name) =
            assembly.map(|assembly| (assembly.line.due_rule(now, false), assembly.name)).unzip();
        let counts = match is_whole || thresholds.any(Figure::needs_counts) {
            true => database.census(&BANDS.map(|days| days * DAY), now)?,
            false => Vec::new(),
        };
        let state = state_dir(queue, &*database)?;
        let (histories, unread) = match state.histories(recent.max(PASSES_OF_A_DAY)) {
            Ok(histories) => (histories, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let known = KnownFailures::new(&state, database.table(), &histories);
        let lines = passes::of_queue(resolved, database.table(), histories, now);
        let own = lines.iter().find(|line| name.as_ref() == Some(&line.history.line));
        let (due, mut causes, of_records) = if is_whole || thresholds.any(Figure::needs_records) {
            read_pending(&mut *database, &known, rule.as_ref(), own, now)?
        } else {
            let due = rule.as_ref().map(|rule| DueReport::new(&rule.schedule.policy));
            (due, Causes::default(), RecordFigures::default())
        };
        causes.add_dates(&known.stored.causes);
        let has_archived = counts.iter().any(|count| count.status == Status::Archived);
        let most = if has_archived { most_archived } else { 0 };
        let archived = newest_archived(&mut *database, &known, most)?;
        let of_queue = line_name(queue, &database.table().name, String::new());
        let failing = state.failing(&of_queue).ok().flatten();
        Ok(StatusReport {
            db: database.label(),
            now,
            counts,
            of_records,
            due,
            line: name.map(|name| name.policy),
            passes: Passes {
                now,
                failing: failing.filter(|failing| failing.is_serious(now)),
                directory: state.path().display().to_string(),
                worker: state.is_of_a_server().then(|| (passes::user_name(), passes::host_name())),
                errors: unread.iter().map(chain).collect(),
                lines,
                recent,
            },
            causes,
            paused: state.pause(&of_queue.queue, &of_queue.table, now),
            archived,
            choice: resolved.choice(),
            queue: of_queue.queue,
            table: of_queue.table,
        })
    }
}

fn write_metrics(path: &Path, mode: u32, results: &[QueueResult], now: Instant) -> Result<()> {
    update_metrics(path, mode, |metrics| {
        for QueueResult { queue, status: (_, report) } in results {
            let Some(queue) = queue else { continue };
            let labels = Labels::of_table(&queue.db.name(), &queue.name, queue.table_name());
            metrics.of_table(&labels, now, report.as_ref().ok());
        }
    })
}

fn read_pending(
    database: &mut dyn Database,
    known: &KnownFailures,
    rule: Option<&DueRule>,
    line: Option<&LineReport>,
    now: Instant,
) -> Result<(Option<DueReport>, Causes, RecordFigures)> {
    let (next_pass, last_complete) =
        (line.and_then(LineReport::next), line.and_then(LineReport::last_complete));
    let mut due = rule.map(|rule| DueReport::new(&rule.schedule.policy));
    let (mut causes, mut figures) = (Causes::default(), RecordFigures::default());
    database.scan(&Status::PENDING, Order::Oldest, None, &mut |mut record| {
        let verdict = rule.map(|rule| rule.verdict(record.facts()));
        let is_snoozed = record.facts().snoozed_until.is_some_and(|until| until > now);
        let has_failed = known.has_failed(&mut record);
        if has_failed {
            causes.add(&record);
        }
        let is_in_hand = known.is_in_hand(&record);
        let verdict = verdict.filter(|_| !is_in_hand);
        if let (Some(due), Some(verdict), Some(rule)) = (&mut due, verdict, rule) {
            let reason = verdict.reason();
            let since = reason.and_then(|why| rule.due_since(record.facts(), why, next_pass));
            // The last complete pass would have tried it.
            due.add(&record, verdict, since.max(since.and(last_complete)), now);
        }
        figures.add(&record, PendingRecord { verdict, has_failed, is_snoozed, is_in_hand });
        Ok(Continue(()))
    })?;
    Ok((due, causes, figures))
}

fn newest_archived(
    database: &mut dyn Database,
    known: &KnownFailures,
    most: usize,
) -> Result<Vec<Record>> {
    let mut archived = Vec::new();
    if most > 0 {
        database.scan(
            &[Status::Archived],
            Order::Newest,
            Some(most as u64),
            &mut |mut record| {
                known.stored.fill_in(&mut record);
                archived.push(record);
                Ok(if archived.len() == most { Break(()) } else { Continue(()) })
            },
        )?;
    }
    Ok(archived)
}

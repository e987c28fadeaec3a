//! `backlog process`: a pass, or with `--dry-run` what it would do.

use std::collections::HashSet;
use std::fs::File;
use std::io::Write;
use std::ops::ControlFlow::Continue;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use backlog_schedule::{
    Cause, Cursor, DAY, Id, Instant, Outcome, Record, Status, Verdict, counted, cut_line,
    hexadecimal, one_line,
};
use backlog_store::{
    Access, Clock, Database, PassRecord, ReadResult, StatusCount, Stop, Table, chain, secure_file,
};
use indicatif::ProgressBar;
use serde_json::{Value as Json, json};

use super::assemble::{self, Assembly, handlers, require};
use super::monitoring::Monitoring;
use super::passes::{PassLog, find_busy};
use super::signals::StoppedBySignals;
use super::{AMBIGUOUS, Console, SUCCESS_DELETES, find, open, prune};
use crate::cli::ProcessArgs;
use crate::engine::{
    self, Candidate, DueQueue, Observer, PassLimits, SettledAttempt, Stopped, Tally,
};
use crate::exit::{Exit, usage};
use crate::options::{HandlerSpec, PassSettings, Queue, Resolved};
use crate::report::{self, Screen, dry_run_line, verdict_line};
use crate::terminal::Terminal;

pub fn run(
    resolved: &Resolved<'_>,
    queue: &Queue,
    settings: &PassSettings,
    console: &mut Console<'_>,
) -> Result<Exit> {
    let (clock, run) = (console.clock, random_hex::<8>()?);
    let began = clock.monotonic();
    let mut monitoring = Monitoring::new(queue, settings, &run, console.terminal);
    let signals = console.signals.begin_pass();
    let result = locked(resolved, queue, settings, console, run, &mut monitoring, &signals);
    let took = clock.monotonic().saturating_duration_since(began);
    let state = monitoring.state();
    monitoring.end(&result, took, &clock, &mut console.endings);
    if let (Ok(Exit::Done | Exit::Failed), Some(state)) = (&result, state) {
        prune::after_pass(queue, &state, clock);
    }
    result
}

/// Fails if the table lacks what outcomes or the handler need.
fn require_all(queue: &Queue, settings: &PassSettings, table: &Table) -> Result<()> {
    table.require_success()?;
    table.require_sound_counters()?;
    require(settings.handler.as_ref(), queue, table)
}

/// The pass under the lock of its line, which is free when this returns.
fn locked(
    resolved: &Resolved<'_>,
    queue: &Queue,
    settings: &PassSettings,
    console: &Console<'_>,
    run: String,
    monitoring: &mut Monitoring<'_>,
    signals: &StoppedBySignals,
) -> Result<Exit> {
    let (clock, terminal) = (console.clock, console.terminal);
    let most_wait = settings.limits.max_runtime.unwrap_or(Duration::MAX);
    let mut database = open(queue, Access::Pass(most_wait), clock)?;
    require_all(queue, settings, database.table())?;
    let (mut assembly, lock) =
        Assembly::locked(queue, &settings.schedule, &mut *database, settings.wait, clock.now())?;
    if lock.is_none() {
        monitoring.is_busy = true;
        return find_busy(resolved, &assembly, clock.now());
    }
    monitoring.begin(&assembly.state);
    let began = clock.monotonic();
    let log = PassLog::open(
        &assembly,
        settings,
        database.table(),
        run,
        clock.now(),
        terminal.is_terminal,
    );
    // A pass that cannot write how far it got must not make up for missed ticks: the next one would do so again.
    let makes_up = assembly.line.makes_up(clock.now());
    if makes_up && log.record(PassRecord::begin) == Some(false) {
        assembly.line.cursor = Cursor::default();
    }
    let is_webhook = matches!(settings.handler, Some(HandlerSpec::Post(_)));
    let result = run_locked(database, assembly, queue, settings, console, &log, signals);
    let elapsed = clock.monotonic().saturating_duration_since(began);
    let (ended, exit) = match result {
        Ok(tally) => {
            let summary = report::summary(&tally, elapsed);
            let causes = |width| {
                let screen = Screen { width, now: clock.now() };
                report::top_failures(&[("", &log.causes())], &resolved.choice(), &screen)
            };
            // The pause was reported when it was found.
            if terminal.width.is_some() && tally != Tally::paused() {
                terminal.say(&summary);
                terminal.say_lines(&causes(terminal.width));
            }
            let mut summary = format!("{summary}\n{}", causes(None));
            let is_hourly = is_webhook || matches!(tally.stopped, Some(Stopped::Failures(_)));
            let exit = outcome(&tally, settings.options.strict).or_else(|error| {
                if !is_hourly || log.may_report(clock.now()) {
                    return Err(error);
                }
                log::warn!("{error}");
                summary = format!("{error}\n{summary}");
                Ok(Exit::from(&error))
            });
            monitoring.summary = summary;
            (Ok(tally), exit)
        }
        Err(error) => (Err(chain(&error)), Err(error)),
    };
    let code = exit.as_ref().map_or_else(Exit::from, |exit| *exit);
    let reported = log.report_archived(resolved, clock.now());
    reported.unwrap_or_else(|error| log::error!("{error}"));
    log.end(clock.now(), elapsed, &ended, code);
    if ended.is_ok_and(|tally| tally.attempts() + tally.unable > 0) {
        log.report_failing(&Screen { width: terminal.width, now: clock.now() });
    }
    let totals = log.record(|record| record.totals()).flatten();
    monitoring.write_metrics(code, elapsed, totals, clock.now());
    exit
}

fn run_locked(
    database: Box<dyn Database>,
    mut assembly: Assembly,
    queue: &Queue,
    settings: &PassSettings,
    console: &Console<'_>,
    log: &PassLog,
    signals: &StoppedBySignals,
) -> Result<Tally> {
    let (clock, now) = (console.clock, log.began);
    let (grace, max_runtime) = (settings.limits.grace, settings.limits.max_runtime);
    let stop = Stop::new(clock, grace, max_runtime).context("could not make an eventfd")?;
    let token = random_hex::<16>()?;
    let context = assemble::context(queue, settings, database.table(), &token, &log.run)?;
    let capabilities = &mut assembly.line.capabilities;
    capabilities.may_give_up = settings.handler.as_ref().is_some_and(HandlerSpec::gives_up);
    capabilities.series = context.series;
    let policy = &assembly.line.schedule.policy;
    // Others cannot read a new one: errors may quote records.
    let joblog = settings.options.joblog.as_deref().map(|path| {
        let opened = secure_file::append(path, 0o640);
        opened.with_context(|| format!("could not open the joblog {}", path.display()))
    });
    let observer = PassObserver {
        joblog_context: json!({
            "run": log.run,
            "queue": context.queue,
            "table": context.table,
            "policy": policy.line(),
            "tick": now.tick_begin(policy.every_secs()),
        }),
        joblog: joblog.transpose()?,
        joblog_result: Ok(()),
        log: log.clone(),
        is_named: !settings.limits.named.is_empty(),
        is_webhook: matches!(settings.handler, Some(HandlerSpec::Post(_))),
        clock,
        terminal: console.terminal.clone(),
        most: settings.limits.max_records.unwrap_or(u64::MAX),
        bar: ProgressBar::hidden(),
        failed: 0,
        logged_causes: HashSet::new(),
    };
    let pass = assembly.pass(database, settings, now, stop.clone(), &token, Box::new(observer))?;
    // Removed when the pass has ended, however it ended.
    let mut _running = None;
    let tally = engine::run(pass, |wake| {
        signals.heed(wake)?;
        log.record(PassRecord::begin);
        _running = assembly.state.begin_pass(&token)?;
        handlers(settings.handler.clone(), queue.on_archive.clone(), &context, stop.clone())
    });
    let tally = tally?;
    if tally.found_nothing {
        say_if_unmapped(queue, log, clock, console.terminal)?;
    }
    Ok(tally)
}

/// Tries the records with these ids now, due or not, beside the passes of the line. Prints what became of each.
pub fn run_named(
    resolved: &Resolved<'_>,
    queue: &Queue,
    mut settings: PassSettings,
    args: &ProcessArgs,
    console: &mut Console<'_>,
) -> Result<Exit> {
    let (clock, signals) = (console.clock, console.signals.begin_pass());
    let mut database = open(queue, Access::Pass(Duration::MAX), clock)?;
    let table = database.table();
    require_all(queue, &settings, table)?;
    if table.capabilities().keeps_schedule {
        let retry = format!("`backlog retry{} ID`", resolved.choice());
        let why = "a pgmq queue hands out messages in its own order";
        bail!(usage(format!("{why}; {retry} has the next pass try a message")));
    }
    let columns = table.id.len();
    let assembly = Assembly::new(queue, &settings.schedule, &*database)?;
    let (line, has_schedule) = (assembly.line.clone(), resolved.schedule()?.is_some());
    let (mut ids, mut exit) = (Vec::new(), Exit::Done);
    for typed in &args.ids {
        let found = find(&mut *database, typed, columns)?;
        let found = found.and_then(|record| match untried(resolved, queue, &record, args.again) {
            None => Ok(record.id),
            Some(why) => Err(why),
        });
        match found {
            Ok(id) if ids.contains(&id) => {}
            Ok(id) => ids.push(id),
            Err(why) => {
                exit = Exit::Failed;
                log::error!("{}: {why}", one_line(typed));
            }
        }
    }
    if ids.is_empty() {
        return Ok(exit);
    }
    let PassLimits { max_runtime, grace, .. } = settings.limits;
    let (named, again) = (ids.clone(), args.again);
    settings.limits = PassLimits { max_runtime, grace, named, again, ..PassLimits::default() };
    let (run, now) = (random_hex::<8>()?, clock.now());
    let log = PassLog::open(&assembly, &settings, database.table(), run, now, true);
    let done = run_locked(database, assembly, queue, &settings, console, &log, &signals);
    log.add_failures(clock.now());
    let mut database = open(queue, Access::ReadOnly, clock)?;
    for id in &ids {
        let mut result = log.result(id).unwrap_or_else(|| "left as it was".into());
        if let ReadResult::Record(record) = database.read(id)?
            && record.status.is_pending()
            && has_schedule
            && result != BUSY
        {
            let verdict = line.due_rule(clock.now(), false).verdict(record.facts());
            let next = report::next_attempt(&record, verdict, &console.screen);
            result += &format!("; next attempt {next}");
        }
        writeln!(console.out, "{id}: {}", one_line(&result))?;
    }
    let tally = done?;
    let outcome = outcome(&tally, true)?;
    let all = tally.succeeded == ids.len() as u64;
    Ok(exit.max(outcome).max(if all { Exit::Done } else { Exit::Failed }))
}

const BUSY: &str = "not tried: a pass has it in hand; try again later";

/// Why a record is not tried although a person has named it.
fn untried(resolved: &Resolved<'_>, queue: &Queue, record: &Record, again: bool) -> Option<String> {
    let (id, choice) = (&record.id, resolved.choice());
    match record.status {
        _ if !queue.holds(id) => Some("is in another shard".into()),
        Status::New | Status::Error => None,
        Status::Success if again => None,
        Status::Success => Some("is SUCCESS; --again tries it again".into()),
        Status::Archived => {
            Some(format!("is ARCHIVED; `backlog restore{choice} {id}` makes it NEW"))
        }
        Status::Foreign => Some(format!("is {}, not pending", cut_line(&record.status_text))),
    }
}

/// Prints what a pass would do now, in its order. Nothing is claimed or written.
pub fn dry_run(queue: &Queue, settings: &PassSettings, console: &mut Console<'_>) -> Result<Exit> {
    let mut reader = open(queue, Access::ReadOnly, console.clock)?;
    reader.table().require_sound_counters()?;
    require(settings.handler.as_ref(), queue, reader.table())?;
    let Assembly { line, state, name, .. } = Assembly::new(queue, &settings.schedule, &*reader)?;
    if let Some(what) = reader.deletion(SUCCESS_DELETES)? {
        console.terminal.say(&what);
    }
    if let Some(pause) = state.pause(&name.queue, &name.table, console.clock.now()) {
        let screen = Screen { width: console.terminal.width, now: console.clock.now() };
        console.terminal.say(&pause.sentence(|at| screen.at(at), ""));
    }
    let limits = &settings.limits;
    let plan = line.plan(settings.options.order, limits);
    let rule = line.due_rule(console.clock.now(), limits.drain);
    let counts = rule.capabilities.has_counter;
    let mut candidates = DueQueue::new(&plan, rule.clone());
    let mut left = limits.max_records.unwrap_or(u64::MAX);
    let (mut printed, mut ambiguous) = (HashSet::new(), HashSet::new());
    while left > 0
        && let Some(Candidate { id, .. }) = candidates.next_few(1, &mut *reader)?.pop()
    {
        // A restored record can have kept a slot.
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
                    let line = verdict_line(&record, verdict, counts, &console.screen);
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
            // A due one was inserted after the due ones were read.
            verdict_line(&record, verdict, counts, &console.screen)
        };
        writeln!(console.out, "{}", console.screen.fit(&line))?;
        Ok(Continue(()))
    })?;
    if !is_pending && let Some(why) = unmapped(&mut *reader, console.clock.now())? {
        log::error!("nothing is pending: {why}");
    }
    Ok(Exit::Done)
}

const UNMAPPED_NAMED: usize = 5;

/// Reports that no row has a mapped status, which looks like a queue without work. Under cron once a day.
fn say_if_unmapped(queue: &Queue, log: &PassLog, clock: Clock, terminal: &Terminal) -> Result<()> {
    let now = clock.now();
    let sought_at = log.record(|record| record.next.unmapped_sought_at).flatten();
    let since = sought_at.map(|at| now.0.saturating_sub(at.0));
    let is_due = since.is_none_or(|since| !(0..DAY).contains(&since));
    if terminal.width.is_none() && !is_due {
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

/// The statuses of the rows, if none of them is mapped to ours.
fn unmapped(database: &mut dyn Database, now: Instant) -> Result<Option<String>> {
    let foreign = if database.any_mapped()? { Vec::new() } else { database.census(&[], now)? };
    let rows: u64 = foreign.iter().map(|count| count.rows).sum();
    if rows == 0 {
        return Ok(None);
    }
    let quoted = |count: &StatusCount| format!("'{}'", cut_line(&count.text));
    let values: Vec<_> = foreign.iter().take(UNMAPPED_NAMED).map(quoted).collect();
    let more = if foreign.len() > UNMAPPED_NAMED { ", ..." } else { "" };
    Ok(Some(format!(
        "all {} of table {} have a status that is mapped to nothing: {}{more}; map it as status.new, \
         see `backlog check`",
        counted(rows, "row"),
        database.table().name,
        values.join(", ")
    )))
}

fn random_hex<const BYTES: usize>() -> Result<String> {
    let mut bytes = [0; BYTES];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .context("could not get random bytes")?;
    Ok(hexadecimal(&bytes))
}

fn outcome(tally: &Tally, strict: bool) -> Result<Exit> {
    match &tally.stopped {
        Some(Stopped::Signal(signal)) => return Ok(Exit::Signal(*signal)),
        Some(Stopped::Stuck(error) | Stopped::Failures(error)) => bail!(error.clone()),
        Some(Stopped::Runtime) if tally.attempts() == 0 && tally.interrupted > 0 => bail!(
            "no handler ended within --max-runtime and --grace, so nothing was done; give them \
             more time"
        ),
        Some(Stopped::Runtime | Stopped::Paused) | None => {}
    }
    for error in &tally.incomplete {
        log::error!("{error}");
    }
    let Tally { archived, expired, unable, refused, ambiguous, unusable, faults, .. } = tally;
    let lost = tally.lost + tally.lost_and_written;
    let left = unable + refused + ambiguous + unusable + tally.incomplete.len() as u64;
    let failed = if strict { tally.failed + tally.snoozed } else { 0 };
    let is_done = archived + expired + left + lost + faults + failed == 0;
    Ok(if is_done { Exit::Done } else { Exit::Failed })
}

/// The observer of a pass: writes the joblog, the record of the pass and the progress bar.
struct PassObserver {
    /// Each line is appended by one write, so that passes may share the file.
    joblog: Option<File>,
    joblog_context: Json,
    /// The first error of the joblog, which does not end the pass.
    joblog_result: Result<()>,
    log: PassLog,
    is_named: bool,
    is_webhook: bool,
    clock: Clock,
    terminal: Terminal,
    most: u64,
    bar: ProgressBar,
    failed: u64,
    logged_causes: HashSet<Cause>,
}

impl Observer for PassObserver {
    fn selected(&mut self, due: usize) {
        self.bar = self.terminal.progress(self.most.min(due as u64));
    }

    fn attempted(&mut self, attempt: &SettledAttempt, tally: &Tally) {
        if attempt.attempt.outcome != Outcome::Success {
            self.failed += 1;
            self.bar.set_message(report::grouped(self.failed));
        }
        self.bar.inc(1);
        if self.bar.length() < Some(self.bar.position()) {
            self.bar.set_length(self.bar.position());
        }
        self.log.attempted(attempt, tally, self.clock.now());
        if self.is_named {
            self.log.set_result(&attempt.attempt.id, report::result_of(attempt));
        }
        let Some(joblog) = &mut self.joblog else { return };
        let line = report::joblog_line(attempt, &self.joblog_context);
        let written = joblog.write_all(line.as_bytes());
        if self.joblog_result.is_ok() {
            self.joblog_result =
                written.context("the records are settled, but the joblog is incomplete");
        }
    }

    fn busy(&mut self, id: &Id) {
        if self.is_named {
            self.log.set_result(id, BUSY.into());
        }
    }

    /// A named record is tried during a pause too.
    fn paused(&mut self) -> Option<String> {
        if self.is_named {
            return None;
        }
        let (PassLog { state, line, .. }, now) = (&self.log, self.clock.now());
        let pause = state.pause(&line.queue, &line.table, now)?;
        let screen = Screen { width: self.terminal.width, now };
        let sentence = pause.sentence(|at| screen.at(at), "");
        // Under cron, a pause that could not be read is reported.
        if pause.since.is_none()
            && !log::log_enabled!(log::Level::Warn)
            && state.may_say(line, "unread", now)
        {
            log::error!("{sentence}");
        }
        Some(sentence)
    }

    fn wants_log_line(&mut self, error: &str) -> bool {
        !self.is_named
            && (!self.terminal.folds_errors || self.logged_causes.insert(Cause::of(Some(error))))
    }

    fn may_report(&mut self) -> bool {
        !self.is_webhook || self.log.may_report(self.clock.now())
    }

    fn archived(&mut self, record: &Record, error: Option<&str>) -> bool {
        let now = self.clock.now();
        !self.is_named && self.log.archived(&record.id, error, now)
    }

    fn shown(&self, at: Instant) -> String {
        Screen { width: self.terminal.width, now: self.clock.now() }.when(at)
    }

    fn slow_handlers(&mut self, records: &[(Id, Instant)]) -> bool {
        self.log.record(|record| record.note_slow(records)).unwrap_or(true)
    }

    fn stop_requests(&mut self) -> Vec<Id> {
        self.log.record(|record| record.take_stop_requests()).unwrap_or_default()
    }

    fn second(&mut self) {
        self.log.record(PassRecord::flush);
    }

    fn reached(&mut self, cursor: &Cursor) {
        self.log.record(|record| record.save_cursor(cursor));
    }

    fn finished(&mut self) -> Result<()> {
        self.bar.abandon();
        self.bar.finish_and_clear();
        std::mem::replace(&mut self.joblog_result, Ok(()))
    }
}

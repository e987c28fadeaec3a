//! `backlog process`: a pass over the due records of a crontab line, or attempts at named records.

use std::collections::HashSet;
use std::fs::File;
use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use backlog_schedule::{
    Cause, Cursor, Id, Instant, Outcome, Record, Status, cut_line, hexadecimal, one_line,
};
use backlog_store::{
    Access, Clock, Database, PassRecord, ReadResult, Stop, Table, chain, secure_file,
};
use indicatif::ProgressBar;
use serde_json::{Value as Json, json};

use super::assemble::{self, Assembly, require_handler, start_handlers};
use super::dry_run::{dry_run, report_unmapped};
use super::monitoring::Monitoring;
use super::passes::{PassLog, report_busy};
use super::queue_arguments::id_argument;
use super::signals::StoppedBySignals;
use super::{Console, SUCCESS_DELETES, find, open, prune};
use crate::cli::ProcessArgs;
use crate::engine::{self, Observer, PassLimits, SettledAttempt, Stopped, Tally};
use crate::exit::{Exit, usage};
use crate::options::{HandlerSpec, PassSettings, Queue, Resolved};
use crate::report::{self, Screen};
use crate::terminal::Terminal;

pub fn run(resolved: &Resolved<'_>, args: &ProcessArgs, console: &mut Console<'_>) -> Result<Exit> {
    if let Some(name) = resolved.named() {
        console.terminal.name_queue(Some(name));
    }
    for why in resolved.unknown_limits() {
        log::warn!("{why}");
    }
    resolved.require_database(args.dry_run)?;
    let queue = resolved.queue()?;
    let mut settings = PassSettings::new(resolved, args.dry_run)?;
    if args.ids.is_empty() {
        (settings.limits.drain, settings.wait) = (args.drain, args.wait);
        if args.dry_run {
            return dry_run(&queue, &settings, console);
        }
    }
    let Console { clock, terminal, .. } = *console;
    let (run, signals) = (random_hex::<8>()?, console.signals.begin_pass());
    let run = ProcessRun { resolved, queue, settings, clock, terminal, run, signals };
    if args.ids.is_empty() { run.pass(console) } else { run.named(args, console) }
}

struct ProcessRun<'a> {
    resolved: &'a Resolved<'a>,
    queue: Queue,
    settings: PassSettings<'a>,
    clock: Clock,
    terminal: &'a Terminal,
    run: String,
    signals: StoppedBySignals,
}

const BUSY: &str = "not tried: a pass has it in hand; try again later";

impl ProcessRun<'_> {
    fn pass(&self, console: &mut Console<'_>) -> Result<Exit> {
        let (clock, began) = (self.clock, self.clock.monotonic());
        let mut monitoring = Monitoring::new(&self.queue, &self.settings, &self.run, self.terminal);
        let result = self.locked_pass(&mut monitoring);
        let took = clock.monotonic().saturating_duration_since(began);
        let state = monitoring.state();
        monitoring.end(&result, took, &clock, &mut console.last_pings);
        if let (Ok(Exit::Done | Exit::Failed), Some(state)) = (&result, state) {
            prune::after_pass(&self.queue, &state, clock);
        }
        result
    }

    /// The pass under the lock of its line, which is free when this returns.
    fn locked_pass(&self, monitoring: &mut Monitoring<'_>) -> Result<Exit> {
        let Self { resolved, settings, clock, terminal, .. } = self;
        let mut database = self.open(settings.limits.max_runtime.unwrap_or(Duration::MAX))?;
        let (schedule, now) = (&settings.schedule, clock.now());
        let (mut assembly, lock) =
            Assembly::locked(&self.queue, schedule, &mut *database, settings.wait, now)?;
        if lock.is_none() {
            monitoring.is_busy = true;
            return report_busy(resolved, &assembly, clock.now());
        }
        monitoring.begin(&assembly.state);
        let began = clock.monotonic();
        let log = self.log(&assembly, database.table(), terminal.is_terminal);
        // A pass that cannot write how far it got must not make up for missed ticks: the next one would do so again.
        let catches_up = assembly.line.catches_up(clock.now());
        if catches_up && log.record(PassRecord::begin) == Some(false) {
            assembly.line.cursor = Cursor::default();
        }
        let result = self.attempts(database, assembly, &log);
        let elapsed = clock.monotonic().saturating_duration_since(began);
        let (ended, exit) = match result {
            Ok(tally) => {
                let exit = self.conclude(&tally, elapsed, &log, monitoring);
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

    /// Prints the summary of a pass, keeps it for the last ping, and returns the exit of the pass.
    fn conclude(
        &self,
        tally: &Tally,
        elapsed: Duration,
        log: &PassLog,
        monitoring: &mut Monitoring<'_>,
    ) -> Result<Exit> {
        let (clock, terminal) = (self.clock, self.terminal);
        let summary = report::summary(tally, elapsed);
        let causes = |width| {
            let screen = Screen { width, now: clock.now() };
            report::top_failures(&[("", &log.causes())], &self.resolved.choice(), &screen)
        };
        // The pause was reported when it was found.
        if terminal.width.is_some() && *tally != Tally::paused() {
            terminal.say(&summary);
            terminal.say_lines(&causes(terminal.width));
        }
        monitoring.summary = format!("{summary}\n{}", causes(None));
        let is_hourly = self.is_webhook() || matches!(tally.stopped, Some(Stopped::Failures(_)));
        match exit_of(tally, self.settings.options.strict) {
            Err(error) if is_hourly && !log.may_report(clock.now()) => {
                log::warn!("{error}");
                monitoring.summary.insert_str(0, &format!("{error}\n"));
                Ok(Exit::from(&error))
            }
            exit => exit,
        }
    }

    /// Tries the named records now, due or not, even while a pass of the line runs. Prints the result of each.
    fn named(mut self, args: &ProcessArgs, console: &mut Console<'_>) -> Result<Exit> {
        let clock = self.clock;
        let mut database = self.open(Duration::MAX)?;
        if database.table().capabilities().keeps_schedule {
            let retry = format!("backlog retry{} ID", self.resolved.choice());
            let why = "a pgmq queue hands out messages in its own order";
            bail!(usage(format!("{why}; to have the next pass try a message: {retry}")));
        }
        let assembly = Assembly::new(&self.queue, &self.settings.schedule, &*database)?;
        let has_schedule = self.resolved.schedule()?.is_some();
        let line = Some(assembly.line.clone()).filter(|_| has_schedule);
        let (ids, exit) = self.find_named(&mut *database, args)?;
        if ids.is_empty() {
            return Ok(exit);
        }
        let PassLimits { max_runtime, grace, .. } = self.settings.limits;
        let (named, again) = (ids.clone(), args.again);
        self.settings.limits =
            PassLimits { max_runtime, grace, named, again, ..PassLimits::default() };
        let log = self.log(&assembly, database.table(), true);
        let result = self.attempts(database, assembly, &log);
        log.add_failures(clock.now());
        let mut database = open(&self.queue, Access::ReadOnly, clock)?;
        for id in &ids {
            let mut text = log.result(id).unwrap_or_else(|| "left as it was".into());
            if let (Some(line), ReadResult::Record(record)) = (&line, database.read(id)?)
                && record.status.is_pending()
                && text != BUSY
            {
                let verdict = line.due_rule(clock.now(), false).verdict(record.facts());
                let next = report::next_attempt(&record, verdict, &console.screen);
                text += &format!("; next attempt {next}");
            }
            writeln!(console.out, "{id}: {}", one_line(&text))?;
        }
        let tally = result?;
        let is_success = tally.succeeded == ids.len() as u64;
        let worst = exit.max(exit_of(&tally, true)?);
        Ok(if is_success { worst } else { worst.max(Exit::Failed) })
    }

    /// The ids of the records to try. Reports each id that is not tried.
    fn find_named(
        &self,
        database: &mut dyn Database,
        args: &ProcessArgs,
    ) -> Result<(Vec<Id>, Exit)> {
        let (mut ids, mut exit) = (Vec::new(), Exit::Done);
        for typed in &args.ids {
            let found = find(database, typed)?;
            match found.and_then(|record| self.require_triable(record, args.again)) {
                Ok(id) if ids.contains(&id) => {}
                Ok(id) => ids.push(id),
                Err(why) => {
                    exit = Exit::Failed;
                    log::error!("{}: {why}", one_line(typed));
                }
            }
        }
        Ok((ids, exit))
    }

    fn require_triable(&self, record: Record, again: bool) -> Result<Id, String> {
        let (id, choice) = (record.id, self.resolved.choice());
        Err(match record.status {
            _ if !self.queue.holds(&id) => "is in another shard".into(),
            Status::New | Status::Error => return Ok(id),
            Status::Success if again => return Ok(id),
            Status::Success => "is SUCCESS; --again tries it again".into(),
            Status::Archived => {
                let id = id_argument(&id);
                format!("is ARCHIVED; `backlog restore{choice} {id}` makes it NEW")
            }
            Status::Foreign => format!("is {}, not pending", cut_line(&record.status_text)),
        })
    }

    /// Opens the table. Fails if a column that the pass needs is missing, or if the settings of the handler cannot
    /// work.
    fn open(&self, most_wait: Duration) -> Result<Box<dyn Database>> {
        let mut database = open(&self.queue, Access::Pass(most_wait), self.clock)?;
        database.deletion(SUCCESS_DELETES)?;
        let table = database.table();
        table.require_success()?;
        table.require_valid_columns()?;
        require_handler(self.settings.handler.as_ref(), &self.queue, table)?;
        Ok(database)
    }

    fn log(&self, assembly: &Assembly, table: &Table, by_hand: bool) -> PassLog {
        let (run, now) = (self.run.clone(), self.clock.now());
        PassLog::open(self.resolved, assembly, &self.settings, table, run, now, by_hand)
    }

    fn is_webhook(&self) -> bool {
        matches!(self.settings.handler, Some(HandlerSpec::Post(_)))
    }

    fn attempts(
        &self,
        database: Box<dyn Database>,
        mut assembly: Assembly,
        log: &PassLog,
    ) -> Result<Tally> {
        let Self { queue, settings, clock, terminal, .. } = self;
        let limits = &settings.limits;
        let stop = Stop::new(*clock, limits.grace, limits.max_runtime);
        let stop = stop.context("could not create an eventfd")?;
        let token = random_hex::<16>()?;
        let context = assemble::context(queue, settings, database.table(), &token, &log.run)?;
        let capabilities = &mut assembly.line.capabilities;
        // A co-process may give up any record.
        let is_stream = matches!(settings.handler, Some(HandlerSpec::Stream(_)));
        capabilities.may_give_up = is_stream && capabilities.can_archive
            || settings.handler.as_ref().is_some_and(HandlerSpec::gives_up);
        capabilities.series = context.series;
        // Only the owner and the group can read a new joblog, because errors may quote records.
        let joblog = settings.options.joblog.as_deref().map(|path| {
            let opened = secure_file::append(path, 0o640);
            opened.with_context(|| format!("could not open the joblog {}", path.display()))
        });
        let policy = &assembly.line.schedule.policy;
        let observer = PassObserver {
            joblog_context: json!({
                "run": log.run,
                "queue": context.queue,
                "table": context.table,
                "policy": policy.options(),
                "tick": log.began.tick_begin(policy.every_secs()),
            }),
            joblog: joblog.transpose()?,
            joblog_result: Ok(()),
            log: log.clone(),
            is_named: !limits.named.is_empty(),
            is_webhook: self.is_webhook(),
            clock: *clock,
            terminal: (*terminal).clone(),
            most: limits.max_records.unwrap_or(u64::MAX),
            bar: ProgressBar::hidden(),
            failed: 0,
            logged_causes: HashSet::new(),
        };
        let observer = Box::new(observer);
        let pass = assembly.pass(database, settings, log.began, stop.clone(), &token, observer)?;
        // Removed when it is dropped, at each return.
        let mut _running = None;
        let tally = engine::run(pass, |wake| {
            self.signals.stop_pass_by(wake)?;
            log.record(PassRecord::begin);
            _running = assembly.state.begin_pass(&token)?;
            start_handlers(
                settings.handler.clone(),
                queue.on_archive.clone(),
                &context,
                stop.clone(),
            )
        })?;
        if tally.found_nothing {
            report_unmapped(queue, log, *clock, terminal)?;
        }
        Ok(tally)
    }
}

fn random_hex<const BYTES: usize>() -> Result<String> {
    let mut bytes = [0; BYTES];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .context("could not get random bytes")?;
    Ok(hexadecimal(&bytes))
}

fn exit_of(tally: &Tally, strict: bool) -> Result<Exit> {
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
    /// The value of --max-records.
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
            let incomplete = "the records are settled, but the joblog is incomplete";
            self.joblog_result = written.context(incomplete);
        }
    }

    fn busy(&mut self, id: &Id) {
        if self.is_named {
            self.log.set_result(id, BUSY.into());
        }
    }

    /// The pause that holds now. Named records are tried during a pause too.
    fn paused(&mut self) -> Option<String> {
        if self.is_named {
            return None;
        }
        let (PassLog { state, line, .. }, now) = (&self.log, self.clock.now());
        let pause = state.pause(&line.queue, &line.table, now)?;
        let sentence = pause.sentence(|at| self.screen().at(at), "");
        // A pause that could not be read is reported, also under cron.
        if pause.since.is_none()
            && !log::log_enabled!(log::Level::Warn)
            && state.may_print(line, "unread", now)
        {
            log::error!("{sentence}");
        }
        Some(sentence)
    }

    fn wants_log_line(&mut self, error: &str) -> bool {
        !self.is_named
            && (!self.terminal.folds_errors || self.logged_causes.insert(Cause::new(Some(error))))
    }

    fn may_report(&mut self) -> bool {
        !self.is_webhook || self.log.may_report(self.clock.now())
    }

    fn archived(&mut self, record: &Record, error: Option<&str>) -> bool {
        let now = self.clock.now();
        !self.is_named && self.log.archived(&record.id, error, now)
    }

    fn format_instant(&self, at: Instant) -> String {
        self.screen().when(at)
    }

    fn slow_handlers(&mut self, records: &[(Id, Instant)]) -> bool {
        self.log.record(|record| record.note_slow(records)).unwrap_or(true)
    }

    fn stop_requests(&mut self) -> Vec<Id> {
        self.log.record(|record| record.take_stop_requests()).unwrap_or_default()
    }

    fn every_second(&mut self) {
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

impl PassObserver {
    fn screen(&self) -> Screen {
        Screen { width: self.terminal.width, now: self.clock.now() }
    }
}

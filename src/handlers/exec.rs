//! `-- COMMAND [ARG]...`: one process for each record, without a shell.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::pipe::{PipeFlags, pipe_with};

use super::process::{self, Bounds, Ended, Forced};
use super::spawned::{self, EXIT_TIMEOUT, EXIT_UNABLE};
use super::tail::Tail;
use super::unstartable::{could_not_run, obstacle_of};
use super::workers::Workers;
use super::{Handler, Job, argv_template, input, json};
use crate::clock::Clock;
use crate::lock::lock;
use crate::record::{Attempt, Outcome, Record, Value, one_line};

/// The handler's words for its exit: sysexits.h EX_TEMPFAIL.
const EXIT_SNOOZE: i32 = 75;

/// The settings of a command; the same for every record of a pass.
#[derive(Debug, Clone)]
pub struct ExecSettings {
    /// The command and its arguments, with `{column}` still in them.
    pub argv: Vec<OsString>,
    pub jobs: usize,
    pub timeout: Option<Duration>,
    pub grace: Duration,
    /// Exits that say that no attempt will ever succeed.
    pub give_up_on: Vec<i32>,
    /// The column that is the standard input, instead of the whole record.
    pub payload: Option<String>,
    /// The column of the last error, if the table has one.
    pub last_error: Option<String>,
    /// The fixed part of the environment: queue, table and the pass's token.
    pub env: Vec<(&'static str, String)>,
}

/// Worker threads, each of which runs one command at a time.
pub struct Exec {
    capacity: usize,
    workers: Workers,
    stop: Arc<Stop>,
    /// Closing one makes its other end readable, which every worker polls. The last goes first.
    stop_pipes: Mutex<Vec<OwnedFd>>,
}

/// The stop as the workers see it.
struct Stop {
    begun: AtomicBool,
    signals: [OwnedFd; 2],
    grace_ms: AtomicU64,
}

impl Exec {
    pub fn new(settings: ExecSettings, clock: Clock) -> Result<Self> {
        let pipe = || pipe_with(PipeFlags::CLOEXEC).context("could not make a pipe");
        let ((stop, stop_end), (hurry, hurry_end)) = (pipe()?, pipe()?);
        let stop = Arc::new(Stop {
            begun: AtomicBool::new(false),
            signals: [stop, hurry],
            grace_ms: AtomicU64::new(0),
        });
        let (capacity, seen) = (settings.jobs, stop.clone());
        let workers = Workers::start(capacity, move |job| work(&settings, clock, &seen, &job))?;
        Ok(Self { capacity, workers, stop, stop_pipes: Mutex::new(vec![hurry_end, stop_end]) })
    }
}

impl Handler for Exec {
    fn capacity(&self) -> usize {
        self.capacity
    }

    fn start(&self, jobs: Vec<Job>) {
        self.workers.take(jobs);
    }

    fn begin_no_more(&self) {
        self.stop.begun.store(true, Ordering::SeqCst);
    }

    fn stop(&self, grace: Duration) {
        let grace = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        self.stop.grace_ms.store(grace, Ordering::SeqCst);
        self.begin_no_more();
        lock(&self.stop_pipes).pop();
    }

    fn join(&self) {
        self.workers.join();
    }
}

impl Drop for Exec {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
        self.join();
    }
}

fn work(settings: &ExecSettings, clock: Clock, stop: &Stop, job: &Job) {
    let began = clock.monotonic();
    let (outcome, exit) = if stop.begun.load(Ordering::SeqCst) {
        (Outcome::Interrupted, None)
    } else {
        attempt(settings, clock, stop, job)
    };
    let duration = clock.monotonic().saturating_duration_since(began);
    (job.submit)(vec![Attempt { exit, duration, ..job.ended(outcome) }]);
}

fn attempt(
    settings: &ExecSettings,
    clock: Clock,
    stop: &Stop,
    job: &Job,
) -> (Outcome, Option<i32>) {
    let bounds = Bounds {
        clock,
        timeout: settings.timeout,
        grace: settings.grace,
        stop: &stop.signals,
        stop_grace: &|| Duration::from_millis(stop.grace_ms.load(Ordering::SeqCst)),
    };
    let input = match input(settings, &job.record) {
        Ok(input) => input,
        Err(outcome) => return (outcome, None),
    };
    match process::run(command(settings, job), input, &bounds) {
        Ok(ended) => outcome(&ended, settings),
        Err(error) => (spawn_failure(&error, &settings.argv), None),
    }
}

/// The standard input for one record; without one, what that makes of the attempt.
fn input(settings: &ExecSettings, record: &Record) -> Result<OwnedFd, Outcome> {
    let bytes = match &settings.payload {
        Some(column) => json::column(record, column),
        None => {
            json::line(record).map_err(|error| Outcome::Failure { error: json::advised(&error) })?
        }
    };
    input::complete(&bytes).map_err(|error| spawn_failure(&error, &settings.argv))
}

/// The command for one record. The payload is on its standard input only: the environment and
/// the arguments have limits.
fn command(settings: &ExecSettings, job: &Job) -> Command {
    let record = &job.record;
    let argv = settings.argv.iter().map(|arg| argv_template::fill(arg, record));
    let mut command = spawned::command(argv, &settings.env);
    command
        .env("BACKLOG_ID", record.id.text().as_ref())
        .env("BACKLOG_STATUS", record.status.name())
        .env("BACKLOG_DATE_INSERTED", OsStr::from_bytes(&record.inserted.text()))
        .env("BACKLOG_ATTEMPT", job.attempt.to_string());
    if let Some(error) = &record.last_error {
        command
            .env("BACKLOG_LAST_ERROR", last_error(record, error, settings.last_error.as_deref()));
    }
    command
}

/// The last error as its column holds it. The application may have written more there than a
/// variable can hold.
fn last_error(record: &Record, error: &str, column: Option<&str>) -> OsString {
    match column.and_then(|column| record.row.get(column)) {
        // A record that was archived just now has another error than its row.
        Some(value @ Value::Bytes(bytes)) if value.to_string() == error => {
            let bytes = bytes.iter().copied().filter(|byte| *byte != 0).take(Tail::KEPT);
            OsString::from_vec(bytes.collect())
        }
        _ => error.chars().filter(|c| *c != '\0').take(Tail::KEPT).collect::<String>().into(),
    }
}

fn outcome(ended: &Ended, settings: &ExecSettings) -> (Outcome, Option<i32>) {
    let said = |otherwise: String| {
        ended.stderr.last_line().or_else(|| ended.stdout.last_line()).unwrap_or(otherwise)
    };
    match (ended.forced, ended.status.code()) {
        (Some(Forced::Stop), exit) => (Outcome::Interrupted, exit),
        (Some(Forced::Timeout), _) => {
            let limit = humantime::format_duration(settings.timeout.unwrap_or_default());
            (Outcome::Failure { error: format!("timed out after {limit}") }, Some(EXIT_TIMEOUT))
        }
        (None, Some(0)) => (Outcome::Success, Some(0)),
        (None, Some(exit)) if settings.give_up_on.contains(&exit) => {
            (Outcome::GiveUp { error: said(format!("exit status {exit}")) }, Some(exit))
        }
        (None, Some(EXIT_SNOOZE)) => {
            let error = said("snoozed (exit status 75)".into());
            (Outcome::Snooze { error, after: None }, Some(EXIT_SNOOZE))
        }
        (None, Some(exit)) if EXIT_UNABLE.contains(&exit) => {
            let why =
                obstacle_of(&settings.argv).map_or_else(String::new, |why| format!("; {why}"));
            let said = said("cannot be run".into());
            let error = format!("the handler exited with {exit}: {said}{why}");
            (Outcome::Unable { error, ends_pass: false }, Some(exit))
        }
        (None, Some(exit)) => {
            (Outcome::Failure { error: said(format!("exit status {exit}")) }, Some(exit))
        }
        // Whoever stopped the pass may have signalled its handlers as well.
        (None, None) if ended.stopping => (Outcome::Interrupted, None),
        (None, None) => {
            let signal = ended.status.signal().unwrap_or_default();
            (Outcome::Failure { error: format!("killed by signal {signal}") }, None)
        }
    }
}

/// A command that could not be started: the record's fault only if its own values are what the
/// system refused.
fn spawn_failure(error: &io::Error, argv: &[OsString]) -> Outcome {
    let of_the_record = error.kind() == io::ErrorKind::InvalidInput
        || error.raw_os_error() == Some(rustix::io::Errno::TOOBIG.raw_os_error());
    if of_the_record {
        let program = argv.first().map(|program| one_line(&program.to_string_lossy()));
        let program = program.unwrap_or_default();
        return Outcome::Failure { error: format!("could not start {program}: {error}") };
    }
    Outcome::Unable { error: could_not_run(error, argv), ends_pass: true }
}

//! `-- COMMAND [ARG]...`: one process for each record, without a shell.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;

use super::process::{
    self, CHUNK, EXIT_TIMEOUT, EXIT_UNABLE, Lifecycle, Process, is_readable, read_leftovers,
};
use super::stdio::{Tail, complete};
use super::unstartable::{could_not_run, obstacle_of};
use super::workers::Workers;
use super::{Handler, Job, argv_template, json};
use crate::clock::Clock;
use crate::record::{Attempt, Outcome, Record, Value, one_line};
use crate::stop::{Stage, Stop};

/// The handler's words for its exit: sysexits.h EX_TEMPFAIL.
const EXIT_SNOOZE: i32 = 75;

/// The settings of a command; the same for every record of a pass.
#[derive(Debug, Clone)]
pub struct ExecSettings {
    /// The command and its arguments, with `{column}` still in them.
    pub argv: Vec<OsString>,
    pub jobs: usize,
    pub timeout: Option<Duration>,
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
}

impl Exec {
    pub fn new(settings: ExecSettings, stop: Arc<Stop>, clock: Clock) -> Result<Self> {
        let (capacity, seen) = (settings.jobs, stop.clone());
        let workers = Workers::start(capacity, move |job| work(&settings, clock, &seen, &job))?;
        Ok(Self { capacity, workers, stop })
    }
}

impl Handler for Exec {
    fn capacity(&self) -> usize {
        self.capacity
    }

    fn start(&self, jobs: Vec<Job>) {
        self.workers.take(jobs);
    }

    fn join(&self) {
        self.workers.join();
    }
}

impl Drop for Exec {
    fn drop(&mut self) {
        self.stop.end_within(Duration::ZERO);
        self.join();
    }
}

fn work(settings: &ExecSettings, clock: Clock, stop: &Stop, job: &Job) {
    let began = clock.monotonic();
    let (outcome, exit) = if stop.stage() > Stage::Running {
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
    let input = match input(settings, &job.record) {
        Ok(input) => input,
        Err(outcome) => return (outcome, None),
    };
    match run(command(settings, job), input, &Bounds { clock, timeout: settings.timeout, stop }) {
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
    complete(&bytes).map_err(|error| spawn_failure(&error, &settings.argv))
}

/// The command for one record. The payload is on its standard input only: the environment and
/// the arguments have limits.
fn command(settings: &ExecSettings, job: &Job) -> Command {
    let record = &job.record;
    let argv = settings.argv.iter().map(|arg| argv_template::fill(arg, record));
    let mut command = process::command(argv, &settings.env);
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
    match (ended.why.filter(|_| ended.is_forced), ended.status.code()) {
        (Some(Why::Stop), exit) => (Outcome::Interrupted, exit),
        (Some(Why::Timeout), _) => {
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
        (None, None) if ended.why.is_some() => (Outcome::Interrupted, None),
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
        || error.raw_os_error() == Some(Errno::TOOBIG.raw_os_error());
    if of_the_record {
        let program = argv.first().map(|program| one_line(&program.to_string_lossy()));
        let program = program.unwrap_or_default();
        return Outcome::Failure { error: format!("could not start {program}: {error}") };
    }
    Outcome::Unable { error: could_not_run(error, argv), ends_pass: true }
}

/// The end of a command.
struct Ended {
    status: ExitStatus,
    /// Why it was to end, if it was.
    why: Option<Why>,
    /// Whether it was asked to.
    is_forced: bool,
    stdout: Tail,
    stderr: Tail,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    Timeout,
    Stop,
}

/// The bounds that a command runs within.
struct Bounds<'a> {
    clock: Clock,
    timeout: Option<Duration>,
    stop: &'a Stop,
}

/// Starts the command with this standard input and stays with it until its end. Its process group
/// ends with it: what it leaves in the background is killed.
fn run(command: Command, input: OwnedFd, bounds: &Bounds) -> io::Result<Ended> {
    let mut monitored = Monitored {
        process: Process::start(command, input)?,
        lifecycle: Lifecycle::new(),
        stdout: Tail::default(),
        stderr: Tail::default(),
    };
    let stayed = monitored.stay(bounds);
    // It is not reaped yet, so its number, and with it the group's, is still its own: the signal
    // cannot reach anybody else.
    monitored.process.signal(Signal::KILL);
    monitored.read_leftovers();
    let status = monitored.process.reap()?;
    stayed?;
    let Monitored { lifecycle, stdout, stderr, .. } = monitored;
    Ok(Ended { status, why: lifecycle.why(), is_forced: lifecycle.is_forced(), stdout, stderr })
}

/// A running command with what it has said.
struct Monitored {
    process: Process,
    lifecycle: Lifecycle<Why>,
    stdout: Tail,
    stderr: Tail,
}

impl Monitored {
    /// Reads what the command says until it has ended, and makes it end when its time is up.
    fn stay(&mut self, bounds: &Bounds) -> io::Result<()> {
        let Bounds { clock, timeout, stop } = *bounds;
        let timeout = timeout.and_then(|timeout| clock.monotonic().checked_add(timeout));
        loop {
            let stage = stop.stage().max(Stage::Closing);
            if let Some(at) = stop.ends_at().filter(|_| stage >= Stage::Ending) {
                self.lifecycle.end_by(Why::Stop, timeout.map_or(at, |timeout| timeout.min(at)));
            }
            let deadline = self.lifecycle.deadline();
            let deadline = deadline.or(timeout.filter(|_| self.lifecycle.is_running()));
            let left = deadline.map(|at| clock.until(at));
            // One that was asked to end has its time, whatever comes.
            let stopped = stop.fd_above(stage).filter(|_| !self.lifecycle.is_forced());
            if self.wait(left, stopped)? {
                return Ok(());
            }
            let now = clock.monotonic();
            if self.lifecycle.is_running() && timeout.is_some_and(|timeout| timeout <= now) {
                self.lifecycle.ask(&self.process, Why::Timeout, now + stop.grace());
            }
            self.lifecycle.step(&self.process, now);
        }
    }

    /// Waits for something to happen, at most `timeout`, and reads what was said; true if the
    /// command has ended.
    fn wait(&mut self, timeout: Option<Duration>, stopped: Option<&OwnedFd>) -> io::Result<bool> {
        let mut fds = Vec::with_capacity(4);
        fds.push(PollFd::new(&self.process.ended, PollFlags::IN));
        fds.push(PollFd::new(&self.process.stdout, PollFlags::IN));
        fds.push(PollFd::new(&self.process.stderr, PollFlags::IN));
        fds.extend(stopped.map(|stopped| PollFd::new(stopped, PollFlags::IN)));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        }
        let [ended, stdout, stderr] = [0, 1, 2].map(|at: usize| !fds[at].revents().is_empty());
        if stdout && !ended {
            read(&self.process.stdout, &mut self.stdout);
        }
        if stderr && !ended {
            read(&self.process.stderr, &mut self.stderr);
        }
        Ok(ended)
    }

    fn read_leftovers(&mut self) {
        let Self { process, stdout, stderr, .. } = self;
        for (pipe, tail) in [(&process.stdout, stdout), (&process.stderr, stderr)] {
            read_leftovers(|| is_readable(pipe).then(|| read(pipe, tail)));
        }
    }
}

/// Reads once, which does not block after poll said so; says how much there was.
fn read(pipe: &OwnedFd, tail: &mut Tail) -> usize {
    let mut chunk = [0; CHUNK];
    let count = rustix::io::read(pipe, &mut chunk).unwrap_or(0);
    tail.push(&chunk[..count]);
    count
}

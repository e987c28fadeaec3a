//! `-- COMMAND [ARG]...`: one process for each record, without a shell.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::pipe::{PipeFlags, pipe_with};
use serde::ser::{Error, Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

use super::process::{self, Bounds, Ended, Forced};
use super::{Handler, Job};
use crate::clock::Clock;
use crate::record::{Answer, Outcome, Record, Value, one_line};

/// The handler's words for its exit: sysexits.h EX_TEMPFAIL.
const EXIT_SNOOZE: i32 = 75;
/// A shell's words for a command that cannot be run, and for one that is not there.
const EXIT_UNABLE: [i32; 2] = [126, 127];
/// What timeout(1) exits with.
const EXIT_TIMEOUT: i32 = 124;

/// What a command is run with; the same for every record of a pass.
#[derive(Debug, Clone)]
pub struct ExecSettings {
    /// The command and its arguments, with `{column}` still in them.
    pub argv: Vec<OsString>,
    pub jobs: usize,
    pub timeout: Option<Duration>,
    pub grace: Duration,
    pub max_attempts: Option<u32>,
    /// The column that is the standard input, instead of the whole record.
    pub payload: Option<String>,
    /// The fixed part of the environment: queue, table and the pass's token.
    pub env: Vec<(&'static str, String)>,
}

/// Worker threads, each of which runs one command at a time.
pub struct Exec {
    capacity: usize,
    /// Closed by `join`.
    jobs: Mutex<Option<Sender<Job>>>,
    workers: Mutex<Vec<JoinHandle<()>>>,
    stop: Arc<Stop>,
    /// Closing one makes its other end readable, which every worker polls. The last goes first.
    stop_pipes: Mutex<Vec<OwnedFd>>,
}

/// What the workers see of a stop.
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
        let (jobs, queue) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let (capacity, settings) = (settings.jobs, Arc::new(settings));
        let workers = (0..capacity)
            .map(|number| {
                let (settings, stop, queue) = (settings.clone(), stop.clone(), queue.clone());
                std::thread::Builder::new()
                    .name(format!("handler {number}"))
                    .spawn(move || work(&settings, clock, &stop, &queue))
                    .context("could not start a thread for the handlers; lower --jobs")
            })
            .collect::<Result<_>>()?;
        Ok(Self {
            capacity,
            jobs: Mutex::new(Some(jobs)),
            workers: Mutex::new(workers),
            stop,
            stop_pipes: Mutex::new(vec![hurry_end, stop_end]),
        })
    }
}

impl Handler for Exec {
    fn capacity(&self) -> usize {
        self.capacity
    }

    fn start(&self, job: Job) {
        if let Some(jobs) = &*lock(&self.jobs) {
            // The workers live as long as this channel.
            let _ = jobs.send(job);
        }
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
        *lock(&self.jobs) = None;
        for worker in std::mem::take(&mut *lock(&self.workers)) {
            // A worker that panicked has said so already.
            let _ = worker.join();
        }
    }
}

impl Drop for Exec {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
        self.join();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn work(settings: &ExecSettings, clock: Clock, stop: &Stop, queue: &Mutex<Receiver<Job>>) {
    loop {
        let job = lock(queue).recv();
        let Ok(job) = job else { return };
        let began = clock.monotonic();
        let (outcome, exit) = if stop.begun.load(Ordering::SeqCst) {
            (Outcome::Interrupted, None)
        } else {
            attempt(settings, clock, stop, &job)
        };
        let duration = clock.monotonic().saturating_duration_since(began);
        (job.reply)(Answer { id: job.record.id.clone(), outcome, exit, duration });
    }
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
    let input = input(settings, &job.record);
    match process::run(command(settings, job), &input, &bounds) {
        Ok(ended) => outcome(&ended, settings.timeout),
        Err(error) => (spawn_failure(&error, &settings.argv[0]), None),
    }
}

/// The command for one record. The payload is on its standard input only: the environment and
/// the arguments have limits.
fn command(settings: &ExecSettings, job: &Job) -> Command {
    let record = &job.record;
    let mut argv = settings.argv.iter().map(|arg| fill_in(arg, record));
    let mut command = Command::new(argv.next().unwrap_or_default());
    command
        .args(argv)
        .envs(settings.env.iter().map(|(name, value)| (name, value)))
        .env("BACKLOG_ID", record.id.text().as_ref())
        .env("BACKLOG_STATUS", record.status.name())
        .env("BACKLOG_DATE_INSERTED", record.inserted.to_string())
        .env("BACKLOG_ATTEMPT", job.attempt.to_string())
        // A group of its own, so that a timeout reaches what the command started.
        .process_group(0);
    match settings.max_attempts {
        Some(most) => command.env("BACKLOG_MAX_ATTEMPTS", most.to_string()),
        None => command.env_remove("BACKLOG_MAX_ATTEMPTS"),
    };
    command
}

/// Replaces `{column}` by the column's value wherever the braces hold the name of a column; all
/// other braces stay as they are, for awk and jq. What was filled in is not looked at again.
fn fill_in(arg: &OsStr, record: &Record) -> OsString {
    let mut rest = arg.as_bytes();
    let mut filled = Vec::with_capacity(rest.len());
    while let Some(open) = rest.iter().position(|byte| *byte == b'{') {
        filled.extend_from_slice(&rest[..open]);
        rest = &rest[open..];
        let close = rest.iter().position(|byte| *byte == b'}');
        let name = close.and_then(|close| std::str::from_utf8(&rest[1..close]).ok());
        match name.and_then(|name| record.row.get(name)).zip(close) {
            Some((value, close)) => {
                filled.extend_from_slice(value.to_string().as_bytes());
                rest = &rest[close + 1..];
            }
            None => {
                filled.push(b'{');
                rest = &rest[1..];
            }
        }
    }
    filled.extend_from_slice(rest);
    OsString::from_vec(filled)
}

/// The standard input: one column as it is, without anything around it, or the record.
fn input(settings: &ExecSettings, record: &Record) -> Vec<u8> {
    let Some(payload) = &settings.payload else { return json(record) };
    match record.row.get(payload) {
        Some(Value::Blob(bytes)) => bytes.clone(),
        value => value.map(Value::to_string).unwrap_or_default().into_bytes(),
    }
}

/// The record as one JSON object with every column, in the table's order, and a newline. A BLOB
/// is hexadecimal text; numbers are exact.
fn json(record: &Record) -> Vec<u8> {
    let mut json = serde_json::to_vec(&RowJson(record)).unwrap_or_default();
    json.push(b'\n');
    json
}

struct RowJson<'a>(&'a Record);

impl Serialize for RowJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        for (name, value) in self.0.row.iter() {
            match value {
                Value::Null => object.serialize_entry(name, &())?,
                Value::Integer(number) => object.serialize_entry(name, number)?,
                Value::Real(number) => object.serialize_entry(name, number)?,
                Value::Text(text) => object.serialize_entry(name, text)?,
                Value::Blob(_) => object.serialize_entry(name, &value.to_string())?,
                Value::Boolean(truth) => object.serialize_entry(name, truth)?,
                Value::Json(json) => {
                    let raw = serde_json::from_str::<&RawValue>(json);
                    object.serialize_entry(name, raw.map_err(S::Error::custom)?)?;
                }
            }
        }
        object.end()
    }
}

fn outcome(ended: &Ended, timeout: Option<Duration>) -> (Outcome, Option<i32>) {
    let said = |otherwise: String| {
        ended.stderr.last_line().or_else(|| ended.stdout.last_line()).unwrap_or(otherwise)
    };
    match (ended.forced, ended.status.code()) {
        (Some(Forced::Stop), exit) => (Outcome::Interrupted, exit),
        (Some(Forced::Timeout), _) => {
            let limit = humantime::format_duration(timeout.unwrap_or_default());
            (Outcome::Failure { error: format!("timed out after {limit}") }, Some(EXIT_TIMEOUT))
        }
        (None, Some(0)) => (Outcome::Success, Some(0)),
        (None, Some(EXIT_SNOOZE)) => {
            (Outcome::Snooze { error: said("snoozed (exit status 75)".into()) }, Some(EXIT_SNOOZE))
        }
        (None, Some(exit)) if EXIT_UNABLE.contains(&exit) => {
            let error = format!("the handler exited with {exit}: {}", said("cannot be run".into()));
            (Outcome::Unable { error }, Some(exit))
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
fn spawn_failure(error: &io::Error, program: &OsStr) -> Outcome {
    let program = one_line(&program.to_string_lossy());
    let of_the_record = error.kind() == io::ErrorKind::InvalidInput
        || error.raw_os_error() == Some(rustix::io::Errno::TOOBIG.raw_os_error());
    if of_the_record {
        return Outcome::Failure { error: format!("could not start {program}: {error}") };
    }
    let hint = match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::NOENT) => "; is it in PATH, or its path absolute?",
        Some(rustix::io::Errno::ACCESS) => "; is it executable?",
        Some(rustix::io::Errno::NOEXEC) => "; does it begin with #! and an interpreter?",
        Some(rustix::io::Errno::MFILE | rustix::io::Errno::AGAIN) => "; lower --jobs",
        _ => "",
    };
    Outcome::Unable { error: format!("could not run {program}: {error}{hint}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Id, Row, Status};

    fn record(values: &[(&str, Value)]) -> Record {
        Record {
            id: Id::Integer(7),
            status: Status::New,
            status_text: "NEW".into(),
            inserted: Value::Null,
            inserted_at: None,
            failures: 0,
            last_failure_at: None,
            due_at: None,
            last_error: None,
            row: Row {
                columns: values.iter().map(|(name, _)| (*name).to_string()).collect(),
                values: values.iter().map(|(_, value)| value.clone()).collect(),
            },
        }
    }

    #[test]
    fn only_the_names_of_columns_are_filled_in() {
        let record = record(&[("ID", Value::Integer(7)), ("Name", Value::Text("{id}".into()))]);
        for (arg, expected) in [
            ("{id}", "7"),
            ("--id={ID}.json", "--id=7.json"),
            ("{name}{id}", "{id}7"),
            ("{nothing}", "{nothing}"),
            ("{ print $1 } {", "{ print $1 } {"),
            ("{a: {id}}", "{a: 7}"),
            ("{}", "{}"),
        ] {
            assert_eq!(fill_in(OsStr::new(arg), &record), OsStr::new(expected), "{arg}");
        }
        let bytes = OsStr::from_bytes(b"\xff{id}\xfe");
        assert_eq!(fill_in(bytes, &record).as_bytes(), b"\xff7\xfe");
    }

    #[test]
    fn the_json_has_every_column_exactly() {
        let record = record(&[
            ("ID", Value::Integer(i64::MAX)),
            ("it's \"odd\"", Value::Text("a\n\u{1F600}".into())),
            ("n", Value::Null),
            ("r", Value::Real(0.5)),
            ("b", Value::Blob(vec![0, 255])),
        ]);
        let expected = "{\"ID\":9223372036854775807,\"it's \\\"odd\\\"\":\"a\\n\u{1F600}\",\
                        \"n\":null,\"r\":0.5,\"b\":\"00FF\"}\n";
        assert_eq!(String::from_utf8(json(&record)).unwrap(), expected);
    }
}

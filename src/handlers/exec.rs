//! `-- COMMAND [ARG]...`: a process for each record, without a shell. `{column}` becomes a value of the record.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use anyhow::Result;
use backlog_schedule::{Attempt, Outcome};
use backlog_store::system_error::reason;
use backlog_store::{Stage, Stop};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use super::process::{
    EXIT_TIMEOUT, EXIT_UNABLE, Process, display_name, exec_hint, program, read, sealed_input,
    spawn_error_message, termination_signal,
};
use super::spawn::HandlerCommand;
use super::tail::Tail;
use super::workers::{Wakeups, read_grace};
use super::{HandlerContext, Job, Workers, document, placeholders};

/// EX_TEMPFAIL of sysexits.h.
const EXIT_SNOOZE: i32 = 75;

/// Maximum number of bytes in the variable of one column, and in the variables of all columns.
const MAX_VARIABLE_BYTES: usize = 64 * 1024;
const MAX_VARIABLES_BYTES: usize = 128 * 1024;

/// Maximum number of retries to start a command while no other runs, and the pause between two of them.
const MAX_LONE_RETRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);

pub struct Exec {
    argv: Vec<OsString>,
    give_up_on: Vec<i32>,
    context: HandlerContext,
    stop: Arc<Stop>,
    /// Counts running commands: each holds a clone.
    running: Arc<()>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EndReason {
    Timeout,
    Stop,
    /// The claim was lost, or `backlog stop` named the record.
    ClaimLost,
}

struct EndedCommand {
    status: ExitStatus,
    process: Process<EndReason>,
    output: Tail,
    errors: Tail,
}

impl Exec {
    pub fn start_workers(
        argv: Vec<OsString>,
        give_up_on: Vec<i32>,
        context: HandlerContext,
        stop: Arc<Stop>,
    ) -> Result<Workers> {
        let exec = Self { argv, give_up_on, context, stop, running: Arc::default() };
        Workers::start(exec.context.jobs, move |job, wakeups| exec.handle(&job, wakeups))
    }

    fn handle(&self, job: &Job, wakeups: &Wakeups) {
        let began = self.stop.clock.monotonic();
        let attempt = if self.stop.stage() > Stage::Running {
            job.ended(Outcome::Interrupted)
        } else {
            let attempt = wakeups.watched(&job.record.id, |lost| self.attempt(job, lost));
            attempt.unwrap_or_else(|outcome| job.ended(outcome))
        };
        let duration = self.stop.clock.monotonic().saturating_duration_since(began);
        (job.submit)(vec![Attempt { duration, ..attempt }]);
    }

    /// Runs the command of a job. The error is the outcome of an attempt without an exit status.
    fn attempt(&self, job: &Job, lost: Option<&OwnedFd>) -> Result<Attempt, Outcome> {
        let payload = self.context.payload.as_deref();
        let mut body = document(&job.record, payload, None).map_err(failure)?;
        body.extend(payload.is_none().then_some(b'\n'));
        let (_running, process) = self.start(job, &body)?;
        // Frees the memory while the command runs.
        drop(body);
        let mut ended = self.wait_for_end(process, lost).map_err(|error| {
            let error = format!("could not wait for the handler: {}", reason(&error));
            Outcome::Unable { error, ends_pass: true }
        })?;
        let stderr = self.context.keeps_stderr.then(|| ended.errors.last_lines()).flatten();
        let (outcome, exit) = self.outcome(&mut ended);
        Ok(Attempt { exit, stderr, ..job.ended(outcome) })
    }

    /// Starts the command. If processes or descriptors run out, retries while others run, and a few times alone.
    fn start(&self, job: &Job, body: &[u8]) -> Result<(Arc<()>, Process<EndReason>), Outcome> {
        let argv = placeholders::fill(&self.argv, &job.record).map_err(failure)?;
        let mut alone = 0;
        loop {
            let running = self.running.clone();
            let command = self.command(job, &argv);
            let error = match sealed_input(body).and_then(|input| Process::start(command, input)) {
                Ok(process) => return Ok((running, process)),
                Err(error) => error,
            };
            drop(running);
            if !is_shortage(&error) || alone == MAX_LONE_RETRIES {
                return Err(self.spawn_failure(&error));
            }
            // Other commands free resources when they end.
            alone += u32::from(Arc::strong_count(&self.running) == 1);
            thread::sleep(PAUSE);
            if self.stop.stage() > Stage::Running {
                return Err(Outcome::Interrupted);
            }
        }
    }

    fn command(&self, job: &Job, argv: &[OsString]) -> HandlerCommand<'_> {
        let record = &job.record;
        let mut command = HandlerCommand::new(argv, &self.context.environment);
        // An environment is limited, so longer values are on standard input only.
        let mut room = MAX_VARIABLES_BYTES;
        for ((_, name), (_, value)) in
            placeholders::variables(&record.row.columns).iter().zip(record.row.iter())
        {
            let text = record.text_of(value);
            if let Some(name) = name
                && !value.is_null()
                && text.len() <= MAX_VARIABLE_BYTES
                && name.len() + text.len() <= room
                && !text.contains(&0)
            {
                room -= name.len() + text.len();
                command.set(name, OsStr::from_bytes(&text));
            }
        }
        command.set("BACKLOG_ID", record.id.text().as_ref());
        command.set("BACKLOG_STATUS", record.status.name());
        // A text that is no date may be too long for a variable.
        let inserted = record.inserted.text();
        let inserted = inserted.get(..Tail::KEPT).unwrap_or(&inserted);
        command.set("BACKLOG_DATE_INSERTED", OsStr::from_bytes(inserted));
        command.set("BACKLOG_ATTEMPT", job.attempt.to_string());
        if let Some(most) = record.max_attempts {
            command.set("BACKLOG_MAX_ATTEMPTS", most.to_string());
        }
        if let Some(error) = &record.last_error {
            let error = error.chars().filter(|c| *c != '\0').take(Tail::KEPT);
            command.set("BACKLOG_LAST_ERROR", error.collect::<String>());
        }
        command
    }

    /// Waits until a command ends, and kills the rest of its group. `lost` becomes readable when the claim is lost.
    fn wait_for_end(
        &self,
        mut process: Process<EndReason>,
        lost: Option<&OwnedFd>,
    ) -> io::Result<EndedCommand> {
        let Self { context, stop, .. } = self;
        let clock = stop.clock;
        let [mut output, mut errors] = [Tail::default(), Tail::default()];
        let timeout = context.timeout.and_then(|timeout| clock.monotonic().checked_add(timeout));
        let waited = loop {
            let stage = stop.stage().max(Stage::Closing);
            if let Some(at) = stop.ends_at().filter(|_| stage >= Stage::Ending) {
                process
                    .set_deadline(EndReason::Stop, timeout.map_or(at, |timeout| timeout.min(at)));
            }
            let timeout = timeout.filter(|_| process.end_reason.is_none());
            let left = process.deadline.or(timeout).map(|at| clock.until(at));
            // A command that was asked to end keeps its deadline.
            let stopped = stop.fd_above(stage).filter(|_| !process.is_terminating);
            // Without `lost`, `stopped` takes its place in the result; the next iteration reads the stage.
            let others = [lost, stopped].into_iter().flatten();
            match process.wait(others.map(|fd| PollFd::new(fd, PollFlags::IN)), left) {
                Err(error) => break Err(error),
                Ok([true, ..]) => break Ok(()),
                Ok([_, has_output, has_errors, is_lost, _]) => {
                    if let Some(grace) = lost.filter(|_| is_lost).and_then(read_grace) {
                        // A lost claim is signalled repeatedly, which must not postpone the end.
                        let kill_at = clock.monotonic() + grace;
                        let is_first = process.end_reason != Some(EndReason::ClaimLost);
                        if is_first || process.deadline.is_some_and(|at| kill_at < at) {
                            process.terminate(EndReason::ClaimLost, kill_at);
                        }
                    }
                    if has_output {
                        read(&process.stdout, |chunk| output.push(chunk, |_| {}));
                    }
                    if has_errors {
                        read(&process.stderr, |chunk| errors.push(chunk, |_| {}));
                    }
                }
            }
            let now = clock.monotonic();
            if timeout.is_some_and(|timeout| timeout <= now) {
                process.terminate(EndReason::Timeout, now + stop.grace);
            }
            process.enforce_deadline(now);
        };
        let status = process.kill_and_reap(
            |chunk| output.push(chunk, |_| {}),
            |chunk| errors.push(chunk, |_| {}),
        )?;
        waited.map(|()| EndedCommand { status, process, output, errors })
    }

    fn outcome(&self, ended: &mut EndedCommand) -> (Outcome, Option<i32>) {
        let EndedCommand { status, process, output, errors } = ended;
        let terminated_for = process.end_reason.filter(|_| process.is_terminating);
        let mut last_line =
            |default: String| errors.last_line().or_else(|| output.last_line()).unwrap_or(default);
        let outcome = match (terminated_for, status.code()) {
            (Some(EndReason::Stop | EndReason::ClaimLost), _) => Outcome::Interrupted,
            // Another process ended it, for instance at a shutdown.
            (None, _) if termination_signal(*status).is_some() && self.stop.wait_for_signal() => {
                Outcome::Interrupted
            }
            (Some(EndReason::Timeout), _) => {
                let limit = humantime::format_duration(self.context.timeout.unwrap_or_default());
                return (failure(format!("timed out after {limit}")), Some(EXIT_TIMEOUT));
            }
            (None, Some(0)) => Outcome::Success,
            (None, Some(exit)) if self.give_up_on.contains(&exit) => {
                Outcome::GiveUp { error: last_line(format!("exit status {exit}")) }
            }
            (None, Some(EXIT_SNOOZE)) => {
                Outcome::Snooze { error: last_line("snoozed (exit status 75)".into()), after: None }
            }
            (None, Some(exit)) if EXIT_UNABLE.contains(&exit) => {
                let hint = exec_hint(&self.argv).map_or(String::new(), |hint| format!("; {hint}"));
                let line = last_line("cannot be run".into());
                let error = format!("the handler exited with {exit}: {line}{hint}");
                Outcome::Unable { error, ends_pass: false }
            }
            (None, Some(exit)) => failure(last_line(format!("exit status {exit}"))),
            // The signal that stopped the pass may have reached its handlers too.
            (None, None) if process.end_reason.is_some() => Outcome::Interrupted,
            (None, None) => {
                failure(format!("killed by signal {}", status.signal().unwrap_or_default()))
            }
        };
        (outcome, status.code())
    }

    /// Outcome of a command that could not start. It counts against the record only if the system refused its values.
    fn spawn_failure(&self, error: &io::Error) -> Outcome {
        if error.kind() == io::ErrorKind::InvalidInput
            || error.raw_os_error() == Some(Errno::TOOBIG.raw_os_error())
        {
            let program = display_name(program(&self.argv));
            return failure(format!("could not start {program}: {}", reason(error)));
        }
        Outcome::Unable { error: spawn_error_message(error, &self.argv), ends_pass: true }
    }
}

fn is_shortage(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE | Errno::AGAIN | Errno::NOMEM))
}

fn failure(error: String) -> Outcome {
    Outcome::Failure { error }
}

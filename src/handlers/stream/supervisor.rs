//! The supervisor of a co-process: a thread that feeds it, reads its replies, and starts it again.

use std::collections::VecDeque;
use std::mem;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant as Monotonic};

use backlog_schedule::{Attempt, Cause, Id, Outcome, counted, cut_line};
use backlog_store::{Stage, lock};
use log::Level;
use serde_json::Value;

use super::coprocess::{
    CoProcess, CoProcessEnd, hello, id_matches, is_exact, keeps_digits, reply, rounding_advice,
};
use super::{FIRST_REPLY_WITHIN, Mailbox, RESTARTS, StreamSettings, StreamState, WINDOW_BYTES};
use crate::handlers::process::{
    EXIT_TIMEOUT, EXIT_UNABLE, KILL_DELAY, spawn_error_message, termination_signal,
};
use crate::handlers::spawn::HandlerCommand;
use crate::handlers::{Job, Submit, json_line};

pub struct Supervisor {
    shared: Arc<StreamState>,
    mailbox: Arc<Mailbox>,
    queue: VecDeque<Job>,
    in_flight: InFlight,
    running: Option<CoProcess>,
    last_end: Option<String>,
    submit: Option<Submit>,
}

/// With this many records in flight, the supervisor waits after each reply, so that one wake-up reads several.
const MANY: usize = 32;
const GATHER: Duration = Duration::from_micros(100);

impl Supervisor {
    pub fn run(shared: Arc<StreamState>, mailbox: Arc<Mailbox>) {
        let (queue, in_flight) = (VecDeque::new(), InFlight::default());
        let (running, last_end, submit) = (None, None, None);
        Self { shared, mailbox, queue, in_flight, running, last_end, submit }.supervise();
    }

    fn supervise(&mut self) {
        loop {
            let stage = self.shared.stop.stage();
            self.take_jobs();
            self.end_lost();
            self.feed();
            match self.running.take() {
                Some(running) => self.handle_event(running, stage),
                None if !self.queue.is_empty() => {}
                None if self.shared.closing.load(Ordering::SeqCst) => return,
                None => self.mailbox.wait(self.shared.stop.fd_above(stage)),
            }
        }
    }

    /// Takes records from the mailbox, or hands them back once the pass starts no more attempts.
    fn take_jobs(&mut self) {
        let jobs = mem::take(&mut *lock(&self.mailbox.jobs));
        if let Some(job) = jobs.first() {
            self.submit.get_or_insert_with(|| job.submit.clone());
        }
        self.queue.extend(jobs);
        if self.shared.stop.stage() > Stage::Running {
            let back = mem::take(&mut self.queue);
            self.submit(back.iter().map(|job| job.ended(Outcome::Interrupted)).collect());
        }
    }

    /// Drops queued records whose claims are lost. A co-process that has such a record is made to end.
    fn end_lost(&mut self) {
        let lost = mem::take(&mut *lock(&self.mailbox.lost));
        if lost.is_empty() {
            return;
        }
        let is_lost = |job: &Job| lost.contains_key(&job.record.id);
        let queue = mem::take(&mut self.queue).into_iter();
        let (dropped, queue): (Vec<_>, _) = queue.partition(is_lost);
        self.queue = queue.into();
        self.submit(dropped.iter().map(|job| job.ended(Outcome::Interrupted)).collect());
        let mut least_grace = None;
        for sent in self.in_flight.sent.iter_mut().filter(|sent| is_lost(&sent.job)) {
            sent.is_lost = true;
            let grace = lost.get(&sent.job.record.id).copied();
            least_grace = least_grace.into_iter().chain(grace).min();
        }
        if let (Some(running), Some(grace)) = (self.running.as_mut(), least_grace) {
            running
                .process
                .terminate(CoProcessEnd::ClaimLost, self.shared.stop.clock.monotonic() + grace);
        }
    }

    fn feed(&mut self) {
        let is_ending = self.running.as_ref().is_some_and(|running| !running.is_serving());
        if self.queue.is_empty() || is_ending {
            return;
        }
        let mut refused = Vec::new();
        while let Some(job) = self.queue.pop_front() {
            match json_line(&job.record) {
                Ok(line)
                    if !self.in_flight.fits(line.len())
                        || self.in_flight.has_ambiguous_id(&job.record.id) =>
                {
                    self.queue.push_front(job);
                    break;
                }
                Ok(line) => {
                    if let Err(error) = self.push(&job, &line) {
                        // The pass ends, because no co-process can start.
                        self.shared.stop.begin_no_more();
                        refused.push(job.ended(Outcome::Unable { error, ends_pass: true }));
                        break;
                    }
                    let at = self.shared.stop.clock.monotonic();
                    self.in_flight.add(Sent { job, bytes: line.len(), at, is_lost: false });
                }
                Err(error) => {
                    let error = format!("{error}; fix the value");
                    refused.push(job.ended(Outcome::Failure { error }));
                }
            }
        }
        if let Some(running) = &mut self.running {
            running.send();
        }
        self.submit(refused);
    }

    fn push(&mut self, job: &Job, line: &[u8]) -> Result<(), String> {
        let mut running = self.running.take().map_or_else(|| self.start(job), Ok)?;
        if self.in_flight.is_empty() {
            running.quiet_since = self.shared.stop.clock.monotonic();
        }
        running.outgoing.extend(line);
        self.running = Some(running);
        Ok(())
    }

    fn start(&self, first: &Job) -> Result<CoProcess, String> {
        if let Some(last_end) = &self.last_end {
            if self.shared.restarts.fetch_add(1, Ordering::SeqCst) >= RESTARTS {
                return Err(format!("{last_end}; handlers were restarted {RESTARTS} times"));
            }
            log::info!("restarting the handler: {last_end}");
        }
        let StreamState { settings: StreamSettings { argv, .. }, context, .. } = &*self.shared;
        let mut command = HandlerCommand::new(argv, &context.environment);
        // Otherwise Python buffers its replies.
        command.set("PYTHONUNBUFFERED", "1");
        let process = CoProcess::start(command, self.shared.stop.clock.monotonic());
        let mut process = process.map_err(|error| spawn_error_message(&error, argv))?;
        process.outgoing.extend(hello(context, &first.record).as_bytes());
        Ok(process)
    }

    /// Waits for an event and handles it. `stage` is the last stage of the stop that was handled before.
    fn handle_event(&mut self, mut running: CoProcess, stage: Stage) {
        let clock = self.shared.stop.clock;
        let deadlines = [running.deadline(self.timeout()), self.warns_at(&running)];
        let deadline = deadlines.into_iter().flatten().min().map(|at| clock.until(at));
        let stopped = self.shared.stop.fd_above(stage);
        let waited = running.wait(&self.mailbox.wakeup, stopped, deadline);
        // An error of poll ends the process.
        let [ended, woken] = waited.unwrap_or([true, false]);
        if woken {
            self.mailbox.drain_wakeup();
        }
        if ended {
            return self.handle_end(running);
        }
        if let Err(error) = self.read_replies(&mut running) {
            running.process.terminate(CoProcessEnd::BadReply, clock.monotonic() + KILL_DELAY);
            self.fault_of_reply(&error);
        }
        self.warn_if_silent(&mut running);
        let stop = &self.shared.stop;
        let (now, grace) = (clock.monotonic(), stop.grace);
        let is_over = self.shared.closing.load(Ordering::SeqCst)
            && self.mailbox.in_hand.load(Ordering::SeqCst) == 0;
        let over_at = (is_over && running.is_serving()).then(|| now + grace);
        if let Some(at) = stop.ends_at().or(over_at) {
            running.close_input_by(CoProcessEnd::PassDone, at);
        }
        running.step(self.timeout(), grace, now);
        self.running = Some(running);
    }

    /// The instant at which the log says that no reply has come.
    fn warns_at(&self, running: &CoProcess) -> Option<Monotonic> {
        let is_new = running.is_serving() && !running.has_answered && !running.has_warned;
        let at = running.quiet_since.checked_add(FIRST_REPLY_WITHIN);
        at.filter(|_| is_new && !self.in_flight.is_empty())
    }

    fn warn_if_silent(&self, running: &mut CoProcess) {
        if self.warns_at(running).is_some_and(|at| self.shared.stop.clock.until(at).is_zero()) {
            let records = counted(self.in_flight.sent.len() as u64, "record");
            let waited = humantime::format_duration(FIRST_REPLY_WITHIN);
            log::error!(
                "no reply yet to {records} after {waited}: does the handler speak the protocol, and \
                 flush its output?"
            );
            running.has_warned = true;
        }
    }

    fn timeout(&self) -> Option<Duration> {
        self.shared.context.timeout.filter(|_| !self.in_flight.is_empty())
    }

    /// Submits the replies that were received. The error names a line that is not a reply.
    fn read_replies(&mut self, running: &mut CoProcess) -> Result<(), String> {
        let now = self.shared.stop.clock.monotonic();
        let (in_flight, mut ended) = (&mut self.in_flight, Vec::new());
        let read = running.each_line(|number, line| {
            let fault = |what: String, hint: &str| {
                let line = cut_line(&String::from_utf8_lossy(line));
                format!("line {number} of the handler's output {what}: {line}{hint}")
            };
            let (id, outcome) = reply(line).map_err(|why| {
                let hint = "; write log output to standard error";
                fault(format!("is not a reply, {why}"), hint)
            })?;
            let sent = in_flight.answered(&id).map_err(|what| fault(what, ""))?;
            let duration = now.saturating_duration_since(sent.at);
            ended.push(Attempt { duration, ..sent.job.ended(outcome) });
            Ok(())
        });
        if !ended.is_empty() {
            let are_many_left = self.in_flight.sent.len() >= MANY;
            self.submit(ended);
            if are_many_left {
                std::thread::sleep(GATHER);
            }
            // Submitting takes time, in which no replies were read.
            running.quiet_since = self.shared.stop.clock.monotonic();
            running.has_answered = true;
            running.answers_late =
                matches!(running.process.end_reason, Some(CoProcessEnd::TimedOut { .. }));
        }
        read
    }

    /// Logs an error of the handler itself. Its repetitions, also by other co-processes, are logged at level info.
    fn fault(&self, error: &str) {
        let is_new = lock(&self.shared.logged_faults).insert(Cause::new(Some(error)));
        log::log!(if is_new { Level::Error } else { Level::Info }, "{error}");
        self.shared.faults.fetch_add(1, Ordering::SeqCst);
    }

    fn fault_of_reply(&mut self, error: &str) {
        self.fault(error);
        self.last_end = Some("the handler wrote an unexpected line".into());
    }

    /// Settles or requeues records of an ended co-process. After an exit or timeout the oldest fails as likely cause.
    fn handle_end(&mut self, mut running: CoProcess) {
        let status = running.finish().unwrap_or_else(|_| ExitStatus::from_raw(0));
        let read = self.read_replies(&mut running);
        let end = describe_end(status, running.log.last_line());
        if running.process.end_reason.is_none() && termination_signal(status).is_some() {
            // The stage is read below, after the stop signal has had time to arrive.
            self.shared.stop.wait_for_signal();
        }
        match (running.process.end_reason, read) {
            _ if self.shared.stop.stage() >= Stage::Ending => {
                let left = self.in_flight.drain().map(|sent| sent.job.ended(Outcome::Interrupted));
                self.submit(left.collect());
            }
            (_, Err(error)) => self.fault_of_reply(&error),
            // No record caused the end, and the next start does not count as a restart.
            (Some(CoProcessEnd::ClaimLost), _) => self.last_end = None,
            // The bad reply was logged when it was read.
            (Some(CoProcessEnd::BadReply), _) => {}
            (Some(CoProcessEnd::TimedOut { has_unread_input }), _) => {
                self.timed_out(&running, has_unread_input);
            }
            (Some(CoProcessEnd::PassDone) | None, _) => {
                if self.in_flight.is_empty() && !status.success() {
                    log::warn!("the handler answered all records, and then ended with {end}");
                }
                let (last_end, exit) = (format!("the handler ended with {end}"), status.code());
                // The shell of the co-process could not run a command, perhaps one that a record names.
                let is_unable =
                    !running.has_answered && exit.is_some_and(|exit| EXIT_UNABLE.contains(&exit));
                let outcome = if is_unable {
                    Outcome::Unable { error: last_end.clone(), ends_pass: false }
                } else {
                    let error = format!("the handler ended before it answered: {end}");
                    Outcome::Failure { error }
                };
                self.last_end = Some(last_end);
                self.blame_the_oldest(outcome, exit);
            }
        }
        let mut lost = Vec::new();
        for Sent { job, is_lost, .. } in self.in_flight.drain().rev() {
            if is_lost {
                lost.push(job.ended(Outcome::Interrupted));
            } else {
                self.queue.push_front(job);
            }
        }
        self.submit(lost);
    }

    fn timed_out(&mut self, running: &CoProcess, has_unread_input: bool) {
        let timeout = humantime::format_duration(self.shared.context.timeout.unwrap_or_default());
        self.last_end = Some(format!("the handler timed out after {timeout}"));
        if running.answers_late {
            self.fault(&format!(
                "the handler was silent for {timeout} and answered when its input was closed: make \
                 it flush its output after each line, or raise --timeout"
            ));
        }
        let what = if has_unread_input { "does not read its input" } else { "does not answer" };
        let error = format!("timed out after {timeout}: the handler {what}");
        self.blame_the_oldest(Outcome::Failure { error }, Some(EXIT_TIMEOUT));
    }

    fn blame_the_oldest(&mut self, outcome: Outcome, exit: Option<i32>) {
        let Some(Sent { job, at, .. }) = self.in_flight.take(0) else { return };
        let duration = self.shared.stop.clock.monotonic().saturating_duration_since(at);
        self.submit(vec![Attempt { exit, duration, ..job.ended(outcome) }]);
    }

    fn submit(&self, ended: Vec<Attempt>) {
        if let Some(submit) = self.submit.as_ref().filter(|_| !ended.is_empty()) {
            self.mailbox.in_hand.fetch_sub(ended.len(), Ordering::SeqCst);
            submit(ended);
        }
    }
}

/// Text of an end: `exit status 1: no route to host`.
fn describe_end(status: ExitStatus, last_line: Option<String>) -> String {
    let last_line = last_line.map_or_else(String::new, |line| format!(": {line}"));
    let (kind, number) = match status.code() {
        Some(code) => ("exit status", code),
        None => ("signal", status.signal().unwrap_or_default()),
    };
    format!("{kind} {number}{last_line}")
}

#[derive(Default)]
pub struct InFlight {
    /// Oldest first: it is usually answered next.
    sent: VecDeque<Sent>,
    bytes: usize,
    /// True once the process has answered a large number that no rounding gives.
    keeps_digits: bool,
}

pub struct Sent {
    pub job: Job,
    pub bytes: usize,
    pub at: Monotonic,
    pub is_lost: bool,
}

impl InFlight {
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// True if a line of this length fits in the window. A single line always fits.
    pub fn fits(&self, bytes: usize) -> bool {
        self.is_empty() || self.bytes.saturating_add(bytes) <= WINDOW_BYTES
    }

    pub fn add(&mut self, sent: Sent) {
        self.bytes += sent.bytes;
        self.sent.push_back(sent);
    }

    /// Removes and returns the one record that a reply can be about.
    pub fn answered(&mut self, answered: &Value) -> Result<Sent, String> {
        let is_match = |sent: &Sent| match self.keeps_digits {
            true => is_exact(answered, &sent.job.record.id),
            false => id_matches(answered, &sent.job.record.id),
        };
        let first = self.sent.iter().position(is_match);
        let is_only = !self.sent.iter().skip(first.map_or(0, |at| at + 1)).any(is_match);
        if let Some(sent) = first.filter(|_| is_only).and_then(|at| self.take(at)) {
            self.keeps_digits |= keeps_digits(answered);
            return Ok(sent);
        }
        let id = cut_line(answered.as_str().unwrap_or(&answered.to_string()));
        let advice = rounding_advice(answered);
        Err(match first {
            Some(_) => {
                format!("answers record {id}, which may be several records in flight{advice}")
            }
            None => format!("answers record {id}, which was answered before or never sent{advice}"),
        })
    }

    /// True if a reply with this id as text could also be about another record in flight.
    pub fn has_ambiguous_id(&self, id: &Id) -> bool {
        let kind = mem::discriminant(id);
        let mut others = self.sent.iter().map(|sent| &sent.job.record.id);
        others.any(|other| mem::discriminant(other) != kind && other.text() == id.text())
    }

    fn take(&mut self, at: usize) -> Option<Sent> {
        self.sent.remove(at).inspect(|sent| self.bytes -= sent.bytes)
    }

    pub fn drain(&mut self) -> impl DoubleEndedIterator<Item = Sent> + use<> {
        mem::take(self).sent.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::handlers::tests::record;

    fn in_flight(ids: &[Id]) -> InFlight {
        let mut in_flight = InFlight::default();
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        let now = Monotonic::now();
        for id in ids {
            let record = Arc::new(backlog_schedule::Record { id: id.clone(), ..record(&[]) });
            let job = Job { record, attempt: 1, submit: Arc::new(|_| {}) };
            in_flight.add(Sent { job, bytes: 10, at: now, is_lost: false });
        }
        in_flight
    }

    #[test]
    fn replies_come_in_any_order_and_each_once() {
        let mut in_flight = in_flight(&[1, 2, 3].map(Id::Integer));
        in_flight.answered(&json!(2)).unwrap();
        let error = in_flight.answered(&json!(2)).err().unwrap();
        assert_eq!(error, "answers record 2, which was answered before or never sent");
        let error = in_flight.answered(&json!(9)).err().unwrap();
        assert_eq!(error, "answers record 9, which was answered before or never sent");
        let left: Vec<_> = in_flight.drain().map(|sent| sent.job.record.id.clone()).collect();
        assert_eq!(left, [Id::Integer(1), Id::Integer(3)]);
        assert!(in_flight.is_empty());
    }

    #[test]
    fn an_ambiguous_number_matches_no_record() {
        const LARGE: i64 = 1_840_467_209_342_255_104;
        let ids = [LARGE, LARGE + 1, LARGE + 4096].map(Id::Integer);
        let advised = "; numbers from 2^53 on lose digits in JavaScript: answer with \"backlog_id\" as the id";
        let mut in_flight = in_flight(&ids);
        // As Python and as JavaScript round.
        for rounded in [json!(LARGE), json!(1_840_467_209_342_255_000_i64)] {
            let error = in_flight.answered(&rounded).err().unwrap();
            assert!(error.starts_with("answers record 1"), "{error}");
            assert!(error.ends_with(advised), "{error}");
        }
        let settled = |sent: Sent| sent.job.record.id.clone();
        let never = "never sent; numbers from 2^53 on";
        let error = in_flight.answered(&json!(LARGE + 2)).err().unwrap();
        assert!(error.contains(never), "no rounding gives it: {error}");
        let error = in_flight.answered(&json!("1840467209342255000")).err().unwrap();
        assert!(error.contains(never), "{error}");
        assert_eq!(in_flight.answered(&json!(LARGE + 4096)).map(settled), Ok(ids[2].clone()));
        assert_eq!(in_flight.answered(&json!(LARGE + 1)).map(settled), Ok(ids[1].clone()));
        // This process keeps all digits.
        let error = in_flight.answered(&json!(1_840_467_209_342_255_000_i64)).err().unwrap();
        assert!(error.contains(never), "{error}");
        assert_eq!(in_flight.answered(&json!(LARGE)).map(settled), Ok(ids[0].clone()));
        let error = in_flight.answered(&json!(LARGE)).err().unwrap();
        assert!(error.contains(never), "{error}");
        let text = Id::Text(LARGE.to_string().into());
        let mut in_flight =
            tests::in_flight(&[text.clone(), Id::Text((LARGE - 104).to_string().into())]);
        let error = in_flight.answered(&json!(1_840_467_209_342_255_000_i64)).err().unwrap();
        assert!(error.contains("several records"), "a text may be rounded as a number: {error}");
        assert_eq!(in_flight.answered(&json!(LARGE.to_string())).map(settled), Ok(text));
        let small = (1_i64 << 53) - 1;
        let mut in_flight = tests::in_flight(&[small - 1, small].map(Id::Integer));
        assert_eq!(in_flight.answered(&json!(small)).map(settled), Ok(Id::Integer(small)));
    }

    #[test]
    fn ids_that_are_the_same_as_text_are_not_in_flight_together() {
        let in_flight = in_flight(&[Id::Integer(7), Id::Text("ff".into())]);
        assert!(in_flight.has_ambiguous_id(&Id::Text("7".into())));
        assert!(in_flight.has_ambiguous_id(&Id::Bytes([0xff].into())));
        assert!(
            !in_flight.has_ambiguous_id(&Id::Integer(7))
                && !in_flight.has_ambiguous_id(&Id::Text("8".into()))
        );
    }

    #[test]
    fn a_line_goes_alone_or_within_the_window() {
        assert!(InFlight::default().fits(WINDOW_BYTES + 1));
        let mut in_flight = in_flight(&[1, 2].map(Id::Integer));
        assert!(in_flight.fits(WINDOW_BYTES - 20) && !in_flight.fits(WINDOW_BYTES - 19));
        in_flight.answered(&json!(2)).unwrap();
        assert!(in_flight.fits(WINDOW_BYTES - 10) && !in_flight.fits(WINDOW_BYTES - 9));
        in_flight.take(0);
        assert!(in_flight.fits(WINDOW_BYTES + 1));
        in_flight.add(tests::in_flight(&[Id::Integer(3)]).take(0).unwrap());
        assert_eq!(in_flight.drain().count(), 1);
        assert_eq!(in_flight.bytes, 0);
    }

    #[test]
    fn an_id_is_known_by_its_text_as_well() {
        let composite = Id::Composite([Id::Integer(1), Id::Text("b".into())].into());
        for (held, named) in [
            (Id::Integer(1), json!("1")),
            (Id::Text("1".into()), json!(1)),
            (Id::Bytes([0, 0xff].into()), json!("00ff")),
            (composite.clone(), json!([1, "b"])),
            (composite, json!("1,b")),
        ] {
            let sent = in_flight(std::slice::from_ref(&held)).answered(&named).unwrap();
            assert_eq!(sent.job.record.id, held);
        }
    }
}

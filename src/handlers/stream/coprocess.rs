//! A process for many records: its pipes, its lines of JSON, and its end.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitStatus;
use std::time::{Duration, Instant as Monotonic};

use backlog_schedule::{Id, Outcome, Record, one_line, parse_duration};
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags};
use rustix::io::{Errno, ioctl_fionbio, ioctl_fionread, write};
use rustix::pipe::{PipeFlags, pipe_with};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::handlers::process::{Process, read};
use crate::handlers::spawn::HandlerCommand;
use crate::handlers::tail::{Tail, legible};
use crate::handlers::{HandlerContext, reply_with};

/// Number of bytes read at a time: the usual capacity of a pipe.
const READ: usize = 64 * 1024;
const LONGEST_LINE: usize = 1024 * 1024;

pub struct CoProcess {
    pub process: Process<CoProcessEnd>,
    /// The last reply, or the last time without a record in flight.
    pub quiet_since: Monotonic,
    pub has_answered: bool,
    pub has_warned: bool,
    pub answers_late: bool,
    /// Its standard input, non-blocking. `None` once it is closed.
    stdin: Option<OwnedFd>,
    pub outgoing: VecDeque<u8>,
    is_in_mid_line: bool,
    closes_input: bool,
    received: Vec<u8>,
    lines: u64,
    pub log: Tail,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoProcessEnd {
    /// No more records come, or a stop ends the pass.
    PassDone,
    /// No reply came within the timeout.
    TimedOut { has_unread_input: bool },
    /// It wrote a line that is not a reply.
    BadReply,
    /// The claim of a record in flight was lost, or `backlog stop` named the record.
    ClaimLost,
}

impl CoProcess {
    pub fn start(command: HandlerCommand, now: Monotonic) -> io::Result<Self> {
        let (its_stdin, stdin) = pipe_with(PipeFlags::CLOEXEC)?;
        ioctl_fionbio(&stdin, true)?;
        Ok(Self {
            process: Process::start(command, its_stdin)?,
            quiet_since: now,
            has_answered: false,
            has_warned: false,
            answers_late: false,
            stdin: Some(stdin),
            outgoing: VecDeque::new(),
            is_in_mid_line: false,
            closes_input: false,
            received: Vec::new(),
            lines: 0,
            log: Tail::default(),
        })
    }

    /// Sends as much as the pipe takes. [`wait`](Self::wait) sends the rest.
    pub fn send(&mut self) {
        let (next, _) = self.outgoing.as_slices();
        match self.stdin.as_ref().map_or(Ok(0), |stdin| write(stdin, next)) {
            Ok(written) => {
                let last = self.outgoing.drain(..written).next_back();
                self.is_in_mid_line = last.map_or(self.is_in_mid_line, |last| last != b'\n');
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.stdin = None,
        }
        if self.stdin.is_none() {
            self.outgoing.clear();
        }
        if self.outgoing.is_empty() {
            self.outgoing.shrink_to(READ);
            self.stdin.take_if(|_| self.closes_input);
        }
    }

    pub fn is_serving(&self) -> bool {
        self.process.end_reason.is_none()
    }

    pub fn deadline(&self, timeout: Option<Duration>) -> Option<Monotonic> {
        let silent_at = timeout.and_then(|timeout| self.quiet_since.checked_add(timeout));
        self.process.deadline.or(silent_at.filter(|_| self.is_serving()))
    }

    pub fn close_input_by(&mut self, reason: CoProcessEnd, at: Monotonic) {
        if self.is_serving() {
            self.closes_input = true;
            // A line of which a part was sent is sent completely.
            let end = self.outgoing.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            self.outgoing.truncate(if self.is_in_mid_line { end } else { 0 });
            self.send();
        }
        self.process.set_deadline(reason, at);
    }

    pub fn step(&mut self, timeout: Option<Duration>, grace: Duration, now: Monotonic) {
        if self.is_serving() && self.deadline(timeout).is_some_and(|at| at <= now) {
            let unread = self.stdin.as_ref().and_then(|stdin| ioctl_fionread(stdin).ok());
            let has_unread_input =
                !self.outgoing.is_empty() || unread.is_some_and(|bytes| bytes > 0);
            self.close_input_by(CoProcessEnd::TimedOut { has_unread_input }, now + grace);
        } else {
            self.process.enforce_deadline(now);
        }
    }

    /// Reads and writes its pipes for at most `timeout`. Returns true if it has ended, and if `wakeup` is readable.
    pub fn wait(
        &mut self,
        wakeup: &OwnedFd,
        stopped: Option<&OwnedFd>,
        timeout: Option<Duration>,
    ) -> io::Result<[bool; 2]> {
        let readable = |fd| PollFd::new(fd, PollFlags::IN);
        let stdin = self.stdin.as_ref().filter(|_| !self.outgoing.is_empty());
        let stdin = stdin.map(|stdin| PollFd::new(stdin, PollFlags::OUT));
        let others = [Some(readable(wakeup)), stdin, stopped.map(readable)].into_iter().flatten();
        // Without `stdin`, `stopped` takes its place in the result, and sending has no effect.
        let [ended, stdout, stderr, woken, stdin] = self.process.wait(others, timeout)?;
        if stdout {
            self.received.reserve(READ);
            let _ = rustix::io::read(&self.process.stdout, spare_capacity(&mut self.received));
        }
        if stderr {
            read(&self.process.stderr, |chunk| log_stderr(&mut self.log, chunk));
        }
        if stdin {
            self.send();
        }
        Ok([ended, woken])
    }

    /// Calls `each` with every complete line and its number, until it fails.
    pub fn each_line<E>(
        &mut self,
        mut each: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.process.end_reason == Some(CoProcessEnd::BadReply) {
            self.received.clear();
        }
        // A line ends with a line feed, or at the maximum length.
        let end_of_line = |left: &[u8]| {
            let end = left.iter().position(|byte| *byte == b'\n');
            end.or((left.len() > LONGEST_LINE).then_some(left.len()))
        };
        let (mut taken, mut result) = (0, Ok(()));
        while result.is_ok()
            && let Some(length) = end_of_line(&self.received[taken..])
        {
            self.lines += 1;
            result = each(self.lines, &self.received[taken..taken + length]);
            taken = (taken + length + 1).min(self.received.len());
        }
        self.received.drain(..taken);
        result
    }

    pub fn finish(&mut self) -> io::Result<ExitStatus> {
        let Self { process, received, log, .. } = self;
        let status = process.kill_and_reap(
            |chunk| received.extend_from_slice(chunk),
            |chunk| log_stderr(log, chunk),
        );
        // The last line may lack its line feed. A reply that the end of the process has cut is none.
        let last = self.received.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if is_cut(&self.received[last..]) {
            self.received.truncate(last);
        } else if last < self.received.len() {
            self.received.push(b'\n');
        }
        status
    }
}

fn is_cut(line: &[u8]) -> bool {
    line.starts_with(b"{")
        && serde_json::from_slice::<IgnoredAny>(line).is_err_and(|error| error.is_eof())
}

fn log_stderr(log: &mut Tail, chunk: &[u8]) {
    log.push(chunk, |line| log::info!("handler: {}", legible(line)));
}

/// The first line that a co-process gets, with the version of the protocol:
/// `{"backlog":1,"queue":"default","table":"BACKLOG","id":["ID"],"columns":[...],"reply_with":"backlog_id"}`
pub fn hello(context: &HandlerContext, record: &Record) -> String {
    let HandlerContext { queue, table, id, .. } = context;
    let columns = &record.row.columns[..];
    let key = reply_with(columns);
    let hello = json!({
        "backlog": 1, "queue": queue, "table": table, "id": id, "columns": columns, "reply_with": key,
    });
    format!("{hello}\n")
}

#[derive(Deserialize)]
struct ReplyLine {
    id: Value,
    outcome: ReplyOutcome,
    error: Option<String>,
    after: Option<String>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum ReplyOutcome {
    Success,
    Failure,
    Snooze,
    GiveUp,
}

/// JavaScript rounds integers from here on.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The rounded value of a large integer, in a reply or in an id.
fn rounded(number: &str) -> Option<f64> {
    let digits = number.strip_prefix('-').unwrap_or(number);
    let is_integer = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    number.parse::<f64>().ok().filter(|number| is_integer && number.abs() >= EXACT)
}

/// The rounded value if this large integer may be one. No program that rounds writes 2^60 + 1.
#[expect(clippy::cast_possible_truncation, reason = "a larger number is no id")]
fn may_be_rounded(number: &str) -> Option<f64> {
    rounded(number)
        .filter(|rounded| number == rounded.to_string() || number == (*rounded as i128).to_string())
}

/// True if an answered part is this one to the letter. A number may be written as text, and a text as a number.
pub fn is_exact(answered: &Value, id: &Id) -> bool {
    match (answered, id) {
        (Value::String(text), Id::Bytes(_)) => id.text().eq_ignore_ascii_case(text),
        (Value::String(text), _) => id.text() == text.as_str(),
        (Value::Number(number), Id::Integer(id)) => number.as_i64() == Some(*id),
        (Value::Number(number), Id::Text(text)) => number.to_string() == **text,
        (Value::Array(parts), Id::Composite(ids)) => {
            parts.len() == ids.len() && parts.iter().zip(ids).all(|(part, id)| is_exact(part, id))
        }
        _ => false,
    }
}

/// True if a reply with this id can be about the record: a number may be rounded.
pub fn id_matches(answered: &Value, id: &Id) -> bool {
    match (answered, id) {
        (Value::Number(number), Id::Integer(_) | Id::Text(_)) => {
            let is_large = || number.as_f64().is_some_and(|number| number.abs() >= EXACT);
            let meant = || may_be_rounded(&number.to_string());
            let is_meant = || meant().is_some_and(|meant| rounded(&id.text()) == Some(meant));
            is_exact(answered, id) || is_large() && is_meant()
        }
        (Value::Array(parts), Id::Composite(ids)) => {
            parts.len() == ids.len() && parts.iter().zip(ids).all(|(part, id)| id_matches(part, id))
        }
        _ => is_exact(answered, id),
    }
}

/// True if a part of this id shows that the handler keeps all digits.
pub fn keeps_digits(answered: &Value) -> bool {
    parts(answered).iter().any(|part| {
        let text = text(part);
        rounded(&text).is_some() && may_be_rounded(&text).is_none()
    })
}

fn parts(answered: &Value) -> &[Value] {
    // An id of several columns is an array.
    answered.as_array().map_or(std::slice::from_ref(answered), Vec::as_slice)
}

fn text(part: &Value) -> String {
    part.as_str().map_or_else(|| part.to_string(), String::from)
}

pub fn rounding_advice(answered: &Value) -> &'static str {
    if parts(answered).iter().any(|part| rounded(&text(part)).is_some()) {
        "; numbers from 2^53 on lose digits in JavaScript: answer with \"backlog_id\" as the id"
    } else {
        ""
    }
}

pub fn reply(line: &[u8]) -> Result<(Value, Outcome), String> {
    if line.len() > LONGEST_LINE {
        return Err(format!("it is longer than {} MiB", LONGEST_LINE >> 20));
    }
    let read = serde_json::from_slice(line).map_err(|error| match error.is_data() {
        // The message shows the whole line, so the position is left out.
        true => error.to_string().split(" at line ").next().unwrap_or_default().into(),
        false => "not JSON".to_string(),
    });
    let ReplyLine { id, outcome, error, after } = read?;
    let is_part = |part: &Value| part.is_string() || part.is_i64() || part.is_u64();
    let parts = parts(&id);
    if parts.is_empty() || !parts.iter().all(is_part) {
        return Err(format!("its id is {id}; an id is an integer or a text, as in the record"));
    }
    let answered = if let [one] = parts { one.clone() } else { id };
    // No longer than the kept output of a command, and on one line, for logs and columns.
    let kept = |error: String| one_line(&error).chars().take(Tail::KEPT).collect();
    let error = |default: &str| error.map_or_else(|| default.into(), kept);
    let outcome = match outcome {
        ReplyOutcome::Success => Outcome::Success,
        ReplyOutcome::Failure => Outcome::Failure { error: error("the handler gave no reason") },
        ReplyOutcome::GiveUp => Outcome::GiveUp { error: error("given up") },
        ReplyOutcome::Snooze => {
            let duration = |text: String| {
                parse_duration(&text).map_err(|error| format!("after: {text:?} is {error}"))
            };
            Outcome::Snooze { error: error("snoozed"), after: after.map(duration).transpose()? }
        }
    };
    Ok((answered, outcome))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_says_what_the_others_hold() {
        let context = HandlerContext {
            queue: "email".into(),
            table: "mails".into(),
            id: vec!["ID".into()],
            ..HandlerContext::default()
        };
        let record = crate::handlers::tests::record(&[
            ("ID", backlog_schedule::Value::Integer(7)),
            ("to", backlog_schedule::Value::Null),
        ]);
        assert_eq!(
            hello(&context, &record),
            "{\"backlog\":1,\"queue\":\"email\",\"table\":\"mails\",\"id\":[\"ID\"],\
             \"columns\":[\"ID\",\"to\"],\"reply_with\":\"backlog_id\"}\n"
        );
    }

    #[test]
    fn a_reply_is_an_outcome() {
        let error = || "no\\u{7}route".to_string();
        let after = Some(Duration::from_secs(600));
        for (line, id, outcome) in [
            (r#"{"id":7,"outcome":"success"}"#, json!(7), Outcome::Success),
            (
                r#"{"outcome":"failure","error":"no\u0007route","id":"a,b","x":1}"#,
                json!("a,b"),
                Outcome::Failure { error: error() },
            ),
            (
                r#" {"id":[1,"b"], "outcome":"snooze", "error":"no\u0007route", "after":"10m"} "#,
                json!([1, "b"]),
                Outcome::Snooze { error: error(), after },
            ),
            (
                r#"{"id":[7],"outcome":"give_up"}"#,
                json!(7),
                Outcome::GiveUp { error: "given up".into() },
            ),
        ] {
            assert_eq!(reply(line.as_bytes()), Ok((id, outcome)), "{line}");
        }
    }

    #[test]
    fn invalid_replies_are_refused_with_the_reason() {
        for (line, says) in [
            ("", "not JSON"),
            ("starting up ...", "not JSON"),
            ("{\"id\":7,\"outcome\":\"success\"", "not JSON"),
            ("\u{ff}", "not JSON"),
            ("7", "invalid type: integer `7`"),
            (r#"{"outcome":"success"}"#, "missing field `id`"),
            (r#"{"id":7}"#, "missing field `outcome`"),
            (r#"{"id":7.5,"outcome":"success"}"#, "its id is 7.5"),
            (r#"{"id":7.0,"outcome":"success"}"#, "its id is 7.0"),
            (r#"{"id":1e18,"outcome":"success"}"#, "its id is 1e+18"),
            (r#"{"id":null,"outcome":"success"}"#, "its id is null"),
            (r#"{"id":[],"outcome":"success"}"#, "its id is []"),
            (r#"{"id":7,"outcome":"succes"}"#, "expected one of `success`, `failure`, `snooze`"),
            (r#"{"id":7,"outcome":"snooze","after":"soon"}"#, "\"soon\" is not a duration"),
            (r#"{"id":7,"outcome":"failure","error":5}"#, "invalid type: integer `5`"),
        ] {
            let error = reply(line.as_bytes()).unwrap_err();
            assert!(error.contains(says), "{line}: {error}");
        }
    }
}

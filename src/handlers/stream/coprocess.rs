//! A process that stays: its pipes, and what has come through them.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio, ioctl_fionread, write};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Signal;

use crate::handlers::spawned::{CHUNK, Spawned, is_readable, read_leftovers};
use crate::handlers::tail::Tail;

/// How much is read of its output at a time: about what a pipe holds.
const READ: usize = 64 * 1024;
/// What is longer is no line of the protocol.
const LONGEST_LINE: usize = 1024 * 1024;

pub struct CoProcess {
    spawned: Spawned,
    /// Does not block. Without one, its input has ended.
    stdin: Option<OwnedFd>,
    /// What it is to be sent, and how much of that it was.
    text: Vec<u8>,
    sent: usize,
    /// Whether its input ends with that.
    is_last: bool,
    received: Vec<u8>,
    /// How many lines were taken of what it has said.
    lines: u64,
    log: Tail,
}

/// The events of one wait.
pub struct Events {
    pub ended: bool,
    pub woken: bool,
}

impl CoProcess {
    pub fn start(command: Command) -> io::Result<Self> {
        let (its_stdin, stdin) = pipe_with(PipeFlags::CLOEXEC)?;
        ioctl_fionbio(&stdin, true)?;
        Ok(Self {
            spawned: Spawned::start(command, its_stdin)?,
            stdin: Some(stdin),
            text: Vec::new(),
            sent: 0,
            is_last: false,
            received: Vec::new(),
            lines: 0,
            log: Tail::default(),
        })
    }

    /// Adds a line to what is to be sent.
    pub fn push(&mut self, line: &[u8]) {
        // What was sent is kept no longer than there is as much that was not, but for its end,
        // which shows whether a line is on its way.
        if self.sent > self.text.len() / 2 {
            self.text.drain(..self.sent - 1);
            self.sent = 1;
        }
        self.text.extend_from_slice(line);
    }

    /// Sends it, as far as the pipe takes it; the rest follows while somebody waits. A process that
    /// does not read its input is none the worse for it: then its input has ended.
    pub fn send(&mut self) {
        let stdin = self.stdin.as_ref();
        match stdin.map_or(Ok(0), |stdin| write(stdin, &self.text[self.sent..])) {
            Ok(written) => self.sent += written,
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.stdin = None,
        }
        if self.sent == self.text.len() || self.stdin.is_none() {
            self.text.clear();
            self.text.shrink_to(READ);
            self.sent = 0;
        }
        if self.is_last && self.text.is_empty() {
            self.stdin = None;
        }
    }

    /// Asks it to finish. A line that is on its way is sent to its end: half of one is no record.
    pub fn close_input(&mut self) {
        self.is_last = true;
        let is_in_mid_line = self.sent > 0 && self.text[self.sent - 1] != b'\n';
        let rest = self.text[self.sent..].iter().position(|byte| *byte == b'\n');
        let rest = rest.filter(|_| is_in_mid_line).map_or(0, |end| end + 1);
        self.text.truncate(self.sent + rest);
        self.send();
    }

    /// Whether there is something that it was sent and did not read.
    pub fn leaves_input(&self) -> bool {
        let unread = self.stdin.as_ref().and_then(|stdin| ioctl_fionread(stdin).ok());
        !self.text.is_empty() || unread.is_some_and(|bytes| bytes > 0)
    }

    pub fn signal(&self, signal: Signal) {
        self.spawned.signal(signal);
    }

    /// Waits for something to happen, at most `timeout`, and serves the pipes.
    pub fn wait(&mut self, wakeup: &OwnedFd, timeout: Option<Duration>) -> io::Result<Events> {
        let mut fds = Vec::with_capacity(5);
        fds.push(PollFd::new(&self.spawned.process, PollFlags::IN));
        fds.push(PollFd::new(wakeup, PollFlags::IN));
        fds.push(PollFd::new(&self.spawned.stdout, PollFlags::IN));
        fds.push(PollFd::new(&self.spawned.stderr, PollFlags::IN));
        let stdin = self.stdin.as_ref().filter(|_| !self.text.is_empty());
        fds.extend(stdin.map(|stdin| PollFd::new(stdin, PollFlags::OUT)));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Events { ended: false, woken: false }),
            Err(errno) => return Err(errno.into()),
        }
        let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
        let mut next = || ready.next().unwrap_or(false);
        let (ended, woken, stdout, stderr, stdin) = (next(), next(), next(), next(), next());
        if stdout {
            self.read_output();
        }
        if stderr {
            self.read_log();
        }
        if stdin {
            self.send();
        }
        Ok(Events { ended, woken })
    }

    /// Reads once, which does not block after poll said so; says how much there was.
    fn read_output(&mut self) -> usize {
        self.received.reserve(READ);
        rustix::io::read(&self.spawned.stdout, spare_capacity(&mut self.received)).unwrap_or(0)
    }

    fn read_log(&mut self) -> usize {
        let mut chunk = [0; CHUNK];
        let count = rustix::io::read(&self.spawned.stderr, &mut chunk).unwrap_or(0);
        for line in self.log.push_lines(&chunk[..count]) {
            log::info!("handler: {line}");
        }
        count
    }

    /// Hands each line that has come since the last time to `each`, with its number, until that
    /// fails.
    pub fn each_line<E>(
        &mut self,
        mut each: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut taken = 0;
        let mut result = Ok(());
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

    /// What it has said since the last time is not listened to.
    pub fn ignore_output(&mut self) {
        self.received.clear();
    }

    /// Reaps it once it has ended, and reads what is left in the pipes. What it leaves in the
    /// background is killed.
    pub fn finish(&mut self) -> io::Result<ExitStatus> {
        // It is not reaped yet, so its number, and with it the group's, is still its own.
        self.signal(Signal::KILL);
        read_leftovers(|| is_readable(&self.spawned.stdout).then(|| self.read_output()));
        read_leftovers(|| is_readable(&self.spawned.stderr).then(|| self.read_log()));
        // The last line may lack its end.
        if self.received.last().is_some_and(|byte| *byte != b'\n') {
            self.received.push(b'\n');
        }
        self.spawned.reap()
    }

    /// The last line of its log.
    pub fn last_words(&self) -> Option<String> {
        self.log.last_line()
    }
}

/// How long the first line is, if it has come to its end or is longer than any may be.
fn end_of_line(received: &[u8]) -> Option<usize> {
    let end = received.iter().position(|byte| *byte == b'\n');
    end.or((received.len() > LONGEST_LINE).then_some(received.len()))
}

//! A process of a handler, for one record or for many: its pipes, and its life cycle from the start
//! to SIGTERM and SIGKILL.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant as Monotonic};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};

/// How much is read of a log at a time.
pub const CHUNK: usize = 16 * 1024;
/// How much of what is left in a pipe is read after the process's end. No pipe of an
/// unprivileged process holds more; a grandchild may go on writing for ever.
const LEFTOVER: usize = 1024 * 1024;
/// How long a handler that has had its grace gets between SIGTERM and SIGKILL.
pub const KILL_DELAY: Duration = Duration::from_secs(1);

/// Variables that no handler inherits.
const NOT_INHERITED: [&str; 8] = [
    // What handlers may be told of their record. One pass may be in the handler of another.
    "BACKLOG_ID",
    "BACKLOG_STATUS",
    "BACKLOG_DATE_INSERTED",
    "BACKLOG_ATTEMPT",
    "BACKLOG_MAX_ATTEMPTS",
    "BACKLOG_LAST_ERROR",
    // What webhooks are sent with: no command of a record's needs to know it.
    "BACKLOG_WEBHOOK_SECRET",
    "BACKLOG_HEADER",
];

/// A shell's words for a command that cannot be run, and for one that is not there.
pub const EXIT_UNABLE: [i32; 2] = [126, 127];
/// What timeout(1) exits with.
pub const EXIT_TIMEOUT: i32 = 124;

/// A process with its pipes, which leads a group of its own. It is made to end in steps: it may end
/// by itself, it is asked with SIGTERM, it is killed.
pub struct Process<Why> {
    child: Child,
    /// Readable once it has.
    ended: OwnedFd,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
    /// As long as it lives, so do its ends of the two pipes: when the process ends, they do not,
    /// and there is one thing to wake up for instead of three.
    _command: Command,
    /// Why it is made to end, if it is.
    pub why: Option<Why>,
    /// When the next step is taken, if it does not end until then.
    pub deadline: Option<Monotonic>,
    /// Whether it was asked to end.
    pub is_forced: bool,
}

impl<Why: Copy> Process<Why> {
    /// Starts it with the reading end of its input.
    pub fn start(mut command: Command, stdin: OwnedFd) -> io::Result<Self> {
        let (stdout, its_stdout) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stderr, its_stderr) = pipe_with(PipeFlags::CLOEXEC)?;
        command.stdin(stdin).stdout(its_stdout).stderr(its_stderr);
        let mut child = command.spawn()?;
        // Its input is its own: once it does not read any more, nobody does.
        command.stdin(Stdio::null());
        let ended = match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(ended) => ended,
            Err(errno) => {
                let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
                child.wait()?;
                return Err(errno.into());
            }
        };
        let (why, deadline, is_forced) = (None, None, false);
        Ok(Self { child, ended, stdout, stderr, _command: command, why, deadline, is_forced })
    }

    /// Waits until it has ended, has said something, or one of the others is ready, at most
    /// `timeout`: which of its end, its two outputs and the first two of the others it was. One
    /// that is interrupted ends with none.
    pub fn wait<'a>(
        &'a self,
        others: impl IntoIterator<Item = PollFd<'a>>,
        timeout: Option<Duration>,
    ) -> io::Result<[bool; 5]> {
        let mut fds = Vec::with_capacity(6);
        fds.extend(
            [&self.ended, &self.stdout, &self.stderr].map(|fd| PollFd::new(fd, PollFlags::IN)),
        );
        fds.extend(others);
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok([false; 5]),
            Err(errno) => return Err(errno.into()),
        }
        Ok([0, 1, 2, 3, 4].map(|at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty())))
    }

    /// Signals it and its group, which it may have left.
    fn signal(&self, signal: Signal) {
        let _ = kill_process_group(Pid::from_child(&self.child), signal);
        let _ = pidfd_send_signal(&self.ended, signal);
    }

    /// Kills what it leaves in the background, after its end. It is not reaped yet, so its number,
    /// and with it the group's, is still its own: the signal cannot reach anybody else.
    pub fn kill_rest(&self) {
        self.signal(Signal::KILL);
    }

    /// Reaps it, after its end. What it leaves in the background must be dead by then.
    pub fn reap(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }

    /// It may end by itself until then, or sooner if that was said before.
    pub fn end_by(&mut self, why: Why, at: Monotonic) {
        if !self.is_forced {
            self.why.get_or_insert(why);
            self.deadline = self.deadline.into_iter().chain([at]).min();
        }
    }

    pub fn ask(&mut self, why: Why, kill_at: Monotonic) {
        self.signal(Signal::TERM);
        (self.why, self.deadline, self.is_forced) = (Some(why), Some(kill_at), true);
    }

    /// Takes the next step if its time has come.
    pub fn step(&mut self, now: Monotonic) {
        let Some(why) = self.why.filter(|_| self.deadline.is_some_and(|at| at <= now)) else {
            return;
        };
        if self.is_forced {
            self.signal(Signal::KILL);
            self.deadline = None;
        } else {
            self.ask(why, now + KILL_DELAY);
        }
    }
}

/// A command with what all handlers of a pass have in common.
pub fn command<Word: AsRef<OsStr>>(
    argv: impl IntoIterator<Item = Word>,
    env: &[(&str, String)],
) -> Command {
    let mut argv = argv.into_iter();
    let mut command = argv.next().map_or_else(|| Command::new(""), Command::new);
    for name in NOT_INHERITED {
        command.env_remove(name);
    }
    command
        .args(argv)
        .envs(env.iter().map(|(name, value)| (name, value)))
        // A group of its own, so that a signal reaches what it has started.
        .process_group(0);
    command
}

/// Whether a read would not block.
pub fn is_readable(pipe: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(pipe, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// Reads what is left in a pipe, without waiting for its end: `read` says how much it read, as long
/// as there is something to read.
pub fn read_leftovers(mut read: impl FnMut() -> Option<usize>) {
    let mut left = LEFTOVER;
    while left > 0
        && let Some(count) = read().filter(|count| *count > 0)
    {
        left = left.saturating_sub(count);
    }
}

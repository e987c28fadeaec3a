//! A process of a handler, and what there is to know of it however long it stays.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};

/// How much is read of a log at a time.
pub const CHUNK: usize = 16 * 1024;
/// How much of what is left in a pipe is read after the process's end. No pipe of an
/// unprivileged process holds more; a grandchild may go on writing for ever.
const LEFTOVER: usize = 1024 * 1024;
/// How long a stopped pass waits between asking a handler to end and killing it.
pub const STOP_KILL_DELAY: Duration = Duration::from_secs(1);

/// What handlers may be told of their record. One pass may be in the handler of another.
const TOLD: [&str; 6] = [
    "BACKLOG_ID",
    "BACKLOG_STATUS",
    "BACKLOG_DATE_INSERTED",
    "BACKLOG_ATTEMPT",
    "BACKLOG_MAX_ATTEMPTS",
    "BACKLOG_LAST_ERROR",
];

/// What webhooks are sent with: no command of a record's needs to know it.
const SECRETS: [&str; 2] = ["BACKLOG_WEBHOOK_SECRET", "BACKLOG_HEADER"];

/// A shell's words for a command that cannot be run, and for one that is not there.
pub const EXIT_UNABLE: [i32; 2] = [126, 127];
/// What timeout(1) exits with.
pub const EXIT_TIMEOUT: i32 = 124;

/// A process with its pipes. It leads a group of its own.
pub struct Spawned {
    child: Child,
    /// Readable once it has ended.
    pub process: OwnedFd,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
    /// As long as it lives, so do its ends of the two pipes: when the process ends, they do not,
    /// and there is one thing to wake up for instead of three.
    _command: Command,
}

impl Spawned {
    /// Starts it with the reading end of its input.
    pub fn start(mut command: Command, stdin: OwnedFd) -> io::Result<Self> {
        let (stdout, its_stdout) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stderr, its_stderr) = pipe_with(PipeFlags::CLOEXEC)?;
        command.stdin(stdin).stdout(its_stdout).stderr(its_stderr);
        let mut child = command.spawn()?;
        // Its input is its own: once it does not read any more, nobody does.
        command.stdin(Stdio::null());
        match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(process) => Ok(Self { child, process, stdout, stderr, _command: command }),
            Err(errno) => {
                let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
                child.wait()?;
                Err(errno.into())
            }
        }
    }

    /// Signals it and its group, which it may have left.
    pub fn signal(&self, signal: Signal) {
        let _ = kill_process_group(Pid::from_child(&self.child), signal);
        let _ = pidfd_send_signal(&self.process, signal);
    }

    /// Reaps it, after its end. What it leaves in the background must be dead by then.
    pub fn reap(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }
}

/// A command with what all handlers of a pass have in common.
pub fn command<Word: AsRef<OsStr>>(
    argv: impl IntoIterator<Item = Word>,
    env: &[(&str, String)],
) -> Command {
    let mut argv = argv.into_iter();
    let mut command = argv.next().map_or_else(|| Command::new(""), Command::new);
    for name in TOLD.iter().chain(&SECRETS) {
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

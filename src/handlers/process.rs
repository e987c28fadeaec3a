//! A process of a handler, for one record or for many: its pipes, and its life cycle from the start
//! to SIGTERM and SIGKILL.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant as Monotonic};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};

/// How much is read of a log at a time.
pub const CHUNK: usize = 16 * 1024;
/// How much of what is left in a pipe is read after the process's end. No pipe of an
/// unprivileged process holds more; a grandchild may go on writing for ever.
const LEFTOVER: usize = 1024 * 1024;
/// How long a handler that has had its grace gets between SIGTERM and SIGKILL.
pub const KILL_DELAY: Duration = Duration::from_secs(1);

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
pub struct Process {
    child: Child,
    /// Readable once it has.
    pub ended: OwnedFd,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
    /// As long as it lives, so do its ends of the two pipes: when the process ends, they do not,
    /// and there is one thing to wake up for instead of three.
    _command: Command,
}

impl Process {
    /// Starts it with the reading end of its input.
    pub fn start(mut command: Command, stdin: OwnedFd) -> io::Result<Self> {
        let (stdout, its_stdout) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stderr, its_stderr) = pipe_with(PipeFlags::CLOEXEC)?;
        command.stdin(stdin).stdout(its_stdout).stderr(its_stderr);
        let mut child = command.spawn()?;
        // Its input is its own: once it does not read any more, nobody does.
        command.stdin(Stdio::null());
        match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(ended) => Ok(Self { child, ended, stdout, stderr, _command: command }),
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
        let _ = pidfd_send_signal(&self.ended, signal);
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

/// The life cycle of a process, which is made to end in steps: it may end by itself, it is asked with
/// SIGTERM, it is killed.
pub struct Lifecycle<Why> {
    stage: Stage<Why>,
}

#[derive(Clone, Copy)]
enum Stage<Why> {
    Running,
    /// It is to end by itself.
    Ending {
        why: Why,
        until: Monotonic,
    },
    Asked {
        why: Why,
        kill_at: Monotonic,
    },
    Killed {
        why: Why,
    },
}

impl<Why: Copy> Lifecycle<Why> {
    pub fn new() -> Self {
        Self { stage: Stage::Running }
    }

    pub fn is_running(&self) -> bool {
        matches!(self.stage, Stage::Running)
    }

    /// Whether it was asked to end.
    pub fn is_forced(&self) -> bool {
        matches!(self.stage, Stage::Asked { .. } | Stage::Killed { .. })
    }

    /// Why it is made to end, if it is.
    pub fn why(&self) -> Option<Why> {
        match self.stage {
            Stage::Running => None,
            Stage::Ending { why, .. } | Stage::Asked { why, .. } | Stage::Killed { why } => {
                Some(why)
            }
        }
    }

    /// When the next step is taken, if it does not end until then.
    pub fn deadline(&self) -> Option<Monotonic> {
        match self.stage {
            Stage::Running | Stage::Killed { .. } => None,
            Stage::Ending { until, .. } => Some(until),
            Stage::Asked { kill_at, .. } => Some(kill_at),
        }
    }

    /// It may end by itself until then, or sooner if that was said before.
    pub fn end_by(&mut self, why: Why, at: Monotonic) {
        self.stage = match self.stage {
            Stage::Running => Stage::Ending { why, until: at },
            Stage::Ending { why, until } => Stage::Ending { why, until: until.min(at) },
            asked @ (Stage::Asked { .. } | Stage::Killed { .. }) => asked,
        };
    }

    /// Asks it to end.
    pub fn ask(&mut self, process: &Process, why: Why, kill_at: Monotonic) {
        process.signal(Signal::TERM);
        self.stage = Stage::Asked { why, kill_at };
    }

    /// Takes the next step if its time has come.
    pub fn step(&mut self, process: &Process, now: Monotonic) {
        match self.stage {
            Stage::Ending { why, until } if until <= now => {
                self.ask(process, why, now + KILL_DELAY);
            }
            Stage::Asked { why, kill_at } if kill_at <= now => {
                process.signal(Signal::KILL);
                self.stage = Stage::Killed { why };
            }
            Stage::Running | Stage::Ending { .. } | Stage::Asked { .. } | Stage::Killed { .. } => {}
        }
    }
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

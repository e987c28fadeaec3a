//! One run of a command: started, fed, read, timed and reaped by one thread, which polls the
//! process and its pipes.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant as Monotonic};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};

use super::tail::Tail;
use crate::clock::Clock;
use crate::record::one_line;

/// What a write to an empty pipe takes without blocking, on any system (PIPE_BUF).
const PIPE_BUF: usize = 4096;
/// How much is read at a time.
pub const CHUNK: usize = 16 * 1024;
/// How much of what is left in a pipe is read after the command's end. No pipe of an
/// unprivileged process holds more; a grandchild may go on writing for ever.
pub const LEFTOVER: usize = 1024 * 1024;
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

/// A shell's words for a command that cannot be run, and for one that is not there.
pub const EXIT_UNABLE: [i32; 2] = [126, 127];
/// What timeout(1) exits with.
pub const EXIT_TIMEOUT: i32 = 124;

/// How a command ended.
pub struct Ended {
    pub status: ExitStatus,
    /// Whether it was ended from outside, and why.
    pub forced: Option<Forced>,
    /// Whether the pass was stopping when it ended.
    pub stopping: bool,
    pub stdout: Tail,
    pub stderr: Tail,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forced {
    Timeout,
    Stop,
}

/// The bounds that a command runs within.
pub struct Bounds<'a> {
    pub clock: Clock,
    pub timeout: Option<Duration>,
    /// Between the request to end and the kill, after a timeout.
    pub grace: Duration,
    /// One becomes readable when the pass stops, the next when it is told to hurry.
    pub stop: &'a [OwnedFd],
    /// How long the command may still run once one has become so.
    pub stop_grace: &'a dyn Fn() -> Duration,
}

/// Starts the command, writes `input` to it and stays with it until its end. Its process group
/// ends with it: what it leaves in the background is killed.
pub fn run(mut command: Command, input: &[u8], bounds: &Bounds) -> io::Result<Ended> {
    let (stdout, its_stdout) = pipe_with(PipeFlags::CLOEXEC)?;
    let (stderr, its_stderr) = pipe_with(PipeFlags::CLOEXEC)?;
    // As long as `command` lives, so do its ends of the pipes: when the process ends, they do
    // not, and there is one thing to wake up for instead of three.
    command.stdin(Stdio::piped()).stdout(its_stdout).stderr(its_stderr);
    let mut child = command.spawn()?;
    let group = Pid::from_child(&child);
    match Attended::new(&mut child, input, stdout, stderr) {
        Ok(mut attended) => {
            let stayed = attended.stay(group, bounds);
            // The child is not reaped yet, so its number, and with it the group's, is still its
            // own: the signal cannot reach anybody else.
            let _ = kill_process_group(group, Signal::KILL);
            attended.read_leftovers();
            let Attended { stdout, stderr, .. } = attended;
            let status = child.wait()?;
            let (forced, stopping) = stayed?;
            Ok(Ended { status, forced, stopping, stdout: stdout.tail, stderr: stderr.tail })
        }
        Err(error) => {
            let _ = kill_process_group(group, Signal::KILL);
            child.wait()?;
            Err(error)
        }
    }
}

/// A running command with its pipes.
struct Attended<'a> {
    process: OwnedFd,
    stdin: Option<ChildStdin>,
    input: &'a [u8],
    stdout: Output,
    stderr: Output,
}

/// One output pipe. Its end is never seen: the process's own end is what counts.
struct Output {
    pipe: OwnedFd,
    tail: Tail,
}

/// How far a command has been told to end.
#[derive(Clone, Copy)]
enum Stage {
    Running { deadline: Option<Monotonic>, stops: usize },
    Asked { why: Forced, kill_at: Monotonic },
    Killed { why: Forced },
}

impl<'a> Attended<'a> {
    fn new(
        child: &mut Child,
        input: &'a [u8],
        stdout: OwnedFd,
        stderr: OwnedFd,
    ) -> io::Result<Self> {
        let mut attended = Self {
            stdin: child.stdin.take(),
            input,
            stdout: Output { pipe: stdout, tail: Tail::default() },
            stderr: Output { pipe: stderr, tail: Tail::default() },
            process: pidfd_open(Pid::from_child(child), PidfdFlags::empty())?,
        };
        if input.len() <= PIPE_BUF {
            attended.write();
        } else if let Some(stdin) = &attended.stdin {
            rustix::io::ioctl_fionbio(stdin, true)?;
        }
        Ok(attended)
    }

    /// Serves the pipes until the command has ended, and makes it end when its time is up.
    /// Says whether it had to be made, and whether the pass was stopping.
    fn stay(&mut self, group: Pid, bounds: &Bounds) -> io::Result<(Option<Forced>, bool)> {
        let clock = bounds.clock;
        let mut stage = Stage::Running {
            deadline: bounds.timeout.and_then(|timeout| clock.monotonic().checked_add(timeout)),
            stops: 0,
        };
        loop {
            let (deadline, stop) = match stage {
                Stage::Running { deadline, stops } => (deadline, bounds.stop.get(stops)),
                Stage::Asked { kill_at, .. } => (Some(kill_at), None),
                Stage::Killed { .. } => (None, None),
            };
            let woken = self.wait(deadline.map(|at| clock.until(at)), stop)?;
            if woken.ended {
                return Ok(match stage {
                    Stage::Running { stops, .. } => (None, stops > 0),
                    Stage::Asked { why, .. } | Stage::Killed { why } => {
                        (Some(why), why == Forced::Stop)
                    }
                });
            }
            stage = match stage {
                Stage::Running { deadline, stops } if woken.stop => {
                    let stop_at = clock.monotonic() + (bounds.stop_grace)();
                    let sooner = deadline.is_some_and(|deadline| deadline <= stop_at);
                    let deadline = if sooner { deadline } else { Some(stop_at) };
                    Stage::Running { deadline, stops: stops + 1 }
                }
                Stage::Running { deadline: Some(at), stops } if clock.until(at).is_zero() => {
                    signal(&self.process, group, Signal::TERM);
                    let (why, grace) = if stops > 0 {
                        (Forced::Stop, STOP_KILL_DELAY)
                    } else {
                        (Forced::Timeout, bounds.grace)
                    };
                    Stage::Asked { why, kill_at: clock.monotonic() + grace }
                }
                Stage::Asked { why, kill_at } if clock.until(kill_at).is_zero() => {
                    signal(&self.process, group, Signal::KILL);
                    Stage::Killed { why }
                }
                unchanged
                @ (Stage::Running { .. } | Stage::Asked { .. } | Stage::Killed { .. }) => unchanged,
            };
        }
    }

    /// Waits for something to happen, at most `timeout`, and serves what did.
    fn wait(&mut self, timeout: Option<Duration>, stop: Option<&OwnedFd>) -> io::Result<Woken> {
        let mut fds = Vec::with_capacity(5);
        fds.push(PollFd::new(&self.process, PollFlags::IN));
        let out = watch(&mut fds, Some(&self.stdout.pipe), PollFlags::IN);
        let err = watch(&mut fds, Some(&self.stderr.pipe), PollFlags::IN);
        let input = watch(&mut fds, self.stdin.as_ref(), PollFlags::OUT);
        let stop = watch(&mut fds, stop, PollFlags::IN);
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => {
                return Ok(Woken { ended: false, stop: false });
            }
            Err(errno) => return Err(errno.into()),
        }
        let ready =
            |index: Option<usize>| index.is_some_and(|index| !fds[index].revents().is_empty());
        let woken = Woken { ended: ready(Some(0)), stop: ready(stop) };
        let (out, err, input) = (ready(out), ready(err), ready(input));
        if !woken.ended {
            if out {
                self.stdout.read();
            }
            if err {
                self.stderr.read();
            }
            if input {
                self.write();
            }
        }
        Ok(woken)
    }

    /// Writes what the pipe takes. A command that does not read its input is none the worse
    /// for it.
    fn write(&mut self) {
        let Some(stdin) = &mut self.stdin else { return };
        match stdin.write(self.input) {
            Ok(written) if written < self.input.len() => self.input = &self.input[written..],
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) => {}
            Ok(_) | Err(_) => self.stdin = None,
        }
    }

    /// Reads what is still in the pipes, without waiting for their end.
    fn read_leftovers(&mut self) {
        for output in [&mut self.stdout, &mut self.stderr] {
            let mut left = LEFTOVER;
            while left > 0 && is_readable(&output.pipe) {
                match output.read() {
                    0 => break,
                    count => left = left.saturating_sub(count),
                }
            }
        }
    }
}

/// Adds a descriptor to what is polled, if there is one; says where it stands.
pub fn watch<'fd>(
    fds: &mut Vec<PollFd<'fd>>,
    fd: Option<&'fd impl AsFd>,
    flags: PollFlags,
) -> Option<usize> {
    fds.push(PollFd::new(fd?, flags));
    Some(fds.len() - 1)
}

/// Why `wait` returned, besides the pipes.
struct Woken {
    ended: bool,
    stop: bool,
}

/// Whether a read would not block.
pub fn is_readable(pipe: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(pipe, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// A command with what all handlers of a pass have in common.
pub fn command<Word: AsRef<OsStr>>(
    argv: impl IntoIterator<Item = Word>,
    env: &[(&str, String)],
) -> Command {
    let mut argv = argv.into_iter();
    let mut command = argv.next().map_or_else(|| Command::new(""), Command::new);
    for name in TOLD {
        command.env_remove(name);
    }
    command
        .args(argv)
        .envs(env.iter().map(|(name, value)| (name, value)))
        // A group of its own, so that a signal reaches what it has started.
        .process_group(0);
    command
}

/// Signals a process and its group. It may have left that.
pub fn signal(process: &OwnedFd, group: Pid, signal: Signal) {
    let _ = kill_process_group(group, signal);
    let _ = pidfd_send_signal(process, signal);
}

/// Why a program could not be started, and what to do about it.
pub fn could_not_run(error: &io::Error, program: &OsStr) -> String {
    let program = one_line(&program.to_string_lossy());
    let hint = match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOENT) => "; is it in PATH, or its path absolute?",
        Some(Errno::ACCESS) => "; is it executable?",
        Some(Errno::NOEXEC) => "; does it begin with #! and an interpreter?",
        Some(Errno::MFILE | Errno::AGAIN) => "; lower --jobs",
        _ => "",
    };
    format!("could not run {program}: {error}{hint}")
}

impl Output {
    /// Reads once, which does not block after poll said so; says how much there was.
    fn read(&mut self) -> usize {
        let mut chunk = [0; CHUNK];
        let count = rustix::io::read(&self.pipe, &mut chunk).unwrap_or(0);
        self.tail.push(&chunk[..count]);
        count
    }
}

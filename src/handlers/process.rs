//! One run of a command: started, read, timed and reaped by one thread, which polls the process and
//! its pipes.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant as Monotonic};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;

use super::spawned::{self, CHUNK, STOP_KILL_DELAY, Spawned, is_readable};
use super::tail::Tail;
use crate::clock::Clock;

/// The end of a command.
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

/// Starts the command with this standard input and stays with it until its end. Its process group
/// ends with it: what it leaves in the background is killed.
pub fn run(command: Command, input: OwnedFd, bounds: &Bounds) -> io::Result<Ended> {
    let mut monitored = Monitored {
        spawned: Spawned::start(command, input)?,
        stdout: Tail::default(),
        stderr: Tail::default(),
    };
    let stayed = monitored.stay(bounds);
    // It is not reaped yet, so its number, and with it the group's, is still its own: the signal
    // cannot reach anybody else.
    monitored.spawned.signal(Signal::KILL);
    monitored.read_leftovers();
    let status = monitored.spawned.reap()?;
    let (forced, stopping) = stayed?;
    let Monitored { stdout, stderr, .. } = monitored;
    Ok(Ended { status, forced, stopping, stdout, stderr })
}

/// A running command with what it has said.
struct Monitored {
    spawned: Spawned,
    stdout: Tail,
    stderr: Tail,
}

/// The stage of a command on its way to its end.
#[derive(Clone, Copy)]
enum Stage {
    Running { deadline: Option<Monotonic>, stops: usize },
    Asked { why: Forced, kill_at: Monotonic },
    Killed { why: Forced },
}

impl Monitored {
    /// Reads what the command says until it has ended, and makes it end when its time is up.
    /// Says whether it had to be made, and whether the pass was stopping.
    fn stay(&mut self, bounds: &Bounds) -> io::Result<(Option<Forced>, bool)> {
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
                    self.spawned.signal(Signal::TERM);
                    let (why, grace) = if stops > 0 {
                        (Forced::Stop, STOP_KILL_DELAY)
                    } else {
                        (Forced::Timeout, bounds.grace)
                    };
                    Stage::Asked { why, kill_at: clock.monotonic() + grace }
                }
                Stage::Asked { why, kill_at } if clock.until(kill_at).is_zero() => {
                    self.spawned.signal(Signal::KILL);
                    Stage::Killed { why }
                }
                unchanged
                @ (Stage::Running { .. } | Stage::Asked { .. } | Stage::Killed { .. }) => unchanged,
            };
        }
    }

    /// Waits for something to happen, at most `timeout`, and reads what was said.
    fn wait(&mut self, timeout: Option<Duration>, stop: Option<&OwnedFd>) -> io::Result<Woken> {
        let mut fds = Vec::with_capacity(4);
        fds.push(PollFd::new(&self.spawned.process, PollFlags::IN));
        fds.push(PollFd::new(&self.spawned.stdout, PollFlags::IN));
        fds.push(PollFd::new(&self.spawned.stderr, PollFlags::IN));
        fds.extend(stop.map(|stop| PollFd::new(stop, PollFlags::IN)));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => {
                return Ok(Woken { ended: false, stop: false });
            }
            Err(errno) => return Err(errno.into()),
        }
        let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
        let mut next = || ready.next().unwrap_or(false);
        let (ended, stdout, stderr, stop) = (next(), next(), next(), next());
        if stdout && !ended {
            read(&self.spawned.stdout, &mut self.stdout);
        }
        if stderr && !ended {
            read(&self.spawned.stderr, &mut self.stderr);
        }
        Ok(Woken { ended, stop })
    }

    fn read_leftovers(&mut self) {
        let Self { spawned, stdout, stderr } = self;
        for (pipe, tail) in [(&spawned.stdout, stdout), (&spawned.stderr, stderr)] {
            spawned::read_leftovers(|| is_readable(pipe).then(|| read(pipe, tail)));
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

/// The reason why `wait` returned, besides the pipes.
struct Woken {
    ended: bool,
    stop: bool,
}

//! The watchdog: a small process that outlives a killed pass by a few milliseconds.
//!
//! When a pass is killed, the kernel drops its claims at once, but the handlers that it
//! had started live on, and the next pass would run their records beside them. So each pass
//! starts one watchdog, which holds a duplicate of the claims' file description (the locks live
//! as long as any duplicate) and reads from a socket whose other end only the pass has. When that
//! is closed it kills whatever carries the mark of the pass, and only then goes.
//!
//! The mark is twofold: a token in the environment, and an open descriptor of a pipe that nothing
//! is ever written to, which all descendants of the pass inherit. So a handler that resets its
//! environment, as `su -` does, is found as well. The token comes over the socket: a command line
//! is for everybody to read.
//!
//! A watchdog that dies is replaced. Where it dies together with its pass, the note of the pass in the
//! state directory remains; see [`super::state_dir`].

use std::fs;
use std::io::ErrorKind::{ConnectionReset, UnexpectedEof};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd, retry_on_intr};
use rustix::pipe::{PipeFlags, pipe_with};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::interrupt::OwnedThread;
use super::orphans::{Mark, WATCHDOG, own_beginning};
use crate::exit::usage;
use crate::lock::lock;

/// Where the inherited descriptor stands at least: out of the way of scripts that number theirs.
const MARKER_FROM: i32 = 30;

/// How often a watchdog is replaced, so that a pass does not spend its time on starting watchdogs.
const MAX_RESTARTS: u32 = 100;
/// How long to wait where one cannot be started.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// A watchdog at work, as the pass holds it.
pub struct Watchdog {
    watch: Arc<Mutex<Watched>>,
    /// Sees the watchdog die.
    supervisor: Option<OwnedThread>,
}

/// The process, and what another one needs to take its place.
struct Watched {
    child: Child,
    line: UnixStream,
    claims: Option<OwnedFd>,
    token: String,
    /// What the handlers inherit. This process has it open as well.
    marker: Option<OwnedFd>,
}

impl Watchdog {
    /// Starts a watchdog that keeps `claims`, if there is a descriptor that holds them, until every
    /// process with `token` or the marker is gone. It watches when this returns.
    pub fn start(claims: Option<OwnedFd>, token: &str) -> Result<Self> {
        let marker = marker().context("could not make the pipe that marks the handlers")?;
        let (child, line) = spawn(claims.as_ref(), token, &marker)?;
        // Not before now, so that the watchdog has it as its standard error only.
        fcntl_setfd(&marker, FdFlags::empty()).context("could not have the marker inherited")?;
        let watch = Watched { child, line, claims, token: token.into(), marker: Some(marker) };
        let watch = Arc::new(Mutex::new(watch));
        let seen = watch.clone();
        let failure = "could not start a thread for the watchdog of the handlers";
        let supervisor = OwnedThread::start("watchdog", failure, move |end| supervise(&seen, end))?;
        Ok(Self { watch, supervisor: Some(supervisor) })
    }
}

impl Drop for Watchdog {
    /// Tells the watchdog that the pass ended well. In a panic it is told nothing: handlers may
    /// still be running.
    fn drop(&mut self) {
        self.supervisor = None;
        let mut watch = lock(&self.watch);
        // In a panic the watchdog would take this process for a handler.
        watch.marker = None;
        if !std::thread::panicking() {
            let _ = watch.line.write_all(b".");
        }
        let _ = watch.line.shutdown(Shutdown::Both);
        let _ = watch.child.wait();
    }
}

/// Replaces the watchdog whenever it dies, until the pipe ends.
fn supervise(watch: &Mutex<Watched>, end: &OwnedFd) {
    for _ in 0..MAX_RESTARTS {
        let Ok(line) = lock(watch).line.try_clone() else { break };
        // Nothing comes from a watchdog that watches, but its end.
        let mut events = [PollFd::new(&line, PollFlags::IN), PollFd::new(end, PollFlags::IN)];
        if retry_on_intr(|| poll(&mut events, None)).is_err() || !events[1].revents().is_empty() {
            return;
        }
        log::warn!("the watchdog of the handlers died; starting another");
        if let Err(error) = lock(watch).replace() {
            log::warn!("{error:#}; trying again");
            let mut ended = [PollFd::new(end, PollFlags::IN)];
            if retry_on_intr(|| poll(&mut ended, Some(&PAUSE))).is_ok_and(|ready| ready > 0) {
                return;
            }
        }
    }
    log::error!(
        "no watchdog watches over the handlers: they would outlive this pass if it were killed"
    );
}

impl Watched {
    /// Starts another watchdog in the place of one that has died.
    fn replace(&mut self) -> Result<()> {
        let _ = self.child.wait();
        if let Some(marker) = &self.marker {
            (self.child, self.line) = spawn(self.claims.as_ref(), &self.token, marker)?;
        }
        Ok(())
    }
}

fn spawn(claims: Option<&OwnedFd>, token: &str, marker: &OwnedFd) -> Result<(Child, UnixStream)> {
    let duplicate = |fd: &OwnedFd| {
        fd.as_fd().try_clone_to_owned().context("could not duplicate a descriptor for the watchdog")
    };
    let (claims, its_marker) = (claims.map(duplicate).transpose()?, duplicate(marker)?);
    let (mut line, its_line) =
        UnixStream::pair().context("could not make a socket for the watchdog of the handlers")?;
    // This process's copy of the watchdog's end goes with the statement, so that it sees an early
    // end of the watchdog.
    let child = Command::new("/proc/self/exe")
        .arg(WATCHDOG)
        .stdin(OwnedFd::from(its_line))
        .stdout(claims.map_or_else(Stdio::null, Stdio::from))
        .stderr(its_marker)
        .arg0("backlog")
        .env_clear()
        // A Ctrl-C at the terminal must not end the watchdog along with the pass.
        .process_group(0)
        .spawn()
        .context("could not start the watchdog of the handlers")?;
    let told = format!("{token} {}\n", own_beginning()?);
    // Until it answers a signal would end the watchdog.
    line.write_all(told.as_bytes())
        .and_then(|()| line.read_exact(&mut [0]))
        .context("the watchdog of the handlers did not start")?;
    Ok((child, line))
}

fn marker() -> rustix::io::Result<OwnedFd> {
    let (marker, _) = pipe_with(PipeFlags::CLOEXEC)?;
    // With a low limit of descriptors it stays where it is.
    Ok(fcntl_dupfd_cloexec(&marker, MARKER_FROM).unwrap_or(marker))
}

/// What the watchdog does: waits for the end of the pass, and cleans up if it was not a good one.
pub fn run_watchdog() -> Result<()> {
    require_descriptors()?;
    // Whoever signals everything that is called backlog means the pass, which ends in its own
    // time. The watchdog goes when the pass has gone.
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::default())
            .context("could not ignore the signals that are meant for the pass")?;
    }
    let mut pass = BufReader::new(io::stdin());
    let mut told = String::new();
    pass.read_line(&mut told).context("could not read what to watch over")?;
    let (token, since) = told.trim_end().split_once(' ').context("nothing to watch over")?;
    let mut mark = Mark::new(token, since.parse().context("nothing to watch over")?);
    let marker = fs::read_link("/proc/self/fd/2").context("could not read the marker")?;
    mark.descriptor = Some(marker);
    // Whoever cannot be told that the watchdog watches has gone already: that is seen below.
    let _ = rustix::io::write(io::stdin(), b".");
    match pass.read_exact(&mut [0]) {
        Ok(()) => Ok(()),
        // It is reset if it was closed before all was read that was sent to it.
        Err(error) if matches!(error.kind(), UnexpectedEof | ConnectionReset) => mark.kill_all(),
        Err(error) => Err(error).context("could not wait for the end of the pass"),
    }
}

/// Fails unless a pass has started this: anybody else could only have processes killed with it.
fn require_descriptors() -> Result<()> {
    let kind = |fd: &dyn AsFd| fstat(fd.as_fd()).map(|it| FileType::from_raw_mode(it.st_mode)).ok();
    let is_passes = kind(&io::stdin()) == Some(FileType::Socket)
        && kind(&io::stderr()) == Some(FileType::Fifo)
        && rustix::net::sockopt::socket_peercred(io::stdin()).is_ok_and(|peer| {
            Some(peer.pid) == rustix::process::getppid() && peer.uid == rustix::process::geteuid()
        });
    ensure!(
        is_passes,
        usage("watchdog is started by `process` alone; there is nothing to watch over")
    );
    Ok(())
}

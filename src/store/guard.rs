//! The guard: a small process that outlives a killed pass by a few milliseconds.
//!
//! When a pass is killed, the kernel drops its claims at once, but the handlers that it
//! had started live on, and the next pass would run their records beside them. So each pass
//! starts one guard, which holds a duplicate of the claims' file description (the locks live
//! as long as any duplicate) and reads from a socket whose other end only the pass has. When that
//! is closed it kills whatever carries the mark of the pass, and only then goes.
//!
//! The mark is twofold: a token in the environment, and an open descriptor of a pipe that nothing
//! is ever written to, which all descendants of the pass inherit. So a handler that resets its
//! environment, as `su -` does, is found as well.

use std::fs;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd, retry_on_intr};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// The variable that marks a handler, and whatever it starts, as belonging to a pass.
pub const TOKEN: &str = "BACKLOG_PASS";

/// The name of the hidden subcommand that is the guard.
const SUBCOMMAND: &str = "guard";

/// Where the inherited descriptor stands at least: out of the way of scripts that number theirs.
const MARKER_FROM: i32 = 30;

/// A running guard, as the pass holds it.
pub struct Guard {
    child: Child,
    line: UnixStream,
    /// What the handlers inherit. This process has it open as well.
    marker: Option<OwnedFd>,
}

impl Guard {
    /// Starts a guard that keeps `claims`, if there is a descriptor that holds them, until every
    /// process with `token` or the marker is gone. It watches when this returns.
    pub fn start(claims: Option<OwnedFd>, token: &str) -> Result<Self> {
        let marker = marker().context("could not make the pipe that marks the handlers")?;
        let its_marker = marker.try_clone().context("could not duplicate the marker")?;
        let (mut line, its_line) =
            UnixStream::pair().context("could not make a socket for the guard of the handlers")?;
        // This process's copy of the guard's end goes with the statement, so that it sees an early
        // end of the guard.
        let child = Command::new("/proc/self/exe")
            .args([SUBCOMMAND, token])
            .stdin(OwnedFd::from(its_line))
            .stdout(claims.map_or_else(Stdio::null, Stdio::from))
            .stderr(its_marker)
            .arg0("backlog")
            .env_clear()
            // A Ctrl-C at the terminal must not end the guard along with the pass.
            .process_group(0)
            .spawn()
            .context("could not start the guard of the handlers")?;
        // Until then a signal would end the guard.
        line.read_exact(&mut [0]).context("the guard of the handlers did not start")?;
        // Not before now, so that the guard has it as its standard error only.
        fcntl_setfd(&marker, FdFlags::empty()).context("could not have the marker inherited")?;
        Ok(Self { child, line, marker: Some(marker) })
    }
}

impl Drop for Guard {
    /// Tells the guard that the pass ended well. In a panic it is told nothing: handlers may
    /// still be running.
    fn drop(&mut self) {
        // In a panic the guard would take this process for a handler.
        self.marker = None;
        if !std::thread::panicking() {
            let _ = self.line.write_all(b".");
        }
        let _ = self.line.shutdown(Shutdown::Both);
        let _ = self.child.wait();
    }
}

fn marker() -> rustix::io::Result<OwnedFd> {
    let (marker, _) = pipe_with(PipeFlags::CLOEXEC)?;
    // With a low limit of descriptors it stays where it is.
    Ok(fcntl_dupfd_cloexec(&marker, MARKER_FROM).unwrap_or(marker))
}

/// What the guard does: waits for the end of the pass, and cleans up if it was not a good one.
pub fn keep_watch(token: &str) -> Result<()> {
    // Whoever signals everything that is called backlog means the pass, which ends in its own
    // time. The guard goes when the pass has gone.
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::default())
            .context("could not ignore the signals that are meant for the pass")?;
    }
    // Whoever cannot be told that the guard watches has gone already: that is seen below.
    let _ = rustix::io::write(io::stdin(), b".");
    match io::stdin().read_exact(&mut [0]) {
        Ok(()) => return Ok(()),
        Err(error) if is_end(&error) => {}
        Err(error) => return Err(error).context("could not wait for the end of the pass"),
    }
    let mark = Mark {
        variable: format!("{TOKEN}={token}").into_bytes(),
        descriptor: fs::read_link("/proc/self/fd/2").context("could not read the marker")?,
    };
    // A handler that was just being started shows its environment a moment later.
    let mut quiet = 0;
    while quiet < 3 {
        quiet = if kill_marked(&mark)? == 0 { quiet + 1 } else { 0 };
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Whether the other end was closed. It is reset if it was before all was read that was sent to it.
fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset)
}

/// What a descendant of the pass carries, at least one of both.
struct Mark {
    variable: Vec<u8>,
    /// `pipe:[NUMBER]`
    descriptor: PathBuf,
}

impl Mark {
    fn is_on(&self, pid: Pid) -> bool {
        let proc = PathBuf::from(format!("/proc/{}", pid.as_raw_pid()));
        let environment = fs::read(proc.join("environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|entry| entry == self.variable) {
            return true;
        }
        let descriptors = fs::read_dir(proc.join("fd")).into_iter().flatten().flatten();
        let inherited = descriptors
            .filter_map(|entry| fs::read_link(entry.path()).ok())
            .any(|target| target == self.descriptor);
        inherited && !is_guard(&proc)
    }
}

/// Whether a process is a guard: this one, or that of a pass which a handler started. It ends by
/// itself, not before its own handlers.
fn is_guard(proc: &Path) -> bool {
    let command = format!("backlog\0{SUBCOMMAND}\0");
    fs::read(proc.join("cmdline")).is_ok_and(|it| it.starts_with(command.as_bytes()))
}

/// Kills every process that carries the mark, and waits until it is dead; says how many there were.
fn kill_marked(mark: &Mark) -> Result<usize> {
    let mut killed = Vec::new();
    for entry in fs::read_dir("/proc").context("could not read /proc")? {
        let Some(pid) = entry.ok().and_then(|entry| entry.file_name().to_str()?.parse().ok())
        else {
            continue;
        };
        // The descriptor is taken before the look, so that the signal cannot
        // reach another process that got the same number in between.
        let Some(pid) = Pid::from_raw(pid) else {
            continue;
        };
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else {
            continue;
        };
        if mark.is_on(pid) && pidfd_send_signal(&process, Signal::KILL).is_ok() {
            killed.push(process);
        }
    }
    // What is being killed loses its mark some time before it has done with its last system call.
    for process in &killed {
        let mut end = [PollFd::new(process, PollFlags::IN)];
        retry_on_intr(|| poll(&mut end, None))
            .context("could not wait for the end of a handler")?;
    }
    Ok(killed.len())
}

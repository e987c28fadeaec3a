//! The guard: a small process that outlives a killed pass by a few milliseconds.
//!
//! When a pass is killed, the kernel drops its claims at once, but the handlers that it
//! had started live on, and the next pass would run their records beside them. So each pass
//! starts one guard, which holds a duplicate of the claims' file description (the locks live
//! as long as any duplicate) and reads from a pipe that only the pass can write. At the pipe's
//! end it kills whatever carries the pass's token in its environment, and only then goes.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// The variable that marks a handler, and whatever it starts, as belonging to a pass.
pub const TOKEN: &str = "BACKLOG_PASS";

/// The name of the hidden subcommand that is the guard.
const SUBCOMMAND: &str = "guard";

/// A running guard, as the pass holds it.
pub struct Guard {
    child: Child,
    pipe: Option<ChildStdin>,
}

impl Guard {
    /// Starts a guard that keeps `claims` until every process with `token` is gone.
    pub fn start(claims: BorrowedFd<'_>, token: &str) -> Result<Self> {
        let duplicate = claims.try_clone_to_owned().context("could not duplicate the claims")?;
        let mut child = Command::new("/proc/self/exe")
            .args([SUBCOMMAND, token])
            .stdin(Stdio::piped())
            .stdout(duplicate)
            .stderr(Stdio::null())
            .arg0("backlog")
            .env_clear()
            // A Ctrl-C at the terminal must not end the guard along with the pass.
            .process_group(0)
            .spawn()
            .context("could not start the guard of the handlers")?;
        let pipe = child.stdin.take();
        Ok(Self { child, pipe })
    }
}

impl Drop for Guard {
    /// Tells the guard that the pass ended well. In a panic it is told nothing: handlers may
    /// still be running.
    fn drop(&mut self) {
        if let Some(mut pipe) = self.pipe.take()
            && !std::thread::panicking()
        {
            let _ = pipe.write_all(b".");
        }
        let _ = self.child.wait();
    }
}

/// What the guard does: waits for the end of the pass, and cleans up if it was not a good one.
pub fn keep_watch(token: &str) -> Result<()> {
    // Whoever signals everything that is called backlog means the pass, which ends in its own
    // time. The guard goes when the pass has gone.
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::default())
            .context("could not ignore the signals that are meant for the pass")?;
    }
    let mut byte = [0];
    match io::stdin().read_exact(&mut byte) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
        Err(error) => return Err(error).context("could not wait for the end of the pass"),
    }
    let mark = format!("{TOKEN}={token}").into_bytes();
    // A handler that was just being started shows its environment a moment later.
    let mut quiet = 0;
    while quiet < 3 {
        quiet = if kill_marked(&mark)? == 0 { quiet + 1 } else { 0 };
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Kills every process whose environment holds `mark`; says how many there were.
fn kill_marked(mark: &[u8]) -> Result<usize> {
    let mut killed = 0;
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
        let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_pid()));
        if environment.is_ok_and(|it| it.split(|byte| *byte == 0).any(|entry| entry == mark)) {
            killed += usize::from(pidfd_send_signal(&process, Signal::KILL).is_ok());
        }
    }
    Ok(killed)
}

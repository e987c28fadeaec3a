//! Shortages of descriptors, processes and memory. As many handlers run as the system allows. A command
//! that cannot be started waits until another one has ended.

use std::io;
use std::sync::{Condvar, Mutex, PoisonError};

use backlog_store::lock;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// Descriptors that a handler has open at most: the wake-up of its thread, its process, and both ends of
/// three pipes.
const OF_A_HANDLER: u64 = 8;
/// Descriptors for all else that a pass may come to open: files of the database and of the state directory,
/// new connections, pings, and the command of --on-archive.
const RESERVED: u64 = 32;

/// The number of handlers for which there are descriptors: at most `jobs`, and at least one.
pub fn fitting(jobs: usize) -> usize {
    let Some(limit) = getrlimit(Resource::Nofile).current.filter(|_| jobs > 1) else { return jobs };
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let free = limit.saturating_sub(open as u64).saturating_sub(RESERVED);
    let fitting = usize::try_from(free / OF_A_HANDLER).unwrap_or(jobs).clamp(1, jobs);
    if fitting < jobs {
        log::warn!(
            "the limit of {limit} open files (ulimit -n) allows --jobs {fitting}, not {jobs}"
        );
    }
    fitting
}

/// Whether a command that could not be started could be once another one has ended.
pub fn is_shortage(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE | Errno::AGAIN | Errno::NOMEM))
}

/// The commands that run.
#[derive(Default)]
pub struct Running {
    counts: Mutex<Counts>,
    has_ended: Condvar,
}

#[derive(Default)]
struct Counts {
    running: usize,
    ended: usize,
}

pub struct RunningCommand<'a>(&'a Running);

impl Running {
    /// Counts a command from before its start until this is dropped.
    pub fn begin(&self) -> RunningCommand<'_> {
        lock(&self.counts).running += 1;
        RunningCommand(self)
    }

    /// Waits until a command has ended; false if none runs.
    pub fn wait_for_an_end(&self) -> bool {
        let counts = lock(&self.counts);
        if counts.running == 0 {
            return false;
        }
        let before = counts.ended;
        let waited = self.has_ended.wait_while(counts, |counts| counts.ended == before);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        true
    }
}

impl Drop for RunningCommand<'_> {
    fn drop(&mut self) {
        let mut counts = lock(&self.0.counts);
        counts.running -= 1;
        counts.ended += 1;
        self.0.has_ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    #[test]
    fn a_command_waits_for_the_end_of_one_that_runs_and_of_no_other() {
        let running = Arc::new(Running::default());
        assert!(!running.wait_for_an_end(), "none runs");
        let first = running.begin();
        let waiting = running.clone();
        let waits = thread::spawn(move || waiting.wait_for_an_end());
        // Others that begin meanwhile are no end.
        let second = running.begin();
        drop(first);
        while !waits.is_finished() {
            drop(running.begin());
        }
        assert!(waits.join().unwrap());
        drop(second);
        assert!(!running.wait_for_an_end());
    }
}

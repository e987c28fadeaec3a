//! Threads of handlers. Each takes one job after the other, and is woken when the job's claim is lost.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use backlog_schedule::{Id, Outcome};
use backlog_store::lock;
use backlog_store::system_error::reason;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io;
use rustix::process::{Resource, getrlimit};

use super::{Handler, Job};

pub struct Threads(Mutex<Vec<JoinHandle<()>>>);

impl Threads {
    /// Starts as many threads as the system allows, and at least one.
    pub fn start(name: &str, runs: impl Iterator<Item: FnOnce() + Send + 'static>) -> Result<Self> {
        let mut threads = Vec::new();
        for (number, run) in runs.enumerate() {
            match thread::Builder::new().name(format!("{name} {number}")).spawn(run) {
                Ok(thread) => threads.push(thread),
                Err(error) if threads.is_empty() => {
                    return Err(error).context("could not start a thread for the handlers");
                }
                Err(error) => {
                    log::warn!("only {number} threads for handlers: {}", reason(&error));
                    break;
                }
            }
        }
        Ok(Self(Mutex::new(threads)))
    }

    pub fn count(&self) -> usize {
        lock(&self.0).len()
    }

    pub fn join(&self) {
        for thread in std::mem::take(&mut *lock(&self.0)) {
            // The message of a panic was printed when it happened.
            let _ = thread.join();
        }
    }
}

pub struct Workers {
    count: usize,
    /// A thread that receives `None` ends.
    jobs: Sender<Option<Job>>,
    threads: Threads,
    wakeups: Arc<Wakeups>,
}

impl Workers {
    /// Starts threads that call `attempt` with each job and with the claims that are lost in the meantime.
    pub fn start(
        count: usize,
        attempt: impl Fn(Job, &Wakeups) + Send + Sync + 'static,
    ) -> Result<Self> {
        let (jobs, queue) = channel::<Option<Job>>();
        let queue = Mutex::new(queue);
        let wakeups = Arc::<Wakeups>::default();
        let all_wakeups = wakeups.clone();
        let work = Arc::new(move || {
            loop {
                let next = lock(&queue).recv();
                let Ok(Some(job)) = next else { return };
                let spare = Job { record: job.record.clone(), submit: job.submit.clone(), ..job };
                if catch_unwind(AssertUnwindSafe(|| attempt(job, &all_wakeups))).is_err() {
                    let error = "the handler's thread panicked".into();
                    let outcome = Outcome::Unable { error, ends_pass: true };
                    (spare.submit)(vec![spare.ended(outcome)]);
                }
            }
        });
        let runs = (0..count).map(|_| work.clone()).map(|work| move || work());
        let threads = Threads::start("handler", runs)?;
        let started = threads.count();
        // Commands and requests need processes and threads too.
        let count = if started < count { (started / 2).max(1) } else { count };
        let workers = Self { count, jobs, threads, wakeups };
        workers.dismiss(started - count);
        Ok(workers)
    }

    fn dismiss(&self, threads: usize) {
        (0..threads).for_each(|_| drop(self.jobs.send(None)));
    }
}

impl Handler for Workers {
    fn capacity(&self) -> usize {
        self.count
    }

    fn start(&self, jobs: Vec<Job>) {
        // Sending fails only once all threads have ended, and then the pass is over.
        jobs.into_iter().for_each(|job| drop(self.jobs.send(Some(job))));
    }

    fn interrupt(&self, ids: &[Id], grace: Duration) {
        self.wakeups.interrupt(ids, grace);
    }

    fn join(&self) {
        self.dismiss(self.count);
        self.threads.join();
    }
}

/// Maximum number of descriptors of a handler: the wake-up of its thread, its process, and both ends of three pipes.
const DESCRIPTORS_PER_HANDLER: u64 = 8;
/// Number of descriptors for files and connections of the pass, pings, and --on-archive.
const RESERVED: u64 = 32;

/// Number of handlers that the limit of open files allows: at least one, and at most `jobs`.
pub fn jobs_within_limits(jobs: usize) -> usize {
    let Some(limit) = getrlimit(Resource::Nofile).current.filter(|_| jobs > 1) else { return jobs };
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let free = limit.saturating_sub(open as u64).saturating_sub(RESERVED);
    let jobs_within_limits =
        usize::try_from(free / DESCRIPTORS_PER_HANDLER).unwrap_or(jobs).clamp(1, jobs);
    if jobs_within_limits < jobs {
        log::warn!(
            "the limit of {limit} open files (ulimit -n) allows --jobs {jobs_within_limits}, not {jobs}"
        );
    }
    jobs_within_limits
}

const MAX_GRACE_MILLIS: u64 = 366 * 86_400_000;

/// The eventfd of each record in flight, which wakes the record's worker.
#[derive(Default)]
pub struct Wakeups(Mutex<HashMap<Id, Arc<OwnedFd>>>);

impl Wakeups {
    /// Wakes the workers of these records, and tells them the grace. Records without a worker are ignored.
    pub fn interrupt(&self, ids: &[Id], grace: Duration) {
        let running = lock(&self.0);
        let grace = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX).clamp(1, MAX_GRACE_MILLIS);
        for wakeup in ids.iter().filter_map(|id| running.get(id)) {
            // The write fails only if the counter is full, and then the worker is awake anyway.
            let _ = io::write(wakeup, &grace.to_ne_bytes());
        }
    }

    /// Makes an attempt. It gets a descriptor that becomes readable when the claim is lost.
    pub fn watched<T>(&self, id: &Id, attempt: impl FnOnce(Option<&OwnedFd>) -> T) -> T {
        // Without a free descriptor the command cannot start either.
        let wakeup = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok().map(Arc::new);
        if let Some(wakeup) = &wakeup {
            lock(&self.0).insert(id.clone(), wakeup.clone());
        }
        let attempted = attempt(wakeup.as_deref());
        lock(&self.0).remove(id);
        attempted
    }
}

/// Reads the grace that [`Wakeups::interrupt`] has written.
pub fn read_grace(wakeup: &OwnedFd) -> Option<Duration> {
    let mut grace = [0; 8];
    io::read(wakeup, &mut grace).ok()?;
    Some(Duration::from_millis(u64::from_ne_bytes(grace)))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use backlog_schedule::{Id, Record};

    use super::*;

    fn job() -> Job {
        let record = Arc::new(Record::new(Id::Integer(7), None));
        Job { record, attempt: 1, submit: Arc::new(|_| {}) }
    }

    /// Slow workers, so that jobs queue up, and the number of jobs that they have done.
    fn workers(count: usize) -> (Workers, Arc<AtomicUsize>) {
        let done = Arc::new(AtomicUsize::new(0));
        let counted = done.clone();
        let workers = Workers::start(count, move |_, _| {
            thread::sleep(Duration::from_millis(1));
            counted.fetch_add(1, Ordering::SeqCst);
        });
        (workers.unwrap(), done)
    }

    #[test]
    fn each_job_is_done_once_even_after_the_workers_were_idle() {
        let (workers, done) = workers(3);
        for (jobs, all) in [(1, 1), (5, 6), (0, 6), (30, 36)] {
            workers.start((0..jobs).map(|_| job()).collect());
            while done.load(Ordering::SeqCst) < all {
                thread::yield_now();
            }
        }
        workers.join();
        assert_eq!(done.load(Ordering::SeqCst), 36);
    }

    #[test]
    fn queued_jobs_are_done_before_the_workers_end() {
        for count in [1, 3] {
            let (workers, done) = workers(count);
            workers.start((0..20).map(|_| job()).collect());
            workers.join();
            assert_eq!(done.load(Ordering::SeqCst), 20);
            workers.start(vec![job()]);
            assert_eq!(done.load(Ordering::SeqCst), 20, "no worker is left");
        }
    }
}

//! The threads of handlers, and the queue of jobs from which they take one after the other.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};
use backlog_schedule::{Id, Outcome};
use backlog_store::lock;
use backlog_store::system_error::words;

use super::lost_claims::LostClaims;
use super::{Handler, Job};

/// Threads of a handler, which are waited for together.
pub struct Threads(Mutex<Vec<JoinHandle<()>>>);

impl Threads {
    /// Starts as many as the system allows, and at least one.
    pub fn start(name: &str, runs: impl Iterator<Item: FnOnce() + Send + 'static>) -> Result<Self> {
        let mut threads = Vec::new();
        for (number, run) in runs.enumerate() {
            match thread::Builder::new().name(format!("{name} {number}")).spawn(run) {
                Ok(thread) => threads.push(thread),
                Err(error) if threads.is_empty() => {
                    return Err(error).context("could not start a thread for the handlers");
                }
                Err(error) => {
                    log::warn!("only {number} threads for handlers: {}", words(&error));
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
            // One that panicked has said so already.
            let _ = thread.join();
        }
    }
}

/// Threads, each of which makes one attempt at a time.
pub struct Workers {
    count: usize,
    queue: Arc<JobQueue>,
    threads: Threads,
    /// Ends the attempts at lost records, where they can be ended.
    pub lost: Arc<LostClaims>,
}

/// Jobs that no thread has taken yet.
#[derive(Default)]
struct JobQueue {
    state: Mutex<JobQueueState>,
    /// A job was added, or the queue was closed.
    has_changed: Condvar,
}

#[derive(Default)]
struct JobQueueState {
    jobs: VecDeque<Job>,
    /// Whether no job is added any more. Those that wait are still taken.
    is_closed: bool,
    /// How many threads are to end.
    dismissed: usize,
}

impl JobQueue {
    /// Waits for a job; `None` once there are no more.
    fn next(&self) -> Option<Job> {
        let has_to_wait = |state: &mut JobQueueState| {
            state.jobs.is_empty() && !state.is_closed && state.dismissed == 0
        };
        let state = self.has_changed.wait_while(lock(&self.state), has_to_wait);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        if state.dismissed > 0 {
            state.dismissed -= 1;
            return None;
        }
        state.jobs.pop_front()
    }

    fn dismiss(&self, threads: usize) {
        lock(&self.state).dismissed = threads;
        self.has_changed.notify_all();
    }

    fn add(&self, added: Vec<Job>) {
        let count = added.len();
        let mut state = lock(&self.state);
        if !state.is_closed {
            state.jobs.extend(added);
        }
        drop(state);
        (0..count).for_each(|_| self.has_changed.notify_one());
    }

    fn close(&self) {
        lock(&self.state).is_closed = true;
        self.has_changed.notify_all();
    }
}

impl Workers {
    pub fn start(count: usize, attempt: impl Fn(Job) + Send + Sync + 'static) -> Result<Self> {
        let queue = Arc::<JobQueue>::default();
        let work = Arc::new({
            let queue = queue.clone();
            move || {
                while let Some(job) = queue.next() {
                    let spare =
                        Job { record: job.record.clone(), submit: job.submit.clone(), ..job };
                    if catch_unwind(AssertUnwindSafe(|| attempt(job))).is_err() {
                        let error = "its thread has failed".into();
                        let outcome = Outcome::Unable { error, ends_pass: true };
                        (spare.submit)(vec![spare.ended(outcome)]);
                    }
                }
            }
        });
        let runs = (0..count).map(|_| work.clone()).map(|work| move || work());
        let threads = Threads::start("handler", runs)?;
        let started = threads.count();
        // Commands and requests need processes and threads as well.
        let count = if started < count { (started / 2).max(1) } else { count };
        queue.dismiss(started - count);
        Ok(Self { count, queue, threads, lost: Arc::default() })
    }
}

impl Handler for Workers {
    fn capacity(&self) -> usize {
        self.count
    }

    fn start(&self, jobs: Vec<Job>) {
        self.queue.add(jobs);
    }

    fn end(&self, lost: &[Id]) {
        self.lost.signal(lost);
    }

    fn join(&self) {
        self.queue.close();
        self.threads.join();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use backlog_schedule::{Id, Record};

    use super::*;

    fn job() -> Job {
        let record = Arc::new(Record::new(Id::Integer(7), None));
        Job { record, attempt: 1, submit: Arc::new(|_| {}) }
    }

    /// Workers that are slow, so that jobs wait for them, and the number of jobs that they have done.
    fn workers(count: usize) -> (Workers, Arc<AtomicUsize>) {
        let done = Arc::new(AtomicUsize::new(0));
        let counted = done.clone();
        let workers = Workers::start(count, move |_| {
            thread::sleep(Duration::from_millis(1));
            counted.fetch_add(1, Ordering::SeqCst);
        });
        (workers.unwrap(), done)
    }

    #[test]
    fn each_job_is_done_once_also_after_the_workers_have_waited_for_it() {
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
    fn what_waits_is_done_before_the_workers_end() {
        for count in [1, 3] {
            let (workers, done) = workers(count);
            workers.start((0..20).map(|_| job()).collect());
            workers.join();
            assert_eq!(done.load(Ordering::SeqCst), 20);
            workers.start(vec![job()]);
            assert_eq!(done.load(Ordering::SeqCst), 20, "nobody is there");
        }
    }
}

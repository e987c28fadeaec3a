//! The threads of handlers, and the queue of jobs from which they take one after the other.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};

use super::{Handler, Job};
use crate::lock;

/// Threads of a handler, which are waited for together.
pub struct Threads(Mutex<Vec<JoinHandle<()>>>);

impl Threads {
    pub fn start(name: &str, runs: impl Iterator<Item: FnOnce() + Send + 'static>) -> Result<Self> {
        let start = |(number, run)| {
            let thread = thread::Builder::new().name(format!("{name} {number}")).spawn(run);
            thread.context("could not start a thread for the handlers; lower --jobs")
        };
        Ok(Self(Mutex::new(runs.enumerate().map(start).collect::<Result<_>>()?)))
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
}

/// Jobs that no thread has taken yet; `None` once there will be no more.
struct JobQueue {
    jobs: Mutex<Option<VecDeque<Job>>>,
    has_changed: Condvar,
}

impl JobQueue {
    fn new() -> Self {
        Self { jobs: Mutex::new(Some(VecDeque::new())), has_changed: Condvar::new() }
    }

    /// Waits for a job.
    fn next(&self) -> Option<Job> {
        let is_waited_for =
            |jobs: &mut Option<VecDeque<Job>>| jobs.as_ref().is_some_and(VecDeque::is_empty);
        let jobs = self.has_changed.wait_while(lock(&self.jobs), is_waited_for);
        jobs.unwrap_or_else(PoisonError::into_inner).as_mut()?.pop_front()
    }

    fn add(&self, added: Vec<Job>) {
        let count = added.len();
        if let Some(jobs) = &mut *lock(&self.jobs) {
            jobs.extend(added);
        }
        (0..count).for_each(|_| self.has_changed.notify_one());
    }

    fn close(&self) {
        *lock(&self.jobs) = None;
        self.has_changed.notify_all();
    }
}

impl Workers {
    pub fn start(count: usize, attempt: impl Fn(Job) + Send + Sync + 'static) -> Result<Self> {
        let queue = Arc::new(JobQueue::new());
        let work = Arc::new({
            let queue = queue.clone();
            move || {
                while let Some(job) = queue.next() {
                    attempt(job);
                }
            }
        });
        let runs = (0..count).map(|_| work.clone()).map(|work| move || work());
        let threads = Threads::start("handler", runs)?;
        Ok(Self { count, queue, threads })
    }
}

impl Handler for Workers {
    fn capacity(&self) -> usize {
        self.count
    }

    fn start(&self, jobs: Vec<Job>) {
        self.queue.add(jobs);
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

    use super::*;
    use crate::record::fixture;

    #[test]
    fn each_job_is_taken_once_by_any_thread_until_there_are_no_more() {
        let taken = Arc::new(AtomicUsize::new(0));
        let count = taken.clone();
        let workers = Workers::start(3, move |_| {
            // So that others have to come for the next ones.
            thread::sleep(Duration::from_millis(1));
            count.fetch_add(1, Ordering::SeqCst);
        });
        let workers = workers.unwrap();
        let job = || {
            let record = Arc::new(fixture::record());
            Job { record, attempt: 1, submit: Arc::new(|_| {}) }
        };
        for jobs in [1, 5, 0, 30] {
            workers.start((0..jobs).map(|_| job()).collect());
        }
        while taken.load(Ordering::SeqCst) < 36 {
            thread::yield_now();
        }
        workers.start(vec![job()]);
        while taken.load(Ordering::SeqCst) < 37 {
            thread::yield_now();
        }
        workers.join();
        workers.start(vec![job()]);
        assert_eq!(taken.load(Ordering::SeqCst), 37);
    }
}

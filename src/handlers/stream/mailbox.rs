//! The mailbox of a supervisor: a queue of records with a wake-up, filled from any thread.

use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io;

use crate::handlers::Job;
use crate::lock::lock;

pub struct Mailbox {
    jobs: Mutex<Vec<Job>>,
    /// How many were handed in and are not answered.
    in_hand: AtomicUsize,
    /// Readable when the supervisor is to look up.
    wakeup: OwnedFd,
}

impl Mailbox {
    pub fn new() -> io::Result<Self> {
        let wakeup = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { jobs: Mutex::default(), in_hand: AtomicUsize::new(0), wakeup })
    }

    pub fn in_hand(&self) -> usize {
        self.in_hand.load(Ordering::SeqCst)
    }

    pub fn put(&self, jobs: Vec<Job>) {
        self.in_hand.fetch_add(jobs.len(), Ordering::SeqCst);
        lock(&self.jobs).extend(jobs);
        self.wake();
    }

    pub fn take(&self) -> Vec<Job> {
        std::mem::take(&mut *lock(&self.jobs))
    }

    pub fn is_empty(&self) -> bool {
        lock(&self.jobs).is_empty()
    }

    pub fn answered(&self, count: usize) {
        self.in_hand.fetch_sub(count, Ordering::SeqCst);
    }

    pub fn wake(&self) {
        // It can fail only when it has been woken more often than anybody counts.
        let _ = io::write(&self.wakeup, &1u64.to_ne_bytes());
    }

    pub fn wakeup(&self) -> &OwnedFd {
        &self.wakeup
    }

    /// The wake-up was noticed.
    pub fn drain_wakeup(&self) {
        let _ = io::read(&self.wakeup, &mut [0; 8]);
    }

    /// Waits for the wakeup, or for this to be readable.
    pub fn wait(&self, stopped: Option<&OwnedFd>) {
        let mut fds = vec![PollFd::new(&self.wakeup, PollFlags::IN)];
        fds.extend(stopped.map(|stopped| PollFd::new(stopped, PollFlags::IN)));
        // Who is interrupted looks up too often, and that is all.
        let _ = poll(&mut fds, None);
        self.drain_wakeup();
    }
}

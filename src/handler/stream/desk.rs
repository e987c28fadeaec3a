//! Where an attendant gets its records, from whatever thread hands them out.

use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io;

use crate::handler::Job;
use crate::lock::lock;

pub struct Desk {
    jobs: Mutex<Vec<Job>>,
    /// How many were handed in and are not answered.
    in_hand: AtomicUsize,
    /// Readable when the attendant is to look up.
    bell: OwnedFd,
}

impl Desk {
    pub fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { jobs: Mutex::default(), in_hand: AtomicUsize::new(0), bell })
    }

    pub fn in_hand(&self) -> usize {
        self.in_hand.load(Ordering::SeqCst)
    }

    pub fn put(&self, jobs: Vec<Job>) {
        self.in_hand.fetch_add(jobs.len(), Ordering::SeqCst);
        lock(&self.jobs).extend(jobs);
        self.ring();
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

    pub fn ring(&self) {
        // It can fail only when it has been rung more often than anybody counts.
        let _ = io::write(&self.bell, &1u64.to_ne_bytes());
    }

    pub fn bell(&self) -> &OwnedFd {
        &self.bell
    }

    /// The ringing was noticed.
    pub fn hear(&self) {
        let _ = io::read(&self.bell, &mut [0; 8]);
    }

    /// Waits for the bell.
    pub fn wait(&self) {
        let mut fds = [PollFd::new(&self.bell, PollFlags::IN)];
        // Whoever is interrupted looks up too often, and that is all.
        let _ = poll(&mut fds, None);
        self.hear();
    }
}

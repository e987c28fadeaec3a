//! `--stream -- COMMAND`: co-processes that stay for a whole pass, and get a line for each record
//! and answer with a line.

mod coprocess;
mod in_flight;
mod mailbox;
mod protocol;
mod supervisor;

use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};

use super::{Handler, Job};
use crate::clock::Clock;
use crate::lock::lock;
use crate::stop::Stop;
use mailbox::Mailbox;
use supervisor::Supervisor;

pub use protocol::Hello;

/// The settings of co-processes.
#[derive(Debug, Clone)]
pub struct StreamSettings {
    pub argv: Vec<OsString>,
    /// How many co-processes there are.
    pub jobs: usize,
    /// How many records each of them has in flight.
    pub window: usize,
    /// How long the lines of those may be together, except for one that is alone.
    pub window_bytes: usize,
    /// How often they may be started again in a pass, all together.
    pub restarts: u32,
    /// How long one may be silent that has something to answer.
    pub timeout: Option<Duration>,
    /// How long one may keep its first reply to itself until somebody is told.
    pub first_reply_within: Duration,
    pub hello: Hello,
    pub env: Vec<(&'static str, String)>,
}

/// Supervisors, each of which looks after one co-process at a time.
pub struct Stream {
    capacity: usize,
    mailboxes: Vec<Arc<Mailbox>>,
    shared: Arc<Shared>,
    supervisors: Mutex<Vec<JoinHandle<()>>>,
}

/// The state that all supervisors share.
struct Shared {
    clock: Clock,
    stop: Arc<Stop>,
    closing: AtomicBool,
    restarts_left: AtomicU32,
    faults: AtomicU64,
}

impl Stream {
    pub fn new(settings: StreamSettings, stop: Arc<Stop>, clock: Clock) -> Result<Self> {
        let shared = Arc::new(Shared {
            clock,
            stop,
            closing: AtomicBool::new(false),
            restarts_left: AtomicU32::new(settings.restarts),
            faults: AtomicU64::new(0),
        });
        let mailboxes: rustix::io::Result<Vec<_>> =
            (0..settings.jobs).map(|_| Mailbox::new().map(Arc::new)).collect();
        let mailboxes = mailboxes.context("could not make an eventfd; lower --jobs")?;
        let (capacity, settings) = (settings.jobs * settings.window, Arc::new(settings));
        let supervise = |(number, mailbox): (usize, &Arc<Mailbox>)| {
            let supervisor = Supervisor::new(settings.clone(), shared.clone(), mailbox.clone());
            std::thread::Builder::new()
                .name(format!("co-process {number}"))
                .spawn(move || supervisor.run())
                .context("could not start a thread for the handlers; lower --jobs")
        };
        let supervisors: Result<Vec<_>> = mailboxes.iter().enumerate().map(supervise).collect();
        let supervisors = Mutex::new(supervisors?);
        Ok(Self { capacity, mailboxes, shared, supervisors })
    }
}

impl Handler for Stream {
    fn capacity(&self) -> usize {
        self.capacity
    }

    /// Each goes where there is least to do.
    fn start(&self, jobs: Vec<Job>) {
        let mut shares: Vec<_> =
            self.mailboxes.iter().map(|mailbox| (mailbox.in_hand(), Vec::new(), mailbox)).collect();
        for job in jobs {
            if let Some((load, share, _)) = shares.iter_mut().min_by_key(|(load, ..)| *load) {
                *load += 1;
                share.push(job);
            }
        }
        for (_, share, mailbox) in shares {
            if !share.is_empty() {
                mailbox.put(share);
            }
        }
    }

    fn join(&self) {
        self.shared.closing.store(true, Ordering::SeqCst);
        self.mailboxes.iter().for_each(|mailbox| mailbox.wake());
        for supervisor in std::mem::take(&mut *lock(&self.supervisors)) {
            // A supervisor that panicked has said so already.
            let _ = supervisor.join();
        }
    }

    fn faults(&self) -> u64 {
        self.shared.faults.load(Ordering::SeqCst)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.shared.stop.end_within(Duration::ZERO);
        self.join();
    }
}

impl Shared {
    fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// Takes one of the restarts that are left.
    fn may_restart(&self) -> bool {
        let one_less = |left: u32| left.checked_sub(1);
        self.restarts_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok()
    }

    fn count_fault(&self) {
        self.faults.fetch_add(1, Ordering::SeqCst);
    }
}

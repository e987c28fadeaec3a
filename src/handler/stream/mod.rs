//! `--stream -- COMMAND`: co-processes that stay for a whole pass, and get a line for each record
//! and answer with a line.

mod attendant;
mod coprocess;
mod desk;
mod in_flight;
mod protocol;
mod running;

use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};

use super::{Handler, Job};
use crate::clock::Clock;
use crate::lock::lock;
use attendant::Attendant;
use desk::Desk;

pub use protocol::Hello;

/// What co-processes are run with.
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
    pub patience: Duration,
    pub grace: Duration,
    pub hello: Hello,
    pub env: Vec<(&'static str, String)>,
}

/// Attendants, each of which looks after one co-process at a time.
pub struct Stream {
    capacity: usize,
    desks: Vec<Arc<Desk>>,
    shared: Arc<Shared>,
    attendants: Mutex<Vec<JoinHandle<()>>>,
}

/// What all attendants see.
struct Shared {
    clock: Clock,
    no_more: AtomicBool,
    /// How often the pass was told to stop, and the grace that it gave last.
    stops: AtomicU32,
    stop_grace_ms: AtomicU64,
    closing: AtomicBool,
    restarts_left: AtomicU32,
    faults: AtomicU64,
}

impl Stream {
    pub fn new(settings: StreamSettings, clock: Clock) -> Result<Self> {
        let shared = Arc::new(Shared {
            clock,
            no_more: AtomicBool::new(false),
            stops: AtomicU32::new(0),
            stop_grace_ms: AtomicU64::new(0),
            closing: AtomicBool::new(false),
            restarts_left: AtomicU32::new(settings.restarts),
            faults: AtomicU64::new(0),
        });
        let desks: rustix::io::Result<Vec<_>> =
            (0..settings.jobs).map(|_| Desk::new().map(Arc::new)).collect();
        let desks = desks.context("could not make an eventfd; lower --jobs")?;
        let (capacity, settings) = (settings.jobs * settings.window, Arc::new(settings));
        let attend = |(number, desk): (usize, &Arc<Desk>)| {
            let attendant = Attendant::new(settings.clone(), shared.clone(), desk.clone());
            std::thread::Builder::new()
                .name(format!("co-process {number}"))
                .spawn(move || attendant.run())
                .context("could not start a thread for the handlers; lower --jobs")
        };
        let attendants: Result<Vec<_>> = desks.iter().enumerate().map(attend).collect();
        let attendants = Mutex::new(attendants?);
        Ok(Self { capacity, desks, shared, attendants })
    }

    fn ring(&self) {
        self.desks.iter().for_each(|desk| desk.ring());
    }
}

impl Handler for Stream {
    fn capacity(&self) -> usize {
        self.capacity
    }

    /// Each goes where there is least to do.
    fn start(&self, jobs: Vec<Job>) {
        let mut shares: Vec<_> =
            self.desks.iter().map(|desk| (desk.in_hand(), Vec::new(), desk)).collect();
        for job in jobs {
            if let Some((load, share, _)) = shares.iter_mut().min_by_key(|(load, ..)| *load) {
                *load += 1;
                share.push(job);
            }
        }
        for (_, share, desk) in shares {
            if !share.is_empty() {
                desk.put(share);
            }
        }
    }

    fn begin_no_more(&self) {
        self.shared.begin_no_more();
        self.ring();
    }

    fn stop(&self, grace: Duration) {
        let grace = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        self.shared.stop_grace_ms.store(grace, Ordering::SeqCst);
        self.shared.stops.fetch_add(1, Ordering::SeqCst);
        self.begin_no_more();
    }

    fn join(&self) {
        self.shared.closing.store(true, Ordering::SeqCst);
        self.ring();
        for attendant in std::mem::take(&mut *lock(&self.attendants)) {
            // An attendant that panicked has said so already.
            let _ = attendant.join();
        }
    }

    fn faults(&self) -> u64 {
        self.shared.faults.load(Ordering::SeqCst)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
        self.join();
    }
}

impl Shared {
    fn begins_no_more(&self) -> bool {
        self.no_more.load(Ordering::SeqCst)
    }

    fn begin_no_more(&self) {
        self.no_more.store(true, Ordering::SeqCst);
    }

    fn stops(&self) -> u32 {
        self.stops.load(Ordering::SeqCst)
    }

    fn stop_grace(&self) -> Duration {
        Duration::from_millis(self.stop_grace_ms.load(Ordering::SeqCst))
    }

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

//! `--stream -- COMMAND`: co-processes that run for a whole pass, each with a supervisor and a mailbox.

mod coprocess;
mod supervisor;

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use backlog_schedule::{Cause, Id};
use backlog_store::{Stop, lock};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io;

use super::{Handler, HandlerContext, Job, Threads};
use supervisor::Supervisor;

#[derive(Clone)]
pub struct StreamSettings {
    pub argv: Vec<OsString>,
    pub window: usize,
}

/// Maximum number of bytes in flight to one co-process; a single longer line is sent alone.
const WINDOW_BYTES: usize = 64 << 20;

/// Maximum number of restarts of co-processes in a pass.
const RESTARTS: u32 = 3;

/// Time from the first record until the log says that no reply has come.
const FIRST_REPLY_WITHIN: Duration = Duration::from_secs(10);

pub struct Stream {
    mailboxes: Vec<Arc<Mailbox>>,
    shared: Arc<StreamState>,
    supervisors: Threads,
}

struct StreamState {
    settings: StreamSettings,
    context: HandlerContext,
    stop: Arc<Stop>,
    closing: AtomicBool,
    restarts: AtomicU32,
    faults: AtomicU64,
    logged_faults: Mutex<HashSet<Cause>>,
}

impl Stream {
    pub fn new(settings: StreamSettings, context: HandlerContext, stop: Arc<Stop>) -> Result<Self> {
        let shared = Arc::new(StreamState {
            stop,
            closing: AtomicBool::new(false),
            restarts: AtomicU32::new(0),
            faults: AtomicU64::new(0),
            logged_faults: Mutex::default(),
            settings,
            context,
        });
        let mailbox = |_| {
            let wakeup = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            let (jobs, lost, in_hand) = (Mutex::default(), Mutex::default(), AtomicUsize::new(0));
            Ok(Arc::new(Mailbox { jobs, lost, in_hand, wakeup }))
        };
        let mailboxes: io::Result<Vec<_>> = (0..shared.context.jobs).map(mailbox).collect();
        let mailboxes = mailboxes.context("could not create an eventfd; lower --jobs")?;
        let runs = mailboxes.iter().map(|mailbox| {
            let (shared, mailbox) = (shared.clone(), mailbox.clone());
            move || Supervisor::run(shared, mailbox)
        });
        let supervisors = Threads::start("co-process", runs)?;
        let is_complete = supervisors.count() == mailboxes.len();
        let stream = Self { mailboxes, shared, supervisors };
        if !is_complete {
            stream.join();
            bail!("could not start a thread for each co-process; lower --jobs");
        }
        Ok(stream)
    }
}

impl Handler for Stream {
    fn capacity(&self) -> usize {
        self.mailboxes.len() * self.shared.settings.window
    }

    /// Gives each record to the co-process with the fewest records.
    fn start(&self, jobs: Vec<Job>) {
        let load = |mailbox: &Mailbox| mailbox.in_hand.load(Ordering::SeqCst);
        let shares = self.mailboxes.iter().map(|mailbox| (load(mailbox), Vec::new(), mailbox));
        let mut shares: Vec<_> = shares.collect();
        for job in jobs {
            if let Some((load, share, _)) = shares.iter_mut().min_by_key(|(load, ..)| *load) {
                *load += 1;
                share.push(job);
            }
        }
        for (_, share, mailbox) in shares.into_iter().filter(|(_, share, _)| !share.is_empty()) {
            mailbox.in_hand.fetch_add(share.len(), Ordering::SeqCst);
            lock(&mailbox.jobs).extend(share);
            mailbox.wake();
        }
    }

    fn interrupt(&self, ids: &[Id], grace: Duration) {
        for mailbox in &self.mailboxes {
            lock(&mailbox.lost).extend(ids.iter().map(|id| (id.clone(), grace)));
            mailbox.wake();
        }
    }

    fn has_busy_threads(&self) -> bool {
        true
    }

    fn shares_process(&self) -> bool {
        self.shared.settings.window > 1
    }

    fn join(&self) {
        self.shared.closing.store(true, Ordering::SeqCst);
        self.mailboxes.iter().for_each(|mailbox| mailbox.wake());
        self.supervisors.join();
    }

    fn faults(&self) -> u64 {
        self.shared.faults.load(Ordering::SeqCst)
    }
}

/// Records for one supervisor, with a wake-up. Any thread adds records.
struct Mailbox {
    jobs: Mutex<Vec<Job>>,
    /// Records whose attempts are to end, each with its grace. Records of other mailboxes are among them.
    lost: Mutex<HashMap<Id, Duration>>,
    in_hand: AtomicUsize,
    wakeup: OwnedFd,
}

impl Mailbox {
    fn wake(&self) {
        // It fails only if the counter is full, and then the supervisor is awake anyway.
        let _ = io::write(&self.wakeup, &1u64.to_ne_bytes());
    }

    fn drain_wakeup(&self) {
        let _ = io::read(&self.wakeup, &mut [0; 8]);
    }

    fn wait(&self, stopped: Option<&OwnedFd>) {
        let mut fds = vec![PollFd::new(&self.wakeup, PollFlags::IN)];
        fds.extend(stopped.map(|stopped| PollFd::new(stopped, PollFlags::IN)));
        // If the wait is interrupted, the supervisor finds the mailbox empty and waits again.
        let _ = poll(&mut fds, None);
        self.drain_wakeup();
    }
}

//! Claims that are lost while a command runs. The worker thread that waits for the command is woken.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backlog_schedule::Id;
use backlog_store::lock;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io;

/// The time between SIGTERM and SIGKILL for a handler whose claim is lost. It is short, because another pass
/// may begin with the record at any moment.
pub const LOST_KILL_DELAY: Duration = Duration::from_millis(100);

thread_local! {
    /// The eventfd that wakes this worker. All commands of the worker share it.
    static WAKEUP: OnceCell<Option<Arc<OwnedFd>>> = const { OnceCell::new() };
}

/// The records in hand, each with the eventfd that wakes its worker.
#[derive(Default)]
pub struct LostClaims(Mutex<HashMap<Id, Arc<OwnedFd>>>);

impl LostClaims {
    /// Wakes the workers of these records. A record that no worker has is ignored.
    pub fn signal(&self, lost: &[Id]) {
        let running = lock(&self.0);
        for wakeup in lost.iter().filter_map(|id| running.get(id)) {
            // The write fails only if the counter is full, and then the worker is awake anyway.
            let _ = io::write(wakeup, &1u64.to_ne_bytes());
        }
    }

    /// Watches the claim of a record for as long as the result lives.
    pub fn watch<'a>(&'a self, id: &'a Id) -> Watch<'a> {
        let wakeup = WAKEUP.with(|wakeup| wakeup.get_or_init(new_wakeup).clone());
        if let Some(wakeup) = &wakeup {
            lock(&self.0).insert(id.clone(), wakeup.clone());
        }
        Watch { claims: self, id, wakeup }
    }
}

fn new_wakeup() -> Option<Arc<OwnedFd>> {
    let made = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
    // A process without a free descriptor cannot start a command either.
    made.ok().map(Arc::new)
}

pub struct Watch<'a> {
    claims: &'a LostClaims,
    id: &'a Id,
    wakeup: Option<Arc<OwnedFd>>,
}

impl Watch<'_> {
    /// Readable once the claim is lost.
    pub fn fd(&self) -> Option<&OwnedFd> {
        self.wakeup.as_deref()
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        lock(&self.claims.0).remove(self.id);
        if let Some(wakeup) = &self.wakeup {
            // A signal for this record must not end the next one. Mostly there is none.
            let _ = io::read(wakeup, &mut [0; 8]);
        }
    }
}

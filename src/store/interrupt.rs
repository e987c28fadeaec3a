//! The stop of a pass inside a store: one wrapper for all, each of which says what ends its
//! statements, and heeds the stop where it would wait. It has the store see after its claims, too.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};

use super::{
    Claim, Claiming, Database, Found, IsDue, Moved, Page, Reader, Rehearsal, Retry, RowWrite,
    StateDir, Store, WriteResult,
};
use crate::lock;
use crate::query::Query;
use crate::record::{Id, Record, Settlement};
use crate::stop::Stop;

pub type Interrupter = Box<dyn FnMut() + Send>;

/// How often it is looked whether a statement is to end: it is interrupted again until it does,
/// because an interrupt between two statements is lost.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// How long after the grace a settlement may run: killed handlers are written as well.
const MARGIN: Duration = Duration::from_secs(2);

/// The stop of a pass, and the operation of the store that it ends.
pub struct StoreStop {
    pub stop: Arc<Stop>,
    operation: Mutex<Operation>,
}

/// What a store is at. Searches and claims lose nothing when they end; a settlement has outcomes.
enum Operation {
    Nothing,
    Search,
    Settlement,
}

impl StoreStop {
    /// Outcomes are written as long as handlers have grace to end in.
    pub fn ends_operation(&self) -> bool {
        match *lock(&self.operation) {
            Operation::Nothing => false,
            Operation::Search => self.stop.is_asked(),
            Operation::Settlement => {
                let last = self.stop.ends_at().and_then(|at| at.checked_add(MARGIN));
                last.is_some_and(|last| self.stop.clock.until(last).is_zero())
            }
        }
    }
}

/// A store whose statements end when its pass is to stop.
pub struct Interruptible {
    // They end before the store does, whose connection they hold on to.
    interrupter: Option<OwnedThread>,
    heartbeat: Option<OwnedThread>,
    store: Arc<Mutex<Claiming>>,
    stop: Arc<StoreStop>,
}

impl Interruptible {
    pub fn open(database: Box<dyn Database>, state: &StateDir, stop: Arc<Stop>) -> Result<Self> {
        let clock = stop.clock;
        let stop = Arc::new(StoreStop { stop, operation: Mutex::new(Operation::Nothing) });
        let retry = Retry::new(Some(stop.clone()), clock);
        let store = Arc::new(Mutex::new(database.into_store(state, retry)?));
        let mut interruptible = Self { interrupter: None, heartbeat: None, store, stop };
        if interruptible.stop.stop.deadline.is_some() {
            interruptible.watch()?;
        }
        Ok(interruptible)
    }

    /// From now on a statement that does not end by itself is ended.
    fn watch(&mut self) -> Result<()> {
        if self.interrupter.is_none()
            && let Some(mut interrupt) = lock(&self.store).interrupter()
        {
            let stop = self.stop.clone();
            let end_operation = move || {
                if stop.ends_operation() {
                    interrupt();
                }
                Vec::new()
            };
            let failure = "could not start the thread that ends statements";
            let interrupter = heartbeat("interrupter", failure, LOOK_INTERVAL, end_operation);
            self.interrupter = Some(interrupter?);
        }
        Ok(())
    }

    fn during<T>(&mut self, operation: Operation, work: impl FnOnce(&mut dyn Store) -> T) -> T {
        *lock(&self.stop.operation) = operation;
        let done = work(&mut **lock(&self.store));
        *lock(&self.stop.operation) = Operation::Nothing;
        done
    }
}

impl Reader for Interruptible {
    fn due(&mut self, selection: &Query, is_due: IsDue<'_>) -> Result<Page> {
        self.during(Operation::Search, |store| store.reader().due(selection, is_due))
    }

    fn read(&mut self, id: &Id) -> Result<Found> {
        self.during(Operation::Search, |store| store.reader().read(id))
    }
}

impl Store for Interruptible {
    fn reader(&mut self) -> &mut dyn Reader {
        self
    }

    fn still_pending(&mut self, ids: &[Id]) -> Result<Option<Vec<Id>>> {
        self.during(Operation::Search, |store| store.still_pending(ids))
    }

    fn most_claims(&self) -> usize {
        lock(&self.store).most_claims()
    }

    fn claim(&mut self, ids: &[Id]) -> Result<Vec<(Id, Claim)>> {
        self.during(Operation::Search, |store| store.claim(ids))
    }

    fn wants_ahead(&mut self, attempts: usize, begun: usize) -> usize {
        lock(&self.store).wants_ahead(attempts, begun)
    }

    fn claim_ahead(&mut self, ids: &[Id]) {
        lock(&self.store).claim_ahead(ids);
    }

    fn claimed_ahead(&self) -> usize {
        lock(&self.store).claimed_ahead()
    }

    fn release(&mut self, id: &Id) {
        lock(&self.store).release(id);
    }

    fn rest(&mut self) -> Result<()> {
        self.during(Operation::Settlement, |store| store.rest())
    }

    fn apply(&mut self, changes: &[RowWrite]) -> Result<Vec<WriteResult>> {
        let only_begins = changes.iter().all(RowWrite::begins);
        let operation = if only_begins { Operation::Search } else { Operation::Settlement };
        self.during(operation, |store| store.apply(changes))
    }

    fn rehearse(&mut self, record: &Arc<Record>, chains: &[Vec<Settlement>]) -> Result<Rehearsal> {
        self.during(Operation::Search, |store| store.rehearse(record, chains))
    }

    fn start_watchdog(&mut self, token: &str) -> Result<()> {
        self.watch()?;
        self.during(Operation::Search, |store| store.start_watchdog(token))?;
        if let Some(interval) = lock(&self.store).heartbeat() {
            let store = self.store.clone();
            let look_after = move || lock(&store).look_after();
            let failure = "could not start the thread that sees after the connections";
            self.heartbeat = Some(heartbeat("session heartbeat", failure, interval, look_after)?);
        }
        Ok(())
    }

    fn require_in_place(&mut self) -> Result<(), Moved> {
        lock(&self.store).require_in_place()
    }

    fn finish(&mut self) -> Result<()> {
        self.heartbeat = None;
        self.during(Operation::Settlement, |store| store.finish())
    }
}

/// Does something in each interval, and at once if the sockets that it returned can be read.
fn heartbeat(
    name: &str,
    failure: &'static str,
    interval: Duration,
    mut act: impl FnMut() -> Vec<Arc<OwnedFd>> + Send + 'static,
) -> Result<OwnedThread> {
    let interval = Timespec::try_from(interval).context("no time to wait")?;
    let beat = move |end: &OwnedFd| {
        let mut sockets = Vec::new();
        loop {
            let watched = std::iter::once(end).chain(sockets.iter().map(Arc::as_ref));
            let mut polled: Vec<_> = watched.map(|it| PollFd::new(it, PollFlags::IN)).collect();
            // A signal is no reason to do otherwise.
            let _ = poll(&mut polled, Some(&interval));
            if polled.first().is_none_or(|end| !end.revents().is_empty()) {
                return;
            }
            sockets = act();
        }
    };
    OwnedThread::start(name, failure, beat)
}

/// A thread that is ended and waited for when this is dropped.
pub struct OwnedThread(Option<(OwnedFd, JoinHandle<()>)>);

impl OwnedThread {
    /// `run` is to return once it can read the end of the pipe that it is handed.
    pub fn start(
        name: &str,
        failure: &'static str,
        run: impl FnOnce(&OwnedFd) + Send + 'static,
    ) -> Result<Self> {
        let (end, open) = pipe_with(PipeFlags::CLOEXEC).context("could not make a pipe")?;
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || run(&end));
        Ok(Self(Some((open, thread.context(failure)?))))
    }
}

impl Drop for OwnedThread {
    fn drop(&mut self) {
        if let Some((open, thread)) = self.0.take() {
            drop(open);
            let _ = thread.join();
        }
    }
}

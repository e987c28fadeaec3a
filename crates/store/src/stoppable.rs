//! A store whose statements end when its pass stops. Its threads also keep the claims of the store.

use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use backlog_schedule::{Id, Query, Record};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::database::Database;
use crate::mutex::lock;
use crate::retry::{Operation, Retry};
use crate::state_dir::StateDir;
use crate::stop::Stop;
use crate::store::{
    Begun, BoxedStore, Claim, ClaimRequest, Interrupter, IsDue, Limits, Page, ReadResult, Reader,
    Sessions, Store, Until, Wakeup,
};
use crate::writes::{Ends, PossibleWrites, Rehearsal, RowWrite, WriteResult};

/// Interval of interrupts. They are repeated, because one between two statements has no effect.
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(50);

pub struct Stoppable {
    /// Set until its thread starts.
    interrupt: Option<Interrupter>,
    // The threads use the connection of the store, and are dropped before it.
    interrupter: Option<OwnedThread>,
    /// The threads for heartbeats and against a silent server.
    keepers: Vec<OwnedThread>,
    store: Arc<Mutex<BoxedStore>>,
    stop: Arc<Stop>,
    retry: Retry,
}

impl Stoppable {
    pub fn open(database: Box<dyn Database>, state: &StateDir, stop: Arc<Stop>) -> Result<Self> {
        let retry = Retry::new(Some(stop.clone()), stop.clock);
        let interrupt = Some(database.interrupter());
        let store = Arc::new(Mutex::new(database.into_store(state, retry.clone())?));
        let (interrupter, keepers) = (None, Vec::new());
        let mut opened = Self { interrupt, interrupter, keepers, store, stop, retry };
        if opened.stop.deadline.is_some() {
            opened.start_interrupter()?;
        }
        Ok(opened)
    }

    /// Starts the interrupting thread. Without a deadline an idle pass needs none: signals end it at once.
    fn start_interrupter(&mut self) -> Result<()> {
        let Some(mut interrupt) = self.interrupt.take() else { return Ok(()) };
        let retry = self.retry.clone();
        let run = move |end: &OwnedFd| {
            while !is_over(end, INTERRUPT_INTERVAL) {
                if retry.must_give_up() {
                    interrupt();
                }
            }
        };
        self.interrupter = Some(OwnedThread::start("interrupter", run)?);
        Ok(())
    }

    fn during<T>(&mut self, operation: Operation, work: impl FnOnce(&mut dyn Store) -> T) -> T {
        self.retry.during(operation, || work(&mut **lock(&self.store)))
    }
}

impl Reader for Stoppable {
    fn due(&mut self, query: &Query, is_due: IsDue<'_>) -> Result<Page> {
        self.during(Operation::Search, |store| store.due(query, is_due))
    }

    fn read(&mut self, id: &Id) -> Result<ReadResult> {
        self.during(Operation::Search, |store| store.read(id))
    }
}

impl Store for Stoppable {
    fn limits(&self) -> Limits {
        lock(&self.store).limits()
    }

    fn claim(&mut self, request: ClaimRequest<'_>) -> Result<Vec<(Id, Claim)>> {
        self.during(Operation::Search, |store| store.claim(request))
    }

    fn round(&mut self, writes: &[RowWrite], next: &[Id]) -> Result<Vec<WriteResult>> {
        let only_begins = writes.iter().all(RowWrite::begins);
        let operation = if only_begins { Operation::Search } else { Operation::Settlement };
        self.during(operation, |store| store.round(writes, next))
    }

    fn release(&mut self, id: &Id) {
        lock(&self.store).release(id);
    }

    fn flush(&mut self, until: Until) -> Result<()> {
        if until == Until::Durable {
            self.keepers.clear();
        }
        self.during(Operation::Settlement, |store| store.flush(until))
    }

    fn rehearse(&mut self, writes: &[PossibleWrites], held: &[RowWrite]) -> Result<Vec<Rehearsal>> {
        self.during(Operation::Search, |store| store.rehearse(writes, held))
    }

    fn rehearse_ends(&mut self, record: &Arc<Record>, ends: Ends) -> Result<Option<String>> {
        self.during(Operation::Search, |store| store.rehearse_ends(record, ends))
    }

    fn begin(&mut self, token: &str, lost: Sender<Vec<Id>>) -> Result<Begun> {
        self.start_interrupter()?;
        let begun = self.during(Operation::Search, |store| store.begin(token, lost))?;
        let Some(heartbeat) = &begun.heartbeat else { return Ok(begun) };
        let (interval, sessions) = (heartbeat.interval, heartbeat.sessions.clone());
        if let Some(sessions) = sessions.clone() {
            let stop = self.stop.clone();
            let watch = move |end: &OwnedFd| watch_for_silence(&*sessions, &stop, end);
            self.keepers.push(OwnedThread::start("silence watch", watch)?);
        }
        let store = self.store.clone();
        let keep = move |end: &OwnedFd| keep_claims(&store, sessions.as_deref(), interval, end);
        self.keepers.push(OwnedThread::start("session heartbeat", keep)?);
        Ok(begun)
    }
}

/// Waits until `end` is readable. Returns false after `timeout`.
fn is_over(end: &OwnedFd, timeout: Duration) -> bool {
    let mut polled = [PollFd::new(end, PollFlags::IN)];
    let timeout = Timespec::try_from(timeout).ok();
    let _ = retry_on_intr(|| poll(&mut polled, timeout.as_ref()));
    !polled[0].revents().is_empty()
}

/// Makes the store keep its claims in each interval, and as soon as one of its sessions ends.
fn keep_claims(
    store: &Mutex<BoxedStore>,
    sessions: Option<&dyn Sessions>,
    interval: Duration,
    end: &OwnedFd,
) {
    let mut next = interval;
    loop {
        let wakeup = match sessions {
            Some(sessions) => sessions.wait(end, next),
            None if is_over(end, next) => Wakeup::End,
            None => Wakeup::Time,
        };
        if wakeup == Wakeup::End {
            return;
        }
        let has_ended = wakeup == Wakeup::SessionEnded;
        let soon = lock_for_claims(store, sessions, has_ended).keep_claims(has_ended);
        next = soon.ok().flatten().unwrap_or(interval);
    }
}

/// Locks the store. If a session with claims may have ended, it cancels a slow statement first, which runs again later.
fn lock_for_claims<'a>(
    store: &'a Mutex<BoxedStore>,
    sessions: Option<&dyn Sessions>,
    has_ended: bool,
) -> MutexGuard<'a, BoxedStore> {
    if let Some(sessions) = sessions.filter(|_| has_ended) {
        for _ in 0..MOST_TRIES {
            match store.try_lock() {
                Err(TryLockError::WouldBlock) => thread::sleep(BETWEEN_TRIES),
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Ok(store) => return store,
            }
        }
        sessions.cancel();
    }
    lock(store)
}

/// Tries to lock the store before the running statement is cancelled.
const MOST_TRIES: u32 = 100;
const BETWEEN_TRIES: Duration = Duration::from_millis(2);

/// Ends the handlers of a pass before a silent server frees the claims of the pass.
fn watch_for_silence(sessions: &dyn Sessions, stop: &Stop, end: &OwnedFd) {
    let mut interval = SILENCE_INTERVAL;
    while !is_over(end, interval) {
        let silent_for = sessions.silent_for();
        let Some(next) = interval_after(interval, silent_for) else {
            log::error!(
                "no answer from the server for {} s: ending the handlers before the server frees the claims on \
                 their records",
                silent_for.as_secs()
            );
            return stop.end_within(Duration::ZERO);
        };
        interval = next;
    }
}

/// The time to the next check; `None` after a long silence. A suspended machine first tries its sessions once more.
fn interval_after(interval: Duration, silent_for: Duration) -> Option<Duration> {
    match silent_for >= MAX_SILENCE {
        true => (interval < ONE_HEARTBEAT).then_some(ONE_HEARTBEAT),
        false => Some(SILENCE_INTERVAL),
    }
}

/// Maximum silence of a server. It frees the claims of a silent client after 180 s (docs/postgresql.md), 10 s after the
/// handlers have ended. One more heartbeat takes up to 7 s, and the end of the handlers 2 s.
const MAX_SILENCE: Duration = Duration::from_secs(180 - 10 - 7 - 2);
const SILENCE_INTERVAL: Duration = Duration::from_secs(1);
const ONE_HEARTBEAT: Duration = Duration::from_secs(7);

/// A thread that ends when this value is dropped, which waits for it.
pub struct OwnedThread(Option<(OwnedFd, JoinHandle<()>)>);

impl OwnedThread {
    /// Starts a thread. `run` must return once the pipe, its argument, is readable.
    pub fn start(name: &str, run: impl FnOnce(&OwnedFd) + Send + 'static) -> Result<Self> {
        let (end, open) = pipe_with(PipeFlags::CLOEXEC).context("could not create a pipe")?;
        let thread = thread::Builder::new().name(name.into()).spawn(move || run(&end));
        let thread = thread.with_context(|| format!("could not start the thread {name:?}"))?;
        Ok(Self(Some((open, thread))))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handlers_end_ten_seconds_before_a_silent_server_frees_the_claims() {
        let secs = Duration::from_secs;
        for second in 0..=160 {
            assert_eq!(interval_after(SILENCE_INTERVAL, secs(second)), Some(SILENCE_INTERVAL));
        }
        assert_eq!(interval_after(SILENCE_INTERVAL, secs(161)), Some(ONE_HEARTBEAT));
        let waited = secs(161) + ONE_HEARTBEAT;
        assert_eq!(interval_after(ONE_HEARTBEAT, waited), None);
        // A handler that is asked to end is killed a second later.
        assert!(waited + SILENCE_INTERVAL + secs(1) <= secs(180 - 10));
    }

    #[test]
    fn a_machine_that_was_suspended_asks_once_before_handlers_end() {
        let hour = Duration::from_secs(3_600);
        assert_eq!(interval_after(SILENCE_INTERVAL, hour), Some(ONE_HEARTBEAT));
        let answered = interval_after(ONE_HEARTBEAT, Duration::ZERO);
        assert_eq!(answered, Some(SILENCE_INTERVAL), "the server has answered");
        assert_eq!(interval_after(ONE_HEARTBEAT, hour + ONE_HEARTBEAT), None);
    }
}

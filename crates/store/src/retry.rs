//! Retries of operations on a database that was busy, or gone for a while.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant as Monotonic};

use anyhow::{Result, bail};
use backlog_schedule::{Id, Query, Record};

use crate::clock::Clock;
use crate::engine::Engine;
use crate::error::{DbError, DbErrorKind, Refusal, StoreError};
use crate::mutex::lock;
use crate::stop::Stop;
use crate::store::{
    Begun, Claim, ClaimRequest, IsDue, Limits, Page, ReadResult, Reader, Store, Until,
};
use crate::system_error::chain;
use crate::writes::{PossibleWrites, Rehearsal, RowWrite, WriteResult};

/// How long a server that is gone is waited for.
const GONE: Duration = Duration::from_secs(60);
/// How long in a pass that is to stop: long enough for a server that is just being started.
const STOPPING: Duration = Duration::from_secs(5);
/// The pause between two attempts to reach a server.
pub const PAUSE: Duration = Duration::from_millis(100);
/// The same for a while at first, because another pass may take what this one had claimed.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const AT_FIRST: Duration = Duration::from_secs(1);

/// The pause after an attempt to reach a server that has been lost for so long.
pub fn reconnect_pause(lost_for: Duration) -> Duration {
    if lost_for < AT_FIRST { FIRST_PAUSE } else { PAUSE }
}

/// How a failed operation is tried again: by which clock, and until which stop.
#[derive(Clone)]
pub struct Retry {
    pub clock: Clock,
    stop: Option<Arc<Stop>>,
    operation: Arc<Mutex<Operation>>,
}

impl Retry {
    pub fn new(stop: Option<Arc<Stop>>, clock: Clock) -> Self {
        Self { clock, stop, operation: Arc::default() }
    }

    fn is_to_stop(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.is_stopping())
    }

    /// Whether the operation is to end and nothing is to be tried again, because the pass is to stop.
    pub fn must_give_up(&self) -> bool {
        let Some(stop) = &self.stop else { return false };
        match *lock(&self.operation) {
            Operation::Nothing => false,
            Operation::Search => stop.is_stopping(),
            Operation::Settlement => {
                let last = stop.ends_at().and_then(|at| at.checked_add(MARGIN));
                last.is_some_and(|last| self.clock.until(last).is_zero())
            }
        }
    }

    pub fn during<T>(&self, operation: Operation, work: impl FnOnce() -> T) -> T {
        *lock(&self.operation) = operation;
        let done = work();
        *lock(&self.operation) = Operation::Nothing;
        done
    }
}

/// How long after the grace a settlement may run: killed handlers are written as well.
const MARGIN: Duration = Duration::from_secs(2);

/// What a store is at. Searches and claims lose nothing when they end; a settlement has outcomes.
#[derive(Default)]
pub enum Operation {
    #[default]
    Nothing,
    Search,
    Settlement,
}

/// A store on a database, whose failures are those of the database.
pub trait Reconnecting: Store {
    type Engine: Engine;

    fn engine(&mut self) -> &mut Self::Engine;

    /// Makes lost sessions again and takes their claims back. Waits a moment if the server only reads.
    fn reconnect(&mut self, why: &DbError) -> Result<()>;
}

/// A store that repeats what a lock, a lost session or a read-only server has kept from being done.
pub struct Retrying<S> {
    store: S,
    retry: Retry,
    stage: PassStage,
    /// Whether nobody waits: a server that is gone is then left to the next heartbeat.
    is_heartbeat: bool,
    /// Whether the sessions were used since the last heartbeat.
    is_used: bool,
    /// Since when heartbeats cannot reach the server.
    lost_at: Option<Monotonic>,
}

/// Writes that were refused.
struct Refused {
    why: Refusal,
    /// Whether some of them may have been made all the same.
    is_partial: bool,
}

#[derive(PartialEq, Eq)]
enum PassStage {
    /// A command that is no pass waits for a row that is locked.
    Opened,
    /// A pass keeps outcomes and tries again.
    Begun,
    /// Writes were accepted, so that a server that only reads is waited for.
    Written,
}

impl<S: Reconnecting> Retrying<S> {
    pub fn new(store: S, retry: Retry) -> Self {
        let (stage, is_heartbeat, is_used, lost_at) = (PassStage::Opened, false, false, None);
        Self { store, retry, stage, is_heartbeat, is_used, lost_at }
    }

    /// Repeats an action until it succeeds or fails for good. The action is told whether it may have been done
    /// before.
    fn retrying<T>(
        &mut self,
        verb: &str,
        mut act: impl FnMut(&mut S, bool) -> Result<T>,
    ) -> Result<T> {
        self.is_used = true;
        let clock = self.retry.clock;
        let (mut busy, mut deadline) = (0, None);
        loop {
            let error = match act(&mut self.store, busy > 0 || deadline.is_some()) {
                Ok(done) => return Ok(done),
                Err(error) => error.downcast::<DbError>()?,
            };
            let goes_on = !self.retry.must_give_up();
            let is_read_only = error.kind == DbErrorKind::ReadOnly
                && self.stage == PassStage::Written
                && !self.is_heartbeat;
            let is_gone = error.is_lost() || is_read_only;
            if is_read_only && deadline.is_none() {
                log::warn!("{}: {}; trying again", self.label(), error.message);
            }
            if is_read_only && self.retry.is_to_stop() {
                let last = clock.monotonic() + STOPPING;
                deadline = Some(deadline.map_or(last, |at: Monotonic| at.min(last)));
            }
            if goes_on && is_gone && deadline.is_none_or(|at| !clock.until(at).is_zero()) {
                deadline = deadline.or_else(|| Some(clock.monotonic() + GONE));
                self.reconnect(&error)?;
                continue;
            }
            self.store.engine().roll_back();
            if is_read_only {
                let (place, words) = (self.label(), error.message);
                bail!(StoreError::TryLater(format!(
                    "could not {verb} {place}: {words}; try later"
                )));
            }
            if !goes_on || error.kind != DbErrorKind::Busy || busy == S::Engine::TRIES {
                return Err(self.store.engine().explain(error, verb));
            }
            let level = if busy == 0 { log::Level::Warn } else { log::Level::Debug };
            log::log!(level, "{}: {}; trying again", self.label(), error.message);
            busy += 1;
        }
    }

    fn label(&mut self) -> String {
        self.store.engine().label()
    }

    /// Connects as often as it takes, but not for ever, nor for long once a signal has come.
    fn reconnect(&mut self, why: &DbError) -> Result<()> {
        let (place, clock) = (self.label(), self.retry.clock);
        if why.is_lost() && !self.is_heartbeat {
            log::warn!("lost a connection to {place}: {}; connecting again", why.message);
        }
        let began_at = clock.monotonic();
        let mut deadline = began_at + if self.is_heartbeat { Duration::ZERO } else { GONE };
        loop {
            let Err(error) = self.store.reconnect(why) else { return Ok(()) };
            log::debug!("still lost: {}", chain(&error));
            if self.retry.is_to_stop() {
                deadline = deadline.min(clock.monotonic() + STOPPING);
            }
            if clock.until(deadline).is_zero() || self.retry.must_give_up() {
                return Err(error.context(format!("lost the connection to {place}")));
            }
            std::thread::sleep(reconnect_pause(clock.monotonic() - began_at));
        }
    }

    /// Writes all rows or none. In a pass a locked row counts as refused: no attempt begins on it, and the pass
    /// keeps its outcome.
    fn write(
        &mut self,
        writes: &[RowWrite],
        next: &[Id],
    ) -> Result<Result<Vec<WriteResult>, Refused>> {
        let gives_way = S::Engine::TRIES > 0 && self.stage != PassStage::Opened;
        self.retrying("write to", |store, is_repeated| {
            let repeated = || writes.iter().map(|write| RowWrite { is_repeated, ..write.clone() });
            let written = match is_repeated {
                true => store.round(&repeated().collect::<Vec<_>>(), next),
                false => store.round(writes, next),
            };
            let Err(error) = written else { return written.map(Ok) };
            let error = error.downcast::<DbError>()?;
            let is_lock = error.kind == DbErrorKind::Busy;
            if error.is_refusal || gives_way && is_lock {
                store.engine().roll_back();
                let is_partial = is_repeated || error.is_partial;
                return Ok(Err(Refused {
                    is_partial,
                    why: Refusal { why: error.message, is_lock },
                }));
            }
            bail!(error)
        })
    }
}

impl<S: Reconnecting> Reader for Retrying<S> {
    fn due(&mut self, query: &Query, is_due: IsDue<'_>) -> Result<Page> {
        self.retrying("read", |store, _| store.due(query, is_due))
    }

    fn read(&mut self, id: &Id) -> Result<ReadResult> {
        self.retrying("read", |store, _| store.read(id))
    }
}

impl<S: Reconnecting> Store for Retrying<S> {
    fn limits(&self) -> Limits {
        self.store.limits()
    }

    fn claim(&mut self, wanted: ClaimRequest<'_>) -> Result<Vec<(Id, Claim)>> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        self.retrying("read", |store, _| store.claim(wanted))
    }

    /// A row that the table refuses takes no other outcome with it: then rows are written one by one.
    fn round(&mut self, writes: &[RowWrite], next: &[Id]) -> Result<Vec<WriteResult>> {
        if writes.is_empty() {
            return Ok(Vec::new());
        }
        let is_partial = match self.write(writes, next)? {
            Ok(written) => return Ok(written),
            Err(Refused { is_partial, .. }) => is_partial,
        };
        let mut results = Vec::with_capacity(writes.len());
        for write in writes {
            let is_repeated = write.is_repeated || is_partial;
            let written = self.write(&[RowWrite { is_repeated, ..write.clone() }], &[])?;
            results.extend(written.unwrap_or_else(|one| vec![WriteResult::Refused(one.why)]));
        }
        Ok(results)
    }

    fn release(&mut self, id: &Id) {
        self.store.release(id);
    }

    fn flush(&mut self, until: Until) -> Result<()> {
        let verb = if until == Until::Durable { "write to" } else { "read" };
        self.retrying(verb, |store, _| store.flush(until))
    }

    fn rehearse(&mut self, writes: &[PossibleWrites], held: &[RowWrite]) -> Result<Vec<Rehearsal>> {
        let rehearsed = self.retrying("write to", |store, _| store.rehearse(writes, held))?;
        if self.stage == PassStage::Begun && rehearsed.contains(&Rehearsal::Taken) {
            self.stage = PassStage::Written;
        }
        Ok(rehearsed)
    }

    fn rehearse_way_back(&mut self, record: &Arc<Record>, most: u32) -> Result<Option<String>> {
        self.retrying("write to", |store, _| store.rehearse_way_back(record, most))
    }

    fn begin(&mut self, token: &str, lost: Sender<Vec<Id>>) -> Result<Begun> {
        let begun = self.retrying("read", |store, _| store.begin(token, lost.clone()))?;
        self.stage = PassStage::Begun;
        Ok(begun)
    }

    /// A server that cannot be reached is left to the next heartbeat, which comes soon.
    fn keep_claims(&mut self, checks_sessions: bool) -> Result<Option<Duration>> {
        let was_used = std::mem::take(&mut self.is_used);
        self.is_heartbeat = true;
        let kept =
            self.retrying("read", |store, _| store.keep_claims(checks_sessions || !was_used));
        (self.is_heartbeat, self.is_used) = (false, false);
        let Err(error) = kept else {
            self.lost_at = None;
            return kept;
        };
        log::debug!("{}", chain(&error));
        let now = self.retry.clock.monotonic();
        let lost_at = *self.lost_at.get_or_insert(now);
        Ok(Some(reconnect_pause(now - lost_at)))
    }
}

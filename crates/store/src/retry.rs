//! Retries of operations on a database that is busy or temporarily unreachable.

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
use crate::writes::{Ends, PossibleWrites, Rehearsal, RowWrite, WriteResult};

/// Maximum wait for a lost server.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// Maximum wait in a stopping pass, long enough for a server that is starting.
const MAX_WAIT_STOPPING: Duration = Duration::from_secs(5);
pub const PAUSE: Duration = Duration::from_millis(100);
/// Pause in the first second, because another pass may take the claims of this one.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const FIRST_SECOND: Duration = Duration::from_secs(1);

pub fn reconnect_pause(lost_for: Duration) -> Duration {
    if lost_for < FIRST_SECOND { FIRST_PAUSE } else { PAUSE }
}

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

    fn is_stopping(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.is_stopping())
    }

    /// True if the present operation has to end without retries, because the pass stops.
    pub fn must_give_up(&self) -> bool {
        let Some(stop) = &self.stop else { return false };
        match *lock(&self.operation) {
            Operation::Nothing => false,
            Operation::Search => stop.is_stopping(),
            Operation::Settlement => {
                let deadline = stop.ends_at().and_then(|at| at.checked_add(MARGIN));
                deadline.is_some_and(|deadline| self.clock.until(deadline).is_zero())
            }
        }
    }

    pub fn during<T>(&self, operation: Operation, work: impl FnOnce() -> T) -> T {
        *lock(&self.operation) = operation;
        let result = work();
        *lock(&self.operation) = Operation::Nothing;
        result
    }
}

/// Time after the grace period in which outcomes of killed handlers are still written.
const MARGIN: Duration = Duration::from_secs(2);

/// Operation of a store. A search, claim, charge or rehearsal loses nothing if it ends early; a settlement has
/// outcomes.
#[derive(Default)]
pub enum Operation {
    #[default]
    Nothing,
    Search,
    Settlement,
}

/// A store whose errors are [`DbError`]s, with sessions that can be opened again.
pub trait Reconnecting: Store {
    type Engine: Engine;

    fn engine(&mut self) -> &mut Self::Engine;

    /// Opens lost sessions again and takes their claims back. Waits a moment for a read-only server.
    fn reconnect(&mut self, error: &DbError) -> Result<()>;
}

/// A store that repeats operations which failed because of a lock, a lost session or a read-only server.
pub struct Retrying<S> {
    store: S,
    retry: Retry,
    stage: PassStage,
    /// The operation is a heartbeat: the next one tries a lost server again.
    is_heartbeat: bool,
    /// The sessions were used since the last heartbeat.
    is_used: bool,
    /// The first heartbeat that could not reach the server.
    lost_at: Option<Monotonic>,
}

struct Refused {
    why: Refusal,
    /// Some of them may have been made nevertheless.
    is_partial: bool,
}

#[derive(PartialEq, Eq)]
enum PassStage {
    /// Before a pass, or in another command, which waits for locked rows.
    Opened,
    /// In a pass, which does not wait: it keeps an outcome and tries it again later.
    Begun,
    /// The server has accepted a rehearsal. If it is read-only now, the pass waits.
    Written,
}

impl<S: Reconnecting> Retrying<S> {
    pub fn new(store: S, retry: Retry) -> Self {
        let (stage, is_heartbeat, is_used, lost_at) = (PassStage::Opened, false, false, None);
        Self { store, retry, stage, is_heartbeat, is_used, lost_at }
    }

    /// Repeats an action until it succeeds or fails for good. Its argument is true if it may have been done already.
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
            if is_read_only && self.retry.is_stopping() {
                let last = clock.monotonic() + MAX_WAIT_STOPPING;
                deadline = Some(deadline.map_or(last, |at: Monotonic| at.min(last)));
            }
            if goes_on && is_gone && deadline.is_none_or(|at| !clock.until(at).is_zero()) {
                deadline = deadline.or_else(|| Some(clock.monotonic() + MAX_WAIT));
                self.reconnect(&error)?;
                continue;
            }
            self.store.engine().roll_back();
            if is_read_only {
                let (label, message) = (self.label(), error.message);
                bail!(StoreError::TryLater(format!(
                    "could not {verb} {label}: {message}; try later"
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

    /// Connects again and again for a limited time, which a stop shortens.
    fn reconnect(&mut self, why: &DbError) -> Result<()> {
        let (label, clock) = (self.label(), self.retry.clock);
        if why.is_lost() && !self.is_heartbeat {
            log::warn!("lost a connection to {label}: {}; connecting again", why.message);
        }
        let began_at = clock.monotonic();
        let mut deadline = began_at + if self.is_heartbeat { Duration::ZERO } else { MAX_WAIT };
        loop {
            let Err(error) = self.store.reconnect(why) else { return Ok(()) };
            log::debug!("still lost: {}", chain(&error));
            if self.retry.is_stopping() {
                deadline = deadline.min(clock.monotonic() + MAX_WAIT_STOPPING);
            }
            if clock.until(deadline).is_zero() || self.retry.must_give_up() {
                return Err(error.context(format!("lost the connection to {label}")));
            }
            std::thread::sleep(reconnect_pause(clock.monotonic() - began_at));
        }
    }

    /// Writes rows. In a pass a locked row is a refusal: no attempt begins, and the pass keeps the outcome.
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

    fn claim(&mut self, request: ClaimRequest<'_>) -> Result<Vec<(Id, Claim)>> {
        if request.is_empty() {
            return Ok(Vec::new());
        }
        self.retrying("read", |store, _| store.claim(request))
    }

    /// After a refusal, writes each row alone, so that the others are written.
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
            results
                .extend(written.unwrap_or_else(|refused| vec![WriteResult::Refused(refused.why)]));
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

    fn rehearse_ends(&mut self, record: &Arc<Record>, ends: Ends) -> Result<Option<String>> {
        self.retrying("write to", |store, _| store.rehearse_ends(record, ends))
    }

    fn begin(&mut self, token: &str, lost: Sender<Vec<Id>>) -> Result<Begun> {
        let begun = self.retrying("read", |store, _| store.begin(token, lost.clone()))?;
        self.stage = PassStage::Begun;
        Ok(begun)
    }

    /// The next heartbeat, which comes soon, tries an unreachable server again.
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

//! The retry of what a database that is busy, or gone for a while, did not do.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant as Monotonic};

use anyhow::{Result, bail};

use crate::clock::Clock;
use crate::engine::Engine;
use crate::error::{DbError, DbResult, Kind, OrRefused, Refusal, StoreError};
use crate::mutex::lock;
use crate::stop::Stop;
use crate::system_error::chain;
use crate::writes::{RowWrite, WriteResult};

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
    stop: Option<Arc<StoreStop>>,
    /// Whether nobody waits: a server that is gone is then left to the next look.
    is_just_looking: bool,
}

impl Retry {
    pub fn new(stop: Option<Arc<StoreStop>>, clock: Clock) -> Self {
        Self { clock, stop, is_just_looking: false }
    }

    fn is_to_stop(&self) -> bool {
        self.stop.as_ref().is_some_and(|it| it.stop.is_asked())
    }

    /// Whether nothing is to be tried again, because the pass is to stop.
    pub fn is_at_end(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.ends_operation())
    }
}

/// How long after the grace a settlement may run: killed handlers are written as well.
const MARGIN: Duration = Duration::from_secs(2);

/// The stop of a pass, and the operation of the store that it ends.
pub struct StoreStop {
    pub stop: Arc<Stop>,
    pub operation: Mutex<Operation>,
}

/// What a store is at. Searches and claims lose nothing when they end; a settlement has outcomes.
pub enum Operation {
    Nothing,
    Search,
    Settlement,
}

impl StoreStop {
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

/// A store whose sessions can be made anew.
pub trait Reconnecting: Sized {
    type Engine: Engine;

    fn retry(&mut self) -> &mut Retry;

    /// Where everything is written.
    fn engine(&mut self) -> &mut Self::Engine;

    /// Makes lost sessions again and takes their claims back. Waits a moment if the server only reads.
    fn recover(&mut self, why: DbError) -> Result<()>;

    /// Whether a write may be left undone for now, because a pass keeps the outcome and tries again.
    fn keeps_outcomes(&self) -> bool;

    /// Whether writes were accepted in this pass, so that a server that only reads is waited for.
    fn has_been_writable(&self) -> bool;

    fn just_looking<T>(
        &mut self,
        verb: &str,
        act: impl FnMut(&mut Self, bool) -> DbResult<T>,
    ) -> Option<T> {
        self.retry().is_just_looking = true;
        let done = self.retrying(verb, act);
        self.retry().is_just_looking = false;
        done.inspect_err(|error| log::debug!("{}", chain(error))).ok()
    }

    /// Connects as often as it takes, but not for ever, nor for long once a signal has come.
    fn connect_again(
        &mut self,
        why: &DbError,
        mut connect: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let place = self.engine().place();
        let retry = self.retry().clone();
        let Retry { clock, is_just_looking, .. } = retry;
        if !is_just_looking {
            log::warn!("lost a connection to {place}: {}; connecting again", why.words);
        }
        let began_at = clock.monotonic();
        let mut deadline = began_at + if is_just_looking { Duration::ZERO } else { GONE };
        loop {
            let Err(error) = connect(self) else { return Ok(()) };
            log::debug!("still lost: {}", chain(&error));
            if retry.is_to_stop() {
                deadline = deadline.min(clock.monotonic() + STOPPING);
            }
            if clock.until(deadline).is_zero() || retry.is_at_end() {
                return Err(error.context(format!("lost the connection to {place}")));
            }
            std::thread::sleep(reconnect_pause(clock.monotonic() - began_at));
        }
    }

    /// Waits out locks and lost sessions. What is done hears whether it may have been done before.
    fn retrying<T>(
        &mut self,
        verb: &str,
        mut act: impl FnMut(&mut Self, bool) -> DbResult<T>,
    ) -> Result<T> {
        let clock = self.retry().clock;
        let (mut busy, mut deadline) = (0, None);
        loop {
            let error = match act(self, busy > 0 || deadline.is_some()) {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            let goes_on = !self.retry().is_at_end();
            let is_read_only = error.kind == Kind::ReadOnly
                && self.has_been_writable()
                && !self.retry().is_just_looking;
            let is_gone = error.is_lost() || is_read_only;
            if is_read_only && deadline.is_none() {
                log::warn!("{}: {}; trying again", self.engine().place(), error.words);
            }
            if is_read_only && self.retry().is_to_stop() {
                let last = clock.monotonic() + STOPPING;
                deadline = Some(deadline.map_or(last, |it: Monotonic| it.min(last)));
            }
            if goes_on && is_gone && deadline.is_none_or(|it| !clock.until(it).is_zero()) {
                deadline = deadline.or_else(|| Some(clock.monotonic() + GONE));
                self.recover(error)?;
                continue;
            }
            self.engine().roll_back();
            if is_read_only {
                let (place, words) = (self.engine().place(), error.words);
                bail!(StoreError::TryLater(format!(
                    "could not {verb} {place}: {words}; try later"
                )));
            }
            if !goes_on || error.kind != Kind::Busy || busy == Self::Engine::TRIES {
                return Err(self.engine().explain(error, verb));
            }
            let level = if busy == 0 { log::Level::Warn } else { log::Level::Debug };
            log::log!(level, "{}: {}; trying again", self.engine().place(), error.words);
            busy += 1;
        }
    }

    /// The same, but what the table refuses is no failure, nor is a lock to what `gives_way`.
    fn retrying_or_refused<T>(
        &mut self,
        gives_way: bool,
        mut act: impl FnMut(&mut Self, bool) -> OrRefused<T>,
    ) -> Result<Result<T, Refusal>> {
        self.retrying("write to", |it, again| match act(it, again) {
            Err(error) if error.is_refusal || gives_way && error.kind == Kind::Busy => {
                it.engine().roll_back();
                Ok(Err(Refusal { why: error.words, is_lock: error.kind == Kind::Busy }))
            }
            result => result,
        })
    }

    /// Writes changes, all or none, or else one by one: a row that the table refuses takes no other outcome with it.
    /// In a pass nor does a locked row: no attempt is begun on it, and the pass keeps its outcome.
    fn write_all(
        &mut self,
        changes: &[RowWrite],
        write: fn(&mut Self, &[RowWrite], bool) -> OrRefused<Vec<WriteResult>>,
    ) -> Result<Vec<WriteResult>> {
        let gives_way = Self::Engine::TRIES > 0 && self.keeps_outcomes();
        let mut write = |changes: &[RowWrite]| {
            self.retrying_or_refused(gives_way, |it, again| write(it, changes, again))
        };
        if changes.is_empty() {
            return Ok(Vec::new());
        }
        if let Ok(written) = write(changes)? {
            return Ok(written);
        }
        let mut one = |one| Ok(write(one)?.unwrap_or_else(|why| vec![WriteResult::Refused(why)]));
        Ok(changes.chunks(1).map(&mut one).collect::<Result<Vec<_>>>()?.concat())
    }
}

//! Failures of a database, sorted by what can be done about them, and the retry of what one that is
//! busy or gone for a while did not do. Each engine sorts its own failures, once.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant as Monotonic};

use anyhow::{Result, anyhow, bail};

use super::engine::Engine;
use super::interrupt::StoreStop;
use super::{RowWrite, WriteResult};
use crate::clock::Clock;
use crate::system_error::chain;

/// An error of a kind that callers tell from others, anywhere in a chain.
#[derive(Debug, PartialEq, Eq)]
pub enum StoreError {
    /// The database stays locked or out of reach: the same command may work later.
    TryLater(String),
    Usage(String),
}

impl StoreError {
    pub fn is_try_later(error: &anyhow::Error) -> bool {
        matches!(error.downcast_ref(), Some(Self::TryLater(_)))
    }
}

impl std::error::Error for StoreError {}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::TryLater(message) | Self::Usage(message)) = self;
        f.write_str(message)
    }
}

#[derive(Debug, Default)]
pub struct DbError {
    pub kind: Kind,
    /// The database's own words.
    pub words: String,
    /// What can be done about it, behind the words: `; make room`
    pub hint: String,
    /// The character of the statement, from 0, that it is about, where the database says so.
    pub place: Option<usize>,
    /// Whether it is one row that cannot be read, and not the table: others may well be.
    pub is_of_a_row: bool,
    /// Whether the table refuses what was to be written. Another row may fare better.
    pub is_refusal: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Kind {
    /// The session is gone, and whatever it held with it.
    Lost,
    /// Somebody else is in the way: the same statement may go through a moment later.
    Busy,
    /// A value cannot be one of the type that it is compared with, so that no row has it.
    NoValue,
    Forbidden,
    ReadOnly,
    /// The system could not read or write a file.
    Io,
    #[default]
    Other,
}

pub type DbResult<T> = Result<T, DbError>;

impl DbError {
    pub fn is_lost(&self) -> bool {
        self.kind == Kind::Lost
    }

    /// Whether the statement itself may be wrong.
    #[cfg(feature = "postgres")]
    pub fn is_of_sql(&self) -> bool {
        matches!(self.kind, Kind::NoValue | Kind::ReadOnly | Kind::Other)
    }

    /// The failure to `verb` the database at `place`, as the user is told it.
    pub fn explain(&self, place: &str, verb: &str) -> anyhow::Error {
        let Self { words, hint, .. } = self;
        match self.kind {
            Kind::Lost => StoreError::TryLater(format!(
                "lost the connection to {place}: {words}{hint}; try later"
            ))
            .into(),
            Kind::Busy => {
                StoreError::TryLater(format!("could not {verb} {place}: {hint}; try later")).into()
            }
            Kind::ReadOnly if verb == "read" => anyhow!(
                "could not read {place}: {words}; a command that only reads takes no `where` that \
                 writes"
            ),
            Kind::NoValue | Kind::Forbidden | Kind::ReadOnly | Kind::Io | Kind::Other => {
                anyhow!("could not {verb} {place}: {words}{hint}")
            }
        }
    }
}

impl std::error::Error for DbError {}

impl fmt::Display for DbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

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

/// Why a write was not made, although the database works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub why: String,
    /// Whether another session keeps the row locked. Otherwise the table refuses the write.
    pub is_lock: bool,
}

impl From<&str> for Refusal {
    fn from(why: &str) -> Self {
        Self { why: why.into(), is_lock: false }
    }
}

/// What was done, or why it was not.
pub type OrRefused<T> = DbResult<Result<T, Refusal>>;

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

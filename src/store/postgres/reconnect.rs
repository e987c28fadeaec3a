//! Retries and reconnections, where a server is busy or gone for a while.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use postgres::Error as SqlError;

use super::PgDatabase;
use super::errors::{explain, is_busy, is_lost, is_refusal, words};
use crate::clock::Clock;
use crate::store::{Database, RowWrite, StoreStop, WriteResult, write_all};

/// How often something is tried again that somebody else is in the way of. An outcome is not given
/// up lightly.
const TRIES: u32 = 60;
/// How long a server that is gone is waited for.
const GONE: Duration = Duration::from_secs(60);
/// How long in a pass that is to stop: long enough for a server that is just being started.
const STOPPING: Duration = Duration::from_secs(5);
/// The pause between two attempts to reach it.
const PAUSE: Duration = Duration::from_millis(100);

/// The patience with a server: for how long it is waited for.
#[derive(Clone)]
pub struct Patience {
    clock: Clock,
    /// The stop of the pass, if there is a pass.
    stop: Option<Arc<StoreStop>>,
    /// Whether nobody waits for what is being done: a server that is gone is then left to the next
    /// look.
    is_just_looking: bool,
}

impl Patience {
    /// Whether what is being done is not to be tried again, because the pass is to stop.
    fn is_at_end(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.ends_operation())
    }

    pub fn new(stop: Option<Arc<StoreStop>>, clock: Clock) -> Self {
        Self { clock, stop, is_just_looking: false }
    }
}

/// What was done, or why the table refuses it.
pub type OrRefused<T> = Result<Result<T, String>, SqlError>;

/// Sessions that can be made anew.
pub trait Patient: Sized {
    fn patience(&mut self) -> &mut Patience;

    /// Where everything is written.
    fn database(&mut self) -> &mut PgDatabase;

    /// Makes the sessions anew that are lost.
    fn recover(&mut self, why: &SqlError) -> Result<()>;

    /// Ends a transaction that an error may have left open.
    fn roll_back(&mut self) {
        let _ = self.database().session.roll_back();
    }

    /// Does something that nobody waits for.
    fn just_looking(
        &mut self,
        verb: &str,
        act: impl FnMut(&mut Self, bool) -> Result<(), SqlError>,
    ) {
        self.patience().is_just_looking = true;
        if let Err(error) = self.patiently(verb, act) {
            log::debug!("{error:#}");
        }
        self.patience().is_just_looking = false;
    }

    /// Connects, as often as it takes, but not for ever, and not much longer once a signal has
    /// come.
    fn connect_again(
        &mut self,
        why: &SqlError,
        mut connect: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let place = self.database().place();
        let patience = self.patience().clone();
        let Patience { clock, is_just_looking, .. } = patience;
        if !is_just_looking {
            log::warn!("lost a connection to {place}: {}; connecting again", words(why));
        }
        let mut deadline = clock.monotonic() + if is_just_looking { PAUSE } else { GONE };
        loop {
            let Err(error) = connect(self) else { return Ok(()) };
            log::debug!("still lost: {error:#}");
            if patience.stop.as_ref().is_some_and(|stop| stop.is_asked()) {
                deadline = deadline.min(clock.monotonic() + STOPPING);
            }
            if clock.until(deadline).is_zero() || patience.is_at_end() {
                return Err(error.context(format!("lost the connection to {place}")));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Does something that can be done again: waits out locks, and lost sessions. What is done is
    /// told whether it may have been done before.
    fn patiently<T>(
        &mut self,
        verb: &str,
        mut act: impl FnMut(&mut Self, bool) -> Result<T, SqlError>,
    ) -> Result<T> {
        let clock = self.patience().clock;
        let (mut busy, mut deadline) = (0, None);
        loop {
            let error = match act(self, busy > 0 || deadline.is_some()) {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            let goes_on = !self.patience().is_at_end();
            if goes_on && is_lost(&error) && deadline.is_none_or(|it| !clock.until(it).is_zero()) {
                deadline = deadline.or_else(|| Some(clock.monotonic() + GONE));
                self.recover(&error)?;
                continue;
            }
            self.roll_back();
            let place = self.database().place();
            if !goes_on || !is_busy(&error) || busy == TRIES {
                return Err(explain(&place, &error, verb));
            }
            let level = if busy == 0 { log::Level::Warn } else { log::Level::Debug };
            log::log!(level, "{place}: {}; trying again", words(&error));
            busy += 1;
        }
    }

    /// Like `patiently`, but what the table refuses is no failure. Nor is what somebody else keeps
    /// locked, if this `gives_way`.
    fn patiently_or_refused<T>(
        &mut self,
        gives_way: bool,
        mut act: impl FnMut(&mut Self, bool) -> OrRefused<T>,
    ) -> Result<Result<T, String>> {
        self.patiently("write to", |it, again| match act(it, again) {
            Err(error) if is_refusal(&error) || gives_way && is_busy(&error) => {
                it.roll_back();
                Ok(Err(words(&error)))
            }
            result => result,
        })
    }

    /// Writes changes with what writes all or none of them, and is told whether it may have done so
    /// before. An attempt is not begun on a row that somebody else keeps locked.
    fn write_all(
        &mut self,
        changes: &[RowWrite],
        write: fn(&mut Self, &[RowWrite], bool) -> OrRefused<Vec<WriteResult>>,
    ) -> Result<Vec<WriteResult>> {
        write_all(changes, |changes| {
            let gives_way = changes.iter().any(RowWrite::begins);
            self.patiently_or_refused(gives_way, |it, again| write(it, changes, again))
        })
    }
}

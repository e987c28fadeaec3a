//! Retries and reconnections, where a server is busy or gone for a while. A session that was lost is
//! made anew, and takes back the claims it held.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use postgres::Error as SqlError;

use super::PgDatabase;
use super::advisory_locks::{Claims, Keys, take};
use super::errors::{explain, is_busy, is_lost, is_refusal, words};
use super::sessions::Sessions;
use super::sql::Param;
use crate::clock::Clock;
use crate::record::Id;
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

/// When all claims of all passes are gone, as when the server starts again, nothing new is claimed
/// for so long, so that each pass can take back what its handlers are still at.
const HOLD_OFF: Duration = Duration::from_secs(3);
/// How often a lock is asked for that must be this pass's own. Another pass that is after the
/// record holds it for a moment.
const RETAKES: u32 = 200;
const RETAKE_PAUSE: Duration = Duration::from_millis(25);

impl Patient for Sessions {
    fn patience(&mut self) -> &mut Patience {
        &mut self.patience
    }

    fn database(&mut self) -> &mut PgDatabase {
        &mut self.database
    }

    /// Also takes back what they held.
    fn recover(&mut self, why: &SqlError) -> Result<()> {
        let (mut reading, mut claiming) = (false, false);
        self.connect_again(why, |it| {
            // A server that goes down ends one session after the other.
            reading |= !it.database.session.is_alive();
            let session = it.claims.session.as_mut();
            claiming |= session.is_some_and(|session| !session.is_alive());
            it.make_anew(reading, claiming)
        })?;
        // Behind a pooler only the one that holds claims is seen to be lost.
        if claiming && (reading || self.claims.pooled) {
            std::thread::sleep(HOLD_OFF);
        }
        Ok(())
    }
}

impl Sessions {
    /// A server that has just been started, or has recovered from a crash, has forgotten all
    /// claims: other passes get time to take theirs back. Recovery ends with a checkpoint, which
    /// has nothing to redo behind it, unlike those that are made while the server works.
    pub fn wait_for_others(&mut self) -> Result<()> {
        let sql = "SELECT extract(epoch FROM clock_timestamp() - greatest( \
                   CASE WHEN redo_lsn = checkpoint_lsn THEN checkpoint_time END, \
                   pg_postmaster_start_time()))::float8 FROM pg_control_checkpoint()";
        let rows = self.database.query(sql, &[])?;
        let secs = rows.first().map_or(f64::MAX, |row| row.get(0));
        let left = HOLD_OFF.as_secs_f64() - secs;
        if left > 0.0 {
            std::thread::sleep(Duration::from_secs_f64(left.min(HOLD_OFF.as_secs_f64())));
        }
        Ok(())
    }

    /// What a session held that is made anew is gone: nothing is left to be given back there.
    fn make_anew(&mut self, reading: bool, claiming: bool) -> Result<()> {
        if reading {
            self.database.connect()?;
            self.claims.freed_second.clear();
        }
        if claiming {
            self.open_claims()?;
            self.claims.freed_first.clear();
            self.claims.taken = 0;
        }
        let again = self
            .tune()
            .and_then(|()| self.end_old(reading, claiming))
            .and_then(|()| self.take_back(claiming, reading));
        again.map_err(|error| self.database.explain(&error, "read"))
    }

    /// The server may not know yet that the old sessions are gone, and the watchdog keeps the
    /// socket of one: they are ended there, so that their locks are free.
    fn end_old(&mut self, reading: bool, claiming: bool) -> Result<(), SqlError> {
        if self.claims.pooled {
            return Ok(());
        }
        let old = [(reading, &self.database.backend), (claiming, &self.claims.backend)];
        let old = old.into_iter().filter(|(is_old, _)| *is_old).map(|(_, backend)| backend.clone());
        let old = old.map(Some).collect();
        let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE concat_ws(' ', pid, backend_start) = ANY($1)";
        self.database.session.query(sql, &[Param::Texts(old)])?;
        self.note_backends()
    }

    /// Takes the locks of the sessions that were made anew. A record that somebody else has got
    /// meanwhile is lost to this pass.
    fn take_back(&mut self, first: bool, second: bool) -> Result<(), SqlError> {
        let Self { claims, database, .. } = self;
        let held = |claims: &Claims, key: fn(&Keys) -> i64| -> Vec<(Id, i64)> {
            claims.held.iter().map(|(id, keys)| (id.clone(), key(keys))).collect()
        };
        let mut refused = Vec::new();
        if first {
            refused = insist(held(claims, |it| it.first), |keys| claims.take_first(keys))?;
        }
        if second && !claims.pooled {
            refused.extend(insist(held(claims, |it| it.second), |keys| {
                take(&mut database.session, "pg_try_advisory_lock", keys, Vec::new())
            })?);
        }
        for id in refused {
            self.claims.release(&id);
            self.claims.lost.insert(id);
        }
        Ok(())
    }

    /// Makes sure that the claims of running handlers stand, and no others.
    pub fn look_at_claims(&mut self) -> Result<(), SqlError> {
        let Self { claims, database, .. } = self;
        claims.free(&mut database.session)?;
        let claiming = claims.session.as_mut().into_iter();
        claiming
            .chain([&mut database.session])
            .try_for_each(|session| session.query("SELECT 1", &[]).map(|_| ()))
    }
}

/// Asks for locks that must be this pass's own, again and again; says which were refused.
fn insist(
    mut wanted: Vec<(Id, i64)>,
    mut take: impl FnMut(&[i64]) -> Result<Vec<bool>, SqlError>,
) -> Result<Vec<Id>, SqlError> {
    for tries in 0..RETAKES {
        if wanted.is_empty() {
            break;
        }
        if tries > 0 {
            std::thread::sleep(RETAKE_PAUSE);
        }
        let keys: Vec<_> = wanted.iter().map(|(_, keys)| *keys).collect();
        let mut granted = take(&keys)?.into_iter();
        wanted.retain(|_| granted.next() != Some(true));
    }
    Ok(wanted.into_iter().map(|(id, _)| id).collect())
}

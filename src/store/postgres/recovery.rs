//! Recovery of a lost session: it is made anew, and takes back the claims it held.

use std::time::Duration;

use anyhow::Result;
use postgres::Error as SqlError;

use super::PgDatabase;
use super::advisory_locks::{Claims, Keys, take};
use super::reconnect::{Patience, Patient};
use super::sessions::Sessions;
use super::sql::Param;
use crate::record::Id;

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

    fn make_anew(&mut self, reading: bool, claiming: bool) -> Result<()> {
        if reading {
            self.database.connect()?;
            self.claims.freed_second.clear();
        }
        if claiming {
            self.open_claims()?;
            self.claims.forget_first();
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

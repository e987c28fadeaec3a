//! The two sessions of a pass, of which both hold claims, and the second one also reads and writes:
//! how they are made, made anew once they are lost, and seen after.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio_postgres::Error as SqlError;

use super::PgEngine;
use super::advisory_locks::{self, Keys, take_locks, unlock};
use super::dialect::{Param, number};
use super::session::Session;
use crate::record::Id;
use crate::store::engine::{Engine, Locks};
use crate::store::error::{DbError, Reconnecting};
use crate::store::table::{Cells, Selected, Table};
use crate::store::table_store::{SqlDatabase, TableStore};
use crate::store::watchdog::Watchdog;
use crate::store::{Access, Claim};

pub use super::advisory_locks::PgLocks;

/// How long a row may be locked by somebody else before a settlement is tried again, and an attempt
/// is not begun.
const LOCK_TIMEOUT: &str = "5s";
/// When all claims of all passes are gone, as when the server starts again, nothing new is claimed
/// for so long, so that each pass can take back what its handlers are still at.
const HOLD_OFF: Duration = Duration::from_secs(3);
/// How often a lock is asked for that must be this pass's own. Another pass that is after the
/// record holds it for a moment.
const RETAKES: u32 = 200;
const RETAKE_PAUSE: Duration = Duration::from_millis(25);

impl Locks<PgEngine> for PgLocks {
    fn most(&self) -> usize {
        self.room()
    }

    /// Makes the session of the first locks, if there is none.
    fn open(&mut self, on: &mut SqlDatabase<PgEngine>) -> Result<()> {
        if self.session.is_some() {
            return Ok(());
        }
        self.open_session(&on.engine)?;
        let pooled = self.is_pooled(&mut on.engine.session);
        self.pooled = on.reading(pooled.map_err(DbError::from))?;
        let place = &on.engine.place;
        if self.pooled {
            log::debug!("{place} is a pooler: a claim is a lock of a transaction");
        }
        let ready = self.tune(&mut on.engine).and_then(|()| self.note_backends(&mut on.engine));
        on.reading(ready.map_err(DbError::from))?;
        let exclude = self.locks_exclude(&mut on.engine.session);
        if !on.reading(exclude.map_err(DbError::from))? {
            self.session = None;
            bail!(
                "could not claim records in {}: its advisory locks do not lock, a second session \
                 got what the first one holds; name a server, or a pooler before it, that keeps \
                 them",
                on.engine.place
            );
        }
        Ok(())
    }

    fn claim(
        &mut self,
        on: &mut SqlDatabase<PgEngine>,
        ids: &[Id],
    ) -> Result<Vec<(Id, Claim)>, DbError> {
        let SqlDatabase { engine, table, .. } = on;
        let mut result: Vec<_> = ids.iter().map(|id| (id.clone(), Claim::Busy)).collect();
        let mut seen = HashSet::new();
        let new = ids.iter().enumerate().filter(|(_, id)| seen.insert(*id));
        let free = new.filter(|(_, id)| !self.held.contains_key(*id));
        let mut wanted: Vec<_> =
            free.map(|(place, id)| (place, Keys::of(&table.sql, id))).collect();
        let keys: Vec<_> = wanted.iter().map(|(_, keys)| keys.first).collect();
        let mut granted = self.take_first(&keys)?.into_iter();
        wanted.retain(|_| granted.next() == Some(true));
        if wanted.is_empty() {
            return Ok(result);
        }
        // A statement of its own, so that it sees what was committed before the locks were free.
        let freed = if self.pooled { Vec::new() } else { std::mem::take(&mut self.freed_second) };
        let named: Vec<_> = wanted.iter().map(|(place, keys)| (&ids[*place], *keys)).collect();
        let read = match engine.lock_and_read(table, &named, freed, !self.pooled) {
            // One row that cannot be read must not keep the others from being handled.
            Err(error) if error.is_of_a_row => engine.read_singly(table, &named, !self.pooled),
            read => read,
        };
        let read = read.inspect_err(|_| {
            self.freed_first.extend(wanted.iter().map(|(_, keys)| keys.first));
        })?;
        for ((place, keys), claim) in wanted.into_iter().zip(read) {
            match &claim {
                Claim::Held(_) => {
                    self.held.insert(ids[place].clone(), keys);
                }
                Claim::Busy | Claim::Unreadable(_) => self.freed_first.push(keys.first),
                Claim::Gone | Claim::Ambiguous => self.give_back(keys),
            }
            result[place].1 = claim;
        }
        Ok(result)
    }

    fn is_lost(&self, id: &Id) -> bool {
        self.lost.contains(id)
    }

    fn release(&mut self, id: &Id) {
        self.lost.remove(id);
        if let Some(keys) = self.held.remove(id) {
            self.give_back(keys);
        }
    }

    /// As long as there is more in hand, the next claim frees what was released, in the same
    /// statement, or else the heartbeat does.
    fn rest(&mut self, on: &mut SqlDatabase<PgEngine>) -> Result<(), DbError> {
        if self.held.is_empty() {
            self.free(&mut on.engine.session)?;
        }
        Ok(())
    }

    fn start_watchdog(&mut self, on: &mut SqlDatabase<PgEngine>, token: &str) -> Result<()> {
        self.token = Some(token.into());
        self.open(on)?;
        wait_for_others(&mut on.engine)
    }

    fn look_after(&mut self, on: &mut SqlDatabase<PgEngine>) -> Result<Vec<Arc<OwnedFd>>, DbError> {
        if self.held.is_empty() {
            return Ok(Vec::new());
        }
        self.free(&mut on.engine.session)?;
        let mut sockets = Vec::new();
        for session in self.session.iter_mut().chain([&mut on.engine.session]) {
            session.query("SELECT 1", &[])?;
            sockets.push(session.socket());
        }
        Ok(sockets)
    }
}

impl PgLocks {
    fn open_session(&mut self, engine: &PgEngine) -> Result<()> {
        let session = Session::open(&engine.server, Access::ReadWrite)?;
        if let Some(token) = &self.token {
            let socket = session.socket().try_clone().context("could not watch a connection")?;
            // The first one still watches over what has its mark only; those between are no use.
            self.watchdogs.push(Watchdog::start(Some(socket), token)?);
            if self.watchdogs.len() > 2 {
                self.watchdogs.remove(1);
            }
        }
        self.session = Some(session);
        Ok(())
    }

    /// Whether what one session has locked is refused to the other. What only speaks PostgreSQL's
    /// protocol may know the functions and grant everything. The lock goes with the next claim.
    fn locks_exclude(&mut self, reading: &mut Session) -> Result<bool, SqlError> {
        // No record's key but by chance, and no other pass's.
        let key = RandomState::new().hash_one(std::process::id()).cast_signed();
        let first = self.take_first(&[key])?;
        self.freed_first.push(key);
        let second = take_locks(reading, self.function(), &[key], Vec::new())?;
        Ok(first == [true] && second == [false])
    }

    /// What a session of one's own is told, and one for a transaction must not be.
    fn tune(&mut self, engine: &mut PgEngine) -> Result<(), SqlError> {
        if self.pooled {
            return Ok(());
        }
        let keep = "SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; \
                    SET tcp_keepalives_count = 3; SET statement_timeout = 0; \
                    SET default_transaction_isolation = 'read committed'; \
                    SELECT set_config(name, '0', false) FROM pg_settings \
                    WHERE name = 'idle_session_timeout'";
        if let Some(session) = &mut self.session {
            session.batch(keep)?;
            session.prepare_what_is_repeated();
        }
        engine.session.prepare_what_is_repeated();
        engine.session.batch(&format!("{keep}; SET lock_timeout = '{LOCK_TIMEOUT}'"))
    }

    /// Whether a session of ours is one of the server's, or a pooler's, which lends the server's
    /// for a transaction.
    fn is_pooled(&mut self, reading: &mut Session) -> Result<bool, SqlError> {
        let Some(claiming) = &mut self.session else { return Ok(false) };
        let pid = |session: &mut Session| -> Result<i32, SqlError> {
            let rows = session.query("SELECT pg_backend_pid()", &[])?;
            Ok(rows.first().map_or(0, |row| row.get(0)))
        };
        for _ in 0..2 {
            // The pooler has to keep them apart for the while, and then lends the last one first.
            claiming.begin()?;
            let first = pid(claiming)?;
            reading.begin()?;
            let second = pid(reading)?;
            claiming.roll_back()?;
            reading.roll_back()?;
            if first == second || pid(claiming)? != first || pid(reading)? != second {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Which of the server's processes serve this pass.
    fn note_backends(&mut self, engine: &mut PgEngine) -> Result<(), SqlError> {
        engine.backend = engine.session.backend()?;
        if let Some(session) = &mut self.session {
            self.backend = session.backend()?;
        }
        Ok(())
    }

    /// What a session held that is made anew is gone: nothing is left to be given back there.
    fn make_anew(&mut self, engine: &mut PgEngine, reading: bool, claiming: bool) -> Result<()> {
        if reading {
            engine.connect()?;
            self.freed_second.clear();
        }
        if claiming {
            self.open_session(engine)?;
            self.freed_first.clear();
            self.taken = 0;
        }
        let again = self
            .tune(engine)
            .and_then(|()| self.end_old(engine, reading, claiming))
            .and_then(|()| self.take_back(&mut engine.session, claiming, reading));
        again.map_err(|error| engine.explain(error.into(), "read"))
    }

    /// The server may not know yet that the old sessions are gone, and the watchdog keeps the
    /// socket of one: they are ended there, so that their locks are free.
    fn end_old(
        &mut self,
        engine: &mut PgEngine,
        reading: bool,
        claiming: bool,
    ) -> Result<(), SqlError> {
        if self.pooled {
            return Ok(());
        }
        let old = [(reading, &engine.backend), (claiming, &self.backend)];
        let old = old.into_iter().filter(|(is_old, _)| *is_old).map(|(_, backend)| backend.clone());
        let old = old.map(Some).collect();
        let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE concat_ws(' ', pid, backend_start) = ANY($1)";
        engine.session.query(sql, &[Param::Texts(old)])?;
        self.note_backends(engine)
    }

    /// Takes the locks of the sessions that were made anew. A record that somebody else has got
    /// meanwhile is lost to this pass.
    fn take_back(
        &mut self,
        reading: &mut Session,
        first: bool,
        second: bool,
    ) -> Result<(), SqlError> {
        let held = |locks: &Self, key: fn(&Keys) -> i64| -> Vec<(Id, i64)> {
            locks.held.iter().map(|(id, keys)| (id.clone(), key(keys))).collect()
        };
        let mut refused = Vec::new();
        if first {
            refused = insist(held(self, |it| it.first), |keys| self.take_first(keys))?;
        }
        if second && !self.pooled {
            refused.extend(insist(held(self, |it| it.second), |keys| {
                take_locks(reading, "pg_try_advisory_lock", keys, Vec::new())
            })?);
        }
        for id in refused {
            self.release(&id);
            self.lost.insert(id);
        }
        Ok(())
    }
}

/// Makes the sessions anew that are lost, and takes back what they held.
pub fn recover(store: &mut TableStore<PgEngine>, why: &DbError) -> Result<()> {
    let (mut reading, mut claiming) = (false, false);
    store.connect_again(why, |it| {
        // A server that goes down ends one session after the other.
        reading |= !it.database.engine.session.is_alive();
        let session = it.locks.session.as_mut();
        claiming |= session.is_some_and(|session| !session.is_alive());
        it.locks.make_anew(&mut it.database.engine, reading, claiming)
    })?;
    // Behind a pooler only the one that holds claims is seen to be lost.
    if claiming && (reading || store.locks.pooled) {
        std::thread::sleep(HOLD_OFF);
    }
    Ok(())
}

/// A server that has just been started, or has recovered from a crash, has forgotten all claims:
/// other passes get time to take theirs back. Recovery ends with a checkpoint, which has nothing to
/// redo behind it, unlike those that are made while the server works.
fn wait_for_others(engine: &mut PgEngine) -> Result<()> {
    let sql = "SELECT extract(epoch FROM clock_timestamp() - greatest( \
               CASE WHEN redo_lsn = checkpoint_lsn THEN checkpoint_time END, \
               pg_postmaster_start_time()))::float8 FROM pg_control_checkpoint()";
    let rows = engine.query(sql, &[])?;
    let secs = rows.first().map_or(f64::MAX, |row| row.get(0));
    let left = HOLD_OFF.as_secs_f64() - secs;
    if left > 0.0 {
        std::thread::sleep(Duration::from_secs_f64(left.min(HOLD_OFF.as_secs_f64())));
    }
    Ok(())
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

impl PgEngine {
    /// The same as [`Self::lock_and_read`], one record after the other. Second locks that were
    /// taken for what cannot be read are given back: they outlive a statement that fails.
    fn read_singly(
        &mut self,
        table: &Table,
        wanted: &[(&Id, Keys)],
        locks: bool,
    ) -> Result<Vec<Claim>, DbError> {
        let second = |keys: &[(&Id, Keys)]| keys.iter().map(|(_, keys)| keys.second).collect();
        if locks {
            unlock(&mut self.session, second(wanted))?;
        }
        let mut claims = Vec::with_capacity(wanted.len());
        for one in wanted.chunks(1) {
            claims.push(match self.lock_and_read(table, one, Vec::new(), locks) {
                Ok(mut read) => read.pop().unwrap_or(Claim::Busy),
                Err(error) if error.is_of_a_row => {
                    if locks {
                        unlock(&mut self.session, second(one))?;
                    }
                    Claim::Unreadable(error.words)
                }
                Err(error) => return Err(error),
            });
        }
        Ok(claims)
    }

    /// Takes the second locks and reads the records that have them, in one statement; the first
    /// locks were granted before it began.
    fn lock_and_read(
        &mut self,
        table: &Table,
        wanted: &[(&Id, Keys)],
        freed: Vec<i64>,
        locks: bool,
    ) -> Result<Vec<Claim>, DbError> {
        let (sql, mut params) = advisory_locks::lock_and_read(table, wanted, locks);
        params.push(Param::Keys(freed));
        let mut claims: Vec<Option<Claim>> = wanted.iter().map(|_| None).collect();
        let columns = Selected::all(table);
        for row in self.session.query(&sql, &params)? {
            let place = number(&row, 0).and_then(|index| claims.get_mut(index));
            let Some(place) = place else { continue };
            *place = Some(match (place.take(), row.truth(1), row.truth(2)) {
                (_, false, _) => Claim::Busy,
                (Some(_), true, _) => Claim::Ambiguous,
                (None, true, false) => Claim::Gone,
                (None, true, true) => {
                    let record = columns.record(&row, 3);
                    record.map_or(Claim::Gone, |record| Claim::Held(Box::new(record)))
                }
            });
        }
        Ok(claims.into_iter().map(|claim| claim.unwrap_or(Claim::Busy)).collect())
    }
}

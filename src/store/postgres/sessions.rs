//! The two sessions of a pass: one holds claims, the other holds claims as well, reads and writes;
//! and what is done when one of them is lost.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicI32;
use std::time::Duration;

use anyhow::Result;
use postgres::Error as SqlError;

use super::claims::{Claims, Keys, take};
use super::patience::Patient;
use super::session::{Backend, Session};
use super::sql::Param;
use super::{PgDatabase, by_ids};
use crate::clock::Clock;
use crate::record::Id;
use crate::store::Claim;
use crate::store::guard::Guard;

/// How long a row may be locked by somebody else before a settlement is tried again.
const LOCK_TIMEOUT: &str = "30s";
/// When all claims of all passes are gone, as when the server starts again, nothing new is claimed
/// for so long, so that each pass can take back what its handlers are still at.
const HOLD_OFF: Duration = Duration::from_secs(3);
/// How often a lock is asked for that must be this pass's own. Another pass that is after the
/// record holds it for a moment.
const RETAKES: u32 = 200;
const RETAKE_PAUSE: Duration = Duration::from_millis(25);

pub struct Sessions {
    pub database: PgDatabase,
    pub claims: Claims,
    clock: Clock,
    /// What the pass is to stop for, if it is not 0.
    pub signal: Arc<AtomicI32>,
    /// What the handlers carry, and who ends them if this process is killed.
    pub token: Option<String>,
    guards: Vec<Guard>,
    /// Whether the sessions were used since the keeper looked.
    pub used: bool,
    is_just_looking: bool,
}

impl Patient for Sessions {
    fn place(&self) -> String {
        self.database.place.clone()
    }

    fn clock(&self) -> Clock {
        self.clock
    }

    fn signal(&self) -> Arc<AtomicI32> {
        self.signal.clone()
    }

    fn is_just_looking(&self) -> bool {
        self.is_just_looking
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

    fn roll_back(&mut self) {
        let _ = self.database.session.batch("ROLLBACK");
    }
}

impl Sessions {
    pub fn new(database: PgDatabase, clock: Clock) -> Self {
        Self {
            database,
            claims: Claims::default(),
            clock,
            signal: Arc::default(),
            token: None,
            guards: Vec::new(),
            used: false,
            is_just_looking: false,
        }
    }

    /// Makes the session of the first locks, if there is none.
    pub fn open(&mut self) -> Result<()> {
        if self.claims.session.is_some() {
            return Ok(());
        }
        self.open_claims()?;
        let place = self.database.place.clone();
        let explain = |error| super::errors::explain(&place, &error, "read");
        self.claims.pooled = self.is_pooled().map_err(explain)?;
        if self.claims.pooled {
            log::debug!("{place} is a pooler: a claim is a lock of a transaction");
        }
        self.tune().and_then(|()| self.note_backends()).map_err(explain)
    }

    fn open_claims(&mut self) -> Result<()> {
        let session = Session::open(&self.database.server)?;
        if let Some(token) = &self.token {
            let socket = session.socket.as_ref().and_then(|it| it.try_clone().ok());
            if socket.is_none() {
                log::info!(
                    "a pass that is killed frees its claims a moment before its handlers end"
                );
            }
            // The old one still watches over the handlers that run.
            self.guards.push(Guard::start(socket, token)?);
        }
        self.claims.session = Some(session);
        Ok(())
    }

    /// What a session of one's own is told, and one for a transaction must not be.
    fn tune(&mut self) -> Result<(), SqlError> {
        let Self { database, claims, .. } = self;
        if claims.pooled {
            return Ok(());
        }
        let keep = "SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; \
                    SET tcp_keepalives_count = 3; SET statement_timeout = 0; \
                    SET default_transaction_isolation = 'read committed'; \
                    SELECT set_config(name, '0', false) FROM pg_settings \
                    WHERE name = 'idle_session_timeout'";
        if let Some(session) = &mut claims.session {
            session.batch(keep)?;
            session.prepare_what_is_repeated();
        }
        database.session.prepare_what_is_repeated();
        database.session.batch(&format!("{keep}; SET lock_timeout = '{LOCK_TIMEOUT}'"))
    }

    /// Whether a session of ours is one of the server's, or a pooler's, which lends the server's
    /// for a transaction.
    fn is_pooled(&mut self) -> Result<bool, SqlError> {
        let Self { database, claims, .. } = self;
        let Some(claiming) = &mut claims.session else { return Ok(false) };
        let pid = |session: &mut Session| -> Result<i32, SqlError> {
            let rows = session.query("SELECT pg_backend_pid()", &[])?;
            Ok(rows.first().map_or(0, |row| row.get(0)))
        };
        let reading = &mut database.session;
        for _ in 0..2 {
            // The pooler has to keep them apart for the while, and then lends the last one first.
            claiming.batch("BEGIN")?;
            let first = pid(claiming)?;
            reading.batch("BEGIN")?;
            let second = pid(reading)?;
            claiming.batch("COMMIT")?;
            reading.batch("COMMIT")?;
            if first == second || pid(claiming)? != first || pid(reading)? != second {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A server that has just been started, or has recovered from a crash, which ends with a
    /// checkpoint, has forgotten all claims: other passes get time to take theirs back.
    pub fn wait_for_others(&mut self) -> Result<()> {
        let sql = "SELECT extract(epoch FROM clock_timestamp() - greatest(checkpoint_time, \
                   pg_postmaster_start_time()))::float8 FROM pg_control_checkpoint()";
        let rows = self.database.query(sql, &[])?;
        let secs = rows.first().map_or(f64::MAX, |row| row.get(0));
        let left = HOLD_OFF.as_secs_f64() - secs;
        if left > 0.0 {
            std::thread::sleep(Duration::from_secs_f64(left.min(HOLD_OFF.as_secs_f64())));
        }
        Ok(())
    }

    pub fn claim(&mut self, ids: &[Id]) -> Result<Vec<(Id, Claim)>, SqlError> {
        let Self { database, claims, .. } = self;
        let mut wanted: Vec<(Id, Keys)> = Vec::with_capacity(ids.len());
        let mut found = HashMap::new();
        for id in ids {
            if claims.held.contains_key(id) || wanted.iter().any(|(other, _)| other == id) {
                found.insert(id, Claim::Busy);
            } else {
                wanted.push((id.clone(), Keys::of(&database.table.sql, id)));
            }
        }
        let keys: Vec<_> = wanted.iter().map(|(_, keys)| keys.first).collect();
        let granted = claims.take_first(&keys)?;
        let mut granted = granted.into_iter();
        wanted.retain(|_| granted.next() == Some(true));
        // A statement of its own, so that it sees what was committed before the locks were free.
        let freed = if claims.pooled { Vec::new() } else { claims.freed_second() };
        if wanted.is_empty() {
            claims.free_second(freed);
            return Ok(ids.iter().map(|id| (id.clone(), Claim::Busy)).collect());
        }
        let read = database.lock_and_read(&wanted, freed, !claims.pooled);
        let read = read.inspect_err(|_| {
            wanted.iter().for_each(|(_, keys)| claims.free_first(*keys));
        })?;
        for ((id, keys), claim) in wanted.iter().zip(read) {
            match &claim {
                Claim::Busy => claims.free_first(*keys),
                Claim::Held(_) | Claim::Gone | Claim::Ambiguous => {
                    claims.held.insert(id.clone(), *keys);
                    if !matches!(claim, Claim::Held(_)) {
                        claims.release(id);
                    }
                }
            }
            let place = ids.iter().find(|it| *it == id);
            found.extend(place.map(|id| (id, claim)));
        }
        Ok(ids.iter().map(|id| (id.clone(), found.remove(id).unwrap_or(Claim::Busy))).collect())
    }

    fn make_anew(&mut self, reading: bool, claiming: bool) -> Result<()> {
        if reading {
            self.database.session = Session::open(&self.database.server)?;
            self.claims.forget_second();
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

    /// The server may not know yet that the old sessions are gone, and the guard keeps the socket
    /// of one: they are ended there, so that their locks are free.
    fn end_old(&mut self, reading: bool, claiming: bool) -> Result<(), SqlError> {
        if self.claims.pooled {
            return Ok(());
        }
        let old = [(reading, &self.database.backend), (claiming, &self.claims.backend)];
        let old = old.into_iter().filter(|(is_old, _)| *is_old).map(|(_, backend)| backend.clone());
        for Backend { pid, since } in old.collect::<Vec<_>>() {
            let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                       WHERE pid = $1::text::integer AND backend_start::text = $2";
            let params = [pid.to_string(), since].map(|text| Param::Text(Some(text)));
            self.database.session.query(sql, &params)?;
        }
        self.note_backends()
    }

    /// Which of the server's processes serve this pass.
    fn note_backends(&mut self) -> Result<(), SqlError> {
        self.database.backend = self.database.session.backend()?;
        if let Some(session) = &mut self.claims.session {
            self.claims.backend = session.backend()?;
        }
        Ok(())
    }

    /// Takes the locks of the sessions that were made anew. A record that somebody else has got
    /// meanwhile is lost to this pass.
    fn take_back(&mut self, first: bool, second: bool) -> Result<(), SqlError> {
        let held = |claims: &Claims| -> Vec<(Id, Keys)> {
            claims.held.iter().map(|(id, keys)| (id.clone(), *keys)).collect()
        };
        let mut refused = Vec::new();
        if first {
            let claims = &mut self.claims;
            refused = insist(held(claims), |keys| {
                claims.take_first(&keys.iter().map(|keys| keys.first).collect::<Vec<_>>())
            })?;
        }
        if second && !self.claims.pooled {
            let session = &mut self.database.session;
            refused.extend(insist(held(&self.claims), |keys| {
                let keys: Vec<_> = keys.iter().map(|keys| keys.second).collect();
                take(session, "pg_try_advisory_lock", &keys, Vec::new())
            })?);
        }
        for id in refused {
            self.claims.release(&id);
            self.claims.lost.insert(id);
        }
        Ok(())
    }

    /// Makes what was released free.
    pub fn free(&mut self) -> Result<()> {
        self.patiently("read", |Self { claims, database, .. }, _| {
            claims.free(&mut database.session)
        })
    }

    /// Makes sure that the claims of running handlers stand, and no others.
    pub fn look_after(&mut self) -> Result<()> {
        self.is_just_looking = true;
        let looked = self.look();
        self.is_just_looking = false;
        looked
    }

    fn look(&mut self) -> Result<()> {
        self.patiently("read", |Self { claims, database, .. }, _| {
            claims.free(&mut database.session)?;
            let claiming = claims.session.as_mut().into_iter();
            claiming
                .chain([&mut database.session])
                .try_for_each(|session| session.query("SELECT 1", &[]).map(|_| ()))
        })
    }
}

impl PgDatabase {
    /// Takes the second locks and reads the records that have them, in one statement; the first
    /// locks were granted before it began.
    fn lock_and_read(
        &mut self,
        wanted: &[(Id, Keys)],
        freed: Vec<i64>,
        locks: bool,
    ) -> Result<Vec<Claim>, SqlError> {
        let (sql, mut params) = by_ids::lock_and_read(&self.table, wanted, locks);
        params.push(Param::Keys(freed));
        let names = self.names();
        let mut claims: Vec<Option<Claim>> = wanted.iter().map(|_| None).collect();
        for row in self.session.query(&sql, &params)? {
            let number: i64 = row.get(0);
            let place = usize::try_from(number).ok().and_then(|index| claims.get_mut(index));
            let Some(place) = place else { continue };
            let (granted, is_there): (bool, bool) = (row.get(1), row.get(2));
            *place = Some(match (place.take(), granted, is_there) {
                (_, false, _) => Claim::Busy,
                (Some(_), true, _) => Claim::Ambiguous,
                (None, true, false) => Claim::Gone,
                (None, true, true) => {
                    let record = self.record(&row, 3, &names);
                    record.map_or(Claim::Gone, |record| Claim::Held(Box::new(record)))
                }
            });
        }
        Ok(claims.into_iter().map(|claim| claim.unwrap_or(Claim::Busy)).collect())
    }
}

/// Asks for locks that must be this pass's own, again and again; says which were refused.
fn insist(
    mut wanted: Vec<(Id, Keys)>,
    mut take: impl FnMut(&[Keys]) -> Result<Vec<bool>, SqlError>,
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

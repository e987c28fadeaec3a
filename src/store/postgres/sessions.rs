//! The PostgreSQL store as a pass uses it: two sessions, of which both hold claims, and the second one
//! also reads and writes.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use postgres::Error as SqlError;

use super::advisory_locks::{Claims, Keys, take, unlock};
use super::errors::{is_of_the_row, words};
use super::reconnect::{Patience, Patient};
use super::session::Session;
use super::sql::{Param, number};
use super::{PgDatabase, advisory_locks};
use crate::record::{Id, Record, Settlement};
use crate::store::watchdog::Watchdog;
use crate::store::{Access, Claim, Interrupter, Reader, Rehearsal, RowWrite, Store, WriteResult};

/// How long a row may be locked by somebody else before a settlement is tried again, and an attempt
/// is not begun.
const LOCK_TIMEOUT: &str = "5s";
/// How often somebody sees after the sessions while handlers run.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);

/// The store of a table on a server: two sessions, and the claims that they hold.
pub struct Sessions {
    pub database: PgDatabase,
    pub claims: Claims,
    pub patience: Patience,
    /// What the handlers carry, and who ends them if this process is killed.
    pub token: Option<String>,
    watchdogs: Vec<Watchdog>,
    /// Whether the sessions were used since the heartbeat looked.
    pub used: bool,
}

impl Sessions {
    pub fn new(database: PgDatabase, patience: Patience) -> Self {
        let (claims, watchdogs) = (Claims::default(), Vec::new());
        Self { database, claims, patience, token: None, watchdogs, used: false }
    }

    /// Makes the session of the first locks, if there is none.
    fn open(&mut self) -> Result<()> {
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
        self.tune().and_then(|()| self.note_backends()).map_err(explain)?;
        if !self.locks_exclude().map_err(explain)? {
            self.claims.session = None;
            bail!(
                "could not claim records in {place}: its advisory locks do not lock, a second \
                 session got what the first one holds; name a server, or a pooler before it, that \
                 keeps them"
            );
        }
        Ok(())
    }

    /// Whether what one session has locked is refused to the other. What only speaks PostgreSQL's
    /// protocol may know the functions and grant everything. The lock goes with the next claim.
    fn locks_exclude(&mut self) -> Result<bool, SqlError> {
        let Self { database, claims, .. } = self;
        // No record's key but by chance, and no other pass's.
        let key = RandomState::new().hash_one(std::process::id()).cast_signed();
        let first = claims.take_first(&[key])?;
        claims.freed_first.push(key);
        let function = claims.function();
        let second = take(&mut database.session, function, &[key], Vec::new())?;
        Ok(first == [true] && second == [false])
    }

    pub fn open_claims(&mut self) -> Result<()> {
        let session = Session::open(&self.database.server, Access::ReadWrite)?;
        if let Some(token) = &self.token {
            let socket = session.socket.as_ref().and_then(|it| it.try_clone().ok());
            if socket.is_none() {
                log::info!(
                    "a pass that is killed frees its claims a moment before its handlers end"
                );
            }
            // The first one still watches over what has its mark only; those between are no use.
            self.watchdogs.push(Watchdog::start(socket, token)?);
            if self.watchdogs.len() > 2 {
                self.watchdogs.remove(1);
            }
        }
        self.claims.session = Some(session);
        Ok(())
    }

    /// What a session of one's own is told, and one for a transaction must not be.
    pub fn tune(&mut self) -> Result<(), SqlError> {
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

    fn claim_free(&mut self, ids: &[Id]) -> Result<Vec<(Id, Claim)>, SqlError> {
        let Self { database, claims, .. } = self;
        let mut result: Vec<_> = ids.iter().map(|id| (id.clone(), Claim::Busy)).collect();
        let mut seen = HashSet::new();
        let new = ids.iter().enumerate().filter(|(_, id)| seen.insert(*id));
        let free = new.filter(|(_, id)| !claims.held.contains_key(*id));
        let mut wanted: Vec<_> =
            free.map(|(place, id)| (place, Keys::of(&database.table.sql, id))).collect();
        let keys: Vec<_> = wanted.iter().map(|(_, keys)| keys.first).collect();
        let mut granted = claims.take_first(&keys)?.into_iter();
        wanted.retain(|_| granted.next() == Some(true));
        if wanted.is_empty() {
            return Ok(result);
        }
        // A statement of its own, so that it sees what was committed before the locks were free.
        let freed =
            if claims.pooled { Vec::new() } else { std::mem::take(&mut claims.freed_second) };
        let named: Vec<_> = wanted.iter().map(|(place, keys)| (&ids[*place], *keys)).collect();
        let read = match database.lock_and_read(&named, freed, !claims.pooled) {
            // One row that cannot be read must not keep the others from being handled.
            Err(error) if is_of_the_row(&error) => database.read_singly(&named, !claims.pooled),
            read => read,
        };
        let read = read.inspect_err(|_| {
            claims.freed_first.extend(wanted.iter().map(|(_, keys)| keys.first));
        })?;
        for ((place, keys), claim) in wanted.into_iter().zip(read) {
            match &claim {
                Claim::Held(_) => {
                    claims.held.insert(ids[place].clone(), keys);
                }
                Claim::Busy | Claim::Unreadable(_) => claims.freed_first.push(keys.first),
                Claim::Gone | Claim::Ambiguous => claims.give_back(keys),
            }
            result[place].1 = claim;
        }
        Ok(result)
    }

    /// Which of the server's processes serve this pass.
    pub fn note_backends(&mut self) -> Result<(), SqlError> {
        self.database.backend = self.database.session.backend()?;
        if let Some(session) = &mut self.claims.session {
            self.claims.backend = session.backend()?;
        }
        Ok(())
    }

    fn free(&mut self) -> Result<()> {
        self.patiently("read", |Self { claims, database, .. }, _| {
            claims.free(&mut database.session)
        })
    }
}

impl Store for Sessions {
    fn reader(&mut self) -> &mut dyn Reader {
        self.used = true;
        &mut self.database
    }

    fn still_pending(&mut self, ids: &[Id]) -> Result<Option<Vec<Id>>> {
        self.used = true;
        let (sql, params) = advisory_locks::still_pending(&self.database.table, ids);
        let rows = self.patiently("read", |it, _| it.database.session.query(&sql, &params))?;
        Ok(Some(rows.iter().filter_map(|row| ids.get(number(row, 0)?).cloned()).collect()))
    }

    fn most_claims(&self) -> usize {
        self.claims.most()
    }

    fn claim(&mut self, ids: &[Id]) -> Result<Vec<(Id, Claim)>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        self.used = true;
        self.open()?;
        self.patiently("read", |sessions, _| sessions.claim_free(ids))
    }

    fn release(&mut self, id: &Id) {
        self.claims.release(id);
    }

    /// As long as there is more in hand, the next claim frees what was released, in the same
    /// statement, or else the heartbeat does.
    fn rest(&mut self) -> Result<()> {
        if self.claims.held.is_empty() { self.free() } else { Ok(()) }
    }

    fn apply(&mut self, changes: &[RowWrite]) -> Result<Vec<WriteResult>> {
        self.used = true;
        self.write_all(changes, Self::write)
    }

    fn rehearse(&mut self, record: &Record, chains: &[Vec<Settlement>]) -> Result<Rehearsal> {
        self.used = true;
        self.patiently("write to", |sessions, _| sessions.try_out(record, chains))
    }

    fn start_watchdog(&mut self, token: &str) -> Result<()> {
        self.token = Some(token.into());
        self.open()?;
        self.wait_for_others()
    }

    fn heartbeat(&self) -> Option<Duration> {
        Some(HEARTBEAT_INTERVAL)
    }

    fn look_after(&mut self) -> Vec<Arc<OwnedFd>> {
        // Who uses them sees what becomes of them.
        if std::mem::take(&mut self.used) || self.claims.held.is_empty() {
            return Vec::new();
        }
        self.just_looking("read", |sessions, _| sessions.look_at_claims());
        let all = self.claims.session.iter().chain([&self.database.session]);
        all.filter_map(|session| session.socket.clone()).collect()
    }

    fn interrupter(&self) -> Option<Interrupter> {
        Some(self.database.server.interrupter())
    }
}

impl PgDatabase {
    /// The same as [`Self::lock_and_read`], one record after the other. Second locks that were
    /// taken for what cannot be read are given back: they outlive a statement that fails.
    fn read_singly(&mut self, wanted: &[(&Id, Keys)], locks: bool) -> Result<Vec<Claim>, SqlError> {
        let second = |keys: &[(&Id, Keys)]| keys.iter().map(|(_, keys)| keys.second).collect();
        if locks {
            unlock(&mut self.session, second(wanted))?;
        }
        let mut claims = Vec::with_capacity(wanted.len());
        for one in wanted.chunks(1) {
            claims.push(match self.lock_and_read(one, Vec::new(), locks) {
                Ok(mut read) => read.pop().unwrap_or(Claim::Busy),
                Err(error) if is_of_the_row(&error) => {
                    if locks {
                        unlock(&mut self.session, second(one))?;
                    }
                    Claim::Unreadable(words(&error))
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
        wanted: &[(&Id, Keys)],
        freed: Vec<i64>,
        locks: bool,
    ) -> Result<Vec<Claim>, SqlError> {
        let (sql, mut params) = advisory_locks::lock_and_read(&self.table, wanted, locks);
        params.push(Param::Keys(freed));
        let mut claims: Vec<Option<Claim>> = wanted.iter().map(|_| None).collect();
        let rows = self.session.query(&sql, &params)?;
        let columns = self.all_columns();
        for row in rows {
            let place = number(&row, 0).and_then(|index| claims.get_mut(index));
            let Some(place) = place else { continue };
            let (granted, is_there): (bool, bool) = (row.get(1), row.get(2));
            *place = Some(match (place.take(), granted, is_there) {
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

//! Claims on records: advisory locks that the server holds for a living session.
//!
//! Each claim is two locks with keys of their own, in two sessions: whoever wants the record has to
//! get the first and then the second. So the loss of one session, be it by an administrator, frees
//! no record in hand: the other lock stands until the session is made again and has taken its own
//! back. Locks are taken several at a time, because the way to the server is what they cost, and
//! few are held, because all locks of all sessions share one table of the server.
//!
//! The writing session, which searches and writes, has the first locks; the claiming session has the
//! second ones and reads what is claimed. So the next records are claimed while a round is written.
//!
//! Behind a pooler that hands out the server's sessions for a transaction each, a lock of a session
//! is everybody's. There a claim is one lock of a transaction that stays open in the claiming
//! session; those locks go all at once, with the transaction's end.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::ahead::Ahead;
use super::commit_sync::CommitSync;
use super::dialect::Param;
use super::session::{Session, are_pooled, ask_both};
use super::statements::{Statements, claims, granted, lock_and_read_singly, seen, unlock};
use super::{PgEngine, Server};
use crate::hash::{fnv1a64, splitmix64};
use crate::record::Id;
use crate::store::engine::{Ask, Engine, Locks, Seen};
use crate::store::error::{DbError, Reconnecting};
use crate::store::table_store::{SqlDatabase, TableStore};
use crate::store::watchdog::Watchdog;
use crate::store::{Access, Claim, RowWrite, WriteResult};
use crate::time::Clock;

const LOCK: &str = "pg_try_advisory_lock";
/// How many records are claimed at a time, with those that are being settled.
const MOST_CLAIMS: usize = 256;
/// How many are held at a time, with those that are claimed ahead, and those whose outcomes are to
/// become durable: two locks each, of the 12,000 that a stock server has.
const MOST_HELD: usize = 320;
/// How long a row's lock is waited for, until a settlement is tried again, an attempt not begun.
const LOCK_TIMEOUT: &str = "5s";
/// When all claims of all passes are gone, as when the server starts again, nothing new is claimed
/// for so long, so that each pass can take back what its handlers are still at.
const HOLD_OFF: Duration = Duration::from_secs(3);
/// How often a lock is asked for that must be this pass's own. Another pass that is after the
/// record holds it for a moment.
const RETAKES: u32 = 200;
const RETAKE_PAUSE: Duration = Duration::from_millis(25);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keys {
    pub first: i64,
    pub second: i64,
}

impl Keys {
    /// Those of a record of a table, as SQL has its name.
    pub fn of(table: &str, id: &Id) -> Self {
        let record = splitmix64(fnv1a64(id.text().as_bytes()));
        let first = splitmix64(fnv1a64(table.as_bytes()) ^ record);
        Self { first: first.cast_signed(), second: splitmix64(first).cast_signed() }
    }
}

fn first_keys(wanted: &[(&Id, Keys)]) -> Vec<i64> {
    wanted.iter().map(|(_, keys)| keys.first).collect()
}

/// The claims that this pass holds.
pub struct PgLocks {
    /// The claiming session; made when it is needed.
    session: Option<Session>,
    /// Which of the server's processes serve the writing and the claiming session.
    backends: [String; 2],
    /// Whether they are sessions for a transaction only.
    pooled: bool,
    held: HashMap<Id, Keys>,
    /// Records that were claimed, and that somebody else got when a session was lost.
    lost: HashSet<Id>,
    ahead: Ahead,
    statements: Statements,
    /// Released, but not yet free: first locks, also of what is half of a claim, or none. They go
    /// together with the next ones that are taken.
    freed_first: Vec<i64>,
    /// The same of second locks.
    freed_second: Vec<i64>,
    /// Locks of the open transaction.
    taken: usize,
    /// Whether what is written is durable only after a flush.
    is_asynchronous: bool,
    sync: CommitSync,
    /// What the handlers carry, and who ends them if this process is killed.
    token: Option<String>,
    watchdogs: Vec<Watchdog>,
}

impl PgLocks {
    pub fn new(clock: Clock) -> Self {
        Self {
            session: None,
            backends: Default::default(),
            pooled: false,
            held: HashMap::new(),
            lost: HashSet::new(),
            ahead: Ahead::new(clock),
            statements: Statements::default(),
            freed_first: Vec::new(),
            freed_second: Vec::new(),
            taken: 0,
            is_asynchronous: false,
            sync: CommitSync::new(clock),
            token: None,
            watchdogs: Vec::new(),
        }
    }
}

impl Locks<PgEngine> for PgLocks {
    fn most(&self) -> usize {
        if self.pooled && !self.held.is_empty() {
            self.held.len() + MOST_CLAIMS.saturating_sub(self.taken)
        } else {
            MOST_CLAIMS
        }
    }

    fn open(&mut self, on: &mut SqlDatabase<PgEngine>) -> Result<()> {
        if self.session.is_some() {
            return Ok(());
        }
        self.open_session(&on.engine.session.server)?;
        let exclude = self.prepare(&mut on.engine.session);
        if !on.reading(exclude)? {
            self.session = None;
            bail!(
                "could not claim records in {}: its advisory locks do not lock, a second session \
                 got what the first one holds; name a server, or a pooler before it, that keeps \
                 them",
                on.engine.place()
            );
        }
        let can_flush = self.can_flush(on);
        self.is_asynchronous = on.reading(can_flush)?;
        Ok(())
    }

    fn claim(
        &mut self,
        on: &mut SqlDatabase<PgEngine>,
        ids: &[Id],
    ) -> Result<Vec<(Id, Claim)>, DbError> {
        self.free_synced(ids)?;
        let over = self.ahead.drain(false);
        self.give_back_all(&over);
        let mut result: Vec<_> = ids.iter().map(|id| (id.clone(), Claim::Busy)).collect();
        let (mut seen, mut places) = (HashSet::new(), Vec::new());
        for (place, (id, claim)) in result.iter_mut().enumerate() {
            if !seen.insert(&ids[place]) {
                continue;
            }
            match self.ahead.take(id) {
                Some(ahead) => *claim = ahead,
                None if self.held.contains_key(id) => {}
                None => places.push(place),
            }
        }
        if places.is_empty() {
            return Ok(result);
        }
        let (writing, table) = (&mut on.engine.session, &on.table);
        let keys = |place: usize| (&ids[place], Keys::of(&table.sql, &ids[place]));
        let wanted: Vec<_> = places.iter().map(|place| keys(*place)).collect();
        if !self.pooled {
            writing.plan_for_rounds()?;
        }
        let granted = self.take_first(writing, &first_keys(&wanted))?;
        let granted = places.into_iter().zip(wanted).zip(granted).filter(|(_, granted)| *granted);
        let (places, wanted): (Vec<_>, Vec<_>) = granted.map(|(one, _)| one).unzip();
        if wanted.is_empty() {
            return Ok(result);
        }
        // A statement of its own, so that it sees what was committed before the locks were free.
        let freed = if self.pooled { Vec::new() } else { std::mem::take(&mut self.freed_second) };
        let session = if self.pooled { Some(writing) } else { self.session.as_mut() };
        let Some(session) = session else { return Ok(result) };
        let statements = &mut self.statements;
        let read = match session.ask(&statements.lock_and_read(table, &wanted, freed, !self.pooled))
        {
            // One row that cannot be read must not keep the others from being handled.
            Err(error) if error.is_of_a_row => {
                lock_and_read_singly(statements, session, table, &wanted, !self.pooled)
            }
            rows => rows.map(|rows| claims(table, wanted.len(), &rows)),
        };
        let read = read.inspect_err(|_| self.freed_first.extend(first_keys(&wanted)))?;
        for ((place, (id, keys)), claim) in places.into_iter().zip(wanted).zip(read) {
            self.note(id, keys, &claim);
            result[place].1 = claim;
        }
        Ok(result)
    }

    fn wants_ahead(&mut self, attempts: usize, begun: usize) -> usize {
        if self.pooled { 0 } else { self.ahead.lacks(attempts, begun) }
    }

    fn claim_ahead(&mut self, ids: &[Id]) {
        self.ahead.want(ids);
    }

    fn claimed_ahead(&self) -> usize {
        self.ahead.fresh().count()
    }

    fn write(
        &mut self,
        on: &mut SqlDatabase<PgEngine>,
        changes: &[(usize, &RowWrite)],
    ) -> Result<Vec<Seen>, DbError> {
        let mut ids = self.ahead.take_wanted();
        let mut distinct = HashSet::new();
        ids.retain(|id| !self.held.contains_key(id) && distinct.insert(id.clone()));
        ids.truncate(MOST_HELD.saturating_sub(self.held.len()));
        let table = &on.table;
        let write = self.statements.ask(table, changes, Ask::Write, self.is_asynchronous);
        if !self.pooled {
            on.engine.session.plan_for_rounds()?;
        }
        let Some(claiming) = self.session.as_mut().filter(|_| !ids.is_empty()) else {
            let rows = on.engine.session.ask(&write)?;
            return Ok(seen(table, &rows));
        };
        let mut wanted: Vec<_> = ids.iter().map(|id| (id, Keys::of(&table.sql, id))).collect();
        let freed = std::mem::take(&mut self.freed_first);
        let statements = &mut self.statements;
        let lock = statements.take_locks(LOCK, first_keys(&wanted), freed);
        let like = statements.lock_and_read(table, &[], Vec::new(), true);
        let both = ask_both(&mut on.engine.session, [&lock, &write], claiming, &like, |rows| {
            let mut granted = granted(rows).into_iter();
            wanted.retain(|(id, _)| {
                let is_granted = granted.next() == Some(true);
                if !is_granted {
                    self.ahead.add(id, Claim::Busy);
                }
                is_granted
            });
            (!wanted.is_empty()).then(|| {
                let freed = std::mem::take(&mut self.freed_second);
                statements.lock_and_read(table, &wanted, freed, true)
            })
        })?;
        // What cannot be claimed ahead is claimed when it is needed, or fails then.
        match both.first {
            Ok((_, rows)) => {
                let claims = claims(table, wanted.len(), &rows);
                for (claim, (id, keys)) in claims.into_iter().zip(&wanted) {
                    self.note(id, *keys, &claim);
                    self.ahead.add(id, claim);
                }
            }
            Err(error) => {
                log::debug!("nothing was claimed ahead: {error}");
                wanted.iter().for_each(|(_, keys)| self.free_keys(*keys));
            }
        }
        Ok(seen(table, &both.second?))
    }

    /// A flush that cannot be begun is begun by the next one that is waited for.
    fn has_written(&mut self, changes: &[RowWrite], written: &[WriteResult]) {
        if !self.is_asynchronous {
            return;
        }
        self.sync.note(changes, written);
        if let Some(session) = &mut self.session
            && let Err(error) = self.sync.begin(session)
        {
            log::debug!("could not begin to flush: {error}");
        }
    }

    fn is_lost(&self, id: &Id) -> bool {
        self.lost.contains(id)
    }

    fn release(&mut self, id: &Id) {
        self.lost.remove(id);
        if self.held.contains_key(id) && !self.sync.holds_back(id) {
            self.give_back(id);
        }
    }

    /// As long as there is more in hand, the next claim frees what was released, in the same
    /// statement, or else the heartbeat does.
    fn rest(&mut self, on: &mut SqlDatabase<PgEngine>) -> Result<(), DbError> {
        if self.held.len() == self.sync.held_back() + self.ahead.held() {
            self.free(on)?;
        }
        Ok(())
    }

    fn free(&mut self, on: &mut SqlDatabase<PgEngine>) -> Result<(), DbError> {
        if let Some(session) = &mut self.session {
            let synced = self.sync.finish(session)?;
            self.give_back_all(&synced);
        }
        let unused = self.ahead.drain(true);
        self.give_back_all(&unused);
        let [first, second] = [&mut self.freed_first, &mut self.freed_second].map(std::mem::take);
        if self.pooled {
            return self.end_transaction();
        }
        unlock(&mut on.engine.session, first)?;
        self.session.as_mut().map_or(Ok(()), |session| unlock(session, second))
    }

    fn start_watchdog(&mut self, on: &mut SqlDatabase<PgEngine>, token: &str) -> Result<()> {
        self.token = Some(token.into());
        self.open(on)?;
        // A server that has just been started has forgotten all claims of others.
        let age = on.engine.session.age_of_claims();
        std::thread::sleep(HOLD_OFF.saturating_sub(on.reading(age)?));
        Ok(())
    }

    fn look_after(&mut self, on: &mut SqlDatabase<PgEngine>) -> Result<Vec<Arc<OwnedFd>>, DbError> {
        if self.held.is_empty() {
            return Ok(Vec::new());
        }
        self.free(on)?;
        let mut sockets = Vec::new();
        for session in self.session.iter_mut().chain([&mut on.engine.session]) {
            session.query("SELECT 1", &[])?;
            sockets.push(session.connection.handle.socket.clone());
        }
        Ok(sockets)
    }
}

impl PgLocks {
    fn open_session(&mut self, server: &Arc<Server>) -> Result<()> {
        let session = Session::open(server, Access::ReadWrite)?;
        if let Some(token) = &self.token {
            let socket = session.connection.handle.socket.try_clone();
            let socket = socket.context("could not watch a connection")?;
            // The first one still watches over what has its mark only; those between are no use.
            self.watchdogs.push(Watchdog::start(Some(socket), token)?);
            if self.watchdogs.len() > 2 {
                self.watchdogs.remove(1);
            }
        }
        self.session = Some(session);
        Ok(())
    }

    /// Gets both sessions ready, and says whether their locks exclude each other.
    fn prepare(&mut self, writing: &mut Session) -> Result<bool, DbError> {
        if let Some(claiming) = &mut self.session {
            self.pooled = are_pooled(claiming, writing)?;
        }
        if self.pooled {
            let place = writing.server.shown();
            log::debug!("{place} is a pooler: a claim is a lock of a transaction");
        }
        self.tune(writing)?;
        self.note_backends(writing)?;
        // What only speaks PostgreSQL's protocol may know the functions and grant everything. The
        // key is no record's but by chance, and no other pass's; its lock goes with the next claim.
        let key = RandomState::new().hash_one(std::process::id()).cast_signed();
        let first = self.take_first(writing, &[key])?;
        self.freed_first.push(key);
        let function = self.function();
        let other = if self.pooled { Some(writing) } else { self.session.as_mut() };
        let Some(other) = other else { return Ok(false) };
        let second = other.ask(&self.statements.take_locks(function, vec![key], Vec::new()))?;
        Ok(first == [true] && granted(&second) == [false])
    }

    /// What a session of one's own is told, and one for a transaction must not be.
    fn tune(&mut self, writing: &mut Session) -> Result<(), DbError> {
        if self.pooled {
            return Ok(());
        }
        let access = writing.access;
        for session in self.session.iter_mut().chain([writing]) {
            session.batch(&format!(
                "SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; \
                 SET tcp_keepalives_count = 3; SET statement_timeout = 0; \
                 SET default_transaction_isolation = 'read committed'; \
                 SELECT set_config(name, '0', false) FROM pg_settings \
                 WHERE name = 'idle_session_timeout'; SET lock_timeout = '{LOCK_TIMEOUT}'"
            ))?;
            session.prepare_what_is_repeated();
            session.plan_for_rounds()?;
        }
        // From now on it reads rows as well, which a condition with a function may not use to write.
        if let Some(claiming) = &mut self.session {
            claiming.access = access;
        }
        Ok(())
    }

    fn note_backends(&mut self, writing: &mut Session) -> Result<(), DbError> {
        for (session, backend) in
            [writing].into_iter().chain(&mut self.session).zip(&mut self.backends)
        {
            *backend = session.backend()?;
        }
        Ok(())
    }

    fn take_first(&mut self, writing: &mut Session, keys: &[i64]) -> Result<Vec<bool>, DbError> {
        let (function, mut freed) = (self.function(), std::mem::take(&mut self.freed_first));
        let mut session = writing;
        if self.pooled {
            freed.clear();
            self.end_transaction()?;
            let Some(claiming) = &mut self.session else { return Ok(vec![false; keys.len()]) };
            session = claiming;
            if self.taken == 0 {
                // It waits for handlers, however long they take.
                session.batch(
                    "BEGIN ISOLATION LEVEL READ COMMITTED; \
                     SET LOCAL idle_in_transaction_session_timeout = 0",
                )?;
            }
            self.taken += keys.len();
        }
        Ok(granted(&session.ask(&self.statements.take_locks(function, keys.to_vec(), freed))?))
    }

    /// Of the writing and the claiming session: that of the first locks, and that of the second ones.
    fn of_locks(&self, [writing, claiming]: [bool; 2]) -> [bool; 2] {
        if self.pooled { [claiming, false] } else { [writing, claiming] }
    }

    fn function(&self) -> &'static str {
        if self.pooled { "pg_try_advisory_xact_lock" } else { LOCK }
    }

    /// Ends the transaction that has the first locks, if none of them is a claim's any more.
    fn end_transaction(&mut self) -> Result<(), DbError> {
        if self.held.is_empty()
            && std::mem::take(&mut self.taken) > 0
            && let Some(session) = &mut self.session
        {
            session.batch("COMMIT")?;
        }
        Ok(())
    }

    /// Whether what is written may be durable only after a flush. A pooler's transaction has the first
    /// locks, and is not ended for that; rules take no statement that sets how it commits.
    fn can_flush(&mut self, on: &mut SqlDatabase<PgEngine>) -> Result<bool, DbError> {
        let may_write = !self.pooled && on.engine.session.access != Access::ReadOnly;
        let Some(session) = self.session.as_mut().filter(|_| may_write) else {
            return Ok(false);
        };
        let rules =
            "SELECT 1 FROM pg_rewrite WHERE ev_class = $1::text::regclass AND ev_type <> '1'";
        let has_rules = !session.query(rules, &[Param::text(&on.table.sql)])?.is_empty();
        Ok(!has_rules && CommitSync::can_flush(session)?)
    }

    fn free_keys(&mut self, keys: Keys) {
        self.freed_first.push(keys.first);
        if !self.pooled {
            self.freed_second.push(keys.second);
        }
    }

    fn give_back(&mut self, id: &Id) {
        if let Some(keys) = self.held.remove(id) {
            self.free_keys(keys);
        }
    }

    fn give_back_all(&mut self, ids: &[Id]) {
        ids.iter().for_each(|id| self.give_back(id));
    }

    /// Notes which locks are held after a record was to be claimed.
    fn note(&mut self, id: &Id, keys: Keys, claim: &Claim) {
        match claim {
            Claim::Held(_) => {
                self.held.insert(id.clone(), keys);
            }
            Claim::Busy | Claim::Unreadable(_) => self.freed_first.push(keys.first),
            Claim::Gone | Claim::Ambiguous => self.free_keys(keys),
        }
    }

    /// Gives back what is durable by now, and at all events what is wanted again, or too much.
    fn free_synced(&mut self, wanted: &[Id]) -> Result<(), DbError> {
        let Self { session: Some(session), sync, held, .. } = self else { return Ok(()) };
        let new = wanted.iter().filter(|id| !held.contains_key(id)).count();
        let is_much = held.len() + new > MOST_HELD;
        let is_wanted = |id: &Id| held.contains_key(id) && sync.is_held_back(id);
        let synced = match is_much || wanted.iter().any(is_wanted) {
            true => sync.finish(session)?,
            false => sync.synced(session)?,
        };
        self.give_back_all(&synced);
        Ok(())
    }

    /// Makes sessions anew that are lost, the writing or the claiming one. What it held is gone: nothing
    /// is left to be given back there.
    fn make_anew(&mut self, on: &mut SqlDatabase<PgEngine>, lost: [bool; 2]) -> Result<()> {
        let unused = self.ahead.drain(true);
        self.give_back_all(&unused);
        let writing = &mut on.engine.session;
        if lost[0] {
            writing.open_again()?;
        }
        if lost[1] {
            self.open_session(&writing.server)?;
            self.taken = 0;
            self.sync.begin_anew();
        }
        let [first, second] = self.of_locks(lost);
        if first {
            self.freed_first.clear();
        }
        if second {
            self.freed_second.clear();
        }
        let again = self
            .tune(writing)
            .and_then(|()| self.end_old(writing, lost))
            .and_then(|()| self.take_back(writing, lost));
        on.reading(again)
    }

    /// The server may not know yet that the old sessions are gone, and the watchdog keeps the
    /// socket of one: they are ended there, so that their locks are free.
    fn end_old(&mut self, writing: &mut Session, lost: [bool; 2]) -> Result<(), DbError> {
        if self.pooled {
            return Ok(());
        }
        let old = self.backends.iter().zip(lost).filter(|(_, is_lost)| *is_lost);
        let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE concat_ws(' ', pid, backend_start) = ANY($1)";
        writing.query(sql, &[Param::texts(old.map(|(backend, _)| backend))])?;
        self.note_backends(writing)
    }

    /// Takes the locks of the sessions that were made anew, again and again, because they must be
    /// this pass's own. A record that somebody else has got meanwhile is lost to this pass.
    fn take_back(&mut self, writing: &mut Session, lost: [bool; 2]) -> Result<(), DbError> {
        for (is_first, is_lost) in [true, false].into_iter().zip(self.of_locks(lost)) {
            let key = |keys: &Keys| if is_first { keys.first } else { keys.second };
            let mut wanted: Vec<_> =
                self.held.iter().map(|(id, it)| (id.clone(), key(it))).collect();
            wanted.retain(|_| is_lost);
            for tries in 0..RETAKES {
                if wanted.is_empty() {
                    break;
                }
                if tries > 0 {
                    std::thread::sleep(RETAKE_PAUSE);
                }
                let keys: Vec<_> = wanted.iter().map(|(_, key)| *key).collect();
                let granted = match (is_first, &mut self.session) {
                    (true, _) => self.take_first(writing, &keys)?,
                    (false, Some(claiming)) => granted(
                        &claiming.ask(&self.statements.take_locks(LOCK, keys, Vec::new()))?,
                    ),
                    (false, None) => Vec::new(),
                };
                let mut granted = granted.into_iter();
                wanted.retain(|_| granted.next() != Some(true));
            }
            for (id, _) in wanted {
                self.give_back(&id);
                if !self.sync.is_held_back(&id) {
                    self.lost.insert(id.clone());
                }
                self.sync.forget(&id);
            }
        }
        Ok(())
    }
}

/// Makes the sessions anew that are lost, and takes back what they held.
pub fn recover(store: &mut TableStore<PgEngine>, why: &DbError) -> Result<()> {
    let mut lost = [false, false];
    store.connect_again(why, |it| {
        // A server that goes down ends one session after the other.
        lost[0] |= !it.database.engine.session.connection.is_alive();
        let session = it.locks.session.as_mut();
        lost[1] |= session.is_some_and(|session| !session.connection.is_alive());
        it.locks.make_anew(&mut it.database, lost)?;
        // Only a session that is lost may have been so in a crash, which takes commits away.
        if lost[1] { write_again(it) } else { Ok(()) }
    })?;
    // Behind a pooler only the one that holds claims is seen to be lost.
    if lost[1] && (lost[0] || store.locks.pooled) {
        std::thread::sleep(HOLD_OFF);
    }
    Ok(())
}

/// Writes again what may not have been durable.
fn write_again(store: &mut TableStore<PgEngine>) -> Result<()> {
    store.may_be_set_back = true;
    let unsynced = store.locks.sync.take_unsynced();
    let result = unsynced.iter().try_for_each(|it| store.write(&[it.change()], true).map(|_| ()));
    result.or_else(|error| {
        store.locks.sync.put_back(unsynced);
        store.database.engine.roll_back();
        store.database.reading(Err(error))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_and_tables_have_keys_of_their_own() {
        let of = |table: &str, id: Id| Keys::of(table, &id);
        let one = of("\"public\".\"orders\"", Id::Integer(7));
        assert_eq!(one, of("\"public\".\"orders\"", Id::Text("7".into())));
        let mut all: Vec<i64> = ["\"public\".\"orders\"", "\"public\".\"mails\""]
            .iter()
            .flat_map(|table| (0..1_000).map(move |id| of(table, Id::Integer(id))))
            .flat_map(|keys| [keys.first, keys.second])
            .collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 4_000);
    }
}

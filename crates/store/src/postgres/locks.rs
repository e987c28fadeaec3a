//! Claims on records: advisory locks that the server holds for a living session.
//!
//! Each claim is two locks with different keys, in two sessions. A pass that wants a record takes the
//! first lock and then the second. So the end of one session, for example by an administrator, frees no
//! record in hand: the other lock stands until the session is made again and has taken its lock back.
//! Several locks are taken in one statement, because a lock costs a round trip to the server. Few are
//! held, because all locks of all sessions share one table of the server.
//!
//! The writing session, which searches and writes, has the first locks; the claiming session has the
//! second ones and reads what is claimed. So the next records are claimed while a round is written.
//!
//! Behind a pooler that lends a session of the server for one transaction, all clients share the locks of
//! that session. There a claim is one lock of a transaction that stays open in the claiming session. All
//! these locks are freed at once, when the transaction ends.

mod recovery;

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant as Monotonic};

use anyhow::{Context, Result, bail};
use backlog_schedule::{Id, Record, fnv1a64, splitmix64};

pub use recovery::recover;

use super::ahead::Ahead;
use super::commit_sync::CommitSync;
use super::session::{FIRST_ANSWER_LIMIT, Session, are_pooled};
use super::statements::{
    self, LockKeys, claims, granted, held_keys, lock_and_read, lock_and_read_singly, rows_after,
    still_pending, take_locks, unlock,
};
use super::{PgEngine, Server};
use crate::clock::Clock;
use crate::database::Access;
use crate::engine::{ClaimState, Engine, Locks, NumberedWrites, RowAfter, SqlDatabase};
use crate::error::DbError;
use crate::store::{Claim, ClaimRequest, Heartbeat, Limits, Sessions, Until};
use crate::table::Table;
use crate::watchdog::Watchdog;
use crate::writes::{Guards, RowWrite, WriteResult};
use recovery::HOLD_OFF;
use tokio_postgres::Row;

const LOCK: &str = "pg_catalog.pg_try_advisory_lock";
/// How many records are claimed at a time, with those that are being settled.
const MOST_CLAIMS: usize = 256;
/// How many are held at a time, with those that are claimed ahead, and those whose outcomes are to
/// become durable: two locks each, of the 12,000 that a stock server has.
const MOST_HELD: usize = 400;
/// How long a write waits for the lock of a row. Then a settlement is tried again, and an attempt is not
/// begun.
const LOCK_TIMEOUT: &str = "5s";
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// How long a living server may take to answer a heartbeat.
const HEARTBEAT_LIMIT: Duration = Duration::from_secs(5);

/// With these the server frees the locks of a client that has been silent for 180 s: 60 s and four times
/// 30 s. Handlers have ended by then (see `CLAIMS_STAND_FOR`).
const KEEPALIVES: &str = "SET tcp_keepalives_idle = 60; SET tcp_keepalives_interval = 30; \
                          SET tcp_keepalives_count = 4";

/// The table is named as in SQL.
fn keys_of(table: &str, id: &Id) -> LockKeys {
    let record = splitmix64(fnv1a64(id.text().as_bytes()));
    let first = splitmix64(fnv1a64(table.as_bytes()) ^ record);
    [first, splitmix64(first)].map(u64::cast_signed)
}

fn first_keys(wanted: &[(&Id, LockKeys)]) -> Vec<i64> {
    wanted.iter().map(|(_, keys)| keys[0]).collect()
}

struct LockedRecord {
    record: Arc<Record>,
    keys: LockKeys,
    /// What the charge made of the row, once the attempt has begun.
    charged: Option<Guards>,
    /// Which of its two locks the pass has. Behind a pooler there is only the first.
    has: [bool; 2],
    hold: ClaimState,
    /// How many times in a row another pass was seen with the first lock.
    refusals: u8,
}

impl LockedRecord {
    fn new(record: Arc<Record>, keys: LockKeys, has: [bool; 2]) -> Self {
        Self { record, keys, charged: None, has, hold: ClaimState::Unbroken, refusals: 0 }
    }

    fn is_covered(&self) -> bool {
        self.has.contains(&true)
    }
}

/// A claiming session that was made early, for the lock of a crontab line.
pub struct LineSession {
    session: Session,
    /// `None` behind a pooler, where no lock outlives its transaction: passes of the line may overlap.
    key: Option<i64>,
}

impl LineSession {
    /// `None` if a pass of the line has the lock, and `wait` is false.
    pub fn lock(
        mut session: Session,
        writing: &mut Session,
        line: &str,
        wait: bool,
    ) -> Result<Option<Self>, DbError> {
        if are_pooled(&mut session, writing)? {
            return Ok(Some(Self { session, key: None }));
        }
        let key = splitmix64(fnv1a64(format!("line {line}").as_bytes())).cast_signed();
        if wait {
            let wait = format!(
                "SET statement_timeout = 0; SET lock_timeout = 0; \
                 SELECT pg_catalog.pg_advisory_lock({key})"
            );
            session.batch(&wait)?;
        } else if !take_line(&mut session, key)? {
            return Ok(None);
        }
        Ok(Some(Self { session, key: Some(key) }))
    }
}

fn take_line(session: &mut Session, key: i64) -> Result<bool, DbError> {
    let rows = session.query(&format!("SELECT {LOCK}({key})"), &[])?;
    Ok(rows.first().is_some_and(|row| row.get(0)))
}

pub struct PgLocks {
    clock: Clock,
    /// The claiming session; made when it is needed.
    session: Option<Session>,
    /// The same session before that, where it has the lock of the line.
    early: Option<Session>,
    /// The key of that lock.
    line: Option<i64>,
    /// The processes of the server for the writing session and for the claiming session. Behind a pooler
    /// only the process with the open transaction is known.
    backends: [String; 2],
    /// The processes of lost sessions. They may keep their locks for a moment longer.
    old_backends: Vec<String>,
    /// Whether a pooler lends the sessions for one transaction each.
    pooled: bool,
    held: HashMap<Id, LockedRecord>,
    ahead: Ahead,
    /// The keys of first and second locks that are released and not yet freed, also of records that were
    /// not claimed in the end. They are freed in the statement that takes the next locks.
    freed: [Vec<i64>; 2],
    /// Whether a statement failed that may have taken or freed first or second locks.
    is_unsure: [bool; 2],
    /// Behind a pooler: how many locks the open transaction has, if one is open.
    taken: Option<usize>,
    /// No new record is claimed before this time.
    hold_off_until: Option<Monotonic>,
    /// Whether what is written is durable only after a flush.
    is_asynchronous: bool,
    sync: CommitSync,
    /// Gets the records whose claims are lost, so that their handlers end.
    lost: Option<Sender<Vec<Id>>>,
    /// The token that the handlers carry, and the watchdogs that end them if this process is killed.
    token: Option<String>,
    watchdogs: Vec<Watchdog>,
}

impl PgLocks {
    pub fn new(clock: Clock, line: Option<LineSession>) -> Self {
        let (early, line) = line.map(|line| (line.session, line.key)).unzip();
        Self {
            clock,
            session: None,
            early,
            line: line.flatten(),
            backends: Default::default(),
            old_backends: Vec::new(),
            pooled: false,
            held: HashMap::new(),
            ahead: Ahead::new(clock),
            freed: Default::default(),
            is_unsure: [false; 2],
            taken: None,
            hold_off_until: None,
            is_asynchronous: false,
            sync: CommitSync::new(clock),
            lost: None,
            token: None,
            watchdogs: Vec::new(),
        }
    }
}

impl Locks<PgEngine> for PgLocks {
    fn limits(&self) -> Limits {
        let most_claims = match self.pooled && !self.held.is_empty() {
            true => self.held.len() + MOST_CLAIMS.saturating_sub(self.taken.unwrap_or(0)),
            false => MOST_CLAIMS,
        };
        let hold_off = self.hold_off_until.map(|until| self.clock.until(until));
        let hold_off = hold_off.filter(|left| !left.is_zero());
        Limits { most_claims, can_lose_claims: true, looks_ahead: true, hold_off }
    }

    fn begin(
        &mut self,
        on: &mut SqlDatabase<PgEngine>,
        token: &str,
        lost: Sender<Vec<Id>>,
    ) -> Result<Option<Heartbeat>> {
        (self.token, self.lost) = (Some(token.into()), Some(lost));
        self.open(on)?;
        // A server that has just started has lost the claims of all passes, which take them back now.
        let left = HOLD_OFF.saturating_sub(on.engine.session.age_of_claims()?);
        self.hold_off_until = self.clock.monotonic().checked_add(left);
        let sessions: Arc<dyn Sessions> = Arc::new(on.engine.session.server.clone());
        Ok(Some(Heartbeat { interval: HEARTBEAT_INTERVAL, sessions: Some(sessions) }))
    }

    /// Records that were claimed ahead are answered at once, and then the server is not asked for others.
    fn claim(
        &mut self,
        on: &mut SqlDatabase<PgEngine>,
        wanted: ClaimRequest<'_>,
    ) -> Result<Vec<(Id, Claim)>> {
        self.open(on)?;
        let (first, later) = wanted.split();
        self.free_synced(first)?;
        let over = self.ahead.drain(false);
        self.give_back_all(&over);
        let is_next = matches!(wanted, ClaimRequest::Next(..));
        let mut claim = |id: &Id| if is_next { self.ahead.take(id) } else { None };
        let ready: Vec<_> = first.iter().map(&mut claim).collect();
        let mut claims = match ready.iter().any(Option::is_some) {
            true => ready.into_iter().map(|claim| claim.unwrap_or(Claim::NotAsked)).collect(),
            false => self.claim_now(on, first, later)?,
        };
        let held = claims.iter().filter(|claim| matches!(claim, Claim::Held(_))).count();
        self.ahead.count(held);
        claims.resize_with(first.len() + later.len(), || Claim::NotAsked);
        Ok(first.iter().chain(later).cloned().zip(claims).collect())
    }

    fn release(&mut self, id: &Id) {
        if self.held.contains_key(id) && !self.sync.holds_back(id) {
            self.give_back(id);
        }
    }

    /// While records are in hand, the statement of the next claim frees what was released, or else the
    /// heartbeat does.
    fn flush(&mut self, on: &mut SqlDatabase<PgEngine>, until: Until) -> Result<()> {
        let is_idle = self.held.len() == self.sync.held_back() + self.ahead.held();
        if is_idle || until == Until::Durable {
            self.free(on)?;
        }
        Ok(())
    }

    fn write(
        &mut self,
        on: &mut SqlDatabase<PgEngine>,
        changes: &NumberedWrites,
        next: &[Id],
    ) -> Result<Vec<RowAfter>, DbError> {
        let table = &on.table;
        let wanted = self.choose_ahead(table, next);
        let (charges, outcomes): (Vec<_>, Vec<_>) =
            changes.iter().copied().partition(|(_, change)| change.begins());
        let request = |changes: &NumberedWrites| {
            (!changes.is_empty()).then(|| statements::write(table, changes))
        };
        let (outcomes, charges) = (request(&outcomes), || request(&charges));
        let writing = &mut on.engine.session;
        if !self.pooled {
            writing.plan_for_rounds()?;
        }
        let Some(claiming) = self.session.as_ref().filter(|_| !wanted.is_empty()) else {
            return Ok(rows_after(table, &writing.write(outcomes.as_ref(), charges)?));
        };
        let [freed_first, freed_second] = self.freed.clone();
        let lock = take_locks(LOCK, first_keys(&wanted), freed_first);
        let mut wanted = wanted;
        let read = |rows: &[Row]| {
            let mut granted = granted(rows).into_iter();
            wanted.retain(|(id, _)| {
                let is_granted = granted.next() == Some(true);
                if !is_granted {
                    self.ahead.add(id, Claim::Busy);
                }
                is_granted
            });
            (!wanted.is_empty()).then(|| lock_and_read(table, &wanted, freed_second, true))
        };
        let both = writing.claim_and_write(&lock, claiming, read, outcomes.as_ref(), charges);
        let (claimed, written) = both.inspect_err(|_| self.is_unsure = [true; 2])?;
        // A record that could not be claimed ahead is claimed when it is needed, or the claim fails then.
        match claimed {
            Ok(rows) => {
                self.freed[0].clear();
                if !wanted.is_empty() {
                    self.freed[1].clear();
                }
                for (claim, (id, keys)) in
                    claims(table, wanted.len(), &rows).into_iter().zip(&wanted)
                {
                    self.note_claim(id, *keys, &claim);
                    self.ahead.add(id, claim);
                }
            }
            Err(error) => {
                log::debug!("nothing was claimed ahead: {error}");
                self.is_unsure = [true; 2];
            }
        }
        Ok(rows_after(table, &written?))
    }

    /// If the flush cannot begin, the next flush that is waited for makes up for it.
    fn note(&mut self, changes: &[RowWrite], written: &[WriteResult]) {
        for (change, written) in changes.iter().zip(written) {
            if let WriteResult::Charged(charged) = written
                && let Some(held) = self.held.get_mut(&change.record.id)
            {
                held.charged = Some(charged.clone());
            }
        }
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

    /// If a record is no longer held, another pass may have had it.
    fn claim_state(&self, id: &Id) -> ClaimState {
        self.held.get(id).map_or(ClaimState::Broken, |held| held.hold)
    }

    /// Behind a pooler the claiming session is asked each time, because most statements of a pass use the
    /// writing session only.
    fn keep(
        &mut self,
        on: &mut SqlDatabase<PgEngine>,
        checks_sessions: bool,
    ) -> Result<Option<Duration>, DbError> {
        if !checks_sessions && self.is_whole() && !self.pooled {
            return Ok(None);
        }
        let writing = Some(&mut on.engine.session).filter(|_| checks_sessions);
        for session in self.session.iter_mut().chain(writing) {
            session.within(HEARTBEAT_LIMIT, |session| session.query("SELECT 1", &[]))?;
        }
        if checks_sessions {
            self.free(on)?;
        }
        self.retake(on)
    }
}

impl PgLocks {
    fn open(&mut self, on: &mut SqlDatabase<PgEngine>) -> Result<()> {
        if self.session.is_some() {
            return Ok(());
        }
        let place = on.engine.label();
        if let Some(why) = on.engine.locks_of_one_node()? {
            bail!("could not claim records in {place}: {why}");
        }
        self.open_session(&on.engine.session.server)?;
        let ready = self.prepare(on);
        if !matches!(ready, Ok(true)) {
            self.session = None;
        }
        if !ready? {
            bail!(
                "could not claim records in {place}: its advisory locks do not lock, a second session \
                 got what the first one holds; name a server, or a pooler before it, that keeps \
                 them"
            );
        }
        Ok(())
    }

    /// Frees what was released.
    fn free(&mut self, on: &mut SqlDatabase<PgEngine>) -> Result<(), DbError> {
        let Some(session) = &mut self.session else { return Ok(()) };
        let finished = self.sync.finish(session);
        let over = [self.sync.take_durable(), self.ahead.drain(true)].concat();
        self.give_back_all(&over);
        finished?;
        if self.pooled {
            return self.end_transaction();
        }
        self.make_sure(&mut on.engine.session)?;
        for (of, session) in
            [Some(&mut on.engine.session), self.session.as_mut()].into_iter().enumerate()
        {
            let Some(session) = session else { continue };
            let freed = unlock(session, self.freed[of].clone());
            self.is_unsure[of] = freed.is_err();
            freed?;
            self.freed[of].clear();
        }
        Ok(())
    }

    /// The candidates to claim ahead, which nobody here holds.
    fn choose_ahead<'a>(&mut self, table: &Table, next: &'a [Id]) -> Vec<(&'a Id, LockKeys)> {
        let ids = self.ahead.choose(next);
        let is_unsure = self.is_unsure.contains(&true);
        if self.pooled || is_unsure || self.limits().hold_off.is_some() {
            return Vec::new();
        }
        let mut distinct = HashSet::new();
        let free = ids.iter().filter(|id| !self.held.contains_key(id) && distinct.insert(*id));
        let most = MOST_HELD.saturating_sub(self.held.len());
        free.take(most).map(|id| (id, keys_of(&table.sql, id))).collect()
    }

    fn open_session(&mut self, server: &Arc<Server>) -> Result<()> {
        let session = match self.early.take() {
            Some(session) => session,
            None => self.open_again(server)?,
        };
        if let Some(token) = &self.token {
            let socket = session.connection.handle.socket.try_clone();
            let socket = socket.context("could not watch a connection")?;
            // The first watchdog stays, because the oldest handlers carry its mark only. Those between the
            // first and the last are of no use.
            self.watchdogs.push(Watchdog::start(Some(socket), token)?);
            if self.watchdogs.len() > 2 {
                self.watchdogs.remove(1);
            }
        }
        self.session = Some(session);
        Ok(())
    }

    /// Opens a session, which has the lock of the line unless another pass has it by now.
    fn open_again(&self, server: &Arc<Server>) -> Result<Session> {
        let mut session = Session::open(server, Access::ReadWrite)?;
        if let Some(key) = self.line
            && let Err(error) = take_line(&mut session, key)
        {
            log::debug!("the lock of the line was not taken again: {error}");
        }
        Ok(session)
    }

    /// Gets both sessions ready, and says whether their locks exclude each other.
    fn prepare(&mut self, on: &mut SqlDatabase<PgEngine>) -> Result<bool, DbError> {
        let writing = &mut on.engine.session;
        let Some(claiming) = &mut self.session else { return Ok(false) };
        self.pooled = writing.within(FIRST_ANSWER_LIMIT, |writing| {
            claiming.within(FIRST_ANSWER_LIMIT, |claiming| are_pooled(claiming, writing))
        })?;
        if self.pooled {
            let place = writing.server.shown();
            log::debug!("{place} is a pooler: a claim is a lock of a transaction");
        } else if writing.access != Access::ReadOnly {
            self.is_asynchronous = CommitSync::can_flush(claiming)?;
        }
        self.tune(writing, [true; 2])?;
        // A server that only speaks PostgreSQL's protocol may have these functions and grant every lock.
        // The key is random, so that no record and no other pass has it. The next claim frees its lock.
        let key = RandomState::new().hash_one(std::process::id()).cast_signed();
        let first = self.take_first(writing, &[key])?;
        self.freed[0].push(key);
        let function = self.function();
        let Some(claiming) = &mut self.session else { return Ok(false) };
        let (holder, other) = if self.pooled { (claiming, writing) } else { (writing, claiming) };
        let second = other.ask(&take_locks(function, vec![key], Vec::new()))?;
        let exclude = first == [true] && granted(&second) == [false];
        if !exclude {
            // The lock of a session that has ended is free. Then this fails.
            holder.batch("SELECT 1")?;
        }
        Ok(exclude)
    }

    /// Sets the parameters of new sessions; `new` says whether the writing and the claiming session are
    /// new. Nothing is set for a session that a pooler lends for a transaction.
    fn tune(&mut self, writing: &mut Session, new: [bool; 2]) -> Result<(), DbError> {
        let access = writing.access;
        let sessions = [Some(writing), self.session.as_mut()];
        for (of, session) in sessions.into_iter().enumerate().filter(|(of, _)| new[*of]) {
            let Some(session) = session else { continue };
            if self.pooled {
                // The pool may have no connection left.
                session.connection.limit = Some(FIRST_ANSWER_LIMIT);
                continue;
            }
            session.batch(&format!(
                "{KEEPALIVES}; SET statement_timeout = 0; \
                 SET default_transaction_isolation = 'read committed'; \
                 SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings \
                 WHERE name = 'idle_session_timeout'; SET lock_timeout = '{LOCK_TIMEOUT}'"
            ))?;
            if of == 0 && self.is_asynchronous {
                session.batch("SET synchronous_commit = off")?;
            }
            session.prepare_what_is_repeated();
            session.plan_for_rounds()?;
            self.backends[of] = session.backend()?;
            // From now on the claiming session reads rows as well. A function in the condition of the
            // queue must not write if the pass must not.
            session.access = access;
        }
        Ok(())
    }

    /// Whether the pass has all locks of all its claims. Of a lost claim it has none.
    fn is_whole(&self) -> bool {
        self.held.values().all(|held| held.has[0] && (self.pooled || held.has[1]))
    }

    /// Notes that a failed statement may have taken or freed locks: these do not end with its transaction,
    /// only with the session.
    fn sure<T>(&mut self, of: usize, done: Result<T, DbError>) -> Result<T, DbError> {
        done.inspect_err(|_| self.is_unsure[of] = true)
    }

    /// Claims the first records. Of more than those, it first finds the ones that are still pending.
    fn claim_now(
        &mut self,
        on: &mut SqlDatabase<PgEngine>,
        first: &[Id],
        later: &[Id],
    ) -> Result<Vec<Claim>, DbError> {
        self.make_sure(&mut on.engine.session)?;
        let (writing, table) = (&mut on.engine.session, &on.table);
        let mut ids: Vec<_> = first.iter().chain(later).collect();
        let mut claims: Vec<_> = ids.iter().map(|_| Claim::NotAsked).collect();
        if !later.is_empty() {
            let pending = still_pending(writing, table, &ids)?;
            let is_gone = |place: &usize| pending.binary_search(place).is_err();
            (0..ids.len()).filter(is_gone).for_each(|place| claims[place] = Claim::Gone);
        }
        let (mut places, mut wanted, mut distinct) = (Vec::new(), Vec::new(), HashSet::new());
        for (place, id) in ids.drain(..).enumerate() {
            let keys = keys_of(&table.sql, id);
            if wanted.len() == first.len() || !matches!(claims[place], Claim::NotAsked) {
                continue;
            }
            claims[place] = Claim::Busy;
            if self.held.contains_key(id) {
                log::warn!("record {id} is skipped: this pass has it already");
            } else if distinct.insert(keys) {
                places.push(place);
                wanted.push((id, keys));
            }
        }
        if wanted.is_empty() {
            return Ok(claims);
        }
        if !self.pooled {
            writing.plan_for_rounds()?;
        }
        let granted = self.take_first(writing, &first_keys(&wanted))?;
        let granted = places.into_iter().zip(wanted).zip(granted).filter(|(_, granted)| *granted);
        let (places, wanted): (Vec<_>, Vec<_>) = granted.map(|(one, _)| one).unzip();
        if wanted.is_empty() {
            return Ok(claims);
        }
        // A statement of its own, so that it sees what was committed before the locks were free.
        let freed = if self.pooled { Vec::new() } else { self.freed[1].clone() };
        let session = if self.pooled { Some(writing) } else { self.session.as_mut() };
        let Some(session) = session else { return Ok(claims) };
        let read = match session.ask(&lock_and_read(table, &wanted, freed, !self.pooled)) {
            // One row that cannot be read must not keep the others from being handled.
            Err(error) if error.is_of_one_row => {
                lock_and_read_singly(session, table, &wanted, !self.pooled)
            }
            rows => rows.map(|rows| statements::claims(table, wanted.len(), &rows)),
        };
        if read.is_err() {
            self.freed[0].extend(first_keys(&wanted));
        }
        let read = self.sure(1, read)?;
        if !self.pooled {
            self.freed[1].clear();
        }
        for ((place, (id, keys)), claim) in places.into_iter().zip(wanted).zip(read) {
            self.note_claim(id, keys, &claim);
            claims[place] = claim;
        }
        Ok(claims)
    }

    fn take_first(&mut self, writing: &mut Session, keys: &[i64]) -> Result<Vec<bool>, DbError> {
        let function = self.function();
        if !self.pooled {
            let freed = self.freed[0].clone();
            let taken = writing.ask(&take_locks(function, keys.to_vec(), freed));
            let taken = self.sure(0, taken)?;
            self.freed[0].clear();
            return Ok(granted(&taken));
        }
        self.end_transaction()?;
        let claiming = self.session.as_mut().filter(|session| session.connection.is_open());
        let Some(claiming) = claiming else { return Ok(vec![false; keys.len()]) };
        if self.taken.is_none() {
            // The transaction is idle while handlers run, however long they take.
            claiming.batch(
                "BEGIN ISOLATION LEVEL READ COMMITTED; \
                 SET LOCAL idle_in_transaction_session_timeout = 0",
            )?;
            self.taken = Some(0);
            self.backends[1] = claiming.backend()?;
        }
        let taken = claiming.ask(&take_locks(function, keys.to_vec(), Vec::new()));
        let taken = taken.map(|rows| granted(&rows));
        if taken.is_err() {
            // The transaction has failed, and all its locks are gone.
            let _ = claiming.roll_back();
            // The pooler may lend its process to others from now on.
            self.backends[1].clear();
            self.note_lost([false, true]);
        }
        let taken = taken?;
        let count = taken.iter().filter(|is_granted| **is_granted).count();
        self.taken = self.taken.map(|before| before + count);
        Ok(taken)
    }

    fn function(&self) -> &'static str {
        if self.pooled { "pg_catalog.pg_try_advisory_xact_lock" } else { LOCK }
    }

    /// Ends the transaction that has the first locks, if no claim needs it any more.
    fn end_transaction(&mut self) -> Result<(), DbError> {
        if self.held.is_empty()
            && self.taken.is_some()
            && let Some(session) = &mut self.session
        {
            session.batch("COMMIT")?;
            self.taken = None;
        }
        Ok(())
    }

    fn give_back(&mut self, id: &Id) {
        let Some(held) = self.held.remove(id) else { return };
        for (of, freed) in self.freed.iter_mut().enumerate() {
            freed.extend(Some(held.keys[of]).filter(|_| held.has[of]));
        }
    }

    fn give_back_all(&mut self, ids: &[Id]) {
        ids.iter().for_each(|id| self.give_back(id));
    }

    /// Notes which locks a record has after an attempt to claim it in which the first lock was granted.
    fn note_claim(&mut self, id: &Id, keys: LockKeys, claim: &Claim) {
        let has = [true, !self.pooled];
        match claim {
            Claim::Held(record) => {
                self.held.insert(id.clone(), LockedRecord::new(record.clone(), keys, has));
            }
            Claim::Busy | Claim::NotAsked | Claim::Unreadable(_) => self.freed[0].push(keys[0]),
            Claim::Gone | Claim::Ambiguous => {
                self.freed[0].push(keys[0]);
                self.freed[1].extend(Some(keys[1]).filter(|_| !self.pooled));
            }
        }
    }

    /// Gives back the claims whose outcomes are durable by now. Waits for the flush if a wanted record is
    /// among them, or if too many records would be held.
    fn free_synced(&mut self, wanted: &[Id]) -> Result<(), DbError> {
        let Self { session: Some(session), sync, held, .. } = self else { return Ok(()) };
        let new = wanted.iter().filter(|id| !held.contains_key(id)).count();
        let is_much = held.len() + new > MOST_HELD;
        let is_wanted = |id: &Id| held.contains_key(id) && sync.is_held_back(id);
        let advanced = match is_much || wanted.iter().any(is_wanted) {
            true => sync.finish(session),
            false => sync.advance(session),
        };
        let durable = self.sync.take_durable();
        self.give_back_all(&durable);
        advanced
    }

    /// Frees the locks that a failed statement may have left with this pass, and notes which locks the pass
    /// does not have. Behind a pooler a failed transaction leaves none.
    fn make_sure(&mut self, writing: &mut Session) -> Result<(), DbError> {
        for (of, session) in [Some(writing), self.session.as_mut()].into_iter().enumerate() {
            let Some(session) = session.filter(|_| self.is_unsure[of] && !self.pooled) else {
                continue;
            };
            let needed = self.held.values().filter(|held| held.has[of]).map(|held| held.keys[of]);
            let line = self.line.filter(|_| of == 1);
            let needed: HashSet<_> = needed.chain(line).collect();
            // A lock that was taken twice must be given back twice.
            let found = loop {
                let found = held_keys(session)?;
                let over: Vec<_> =
                    found.iter().copied().filter(|it| !needed.contains(it)).collect();
                if over.is_empty() {
                    break found;
                }
                unlock(session, over)?;
            };
            for held in self.held.values_mut() {
                held.has[of] &= found.contains(&held.keys[of]);
            }
            self.freed[of].clear();
            self.is_unsure[of] = false;
        }
        self.note_gaps();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_and_tables_have_keys_of_their_own() {
        let of = |table: &str, id: Id| keys_of(table, &id);
        let one = of("\"public\".\"orders\"", Id::Integer(7));
        assert_eq!(one, of("\"public\".\"orders\"", Id::Text("7".into())));
        let mut all: Vec<i64> = ["\"public\".\"orders\"", "\"public\".\"mails\""]
            .iter()
            .flat_map(|table| (0..1_000).map(move |id| of(table, Id::Integer(id))))
            .flatten()
            .collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 4_000);
    }
}

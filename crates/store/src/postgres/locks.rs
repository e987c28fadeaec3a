//! Claims on records: advisory locks, which the server frees when their session ends. A claim is two locks with
//! different keys: first one in the writing session, which searches and writes, and then one in the claiming session,
//! which reads the claimed records, so that a pass claims the next records while it writes a round. If one session
//! ends, the other lock protects the record until the session is open again and has taken its lock back.
//!
//! A pooler lends a session of the server for one transaction, so all its clients would share the locks of a session.
//! Behind a pooler a claim is one lock of a transaction that stays open in the claiming session.

mod line;
mod recovery;

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant as Monotonic};

use anyhow::{Context, Result, bail, ensure};
use backlog_schedule::{Id, Record, fnv1a64, splitmix64};

pub use line::LineSession;
pub use recovery::recover;

use super::ahead::Ahead;
use super::claim_reader::ClaimReader;
use super::commit_sync::CommitSync;
use super::session::{FIRST_ANSWER_LIMIT, Session, are_pooled};
use super::statements::{
    self, LockKeys, LockRequest, granted, held_keys, rows_after, still_pending, take_locks, unlock,
};
use super::{PgDatabase, PgEngine, Server};
use crate::clock::Clock;
use crate::database::Access;
use crate::engine::{ClaimState, Engine, Locks, NumberedWrites, RowAfter};
use crate::error::DbResult;
use crate::store::{Claim, ClaimRequest, Heartbeat, Limits, Sessions, Until};
use crate::table::Table;
use crate::watchdog::Watchdog;
use crate::writes::{Guards, RowWrite, WriteResult};
use line::try_lock;
use recovery::HOLD_OFF;
use tokio_postgres::Row;

const LOCK: &str = "pg_catalog.pg_try_advisory_lock";
/// Maximum number of records in hand, including records that are being settled.
const MOST_CLAIMS: usize = 256;
/// Maximum number of records with locks, including records that are claimed ahead or whose outcomes are not yet
/// durable. Each has two locks; all sessions share the server's, 12,000 by default.
const MOST_HELD: usize = 400;
/// Time limit of a write for a row lock. Then a settlement is tried again, and an attempt does not begin.
const LOCK_TIMEOUT: &str = "5s";
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
const HEARTBEAT_LIMIT: Duration = Duration::from_secs(5);

/// Keepalives that free the locks of a client after 180 s of silence. Handlers have ended by then (see `MAX_SILENCE`).
const KEEPALIVES: &str = "SET tcp_keepalives_idle = 60; SET tcp_keepalives_interval = 30; \
                          SET tcp_keepalives_count = 4";

/// Returns the keys of a record; `table` is its name in SQL.
fn keys_of(table: &str, id: &Id) -> LockKeys {
    let record = splitmix64(fnv1a64(id.text().as_bytes()));
    let first = splitmix64(fnv1a64(table.as_bytes()) ^ record);
    [first, splitmix64(first)].map(u64::cast_signed)
}

fn first_keys(wanted: &[LockRequest]) -> Vec<i64> {
    wanted.iter().map(|wanted| wanted.keys[0]).collect()
}

struct LockedRecord {
    record: Arc<Record>,
    keys: LockKeys,
    /// The row after the charge, once the attempt has begun.
    charged: Option<Guards>,
    /// The locks that the pass has, of two. Behind a pooler there is only the first.
    has_lock: [bool; 2],
    state: ClaimState,
    /// Number of times in a row that another pass had the first lock.
    refusals: u8,
}

impl LockedRecord {
    fn new(record: Arc<Record>, keys: LockKeys, has_lock: [bool; 2]) -> Self {
        Self { record, keys, charged: None, has_lock, state: ClaimState::Unbroken, refusals: 0 }
    }

    fn is_covered(&self) -> bool {
        self.has_lock.contains(&true)
    }
}

/// Indexes in arrays: the writing session with the first locks, and the claiming session with the second locks.
const WRITING: usize = 0;
const CLAIMING: usize = 1;

pub struct PgLocks {
    clock: Clock,
    /// The claiming session, opened when it is needed.
    session: Option<Session>,
    /// The session with the lock of the line, which becomes the claiming session.
    line_session: Option<Session>,
    line_key: Option<i64>,
    /// The server processes of the sessions. Behind a pooler only the process with the open transaction is known.
    backends: [String; 2],
    /// The server processes of lost sessions, which may keep their locks for a moment.
    old_backends: Vec<String>,
    /// True behind a pooler that lends a session of the server for each transaction.
    pooled: bool,
    held: HashMap<Id, LockedRecord>,
    ahead: Ahead,
    /// Keys of released locks, also of records that could not be claimed. The next claim frees them.
    to_free: [Vec<i64>; 2],
    /// True if a failed statement may have taken or freed locks.
    is_uncertain: [bool; 2],
    /// Behind a pooler, the number of locks of the open transaction.
    transaction_locks: Option<usize>,
    hold_off_until: Option<Monotonic>,
    /// True if commits are durable only after a flush.
    is_asynchronous: bool,
    sync: CommitSync,
    /// Receives the records whose claims are lost, so that their handlers end.
    lost: Option<Sender<Vec<Id>>>,
    /// The mark of the handlers, by which the watchdogs find them.
    token: Option<String>,
    watchdogs: Vec<Watchdog>,
}

impl PgLocks {
    pub fn new(clock: Clock, line: Option<LineSession>) -> Self {
        let (line_session, line_key) = line.map(|line| (line.session, line.key)).unzip();
        Self {
            clock,
            session: None,
            line_session,
            line_key: line_key.flatten(),
            backends: Default::default(),
            old_backends: Vec::new(),
            pooled: false,
            held: HashMap::new(),
            ahead: Ahead::new(clock),
            to_free: Default::default(),
            is_uncertain: [false; 2],
            transaction_locks: None,
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
            true => {
                self.held.len() + MOST_CLAIMS.saturating_sub(self.transaction_locks.unwrap_or(0))
            }
            false => MOST_CLAIMS,
        };
        let hold_off = self.hold_off_until.map(|until| self.clock.until(until));
        let hold_off = hold_off.filter(|left| !left.is_zero());
        Limits { most_claims, can_lose_claims: true, looks_ahead: true, hold_off }
    }

    fn begin(
        &mut self,
        on: &mut PgDatabase,
        token: &str,
        lost: Sender<Vec<Id>>,
    ) -> Result<Option<Heartbeat>> {
        (self.token, self.lost) = (Some(token.into()), Some(lost));
        self.open(on)?;
        // After a start of the server, all passes first take their claims back.
        let left = HOLD_OFF.saturating_sub(on.engine.session.uptime()?);
        self.hold_off_until = self.clock.monotonic().checked_add(left);
        let sessions: Arc<dyn Sessions> = Arc::new(on.engine.session.server.clone());
        Ok(Some(Heartbeat { interval: HEARTBEAT_INTERVAL, sessions: Some(sessions) }))
    }

    /// Returns records that were claimed ahead, without asking the server. If there are none, claims now.
    fn claim(&mut self, on: &mut PgDatabase, wanted: ClaimRequest<'_>) -> Result<Vec<(Id, Claim)>> {
        self.open(on)?;
        let (first, later) = wanted.split();
        self.free_durable(first)?;
        let expired = self.ahead.drain_expired();
        self.give_back_all(&expired);
        let is_next = matches!(wanted, ClaimRequest::Next(..));
        let mut claim = |id: &Id| if is_next { self.ahead.take(id) } else { None };
        let ready: Vec<_> = first.iter().map(&mut claim).collect();
        let mut claims = match ready.iter().any(Option::is_some) {
            true => ready.into_iter().map(|claim| claim.unwrap_or(Claim::NotAsked)).collect(),
            false => self.claim_now(on, wanted)?,
        };
        let held = claims.iter().filter(|claim| matches!(claim, Claim::Held(_))).count();
        self.ahead.count_begun(held);
        claims.resize_with(first.len() + later.len(), || Claim::NotAsked);
        Ok(first.iter().chain(later).cloned().zip(claims).collect())
    }

    fn release(&mut self, id: &Id) {
        if self.held.contains_key(id) && !self.sync.hold_back(id) {
            self.give_back(id);
        }
    }

    /// While records are in hand, the next claim or heartbeat frees released locks.
    fn flush(&mut self, on: &mut PgDatabase, until: Until) -> Result<()> {
        let is_idle = self.held.len() == self.sync.held_back() + self.ahead.held();
        if is_idle || until == Until::Durable {
            self.free_released(on)?;
        }
        Ok(())
    }

    fn write(
        &mut self,
        on: &mut PgDatabase,
        changes: &NumberedWrites,
        next: &[Id],
    ) -> DbResult<Vec<RowAfter>> {
        let table = &on.table;
        let mut wanted = self.choose_ahead(table, next);
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
        let reader = ClaimReader::new(table, true);
        let [free_first, free_second] = self.to_free.clone();
        let lock = take_locks(LOCK, first_keys(&wanted), free_first);
        let read = |rows: &[Row]| {
            let mut granted = granted(rows).into_iter();
            wanted.retain(|wanted| {
                let is_granted = granted.next() == Some(true);
                if !is_granted {
                    self.ahead.add(wanted.id, Claim::Busy);
                }
                is_granted
            });
            (!wanted.is_empty()).then(|| reader.request(&wanted, free_second))
        };
        let both = writing.claim_and_write(&lock, claiming, read, outcomes.as_ref(), charges);
        let (claimed, written) = both.inspect_err(|_| self.is_uncertain = [true; 2])?;
        self.note_claimed_ahead(&reader, &wanted, claimed);
        Ok(rows_after(table, &written?))
    }

    /// A flush that cannot begin is left to the next flush.
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
            log::debug!("could not begin a flush: {error}");
        }
    }

    /// Another pass may have had a record that is no longer held.
    fn claim_state(&self, id: &Id) -> ClaimState {
        self.held.get(id).map_or(ClaimState::Broken, |held| held.state)
    }

    /// Behind a pooler each heartbeat queries the claiming session: most statements use only the writing session.
    fn keep(&mut self, on: &mut PgDatabase, checks_sessions: bool) -> DbResult<Option<Duration>> {
        if !checks_sessions && self.has_all_locks() && !self.pooled {
            return Ok(None);
        }
        let writing = Some(&mut on.engine.session).filter(|_| checks_sessions);
        for session in self.session.iter_mut().chain(writing) {
            session.within(HEARTBEAT_LIMIT, |session| session.query("SELECT 1", &[]))?;
        }
        if checks_sessions {
            self.free_released(on)?;
        }
        self.retake(on)
    }
}

impl PgLocks {
    fn open(&mut self, on: &mut PgDatabase) -> Result<()> {
        if self.session.is_some() {
            return Ok(());
        }
        let place = on.engine.label();
        if let Some(why) = on.engine.locks_of_one_node()? {
            bail!("could not claim records in {place}: {why}");
        }
        self.open_session(&on.engine.session.server)?;
        let locks_exclude = self.prepare(on);
        if !matches!(locks_exclude, Ok(true)) {
            self.session = None;
        }
        ensure!(
            locks_exclude?,
            "could not claim records in {place}: a second session got an advisory lock that the first one \
             holds; name a server, or a pooler in front of it, whose advisory locks work"
        );
        Ok(())
    }

    fn free_released(&mut self, on: &mut PgDatabase) -> DbResult<()> {
        let Some(session) = &mut self.session else { return Ok(()) };
        let finished = self.sync.finish(session);
        let unused = [self.sync.take_durable(), self.ahead.drain()].concat();
        self.give_back_all(&unused);
        finished?;
        if self.pooled {
            return self.end_transaction();
        }
        self.free_stray_locks(&mut on.engine.session)?;
        for (index, session) in
            [Some(&mut on.engine.session), self.session.as_mut()].into_iter().enumerate()
        {
            let Some(session) = session else { continue };
            let freed = unlock(session, self.to_free[index].clone());
            self.is_uncertain[index] = freed.is_err();
            freed?;
            self.to_free[index].clear();
        }
        Ok(())
    }

    /// Returns the candidates to claim ahead, without records that this pass holds.
    fn choose_ahead<'a>(&mut self, table: &Table, next: &'a [Id]) -> Vec<LockRequest<'a>> {
        let ids = self.ahead.choose(next);
        let is_uncertain = self.is_uncertain.contains(&true);
        if self.pooled || is_uncertain || self.limits().hold_off.is_some() {
            return Vec::new();
        }
        let mut distinct = HashSet::new();
        let free = ids.iter().filter(|id| !self.held.contains_key(id) && distinct.insert(*id));
        let most = MOST_HELD.saturating_sub(self.held.len());
        let request = |(index, id)| LockRequest { index, id, keys: keys_of(&table.sql, id) };
        free.take(most).enumerate().map(request).collect()
    }

    fn open_session(&mut self, server: &Arc<Server>) -> Result<()> {
        let session = match self.line_session.take() {
            Some(session) => session,
            None => self.open_claiming(server)?,
        };
        if let Some(token) = &self.token {
            let socket = session.connection.handle.socket.try_clone();
            let socket = socket.context("could not watch a connection")?;
            // The first watchdog stays: the oldest handlers have only its mark. Others before the last are useless.
            self.watchdogs.push(Watchdog::start(Some(socket), token)?);
            if self.watchdogs.len() > 2 {
                self.watchdogs.remove(1);
            }
        }
        self.session = Some(session);
        Ok(())
    }

    /// Opens a claiming session with the lock of the line, unless another pass has that by now.
    fn open_claiming(&self, server: &Arc<Server>) -> Result<Session> {
        let mut session = Session::open(server, Access::ReadWrite)?;
        if let Some(key) = self.line_key
            && let Err(error) = try_lock(&mut session, key)
        {
            log::debug!("could not take the lock of the line again: {error}");
        }
        Ok(session)
    }

    /// Sets up both sessions, and returns true if their locks exclude each other.
    fn prepare(&mut self, on: &mut PgDatabase) -> DbResult<bool> {
        let writing = &mut on.engine.session;
        let Some(claiming) = &mut self.session else { return Ok(false) };
        self.pooled = writing.within(FIRST_ANSWER_LIMIT, |writing| {
            claiming.within(FIRST_ANSWER_LIMIT, |claiming| are_pooled(claiming, writing))
        })?;
        if self.pooled {
            log::debug!("{} is a pooler: a claim is a lock of a transaction", writing.server);
        } else if writing.access != Access::ReadOnly {
            self.is_asynchronous = CommitSync::can_flush(claiming)?;
        }
        self.configure(writing, [true; 2])?;
        // Servers that only resemble PostgreSQL may grant every lock. No record and no other pass has this random key.
        let key = RandomState::new().hash_one(std::process::id()).cast_signed();
        let first = self.take_first_locks(writing, &[key])?;
        self.to_free[WRITING].push(key);
        let function = self.lock_function();
        let Some(claiming) = &mut self.session else { return Ok(false) };
        let (holder, other) = if self.pooled { (claiming, writing) } else { (writing, claiming) };
        let second = other.run(&take_locks(function, vec![key], Vec::new()))?;
        let locks_exclude = first == [true] && granted(&second) == [false];
        if !locks_exclude {
            // Fails if the lock was free because its session has ended.
            holder.batch("SELECT 1")?;
        }
        Ok(locks_exclude)
    }

    /// Sets the parameters of the sessions that are new. Behind a pooler it sets a time limit only.
    fn configure(&mut self, writing: &mut Session, is_new: [bool; 2]) -> DbResult<()> {
        let access = writing.access;
        let sessions = [Some(writing), self.session.as_mut()];
        for (index, session) in sessions.into_iter().enumerate().filter(|(index, _)| is_new[*index])
        {
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
            if index == WRITING && self.is_asynchronous {
                session.batch("SET synchronous_commit = off")?;
            }
            session.prepare_repeated();
            session.plan_for_rounds()?;
            self.backends[index] = session.backend()?;
            // In a read-only pass, functions of the queue's condition must not write in the claiming session either.
            session.access = access;
        }
        Ok(())
    }

    /// Returns true if no claim lacks a lock. A lost claim lacks both.
    fn has_all_locks(&self) -> bool {
        self.held.values().all(|held| held.has_lock[0] && (self.pooled || held.has_lock[1]))
    }

    /// Notes that a failed statement may have taken or freed locks, which do not end with its transaction.
    fn note_failure<T>(&mut self, index: usize, result: DbResult<T>) -> DbResult<T> {
        result.inspect_err(|_| self.is_uncertain[index] = true)
    }

    /// Claims as many records as are wanted now, of all that are still pending.
    fn claim_now(&mut self, on: &mut PgDatabase, request: ClaimRequest) -> DbResult<Vec<Claim>> {
        self.free_stray_locks(&mut on.engine.session)?;
        let (writing, table) = (&mut on.engine.session, &on.table);
        let (first, later) = request.split();
        let ids: Vec<_> = first.iter().chain(later).collect();
        let mut claims: Vec<_> = ids.iter().map(|_| Claim::NotAsked).collect();
        if !later.is_empty() {
            let pending = still_pending(writing, table, &ids)?;
            let is_gone = |index: &usize| pending.binary_search(index).is_err();
            (0..ids.len()).filter(is_gone).for_each(|index| claims[index] = Claim::Gone);
        }
        let mut wanted = self.choose(table, &ids, first.len(), &mut claims);
        if wanted.is_empty() {
            return Ok(claims);
        }
        if !self.pooled {
            writing.plan_for_rounds()?;
        }
        let granted = self.take_first_locks(writing, &first_keys(&wanted))?;
        let mut granted = granted.into_iter();
        wanted.retain(|_| granted.next() == Some(true));
        if wanted.is_empty() {
            return Ok(claims);
        }
        let reader = match request.is_without_payload() {
            true => ClaimReader::without_payload(table, !self.pooled),
            false => ClaimReader::new(table, !self.pooled),
        };
        let read = self.lock_and_read(writing, &reader, &wanted)?;
        for (wanted, claim) in wanted.iter().zip(read) {
            self.note_claim(wanted, &claim);
            claims[wanted.index] = claim;
        }
        Ok(claims)
    }

    /// Chooses at most `most` records that are not gone, each once. Their claims are busy until a lock is granted.
    fn choose<'a>(
        &self,
        table: &Table,
        ids: &[&'a Id],
        most: usize,
        claims: &mut [Claim],
    ) -> Vec<LockRequest<'a>> {
        let (mut wanted, mut distinct) = (Vec::new(), HashSet::new());
        for (index, id) in ids.iter().copied().enumerate() {
            if wanted.len() == most || !matches!(claims[index], Claim::NotAsked) {
                continue;
            }
            claims[index] = Claim::Busy;
            let keys = keys_of(&table.sql, id);
            if self.held.contains_key(id) {
                log::warn!("record {id} is skipped: this pass has it already");
            } else if distinct.insert(keys) {
                wanted.push(LockRequest { index, id, keys });
            }
        }
        wanted
    }

    /// Takes the second locks and reads: after the first locks were granted, to see the commits of previous holders.
    fn lock_and_read(
        &mut self,
        writing: &mut Session,
        reader: &ClaimReader,
        wanted: &[LockRequest],
    ) -> DbResult<Vec<Claim>> {
        let freed = if self.pooled { Vec::new() } else { self.to_free[CLAIMING].clone() };
        let session = if self.pooled { Some(writing) } else { self.session.as_mut() };
        let Some(session) = session else { return Ok(Vec::new()) };
        let read = match session.run(&reader.request(wanted, freed)) {
            // One row that cannot be read must not keep the others from being handled.
            Err(error) if error.is_of_one_row => reader.claim_singly(session, wanted),
            rows => rows.map(|rows| reader.claims(wanted.len(), &rows)),
        };
        if read.is_err() {
            self.to_free[WRITING].extend(first_keys(wanted));
        }
        let read = self.note_failure(CLAIMING, read)?;
        if !self.pooled {
            self.to_free[CLAIMING].clear();
        }
        Ok(read)
    }

    /// Notes the result of claims ahead. A record that could not be claimed ahead is claimed when it is needed.
    fn note_claimed_ahead(
        &mut self,
        reader: &ClaimReader,
        wanted: &[LockRequest],
        claimed: DbResult<Vec<Row>>,
    ) {
        match claimed {
            Ok(rows) => {
                self.to_free[WRITING].clear();
                if !wanted.is_empty() {
                    self.to_free[CLAIMING].clear();
                }
                let claims = reader.claims(wanted.len(), &rows);
                for (claim, wanted) in claims.into_iter().zip(wanted) {
                    self.note_claim(wanted, &claim);
                    self.ahead.add(wanted.id, claim);
                }
            }
            Err(error) => {
                log::debug!("nothing was claimed ahead: {error}");
                self.is_uncertain = [true; 2];
            }
        }
    }

    fn take_first_locks(&mut self, writing: &mut Session, keys: &[i64]) -> DbResult<Vec<bool>> {
        let function = self.lock_function();
        if !self.pooled {
            let freed = self.to_free[WRITING].clone();
            let taken = writing.run(&take_locks(function, keys.to_vec(), freed));
            let taken = self.note_failure(WRITING, taken)?;
            self.to_free[WRITING].clear();
            return Ok(granted(&taken));
        }
        self.end_transaction()?;
        let claiming = self.session.as_mut().filter(|session| session.connection.is_open());
        let Some(claiming) = claiming else { return Ok(vec![false; keys.len()]) };
        if self.transaction_locks.is_none() {
            // The transaction is idle while handlers run, however long they take.
            claiming.batch(
                "BEGIN ISOLATION LEVEL READ COMMITTED; \
                 SET LOCAL idle_in_transaction_session_timeout = 0",
            )?;
            self.transaction_locks = Some(0);
            self.backends[CLAIMING] = claiming.backend()?;
        }
        let taken = claiming.run(&take_locks(function, keys.to_vec(), Vec::new()));
        let taken = taken.map(|rows| granted(&rows));
        if taken.is_err() {
            // The transaction has failed and lost all its locks. The pooler may lend its process to others now.
            let _ = claiming.roll_back();
            self.backends[CLAIMING].clear();
            self.note_lost([false, true]);
        }
        let taken = taken?;
        let count = taken.iter().filter(|is_granted| **is_granted).count();
        self.transaction_locks = self.transaction_locks.map(|before| before + count);
        Ok(taken)
    }

    fn lock_function(&self) -> &'static str {
        if self.pooled { "pg_catalog.pg_try_advisory_xact_lock" } else { LOCK }
    }

    fn end_transaction(&mut self) -> DbResult<()> {
        if self.held.is_empty()
            && self.transaction_locks.is_some()
            && let Some(session) = &mut self.session
        {
            session.batch("COMMIT")?;
            self.transaction_locks = None;
        }
        Ok(())
    }

    fn give_back(&mut self, id: &Id) {
        let Some(held) = self.held.remove(id) else { return };
        for (index, freed) in self.to_free.iter_mut().enumerate() {
            freed.extend(Some(held.keys[index]).filter(|_| held.has_lock[index]));
        }
    }

    fn give_back_all(&mut self, ids: &[Id]) {
        ids.iter().for_each(|id| self.give_back(id));
    }

    /// Notes the locks of a record whose first lock was granted, by the result of its claim.
    fn note_claim(&mut self, wanted: &LockRequest, claim: &Claim) {
        let has_second = match claim {
            Claim::Held(record) => {
                let has_lock = [true, !self.pooled];
                let held = LockedRecord::new(record.clone(), wanted.keys, has_lock);
                self.held.insert(wanted.id.clone(), held);
                return;
            }
            Claim::Busy | Claim::NotAsked | Claim::Unreadable(_) => false,
            Claim::Gone | Claim::Ambiguous => !self.pooled,
        };
        self.to_free[WRITING].push(wanted.keys[0]);
        self.to_free[CLAIMING].extend(Some(wanted.keys[1]).filter(|_| has_second));
    }

    /// Releases claims whose outcomes are durable. Waits for the flush if one is wanted again, or if too many are held.
    fn free_durable(&mut self, wanted: &[Id]) -> DbResult<()> {
        let Self { session: Some(session), sync, held, .. } = self else { return Ok(()) };
        let new = wanted.iter().filter(|id| !held.contains_key(id)).count();
        let are_many = held.len() + new > MOST_HELD;
        let is_wanted = |id: &Id| held.contains_key(id) && sync.is_held_back(id);
        let advanced = match are_many || wanted.iter().any(is_wanted) {
            true => sync.finish(session),
            false => sync.advance(session),
        };
        let durable = self.sync.take_durable();
        self.give_back_all(&durable);
        advanced
    }

    /// Frees stray locks of a failed statement, and notes those it freed. Behind a pooler its transaction's end does.
    fn free_stray_locks(&mut self, writing: &mut Session) -> DbResult<()> {
        for (index, session) in [Some(writing), self.session.as_mut()].into_iter().enumerate() {
            let Some(session) = session.filter(|_| self.is_uncertain[index] && !self.pooled) else {
                continue;
            };
            let needed =
                self.held.values().filter(|held| held.has_lock[index]).map(|held| held.keys[index]);
            let line = self.line_key.filter(|_| index == CLAIMING);
            let needed: HashSet<_> = needed.chain(line).collect();
            // A lock that was taken twice must be freed twice.
            let found = loop {
                let found = held_keys(session)?;
                let stray: Vec<_> = found.difference(&needed).copied().collect();
                if stray.is_empty() {
                    break found;
                }
                unlock(session, stray)?;
            };
            for held in self.held.values_mut() {
                held.has_lock[index] &= found.contains(&held.keys[index]);
            }
            self.to_free[index].clear();
            self.is_uncertain[index] = false;
        }
        self.mark_broken();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_and_tables_have_keys_of_their_own() {
        let keys = |table: &str, id: Id| keys_of(table, &id);
        let one = keys("\"public\".\"orders\"", Id::Integer(7));
        assert_eq!(one, keys("\"public\".\"orders\"", Id::Text("7".into())));
        let mut all: Vec<i64> = ["\"public\".\"orders\"", "\"public\".\"mails\""]
            .iter()
            .flat_map(|table| (0..1_000).map(move |id| keys(table, Id::Integer(id))))
            .flatten()
            .collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 4_000);
    }
}

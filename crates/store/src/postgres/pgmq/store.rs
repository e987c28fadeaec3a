//! The store of a queue. A message in flight stays hidden while this process extends its lease. Otherwise it is lost:
//! its handler is ended, and only a success is written, unless its count of reads shows another reader.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use anyhow::{Result, bail};
use backlog_schedule::{Id, Instant, Query, Record, Status, Transition, counted};

use super::{
    ARCHIVE, DELETE, MessageWrites, NEVER_SECS, PgmqQueue, READ, SHOW_AT, SHOW_IN,
    missing_function, msg_id,
};
use crate::engine::Engine;
use crate::error::{DbError, DbErrorKind, DbResult};
use crate::postgres::dialect::Param;
use crate::postgres::session::Session;
use crate::postgres::{PgDatabase, PgEngine};
use crate::retry::Reconnecting;
use crate::store::{
    Begun, Claim, ClaimRequest, Heartbeat, IsDue, Limits, Page, ReadResult, Reader, Store, Until,
};
use crate::table::RecordReader;
use crate::watchdog::{Watchdog, since_boot};
use crate::writes::{Guards, PossibleWrites, Rehearsal, RowConstraints, RowWrite, WriteResult};

const MOST_CLAIMS: usize = 512;
/// Selects triggers and constraints that users added to the tables `$1` of a queue. pgmq itself has only primary keys.
const CONSTRAINS_MESSAGES: &str = "SELECT FROM pg_catalog.pg_trigger WHERE NOT tgisinternal AND tgenabled <> 'D' \
             AND tgrelid = ANY ($1::text[]::regclass[]) \
             UNION ALL SELECT FROM pg_catalog.pg_constraint WHERE contype IN ('c', 'f', 'u', 'x') \
             AND (conrelid = ANY ($1::text[]::regclass[]) OR confrelid = ANY ($1::text[]::regclass[])) \
             LIMIT 1";
/// Begins a transaction with time limits of its own. The wait for locks is short: no lease is extended meanwhile.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = 0; \
                     SET LOCAL lock_timeout = '5s'";
/// Pause for reading after leases ran out. The watchdog may still be ending handlers, and would end new ones, too.
const AFTER_LOSS: Duration = Duration::from_secs(1);

/// Visibility timeout: a message stays hidden for this time after its reader has died.
const HIDDEN_SECS: u64 = 30;
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(HIDDEN_SECS / 3);
/// Time from the end of a handler to the end of its lease, because ending a handler takes a moment.
const MARGIN: Duration = Duration::from_secs(5);
/// Time from the loss of a lease to the end of its handler, so that a killed handler does not count as failed.
const GUARD: Duration = Duration::from_millis(100);

/// The time for which a message is hidden from other readers, in [time since boot](since_boot).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Lease {
    /// The watchdog ends the handler at this time, unless the lease is extended.
    deadline: Duration,
}

impl Lease {
    fn requested_at(now: Duration) -> Self {
        Self { deadline: now + Duration::from_secs(HIDDEN_SECS) - MARGIN }
    }

    fn is_over(self, now: Duration) -> bool {
        now + GUARD >= self.deadline
    }

    fn is_running_out(self, now: Duration) -> bool {
        self.is_over(now + HEARTBEAT_INTERVAL)
    }

    /// True if a heartbeat should have extended it by now.
    fn is_overdue(self, now: Duration) -> bool {
        self.is_running_out(now + MARGIN / 2)
    }
}

pub struct PgmqStore {
    watchdog: Option<Watchdog>,
    queue: PgmqQueue,
    database: PgDatabase,
    held: HashMap<Id, MessageInHand>,
    /// Receives the messages that are lost, so that their handlers end.
    lost: Option<Sender<Vec<Id>>>,
    /// The lease whose deadline the watchdog knows. At the deadline it ends all handlers.
    deadline: Option<Lease>,
    /// No message is read before this time, because leases ran out.
    pauses_until: Option<Duration>,
    /// Returns the time since boot.
    now: Box<dyn Fn() -> Duration + Send>,
    /// Messages that were released without an outcome.
    given_back: Vec<MessageInHand>,
    /// True once pgmq is known to have all required functions.
    has_functions: bool,
}

struct MessageInHand {
    msg_id: i64,
    /// The count of reads, including the read of this process.
    reads: i64,
    /// `None` for a message that this process has not hidden.
    lease: Option<Lease>,
    /// True if somebody else may have it.
    is_lost: bool,
}

impl MessageInHand {
    fn new(msg_id: i64, reads: i64, lease: Option<Lease>) -> Self {
        Self { msg_id, reads, lease, is_lost: false }
    }

    fn valid_lease(&self) -> Option<Lease> {
        self.lease.filter(|_| !self.is_lost)
    }
}

impl Reconnecting for PgmqStore {
    type Engine = PgEngine;

    fn engine(&mut self) -> &mut PgEngine {
        &mut self.database.engine
    }

    fn reconnect(&mut self, why: &DbError) -> Result<()> {
        if why.kind == DbErrorKind::ReadOnly {
            self.session().wait_for_writes();
            return Ok(());
        }
        self.session().reopen()
    }
}

impl PgmqStore {
    pub fn new(queue: PgmqQueue, database: PgDatabase) -> Self {
        Self {
            watchdog: None,
            queue,
            database,
            held: HashMap::new(),
            lost: None,
            deadline: None,
            pauses_until: None,
            now: Box::new(since_boot),
            given_back: Vec::new(),
            has_functions: false,
        }
    }

    fn name(&self) -> Param {
        Param::text(&self.queue.name)
    }

    fn session(&mut self) -> &mut Session {
        &mut self.database.engine.session
    }

    fn msg_ids(&mut self, sql: &str, params: &[Param]) -> DbResult<Vec<i64>> {
        self.session().column(sql, params)
    }

    fn records(&mut self, msg_ids: Vec<i64>) -> DbResult<Vec<Record>> {
        let table = &self.database.table;
        let (row, name, id) = (table.all_columns(), &table.sql, table.ids());
        let sql = format!("SELECT {row} FROM {name} WHERE {id} = ANY($1) ORDER BY {id}");
        let rows = self.database.engine.session.query(&sql, &[Param::Integers(msg_ids)])?;
        let columns = RecordReader::all(table);
        Ok(rows.iter().filter_map(|row| columns.record(row, 0)).collect())
    }

    fn read_messages(&mut self, most: usize) -> DbResult<Vec<(Id, Claim)>> {
        self.check_deadline();
        if let Some(until) = self.pauses_until.take() {
            std::thread::sleep(until.saturating_sub((self.now)()));
        }
        let lease = Some(Lease::requested_at((self.now)()));
        let [secs, most] = [HIDDEN_SECS.to_string(), most.to_string()].map(Param::text);
        let msg_ids = self.msg_ids(READ, &[self.name(), secs, most])?;
        let records = self.records(msg_ids)?;
        let held = |mut record: Record| {
            let msg_id = msg_id(&record.id)?;
            let reads = i64::from(record.failures);
            self.held.insert(record.id.clone(), MessageInHand::new(msg_id, reads, lease));
            // The count includes this read.
            record.failures = record.failures.saturating_sub(1);
            record.status = if record.failures == 0 { Status::New } else { Status::Error };
            record.status_text = record.status.name().into();
            record.due_at = Some(Instant(i64::MIN));
            Some((record.id.clone(), Claim::Held(Arc::new(record))))
        };
        let claimed = records.into_iter().filter_map(held).collect();
        self.set_watchdog();
        Ok(claimed)
    }

    /// Claims messages that a person named. One hidden for at most the visibility timeout may be in flight elsewhere.
    fn claim_named(&mut self, ids: &[Id]) -> DbResult<Vec<(Id, Claim)>> {
        let msg_ids: Vec<i64> = ids.iter().filter_map(msg_id).collect();
        let sql = format!(
            "SELECT msg_id FROM {} WHERE msg_id = ANY($1::bigint[]) AND vt > \
             pg_catalog.clock_timestamp() \
             AND vt <= pg_catalog.clock_timestamp() + interval '{HIDDEN_SECS} s'",
            self.queue.waiting
        );
        let busy = self.msg_ids(&sql, &[Param::Integers(msg_ids.clone())])?;
        let records = self.records(msg_ids)?.into_iter().map(|record| (record.id.clone(), record));
        let mut records: HashMap<Id, Record> = records.collect();
        let mut claim = |id: &Id| match (records.remove(id), msg_id(id)) {
            (Some(_), Some(msg_id)) if busy.contains(&msg_id) => Claim::Busy,
            (Some(record), Some(msg_id)) => {
                let reads = i64::from(record.failures);
                self.held.insert(id.clone(), MessageInHand::new(msg_id, reads, None));
                Claim::Held(Arc::new(record))
            }
            (None, _) | (_, None) => Claim::Gone,
        };
        Ok(ids.iter().map(|id| (id.clone(), claim(id))).collect())
    }

    fn give_back(&mut self) -> DbResult<()> {
        if self.given_back.is_empty() {
            return Ok(());
        }
        self.set_visible_in(&self.queue.unread(), &pairs(self.given_back.iter()), 0)?;
        self.given_back.clear();
        self.set_watchdog();
        Ok(())
    }

    /// Makes the messages that a statement returns visible in `secs` seconds, and returns their ids.
    fn set_visible_in(&mut self, sql: &str, params: &[Param; 2], secs: u64) -> DbResult<Vec<i64>> {
        self.session().batch(BEGIN)?;
        let msg_ids = self.msg_ids(sql, params)?;
        let selected = Param::Integers(msg_ids.clone());
        let params = [self.name(), selected, Param::text(secs.to_string())];
        self.session().query(SHOW_IN, &params)?;
        self.session().batch("COMMIT")?;
        Ok(msg_ids)
    }

    fn extend_leases(&mut self) -> DbResult<()> {
        // A handler that was just starting may have missed the loss of its message.
        let lost = self.held.iter().filter(|(_, held)| held.is_lost).map(|(id, _)| id.clone());
        self.end_handlers(&lost.collect::<Vec<_>>());
        self.check_deadline();
        let requested_at = (self.now)();
        let hidden = pairs(self.held.values().filter(|held| held.valid_lease().is_some()));
        if is_empty(&hidden[0]) {
            self.set_watchdog();
            return Ok(());
        }
        // A message that the application has locked must not delay the others.
        let unlocked = format!("{} SKIP LOCKED", self.queue.lock_held());
        let extended = self.set_visible_in(&unlocked, &hidden, HIDDEN_SECS)?;
        // The statement may have taken too long.
        self.check_deadline();
        let is_extended = |held: &MessageInHand| extended.contains(&held.msg_id);
        let leased = self.held.values_mut().filter(|held| held.valid_lease().is_some());
        let (extended, skipped): (Vec<_>, Vec<_>) = leased.partition(|held| is_extended(held));
        for held in extended {
            held.lease = Some(Lease::requested_at(requested_at));
        }
        let skipped: Vec<_> = skipped.iter().map(|held| held.msg_id).collect();
        if !skipped.is_empty() {
            self.find_lost(&skipped)?;
        }
        self.set_watchdog();
        Ok(())
    }

    /// Finds lost messages among messages whose leases could not be extended.
    fn find_lost(&mut self, msg_ids: &[i64]) -> DbResult<()> {
        let reads = self.queue.reads();
        let rows = self.session().query(&reads, &[Param::Integers(msg_ids.into())])?;
        let reads: HashMap<i64, i64> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        let now = (self.now)();
        let is_lost = |held: &MessageInHand| match (held.valid_lease(), reads.get(&held.msg_id)) {
            (Some(lease), Some(reads)) => *reads != held.reads || lease.is_running_out(now),
            (None, _) | (_, None) => false,
        };
        let skipped = self.held.iter_mut().filter(|(_, held)| msg_ids.contains(&held.msg_id));
        let mut lost = Vec::new();
        for (id, held) in skipped {
            held.is_lost = is_lost(held);
            if held.is_lost {
                lost.push(id.clone());
            } else if !reads.contains_key(&held.msg_id) {
                // It was archived or deleted, so nobody else can read it.
                held.lease = None;
            }
        }
        self.end_handlers(&lost);
        Ok(())
    }

    /// Gives up all messages in flight if the watchdog has ended their handlers, or is about to.
    fn check_deadline(&mut self) {
        let now = (self.now)();
        let Some(deadline) = self.deadline.filter(|deadline| deadline.is_over(now)) else { return };
        self.deadline = None;
        self.pauses_until = Some(deadline.deadline.max(now) + AFTER_LOSS);
        let held = self.held.iter_mut().filter(|(_, held)| held.valid_lease().is_some());
        let lost = held.map(|(id, held)| {
            held.is_lost = true;
            id.clone()
        });
        let lost: Vec<_> = lost.collect();
        if !lost.is_empty() {
            log::warn!(
                "the visibility timeout of {} ran out before it could be extended: handlers that \
                 still ran were ended",
                counted(lost.len() as u64, "message")
            );
        }
        self.end_handlers(&lost);
    }

    fn end_handlers(&self, lost: &[Id]) {
        if let Some(ends) = self.lost.as_ref().filter(|_| !lost.is_empty()) {
            // The receiver ends with the handlers.
            let _ = ends.send(lost.to_vec());
        }
    }

    fn set_watchdog(&mut self) {
        let deadline = self.held.values().filter_map(MessageInHand::valid_lease).min();
        // After a loss the old deadline stays until the watchdog has ended all handlers.
        if self.pauses_until.is_none() && deadline != self.deadline {
            self.deadline = deadline;
            if let Some(watchdog) = &self.watchdog {
                watchdog.end_handlers_at(deadline.map(|lease| lease.deadline));
            }
        }
    }

    fn is_lost(&self, id: &Id) -> bool {
        self.held.get(id).is_some_and(|held| held.is_lost)
    }

    /// Returns the result of a charge. Nothing is written, because reading a message charges it.
    fn charge(&self, change: &RowWrite) -> WriteResult {
        match self.is_lost(&change.record.id) {
            true => WriteResult::ClaimLost,
            false => WriteResult::Charged(Guards::default()),
        }
    }

    fn write(&mut self, changes: &[RowWrite]) -> DbResult<Vec<WriteResult>> {
        self.check_deadline();
        if changes.iter().all(RowWrite::begins) {
            return Ok(changes.iter().map(|change| self.charge(change)).collect());
        }
        // No heartbeat can extend the leases while the transaction waits for a lock.
        let now = (self.now)();
        if self.deadline.is_some_and(|deadline| deadline.is_overdue(now)) {
            self.extend_leases()?;
        }
        self.session().batch(BEGIN)?;
        let held = pairs(changes.iter().filter_map(|change| self.held.get(&change.record.id)));
        let own = self.msg_ids(&self.queue.lock_held(), &held)?;
        let waiting = format!("SELECT msg_id FROM {} WHERE msg_id = ANY($1)", self.queue.waiting);
        let (mut writes, mut results) =
            (MessageWrites::default(), Vec::with_capacity(changes.len()));
        for change in changes {
            let msg_id = msg_id(&change.record.id).unwrap_or_default();
            let is_archived = change.record.status == Status::Archived;
            // Of a lost message only a success counts: any other outcome may come from ending its handler.
            let is_kept = !self.is_lost(&change.record.id)
                || change.settlement.transition == Transition::Succeeded;
            results.push(if change.begins() {
                self.charge(change)
            } else if is_archived || is_kept && own.contains(&msg_id) {
                writes.add(msg_id, is_archived, change);
                WriteResult::Written
            } else if !self.msg_ids(&waiting, &[Param::Integers(vec![msg_id])])?.is_empty() {
                WriteResult::ClaimLost
            } else if change.is_repeated {
                WriteResult::Written
            } else {
                WriteResult::ChangedMeanwhile
            });
        }
        self.execute(writes)?;
        self.session().batch("COMMIT")?;
        for change in changes.iter().filter(|change| !change.begins()) {
            self.held.remove(&change.record.id);
        }
        // While messages are in flight, the next heartbeat sets the watchdog.
        if !self.held.values().any(|held| held.valid_lease().is_some()) {
            self.set_watchdog();
        }
        Ok(results)
    }

    /// Writes and undoes both possible ends of a message.
    fn try_ends(&mut self, record: &Record) -> DbResult<()> {
        let msg_id = msg_id(&record.id).unwrap_or_default();
        for writes in [
            MessageWrites { done: vec![msg_id], ..Default::default() },
            MessageWrites {
                exhausted: (vec![msg_id], vec![Some("rehearsal".into())]),
                ..Default::default()
            },
        ] {
            self.session().batch(BEGIN)?;
            self.execute(writes)?;
            self.session().batch("ROLLBACK")?;
        }
        Ok(())
    }

    fn execute(&mut self, writes: MessageWrites) -> DbResult<()> {
        let MessageWrites { done, delayed, unread, exhausted, restored } = writes;
        let (name, queue) = (|| self.name(), &self.queue);
        let end = if self.database.table.deletes_succeeded { DELETE } else { ARCHIVE };
        let errors = vec![Param::Integers(exhausted.0.clone()), Param::Texts(exhausted.1)];
        let never = Param::text(NEVER_SECS.to_string());
        let note = queue.note().map(|sql| (sql, errors));
        let delayed = vec![name(), Param::Integers(delayed.0), Param::Texts(delayed.1), never];
        let statements = [
            (end.into(), vec![name(), Param::Integers(done)]),
            (SHOW_AT.into(), delayed),
            (queue.unread(), vec![Param::Integers(unread.0), Param::Integers(unread.1)]),
            (ARCHIVE.into(), vec![name(), Param::Integers(exhausted.0)]),
            (queue.restore(), vec![Param::Integers(restored)]),
        ];
        // The note comes first, because an archived message cannot get one.
        for (sql, params) in note.into_iter().chain(statements) {
            if !params.iter().any(is_empty) {
                self.session().query(&sql, &params)?;
            }
        }
        Ok(())
    }
}

impl Reader for PgmqStore {
    fn due(&mut self, selection: &Query, is_due: IsDue<'_>) -> Result<Page> {
        Ok(self.database.page(selection, is_due)?)
    }

    fn read(&mut self, id: &Id) -> Result<ReadResult> {
        Ok(self.database.read_one(id, false)?)
    }
}

impl Store for PgmqStore {
    fn limits(&self) -> Limits {
        Limits::local(MOST_CLAIMS)
    }

    fn claim(&mut self, wanted: ClaimRequest<'_>) -> Result<Vec<(Id, Claim)>> {
        // A claimed message must be settled.
        if !self.has_functions
            && let Some(why) = missing_function(self.session())?
        {
            bail!("could not use {}: {why}", self.database.engine.label());
        }
        self.has_functions = true;
        Ok(match wanted {
            ClaimRequest::Next(ids, most) => self.read_messages(most.min(ids.len()))?,
            ClaimRequest::Named(ids) | ClaimRequest::WithoutPayload(ids) => {
                self.claim_named(ids)?
            }
        })
    }

    fn round(&mut self, changes: &[RowWrite], _: &[Id]) -> Result<Vec<WriteResult>> {
        Ok(self.write(changes)?)
    }

    fn release(&mut self, id: &Id) {
        let held = self.held.remove(id);
        self.given_back.extend(held.filter(|held| held.valid_lease().is_some()));
    }

    fn flush(&mut self, _: Until) -> Result<()> {
        Ok(self.give_back()?)
    }

    /// Constraints of a user may refuse to archive or to delete a message.
    fn rehearse(
        &mut self,
        records: &[PossibleWrites],
        _in_hand: &[RowWrite],
    ) -> Result<Vec<Rehearsal>> {
        let rehearse = |PossibleWrites { record, .. }: &PossibleWrites| {
            let Err(why) = self.try_ends(record) else { return Ok(Rehearsal::Taken) };
            if !why.is_refusal {
                bail!(why);
            }
            self.database.engine.roll_back();
            let place = self.database.engine.label();
            Ok(Rehearsal::Refused(format!(
                "could not write to {place}: queue {} refuses to delete or archive it: {why}",
                self.queue.name
            )))
        };
        records.iter().map(rehearse).collect()
    }

    fn begin(&mut self, token: &str, lost: Sender<Vec<Id>>) -> Result<Begun> {
        self.watchdog = Some(Watchdog::start(None, token)?);
        self.lost = Some(lost);
        let tables = Param::texts([&self.queue.waiting, &self.queue.archive]);
        let found = self.session().query(CONSTRAINS_MESSAGES, &[tables])?;
        let row_constraints =
            if found.is_empty() { RowConstraints::None } else { RowConstraints::OfOneRow };
        let heartbeat = Some(Heartbeat { interval: HEARTBEAT_INTERVAL, sessions: None });
        Ok(Begun { row_constraints, heartbeat })
    }

    fn keep_claims(&mut self, _: bool) -> Result<Option<Duration>> {
        self.extend_leases()?;
        Ok(None)
    }
}

fn pairs<'a>(held: impl Iterator<Item = &'a MessageInHand>) -> [Param; 2] {
    let (msg_ids, reads) = held.map(|held| (held.msg_id, held.reads)).unzip();
    [Param::Integers(msg_ids), Param::Integers(reads)]
}

fn is_empty(param: &Param) -> bool {
    matches!(param, Param::Integers(msg_ids) if msg_ids.is_empty())
}

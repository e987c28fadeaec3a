//! The messages of a pass: those in flight, and the statements that read, extend and end them. A
//! message that was read stays hidden as long as this process extends its lease. Its count of reads shows
//! whether somebody else has read it since. A message whose lease could not be extended in time is lost:
//! its handler is ended, and only a success is still written, if nobody else has read the message.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use anyhow::{Result, bail};
use backlog_schedule::{Id, Instant, Query, Record, Status, Transition, counted};

use super::{
    ARCHIVE, DELETE, NEVER_SECS, Orders, PgmqQueue, READ, SHOW_AT, SHOW_IN, missing_function,
    number,
};
use crate::engine::{Engine, SqlDatabase};
use crate::error::{DbError, DbErrorKind};
use crate::postgres::PgEngine;
use crate::postgres::dialect::Param;
use crate::postgres::session::Session;
use crate::retry::Reconnecting;
use crate::store::{
    Begun, Claim, ClaimRequest, Heartbeat, IsDue, Limits, Page, ReadResult, Reader, Store, Until,
};
use crate::table::RecordReader;
use crate::watchdog::{Watchdog, boottime};
use crate::writes::{Guards, PossibleWrites, Rehearsal, RowConstraints, RowWrite, WriteResult};

/// How many messages are held at a time.
const MOST_CLAIMS: usize = 512;
/// Triggers and constraints of a user on the tables `$1` of a queue: pgmq has none but primary keys.
const CONSTRAINS_MESSAGES: &str = "SELECT FROM pg_catalog.pg_trigger WHERE NOT tgisinternal AND tgenabled <> 'D' \
             AND tgrelid = ANY ($1::text[]::regclass[]) \
             UNION ALL SELECT FROM pg_catalog.pg_constraint WHERE contype IN ('c', 'f', 'u', 'x') \
             AND (conrelid = ANY ($1::text[]::regclass[]) OR confrelid = ANY ($1::text[]::regclass[])) \
             LIMIT 1";
/// A transaction waits for locks, whatever is set for the role. The wait is short, because no lease is
/// extended during it, only before the next try.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = 0; \
                     SET LOCAL lock_timeout = '5s'";
/// How long no message is read after leases ran out. The watchdog may still be ending handlers, and would
/// end new handlers as well.
const AFTER_LOSS: Duration = Duration::from_secs(1);

/// How long a message stays hidden after its reader has died.
const HIDDEN_SECS: u64 = 30;
/// How often a living reader extends the leases of its messages.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(HIDDEN_SECS / 3);
/// A handler is ended this long before its lease ends, because ending it takes a moment.
const MARGIN: Duration = Duration::from_secs(5);
/// The pass treats a lease as lost this long before the watchdog ends the handler. Otherwise it could count
/// a handler that the watchdog killed as failed.
const GUARD: Duration = Duration::from_millis(100);

/// How long a message stays hidden from other readers, and when its handler must have ended, in
/// [boot time](boottime).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Lease {
    /// When the watchdog ends the handler, unless the lease is extended.
    deadline: Duration,
}

impl Lease {
    /// A lease that was requested from the server at this time.
    fn asked_at(now: Duration) -> Self {
        Self { deadline: now + Duration::from_secs(HIDDEN_SECS) - MARGIN }
    }

    fn is_over(self, now: Duration) -> bool {
        now + GUARD >= self.deadline
    }

    /// Whether it will be over at the next heartbeat.
    fn is_running_out(self, now: Duration) -> bool {
        self.is_over(now + HEARTBEAT_INTERVAL)
    }

    /// Whether a heartbeat should have extended it by now.
    fn is_overdue(self, now: Duration) -> bool {
        self.is_running_out(now + MARGIN / 2)
    }
}

/// The store of a queue: the messages that a pass has in flight.
pub struct PgmqStore {
    watchdog: Option<Watchdog>,
    queue: PgmqQueue,
    database: SqlDatabase<PgEngine>,
    held: HashMap<Id, MessageInHand>,
    /// Gets the messages that are lost, so that their handlers end.
    lost: Option<Sender<Vec<Id>>>,
    /// The lease whose deadline the watchdog has. It ends all handlers then.
    deadline: Option<Lease>,
    /// No message is read before this time, because leases ran out.
    pauses_until: Option<Duration>,
    /// Returns the boot time.
    now: Box<dyn Fn() -> Duration + Send>,
    /// Messages that were read and released without having been settled.
    given_back: Vec<MessageInHand>,
    /// Whether pgmq is known to have all functions that are needed.
    has_functions: bool,
}

/// A message that this process is at.
struct MessageInHand {
    number: i64,
    /// How often it had been read by then.
    reads: i64,
    /// None for a message that this process has not hidden.
    lease: Option<Lease>,
    /// Whether somebody else may have it.
    is_lost: bool,
}

impl MessageInHand {
    fn new(number: i64, reads: i64, lease: Option<Lease>) -> Self {
        Self { number, reads, lease, is_lost: false }
    }

    /// The lease, unless the message is lost.
    fn good_lease(&self) -> Option<Lease> {
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
    pub fn new(queue: PgmqQueue, database: SqlDatabase<PgEngine>) -> Self {
        Self {
            watchdog: None,
            queue,
            database,
            held: HashMap::new(),
            lost: None,
            deadline: None,
            pauses_until: None,
            now: Box::new(boottime),
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

    fn numbers(&mut self, sql: &str, params: &[Param]) -> Result<Vec<i64>, DbError> {
        self.session().column(sql, params)
    }

    fn records(&mut self, numbers: Vec<i64>) -> Result<Vec<Record>, DbError> {
        let table = &self.database.table;
        let (row, name, id) = (table.all_columns(), &table.sql, table.ids());
        let sql = format!("SELECT {row} FROM {name} WHERE {id} = ANY($1) ORDER BY {id}");
        let rows = self.database.engine.session.query(&sql, &[Param::Integers(numbers)])?;
        let columns = RecordReader::all(table);
        Ok(rows.iter().filter_map(|row| columns.record(row, 0)).collect())
    }

    fn read_messages(&mut self, most: usize) -> Result<Vec<(Id, Claim)>, DbError> {
        self.notice_loss();
        if let Some(until) = self.pauses_until.take() {
            std::thread::sleep(until.saturating_sub((self.now)()));
        }
        let lease = Some(Lease::asked_at((self.now)()));
        let [secs, most] = [HIDDEN_SECS.to_string(), most.to_string()].map(Param::text);
        let numbers = self.numbers(READ, &[self.name(), secs, most])?;
        let records = self.records(numbers)?;
        let held = |mut record: Record| {
            let number = number(&record.id)?;
            let reads = i64::from(record.failures);
            self.held.insert(record.id.clone(), MessageInHand::new(number, reads, lease));
            // This very read has counted already.
            record.failures = record.failures.saturating_sub(1);
            record.status = if record.failures == 0 { Status::New } else { Status::Error };
            record.status_text = record.status.name().into();
            record.due_at = Some(Instant(i64::MIN));
            Some((record.id.clone(), Claim::Held(Arc::new(record))))
        };
        let claimed = records.into_iter().filter_map(held).collect();
        self.tell_watchdog();
        Ok(claimed)
    }

    /// Messages by their ids, as a person names them. One that is hidden for no longer than a
    /// reader hides it may be in somebody's hands.
    fn look_up(&mut self, ids: &[Id]) -> Result<Vec<(Id, Claim)>, DbError> {
        let numbers: Vec<i64> = ids.iter().filter_map(number).collect();
        let sql = format!(
            "SELECT msg_id FROM {} WHERE msg_id = ANY($1::bigint[]) AND vt > \
             pg_catalog.clock_timestamp() \
             AND vt <= pg_catalog.clock_timestamp() + interval '{HIDDEN_SECS} s'",
            self.queue.waiting
        );
        let busy = self.numbers(&sql, &[Param::Integers(numbers.clone())])?;
        let records = self.records(numbers)?.into_iter().map(|record| (record.id.clone(), record));
        let mut records: HashMap<Id, Record> = records.collect();
        let mut claim = |id: &Id| match (records.remove(id), number(id)) {
            (Some(_), Some(number)) if busy.contains(&number) => Claim::Busy,
            (Some(record), Some(number)) => {
                let reads = i64::from(record.failures);
                self.held.insert(id.clone(), MessageInHand::new(number, reads, None));
                Claim::Held(Arc::new(record))
            }
            (None, _) | (_, None) => Claim::Gone,
        };
        Ok(ids.iter().map(|id| (id.clone(), claim(id))).collect())
    }

    fn give_back(&mut self) -> Result<(), DbError> {
        if self.given_back.is_empty() {
            return Ok(());
        }
        self.show(&self.queue.unread(), &pairs(self.given_back.iter()), 0)?;
        self.given_back.clear();
        self.tell_watchdog();
        Ok(())
    }

    /// Makes the messages that a statement selects visible in `secs` seconds, and returns their numbers.
    fn show(&mut self, sql: &str, params: &[Param; 2], secs: u64) -> Result<Vec<i64>, DbError> {
        self.session().batch(BEGIN)?;
        let numbers = self.numbers(sql, params)?;
        let named = Param::Integers(numbers.clone());
        let params = [self.name(), named, Param::text(secs.to_string())];
        self.session().query(SHOW_IN, &params)?;
        self.session().batch("COMMIT")?;
        Ok(numbers)
    }

    /// Extends the leases of what is in hand.
    fn hide_on(&mut self) -> Result<(), DbError> {
        // A handler that was just starting may have missed that its message is lost.
        let lost = self.held.iter().filter(|(_, held)| held.is_lost).map(|(id, _)| id.clone());
        self.end_handlers(&lost.collect::<Vec<_>>());
        self.notice_loss();
        let asked_at = (self.now)();
        let hidden = self.held.values().filter(|held| held.good_lease().is_some());
        let hidden = pairs(hidden);
        if matches!(&hidden[0], Param::Integers(numbers) if numbers.is_empty()) {
            self.tell_watchdog();
            return Ok(());
        }
        // A message that the application has locked must not keep the leases of others from being extended.
        let free = format!("{} SKIP LOCKED", self.queue.held());
        let extended = self.show(&free, &hidden, HIDDEN_SECS)?;
        // The statement may have taken too long.
        self.notice_loss();
        let is_extended = |held: &MessageInHand| extended.contains(&held.number);
        let leased = self.held.values_mut().filter(|held| held.good_lease().is_some());
        let (extended, skipped): (Vec<_>, Vec<_>) = leased.partition(|held| is_extended(held));
        for held in extended {
            held.lease = Some(Lease::asked_at(asked_at));
        }
        let skipped: Vec<_> = skipped.iter().map(|held| held.number).collect();
        if !skipped.is_empty() {
            self.sort_out(&skipped)?;
        }
        self.tell_watchdog();
        Ok(())
    }

    /// Finds the lost messages among those whose leases could not be extended.
    fn sort_out(&mut self, numbers: &[i64]) -> Result<(), DbError> {
        let reads = self.queue.reads();
        let rows = self.session().query(&reads, &[Param::Integers(numbers.into())])?;
        let reads: HashMap<i64, i64> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        let now = (self.now)();
        let is_lost = |held: &MessageInHand| match (held.good_lease(), reads.get(&held.number)) {
            (Some(lease), Some(reads)) => *reads != held.reads || lease.is_running_out(now),
            (None, _) | (_, None) => false,
        };
        let skipped = self.held.iter_mut().filter(|(_, held)| numbers.contains(&held.number));
        let mut lost = Vec::new();
        for (id, held) in skipped {
            held.is_lost = is_lost(held);
            if held.is_lost {
                lost.push(id.clone());
            } else if !reads.contains_key(&held.number) {
                // It was archived or deleted, so that nobody else can read it.
                held.lease = None;
            }
        }
        self.end_handlers(&lost);
        Ok(())
    }

    /// Gives up all messages in hand if the watchdog has ended their handlers, or is about to.
    fn notice_loss(&mut self) {
        let now = (self.now)();
        let Some(deadline) = self.deadline.filter(|deadline| deadline.is_over(now)) else { return };
        self.deadline = None;
        self.pauses_until = Some(deadline.deadline.max(now) + AFTER_LOSS);
        let held = self.held.iter_mut().filter(|(_, held)| held.good_lease().is_some());
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
            // Nobody listens any more once the handlers have ended.
            let _ = ends.send(lost.to_vec());
        }
    }

    /// Tells the watchdog the deadline of the lease that ends first.
    fn tell_watchdog(&mut self) {
        let deadline = self.held.values().filter_map(MessageInHand::good_lease).min();
        // After a loss the old deadline stands, until the watchdog has ended all handlers.
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

    /// The result for an attempt that begins. Nothing is written, because reading a message charges it.
    fn charge(&self, change: &RowWrite) -> WriteResult {
        match self.is_lost(&change.record.id) {
            true => WriteResult::ClaimLost,
            false => WriteResult::Charged(Guards::default()),
        }
    }

    /// Writes changes in one transaction.
    fn write(&mut self, changes: &[RowWrite]) -> Result<Vec<WriteResult>, DbError> {
        self.notice_loss();
        if changes.iter().all(RowWrite::begins) {
            return Ok(changes.iter().map(|change| self.charge(change)).collect());
        }
        // While this statement waits for a lock, no heartbeat can extend the leases.
        let now = (self.now)();
        if self.deadline.is_some_and(|deadline| deadline.is_overdue(now)) {
            self.hide_on()?;
        }
        self.session().batch(BEGIN)?;
        let held = pairs(changes.iter().filter_map(|change| self.held.get(&change.record.id)));
        let mine = self.numbers(&self.queue.held(), &held)?;
        let waiting = format!("SELECT msg_id FROM {} WHERE msg_id = ANY($1)", self.queue.waiting);
        let (mut orders, mut applied) = (Orders::default(), Vec::with_capacity(changes.len()));
        for change in changes {
            let number = number(&change.record.id).unwrap_or_default();
            let is_archived = change.record.status == Status::Archived;
            // A success counts as long as nobody else has read the message. Any other outcome of a lost
            // message may only show that its handler was ended.
            let is_kept = !self.is_lost(&change.record.id)
                || change.settlement.transition == Transition::Succeeded;
            applied.push(if change.begins() {
                self.charge(change)
            } else if is_archived || is_kept && mine.contains(&number) {
                orders.add(number, is_archived, change);
                WriteResult::Written
            } else if !self.numbers(&waiting, &[Param::Integers(vec![number])])?.is_empty() {
                WriteResult::ClaimLost
            } else if change.is_repeated {
                WriteResult::Written
            } else {
                WriteResult::ChangedMeanwhile
            });
        }
        self.carry_out(orders)?;
        self.session().batch("COMMIT")?;
        for change in changes.iter().filter(|change| !change.begins()) {
            self.held.remove(&change.record.id);
        }
        // If messages are in hand, the next heartbeat does that.
        if !self.held.values().any(|held| held.good_lease().is_some()) {
            self.tell_watchdog();
        }
        Ok(applied)
    }

    /// Writes both ends that a message can have, and takes them back.
    fn try_out(&mut self, record: &Record) -> Result<(), DbError> {
        let number = number(&record.id).unwrap_or_default();
        for orders in [
            Orders { done: vec![number], ..Orders::default() },
            Orders { noted: (vec![number], vec![Some("rehearsal".into())]), ..Orders::default() },
        ] {
            self.session().batch(BEGIN)?;
            self.carry_out(orders)?;
            self.session().batch("ROLLBACK")?;
        }
        Ok(())
    }

    fn carry_out(&mut self, orders: Orders) -> Result<(), DbError> {
        let Orders { done, shown, uncounted, noted, restored } = orders;
        let (name, queue) = (|| self.name(), &self.queue);
        let end = if self.database.table.deletes_finished { DELETE } else { ARCHIVE };
        let why = vec![Param::Integers(noted.0.clone()), Param::Texts(noted.1)];
        let never = Param::text(NEVER_SECS.to_string());
        let note = queue.note().map(|sql| (sql, why));
        let statements = [
            (end.into(), vec![name(), Param::Integers(done)]),
            (SHOW_AT.into(), vec![name(), Param::Integers(shown.0), Param::Texts(shown.1), never]),
            (queue.unread(), vec![Param::Integers(uncounted.0), Param::Integers(uncounted.1)]),
            (ARCHIVE.into(), vec![name(), Param::Integers(noted.0)]),
            (queue.restore(), vec![Param::Integers(restored)]),
        ];
        // What is archived cannot be noted any more.
        for (sql, params) in note.into_iter().chain(statements) {
            if !params.iter().any(|it| matches!(it, Param::Integers(keys) if keys.is_empty())) {
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
        // Nothing may be claimed that cannot be settled.
        if !self.has_functions
            && let Some(why) = missing_function(self.session())?
        {
            bail!("could not use {}: {why}", self.database.engine.label());
        }
        self.has_functions = true;
        Ok(match wanted {
            ClaimRequest::Next(ids, most) => self.read_messages(most.min(ids.len()))?,
            ClaimRequest::Named(ids) => self.look_up(ids)?,
        })
    }

    fn round(&mut self, changes: &[RowWrite], _: &[Id]) -> Result<Vec<WriteResult>> {
        Ok(self.write(changes)?)
    }

    fn release(&mut self, id: &Id) {
        let held = self.held.remove(id);
        self.given_back.extend(held.filter(|held| held.good_lease().is_some()));
    }

    fn flush(&mut self, _: Until) -> Result<()> {
        Ok(self.give_back()?)
    }

    /// What can be refused is to archive it, or to delete it.
    fn rehearse(
        &mut self,
        records: &[PossibleWrites],
        _in_hand: &[RowWrite],
    ) -> Result<Vec<Rehearsal>> {
        let rehearse = |PossibleWrites { record, .. }: &PossibleWrites| {
            let Err(why) = self.try_out(record) else { return Ok(Rehearsal::Taken) };
            if !why.is_refusal {
                bail!(why);
            }
            self.database.engine.roll_back();
            let place = self.database.engine.label();
            Ok(Rehearsal::Refused(format!(
                "could not write to {place}: queue {} does not let go of it: {why}",
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
        self.hide_on()?;
        Ok(None)
    }
}

/// Numbers and counts of reads, as two parameters.
fn pairs<'a>(held: impl Iterator<Item = &'a MessageInHand>) -> [Param; 2] {
    let (numbers, reads) = held.map(|held| (held.number, held.reads)).unzip();
    [Param::Integers(numbers), Param::Integers(reads)]
}

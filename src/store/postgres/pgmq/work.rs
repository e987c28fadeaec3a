//! The messages of a pass: those in flight, and the statements that read, extend and end them. A
//! message that was read stays hidden as long as this process lives to put off its return; its count
//! of reads shows whether it is still this one's.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use super::{ARCHIVE, DELETE, Orders, Queue, READ, SHOW_AT, SHOW_IN, number};
use crate::record::{Id, Record, Settlement, Status};
use crate::store::engine::Engine;
use crate::store::error::{DbError, Kind, OrRefused, Reconnecting, Retry};
use crate::store::postgres::PgEngine;
use crate::store::postgres::dialect::Param;
use crate::store::postgres::session::Session;
use crate::store::table::Selected;
use crate::store::table_store::SqlDatabase;
use crate::store::watchdog::Watchdog;
use crate::store::{Charged, Claim, Interrupter, Reader, Rehearsal, RowWrite, Store, WriteResult};
use crate::time::Instant;

/// How long a message stays hidden after its reader has died.
const HIDDEN_SECS: u64 = 30;
/// How often a living reader puts off the return of its messages.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(HIDDEN_SECS / 3);
/// How many messages are held at a time.
const MOST_CLAIMS: usize = 512;
/// A transaction waits for locks, but not for ever, whatever is set for the role.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = 0; \
                     SET LOCAL lock_timeout = '30s'";

/// The store of a queue: the messages that a pass has in flight.
pub struct Work {
    watchdog: Option<Watchdog>,
    queue: Queue,
    database: SqlDatabase<PgEngine>,
    retry: Retry,
    held: HashMap<Id, Held>,
    /// Messages that were read and released without having been settled.
    given_back: Vec<Held>,
    /// Whether a rehearsal could write.
    is_writable: bool,
}

/// A message that this process is at.
struct Held {
    number: i64,
    /// How often it had been read by then.
    reads: i64,
    /// Whether it was hidden for that.
    is_hidden: bool,
}

impl Reconnecting for Work {
    type Engine = PgEngine;

    fn retry(&mut self) -> &mut Retry {
        &mut self.retry
    }

    fn engine(&mut self) -> &mut PgEngine {
        &mut self.database.engine
    }

    fn recover(&mut self, why: DbError) -> Result<()> {
        if why.kind == Kind::ReadOnly {
            self.session().wait_for_writes();
            return Ok(());
        }
        self.connect_again(&why, |it| it.session().open_again())
    }

    fn has_been_writable(&self) -> bool {
        self.watchdog.is_some() && self.is_writable
    }
}

impl Work {
    pub fn new(queue: Queue, database: SqlDatabase<PgEngine>, retry: Retry) -> Self {
        let (held, given_back) = (HashMap::new(), Vec::new());
        Self { watchdog: None, queue, database, retry, held, given_back, is_writable: false }
    }

    fn name(&self) -> Param {
        Param::text(&self.queue.name)
    }

    fn session(&mut self) -> &mut Session {
        &mut self.database.engine.session
    }

    fn numbers(&mut self, sql: &str, params: &[Param]) -> Result<Vec<i64>, DbError> {
        Ok(self.session().query(sql, params)?.iter().map(|row| row.get(0)).collect())
    }

    fn records(&mut self, numbers: Vec<i64>) -> Result<Vec<Record>, DbError> {
        let table = &self.database.table;
        let (row, name, id) = (table.all_columns(), &table.sql, table.ids());
        let sql = format!("SELECT {row} FROM {name} WHERE {id} = ANY($1) ORDER BY {id}");
        let rows = self.database.engine.session.query(&sql, &[Param::Keys(numbers)])?;
        let columns = Selected::all(table);
        Ok(rows.iter().filter_map(|row| columns.record(row, 0)).collect())
    }

    fn read(&mut self, most: usize) -> Result<Vec<(Id, Claim)>, DbError> {
        let [secs, most] = [HIDDEN_SECS.to_string(), most.to_string()].map(Param::text);
        let numbers = self.numbers(READ, &[self.name(), secs, most])?;
        let records = self.records(numbers)?;
        let held = |mut record: Record| {
            let number = number(&record.id)?;
            let reads = i64::from(record.failures);
            self.held.insert(record.id.clone(), Held { number, reads, is_hidden: true });
            // This very read has counted already.
            record.failures = record.failures.saturating_sub(1);
            record.status = if record.failures == 0 { Status::New } else { Status::Error };
            record.status_text = record.status.name().into();
            record.due_at = Some(Instant(i64::MIN));
            Some((record.id.clone(), Claim::Held(Arc::new(record))))
        };
        Ok(records.into_iter().filter_map(held).collect())
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
        let busy = self.numbers(&sql, &[Param::Keys(numbers.clone())])?;
        let records = self.records(numbers)?.into_iter().map(|record| (record.id.clone(), record));
        let mut records: HashMap<Id, Record> = records.collect();
        let mut claim = |id: &Id| match (records.remove(id), number(id)) {
            (Some(_), Some(number)) if busy.contains(&number) => Claim::Busy,
            (Some(record), Some(number)) => {
                let reads = i64::from(record.failures);
                self.held.insert(id.clone(), Held { number, reads, is_hidden: false });
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
        Ok(())
    }

    /// Has the messages that a statement names seen again in so many seconds.
    fn show(&mut self, sql: &str, params: &[Param; 2], secs: u64) -> Result<(), DbError> {
        self.session().batch(BEGIN)?;
        let numbers = Param::Keys(self.numbers(sql, params)?);
        let params = [self.name(), numbers, Param::text(secs.to_string())];
        self.session().query(SHOW_IN, &params)?;
        self.session().batch("COMMIT")
    }

    /// Puts off the return of what is in hand.
    fn hide_on(&mut self) -> Result<(), DbError> {
        let mut hidden = self.held.values().filter(|held| held.is_hidden).peekable();
        if hidden.peek().is_none() {
            return Ok(());
        }
        // One that the application has locked must not keep the others from being put off.
        let free = format!("{} SKIP LOCKED", self.queue.held());
        self.show(&free, &pairs(hidden), HIDDEN_SECS)
    }

    /// Writes changes in one transaction. `again` says that this may have been done before, by a
    /// session that was lost before it could say so.
    fn write(&mut self, changes: &[RowWrite], again: bool) -> OrRefused<Vec<WriteResult>> {
        // Reading a message has counted it.
        if changes.iter().all(RowWrite::begins) {
            return Ok(Ok(vec![WriteResult::Charged(Charged::default()); changes.len()]));
        }
        self.session().batch(BEGIN)?;
        let held = pairs(changes.iter().filter_map(|change| self.held.get(&change.record.id)));
        let mine = self.numbers(&self.queue.held(), &held)?;
        let waiting = format!("SELECT msg_id FROM {} WHERE msg_id = ANY($1)", self.queue.waiting);
        let (mut orders, mut applied) = (Orders::default(), Vec::with_capacity(changes.len()));
        for change in changes {
            let number = number(&change.record.id).unwrap_or_default();
            let is_archived = change.record.status == Status::Archived;
            applied.push(if change.begins() {
                WriteResult::Charged(Charged::default())
            } else if is_archived || mine.contains(&number) {
                orders.add(number, is_archived, change);
                WriteResult::Written
            } else if !self.numbers(&waiting, &[Param::Keys(vec![number])])?.is_empty() {
                WriteResult::ClaimLost
            } else if again {
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
        Ok(Ok(applied))
    }

    /// Writes both ends that a message can have, and takes them back.
    fn try_out(&mut self, record: &Record) -> OrRefused<()> {
        let number = number(&record.id).unwrap_or_default();
        for orders in [
            Orders { done: vec![number], ..Orders::default() },
            Orders { noted: (vec![number], vec![Some("rehearsal".into())]), ..Orders::default() },
        ] {
            self.session().batch(BEGIN)?;
            self.carry_out(orders)?;
            self.session().batch("ROLLBACK")?;
        }
        Ok(Ok(()))
    }

    fn carry_out(&mut self, orders: Orders) -> Result<(), DbError> {
        let Orders { done, shown, uncounted, noted, restored } = orders;
        let (name, queue) = (|| self.name(), &self.queue);
        let end = if self.database.table.deletes_finished { DELETE } else { ARCHIVE };
        let why = vec![Param::Keys(noted.0.clone()), Param::Texts(noted.1)];
        let note = queue.note().map(|sql| (sql, why));
        let statements = [
            (end.into(), vec![name(), Param::Keys(done)]),
            (SHOW_AT.into(), vec![name(), Param::Keys(shown.0), Param::Texts(shown.1)]),
            (queue.unread(), vec![Param::Keys(uncounted.0), Param::Keys(uncounted.1)]),
            (ARCHIVE.into(), vec![name(), Param::Keys(noted.0)]),
            (queue.restore(), vec![Param::Keys(restored)]),
        ];
        // What is archived cannot be noted any more.
        for (sql, params) in note.into_iter().chain(statements) {
            if !params.iter().any(|it| matches!(it, Param::Keys(keys) if keys.is_empty())) {
                self.session().query(&sql, &params)?;
            }
        }
        Ok(())
    }
}

impl Store for Work {
    fn reader(&mut self) -> &mut dyn Reader {
        &mut self.database
    }

    fn most_claims(&self) -> usize {
        MOST_CLAIMS
    }

    /// The queue hands out messages in its own order: as many as are asked for, whichever.
    fn claim(&mut self, ids: &[Id]) -> Result<Vec<(Id, Claim)>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        self.retrying("claim messages in", |work, _| work.read(ids.len()))
    }

    fn claim_named(&mut self, ids: &[Id]) -> Result<Vec<(Id, Claim)>> {
        self.retrying("read", |work, _| work.look_up(ids))
    }

    fn release(&mut self, id: &Id) {
        self.given_back.extend(self.held.remove(id).filter(|held| held.is_hidden));
    }

    fn rest(&mut self) -> Result<()> {
        self.retrying("write to", |work, _| work.give_back())
    }

    fn apply(&mut self, changes: &[RowWrite]) -> Result<Vec<WriteResult>> {
        self.write_all(changes, Self::write)
    }

    /// What can be refused is to archive it, or to delete it.
    fn rehearse(&mut self, record: &Arc<Record>, _: &[Vec<Settlement>]) -> Result<Rehearsal> {
        Ok(match self.retrying_or_refused(false, |work, _| work.try_out(record))? {
            Ok(()) => {
                self.is_writable = true;
                Rehearsal::Taken
            }
            Err(why) => Rehearsal::Refused(format!(
                "could not write to {}: queue {} does not let go of it: {why}",
                self.database.engine.place(),
                self.queue.name
            )),
        })
    }

    fn start_watchdog(&mut self, token: &str) -> Result<()> {
        self.watchdog = Some(Watchdog::start(None, token)?);
        Ok(())
    }

    fn heartbeat(&self) -> Option<Duration> {
        Some(HEARTBEAT_INTERVAL)
    }

    fn look_after(&mut self) -> Vec<Arc<OwnedFd>> {
        self.just_looking("write to", |work, _| work.hide_on());
        Vec::new()
    }

    fn interrupter(&self) -> Option<Interrupter> {
        self.database.engine.interrupter()
    }
}

/// Numbers and counts of reads, as two parameters.
fn pairs<'a>(held: impl Iterator<Item = &'a Held>) -> [Param; 2] {
    let (numbers, reads) = held.map(|held| (held.number, held.reads)).unzip();
    [Param::Keys(numbers), Param::Keys(reads)]
}

//! The table store: the searches, reads and guarded writes of a pass, on any engine that speaks SQL.

mod rehearsal;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::iter;
use std::sync::Arc;
use std::time::{Duration, Instant as Monotonic};

use anyhow::Result;
use backlog_schedule::{
    Counter, Id, Instant, Query, Record, Settlement, Status, Transition, Value, Window,
};

use super::engine::{Ask, Changes, Engine, Hold, Locks, Seen, SqlDatabase};
use super::error::{DbError, DbResult, Kind, OrRefused};
use super::page::PageBuilder;
use super::sql::{due_params, id_param, id_params};
use super::table::{Cells, Column, Holds, Places, Selected};
use crate::inspection::Undated;
use crate::retry::{Reconnecting, Retry, reconnect_pause};
use crate::store::{
    Claim, EndHandlers, Found, Interrupter, IsDue, MOST_IDS, Moved, Page, Reader, Sessions, Store,
    Wakeup,
};
use crate::writes::{
    NOT_PENDING, NOT_TAKEN, PossibleWrites, Rehearsal, RowConstraints, RowWrite, STILL_PENDING,
    WriteResult,
};

impl<E: Engine> SqlDatabase<E> {
    fn ask(&mut self, changes: &Changes, ask: Ask) -> DbResult<Vec<Seen>> {
        self.engine.ask(&self.table, changes, ask)
    }

    /// Mostly there is none.
    fn has_any(&mut self, statuses: &[Status]) -> DbResult<bool> {
        match self.engine.any(&self.table.any(&self.table.due_rows(statuses))) {
            // Whoever looks for them says what cannot be read.
            Err(error) if error.is_of_a_row => Ok(true),
            any => any,
        }
    }

    /// The query. If a column says what is due, without the waits of the policy.
    fn by_column<'a>(&self, query: &'a Query) -> Cow<'a, Query> {
        let window = match (&query.window, self.table.due_column()) {
            (Window::Failed { .. }, Some(_)) => Window::All,
            (Window::Slots(_), Some(_)) => {
                let inserted = query.window.inserted().unwrap_or((Instant(i64::MIN), None));
                Window::Inserted { from: inserted.0, until: inserted.1 }
            }
            _ => return Cow::Borrowed(query),
        };
        Cow::Owned(Query { window, ..query.clone() })
    }

    /// Reads the due records into a page. A page that was filled in part is filled again from the start.
    fn fill_page(&mut self, query: &Query, page: &mut PageBuilder<'_>) -> DbResult<()> {
        page.begin_again();
        if query.after.is_none() && !self.has_any(&query.statuses)? {
            let hidden = self.engine.hides_all(&self.table)?;
            if let Some(why) = hidden.filter(|why| self.said.insert(why.clone())) {
                log::warn!("{why}");
            }
            return Ok(());
        }
        page.undated = self.undated(query)?;
        self.search(query, page).or_else(|error| self.search_around(query, page, error))
    }

    /// The records that no age can be told of, if the query goes by age and begins here.
    fn undated(&mut self, query: &Query) -> DbResult<Option<Undated>> {
        let inserted = query.window.inserted();
        let is_by_age = inserted.is_some_and(|(from, _)| from.0 > i64::MIN);
        if !is_by_age || query.after.is_some() {
            return Ok(None);
        }
        let mut undated = Undated::default();
        let read = self.engine.search(&self.table.undated(query), &[], |row| {
            let inserted = row.value(&self.table.inserted, self.table.id.len());
            if self.table.dates.read(&inserted).is_none() {
                undated.add(&self.table.shown_id(row), &inserted);
            }
            true
        });
        match read {
            // Whoever looks for what is due says what cannot be read.
            Err(error) if error.is_of_a_row => {}
            read => read?,
        }
        Ok(Some(undated))
    }

    /// A second row shows that the id is not unique.
    pub fn read_one(&mut self, id: &Id, is_whole: bool) -> DbResult<Found> {
        let Self { engine, table, .. } = self;
        let shown = if is_whole { Selected::all(table) } else { Selected::shown(table) };
        let columns = if is_whole { table.all_columns() } else { shown.sql() };
        let sql = format!("{} LIMIT 2", table.of_id(&columns));
        let mut found = Vec::new();
        let read = engine.search(&sql, &id_params(id), |row| {
            found.extend(shown.record(row, 0));
            true
        });
        match read {
            Err(error) if error.kind == Kind::NoValue => {}
            read => read?,
        }
        let mut found = found.into_iter();
        Ok(match (found.next(), found.next()) {
            (None, _) => Found::Gone,
            (Some(record), None) => Found::Record(Box::new(record)),
            (Some(_), Some(_)) => Found::Ambiguous,
        })
    }

    /// Ids that begin with a text, as they are typed. An index on the id serves the conditions, one for text and one
    /// for the bytes of a UUID.
    fn find_ids(&mut self, begin: &str) -> DbResult<Vec<String>> {
        let Self { engine, table, .. } = self;
        let [column @ Column { holds: Holds::Text | Holds::Bytes | Holds::Anything, .. }] =
            &table.id[..]
        else {
            return Ok(Vec::new());
        };
        let digits = |text: &str| text.replace('-', "").to_ascii_lowercase();
        let meant = digits(begin);
        // In each language letters come after digits.
        let as_text = ["", "zzzzzzzz"].map(|end| Id::Text(format!("{begin}{end}").into()));
        let open = 32_usize.saturating_sub(meant.len());
        let as_uuid = ["0", "f"].map(|end| Id::typed(&(meant.clone() + &end.repeat(open)), 1));
        let [from, to] = as_uuid.map(Vec::into_iter);
        let mut found = BTreeSet::new();
        for (from, to) in iter::once(as_text.into()).chain(from.zip(to)) {
            let params = [from, to].map(|id| id_param(&id));
            let read = engine.rows(&table.ids_between(column), &params, |row| {
                let id = table.typed_id(row).ok();
                found.extend(id.filter(|id| digits(id).starts_with(&meant)));
                found.len() < MOST_IDS
            });
            // A text may be no UUID.
            read.or_else(|error| if error.kind == Kind::NoValue { Ok(()) } else { Err(error) })?;
        }
        Ok(found.into_iter().collect())
    }

    /// The present state of the rows of these records, and whether they are pending.
    pub fn states_of<'r>(
        &mut self,
        records: impl Iterator<Item = (usize, &'r Arc<Record>)>,
    ) -> DbResult<Vec<Seen>> {
        let (transition, counter) = (Transition::Renewed, Counter::Untouched);
        let renewed = Settlement { transition, counter, at: Instant(0), not_before: None };
        let changes: Vec<_> = records
            .map(|(number, it)| (number, RowWrite::new(it, None, renewed.clone())))
            .collect();
        let changes: Vec<_> = changes.iter().map(|(number, change)| (*number, change)).collect();
        self.ask(&changes, Ask::IsThere)
    }

    fn search(&mut self, query: &Query, page: &mut PageBuilder<'_>) -> DbResult<()> {
        let columns = Places::of_facts(&self.table, &query.window);
        let params = due_params(query);
        for sql in self.engine.due(&self.table, query)? {
            self.engine.search(&sql, &params, |row| page.row(&columns, row))?;
            if page.is_full() {
                break;
            }
        }
        Ok(())
    }

    /// Goes on with a search whose statements ran into a row that cannot be read.
    fn search_around(
        &mut self,
        query: &Query,
        page: &mut PageBuilder<'_>,
        error: DbError,
    ) -> DbResult<()> {
        let Self { engine, table, .. } = self;
        let way = if error.is_of_a_row { engine.one_by_one(table, query) } else { None };
        let Some((sql, numbers)) = way else { return Err(error) };
        page.begin_again();
        page.note_broken(format!("could not read all of {}: {}", engine.place(), error.words));
        let (columns, mut params) = (Places::of_facts(table, &query.window), due_params(query));
        for number in numbers {
            params.push(Value::Integer(number));
            let read = engine.rows(&sql, &params, |row| page.row(&columns, row));
            params.pop();
            if let Err(DbError { words, .. }) = read {
                log::error!("row {number} of table {} could not be read: {words}", table.name);
            }
            if page.is_full() {
                break;
            }
        }
        Ok(())
    }
}

impl<E: Engine> Reader for SqlDatabase<E> {
    fn due(&mut self, query: &Query, is_due: IsDue<'_>) -> Result<Page> {
        let query = self.by_column(query);
        let mut page = PageBuilder::new(&query, is_due);
        let searched = self.fill_page(&query, &mut page);
        self.reading(searched)?;
        Ok(page.finish(self.table.inserted.label(), &mut self.said))
    }

    fn read(&mut self, id: &Id) -> Result<Found> {
        let read = self.read_one(id, false);
        self.reading(read)
    }

    fn ids_from(&mut self, begin: &str) -> Result<Vec<String>> {
        let found = self.find_ids(begin);
        self.reading(found)
    }
}

/// A table together with the means to claim its records.
pub struct TableStore<E: Engine> {
    /// What ends with the claims goes first, and the connection last.
    pub locks: E::Locks,
    pub database: SqlDatabase<E>,
    retry: Retry,
    /// Whether a charge is read back, once that was asked.
    looks_again: Option<bool>,
    /// The constraints on single rows, once they are known.
    row_constraints: Option<RowConstraints>,
    /// Whether the sessions were used since the last heartbeat.
    is_used: bool,
    /// Since when heartbeats cannot reach the server.
    lost_at: Option<Monotonic>,
    stage: Stage,
    recover: Recover<E>,
}

/// Makes sessions anew that are lost, with what they held.
pub type Recover<E> = fn(&mut TableStore<E>, &DbError) -> Result<()>;

#[derive(PartialEq, Eq)]
enum Stage {
    Begun,
    Watched,
    /// Something was written, if only by the rehearsal.
    Written,
}

impl<E: Engine> TableStore<E> {
    pub fn new(
        database: SqlDatabase<E>,
        locks: E::Locks,
        retry: Retry,
        recover: Recover<E>,
    ) -> Self {
        Self {
            locks,
            database,
            retry,
            looks_again: None,
            row_constraints: None,
            is_used: false,
            lost_at: None,
            stage: Stage::Begun,
            recover,
        }
    }

    /// Asks to make changes; a charge is told as the row is at the end.
    fn change(&mut self, changes: &Changes, ask: Ask) -> DbResult<Vec<Seen>> {
        let mut seen = match ask {
            Ask::Write => self.locks.write(&mut self.database, changes)?,
            Ask::Rehearse | Ask::IsExpected | Ask::IsWritten | Ask::IsThere => {
                self.database.ask(changes, ask)?
            }
        };
        let begun: Vec<_> = changes.iter().copied().filter(|(_, it)| it.begins()).collect();
        if !begun.is_empty() && self.looks_again()? {
            for again in self.database.ask(&begun, Ask::IsThere)? {
                if let Some(it) = seen.iter_mut().find(|it| it.number == again.number) {
                    it.charged = again.charged;
                }
            }
        }
        Ok(seen)
    }

    fn looks_again(&mut self) -> DbResult<bool> {
        let SqlDatabase { engine, table, .. } = &mut self.database;
        let known = self.looks_again.map_or_else(|| engine.looks_again(table), Ok)?;
        Ok(*self.looks_again.insert(known))
    }

    /// Writes changes, all or none; `again` if a session that was lost may have done so before.
    pub fn write(&mut self, changes: &[RowWrite], again: bool) -> OrRefused<Vec<WriteResult>> {
        let mut written = vec![WriteResult::ChangedMeanwhile; changes.len()];
        let mut all: Vec<_> = changes.iter().enumerate().collect();
        if again {
            self.find_written(&mut all, &mut written)?;
        }
        let is_unbroken =
            |(_, it): &(usize, &RowWrite)| self.locks.hold(&it.record.id) == Hold::Unbroken;
        let (mut open, broken): (Vec<_>, Vec<_>) = all.into_iter().partition(is_unbroken);
        let records = broken.iter().map(|(number, change)| (*number, change.record));
        let states =
            if broken.is_empty() { Vec::new() } else { self.database.states_of(records)? };
        let fenced = self.fence(&broken, &states);
        for (number, _) in broken {
            written[number] = WriteResult::ClaimLost;
        }
        open.extend(fenced.iter().map(|(number, change)| (*number, change)));
        if open.is_empty() {
            // What a lost session has written need not be durable.
            self.locks.has_written(changes, &written);
            return Ok(Ok(written));
        }
        // Without a status column nothing but the condition makes a row finished, or pending again.
        let sees_ends = self.database.table.ends_by_condition()
            && open.iter().any(|(_, change)| change.ends() || change.renews());
        let has_begun = open.iter().any(|(_, change)| change.begins());
        let is_transaction = E::WRITES_SINGLY || sees_ends || has_begun && self.looks_again()?;
        if is_transaction {
            self.database.engine.begin(false)?;
        }
        let seen = self.change(&open, Ask::Write)?;
        for seen in seen {
            let change = &changes[seen.number];
            let is_in_vain = match (sees_ends, seen.is_pending) {
                (true, true) if change.ends() => Some(STILL_PENDING),
                (true, false) if change.renews() => Some(NOT_PENDING),
                (_, _) => None,
            };
            if let Some(why) = is_in_vain {
                self.database.engine.roll_back();
                return Ok(Err(why.into()));
            }
            written[seen.number] = change.written(seen.charged);
        }
        open.retain(|(number, _)| written[*number] == WriteResult::ChangedMeanwhile);
        if !open.is_empty() {
            // What the table did not take is as it was.
            for Seen { number, .. } in self.database.ask(&open, Ask::IsExpected)? {
                written[number] = WriteResult::Refused(NOT_TAKEN.into());
            }
        }
        if is_transaction {
            self.database.engine.batch("COMMIT")?;
        }
        for (number, change) in &fenced {
            if written[*number] == WriteResult::Written
                && change.settlement.counter == Counter::Untouched
            {
                written[*number] = WriteResult::WrittenAfterLoss;
            }
        }
        self.locks.has_written(changes, &written);
        Ok(Ok(written))
    }

    /// Selects the changes that may still be written after their claims were broken: another pass may have
    /// tried these records. An outcome is written if the row still carries the attempt's own charge, or
    /// again is as it was before the charge, which a crash of the server can undo. A success is also
    /// written if the row is merely pending, because the work is done. The counters then belong to another
    /// attempt, and stay. No attempt begins after a broken claim.
    fn fence<'a>(&self, changes: &Changes<'a>, states: &'a [Seen]) -> Vec<(usize, RowWrite<'a>)> {
        let table = &self.database.table;
        let fenced = |(number, change): &(usize, &RowWrite<'a>)| {
            let RowWrite { record, charged, settlement, retry_at, .. } = *change;
            let state = states.iter().find(|it| it.number == *number)?;
            let is_lost = self.locks.hold(&record.id) == Hold::Lost;
            let carries_own = charged.is_some_and(|charged| *charged == state.charged);
            let is_own = !is_lost && (carries_own || state.charged == table.as_read(record));
            let mut settlement = settlement.clone();
            if !is_own && change.settlement.transition == Transition::Succeeded && state.is_pending
            {
                settlement.counter = Counter::Untouched;
            } else if !is_own || change.begins() {
                return None;
            }
            let charged = Some(&state.charged);
            let fenced =
                RowWrite { record, charged, settlement, retry_at: *retry_at, is_fenced: true };
            Some((*number, fenced))
        };
        changes.iter().filter_map(fenced).collect()
    }

    /// Tells which changes a session that was lost had made before.
    fn find_written(
        &mut self,
        open: &mut Vec<(usize, &RowWrite)>,
        written: &mut [WriteResult],
    ) -> DbResult<()> {
        let as_written = self.database.ask(open, Ask::IsWritten)?;
        open.retain(|(number, change)| {
            let seen = as_written.iter().find(|it| it.number == *number);
            let is_written = seen.is_some() != self.database.table.deletes(change);
            if is_written {
                let charged = seen.map(|seen| seen.charged.clone()).unwrap_or_default();
                written[*number] = change.written(charged);
            }
            !is_written
        });
        Ok(())
    }
}

impl<E: Engine> Reconnecting for TableStore<E> {
    type Engine = E;

    fn retry(&mut self) -> &mut Retry {
        &mut self.retry
    }

    fn engine(&mut self) -> &mut E {
        &mut self.database.engine
    }

    fn recover(&mut self, why: DbError) -> Result<()> {
        (self.recover)(self, &why)
    }

    /// A command that is no pass waits for a row that is locked.
    fn keeps_outcomes(&self) -> bool {
        self.stage != Stage::Begun
    }

    fn has_been_writable(&self) -> bool {
        self.stage == Stage::Written
    }
}

/// The reads of a pass. A lost session is made again, and the read repeated.
impl<E: Engine> Reader for TableStore<E> {
    fn due(&mut self, query: &Query, is_due: IsDue<'_>) -> Result<Page> {
        self.is_used = true;
        let query = self.database.by_column(query);
        let mut page = PageBuilder::new(&query, is_due);
        self.retrying("read", |it, _| it.database.fill_page(&query, &mut page))?;
        let SqlDatabase { table, said, .. } = &mut self.database;
        Ok(page.finish(table.inserted.label(), said))
    }

    fn read(&mut self, id: &Id) -> Result<Found> {
        self.is_used = true;
        self.retrying("read", |it, _| it.database.read_one(id, false))
    }

    fn ids_from(&mut self, begin: &str) -> Result<Vec<String>> {
        self.retrying("read", |it, _| it.database.find_ids(begin))
    }
}

impl<E: Engine> Store for TableStore<E> {
    fn reader(&mut self) -> &mut dyn Reader {
        self
    }

    fn still_pending(&mut self, ids: &[Id]) -> Result<Option<Vec<Id>>> {
        self.is_used = true;
        self.retrying("read", |it, _| it.database.engine.still_pending(&it.database.table, ids))
    }

    fn most_claims(&self) -> usize {
        self.locks.most()
    }

    fn claim(&mut self, ids: &[Id]) -> Result<Vec<(Id, Claim)>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        self.is_used = true;
        self.locks.open(&mut self.database)?;
        self.retrying("read", |it, _| it.locks.claim(&mut it.database, ids))
    }

    fn wants_ahead(&mut self, attempts: usize, begun: usize) -> usize {
        self.locks.wants_ahead(attempts, begun)
    }

    fn claim_ahead(&mut self, ids: &[Id]) {
        self.locks.claim_ahead(ids);
    }

    fn claimed_ahead(&self) -> usize {
        self.locks.claimed_ahead()
    }

    fn release(&mut self, id: &Id) {
        self.locks.release(id);
    }

    fn rest(&mut self) -> Result<()> {
        self.retrying("read", |it, _| it.locks.rest(&mut it.database))
    }

    fn apply(&mut self, changes: &[RowWrite]) -> Result<Vec<WriteResult>> {
        self.is_used = true;
        self.write_all(changes, Self::write)
    }

    fn rehearse(&mut self, writes: &[PossibleWrites], held: &[RowWrite]) -> Result<Vec<Rehearsal>> {
        self.is_used = true;
        let rehearsed = self.retrying("write to", |store, _| store.rehearse_all(writes, held))?;
        if self.stage == Stage::Watched && rehearsed.contains(&Rehearsal::Taken) {
            self.stage = Stage::Written;
        }
        Ok(rehearsed)
    }

    fn rehearse_way_back(
        &mut self,
        record: &Arc<Record>,
        at: Instant,
        most_attempts: Option<u32>,
    ) -> Result<Option<String>> {
        self.retrying("write to", |store, _| store.rehearse_way_back(record, at, most_attempts))
    }

    fn row_constraints(&mut self) -> Result<RowConstraints> {
        if let Some(known) = self.row_constraints {
            return Ok(known);
        }
        let mut known = self.retrying("read", |store, _| {
            store.database.engine.row_constraints(&store.database.table)
        })?;
        if self.database.table.ends_depend_on_row() {
            known = known.max(RowConstraints::OfOneRow);
        }
        Ok(*self.row_constraints.insert(known))
    }

    fn start_watchdog(&mut self, token: &str) -> Result<()> {
        self.locks.start_watchdog(&mut self.database, token)?;
        self.stage = Stage::Watched;
        Ok(())
    }

    fn hold_off(&self) -> Option<Duration> {
        self.locks.hold_off()
    }

    fn can_lose_claims(&self) -> bool {
        E::HEARTBEAT_INTERVAL.is_some()
    }

    fn on_loss(&mut self, end: EndHandlers) {
        self.locks.on_loss(end);
    }

    fn heartbeat(&self) -> Option<Duration> {
        E::HEARTBEAT_INTERVAL
    }

    fn sessions(&self) -> Option<Arc<dyn Sessions>> {
        self.locks.sessions(&self.database)
    }

    fn keep_claims(&mut self, why: Wakeup) -> Option<Duration> {
        // Sessions that were in use need no check.
        let was_used = std::mem::take(&mut self.is_used) && why != Wakeup::SessionEnded;
        let kept =
            self.just_looking("read", |it, _| it.locks.keep_claims(&mut it.database, was_used));
        let now = self.retry.clock.monotonic();
        let lost_at = self.lost_at.take().unwrap_or(now);
        kept.unwrap_or_else(|| {
            self.lost_at = Some(lost_at);
            Some(reconnect_pause(now - lost_at))
        })
    }

    fn interrupter(&self) -> Option<Interrupter> {
        self.database.engine.interrupter()
    }

    fn require_in_place(&mut self) -> Result<(), Moved> {
        self.locks.require_in_place(&self.database)
    }

    fn finish(&mut self) -> Result<()> {
        self.retrying("write to", |it, _| it.locks.free(&mut it.database))?;
        self.locks.finish()
    }
}

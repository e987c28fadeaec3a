//! Rehearsal: writes that records may need, made in a transaction and rolled back. [`TableStore::complaint_of_ends`] also
//! checks that a successful record is no longer pending, and that an archived one can be found and restored.

use std::sync::Arc;

use backlog_schedule::{Counter, Instant, Record, Settlement, Status, Transition, counted};

use super::TableStore;
use crate::engine::{Engine, NumberedWrites, RowAfter, SqlDatabase};
use crate::error::{DbError, DbErrorKind, DbResult};
use crate::sql::{EVERY, id_params};
use crate::table::RecordReader;
use crate::writes::{Ends, Guards, IGNORED, PossibleWrites, Rehearsal, RowConstraints, RowWrite};

type Complaint = DbResult<Option<String>>;

impl<E: Engine> TableStore<E> {
    /// Rehearses each record alone and, where records can conflict, after the successes of the records before it.
    pub(super) fn rehearse_all(
        &mut self,
        records: &[PossibleWrites],
        held: &[RowWrite],
    ) -> DbResult<Vec<Rehearsal>> {
        let mut rehearsed = self.rehearse_each(records)?;
        if self.constraints.is_none_or(|found| found.rows != RowConstraints::AcrossRows) {
            return Ok(rehearsed);
        }
        let is_accepted = |(_, rehearsal): &(_, &mut _)| **rehearsal == Rehearsal::Taken;
        let accepted = records.iter().zip(&mut rehearsed).filter(is_accepted);
        let mut accepted: Vec<_> = accepted.collect();
        let together: Vec<_> = accepted.iter().map(|(writes, _)| *writes).collect();
        if held.len() + together.len() < 2
            || self.rehearse_after(held, &together)? == Rehearsal::Taken
        {
            return Ok(rehearsed);
        }
        let mut before = held.to_vec();
        for (writes, rehearsal) in &mut accepted {
            match self.rehearse_after(&before, &[*writes])? {
                Rehearsal::Taken => before.extend(writes.success()),
                Rehearsal::Refused(_) => **rehearsal = Rehearsal::Blocked,
                other @ (Rehearsal::ChangedMeanwhile
                | Rehearsal::Blocked
                | Rehearsal::Locked(_)) => **rehearsal = other,
            }
        }
        Ok(rehearsed)
    }

    fn rehearse_each(&mut self, records: &[PossibleWrites]) -> DbResult<Vec<Rehearsal>> {
        // A table that refuses the first record usually refuses all of them.
        let is_accepted = match self.has_accepted_rehearsal && !E::WRITES_SINGLY {
            true => self.try_each(records)?,
            false => vec![false; records.len()],
        };
        let rehearse = |(writes, is_accepted)| match is_accepted {
            true => Ok(Rehearsal::Taken),
            false => self.rehearse_after(&[], &[writes]),
        };
        records.iter().zip(is_accepted).map(rehearse).collect()
    }

    /// Tries all records in one round trip. A refused one is rehearsed again, for the exact reason.
    fn try_each(&mut self, records: &[PossibleWrites]) -> DbResult<Vec<bool>> {
        let table = &self.database.table;
        let charged: Vec<_> =
            records.iter().map(|writes| table.guards_after_charge(&writes.record)).collect();
        let chains = records.iter().zip(&charged).flat_map(|(writes, charged)| {
            let chains = 0..writes.chains.len();
            chains.map(move |chain| {
                let steps = 0..writes.chains[chain].len();
                let charged = |step| Some(charged).filter(|_| step > 0);
                steps.map(|step| writes.write(chain, step, charged(step))).collect::<Vec<_>>()
            })
        });
        let chains: Vec<_> = chains.collect();
        let mut is_accepted = self.database.engine.try_each(table, &chains)?.into_iter();
        let of_record = |writes: &PossibleWrites| {
            let chains = is_accepted.by_ref().take(writes.chains.len());
            chains.fold(true, |all, one| all & one)
        };
        Ok(records.iter().map(of_record).collect())
    }

    /// Makes other writes and then each chain in a transaction, and rolls it back.
    fn rehearse_after(
        &mut self,
        before: &[RowWrite],
        records: &[&PossibleWrites],
    ) -> DbResult<Rehearsal> {
        let chains = records.iter().map(|writes| writes.chains.len()).min().unwrap_or_default();
        for chain in 0..chains {
            self.database.engine.begin(true)?;
            let all: Vec<_> = before.iter().enumerate().collect();
            let written = if all.is_empty() { Ok(Vec::new()) } else { self.write_rows(&all) };
            match written {
                Err(error) if error.is_refusal || self.gives_way_to(&error) => {
                    self.database.engine.roll_back();
                    self.database.engine.begin(true)?;
                    self.write_accepted(&all)?;
                }
                written => drop(written?),
            }
            let result = self.rehearse_chain(records, chain)?;
            if result != Rehearsal::Taken {
                self.database.engine.roll_back();
                return Ok(result);
            }
        }
        Ok(Rehearsal::Taken)
    }

    /// Makes each write that is not refused or locked by now.
    fn write_accepted(&mut self, writes: &NumberedWrites) -> DbResult<()> {
        for write in writes {
            self.database.engine.execute("SAVEPOINT held")?;
            match self.write_rows(std::slice::from_ref(write)) {
                Err(error) if error.is_refusal || self.gives_way_to(&error) => {
                    // RAISE(ROLLBACK) has ended the transaction.
                    if self.database.engine.execute("ROLLBACK TO held").is_err() {
                        self.database.engine.roll_back();
                        self.database.engine.begin(true)?;
                    }
                }
                written => drop(written?),
            }
        }
        Ok(())
    }

    fn rehearse_chain(&mut self, records: &[&PossibleWrites], chain: usize) -> DbResult<Rehearsal> {
        let mut charged: Vec<Option<Guards>> = vec![None; records.len()];
        let steps =
            records.iter().map(|writes| writes.chains[chain].len()).min().unwrap_or_default();
        for step in 0..steps {
            let writes = records.iter().zip(&charged);
            let writes: Vec<_> = writes
                .map(|(writes, charged)| writes.write(chain, step, charged.as_ref()))
                .collect();
            let numbered: Vec<_> = writes.iter().enumerate().collect();
            let refused = |store: &Self, write: &RowWrite, why: &str| {
                Ok(Rehearsal::Refused(store.refusal(write.record, &write.settlement, why)))
            };
            let rows = match self.write_rows(&numbered) {
                Err(error) if error.is_refusal => return refused(self, &writes[0], &error.message),
                Err(error) if self.gives_way_to(&error) => {
                    let RowWrite { record, settlement, .. } = &writes[0];
                    return Ok(Rehearsal::Locked(self.refusal(record, settlement, &error.message)));
                }
                rows => rows?,
            };
            let states = match writes.iter().any(RowWrite::ends) || rows.len() < writes.len() {
                true => self.database.engine.states(&self.database.table, &numbered)?,
                false => Vec::new(),
            };
            for (number, write) in &numbered {
                let state = states.iter().find(|state| state.number == *number);
                let was_written = rows.iter().any(|row| row.number == *number);
                if was_written {
                    if let Some(why) = state.and_then(|state| write.objection(state.is_pending)) {
                        return refused(self, write, why);
                    }
                    continue;
                }
                // Nobody else can change a charged row until the transaction ends.
                if write.charged.is_none() && !state.is_some_and(|state| state.is_expected) {
                    return Ok(Rehearsal::ChangedMeanwhile);
                }
                return refused(self, write, IGNORED);
            }
            let begun: Vec<_> = writes.iter().map(RowWrite::begins).collect();
            for row in rows.into_iter().filter(|row| begun[row.number]) {
                charged[row.number] = Some(row.guards);
            }
        }
        let last = records.first().and_then(|first| Some((first, first.chains[chain].last()?)));
        match (self.database.engine.end_rehearsal(), last) {
            (Err(error), Some((first, last))) if error.is_refusal => {
                Ok(Rehearsal::Refused(self.refusal(&first.record, last, &error.message)))
            }
            (ended, _) => ended.map(|()| Rehearsal::Taken),
        }
    }

    fn write_rows(&mut self, writes: &NumberedWrites) -> DbResult<Vec<RowAfter>> {
        let SqlDatabase { engine, table, .. } = &mut self.database;
        let mut rows = engine.write(table, writes)?;
        self.read_charges(writes, &mut rows)?;
        Ok(rows)
    }

    /// True if a rehearsal skips a locked row. Not in SQLite, which has waited already, nor in a stopping pass.
    fn gives_way_to(&self, error: &DbError) -> bool {
        error.kind == DbErrorKind::Busy && E::TRIES > 0 && !self.retry.must_give_up()
    }

    fn refusal(&self, record: &Record, settlement: &Settlement, why: &str) -> String {
        let SqlDatabase { engine, table, .. } = &self.database;
        let (place, name) = (engine.label(), &table.name);
        let status = table.display_status(settlement.status(record.status));
        format!("could not write to {place}: table {name} refuses {status}: {why}")
    }

    pub(super) fn complaint_of_ends(&mut self, record: &Arc<Record>, ends: Ends) -> Complaint {
        let (at, next) = (self.retry.clock.now(), record.next_attempt());
        let success = (Transition::Succeeded, None);
        let (is_whole, ends): (bool, Vec<(Transition, Option<u32>)>) = match ends {
            Ends::Success => (false, vec![success]),
            Ends::Archive(most) => (false, vec![success, (Transition::Archived, most)]),
            Ends::All(most) => {
                let failure = (Transition::Failed, Some(next));
                let failure = Some(failure).filter(|_| most.is_none_or(|most| next < most));
                let others = [
                    success,
                    (Transition::Archived, None),
                    (Transition::Archived, most.or(Some(next))),
                ];
                (true, failure.into_iter().chain(others).collect())
            }
        };
        for (transition, attempts) in ends {
            if transition == Transition::Archived && !self.database.table.can_be(Status::Archived) {
                break;
            }
            // Where only a status shows the archive, no success has it. Where nothing does, no command looks for it.
            let is_archive = transition == Transition::Archived;
            let table = &self.database.table;
            let is_in_doubt =
                if is_archive { table.shows_archived() } else { table.archived.is_some() };
            if !is_whole && !is_in_doubt {
                continue;
            }
            let failed = |failures| {
                let last_error = Some("rehearsal".into());
                Counter::Set { failures, last_failure_at: at, last_error }
            };
            let counter = attempts.map_or(Counter::AsBefore, failed);
            self.database.engine.begin(true)?;
            let complaint = match self.settle(record, transition, counter, at) {
                // The rehearsal of a pass finds other refusals, but not one of the last attempt.
                Err(error) if error.is_refusal => {
                    let last = attempts.filter(|_| is_whole && transition == Transition::Archived);
                    Ok(last.map(|attempts| {
                        let attempts = counted(attempts.into(), "attempt");
                        format!("a record cannot be archived after {attempts}: {}", error.message)
                    }))
                }
                // The real write waits for the lock, or is refused.
                Err(error) if self.gives_way_to(&error) => Ok(None),
                Err(error) if !is_whole && error.kind == DbErrorKind::Forbidden => Ok(None),
                Err(error) => Err(error),
                Ok(false) => Ok(None),
                Ok(true) if transition == Transition::Succeeded => {
                    self.check_success(record, is_whole)
                }
                Ok(true) if transition == Transition::Failed => self.check_failed(record),
                Ok(true) => self.check_archived(record, at, is_whole),
            };
            self.database.engine.roll_back();
            if let Some(complaint) = complaint? {
                return Ok(Some(complaint));
            }
        }
        Ok(None)
    }

    fn check_failed(&mut self, record: &Arc<Record>) -> Complaint {
        let is_pending = self.database.table.pending();
        let left = self.read_again(record, &is_pending)?;
        Ok(left.is_none().then(|| {
            "a failed record is no longer pending, so that nothing tries it again: let `where` include failed rows, or \
             archive them (max_attempts, max_age)"
                .into()
        }))
    }

    fn check_success(&mut self, record: &Arc<Record>, is_whole: bool) -> Complaint {
        let left = self.read_again(record, EVERY)?;
        Ok(left.and_then(|left| match left.status {
            Status::New | Status::Error if is_whole => Some(format!(
                "a successful record stays pending, {}: on_success leaves its condition true",
                left.status.name()
            )),
            Status::Archived => Some(
                "a successful record is listed as ARCHIVED, and `restore` would restore it: where_archived must \
                 exclude it"
                    .into(),
            ),
            Status::New | Status::Error | Status::Success | Status::Foreign => None,
        }))
    }

    fn check_archived(&mut self, record: &Arc<Record>, at: Instant, is_whole: bool) -> Complaint {
        let is_listed = self.database.table.rows_with_status(&[Status::Archived]);
        let listed = self.read_again(record, &is_listed)?;
        let Some(archived) = listed.filter(|record| record.status == Status::Archived) else {
            let found = self.read_again(record, EVERY)?;
            let is_other = |found: &Record| {
                found.status != Status::Foreign || self.database.table.archived.is_some()
            };
            // A row that a trigger moves, or that `where` excludes, is not taken for another one.
            if !is_whole && !found.as_ref().is_some_and(is_other) {
                return Ok(None);
            }
            let found = found
                .map_or_else(|| "is gone".into(), |record| format!("is {}", record.status_text));
            return Ok(Some(format!(
                "an archived record cannot be found again: it {found}, not ARCHIVED; name the value of its \
                 status (status.archived) or a condition for it (where_archived)"
            )));
        };
        if !is_whole {
            return Ok(None);
        }
        let restored = self.settle(&Arc::new(archived), Transition::Renewed, Counter::Reset, at);
        let refused = match restored {
            Err(error) if error.is_refusal => Some(error.message),
            restored => (!restored?).then(|| "the table ignored the change".into()),
        };
        if let Some(why) = refused {
            return Ok(Some(format!("an archived record cannot be restored: {why}")));
        }
        let is_pending = self.database.table.pending();
        let restored = self.read_again(record, &is_pending)?;
        let restored = restored.filter(|record| record.status.is_pending());
        let Some(restored) = restored else {
            return Ok(Some(
                "a restored record is not pending: let on_restore undo what on_archive sets".into(),
            ));
        };
        let is_due = restored.due_at.is_none_or(|due_at| due_at <= at);
        Ok((!is_due).then(|| "a restored record is not due".into()))
    }

    /// Writes a settlement. Returns false if the row did not change.
    fn settle(
        &mut self,
        record: &Arc<Record>,
        transition: Transition,
        counter: Counter,
        at: Instant,
    ) -> DbResult<bool> {
        let settlement = Settlement { transition, counter, at, not_before: None };
        let write = RowWrite::new(record, None, settlement);
        Ok(!self.write_rows(&[(0, &write)])?.is_empty())
    }

    fn read_again(&mut self, record: &Record, condition: &str) -> DbResult<Option<Record>> {
        let SqlDatabase { engine, table, .. } = &mut self.database;
        let reader = RecordReader::without_payload(table);
        let sql = format!("{} AND {condition}", table.of_id(&reader.sql()));
        let mut found = None;
        engine.rows(&sql, &id_params(&record.id), |row| {
            found = reader.record(row, 0);
            true
        })?;
        Ok(found)
    }
}

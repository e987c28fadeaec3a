//! Rehearsal: the writes that may become necessary for records, made in a transaction and taken back; and the
//! ends of a record and its way back: whether one that has succeeded is no longer pending, and one that is
//! archived is found again and restored.

use std::sync::Arc;

use backlog_schedule::{Counter, Instant, Record, Settlement, Status, Transition, counted};

use super::TableStore;
use crate::engine::{Engine, NumberedWrites, RowAfter, SqlDatabase};
use crate::error::{DbError, DbErrorKind, DbResult};
use crate::sql::{EVERY, id_params};
use crate::table::RecordReader;
use crate::writes::{
    Guards, NOT_TAKEN, PossibleWrites, Rehearsal, RowConstraints, RowWrite, STILL_PENDING,
};

type Wrong = DbResult<Option<String>>;

impl<E: Engine> TableStore<E> {
    /// Rehearses each record alone and, where records can conflict, after the successes of those before it.
    pub(super) fn rehearse_all(
        &mut self,
        records: &[PossibleWrites],
        in_hand: &[RowWrite],
    ) -> DbResult<Vec<Rehearsal>> {
        let mut rehearsed = self.rehearse_each(records)?;
        if self.constraints.is_none_or(|it| it.rows != RowConstraints::AcrossRows) {
            return Ok(rehearsed);
        }
        let is_accepted = |(_, rehearsal): &(_, &mut _)| **rehearsal == Rehearsal::Taken;
        let accepted = records.iter().zip(&mut rehearsed).filter(is_accepted);
        let mut accepted: Vec<_> = accepted.collect();
        let together: Vec<_> = accepted.iter().map(|(writes, _)| *writes).collect();
        if in_hand.len() + together.len() < 2
            || self.rehearse_after(in_hand, &together)? == Rehearsal::Taken
        {
            return Ok(rehearsed);
        }
        let mut before = in_hand.to_vec();
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

    /// Rehearses each record alone. What the table refuses of the first, it mostly refuses of all.
    fn rehearse_each(&mut self, records: &[PossibleWrites]) -> DbResult<Vec<Rehearsal>> {
        let tries_in_one_go = self.has_accepted && !E::WRITES_SINGLY;
        let is_accepted = match tries_in_one_go {
            true => self.try_each(records)?,
            false => vec![false; records.len()],
        };
        let rehearse = |(writes, is_accepted)| match is_accepted {
            true => Ok(Rehearsal::Taken),
            false => self.rehearse_after(&[], &[writes]),
        };
        records.iter().zip(is_accepted).map(rehearse).collect()
    }

    /// Tries all records in one round trip. The others are rehearsed one by one, for the exact reason.
    fn try_each(&mut self, records: &[PossibleWrites]) -> DbResult<Vec<bool>> {
        let table = &self.database.table;
        let charged: Vec<_> =
            records.iter().map(|it| table.guards_after_charge(&it.record)).collect();
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

    /// Makes other writes and then those of each chain in a transaction, and takes them back.
    fn rehearse_after(
        &mut self,
        before: &[RowWrite],
        records: &[&PossibleWrites],
    ) -> DbResult<Rehearsal> {
        let chains = records.iter().map(|it| it.chains.len()).min().unwrap_or_default();
        for chain in 0..chains {
            self.database.engine.begin(true)?;
            let before: Vec<_> = before.iter().enumerate().collect();
            let written = if before.is_empty() { Ok(Vec::new()) } else { self.change(&before) };
            match written {
                // One that the table refuses by now is in nobody's way, nor is one that is locked.
                Err(error) if error.is_refusal || self.gives_way_to(&error) => {
                    self.database.engine.roll_back();
                    self.database.engine.begin(true)?;
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

    fn rehearse_chain(&mut self, records: &[&PossibleWrites], chain: usize) -> DbResult<Rehearsal> {
        let mut charged: Vec<Option<Guards>> = vec![None; records.len()];
        let steps = records.iter().map(|it| it.chains[chain].len()).min().unwrap_or_default();
        for step in 0..steps {
            let writes = records.iter().zip(&charged);
            let writes: Vec<_> = writes
                .map(|(writes, charged)| writes.write(chain, step, charged.as_ref()))
                .collect();
            let numbered: Vec<_> = writes.iter().enumerate().collect();
            let refused = |it: &Self, write: &RowWrite, why: &str| {
                Ok(Rehearsal::Refused(it.refusal(write.record, &write.settlement, why)))
            };
            let seen = match self.change(&numbered) {
                Err(error) if error.is_refusal => return refused(self, &writes[0], &error.message),
                Err(error) if self.gives_way_to(&error) => {
                    let RowWrite { record, settlement, .. } = &writes[0];
                    return Ok(Rehearsal::Locked(self.refusal(record, settlement, &error.message)));
                }
                seen => seen?,
            };
            let states = match writes.iter().any(RowWrite::ends) || seen.len() < writes.len() {
                true => self.database.engine.states(&self.database.table, &numbered)?,
                false => Vec::new(),
            };
            for (number, write) in &numbered {
                let state = states.iter().find(|state| state.number == *number);
                let was_written = seen.iter().any(|row| row.number == *number);
                if was_written && write.ends() && state.is_some_and(|state| state.is_pending) {
                    return refused(self, write, STILL_PENDING);
                }
                if was_written {
                    continue;
                }
                // Once it is charged nobody else can change it, until the transaction ends.
                if write.charged.is_none() && !state.is_some_and(|state| state.is_expected) {
                    return Ok(Rehearsal::ChangedMeanwhile);
                }
                return refused(self, write, NOT_TAKEN);
            }
            let begun: Vec<_> = writes.iter().map(RowWrite::begins).collect();
            for seen in seen.into_iter().filter(|seen| begun[seen.number]) {
                charged[seen.number] = Some(seen.guards);
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

    fn change(&mut self, changes: &NumberedWrites) -> DbResult<Vec<RowAfter>> {
        let SqlDatabase { engine, table, .. } = &mut self.database;
        let mut written = engine.write(table, changes)?;
        self.read_charges(changes, &mut written)?;
        Ok(written)
    }

    /// Whether a rehearsal leaves a locked row alone. SQLite has waited, and a pass that stops has cancelled.
    fn gives_way_to(&self, error: &DbError) -> bool {
        error.kind == DbErrorKind::Busy && E::TRIES > 0 && !self.retry.must_give_up()
    }

    fn refusal(&self, record: &Record, settlement: &Settlement, why: &str) -> String {
        let SqlDatabase { engine, table, .. } = &self.database;
        let (place, name) = (engine.label(), &table.name);
        let status = table.shown(settlement.status(record.status));
        format!("could not write to {place}: table {name} refuses {status}: {why}")
    }

    /// Plays a success, and each way to be archived: by hand, and by the last of so many attempts.
    pub(super) fn play_way_back(&mut self, record: &Arc<Record>, most: u32) -> Wrong {
        let at = self.retry.clock.now();
        let ends = [
            (Transition::Succeeded, None),
            (Transition::Archived, None),
            (Transition::Archived, Some(most)),
        ];
        for (transition, attempts) in ends {
            if transition == Transition::Archived && !self.database.table.can_be(Status::Archived) {
                break;
            }
            let failed = |failures| {
                let last_error = Some("rehearsal".into());
                Counter::Set { failures, last_failure_at: at, last_error }
            };
            let counter = attempts.map_or(Counter::AsBefore, failed);
            self.database.engine.begin(true)?;
            let wrong = match self.play(record, transition, counter, at) {
                // What the table refuses of a pass is found by its rehearsal, but for the last attempt.
                Err(error) if error.is_refusal => Ok(attempts.map(|attempts| {
                    let attempts = counted(attempts.into(), "attempt");
                    format!("a record cannot be archived after {attempts}: {}", error.message)
                })),
                Err(error) => Err(error),
                Ok(false) => Ok(None),
                Ok(true) if transition == Transition::Succeeded => self.look_at_success(record),
                Ok(true) => self.look_at_archived(record, at),
            };
            self.database.engine.roll_back();
            if let Some(wrong) = wrong? {
                return Ok(Some(wrong));
            }
        }
        Ok(None)
    }

    fn look_at_success(&mut self, record: &Arc<Record>) -> Wrong {
        let left = self.read_again(record, EVERY)?;
        Ok(left.and_then(|left| match left.status {
            Status::New | Status::Error => Some(format!(
                "a record that has succeeded stays pending, {}: on_success changes nothing else",
                left.status.name()
            )),
            Status::Archived => Some(
                "a record that has succeeded is listed as ARCHIVED, and would be restored with those: let \
                 where_archived tell them apart"
                    .into(),
            ),
            Status::Success | Status::Foreign => None,
        }))
    }

    fn look_at_archived(&mut self, record: &Arc<Record>, at: Instant) -> Wrong {
        let is_listed = self.database.table.of_statuses(&[Status::Archived]);
        let listed = self.read_again(record, &is_listed)?;
        let Some(archived) = listed.filter(|it| it.status == Status::Archived) else {
            let found = self.read_again(record, EVERY)?;
            let found =
                found.map_or_else(|| "is gone".into(), |it| format!("is {}", it.status_text));
            return Ok(Some(format!(
                "a record that is archived cannot be found again: it {found}, not ARCHIVED; say which value of \
                 the status that is (status.archived), or what then holds (where_archived)"
            )));
        };
        let restored = self.play(&Arc::new(archived), Transition::Renewed, Counter::Reset, at);
        let refused = match restored {
            Err(error) if error.is_refusal => Some(error.message),
            restored => (!restored?).then(|| "its row does not take it".into()),
        };
        if let Some(why) = refused {
            return Ok(Some(format!("an archived record cannot be restored: {why}")));
        }
        let is_pending = self.database.table.pending();
        let restored = self.read_again(record, &is_pending)?.filter(|it| it.status.is_pending());
        let Some(restored) = restored else {
            return Ok(Some(
                "an archived record that is restored is not pending: let on_restore take back what \
                 on_archive sets"
                    .into(),
            ));
        };
        let is_due = restored.due_at.is_none_or(|due_at| due_at <= at);
        Ok((!is_due).then(|| "an archived record that is restored is not due".into()))
    }

    /// Whether a row takes a settlement.
    fn play(
        &mut self,
        record: &Arc<Record>,
        transition: Transition,
        counter: Counter,
        at: Instant,
    ) -> DbResult<bool> {
        let settlement = Settlement { transition, counter, at, not_before: None };
        let write = RowWrite::new(record, None, settlement);
        Ok(!self.change(&[(0, &write)])?.is_empty())
    }

    /// The record, if its row is there and meets a condition.
    fn read_again(&mut self, record: &Record, condition: &str) -> DbResult<Option<Record>> {
        let SqlDatabase { engine, table, .. } = &mut self.database;
        let selected = RecordReader::without_payload(table);
        let sql = format!("{} AND {condition}", table.of_id(&selected.sql()));
        let mut found = None;
        engine.rows(&sql, &id_params(&record.id), |row| {
            found = selected.record(row, 0);
            true
        })?;
        Ok(found)
    }
}

//! The table store: the claims and guarded writes of a pass, on any engine that speaks SQL.

mod rehearsal;

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use anyhow::{Result, bail};
use backlog_schedule::{Counter, Id, Query, Record, Transition};

use super::engine::{
    ClaimState, Constraints, Engine, Locks, NumberedWrites, RowAfter, RowState, SqlDatabase,
};
use super::error::{DbError, DbResult, Refusal};
use crate::retry::{Reconnecting, Retry};
use crate::store::{
    Begun, Claim, ClaimRequest, IsDue, Limits, Page, ReadResult, Reader, Store, Until,
};
use crate::writes::{
    NOT_PENDING, NOT_TAKEN, PossibleWrites, Rehearsal, RowConstraints, RowWrite, STILL_PENDING,
    WriteResult,
};

/// A table together with the means to claim its records.
pub struct TableStore<E: Engine> {
    /// What ends with the claims goes first, and the connection last.
    pub locks: E::Locks,
    pub database: SqlDatabase<E>,
    retry: Retry,
    /// Set once they are known.
    constraints: Option<Constraints>,
    /// Whether the table has accepted a rehearsal.
    has_accepted: bool,
    recover: Recover<E>,
}

/// Makes lost sessions again, with what they held.
pub type Recover<E> = fn(&mut TableStore<E>, &DbError) -> Result<()>;

impl<E: Engine> TableStore<E> {
    pub fn new(
        database: SqlDatabase<E>,
        locks: E::Locks,
        retry: Retry,
        recover: Recover<E>,
    ) -> Self {
        Self { locks, database, retry, constraints: None, has_accepted: false, recover }
    }

    fn constraints(&mut self) -> DbResult<Constraints> {
        if let Some(known) = self.constraints {
            return Ok(known);
        }
        let SqlDatabase { engine, table, .. } = &mut self.database;
        let mut found = engine.constraints(table)?;
        if table.ends_depend_on_row() {
            found.rows = found.rows.max(RowConstraints::OfOneRow);
        }
        Ok(*self.constraints.insert(found))
    }

    /// Reads charges that were written just now again, if the table may have changed them.
    fn read_charges(&mut self, changes: &NumberedWrites, written: &mut [RowAfter]) -> DbResult<()> {
        let begun: Vec<_> = changes.iter().copied().filter(|(_, it)| it.begins()).collect();
        if begun.is_empty() || !self.constraints()?.change_charges {
            return Ok(());
        }
        let SqlDatabase { engine, table, .. } = &mut self.database;
        for state in engine.states(table, &begun)? {
            if let Some(row) = written.iter_mut().find(|row| row.number == state.number) {
                row.guards = state.guards;
            }
        }
        Ok(())
    }

    /// Writes changes, all or none, and claims some of the next candidates.
    pub fn write(&mut self, changes: &[RowWrite], next: &[Id]) -> Result<Vec<WriteResult>> {
        let mut written = vec![WriteResult::ChangedMeanwhile; changes.len()];
        let mut all: Vec<_> = changes.iter().enumerate().collect();
        if changes.iter().any(|change| change.is_repeated) {
            self.find_written(&mut all, &mut written)?;
        }
        let is_unbroken = |(_, change): &(usize, &RowWrite)| {
            self.locks.claim_state(&change.record.id) == ClaimState::Unbroken
        };
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
            return Ok(self.noted(changes, written)?);
        }
        // Without a status column nothing but the condition makes a row finished, or pending again.
        let sees_ends = self.database.table.ends_by_condition()
            && open.iter().any(|(_, change)| change.ends() || change.renews());
        let has_begun = open.iter().any(|(_, change)| change.begins());
        let is_transaction =
            E::WRITES_SINGLY || sees_ends || has_begun && self.constraints()?.change_charges;
        if is_transaction {
            self.database.engine.begin(false)?;
        }
        // Outcomes and attempts are two statements.
        let is_partial = !is_transaction && has_begun && !open.iter().all(|(_, one)| one.begins());
        let rows = self.locks.write(&mut self.database, &open, next);
        let mut rows = rows.map_err(|why| DbError { is_partial, ..why })?;
        self.read_charges(&open, &mut rows)?;
        for row in rows {
            let change = &changes[row.number];
            match (sees_ends, row.is_pending) {
                (true, true) if change.ends() => bail!(DbError::refusal(STILL_PENDING)),
                (true, false) if change.renews() => bail!(DbError::refusal(NOT_PENDING)),
                (_, _) => {}
            }
            written[row.number] = change.written(row.guards);
        }
        open.retain(|(number, _)| written[*number] == WriteResult::ChangedMeanwhile);
        if !open.is_empty() {
            let SqlDatabase { engine, table, .. } = &mut self.database;
            // What the table did not take is as it was.
            // The others may be written by now.
            let is_partial = !is_transaction;
            let states =
                engine.states(table, &open).map_err(|why| DbError { is_partial, ..why })?;
            for state in states.iter().filter(|state| state.is_expected) {
                let refusal = Refusal { why: NOT_TAKEN.into(), is_lock: false };
                written[state.number] = WriteResult::Refused(refusal);
            }
        }
        if is_transaction {
            self.database.engine.execute("COMMIT")?;
        }
        for (number, change) in &fenced {
            if written[*number] == WriteResult::Written
                && change.settlement.counter == Counter::Untouched
            {
                written[*number] = WriteResult::WrittenAfterLoss;
            }
        }
        Ok(self.noted(changes, written)?)
    }

    /// Notes results, once a session that was lost has no more to write.
    fn noted(
        &mut self,
        changes: &[RowWrite],
        mut written: Vec<WriteResult>,
    ) -> DbResult<Vec<WriteResult>> {
        let is_doubtful = |(number, change): &(usize, &RowWrite)| {
            let result = &written[*number];
            let is_left = matches!(result, WriteResult::ChangedMeanwhile | WriteResult::ClaimLost);
            change.is_repeated && is_left
        };
        let mut doubtful: Vec<_> = changes.iter().enumerate().filter(is_doubtful).collect();
        if !doubtful.is_empty() {
            self.find_written(&mut doubtful, &mut written)?;
        }
        // What a lost session has written need not be durable.
        self.locks.note(changes, &written);
        Ok(written)
    }

    /// Selects the changes that may still be written after their claims were broken: another pass may have
    /// tried these records. An outcome is written if the row still carries the attempt's own charge, or
    /// again is as it was before the charge, which a crash of the server can undo. A success is also
    /// written if the row is merely pending, because the work is done. The counters then belong to another
    /// attempt, and stay. No attempt begins after a broken claim.
    fn fence<'a>(
        &self,
        changes: &NumberedWrites<'a>,
        states: &'a [RowState],
    ) -> Vec<(usize, RowWrite<'a>)> {
        let table = &self.database.table;
        let fenced = |(number, change): &(usize, &RowWrite<'a>)| {
            let RowWrite { record, charged, settlement, .. } = *change;
            let state = states.iter().find(|state| state.number == *number)?;
            let is_lost = self.locks.claim_state(&record.id) == ClaimState::Lost;
            let carries_own = charged.is_some_and(|charged| *charged == state.guards);
            let is_own = !is_lost && (carries_own || state.guards == table.guards_as_read(record));
            let mut settlement = settlement.clone();
            if !is_own && change.settlement.transition == Transition::Succeeded && state.is_pending
            {
                settlement.counter = Counter::Untouched;
            } else if !is_own || change.begins() {
                return None;
            }
            let charged = Some(&state.guards);
            let fenced = RowWrite { charged, settlement, is_fenced: true, ..(*change).clone() };
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
        let SqlDatabase { engine, table, .. } = &mut self.database;
        let states = engine.states(table, open)?;
        open.retain(|(number, change)| {
            let state = states.iter().find(|state| state.number == *number);
            let is_written = match table.deletes(change) {
                true => state.is_none(),
                false => state.is_some_and(|state| state.is_written),
            };
            if is_written {
                let charged = state.map(|state| state.guards.clone()).unwrap_or_default();
                written[*number] = change.written(charged);
            }
            !is_written
        });
        Ok(())
    }
}

impl<E: Engine> Reconnecting for TableStore<E> {
    type Engine = E;

    fn engine(&mut self) -> &mut E {
        &mut self.database.engine
    }

    fn reconnect(&mut self, why: &DbError) -> Result<()> {
        (self.recover)(self, why)
    }
}

impl<E: Engine> Reader for TableStore<E> {
    fn due(&mut self, query: &Query, is_due: IsDue<'_>) -> Result<Page> {
        Ok(self.database.page(query, is_due)?)
    }

    fn read(&mut self, id: &Id) -> Result<ReadResult> {
        Ok(self.database.read_one(id, false)?)
    }
}

impl<E: Engine> Store for TableStore<E> {
    fn limits(&self) -> Limits {
        self.locks.limits()
    }

    fn claim(&mut self, wanted: ClaimRequest<'_>) -> Result<Vec<(Id, Claim)>> {
        self.locks.claim(&mut self.database, wanted)
    }

    fn round(&mut self, writes: &[RowWrite], next: &[Id]) -> Result<Vec<WriteResult>> {
        self.write(writes, next)
    }

    fn release(&mut self, id: &Id) {
        self.locks.release(id);
    }

    fn flush(&mut self, until: Until) -> Result<()> {
        self.locks.flush(&mut self.database, until)
    }

    fn rehearse(&mut self, writes: &[PossibleWrites], held: &[RowWrite]) -> Result<Vec<Rehearsal>> {
        let rehearsed = self.rehearse_all(writes, held)?;
        self.has_accepted |= rehearsed.contains(&Rehearsal::Taken);
        Ok(rehearsed)
    }

    fn rehearse_way_back(&mut self, record: &Arc<Record>, most: u32) -> Result<Option<String>> {
        Ok(self.play_way_back(record, most)?)
    }

    fn begin(&mut self, token: &str, lost: Sender<Vec<Id>>) -> Result<Begun> {
        let heartbeat = self.locks.begin(&mut self.database, token, lost)?;
        Ok(Begun { row_constraints: self.constraints()?.rows, heartbeat })
    }

    fn keep_claims(&mut self, checks_sessions: bool) -> Result<Option<Duration>> {
        Ok(self.locks.keep(&mut self.database, checks_sessions)?)
    }
}

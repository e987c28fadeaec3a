//! The table store: claims and guarded writes of a pass, on any database with SQL.

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
    Ends, IGNORED, PossibleWrites, Rehearsal, RowConstraints, RowWrite, WriteResult,
};

pub struct TableStore<E: Engine> {
    // Dropped in this order: the claims first, the connection after them.
    pub locks: E::Locks,
    pub database: SqlDatabase<E>,
    retry: Retry,
    constraints: Option<Constraints>,
    has_accepted_rehearsal: bool,
    recover: Recover<E>,
}

/// Opens lost sessions again and restores their claims.
pub type Recover<E> = fn(&mut TableStore<E>, &DbError) -> Result<()>;

impl<E: Engine> TableStore<E> {
    pub fn new(
        database: SqlDatabase<E>,
        locks: E::Locks,
        retry: Retry,
        recover: Recover<E>,
    ) -> Self {
        let (constraints, has_accepted_rehearsal) = (None, false);
        Self { locks, database, retry, constraints, has_accepted_rehearsal, recover }
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

    /// Reads the guards of charges again if they cannot be predicted.
    fn read_charges(&mut self, writes: &NumberedWrites, rows: &mut [RowAfter]) -> DbResult<()> {
        let begun: Vec<_> = writes.iter().copied().filter(|(_, write)| write.begins()).collect();
        if begun.is_empty() || !self.constraints()?.change_charges {
            return Ok(());
        }
        let SqlDatabase { engine, table, .. } = &mut self.database;
        for state in engine.states(table, &begun)? {
            if let Some(row) = rows.iter_mut().find(|row| row.number == state.number) {
                row.guards = state.guards;
            }
        }
        Ok(())
    }

    /// Writes rows, in SQLite in one transaction, and claims some of the next candidates.
    pub fn write(&mut self, writes: &[RowWrite], next: &[Id]) -> Result<Vec<WriteResult>> {
        let mut results = vec![WriteResult::ChangedMeanwhile; writes.len()];
        let mut open: Vec<_> = writes.iter().enumerate().collect();
        if writes.iter().any(|write| write.is_repeated) {
            self.find_written(&mut open, &mut results)?;
        }
        let is_unbroken = |(_, write): &(usize, &RowWrite)| {
            self.locks.claim_state(&write.record.id) == ClaimState::Unbroken
        };
        let (mut open, broken): (Vec<_>, Vec<_>) = open.into_iter().partition(is_unbroken);
        let records = broken.iter().map(|(number, write)| (*number, write.record));
        let states =
            if broken.is_empty() { Vec::new() } else { self.database.states_of(records)? };
        let fenced = self.fence(&broken, &states);
        for (number, _) in broken {
            results[number] = WriteResult::ClaimLost;
        }
        open.extend(fenced.iter().map(|(number, write)| (*number, write)));
        if !open.is_empty() {
            self.write_open(writes, open, next, &mut results)?;
        }
        for (number, write) in &fenced {
            if results[*number] == WriteResult::Written
                && write.settlement.counter == Counter::Untouched
            {
                results[*number] = WriteResult::WrittenAfterLoss;
            }
        }
        self.note(writes, &mut results)?;
        Ok(results)
    }

    /// Writes rows: in SQLite several statements in a transaction, on PostgreSQL outcomes and charges in a round trip.
    fn write_open(
        &mut self,
        writes: &[RowWrite],
        mut open: Vec<(usize, &RowWrite)>,
        next: &[Id],
        results: &mut [WriteResult],
    ) -> Result<()> {
        // Without a status column only the condition finishes a row, or makes it pending again.
        let checks_ends = self.database.table.ends_by_condition()
            && open.iter().any(|(_, write)| write.ends() || write.renews());
        let has_begun = open.iter().any(|(_, write)| write.begins());
        let is_transaction =
            E::WRITES_SINGLY || checks_ends || has_begun && self.constraints()?.change_charges;
        if is_transaction {
            self.database.engine.begin(false)?;
        }
        // Outcomes and attempts are two statements.
        let is_partial =
            !is_transaction && has_begun && !open.iter().all(|(_, write)| write.begins());
        let rows = self.locks.write(&mut self.database, &open, next);
        let mut rows = rows.map_err(|error| DbError { is_partial, ..error })?;
        self.read_charges(&open, &mut rows)?;
        for row in rows {
            let write = &writes[row.number];
            if checks_ends
                && (write.ends() || write.renews())
                && let Some(why) = write.objection(row.is_pending)
            {
                bail!(DbError::refusal(why));
            }
            results[row.number] = write.result(row.guards);
        }
        open.retain(|(number, _)| results[*number] == WriteResult::ChangedMeanwhile);
        if !open.is_empty() {
            let SqlDatabase { engine, table, .. } = &mut self.database;
            // Other rows may be written by now.
            let is_partial = !is_transaction;
            let states = engine.states(table, &open);
            // A row that still matches its guards was refused.
            for state in states.map_err(|error| DbError { is_partial, ..error })? {
                if state.is_expected {
                    let refusal = Refusal { why: IGNORED.into(), is_lock: false };
                    results[state.number] = WriteResult::Refused(refusal);
                }
            }
        }
        if is_transaction {
            self.database.engine.execute("COMMIT")?;
        }
        Ok(())
    }

    /// Notes results, which may not be durable yet. Those of a lost session are looked up first.
    fn note(&mut self, writes: &[RowWrite], results: &mut [WriteResult]) -> DbResult<()> {
        let is_doubtful = |(number, write): &(usize, &RowWrite)| {
            let is_unwritten =
                matches!(results[*number], WriteResult::ChangedMeanwhile | WriteResult::ClaimLost);
            write.is_repeated && is_unwritten
        };
        let mut doubtful: Vec<_> = writes.iter().enumerate().filter(is_doubtful).collect();
        if !doubtful.is_empty() {
            self.find_written(&mut doubtful, results)?;
        }
        self.locks.note(writes, results);
        Ok(())
    }

    /// Selects the writes that are still safe after interrupted claims: another pass may have tried the records.
    ///
    /// If no other pass has the record, an outcome is written if the row still has the guards of its own charge, or is
    /// again as it was before the charge, because a crash of the server can undo one. A success is also written if the
    /// row is merely pending, because the work is done; its counters then belong to another attempt, and stay. No
    /// attempt begins after an interrupted claim.
    fn fence<'a>(
        &self,
        writes: &NumberedWrites<'a>,
        states: &'a [RowState],
    ) -> Vec<(usize, RowWrite<'a>)> {
        let table = &self.database.table;
        let fenced = |(number, write): &(usize, &RowWrite<'a>)| {
            let RowWrite { record, charged, settlement, .. } = *write;
            let state = states.iter().find(|state| state.number == *number)?;
            let is_lost = self.locks.claim_state(&record.id) == ClaimState::Lost;
            let has_own_charge = charged.is_some_and(|charged| *charged == state.guards);
            let is_own =
                !is_lost && (has_own_charge || state.guards == table.guards_as_read(record));
            let mut settlement = settlement.clone();
            if !is_own && settlement.transition == Transition::Succeeded && state.is_pending {
                settlement.counter = Counter::Untouched;
            } else if !is_own || write.begins() {
                return None;
            }
            let charged = Some(&state.guards);
            let fenced = RowWrite { charged, settlement, is_fenced: true, ..(*write).clone() };
            Some((*number, fenced))
        };
        writes.iter().filter_map(fenced).collect()
    }

    /// Finds the writes that a lost session has made, and removes them from `open`.
    fn find_written(
        &mut self,
        open: &mut Vec<(usize, &RowWrite)>,
        results: &mut [WriteResult],
    ) -> DbResult<()> {
        let SqlDatabase { engine, table, .. } = &mut self.database;
        let states = engine.states(table, open)?;
        open.retain(|(number, write)| {
            let state = states.iter().find(|state| state.number == *number);
            let is_written = match table.deletes(write) {
                true => state.is_none(),
                false => state.is_some_and(|state| state.is_written),
            };
            if is_written {
                let guards = state.map(|state| state.guards.clone()).unwrap_or_default();
                results[*number] = write.result(guards);
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

    fn claim(&mut self, request: ClaimRequest<'_>) -> Result<Vec<(Id, Claim)>> {
        self.locks.claim(&mut self.database, request)
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
        self.has_accepted_rehearsal |= rehearsed.contains(&Rehearsal::Taken);
        Ok(rehearsed)
    }

    fn rehearse_ends(&mut self, record: &Arc<Record>, ends: Ends) -> Result<Option<String>> {
        Ok(self.complaint_of_ends(record, ends)?)
    }

    fn begin(&mut self, token: &str, lost: Sender<Vec<Id>>) -> Result<Begun> {
        let heartbeat = self.locks.begin(&mut self.database, token, lost)?;
        Ok(Begun { row_constraints: self.constraints()?.rows, heartbeat })
    }

    fn keep_claims(&mut self, checks_sessions: bool) -> Result<Option<Duration>> {
        Ok(self.locks.keep(&mut self.database, checks_sessions)?)
    }
}

//! Recovery of claims: opens lost sessions again, and takes their locks back unless another pass has the record.

use std::time::Duration;

use anyhow::{Context, Result};

use super::{CLAIMING, LOCK, LockedRecord, PgLocks, WRITING};
use crate::engine::{ClaimState, Engine};
use crate::error::{DbError, DbErrorKind, DbResult};
use crate::postgres::dialect::Param;
use crate::postgres::session::Session;
use crate::postgres::statements::{granted, held_by_others, take_locks};
use crate::postgres::{PgDatabase, PgEngine};
use crate::table_store::TableStore;
use crate::writes::RowWrite;

/// Pause for new claims, as after a restart of the server, in which each pass takes its own claims back first.
pub(super) const HOLD_OFF: Duration = Duration::from_secs(3);

/// Pause before the next try to take a lock back. Another pass may have it for a moment, to read the record.
const RETAKE_PAUSE: Duration = Duration::from_millis(25);

/// Number of refusals in a row after which a record counts as lost, where no column shows whose attempt it is.
const REFUSALS_OF_LOST: u8 = 2;

/// Maximum number of server processes of lost sessions to remember.
const OLD_BACKENDS: usize = 16;

/// Opens lost sessions again, and takes their locks back. An error names records whose outcomes a crash may undo.
pub fn recover(store: &mut TableStore<PgEngine>, error: &DbError) -> Result<()> {
    let recovered = recover_sessions(store, error);
    let unsynced = store.locks.sync.unsynced();
    if unsynced.is_empty() {
        return recovered;
    }
    recovered.with_context(|| {
        format!(
            "if the server has crashed, the table may not show the outcomes of these records, and \
             they will be tried again: {}",
            unsynced.join(", ")
        )
    })
}

fn recover_sessions(store: &mut TableStore<PgEngine>, error: &DbError) -> Result<()> {
    let TableStore { locks, database, .. } = store;
    if error.kind == DbErrorKind::ReadOnly {
        database.engine.session.wait_for_writes();
        return Ok(());
    }
    // A server that shuts down ends one session after the other, so both are checked.
    let is_lost = |session: &mut Session| !session.connection.is_alive();
    let lost = [is_lost(&mut database.engine.session), locks.session.as_mut().is_some_and(is_lost)];
    locks.note_lost(lost);
    let server = database.engine.session.server.clone();
    if lost[WRITING] {
        // The old session may still run the statement that is repeated now. A pooler ends the statements of lost
        // clients, and PgBouncer 1.18 can crash on a cancel request meanwhile.
        if !locks.pooled {
            server.cancel_soon(&database.engine.session.connection.handle);
        }
        database.engine.session.reopen()?;
        let again = locks.restore(database, [true, false]);
        database.explain_read(again)?;
    }
    if lost[CLAIMING] {
        locks.open_session(&server)?;
        let again = locks.restore(database, [false, true]);
        database.explain_read(again)?;
    }
    // Only a crash of the server can undo commits, and it also ends the claiming session.
    if lost[CLAIMING] { write_again(store) } else { Ok(()) }
}

/// Repeats the writes of outcomes that may not have been durable. The table may refuse some by now.
fn write_again(store: &mut TableStore<PgEngine>) -> Result<()> {
    let unsynced = store.locks.sync.take_unsynced();
    for outcome in &unsynced {
        let change = RowWrite { is_repeated: true, ..outcome.change() };
        let Err(error) = store.write(&[change], &[]) else { continue };
        store.database.engine.roll_back();
        if !error.downcast_ref::<DbError>().is_some_and(|error| error.is_refusal) {
            store.locks.sync.put_back(unsynced);
            return Err(error);
        }
    }
    Ok(())
}

impl PgLocks {
    pub(super) fn note_lost(&mut self, lost: [bool; 2]) {
        let unused = self.ahead.drain();
        self.give_back_all(&unused);
        // Behind a pooler the claiming session has the first locks.
        let lost_locks = if self.pooled { [lost[CLAIMING], false] } else { lost };
        for index in [WRITING, CLAIMING].into_iter().filter(|index| lost_locks[*index]) {
            self.held.values_mut().for_each(|held| held.has_lock[index] = false);
            self.to_free[index].clear();
            self.is_uncertain[index] = false;
        }
        for index in [WRITING, CLAIMING].into_iter().filter(|index| lost[*index]) {
            let backend = std::mem::take(&mut self.backends[index]);
            self.old_backends.extend(Some(backend).filter(|backend| !backend.is_empty()));
        }
        let over = self.old_backends.len().saturating_sub(OLD_BACKENDS);
        self.old_backends.drain(..over);
        if lost[CLAIMING] {
            self.transaction_locks = None;
            self.sync.restart();
        }
        self.mark_broken();
        if lost[CLAIMING] && (lost[WRITING] || self.pooled) {
            self.hold_off_until = self.clock.monotonic().checked_add(HOLD_OFF);
        }
    }

    pub(super) fn mark_broken(&mut self) {
        for held in self.held.values_mut().filter(|held| !held.is_covered()) {
            held.state = held.state.max(ClaimState::Broken);
        }
    }

    /// Sets up a session that was opened again, and takes its locks back without waiting for the other session.
    fn restore(&mut self, on: &mut PgDatabase, is_new: [bool; 2]) -> DbResult<()> {
        if self.session.is_none() {
            return Ok(());
        }
        self.configure(&mut on.engine.session, is_new)?;
        if !self.pooled {
            // The server may not have noticed yet that a session is lost, also because the watchdog has its socket
            // open. A pooler ends sessions itself, and may have lent the processes to others by now.
            let sql = "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity \
                       WHERE pg_catalog.concat_ws(' ', pid, backend_start) = ANY($1)";
            on.engine.session.query(sql, &[Param::texts(&self.old_backends)])?;
        }
        let again = self.retake(on)?;
        if again.is_some() {
            on.engine.session.server.wake();
        }
        Ok(())
    }

    /// Tries once to take lost locks back, and returns the pause before the next try. A refusal may come from an old
    /// session of this pass or a pass that only reads, so the row decides, or else the holder of the lock.
    pub(super) fn retake(&mut self, on: &mut PgDatabase) -> DbResult<Option<Duration>> {
        for index in [WRITING, CLAIMING] {
            let is_missing =
                |held: &&LockedRecord| !held.has_lock[index] && held.state != ClaimState::Lost;
            let wanted: Vec<_> = self.held.values().filter(is_missing).collect();
            let ids: Vec<_> = wanted.iter().map(|held| held.record.id.clone()).collect();
            let keys: Vec<_> = wanted.iter().map(|held| held.keys[index]).collect();
            if ids.is_empty() || index == CLAIMING && self.pooled {
                continue;
            }
            let granted = match &mut self.session {
                _ if index == WRITING => self.take_first_locks(&mut on.engine.session, &keys)?,
                Some(session) if session.connection.is_open() => {
                    let taken = session.run(&take_locks(LOCK, keys, Vec::new()));
                    granted(&self.note_failure(CLAIMING, taken)?)
                }
                Some(_) | None => continue,
            };
            for (id, _) in ids.iter().zip(granted).filter(|(_, is_granted)| *is_granted) {
                if let Some(held) = self.held.get_mut(id) {
                    held.has_lock[index] = true;
                }
            }
        }
        self.find_losses(on)?;
        let lost = self.held.values().filter(|held| held.state == ClaimState::Lost);
        let lost: Vec<_> = lost.map(|held| held.record.id.clone()).collect();
        if let Some(ends) = self.lost.as_ref().filter(|_| !lost.is_empty()) {
            // The receiver ends with the handlers.
            let _ = ends.send(lost);
        }
        Ok((!self.has_all_locks()).then_some(RETAKE_PAUSE))
    }

    /// Marks claims without a lock as lost if another pass has the record, or if its row is gone or no longer pending.
    fn find_losses(&mut self, on: &mut PgDatabase) -> DbResult<()> {
        let is_exposed =
            |held: &&LockedRecord| !held.is_covered() && held.state != ClaimState::Lost;
        let exposed = self.held.values().filter(is_exposed).map(|held| held.record.clone());
        let exposed: Vec<_> = exposed.collect();
        if exposed.is_empty() {
            return Ok(());
        }
        let states = on.states_of(exposed.iter().enumerate())?;
        let keys = exposed.iter().filter_map(|record| Some(self.held.get(&record.id)?.keys[0]));
        let keys: Vec<_> = keys.collect();
        let others = held_by_others(&mut on.engine.session, &keys, &self.old_backends)?;
        for (number, record) in exposed.iter().enumerate() {
            let state = states.iter().find(|state| state.number == number);
            let Some(held) = self.held.get_mut(&record.id) else { continue };
            let is_others = others.contains(&held.keys[0]);
            held.refusals = if is_others { held.refusals.saturating_add(1) } else { 0 };
            if self.sync.is_held_back(&record.id) {
                // The outcome is written, and the pass with the lock sees it.
                if is_others {
                    self.sync.forget(&record.id);
                    self.held.remove(&record.id);
                }
                continue;
            }
            let is_lost = match state {
                Some(state) if state.is_pending => {
                    let has_mark = on.table.mark_column().is_some();
                    match &held.charged {
                        Some(charged) if has_mark => {
                            state.guards != *charged
                                && state.guards != on.table.guards_as_read(record)
                        }
                        Some(_) | None => held.refusals >= REFUSALS_OF_LOST,
                    }
                }
                Some(_) | None => true,
            };
            if is_lost {
                held.state = ClaimState::Lost;
            }
        }
        Ok(())
    }
}

//! Recovery of claims: makes lost sessions again, takes their locks back, and gives up the records that
//! another pass has got meanwhile.

use std::time::Duration;

use anyhow::{Context, Result};

use super::{LOCK, LockedRecord, PgLocks};
use crate::engine::{ClaimState, Engine, SqlDatabase};
use crate::error::{DbError, DbErrorKind};
use crate::postgres::PgEngine;
use crate::postgres::dialect::Param;
use crate::postgres::session::Session;
use crate::postgres::statements::{granted, held_by_others, take_locks};
use crate::table_store::TableStore;
use crate::writes::RowWrite;

/// How long no new record is claimed after all claims of all passes may have been lost, as in a restart of
/// the server. Meanwhile each pass takes back the records of its running handlers.
pub(super) const HOLD_OFF: Duration = Duration::from_secs(3);

/// The pause before a lost lock is asked for again. Another pass may have had it for a moment, to look at
/// the record.
const RETAKE_PAUSE: Duration = Duration::from_millis(25);

/// How many times in a row another pass must be seen with the lock before the record counts as lost. This
/// decides where no column shows whose attempt it is.
const REFUSALS: u8 = 2;

/// How many server processes of lost sessions are remembered.
const OLD_BACKENDS: usize = 16;

/// Makes lost sessions again, and takes back the locks that they held. If that fails, says what a crash of the
/// server would have taken away.
pub fn recover(store: &mut TableStore<PgEngine>, why: &DbError) -> Result<()> {
    let recovered = recover_sessions(store, why);
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

fn recover_sessions(store: &mut TableStore<PgEngine>, why: &DbError) -> Result<()> {
    let TableStore { locks, database, .. } = store;
    if why.kind == DbErrorKind::ReadOnly {
        database.engine.session.wait_for_writes();
        return Ok(());
    }
    // A server that shuts down ends one session after the other, so both are asked.
    let is_lost = |session: &mut Session| !session.connection.is_alive();
    let lost = [is_lost(&mut database.engine.session), locks.session.as_mut().is_some_and(is_lost)];
    locks.note_lost(lost);
    let server = database.engine.session.server.clone();
    if lost[0] {
        // The old session may still run a statement that is run again later. A pooler ends what a
        // client leaves behind, and PgBouncer 1.18 can crash when it is asked to cancel just then.
        if !locks.pooled {
            server.cancel_soon(&database.engine.session.connection.handle);
        }
        database.engine.session.open_again()?;
        let again = locks.make_ready(database, [true, false]);
        database.reading(again)?;
    }
    if lost[1] {
        locks.open_session(&server)?;
        let again = locks.make_ready(database, [false, true]);
        database.reading(again)?;
    }
    // Commits can be gone only after a crash of the server, and a crash ends this session too.
    if lost[1] { write_again(store) } else { Ok(()) }
}

/// Writes the outcomes again that may not have been durable. The table may refuse some by now.
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
    /// Notes that the writing or the claiming session is lost together with its locks. None of those has to
    /// be given back.
    pub(super) fn note_lost(&mut self, lost: [bool; 2]) {
        let unused = self.ahead.drain(true);
        self.give_back_all(&unused);
        let of_locks = if self.pooled { [lost[1], false] } else { lost };
        for of in [0, 1].into_iter().filter(|of| of_locks[*of]) {
            self.held.values_mut().for_each(|held| held.has[of] = false);
            self.freed[of].clear();
            self.is_unsure[of] = false;
        }
        for of in [0, 1].into_iter().filter(|of| lost[*of]) {
            let backend = std::mem::take(&mut self.backends[of]);
            self.old_backends.extend(Some(backend).filter(|it| !it.is_empty()));
        }
        let over = self.old_backends.len().saturating_sub(OLD_BACKENDS);
        self.old_backends.drain(..over);
        if lost[1] {
            self.taken = None;
            self.sync.begin_anew();
        }
        self.note_gaps();
        // If all passes have lost their claims, each pass first takes back its own.
        if lost[1] && (lost[0] || self.pooled) {
            self.hold_off_until = self.clock.monotonic().checked_add(HOLD_OFF);
        }
    }

    /// Notes which claims have no lock at present.
    pub(super) fn note_gaps(&mut self) {
        for held in self.held.values_mut().filter(|held| !held.is_covered()) {
            held.hold = held.hold.max(ClaimState::Broken);
        }
    }

    /// Prepares a session that was made again, and takes back its locks without waiting for the other
    /// session.
    fn make_ready(
        &mut self,
        on: &mut SqlDatabase<PgEngine>,
        new: [bool; 2],
    ) -> Result<(), DbError> {
        if self.session.is_none() {
            return Ok(());
        }
        self.tune(&mut on.engine.session, new)?;
        if !self.pooled {
            // The server may not know yet that lost sessions are gone, also because the watchdog keeps the socket of
            // one open. A pooler ends its processes itself, and may have lent them to others by now.
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

    /// Asks once for the locks that this pass has lost, and returns when to ask again. A refusal does not
    /// show that the record is lost: an old session of this pass may still have the lock, or another pass
    /// may only look at the record. So the row decides, if a column shows whose attempt it is. Otherwise the
    /// holder of the lock decides.
    pub(super) fn retake(
        &mut self,
        on: &mut SqlDatabase<PgEngine>,
    ) -> Result<Option<Duration>, DbError> {
        for of in [0, 1] {
            let is_missing = |held: &&LockedRecord| !held.has[of] && held.hold != ClaimState::Lost;
            let wanted: Vec<_> = self.held.values().filter(is_missing).collect();
            let ids: Vec<_> = wanted.iter().map(|held| held.record.id.clone()).collect();
            let keys: Vec<_> = wanted.iter().map(|held| held.keys[of]).collect();
            if ids.is_empty() || of == 1 && self.pooled {
                continue;
            }
            let granted = match &mut self.session {
                _ if of == 0 => self.take_first(&mut on.engine.session, &keys)?,
                Some(session) if session.connection.is_open() => {
                    let taken = session.ask(&take_locks(LOCK, keys, Vec::new()));
                    granted(&self.sure(1, taken)?)
                }
                Some(_) | None => continue,
            };
            for (id, _) in ids.iter().zip(granted).filter(|(_, is_granted)| *is_granted) {
                if let Some(held) = self.held.get_mut(id) {
                    held.has[of] = true;
                }
            }
        }
        self.find_losses(on)?;
        let lost = self.held.values().filter(|held| held.hold == ClaimState::Lost);
        let lost: Vec<_> = lost.map(|held| held.record.id.clone()).collect();
        if let Some(ends) = self.lost.as_ref().filter(|_| !lost.is_empty()) {
            // Nobody listens any more once the handlers have ended.
            let _ = ends.send(lost);
        }
        Ok((!self.is_whole()).then_some(RETAKE_PAUSE))
    }

    /// Finds out which of the records without a lock are lost.
    fn find_losses(&mut self, on: &mut SqlDatabase<PgEngine>) -> Result<(), DbError> {
        let is_exposed = |held: &&LockedRecord| !held.is_covered() && held.hold != ClaimState::Lost;
        let exposed = self.held.values().filter(is_exposed).map(|held| held.record.clone());
        let exposed: Vec<_> = exposed.collect();
        if exposed.is_empty() {
            return Ok(());
        }
        let states = on.states_of(exposed.iter().enumerate())?;
        let keys = exposed.iter().filter_map(|it| Some(self.held.get(&it.id)?.keys[0]));
        let keys: Vec<_> = keys.collect();
        let others = held_by_others(&mut on.engine.session, &keys, &self.old_backends)?;
        for (number, record) in exposed.iter().enumerate() {
            let state = states.iter().find(|state| state.number == number);
            let Some(held) = self.held.get_mut(&record.id) else { continue };
            let is_others = others.contains(&held.keys[0]);
            held.refusals = if is_others { held.refusals.saturating_add(1) } else { 0 };
            if self.sync.is_held_back(&record.id) {
                // Its outcome is written, and a pass that has the lock sees that.
                if is_others {
                    self.sync.let_go(&record.id);
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
                        Some(_) | None => held.refusals >= REFUSALS,
                    }
                }
                Some(_) | None => true,
            };
            if is_lost {
                held.hold = ClaimState::Lost;
            }
        }
        Ok(())
    }
}

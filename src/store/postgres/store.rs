//! The PostgreSQL store as a pass uses it.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use super::reconnect::Patient;
use super::sessions::Sessions;
use crate::query::Query;
use crate::record::{Facts, Id, Record, Settlement};
use crate::store::{
    Claim, Found, Interrupter, Page, Reader, Rehearsal, RowWrite, Store, WriteResult,
};

/// How often somebody sees after the sessions while handlers run.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);

impl Reader for Sessions {
    fn due(
        &mut self,
        selection: &Query,
        is_due: &mut dyn FnMut(Facts<'_>) -> bool,
    ) -> Result<Page> {
        self.database.due(selection, is_due)
    }

    fn read(&mut self, id: &Id) -> Result<Found> {
        self.database.read(id)
    }

    fn still_pending(&mut self, ids: &[Id]) -> Result<Option<Vec<Id>>> {
        self.patiently("read", |it, _| it.database.pending_of(ids)).map(Some)
    }
}

impl Store for Sessions {
    fn reader(&mut self) -> &mut dyn Reader {
        self.used = true;
        self
    }

    fn most_claims(&self) -> usize {
        self.claims.most()
    }

    fn claim(&mut self, ids: &[Id]) -> Result<Vec<(Id, Claim)>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        self.used = true;
        self.open()?;
        self.patiently("read", |sessions, _| sessions.claim_free(ids))
    }

    fn release(&mut self, id: &Id) {
        self.claims.release(id);
    }

    /// As long as there is more in hand, the next claim frees what was released, in the same
    /// statement, or else the heartbeat does.
    fn rest(&mut self) -> Result<()> {
        if self.claims.held.is_empty() { self.free() } else { Ok(()) }
    }

    fn apply(&mut self, changes: &[RowWrite]) -> Result<Vec<WriteResult>> {
        self.used = true;
        self.write_all(changes, Self::write)
    }

    fn rehearse(
        &mut self,
        record: &Record,
        possible_writes: &[Vec<Settlement>],
    ) -> Result<Rehearsal> {
        self.used = true;
        self.patiently("write to", |sessions, _| sessions.try_out(record, possible_writes))
    }

    fn start_watchdog(&mut self, token: &str) -> Result<()> {
        self.token = Some(token.into());
        self.open()?;
        self.wait_for_others()
    }

    fn heartbeat(&self) -> Option<Duration> {
        Some(HEARTBEAT_INTERVAL)
    }

    fn look_after(&mut self) -> Vec<Arc<OwnedFd>> {
        // Who uses them sees what becomes of them.
        if std::mem::take(&mut self.used) || self.claims.held.is_empty() {
            return Vec::new();
        }
        self.just_looking("read", |sessions, _| sessions.look_at_claims());
        let all = self.claims.session.iter().chain([&self.database.session]);
        all.filter_map(|session| session.socket.clone()).collect()
    }

    fn interrupter(&self) -> Option<Interrupter> {
        Some(self.database.server.interrupter())
    }
}

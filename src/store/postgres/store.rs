//! The PostgreSQL store as a pass uses it.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use anyhow::Result;

use super::PgDatabase;
use super::reconnect::{Heartbeat, Patience, Patient};
use super::sessions::Sessions;
use crate::lock::lock;
use crate::query::Query;
use crate::record::{Facts, Id, Record, Settlement};
use crate::store::{
    Claim, Found, Interrupter, Page, Reader, Rehearsal, RowWrite, Store, WriteResult,
};

/// How often somebody sees after the sessions while handlers run.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);

pub struct PgStore {
    sessions: Arc<Mutex<Sessions>>,
    heartbeat: Option<Heartbeat>,
}

impl PgStore {
    pub fn new(database: PgDatabase, patience: Patience) -> Self {
        let sessions = Sessions::new(database, patience);
        Self { sessions: Arc::new(Mutex::new(sessions)), heartbeat: None }
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        let mut sessions = lock(&self.sessions);
        sessions.used = true;
        sessions
    }
}

impl Reader for PgStore {
    fn due(
        &mut self,
        selection: &Query,
        is_due: &mut dyn FnMut(Facts<'_>) -> bool,
    ) -> Result<Page> {
        self.sessions().database.due(selection, is_due)
    }

    fn read(&mut self, id: &Id) -> Result<Found> {
        self.sessions().database.read(id)
    }

    fn still_pending(&mut self, ids: &[Id]) -> Result<Option<Vec<Id>>> {
        self.sessions().patiently("read", |it, _| it.database.pending_of(ids)).map(Some)
    }
}

impl Store for PgStore {
    fn reader(&mut self) -> &mut dyn Reader {
        self
    }

    fn most_claims(&self) -> usize {
        self.sessions().claims.most()
    }

    fn claim(&mut self, ids: &[Id]) -> Result<Vec<(Id, Claim)>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut sessions = self.sessions();
        sessions.open()?;
        sessions.patiently("read", |sessions, _| sessions.claim(ids))
    }

    fn release(&mut self, id: &Id) {
        self.sessions().claims.release(id);
    }

    /// As long as there is more in hand, the next claim frees what was released, in the same
    /// statement, or else the heartbeat does.
    fn rest(&mut self) -> Result<()> {
        let mut sessions = self.sessions();
        if sessions.claims.held.is_empty() { sessions.free() } else { Ok(()) }
    }

    fn apply(&mut self, changes: &[RowWrite]) -> Result<Vec<WriteResult>> {
        self.sessions().write_all(changes, Sessions::write)
    }

    fn rehearse(
        &mut self,
        record: &Record,
        possible_writes: &[Vec<Settlement>],
    ) -> Result<Rehearsal> {
        self.sessions()
            .patiently("write to", |sessions, _| sessions.try_out(record, possible_writes))
    }

    fn start_watchdog(&mut self, token: &str) -> Result<()> {
        let mut sessions = self.sessions();
        sessions.token = Some(token.into());
        sessions.open()?;
        sessions.wait_for_others()?;
        drop(sessions);
        let sessions = self.sessions.clone();
        self.heartbeat = Some(Heartbeat::start(HEARTBEAT_INTERVAL, move || {
            let mut sessions = lock(&sessions);
            // Who uses them sees what becomes of them.
            if std::mem::take(&mut sessions.used) || sessions.claims.held.is_empty() {
                return Vec::new();
            }
            if let Err(error) = sessions.look_after() {
                log::debug!("{error:#}");
            }
            let claiming = sessions.claims.session.iter();
            let all = claiming.chain([&sessions.database.session]);
            all.filter_map(|session| session.socket.clone()).collect()
        })?);
        Ok(())
    }

    fn interrupter(&self) -> Option<Interrupter> {
        Some(self.sessions().database.interrupter())
    }

    fn finish(&mut self) -> Result<()> {
        self.heartbeat = None;
        self.rest()
    }
}

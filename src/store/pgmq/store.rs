//! The pgmq store as a pass uses it. A message that was read stays hidden as long as this process
//! lives to put off its return; its count of reads shows whether it is still this one's.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use anyhow::Result;

use super::Queue;
use super::work::{HIDDEN_SECS, Work};
use crate::lock::lock;
use crate::query::Query;
use crate::record::{Facts, Id, Record, Settlement};
use crate::store::postgres::{Heartbeat, Patience, Patient, PgDatabase};
use crate::store::watchdog::Watchdog;
use crate::store::{
    Claim, Database, Found, Interrupter, Page, Reader, Rehearsal, RowWrite, Store, WriteResult,
};

/// How often a living reader puts off the return of its messages.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(HIDDEN_SECS / 3);
/// How many messages are held at a time.
const MOST_CLAIMS: usize = 256;

pub struct PgmqStore {
    work: Arc<Mutex<Work>>,
    watchdog: Option<Watchdog>,
    heartbeat: Option<Heartbeat>,
}

impl PgmqStore {
    pub fn new(queue: Queue, database: PgDatabase, patience: Patience) -> Self {
        let work = Work::new(queue, database, patience);
        Self { work: Arc::new(Mutex::new(work)), watchdog: None, heartbeat: None }
    }

    fn work(&self) -> MutexGuard<'_, Work> {
        lock(&self.work)
    }
}

impl Reader for PgmqStore {
    fn due(
        &mut self,
        selection: &Query,
        is_due: &mut dyn FnMut(Facts<'_>) -> bool,
    ) -> Result<Page> {
        self.work().database.due(selection, is_due)
    }

    fn read(&mut self, id: &Id) -> Result<Found> {
        self.work().database.read(id)
    }
}

impl Store for PgmqStore {
    fn reader(&mut self) -> &mut dyn Reader {
        self
    }

    fn most_claims(&self) -> usize {
        MOST_CLAIMS
    }

    /// The queue hands out messages in its own order: as many as are asked for, whichever.
    fn claim(&mut self, ids: &[Id]) -> Result<Vec<(Id, Claim)>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        self.work().patiently("read", |work, _| work.read(ids.len()))
    }

    fn claim_named(&mut self, ids: &[Id]) -> Result<Vec<(Id, Claim)>> {
        self.work().patiently("read", |work, _| work.look_up(ids))
    }

    fn release(&mut self, id: &Id) {
        let mut work = self.work();
        if let Some(held) = work.held.remove(id)
            && held.is_hidden
        {
            work.given_back.push(held);
        }
    }

    fn rest(&mut self) -> Result<()> {
        self.work().patiently("write to", |work, _| work.give_back())
    }

    fn apply(&mut self, changes: &[RowWrite]) -> Result<Vec<WriteResult>> {
        self.work().write_all(changes, Work::write)
    }

    /// What can be refused is to archive it, or to delete it.
    fn rehearse(&mut self, record: &Record, _: &[Vec<Settlement>]) -> Result<Rehearsal> {
        let mut work = self.work();
        Ok(match work.patiently_or_refused(false, |work, _| work.try_out(record))? {
            Ok(()) => Rehearsal::Taken,
            Err(why) => Rehearsal::Refused(format!(
                "could not write to {}: queue {} does not let go of it: {why}",
                work.database.place(),
                work.queue.name
            )),
        })
    }

    fn start_watchdog(&mut self, token: &str) -> Result<()> {
        self.watchdog = Some(Watchdog::start(None, token)?);
        let work = self.work.clone();
        self.heartbeat = Some(Heartbeat::start(HEARTBEAT_INTERVAL, move || {
            if let Err(error) = lock(&work).look_after() {
                log::debug!("{error:#}");
            }
            Vec::new()
        })?);
        Ok(())
    }

    fn interrupter(&self) -> Option<Interrupter> {
        Some(self.work().database.interrupter())
    }

    fn finish(&mut self) -> Result<()> {
        self.heartbeat = None;
        self.rest()
    }
}

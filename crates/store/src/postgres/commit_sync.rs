//! Asynchronous commits (`synchronous_commit = off`), which one flush makes durable, as on SQLite. A claim is released
//! only after the flush, so that no other pass claims a record before its outcome would survive a crash of the server.

use std::sync::Arc;
use std::time::{Duration, Instant as Monotonic};

use backlog_schedule::{Id, Instant, Record, Settlement};

use super::server::RequestError;
use super::session::Session;
use crate::clock::Clock;
use crate::error::DbResult;
use crate::writes::{Guards, RowWrite, WriteResult};

/// A commit with this user's settings makes all earlier ones durable, but only if it writes to the write-ahead log.
const FLUSH: &str = "SELECT pg_catalog.pg_logical_emit_message(true, 'backlog', '')";

/// Minimum time between two flushes, so that commits share them. The first outcome after a pause is flushed at once.
const MIN_FLUSH_INTERVAL: Duration = Duration::from_millis(5);

/// Outcomes that are written and may not be durable yet.
pub struct CommitSync {
    clock: Clock,
    flushed_at: Option<Monotonic>,
    /// Outcomes that were written before the running flush began.
    flushing: Option<Batch>,
    next: Batch,
    /// Records whose outcomes are durable, so that their claims can be released.
    durable: Vec<Id>,
}

#[derive(Default)]
struct Batch {
    outcomes: Vec<Unsynced>,
    released: Vec<Id>,
}

/// A written outcome, with everything to write it again.
pub struct Unsynced {
    record: Arc<Record>,
    charged: Option<Guards>,
    settlement: Settlement,
    retry_at: Option<Instant>,
}

impl Unsynced {
    pub fn change(&self) -> RowWrite<'_> {
        let Self { record, charged, settlement, retry_at } = self;
        let change = RowWrite::new(record, charged.as_ref(), settlement.clone());
        RowWrite { retry_at: *retry_at, ..change }
    }
}

impl CommitSync {
    pub fn new(clock: Clock) -> Self {
        let (next, durable) = (Batch::default(), Vec::new());
        Self { clock, flushed_at: None, flushing: None, next, durable }
    }

    pub fn can_flush(session: &mut Session) -> DbResult<bool> {
        match session.query(FLUSH, &[]) {
            Ok(_) => Ok(true),
            Err(error) if error.is_lost() => Err(error),
            Err(error) => {
                log::debug!("commits wait for the disk: {error}");
                Ok(false)
            }
        }
    }

    pub fn note(&mut self, changes: &[RowWrite], written: &[WriteResult]) {
        let is_outcome = |result: &WriteResult| {
            matches!(result, WriteResult::Written | WriteResult::WrittenAfterLoss)
        };
        let done = changes.iter().zip(written).filter(|(_, result)| is_outcome(result));
        self.next.outcomes.extend(done.map(|(change, _)| Unsynced {
            record: change.record.clone(),
            charged: change.charged.cloned(),
            settlement: change.settlement.clone(),
            retry_at: change.retry_at,
        }));
    }

    /// Keeps the claim of a record until the present outcomes are durable. Returns false if they are already.
    pub fn hold_back(&mut self, id: &Id) -> bool {
        let batch = match &mut self.flushing {
            _ if !self.next.outcomes.is_empty() => &mut self.next,
            Some(flushing) => flushing,
            None => return false,
        };
        batch.released.push(id.clone());
        true
    }

    pub fn held_back(&self) -> usize {
        let flushing = self.flushing.as_ref().map_or(0, |batch| batch.released.len());
        flushing + self.next.released.len() + self.durable.len()
    }

    pub fn is_held_back(&self, id: &Id) -> bool {
        let mut batches = self.flushing.iter().chain([&self.next]);
        batches.any(|batch| batch.released.contains(id)) || self.durable.contains(id)
    }

    pub fn begin(&mut self, session: &mut Session) -> DbResult<()> {
        let now = self.clock.monotonic();
        let is_recent = |at: Monotonic| now.saturating_duration_since(at) < MIN_FLUSH_INTERVAL;
        if self.flushed_at.is_some_and(is_recent) { Ok(()) } else { self.begin_now(session) }
    }

    fn begin_now(&mut self, session: &mut Session) -> DbResult<()> {
        if self.flushing.is_none() && !self.next.outcomes.is_empty() {
            self.flushed_at = Some(self.clock.monotonic());
            session.send(FLUSH)?;
            self.flushing = Some(std::mem::take(&mut self.next));
        }
        Ok(())
    }

    /// Completes the running flush if the server has answered, without waiting.
    pub fn advance(&mut self, session: &mut Session) -> DbResult<()> {
        if self.flushing.is_none() || !self.or_restart(session.connection.has_answered())? {
            return Ok(());
        }
        self.durable.extend(self.flushing.take().unwrap_or_default().released);
        self.begin(session)
    }

    /// Waits until all outcomes are durable.
    pub fn finish(&mut self, session: &mut Session) -> DbResult<()> {
        loop {
            self.begin_now(session)?;
            if self.flushing.is_none() {
                return Ok(());
            }
            self.or_restart(session.connection.wait_for_answer())?;
            self.durable.extend(self.flushing.take().unwrap_or_default().released);
        }
    }

    pub fn take_durable(&mut self) -> Vec<Id> {
        std::mem::take(&mut self.durable)
    }

    /// A failed flush has made nothing durable.
    fn or_restart<T>(&mut self, answer: Result<T, RequestError>) -> DbResult<T> {
        Ok(answer.inspect_err(|_| self.restart())?)
    }

    /// Leaves the outcomes of a flush that failed, or whose session is lost, to the next flush.
    pub fn restart(&mut self) {
        if let Some(mut flushing) = self.flushing.take() {
            flushing.outcomes.append(&mut self.next.outcomes);
            flushing.released.append(&mut self.next.released);
            self.next = flushing;
        }
    }

    pub fn unsynced(&self) -> Vec<String> {
        self.next.outcomes.iter().map(|outcome| outcome.record.id.to_string()).collect()
    }

    /// Takes the outcomes that a crash may have undone. They are noted again when they are written.
    pub fn take_unsynced(&mut self) -> Vec<Unsynced> {
        std::mem::take(&mut self.next.outcomes)
    }

    pub fn put_back(&mut self, unsynced: Vec<Unsynced>) {
        self.next.outcomes.splice(0..0, unsynced);
    }

    pub fn forget(&mut self, id: &Id) {
        for batch in self.flushing.iter_mut().chain([&mut self.next]) {
            batch.released.retain(|released| released != id);
        }
    }
}

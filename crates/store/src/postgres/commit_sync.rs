//! The sync behind the commits of a pass: its rounds do not wait for the disk (`synchronous_commit =
//! off`), and one flush follows for all since the last one, as the sync of the log does on SQLite. A
//! claim is given back only then: no other pass sees a record as free before its outcome would survive
//! a crash of the server. An outcome that a crash takes away is kept here until it is written again.

use std::sync::Arc;
use std::time::{Duration, Instant as Monotonic};

use backlog_schedule::{Id, Instant, Record, Settlement};

use super::server::RequestError;
use super::session::Session;
use crate::clock::Clock;
use crate::error::DbError;
use crate::writes::{Guards, RowWrite, WriteResult};

/// A transaction that writes to the log, and commits as this user's transactions do: that makes durable
/// whatever was committed before. One that writes nothing, though it has a number, flushes nothing.
const FLUSH: &str = "SELECT pg_catalog.pg_logical_emit_message(true, 'backlog', '')";

/// The least time between two flushes, in which commits gather to share the second one. The first
/// outcome after a quiet spell is flushed at once, and the last ones at the next rest or heartbeat.
const MIN_FLUSH_INTERVAL: Duration = Duration::from_millis(5);

/// The outcomes that are written and may not be durable yet.
pub struct CommitSync {
    clock: Clock,
    flushed_at: Option<Monotonic>,
    /// Those that were written before the flush that is under way began, and those after.
    flushing: Option<Batch>,
    next: Batch,
    /// Records whose outcomes are durable, so that their claims can be given back.
    durable: Vec<Id>,
}

#[derive(Default)]
struct Batch {
    outcomes: Vec<Unsynced>,
    /// Records whose claims are to be given back.
    released: Vec<Id>,
}

/// An outcome that is written, with all it takes to write it again.
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

    pub fn can_flush(session: &mut Session) -> Result<bool, DbError> {
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
        let is_outcome =
            |it: &WriteResult| matches!(it, WriteResult::Written | WriteResult::WrittenAfterLoss);
        let done = changes.iter().zip(written).filter(|(_, it)| is_outcome(it));
        self.next.outcomes.extend(done.map(|(change, _)| Unsynced {
            record: change.record.clone(),
            charged: change.charged.cloned(),
            settlement: change.settlement.clone(),
            retry_at: change.retry_at,
        }));
    }

    /// Has the claim of a record wait for what was written until now, unless all of that is durable.
    pub fn holds_back(&mut self, id: &Id) -> bool {
        let batch = match &mut self.flushing {
            _ if !self.next.outcomes.is_empty() => &mut self.next,
            Some(flushing) => flushing,
            None => return false,
        };
        batch.released.push(id.clone());
        true
    }

    /// How many claims wait.
    pub fn held_back(&self) -> usize {
        let flushing = self.flushing.as_ref().map_or(0, |it| it.released.len());
        flushing + self.next.released.len() + self.durable.len()
    }

    pub fn is_held_back(&self, id: &Id) -> bool {
        let mut batches = self.flushing.iter().chain([&self.next]);
        batches.any(|batch| batch.released.contains(id)) || self.durable.contains(id)
    }

    /// Begins a flush if one is needed, none is under way, and the last one is not too near.
    pub fn begin(&mut self, session: &mut Session) -> Result<(), DbError> {
        let now = self.clock.monotonic();
        let is_near = |at: Monotonic| now.saturating_duration_since(at) < MIN_FLUSH_INTERVAL;
        if self.flushed_at.is_some_and(is_near) { Ok(()) } else { self.begin_now(session) }
    }

    fn begin_now(&mut self, session: &mut Session) -> Result<(), DbError> {
        if self.flushing.is_none() && !self.next.outcomes.is_empty() {
            self.flushed_at = Some(self.clock.monotonic());
            session.ask_ahead(FLUSH)?;
            self.flushing = Some(std::mem::take(&mut self.next));
        }
        Ok(())
    }

    /// Checks whether the flush that is under way has ended, without waiting for it.
    pub fn advance(&mut self, session: &mut Session) -> Result<(), DbError> {
        if self.flushing.is_none() || !self.or_anew(session.connection.has_answered())? {
            return Ok(());
        }
        self.durable.extend(self.flushing.take().unwrap_or_default().released);
        self.begin(session)
    }

    /// Waits until all is durable.
    pub fn finish(&mut self, session: &mut Session) -> Result<(), DbError> {
        loop {
            self.begin_now(session)?;
            if self.flushing.is_none() {
                return Ok(());
            }
            self.or_anew(session.connection.wait_for_answer())?;
            self.durable.extend(self.flushing.take().unwrap_or_default().released);
        }
    }

    /// The records whose claims can be given back, each once.
    pub fn take_durable(&mut self) -> Vec<Id> {
        std::mem::take(&mut self.durable)
    }

    /// A flush that failed has made nothing durable.
    fn or_anew<T>(&mut self, answer: Result<T, RequestError>) -> Result<T, DbError> {
        Ok(answer.inspect_err(|_| self.begin_anew())?)
    }

    /// The flush that was under way is gone, with its session perhaps.
    pub fn begin_anew(&mut self) {
        if let Some(mut flushing) = self.flushing.take() {
            flushing.outcomes.append(&mut self.next.outcomes);
            flushing.released.append(&mut self.next.released);
            self.next = flushing;
        }
    }

    /// The records whose outcomes a crash may have taken away.
    pub fn unsynced(&self) -> Vec<String> {
        self.next.outcomes.iter().map(|outcome| outcome.record.id.to_string()).collect()
    }

    /// What a crash may have taken away; noted again once it is written.
    pub fn take_unsynced(&mut self) -> Vec<Unsynced> {
        std::mem::take(&mut self.next.outcomes)
    }

    pub fn put_back(&mut self, unsynced: Vec<Unsynced>) {
        self.next.outcomes.splice(0..0, unsynced);
    }

    /// Stops holding a claim back, because it is lost.
    pub fn let_go(&mut self, id: &Id) {
        for batch in self.flushing.iter_mut().chain([&mut self.next]) {
            batch.released.retain(|it| it != id);
        }
    }
}

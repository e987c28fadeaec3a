//! A table in memory, for simulations. An agenda finds the next due records without a search.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use anyhow::Result;
use backlog_schedule::{Counter, Facts, Id, Instant, Query, Record, Status};

use crate::mutex::lock;
use crate::store::{Claim, ClaimRequest, IsDue, Limits, Page, ReadResult, Reader, Store, Until};
use crate::writes::{Guards, PossibleWrites, Rehearsal, RowWrite, WriteResult};

/// Forecast of the instant at which a settled record will be due again.
pub type NextAt = Box<dyn Fn(Facts<'_>, Instant) -> Option<Instant> + Send>;

#[derive(Clone)]
pub struct MemoryStore(Arc<Mutex<Memory>>);

struct Memory {
    rows: Vec<Record>,
    by_id: HashMap<Id, usize>,
    agenda: BTreeMap<Instant, Vec<usize>>,
    next_at: NextAt,
    now: Instant,
}

impl MemoryStore {
    /// `first` returns the instant of the first check of a record, or `None` for never.
    pub fn new(
        rows: Vec<Record>,
        first: impl Fn(Facts<'_>) -> Option<Instant>,
        next_at: NextAt,
    ) -> Self {
        let by_id = rows.iter().enumerate().map(|(index, row)| (row.id.clone(), index)).collect();
        let mut agenda = BTreeMap::<_, Vec<_>>::new();
        for (index, row) in rows.iter().enumerate() {
            if let Some(at) = first(row.facts()) {
                agenda.entry(at).or_default().push(index);
            }
        }
        let now = Instant(i64::MIN);
        Self(Arc::new(Mutex::new(Memory { rows, by_id, agenda, next_at, now })))
    }

    pub fn position(&self, id: &Id) -> Option<usize> {
        lock(&self.0).by_id.get(id).copied()
    }

    pub fn next_at(&self) -> Option<Instant> {
        lock(&self.0).agenda.first_key_value().map(|(at, _)| *at)
    }

    pub fn set_now(&self, now: Instant) {
        lock(&self.0).now = now;
    }
}

impl Memory {
    fn record(&self, id: &Id) -> Option<Record> {
        Some(self.rows[*self.by_id.get(id)?].clone())
    }

    fn write(&mut self, write: &RowWrite) -> WriteResult {
        let Some(&index) = self.by_id.get(&write.record.id) else {
            return WriteResult::ChangedMeanwhile;
        };
        let row = &mut self.rows[index];
        if row.status != write.charged.map_or(write.record.status, |_| Status::Error) {
            return WriteResult::ChangedMeanwhile;
        }
        row.due_at = None;
        row.status = write.settlement.status(write.record.status);
        (row.failures, row.last_failure_at) = match &write.settlement.counter {
            Counter::AsBefore => (write.record.failures, write.record.last_failure_at),
            Counter::Untouched => (row.failures, row.last_failure_at),
            Counter::Reset => (0, None),
            Counter::Set { failures, last_failure_at, .. } => (*failures, Some(*last_failure_at)),
        };
        write.result(Guards::default())
    }
}

impl Reader for MemoryStore {
    /// All due records on one page. They leave the agenda until they are released.
    fn due(&mut self, query: &Query, is_due: IsDue<'_>) -> Result<Page> {
        let mut memory = lock(&self.0);
        let Memory { rows, agenda, now, .. } = &mut *memory;
        let later = agenda.split_off(&now.saturating_add(1));
        let reached = std::mem::replace(agenda, later);
        let mut ids = Vec::new();
        for (at, indices) in reached {
            let (taken, left): (Vec<usize>, Vec<usize>) = indices.into_iter().partition(|&index| {
                let row = &rows[index];
                query.statuses.contains(&row.status) && is_due(row.facts())
            });
            ids.extend(taken.into_iter().map(|index| rows[index].id.clone()));
            if !left.is_empty() {
                agenda.insert(at, left);
            }
        }
        Ok(Page { ids, ..Page::default() })
    }

    fn read(&mut self, id: &Id) -> Result<ReadResult> {
        Ok(lock(&self.0)
            .record(id)
            .map_or(ReadResult::Gone, |row| ReadResult::Record(Box::new(row))))
    }
}

impl Store for MemoryStore {
    fn limits(&self) -> Limits {
        Limits::local(usize::MAX)
    }

    /// A simulation has one pass at a time.
    fn claim(&mut self, request: ClaimRequest<'_>) -> Result<Vec<(Id, Claim)>> {
        let (memory, (ids, _)) = (lock(&self.0), request.split());
        let claim =
            |id: &Id| memory.record(id).map_or(Claim::Gone, |row| Claim::Held(Arc::new(row)));
        Ok(ids.iter().map(|id| (id.clone(), claim(id))).collect())
    }

    fn release(&mut self, id: &Id) {
        let memory = &mut *lock(&self.0);
        let Some(&index) = memory.by_id.get(id) else { return };
        let facts = memory.rows[index].facts();
        if facts.status.is_pending()
            && let Some(at) = (memory.next_at)(facts, memory.now)
        {
            memory.agenda.entry(at).or_default().push(index);
        }
    }

    fn flush(&mut self, _: Until) -> Result<()> {
        Ok(())
    }

    fn round(&mut self, writes: &[RowWrite], _: &[Id]) -> Result<Vec<WriteResult>> {
        let mut memory = lock(&self.0);
        Ok(writes.iter().map(|write| memory.write(write)).collect())
    }

    fn rehearse(&mut self, records: &[PossibleWrites], _: &[RowWrite]) -> Result<Vec<Rehearsal>> {
        Ok(vec![Rehearsal::Taken; records.len()])
    }
}

//! A table in memory, for simulations: what is due next is known without looking at the rest.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use anyhow::Result;
use backlog_schedule::{Counter, Facts, Id, Instant, Query, Record, Status};

use crate::mutex::lock;
use crate::store::{Claim, ClaimRequest, IsDue, Limits, Page, ReadResult, Reader, Store, Until};
use crate::writes::{Guards, PossibleWrites, Rehearsal, RowWrite, WriteResult};

/// When a row that has just been settled will be due again, as far as anybody can tell.
pub type NextAt = Box<dyn Fn(Facts<'_>, Instant) -> Option<Instant> + Send>;

/// A table that several passes use one after the other.
#[derive(Clone)]
pub struct MemoryStore(Arc<Mutex<Memory>>);

struct Memory {
    rows: Vec<Record>,
    by_id: HashMap<Id, usize>,
    /// Rows by the instant at which they are to be looked at.
    agenda: BTreeMap<Instant, Vec<usize>>,
    next_at: NextAt,
    now: Instant,
}

impl MemoryStore {
    /// `first` says when each row is to be looked at first; `None` for never.
    pub fn new(
        rows: Vec<Record>,
        first: impl Fn(Facts<'_>) -> Option<Instant>,
        next_at: NextAt,
    ) -> Self {
        let by_id = rows.iter().enumerate().map(|(row, it)| (it.id.clone(), row)).collect();
        let mut agenda = BTreeMap::<_, Vec<_>>::new();
        for (row, it) in rows.iter().enumerate() {
            if let Some(at) = first(it.facts()) {
                agenda.entry(at).or_default().push(row);
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

    /// What is settled from now on is settled at `now`.
    pub fn set_now(&self, now: Instant) {
        lock(&self.0).now = now;
    }
}

impl Memory {
    fn record(&self, id: &Id) -> Option<Record> {
        Some(self.rows[*self.by_id.get(id)?].clone())
    }

    fn write(&mut self, change: &RowWrite) -> WriteResult {
        let Some(&index) = self.by_id.get(&change.record.id) else {
            return WriteResult::ChangedMeanwhile;
        };
        let row = &mut self.rows[index];
        if row.status != change.charged.map_or(change.record.status, |_| Status::Error) {
            return WriteResult::ChangedMeanwhile;
        }
        row.due_at = None;
        row.status = change.settlement.status(change.record.status);
        (row.failures, row.last_failure_at) = match &change.settlement.counter {
            Counter::AsBefore => (change.record.failures, change.record.last_failure_at),
            Counter::Untouched => (row.failures, row.last_failure_at),
            Counter::Reset => (0, None),
            Counter::Set { failures, last_failure_at, .. } => (*failures, Some(*last_failure_at)),
        };
        change.result(Guards::default())
    }
}

impl Reader for MemoryStore {
    /// All at once: what its time has come for leaves the agenda until it is released.
    fn due(&mut self, selection: &Query, is_due: IsDue<'_>) -> Result<Page> {
        let mut memory = lock(&self.0);
        let Memory { rows, agenda, now, .. } = &mut *memory;
        let later = agenda.split_off(&now.saturating_add(1));
        let come = std::mem::replace(agenda, later);
        let mut ids = Vec::new();
        for (at, indices) in come {
            let (taken, left): (Vec<usize>, Vec<usize>) = indices.into_iter().partition(|&index| {
                let row = &rows[index];
                selection.statuses.contains(&row.status) && is_due(row.facts())
            });
            ids.extend(taken.into_iter().map(|index| rows[index].id.clone()));
            if !left.is_empty() {
                agenda.insert(at, left);
            }
        }
        Ok(Page { ids, ..Page::default() })
    }

    fn read(&mut self, id: &Id) -> Result<ReadResult> {
        Ok(lock(&self.0).record(id).map_or(ReadResult::Gone, |it| ReadResult::Record(Box::new(it))))
    }
}

impl Store for MemoryStore {
    fn limits(&self) -> Limits {
        Limits::local(usize::MAX)
    }

    /// A simulation has one pass at a time.
    fn claim(&mut self, wanted: ClaimRequest<'_>) -> Result<Vec<(Id, Claim)>> {
        let (memory, (ids, _)) = (lock(&self.0), wanted.split());
        let claim = |id: &Id| memory.record(id).map_or(Claim::Gone, |it| Claim::Held(Arc::new(it)));
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

    fn round(&mut self, changes: &[RowWrite], _: &[Id]) -> Result<Vec<WriteResult>> {
        let mut memory = lock(&self.0);
        Ok(changes.iter().map(|change| memory.write(change)).collect())
    }

    fn rehearse(&mut self, records: &[PossibleWrites], _: &[RowWrite]) -> Result<Vec<Rehearsal>> {
        Ok(vec![Rehearsal::Taken; records.len()])
    }
}

//! Rehearsal of a record's ends and of its way back: whether one that has succeeded is no longer pending,
//! and one that is archived is found again and restored. Everything is taken back.

use std::sync::Arc;

use super::{SqlDatabase, TableStore};
use crate::record::{Counter, Record, Settlement, Status, Transition};
use crate::store::RowWrite;
use crate::store::engine::{Ask, Engine};
use crate::store::error::DbError;
use crate::store::sql::id_params;
use crate::store::table::Selected;
use crate::time::Instant;

/// What is wrong with the way of a record, if anything is.
type Wrong = Result<Option<String>, DbError>;

impl<E: Engine> TableStore<E> {
    pub(super) fn rehearse_way_back(&mut self, record: &Arc<Record>, at: Instant) -> Wrong {
        for play in [Self::play_success, Self::play_archive_and_restore] {
            self.database.engine.begin(true)?;
            let wrong = match play(self, record, at) {
                // What the table refuses is found by the rehearsal of a pass.
                Err(error) if error.is_refusal => Ok(None),
                wrong => wrong,
            };
            self.database.engine.roll_back();
            if let Some(wrong) = wrong? {
                return Ok(Some(wrong));
            }
        }
        Ok(None)
    }

    fn play_success(&mut self, record: &Arc<Record>, at: Instant) -> Wrong {
        if !self.play(record, Transition::Succeeded, Counter::AsBefore, at)? {
            return Ok(None);
        }
        let left = self.read_again(record, "1 = 1")?;
        Ok(left.filter(|left| left.status.is_pending()).map(|left| {
            let status = left.status.name();
            format!("a record that has succeeded stays pending, {status}: on_success changes nothing else")
        }))
    }

    fn play_archive_and_restore(&mut self, record: &Arc<Record>, at: Instant) -> Wrong {
        if !self.database.table.can_be(Status::Archived)
            || !self.play(record, Transition::Archived, Counter::AsBefore, at)?
        {
            return Ok(None);
        }
        let is_listed = self.database.table.of_statuses(&[Status::Archived]);
        let listed = self.read_again(record, &is_listed)?;
        let Some(archived) = listed.filter(|it| it.status == Status::Archived) else {
            let found = self.read_again(record, "1 = 1")?;
            let found =
                found.map_or_else(|| "is gone".into(), |it| format!("is {}", it.status_text));
            return Ok(Some(format!(
                "a record that is archived cannot be found again: it {found}, not ARCHIVED; say which value of \
                 the status that is (status.archived), or what then holds (where_archived)"
            )));
        };
        let archived = Arc::new(archived);
        if !self.play(&archived, Transition::Renewed, Counter::Reset, at)? {
            return Ok(Some(
                "an archived record cannot be restored: its row does not take it".into(),
            ));
        }
        let is_pending = self.database.table.pending();
        let restored = self.read_again(record, &is_pending)?.filter(|it| it.status.is_pending());
        let Some(restored) = restored else {
            return Ok(Some(
                "an archived record that is restored is not pending: let on_restore take back what \
                 on_archive sets"
                    .into(),
            ));
        };
        let is_due = restored.due_at.is_none_or(|due_at| due_at <= at);
        Ok((!is_due).then(|| "an archived record that is restored is not due".into()))
    }

    /// Whether a row takes a settlement.
    fn play(
        &mut self,
        record: &Arc<Record>,
        transition: Transition,
        counter: Counter,
        at: Instant,
    ) -> Result<bool, DbError> {
        let settlement = Settlement { transition, counter, at, not_before: None };
        let write = RowWrite::new(record, None, settlement);
        Ok(!self.change(&[(0, &write)], Ask::Rehearse)?.is_empty())
    }

    /// The record, if its row is there and meets a condition.
    fn read_again(&mut self, record: &Record, condition: &str) -> Result<Option<Record>, DbError> {
        let SqlDatabase { engine, table, .. } = &mut self.database;
        let selected = Selected::without_payload(table);
        let sql = format!("{} AND {condition}", table.of_id(&selected.sql()));
        let mut found = None;
        engine.rows(&sql, &id_params(&record.id), |row| {
            found = selected.record(row, 0);
            true
        })?;
        Ok(found)
    }
}

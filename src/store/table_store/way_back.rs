//! Rehearsal of a record's ends and of its way back: whether one that has succeeded is no longer pending,
//! and one that is archived is found again and restored. Everything is taken back.

use std::sync::Arc;

use super::{SqlDatabase, TableStore};
use crate::record::{Counter, Record, Settlement, Status, Transition, counted};
use crate::store::RowWrite;
use crate::store::engine::{Ask, Engine};
use crate::store::error::DbResult;
use crate::store::sql::{EVERY, id_params};
use crate::store::table::Selected;
use crate::time::Instant;

type Wrong = DbResult<Option<String>>;

impl<E: Engine> TableStore<E> {
    /// Plays a success, and each way to be archived: by hand, and by the last of so many attempts.
    pub(super) fn rehearse_way_back(
        &mut self,
        record: &Arc<Record>,
        at: Instant,
        most_attempts: Option<u32>,
    ) -> Wrong {
        let failures = most_attempts.unwrap_or(record.next_attempt());
        let failed =
            Counter::Set { failures, last_failure_at: at, last_error: Some("rehearsal".into()) };
        let ends = [
            (Transition::Succeeded, Counter::AsBefore),
            (Transition::Archived, Counter::AsBefore),
            (Transition::Archived, failed),
        ];
        for (transition, counter) in ends {
            if transition == Transition::Archived && !self.database.table.can_be(Status::Archived) {
                break;
            }
            let failures_then = match counter {
                Counter::Set { failures, .. } => Some(failures),
                Counter::AsBefore | Counter::Untouched | Counter::Reset => None,
            };
            self.database.engine.begin(true)?;
            let wrong = match self.play(record, transition, counter, at) {
                // What the table refuses of a pass is found by its rehearsal, but for the last attempt.
                Err(error) if error.is_refusal && failures_then.is_none() => Ok(None),
                Err(error) if error.is_refusal => Ok(failures_then.map(|failures| {
                    let attempts = counted(failures.into(), "attempt");
                    format!("a record cannot be archived after {attempts}: {}", error.words)
                })),
                Err(error) => Err(error),
                Ok(false) => Ok(None),
                Ok(true) if transition == Transition::Succeeded => self.look_at_success(record),
                Ok(true) => self.look_at_archived(record, at),
            };
            self.database.engine.roll_back();
            if let Some(wrong) = wrong? {
                return Ok(Some(wrong));
            }
        }
        Ok(None)
    }

    fn look_at_success(&mut self, record: &Arc<Record>) -> Wrong {
        let left = self.read_again(record, EVERY)?;
        Ok(left.and_then(|left| match left.status {
            Status::New | Status::Error => Some(format!(
                "a record that has succeeded stays pending, {}: on_success changes nothing else",
                left.status.name()
            )),
            Status::Archived => Some(
                "a record that has succeeded is listed as ARCHIVED, and would be restored with those: let \
                 where_archived tell them apart"
                    .into(),
            ),
            Status::Success | Status::Foreign => None,
        }))
    }

    fn look_at_archived(&mut self, record: &Arc<Record>, at: Instant) -> Wrong {
        let is_listed = self.database.table.of_statuses(&[Status::Archived]);
        let listed = self.read_again(record, &is_listed)?;
        let Some(archived) = listed.filter(|it| it.status == Status::Archived) else {
            let found = self.read_again(record, EVERY)?;
            let found =
                found.map_or_else(|| "is gone".into(), |it| format!("is {}", it.status_text));
            return Ok(Some(format!(
                "a record that is archived cannot be found again: it {found}, not ARCHIVED; say which value of \
                 the status that is (status.archived), or what then holds (where_archived)"
            )));
        };
        let restored = self.play(&Arc::new(archived), Transition::Renewed, Counter::Reset, at);
        let refused = match restored {
            Err(error) if error.is_refusal => Some(error.words),
            restored => (!restored?).then(|| "its row does not take it".into()),
        };
        if let Some(why) = refused {
            return Ok(Some(format!("an archived record cannot be restored: {why}")));
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
    ) -> DbResult<bool> {
        let settlement = Settlement { transition, counter, at, not_before: None };
        let write = RowWrite::new(record, None, settlement);
        Ok(!self.change(&[(0, &write)], Ask::Rehearse)?.is_empty())
    }

    /// The record, if its row is there and meets a condition.
    fn read_again(&mut self, record: &Record, condition: &str) -> DbResult<Option<Record>> {
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

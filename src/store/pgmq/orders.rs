//! Orders to a queue, made from the rows to be written.

use crate::record::{Counter, Id, Transition};
use crate::store::RowWrite;

/// The orders for messages, by their numbers.
#[derive(Default)]
pub struct Orders {
    pub done: Vec<i64>,
    /// With the instant at which they are seen again.
    pub shown: Vec<(i64, Option<String>)>,
    /// Whose last reading is taken back, and how often they were read by then.
    pub uncounted: Vec<(i64, i64)>,
    /// Out of attempts, and why.
    pub noted: Vec<(i64, Option<String>)>,
    pub restored: Vec<i64>,
}

impl Orders {
    pub fn add(&mut self, number: i64, is_archived: bool, change: &RowWrite) {
        let now = || Some("epoch".to_string());
        let before = change.record.failures;
        let reads = i64::from(before) + 1;
        match change.settlement.transition {
            Transition::Begun => {}
            Transition::Succeeded => self.done.push(number),
            Transition::Failed => {
                if matches!(change.settlement.counter, Counter::Set { failures, .. } if failures == before)
                {
                    self.uncounted.push((number, reads));
                }
                // A policy that has no more retries shows it no more.
                let at = change.retry_at.map_or_else(|| "infinity".into(), |at| at.to_string());
                self.shown.push((number, Some(at)));
            }
            Transition::Undone => {
                self.uncounted.push((number, reads));
                self.shown.push((number, now()));
            }
            Transition::Archived => {
                let error = match &change.settlement.counter {
                    Counter::Set { last_error, .. } => last_error.clone().unwrap_or_default(),
                    Counter::AsBefore | Counter::Reset => "archived without an attempt".into(),
                };
                self.noted.push((number, Some(error.replace('\0', ""))));
            }
            Transition::Renewed if is_archived => self.restored.push(number),
            Transition::Renewed => self.shown.push((number, now())),
        }
    }
}

pub fn number(id: &Id) -> Option<i64> {
    match id {
        Id::Integer(number) => Some(*number),
        Id::Text(_) | Id::Composite(_) => None,
    }
}

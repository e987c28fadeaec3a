//! A crontab line: the state from which its next pass continues, and the times of its messages.

use anyhow::Result;
use backlog_schedule::{Cursor, HOUR, Instant, Slot, fnv1a64};
use serde::{Deserialize, Serialize};

use super::StateDir;
use super::state_db::{PASS_WAIT, is_busy};
use crate::system_error::chain;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LineName {
    pub queue: String,
    pub table: String,
    /// The options of the policy as typed, with the condition and the shard of the line.
    pub policy: String,
}

impl LineName {
    /// The name for state that all lines of the queue share.
    pub fn of_queue(&self) -> Self {
        Self { policy: String::new(), ..self.clone() }
    }
}

impl std::fmt::Display for LineName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.queue, self.table, self.policy)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LineState {
    pub began_at: Option<Instant>,
    /// The slot after which the last pass began, if it went by slots.
    pub began_behind: Option<Slot>,
    pub cursor: Cursor,
    /// The column that ordered the records, if it was not the insertion date.
    pub order: Option<String>,
    /// Slots that earlier passes reached, but that were in the future by the clock of the last pass.
    pub later: Vec<Slot>,
    /// Number of archived records that cron's mail has not reported yet.
    pub unreported: u64,
    /// The last check that some row has a mapped status.
    pub unmapped_sought_at: Option<Instant>,
}

impl StateDir {
    /// Logs the error of a pass that could not use state.db. Once an hour it is an error, which cron mails.
    pub(super) fn or_report<T>(&self, done: Result<Option<T>>, now: Instant) -> Option<T> {
        let report = |error: &anyhow::Error| match chain(error) {
            why if is_busy(error) => log::warn!("{why}; this entry is left out"),
            why if self.may_report_state(now) => log::error!("{why}; {WITHOUT}"),
            why => log::warn!("{why}; {WITHOUT}"),
        };
        done.inspect_err(report).ok().flatten()
    }

    /// Returns whether the message `what` about a line is printed: once an hour, always if state.db cannot be used.
    pub fn may_print(&self, line: &LineName, what: &str, now: Instant) -> bool {
        let id = self.line_id(line);
        let noted = self.change_state(PASS_WAIT, &|connection| {
            let mut note = connection.prepare_cached(
                "INSERT INTO said (line, what, at) VALUES (?1, ?2, ?3)
                 ON CONFLICT DO UPDATE SET at = ?3 WHERE NOT ?3 - at BETWEEN 0 AND ?4",
            )?;
            Ok(note.execute((id, what, now.0, HOUR - 1))? > 0)
        });
        self.or_report(noted, now).unwrap_or(true)
    }

    pub(super) fn line_id(&self, line: &LineName) -> i64 {
        self.lock_of(&line.to_string()).cast_signed()
    }

    /// The offset of a lock in the file `lines`.
    pub(super) fn lock_of(&self, name: &str) -> u64 {
        fnv1a64(format!("{}{name}", self.scope).as_bytes()) >> 1
    }
}

const WITHOUT: &str = "the pass continues, but `backlog status` will not show all of it";

#[cfg(test)]
mod tests {
    use backlog_schedule::{Id, Kept, Position, SortKey, Value};

    use super::*;

    #[test]
    fn a_state_reads_back_as_it_was_written() {
        let keys = [
            Value::Null,
            Value::Integer(i64::MIN),
            Value::Real(0.5),
            Value::Text("2026-11-21 '\n😀".into()),
            Value::Bytes(vec![b'a', 255]),
            Value::Blob(vec![0, 255]),
        ]
        .into_iter()
        .flat_map(|inserted| {
            let (number, text) = (Id::Integer(i64::MAX), Id::Text("it's \"7\"".into()));
            let bytes = Id::Bytes([0, 255].into());
            let composite = Id::Composite([number.clone(), text.clone(), bytes.clone()].into());
            [number, text, bytes, composite]
                .map(|id| Position::Key(SortKey { order_value: inserted.clone(), id }))
        });
        let slots = [Slot::end_of(i64::MIN), Slot { tick: 5_984_108, phase: 1 << 63 }];
        let kept = |id, begun| Kept { id, slot: slots[1], begun };
        let kept = vec![kept(Id::Integer(-7), 0), kept(Id::Text("a,\"b\"".into()), 2)];
        for reached in keys.chain(slots.map(Position::Slot)) {
            let written = LineState {
                began_at: Some(Instant(1_795_232_400)),
                began_behind: Some(Slot::end_of(7)),
                cursor: Cursor {
                    stuck: reached.key().cloned(),
                    reached: Some(reached),
                    kept: kept.clone(),
                },
                order: Some("priority".into()),
                later: vec![Slot { tick: 30_000_000, phase: 7 }],
                unreported: 7,
                unmapped_sought_at: Some(Instant(1_795_232_401)),
            };
            let text = serde_json::to_string(&written).unwrap();
            assert_eq!(serde_json::from_str::<LineState>(&text).unwrap(), written);
        }
    }
}

//! What the passes of a crontab line know of each other: where the next one continues, and what was said.

use anyhow::Result;
use backlog_schedule::{Cursor, HOUR, Instant, Slot, fnv1a64};
use serde::{Deserialize, Serialize};

use super::StateDir;
use super::state_db::{PASS_WAIT, is_busy};
use crate::system_error::chain;

/// A crontab line, as its passes note it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LineName {
    pub queue: String,
    pub table: String,
    /// The policy as it is typed, with the condition and the shard that narrow the records.
    pub policy: String,
}

impl std::fmt::Display for LineName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.queue, self.table, self.policy)
    }
}

/// What a pass goes on from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LineState {
    pub began_at: Option<Instant>,
    /// Behind which slot it began, if it went by slots.
    pub began_behind: Option<Slot>,
    pub cursor: Cursor,
    /// Slots that passes have reached and that lie after the clock of the last one.
    pub later: Vec<Slot>,
    /// When a pass last looked whether any row has a status that is mapped.
    pub unmapped_sought_at: Option<Instant>,
}

impl StateDir {
    /// The result of a pass's work on the database. If that has failed the pass goes on, and says so once an hour.
    pub(super) fn noted<T>(&self, done: Result<Option<T>>, now: Instant) -> Option<T> {
        let failed = |error: &anyhow::Error| match chain(error) {
            why if is_busy(error) => log::warn!("{why}: this is not noted"),
            why if self.may_say_unusable(now) => log::error!("{why}; {WITHOUT}"),
            why => log::warn!("{why}; {WITHOUT}"),
        };
        done.inspect_err(failed).ok().flatten()
    }

    /// Whether passes of a line may say something that they find again and again, `what`: once an hour, and each
    /// time if that cannot be noted.
    pub fn may_say(&self, line: &LineName, what: &str, now: Instant) -> bool {
        let id = self.lock_of(&line.to_string()).cast_signed();
        let noted = self.change_state(PASS_WAIT, &|connection| {
            let mut note = connection.prepare_cached(
                "INSERT INTO said (line, what, at) VALUES (?1, ?2, ?3)
                 ON CONFLICT DO UPDATE SET at = ?3 WHERE NOT ?3 - at BETWEEN 0 AND ?4",
            )?;
            Ok(note.execute((id, what, now.0, HOUR - 1))? > 0)
        });
        self.noted(noted, now).unwrap_or(true)
    }

    /// The place of a line's lock in its file.
    pub(super) fn lock_of(&self, line: &str) -> u64 {
        fnv1a64(format!("{}{line}", self.scope).as_bytes()) >> 1
    }
}

/// What passes do if the database cannot be used.
const WITHOUT: &str = "passes go on without it, and `backlog status` shows less of them";

#[cfg(test)]
mod tests {
    use backlog_schedule::{Id, Kept, Key, Position, Value};

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
                .map(|id| Position::Key(Key { inserted: inserted.clone(), id }))
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
                later: vec![Slot { tick: 30_000_000, phase: 7 }],
                unmapped_sought_at: Some(Instant(1_795_232_401)),
            };
            let text = serde_json::to_string(&written).unwrap();
            assert_eq!(serde_json::from_str::<LineState>(&text).unwrap(), written);
        }
    }
}

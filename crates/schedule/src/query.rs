//! Queries, as plain data that each store turns into its own SQL, and cursors.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::exact_id;
use crate::hash::{draw, mulhi};
use crate::id::Id;
use crate::record::{SortKey, Status};
use crate::time::Instant;

/// The pending records that can be due. A store may return more than that, never fewer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Window {
    /// Every record with one of the statuses.
    All,
    /// From `from` on, and before `until`.
    Inserted { from: Instant, until: Option<Instant> },
    /// Inserted in one of these times with a phase in one of its ranges.
    Slots(Vec<SlotStretch>),
    /// NEW; or last failed before `before[f - 1]` after f failures, at `future` or later, or without a date.
    Failed { before: Vec<Instant>, future: Instant },
}

impl Window {
    /// From when on, and before when its records were inserted, if it is about that.
    pub fn inserted(&self) -> Option<(Instant, Option<Instant>)> {
        match self {
            Self::Inserted { from, until } => Some((*from, *until)),
            Self::Slots(stretches) => {
                let from = stretches.iter().map(|it| it.from).min();
                let until = stretches.iter().map(|it| it.until).max();
                Some((from.unwrap_or(Instant(i64::MAX)), until))
            }
            Self::All | Self::Failed { .. } => None,
        }
    }
}

/// Rows inserted in a time with a phase in a range of [`phase31`](crate::hash::phase31), in order and apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotStretch {
    pub from: Instant,
    pub until: Instant,
    pub phases: Vec<RangeInclusive<u32>>,
}

/// The same phases in ranges that come in order and do not touch.
pub fn merge_ranges(mut ranges: Vec<RangeInclusive<u32>>) -> Vec<RangeInclusive<u32>> {
    ranges.sort_unstable_by_key(|range| *range.start());
    let mut merged: Vec<RangeInclusive<u32>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if *range.start() <= last.end().saturating_add(1) => {
                *last = *last.start()..=*last.end().max(range.end());
            }
            _ => merged.push(range),
        }
    }
    merged
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    #[default]
    Newest,
    Oldest,
    /// By the column that the table names, and by id where its values are equal.
    Column,
}

#[derive(Debug, Clone)]
pub struct Query {
    pub window: Window,
    pub statuses: Vec<Status>,
    pub order: Order,
    /// Excluded.
    pub after: Option<SortKey>,
    /// Included.
    pub up_to: Option<SortKey>,
    pub limit: usize,
}

/// A place in the order of all slots: by tick, then by the record's phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Slot {
    pub tick: i64,
    pub phase: u64,
}

impl Slot {
    pub fn end_of(tick: i64) -> Self {
        Self { tick, phase: u64::MAX }
    }

    pub fn before(self) -> Self {
        let lower = self.phase.checked_sub(1).map(|phase| Self { phase, ..self });
        lower.unwrap_or_else(|| Self::end_of(self.tick.saturating_sub(1)))
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Position {
    /// The failed record that a limited pass tried last.
    Key(SortKey),
    /// All slots up to and with this one.
    Slot(Slot),
}

impl Position {
    pub fn slot(&self) -> Option<Slot> {
        if let Self::Slot(slot) = self { Some(*slot) } else { None }
    }

    pub fn key(&self) -> Option<&SortKey> {
        if let Self::Key(key) = self { Some(key) } else { None }
    }
}

/// The cursor of a line: the place that its passes have come to, for the next one to go on from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cursor {
    pub reached: Option<Position>,
    /// Records whose slots were passed, and that are still to be tried for them.
    pub kept: Vec<Kept>,
    /// The last of the records that got nowhere and so ended the pass: the next begins behind it.
    pub stuck: Option<SortKey>,
}

impl Cursor {
    /// The cursor without records of a table with another number of id columns or with another order.
    pub fn taken_up(self, id_columns: usize, is_same_order: bool) -> Self {
        let fits = |id: &Id| id.parts().len() == id_columns;
        let has_place = |key: &SortKey| is_same_order && fits(&key.id);
        Self {
            reached: self.reached.filter(|it| it.key().is_none_or(has_place)),
            kept: self.kept.into_iter().filter(|kept| fits(&kept.id)).collect(),
            stuck: self.stuck.filter(has_place),
        }
    }
}

/// A record that keeps its slot: another pass held it when that came, or its attempt has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    #[serde(with = "exact_id")]
    pub id: Id,
    pub slot: Slot,
    /// How many attempts for this slot have begun and not ended: passes that are over died of them.
    pub begun: u32,
}

/// One of several parts of the records of about one size, the same on every machine, in every version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// From 1 to `count`.
    number: u64,
    count: u64,
}

const MOST_SHARDS: u64 = 1024;
/// Makes the draw of parts another one than that of waits and phases.
const SHARD_SEED: u64 = 0x5348_4152;

impl Shard {
    pub fn holds(self, id: &Id) -> bool {
        mulhi(draw(SHARD_SEED, id, 0), self.count) + 1 == self.number
    }

    /// Whether both are of one division, and none of the other's records is in it.
    pub fn is_apart_from(self, other: Self) -> bool {
        self.count == other.count && self.number != other.number
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.count)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shard = || {
            let (number, count) = text.split_once('/')?;
            Some(Self { number: number.parse().ok()?, count: count.parse().ok()? })
        };
        shard()
            .filter(|it| (1..=it.count).contains(&it.number) && it.count <= MOST_SHARDS)
            .ok_or_else(|| format!("write 2/3 for the second of three parts, up to {MOST_SHARDS}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_is_in_one_shard_and_shards_are_alike() {
        for count in [1, 2, 3, 7] {
            let shards = (1..=count).map(|number| format!("{number}/{count}").parse().unwrap());
            let shards: Vec<Shard> = shards.collect();
            let mut sizes = vec![0_usize; shards.len()];
            for number in 0..7_000 {
                let ids = [Id::Integer(number), Id::Text(format!("order-{number}").into())];
                for id in ids {
                    let holding = (0..shards.len()).filter(|index| shards[*index].holds(&id));
                    let holding: Vec<_> = holding.collect();
                    assert_eq!(holding.len(), 1, "{id} of {count}");
                    sizes[holding[0]] += 1;
                }
            }
            let mean = 14_000 / sizes.len();
            assert!(sizes.iter().all(|size| size.abs_diff(mean) < mean / 10), "{sizes:?}");
        }
        // What was one record's shard yesterday is so tomorrow.
        let of_three: Vec<_> = (1..=8)
            .map(|id| (1..=3).find(|n| Shard { number: *n, count: 3 }.holds(&Id::Integer(id))))
            .map(Option::unwrap)
            .collect();
        assert_eq!(of_three, [2, 1, 2, 2, 3, 2, 1, 1]);
    }

    #[test]
    fn a_shard_is_one_of_several() {
        for text in ["0/3", "4/3", "1", "1/0", "-1/3", "1/1025", "a/b", ""] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
    }

    #[test]
    fn ranges_are_merged_that_touch_or_overlap() {
        let most = u32::MAX;
        assert_eq!(merge_ranges(vec![7..=9, 0..=2, 3..=5]), [0..=5, 7..=9]);
        assert_eq!(merge_ranges(vec![2..=8, 4..=6, most..=most, 0..=1]), [0..=8, most..=most]);
        assert_eq!(merge_ranges(vec![0..=most, 5..=6]), [0..=most]);
        assert_eq!(merge_ranges(Vec::new()), []);
    }
}

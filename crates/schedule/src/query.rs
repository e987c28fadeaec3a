//! Queries, plain data that each store translates into its own SQL, and cursors.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::exact_id;
use crate::hash::{draw, mulhi};
use crate::id::Id;
use crate::record::{SortKey, Status};
use crate::time::Instant;

/// A filter for the records that can be due. A store may return more records, never fewer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Window {
    /// Every record with one of the statuses.
    All,
    /// `from` is included, `until` is excluded.
    Inserted { from: Instant, until: Option<Instant> },
    /// Insertion date and phase lie in one of these stretches.
    Slots(Vec<SlotStretch>),
    /// NEW; or last failed before `before[f - 1]` after f failures, at `future` or later, or at no date.
    Failed { before: Vec<Instant>, future: Instant },
}

impl Window {
    pub fn inserted(&self) -> Option<(Instant, Option<Instant>)> {
        match self {
            Self::Inserted { from, until } => Some((*from, *until)),
            Self::Slots(stretches) => {
                let from = stretches.iter().map(|stretch| stretch.from).min();
                let until = stretches.iter().map(|stretch| stretch.until).max();
                Some((from.unwrap_or(Instant(i64::MAX)), until))
            }
            Self::All | Self::Failed { .. } => None,
        }
    }
}

/// A range of insertion dates, and the sorted, separate ranges of [`phase31`](crate::hash::phase31) with a slot there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotStretch {
    pub from: Instant,
    pub until: Instant,
    pub phases: Vec<RangeInclusive<u32>>,
}

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
    /// By the column that the mapping names, then by id.
    Column,
}

#[derive(Debug, Clone)]
pub struct Query {
    pub window: Window,
    pub statuses: Vec<Status>,
    pub order: Order,
    /// Lower bound, excluded.
    pub after: Option<SortKey>,
    /// Upper bound, included.
    pub up_to: Option<SortKey>,
    pub limit: usize,
}

/// A slot, ordered by tick, then by phase of the record.
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
    /// The last failed record that a limited pass reached.
    Key(SortKey),
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

/// The position from which the next pass of a crontab line continues.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cursor {
    pub reached: Option<Position>,
    pub kept: Vec<Kept>,
    /// The last of the records that got nowhere and ended the pass: the next pass begins after it.
    pub stuck: Option<SortKey>,
}

impl Cursor {
    /// Drops the keys of a table with another number of id columns, or in another order.
    pub fn without_foreign_keys(self, id_columns: usize, is_same_order: bool) -> Self {
        let is_id = |id: &Id| id.parts().len() == id_columns;
        let is_key = |key: &SortKey| is_same_order && is_id(&key.id);
        Self {
            reached: self.reached.filter(|position| position.key().is_none_or(is_key)),
            kept: self.kept.into_iter().filter(|kept| is_id(&kept.id)).collect(),
            stuck: self.stuck.filter(is_key),
        }
    }
}

/// A record that keeps its slot, because another pass held it then or its attempt has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    #[serde(with = "exact_id")]
    pub id: Id,
    pub slot: Slot,
    /// Number of attempts for this slot that have begun and not ended. Earlier ones were killed with their pass.
    pub begun: u32,
}

/// One of `count` parts of about equal size. The division is the same on every machine and in every version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// From 1 to `count`.
    number: u64,
    count: u64,
}

const MOST_SHARDS: u64 = 1024;
/// Seed that makes shards independent of delays and phases.
const SHARD_SEED: u64 = 0x5348_4152;

impl Shard {
    pub fn holds(self, id: &Id) -> bool {
        mulhi(draw(SHARD_SEED, id, 0), self.count) + 1 == self.number
    }

    pub fn is_disjoint_from(self, other: Self) -> bool {
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
            .filter(|shard| (1..=shard.count).contains(&shard.number))
            .filter(|shard| shard.count <= MOST_SHARDS)
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
        // The division never changes.
        let of_three: Vec<_> = (1..=8)
            .map(|id| (1..=3).find(|n| Shard { number: *n, count: 3 }.holds(&Id::Integer(id))))
            .map(Option::unwrap)
            .collect();
        assert_eq!(of_three, [2, 1, 2, 2, 3, 2, 1, 1]);
    }

    #[test]
    fn an_invalid_shard_is_refused() {
        for text in ["0/3", "4/3", "1", "1/0", "-1/3", "1/1025", "a/b", ""] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
    }

    #[test]
    fn ranges_that_touch_or_overlap_are_merged() {
        let most = u32::MAX;
        assert_eq!(merge_ranges(vec![7..=9, 0..=2, 3..=5]), [0..=5, 7..=9]);
        assert_eq!(merge_ranges(vec![2..=8, 4..=6, most..=most, 0..=1]), [0..=8, most..=most]);
        assert_eq!(merge_ranges(vec![0..=most, 5..=6]), [0..=most]);
        assert_eq!(merge_ranges(Vec::new()), []);
    }
}

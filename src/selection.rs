//! What a pass asks a store for, as plain data that each store turns into its own query, and
//! where a pass has come to.

use crate::instant::Instant;
use crate::record::{Key, Status};

/// The pending records that can be due. A store may return more than that, never
/// fewer: the exact verdict on each is the policy's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Window {
    /// Every record with one of the statuses.
    All,
    /// Inserted at `from` or later, and before `until` if there is one.
    Inserted { from: Instant, until: Option<Instant> },
    /// NEW; or last failed before `before[f - 1]` after f failures (the last entry
    /// holds for every higher count); or last failed at `future` or later, which
    /// only a clock that was set back explains; or with no readable last failure.
    Failed { before: Vec<Instant>, future: Instant },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Newest,
    Oldest,
}

/// One stretch of the due records, in order.
#[derive(Debug, Clone)]
pub struct Selection {
    pub window: Window,
    pub statuses: Vec<Status>,
    pub order: Order,
    /// Only what comes after this key in the order, the key itself excluded.
    pub after: Option<Key>,
    /// Only what comes no later than this key in the order, the key itself included.
    pub up_to: Option<Key>,
    pub limit: usize,
}

/// A place in the order of all slots: by tick, then by the record's phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    pub tick: i64,
    pub phase: u64,
}

impl Slot {
    /// The last one of a tick.
    pub fn end_of(tick: i64) -> Self {
        Self { tick, phase: u64::MAX }
    }

    /// The one before it.
    pub fn before(self) -> Self {
        match self.phase.checked_sub(1) {
            Some(phase) => Self { phase, ..self },
            None => Self::end_of(self.tick.saturating_sub(1)),
        }
    }
}

/// How far a pass has come, for the next one of its line to go on from.
#[derive(Debug, Clone, PartialEq)]
pub enum Reached {
    /// The failed record that a limited pass tried last.
    Key(Key),
    /// All slots up to and with this one.
    Slot(Slot),
}

impl Reached {
    pub fn slot(&self) -> Option<Slot> {
        match self {
            Self::Slot(slot) => Some(*slot),
            Self::Key(_) => None,
        }
    }

    pub fn key(&self) -> Option<&Key> {
        match self {
            Self::Key(key) => Some(key),
            Self::Slot(_) => None,
        }
    }
}

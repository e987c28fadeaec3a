//! What a pass asks a store for, as plain data that each store turns into its own query.

use crate::instant::Instant;
use crate::record::{Key, Status};

/// The pending records that can be due. A store may return more than that, never
/// fewer: the exact verdict on each is the policy's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Window {
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

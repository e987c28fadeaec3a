//! Verdicts: what a pass does with a record, and why.

use crate::query::Slot;
use crate::settle::End;
use crate::time::Instant;

/// The decision of a pass about a record. `Archive` makes no other attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Due(Reason),
    Archive(End),
    Wait { until: Instant },
    Never(Obstacle),
}

impl Verdict {
    pub fn reason(self) -> Option<Reason> {
        if let Self::Due(reason) = self { Some(reason) } else { None }
    }

    pub fn slot(self) -> Option<Slot> {
        if let Self::Due(Reason::Slot(slot)) = self { Some(slot) } else { None }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    New,
    WithinAge,
    WaitOver,
    Slot(Slot),
    /// ERROR without a last failure, so that no delay can be calculated.
    NoLastFailure,
    /// The last failure lies in the future: the clock was set back.
    ClockSetBack,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    NotPending,
    TooOld,
    OutOfSlots,
    /// The insertion date is NULL or cannot be read.
    Undated,
    NoDueDate,
    OtherShard,
}

//! Verdicts: what a pass does with a record, and why.

use crate::query::Slot;
use crate::settle::End;
use crate::time::Instant;

/// What a pass does with a record: it may also archive it without another attempt.
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
    /// ERROR, but without a last failure from which a delay could be counted.
    NoLastFailure,
    /// The last failure lies in the future: the clock was set back.
    ClockSetBack,
}

/// What keeps a record from ever being due under a policy.
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

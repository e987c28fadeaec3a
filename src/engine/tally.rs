//! The tally of a pass, and the report on each attempt.

use crate::record::{Attempt, Outcome, Settlement, Status, Transition};
use crate::time::Instant;

/// The tally of a pass.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Tally {
    pub succeeded: u64,
    pub failed: u64,
    pub snoozed: u64,
    /// Records whose attempt failed, and was their last.
    pub archived: u64,
    /// Records archived without an attempt: the last one never reported back, or they are too old.
    pub expired: u64,
    pub interrupted: u64,
    /// Records left as they were, because the handler could not be run.
    pub unable: u64,
    /// Records that were not tried or not settled: rows that cannot be read, or that the table
    /// does not let be written.
    pub refused: u64,
    /// Records that were not tried, because more than one row has their id.
    pub ambiguous: u64,
    /// Records that were not tried, because their id is none.
    pub unusable: u64,
    /// Why there may be due records that were not found.
    pub incomplete: Vec<String>,
    /// Rows that the application changed while their handler ran.
    pub changed: u64,
    /// Records that somebody else got while their handler ran.
    pub lost: u64,
    /// Records that other passes held.
    pub busy: u64,
    /// How often the handler was wrong in a way that is no record's fault.
    pub faults: u64,
    pub stopped: Option<Stopped>,
    pub found_nothing: bool,
    /// Whether anything was written since the last search of a drain.
    pub progress: bool,
}

/// The reason why a pass ended before everything due was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stopped {
    Signal(i32),
    Runtime,
    /// So many records in a row got nowhere, or the handler cannot be run for any, as it seems, that
    /// there is no point in going on.
    Stuck(String),
    /// So many failures in a row that there is no point in going on.
    Failures(String),
}

/// One attempt, settled.
#[derive(Debug)]
pub struct SettledAttempt<'a> {
    pub number: u32,
    pub started_at: Instant,
    pub attempt: &'a Attempt,
    /// What was written; `None` if the row was left to the application.
    pub status: Option<Status>,
}

impl Tally {
    /// Notes the signal that has stopped the pass, if one has: it counts also where the time was up
    /// before, but not where an error had stopped the pass.
    pub fn note_signal(&mut self, signal: Option<i32>) {
        if let (None | Some(Stopped::Runtime), Some(signal)) = (&self.stopped, signal) {
            self.stopped = Some(Stopped::Signal(signal));
        }
    }

    pub fn attempts(&self) -> u64 {
        self.succeeded + self.failed + self.snoozed + self.archived + self.changed + self.lost
    }

    pub fn count(&mut self, outcome: &Outcome, written: Option<&Settlement>) {
        let Some(settlement) = written else {
            self.changed += 1;
            return;
        };
        let counter = match outcome {
            _ if settlement.transition == Transition::Archived => &mut self.archived,
            Outcome::Success => &mut self.succeeded,
            Outcome::Failure { .. } | Outcome::Unanswered { .. } | Outcome::GiveUp { .. } => {
                &mut self.failed
            }
            Outcome::Snooze { .. } => &mut self.snoozed,
            Outcome::Interrupted => &mut self.interrupted,
            Outcome::Unable { .. } => &mut self.unable,
        };
        *counter += 1;
        self.progress |= !matches!(outcome, Outcome::Unable { .. });
    }
}

//! Outcomes that could not be written: the table refuses them, or another session keeps their rows locked.
//! The pass keeps each with the claim of its record, and tries to write it again until it is written, for
//! [`LIMIT`] at most, and once more when the pass must end.

use std::collections::HashMap;
use std::time::{Duration, Instant as Monotonic};

use anyhow::Result;

use super::Dispatcher;
use crate::record::{Attempt, Id, Settlement};

/// How long an outcome is kept: as long as the pass would wait for a server that is gone.
const LIMIT: Duration = Duration::from_secs(60);
/// The least time between two attempts to write.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct Unwritten {
    attempts: Vec<Attempt>,
    deadlines: HashMap<Id, Monotonic>,
    next_at: Option<Monotonic>,
    /// Whether the pass ends, so that nothing is kept any longer.
    is_over: bool,
}

impl Unwritten {
    pub fn len(&self) -> usize {
        self.attempts.len()
    }

    /// Takes all outcomes, which are written or given up now.
    pub fn take_last(&mut self) -> Vec<Attempt> {
        self.is_over = true;
        std::mem::take(&mut self.attempts)
    }

    /// Keeps an outcome unless its time is over. Returns whether it is kept, and for the first time.
    fn keep(&mut self, attempt: &Attempt, now: Monotonic) -> (bool, bool) {
        let is_first = !self.deadlines.contains_key(&attempt.id);
        let deadline = *self.deadlines.entry(attempt.id.clone()).or_insert(now + LIMIT);
        let is_kept = !self.is_over && now < deadline;
        if is_kept {
            self.attempts.push(attempt.clone());
            self.next_at.get_or_insert(now + PAUSE);
        }
        (is_kept, is_first)
    }
}

impl Dispatcher {
    /// Keeps an outcome that was refused, to write it again. Returns false if its time is over.
    pub(super) fn keep_unwritten(
        &mut self,
        attempt: &Attempt,
        settlement: &Settlement,
        why: &str,
    ) -> bool {
        let now = self.pass.clock.monotonic();
        let (is_kept, is_first) = self.unwritten.keep(attempt, now);
        if is_kept && is_first {
            // A drain leaves it alone.
            self.breaker.all.insert(attempt.id.clone());
            let status = self.in_hand.get(&attempt.id).map(|it| it.record.status);
            let status = status.map_or("", |status| settlement.status(status).name());
            log::warn!(
                "record {} could not be set to {status} yet: {why}; trying again",
                attempt.id
            );
        }
        is_kept
    }

    /// When the outcomes that are kept are written again; `None` in a pass that is to stop.
    pub(super) fn write_again_in(&self) -> Option<Duration> {
        let is_over = self.is_lost || self.pass.stop.is_asked();
        let next_at = self.unwritten.next_at.filter(|_| !is_over)?;
        Some(self.pass.clock.until(next_at))
    }

    /// Writes the outcomes that are kept, if it is time.
    pub(super) fn write_again(&mut self) -> Result<()> {
        let clock = self.pass.clock;
        let began_at = clock.monotonic();
        if self.unwritten.next_at.is_none_or(|at| began_at < at) {
            return Ok(());
        }
        self.unwritten.next_at = None;
        let attempts = std::mem::take(&mut self.unwritten.attempts);
        if let Err(error) = self.write_outcomes(&attempts) {
            self.unwritten.attempts = attempts;
            return Err(error);
        }
        // Other records get at least as much time as a try that waits for a locked row.
        if let Some(next_at) = &mut self.unwritten.next_at {
            let ended_at = clock.monotonic();
            *next_at = ended_at + PAUSE.max(ended_at - began_at);
        }
        Ok(())
    }
}

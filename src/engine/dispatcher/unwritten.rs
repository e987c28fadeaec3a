//! Outcomes that could not be written: the table refuses them, or another session keeps their rows locked.
//! The pass keeps each with the claim of its record, and tries to write it again until the pass must end.
//! A pass that has nothing else to do waits for [`LIMIT`].

use std::collections::HashMap;
use std::time::{Duration, Instant as Monotonic};

use anyhow::Result;

use super::Dispatcher;
use crate::record::{Attempt, Id, Settlement};

/// How long a pass waits for an outcome, from the first attempt to write it: as long as for a server that is
/// gone.
const LIMIT: Duration = Duration::from_secs(60);
/// The least time between two attempts to write.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct Unwritten {
    attempts: Vec<Attempt>,
    /// How long the pass waits for each.
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

    /// Whether a pass that has nothing else to do waits for any of them.
    pub fn is_worth_waiting(&self, now: Monotonic) -> bool {
        self.attempts.iter().any(|it| self.deadlines.get(&it.id).is_some_and(|at| now < *at))
    }

    /// Keeps an outcome. Returns whether it is the first time.
    fn keep(&mut self, attempt: &Attempt, now: Monotonic) -> bool {
        self.attempts.push(attempt.clone());
        self.next_at.get_or_insert(now + PAUSE);
        let is_first = !self.deadlines.contains_key(&attempt.id);
        self.deadlines.entry(attempt.id.clone()).or_insert(now + LIMIT);
        is_first
    }
}

impl Dispatcher {
    /// Keeps an outcome that was refused, to write it again. Returns false if the pass ends.
    pub(super) fn keep_unwritten(
        &mut self,
        attempt: &Attempt,
        settlement: &Settlement,
        why: &str,
    ) -> bool {
        if self.unwritten.is_over {
            return false;
        }
        if self.unwritten.keep(attempt, self.pass.clock.monotonic()) {
            // A drain leaves it alone.
            self.breaker.all.insert(attempt.id.clone());
            let status = self.in_hand.get(&attempt.id).map(|it| it.record.status);
            let status = status.map_or("", |status| settlement.status(status).name());
            log::warn!(
                "record {} could not be set to {status} yet: {why}; trying again",
                attempt.id
            );
        }
        true
    }

    /// When the outcomes that are kept are written again; `None` in a pass that is to stop.
    pub(super) fn write_again_in(&self) -> Option<Duration> {
        let is_over = self.is_lost || self.pass.stop.is_asked();
        let next_at = self.unwritten.next_at.filter(|_| !is_over)?;
        Some(self.pass.clock.until(next_at))
    }

    /// Writes the outcomes that are kept, if it is time.
    pub(super) fn write_again(&mut self) -> Result<()> {
        let Some(next_at) = self.unwritten.next_at else { return Ok(()) };
        let clock = self.pass.clock;
        let began_at = clock.monotonic();
        if began_at < next_at {
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

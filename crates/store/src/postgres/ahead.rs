//! Records that are claimed ahead while a round is written, so that the next round needs no round trip for them.

use std::collections::HashMap;
use std::time::{Duration, Instant as Monotonic};

use backlog_schedule::Id;

use crate::clock::Clock;
use crate::store::Claim;

/// Maximum age of a record that was claimed ahead, and maximum time between writes that claim ahead.
const FRESH: Duration = Duration::from_millis(50);
/// Time to claim ahead for, unless a round takes longer. It is short: another pass could handle the waiting records.
const SUPPLY: Duration = Duration::from_millis(10);
/// Time over which the pace of handlers is measured.
const MEASURED_FOR: Duration = Duration::from_millis(25);
/// Maximum and minimum number of records to claim ahead: fewer are not worth a statement.
const MOST: usize = 128;
const LEAST: usize = 8;

pub struct Ahead {
    clock: Clock,
    ready: HashMap<Id, (Claim, Monotonic)>,
    written_at: Option<Monotonic>,
    /// Number of records that handlers have begun since the last write.
    begun: usize,
    /// Start of the present measurement, and the number of records begun since.
    counted: (Monotonic, usize),
    /// Number of records that handlers began per [`SUPPLY`] in the last measurement.
    pace: usize,
}

impl Ahead {
    pub fn new(clock: Clock) -> Self {
        let counted = (clock.monotonic(), 0);
        Self { clock, ready: HashMap::new(), written_at: None, begun: 0, counted, pace: 0 }
    }

    pub fn count_begun(&mut self, begun: usize) {
        self.begun += begun;
    }

    /// Returns the candidates to claim with the next write; none if the last write was too long ago.
    pub fn choose<'a>(&mut self, next: &'a [Id]) -> &'a [Id] {
        let now = self.clock.monotonic();
        let shortfall = self.shortfall(now).min(next.len());
        let last = self.written_at.replace(now);
        if last.is_some_and(|last| now - last < FRESH) { &next[..shortfall] } else { &[] }
    }

    /// Returns the number of records to claim ahead; 0 while at least half of the supply is there.
    fn shortfall(&mut self, now: Monotonic) -> usize {
        let begun = std::mem::take(&mut self.begun);
        self.counted.1 += begun;
        let (since, count) = self.counted;
        let elapsed = now - since;
        if elapsed >= MEASURED_FOR {
            let pace = count as u128 * SUPPLY.as_micros() / elapsed.as_micros();
            self.pace = usize::try_from(pace).unwrap_or(usize::MAX);
            self.counted = (now, 0);
        }
        let supply = self.pace.max(begun).min(MOST);
        let held = self.held();
        if supply >= LEAST && 2 * held < supply { supply - held } else { 0 }
    }

    pub fn add(&mut self, id: &Id, claim: Claim) {
        self.ready.insert(id.clone(), (claim, self.clock.monotonic()));
    }

    /// Takes the result of a claim. The caller drains expired ones first.
    pub fn take(&mut self, id: &Id) -> Option<Claim> {
        self.ready.remove(id).map(|(claim, _)| claim)
    }

    pub fn held(&self) -> usize {
        self.ready.values().filter(|(claim, _)| matches!(claim, Claim::Held(_))).count()
    }

    pub fn drain(&mut self) -> Vec<Id> {
        self.drain_if(|_| true)
    }

    /// Removes the results that are not fresh any more, and returns the records with a claim.
    pub fn drain_expired(&mut self) -> Vec<Id> {
        let now = self.clock.monotonic();
        self.drain_if(|at| now - at >= FRESH)
    }

    fn drain_if(&mut self, is_over: impl Fn(Monotonic) -> bool) -> Vec<Id> {
        let drained = self.ready.extract_if(|_, (_, at)| is_over(*at));
        let held = drained.filter(|(_, (claim, _))| matches!(claim, Claim::Held(_)));
        held.map(|(id, _)| id).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use super::*;
    use backlog_schedule::{Instant, Record};

    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    fn some_time() -> Monotonic {
        Monotonic::now()
    }

    thread_local! {
        static NOW: Cell<Monotonic> = Cell::new(some_time());
    }

    fn ahead() -> Ahead {
        Ahead::new(Clock { fixed: None, wall: || Instant(0), monotonic: || NOW.get() })
    }

    /// Returns the distinct shortfalls of rounds that begin `begun` records each, one every `pace`.
    fn wanted(begun: usize, pace: Duration) -> Vec<usize> {
        let mut ahead = ahead();
        let mut next = || {
            NOW.set(NOW.get() + pace * u32::try_from(begun).unwrap());
            ahead.count_begun(begun);
            ahead.shortfall(NOW.get())
        };
        let mut wanted: Vec<_> = (0..100).map(|_| next()).collect();
        wanted.dedup();
        wanted
    }

    #[test]
    fn quick_handlers_claim_ahead_what_they_will_soon_begin() {
        let us = Duration::from_micros;
        assert_eq!(wanted(1, us(500)), [0, 20]);
        assert_eq!(wanted(2, us(200)), [0, 50]);
        assert_eq!(wanted(64, us(20)), [64, MOST]);
        assert_eq!(wanted(97, us(500)), [97], "a round that takes long");
    }

    #[test]
    fn slow_handlers_claim_nothing_ahead() {
        let us = Duration::from_micros;
        assert_eq!(wanted(1, us(20_000)), [0]);
        assert_eq!(wanted(4, us(20_000 / 8)), [0]);
    }

    #[test]
    fn nothing_is_wanted_while_there_is_enough_for_a_round() {
        let mut ahead = Ahead { pace: 30, ..ahead() };
        let id = Id::Integer(1);
        ahead.add(&id, Claim::Busy);
        assert_eq!(ahead.shortfall(NOW.get()), 30, "a busy record is no supply");
        for id in (1..=15).map(Id::Integer) {
            let record = Arc::new(Record::new(id.clone(), None));
            ahead.add(&id, Claim::Held(record));
        }
        assert_eq!(ahead.shortfall(NOW.get()), 0);
        NOW.set(NOW.get() + FRESH);
        assert_eq!(ahead.drain_expired().len(), 15);
        assert_eq!(ahead.held(), 0);
    }
}

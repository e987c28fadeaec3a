//! Records that are claimed ahead of need, while a round is being written, so that the next round has
//! them without another way to the server. They were read just now, or they are not used.

use std::collections::HashMap;
use std::time::{Duration, Instant as Monotonic};

use backlog_schedule::Id;

use crate::clock::Clock;
use crate::store::Claim;

/// Maximum age of a record that was claimed ahead, and of the last write, for that to be worth it.
const FRESH: Duration = Duration::from_millis(50);
/// Time in which handlers begin as many records as are claimed ahead, unless a round takes longer. So hardly a record
/// waits for a handler that another pass could begin.
const SOON: Duration = Duration::from_millis(10);
/// Time over which the pace of handlers is measured.
const MEASURED_FOR: Duration = Duration::from_millis(25);
/// Maximum number of records that are claimed ahead.
const MOST: usize = 128;
/// Slower handlers have none: fewer records than these are not worth a statement.
const LEAST: usize = 8;

pub struct Ahead {
    clock: Clock,
    ready: HashMap<Id, (Claim, Monotonic)>,
    written_at: Option<Monotonic>,
    /// Number of records that handlers have begun since the last write.
    begun: usize,
    /// Number of records that handlers have begun since an instant.
    counted: (Monotonic, usize),
    /// Number of records that handlers began in [`SOON`] before that.
    pace: usize,
}

impl Ahead {
    pub fn new(clock: Clock) -> Self {
        let counted = (clock.monotonic(), 0);
        Self { clock, ready: HashMap::new(), written_at: None, begun: 0, counted, pace: 0 }
    }

    /// Counts records that are claimed for handlers.
    pub fn count(&mut self, begun: usize) {
        self.begun += begun;
    }

    /// The candidates to claim with the next write. None if the last write was too long ago.
    pub fn choose<'a>(&mut self, next: &'a [Id]) -> &'a [Id] {
        let now = self.clock.monotonic();
        let lacking = self.lacks(now).min(next.len());
        let last = self.written_at.replace(now);
        if last.is_some_and(|last| now - last < FRESH) { &next[..lacking] } else { &[] }
    }

    /// Number of records to claim ahead; 0 while half as many are held as handlers will soon begin.
    fn lacks(&mut self, now: Monotonic) -> usize {
        let begun = std::mem::take(&mut self.begun);
        self.counted.1 += begun;
        let (since, count) = self.counted;
        let elapsed = now - since;
        if elapsed >= MEASURED_FOR {
            let pace = count as u128 * SOON.as_micros() / elapsed.as_micros();
            self.pace = usize::try_from(pace).unwrap_or(usize::MAX);
            self.counted = (now, 0);
        }
        let soon = self.pace.max(begun).min(MOST);
        let held = self.held();
        if soon >= LEAST && 2 * held < soon { soon - held } else { 0 }
    }

    pub fn add(&mut self, id: &Id, claim: Claim) {
        self.ready.insert(id.clone(), (claim, self.clock.monotonic()));
    }

    /// What became of the claim on a record. What is not fresh is drained before.
    pub fn take(&mut self, id: &Id) -> Option<Claim> {
        self.ready.remove(id).map(|(claim, _)| claim)
    }

    pub fn held(&self) -> usize {
        self.ready.values().filter(|(claim, _)| matches!(claim, Claim::Held(_))).count()
    }

    /// Those that are held and that nobody has asked for in time, or if `all`, any.
    pub fn drain(&mut self, all: bool) -> Vec<Id> {
        let now = self.clock.monotonic();
        let is_over = |_: &Id, (_, at): &mut (_, Monotonic)| all || now - *at >= FRESH;
        let drained = self.ready.extract_if(is_over);
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

    /// The numbers of records to claim ahead in rounds that begin `begun` records each, one every `pace`.
    fn wanted(begun: usize, pace: Duration) -> Vec<usize> {
        let mut ahead = ahead();
        let mut next = || {
            NOW.set(NOW.get() + pace * u32::try_from(begun).unwrap());
            ahead.count(begun);
            ahead.lacks(NOW.get())
        };
        let mut wanted: Vec<_> = (0..100).map(|_| next()).collect();
        wanted.dedup();
        wanted
    }

    #[test]
    fn quick_handlers_have_as_many_claimed_ahead_as_they_soon_begin() {
        let us = Duration::from_micros;
        assert_eq!(wanted(1, us(500)), [0, 20]);
        assert_eq!(wanted(2, us(200)), [0, 50]);
        assert_eq!(wanted(64, us(20)), [64, MOST]);
        assert_eq!(wanted(97, us(500)), [97], "a round that takes long");
    }

    #[test]
    fn slow_handlers_leave_all_to_others_that_they_cannot_begin() {
        let us = Duration::from_micros;
        assert_eq!(wanted(1, us(20_000)), [0]);
        assert_eq!(wanted(4, us(20_000 / 8)), [0]);
    }

    #[test]
    fn nothing_is_wanted_while_there_is_enough_for_a_round() {
        let mut ahead = Ahead { pace: 30, ..ahead() };
        let id = Id::Integer(1);
        ahead.add(&id, Claim::Busy);
        assert_eq!(ahead.lacks(NOW.get()), 30, "a busy record is no supply");
        for id in (1..=15).map(Id::Integer) {
            let record = Arc::new(Record::new(id.clone(), None));
            ahead.add(&id, Claim::Held(record));
        }
        assert_eq!(ahead.lacks(NOW.get()), 0);
        NOW.set(NOW.get() + FRESH);
        assert_eq!(ahead.drain(false).len(), 15);
        assert_eq!(ahead.held(), 0);
    }
}

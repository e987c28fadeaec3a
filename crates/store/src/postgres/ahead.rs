//! Records that are claimed ahead of need, while a round is being written, so that the next round has
//! them without another way to the server. They were read just now, or they are not used.

use std::collections::HashMap;
use std::time::{Duration, Instant as Monotonic};

use backlog_schedule::Id;

use crate::clock::Clock;
use crate::store::Claim;

/// How old a record that was claimed ahead may be; and how long ago the last round, for that to be worth
/// it: nothing waits beside a slow handler in the hands of its pass that others could work on.
const FRESH: Duration = Duration::from_millis(50);
/// In which time those are to be used up that are claimed ahead together.
const USED_UP: Duration = Duration::from_millis(25);
/// How many are claimed ahead at a time.
const MOST: usize = 64;
/// How often each place is used in that time, if handlers are quick.
const QUICK: usize = 2;

pub struct Ahead {
    clock: Clock,
    ready: HashMap<Id, (Claim, Monotonic)>,
    written_at: Option<Monotonic>,
    /// How many records were claimed for handlers, and since when.
    begun: usize,
    counted_since: Option<Monotonic>,
    /// How many were claimed in [`USED_UP`] before.
    pace: usize,
}

impl Ahead {
    pub fn new(clock: Clock) -> Self {
        let (ready, written_at, counted_since) = (HashMap::new(), None, None);
        Self { clock, ready, written_at, begun: 0, counted_since, pace: 0 }
    }

    /// Counts records that are claimed for handlers.
    pub fn count(&mut self, begun: usize) {
        self.begun += begun;
    }

    /// The candidates to claim with the next write, if handlers work on `attempts` records after it. None if the
    /// last write was too long ago.
    pub fn choose<'a>(&mut self, next: &'a [Id], attempts: usize) -> &'a [Id] {
        let now = self.clock.monotonic();
        let lacking = self.lacks(attempts).min(next.len());
        let last = self.written_at.replace(now);
        if last.is_some_and(|last| now - last < FRESH) { &next[..lacking] } else { &[] }
    }

    /// Number of records to claim ahead; 0 while enough are held. They are as many as are used up in time, so that
    /// quick handlers, which begin few at a time, do not have one way to the server for each. Handlers that are
    /// no quicker than that have none: what is claimed ahead of them is kept from other passes, which
    /// would have come to it before.
    fn lacks(&mut self, attempts: usize) -> usize {
        self.measure_pace();
        let attempts = attempts.min(MOST);
        let held = self.fresh().filter(|claim| matches!(claim, Claim::Held(_))).count();
        let is_quick = self.pace >= QUICK * attempts;
        if is_quick && 2 * held < attempts { self.pace.min(MOST) } else { 0 }
    }

    fn measure_pace(&mut self) {
        let now = self.clock.monotonic();
        let elapsed = now - *self.counted_since.get_or_insert(now);
        if elapsed >= USED_UP {
            let pace = self.begun as u128 * USED_UP.as_micros() / elapsed.as_micros();
            self.pace = usize::try_from(pace).unwrap_or(usize::MAX);
            (self.counted_since, self.begun) = (Some(now), 0);
        }
    }

    pub fn add(&mut self, id: &Id, claim: Claim) {
        self.ready.insert(id.clone(), (claim, self.clock.monotonic()));
    }

    /// What became of the claim on a record. What is not fresh is drained before.
    pub fn take(&mut self, id: &Id) -> Option<Claim> {
        self.ready.remove(id).map(|(claim, _)| claim)
    }

    fn fresh(&self) -> impl Iterator<Item = &Claim> {
        let now = self.clock.monotonic();
        self.ready.values().filter(move |(_, at)| now - *at < FRESH).map(|(claim, _)| claim)
    }

    /// How many records are held.
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

    /// How many are wanted, round by round, of which each begins so many at this pace.
    fn wanted(attempts: usize, begun: usize, pace: Duration) -> Vec<usize> {
        let mut ahead = ahead();
        let mut next = || {
            NOW.set(NOW.get() + pace * u32::try_from(begun).unwrap());
            ahead.count(begun);
            ahead.lacks(attempts)
        };
        let mut wanted: Vec<_> = (0..100).map(|_| next()).collect();
        wanted.dedup();
        wanted
    }

    #[test]
    fn quick_handlers_have_as_many_claimed_ahead_as_they_use_up_in_time() {
        let us = Duration::from_micros;
        assert_eq!(wanted(2, 1, us(1_000)), [0, 26, 25]);
        assert_eq!(wanted(2, 1, us(100)), [0]);
        assert_eq!(wanted(2, 2, us(200)), [0, MOST]);
        assert_eq!(wanted(128, 64, us(40)), [0, MOST]);
    }

    #[test]
    fn slow_handlers_leave_all_to_others_that_they_cannot_begin() {
        let us = Duration::from_micros;
        assert_eq!(wanted(1, 1, us(20_000)), [0]);
        assert_eq!(wanted(8, 1, us(20_000 / 8)), [0]);
        assert_eq!(wanted(16, 4, us(20_000 / 16)), [0]);
        assert_eq!(wanted(128, 10, us(250)), [0]);
    }

    #[test]
    fn nothing_is_wanted_while_there_is_enough_for_a_round() {
        let mut ahead = Ahead { pace: 30, ..ahead() };
        let id = Id::Integer(1);
        ahead.add(&id, Claim::Busy);
        assert_eq!(ahead.lacks(2), 30, "what others hold is no supply");
        ahead.add(&id, Claim::Held(Arc::new(Record::new(Id::Integer(7), None))));
        assert_eq!(ahead.lacks(2), 0);
        NOW.set(NOW.get() + FRESH);
        assert_eq!(ahead.fresh().count(), 0);
    }
}

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
    /// What the next round may ask for.
    wanted: Vec<Id>,
    ready: HashMap<Id, (Claim, Monotonic)>,
    written_at: Option<Monotonic>,
    /// How many attempts have begun, and since when.
    begun: Option<(Monotonic, usize)>,
    /// How many began in such a time before.
    pace: usize,
}

impl Ahead {
    pub fn new(clock: Clock) -> Self {
        let (wanted, ready) = (Vec::new(), HashMap::new());
        Self { clock, wanted, ready, written_at: None, begun: None, pace: 0 }
    }

    /// How many records are to be wanted, where a round begins up to `attempts` and this one has begun so
    /// many; none while enough are held for it. They are as many as are used up in time, so that quick
    /// handlers, which begin few at a time, do not have one way to the server for each. Handlers that are
    /// no quicker than that have none: what is claimed ahead of them is kept from other passes, which
    /// would have come to it before.
    pub fn lacks(&mut self, attempts: usize, begun: usize) -> usize {
        self.reckon_pace(begun);
        let attempts = attempts.min(MOST);
        let held = self.fresh().filter(|claim| matches!(claim, Claim::Held(_))).count();
        let is_quick = self.pace >= QUICK * attempts;
        if is_quick && 2 * held < attempts { self.pace.min(MOST) } else { 0 }
    }

    /// Takes down how many attempts have begun, and at times how many do in the time for which some are
    /// claimed ahead.
    fn reckon_pace(&mut self, begun: usize) {
        let now = self.clock.monotonic();
        let (since, count) = *self.begun.get_or_insert((now, 0));
        let (elapsed, count) = (now - since, count + begun);
        self.begun = Some((since, count));
        if elapsed >= USED_UP {
            let pace = count as u128 * USED_UP.as_micros() / elapsed.as_micros();
            self.pace = usize::try_from(pace).unwrap_or(usize::MAX);
            self.begun = Some((now, 0));
        }
    }

    pub fn want(&mut self, ids: &[Id]) {
        self.wanted = ids.to_vec();
    }

    /// What is to be claimed with what is written now.
    pub fn take_wanted(&mut self) -> Vec<Id> {
        let now = self.clock.monotonic();
        let last = self.written_at.replace(now);
        let wanted = std::mem::take(&mut self.wanted);
        if last.is_some_and(|last| now - last < FRESH) { wanted } else { Vec::new() }
    }

    pub fn add(&mut self, id: &Id, claim: Claim) {
        self.ready.insert(id.clone(), (claim, self.clock.monotonic()));
    }

    /// What became of the claim on a record. What is not fresh is drained before.
    pub fn take(&mut self, id: &Id) -> Option<Claim> {
        self.ready.remove(id).map(|(claim, _)| claim)
    }

    /// Those that are fresh.
    pub fn fresh(&self) -> impl Iterator<Item = &Claim> {
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
            ahead.lacks(attempts, begun)
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
        assert_eq!(ahead.lacks(2, 0), 30, "what others hold is no supply");
        ahead.add(&id, Claim::Held(Arc::new(Record::new(Id::Integer(7), None))));
        assert_eq!(ahead.lacks(2, 0), 0);
        NOW.set(NOW.get() + FRESH);
        assert_eq!(ahead.fresh().count(), 0);
    }
}

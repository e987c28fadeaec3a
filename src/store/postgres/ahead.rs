//! Records that are claimed ahead of need, while a round is being written, so that the next round has
//! them without another way to the server. They were read just now, or they are not used.

use std::collections::HashMap;
use std::time::{Duration, Instant as Monotonic};

use crate::record::Id;
use crate::store::Claim;
use crate::time::Clock;

/// How old a record that was claimed ahead may be; and how long ago the last round, for that to be worth
/// it: nothing waits beside a slow handler in the hands of its pass that others could work on.
const FRESH: Duration = Duration::from_millis(50);
/// In which time those are to be used up that are claimed ahead together.
const USED_UP: Duration = Duration::from_millis(25);
/// How many are claimed ahead at a time.
const MOST: usize = 64;

pub struct Ahead {
    clock: Clock,
    /// What the next round may ask for.
    wanted: Vec<Id>,
    ready: HashMap<Id, (Claim, Monotonic)>,
    written_at: Option<Monotonic>,
    /// How many were wanted the last time, and when.
    last_wanted: Option<(usize, Monotonic)>,
}

impl Ahead {
    pub fn new(clock: Clock) -> Self {
        let (wanted, ready) = (Vec::new(), HashMap::new());
        Self { clock, wanted, ready, written_at: None, last_wanted: None }
    }

    /// How many of the next records are to be wanted, where a round begins up to so many attempts; none
    /// while enough are held for it. They are as many as are used up in time, at the pace of the last
    /// ones, so that quick handlers, which begin few at a time, do not have one way to the server for
    /// each; and those of which it is known that others hold them.
    pub fn lacks(&mut self, attempts: usize) -> usize {
        let attempts = attempts.min(MOST);
        let is_held = |claim: &Claim| matches!(claim, Claim::Held(_));
        let held = self.fresh().filter(|claim| is_held(claim)).count();
        if 2 * held >= attempts || self.ready.len() >= MOST {
            return 0;
        }
        let now = self.clock.monotonic();
        let paced = self.last_wanted.map_or(0, |(count, at)| {
            let elapsed = (now - at).as_micros().max(1);
            let paced = count as u128 * USED_UP.as_micros() / elapsed;
            usize::try_from(paced).unwrap_or(MOST).min(2 * count)
        });
        let count = paced.clamp(attempts, MOST);
        self.last_wanted = Some((count, now));
        (self.ready.len() + count).min(MOST)
    }

    pub fn want(&mut self, ids: &[Id]) {
        self.wanted = ids.to_vec();
    }

    /// What is to be claimed with what is written now.
    pub fn take_wanted_of_round(&mut self) -> Vec<Id> {
        let now = self.clock.monotonic();
        let last = self.written_at.replace(now);
        let wanted = self.take_wanted();
        if last.is_some_and(|last| now - last < FRESH) { wanted } else { Vec::new() }
    }

    /// What is to be claimed with what is claimed now. Of what is ready that is known.
    pub fn take_wanted(&mut self) -> Vec<Id> {
        let mut wanted = std::mem::take(&mut self.wanted);
        wanted.retain(|id| !self.ready.contains_key(id));
        wanted
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
    use crate::record::fixture;
    use crate::time::Instant;

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

    /// How many are wanted each time that all are used up, of which one is used in each `pace`.
    fn wanted(attempts: usize, pace: Duration) -> Vec<usize> {
        let mut ahead = ahead();
        let mut next = || {
            let count = ahead.lacks(attempts);
            NOW.set(NOW.get() + pace * u32::try_from(count).unwrap());
            count
        };
        (0..8).map(|_| next()).collect()
    }

    #[test]
    fn quick_handlers_have_as_many_claimed_ahead_as_they_use_up_in_time() {
        let ms = Duration::from_millis;
        assert_eq!(wanted(2, ms(1)), [2, 4, 8, 16, 25, 25, 25, 25]);
        assert_eq!(wanted(2, Duration::from_micros(100)), [2, 4, 8, 16, 32, MOST, MOST, MOST]);
        assert_eq!(wanted(2, ms(20)), [2; 8]);
        assert_eq!(wanted(16, ms(1)), [16, 25, 25, 25, 25, 25, 25, 25]);
        assert_eq!(wanted(256, ms(1)), [MOST; 8]);
    }

    #[test]
    fn nothing_is_wanted_while_there_is_enough_for_a_round() {
        let mut ahead = ahead();
        assert_eq!(ahead.lacks(0), 0);
        let ids: Vec<_> = (1..=3).map(Id::Integer).collect();
        for id in &ids[..2] {
            ahead.add(id, Claim::Held(Arc::new(fixture::record())));
        }
        assert_eq!(ahead.lacks(4), 0);
        assert!(matches!(ahead.take(&ids[0]), Some(Claim::Held(_))));
        assert_eq!(ahead.lacks(4), 1 + 4, "behind the one that is there");
        NOW.set(NOW.get() + FRESH);
        assert_eq!(ahead.lacks(2), 1 + 2, "that one is too old");
        assert_eq!(ahead.drain(false), ids[1..2]);
        assert_eq!(ahead.lacks(2), 4);
    }

    #[test]
    fn what_others_hold_is_no_supply_and_is_not_asked_for_again() {
        let mut ahead = ahead();
        let ids: Vec<_> = (1..=6).map(Id::Integer).collect();
        ids[..4].iter().for_each(|id| ahead.add(id, Claim::Busy));
        assert_eq!(ahead.lacks(2), 4 + 2);
        ahead.want(&ids);
        assert_eq!(ahead.take_wanted(), ids[4..]);
    }
}

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

pub struct Ahead {
    clock: Clock,
    /// What the next round may ask for.
    wanted: Vec<Id>,
    ready: HashMap<Id, (Claim, Monotonic)>,
    written_at: Option<Monotonic>,
}

impl Ahead {
    pub fn new(clock: Clock) -> Self {
        Self { clock, wanted: Vec::new(), ready: HashMap::new(), written_at: None }
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

    /// How many are fresh.
    pub fn fresh(&self) -> usize {
        let now = self.clock.monotonic();
        self.ready.values().filter(|(_, at)| now - *at < FRESH).count()
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

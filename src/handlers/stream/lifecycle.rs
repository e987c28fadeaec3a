//! A co-process on its way from its start to its end.

use std::time::{Duration, Instant as Monotonic};

use rustix::process::Signal;

use super::coprocess::CoProcess;
use crate::handlers::spawned::STOP_KILL_DELAY;

pub struct Lifecycle {
    pub process: CoProcess,
    stage: Stage,
    /// Since when nothing was heard of it, or it had nothing to answer.
    quiet_since: Monotonic,
    /// Whether it has answered anything.
    pub has_answered: bool,
    /// Whether it was said that it has not.
    is_doubted: bool,
    /// Whether it did so only after its time.
    pub answers_late: bool,
    /// How many orders to stop it has heeded.
    stops: u32,
}

/// The stage of a co-process on its way to its end.
#[derive(Clone, Copy)]
enum Stage {
    Serving,
    /// Its input is closed.
    Finishing {
        why: Why,
        until: Monotonic,
    },
    Asked {
        why: Why,
        kill_at: Monotonic,
    },
    Killed {
        why: Why,
    },
}

/// The reason why a co-process is made to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// There is nothing more to do.
    Over,
    /// The pass is stopped.
    Stopped,
    /// It did not answer in time.
    Silent { leaves_input: bool },
    /// What it says is not the protocol.
    Broken,
}

/// The orders that a co-process is under at a moment.
pub struct Orders {
    pub now: Monotonic,
    /// How long it may be silent, if it has something to answer.
    pub timeout: Option<Duration>,
    /// What it gets to finish in.
    pub grace: Duration,
    /// How often the pass was told to stop, and what it then gets to finish in.
    pub stops: u32,
    pub stop_grace: Duration,
    pub is_over: bool,
}

impl Lifecycle {
    pub fn new(process: CoProcess, now: Monotonic, stops: u32) -> Self {
        let (stage, quiet_since) = (Stage::Serving, now);
        Self {
            process,
            stage,
            quiet_since,
            has_answered: false,
            is_doubted: false,
            answers_late: false,
            stops,
        }
    }

    pub fn is_serving(&self) -> bool {
        matches!(self.stage, Stage::Serving)
    }

    /// It got something to answer after it had nothing.
    pub fn is_busy_from(&mut self, now: Monotonic) {
        self.quiet_since = now;
    }

    pub fn answered_at(&mut self, now: Monotonic) {
        self.quiet_since = now;
        self.has_answered = true;
        self.answers_late = matches!(self.why(), Some(Why::Silent { .. }));
    }

    /// Why it is made to end, if it is.
    pub fn why(&self) -> Option<Why> {
        match self.stage {
            Stage::Serving => None,
            Stage::Finishing { why, .. } | Stage::Asked { why, .. } | Stage::Killed { why } => {
                Some(why)
            }
        }
    }

    /// When its first reply is to be missed, if it has records and none of them is answered until
    /// then.
    pub fn doubted_at(&self, first_reply_within: Duration) -> Option<Monotonic> {
        let is_new = self.is_serving() && !self.has_answered && !self.is_doubted;
        self.quiet_since.checked_add(first_reply_within).filter(|_| is_new)
    }

    pub fn doubt(&mut self) {
        self.is_doubted = true;
    }

    /// When its time is up, if nothing happens until then.
    pub fn deadline(&self, timeout: Option<Duration>) -> Option<Monotonic> {
        match self.stage {
            Stage::Serving => timeout.and_then(|timeout| self.quiet_since.checked_add(timeout)),
            Stage::Finishing { until, .. } => Some(until),
            Stage::Asked { kill_at, .. } => Some(kill_at),
            Stage::Killed { .. } => None,
        }
    }

    /// Makes it end if there is a reason to, and its end come sooner if that is late.
    pub fn heed(&mut self, orders: &Orders) {
        let Orders { now, timeout, grace, stops, stop_grace, is_over } = *orders;
        let is_late = self.deadline(timeout).is_some_and(|deadline| deadline <= now);
        let is_stopped = std::mem::replace(&mut self.stops, stops) < stops;
        match self.stage {
            Stage::Serving if is_stopped => self.finish(Why::Stopped, now + stop_grace),
            Stage::Serving if is_over => self.finish(Why::Over, now + grace),
            Stage::Serving if is_late => {
                let leaves_input = self.process.leaves_input();
                self.finish(Why::Silent { leaves_input }, now + grace);
            }
            Stage::Finishing { why, until } if is_stopped => {
                self.stage = Stage::Finishing { why, until: until.min(now + stop_grace) };
            }
            Stage::Finishing { why, .. } if is_late => self.ask(why, now),
            Stage::Asked { why, .. } if is_late => {
                self.process.signal(Signal::KILL);
                self.stage = Stage::Killed { why };
            }
            Stage::Serving
            | Stage::Finishing { .. }
            | Stage::Asked { .. }
            | Stage::Killed { .. } => {}
        }
    }

    /// It says what is not the protocol, and will not be listened to any more.
    pub fn break_off(&mut self, now: Monotonic) {
        self.ask(Why::Broken, now);
    }

    fn finish(&mut self, why: Why, until: Monotonic) {
        self.process.close_input();
        self.stage = Stage::Finishing { why, until };
    }

    fn ask(&mut self, why: Why, now: Monotonic) {
        self.process.signal(Signal::TERM);
        self.stage = Stage::Asked { why, kill_at: now + STOP_KILL_DELAY };
    }
}

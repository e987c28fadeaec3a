//! What is remembered from one round to the next, and how a pass ends.

mod archived;
mod round;
mod settled;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use super::progress::Progress;
use super::rate::Bucket;
use super::{Candidates, Handlers, Pass, Stopped, Summary, Wake};
use crate::handler::{Handler, Outbox};
use crate::instant::Instant;
use crate::record::{Answer, Id, Outcome, Record};
use crate::selection::Slot;

/// Whether a drain goes on.
pub enum Again {
    No,
    Now,
    /// There are records that other passes hold: give them a moment.
    AfterOthers,
}

/// Owns the parts of a pass and the state between its rounds.
pub struct Coordinator {
    pass: Pass,
    handler: Arc<dyn Handler>,
    wake: Wake,
    candidates: Candidates,
    /// Who gets what is archived.
    on_archive: Option<Arc<dyn Handler>>,
    /// Attempts that `--max-records` leaves.
    left: Option<u64>,
    /// Attempts that `--rate` leaves.
    bucket: Option<Bucket>,
    /// Whether records wait for the rate alone.
    is_held_back: bool,
    /// What handlers have, until it is settled.
    in_hand: HashMap<Id, InHand>,
    /// Due records that another pass has claimed.
    busy: Vec<Id>,
    /// Whether the table was shown to take every status that may be written.
    proven: bool,
    progress: Progress,
    /// Records that the handler could not be run for, which this pass does not try again.
    unable: HashSet<Id>,
    /// Whether the last answer was that the handler could not be run.
    unable_last: bool,
    /// How many attempts have failed since the last one that did not.
    failures_in_a_row: u32,
    /// Whether running handlers were told to end.
    told_to_end: bool,
    /// Answers that could not be written, because of `error`.
    unsettled: Vec<Answer>,
    error: Option<anyhow::Error>,
    summary: Summary,
}

struct InHand {
    record: Arc<Record>,
    /// Whether the row says that the attempt has begun.
    charged: bool,
    started_at: Instant,
    slot: Option<Slot>,
}

impl Coordinator {
    pub fn new(pass: Pass, candidates: Candidates, wake: Wake, handlers: Handlers) -> Self {
        let now = pass.clock.monotonic();
        Self {
            handler: handlers.handler,
            on_archive: handlers.on_archive,
            wake,
            candidates,
            left: pass.limits.max_records,
            bucket: pass.limits.rate.map(|rate| Bucket::new(rate, now)),
            is_held_back: false,
            pass,
            in_hand: HashMap::new(),
            busy: Vec::new(),
            proven: false,
            progress: Progress::default(),
            unable: HashSet::new(),
            unable_last: false,
            failures_in_a_row: 0,
            told_to_end: false,
            unsettled: Vec::new(),
            error: None,
            summary: Summary::default(),
        }
    }

    /// A round, unless an error has ended all rounds.
    pub fn take_up(&mut self, answers: Vec<Answer>, outbox: &Outbox) {
        let (has_answers, was_held_back) = (!answers.is_empty(), self.is_held_back);
        if self.error.is_none()
            && let Err(error) = self.round(&answers, outbox)
        {
            self.fail(error);
        }
        if self.error.is_some() {
            let in_hand = &self.in_hand;
            self.unsettled.extend(answers.into_iter().filter(|it| in_hand.contains_key(&it.id)));
        }
        // Who waits for the end of the pass runs rounds without answers, and looks by itself.
        if has_answers && self.is_idle() || self.is_held_back && !was_held_back {
            self.wake.turn();
        }
    }

    /// For how long the rate holds records back that could be tried now.
    pub fn held_back(&self) -> Option<Duration> {
        let bucket = self.bucket.as_ref().filter(|_| self.is_held_back && !self.is_cut_short());
        bucket.map(|bucket| self.pass.clock.until(bucket.next_at()))
    }

    /// There is no answer to take up: nothing is claimed before the next one comes.
    pub fn rest(&mut self) {
        if self.error.is_none()
            && let Err(error) = self.pass.store.rest()
        {
            self.fail(error);
        }
    }

    fn fail(&mut self, error: anyhow::Error) {
        self.error = Some(error);
        self.handler.stop(self.pass.limits.grace);
    }

    pub fn is_idle(&self) -> bool {
        self.in_hand.len() == self.unsettled.len()
    }

    /// Whether nothing more is begun, although there may be more that is due.
    fn is_cut_short(&self) -> bool {
        self.error.is_some()
            || self.summary.stopped.is_some()
            || self.wake.signalled().is_some()
            || self.left == Some(0)
    }

    /// No new claims from here on. Running handlers are told to end if somebody outside wants the
    /// pass to; a second such order leaves them no more time.
    pub fn stop(&mut self, why: Stopped) {
        match why {
            Stopped::Signal(_) | Stopped::Runtime => {
                let again = std::mem::replace(&mut self.told_to_end, true);
                let grace = if again { Duration::ZERO } else { self.pass.limits.grace };
                self.handler.stop(grace);
                if let Some(on_archive) = &self.on_archive {
                    on_archive.stop(grace);
                }
            }
            Stopped::Unable(_) | Stopped::Refused(_) | Stopped::Failures(_) => {
                self.handler.begin_no_more();
            }
        }
        self.summary.stopped.get_or_insert(why);
    }

    /// Selects anew, if this is a drain and there may be more to do.
    pub fn begin_again(&mut self) -> Again {
        if self.is_cut_short() || !self.pass.limits.drain {
            return Again::No;
        }
        let moment = self.pass.look.moment;
        let come_to = moment.span.map(|span| Slot::end_of(span.until));
        self.pass.look.moment = self.pass.look.policy.moment(come_to, self.pass.clock.now(), true);
        let busy = std::mem::take(&mut self.busy);
        let was_busy = !busy.is_empty();
        // By age a record that failed stays due, but a drain tries it once.
        let errors_too = self.pass.look.policy.needs_counter();
        self.candidates = self.candidates.again(self.pass.look.clone(), busy, errors_too);
        if was_busy {
            return Again::AfterOthers;
        }
        let progress = self.summary.take_progress();
        match self.candidates.any(self.pass.store.reader()) {
            Ok(any) if any && progress => Again::Now,
            Ok(_) => Again::No,
            Err(error) => {
                self.error = Some(error);
                Again::No
            }
        }
    }

    /// The last word. If the pass could not write any more, what its handlers did is named,
    /// because the table does not show it.
    pub fn finish(&mut self) -> Result<Summary> {
        // A signal that came when everything was settled, and found nobody waiting for it.
        self.summary.stopped =
            self.summary.stopped.take().or(self.wake.signalled().map(Stopped::Signal));
        let cut_short = self.is_cut_short();
        for in_hand in self.in_hand.values() {
            self.progress.came_back(in_hand.slot);
        }
        if let Some(reached) = self.progress.come_to(self.pass.look.moment.span, cut_short) {
            self.pass.observer.reached(&reached);
        }
        let observed = self.pass.observer.finished();
        let durable = self.pass.store.finish();
        let Some(error) = self.error.take() else {
            durable?;
            observed?;
            self.summary.busy = self.busy.len() as u64;
            return Ok(self.summary.clone());
        };
        let succeeded = self.unsettled.iter().filter(|it| it.outcome == Outcome::Success);
        let succeeded: Vec<_> = succeeded.map(|answer| answer.id.to_string()).collect();
        if succeeded.is_empty() {
            return Err(error);
        }
        Err(error.context(format!(
            "the handler succeeded for these records, but the table does not show it, and they \
             will be tried again: {}",
            succeeded.join(", ")
        )))
    }
}

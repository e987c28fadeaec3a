//! The dispatcher: the state of a pass between its rounds, and the end of the pass.

mod circuit_breaker;
mod claiming;
mod completion;
mod rehearsal;
mod round;
mod unreported;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant as Monotonic};

use anyhow::Result;
use backlog_schedule::{Attempt, DueRule, Id, Instant, Outcome, Record, Slot, counted};
use backlog_store::{Guards, RowConstraints, Until, chain};

use super::cursor::PassCursor;
use super::due_queue::{Candidate, SearchPlan};
use super::rate_limit::TokenBucket;
use super::{DueQueue, Handlers, Pass, Stopped, Tally, Wake};
use crate::exit::Exit;
use crate::handlers::Submit;

use circuit_breaker::CircuitBreaker;
use completion::Unwritten;
use unreported::Unreported;

/// Maximum number of ambiguous ids in a message.
const MOST_AMBIGUOUS: usize = 5;
const SECOND: Duration = Duration::from_secs(1);
/// Pause before a pass claims records again that other passes hold.
const BUSY_PAUSE: Duration = Duration::from_millis(50);
/// A handler that runs for longer is slow.
const LONG: Duration = Duration::from_secs(10);
const MOST_SLOW: usize = 1_000;

pub struct Dispatcher {
    pass: Pass,
    rule: DueRule,
    plan: SearchPlan,
    handlers: Handlers,
    row_constraints: RowConstraints,
    wake: Wake,
    due: DueQueue,
    /// Number of attempts that `--max-records` still allows.
    left: u64,
    bucket: Option<TokenBucket>,
    waits_for_rate: bool,
    /// Records from the start of their handlers to their settlement.
    in_hand: HashMap<Id, InHand>,
    /// Records to claim again, because another pass or session holds them.
    busy: Vec<Candidate>,
    /// Records whose success a constraint may refuse after the success of another record in hand.
    blocked: Vec<Candidate>,
    /// True if these were retried since the last record was handed out.
    has_retried_blocked: bool,
    /// Records whose last attempt has not reported back: a handler may still run.
    unreported: Unreported,
    unwritten: Unwritten,
    slow_handlers: Vec<(Id, Instant)>,
    next_second: Option<Monotonic>,
    /// Records whose last attempt is made alone in its process, after all others.
    to_be_alone: Vec<Candidate>,
    is_alone: bool,
    /// True if the next claimed record would be the only one in hand.
    may_be_alone: bool,
    /// True if the store claims nothing for a while, although records are due.
    waits_for_store: bool,
    waits_for_store_since: Option<Monotonic>,
    /// True if a pass without --drain has retried the busy records.
    has_retried_busy: bool,
    /// True if the column for errors accepts our texts, false if not. `None` until it is known.
    takes_errors: Option<bool>,
    /// True once a rehearsal has found an archived record.
    finds_archived: bool,
    unstored: Option<(Id, String)>,
    cursor: PassCursor,
    breaker: CircuitBreaker,
    ambiguous: BTreeSet<String>,
    /// True after a failed write: nothing more is written before the end of the pass.
    cannot_write: bool,
    error: Option<anyhow::Error>,
    tally: Tally,
}

pub enum Step {
    /// Wait for a wake-up, because other threads run the rounds.
    Wait(Duration),
    RoundAfter(Duration),
    End,
}

struct InHand {
    record: Arc<Record>,
    charged: Option<Guards>,
    started_at: Instant,
    began: Monotonic,
    /// True if a failed round may have written the outcome.
    may_be_written: bool,
}

impl Dispatcher {
    pub fn new(
        pass: Pass,
        rule: DueRule,
        plan: SearchPlan,
        due: DueQueue,
        wake: Wake,
        handlers: Handlers,
        row_constraints: RowConstraints,
    ) -> Self {
        let now = pass.clock.monotonic();
        let cursor = PassCursor::new(rule.time.span, &plan, rule.kept.clone());
        Self {
            left: pass.limits.max_records.unwrap_or(u64::MAX),
            bucket: pass.limits.rate.map(|rate| TokenBucket::new(rate, now)),
            waits_for_rate: false,
            pass,
            rule,
            plan,
            handlers,
            row_constraints,
            wake,
            due,
            in_hand: HashMap::new(),
            busy: Vec::new(),
            blocked: Vec::new(),
            has_retried_blocked: false,
            unreported: Unreported::default(),
            unwritten: Unwritten::default(),
            slow_handlers: Vec::new(),
            next_second: None,
            to_be_alone: Vec::new(),
            is_alone: false,
            may_be_alone: false,
            waits_for_store: false,
            waits_for_store_since: None,
            has_retried_busy: false,
            takes_errors: None,
            finds_archived: false,
            unstored: None,
            cursor,
            breaker: CircuitBreaker::default(),
            ambiguous: BTreeSet::new(),
            cannot_write: false,
            error: None,
            tally: Tally::default(),
        }
    }

    pub fn complete(&mut self, ended: Vec<Attempt>, submit: &Submit) {
        let (has_ended, was_waiting) = (!ended.is_empty(), self.has_waiting());
        let ended = self.without_doubtful(ended);
        if !self.cannot_write
            && let Err(error) = self.round(&ended, submit)
        {
            // Nothing can be written, so no handler needs to run.
            self.cannot_write = true;
            self.error.get_or_insert(error);
            self.handlers.stop.end();
        }
        if self.cannot_write {
            let in_hand = &self.in_hand;
            let unsettled = ended.into_iter().filter(|attempt| in_hand.contains_key(&attempt.id));
            self.unwritten.attempts.extend(unsettled);
        }
        // A round without attempts is run by the main thread itself.
        if has_ended && self.is_idle() || self.has_waiting() && !was_waiting {
            self.wake.wake_up();
        }
    }

    /// True if records wait for a time, not only for a free handler.
    fn has_waiting(&self) -> bool {
        self.waits_for_rate
            || self.waits_for_store
            || !self.unreported.is_empty()
            || !self.unwritten.attempts.is_empty()
    }

    fn waiting_time(&self) -> Option<Duration> {
        if !self.has_waiting() || self.is_cut_short() {
            return None;
        }
        let clock = self.pass.clock;
        let bucket = self.bucket.as_ref().filter(|_| self.waits_for_rate);
        let by_rate = bucket.map(|bucket| clock.until(bucket.next_at()));
        let held_off = if self.waits_for_store { self.pass.store.limits().hold_off } else { None };
        let has_free_place = self.in_hand.len() < self.places();
        let unreported = self.unreported.next_at().filter(|_| has_free_place);
        let unreported = unreported.map(|at| clock.until(at));
        // After a hold-off the next round is due at once.
        let held_off = held_off.or(self.waits_for_store.then_some(Duration::ZERO));
        [by_rate, held_off, unreported].into_iter().flatten().min()
    }

    pub fn next_step(&mut self) -> Step {
        let left = self.each_second();
        match self.next_round() {
            Step::Wait(most) => Step::Wait(most.min(left)),
            Step::RoundAfter(pause) if pause > left && self.is_idle() => {
                // No handler runs, so nothing changes during the pause.
                self.pass.observer.every_second();
                Step::RoundAfter(pause)
            }
            Step::RoundAfter(pause) if pause > left => Step::Wait(left),
            step @ (Step::RoundAfter(_) | Step::End) => step,
        }
    }

    fn each_second(&mut self) -> Duration {
        let now = self.pass.clock.monotonic();
        let next = *self.next_second.get_or_insert(now + SECOND);
        if now < next {
            return next - now;
        }
        self.next_second = Some(now + SECOND);
        self.note_slow_handlers(now);
        self.stop_slow_handlers();
        self.pass.observer.every_second();
        SECOND
    }

    /// Saves the records with slow handlers for `status`, `list` and `explain`.
    fn note_slow_handlers(&mut self, now: Monotonic) {
        let is_slow = |began| now.saturating_duration_since(began) >= LONG;
        let slow = self.in_hand.iter().filter(|(_, in_hand)| is_slow(in_hand.began));
        let mut slow: Vec<_> = slow.map(|(id, held)| (id.clone(), held.started_at)).collect();
        slow.sort_by_key(|(_, since)| *since);
        slow.truncate(MOST_SLOW);
        if self.slow_handlers != slow && self.pass.observer.slow_handlers(&slow) {
            self.slow_handlers = slow;
        }
    }

    /// Interrupts the attempts that `backlog stop` asks to stop. This pass does not try their records again.
    fn stop_slow_handlers(&mut self) {
        if self.slow_handlers.is_empty() {
            return;
        }
        let mut stopped = self.pass.observer.stop_requests();
        stopped.retain(|id| self.in_hand.contains_key(id));
        for id in &stopped {
            log::warn!("record {id}: stopping its handler, as `backlog stop` requested");
            self.breaker.skipped.insert(id.clone());
        }
        self.handlers.handler.interrupt(&stopped, self.pass.limits.grace);
    }

    fn next_round(&mut self) -> Step {
        let again = self.write_again_in();
        let pause = match self.waiting_time() {
            None if !self.is_idle() => {
                return again.map_or(Step::Wait(Duration::MAX), Step::RoundAfter);
            }
            None => self.begin_again(),
            pause => pause,
        };
        let is_over =
            pause.is_none() && !self.unwritten.is_worth_waiting(self.pass.clock.monotonic());
        let again = again.filter(|_| !is_over);
        [pause, again].into_iter().flatten().min().map_or(Step::End, Step::RoundAfter)
    }

    /// Flushes the store. After an error no more attempts begin.
    pub fn flush(&mut self) {
        if !self.cannot_write
            && let Err(error) = self.pass.store.flush(Until::Idle)
        {
            self.begin_no_more(error);
        }
    }

    /// Begins nothing more; attempts in hand are settled. A search that the stop has ended is no error.
    fn begin_no_more(&mut self, error: anyhow::Error) {
        if self.pass.stop.is_stopping() && !self.has_only_waited(&error) {
            log::debug!("{}", chain(&error));
        } else {
            self.error.get_or_insert(error);
        }
        self.handlers.stop.begin_no_more();
    }

    /// True if the pass only waited for a lock until --max-runtime. After a signal, such a wait is not reported.
    fn has_only_waited(&self, error: &anyhow::Error) -> bool {
        let is_locked = Exit::from(error) == Exit::TryLater;
        let did_nothing = self.tally.attempts() + self.tally.expired == 0;
        is_locked && did_nothing && self.pass.stop.signalled().is_none()
    }

    pub fn is_idle(&self) -> bool {
        self.in_hand.len() == self.ended()
    }

    /// Number of records in hand whose attempts have ended and are not settled.
    fn ended(&self) -> usize {
        self.breaker.doubtful.len() + self.unwritten.attempts.len()
    }

    /// True if nothing more is begun, although more may be due.
    fn is_cut_short(&self) -> bool {
        self.error.is_some()
            || self.tally.stopped.is_some()
            || self.pass.stop.is_stopping()
            || self.left == 0
    }

    pub fn stop(&mut self, why: Stopped) {
        self.handlers.stop.begin_no_more();
        self.tally.stopped.get_or_insert(why);
    }

    fn obey_pause(&mut self) {
        if !self.is_cut_short()
            && let Some(pause) = self.pass.observer.paused()
        {
            log::warn!("{pause}; no more attempts begin");
            self.stop(Stopped::Paused);
        }
    }

    /// Searches again in a drain; otherwise retries busy records once. Returns the pause before the next round.
    fn begin_again(&mut self) -> Option<Duration> {
        if self.is_cut_short() {
            return None;
        }
        // An unwritten outcome may still block some.
        let is_retried = std::mem::replace(&mut self.has_retried_blocked, true);
        if !self.blocked.is_empty() && (self.unwritten.attempts.is_empty() || !is_retried) {
            self.due.put_back(std::mem::take(&mut self.blocked));
            return Some(BUSY_PAUSE);
        }
        if !self.pass.limits.drain {
            let is_first = !std::mem::replace(&mut self.has_retried_busy, true);
            if !is_first || self.busy.is_empty() {
                return None;
            }
            self.due.put_back(std::mem::take(&mut self.busy));
            return Some(BUSY_PAUSE);
        }
        let time = self.rule.time;
        let reached = time.span.map(|span| Slot::end_of(span.until));
        self.rule.time = self.rule.schedule.policy.pass_time(reached, self.pass.clock.now(), true);
        self.tally_search();
        let was_busy = !self.busy.is_empty();
        // Without a counter a failed record may stay due, but a drain tries it once.
        let with_failed = self.rule.schedule.policy.needs_counter();
        let busy = std::mem::take(&mut self.busy);
        self.due = DueQueue::search_again(self.plan.order, self.rule.clone(), busy, with_failed);
        if was_busy {
            return Some(BUSY_PAUSE);
        }
        let progress = std::mem::take(&mut self.tally.progress);
        match self.due.has_next(&mut *self.pass.store) {
            Ok(has_next) => (has_next && progress).then_some(Duration::ZERO),
            Err(error) => {
                self.begin_no_more(error);
                None
            }
        }
    }

    /// Ends the pass. The error names records whose success could not be written.
    pub fn finish(&mut self) -> Result<Tally> {
        let unsettled = self.settle_leftovers();
        // The signal may have come after the settlements.
        self.tally.note_signal(self.pass.stop.signalled());
        let cut_short = self.is_cut_short();
        self.tally.is_cut_short = cut_short;
        if cut_short {
            self.cursor.stuck = self.breaker.last.take();
        }
        for id in self.in_hand.keys() {
            self.cursor.undone(id);
        }
        self.pass.observer.reached(&self.cursor.at_end(self.rule.time.span, cut_short));
        let observed = self.pass.observer.finished();
        let durable = self.pass.store.flush(Until::Durable);
        self.report_leftovers();
        let Some(error) = self.error.take() else {
            durable?;
            observed?;
            self.tally.busy = (self.busy.len() + self.blocked.len()) as u64;
            return Ok(self.tally.clone());
        };
        let succeeded = unsettled.iter().filter(|attempt| attempt.outcome == Outcome::Success);
        let succeeded: Vec<_> = succeeded.map(|attempt| attempt.id.to_string()).collect();
        if succeeded.is_empty() {
            return Err(error);
        }
        Err(error.context(format!(
            "the handler succeeded for these records, but the table could not be updated, so they \
             will be tried again: {}",
            succeeded.join(", ")
        )))
    }

    /// Tries once more to write the outcomes that are left. Returns the attempts that remain unsettled.
    fn settle_leftovers(&mut self) -> Vec<Attempt> {
        self.unwritten.is_over = true;
        let mut ended = std::mem::take(&mut self.unwritten.attempts);
        ended.append(&mut self.breaker.doubtful);
        // A pass that has waited for a lock does not wait for it twice.
        let has_waited =
            self.error.as_ref().is_some_and(|error| Exit::from(error) == Exit::TryLater);
        if !ended.is_empty()
            && !has_waited
            && let Err(error) = self.write_outcomes(&ended)
        {
            self.error.get_or_insert(error);
        }
        ended.retain(|attempt| self.in_hand.contains_key(&attempt.id));
        ended
    }

    /// Adds unusable and missing records of a search to the tally: once, although each search of a drain finds them.
    fn tally_search(&mut self) {
        if self.tally.incomplete.is_empty() {
            self.tally.incomplete.extend(self.due.broken.take());
        }
        self.tally.unusable = self.tally.unusable.max(self.due.unusable);
    }

    fn report_leftovers(&mut self) {
        self.breaker.log_repeated();
        if let Some((id, why)) = &self.unstored {
            let texts = counted(self.tally.unstored, "error text");
            log::error!(
                "the table refused {texts}: {why}; `backlog explain` shows the first one, of record {id}"
            );
        }
        self.tally_search();
        self.tally.ambiguous = self.ambiguous.len() as u64;
        if !self.ambiguous.is_empty() {
            let records = counted(self.tally.ambiguous, "record");
            let ids = first_of(self.ambiguous.iter(), MOST_AMBIGUOUS);
            log::error!("not tried: {records} with an id that several rows have: {ids}");
        }
    }
}

fn first_of(ids: impl ExactSizeIterator<Item: ToString>, most: usize) -> String {
    let more = (ids.len() > most).then(|| "...".into());
    let list: Vec<_> = ids.take(most).map(|id| id.to_string()).chain(more).collect();
    list.join(", ")
}

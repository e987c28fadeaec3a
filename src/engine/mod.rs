//! One pass: rounds of the dispatcher that claim, handle and settle records. Policy, store and handler
//! meet only here; docs/architecture.md shows the threads.

mod cursor;
mod dispatcher;
mod due_queue;
mod rate_limit;
mod shared_dispatcher;
mod tally;
#[cfg(test)]
mod tests;

pub use cursor::LineSchedule;
pub use due_queue::{Candidate, DueQueue};
pub use rate_limit::RateLimit;
pub use tally::{SettledAttempt, Stopped, Tally};

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use backlog_schedule::{Cursor, Id, Instant, Order, Record};
use backlog_store::system_error::reason;
use backlog_store::{Begun, Clock, Stop, Store};

use crate::handlers::{FixedOutcome, Handler, LOST_KILL_DELAY};
use cursor::PassCursor;
use dispatcher::{Dispatcher, Step};
use shared_dispatcher::SharedDispatcher;

/// By default everything due is tried, and handlers end at once when the pass is stopped.
#[derive(Debug, Clone, Default)]
pub struct PassLimits {
    /// Maximum number of attempts.
    pub max_records: Option<u64>,
    pub max_runtime: Option<Duration>,
    /// Time for running handlers to end when the pass is stopped.
    pub grace: Duration,
    pub drain: bool,
    pub max_consecutive_failures: Option<u32>,
    pub rate: Option<RateLimit>,
    /// If not empty, only these records are tried, due or not.
    pub named: Vec<Id>,
    /// True if named records are tried even after a success.
    pub again: bool,
}

pub struct Pass {
    pub store: Box<dyn Store + Send>,
    pub line: LineSchedule,
    pub began_at: Instant,
    pub order: Order,
    pub limits: PassLimits,
    pub clock: Clock,
    pub stop: Arc<Stop>,
    /// Marks all handlers, so that those of a killed pass are found, in their environment: [`Store::begin`].
    pub token: Option<String>,
    pub observer: Box<dyn Observer + Send>,
}

pub trait Observer {
    fn selected(&mut self, _due: usize) {}

    fn attempted(&mut self, _attempt: &SettledAttempt, _tally: &Tally) {}

    fn busy(&mut self, _id: &Id) {}

    /// Returns whether this error is logged. At a terminal one line for each cause is enough.
    fn wants_log_line(&mut self, _error: &str) -> bool {
        true
    }

    /// Returns whether to report that handlers cannot be run or reached. For a webhook at most once an hour.
    fn may_report(&mut self) -> bool {
        true
    }

    /// A record was archived. Returns whether that is logged.
    fn archived(&mut self, _record: &Record, _error: Option<&str>) -> bool {
        true
    }

    fn paused(&mut self) -> Option<String> {
        None
    }

    fn format_instant(&self, at: Instant) -> String {
        at.to_string()
    }

    /// The slow handlers have changed: records and starts. Returns whether they were saved; if not, it is called again.
    fn slow_handlers(&mut self, _records: &[(Id, Instant)]) -> bool {
        true
    }

    /// Returns the records whose handlers `backlog stop` asks to stop. Called each second while handlers are slow.
    fn stop_requests(&mut self) -> Vec<Id> {
        Vec::new()
    }

    /// Called about once a second while handlers run, and before a longer pause.
    fn every_second(&mut self) {}

    /// The next pass of the line continues from this cursor.
    fn reached(&mut self, _cursor: &Cursor) {}

    fn finished(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Wakes the main thread, which waits for the end of the pass.
#[derive(Clone)]
pub struct Wake {
    sender: Sender<()>,
    stop: Arc<Stop>,
}

impl Wake {
    /// Stops the pass on a signal. No attempt begins, even if the main thread waits for a lock.
    pub fn signal(&self, signal: i32) {
        self.stop.signal(signal);
        log::warn!("stopping on signal {signal}");
        self.wake_up();
    }

    fn wake_up(&self) {
        // The receiver is gone when the pass is over.
        let _ = self.sender.send(());
    }
}

pub struct Handlers {
    pub handler: Arc<dyn Handler>,
    /// Stops the handler. The stop of the pass triggers it.
    pub stop: Arc<Stop>,
    /// Gets each archived record. The stop of the pass stops it.
    pub on_archive: Option<Arc<dyn Handler>>,
}

impl Handlers {
    pub fn scripted(succeeds: bool, stop: &Arc<Stop>) -> Self {
        Self { handler: Arc::new(FixedOutcome { succeeds }), stop: stop.clone(), on_archive: None }
    }
}

/// Runs a pass. `start` creates the handlers once a record is due.
pub fn run(mut pass: Pass, start: impl FnOnce(Wake) -> Result<Handlers>) -> Result<Tally> {
    if let Some(pause) = pass.observer.paused() {
        log::warn!("{pause}");
        return Ok(Tally::paused());
    }
    let rule = pass.line.due_rule(pass.began_at, pass.limits.drain);
    let plan = pass.line.plan(pass.order, &pass.limits);
    let mut due = DueQueue::new(&plan, rule.clone());
    let found = due.has_next(&mut *pass.store);
    let is_any_due = if pass.stop.is_stopping() { found.context(ENDLESS_SEARCH) } else { found }?;
    let span = rule.time.span;
    if span.is_some() || !is_any_due && plan.stuck.is_some() {
        // With nothing due, no record keeps a slot.
        let kept = if is_any_due { rule.kept.clone() } else { HashMap::new() };
        pass.observer.reached(&PassCursor::new(span, &plan, kept).at_end(span, is_any_due));
    }
    if !is_any_due {
        pass.observer.finished()?;
        let (unusable, incomplete) = (due.unusable, due.broken.into_iter().collect());
        return Ok(Tally { found_nothing: true, unusable, incomplete, ..Tally::default() });
    }
    pass.observer.selected(due.len());
    log::debug!("{} records due under {}", due.len(), rule.schedule.policy.options());
    let (lost, losses) = channel();
    let begun = match &pass.token {
        Some(token) => pass.store.begin(token, lost)?,
        None => Begun::default(),
    };
    let (sender, wake_ups) = channel();
    let wake = Wake { sender, stop: pass.stop.clone() };
    let handlers = start(wake.clone())?;
    let (handler, on_archive) = (handlers.handler.clone(), handlers.on_archive.clone());
    if begun.heartbeat.is_some() {
        end_lost(handler.clone(), losses);
    }
    let constraints = begun.row_constraints;
    let dispatcher = Dispatcher::new(pass, rule, plan, due, wake.clone(), handlers, constraints);
    let by_main = handler.has_busy_threads().then(|| wake.clone());
    let shared = SharedDispatcher::new(dispatcher, wake.stop.clock, by_main);
    let mut main = MainThread { shared: &shared, wake_ups, wake: &wake, has_stopped: false };
    main.run();
    // The thread that submitted the last attempt may still search for more.
    main.wait_for(|| handler.join());
    let tally = shared.with(Dispatcher::finish);
    if tally.is_err() {
        wake.stop.end_within(Duration::ZERO);
    }
    if let Some(on_archive) = on_archive {
        main.wait_for(|| on_archive.join());
    }
    let mut tally = tally?;
    tally.note_signal(wake.stop.signalled());
    tally.faults = handler.faults();
    Ok(tally)
}

/// Starts a thread that ends the handlers of lost claims: the thread that notices the loss has the store locked.
fn end_lost(handler: Arc<dyn Handler>, losses: Receiver<Vec<Id>>) {
    let end = move || losses.iter().for_each(|ids| handler.interrupt(&ids, LOST_KILL_DELAY));
    if let Err(error) = thread::Builder::new().name("lost claims".into()).spawn(end) {
        log::warn!("handlers whose claims are lost will not be ended: {}", reason(&error));
    }
}

const ENDLESS_SEARCH: &str = "the search for due records did not end within --max-runtime; raise \
                              it, or create the index that `backlog check` names";

struct MainThread<'a> {
    shared: &'a SharedDispatcher,
    wake_ups: Receiver<()>,
    wake: &'a Wake,
    has_stopped: bool,
}

impl MainThread<'_> {
    fn run(&mut self) {
        self.shared.round();
        loop {
            match self.shared.with(Dispatcher::next_step) {
                Step::Wait(most) => self.wait(Some(most)),
                Step::RoundAfter(pause) => {
                    self.wait(Some(pause));
                    self.shared.round();
                }
                Step::End => return,
            }
        }
    }

    /// Waits for a wake-up, at most for `pause`, and stops the pass at its deadline.
    fn wait(&mut self, pause: Option<Duration>) {
        let stop = &self.wake.stop;
        let deadline = stop.deadline.filter(|_| !self.has_stopped);
        let left = deadline.map(|deadline| stop.clock.until(deadline));
        match [pause, left].into_iter().flatten().min() {
            Some(most) => drop(self.wake_ups.recv_timeout(most)),
            None => drop(self.wake_ups.recv()),
        }
        let why = match stop.signalled() {
            _ if self.has_stopped => return,
            Some(signal) => Stopped::Signal(signal),
            None if stop.is_past_deadline() => {
                stop.end();
                Stopped::Runtime
            }
            None => return,
        };
        self.has_stopped = true;
        self.shared.with(|dispatcher| dispatcher.stop(why));
    }

    fn wait_for(&mut self, end: impl Fn() + Send + Sync) {
        let (wake, has_ended) = (self.wake, AtomicBool::new(false));
        let run = || {
            end();
            has_ended.store(true, Ordering::SeqCst);
            wake.wake_up();
        };
        thread::scope(|threads| {
            // Without a thread, signals are noticed afterwards.
            if thread::Builder::new().spawn_scoped(threads, run).is_err() {
                run();
            }
            while !has_ended.load(Ordering::SeqCst) {
                self.wait(None);
            }
        });
    }
}

//! One pass: claim, handle, settle, in one round of the dispatcher after the other. The only place
//! where policy, store and handler meet; ARCHITECTURE.md shows its threads.

mod cursor;
mod dispatcher;
mod due_queue;
mod rate_limit;
mod shared_dispatcher;
mod tally;
#[cfg(test)]
mod tests;

pub use cursor::CronLine;
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
use backlog_schedule::{Cursor, Instant, Order, Record};
use backlog_store::{Clock, Stop, Store};

use crate::handlers::{Handler, Script};
use cursor::PassCursor;
use dispatcher::{Dispatcher, Step};
use shared_dispatcher::SharedDispatcher;

/// By default all that is due is tried, and handlers that are stopped end at once.
#[derive(Debug, Clone, Default)]
pub struct PassLimits {
    /// Attempts, not records looked at: waiting rows never hide due ones.
    pub max_records: Option<u64>,
    pub max_runtime: Option<Duration>,
    /// What running handlers get to end in, when the pass is stopped.
    pub grace: Duration,
    pub drain: bool,
    /// So many failures in a row say that what the handler needs is down.
    pub max_consecutive_failures: Option<u32>,
    pub rate: Option<RateLimit>,
}

pub struct Pass {
    pub store: Box<dyn Store + Send>,
    pub line: CronLine,
    pub began_at: Instant,
    pub order: Order,
    pub limits: PassLimits,
    pub clock: Clock,
    pub stop: Arc<Stop>,
    /// Marks handlers that outlive a killed pass, in their environment: [`Store::start_watchdog`].
    pub token: Option<String>,
    pub observer: Box<dyn Observer + Send>,
}

pub trait Observer {
    /// So many records are due, as far as they have been counted.
    fn selected(&mut self, _due: usize) {}

    fn attempted(&mut self, _attempt: &SettledAttempt, _tally: &Tally) {}

    /// Whether the log gets a line for this error: at a terminal one for each cause is enough.
    fn wants_log_line(&mut self, _error: &str) -> bool {
        true
    }

    /// A record was archived. Says whether the log gets a line for it.
    fn archived(&mut self, _record: &Record, _error: Option<&str>) -> bool {
        true
    }

    /// The pause that the pass is to obey, in words, if there is one now.
    fn paused(&mut self) -> Option<String> {
        None
    }

    /// An instant, as the log is to have it.
    fn shown(&self, at: Instant) -> String {
        at.to_string()
    }

    /// The next pass of its line should go on from there.
    fn reached(&mut self, _cursor: &Cursor) {}

    fn finished(&mut self) -> Result<()> {
        Ok(())
    }
}

/// The wake-up of the thread that waits for the end of a pass.
#[derive(Clone)]
pub struct Wake {
    turns: Sender<()>,
    stop: Arc<Stop>,
}

impl Wake {
    /// From now on nothing is begun, also if the pass is just waiting for a lock and cannot be woken.
    pub fn signal(&self, signal: i32) {
        self.stop.signal(signal);
        log::warn!("stopping on signal {signal}");
        self.turn();
    }

    /// Nothing is in hand any more, the rate holds records back, or the pass is to stop.
    fn turn(&self) {
        // Whoever waits holds the other end, unless the pass is over.
        let _ = self.turns.send(());
    }
}

pub struct Handlers {
    pub handler: Arc<dyn Handler>,
    /// The stop that it heeds, a part of that of the pass.
    pub stop: Arc<Stop>,
    /// Gets each record that is archived, and heeds the stop of the pass.
    pub on_archive: Option<Arc<dyn Handler>>,
}

impl Handlers {
    pub fn scripted(succeeds: bool, stop: &Arc<Stop>) -> Self {
        Self { handler: Arc::new(Script { succeeds }), stop: stop.clone(), on_archive: None }
    }
}

/// Runs a pass. `start` makes the handlers, once there is something for them to do.
pub fn run(mut pass: Pass, start: impl FnOnce(Wake) -> Result<Handlers>) -> Result<Tally> {
    if let Some(pause) = pass.observer.paused() {
        log::warn!("{pause}");
        return Ok(Tally::paused());
    }
    let rule = pass.line.due_rule(pass.began_at, pass.limits.drain);
    let plan = pass.line.plan(pass.order, &pass.limits);
    let mut due = DueQueue::new(&plan, rule.clone());
    let any = due.any(pass.store.reader());
    let any = if pass.stop.is_asked() { any.context(ENDLESS_SEARCH)? } else { any? };
    let span = rule.time.span;
    if span.is_some() || !any && plan.stuck.is_some() {
        // A pass leaves its slots to the next one; with nothing to do what was kept is over.
        let kept = if any { rule.kept.clone() } else { HashMap::new() };
        pass.observer.reached(&PassCursor::new(span, &plan, kept).come_to(span, any));
    }
    if !any {
        pass.observer.finished()?;
        let (unusable, incomplete) = (due.unusable, due.broken.into_iter().collect());
        return Ok(Tally { found_nothing: true, unusable, incomplete, ..Tally::default() });
    }
    pass.observer.selected(due.known());
    log::debug!("{} records due under {}", due.known(), rule.schedule.policy.line());
    if let Some(token) = &pass.token {
        pass.store.start_watchdog(token)?;
    }
    let (sender, turns) = channel();
    let wake = Wake { turns: sender, stop: pass.stop.clone() };
    let handlers = start(wake.clone())?;
    let (handler, on_archive) = (handlers.handler.clone(), handlers.on_archive.clone());
    let holder = handler.clone();
    pass.store.on_loss(Arc::new(move |lost| holder.end(lost)));
    let dispatcher = Dispatcher::new(pass, rule, plan, due, wake.clone(), handlers);
    let by_main = handler.is_busy().then(|| wake.clone());
    let shared = SharedDispatcher::new(dispatcher, wake.stop.clock, by_main);
    let mut main = MainThread { shared: &shared, turns, wake: &wake, is_told: false };
    main.see_to_the_end();
    // A thread that has brought the last attempt may still look for more to do.
    main.wait_for(|| handler.join());
    let tally = shared.with(Dispatcher::finish);
    if tally.is_err() {
        // Nobody is left to see to what was archived.
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

const ENDLESS_SEARCH: &str = "the search for due records did not end within --max-runtime; give it \
                              more time, or an index (`backlog check` says which)";

/// The main thread of a pass: waits for its end, and heeds signals and the time meanwhile.
struct MainThread<'a> {
    shared: &'a SharedDispatcher,
    turns: Receiver<()>,
    wake: &'a Wake,
    is_told: bool,
}

impl MainThread<'_> {
    fn see_to_the_end(&mut self) {
        self.shared.round();
        loop {
            match self.shared.with(Dispatcher::next_step) {
                Step::Wait => self.wait(None),
                Step::RoundAfter(pause) => {
                    self.wait(Some(pause));
                    self.shared.round();
                }
                Step::End => return,
            }
        }
    }

    /// Waits for a wake-up, at most `pause`, and until the pass is told to stop for its deadline.
    fn wait(&mut self, pause: Option<Duration>) {
        let stop = &self.wake.stop;
        let deadline = stop.deadline.filter(|_| !self.is_told);
        let left = deadline.map(|deadline| stop.clock.until(deadline));
        match [pause, left].into_iter().flatten().min() {
            Some(most) => drop(self.turns.recv_timeout(most)),
            None => drop(self.turns.recv()),
        }
        let why = match stop.signalled() {
            _ if self.is_told => return,
            Some(signal) => Stopped::Signal(signal),
            None if stop.is_late() => {
                stop.end();
                Stopped::Runtime
            }
            None => return,
        };
        self.is_told = true;
        self.shared.with(|dispatcher| dispatcher.stop(why));
    }

    fn wait_for(&mut self, end: impl Fn() + Send + Sync) {
        let (wake, has_ended) = (self.wake, AtomicBool::new(false));
        let run = || {
            end();
            has_ended.store(true, Ordering::SeqCst);
            wake.turn();
        };
        thread::scope(|threads| {
            // Without another thread this one does not hear of a signal meanwhile.
            if thread::Builder::new().spawn_scoped(threads, run).is_err() {
                run();
            }
            while !has_ended.load(Ordering::SeqCst) {
                self.wait(None);
            }
        });
    }
}

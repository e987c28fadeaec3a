//! The dispatcher behind its lock. The threads that submit attempts run it.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::thread;
use std::time::Duration;

use backlog_schedule::Attempt;
use backlog_store::{Clock, lock};

use super::Wake;
use super::dispatcher::Dispatcher;
use crate::handlers::Submit;

/// Time for which a thread waits without sleep: waking it would take about as long.
const QUICK_ROUND: Duration = Duration::from_micros(150);

thread_local! {
    /// True while this thread runs a round, in which a handler may submit attempts.
    static RUNS_A_ROUND: Cell<bool> = const { Cell::new(false) };
}

#[derive(Clone)]
pub struct SharedDispatcher {
    submitted: Arc<Mutex<Submitted>>,
    dispatcher: Arc<Mutex<Dispatcher>>,
    is_quick: Arc<AtomicBool>,
    clock: Clock,
    /// Wakes the main thread to complete attempts, if the threads of the handler have other work.
    wake: Option<Wake>,
}

#[derive(Default)]
struct Submitted {
    ended: Vec<Attempt>,
    /// Number of threads that wait for the dispatcher to complete their attempts.
    waiting: usize,
}

impl SharedDispatcher {
    pub fn new(dispatcher: Dispatcher, clock: Clock, wake: Option<Wake>) -> Self {
        let dispatcher = Arc::new(Mutex::new(dispatcher));
        Self { submitted: Arc::default(), dispatcher, is_quick: Arc::default(), clock, wake }
    }

    fn submitter(&self) -> Submit {
        let shared = self.clone();
        Arc::new(move |ended| {
            let mut submitted = lock(&shared.submitted);
            let was_empty = submitted.ended.is_empty();
            submitted.ended.extend(ended);
            drop(submitted);
            match &shared.wake {
                Some(wake) if was_empty => wake.wake_up(),
                Some(_) => {}
                None => shared.catch_up(),
            }
        })
    }

    /// Runs a round without an ended attempt, which fills free places.
    pub fn round(&self) {
        self.with(|dispatcher| {
            self.complete(dispatcher, Vec::new());
            dispatcher.flush();
        });
    }

    /// Calls `act` with the dispatcher, then completes the attempts that were submitted meanwhile.
    pub fn with<T>(&self, act: impl FnOnce(&mut Dispatcher) -> T) -> T {
        let result = act(&mut lock(&self.dispatcher));
        self.catch_up();
        result
    }

    /// Runs rounds until no ended attempt is left, or another thread waits to complete them.
    fn catch_up(&self) {
        while self.has_ended() {
            let Some(mut dispatcher) = self.take() else { return };
            let ended = std::mem::take(&mut lock(&self.submitted).ended);
            if !ended.is_empty() {
                self.complete(&mut dispatcher, ended);
            }
            if !self.has_ended() {
                dispatcher.flush();
            }
            drop(dispatcher);
            if lock(&self.submitted).waiting > 0 {
                return;
            }
        }
    }

    fn has_ended(&self) -> bool {
        !lock(&self.submitted).ended.is_empty()
    }

    fn complete(&self, dispatcher: &mut Dispatcher, ended: Vec<Attempt>) {
        let began_at = self.clock.monotonic();
        RUNS_A_ROUND.set(true);
        dispatcher.complete(ended, &self.submitter());
        RUNS_A_ROUND.set(false);
        let is_quick = self.clock.monotonic() - began_at < QUICK_ROUND;
        self.is_quick.store(is_quick, Ordering::Relaxed);
    }

    /// Waits for the dispatcher for a quick round, awake: a sleeper would wake up on the processor of the busy thread.
    fn take(&self) -> Option<MutexGuard<'_, Dispatcher>> {
        let taken = self.try_take();
        let is_own = RUNS_A_ROUND.get();
        if taken.is_some() || is_own || !self.is_quick.load(Ordering::Relaxed) {
            return taken;
        }
        lock(&self.submitted).waiting += 1;
        let began_at = self.clock.monotonic();
        let mut taken = None;
        while taken.is_none() && self.has_ended() && self.clock.monotonic() - began_at < QUICK_ROUND
        {
            thread::yield_now();
            taken = self.try_take();
        }
        lock(&self.submitted).waiting -= 1;
        taken.or_else(|| self.try_take())
    }

    fn try_take(&self) -> Option<MutexGuard<'_, Dispatcher>> {
        match self.dispatcher.try_lock() {
            Ok(dispatcher) => Some(dispatcher),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

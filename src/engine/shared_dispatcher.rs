//! The dispatcher behind its lock. It is run by the threads that submit attempts.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::thread;
use std::time::Duration;

use super::Wake;
use super::dispatcher::Dispatcher;
use crate::handlers::Submit;
use crate::lock;
use crate::record::Attempt;
use crate::time::Clock;

/// A round of this length is waited for, since a thread that sleeps is not woken sooner.
const QUICK_ROUND: Duration = Duration::from_micros(150);
/// How often a thread that waits for a round looks for its end, which takes less than a microsecond.
const MOST_YIELDS: usize = 300;

thread_local! {
    /// Whether this thread runs a round: a handler may submit what it is given within that.
    static RUNS_A_ROUND: Cell<bool> = const { Cell::new(false) };
}

/// The dispatcher behind its lock, and the attempts that were submitted while somebody held it.
#[derive(Clone)]
pub struct SharedDispatcher {
    ended: Arc<Mutex<Vec<Attempt>>>,
    dispatcher: Arc<Mutex<Dispatcher>>,
    /// How many threads wait for it to complete what they have submitted.
    waiting: Arc<AtomicUsize>,
    /// Whether rounds take no longer than it takes to wake a thread.
    is_quick: Arc<AtomicBool>,
    clock: Clock,
    /// Wakes the main thread to complete attempts, where those of the handler have other things to do.
    wake: Option<Wake>,
}

impl SharedDispatcher {
    pub fn new(dispatcher: Dispatcher, clock: Clock, wake: Option<Wake>) -> Self {
        let dispatcher = Arc::new(Mutex::new(dispatcher));
        let (ended, waiting, is_quick) = (Arc::default(), Arc::default(), Arc::default());
        Self { ended, dispatcher, waiting, is_quick, clock, wake }
    }

    fn submitter(&self) -> Submit {
        let shared = self.clone();
        Arc::new(move |ended| {
            let mut all = lock(&shared.ended);
            let was_empty = all.is_empty();
            all.extend(ended);
            drop(all);
            match &shared.wake {
                Some(wake) if was_empty => wake.turn(),
                Some(_) => {}
                // The thread that holds the dispatcher may complete them.
                None => shared.catch_up(),
            }
        })
    }

    /// A round without an ended attempt, to fill the free places.
    pub fn round(&self) {
        self.with(|dispatcher| {
            self.complete(dispatcher, Vec::new());
            dispatcher.rest();
        });
    }

    /// Completes what came in meanwhile, too.
    pub fn with<T>(&self, act: impl FnOnce(&mut Dispatcher) -> T) -> T {
        let result = act(&mut lock(&self.dispatcher));
        self.catch_up();
        result
    }

    /// Runs rounds until no ended attempt waits; a dispatcher that is taken is its holder's to run, or that
    /// of who waits for it.
    fn catch_up(&self) {
        while !lock(&self.ended).is_empty() {
            let Some(mut dispatcher) = self.take() else { return };
            let ended = std::mem::take(&mut *lock(&self.ended));
            if ended.is_empty() {
                continue;
            }
            self.complete(&mut dispatcher, ended);
            if lock(&self.ended).is_empty() {
                dispatcher.rest();
            }
            drop(dispatcher);
            if self.waiting.load(Ordering::SeqCst) > 0 {
                return;
            }
        }
    }

    fn complete(&self, dispatcher: &mut Dispatcher, ended: Vec<Attempt>) {
        let began_at = self.clock.monotonic();
        RUNS_A_ROUND.set(true);
        dispatcher.complete(ended, &self.submitter());
        RUNS_A_ROUND.set(false);
        let is_quick = self.clock.monotonic() - began_at < QUICK_ROUND;
        self.is_quick.store(is_quick, Ordering::Relaxed);
    }

    /// The dispatcher, unless it is taken, and for long. A thread that sleeps meanwhile would have to be
    /// woken with its next job, beside the one that wakes it, or behind that on the same processor.
    fn take(&self) -> Option<MutexGuard<'_, Dispatcher>> {
        let mut taken = self.try_take();
        let is_own = RUNS_A_ROUND.get();
        if taken.is_some() || is_own || !self.is_quick.load(Ordering::Relaxed) {
            return taken;
        }
        self.waiting.fetch_add(1, Ordering::SeqCst);
        for _ in 0..MOST_YIELDS {
            thread::yield_now();
            taken = self.try_take();
            if taken.is_some() || lock(&self.ended).is_empty() {
                break;
            }
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        // Its holder may have seen that somebody waits, and have gone.
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

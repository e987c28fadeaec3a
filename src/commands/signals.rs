//! The signals that stop the program. One thread receives them for all passes.

use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use backlog_store::{IgnoredSignals, lock};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator;
use signal_hook::low_level::emulate_default_handler;

use crate::engine::Wake;

#[derive(Clone, Default)]
pub struct Signals(Arc<Mutex<SignalState>>);

#[derive(Default)]
struct SignalState {
    is_listening: bool,
    first: Option<i32>,
    count: usize,
    wake: Option<Wake>,
    /// True while the program waits and polls for signals itself.
    is_polled: bool,
}

/// Guard: until it is dropped, signals stop the pass.
pub struct StoppedBySignals(Signals);

impl Signals {
    pub fn begin_pass(&self) -> StoppedBySignals {
        StoppedBySignals(self.clone())
    }

    pub fn first(&self) -> Option<i32> {
        lock(&self.0).first
    }

    pub fn count(&self) -> usize {
        lock(&self.0).count
    }

    /// Runs a wait that polls `count` and ends when a signal comes.
    pub fn while_polled(&self, wait: impl FnOnce()) {
        lock(&self.0).is_polled = true;
        wait();
        lock(&self.0).is_polled = false;
    }

    /// Without a pass and a wait, a signal ends the program at once.
    fn receive(&self, signal: i32) {
        let mut state = lock(&self.0);
        state.first.get_or_insert(signal);
        state.count += 1;
        match &state.wake {
            Some(wake) => wake.signal(signal),
            None if state.is_polled => {}
            None => drop(emulate_default_handler(signal)),
        }
    }

    /// SIGHUP counts unless it was ignored at the start (nohup). If SIGCHLD is ignored, children leave no exit status.
    fn listen(&self) -> Result<()> {
        let ignored = IgnoredSignals::of_this_process();
        let ignores = |signal| ignored.is_some_and(|ignored| ignored.contains(signal));
        let hangup = (!ignores(SIGHUP)).then_some(SIGHUP);
        let child = ignores(SIGCHLD).then_some(SIGCHLD);
        let signals = [SIGINT, SIGTERM].into_iter().chain(hangup).chain(child);
        let mut signals =
            iterator::Signals::new(signals).context("could not listen for signals")?;
        let receiver = self.clone();
        std::thread::spawn(move || {
            let received = signals.forever().filter(|signal| *signal != SIGCHLD);
            received.for_each(|signal| receiver.receive(signal));
        });
        Ok(())
    }
}

impl StoppedBySignals {
    pub fn stop_pass_by(&self, wake: Wake) -> Result<()> {
        let Self(signals) = self;
        if !lock(&signals.0).is_listening {
            signals.listen()?;
        }
        let mut state = lock(&signals.0);
        state.is_listening = true;
        state.wake = Some(wake);
        Ok(())
    }
}

impl Drop for StoppedBySignals {
    fn drop(&mut self) {
        lock(&self.0.0).wake = None;
    }
}

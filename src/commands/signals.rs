//! The signals that stop the program. One thread receives them for all passes.

use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use backlog_store::{IgnoredSignals, lock};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator;
use signal_hook::low_level::emulate_default_handler;

use crate::engine::Wake;

#[derive(Clone, Default)]
pub struct Signals(Arc<Mutex<Heard>>);

#[derive(Default)]
struct Heard {
    is_listening: bool,
    first: Option<i32>,
    count: usize,
    wake: Option<Wake>,
    /// Whether the program waits and looks for signals itself.
    is_awaited: bool,
}

/// A pass that signals stop, until this is dropped.
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

    /// Does something that ends when a signal comes.
    pub fn await_for(&self, act: impl FnOnce()) {
        lock(&self.0).is_awaited = true;
        act();
        lock(&self.0).is_awaited = false;
    }

    /// Without a pass and a wait, a signal ends the program at once.
    fn hear(&self, signal: i32) {
        let mut heard = lock(&self.0);
        heard.first.get_or_insert(signal);
        heard.count += 1;
        match &heard.wake {
            Some(wake) => wake.signal(signal),
            None if heard.is_awaited => {}
            None => drop(emulate_default_handler(signal)),
        }
    }

    /// SIGHUP counts unless the parent process ignores it, as nohup does. If SIGCHLD is ignored, the system discards the
    /// exit statuses of children, so it gets a handler.
    fn listen(&self) -> Result<()> {
        let ignored = IgnoredSignals::of_this_process();
        let ignores = |signal| ignored.is_some_and(|it| it.contains(signal));
        let hangup = (!ignores(SIGHUP)).then_some(SIGHUP);
        let ends = ignores(SIGCHLD).then_some(SIGCHLD);
        let signals = [SIGINT, SIGTERM].into_iter().chain(hangup).chain(ends);
        let mut signals =
            iterator::Signals::new(signals).context("could not listen for signals")?;
        let heard = self.clone();
        std::thread::spawn(move || {
            for signal in signals.forever().filter(|signal| *signal != SIGCHLD) {
                heard.hear(signal);
            }
        });
        Ok(())
    }
}

impl StoppedBySignals {
    /// From now on, a signal stops the pass in order.
    pub fn stop_pass_by(&self, wake: Wake) -> Result<()> {
        let Self(signals) = self;
        if !lock(&signals.0).is_listening {
            signals.listen()?;
        }
        let mut heard = lock(&signals.0);
        heard.is_listening = true;
        heard.wake = Some(wake);
        Ok(())
    }
}

impl Drop for StoppedBySignals {
    fn drop(&mut self) {
        lock(&self.0.0).wake = None;
    }
}

//! The signals that stop the program. One thread hears them for all passes, one after the other.

use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator;

use crate::engine::Wake;
use crate::lock;
use crate::stop::{IgnoredSignals, Stop};

#[derive(Clone, Default)]
pub struct Signals(Arc<Mutex<Heard>>);

#[derive(Default)]
struct Heard {
    is_listening: bool,
    first: Option<i32>,
    /// How many have come.
    count: usize,
    /// The stop of the pass that runs, and what wakes it once it has something to do.
    stop: Option<Arc<Stop>>,
    wake: Option<Wake>,
}

/// A pass that signals stop, until this is dropped.
pub struct StoppedBySignals(Signals);

impl Signals {
    /// From now on a signal stops this pass, if the program listens to signals.
    pub fn begin_pass(&self, stop: &Arc<Stop>) -> StoppedBySignals {
        let mut heard = lock(&self.0);
        // One that came between two passes.
        if let Some(signal) = heard.first {
            stop.signal(signal);
        }
        heard.stop = Some(stop.clone());
        drop(heard);
        StoppedBySignals(self.clone())
    }

    /// The first signal that has come.
    pub fn first(&self) -> Option<i32> {
        lock(&self.0).first
    }

    pub fn count(&self) -> usize {
        lock(&self.0).count
    }

    fn hear(&self, signal: i32) {
        let mut heard = lock(&self.0);
        heard.first.get_or_insert(signal);
        heard.count += 1;
        match (&heard.wake, &heard.stop) {
            (Some(wake), _) => wake.signal(signal),
            (None, Some(stop)) => stop.signal(signal),
            (None, None) => {}
        }
    }

    /// A hangup is heeded unless the parent process has had it ignored, as nohup does. If the ends of child
    /// processes are ignored, the system forgets how they ended: then they are listened for, too.
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
    /// Begins to listen, at the latest now. The pass has something to do, so it does not just end at a
    /// signal.
    pub fn heed(&self, wake: Wake) -> Result<()> {
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
        let mut heard = lock(&self.0.0);
        (heard.stop, heard.wake) = (None, None);
    }
}

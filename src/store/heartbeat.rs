//! The heartbeat of a store: a thread that looks now and then whether there is something to do.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};

/// A thread that does something now and then, until this is dropped.
pub struct Heartbeat {
    /// Closed to end the thread, which polls its other end.
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Heartbeat {
    /// Does it in each interval, and at once if there is anything to be read from the sockets that
    /// it returned last. `what` says in an error what the thread does.
    pub fn start(
        name: &str,
        what: &'static str,
        interval: Duration,
        mut act: impl FnMut() -> Vec<Arc<OwnedFd>> + Send + 'static,
    ) -> Result<Self> {
        let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC).context("could not make a pipe")?;
        let interval = Timespec::try_from(interval).context("no time to wait")?;
        let thread = std::thread::Builder::new()
            .name(name.into())
            .spawn(move || {
                let mut sockets = Vec::new();
                loop {
                    let watched = std::iter::once(&stopped).chain(sockets.iter().map(Arc::as_ref));
                    let mut polled: Vec<_> =
                        watched.map(|it| PollFd::new(it, PollFlags::IN)).collect();
                    // A signal is no reason to do otherwise.
                    let _ = poll(&mut polled, Some(&interval));
                    if polled.first().is_none_or(|stop| !stop.revents().is_empty()) {
                        return;
                    }
                    sockets = act();
                }
            })
            .with_context(|| format!("could not start the thread that {what}"))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

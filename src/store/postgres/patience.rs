//! What is done when a server is busy or gone for a while.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant as Monotonic};

use anyhow::{Context, Result};
use postgres::Error as SqlError;

use super::errors::{explain, is_busy, is_lost, words};
use crate::clock::Clock;

/// How often something is tried again that somebody else is in the way of. An outcome is not given
/// up lightly.
const TRIES: u32 = 10;
/// How long a server that is gone is waited for.
const GONE: Duration = Duration::from_secs(60);
/// The pause between two attempts to reach it.
const PAUSE: Duration = Duration::from_millis(100);

/// Sessions that can be made anew.
pub trait Patient {
    /// The server, as messages have it.
    fn place(&self) -> String;

    fn clock(&self) -> Clock;

    /// Makes the sessions anew that are lost.
    fn recover(&mut self, why: &SqlError) -> Result<()>;

    /// Ends a transaction that an error may have left open.
    fn roll_back(&mut self);

    /// Does something that can be done again: waits out locks, and lost sessions. What is done is
    /// told whether it may have been done before.
    fn patiently<T>(
        &mut self,
        verb: &str,
        mut act: impl FnMut(&mut Self, bool) -> Result<T, SqlError>,
    ) -> Result<T> {
        let clock = self.clock();
        let (mut busy, mut deadline) = (0, None);
        loop {
            match act(self, busy > 0 || deadline.is_some()) {
                Err(error) if is_lost(&error) && deadline.is_none_or(|it| !is_over(clock, it)) => {
                    deadline = deadline.or_else(|| Some(clock.monotonic() + GONE));
                    self.recover(&error)?;
                }
                Err(error) if is_busy(&error) && busy < TRIES => {
                    log::warn!("{}: {}; trying again", self.place(), words(&error));
                    busy += 1;
                    self.roll_back();
                }
                result => return result.map_err(|error| explain(&self.place(), &error, verb)),
            }
        }
    }
}

/// Connects, as often as it takes, but not for ever.
pub fn connect_again(
    clock: Clock,
    place: &str,
    why: &SqlError,
    mut connect: impl FnMut() -> Result<()>,
) -> Result<()> {
    log::warn!("lost a connection to {place}: {}; connecting again", words(why));
    let deadline = clock.monotonic() + GONE;
    loop {
        let Err(error) = connect() else { return Ok(()) };
        if is_over(clock, deadline) {
            return Err(error.context(format!("lost the connection to {place}")));
        }
        std::thread::sleep(PAUSE);
    }
}

fn is_over(clock: Clock, deadline: Monotonic) -> bool {
    clock.until(deadline).is_zero()
}

/// A thread that does something now and then, until this is dropped.
pub struct Keeper {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    pub fn start(beat: Duration, mut act: impl FnMut() + Send + 'static) -> Result<Self> {
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new()
            .name("session keeper".into())
            .spawn(move || {
                // Nothing is ever sent: this ends with the time or with the sender.
                while stopped.recv_timeout(beat) == Err(RecvTimeoutError::Timeout) {
                    act();
                }
            })
            .context("could not start the thread that sees after the connections")?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

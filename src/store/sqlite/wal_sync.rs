//! Durability off the critical path, for databases with write-ahead logging.
//!
//! SQLite syncs the log inside each commit (`synchronous = FULL`), while it holds the write
//! lock, and a handler that is done waits for the disk. Here commits only write
//! (`synchronous = NORMAL`, which in WAL mode cannot corrupt), so that a killed process loses
//! nothing, and one thread syncs the log behind them: one sync for all that was committed
//! since the last one. A record's claim is released only then, so that no other pass sees
//! it as free before its outcome would survive a power cut.

use std::fs::File;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

use crate::lock::lock;
use crate::record::Id;
use crate::store::claims::Claims;

/// The least time between the end of one sync and the next: at most this many commits share one
/// instead of paying for their own. The first outcome after a quiet spell is synced at once.
const MIN_SYNC_INTERVAL: Duration = Duration::from_millis(5);

/// Claims that several threads use.
pub type SharedClaims = Arc<Mutex<Claims>>;

/// The thread that syncs the log and then releases claims.
pub struct WalSync {
    /// What was settled, and what is dropped with that: the thread need not pause any more.
    settled: Option<(Sender<Id>, Sender<()>)>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl WalSync {
    /// `log` is the database's write-ahead log; it lives as long as a connection is open.
    pub fn start(log: PathBuf, claims: SharedClaims) -> Result<Self> {
        let file = File::open(&log).with_context(|| format!("could not open {}", log.display()))?;
        let (settled, queue) = channel();
        let (more_to_come, pause) = channel();
        let thread = std::thread::Builder::new()
            .name("log sync".into())
            .spawn(move || {
                sync_all(&file, &queue, &pause, &claims)
                    .with_context(|| format!("could not sync {}", log.display()))
            })
            .context("could not start the thread that syncs the log")?;
        Ok(Self { settled: Some((settled, more_to_come)), thread: Some(thread) })
    }

    /// Releases the record's claim once everything committed so far is on disk.
    pub fn release(&self, id: &Id) {
        if let Some((settled, _)) = &self.settled {
            // If the thread has failed, its claims go with the process, and `finish` says why.
            let _ = settled.send(id.clone());
        }
    }

    /// Waits until everything is on disk.
    pub fn finish(&mut self) -> Result<()> {
        self.settled = None;
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(anyhow!("the thread that syncs the log panicked")),
        }
    }
}

fn sync_all(
    log: &File,
    queue: &Receiver<Id>,
    pause: &Receiver<()>,
    claims: &SharedClaims,
) -> Result<()> {
    while let Ok(first) = queue.recv() {
        // What is in the queue now was committed before.
        let settled: Vec<Id> = std::iter::once(first).chain(queue.try_iter()).collect();
        log.sync_data()?;
        let mut claims = lock(claims);
        for id in &settled {
            claims.release(id);
        }
        drop(claims);
        // Nothing is ever sent: this ends with the time or with the sender.
        let _ = pause.recv_timeout(MIN_SYNC_INTERVAL);
    }
    Ok(())
}

//! SQLite's busy handler: waits for locks that other connections hold.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rusqlite::Connection;

use crate::store::StoreStop;

/// How long a command waits for a lock.
const COMMAND: Duration = Duration::from_secs(30);
/// How long a pass does. What it has to write, and what it would find, is not given up lightly.
const PASS: Duration = Duration::from_secs(300);
/// After this long somebody at a terminal is told what is waited for.
const SILENCE: Duration = Duration::from_secs(2);
/// Pauses between two looks at a lock, in milliseconds: those of SQLite's own handler.
const PAUSES: [u64; 12] = [1, 2, 5, 10, 15, 20, 25, 25, 25, 50, 50, 100];

/// For how long a connection waits, and what ends that.
#[derive(Clone)]
pub struct BusyHandler {
    limit_ms: Arc<AtomicU64>,
    stop: Arc<OnceLock<Arc<StoreStop>>>,
}

impl BusyHandler {
    /// Has a connection to `path` wait.
    pub fn install(connection: &mut Connection, path: PathBuf) -> rusqlite::Result<Self> {
        let limit_ms = Arc::new(AtomicU64::new(millis(COMMAND)));
        let busy_handler = Self { limit_ms, stop: Arc::default() };
        let own = busy_handler.clone();
        let mut waited = Duration::ZERO;
        connection.busy_handler(Some(move |times: i32| {
            if times == 0 {
                waited = Duration::ZERO;
            }
            own.waits(times, &mut waited, &path)
        }))?;
        Ok(busy_handler)
    }

    /// Waits a little, if it is worth while to go on waiting.
    fn waits(&self, times: i32, waited: &mut Duration, path: &Path) -> bool {
        let is_over = millis(*waited) >= self.limit_ms.load(Ordering::SeqCst);
        if is_over || self.stop.get().is_some_and(|stop| stop.ends_operation()) {
            return false;
        }
        let step = usize::try_from(times).unwrap_or(0).min(PAUSES.len() - 1);
        let pause = Duration::from_millis(PAUSES[step]);
        std::thread::sleep(pause);
        let before = std::mem::replace(waited, *waited + pause);
        if before < SILENCE && *waited >= SILENCE {
            log::warn!("waiting for a lock on {}", path.display());
        }
        true
    }

    /// From now on a lock is waited for as long as a pass does, and no longer than `most`.
    pub fn of_a_pass(&self, most: Duration) {
        self.limit_ms.store(millis(PASS.min(most)), Ordering::SeqCst);
    }

    /// From now on no lock is waited for any longer than the stop says.
    pub fn heed(&self, stop: Arc<StoreStop>) {
        let _ = self.stop.set(stop);
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

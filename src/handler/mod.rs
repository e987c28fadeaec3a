//! WHAT is done with a record: the user's own program.

mod exec;
mod process;
mod scripted;
mod tail;

pub use exec::{Exec, ExecSettings};
pub use scripted::{Script, Scripted};

use std::sync::Arc;
use std::time::Duration;

use crate::record::{Answer, Record};

/// Handles records, some at a time.
pub trait Handler: Send + Sync {
    /// How many records are handled at once.
    fn capacity(&self) -> usize;

    /// Takes a record in hand; beyond the capacity it waits until another one is answered.
    fn start(&self, job: Job);

    /// From here on nothing is begun: what was not yet is answered as interrupted, and what runs
    /// goes on.
    fn begin_no_more(&self);

    /// No more records will come. What is in hand has `grace` to end, then it is ended and
    /// answered as interrupted. A second call can shorten the grace.
    fn stop(&self, grace: Duration);

    /// Waits for its threads to end, once everything is answered.
    fn join(&self);
}

/// One attempt, as the handler is told of it.
pub struct Job {
    pub record: Arc<Record>,
    /// 1 for the first.
    pub attempt: u32,
    /// To be called, from any thread.
    pub reply: Reply,
}

/// Where the one answer to a job goes.
pub type Reply = Box<dyn FnOnce(Answer) + Send>;

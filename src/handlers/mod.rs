//! Handlers, which say WHAT is done with a record: a process for each, one for many, or a webhook.

mod argv_template;
mod exec;
mod injection;
mod json;
#[cfg(feature = "webhook")]
mod post;
mod process;
mod scripted;
mod stdio;
mod stream;
mod unstartable;
mod webhook;
mod workers;

pub use argv_template::misspelt;
pub use exec::{Exec, ExecSettings};
pub use injection::check as check_injection;
#[cfg(feature = "webhook")]
pub use post::{Post, PostSettings, Proxy};
pub use scripted::{Script, Scripted};
pub use stream::{Hello, Stream, StreamSettings};
pub use unstartable::{in_one_word, is_executable, obstacle};
pub use webhook::{
    Header, Hosts, IdempotencyKey, Proxies, Secret, Signing, Target, Webhook, without_login,
};

use std::sync::Arc;
use std::time::Duration;

use crate::record::{Attempt, Outcome, Record};

/// A handler of records, some at a time. It is made with the [`Stop`](crate::stop::Stop) that it
/// heeds: what is not begun by then, or does not end in time, is answered as interrupted.
pub trait Handler: Send + Sync {
    /// How many records are handled at once.
    fn capacity(&self) -> usize;

    /// Takes records in hand; beyond the capacity they wait until others are answered.
    fn start(&self, jobs: Vec<Job>);

    /// Waits for its threads to end, once everything is answered.
    fn join(&self);

    /// How often it was wrong in a way that is no record's fault, and has been said.
    fn faults(&self) -> u64 {
        0
    }
}

/// One attempt, as the handler is told of it.
pub struct Job {
    pub record: Arc<Record>,
    /// 1 for the first.
    pub attempt: u32,
    pub submit: Submit,
}

impl Job {
    /// An answer that took no time.
    pub fn ended(&self, outcome: Outcome) -> Attempt {
        Attempt { id: self.record.id.clone(), outcome, exit: None, duration: Duration::ZERO }
    }
}

/// The callback that ended attempts are submitted to, from any thread: one for each job, and those
/// that come together in one call.
pub type Submit = Arc<dyn Fn(Vec<Attempt>) + Send + Sync>;

#[cfg(test)]
pub mod tests {
    use crate::record::{Record, Row, Value, fixture};

    /// A record with these columns.
    pub fn record(values: &[(&str, Value)]) -> Record {
        let row = Row {
            columns: values.iter().map(|(name, _)| (*name).to_string()).collect(),
            values: values.iter().map(|(_, value)| value.clone()).collect(),
        };
        Record { row, ..fixture::record() }
    }
}

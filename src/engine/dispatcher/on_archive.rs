//! The `--on-archive` command, started for each record that is archived.

use std::sync::Arc;

use super::Dispatcher;
use crate::handlers::{Job, Submit};
use crate::record::{Attempt, Outcome, Record, Status};

impl Dispatcher {
    /// Hands a record on that was archived just now, after so many attempts. This is done once:
    /// the row is written, and no later pass looks at it.
    pub(super) fn tell_of_archived(&self, record: &Record, attempts: u32, error: Option<&str>) {
        let Some(on_archive) = &self.on_archive else { return };
        let record = Arc::new(Record {
            status: Status::Archived,
            failures: attempts,
            last_error: error.map(String::from),
            ..record.clone()
        });
        let submit: Submit = Arc::new(|ended| ended.iter().for_each(complain));
        on_archive.start(vec![Job { record, attempt: attempts, submit }]);
    }
}

fn complain(attempt: &Attempt) {
    let why = match &attempt.outcome {
        Outcome::Success => return,
        Outcome::Interrupted => "the pass was stopped",
        Outcome::Failure { error }
        | Outcome::Unanswered { error, .. }
        | Outcome::Snooze { error, .. }
        | Outcome::GiveUp { error }
        | Outcome::Unable { error, .. } => error,
    };
    log::error!("record {} is archived, but --on-archive was not done: {why}", attempt.id);
}

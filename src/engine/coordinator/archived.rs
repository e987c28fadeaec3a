//! Who is told of records that are archived.

use std::sync::Arc;

use super::Coordinator;
use crate::handler::{Job, Outbox};
use crate::record::{Answer, Outcome, Record, Status};

impl Coordinator {
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
        let outbox: Outbox = Arc::new(|answers| answers.iter().for_each(complain));
        on_archive.start(vec![Job { record, attempt: attempts, outbox }]);
    }
}

fn complain(answer: &Answer) {
    let why = match &answer.outcome {
        Outcome::Success => return,
        Outcome::Interrupted => "the pass was stopped",
        Outcome::Failure { error }
        | Outcome::Unanswered { error, .. }
        | Outcome::Snooze { error, .. }
        | Outcome::GiveUp { error }
        | Outcome::Unable { error, .. } => error,
    };
    log::error!("record {} is archived, but --on-archive was not done: {why}", answer.id);
}

//! The archived records of a pass, as cron's mail has them. Nobody reads 130 lines that say the same. So
//! the first ones are named, and all are summed up by cause, with the command that brings them back.

use std::sync::{Arc, Mutex};

use backlog_schedule::{Causes, Id, Instant, counted};
use backlog_store::lock;

use super::queue_arguments::table_command;
use crate::exit::ExitError;
use crate::options::{Queue, Resolved};

/// How many records are named.
const NAMED: u64 = 10;
const CAUSES: usize = 5;

/// What a pass and its observer know of the records that were archived.
#[derive(Clone)]
pub struct ArchivedRecords {
    notes: Arc<Mutex<Notes>>,
    /// Whether each of them gets a line of the log.
    names_all: bool,
}

#[derive(Default)]
struct Notes {
    count: u64,
    first: Vec<Id>,
    causes: Causes,
}

impl ArchivedRecords {
    pub fn new() -> Self {
        Self { notes: Arc::default(), names_all: log::log_enabled!(log::Level::Info) }
    }

    /// Notes one that was archived. Says whether the log is to name it.
    pub fn add(&self, id: &Id, error: Option<&str>, now: Instant) -> bool {
        let notes = &mut *lock(&self.notes);
        notes.count += 1;
        notes.causes.add_error(id, error, Some(now));
        if notes.count <= NAMED {
            notes.first.push(id.clone());
        }
        self.names_all || notes.count <= NAMED
    }

    /// Says how those that were named come back, and sums up more than were.
    pub fn sum_up(&self, queue: &Queue, resolved: &Resolved<'_>) -> Result<(), ExitError> {
        let Notes { count, first, causes } = &*lock(&self.notes);
        if *count == 0 {
            return Ok(());
        }
        if *count <= NAMED {
            let it = if *count == 1 { "it" } else { "them" };
            // An id may look like an option.
            let is_plain = first.iter().all(|id| !id.text().starts_with('-'));
            let ids = (!is_plain).then(|| "--".into()).into_iter();
            let ids = ids.chain(first.iter().map(|id| id.text().into_owned()));
            // What is archived may not be what the condition says any more.
            let back = table_command("restore", ids, resolved, queue, false)?;
            log::error!("this brings {it} back: {back}");
            return Ok(());
        }
        log::error!("{} were archived; {NAMED} of them are named above", counted(*count, "record"));
        let ranked = causes.ranked();
        for (cause, group) in ranked.iter().take(CAUSES) {
            let cause_id = ["--failure".into(), cause.id()];
            let back = table_command("restore", cause_id, resolved, queue, true)?;
            log::error!("{} archived: {}; back with: {back}", group.records, cause.text());
        }
        if let Some(more) = ranked.len().checked_sub(CAUSES).filter(|more| *more > 0) {
            let causes = counted(more as u64, "more cause");
            let archived = ["--status", "ARCHIVED"].map(String::from);
            let all = table_command("failures", archived, resolved, queue, true)?;
            log::error!("{causes}; this lists them all: {all}");
        }
        Ok(())
    }
}

//! The archived records of a pass in cron's mail, with the command that restores them. With more than ten records they
//! have the most frequent causes too. Passes that archive more within the hour leave the report to a later pass.

use backlog_schedule::{Causes, Id, Instant, counted};
use backlog_store::{Table, chain};

use super::queue_arguments::table_command;
use crate::exit::ExitError;
use crate::options::Resolved;

const NAMED: u64 = 10;
const CAUSES: usize = 5;
const ARCHIVED: [&str; 2] = ["--status", "ARCHIVED"];

#[derive(Default)]
pub struct ArchivedRecords {
    pub count: u64,
    first: Vec<Id>,
    causes: Causes,
    unrestorable: Option<String>,
}

impl ArchivedRecords {
    pub fn new(table: &Table) -> Self {
        let unrestorable = table.require_archived_condition().err().map(|error| chain(&error));
        Self { unrestorable, ..Self::default() }
    }

    /// Notes an archived record. Returns true if the log names it, provided that this pass reports.
    pub fn add(&mut self, id: &Id, error: Option<&str>, now: Instant) -> bool {
        self.count += 1;
        self.causes.add_error(id, error, Some(now));
        if self.count <= NAMED {
            self.first.push(id.clone());
        }
        self.count <= NAMED || log::log_enabled!(log::Level::Info)
    }

    /// Logs the causes and the command that restores the records. Earlier passes left `earlier` records unreported.
    pub fn log_summary(&self, earlier: u64, resolved: &Resolved<'_>) -> Result<(), ExitError> {
        let Self { count, first, causes, unrestorable } = self;
        if earlier > 0 {
            let all = table_command(resolved, "failures", &ARCHIVED, true)?;
            let records = counted(earlier, "record");
            log::error!("earlier passes archived {records}; this lists all causes: {all}");
        }
        if *count == 0 {
            return Ok(());
        }
        if let Some(why) = unrestorable {
            log::error!("{why}");
        } else if *count <= NAMED {
            let it = if *count == 1 { "it" } else { "them" };
            let ids: Vec<_> = first.iter().map(Id::full).collect();
            let has_hyphen = ids.iter().any(|id| id.starts_with('-'));
            let ids = ids.iter().map(String::as_str);
            let ids: Vec<_> = has_hyphen.then_some("--").into_iter().chain(ids).collect();
            // Archived records may no longer match the condition.
            let back = table_command(resolved, "restore", &ids, false)?;
            log::error!("restore {it} with: {back}");
        }
        if *count <= NAMED {
            return Ok(());
        }
        log::error!("{} were archived; {NAMED} of them are named above", counted(*count, "record"));
        let ranked = causes.ranked();
        for (cause, group) in ranked.iter().take(CAUSES) {
            let back = table_command(resolved, "restore", &["--failure", &cause.id()], true)?;
            let back = unrestorable.as_ref().map_or(format!("; back with: {back}"), |_| "".into());
            log::error!("{} archived: {}{back}", group.records, group.error);
        }
        if let Some(more) = ranked.len().checked_sub(CAUSES).filter(|more| *more > 0) {
            let causes = counted(more as u64, "more cause");
            let all = table_command(resolved, "failures", &ARCHIVED, true)?;
            log::error!("{causes}; this lists them all: {all}");
        }
        Ok(())
    }
}

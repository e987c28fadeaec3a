//! `backlog failures`: the causes of failures, with their records.

use std::collections::HashMap;
use std::ops::ControlFlow::Continue;

use anyhow::{Result, bail};
use backlog_schedule::{Cause, Causes, Id, Order, Record, Status, counted, last_error};
use backlog_store::{
    Access, Database, LineHistory, SlowHandler, StateDir, StoredFailures, Table, chain,
};

use super::queue_arguments::table_command;
use super::{Console, open, state_dir};
use crate::cli::FailuresArgs;
use crate::exit::{Exit, usage};
use crate::options::{Queue, Resolved};
use crate::report::{self, RecordView, Screen};

pub fn run(
    resolved: &Resolved<'_>,
    args: &FailuresArgs,
    console: &mut Console<'_>,
) -> Result<Exit> {
    let queue = resolved.queue()?;
    let mut database = open(&queue, Access::ReadOnly, console.clock)?;
    let failed = KnownFailures::of(&queue, &*database)?;
    if args.status.contains(&Status::Success) {
        bail!(usage("--status SUCCESS: nothing has failed there; use one of NEW, ERROR, ARCHIVED"));
    }
    let parts = match &args.status[..] {
        [] => vec![&Status::PENDING[..], &[Status::Archived]],
        statuses => vec![statuses],
    };
    let mut text = String::new();
    for (statuses, part) in parts.into_iter().zip(0..) {
        let causes = failed.causes(&queue, &mut *database, statuses)?;
        if args.json {
            text += &report::failures_json(&causes, &queue.name, statuses);
            continue;
        }
        if part > 0 && !causes.is_empty() {
            let back = table_command(resolved, "restore", &["--failure", "GROUP"], true)?;
            text += if text.is_empty() { "" } else { "\n" };
            text += &console.screen.wrap(&format!("archived; restore them with: {back}"));
        }
        text += &report::failures_text(&causes, &console.screen);
    }
    if text.is_empty() && !args.json {
        let table = database.table();
        let knows_archived =
            table.require_archived_condition().is_ok() || table.require_archived("").is_err();
        text += match knows_archived {
            true => "nothing has failed\n",
            false => {
                "no pending record has failed; archived ones are not known without where_archived\n"
            }
        };
    }
    console.out.write_all(text.as_bytes())?;
    Ok(Exit::Done)
}

pub struct CauseFilter {
    failed: KnownFailures,
    cause: Cause,
    causes: Causes,
}

impl CauseFilter {
    /// Finds the cause. If only records with other statuses have it, the error names the command for them.
    pub fn new(
        meant: &str,
        resolved: &Resolved<'_>,
        database: &mut dyn Database,
        statuses: &[Status],
        (command, takes): (&str, &[Status]),
    ) -> Result<Self> {
        let queue = &resolved.queue()?;
        let failed = KnownFailures::of(queue, database)?;
        let causes = failed.causes(queue, database, statuses)?;
        let others = [Status::Archived, Status::Error, Status::New];
        let is_found = !causes.matching(meant).is_empty() || meant.trim().is_empty();
        for status in others.into_iter().filter(|other| !is_found && !statuses.contains(other)) {
            let others = failed.causes(queue, database, &[status])?;
            let groups = others.matching(meant);
            let records: u64 = groups.iter().map(|(_, group)| group.records).sum();
            if records > 0 {
                let mut options = vec!["--failure", meant];
                let command = if takes.contains(&status) {
                    options.extend(["--status", status.name()]);
                    command
                } else if status == Status::Archived {
                    "restore"
                } else {
                    "retry"
                };
                let command = table_command(resolved, command, &options, true)?;
                let records = counted(records, &format!("{} record", status.name()));
                let why = format!("{meant:?} matches only {records}; for these: {command}");
                bail!(usage(format!("--failure: {why}")));
            }
        }
        let cause = causes.find(meant).map_err(|why| usage(format!("--failure: {why}")))?;
        Ok(Self { failed, cause, causes })
    }

    pub fn matches(&self, record: &mut Record) -> bool {
        self.failed.has_failed(record)
            && self.causes.cause_of(record.last_error.as_deref()) == self.cause
    }
}

/// The failures of a table: which records have failed, errors for which the table has no column, and slow handlers.
pub struct KnownFailures {
    pub stored: StoredFailures,
    /// True if the table itself shows which records have failed.
    shows_failures: bool,
    has_counter: bool,
    /// True if a pass over the table runs here, which may have records in hand.
    is_running: bool,
    pub slow: HashMap<Id, SlowHandler>,
}

impl KnownFailures {
    pub fn of(queue: &Queue, database: &dyn Database) -> Result<Self> {
        let state = state_dir(queue, database)?;
        let histories = state.histories(1).unwrap_or_default();
        Ok(Self::new(&state, database.table(), &histories))
    }

    pub fn new(state: &StateDir, table: &Table, histories: &[LineHistory]) -> Self {
        // The state directory may belong to another user.
        let stored = state.failures(&table.name).unwrap_or_else(|error| {
            log::warn!("{}: errors that no column holds are not known", chain(&error));
            StoredFailures::default()
        });
        let own = histories.iter().filter(|history| history.line.table == table.name);
        let running: Vec<_> = own.filter(|history| history.running().is_some()).collect();
        Self {
            stored,
            shows_failures: table.statuses.column.is_some()
                || table.counter_columns().next().is_some(),
            has_counter: table.failures.is_some(),
            is_running: !running.is_empty(),
            slow: running.into_iter().flat_map(|history| history.slow.clone()).collect(),
        }
    }

    pub fn view<'a>(&self, record: &'a Record, screen: &'a Screen) -> RecordView<'a> {
        let handler = self.slow.get(&record.id);
        let in_hand = self.is_in_hand(record).then(|| report::in_hand(record, handler, screen));
        RecordView { record, has_counter: self.has_counter, in_hand, screen }
    }

    pub fn causes(
        &self,
        queue: &Queue,
        database: &mut dyn Database,
        statuses: &[Status],
    ) -> Result<Causes> {
        let mut causes = Causes::default();
        database.scan(statuses, Order::Oldest, None, &mut |mut record| {
            if queue.holds(&record.id) && self.has_failed(&mut record) {
                causes.add(&record);
            }
            Ok(Continue(()))
        })?;
        causes.add_dates(&self.stored.causes);
        Ok(causes)
    }

    /// True if a record has failed or was archived, and no pass has it in hand. Fills in a stored error.
    pub fn has_failed(&self, record: &mut Record) -> bool {
        self.stored.fill_in(record);
        if self.is_in_hand(record) {
            return false;
        }
        match record.status {
            Status::New | Status::Error if !self.shows_failures => record.last_error.is_some(),
            Status::New => false,
            Status::Error | Status::Archived => true,
            Status::Success | Status::Foreign => false,
        }
    }

    /// True if a pass most likely has the record in hand.
    pub fn is_in_hand(&self, record: &Record) -> bool {
        let is_begun = || record.last_error.as_deref().is_some_and(last_error::is_begun);
        self.slow.contains_key(&record.id) || self.is_running && is_begun()
    }
}

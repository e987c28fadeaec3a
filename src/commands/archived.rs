//! The archived records of a pass, as cron's mail and the digest command have them. Nobody reads 130 lines
//! that say the same. So the first ones are named, and all are summed up by cause,
//! with the command that brings them back.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;

use super::queue_arguments::table_command;
use crate::exit::ExitError;
use crate::handlers::{Exec, HandlerContext, spool};
use crate::lock;
use crate::options::{Queue, Resolved};
use crate::record::{Cause, Causes, Id, Outcome, Record, counted, json_line};
use crate::secure_file;
use crate::stop::Stop;
use crate::system_error::words;
use crate::time::Instant;

/// How many records are named.
const NAMED: u64 = 10;
/// How many causes are.
const CAUSES: usize = 5;

/// What a pass and its observer know of the records that were archived.
#[derive(Clone)]
pub struct ArchivedRecords {
    notes: Arc<Mutex<Notes>>,
    /// Whether each of them gets a line of the log.
    names_all: bool,
    /// Whether a command is to get all of them.
    has_digest: bool,
}

#[derive(Default)]
struct Notes {
    count: u64,
    first: Vec<Id>,
    causes: Causes,
    /// A line of JSON for each, once there is one, if somebody is to get them.
    digest: Option<io::Result<BufWriter<File>>>,
}

impl ArchivedRecords {
    pub fn new(has_digest: bool) -> Self {
        let names_all = log::log_enabled!(log::Level::Info);
        Self { notes: Arc::default(), names_all, has_digest }
    }

    /// Notes one that was archived after so many attempts. Says whether the log is to name it.
    pub fn add(
        &self,
        record: &Record,
        attempts: u32,
        error: Option<&str>,
        run: &str,
        now: Instant,
    ) -> bool {
        let notes = &mut *lock(&self.notes);
        notes.count += 1;
        notes.causes.add_error(&record.id, error, Some(now));
        if self.has_digest {
            let line = json!({
                "id": record.id,
                "attempts": attempts,
                "date_inserted": record.inserted_at,
                "archived_at": now,
                "group": Cause::of(error).id(),
                "error": error,
                "run": run,
            });
            notes.add_line(&json_line(&line));
        }
        if notes.count <= NAMED {
            notes.first.push(record.id.clone());
        }
        self.names_all || notes.count <= NAMED
    }

    /// Says how those that were named come back, and sums up more than were.
    pub fn sum_up(&self, queue: &Queue, resolved: &Resolved<'_>) -> Result<(), ExitError> {
        let Notes { count, first, causes, .. } = &*lock(&self.notes);
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

    /// Hands the lines of all archived records to a command, if there are any. It has the time that a
    /// handler has, and no more than is left of the pass and its grace.
    pub fn hand_over(&self, argv: &[OsString], context: &HandlerContext, stop: &Arc<Stop>) {
        let Some(digest) = lock(&self.notes).digest.take() else { return };
        let input = digest.and_then(|lines| secure_file::reopen(&lines.into_inner()?));
        let outcome = input.map(|input| {
            let left = stop.deadline.map(|deadline| stop.clock.until(deadline));
            let left = left.or_else(|| stop.is_asked().then_some(Duration::ZERO));
            let left = left.map(|left| left.saturating_add(stop.grace));
            let timeout = context.timeout.into_iter().chain(left).min();
            let context = HandlerContext { timeout, ..context.clone() };
            let stop = stop_of_digest(stop);
            Exec::new(argv.into(), Vec::new(), context, stop).once(input)
        });
        let why = match &outcome {
            Ok(Outcome::Success) => return,
            Ok(outcome) => outcome.error().unwrap_or("the pass was stopped").into(),
            Err(error) => words(error),
        };
        log::error!("--on-archive-digest was not done: {why}");
    }
}

/// The stop that the digest command heeds: that of the pass, unless it has come already: what a stopped
/// pass has done is to be heard of all the same.
fn stop_of_digest(of_pass: &Arc<Stop>) -> Arc<Stop> {
    let unasked = || Stop::new(of_pass.clock, of_pass.grace, None).ok();
    of_pass.is_asked().then(unasked).flatten().unwrap_or_else(|| of_pass.clone())
}

impl Notes {
    /// Adds a line to the digest. What cannot be written is said in its place.
    fn add_line(&mut self, line: &str) {
        let digest = self.digest.get_or_insert_with(|| spool().map(BufWriter::new));
        if let Ok(lines) = digest
            && let Err(error) = lines.write_all(line.as_bytes())
        {
            *digest = Err(error);
        }
    }
}

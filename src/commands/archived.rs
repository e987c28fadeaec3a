//! The archived records of a pass, as cron's mail and the digest command have them: whoever reads 130
//! lines that say the same reads none. So the first ones are named, and all are summed up by cause,
//! with the command that brings them back.

use std::ffi::OsString;
use std::sync::{Arc, Mutex};

use serde_json::json;

use super::words::words;
use crate::exit::ExitError;
use crate::handlers::{Exec, HandlerContext};
use crate::lock;
use crate::options::keys::is_of_the_file;
use crate::options::{Queue, Resolved};
use crate::record::{Cause, Causes, Id, Outcome, Record, counted, json_line};
use crate::stop::Stop;
use crate::time::Instant;

/// How many records are named.
const NAMED: u64 = 10;
/// How many causes are.
const CAUSES: usize = 5;
/// The options that say which table is meant.
const OF_A_TABLE: [&str; 5] = ["db", "table", "pgmq", "shard", "state_dir"];

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
    /// A line of JSON for each, if somebody is to get them.
    digest: Option<Vec<u8>>,
}

impl ArchivedRecords {
    pub fn new(has_digest: bool) -> Self {
        let notes = Notes { digest: has_digest.then(Vec::new), ..Notes::default() };
        let names_all = log::log_enabled!(log::Level::Info);
        Self { notes: Arc::new(Mutex::new(notes)), names_all }
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
        if let Some(digest) = &mut notes.digest {
            let line = json!({
                "id": record.id,
                "attempts": attempts,
                "date_inserted": record.inserted_at,
                "archived_at": now,
                "group": Cause::of(error).id(),
                "error": error,
                "run": run,
            });
            digest.extend_from_slice(json_line(&line).as_bytes());
        }
        if notes.count <= NAMED {
            notes.first.push(record.id.clone());
        }
        self.names_all || notes.count <= NAMED
    }

    /// Says how those that were named come back, and sums up more than were.
    pub fn sum_up(&self, queue: &Queue, resolved: &Resolved<'_>) -> Result<(), ExitError> {
        let Notes { count, first, causes, .. } = &*lock(&self.notes);
        let wants = |key: &str| OF_A_TABLE.contains(&key) || is_of_the_file(key);
        let command = |more: Vec<String>| -> Result<String, ExitError> {
            let own = ["backlog", "restore"].map(String::from).into_iter();
            let words = own.chain(words(resolved, queue, wants)?).chain(more);
            let words: Vec<_> = words.collect();
            Ok(shlex::try_join(words.iter().map(String::as_str)).unwrap_or_default())
        };
        if *count == 0 {
            return Ok(());
        }
        if *count <= NAMED {
            let it = if *count == 1 { "it" } else { "them" };
            let ids = first.iter().map(|id| id.text().into_owned()).collect();
            log::error!("this brings {it} back: {}", command(ids)?);
            return Ok(());
        }
        log::error!("{} were archived; {NAMED} of them are named above", counted(*count, "record"));
        let ranked = causes.ranked();
        for (cause, group) in ranked.iter().take(CAUSES) {
            let back = command(vec!["--failure".into(), cause.id()])?;
            log::error!("{} archived: {}; back with: {back}", group.records, cause.text());
        }
        if let Some(more) = ranked.len().checked_sub(CAUSES).filter(|more| *more > 0) {
            let causes = counted(more as u64, "more cause");
            log::error!("{causes}: `backlog failures --status ARCHIVED` has them all");
        }
        Ok(())
    }

    /// Hands the lines of all archived records to a command, if there are any. A pass that was stopped
    /// leaves it the grace that handlers have.
    pub fn hand_over(&self, argv: &[OsString], context: &HandlerContext, stop: &Arc<Stop>) {
        let lines = lock(&self.notes).digest.take().unwrap_or_default();
        if lines.is_empty() {
            return;
        }
        let mut exec = Exec {
            argv: argv.into(),
            give_up_on: Vec::new(),
            context: context.clone(),
            stop: stop.clone(),
        };
        if stop.is_asked() {
            let timeout = context.timeout.unwrap_or(stop.grace).min(stop.grace);
            exec.context.timeout = Some(timeout);
            match Stop::new(stop.clock, stop.grace, None) {
                Ok(unasked) => exec.stop = unasked,
                Err(errno) => log::warn!("could not make an eventfd: {errno}"),
            }
        }
        let outcome = exec.once(&lines);
        if outcome != Outcome::Success {
            let why = outcome.error().unwrap_or("the pass was stopped");
            log::error!("--on-archive-digest was not done: {why}");
        }
    }
}

//! `backlog init`, `add`, `archive`, `restore` and `retry`. An edit changes a row only under its claim.

use std::fmt::Display;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::ops::ControlFlow::Continue;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use backlog_schedule::{
    Counter, DueRule, Id, Instant, Order, Record, Settlement, Status, Transition, counted,
    cut_line, one_line,
};
use backlog_store::{
    Access, Claim, ClaimRequest, Database, ReadResult, Refusal, Retry, RowWrite, Store, Table,
    Until, WriteResult, secure_file,
};
use rustix::fs::OFlags;
use serde::de::IgnoredAny;

use super::assemble::Assembly;
use super::failures::CauseFilter;
use super::{AMBIGUOUS, Console, GONE, find, open, state_dir};
use crate::cli::{EditArgs, InitArgs};
use crate::exit::{Exit, usage};
use crate::options::{Queue, Resolved};
use crate::report::{Screen, next_attempt};

const TABLE: &str = "BACKLOG";

pub fn init(queue: &Queue, args: &InitArgs, console: &mut Console<'_>) -> Result<Exit> {
    if !queue.mapping.table_name().eq_ignore_ascii_case(TABLE) {
        bail!(usage("init creates the table BACKLOG only; your own table needs no init"));
    }
    let schemas = if args.minimal {
        [include_str!("minimal.sql"), include_str!("minimal.postgres.sql")]
    } else {
        [include_str!("../../schema.sql"), include_str!("../../schema.postgres.sql")]
    };
    let (what, is_new) = queue.db.create(TABLE, schemas)?;
    if !is_new && !args.if_missing {
        bail!("{what} already exists in {}", queue.db);
    }
    let done = if is_new { "created" } else { "found" };
    confirm(console.out, &format!("{done} {what} in {}", queue.db))
}

/// Number of records in a transaction. It has fewer if their payloads reach this size.
const ADDED: usize = 10_000;
const ADDED_BYTES: usize = 8 << 20;

pub fn add(queue: &Queue, payloads: &[String], console: &mut Console<'_>) -> Result<Exit> {
    let now = console.clock.now();
    let mut database = open(queue, Access::ReadWrite, console.clock)?;
    // A payload is JSON; any other single argument names a file.
    let file = match payloads {
        [one] if document(one.as_bytes()).is_err() => Some(Path::new(one)).filter(|it| it.exists()),
        _ => None,
    };
    let added = if payloads == ["-"] {
        add_lines(&mut *database, io::stdin().lock(), now)?
    } else if let Some(path) = file {
        let opened = secure_file::open_regular(path, OFlags::RDONLY);
        let opened = opened.with_context(|| format!("could not read {}", path.display()))?;
        let added = add_lines(&mut *database, BufReader::new(opened), now);
        added.with_context(|| path.display().to_string())?
    } else {
        for (payload, number) in payloads.iter().zip(1..) {
            if let Err(error) = document(payload.as_bytes()) {
                let nor = if payloads.len() == 1 { ", nor a file" } else { "" };
                let why = format!("payload {number} is not JSON ({error}){nor}");
                bail!(usage(format!("{why}; nothing was added: {payload}")));
            }
        }
        for batch in payloads.chunks(ADDED) {
            database.add(batch, now)?;
        }
        payloads.len()
    };
    confirm(console.out, &format!("added {}", counted(added as u64, "record")))
}

/// Prints what was done. The error says that it was done although it could not be printed.
pub fn confirm(out: &mut dyn Write, done: &str) -> Result<Exit> {
    let said = writeln!(out, "{}", one_line(done)).and_then(|()| out.flush());
    said.with_context(|| format!("{done}, but this could not be said"))?;
    Ok(Exit::Done)
}

/// Adds a JSON document for each line. Blank lines are skipped.
fn add_lines(database: &mut dyn Database, input: impl BufRead, now: Instant) -> Result<usize> {
    let (mut added, mut added_up_to, mut bytes) = (0, 0, 0);
    let mut batch = Vec::new();
    for (line, number) in input.split(b'\n').zip(1..) {
        let line = line.context("could not read a line")?;
        match document(line.trim_ascii()) {
            _ if line.trim_ascii().is_empty() => continue,
            Ok(payload) => {
                bytes += payload.len();
                batch.push(payload.to_string());
            }
            Err(error) if added == 0 => {
                bail!("line {number} is not JSON ({error}); nothing was added")
            }
            Err(error) => bail!(
                "line {number} is not JSON ({error}); {added} records, up to line {added_up_to}, \
                 were added, and nothing after it"
            ),
        }
        if batch.len() == ADDED || bytes >= ADDED_BYTES {
            database.add(&batch, now)?;
            (added, added_up_to, bytes) = (added + batch.len(), number, 0);
            batch.clear();
        }
    }
    database.add(&batch, now)?;
    Ok(added + batch.len())
}

fn document(payload: &[u8]) -> Result<&str> {
    let text = std::str::from_utf8(payload)?;
    serde_json::from_str::<IgnoredAny>(text)?;
    Ok(text)
}

/// Number of records that are claimed and changed at a time.
const EDITED: usize = 200;

/// The verb of an edit: the statuses that it starts from, and the transition that it makes.
pub struct EditCommand {
    command: &'static str,
    /// As in `archived 3 records`.
    done: &'static str,
    /// As in `would archive 3 records`.
    would: &'static str,
    from: &'static [Status],
    /// Those of them that are changed if no record is named.
    of_many: &'static [Status],
    to: (Transition, Counter),
    /// Fails if the table cannot show the transition. The text is `Resolved::choice`.
    require: fn(&Table, &str) -> Result<()>,
}

pub const ARCHIVE: EditCommand = EditCommand {
    command: "archive",
    done: "archived",
    would: "archive",
    from: &Status::PENDING,
    of_many: &Status::PENDING,
    to: (Transition::Archived, Counter::AsBefore),
    require: |table, _| table.require_archived("`archive`"),
};

pub const RESTORE: EditCommand = EditCommand {
    command: "restore",
    done: "restored",
    would: "restore",
    from: &[Status::Archived],
    of_many: &[Status::Archived],
    to: (Transition::Renewed, Counter::Reset),
    require: |table, _| table.require_told_archived(),
};

/// Sets NEW, which is due by every policy.
pub const RETRY: EditCommand = EditCommand {
    command: "retry",
    done: "made due",
    would: "make due",
    from: &[Status::Error, Status::Archived, Status::New],
    // NEW records that the application has put off are changed only by name.
    of_many: &[Status::Error],
    to: (Transition::Renewed, Counter::AsBefore),
    require: Table::require_renewal,
};

struct Selection<'a> {
    verb: &'a EditCommand,
    queue: &'a Queue,
    resolved: &'a Resolved<'a>,
    from: Vec<Status>,
    before: Option<Instant>,
    cause: Option<CauseFilter>,
    now: Instant,
}

struct EditRun<'a> {
    store: Box<dyn Store>,
    choice: Selection<'a>,
    dry_run: bool,
    out: &'a mut dyn Write,
    done: u64,
    /// The first of the restored records.
    renewed: Vec<Id>,
    exit: Exit,
}

/// Number of restored records whose next attempt is printed.
const NEXT_ATTEMPTS: usize = 5;

/// Number of records above which a terminal asks before they are changed.
pub const MANY: usize = 1_000;

pub fn edit(
    resolved: &Resolved<'_>,
    verb: &EditCommand,
    args: &EditArgs,
    console: &mut Console<'_>,
) -> Result<Exit> {
    let (queue, dry_run) = (resolved.queue()?, args.dry_run);
    let from = args.statuses(verb, &resolved.typed.layer.conditions)?;
    let access = if dry_run { Access::ReadOnly } else { Access::ReadWrite };
    let mut database = open(&queue, access, console.clock)?;
    let table = database.table();
    table.require_sound_counters()?;
    (verb.require)(table, &resolved.choice())?;
    let now = console.clock.now();
    let filter = |meant: &String| {
        CauseFilter::new(meant, resolved, &mut *database, &from, (verb.command, verb.from))
    };
    let cause = args.failure.as_ref().map(filter).transpose()?;
    let before = args.older_than.map(|age| now.saturating_sub(age));
    let choice = Selection { verb, queue: &queue, resolved, from, before, cause, now };
    let chosen = if args.ids.is_empty() { choice.ids(&mut *database)? } else { Vec::new() };
    if chosen.len() > MANY
        && !dry_run
        && !args.yes
        && !confirmed(verb.would, chosen.len(), console)?
    {
        return confirm(console.out, "nothing was changed");
    }
    let schedule = resolved.pass_schedule().filter(|_| verb.to.1 == Counter::Reset);
    // A pass reports errors of the schedule.
    let assembly = schedule.and_then(|it| Assembly::new(&queue, &it, &*database).ok());
    let line = assembly.map(|assembly| assembly.line);
    let state = state_dir(&queue, &*database)?;
    let pause = state.pause(&queue.name, &database.table().name, now);
    let pause = pause.filter(|_| verb.to.0 == Transition::Renewed);
    let mut named = Vec::new();
    for typed in &args.ids {
        named.push((typed, find(&mut *database, typed)?));
    }
    let store = database.into_store(&state, Retry::new(None, console.clock))?;
    let out = &mut *console.out;
    let (renewed, exit) = (Vec::new(), Exit::Done);
    let mut work = EditRun { store, choice, dry_run, out, done: 0, renewed, exit };
    let ids = if args.ids.is_empty() { chosen } else { work.ids_of(named)? };
    for batch in ids.chunks(EDITED.min(work.store.limits().most_claims)) {
        work.edit_batch(batch)?;
    }
    let records = counted(work.done, "record");
    let done = if dry_run { format!("would {}", verb.would) } else { verb.done.into() };
    let none =
        if ids.is_empty() && args.ids.is_empty() { work.choice.none() } else { String::new() };
    writeln!(work.out, "{done} {records}{none}")?;
    if let Some(pause) = pause {
        writeln!(work.out, "{}", pause.sentence(|at| console.screen.at(at), &resolved.choice()))?;
    }
    if let Some(line) = line {
        // A server uses its own clock, so the change may be later than the begin.
        let rule = line.due_rule(console.clock.now(), false);
        work.print_next_attempts(&rule, &console.screen)?;
    }
    Ok(work.exit)
}

impl EditArgs {
    /// The statuses of the records to change. A typed condition chooses records; those of backlog.toml only narrow.
    fn statuses(&self, verb: &EditCommand, conditions: &[String]) -> Result<Vec<Status>> {
        let is_chosen = self.all || self.failure.is_some() || self.older_than.is_some();
        if self.ids.is_empty() && !is_chosen && conditions.is_empty() {
            bail!(usage(
                "which records? name their ids, or choose them by --all, --where, --failure or \
                 --older-than"
            ));
        }
        if let Some(status) = self.status.iter().find(|status| !verb.from.contains(status)) {
            let legal: Vec<_> = verb.from.iter().map(|status| status.name()).collect();
            let (name, would, are) =
                (status.name(), verb.would, if legal.len() > 1 { "are" } else { "is" });
            let legal = legal.join(", ");
            bail!(usage(format!("--status {name}: nothing to {would} there; legal {are} {legal}")));
        }
        let usual = if self.ids.is_empty() { verb.of_many } else { verb.from };
        Ok(if self.status.is_empty() { usual.to_vec() } else { self.status.clone() })
    }
}

impl Selection<'_> {
    fn ids(&self, database: &mut dyn Database) -> Result<Vec<Id>> {
        let mut ids = Vec::new();
        database.scan(&self.from, Order::Oldest, None, &mut |mut record| {
            if self.objection(&mut record).is_none() {
                ids.push(record.id);
            }
            Ok(Continue(()))
        })?;
        Ok(ids)
    }

    fn none(&self) -> String {
        let sought: Vec<_> = self.from.iter().map(|status| status.name()).collect();
        let is_part = self.verb.from.iter().any(|status| !self.from.contains(status));
        let others = if is_part { "; --status chooses others" } else { "" };
        format!(": no {} record matches{others}", sought.join(" or "))
    }

    /// Why a record is left as it is. It may have changed since it was chosen.
    fn objection(&self, record: &mut Record) -> Option<String> {
        // A NEW one can only be made due if it waits.
        let waits = record.due_at.is_some_and(|due_at| due_at > self.now);
        let renews = self.verb.to.0 == Transition::Renewed;
        let is_due = record.status == Status::New && !waits && renews;
        let is_old = |before| record.inserted_at.is_some_and(|at| at < before);
        if !self.queue.holds(&record.id) {
            Some("is in another shard, and is left so".into())
        } else if is_due && self.from.contains(&Status::New) {
            Some("is NEW, so it is due already".into())
        } else if !self.from.contains(&record.status) {
            Some(format!("is {}, and is left so", cut_line(&record.status_text)))
        } else if !self.before.is_none_or(is_old) {
            Some("was given another date meanwhile, and is left so".into())
        } else if !self.cause.as_ref().is_none_or(|cause| cause.holds(record)) {
            Some("failed by another cause meanwhile, and is left so".into())
        } else {
            None
        }
    }
}

/// Asks at a terminal whether to change this number of records.
pub fn confirmed(would: &str, records: usize, console: &Console<'_>) -> Result<bool> {
    if !console.terminal.is_terminal || !io::stdin().is_terminal() {
        return Ok(true);
    }
    let records = counted(records as u64, "record");
    console.terminal.confirm(&format!("{would} {records}? [y/N] "))
}

impl EditRun<'_> {
    fn ids_of(&mut self, named: Vec<(&String, Result<Record, String>)>) -> Result<Vec<Id>> {
        let mut ids = Vec::new();
        for (typed, found) in named {
            match found {
                // An id may be typed twice.
                Ok(record) if ids.contains(&record.id) => {}
                Ok(record) => ids.push(record.id),
                Err(why) => self.print_unchanged(&one_line(typed), Exit::Failed, &why)?,
            }
        }
        Ok(ids)
    }

    fn edit_batch(&mut self, batch: &[Id]) -> Result<()> {
        let mut claimed = Vec::new();
        let result = self.claim(batch, &mut claimed).and_then(|()| self.change(&claimed));
        for record in &claimed {
            self.store.release(&record.id);
        }
        result.and(self.store.flush(Until::Idle))
    }

    fn claim(&mut self, batch: &[Id], claimed: &mut Vec<Arc<Record>>) -> Result<()> {
        for (id, claim) in self.store.claim(ClaimRequest::Named(batch))? {
            let (exit, why) = match claim {
                Claim::Held(mut record) => {
                    let Some(why) = self.choice.objection(Arc::make_mut(&mut record)) else {
                        claimed.push(record);
                        continue;
                    };
                    self.store.release(&id);
                    (Exit::Done, why)
                }
                Claim::Busy | Claim::NotAsked => {
                    let stop =
                        format!("backlog stop{} {}", self.choice.resolved.choice(), id.full());
                    let why = "a pass is handling it; try again later, or end its handler";
                    (Exit::TryLater, format!("{why}: {stop}"))
                }
                Claim::Ambiguous => (Exit::Failed, AMBIGUOUS.into()),
                Claim::Gone => (Exit::Failed, GONE.into()),
                Claim::Unreadable(why) => (Exit::Failed, format!("it could not be read: {why}")),
            };
            self.print_unchanged(&id, exit, &why)?;
        }
        Ok(())
    }

    fn change(&mut self, claimed: &[Arc<Record>]) -> Result<()> {
        let (transition, counter) = self.choice.verb.to.clone();
        let settlement = Settlement { transition, counter, at: self.choice.now, not_before: None };
        if self.dry_run {
            for record in claimed {
                let (from, to) = (record.status, settlement.status(record.status));
                writeln!(self.out, "{}: {} -> {}", record.id, from.name(), to.name())?;
            }
            self.done += claimed.len() as u64;
            return Ok(());
        }
        let changes: Vec<_> =
            claimed.iter().map(|record| RowWrite::new(record, None, settlement.clone())).collect();
        for (record, applied) in claimed.iter().zip(self.store.round(&changes, &[])?) {
            let (exit, why) = match applied {
                WriteResult::Written | WriteResult::WrittenAfterLoss | WriteResult::Charged(_) => {
                    self.done += 1;
                    if self.renewed.len() < NEXT_ATTEMPTS {
                        self.renewed.push(record.id.clone());
                    }
                    continue;
                }
                WriteResult::ChangedMeanwhile => {
                    (Exit::Done, "was changed by the application just now")
                }
                WriteResult::ClaimLost => (Exit::TryLater, "its claim was lost; try again later"),
                WriteResult::Refused(Refusal { why, .. }) => {
                    (Exit::Failed, &*format!("the table refuses it: {why}"))
                }
            };
            self.print_unchanged(&record.id, exit, why)?;
        }
        Ok(())
    }

    fn print_next_attempts(&mut self, rule: &DueRule, screen: &Screen) -> Result<()> {
        for id in &self.renewed {
            if let ReadResult::Record(record) = self.store.read(id)? {
                let verdict = rule.verdict(record.facts());
                let next = next_attempt(&record, verdict, screen);
                writeln!(self.out, "{}: next attempt {next}", id.full())?;
            }
        }
        Ok(())
    }

    fn print_unchanged(&mut self, id: &dyn Display, exit: Exit, why: &str) -> Result<()> {
        self.exit = self.exit.max(exit);
        Ok(writeln!(self.out, "{id}: {}", one_line(why))?)
    }
}

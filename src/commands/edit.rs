//! `backlog init`, `add`, `archive`, `restore` and `retry`. An edit changes a row only under its claim.

use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::ops::ControlFlow::Continue;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use backlog_schedule::{
    Counter, DueRule, Id, Instant, Order, Record, Settlement, Status, Transition, counted,
    cut_line, one_line,
};
use backlog_store::{
    Access, Claim, ClaimRequest, Database, Ends, MAX_VALUE_BYTES, ReadResult, Refusal, Retry,
    RowWrite, Store, Table, Until, WriteResult, secure_file,
};
use rustix::fs::OFlags;
use serde::de::IgnoredAny;

use super::assemble::Assembly;
use super::failures::CauseFilter;
use super::queue_arguments::id_argument;
use super::{AMBIGUOUS, Console, GONE, find, open, state_dir};
use crate::cli::{EditArgs, InitArgs};
use crate::exit::{Exit, usage};
use crate::options::{Queue, Resolved};
use crate::report::{Screen, next_attempt};

const TABLE: &str = "BACKLOG";

pub fn init(queue: &Queue, args: &InitArgs, console: &mut Console<'_>) -> Result<Exit> {
    if !queue.mapping.table_name().eq_ignore_ascii_case(TABLE) {
        bail!(usage("init creates only the table BACKLOG; your own table needs no init"));
    }
    let schemas = if args.minimal {
        [include_str!("minimal.sql"), include_str!("minimal.postgres.sql")]
    } else {
        [include_str!("../../schema.sql"), include_str!("../../schema.postgres.sql")]
    };
    let (table, is_new) = queue.db.create(TABLE, schemas)?;
    if !is_new && !args.if_missing {
        bail!("{table} already exists in {}", queue.db);
    }
    let done = if is_new { "created" } else { "found" };
    confirm(console.out, &format!("{done} {table} in {}", queue.db))
}

/// Maximum number of records that one transaction adds, and of bytes of their payloads.
const ADDED: usize = 10_000;
const ADDED_BYTES: usize = 8 << 20;

pub fn add(queue: &Queue, payloads: &[String], console: &mut Console<'_>) -> Result<Exit> {
    let now = console.clock.now();
    let mut database = open(queue, Access::ReadWrite, console.clock)?;
    // A single argument that is not JSON names a file.
    let file = match payloads {
        [path] if document(path.as_bytes()).is_err() => Some(Path::new(path)),
        _ => None,
    };
    let file = file.filter(|path| path.exists());
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

/// Prints the completed change. If that fails, the error names the change too, because it stays.
pub fn confirm(out: &mut dyn Write, done: &str) -> Result<Exit> {
    let written = writeln!(out, "{}", one_line(done)).and_then(|()| out.flush());
    written.with_context(|| format!("{done}, but this could not be printed"))?;
    Ok(Exit::Done)
}

/// Adds a JSON document for each line. Blank lines are skipped.
fn add_lines(database: &mut dyn Database, mut input: impl BufRead, now: Instant) -> Result<usize> {
    let (mut added, mut added_up_to, mut bytes) = (0, 0, 0);
    let mut batch = Vec::new();
    for number in 1.. {
        let mut line = Vec::new();
        let read = input.by_ref().take(LONGEST_LINE + 1).read_until(b'\n', &mut line);
        if read.context("could not read a line")? == 0 {
            break;
        }
        let is_too_long = line.len() as u64 > LONGEST_LINE;
        match document(if is_too_long { &line } else { line.trim_ascii() }) {
            _ if !is_too_long && line.trim_ascii().is_empty() => continue,
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

/// Maximum length of a document: no pass hands out a longer one.
const LONGEST_LINE: u64 = MAX_VALUE_BYTES.unsigned_abs() as u64;

fn document(payload: &[u8]) -> Result<&str> {
    ensure!(payload.len() as u64 <= LONGEST_LINE, "it is longer than {} MiB", LONGEST_LINE >> 20);
    let text = std::str::from_utf8(payload)?;
    serde_json::from_str::<IgnoredAny>(text)?;
    Ok(text)
}

/// Number of records that are claimed and changed at a time.
const BATCH: usize = 200;

pub struct EditCommand {
    name: &'static str,
    done: &'static str,
    would: &'static str,
    /// The statuses that it changes, and those that it changes if no record is named.
    from: &'static [Status],
    default_from: &'static [Status],
    transition: Transition,
    counter: Counter,
    /// Fails if the table cannot show the transition. The text is `Resolved::choice`.
    require: fn(&Table, &str) -> Result<()>,
}

pub const ARCHIVE: EditCommand = EditCommand {
    name: "archive",
    done: "archived",
    would: "archive",
    from: &Status::PENDING,
    default_from: &Status::PENDING,
    transition: Transition::Archived,
    counter: Counter::AsBefore,
    require: |table, _| table.require_archived("`archive`"),
};

pub const RESTORE: EditCommand = EditCommand {
    name: "restore",
    done: "restored",
    would: "restore",
    from: &[Status::Archived],
    default_from: &[Status::Archived],
    transition: Transition::Renewed,
    counter: Counter::Reset,
    require: |table, _| table.require_archived_condition(),
};

/// Sets NEW, which every policy but --ndays tries in the next pass.
pub const RETRY: EditCommand = EditCommand {
    name: "retry",
    done: "made due",
    would: "make due",
    from: &[Status::Error, Status::Archived, Status::New],
    // The application may have put NEW records off, so they must be named.
    default_from: &[Status::Error],
    transition: Transition::Renewed,
    counter: Counter::AsBefore,
    require: Table::require_renewal,
};

struct Selection<'a> {
    command: &'a EditCommand,
    queue: &'a Queue,
    statuses: Vec<Status>,
    before: Option<Instant>,
    cause: Option<CauseFilter>,
    now: Instant,
}

struct EditRun<'a> {
    store: Box<dyn Store>,
    selection: Selection<'a>,
    choice: String,
    dry_run: bool,
    out: &'a mut dyn Write,
    done: u64,
    first: Vec<Id>,
    exit: Exit,
}

/// Number of restored records whose next attempt is printed.
const NEXT_ATTEMPTS: usize = 5;

/// Number of records above which a terminal asks before they are changed.
pub const MANY: usize = 1_000;

pub fn edit(
    resolved: &Resolved<'_>,
    command: &EditCommand,
    args: &EditArgs,
    console: &mut Console<'_>,
) -> Result<Exit> {
    let (queue, choice, now) = (resolved.queue()?, resolved.choice(), console.clock.now());
    let statuses = args.statuses(command, &resolved.typed.layer.conditions)?;
    let access = if args.dry_run { Access::ReadOnly } else { Access::ReadWrite };
    let mut database = open(&queue, access, console.clock)?;
    let table = database.table();
    table.require_valid_columns()?;
    (command.require)(table, &choice)?;
    let filter = |meant: &String| {
        let of_command = (command.name, command.from);
        CauseFilter::new(meant, resolved, &mut *database, &statuses, of_command)
    };
    let cause = args.failure.as_ref().map(filter).transpose()?;
    let before = args.older_than.map(|age| now.saturating_sub(age));
    let selection = Selection { command, queue: &queue, statuses, before, cause, now };
    let selected = if args.ids.is_empty() { selection.find(&mut *database)? } else { Vec::new() };
    let asks = selected.len() > MANY && !args.dry_run && !args.yes;
    if asks && !confirmed(command.would, selected.len(), console)? {
        return confirm(console.out, "nothing was changed");
    }
    // A pass reports errors of the schedule.
    let schedule = resolved.pass_schedule().filter(|_| command.counter == Counter::Reset);
    let assembly = schedule.and_then(|schedule| Assembly::new(&queue, &schedule, &*database).ok());
    let state = state_dir(&queue, &*database)?;
    let pause = state.pause(&queue.name, &database.table().name, now);
    let (mut ids, mut exit) = (selected, Exit::Done);
    for typed in &args.ids {
        match find(&mut *database, typed)? {
            // An id may be typed twice.
            Ok(record) if ids.contains(&record.id) => {}
            Ok(record) => ids.push(record.id),
            Err(why) => {
                exit = Exit::Failed;
                writeln!(console.out, "{}: {}", one_line(typed), one_line(&why))?;
            }
        }
    }
    let store = database.into_store(&state, Retry::new(None, console.clock))?;
    let (dry_run, out, first) = (args.dry_run, &mut *console.out, Vec::new());
    let mut run = EditRun { store, selection, choice, dry_run, out, done: 0, first, exit };
    for batch in ids.chunks(BATCH.min(run.store.limits().most_claims)) {
        run.edit_batch(batch)?;
    }
    run.print_summary(ids.is_empty() && args.ids.is_empty())?;
    if let Some(pause) = pause.filter(|_| command.transition == Transition::Renewed) {
        writeln!(run.out, "{}", pause.sentence(|at| console.screen.at(at), &run.choice))?;
    }
    if let Some(Assembly { line, .. }) = assembly {
        // A server uses its own clock, so the change may be later than the begin.
        run.print_next_attempts(&line.due_rule(console.clock.now(), false), &console.screen)?;
    }
    Ok(run.exit)
}

impl EditArgs {
    /// The statuses to change. Typed conditions choose records; conditions of backlog.toml only narrow the choice.
    fn statuses(&self, command: &EditCommand, conditions: &[String]) -> Result<Vec<Status>> {
        let is_chosen = self.all || self.failure.is_some() || self.older_than.is_some();
        if self.ids.is_empty() && !is_chosen && conditions.is_empty() {
            bail!(usage(
                "which records? name their ids, or choose them by --all, --where, --failure or \
                 --older-than"
            ));
        }
        if let Some(status) = self.status.iter().find(|status| !command.from.contains(status)) {
            let legal = command.from.iter().map(|status| status.name()).collect::<Vec<_>>();
            let use_one = if legal.len() > 1 { "use one of" } else { "use" };
            let (name, would, legal) = (status.name(), command.would, legal.join(", "));
            bail!(usage(format!("--status {name}: nothing to {would} there; {use_one} {legal}")));
        }
        let default = if self.ids.is_empty() { command.default_from } else { command.from };
        Ok(if self.status.is_empty() { default.to_vec() } else { self.status.clone() })
    }
}

impl Selection<'_> {
    fn find(&self, database: &mut dyn Database) -> Result<Vec<Id>> {
        let mut ids = Vec::new();
        database.scan(&self.statuses, Order::Oldest, None, &mut |mut record| {
            if self.objection(&mut record).is_none() {
                ids.push(record.id);
            }
            Ok(Continue(()))
        })?;
        Ok(ids)
    }

    /// The reason to leave a record unchanged. It may have changed since it was chosen.
    fn objection(&self, record: &mut Record) -> Option<String> {
        // A NEW record that waits can be made due.
        let waits = record.due_at.is_some_and(|due_at| due_at > self.now);
        let renews = self.command.transition == Transition::Renewed;
        let is_due = record.status == Status::New && !waits && renews;
        let is_old = |before| record.inserted_at.is_some_and(|at| at < before);
        let why = if !self.queue.holds(&record.id) {
            "is in another shard".into()
        } else if is_due && self.statuses.contains(&Status::New) {
            return Some("is NEW already; nothing to change".into());
        } else if !self.statuses.contains(&record.status) {
            format!("is {}", cut_line(&record.status_text))
        } else if !self.before.is_none_or(is_old) {
            "has another date by now".into()
        } else if !self.cause.as_ref().is_none_or(|cause| cause.matches(record)) {
            "has failed from another cause by now".into()
        } else {
            return None;
        };
        Some(format!("{why}; left unchanged"))
    }
}

pub fn confirmed(would: &str, records: usize, console: &Console<'_>) -> Result<bool> {
    if !console.terminal.is_terminal || !io::stdin().is_terminal() {
        return Ok(true);
    }
    let records = counted(records as u64, "record");
    console.terminal.confirm(&format!("{would} {records}? [y/N] "))
}

impl EditRun<'_> {
    fn edit_batch(&mut self, batch: &[Id]) -> Result<()> {
        let mut claimed = Vec::new();
        let result = self.claim(batch, &mut claimed).and_then(|()| self.change(&claimed));
        for record in &claimed {
            self.store.release(&record.id);
        }
        result.and(self.store.flush(Until::Idle))
    }

    fn claim(&mut self, batch: &[Id], claimed: &mut Vec<Arc<Record>>) -> Result<()> {
        for (id, claim) in self.store.claim(ClaimRequest::WithoutPayload(batch))? {
            let (exit, why) = match claim {
                Claim::Held(mut record) => {
                    let Some(why) = self.selection.objection(Arc::make_mut(&mut record)) else {
                        claimed.push(record);
                        continue;
                    };
                    self.store.release(&id);
                    (Exit::Done, why)
                }
                Claim::Busy | Claim::NotAsked => {
                    let stop = format!("backlog stop{} {}", self.choice, id_argument(&id));
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
        let Selection { command, now: at, .. } = self.selection;
        let (transition, counter) = (command.transition, command.counter.clone());
        let settlement = Settlement { transition, counter, at, not_before: None };
        if self.dry_run {
            for record in claimed {
                let (from, to) = (record.status, settlement.status(record.status));
                writeln!(self.out, "{}: {} -> {}", record.id, from.name(), to.name())?;
            }
            self.done += claimed.len() as u64;
            return Ok(());
        }
        if transition == Transition::Archived
            && self.done == 0
            && let Some(first) = claimed.first()
            && let Some(why) = self.store.rehearse_ends(first, Ends::Archive(None))?
        {
            bail!("{why}; nothing was archived");
        }
        let write = |record| RowWrite::new(record, None, settlement.clone());
        let writes: Vec<_> = claimed.iter().map(write).collect();
        for (record, result) in claimed.iter().zip(self.store.round(&writes, &[])?) {
            let (exit, why) = match result {
                WriteResult::Written | WriteResult::WrittenAfterLoss | WriteResult::Charged(_) => {
                    self.done += 1;
                    if self.first.len() < NEXT_ATTEMPTS {
                        self.first.push(record.id.clone());
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

    /// `archived 0 records: no NEW or ERROR record matches`
    fn print_summary(&mut self, is_nothing_selected: bool) -> Result<()> {
        let Selection { command, statuses, .. } = &self.selection;
        let would = if self.dry_run { "would " } else { "" };
        let verb = if self.dry_run { command.would } else { command.done };
        let records = counted(self.done, "record");
        write!(self.out, "{would}{verb} {records}")?;
        if is_nothing_selected {
            let names: Vec<_> = statuses.iter().map(|status| status.name()).collect();
            write!(self.out, ": no {} record matches", names.join(" or "))?;
            if command.from.iter().any(|status| !statuses.contains(status)) {
                write!(self.out, "; --status chooses others")?;
            }
        }
        Ok(writeln!(self.out)?)
    }

    fn print_next_attempts(&mut self, rule: &DueRule, screen: &Screen) -> Result<()> {
        for id in &self.first {
            if let ReadResult::Record(record) = self.store.read(id)? {
                let next = next_attempt(&record, rule.verdict(record.facts()), screen);
                writeln!(self.out, "{}: next attempt {next}", id.full())?;
            }
        }
        Ok(())
    }

    fn print_unchanged(&mut self, id: &Id, exit: Exit, why: &str) -> Result<()> {
        self.exit = self.exit.max(exit);
        Ok(writeln!(self.out, "{id}: {}", one_line(why))?)
    }
}

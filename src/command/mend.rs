//! `backlog archive`, `restore` and `retry`: what a person does with records by hand. Like a pass
//! they change a row only under its claim and only if its status is the expected one.

use std::io::Write;

use anyhow::Result;

use super::{AMBIGUOUS, GONE, find, open};
use crate::cli;
use crate::config::Queue;
use crate::exit::{Exit, ExitError, usage};
use crate::record::{Counter, Id, Record, Settlement, Status};
use crate::selection::{Order, Selection, Window};
use crate::store::{Applied, Change, Found, Reader, SqliteStore, Store};

/// How many records are claimed and changed at a time.
const BATCH: usize = 200;

/// What is to be done, and with which records.
pub struct Mending {
    verb: Verb,
    which: Which,
    dry_run: bool,
}

enum Which {
    Ids(Vec<String>),
    /// All, as far as a condition holds.
    All(Option<String>),
}

/// What is done with one record.
struct Verb {
    /// As in `archived 3 records`.
    done: &'static str,
    /// As in `would archive 3 records`.
    would: &'static str,
    from: &'static [Status],
    to: Settlement,
}

impl Mending {
    pub fn archive(ids: Vec<String>, dry_run: bool) -> Self {
        let to = Settlement { status: Status::Archived, counter: Counter::AsBefore };
        let verb = Verb { done: "archived", would: "archive", from: &Status::PENDING, to };
        Self { verb, which: Which::Ids(ids), dry_run }
    }

    /// Back to where it began.
    pub fn restore(args: cli::Restore) -> Result<Self, ExitError> {
        if args.condition.is_some() && !args.all {
            return Err(usage("--where chooses among all archived records: say --all as well"));
        }
        let to = Settlement { status: Status::New, counter: Counter::Reset };
        let verb = Verb { done: "restored", would: "restore", from: &[Status::Archived], to };
        let which = if args.all { Which::All(args.condition) } else { Which::Ids(args.ids) };
        Ok(Self { verb, which, dry_run: args.dry_run })
    }

    /// NEW is due under every policy, and has never run out of attempts.
    pub fn retry(ids: Vec<String>, dry_run: bool) -> Self {
        let to = Settlement { status: Status::New, counter: Counter::AsBefore };
        let from = &[Status::Error, Status::Archived];
        let verb = Verb { done: "made due", would: "make due", from, to };
        Self { verb, which: Which::Ids(ids), dry_run }
    }
}

/// How many records there were of each kind.
#[derive(Default)]
struct Tally {
    done: usize,
    busy: usize,
    missing: usize,
}

pub fn run(queue: &Queue, mending: &Mending, out: &mut dyn Write) -> Result<Exit> {
    let database = open(queue)?;
    let state = super::line::state_dir(queue, &database)?;
    let mut store = SqliteStore::new(database, &state)?;
    let mut tally = Tally::default();
    let records = chosen(store.reader(), mending, &mut tally, out)?;
    for batch in records.chunks(BATCH) {
        work_off(&mut store, mending, batch, &mut tally, out)?;
    }
    let Tally { done, busy, missing } = tally;
    let Verb { done: verb, would, .. } = mending.verb;
    let records = if done == 1 { "record" } else { "records" };
    if mending.dry_run {
        writeln!(out, "would {would} {done} {records}")?;
    } else {
        writeln!(out, "{verb} {done} {records}")?;
    }
    Ok(if missing > 0 {
        Exit::Failed
    } else if busy > 0 {
        Exit::TryLater
    } else {
        Exit::Done
    })
}

/// The ids of the records that are meant.
fn chosen(
    reader: &mut dyn Reader,
    mending: &Mending,
    tally: &mut Tally,
    out: &mut dyn Write,
) -> Result<Vec<Id>> {
    match &mending.which {
        Which::Ids(ids) => {
            let mut found = Vec::new();
            for id in ids {
                match find(reader, id)? {
                    // Whoever types an id twice means one record.
                    Ok(record) if found.contains(&record.id) => {}
                    Ok(record) => found.push(record.id),
                    Err(why) => {
                        tally.missing += 1;
                        writeln!(out, "{id}: {why}")?;
                    }
                }
            }
            Ok(found)
        }
        Which::All(condition) => {
            let selection = Selection {
                window: Window::All,
                statuses: mending.verb.from.to_vec(),
                condition: condition.clone(),
                order: Order::Oldest,
                after: None,
                up_to: None,
                limit: usize::MAX,
            };
            Ok(reader.due(&selection, &mut |_| true)?.ids)
        }
    }
}

/// Claims the records of a batch, changes those that can be, and lets go of them.
fn work_off(
    store: &mut SqliteStore,
    mending: &Mending,
    batch: &[Id],
    tally: &mut Tally,
    out: &mut dyn Write,
) -> Result<()> {
    let mut claimed = Vec::new();
    let result = claim(store, mending, batch, &mut claimed, tally, out)
        .and_then(|()| change(store, mending, &claimed, tally, out));
    for record in &claimed {
        store.release(&record.id);
    }
    result
}

fn claim(
    store: &mut SqliteStore,
    mending: &Mending,
    batch: &[Id],
    claimed: &mut Vec<Record>,
    tally: &mut Tally,
    out: &mut dyn Write,
) -> Result<()> {
    for id in batch {
        if !store.claim(id)? {
            tally.busy += 1;
            writeln!(out, "{id}: a pass is handling it; try again later")?;
            continue;
        }
        match store.reader().read(id)? {
            Found::Record(record) if mending.verb.from.contains(&record.status) => {
                claimed.push(*record);
                continue;
            }
            Found::Record(record) => {
                writeln!(out, "{id}: is {}, and is left so", record.status_text)?;
            }
            Found::Ambiguous => writeln!(out, "{id}: {AMBIGUOUS}")?,
            Found::Gone => writeln!(out, "{id}: {GONE}")?,
        }
        store.release(id);
    }
    Ok(())
}

fn change(
    store: &mut SqliteStore,
    mending: &Mending,
    claimed: &[Record],
    tally: &mut Tally,
    out: &mut dyn Write,
) -> Result<()> {
    let to = &mending.verb.to;
    if mending.dry_run {
        for record in claimed {
            writeln!(out, "{}: {} -> {}", record.id, record.status.name(), to.status.name())?;
        }
        tally.done += claimed.len();
        return Ok(());
    }
    let changes: Vec<_> = claimed
        .iter()
        .map(|record| Change { record, expected: record.status, settlement: to.clone() })
        .collect();
    for (record, applied) in claimed.iter().zip(store.apply(&changes)?) {
        match applied {
            Applied::Written => tally.done += 1,
            Applied::ChangedMeanwhile => {
                writeln!(out, "{}: was changed by the application just now", record.id)?;
            }
            Applied::Refused(error) => {
                tally.missing += 1;
                writeln!(out, "{}: the table refuses it: {error}", record.id)?;
            }
        }
    }
    Ok(())
}

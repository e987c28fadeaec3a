//! `backlog prune`: deletes SUCCESS and ARCHIVED rows that are old enough and did not change since the search.

use std::time::{Duration, Instant as Monotonic};

use anyhow::{Context, Result, bail};
use backlog_schedule::{
    Counter, Id, Instant, Order, Query, Record, Settlement, Status, Transition, Window, counted,
};
use backlog_store::{
    Access, Claim, ClaimRequest, Clock, Database, Page, Reader, Refusal, RowWrite, StateDir, Stop,
    Stoppable, Store, Table, Until, WriteResult, chain, naming,
};

use super::edit::{MANY, confirm, confirmed};
use super::{AMBIGUOUS, Console, line_name, open, state_dir};
use crate::cli::PruneArgs;
use crate::exit::{Exit, usage};
use crate::options::{Queue, Resolved};

/// Rows of the first transaction, and of the largest: as many as `QUICK` allows, so that no writer waits for long.
const FIRST_BATCH: usize = 50;
const LARGEST_BATCH: usize = 1_000;
const QUICK: Duration = Duration::from_millis(200);
/// Number of ids that a search returns. The next search continues after the last of them.
const PAGE: usize = 100_000;
const AFTER_PASS: Duration = Duration::from_secs(10);

/// The records of one status that were finished before an instant, as a queue of their own.
pub struct FinishedRecords {
    pub queue: Queue,
    status: Status,
    /// The statuses that their rows may have.
    statuses: Vec<Status>,
    before: Instant,
}

#[derive(Default)]
struct Deleted {
    rows: u64,
    /// Number of rows that could not be deleted, and the reason for the first.
    refused: u64,
    first: Option<String>,
    /// Whether the time was over before all were deleted.
    is_cut: bool,
}

pub fn run(resolved: &Resolved<'_>, args: &PruneArgs, console: &mut Console<'_>) -> Result<Exit> {
    let queue = resolved.queue()?;
    let ages = match (args.older_than, &queue.prune_after) {
        (Some(age), _) => Status::FINISHED.map(|status| (status, age)).to_vec(),
        (None, ages) if ages.is_empty() => {
            bail!(usage("how old? use --older-than 30d, or set prune_after in backlog.toml"))
        }
        (None, ages) => ages.clone(),
    };
    let is_wanted = |status: &Status| args.status.is_empty() || args.status.contains(status);
    let ages = ages.into_iter().filter(|(status, _)| is_wanted(status));
    let now = console.clock.now();
    let typed = &resolved.typed.layer.conditions;
    let database = open(&queue, Access::ReadOnly, console.clock)?;
    let table = database.table();
    let all =
        ages.map(|(status, age)| FinishedRecords::new(&queue, table, status, age, typed, now));
    let all: Vec<_> = all.collect::<Result<_>>()?;
    // Both are looked at before the first row is deleted.
    for finished in &all {
        finished.open(Access::ReadOnly, console.clock)?;
    }
    let asks = !args.yes && console.terminal.is_terminal;
    let found = if args.dry_run || asks {
        all.iter().map(|it| it.count(console.clock)).sum::<Result<u64>>()?
    } else {
        0
    };
    if args.dry_run {
        return confirm(console.out, &format!("would delete {}", counted(found, "record")));
    }
    let many = usize::try_from(found).unwrap_or(usize::MAX);
    if many > MANY && asks && !confirmed("delete", many, console)? {
        return confirm(console.out, "nothing was deleted");
    }
    let end = args.max_runtime.and_then(|limit| console.clock.monotonic().checked_add(limit));
    let mut exit = Exit::Done;
    for finished in &all {
        let deleted = finished.delete(console.clock, end, false)?;
        writeln!(console.out, "deleted {}", records(deleted.rows, finished.status))?;
        if let Some(why) = deleted.refusals() {
            console.terminal.say(&why);
            exit = Exit::Failed;
        }
        if let Some(undated) = finished.undated(console.clock)? {
            console.terminal.say(&undated);
        }
        if deleted.is_cut {
            console.terminal.say("stopped after --max-runtime; the next run continues");
            break;
        }
    }
    Ok(exit)
}

/// Deletes what `prune_after` says, once an hour. The line is free, so the next pass does not wait for this.
pub fn after_pass(queue: &Queue, state: &StateDir, clock: Clock) {
    if queue.prune_after.is_empty() {
        return;
    }
    // Lines with the same part of the records share the hour.
    let conditions = queue.mapping.conditions.iter().cloned();
    let part = conditions.chain(queue.shard.map(|shard| shard.to_string()));
    let line = line_name(queue, queue.table_name(), part.collect::<Vec<_>>().join("\n"));
    let now = clock.now();
    if !state.may_say(&line, "pruned", now) {
        return;
    }
    let end = clock.monotonic().checked_add(AFTER_PASS);
    for (status, age) in &queue.prune_after {
        let delete = || {
            let database = open(queue, Access::ReadOnly, clock)?;
            let finished = FinishedRecords::new(queue, database.table(), *status, *age, &[], now)?;
            finished.delete(clock, end, true)
        };
        let why = match delete() {
            Ok(deleted) => {
                log::info!("deleted {}", records(deleted.rows, *status));
                deleted.refusals()
            }
            Err(error) => Some(chain(&error)),
        };
        if let Some(why) = why.filter(|_| state.may_say(&line, status.name(), now)) {
            log::error!("{why}");
        }
    }
}

impl Deleted {
    fn refusals(&self) -> Option<String> {
        let (records, first) = (counted(self.refused, "record"), self.first.as_ref()?);
        Some(format!("{records} could not be deleted, such as {first}"))
    }

    fn refuse(&mut self, id: &Id, why: &str) {
        self.refused += 1;
        self.first.get_or_insert_with(|| format!("{id}: {why}"));
    }
}

impl FinishedRecords {
    /// The records with this status and above this age in seconds, that also meet the conditions.
    pub fn new(
        queue: &Queue,
        table: &Table,
        status: Status,
        age: i64,
        conditions: &[String],
        now: Instant,
    ) -> Result<Self> {
        if let Some(name) = queue.db.queue() {
            bail!(usage(format!(
                "prune does not work on a pgmq queue; delete from its archive: DELETE FROM pgmq.a_{name} \
                 WHERE archived_at < now() - interval '30 days'"
            )));
        }
        let mapping = queue.mapping.of_finished(status, table.last_failure.is_some());
        let mut mapping = mapping.ok_or_else(|| usage(no_date(status)))?;
        mapping.conditions.extend(conditions.iter().cloned());
        let by_condition = status == Status::Archived && queue.mapping.archived.is_some();
        // Rows that a condition archives may have any status of a record that has not succeeded.
        let statuses = if by_condition {
            vec![Status::New, Status::Error, Status::Archived]
        } else {
            vec![status]
        };
        let before = now.saturating_sub(age);
        Ok(Self { queue: Queue { mapping, ..queue.clone() }, status, statuses, before })
    }

    /// Opens the table. Fails unless its rows show which records are finished, and when.
    pub fn open(&self, access: Access, clock: Clock) -> Result<Box<dyn Database>> {
        let status = self.status.name();
        let database = open(&self.queue, access, clock);
        let database = database.with_context(|| format!("{status} records cannot be pruned"))?;
        let table = database.table();
        table.require_valid_columns()?;
        if table.statuses.value(self.status).is_none() && self.statuses.len() == 1 {
            let table = &table.name;
            bail!(
                "no value of a status column of {table} means {status}: no such record is pruned"
            );
        }
        Ok(database)
    }

    /// All of them, those first that were finished first.
    pub fn query(&self) -> Query {
        Query {
            window: Window::Inserted { from: Instant(i64::MIN), until: Some(self.before) },
            statuses: self.statuses.clone(),
            order: Order::Oldest,
            after: None,
            up_to: None,
            limit: PAGE,
        }
    }

    fn page(&self, query: &Query, reader: &mut dyn Reader) -> Result<Page> {
        reader.due(query, &mut |facts| {
            let is_old = facts.inserted_at.is_some_and(|finished_at| finished_at < self.before);
            is_old && self.queue.holds(facts.id)
        })
    }

    /// The number of records that have no date, which are never pruned.
    fn undated(&self, clock: Clock) -> Result<Option<String>> {
        let mut database = self.open(Access::ReadOnly, clock)?;
        let counts = database.census(&[], clock.now())?.into_iter();
        let undated = counts.filter(|it| it.band.is_none() && self.statuses.contains(&it.status));
        let rows: u64 = undated.map(|count| count.rows).sum();
        let (records, column) = (records(rows, self.status), &database.table().inserted.name);
        Ok((rows > 0).then(|| format!("no date in {column}, and never pruned: {records}")))
    }

    fn count(&self, clock: Clock) -> Result<u64> {
        let mut database = self.open(Access::ReadOnly, clock)?;
        let (mut query, mut found) = (self.query(), 0);
        loop {
            let page = self.page(&query, &mut *database)?;
            found += page.ids.len() as u64;
            let Some(last) = page.next else { return Ok(found) };
            query.after = Some(last);
        }
    }

    /// Deletes them in batches, until none is left or the time is over.
    fn delete(&self, clock: Clock, end: Option<Monotonic>, heeds_pause: bool) -> Result<Deleted> {
        let database = self.open(Access::ReadWrite, clock)?;
        let state = state_dir(&self.queue, &*database)?;
        // A person may prune during a pause.
        let is_paused = || state.pause(&self.queue.name, &database.table().name, clock.now());
        if heeds_pause && is_paused().is_some() {
            return Ok(Deleted::default());
        }
        let left = end.map(|end| end.saturating_duration_since(clock.monotonic()));
        let stop = Stop::new(clock, Duration::ZERO, left).context("could not make an eventfd")?;
        let mut store = Stoppable::open(database, &state, stop.clone())?;
        let (mut query, mut deleted, mut most) = (self.query(), Deleted::default(), FIRST_BATCH);
        loop {
            let page = self.page(&query, &mut store);
            if stop.is_past_deadline() {
                deleted.is_cut = true;
                return Ok(deleted);
            }
            let page = page?;
            let mut ids = &page.ids[..];
            while !ids.is_empty() {
                let (batch, rest) =
                    ids.split_at(most.min(store.limits().most_claims).min(ids.len()));
                let began = clock.monotonic();
                let done = self.delete_batch(&mut store, batch, &mut deleted);
                if stop.is_past_deadline() {
                    deleted.is_cut = true;
                    return Ok(deleted);
                }
                done?;
                let is_quick = clock.monotonic().saturating_duration_since(began) < QUICK;
                most = if is_quick { (2 * most).min(LARGEST_BATCH) } else { (most / 2).max(1) };
                ids = rest;
            }
            let Some(last) = page.next else { return Ok(deleted) };
            query.after = Some(last);
        }
    }

    /// One transaction. A record that `restore` or another pass has claimed is left out.
    fn delete_batch(&self, store: &mut dyn Store, ids: &[Id], deleted: &mut Deleted) -> Result<()> {
        let mut records = Vec::new();
        for (id, claim) in store.claim(ClaimRequest::Named(ids))? {
            match claim {
                Claim::Held(record) if self.is_finished(&record) => records.push(record),
                Claim::Held(_) => store.release(&id),
                Claim::Busy | Claim::Gone | Claim::NotAsked => {}
                Claim::Ambiguous => deleted.refuse(&id, AMBIGUOUS),
                Claim::Unreadable(why) => deleted.refuse(&id, &why),
            }
        }
        let (transition, counter) = (Transition::Succeeded, Counter::Untouched);
        let success = Settlement { transition, counter, at: self.before, not_before: None };
        // By this mapping a success deletes its row.
        let writes = records.iter().map(|record| RowWrite::new(record, None, success.clone()));
        let written = store.round(&writes.collect::<Vec<_>>(), &[]);
        for record in &records {
            store.release(&record.id);
        }
        for (record, result) in records.iter().zip(written?) {
            match result {
                WriteResult::Written | WriteResult::WrittenAfterLoss | WriteResult::Charged(_) => {
                    deleted.rows += 1;
                }
                WriteResult::ChangedMeanwhile | WriteResult::ClaimLost => {}
                WriteResult::Refused(Refusal { why, .. }) => deleted.refuse(&record.id, &why),
            }
        }
        store.flush(Until::Idle)
    }

    fn is_finished(&self, record: &Record) -> bool {
        self.statuses.contains(&record.status)
            && record.inserted_at.is_some_and(|finished_at| finished_at < self.before)
    }
}

/// `7 SUCCESS records`
fn records(number: u64, status: Status) -> String {
    counted(number, &format!("{} record", status.name()))
}

fn no_date(status: Status) -> String {
    let (name, how) = (status.name(), naming("finished_at"));
    let insertion = match status {
        Status::Success => {
            "; if the date of insertion is good enough, name that column; --status ARCHIVED leaves these out"
        }
        Status::New | Status::Error | Status::Archived | Status::Foreign => "",
    };
    format!("no column says when {name} records were finished: {how}{insertion}")
}

//! `backlog prune`: deletes SUCCESS and ARCHIVED rows that are old enough and did not change since the search.

use std::time::{Duration, Instant as Monotonic};

use anyhow::{Context, Result, bail, ensure};
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

/// Rows of the first transaction and of the largest. `QUICK` limits the rest, so that other writers wait only briefly.
const FIRST_BATCH: usize = 50;
const LARGEST_BATCH: usize = 1_000;
const QUICK: Duration = Duration::from_millis(200);
/// Number of ids that one search returns.
const PAGE: usize = 100_000;
const AFTER_PASS: Duration = Duration::from_secs(10);

/// The records of one status that were finished before an instant, as a queue of their own.
pub struct FinishedRecords {
    pub queue: Queue,
    status: Status,
    statuses: Vec<Status>,
    before: Instant,
}

#[derive(Default)]
struct PruneTally {
    deleted: u64,
    /// Number of rows that could not be deleted, and the first of them with the reason.
    refused: u64,
    first_refused: Option<String>,
    /// True if the time was over before all rows were deleted.
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
    let (clock, typed) = (console.clock, &resolved.typed.layer.conditions);
    let database = open(&queue, Access::ReadOnly, clock)?;
    let (table, now) = (database.table(), clock.now());
    let is_chosen = |status: Status| match &args.status[..] {
        [] if args.older_than.is_none() => true,
        [] if status == Status::Success => table.statuses.value(status).is_some(),
        [] => table.can_be(status),
        chosen => chosen.contains(&status),
    };
    let mut all = Vec::new();
    for (status, age) in ages.into_iter().filter(|(status, _)| is_chosen(*status)) {
        all.push(FinishedRecords::new(&queue, table, status, age, typed, now)?);
    }
    ensure!(!all.is_empty(), "table {} keeps no finished records", table.name);
    // Both statuses are checked before the first row is deleted.
    for finished in &all {
        finished.open(Access::ReadOnly, clock)?;
    }
    let asks = !args.yes && console.terminal.is_terminal;
    let mut found = 0;
    for finished in all.iter().filter(|_| args.dry_run || asks) {
        found += finished.count(clock)?;
    }
    if args.dry_run {
        return confirm(console.out, &format!("would delete {}", counted(found, "record")));
    }
    let many = usize::try_from(found).unwrap_or(usize::MAX);
    if many > MANY && asks && !confirmed("delete", many, console)? {
        return confirm(console.out, "nothing was deleted");
    }
    let end = args.max_runtime.and_then(|limit| clock.monotonic().checked_add(limit));
    let mut exit = Exit::Done;
    for finished in &all {
        // Once the others are deleted, a date that cannot be read may be the only one of its column.
        let undated = finished.undated(clock)?;
        let tally = finished.delete(clock, end, false)?;
        writeln!(console.out, "deleted {}", records(tally.deleted, finished.status))?;
        if let Some(why) = tally.refusals() {
            console.terminal.say(&why);
            exit = Exit::Failed;
        }
        if let Some(undated) = undated {
            console.terminal.say(&undated);
        }
        if tally.is_cut {
            console.terminal.say("stopped after --max-runtime; the next run continues");
            break;
        }
    }
    Ok(exit)
}

/// Deletes the records above the age of `prune_after`, once an hour. The line is free, so the next pass does not wait.
pub fn after_pass(queue: &Queue, state: &StateDir, clock: Clock) {
    if queue.prune_after.is_empty() {
        return;
    }
    // Lines with the same part of the records share the hour.
    let conditions = queue.mapping.conditions.iter().cloned();
    let part = conditions.chain(queue.shard.map(|shard| shard.to_string()));
    let line = line_name(queue, queue.table_name(), part.collect::<Vec<_>>().join("\n"));
    let now = clock.now();
    if !state.may_print(&line, "pruned", now) {
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
            Ok(tally) => {
                log::info!("deleted {}", records(tally.deleted, *status));
                tally.refusals()
            }
            Err(error) => Some(chain(&error)),
        };
        if let Some(why) = why.filter(|_| state.may_print(&line, status.name(), now)) {
            log::error!("{why}");
        }
    }
}

impl PruneTally {
    fn refusals(&self) -> Option<String> {
        let (records, first) = (counted(self.refused, "record"), self.first_refused.as_ref()?);
        Some(format!("{records} could not be deleted, such as {first}"))
    }

    fn refuse(&mut self, id: &Id, why: &str) {
        self.refused += 1;
        self.first_refused.get_or_insert_with(|| format!("{id}: {why}"));
    }
}

impl FinishedRecords {
    /// The records with this status and above this age in seconds that also meet the conditions.
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
        // A row that a condition archives may have any status except SUCCESS.
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
        let cannot = || format!("{status} records cannot be pruned");
        let mut database = database.with_context(cannot)?;
        database.deletion("prune deletes rows").with_context(cannot)?;
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

    /// True if no column has the date of the archive.
    pub fn by_last_failure(&self) -> bool {
        self.queue.mapping.finished_key == Some("last_failure")
    }

    /// The search for all of them, in the order of their ends.
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

    /// The warning about records without a date, which are never pruned.
    fn undated(&self, clock: Clock) -> Result<Option<String>> {
        let mut database = self.open(Access::ReadOnly, clock)?;
        let counts = database.census(&[], clock.now())?.into_iter();
        let undated =
            counts.filter(|count| count.band.is_none() && self.statuses.contains(&count.status));
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
    fn delete(
        &self,
        clock: Clock,
        end: Option<Monotonic>,
        obeys_pause: bool,
    ) -> Result<PruneTally> {
        let database = self.open(Access::ReadWrite, clock)?;
        let state = state_dir(&self.queue, &*database)?;
        // A person may prune during a pause.
        let pause = || state.pause(&self.queue.name, &database.table().name, clock.now());
        if obeys_pause && pause().is_some() {
            return Ok(PruneTally::default());
        }
        let left = end.map(|end| end.saturating_duration_since(clock.monotonic()));
        let stop = Stop::new(clock, Duration::ZERO, left).context("could not create an eventfd")?;
        let mut store = Stoppable::open(database, &state, stop.clone())?;
        let (mut query, mut tally, mut most) = (self.query(), PruneTally::default(), FIRST_BATCH);
        loop {
            let page = self.page(&query, &mut store);
            tally.is_cut = stop.is_past_deadline();
            if tally.is_cut {
                return Ok(tally);
            }
            let page = page?;
            let mut ids = &page.ids[..];
            while !ids.is_empty() {
                let batch;
                (batch, ids) = ids.split_at(most.min(store.limits().most_claims).min(ids.len()));
                let began = clock.monotonic();
                let deleted = self.delete_batch(&mut store, batch, &mut tally);
                tally.is_cut = stop.is_past_deadline();
                if tally.is_cut {
                    return Ok(tally);
                }
                deleted?;
                let is_quick = clock.monotonic().saturating_duration_since(began) < QUICK;
                most = if is_quick { (2 * most).min(LARGEST_BATCH) } else { (most / 2).max(1) };
            }
            let Some(last) = page.next else { return Ok(tally) };
            query.after = Some(last);
        }
    }

    /// Deletes in one transaction. Leaves out records that `restore` or a pass has claimed.
    fn delete_batch(
        &self,
        store: &mut dyn Store,
        ids: &[Id],
        tally: &mut PruneTally,
    ) -> Result<()> {
        let mut records = Vec::new();
        for (id, claim) in store.claim(ClaimRequest::WithoutPayload(ids))? {
            match claim {
                Claim::Held(record) if self.is_finished(&record) => records.push(record),
                Claim::Held(_) => store.release(&id),
                Claim::Busy | Claim::Gone | Claim::NotAsked => {}
                Claim::Ambiguous => tally.refuse(&id, AMBIGUOUS),
                Claim::Unreadable(why) => tally.refuse(&id, &why),
            }
        }
        let (transition, counter) = (Transition::Succeeded, Counter::Untouched);
        let success = Settlement { transition, counter, at: self.before, not_before: None };
        // In this mapping a success deletes its row.
        let writes = records.iter().map(|record| RowWrite::new(record, None, success.clone()));
        let written = store.round(&writes.collect::<Vec<_>>(), &[]);
        for record in &records {
            store.release(&record.id);
        }
        for (record, result) in records.iter().zip(written?) {
            match result {
                WriteResult::Written | WriteResult::WrittenAfterLoss | WriteResult::Charged(_) => {
                    tally.deleted += 1;
                }
                WriteResult::ChangedMeanwhile | WriteResult::ClaimLost => {}
                WriteResult::Refused(Refusal { why, .. }) => tally.refuse(&record.id, &why),
            }
        }
        store.flush(Until::Idle)
    }

    fn is_finished(&self, record: &Record) -> bool {
        self.statuses.contains(&record.status)
            && record.inserted_at.is_some_and(|finished_at| finished_at < self.before)
    }
}

fn records(number: u64, status: Status) -> String {
    counted(number, &format!("{} record", status.name()))
}

fn no_date(status: Status) -> String {
    let (name, how) = (status.name(), naming("finished_at"));
    let insertion = match status {
        Status::Success => {
            "; if the date of insertion is good enough, name that column; --status ARCHIVED leaves these out"
        }
        Status::Archived => ", and let on_archive set it to {now}",
        Status::New | Status::Error | Status::Foreign => "",
    };
    format!("no column says when {name} records were finished: {how}{insertion}")
}

//! Queues in the same table: records that more than one of them would try.

use anyhow::Result;
use backlog_schedule::counted;
use backlog_store::{Access, Clock, Column, Database, Table};

use super::super::open;
use crate::options::{Queue, Resolved, TypedOptions};
use crate::report::Findings;

const ABOUT: &str = "queues";

pub fn check(
    findings: &mut Findings,
    queue: &Queue,
    resolved: &Resolved<'_>,
    database: &mut dyn Database,
    clock: Clock,
) {
    let sources = resolved.sources;
    let queues = sources.queues().unwrap_or_default();
    // Typed options apply only to this queue.
    let typed = TypedOptions { known: resolved.typed.known.clone(), ..TypedOptions::default() };
    let is_described = queues.contains(&queue.name);
    for name in queues.into_iter().filter(|name| is_described && *name != queue.name) {
        let other = sources.resolve(&typed, Some(&name));
        let other = other.and_then(Resolved::require_usable).and_then(|other| other.queue());
        // The check of the other queue reports its errors.
        let Ok(other) = other else { continue };
        let shards = queue.shard.zip(other.shard);
        let are_disjoint = shards.is_some_and(|(own, other)| own.is_disjoint_from(other));
        if are_disjoint || other.db.identity() != queue.db.identity() {
            continue;
        }
        let Ok(there) = open(&other, Access::ReadOnly, clock) else { continue };
        let compared = compare(findings, queue, &other, database, there.table());
        findings.or_error(ABOUT, compared);
    }
}

fn compare(
    findings: &mut Findings,
    queue: &Queue,
    other: &Queue,
    database: &mut dyn Database,
    there: &Table,
) -> Result<()> {
    let (here, label) = (database.table(), format!("queue {:?}", other.name));
    if here.sql != there.sql {
        return Ok(());
    }
    let [own, others] = [here, there].map(|table| names(&table.id).join(", "));
    if own != others {
        let why = format!(
            "{label} has {others} for the id of the same table, not {own}: neither sees the claims of \
             the other, so give both the same"
        );
        findings.error(ABOUT, why);
        return Ok(());
    }
    let is_other_work = is_other_work(here, there);
    let counters = shared_counters(here, there).join(" and ");
    let is_same =
        queue.mapping.conditions == other.mapping.conditions && here.pending() == there.pending();
    let remedy = "give each a `where` that leaves out the records of the other";
    if is_same && !is_other_work {
        findings.error(ABOUT, format!("{label} works on the same records: {remedy}"));
    } else if (!is_other_work || !counters.is_empty())
        && let Some((rows, id)) = database.shared_with(there)?
    {
        let records = counted(rows, "pending record");
        let shared = format!("{label} has {records} of this one as well, such as {id}");
        if is_other_work {
            let why = format!("{shared}, and both write their failures to {counters}");
            findings.warning(ABOUT, why + ": give each its own, or none (failures = \"\")");
        } else {
            findings.error(ABOUT, format!("{shared}: {remedy}"));
        }
    }
    Ok(())
}

fn names<'a>(columns: impl IntoIterator<Item = &'a Column>) -> Vec<&'a str> {
    columns.into_iter().map(|column| column.name.as_str()).collect()
}

/// True if a record that is done for one queue stays pending for the other, because each sets its own columns.
fn is_other_work(here: &Table, there: &Table) -> bool {
    let (own, others) = (columns_of_success(here), columns_of_success(there));
    let deletes = here.deletes_succeeded || there.deletes_succeeded;
    let is_shared = own.iter().any(|column| others.contains(column));
    !deletes && !is_shared && !own.is_empty() && !others.is_empty()
}

fn columns_of_success(table: &Table) -> Vec<&str> {
    match &table.statuses.column {
        Some(column) => vec![&column.name],
        None => names(table.on_success.iter().map(|effect| &effect.column)),
    }
}

fn shared_counters<'a>(here: &'a Table, there: &Table) -> Vec<&'a str> {
    let others = names(there.counter_columns());
    let own = names(here.counter_columns()).into_iter();
    own.filter(|column| others.contains(column)).collect()
}

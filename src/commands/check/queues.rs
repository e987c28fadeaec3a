//! Queues of backlog.toml in one table: whether a record would be tried by more than one of them.

use anyhow::Result;

use super::super::open;
use super::Findings;
use crate::options::{Queue, Resolved, TypedOptions};
use crate::record::counted;
use crate::store::{Access, Database, Table};

/// Looks at each other queue of backlog.toml that is in the same table.
pub fn check(
    findings: &mut Findings,
    queue: &Queue,
    resolved: &Resolved<'_>,
    database: &mut dyn Database,
) {
    let sources = resolved.sources;
    // What was typed is about this queue alone.
    let typed = TypedOptions { known: resolved.typed.known.clone(), ..TypedOptions::default() };
    let Some(file) = &sources.file else { return };
    for name in file.queues().filter(|name| *name != queue.name) {
        // What is wrong with it is found where it is looked at itself.
        let resolved = sources.resolve(&typed, Some(name));
        let Ok(other) = resolved.and_then(|resolved| resolved.queue()) else { continue };
        if other.db.identity() != queue.db.identity() || are_shards(queue, &other) {
            continue;
        }
        let Ok(there) = open(&other, Access::ReadOnly) else { continue };
        let found = complaint(queue, &other, database, there.table());
        if let Some(why) = findings.wrong("queues", found).flatten() {
            findings.error("queues", why);
        }
    }
}

/// Whether they are different parts of the same division.
fn are_shards(queue: &Queue, other: &Queue) -> bool {
    queue.shard.zip(other.shard).is_some_and(|(one, other)| one.is_apart_from(other))
}

/// Why two queues get into each other's way, if they do.
fn complaint(
    queue: &Queue,
    other: &Queue,
    database: &mut dyn Database,
    there: &Table,
) -> Result<Option<String>> {
    let (here, name) = (database.table(), &other.name);
    if here.sql != there.sql {
        return Ok(None);
    }
    let ids = |table: &Table| table.id.iter().map(|it| it.name.clone()).collect::<Vec<_>>();
    let (own, others) = (ids(here), ids(there));
    if own != others {
        return Ok(Some(format!(
            "queue {name:?} has {} for the id of the same table, not {}: neither sees the claims of \
             the other, so give both the same",
            others.join(", "),
            own.join(", ")
        )));
    }
    // Each has a status of its own then, and a record two kinds of work.
    let status = |table: &Table| table.statuses.column.as_ref().map(|it| it.name.clone());
    if let (Some(own), Some(others)) = (status(here), status(there))
        && own != others
    {
        return Ok(None);
    }
    let remedy = "give each a `where` that leaves out what the other has";
    if queue.mapping.conditions == other.mapping.conditions
        && status(here) == status(there)
        && here.pending() == there.pending()
    {
        return Ok(Some(format!("queue {name:?} works on the same records: {remedy}")));
    }
    let shared = database.shared_with(there)?;
    Ok(shared.map(|(rows, id)| {
        let records = counted(rows, "pending record");
        format!("queue {name:?} has {records} of this one as well, such as {id}: {remedy}")
    }))
}

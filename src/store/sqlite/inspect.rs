//! The inspection of a SQLite table: its indexes, by the plans that SQLite makes, and what it would
//! refuse.

use rusqlite::{Connection, Result};

use super::{SqliteEngine, index_walk};
use crate::store::Inspection;
use crate::store::engine::{Engine, Index};
use crate::store::error::DbError;
use crate::store::sql::recent;
use crate::store::table::{Quoted, Table, names, quote};

/// See [`Engine::inspect`].
pub fn inspect(engine: &SqliteEngine, table: &Table, found: &mut Inspection) {
    let Inspection { unread, .. } = found;
    let told = |error: DbError| engine.explain(error, "read");
    let connection = &engine.connection;
    let mode = connection.pragma_query_value(None, "journal_mode", |it| it.get(0));
    let mode: String = unread.or_nothing("the journal mode", mode.map_err(|it| told(it.into())));
    found.aside = format!("journal mode {mode}");
    let refused = refused_writes(connection, table).map_err(told);
    found.refused = unread.or_nothing("what is written", refused);
    let reuses_ids = reuses_ids(connection, table).map_err(|it| told(it.into()));
    found.reuses_ids = unread.or_nothing("the table's key", reuses_ids);
}

/// Whether the id is SQLite's own number of the row, without AUTOINCREMENT.
fn reuses_ids(connection: &Connection, table: &Table) -> Result<bool> {
    let [id] = &table.id[..] else { return Ok(false) };
    let (name, id) = (table.name.as_str(), id.name.as_str());
    let is_row_number = connection.query_row(
        "SELECT count(*) = 1 AND max(name = ?2 AND type = 'INTEGER' COLLATE NOCASE) \
         AND (SELECT NOT wr FROM pragma_table_list WHERE schema = 'main' AND name = ?1) \
         FROM pragma_table_info(?1) WHERE pk > 0",
        [name, id],
        |row| row.get::<_, Option<bool>>(0),
    )?;
    if is_row_number != Some(true) {
        return Ok(false);
    }
    let (.., is_increasing) = connection.column_metadata(Some("main"), name, id)?;
    Ok(!is_increasing)
}

/// Why the table would refuse what a pass writes, as far as that shows before it is written: a
/// mistake in a trigger's SQL, or something that a trigger may not use.
fn refused_writes(
    connection: &Connection,
    table: &Table,
) -> std::result::Result<Vec<String>, DbError> {
    let written = table.written_columns().into_iter().filter(|column| !column.is_generated);
    let sets = written.map(|column| format!("{0} = {0}", Quoted(&column.name)));
    let sets = sets.collect::<Vec<_>>().join(", ");
    let update = (!sets.is_empty()).then(|| format!("UPDATE {} SET {sets} WHERE 0", table.sql));
    let delete = table.deletes_finished.then(|| format!("DELETE FROM {} WHERE 0", table.sql));
    let mut refused = Vec::new();
    for sql in update.into_iter().chain(delete) {
        match connection.prepare(&sql).map_err(DbError::from) {
            Ok(_) => {}
            Err(error) if error.is_refusal => refused.push(error.words),
            Err(error) => return Err(error),
        }
    }
    Ok(refused)
}

/// Whether no pending record is found by reading the table from one end to the other, in no order
/// that an index has.
pub fn finds_pending(connection: &Connection, table: &Table) -> Result<bool> {
    let is_scan = |step: &String| step.starts_with("SCAN") && !step.contains(" INDEX ");
    for sql in table.due(&recent()) {
        if index_walk::plan(connection, &sql)?.iter().any(is_scan) {
            return Ok(false);
        }
    }
    Ok(true)
}

pub fn columns_of_waiting(connection: &Connection, table: &Table) -> Result<Option<String>> {
    let Table { failures, last_failure, statuses, .. } = table;
    let (Some(failures), Some(status), Some(last_failure)) =
        (failures, &statuses.column, last_failure)
    else {
        return Ok(None);
    };
    if !statuses.tell() || index_walk::is_served(connection, table)? {
        return Ok(None);
    }
    Ok(Some(names([failures, status, last_failure])))
}

/// Whether an index leads to an id. One in which other columns come first is read from one end to
/// the other, or once for each value of those.
pub fn finds_ids(connection: &Connection, table: &Table) -> Result<bool> {
    let steps = index_walk::plan(connection, &table.of_id("1"))?;
    Ok(steps.iter().all(|step| step.starts_with("SEARCH") && !step.contains("(ANY(")))
}

pub fn create_index(connection: &Connection, table: &Table, index: &Index) -> Result<String> {
    let Index { kind, suffix, columns, condition } = index;
    let name = quote(&free_name(connection, &format!("{}_{suffix}", table.name))?);
    let create = format!("CREATE {kind} {name} ON {} ({columns})", table.sql);
    let partial = condition.as_ref().map(|condition| format!("{create} WHERE {condition}"));
    let partial = partial.filter(|partial| connection.prepare(partial).is_ok());
    Ok(partial.unwrap_or(create))
}

fn free_name(connection: &Connection, name: &str) -> Result<String> {
    let mut statement =
        connection.prepare("SELECT 1 FROM sqlite_schema WHERE name = ?1 COLLATE NOCASE")?;
    let numbered = (2..).map(|number| format!("{name}_{number}"));
    for name in std::iter::once(name.to_string()).chain(numbered) {
        if !statement.exists([&name])? {
            return Ok(name);
        }
    }
    Ok(name.into())
}

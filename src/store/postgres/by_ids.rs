//! Statements about many records at once, by their ids.

use super::advisory_locks::Keys;
use super::query::{id_text, pending, row};
use super::sql::Param;
use crate::record::Id;
use crate::store::table::{Table, quote};

/// Ids as parameters, one for each column of the id, and how the first statement that has them
/// calls them.
fn given(table: &Table, ids: &[&Id]) -> (Vec<Param>, Vec<String>) {
    let columns = 0..table.id.len();
    let params = columns.clone().map(|index| {
        Param::Texts(ids.iter().map(|id| id.parts().get(index).map(id_text)).collect())
    });
    (params.collect(), columns.map(|index| format!("\"backlog {index}\"")).collect())
}

/// The condition that a row has the id that `given` calls so.
fn has_id(table: &Table, given: &str, names: &[String]) -> String {
    let same = table.id.iter().zip(names).map(|(id, name)| {
        format!("{}.{} = {given}.{name}::{}", table.sql, quote(&id.name), id.declared)
    });
    same.collect::<Vec<_>>().join(" AND ")
}

/// The numbers of those ids whose records are pending.
pub fn still_pending(table: &Table, ids: &[Id]) -> (String, Vec<Param>) {
    let (mut params, names) = given(table, &ids.iter().collect::<Vec<_>>());
    params.push(Param::Keys((0..).take(ids.len()).collect()));
    let arrays: Vec<_> = (1..params.len()).map(|place| format!("${place}::text[]")).collect();
    let sql = format!(
        "SELECT \"backlog given\".\"backlog number\" FROM unnest({}, ${}::bigint[]) \
         AS \"backlog given\"({}, \"backlog number\") JOIN {} ON {} WHERE {}",
        arrays.join(", "),
        params.len(),
        names.join(", "),
        table.sql,
        has_id(table, "\"backlog given\"", &names),
        pending(table),
    );
    (sql, params)
}

/// Takes the second lock of each wanted record, if `locks`, and reads it; gives the locks back
/// whose keys are the last parameter. A row for each record found, or one if there is none: its
/// number, whether the lock was granted, whether there is a record, and the record.
pub fn lock_and_read(table: &Table, wanted: &[(&Id, Keys)], locks: bool) -> (String, Vec<Param>) {
    let columns = table.id.len();
    let (mut params, names) = given(table, &wanted.iter().map(|(id, _)| *id).collect::<Vec<_>>());
    params.push(Param::Keys((0..).take(wanted.len()).collect()));
    params.push(Param::Keys(wanted.iter().map(|(_, keys)| keys.second).collect()));
    let arrays: Vec<_> = (1..=columns).map(|place| format!("${place}::text[]")).collect();
    let (number, key, freed) = (columns + 1, columns + 2, columns + 3);
    let granted = if locks { "pg_try_advisory_lock(\"backlog key\")" } else { "true" };
    let first = table.id.first().map_or_else(String::new, |it| quote(&it.name));
    let sql = format!(
        "WITH wanted AS MATERIALIZED (SELECT * FROM unnest({}, ${number}::bigint[], \
         ${key}::bigint[]) AS given({}, \"backlog number\", \"backlog key\")), \
         freed AS MATERIALIZED (SELECT count(*) AS \"backlog freed\" \
         FROM unnest(${freed}::bigint[]) AS given(key) WHERE pg_advisory_unlock(key)), \
         held AS MATERIALIZED (SELECT *, {granted} AS \"backlog granted\" \
         FROM wanted CROSS JOIN freed) \
         SELECT \"backlog number\", \"backlog granted\", {}.{first} IS NOT NULL, {} \
         FROM held AS \"backlog held\" LEFT JOIN {} ON \"backlog granted\" AND {}",
        arrays.join(", "),
        names.join(", "),
        table.sql,
        row(table),
        table.sql,
        has_id(table, "\"backlog held\"", &names),
    );
    (sql, params)
}

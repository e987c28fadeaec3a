//! The SQL with which the SQLite store writes, all of it. Every statement is guarded: a row that is
//! not what it was expected to be any more is left alone.

use rusqlite::types::Value as Param;

use super::Change;
use super::query::has_id;
use super::sql::{id_param, param};
use crate::record::{Record, Status};
use crate::store::table::{Action, Column, Expected, Set, Table, quote};

/// A statement with its parameters.
pub struct Statement {
    pub sql: String,
    pub params: Vec<Param>,
}

/// What writes a change. It changes no row, or the one that is meant. If there is nothing to
/// write, it asks whether that row is there.
pub fn write(table: &Table, change: &Change) -> Statement {
    let name = &table.sql;
    let sets = match table.action(change) {
        Action::Delete => {
            let (guard, params) = guard(table, change.record, change.charged);
            return Statement { sql: format!("DELETE FROM {name} WHERE {guard}"), params };
        }
        Action::Set(sets) if sets.is_empty() => {
            return as_expected(table, change.record, change.charged);
        }
        Action::Set(sets) => sets,
    };
    let mut params = Vec::with_capacity(sets.len() + 4);
    let mut terms = Vec::with_capacity(sets.len());
    for (column, set) in sets {
        let column = quote(&column.name);
        terms.push(match set {
            Set::To(value) => {
                params.push(param(&value));
                format!("{column} = ?")
            }
            Set::Add(number) => format!("{column} = coalesce({column}, 0) + {number}"),
        });
    }
    let (guard, guard_params) = guard(table, change.record, change.charged);
    params.extend(guard_params);
    Statement { sql: format!("UPDATE {name} SET {} WHERE {guard}", terms.join(", ")), params }
}

/// Whether the row is still there for [`write`] to change.
pub fn as_expected(table: &Table, record: &Record, charged: bool) -> Statement {
    let (guard, params) = guard(table, record, charged);
    Statement { sql: format!("SELECT 1 FROM {} WHERE {guard}", table.sql), params }
}

fn guard(table: &Table, record: &Record, charged: bool) -> (String, Vec<Param>) {
    let Expected { status, unchanged } = table.expected(record, charged);
    let mut terms = vec![has_id(table)];
    let mut params: Vec<_> = record.id.parts().iter().map(id_param).collect();
    if let Some((column, value)) = status {
        terms.push(format!("{} IS ?", quote(&column.name)));
        params.push(param(value));
    }
    for (column, value) in unchanged {
        terms.push(format!("backlog_value({}) IS ?", quote(&column.name)));
        params.push(param(value));
    }
    (terms.join(" AND "), params)
}

/// A new pending record with a payload; the id is the database's to give. Its parameters are the
/// payload, the date and the status that is returned, if there is one.
pub fn insert(table: &Table, payload: &Column) -> (String, Option<Param>) {
    let status = table.statuses.value(Status::New).map(param);
    let columns: Vec<_> = [Some(payload), Some(&table.inserted), table.statuses.column.as_ref()]
        .into_iter()
        .flatten()
        .map(|column| quote(&column.name))
        .collect();
    let places = if status.is_some() { "?, ?, ?" } else { "?, ?" };
    let sql = format!("INSERT INTO {} ({}) VALUES ({places})", table.sql, columns.join(", "));
    (sql, status)
}

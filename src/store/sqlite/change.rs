//! The SQL with which the SQLite store writes, all of it. Every statement is guarded: a row that is
//! not what it was expected to be any more is left alone.

use std::fmt::{self, Write};

use super::RowWrite;
use super::sql::{Param, id_param, param};
use crate::record::{Record, Status};
use crate::store::table::{Action, Charged, Column, Expected, Quoted, Set, Table, quote};

/// A statement with its parameters.
pub struct Statement {
    pub sql: String,
    pub params: Vec<Param>,
}

/// What writes a change. It changes no row, or the one that is meant. If there is nothing to
/// write, it asks whether that row is there.
pub fn write(table: &Table, change: &RowWrite) -> Statement {
    let mut statement = match table.action(change) {
        Action::Delete => Statement::new(format!("DELETE FROM {}", table.sql)),
        Action::Set(sets) if sets.is_empty() => {
            return as_expected(table, change.record, change.charged);
        }
        Action::Set(sets) => update(table, sets),
    };
    statement.guard(table, change.record, change.charged);
    statement
}

fn update(table: &Table, sets: Vec<(&Column, Set)>) -> Statement {
    let mut statement = Statement::new(format!("UPDATE {} SET", table.sql));
    let mut between = " ";
    for (column, set) in sets {
        let column = Quoted(&column.name);
        match set {
            Set::To(value) => {
                statement.push(format_args!("{between}{column} = ?"));
                statement.params.push(param(&value));
            }
            Set::Add(number) => {
                statement
                    .push(format_args!("{between}{column} = coalesce({column}, 0) + {number}"));
            }
        }
        between = ", ";
    }
    statement
}

/// Whether the row is still there for [`write`] to change.
pub fn as_expected(table: &Table, record: &Record, charged: Option<&Charged>) -> Statement {
    let mut statement = Statement::new(format!("SELECT 1 FROM {}", table.sql));
    statement.guard(table, record, charged);
    statement
}

impl Statement {
    fn new(sql: String) -> Self {
        Self { sql, params: Vec::new() }
    }

    fn push(&mut self, sql: fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.sql.write_fmt(sql);
    }

    fn guard(&mut self, table: &Table, record: &Record, charged: Option<&Charged>) {
        let Expected { status, unchanged } = table.expected(record, charged);
        let mut between = " WHERE ";
        for (column, part) in table.id.iter().zip(record.id.parts()) {
            self.push(format_args!("{between}{} = ?", Quoted(&column.name)));
            self.params.push(id_param(part));
            between = " AND ";
        }
        if let Some((column, value)) = status {
            self.push(format_args!(" AND {} IS ?", Quoted(&column.name)));
            self.params.push(param(value));
        }
        for (column, value) in unchanged {
            self.push(format_args!(" AND backlog_value({}) IS ?", Quoted(&column.name)));
            self.params.push(param(value));
        }
    }
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

//! Names and values as SQLite has them, and the SQL with which the store writes, all of it. Every
//! statement is guarded: a row that is not what it was expected to be any more is left alone.

use std::fmt::{self, Write};

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Params, Row, ToSql, params_from_iter};

use super::RowWrite;
use crate::record::{Id, Record, Status, Value};
use crate::store::sql::Dialect;
use crate::store::table::{Action, Cell, Cells, Charged, Column, Quoted, Set, Table, names, quote};

/// SQLite's spelling.
pub static DIALECT: Dialect = Dialect {
    literal,
    cell: |column| format!("{} COLLATE BINARY", quote(&column.name)),
    is_verbatim: true,
};

/// A value as SQL.
pub fn literal(value: &Value) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => format!("{number:?}"),
        Value::Text(text) | Value::Json(text) => format!("'{}'", text.replace('\'', "''")),
        Value::Bytes(bytes) => format!("CAST(x'{}' AS TEXT)", Value::Blob(bytes.clone())),
        Value::Blob(_) => format!("x'{value}'"),
        Value::Boolean(truth) => i64::from(*truth).to_string(),
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Null => ValueRef::Null,
            Value::Integer(number) => ValueRef::Integer(*number),
            Value::Real(number) => ValueRef::Real(*number),
            Value::Text(text) | Value::Json(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Text(bytes),
            Value::Blob(bytes) => ValueRef::Blob(bytes),
            Value::Boolean(truth) => ValueRef::Integer((*truth).into()),
        }))
    }
}

/// The value of one column of an id.
pub fn id_param(part: &Id) -> Value {
    match part {
        Id::Integer(id) => Value::Integer(*id),
        Id::Text(_) | Id::Composite(_) => Value::Text(part.text().into_owned()),
    }
}

/// The parameters of a statement that asks for an id, and for nothing before it.
pub fn id_params(id: &Id) -> impl Params {
    params_from_iter(id.parts().iter().map(id_param))
}

pub fn value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(bytes) => Value::of_text(bytes),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}

impl Cells for Row<'_> {
    fn cell(&self, _: &Column, index: usize) -> Cell<'_> {
        // Every statement selects what is read of it.
        let found = self.get_ref(index).unwrap_or(ValueRef::Null);
        found.as_str().map_err(|_| value(found))
    }

    fn count(&self, index: usize) -> u64 {
        self.get(index).map_or(0, i64::unsigned_abs)
    }
}

/// A statement with its parameters.
pub struct Statement {
    pub sql: String,
    pub params: Vec<Value>,
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
                statement.params.push(value);
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
        let mut between = " WHERE ";
        for (column, part) in table.id.iter().zip(record.id.parts()) {
            self.push(format_args!("{between}{} = ?", Quoted(&column.name)));
            self.params.push(id_param(part));
            between = " AND ";
        }
        let status = table.statuses.column.as_ref().map(|column| &column.name);
        for (column, value) in table.expected(record, charged) {
            let name = Quoted(&column.name);
            // The status is as the store writes it, and what else there is as it was read.
            if Some(&column.name) == status {
                self.push(format_args!(" AND {name} IS ?"));
            } else {
                self.push(format_args!(" AND backlog_value({name}) IS ?"));
            }
            self.params.push(value.clone());
        }
    }
}

/// A new pending record; the id is the database's to give. Its parameters are the payload and the
/// date.
pub fn insert(table: &Table, payload: &Column) -> String {
    let status = table.statuses.column.as_ref().zip(table.statuses.value(Status::New));
    let (status, value) = status.unzip();
    let columns = names([payload, &table.inserted].into_iter().chain(status));
    let value = value.map_or_else(String::new, |value| format!(", {}", literal(value)));
    format!("INSERT INTO {} ({columns}) VALUES (?, ?{value})", table.sql)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_cannot_break_out_of_theirs() {
        let text = |text: &str| literal(&Value::Text(text.into()));
        assert_eq!(text("it's '; --"), "'it''s ''; --'");
        assert_eq!(literal(&Value::Integer(i64::MIN)), "-9223372036854775808");
        assert_eq!(literal(&Value::Bytes(b"'\xff".into())), "CAST(x'27FF' AS TEXT)");
    }
}

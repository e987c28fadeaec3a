//! The user's table: which of its columns mean what, and how a row becomes a record.

use anyhow::{Context, Result, bail};
use rusqlite::Connection;
use rusqlite::types::Value as Param;

use super::{Change, id_param, param};
use crate::instant::Instant;
use crate::record::{Counter, Id, Record, Row, Status, Value};

/// A table that was found to have what the program needs. Names are spelt as the table
/// spells them.
pub struct Table {
    pub name: String,
    pub id: Column,
    pub status: Column,
    pub inserted: Column,
    pub payload: Option<Column>,
    pub failures: Option<Column>,
    pub last_failure: Option<Column>,
    pub last_error: Option<Column>,
}

#[derive(Clone)]
pub struct Column {
    pub name: String,
    /// Whether the declared type makes the column one of integers (datatype3.html, 3.1).
    pub integer: bool,
    /// Whether the database gives a value where none is inserted.
    pub has_default: bool,
}

impl Table {
    /// Looks the table up. An error names what is missing and what there is.
    pub fn find(connection: &Connection, name: &str) -> Result<Self> {
        let found: Vec<(String, String)> = connection
            .prepare("SELECT name, type FROM pragma_table_list WHERE schema = 'main'")?
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<rusqlite::Result<_>>()?;
        let Some((name, kind)) = found.iter().find(|(found, _)| found.eq_ignore_ascii_case(name))
        else {
            let others: Vec<_> = found
                .iter()
                .filter(|(name, kind)| kind == "table" && !name.starts_with("sqlite_"))
                .map(|(name, _)| name.as_str())
                .collect();
            let others = if others.is_empty() { "none".into() } else { others.join(", ") };
            bail!("no table {name:?}; tables here: {others}");
        };
        if kind == "view" {
            bail!("{name} is a view; name the table behind it");
        }
        let columns: Vec<Column> = connection
            .prepare(
                "SELECT name, upper(type), dflt_value IS NOT NULL, pk FROM pragma_table_xinfo(?1)",
            )?
            .query_map([name], |row| {
                let declared: String = row.get(1)?;
                // An INTEGER PRIMARY KEY is the row's own number (lang_createtable.html, rowid).
                let is_row_number = declared == "INTEGER" && row.get::<_, i64>(3)? == 1;
                Ok(Column {
                    name: row.get(0)?,
                    integer: declared.contains("INT"),
                    has_default: is_row_number || row.get(2)?,
                })
            })?
            .collect::<rusqlite::Result<_>>()?;
        let optional = |wanted: &str| {
            columns.iter().find(|column| column.name.eq_ignore_ascii_case(wanted)).cloned()
        };
        let required = |wanted: &str| {
            optional(wanted).with_context(|| {
                let names: Vec<_> = columns.iter().map(|column| column.name.as_str()).collect();
                format!("table {name} has no column {wanted}; it has {}", names.join(", "))
            })
        };
        Ok(Self {
            name: name.clone(),
            id: required("ID")?,
            status: required("STATUS")?,
            inserted: required("DATE_INSERTED")?,
            payload: optional("PAYLOAD"),
            failures: optional("FAILURES"),
            last_failure: optional("LAST_FAILURE"),
            last_error: optional("LAST_ERROR"),
        })
    }

    pub fn has_counter(&self) -> bool {
        self.failures.is_some() && self.last_failure.is_some()
    }

    /// The columns that a settlement writes besides the status.
    pub fn counter_columns(&self) -> impl Iterator<Item = &Column> {
        [&self.failures, &self.last_failure, &self.last_error].into_iter().flatten()
    }

    /// A row as a record; the error says why it cannot be one.
    pub fn record(&self, row: Row) -> Result<Record, String> {
        let of = |column: &Column| row.get(&column.name);
        let optional = |column: &Option<Column>| column.as_ref().and_then(of);
        let id = match of(&self.id) {
            Some(Value::Integer(id)) => Id::Integer(*id),
            Some(Value::Text(id)) => Id::Text(id.as_str().into()),
            other => {
                let found = other.unwrap_or(&Value::Null).shown();
                return Err(format!(
                    "a record is left out, because its {} is {found}",
                    self.id.name
                ));
            }
        };
        let inserted = of(&self.inserted).cloned().unwrap_or(Value::Null);
        let status_text = of(&self.status).map(Value::to_string).unwrap_or_default();
        Ok(Record {
            id,
            status: Status::from_name(&status_text),
            status_text,
            inserted_at: inserted.instant(),
            inserted,
            failures: optional(&self.failures).map_or(0, count),
            last_failure_at: optional(&self.last_failure).and_then(Value::instant),
            last_error: optional(&self.last_error)
                .filter(|value| **value != Value::Null)
                .map(Value::to_string),
            row,
        })
    }

    /// The parameters of [`super::query::update`] for one change.
    pub fn update_values(&self, change: &Change) -> rusqlite::ParamsFromIter<Vec<Param>> {
        let before =
            |column: &Column| param(change.record.row.get(&column.name).unwrap_or(&Value::Null));
        let mut values = vec![Param::Text(change.settlement.status.name().into())];
        match &change.settlement.counter {
            Counter::AsBefore => values.extend(self.counter_columns().map(before)),
            Counter::Reset => {
                values.extend(self.failures.iter().map(|_| Param::Integer(0)));
                values.extend(self.last_failure.iter().map(|_| Param::Null));
                values.extend(self.last_error.iter().map(before));
            }
            Counter::Set { failures, last_failure_at, last_error } => {
                values.extend(self.failures.iter().map(|_| Param::Integer((*failures).into())));
                values.extend(self.last_failure.iter().map(|it| it.instant(*last_failure_at)));
                values.extend(self.last_error.iter().map(|_| Param::Text(last_error.clone())));
            }
        }
        values.extend(Self::expected_values(change.record, change.expected));
        rusqlite::params_from_iter(values)
    }

    /// The parameters of [`super::query::is_as_expected`].
    pub fn expected_values(record: &Record, expected: Status) -> [Param; 3] {
        [id_param(&record.id), Param::Text(expected.name().into()), param(&record.inserted)]
    }
}

impl Column {
    /// An instant as this column holds it: epoch seconds in a column of integers, else
    /// RFC 3339 in UTC.
    pub fn instant(&self, at: Instant) -> Param {
        if self.integer { Param::Integer(at.0) } else { Param::Text(at.to_string()) }
    }
}

/// A count of failures, as the column holds it; what is no number counts as none.
pub fn count(value: &Value) -> u32 {
    let count = match value {
        Value::Integer(count) => *count,
        #[expect(clippy::cast_possible_truncation, reason = "SQL's CAST saturates as well")]
        Value::Real(count) => *count as i64,
        Value::Null | Value::Text(_) | Value::Blob(_) => 0,
    };
    u32::try_from(count.max(0)).unwrap_or(u32::MAX)
}

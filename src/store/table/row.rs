//! Rows as a database hands them out: how one becomes a record, or the facts for the due rule. A pass
//! over a million rows does little else than look at facts: no text is copied in vain.

use std::sync::Arc;

use super::{Column, Table};
use crate::date::Dates;
use crate::query::Window;
use crate::record::{Facts, Id, Record, Row, Value, last_error};
use crate::time::Instant;

/// The text of a cell, or what else is in it.
pub type Cell<'a> = Result<&'a str, Value>;

pub trait Cells {
    /// The cell at a place, which is one of this column.
    fn cell(&self, column: &Column, index: usize) -> Cell<'_>;

    /// The same as a value of its own.
    fn value(&self, column: &Column, index: usize) -> Value {
        self.cell(column, index).map_or_else(|value| value, |text| Value::Text(text.into()))
    }

    /// A number that is not of a column.
    fn number(&self, index: usize) -> Option<i64>;

    /// Whether something holds.
    fn truth(&self, index: usize) -> bool;

    fn count(&self, index: usize) -> u64 {
        self.number(index).map_or(0, i64::unsigned_abs)
    }
}

fn date(cell: Cell<'_>, dates: &Dates) -> Option<Instant> {
    cell.map_or_else(|value| dates.read(&value), |text| dates.read_text(text))
}

/// A column, and its place among those that are selected.
type Place<'a> = (&'a Column, usize);

/// The places of what the due rule goes by.
pub struct FactColumns<'a> {
    table: &'a Table,
    id: Vec<Place<'a>>,
    inserted: usize,
    status: Option<Place<'a>>,
    failures: Option<Place<'a>>,
    last_failure: Option<Place<'a>>,
    due_at: Option<Place<'a>>,
    /// Behind all columns: the beginning of the last error, which may tell of a snooze.
    snoozed: Option<Place<'a>>,
}

impl<'a> FactColumns<'a> {
    /// Those of [`Table::facts`].
    pub fn new(table: &'a Table, window: &Window) -> Self {
        let selected = table.fact_columns(window);
        let index = |name: &str| selected.iter().position(|column| column.name == name);
        let place = |column: &'a Column| Some((column, index(&column.name)?));
        let of = |column: &'a Option<Column>| column.as_ref().and_then(place);
        Self {
            table,
            id: table.id.iter().filter_map(place).collect(),
            inserted: index(&table.inserted.name).unwrap_or_default(),
            status: of(&table.statuses.column),
            failures: of(&table.failures),
            last_failure: of(&table.last_failure),
            due_at: of(&table.due_at),
            snoozed: table.notes_snoozes(window).map(|column| (column, selected.len())),
        }
    }

    /// The id of a row; the error says why it has none.
    pub fn id(&self, row: &impl Cells) -> Result<Id, &'static str> {
        let part = |(column, index): &Place<'_>| {
            let cell = row.cell(column, *index);
            cell.map(|text| Id::Text(text.into())).or_else(|value| id(&value))
        };
        match &self.id[..] {
            [only] => part(only),
            parts => parts.iter().map(part).collect::<Result<_, _>>().map(Id::of),
        }
    }

    pub fn inserted(&self, row: &impl Cells) -> Value {
        row.value(&self.table.inserted, self.inserted)
    }

    pub fn facts<'id>(&self, id: &'id Id, row: &impl Cells) -> Facts<'id> {
        let table = self.table;
        let cell = |place: Option<Place<'a>>| place.map(|(column, index)| row.cell(column, index));
        let other_date = |place| cell(place).map(|cell| date(cell, &table.other_dates));
        let inserted_at = date(row.cell(&table.inserted, self.inserted), &table.dates);
        // What stands in text counts as none.
        let failures = cell(self.failures).map(|it| it.map_or_else(|it| count(&it), |_| 0));
        let last_failure = other_date(self.last_failure);
        let failed = has_failed(failures, last_failure, inserted_at);
        let status = cell(self.status).unwrap_or(Err(Value::Null));
        let is = |mapped: &Value| match (&status, mapped) {
            (Ok(text), Value::Text(mapped)) => text == mapped,
            (Ok(_), _) => false,
            (Err(value), mapped) => value == mapped,
        };
        Facts {
            id,
            status: table.statuses.status(&is, true, failed),
            inserted_at,
            failures: failures.unwrap_or(0),
            last_failure_at: last_failure.flatten(),
            due_at: other_date(self.due_at).flatten(),
            snoozed_until: cell(self.snoozed)
                .and_then(|it| it.ok().and_then(last_error::snoozed_until)),
        }
    }
}

impl Table {
    /// A row as a record; the error says why it cannot be one.
    pub fn record(&self, row: Row, in_queue: bool) -> Result<Record, String> {
        let of = |column: &Column| row.get(&column.name);
        let optional = |column: &Option<Column>| column.as_ref().and_then(of);
        let parts = self.id.iter().map(|column| {
            let value = of(column).unwrap_or(&Value::Null);
            id(value).map_err(|_| {
                let (name, found) = (&column.name, value.shown());
                format!("a record is left out, because its {name} is {found}")
            })
        });
        let id = Id::of(parts.collect::<Result<_, _>>()?);
        let inserted = of(&self.inserted).cloned().unwrap_or(Value::Null);
        let raw = self.statuses.column.as_ref().and_then(of);
        let inserted_at = self.dates.read(&inserted);
        let failures = optional(&self.failures).map(count);
        let last_failure = optional(&self.last_failure).map(|value| self.other_dates.read(value));
        let failed = has_failed(failures, last_failure, inserted_at);
        let (status, status_text) = self.statuses.of(raw, in_queue, failed);
        Ok(Record {
            id,
            status,
            status_text,
            inserted_at,
            inserted,
            failures: failures.unwrap_or(0),
            last_failure_at: last_failure.flatten(),
            due_at: optional(&self.due_at).and_then(|value| self.other_dates.read(value)),
            last_error: optional(&self.last_error)
                .filter(|value| **value != Value::Null)
                .map(Value::to_string),
            row,
        })
    }

    /// The id of a row that begins with it, as it is typed; the error shows what cannot be one.
    pub fn typed_id(&self, row: &dyn Cells) -> Result<String, String> {
        let values = self.id.iter().zip(0..).map(|(column, index)| row.value(column, index));
        let values: Vec<_> = values.collect();
        let parts: Result<Vec<_>, _> = values.iter().map(id).collect();
        let shown = || values.iter().map(Value::shown).collect::<Vec<_>>().join(",");
        parts.map(|parts| Id::of(parts).full()).map_err(|_| shown())
    }

    /// The same, whatever it is.
    pub fn shown_id(&self, row: &dyn Cells) -> String {
        self.typed_id(row).unwrap_or_else(|shown| shown)
    }
}

/// The columns of a record that a statement selects, behind whether it belongs to the queue.
pub struct Selected<'a> {
    table: &'a Table,
    columns: Vec<&'a Column>,
    names: Arc<[String]>,
}

impl<'a> Selected<'a> {
    fn new(table: &'a Table, columns: impl IntoIterator<Item = &'a Column>) -> Self {
        let columns: Vec<_> = columns.into_iter().collect();
        let names = columns.iter().map(|column| column.name.clone()).collect();
        Self { table, columns, names }
    }

    /// Those of records that are only shown: no payload, and the last error behind the rest.
    pub fn shown(table: &'a Table) -> Self {
        Self::new(table, table.known_columns().into_iter().chain(&table.last_error))
    }

    /// All that the table had when it was opened.
    pub fn all(table: &'a Table) -> Self {
        Self::new(table, &table.columns)
    }

    pub fn record(&self, row: &impl Cells, first: usize) -> Option<Record> {
        let places = self.columns.iter().zip(first + 1..);
        let values = places.map(|(column, index)| row.value(column, index)).collect();
        let cells = Row { columns: self.names.clone(), values };
        let record = self.table.record(cells, row.truth(first));
        record.map_err(|problem| log::warn!("{problem}")).ok()
    }
}

/// Whether an attempt has failed or was put off; `None` if there is no column that tells. A last
/// failure that is no later than the insertion is what an application wrote with the row.
pub fn has_failed(
    failures: Option<u32>,
    last_failure: Option<Option<Instant>>,
    inserted_at: Option<Instant>,
) -> Option<bool> {
    let dated = last_failure.map(|at| at.is_some() && at > inserted_at);
    let counted = failures.map(|failures| failures > 0);
    counted.into_iter().chain(dated).reduce(|counted, dated| counted || dated)
}

/// One column's part of an id; the error says what cannot be one.
pub fn id(value: &Value) -> Result<Id, &'static str> {
    match value {
        Value::Integer(id) => Ok(Id::Integer(*id)),
        Value::Text(id) => Ok(Id::Text(id.as_str().into())),
        Value::Null => Err("NULL"),
        Value::Bytes(_) => Err("not UTF-8"),
        Value::Real(_) => Err("a Real; ids are integers or text"),
        Value::Blob(_) => Err("a Blob; ids are integers or text"),
        Value::Boolean(_) | Value::Json(_) => Err("neither an integer nor text"),
    }
}

/// A count of failures, as the column holds it; what is no number counts as none.
pub fn count(value: &Value) -> u32 {
    let found = match value {
        Value::Integer(count) => *count,
        #[expect(clippy::cast_possible_truncation, reason = "SQL's CAST saturates as well")]
        Value::Real(count) => *count as i64,
        Value::Json(number) => number.parse().map_or(0, |it| count(&Value::Real(it))).into(),
        Value::Null | Value::Text(_) | Value::Bytes(_) | Value::Blob(_) | Value::Boolean(_) => 0,
    };
    u32::try_from(found.max(0)).unwrap_or(u32::MAX)
}

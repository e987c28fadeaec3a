//! Rows of a statement, read as records or as facts for the due rule. Facts copy only the text of ids.

use std::iter;
use std::sync::Arc;

use backlog_schedule::{
    BEYOND, Facts, Id, Instant, Record, RowValues, Status, Value, Window, last_error,
};

use super::lookup::is_never;
use super::{Column, Membership, Table, distinct, joined};
use crate::date::{Dates, LEAST};

/// The text of a cell, or its value of another type.
pub type Cell<'a> = Result<&'a str, Value>;

pub trait Cells {
    /// The cell at an index, which belongs to this column.
    fn cell(&self, column: &Column, index: usize) -> Cell<'_>;

    fn value(&self, column: &Column, index: usize) -> Value {
        self.cell(column, index).map_or_else(|value| value, |text| Value::Text(text.into()))
    }

    /// The number at an index that belongs to no column.
    fn number(&self, index: usize) -> Option<i64>;

    fn membership(&self, index: usize) -> Membership {
        Membership::from_number(self.number(index))
    }

    fn truth(&self, index: usize) -> bool;

    fn count(&self, index: usize) -> u64 {
        self.number(index).map_or(0, i64::unsigned_abs)
    }
}

fn date(cell: Cell<'_>, dates: &Dates) -> Option<Instant> {
    cell.map_or_else(|value| dates.read(&value), |text| dates.read_text(text))
}

/// The date in a due column. A value that is no date, which `check` reports, is after all dates.
fn due_date(cell: Cell<'_>, dates: &Dates) -> Option<Instant> {
    let value = cell.map_or_else(|value| value, |text| Value::Text(text.into()));
    // Numbers below any date, zero dates, and dates before the year 1.
    let is_past = || match &value {
        Value::Integer(number) => *number < LEAST,
        Value::Real(number) => *number < 1e8,
        Value::Text(text) => {
            let text = text.trim();
            text.is_empty() || text == "0" || text.starts_with('-') || text.ends_with("BC")
        }
        Value::Null | Value::Bytes(_) | Value::Blob(_) | Value::Boolean(_) | Value::Json(_) => {
            false
        }
    };
    dates.read(&value).or_else(|| (!is_never(&value) && !is_past()).then_some(BEYOND))
}

/// The year 2090. A queue hides a message that is never tried again for 68 years, so until a later year.
const HIDDEN_FOR_EVER: Instant = Instant(3_786_912_000);

/// True if a due column holds neither a date nor a value that stands for always or never.
pub fn is_no_due_date(value: &Value, dates: &Dates) -> bool {
    let is_due = due_date(Err(value.clone()), dates) != Some(BEYOND) || dates.read(value).is_some();
    let is_beyond = matches!(value, Value::Integer(_) | Value::Real(_))
        || matches!(value, Value::Text(text) if text == "infinity");
    !is_due && !is_beyond
}

type IndexedColumn<'a> = (&'a Column, usize);

pub struct FactReader<'a> {
    table: &'a Table,
    id: Vec<IndexedColumn<'a>>,
    inserted: IndexedColumn<'a>,
    order: Option<IndexedColumn<'a>>,
    status: Option<IndexedColumn<'a>>,
    failures: Option<IndexedColumn<'a>>,
    last_failure: Option<IndexedColumn<'a>>,
    due_at: Option<IndexedColumn<'a>>,
    max_attempts: Option<IndexedColumn<'a>>,
    /// May be only the beginning of the text, which has the note of a snooze.
    last_error: Option<IndexedColumn<'a>>,
}

impl<'a> FactReader<'a> {
    /// A reader of rows whose columns have these names.
    pub fn new<'n>(table: &'a Table, names: &(impl Iterator<Item = &'n str> + Clone)) -> Self {
        let find = |column: &Column| names.clone().position(|name| name == column.name);
        let indexed = |column: &'a Column| Some((column, find(column)?));
        let optional = |column: &'a Option<Column>| column.as_ref().and_then(indexed);
        // A census selects no id.
        let required = |column| (column, find(column).unwrap_or(usize::MAX));
        Self {
            table,
            id: table.id.iter().map(required).collect(),
            inserted: required(&table.inserted),
            order: table.order.as_ref().and_then(|(column, _)| indexed(column)),
            status: optional(&table.statuses.column),
            failures: optional(&table.failures),
            last_failure: optional(&table.last_failure),
            due_at: optional(&table.due_at),
            max_attempts: optional(&table.max_attempts),
            last_error: optional(&table.last_error),
        }
    }

    /// A reader of the rows of [`Table::due`].
    pub fn for_search(table: &'a Table, window: &Window) -> Self {
        let selected = table.fact_columns(window);
        let last_error = table.snooze_column(window).map(|column| (column, selected.len()));
        let names = selected.iter().map(|column| column.name.as_str());
        Self { last_error, ..Self::new(table, &names) }
    }

    /// The id of a row. The error names the column, its value, and the reason why it is no id.
    pub fn id(&self, row: &impl Cells) -> Result<Id, (&'a Column, Value, &'static str)> {
        let part = |(column, index): &IndexedColumn<'a>| match row.cell(column, *index) {
            Ok(text) if text.len() > LONGEST_ID => {
                Err((*column, Value::Text(text.into()), TOO_LONG))
            }
            Ok(text) => Ok(Id::Text(text.into())),
            Err(value) => id(&value).map_err(|why| (*column, value, why)),
        };
        match &self.id[..] {
            [only] => part(only),
            columns => {
                let parts: Vec<_> = columns.iter().map(part).collect::<Result<_, _>>()?;
                let id = Id::from(parts);
                match id.text().len() > LONGEST_ID {
                    true => Err((columns[0].0, Value::Text(id.text().into()), TOO_LONG)),
                    false => Ok(id),
                }
            }
        }
    }

    pub fn inserted(&self, row: &impl Cells) -> Value {
        row.value(self.inserted.0, self.inserted.1)
    }

    pub fn order_value(&self, row: &impl Cells) -> Value {
        let (column, index) = self.order.unwrap_or(self.inserted);
        row.value(column, index)
    }

    pub fn facts<'id>(&self, id: &'id Id, row: &impl Cells, membership: Membership) -> Facts<'id> {
        let table = self.table;
        let cell =
            |place: Option<IndexedColumn<'a>>| place.map(|(column, index)| row.cell(column, index));
        let inserted_at = date(row.cell(self.inserted.0, self.inserted.1), &table.dates);
        // Text counts as 0.
        let failures =
            cell(self.failures).map(|cell| cell.map_or_else(|value| count(&value), |_| 0));
        let last_failure =
            cell(self.last_failure).map(|cell| table.failure_dates.read_past(cell, &table.clock));
        let failed = match table.statuses.distinguish_failed() {
            true => None,
            // Both dates are the first instant of a local time that a clock repeats.
            false => {
                let first = cell(self.last_failure).map(|cell| date(cell, &table.failure_dates));
                has_failed(failures, first, inserted_at)
            }
        };
        let status = cell(self.status).unwrap_or(Err(Value::Null));
        let is = |mapped: &Value| match (&status, mapped) {
            (Ok(text), Value::Text(mapped)) => text == mapped,
            (Ok(_), _) => false,
            (Err(value), mapped) => value == mapped,
        };
        let last_error = cell(self.last_error).and_then(Result::ok);
        Facts {
            id,
            status: table.statuses.status(&is, membership, failed),
            inserted_at,
            failures: failures.unwrap_or(0),
            last_failure_at: last_failure.flatten(),
            due_at: cell(self.due_at).and_then(|cell| table.due_date(cell)),
            max_attempts: cell(self.max_attempts)
                .and_then(|cell| cell.map_or_else(|value| max_attempts(&value), |_| None)),
            snoozed_until: last_error.and_then(last_error::snoozed_until),
            has_begun: last_error.is_some_and(last_error::is_begun),
        }
    }

    pub fn status_text(&self, status: Status, row: &impl Cells, membership: Membership) -> String {
        match (status, self.status) {
            (Status::Foreign, None) => "not pending".into(),
            (Status::Foreign, Some((column, index))) => {
                let is_other = membership == Membership::Other;
                let suffix = if is_other { ", but not in the queue" } else { "" };
                format!("{}{suffix}", row.value(column, index))
            }
            (Status::New | Status::Error | Status::Success | Status::Archived, _) => {
                status.name().into()
            }
        }
    }
}

impl Table {
    /// The due date of a row, or [`BEYOND`] if it is never due again.
    fn due_date(&self, cell: Cell<'_>) -> Option<Instant> {
        let at = due_date(cell, &self.other_dates)?;
        Some(if self.keeps_schedule && at >= HIDDEN_FOR_EVER { BEYOND } else { at })
    }

    /// A row as a record. Its [`Table::head`] is at `first`, and the values of `row` follow.
    pub fn record(&self, cells: &impl Cells, first: usize, row: RowValues) -> Option<Record> {
        let names = row.columns.iter().map(String::as_str);
        let date = self.date_expression().map(|column| column.name.as_str());
        let names = iter::repeat_n("", first + 1).chain(date).chain(names);
        let reader = FactReader::new(self, &names);
        let id = reader.id(cells).inspect_err(|(Column { name, .. }, found, _)| {
            log::warn!("a record is left out, because its {name} is {}", found.literal());
        });
        let (id, membership) = (id.ok()?, cells.membership(first));
        let facts = reader.facts(&id, cells, membership);
        let error = reader.last_error.map(|(column, index)| cells.value(column, index));
        Some(Record {
            status: facts.status,
            status_text: reader.status_text(facts.status, cells, membership),
            inserted_at: facts.inserted_at,
            inserted: reader.inserted(cells),
            order_value: reader.order.map(|_| reader.order_value(cells)),
            failures: facts.failures,
            last_failure_at: facts.last_failure_at,
            due_at: facts.due_at,
            max_attempts: facts.max_attempts,
            last_error: error.filter(|error| !error.is_null()).map(|error| error.to_string()),
            id,
            row,
            too_large: None,
        })
    }

    /// The id at the beginning of a row, as a user types it. The error displays values that are no id.
    pub fn typed_id(&self, row: &dyn Cells) -> Result<String, String> {
        let values = self.id.iter().zip(0..).map(|(column, index)| row.value(column, index));
        let values: Vec<_> = values.collect();
        let parts: Result<Vec<_>, _> = values.iter().map(id).collect();
        let display = || joined(values.iter().map(Value::literal), ",");
        parts.map(|parts| Id::from(parts).full()).map_err(|_| display())
    }

    pub fn display_id(&self, row: &dyn Cells) -> String {
        self.typed_id(row).unwrap_or_else(|unusable| unusable)
    }
}

/// A reader of records: the columns that a statement selects after the [`Table::head`].
pub struct RecordReader<'a> {
    table: &'a Table,
    columns: Vec<&'a Column>,
    names: Arc<[String]>,
}

impl<'a> RecordReader<'a> {
    fn new(table: &'a Table, columns: impl IntoIterator<Item = &'a Column>) -> Self {
        let columns: Vec<_> = columns.into_iter().collect();
        let names = columns.iter().map(|column| column.name.clone()).collect();
        Self { table, columns, names }
    }

    /// For display: without the payload, the last error at the end.
    pub fn for_display(table: &'a Table) -> Self {
        Self::new(table, table.known_columns().into_iter().chain(&table.last_error))
    }

    /// All columns that the table had when it was opened.
    pub fn all(table: &'a Table) -> Self {
        Self::new(table, &table.columns)
    }

    /// Only the columns that a pass needs itself, for a row that is too large to read, the last error at the end.
    pub fn without_payload(table: &'a Table) -> Self {
        let columns = distinct(table.known_columns().into_iter().chain(table.guard_columns()));
        Self::new(table, columns.into_iter().chain(&table.last_error))
    }

    /// The columns that an edit needs, each with its whole value, because the edit may write it back.
    pub fn for_edit(table: &'a Table) -> Self {
        let known = table.known_columns().into_iter().chain(table.guard_columns());
        Self::new(table, distinct(known.chain(&table.last_error)))
    }

    /// The head and these columns in SQL.
    pub fn whole_sql(&self) -> String {
        self.table.head_and_whole(self.columns.iter().copied())
    }

    /// The head and these columns in SQL, with the last error truncated. For all columns, see [`Table::all_columns`].
    pub fn sql(&self) -> String {
        let Self { table, columns, .. } = self;
        let errors = usize::from(table.last_error.is_some());
        let whole = columns.iter().take(columns.len() - errors).copied();
        table.head_and(whole)
    }

    pub fn record(&self, row: &impl Cells, first: usize) -> Option<Record> {
        let places = self.columns.iter().zip(first + self.table.head_columns()..);
        let values = places.map(|(column, index)| row.value(column, index)).collect();
        self.table.record(row, first, RowValues { columns: self.names.clone(), values })
    }
}

/// True if an attempt has failed; `None` without a column for that. A last failure at the insertion date is none.
fn has_failed(
    failures: Option<u32>,
    last_failure: Option<Option<Instant>>,
    inserted_at: Option<Instant>,
) -> Option<bool> {
    let dated = last_failure.map(|at| at.is_some() && at > inserted_at);
    let counted = failures.map(|failures| failures > 0);
    counted.into_iter().chain(dated).reduce(|counted, dated| counted || dated)
}

/// A longer id fits no message, and is never cut where it addresses a row.
const LONGEST_ID: usize = 4096;
const TOO_LONG: &str = "longer than 4096 bytes";

fn id(value: &Value) -> Result<Id, &'static str> {
    match value {
        Value::Integer(id) => Ok(Id::Integer(*id)),
        Value::Text(id) if id.len() > LONGEST_ID => Err(TOO_LONG),
        Value::Blob(id) if id.len() > LONGEST_ID => Err(TOO_LONG),
        Value::Text(id) => Ok(Id::Text(id.as_str().into())),
        Value::Null => Err("NULL"),
        Value::Bytes(_) => Err("not UTF-8"),
        Value::Blob(id) => Ok(Id::Bytes(id.as_slice().into())),
        Value::Real(_) => Err("a Real; ids are integers, text or bytes"),
        Value::Boolean(_) | Value::Json(_) => Err("neither an integer, text nor bytes"),
    }
}

/// The maximum number of attempts of a record. Only a number above 0 is a limit.
fn max_attempts(value: &Value) -> Option<u32> {
    Some(count(value)).filter(|max| *max > 0)
}

/// The count of failures in a column. Anything but a number counts as 0.
fn count(value: &Value) -> u32 {
    let found = match value {
        Value::Integer(count) => *count,
        #[expect(clippy::cast_possible_truncation, reason = "SQL's CAST saturates as well")]
        Value::Real(count) => *count as i64,
        Value::Json(number) => {
            number.parse().map_or(0, |number| count(&Value::Real(number))).into()
        }
        Value::Null | Value::Text(_) | Value::Bytes(_) | Value::Blob(_) | Value::Boolean(_) => 0,
    };
    u32::try_from(found.max(0)).unwrap_or(u32::MAX)
}

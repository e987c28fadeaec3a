//! The facts of a row for the due rule, out of the cells that a search selects. A pass over a million
//! rows does little else than this: no text is copied in vain.

use super::{Column, Table, count, has_failed, id};
use crate::date::Dates;
use crate::query::Window;
use crate::record::{Facts, Id, Value, snooze};
use crate::time::Instant;

/// The text of a cell, or what else is in it.
pub type Cell<'a> = Result<&'a str, Value>;

/// A row as a database hands it out.
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

    /// A number of rows.
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
    /// Behind all columns: the beginning of the last error, which may say that the record is
    /// snoozed.
    snoozed: Option<Place<'a>>,
}

impl<'a> FactColumns<'a> {
    pub fn new(table: &'a Table, selected: &[&Column], window: &Window) -> Self {
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
            snoozed_until: cell(self.snoozed).and_then(|it| it.ok().and_then(snooze::until)),
        }
    }
}

impl Table {
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

//! The columns that a query selects for the due rule, and those of a record that is only shown.

use super::{Column, Table, distinct};
use crate::query::Window;

impl Table {
    /// The column that says of records whose wait is over whether they are snoozed for longer.
    pub fn notes_snoozes(&self, window: &Window) -> Option<&Column> {
        self.last_error.as_ref().filter(|_| matches!(window, Window::Failed { .. }))
    }
}

impl Table {
    /// The columns that have a meaning, but for the last error: all that is read of a record to be
    /// shown, and no payload.
    pub fn known_columns(&self) -> Vec<&Column> {
        let optional = [&self.statuses.column, &self.failures, &self.last_failure, &self.due_at];
        distinct(self.id.iter().chain([&self.inserted]).chain(optional.into_iter().flatten()))
    }
}

/// Places among the columns that are selected.
pub struct FactColumns {
    pub id: Vec<usize>,
    pub inserted: usize,
    pub status: Option<usize>,
    pub failures: Option<usize>,
    pub last_failure: Option<usize>,
    pub due_at: Option<usize>,
    /// Behind all columns: the beginning of the last error, which may say that the record is
    /// snoozed.
    pub snoozed: Option<usize>,
}

/// How many characters of an error are read to see that.
pub const SNOOZED: usize = 64;

/// How many are read to be shown.
pub const SHOWN_ERROR: usize = 4_096;

impl FactColumns {
    pub fn new(table: &Table, selected: &[&Column], window: &Window) -> Self {
        let place = |name: &str| selected.iter().position(|column| column.name == name);
        let of = |column: &Option<Column>| column.as_ref().and_then(|it| place(&it.name));
        Self {
            id: table.id.iter().filter_map(|column| place(&column.name)).collect(),
            inserted: place(&table.inserted.name).unwrap_or_default(),
            status: of(&table.statuses.column),
            failures: of(&table.failures),
            last_failure: of(&table.last_failure),
            due_at: of(&table.due_at),
            snoozed: table.notes_snoozes(window).map(|_| selected.len()),
        }
    }
}

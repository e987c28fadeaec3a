//! Where a selection has what a policy goes by.

use super::{Column, Table};

/// Places among the columns that are selected.
pub struct FactColumns {
    pub id: Vec<usize>,
    pub inserted: usize,
    pub status: Option<usize>,
    pub failures: Option<usize>,
    pub last_failure: Option<usize>,
    pub due_at: Option<usize>,
}

impl FactColumns {
    pub fn new(table: &Table, selected: &[&Column]) -> Self {
        let place = |name: &str| selected.iter().position(|column| column.name == name);
        let of = |column: &Option<Column>| column.as_ref().and_then(|it| place(&it.name));
        Self {
            id: table.id.iter().filter_map(|column| place(&column.name)).collect(),
            inserted: place(&table.inserted.name).unwrap_or_default(),
            status: of(&table.statuses.column),
            failures: of(&table.failures),
            last_failure: of(&table.last_failure),
            due_at: of(&table.due_at),
        }
    }
}

//! The reads of a pass in a PostgreSQL table: due ids, one record afresh.

use std::sync::Arc;

use anyhow::Result;
use postgres::{Error as SqlError, Row};

use super::errors::is_no_value;
use super::sql::{Param, value};
use super::{PgDatabase, query};
use crate::query::Query;
use crate::record::{self, Id, Record};
use crate::store::page::PageBuilder;
use crate::store::table::{Column, FactColumns, Table, quote};
use crate::store::{Found, IsDue, Page, Reader, Undated};

impl Reader for PgDatabase {
    fn due(&mut self, selection: &Query, is_due: IsDue<'_>) -> Result<Page> {
        let any = self.table.any(&self.table.of_statuses(&selection.statuses));
        if selection.after.is_none() && self.query(&any, &[])?.is_empty() {
            return Ok(Page::default());
        }
        let undated =
            if selection.misses_undated() { Some(self.undated(selection)?) } else { None };
        let mut builder = PageBuilder::new(selection, undated, is_due);
        let (sql, params) = query::due(&self.table, selection);
        let Self { session, table, place, .. } = self;
        let columns = FactColumns::new(table, &table.known_columns(), &selection.window);
        session
            .each(&sql, &params, &mut |row| builder.row(&columns, row))
            .map_err(|error| super::errors::explain(place, &error, "read"))?;
        Ok(builder.finish(&self.table.inserted.name, &mut self.reported))
    }

    fn read(&mut self, id: &Id) -> Result<Found> {
        let parts = id.parts().iter();
        let params: Vec<_> = parts.map(|part| Param::text(query::id_text(part))).collect();
        let rows = match self.session.query(&query::by_id(&self.table), &params) {
            // What cannot be one is the id of no row.
            Err(error) if is_no_value(&error) => return Ok(Found::Gone),
            rows => rows.map_err(|error| self.explain(&error, "read"))?,
        };
        let shown = Selected::shown(&self.table);
        Ok(match &rows[..] {
            [] => Found::Gone,
            [row] => shown.record(row, 0).map_or(Found::Gone, |it| Found::Record(it.into())),
            [_, ..] => Found::Ambiguous,
        })
    }
}

impl PgDatabase {
    fn undated(&mut self, selection: &Query) -> Result<Undated> {
        let mut undated = Undated::default();
        for row in self.query(&query::undated(&self.table, selection), &[])? {
            undated.add_row(&self.table, &row);
        }
        Ok(undated)
    }

    /// The records of a table whose ids are numbers, those that there are.
    pub fn records(&mut self, ids: &[i64]) -> Result<Vec<Record>, SqlError> {
        let Some(id) = self.table.id.first() else { return Ok(Vec::new()) };
        let id = quote(&id.name);
        let (row, table) = (query::row(&self.table), &self.table.sql);
        let sql = format!("SELECT {row} FROM {table} WHERE {id} = ANY($1) ORDER BY {id}");
        let rows = self.session.query(&sql, &[Param::Keys(ids.to_vec())])?;
        let columns = self.all_columns();
        Ok(rows.iter().filter_map(|row| columns.record(row, 0)).collect())
    }

    /// All of its columns, as [`query::row`] has them.
    pub fn all_columns(&self) -> Selected<'_> {
        Selected::new(&self.table, &self.table.columns)
    }
}

/// The columns of records that a statement selects.
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

    /// Those of records that are only shown.
    pub fn shown(table: &'a Table) -> Self {
        Self::new(table, table.known_columns().into_iter().chain(&table.last_error))
    }

    /// The record whose columns begin at `first`, with whether it belongs to the queue behind them.
    pub fn record(&self, row: &Row, first: usize) -> Option<Record> {
        let places = self.columns.iter().zip(first..);
        let values = places.map(|(column, index)| value(column, row.get(index))).collect();
        let in_queue = row.get(first + self.columns.len());
        let row = record::Row { columns: self.names.clone(), values };
        self.table.record(row, in_queue).map_err(|problem| log::warn!("{problem}")).ok()
    }
}

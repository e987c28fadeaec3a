//! Reads of a PostgreSQL table: due ids, one record afresh, a scan, a census.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use anyhow::Result;
use postgres::{Error as SqlError, Row};

use super::errors::is_no_value;
use super::sql::{Param, value};
use super::{PgDatabase, advisory_locks, query};
use crate::query::{Order, Query};
use crate::record::{self, Facts, Id, Record, Status};
use crate::store::page::PageBuilder;
use crate::store::table::{Column, FactColumns, Table, count, has_failed, quote, typed_id};
use crate::store::{Count, Found, Inspection, Page, Reader, Survey, Undated};
use crate::time::Instant;

impl Reader for PgDatabase {
    fn due(
        &mut self,
        selection: &Query,
        is_due: &mut dyn FnMut(Facts<'_>) -> bool,
    ) -> Result<Page> {
        let any = self.table.any(&query::statuses(&self.table, &selection.statuses));
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
        let parts = id.parts().iter().map(|part| Param::Text(Some(query::id_text(part))));
        let params: Vec<_> = parts.collect();
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

impl Survey for PgDatabase {
    fn scan(
        &mut self,
        statuses: &[Status],
        order: Order,
        each: &mut dyn FnMut(Record) -> Result<()>,
    ) -> Result<()> {
        let sql = query::scan(&self.table, statuses, order);
        let Self { session, table, place, .. } = self;
        let shown = Selected::shown(table);
        let mut result = Ok(());
        session
            .each(&sql, &[], &mut |row| {
                let record = shown.record(row, 0);
                let is_wanted = |it: &Record| statuses.is_empty() || statuses.contains(&it.status);
                if let Some(record) = record.filter(is_wanted) {
                    result = each(record);
                }
                result.is_ok()
            })
            .map_err(|error| super::errors::explain(place, &error, "read"))?;
        result
    }

    fn census(&mut self, bounds: &[i64], now: Instant) -> Result<Vec<Count>> {
        let sql = query::census(&self.table, bounds, now);
        // Where the server counts each date, several counts are of one age.
        let mut counts = BTreeMap::new();
        for row in self.query(&sql, &[])? {
            let count = self.count(&row, bounds, now);
            let key = (count.text.clone(), count.band);
            counts.entry(key).and_modify(|it: &mut Count| it.rows += count.rows).or_insert(count);
        }
        Ok(counts.into_values().collect())
    }

    fn any_mapped(&mut self) -> Result<bool> {
        if self.queue.is_some() {
            return Ok(true);
        }
        let sql = self.table.any(&query::status_in(&self.table, &Status::OURS));
        Ok(!self.query(&sql, &[])?.is_empty())
    }

    fn inspect(&mut self, by_count: bool) -> Result<Inspection> {
        Ok(self.examined(by_count))
    }
}

impl PgDatabase {
    /// Those of the records, in their order, that are pending at this moment.
    pub fn pending_of(&mut self, ids: &[Id]) -> Result<Vec<Id>, SqlError> {
        let (sql, params) = advisory_locks::still_pending(&self.table, ids);
        let rows = self.session.query(&sql, &params)?;
        let numbers: HashSet<i64> = rows.iter().map(|row| row.get(0)).collect();
        let ids = ids.iter().zip(0..);
        Ok(ids.filter(|(_, number)| numbers.contains(number)).map(|(id, _)| id.clone()).collect())
    }

    fn count(&self, row: &Row, bounds: &[i64], now: Instant) -> Count {
        let table = &self.table;
        let held = |column: &Option<Column>, index: usize| {
            column.as_ref().map(|column| value(column, row.get(index)))
        };
        let date: Option<&str> = row.get(5);
        let at = date.and_then(|date| table.dates.read(&value(&table.inserted, Some(date))));
        let failed = has_failed(
            held(&table.failures, 2).map(|it| count(&it)),
            held(&table.last_failure, 3).map(|it| table.other_dates.read(&it)),
            at,
        );
        let (status, text) =
            table.statuses.of(held(&table.statuses.column, 1).as_ref(), row.get(0), failed);
        let band = match row.get::<_, Option<i64>>(4) {
            Some(band) => usize::try_from(band).ok(),
            None => at.map(|at| {
                let is_within = |bound: &i64| at >= now.saturating_sub(*bound);
                bounds.iter().position(is_within).unwrap_or(bounds.len())
            }),
        };
        let rows = u64::try_from(row.get::<_, i64>(6)).unwrap_or(0);
        Count { status, text, band, rows }
    }

    fn undated(&mut self, selection: &Query) -> Result<Undated> {
        let mut undated = Undated::default();
        for row in self.query(&query::undated(&self.table, selection), &[])? {
            let table = &self.table;
            let ids = table.id_values(&row);
            let inserted = value(&table.inserted, row.get(ids.len()));
            if table.dates.read(&inserted).is_none() {
                undated.add(&typed_id(&ids).unwrap_or_else(|shown| shown), &inserted);
            }
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
        let columns = self.table.columns.iter().collect();
        Selected { table: &self.table, columns, names: self.names.clone() }
    }
}

/// The columns of records that a statement selects.
pub struct Selected<'a> {
    table: &'a Table,
    columns: Vec<&'a Column>,
    names: Arc<[String]>,
}

impl<'a> Selected<'a> {
    /// Those of records that are only shown.
    fn shown(table: &'a Table) -> Self {
        let columns = table.known_columns().into_iter().chain(&table.last_error);
        let columns: Vec<_> = columns.collect();
        let names = columns.iter().map(|column| column.name.clone()).collect();
        Self { table, columns, names }
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

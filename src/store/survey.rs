//! The survey of a table: what commands read of all of it. Nothing here writes.

use std::collections::BTreeMap;

use anyhow::Result;

use super::engine::{Engine, Index};
use super::error::DbError;
use super::sql::Selected;
use super::table::{Cells, Column, Table, count, has_failed, names};
use super::table_store::SqlDatabase;
use super::{Count, EachRecord, Inspection, MissingIndex, StatusValue, Survey};
use crate::query::Order;
use crate::record::{Status, Value};
use crate::time::Instant;

impl<E: Engine> Survey for SqlDatabase<E> {
    fn scan(&mut self, statuses: &[Status], order: Order, each: EachRecord<'_>) -> Result<()> {
        let _acting = self.engine.take_rights()?;
        let Self { engine, table, .. } = self;
        let condition = match statuses {
            [] => table.of_the_queue().into(),
            statuses => table.of_statuses(statuses),
        };
        let (shown, name, order) = (table.shown_columns(), &table.sql, table.order_by(order));
        let sql = format!("SELECT {shown} FROM {name} WHERE {condition} {order}");
        let shown = Selected::shown(table);
        let mut result = Ok(());
        let read = engine.rows(&sql, &[], |row| {
            let is_wanted = |status| statuses.is_empty() || statuses.contains(&status);
            if let Some(record) = shown.record(row, 0).filter(|record| is_wanted(record.status)) {
                result = each(record);
            }
            result.is_ok()
        });
        self.reading(read)?;
        result
    }

    fn census(&mut self, bounds: &[i64], now: Instant) -> Result<Vec<Count>> {
        let _acting = self.engine.take_rights()?;
        let sql = self.table.census(bounds, now);
        // Where the database counts each date, several counts are of one age.
        let mut counts = BTreeMap::new();
        let read = self.engine.rows(&sql, &[], |row| {
            let count = count_of(&self.table, row, bounds, now);
            let key = (count.text.clone(), count.band);
            counts.entry(key).and_modify(|it: &mut Count| it.rows += count.rows).or_insert(count);
            true
        });
        self.reading(read)?;
        Ok(counts.into_values().collect())
    }

    fn any_mapped(&mut self) -> Result<bool> {
        let _acting = self.engine.take_rights()?;
        let any = self.table.any(&self.table.status_in(&Status::OURS));
        let any = self.engine.any(&any);
        self.reading(any)
    }

    fn inspect(&mut self, by_count: bool) -> Result<Inspection> {
        let _acting = self.engine.take_rights()?;
        let mut found = Inspection { missing: Some(Vec::new()), ..Inspection::default() };
        let sql = self.table.dated(&self.table.pending());
        // Those before one that cannot be read are taken into account.
        let read = self.engine.rows(&sql, &[], |row| {
            found.pending.add(&self.table, row);
            true
        });
        found.pending.is_cut = read.is_err();
        let read = self.reading(read);
        found.unread.or_nothing("the pending records", read);
        let (rows, values) = (self.count_rows().map(Some), self.status_values());
        found.rows = found.unread.or_nothing("the number of rows", self.reading(rows));
        found.values = found.unread.or_nothing("the statuses", self.reading(values));
        self.engine.inspect(&self.table, &mut found);
        if self.engine.is_users_table() {
            let Self { engine, table, .. } = self;
            let triggers = engine.triggers(table);
            let missing = missing_indexes(engine, table, by_count).map(Some);
            let duplicate = duplicate(engine, table);
            found.triggers = found.unread.or_nothing("the triggers", self.reading(triggers));
            found.missing = found.unread.or_nothing("indexes", self.reading(missing));
            found.duplicate = found.unread.or_nothing("the ids", self.reading(duplicate));
        }
        Ok(found)
    }
}

impl<E: Engine> SqlDatabase<E> {
    fn count_rows(&mut self) -> Result<u64, DbError> {
        let mut rows = 0;
        self.engine.rows(&format!("SELECT count(*) FROM {}", self.table.sql), &[], |row| {
            rows = row.count(0);
            true
        })?;
        Ok(rows)
    }

    fn status_values(&mut self) -> Result<Vec<StatusValue>, DbError> {
        let Self { engine, table, .. } = self;
        let Some(column) = &table.statuses.column else { return Ok(Vec::new()) };
        let (cell, name) = (table.dialect.exact(column), &table.sql);
        let sql = format!("SELECT {cell}, count(*) FROM {name} GROUP BY 1 ORDER BY 2 DESC");
        let mut values = Vec::new();
        engine.rows(&sql, &[], |row| {
            values.push(StatusValue::new(table, &row.value(column, 0), row.count(1)));
            true
        })?;
        Ok(values)
    }
}

/// The indexes without which a pass reads the whole table.
fn missing_indexes(
    engine: &mut impl Engine,
    table: &Table,
    by_count: bool,
) -> Result<Vec<MissingIndex>, DbError> {
    let (mut missing, condition) = (Vec::new(), table.lasting_condition());
    if !engine.finds_pending(table)? {
        let columns = names([&table.inserted].into_iter().chain(&table.id));
        let condition = condition.clone();
        let index = Index { kind: "INDEX", suffix: "backlog", columns, condition };
        missing.push(("pending records", index));
    }
    if by_count && let Some(columns) = engine.columns_of_waiting(table)? {
        let index = Index { kind: "INDEX", suffix: "backlog_waiting", columns, condition };
        missing.push(("what is due by its count of failures", index));
    }
    if !engine.finds_ids(table)? {
        let (columns, condition) = (table.ids(), None);
        let index = Index { kind: "UNIQUE INDEX", suffix: "backlog_id", columns, condition };
        missing.push(("a record by its id", index));
    }
    let created = missing.into_iter().map(|(finds, index)| {
        Ok(MissingIndex { finds, statement: engine.create_index(table, &index)? })
    });
    created.collect()
}

/// An id that more than one row has.
fn duplicate(engine: &mut impl Engine, table: &Table) -> Result<Option<String>, DbError> {
    let (cells, ids, has_ids) = (table.cells(&table.id), table.ids(), table.has_ids());
    let sql = format!(
        "SELECT {cells} FROM {} WHERE {has_ids} GROUP BY {ids} HAVING count(*) > 1 LIMIT 1",
        table.sql
    );
    let mut found = None;
    engine.rows(&sql, &[], |row| {
        found = Some(table.shown_id(row));
        true
    })?;
    Ok(found)
}

/// A row of [`Table::census`].
fn count_of(table: &Table, row: &impl Cells, bounds: &[i64], now: Instant) -> Count {
    let held = |column: Option<&Column>, index: usize| column.map(|it| row.value(it, index));
    let [failures, last_failure] = table.sources_of_failure();
    let at = table.dates.read(&row.value(&table.inserted, 5));
    let failed = has_failed(
        held(failures, 2).map(|it| count(&it)),
        held(last_failure, 3).map(|it| table.other_dates.read(&it)),
        at,
    );
    let status: Option<Value> = held(table.statuses.column.as_ref(), 1);
    let (status, text) = table.statuses.of(status.as_ref(), row.truth(0), failed);
    let within = |at: Instant| {
        let is_within = |bound: &i64| at >= now.saturating_sub(*bound);
        bounds.iter().position(is_within).unwrap_or(bounds.len())
    };
    let band = row.number(4).and_then(|band| usize::try_from(band).ok());
    Count { status, text, band: band.or_else(|| at.map(within)), rows: row.count(6) }
}

//! Reading: what is due, one record afresh, all of them, and how many there are.

use std::sync::Arc;

use anyhow::Result;
use rusqlite::types::ValueRef;
use rusqlite::{Params, Row, Statement, ToSql};

use super::sql::value;
use super::{SqliteDatabase, query, sql, waiting};
use crate::date::Dates;
use crate::instant::Instant;
use crate::record::{self, Facts, Id, Record, Status, Value, snooze};
use crate::selection::{Order, Selection};
use crate::store::gathering::Gathering;
use crate::store::table::{FactColumns, Table, composed, count, has_failed, id, typed_id};
use crate::store::{Count, Examination, Found, Page, Reader, Survey, Undated};

impl Reader for SqliteDatabase {
    fn due(
        &mut self,
        selection: &Selection,
        is_due: &mut dyn FnMut(Facts<'_>) -> bool,
    ) -> Result<Page> {
        let _acting = self.connection.rights.take()?;
        if selection.after.is_none() && !self.has_any(&selection.statuses)? {
            return Ok(Page::default());
        }
        let mut gathering = Gathering::new(selection, self.undated(selection)?, is_due);
        let served = waiting::query(&self.connection, &self.table, selection)?;
        let statements =
            served.map_or_else(|| query::due(&self.table, selection), |served| vec![served]);
        for sql in statements {
            let gathered = self.gather(&sql, selection, &mut gathering);
            if !gathered.map_err(|error| self.explain(&error, "read"))? {
                break;
            }
        }
        Ok(gathering.finish(&self.table.inserted.name, &mut self.reported))
    }

    fn read(&mut self, id: &Id) -> Result<Found> {
        let _acting = self.connection.rights.take()?;
        self.read_row(&query::shown_by_id(&self.table), id)
    }
}

impl Survey for SqliteDatabase {
    fn scan(
        &mut self,
        statuses: &[Status],
        order: Order,
        each: &mut dyn FnMut(Record) -> Result<()>,
    ) -> Result<()> {
        let _acting = self.connection.rights.take()?;
        let sql = query::scan(&self.table, statuses, order);
        self.each_record(&sql, [], &mut |record| {
            let is_wanted = statuses.is_empty() || statuses.contains(&record.status);
            if is_wanted { each(record) } else { Ok(()) }
        })
    }

    fn census(&mut self, bounds: &[i64], now: Instant) -> Result<Vec<Count>> {
        let _acting = self.connection.rights.take()?;
        let sql = query::census(&self.table, bounds, now);
        let mut statement = self.prepare(&sql)?;
        let counts = statement.query_map([], |row| {
            let (raw, failed) = (value(row.get_ref(0)?), row.get(2)?);
            let (status, text) = self.table.statuses.of(Some(&raw), row.get(1)?, failed);
            Ok(Count {
                status,
                text,
                band: row.get::<_, Option<i64>>(3)?.and_then(|band| usize::try_from(band).ok()),
                rows: u64::try_from(row.get::<_, i64>(4)?).unwrap_or(0),
            })
        })?;
        counts.collect::<rusqlite::Result<_>>().map_err(|error| self.explain(&error, "read"))
    }

    fn examine(&mut self, by_count: bool) -> Result<Examination> {
        let _acting = self.connection.rights.take()?;
        self.examined(by_count).map_err(|error| self.explain(&error, "read"))
    }
}

impl SqliteDatabase {
    /// Gathers the ids of one statement. False if the page is full.
    fn gather(
        &self,
        sql: &str,
        selection: &Selection,
        gathering: &mut Gathering<'_>,
    ) -> rusqlite::Result<bool> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let params = query::due_params(selection);
        let params: Vec<_> =
            params.iter().map(|(name, value)| (name.as_str(), value as &dyn ToSql)).collect();
        let mut rows = statement.query(&params[..])?;
        let selected = query::fact_columns(&self.table, &selection.window);
        let columns = FactColumns::new(&self.table, &selected, &selection.window);
        while let Some(row) = rows.next()? {
            let inserted = row.get_ref(columns.inserted)?;
            match id_of(&columns, row)? {
                Ok(id) => {
                    let facts = facts(&columns, &self.table, &id, row)?;
                    if !gathering.row(facts, &|| value(inserted)) {
                        return Ok(false);
                    }
                }
                Err(problem) => gathering.unusable(problem),
            }
        }
        Ok(true)
    }

    /// Whether there is any record with one of these statuses: mostly there is none.
    fn has_any(&self, statuses: &[Status]) -> Result<bool> {
        let mut statement = self.prepare(&query::any(&self.table, statuses))?;
        statement.exists([]).map_err(|error| self.explain(&error, "read"))
    }

    /// The record with an id, by a statement that reads it.
    pub fn read_row(&self, by_id: &str, id: &Id) -> Result<Found> {
        let parts = id.parts().iter().map(sql::id_param);
        let mut found = self.records(by_id, rusqlite::params_from_iter(parts), 2)?;
        Ok(match (found.pop(), found.pop()) {
            (None, _) => Found::Gone,
            (Some(record), None) => Found::Record(Box::new(record)),
            (Some(_), Some(_)) => Found::Ambiguous,
        })
    }

    /// The names of a statement's columns, but for the last. They are mostly those of the time
    /// before, and then shared.
    fn names(&self, statement: &Statement<'_>) -> Arc<[String]> {
        let count = statement.column_count() - 1;
        let names = || statement.column_names().take(count);
        let mut last = self.names.borrow_mut();
        if !last.iter().map(String::as_str).eq(names()) {
            *last = names().map(String::from).collect();
        }
        last.clone()
    }

    /// The records that no age can be told of, as far as they do not sort into the window; `None`
    /// if the selection does not go by age, or goes on with an earlier one.
    fn undated(&self, selection: &Selection) -> Result<Option<Undated>> {
        if !selection.misses_undated() {
            return Ok(None);
        }
        let explain = |error| self.explain(&error, "read");
        let mut undated = Undated::default();
        let mut statement = self.prepare(&query::undated(&self.table, &selection.statuses))?;
        let mut rows = statement.query([]).map_err(explain)?;
        while let Some(row) = rows.next().map_err(explain)? {
            let id = typed_id(&self.id_values(row).map_err(explain)?);
            let inserted = row.get_ref(self.table.id.len()).map(value).map_err(explain)?;
            undated.add(id.unwrap_or_else(|shown| shown), &inserted);
        }
        Ok(Some(undated))
    }

    /// The first columns of a row, which are its id.
    pub fn id_values(&self, row: &Row<'_>) -> rusqlite::Result<Vec<Value>> {
        (0..self.table.id.len()).map(|index| row.get_ref(index).map(value)).collect()
    }

    fn prepare(&self, sql: &str) -> Result<rusqlite::CachedStatement<'_>> {
        self.connection.prepare_cached(sql).map_err(|error| self.explain(&error, "read"))
    }

    fn records(&self, sql: &str, params: impl Params, most: usize) -> Result<Vec<Record>> {
        let mut records = Vec::with_capacity(1);
        self.each_record(sql, params, &mut |record| {
            records.push(record);
            Ok(())
        })?;
        records.truncate(most);
        Ok(records)
    }

    fn each_record(
        &self,
        sql: &str,
        params: impl Params,
        each: &mut dyn FnMut(Record) -> Result<()>,
    ) -> Result<()> {
        let explain = |error| self.explain(&error, "read");
        let mut statement = self.prepare(sql)?;
        // The last is whether the row belongs to the queue.
        let columns = self.names(&statement);
        let last = columns.len();
        let mut rows = statement.query(params).map_err(explain)?;
        while let Some(row) = rows.next().map_err(explain)? {
            let values = (0..columns.len())
                .map(|index| row.get_ref(index).map(value))
                .collect::<rusqlite::Result<_>>()
                .map_err(explain)?;
            let in_queue = row.get(last).map_err(explain)?;
            let row = record::Row { columns: columns.clone(), values };
            match self.table.record(row, in_queue) {
                Ok(record) => each(record)?,
                Err(problem) => log::warn!("{problem}"),
            }
        }
        Ok(())
    }
}

/// The id of a row; the error says why it has none.
fn id_of(columns: &FactColumns, row: &Row<'_>) -> rusqlite::Result<Result<Id, &'static str>> {
    if let [index] = columns.id[..] {
        return Ok(id_part(row.get_ref(index)?));
    }
    let parts = columns.id.iter().map(|index| row.get_ref(*index).map(id_part));
    let parts: Result<Vec<_>, _> =
        parts.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().collect();
    Ok(parts.map(composed))
}

fn facts<'a>(
    columns: &FactColumns,
    table: &Table,
    id: &'a Id,
    row: &Row<'_>,
) -> rusqlite::Result<Facts<'a>> {
    let get = |index: Option<usize>| index.map(|index| row.get_ref(index)).transpose();
    let inserted_at = date(&table.dates, row.get_ref(columns.inserted)?);
    let failures = get(columns.failures)?.map(|found| count(&value(found)));
    let last_failure = get(columns.last_failure)?.map(|found| date(&table.other_dates, found));
    let failed = has_failed(failures, last_failure, inserted_at);
    let found = get(columns.status)?.unwrap_or(ValueRef::Null);
    let status = table.statuses.status(&|mapped| is_same(found, mapped), true, failed);
    Ok(Facts {
        id,
        status,
        inserted_at,
        failures: failures.unwrap_or(0),
        last_failure_at: last_failure.flatten(),
        due_at: None,
        snoozed_until: get(columns.snoozed)?.and_then(snoozed_until),
    })
}

// A pass over a million rows does little else than these: none copies a text in vain.

fn id_part(found: ValueRef<'_>) -> Result<Id, &'static str> {
    match found {
        ValueRef::Integer(number) => Ok(Id::Integer(number)),
        ValueRef::Text(text) => match std::str::from_utf8(text) {
            Ok(text) => Ok(Id::Text(text.into())),
            Err(_) => Err("not UTF-8"),
        },
        ValueRef::Null | ValueRef::Real(_) | ValueRef::Blob(_) => id(&value(found)),
    }
}

fn date(dates: &Dates, found: ValueRef<'_>) -> Option<Instant> {
    match found {
        ValueRef::Text(text) => dates.read_text(std::str::from_utf8(text).ok()?),
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Blob(_) => {
            dates.read(&value(found))
        }
    }
}

fn snoozed_until(found: ValueRef<'_>) -> Option<Instant> {
    found.as_str().ok().and_then(snooze::until)
}

fn is_same(found: ValueRef<'_>, mapped: &Value) -> bool {
    match (found, mapped) {
        (ValueRef::Text(found), Value::Text(mapped)) => found == mapped.as_bytes(),
        (ValueRef::Text(_), _) => false,
        (found, mapped) => value(found) == *mapped,
    }
}

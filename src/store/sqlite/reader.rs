//! Reads of a SQLite table: due ids, one record afresh, a scan, a census.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::Result;
use rusqlite::types::ValueRef;
use rusqlite::{Error as SqlError, Row, Statement, ToSql};

use super::errors::{is_of_the_row, words};
use super::sql::value;
use super::{SqliteDatabase, index_walk, query, sql};
use crate::query::{Order, Query};
use crate::record::{self, Facts, Id, Record, Status, Value};
use crate::store::page::PageBuilder;
use crate::store::table::{FactColumns, typed_id};
use crate::store::{Count, Found, Inspection, Page, Reader, Survey, Undated};
use crate::time::Instant;

impl Reader for SqliteDatabase {
    fn due(
        &mut self,
        selection: &Query,
        is_due: &mut dyn FnMut(Facts<'_>) -> bool,
    ) -> Result<Page> {
        let _acting = self.connection.rights.take()?;
        if selection.after.is_none() && !self.has_any(&selection.statuses)? {
            return Ok(Page::default());
        }
        let mut builder = PageBuilder::new(selection, self.undated(selection)?, is_due);
        if let Err(error) = self.gather_all(selection, &mut builder) {
            if !is_of_the_row(&error) {
                return Err(self.explain(&error, "read"));
            }
            self.gather_around(selection, &mut builder, &error);
        }
        Ok(builder.finish(&self.table.inserted.name, &mut self.reported))
    }

    fn read(&mut self, id: &Id) -> Result<Found> {
        let _acting = self.connection.rights.take()?;
        let found = self.read_row(&query::shown_by_id(&self.table), id);
        found.map_err(|error| self.explain(&error, "read"))
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
        self.each_record(&sql, &mut |record| {
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

    fn any_mapped(&mut self) -> Result<bool> {
        let _acting = self.connection.rights.take()?;
        let mut statement =
            self.prepare(&self.table.any(&query::status_in(&self.table, &Status::OURS)))?;
        statement.exists([]).map_err(|error| self.explain(&error, "read"))
    }

    fn inspect(&mut self, by_count: bool) -> Result<Inspection> {
        let _acting = self.connection.rights.take()?;
        Ok(self.examined(by_count))
    }
}

impl SqliteDatabase {
    fn gather_all(&self, selection: &Query, builder: &mut PageBuilder<'_>) -> rusqlite::Result<()> {
        let served = index_walk::query(&self.connection, &self.table, selection)?;
        let statements =
            served.map_or_else(|| query::due(&self.table, selection), |served| vec![served]);
        let params = query::due_params(selection);
        for sql in statements {
            if !self.gather(&sql, &params, selection, builder)? {
                break;
            }
        }
        Ok(())
    }

    /// Gathers what can be read of a table with rows that cannot: one by one, by the numbers that
    /// SQLite has for them, from both ends as far as those can be read.
    fn gather_around(&self, selection: &Query, builder: &mut PageBuilder<'_>, error: &SqlError) {
        builder.broken(format!("could not read all of {}: {}", self.path.display(), words(error)));
        builder.begin_again();
        let mut numbers = BTreeSet::new();
        for order in [Order::Oldest, Order::Newest] {
            match self.row_numbers(order, &mut numbers) {
                Ok(()) => break,
                Err(error) => log::debug!("row numbers: {}", words(&error)),
            }
        }
        let sql = query::due_by_row_number(&self.table, selection);
        let mut params = query::due_params(selection);
        for number in numbers {
            params.retain(|(name, _)| name != ":row");
            params.push((":row".into(), Value::Integer(number)));
            match self.gather(&sql, &params, selection, builder) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    let (table, words) = (&self.table.name, words(&error));
                    log::error!("row {number} of table {table} could not be read: {words}");
                }
            }
        }
    }

    fn row_numbers(&self, order: Order, numbers: &mut BTreeSet<i64>) -> rusqlite::Result<()> {
        let mut statement = self.connection.prepare(&query::row_numbers(&self.table, order))?;
        for number in statement.query_map([], |row| row.get(0))? {
            numbers.insert(number?);
        }
        Ok(())
    }

    /// Gathers the ids of one statement. False if the page is full.
    fn gather(
        &self,
        sql: &str,
        params: &[(String, Value)],
        selection: &Query,
        builder: &mut PageBuilder<'_>,
    ) -> rusqlite::Result<bool> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let params: Vec<_> =
            params.iter().map(|(name, value)| (name.as_str(), value as &dyn ToSql)).collect();
        let mut rows = statement.query(&params[..])?;
        let selected = query::fact_columns(&self.table, &selection.window);
        let columns = FactColumns::new(&self.table, &selected, &selection.window);
        while let Some(row) = rows.next()? {
            if !builder.row(&columns, row) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether there is any record with one of these statuses: mostly there is none.
    fn has_any(&self, statuses: &[Status]) -> Result<bool> {
        let mut statement =
            self.prepare(&self.table.any(&query::statuses(&self.table, statuses)))?;
        match statement.exists([]) {
            // Whoever looks for them says what cannot be read.
            Err(error) if is_of_the_row(&error) => Ok(true),
            any => any.map_err(|error| self.explain(&error, "read")),
        }
    }

    /// The record with an id, by a statement that reads it.
    pub fn read_row(&self, by_id: &str, id: &Id) -> rusqlite::Result<Found> {
        let parts = id.parts().iter().map(sql::id_param);
        let mut found = Vec::with_capacity(1);
        let mut statement = self.connection.prepare_cached(by_id)?;
        let mut rows = statement.query(rusqlite::params_from_iter(parts))?;
        while let Some(row) = rows.next()? {
            found.extend(self.record(row)?);
        }
        Ok(match (found.pop(), found.pop()) {
            (None, _) => Found::Gone,
            (Some(record), None) => Found::Record(Box::new(record)),
            (Some(_), Some(_)) => Found::Ambiguous,
        })
    }

    /// The names of a statement's columns, but for the first. They are mostly those of the time
    /// before, and then shared.
    fn names(&self, statement: &Statement<'_>) -> Arc<[String]> {
        let names = || statement.column_names().skip(1);
        let mut last = self.names.borrow_mut();
        if !last.iter().map(String::as_str).eq(names()) {
            *last = names().map(String::from).collect();
        }
        last.clone()
    }

    /// The records that no age can be told of, as far as they do not sort into the window; `None`
    /// if the selection does not go by age, or goes on with an earlier one.
    fn undated(&self, selection: &Query) -> Result<Option<Undated>> {
        if !selection.misses_undated() {
            return Ok(None);
        }
        let explain = |error| self.explain(&error, "read");
        let mut undated = Undated::default();
        match self.add_undated(selection, &mut undated) {
            // Whoever looks for what is due says what cannot be read.
            Err(error) if is_of_the_row(&error) => Ok(Some(undated)),
            added => added.map_err(explain).map(|()| Some(undated)),
        }
    }

    fn add_undated(&self, selection: &Query, undated: &mut Undated) -> rusqlite::Result<()> {
        let sql = query::undated(&self.table, &selection.statuses);
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let id = typed_id(&self.table.id_values(row));
            let inserted = row.get_ref(self.table.id.len()).map(value)?;
            undated.add(&id.unwrap_or_else(|shown| shown), &inserted);
        }
        Ok(())
    }

    fn prepare(&self, sql: &str) -> Result<rusqlite::CachedStatement<'_>> {
        self.connection.prepare_cached(sql).map_err(|error| self.explain(&error, "read"))
    }

    fn each_record(&self, sql: &str, each: &mut dyn FnMut(Record) -> Result<()>) -> Result<()> {
        let explain = |error| self.explain(&error, "read");
        let mut statement = self.prepare(sql)?;
        let mut rows = statement.query([]).map_err(explain)?;
        while let Some(row) = rows.next().map_err(explain)? {
            if let Some(record) = self.record(row).map_err(explain)? {
                each(record)?;
            }
        }
        Ok(())
    }

    /// A row as a record, if it can be one. Its first column is whether it belongs to the queue.
    /// How many there are is asked of the row, because a column may have been added since the
    /// statement was prepared.
    fn record(&self, row: &Row<'_>) -> rusqlite::Result<Option<Record>> {
        let columns = self.names(row.as_ref());
        let in_queue = row.get(0)?;
        require_memory(row, columns.len())?;
        let values = (1..=columns.len()).map(|index| row.get_ref(index).map(value));
        let values = values.collect::<rusqlite::Result<_>>()?;
        let record = self.table.record(record::Row { columns, values }, in_queue);
        Ok(record.map_err(|problem| log::warn!("{problem}")).ok())
    }
}

/// A row of more bytes than this is looked at before it is read.
const LARGE: usize = 16 << 20;
/// What becomes of a row's bytes until its handler has them: a copy, and a line in which a
/// character may take six.
const COPIES: usize = 7;

/// Fails if a row is too big to be handled in the memory that there is, which would end the pass
/// and not only this row.
fn require_memory(row: &Row<'_>, columns: usize) -> rusqlite::Result<()> {
    let length = |index| {
        Ok(match row.get_ref(index)? {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
            ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => 0,
        })
    };
    let bytes = (1..=columns).map(length).sum::<rusqlite::Result<usize>>()?;
    let fits = || Vec::<u8>::new().try_reserve_exact(bytes.saturating_mul(COPIES)).is_ok();
    if bytes <= LARGE || fits() {
        return Ok(());
    }
    let full = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_NOMEM);
    let why = format!("its {} MiB are too much for the memory that there is", bytes >> 20);
    Err(SqlError::SqliteFailure(full, Some(why)))
}

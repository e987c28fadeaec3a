//! The reads of a pass in a SQLite table: due ids, one record afresh.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::Result;
use rusqlite::types::ValueRef;
use rusqlite::{Error as SqlError, Params, Row, Statement, params_from_iter};

use super::errors::{is_of_the_row, words};
use super::sql::value;
use super::{SqliteDatabase, index_walk, query, sql};
use crate::query::{Order, Query};
use crate::record::{self, Id, Record, Status, Value};
use crate::store::page::PageBuilder;
use crate::store::table::FactColumns;
use crate::store::{Found, IsDue, Page, Reader, Undated};

impl Reader for SqliteDatabase {
    fn due(&mut self, selection: &Query, is_due: IsDue<'_>) -> Result<Page> {
        let _acting = self.connection.rights.take()?;
        if selection.after.is_none() && !self.has_any(&selection.statuses)? {
            return Ok(Page::default());
        }
        let mut builder = PageBuilder::new(selection, self.undated(selection)?, is_due);
        match self.gather_all(selection, &mut builder) {
            Err(error) if is_of_the_row(&error) => {
                self.gather_around(selection, &mut builder, &error);
            }
            gathered => self.reading(gathered)?,
        }
        Ok(builder.finish(&self.table.inserted.name, &mut self.reported))
    }

    fn read(&mut self, id: &Id) -> Result<Found> {
        let _acting = self.connection.rights.take()?;
        self.reading(self.read_row(&query::of_id(&self.table, &query::shown(&self.table)), id))
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
        let (shown, why) = (self.path.display(), words(error));
        builder.begin_again(format!("could not read all of {shown}: {why}"));
        let mut numbers = BTreeSet::new();
        for order in [Order::Oldest, Order::Newest] {
            let read = self.rows(&query::row_numbers(&self.table, order), [], |row| {
                numbers.insert(row.get(0)?);
                Ok(true)
            });
            match read {
                Ok(_) => break,
                Err(error) => log::debug!("row numbers: {}", words(&error)),
            }
        }
        let sql = query::due_by_row_number(&self.table, selection);
        let bounds = query::due_params(selection);
        for number in numbers {
            let params = [&bounds[..], &[Value::Integer(number)]].concat();
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

    /// Gathers the ids of one statement. False if the page is full.
    fn gather(
        &self,
        sql: &str,
        params: &[Value],
        selection: &Query,
        builder: &mut PageBuilder<'_>,
    ) -> rusqlite::Result<bool> {
        let selected = query::fact_columns(&self.table, &selection.window);
        let columns = FactColumns::new(&self.table, &selected, &selection.window);
        self.rows(sql, params_from_iter(params), |row| Ok(builder.row(&columns, row)))
    }

    /// Whether there is any record with one of these statuses: mostly there is none.
    fn has_any(&self, statuses: &[Status]) -> Result<bool> {
        let sql = self.table.any(&self.table.of_statuses(statuses));
        match self.connection.prepare_cached(&sql).and_then(|mut any| any.exists([])) {
            // Whoever looks for them says what cannot be read.
            Err(error) if is_of_the_row(&error) => Ok(true),
            any => self.reading(any),
        }
    }

    /// The record with an id, by a statement that reads it. A second row shows that the id is not
    /// unique.
    pub fn read_row(&self, by_id: &str, id: &Id) -> rusqlite::Result<Found> {
        let mut found = Vec::with_capacity(1);
        self.rows(by_id, sql::id_params(id), |row| {
            found.extend(self.record(row)?);
            Ok(found.len() < 2)
        })?;
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
        let mut undated = Undated::default();
        let read = self.rows(&query::undated(&self.table, &selection.statuses), [], |row| {
            undated.add_row(&self.table, row);
            Ok(true)
        });
        match read {
            // Whoever looks for what is due says what cannot be read.
            Err(error) if is_of_the_row(&error) => {}
            read => self.reading(read).map(|_| ())?,
        }
        Ok(Some(undated))
    }

    /// Hands each row of a statement to `each`, as long as that says true. False if it did not to
    /// the end.
    pub fn rows(
        &self,
        sql: &str,
        params: impl Params,
        mut each: impl FnMut(&Row<'_>) -> rusqlite::Result<bool>,
    ) -> rusqlite::Result<bool> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query(params)?;
        while let Some(row) = rows.next()? {
            if !each(row)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A row as a record, if it can be one. Its first column is whether it belongs to the queue.
    /// How many there are is asked of the row, because a column may have been added since the
    /// statement was prepared.
    pub fn record(&self, row: &Row<'_>) -> rusqlite::Result<Option<Record>> {
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

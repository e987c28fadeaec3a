//! Searches and reads of a table, on any database with SQL.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::iter;
use std::sync::Arc;

use anyhow::Result;
use backlog_schedule::{
    Counter, Id, Instant, Query, Record, Settlement, Status, Transition, Value, Window,
};

use super::engine::{Engine, RowState, SqlDatabase};
use super::error::{DbError, DbErrorKind, DbResult};
use super::page::PageBuilder;
use super::sql::{due_params, id_param, id_params};
use super::table::{Cells, Column, ColumnType, FactReader, RecordReader};
use crate::database::MOST_IDS;
use crate::inspection::Undated;
use crate::store::{IsDue, Page, ReadResult, Reader};
use crate::writes::RowWrite;

impl<E: Engine> SqlDatabase<E> {
    /// True if a row can be due. Usually there is none, which this statement finds fast.
    fn can_have_due(&mut self, statuses: &[Status]) -> DbResult<bool> {
        match self.engine.any(&self.table.any(&self.table.due_rows(statuses))) {
            // The search reports an unreadable row.
            Err(error) if error.is_of_one_row => Ok(true),
            any => any,
        }
    }

    /// The query, without the delays of the policy if a column decides which rows are due.
    fn by_due_column<'a>(&self, query: &'a Query) -> Cow<'a, Query> {
        let window = match (&query.window, self.table.due_column()) {
            (Window::Failed { .. }, Some(_)) => Window::All,
            (Window::Slots(_), Some(_)) => {
                let inserted = query.window.inserted().unwrap_or((Instant(i64::MIN), None));
                Window::Inserted { from: inserted.0, until: inserted.1 }
            }
            _ => return Cow::Borrowed(query),
        };
        Cow::Owned(Query { window, ..query.clone() })
    }

    pub fn page(&mut self, query: &Query, is_due: IsDue<'_>) -> DbResult<Page> {
        let query = self.by_due_column(query);
        let mut page = PageBuilder::new(&query, is_due);
        self.fill_page(&query, &mut page)?;
        Ok(page.finish(self.table.inserted.label(), &mut self.warned))
    }

    fn fill_page(&mut self, query: &Query, page: &mut PageBuilder<'_>) -> DbResult<()> {
        if query.after.is_none() && !self.can_have_due(&query.statuses)? {
            let hidden = self.engine.why_rows_are_hidden(&self.table)?;
            if let Some(why) = hidden.filter(|why| self.warned.insert(why.clone())) {
                log::warn!("{why}");
            }
            return Ok(());
        }
        page.undated = self.undated(query)?;
        let found = match self.search(query, page) {
            // The cursor is of another type: since the last pass the column was changed, or another one mapped.
            Err(error) if error.kind == DbErrorKind::NoValue && query.after.is_some() => {
                self.search(&Query { after: None, up_to: None, ..query.clone() }, page)
            }
            // The search before this one found all.
            Err(error) if error.kind == DbErrorKind::NoValue && query.up_to.is_some() => Ok(()),
            found => found,
        };
        found.or_else(|error| self.search_around(query, page, error))
    }

    /// The records without a readable date, on the first page of a query by age.
    fn undated(&mut self, query: &Query) -> DbResult<Option<Undated>> {
        let inserted = query.window.inserted();
        let is_by_age = inserted.is_some_and(|(from, _)| from.0 > i64::MIN);
        if !is_by_age || query.after.is_some() {
            return Ok(None);
        }
        let mut undated = Undated::default();
        let read = self.engine.search(&self.table.undated(query), &[], |row| {
            let inserted = row.value(&self.table.inserted, self.table.id.len());
            if self.table.dates.read(&inserted).is_none() {
                undated.add(&self.table.display_id(row), &inserted);
            }
            true
        });
        match read {
            // The search reports an unreadable row.
            Err(error) if error.is_of_one_row => {}
            read => read?,
        }
        Ok(Some(undated))
    }

    pub fn read_one(&mut self, id: &Id, is_whole: bool) -> DbResult<ReadResult> {
        let Self { engine, table, .. } = self;
        let reader =
            if is_whole { RecordReader::all(table) } else { RecordReader::for_display(table) };
        let columns = if is_whole { table.all_columns() } else { reader.sql() };
        let sql = format!("{} LIMIT 2", table.of_id(&columns));
        let mut found = Vec::new();
        let read = engine.search(&sql, &id_params(id), |row| {
            found.extend(reader.record(row, 0));
            true
        });
        match read {
            Err(error) if error.kind == DbErrorKind::NoValue => {}
            read => read?,
        }
        let mut found = found.into_iter();
        Ok(match (found.next(), found.next()) {
            (None, _) => ReadResult::Gone,
            (Some(record), None) => ReadResult::Record(Box::new(record)),
            (Some(_), Some(_)) => ReadResult::Ambiguous,
        })
    }

    /// Ids with a prefix, as a user types them. An index serves both conditions, for text and for the bytes of a UUID.
    pub fn find_ids(&mut self, prefix: &str) -> DbResult<Vec<String>> {
        let Self { engine, table, .. } = self;
        let [
            column @ Column {
                column_type: ColumnType::Text | ColumnType::Bytes | ColumnType::Any,
                ..
            },
        ] = &table.id[..]
        else {
            return Ok(Vec::new());
        };
        let digits = |text: &str| text.replace('-', "").to_ascii_lowercase();
        let prefix_digits = digits(prefix);
        // In every collation letters come after digits.
        let as_text = ["", "zzzzzzzz"].map(|end| Id::Text(format!("{prefix}{end}").into()));
        let missing = 32_usize.saturating_sub(prefix_digits.len());
        let as_uuid = ["0", "f"]
            .map(|digit| Id::readings(&(prefix_digits.clone() + &digit.repeat(missing)), 1));
        let [from, to] = as_uuid.map(Vec::into_iter);
        let mut found = BTreeSet::new();
        for (from, to) in iter::once(as_text.into()).chain(from.zip(to)) {
            let params = [from, to].map(|id| id_param(&id));
            let read = engine.rows(&table.ids_between(column), &params, |row| {
                let id = table.typed_id(row).ok();
                found.extend(id.filter(|id| digits(id).starts_with(&prefix_digits)));
                found.len() < MOST_IDS
            });
            // A prefix may be no part of a UUID.
            read.or_else(
                |error| if error.kind == DbErrorKind::NoValue { Ok(()) } else { Err(error) },
            )?;
        }
        Ok(found.into_iter().collect())
    }

    pub fn states_of<'r>(
        &mut self,
        records: impl Iterator<Item = (usize, &'r Arc<Record>)>,
    ) -> DbResult<Vec<RowState>> {
        // With this transition the state of a row says if the record is pending.
        let (transition, counter) = (Transition::Renewed, Counter::Untouched);
        let renewed = Settlement { transition, counter, at: Instant(0), not_before: None };
        let writes: Vec<_> = records
            .map(|(number, record)| (number, RowWrite::new(record, None, renewed.clone())))
            .collect();
        let writes: Vec<_> = writes.iter().map(|(number, write)| (*number, write)).collect();
        self.engine.states(&self.table, &writes)
    }

    fn search(&mut self, query: &Query, page: &mut PageBuilder<'_>) -> DbResult<()> {
        let reader = FactReader::for_search(&self.table, &query.window);
        let params = due_params(query);
        for sql in self.engine.due(&self.table, query)? {
            self.engine.search(&sql, &params, |row| page.add(&reader, row))?;
            if page.is_full() {
                break;
            }
        }
        Ok(())
    }

    /// Repeats a search row by row, in the order of the row numbers, after an unreadable row.
    fn search_around(
        &mut self,
        query: &Query,
        page: &mut PageBuilder<'_>,
        error: DbError,
    ) -> DbResult<()> {
        let Self { engine, table, .. } = self;
        let search = if error.is_of_one_row { engine.row_by_row(table, query) } else { None };
        let Some((sql, numbers)) = search else { return Err(error) };
        page.restart(format!("could not read all of {}: {}", engine.label(), error.message));
        let (reader, mut params) =
            (FactReader::for_search(table, &query.window), due_params(query));
        for number in numbers {
            params.push(Value::Integer(number));
            let read = engine.rows(&sql, &params, |row| page.add(&reader, row));
            params.pop();
            if let Err(DbError { message, .. }) = read {
                log::error!("could not read row {number} of table {}: {message}", table.name);
            }
        }
        Ok(())
    }
}

impl<E: Engine> Reader for SqlDatabase<E> {
    fn due(&mut self, query: &Query, is_due: IsDue<'_>) -> Result<Page> {
        let page = self.page(query, is_due);
        self.explain_read(page)
    }

    fn read(&mut self, id: &Id) -> Result<ReadResult> {
        let read = self.read_one(id, false);
        self.explain_read(read)
    }
}

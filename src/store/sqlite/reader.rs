//! Reading: what is due, one record afresh, all of them, and how many there are.

use std::sync::Arc;

use anyhow::Result;
use rusqlite::types::ValueRef;
use rusqlite::{Params, Row, ToSql};

use super::column::Column;
use super::sql::value;
use super::table::{Table, composed, count, has_failed, id, typed_id};
use super::{Database, query, sql, waiting};
use crate::date::Dates;
use crate::instant::Instant;
use crate::record::{self, Facts, Id, Key, Record, Status, Value, counted};
use crate::selection::{Order, Selection, Window};
use crate::store::{Count, Found, Page, Reader, Undated};

impl Reader for Database {
    fn due(
        &mut self,
        selection: &Selection,
        is_due: &mut dyn FnMut(Facts<'_>) -> bool,
    ) -> Result<Page> {
        if selection.after.is_none() && !self.has_any(&selection.statuses)? {
            return Ok(Page::default());
        }
        let mut gathered = Gathered { undated: self.undated(selection)?, ..Gathered::default() };
        let served = waiting::query(&self.connection, &self.table, selection)?;
        let statements =
            served.map_or_else(|| query::due(&self.table, selection), |served| vec![served]);
        for sql in statements {
            let gather = self.gather(&sql, selection, is_due, &mut gathered);
            gather.map_err(|error| self.explain(&error, "read"))?;
            if gathered.page.next.is_some() {
                break;
            }
        }
        for problem in gathered.unusable {
            self.report_once(problem);
        }
        if let Some(undated) = gathered.undated {
            self.report_undated(&undated);
        }
        Ok(gathered.page)
    }

    fn read(&mut self, id: &Id) -> Result<Found> {
        let sql = query::by_id(&self.table);
        let parts = id.parts().iter().map(sql::id_param);
        let mut found = self.records(&sql, rusqlite::params_from_iter(parts), 2)?;
        Ok(match (found.pop(), found.pop()) {
            (None, _) => Found::Gone,
            (Some(record), None) => Found::Record(Box::new(record)),
            (Some(_), Some(_)) => Found::Ambiguous,
        })
    }
}

impl Database {
    /// Hands every record with one of these statuses to `each`, in order; all records if
    /// `statuses` is empty.
    pub fn scan(
        &mut self,
        statuses: &[Status],
        order: Order,
        each: &mut dyn FnMut(Record) -> Result<()>,
    ) -> Result<()> {
        let sql = query::scan(&self.table, statuses, order);
        self.each_record(&sql, [], &mut |record| {
            let is_wanted = statuses.is_empty() || statuses.contains(&record.status);
            if is_wanted { each(record) } else { Ok(()) }
        })
    }

    /// How many rows there are of each status and of each age.
    pub fn census(&mut self, bounds: &[i64], now: Instant) -> Result<Vec<Count>> {
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

    fn report_once(&mut self, message: String) {
        if !self.reported.contains(&message) {
            log::warn!("{message}");
            self.reported.insert(message);
        }
    }

    fn report_undated(&mut self, undated: &Undated) {
        if undated.rows == 0 {
            return;
        }
        let column = &self.table.inserted.name;
        let records = counted(undated.rows, "pending record");
        let (are, their) = if undated.rows == 1 { ("is", "its") } else { ("are", "their") };
        self.report_once(format!(
            "{records} {are} not tried, because {their} {column} cannot be read as a date: {}",
            undated.shown()
        ));
    }

    /// Gathers the ids of one statement, up to the limit of the selection.
    fn gather(
        &self,
        sql: &str,
        selection: &Selection,
        is_due: &mut dyn FnMut(Facts<'_>) -> bool,
        gathered: &mut Gathered,
    ) -> rusqlite::Result<()> {
        let Gathered { page, undated, unusable } = gathered;
        let mut statement = self.connection.prepare_cached(sql)?;
        let params = query::due_params(selection);
        let params: Vec<_> =
            params.iter().map(|(name, value)| (name.as_str(), value as &dyn ToSql)).collect();
        let mut rows = statement.query(&params[..])?;
        let columns = FactColumns::new(&self.table, &selection.window);
        while let Some(row) = rows.next()? {
            let id = match columns.id(row)? {
                Ok(id) => id,
                Err(problem) => {
                    let problem =
                        format!("a pending record is not tried, because its id is {problem}");
                    unusable.push(problem);
                    continue;
                }
            };
            let facts = columns.facts(&self.table, &id, row)?;
            if !selection.statuses.contains(&facts.status) {
                continue;
            }
            if let (Some(undated), None) = (&mut *undated, facts.inserted_at) {
                undated.add(id.full(), &value(row.get_ref(columns.inserted)?));
            }
            if !is_due(facts) {
                continue;
            }
            if page.ids.len() + 1 == selection.limit {
                let inserted = value(row.get_ref(columns.inserted)?);
                page.next = Some(Key { inserted, id: id.clone() });
                page.ids.push(id);
                return Ok(());
            }
            page.ids.push(id);
        }
        Ok(())
    }

    /// Whether there is any record with one of these statuses: mostly there is none.
    fn has_any(&self, statuses: &[Status]) -> Result<bool> {
        let mut statement = self.prepare(&query::any(&self.table, statuses))?;
        statement.exists([]).map_err(|error| self.explain(&error, "read"))
    }

    /// The records that no age can be told of, as far as they do not sort into the window; `None`
    /// if the selection does not go by age, or goes on with an earlier one.
    fn undated(&self, selection: &Selection) -> Result<Option<Undated>> {
        let goes_by_age =
            matches!(&selection.window, Window::Inserted { from, .. } if from.0 > i64::MIN);
        if !goes_by_age || selection.after.is_some() {
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
        let last = statement.column_count() - 1;
        let columns = statement.column_names().take(last).map(String::from).collect::<Arc<[_]>>();
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

/// What a selection comes to.
#[derive(Default)]
struct Gathered {
    page: Page,
    /// Where it goes by age.
    undated: Option<Undated>,
    /// Why records without a usable id are not tried.
    unusable: Vec<String>,
}

/// Where [`query::facts`] has what a policy goes by.
struct FactColumns {
    id: Vec<usize>,
    inserted: usize,
    status: Option<usize>,
    failures: Option<usize>,
    last_failure: Option<usize>,
}

impl FactColumns {
    fn new(table: &Table, window: &Window) -> Self {
        let columns = query::fact_columns(table, window);
        let place = |name: &str| columns.iter().position(|column| column.name == name);
        let of = |column: &Option<Column>| column.as_ref().and_then(|it| place(&it.name));
        Self {
            id: table.id.iter().filter_map(|column| place(&column.name)).collect(),
            inserted: place(&table.inserted.name).unwrap_or_default(),
            status: of(&table.statuses.column),
            failures: of(&table.failures),
            last_failure: of(&table.last_failure),
        }
    }

    /// The id of a row; the error says why it has none.
    fn id(&self, row: &Row<'_>) -> rusqlite::Result<Result<Id, &'static str>> {
        if let [index] = self.id[..] {
            return Ok(id_part(row.get_ref(index)?));
        }
        let parts = self.id.iter().map(|index| row.get_ref(*index).map(id_part));
        let parts: Result<Vec<_>, _> =
            parts.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().collect();
        Ok(parts.map(composed))
    }

    fn facts<'a>(&self, table: &Table, id: &'a Id, row: &Row<'_>) -> rusqlite::Result<Facts<'a>> {
        let get = |index: Option<usize>| index.map(|index| row.get_ref(index)).transpose();
        let inserted_at = date(&table.dates, row.get_ref(self.inserted)?);
        let failures = get(self.failures)?.map(|found| count(&value(found)));
        let last_failure = get(self.last_failure)?.map(|found| date(&table.other_dates, found));
        let failed = has_failed(failures, last_failure, inserted_at);
        let found = get(self.status)?.unwrap_or(ValueRef::Null);
        let status = table.statuses.status(&|mapped| is_same(found, mapped), true, failed);
        Ok(Facts {
            id,
            status,
            inserted_at,
            failures: failures.unwrap_or(0),
            last_failure_at: last_failure.flatten(),
        })
    }
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

fn is_same(found: ValueRef<'_>, mapped: &Value) -> bool {
    match (found, mapped) {
        (ValueRef::Text(found), Value::Text(mapped)) => found == mapped.as_bytes(),
        (ValueRef::Text(_), _) => false,
        (found, mapped) => value(found) == *mapped,
    }
}

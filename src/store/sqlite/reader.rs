//! Reading: what is due, one record afresh, all of them, and how many there are.

use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use rusqlite::types::ValueRef;
use rusqlite::{Params, Row, ToSql};

use super::database::{is_busy, words};
use super::table::count;
use super::{Database, id_param, query, value, waiting};
use crate::instant::Instant;
use crate::record::{self, Facts, Id, Key, Record, Status};
use crate::selection::{Order, Selection, Window};
use crate::store::{Count, Found, Page, Reader};

impl Reader for Database {
    fn due(
        &mut self,
        selection: &Selection,
        is_due: &mut dyn FnMut(Facts<'_>) -> bool,
    ) -> Result<Page> {
        let is_first = selection.after.is_none() && selection.condition.is_none();
        if is_first && !self.has_any(&selection.statuses)? {
            return Ok(Page::default());
        }
        if let Some(condition) = &selection.condition {
            self.check(condition)?;
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
            self.report_undated(undated);
        }
        Ok(gathered.page)
    }

    fn read(&mut self, id: &Id) -> Result<Found> {
        let sql = query::by_id(&self.table);
        let mut found = self.records(&sql, [id_param(id)], 2)?;
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
        self.each_record(&sql, [], each)
    }

    /// How many rows there are of each status, as it is written in the table, and of each age.
    pub fn census(&mut self, bounds: &[i64], now: Instant) -> Result<Vec<Count>> {
        let sql = query::census(&self.table, bounds, now);
        let mut statement = self.prepare(&sql)?;
        let counts = statement.query_map([], |row| {
            Ok(Count {
                status: value(row.get_ref(0)?).to_string(),
                band: row.get::<_, Option<i64>>(1)?.and_then(|band| usize::try_from(band).ok()),
                rows: u64::try_from(row.get::<_, i64>(2)?).unwrap_or(0),
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

    fn report_undated(&mut self, undated: Undated) {
        let Undated { count, first: Some((id, inserted)) } = undated else { return };
        let column = &self.table.inserted.name;
        let (are, their) = if count == 1 { (" is", "its") } else { ("s are", "their") };
        self.report_once(format!(
            "{count} pending record{are} not tried, because {their} {column} cannot be read as a \
             date; one is {id} with {inserted}"
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
            params.iter().map(|(name, value)| (*name, value as &dyn ToSql)).collect();
        let mut rows = statement.query(&params[..])?;
        while let Some(row) = rows.next()? {
            let id = match id(row.get_ref(0)?) {
                Ok(id) => id,
                Err(problem) => {
                    unusable.push(problem);
                    continue;
                }
            };
            let facts = facts(&id, row)?;
            if let (Some(undated), None) = (&mut *undated, facts.inserted_at) {
                undated.add(row)?;
            }
            if !is_due(facts) {
                continue;
            }
            if page.ids.len() + 1 == selection.limit {
                page.next = Some(Key { inserted: value(row.get_ref(1)?), id: id.clone() });
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

    /// Makes sure that a condition of the user's cannot widen what it is to narrow.
    fn check(&self, condition: &str) -> Result<()> {
        let statement = self.connection.prepare(&query::alone(&self.table, condition));
        let parameters = match &statement {
            Ok(statement) => statement.parameter_count(),
            Err(error) if is_busy(error) => return Err(self.explain(error, "read")),
            Err(error) => bail!("{condition:?} is no condition in SQL: {}", words(error)),
        };
        ensure!(parameters == 0, "{condition:?} is no condition: write values, not parameters");
        Ok(())
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
            undated.add(row).map_err(explain)?;
        }
        Ok(Some(undated))
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
        let columns = statement.column_names().map(String::from).collect::<Arc<[_]>>();
        let mut rows = statement.query(params).map_err(explain)?;
        while let Some(row) = rows.next().map_err(explain)? {
            let values = (0..columns.len())
                .map(|index| row.get_ref(index).map(value))
                .collect::<rusqlite::Result<_>>()
                .map_err(explain)?;
            match self.table.record(record::Row { columns: columns.clone(), values }) {
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

/// Records whose insertion date is none.
#[derive(Default)]
struct Undated {
    count: u64,
    /// The id and the date of one of them, as messages show them.
    first: Option<(String, String)>,
}

impl Undated {
    fn add(&mut self, row: &Row<'_>) -> rusqlite::Result<()> {
        self.count += 1;
        if self.first.is_none() {
            self.first = Some((value(row.get_ref(0)?).shown(), value(row.get_ref(1)?).shown()));
        }
        Ok(())
    }
}

/// What a policy goes by, from the columns of [`query::facts`].
fn facts<'a>(id: &'a Id, row: &Row<'_>) -> rusqlite::Result<Facts<'a>> {
    let (mut failures, mut last_failure_at) = (0, None);
    if row.as_ref().column_count() > 3 {
        failures = count(&value(row.get_ref(3)?));
        last_failure_at = instant(row.get_ref(4)?);
    }
    let status = match row.get_ref(2)? {
        ValueRef::Text(name) => Status::from_name(&String::from_utf8_lossy(name)),
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Blob(_) => {
            Status::Foreign
        }
    };
    let inserted_at = instant(row.get_ref(1)?);
    Ok(Facts { id, status, inserted_at, failures, last_failure_at })
}

/// As [`record::Value::instant`], without a copy of the text.
fn instant(found: ValueRef<'_>) -> Option<Instant> {
    match found {
        ValueRef::Text(text) => Instant::parse(std::str::from_utf8(text).ok()?),
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Blob(_) => {
            value(found).instant()
        }
    }
}

fn id(value: ValueRef<'_>) -> Result<Id, String> {
    match value {
        ValueRef::Integer(id) => Ok(Id::Integer(id)),
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Id::Text(text.into())),
            Err(_) => Err("a pending record is not tried, because its id is not UTF-8".into()),
        },
        ValueRef::Null => Err("a pending record is not tried, because its id is NULL".into()),
        ValueRef::Real(_) | ValueRef::Blob(_) => Err(format!(
            "a pending record is not tried, because its id is a {}; ids are integers or text",
            value.data_type()
        )),
    }
}

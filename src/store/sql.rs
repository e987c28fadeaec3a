//! The reads of whole tables in SQL, as far as databases differ in the spelling only: which rows are
//! pending, a scan, the inspection of a table.

use anyhow::Result;

use super::acting::ActingAs;
use super::inspection::is_lasting;
use super::table::{Cells, Column, EVERY, Table, quote};
use super::{Count, Database, Inspection, StatusValue, Survey, Unread};
use crate::query::{Order, Query, Window};
use crate::record::{Record, Status, Value};
use crate::time::{DAY, Instant};

/// What holds for no row.
const NEVER: &str = "1 = 0";

/// The spelling of a database.
pub struct Dialect {
    /// A value. Statuses and reckoned instants are not bound: a partial index serves literals only.
    pub literal: fn(&Value) -> String,
    /// A column, as it is selected, compared byte by byte whatever its collation.
    pub cell: fn(&Column) -> String,
    /// Whether a partial index serves only what repeats its condition word by word.
    pub is_verbatim: bool,
}

/// A database that speaks SQL: how it runs a statement, and what it has in its own way.
pub trait SqlDatabase: Database {
    /// Takes the rights that its files are worked on with, for as long as the value lives.
    fn take_rights(&self) -> Result<Option<ActingAs>> {
        Ok(None)
    }

    /// Hands each row of a statement to `each` as it comes in.
    fn each_row(&mut self, sql: &str, each: &mut dyn FnMut(&Table, &dyn Cells)) -> Result<()>;

    /// Hands the records behind `from`, as they are shown, to `each`, as long as that says true.
    fn each_record(&mut self, from: &str, each: &mut dyn FnMut(Record) -> bool) -> Result<()>;

    /// See [`Survey::census`].
    fn count_by_age(&mut self, bounds: &[i64], now: Instant) -> Result<Vec<Count>>;

    /// What else there is to say of it.
    fn aside(&mut self, unread: &mut Unread) -> String;

    /// Inspects what follows on the statuses.
    fn inspect_further(&mut self, by_count: bool, found: &mut Inspection);
}

impl<D: SqlDatabase> Survey for D {
    fn scan(
        &mut self,
        statuses: &[Status],
        order: Order,
        each: &mut dyn FnMut(Record) -> Result<()>,
    ) -> Result<()> {
        let _acting = self.take_rights()?;
        let table = self.table();
        let condition = match statuses {
            [] => table.of_the_queue().into(),
            statuses => table.of_statuses(statuses),
        };
        let from = format!("FROM {} WHERE {condition} {}", table.sql, table.order_by(order));
        let mut result = Ok(());
        self.each_record(&from, &mut |record| {
            if statuses.is_empty() || statuses.contains(&record.status) {
                result = each(record);
            }
            result.is_ok()
        })?;
        result
    }

    fn census(&mut self, bounds: &[i64], now: Instant) -> Result<Vec<Count>> {
        let _acting = self.take_rights()?;
        self.count_by_age(bounds, now)
    }

    fn any_mapped(&mut self) -> Result<bool> {
        let _acting = self.take_rights()?;
        let sql = self.table().any(&self.table().status_in(&Status::OURS));
        let mut any = false;
        self.each_row(&sql, &mut |_, _| any = true)?;
        Ok(any)
    }

    fn inspect(&mut self, by_count: bool) -> Result<Inspection> {
        let _acting = self.take_rights()?;
        let mut found = Inspection { missing: Some(Vec::new()), ..Inspection::default() };
        let sql = self.table().dated(&self.table().pending());
        // Those before one that cannot be read are taken into account.
        let read = self.each_row(&sql, &mut |table, row| found.pending.add(table, row));
        found.pending.is_cut = read.is_err();
        found.unread.or_nothing("the pending records", read);
        found.aside = self.aside(&mut found.unread);
        found.rows = found.unread.or_nothing("the number of rows", rows(self).map(Some));
        found.values = found.unread.or_nothing("the statuses", status_values(self));
        self.inspect_further(by_count, &mut found);
        Ok(found)
    }
}

fn rows(database: &mut impl SqlDatabase) -> Result<u64> {
    let sql = format!("SELECT count(*) FROM {}", database.table().sql);
    let mut rows = 0;
    database.each_row(&sql, &mut |_, row| rows = row.count(0))?;
    Ok(rows)
}

fn status_values(database: &mut impl SqlDatabase) -> Result<Vec<StatusValue>> {
    let Table { sql, statuses, dialect, .. } = database.table();
    let Some(column) = statuses.column.clone() else { return Ok(Vec::new()) };
    let cell = (dialect.cell)(&column);
    let sql = format!("SELECT {cell}, count(*) FROM {sql} GROUP BY 1 ORDER BY 2 DESC");
    let mut values = Vec::new();
    database.each_row(&sql, &mut |table, row| {
        values.push(StatusValue::new(table, &row.value(&column, 0), row.count(1)));
    })?;
    Ok(values)
}

/// An id that more than one row has.
pub fn duplicate(database: &mut impl SqlDatabase) -> Result<Option<String>> {
    let table = database.table();
    let (cells, ids, has_ids) = (table.cells(&table.id), table.ids(), table.has_ids());
    let sql = format!(
        "SELECT {cells} FROM {} WHERE {has_ids} GROUP BY {ids} HAVING count(*) > 1 LIMIT 1",
        table.sql
    );
    let mut found = None;
    database.each_row(&sql, &mut |table, row| found = Some(table.shown_id(row)))?;
    Ok(found)
}

/// The search for all pending records that have an age.
pub fn recent() -> Query {
    Query {
        window: Window::Inserted { from: Instant(DAY), until: None },
        statuses: Status::PENDING.to_vec(),
        order: Order::Newest,
        after: None,
        up_to: None,
        limit: 1,
    }
}

impl Table {
    /// Rows with one of these statuses, whichever queue they belong to; all rows if there is no
    /// status column.
    pub fn status_in(&self, statuses: &[Status]) -> String {
        let Some(column) = &self.statuses.column else {
            let any = statuses.iter().any(|status| status.is_pending());
            return if any { EVERY.into() } else { NEVER.into() };
        };
        let values = self.statuses.all_values(statuses);
        let values: Vec<_> = values.into_iter().map(self.dialect.literal).collect();
        let column = quote(&column.name);
        match &values[..] {
            [] => NEVER.into(),
            // One alone is a narrower search than a list of one.
            [value] if self.dialect.is_verbatim => format!("{column} = {value}"),
            values => format!("{column} IN ({})", values.join(", ")),
        }
    }

    /// Pending rows of the queue.
    pub fn pending(&self) -> String {
        self.of_statuses(&Status::PENDING)
    }

    /// Rows of the queue with one of these statuses, or more of them: where the status column does
    /// not tell NEW from ERROR, the reader has the last word.
    pub fn of_statuses(&self, statuses: &[Status]) -> String {
        let mut terms = Vec::new();
        // Pending ones are asked for in words that a partial index knows.
        let repeats = self.dialect.is_verbatim && statuses.iter().all(|status| status.is_pending());
        if repeats {
            terms.push(self.status_in(&Status::PENDING));
        }
        if !repeats || self.statuses.tell() && statuses != Status::PENDING {
            terms.push(self.status_in(statuses));
        }
        terms.extend(self.condition.clone());
        if terms.len() > 1 {
            terms.retain(|term| term != EVERY);
        }
        terms.join(" AND ")
    }

    /// The condition of an index on pending rows: none, if what makes them so is nothing that an
    /// index can have.
    pub fn lasting_condition(&self) -> Option<String> {
        let condition = match &self.statuses.column {
            Some(_) => Some(self.status_in(&Status::PENDING)),
            None => self.condition.clone().filter(|it| is_lasting(it)),
        };
        condition.map(|it| it.replace("\n)", ")"))
    }

    /// Columns, as they are selected.
    pub fn cells<'a>(&self, columns: impl IntoIterator<Item = &'a Column>) -> String {
        columns.into_iter().map(self.dialect.cell).collect::<Vec<_>>().join(", ")
    }

    /// What selects the ids and the insertion dates of rows.
    pub fn dated(&self, condition: &str) -> String {
        let cells = self.cells(self.id.iter().chain([&self.inserted]));
        format!("SELECT {cells} FROM {} WHERE {condition}", self.sql)
    }
}

/// A bound for each count of failures, in SQL: the first holds for what is no count or below 1, the
/// last for all that are higher.
pub fn by_count(count: &str, is_none: &str, bounds: &[String]) -> String {
    match bounds {
        [] => "NULL".into(),
        [only] => only.clone(),
        [first, .., last] => {
            let bounds = bounds.iter().zip(1..);
            let arms: String = bounds.map(|(at, f)| format!(" WHEN {f} THEN {at}")).collect();
            format!("CASE WHEN {is_none} THEN {first} ELSE CASE {count}{arms} ELSE {last} END END")
        }
    }
}

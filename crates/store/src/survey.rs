//! The survey of a table: the reads of commands, and the inspection for `check`.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use anyhow::{Result, ensure};
use backlog_schedule::{Facts, Id, Instant, Order, Query, Status, Value, Window, counted};

use super::engine::{Engine, Index, QueryPlan};
use super::error::DbResult;
use super::sql::recent;
use super::table::{Cells, FactReader, Membership, RecordReader, Table, is_no_due_date, names};
use crate::database::{EachRecord, StatusCount, Survey};
use crate::engine::SqlDatabase;
use crate::inspection::{Inspection, StatusValueCount, Undated};
use crate::store::ReadResult;

impl<E: Engine> Survey for SqlDatabase<E> {
    fn table(&self) -> &Table {
        &self.table
    }

    fn label(&self) -> String {
        self.engine.label()
    }

    fn scan(
        &mut self,
        statuses: &[Status],
        order: Order,
        most: Option<u64>,
        each: EachRecord<'_>,
    ) -> Result<()> {
        let limit = most.map_or_else(String::new, |most| format!(" LIMIT {}", most.min(UNLIMITED)));
        let rows = self.scan_rows(statuses, order, &limit, each)?;
        // Some rows were left out: their ids are unusable, or they have other statuses after all.
        if let Some(most) = most.filter(|most| *most > 0 && rows == Some(*most)) {
            let others = format!(" LIMIT {UNLIMITED} OFFSET {most}");
            self.scan_rows(statuses, order, &others, each)?;
        }
        Ok(())
    }

    fn read_whole(&mut self, id: &Id) -> Result<ReadResult> {
        let read = self.read_one(id, true);
        self.explain_read(read)
    }

    fn ids_from(&mut self, prefix: &str) -> Result<Vec<String>> {
        let found = self.find_ids(prefix);
        self.explain_read(found)
    }

    fn census(&mut self, bounds: &[i64], now: Instant) -> Result<Vec<StatusCount>> {
        let Self { engine, table, .. } = self;
        let [failures, last_failure] = table.failure_columns();
        let status = table.statuses.column.as_ref();
        let selected = [None, status, failures, last_failure, None, Some(&table.inserted)];
        let names = selected.iter().map(|column| column.map_or("", |column| &column.name));
        let reader = FactReader::new(table, &names);
        // If the database counts by date, several counts belong to one age.
        let mut counts = BTreeMap::new();
        let read = engine.rows(&table.census(bounds, now), &[], |row| {
            let (membership, none) = (row.membership(0), Id::Integer(0));
            let Facts { status, inserted_at, .. } = reader.facts(&none, row, membership);
            let within = |at: Instant| {
                let is_within = |bound: &i64| at >= now.saturating_sub(*bound);
                bounds.iter().position(is_within).unwrap_or(bounds.len())
            };
            let band = row.number(4).and_then(|band| usize::try_from(band).ok());
            let band = band.or_else(|| inserted_at.map(within));
            let text = reader.status_text(status, row, membership);
            let count = StatusCount { status, text, band, rows: 0 };
            // An unmapped value may be spelled like the name of a status.
            let key = (count.text.clone(), count.status == Status::Foreign, band);
            counts.entry(key).or_insert(count).rows += row.count(6);
            true
        });
        self.explain_read(read)?;
        Ok(counts.into_values().collect())
    }

    fn any_mapped(&mut self) -> Result<bool> {
        let any = self.engine.any(&self.table.any(&self.table.status_in(&Status::OURS)));
        self.explain_read(any)
    }

    fn inspect(&mut self, by_count: bool) -> Result<Inspection> {
        let mut found = Inspection { missing: Some(Vec::new()), ..Inspection::default() };
        let sql = self.table.ids_and_dates(&self.table.pending());
        // Rows before an unreadable one count.
        let read = self.engine.rows(&sql, &[], |row| {
            found.pending.add(&self.table, row);
            true
        });
        found.pending.is_incomplete = read.is_err();
        let read = self.explain_read(read);
        found.unread.or_default("the pending records", read);
        let due = self.unread_due_dates();
        found.pending.without_due_date =
            found.unread.or_default("the due dates", self.explain_read(due));
        let rows = format!("SELECT count(*) FROM {}", self.table.sql);
        let rows = self.engine.all(&rows, &[], |row| row.count(0)).map(|mut counts| counts.pop());
        found.rows = found.unread.or_default("the number of rows", self.explain_read(rows));
        let values = self.status_values();
        found.values = found.unread.or_default("the statuses", self.explain_read(values));
        self.engine.inspect(&self.table, &mut found);
        if !self.is_queue {
            let Self { engine, table, .. } = self;
            let triggers = engine.triggers(table);
            let missing = missing_indexes(engine, table, by_count);
            let duplicate = engine.all(&table.duplicate(), &[], |row| table.display_id(row));
            let duplicate = duplicate.map(|mut ids| ids.pop());
            found.triggers = found.unread.or_default("the triggers", self.explain_read(triggers));
            found.missing = found.unread.or_default("indexes", self.explain_read(missing));
            found.duplicate = found.unread.or_default("the ids", self.explain_read(duplicate));
            let occupied = self.occupied();
            found.occupied = found.unread.or_default("new records", self.explain_read(occupied));
        }
        Ok(found)
    }

    fn deletion(&mut self, act: &str) -> Result<Option<String>> {
        if !self.table.deletes_succeeded {
            return Ok(None);
        }
        let dependents = match self.is_queue {
            true => Ok(Vec::new()),
            false => self.engine.dependents(&self.table),
        };
        let dependents = self.explain_read(dependents)?;
        let name = &self.table.name;
        ensure!(
            !dependents.iter().any(|found| found == OWN_CASCADE),
            "{act} of {name}, and a foreign key from {name} to itself with ON DELETE CASCADE would delete other records \
             with it, also pending ones: write ON DELETE SET NULL there, or keep the rows"
        );
        let others = match &dependents[..] {
            [] => String::new(),
            all => {
                let named = |found: &String| match found.starts_with(':') {
                    true => format!("{name}{found}"),
                    false => found.clone(),
                };
                let all: Vec<_> = all.iter().map(named).collect();
                format!(", and changes rows of other tables by ON DELETE ({})", all.join(", "))
            }
        };
        Ok(Some(format!("{act} of {name}{others}")))
    }

    fn missing_index(&mut self, query: &Query, suffix: &'static str) -> Result<Option<String>> {
        let Self { engine, table, .. } = self;
        let status = table.statuses.column.iter();
        let columns = names(status.chain([&table.inserted]));
        let index = Index { kind: "INDEX", suffix, columns, condition: None };
        let created = match engine.plan(table, query) {
            Ok(QueryPlan { uses_index: false, .. }) => engine.create_index(table, &index),
            plan => plan.map(|_| None),
        };
        self.explain_read(created)
    }

    fn shared_with(&mut self, other: &Table) -> Result<Option<(u64, String)>> {
        let Self { engine, table, .. } = self;
        let sql =
            table.ids_and_dates(&format!("({}\n) AND ({}\n)", table.pending(), other.pending()));
        let mut shared = None;
        let read = engine.rows(&sql, &[], |row| {
            shared.get_or_insert_with(|| (0, table.display_id(row))).0 += 1;
            true
        });
        self.explain_read(read)?;
        Ok(shared)
    }
}

/// The dependent of a table whose own rows are deleted with others.
const OWN_CASCADE: &str = ": CASCADE";

/// A LIMIT that no table reaches.
const UNLIMITED: u64 = 1 << 62;

impl<E: Engine> SqlDatabase<E> {
    /// Scans rows. Returns their number, or `None` if `each` ended the scan.
    fn scan_rows(
        &mut self,
        statuses: &[Status],
        order: Order,
        limit: &str,
        each: EachRecord<'_>,
    ) -> Result<Option<u64>> {
        let Self { engine, table, .. } = self;
        let condition = match statuses {
            [] => table.queue_rows(),
            statuses => table.rows_with_status(statuses),
        };
        let (reader, name, order) =
            (RecordReader::for_display(table), &table.sql, table.order_by(order));
        let columns = reader.sql();
        let sql = format!("SELECT {columns} FROM {name} WHERE {condition} {order}{limit}");
        let (mut rows, mut unusable, mut result) = (0, 0, Ok(ControlFlow::Continue(())));
        let read = engine.search(&sql, &[], |row| {
            rows += 1;
            let is_wanted = |status| statuses.is_empty() || statuses.contains(&status);
            match reader.record(row, 0) {
                None => unusable += 1,
                Some(record) if is_wanted(record.status) => result = each(record),
                Some(_) => {}
            }
            matches!(result, Ok(ControlFlow::Continue(())))
        });
        self.explain_read(read)?;
        if unusable > 0 {
            let records = counted(unusable, "record");
            log::error!(
                "{records} left out, because the id is not usable; `backlog check` names one"
            );
        }
        result.map(|flow| flow.is_continue().then_some(rows))
    }

    /// Columns that attempts write, and in which every new record has a value already.
    fn occupied(&mut self) -> DbResult<Vec<(&'static str, String)>> {
        let Self { engine, table, .. } = self;
        let new = table.due_rows(&[Status::New]);
        let mut occupied = Vec::new();
        if !table.statuses.distinguish_failed() || !engine.any(&table.any(&new))? {
            return Ok(occupied);
        }
        for (key, column) in [("failures", &table.failures), ("last_error", &table.last_error)] {
            let Some(column) = column else { continue };
            let sql = column.sql();
            let is_empty = format!("coalesce(CAST({sql} AS text), '') IN ('', '0')");
            if !engine.any(&table.any(&format!("{new} AND {is_empty}")))? {
                occupied.push((key, column.name.clone()));
            }
        }
        Ok(occupied)
    }

    fn unread_due_dates(&mut self) -> DbResult<Undated> {
        let (mut found, Self { engine, table, .. }) = (Undated::default(), self);
        let Some(due) = table.due_column() else { return Ok(found) };
        let (cells, column) = (table.cells(table.id.iter().chain([due])), due.sql());
        let pending = table.pending();
        let sql =
            format!("SELECT {cells} FROM {} WHERE {pending} AND {column} IS NOT NULL", table.sql);
        engine.rows(&sql, &[], |row| {
            let value = row.value(due, table.id.len());
            if is_no_due_date(&value, &table.other_dates) {
                found.add(&table.display_id(row), &value);
            }
            true
        })?;
        Ok(found)
    }

    fn status_values(&mut self) -> DbResult<Vec<StatusValueCount>> {
        let Self { engine, table, .. } = self;
        let Some(column) = &table.statuses.column else { return Ok(Vec::new()) };
        let (cell, name) = (table.dialect.exact(column), &table.sql);
        let sql = format!("SELECT {cell}, count(*) FROM {name} GROUP BY 1 ORDER BY 2 DESC");
        engine.all(&sql, &[], |row| {
            let (value, rows) = (row.value(column, 0), row.count(1));
            let status = table.statuses.status(&|mapped| *mapped == value, Membership::Queue, None);
            let text = value.to_string();
            let is_like = |value: &&Value| value.to_string().eq_ignore_ascii_case(text.trim());
            let mut mapped = table.statuses.all_values(&Status::OURS).into_iter();
            let like = mapped.find(is_like).filter(|_| status == Status::Foreign);
            StatusValueCount {
                literal: value.literal(),
                status,
                rows,
                like: like.map(Value::literal),
            }
        })
    }
}

fn missing_indexes(
    engine: &mut impl Engine,
    table: &Table,
    by_count: bool,
) -> DbResult<Option<Vec<(&'static str, String)>>> {
    let condition = table.index_condition();
    let mut missing = Vec::new();
    let mut lacks = |finds, kind, suffix, columns, condition| {
        missing.push((finds, Index { kind, suffix, columns, condition }));
    };
    if !engine.plan(table, &recent())?.uses_index {
        let others = table.id.iter().filter(|column| column.name != table.inserted.name);
        let date = Some(&table.inserted).filter(|column| !column.is_expression);
        let columns = names(date.into_iter().chain(others));
        lacks("pending records", "INDEX", "backlog", columns, condition.clone());
    }
    let in_order = Query { window: Window::All, order: Order::Column, ..recent() };
    if table.order.is_some() && engine.plan(table, &in_order)?.sorts {
        let finds = "pending records in their order";
        let columns = table.order_terms(Order::Column);
        lacks(finds, "INDEX", "backlog_order", columns, condition.clone());
    }
    let by_count = by_count && table.due_column().is_none();
    if by_count && let Some(columns) = engine.failures_index_columns(table)? {
        let finds = "records that are due by their count of failures";
        lacks(finds, "INDEX", "backlog_waiting", columns, condition);
    }
    if !engine.has_id_index(table)? {
        lacks("a record by its id", "UNIQUE INDEX", "backlog_id", table.ids(), None);
    }
    let mut created = Vec::new();
    for (finds, index) in missing {
        let Some(statement) = engine.create_index(table, &index)? else { return Ok(None) };
        created.push((finds, statement));
    }
    Ok(Some(created))
}

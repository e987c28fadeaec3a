//! The SQL with which the SQLite store writes, all of it. Every statement is guarded: a row that is
//! not what it was expected to be any more is left alone.

use rusqlite::types::Value as Param;

use super::Change;
use super::column::Column;
use super::query::has_id;
use super::sql::{id_param, param, quote};
use super::table::{Effect, Effects, Table};
use crate::date::Zone;
use crate::mapping::Assigned;
use crate::record::{Counter, Record, Settlement, Status, Step, Value};

/// A statement with its parameters.
pub struct Statement {
    pub sql: String,
    pub params: Vec<Param>,
}

/// What a column is set to.
enum Set {
    To(Param),
    Add(i64),
}

/// The columns that are to be set, each once.
struct Sets<'a>(Vec<(&'a Column, Set)>);

impl<'a> Sets<'a> {
    fn set(&mut self, column: &'a Column, set: Set) {
        match self.0.iter_mut().find(|(it, _)| it.name == column.name) {
            Some((_, before)) => *before = set,
            None => self.0.push((column, set)),
        }
    }

    fn effects(&mut self, effects: &'a [Effect], settlement: &Settlement, zone: &Zone) {
        let error = match &settlement.counter {
            Counter::Set { last_error, .. } => Some(last_error),
            Counter::AsBefore | Counter::Reset => None,
        };
        for Effect { column, to } in effects {
            let set = match (to, error) {
                (Assigned::Constant(value), _) => Set::To(param(value)),
                (Assigned::Now, _) => Set::To(param(&column.spelling.write(settlement.at, zone))),
                (Assigned::Error, Some(error)) => Set::To(Param::Text(column.cut(error))),
                // There is none, so the last one stays for people to read.
                (Assigned::Error, None) => continue,
                (Assigned::Add(number), _) => Set::Add(*number),
            };
            self.set(column, set);
        }
    }
}

impl Table {
    /// What writes a change. It changes no row, or the one that is meant. If there is nothing to
    /// write, it asks whether that row is there.
    pub fn write(&self, change: &Change) -> Statement {
        let step = change.settlement.step;
        if let (Step::Succeeded, Effects::Delete) = (step, &self.on_success) {
            let (guard, params) = self.guard(change.record, change.charged);
            return Statement {
                sql: format!("DELETE FROM {} WHERE {guard}", quote(&self.name)),
                params,
            };
        }
        let sets = self.sets(change);
        if sets.0.is_empty() {
            return self.as_expected(change.record, change.charged);
        }
        let mut params = Vec::with_capacity(sets.0.len() + 4);
        let mut terms = Vec::with_capacity(sets.0.len());
        for (column, set) in sets.0 {
            let name = quote(&column.name);
            terms.push(match set {
                Set::To(value) => {
                    params.push(value);
                    format!("{name} = ?")
                }
                Set::Add(number) => format!("{name} = coalesce({name}, 0) + {number}"),
            });
        }
        let (guard, guard_params) = self.guard(change.record, change.charged);
        params.extend(guard_params);
        let sql = format!("UPDATE {} SET {} WHERE {guard}", quote(&self.name), terms.join(", "));
        Statement { sql, params }
    }

    /// Whether the row is still there for [`Self::write`] to change.
    pub fn as_expected(&self, record: &Record, charged: bool) -> Statement {
        let (guard, params) = self.guard(record, charged);
        Statement { sql: format!("SELECT 1 FROM {} WHERE {guard}", quote(&self.name)), params }
    }

    fn sets(&self, change: &Change) -> Sets<'_> {
        let Change { record, settlement, .. } = change;
        let mut sets = Sets(Vec::new());
        let before =
            |column: &Column| Set::To(param(record.row.get(&column.name).unwrap_or(&Value::Null)));
        if let Some(column) = &self.statuses.column {
            let value = self.statuses.value(settlement.status(record.status));
            let set = match (settlement.step, value) {
                // As it was to the letter, where several values mean the same.
                (Step::Undone, _) | (_, None) => before(column),
                (_, Some(value)) => Set::To(param(value)),
            };
            sets.set(column, set);
        }
        match &settlement.counter {
            Counter::AsBefore => {
                for column in self.counter_columns() {
                    sets.set(column, before(column));
                }
                if settlement.step == Step::Renewed && !self.statuses.tell() {
                    // NEW is then what has not failed: at least, there is nothing to wait after.
                    if let Some(last_failure) = &self.last_failure {
                        sets.set(last_failure, self.no_failure(last_failure, record));
                    }
                }
            }
            Counter::Reset => {
                if let Some(column) = &self.failures {
                    sets.set(column, Set::To(Param::Integer(0)));
                }
                if let Some(column) = &self.last_failure {
                    sets.set(column, self.no_failure(column, record));
                }
            }
            Counter::Set { failures, last_failure_at, last_error } => {
                if let Some(column) = &self.failures {
                    sets.set(column, Set::To(Param::Integer((*failures).into())));
                }
                if let Some(column) = &self.last_failure {
                    let value = column.spelling.write(*last_failure_at, &self.dates.zone);
                    sets.set(column, Set::To(param(&value)));
                }
                if let Some(column) = &self.last_error {
                    sets.set(column, Set::To(Param::Text(column.cut(last_error))));
                }
            }
        }
        let zone = &self.dates.zone;
        match (settlement.step, &self.on_success) {
            (Step::Succeeded, Effects::Set(effects)) => sets.effects(effects, settlement, zone),
            (Step::Failed, _) => sets.effects(&self.on_failure, settlement, zone),
            (Step::Archived, _) => {
                if matches!(settlement.counter, Counter::Set { .. }) {
                    sets.effects(&self.on_failure, settlement, zone);
                }
                sets.effects(&self.on_archive, settlement, zone);
            }
            (Step::Begun | Step::Undone | Step::Renewed | Step::Succeeded, _) => {}
        }
        sets
    }

    /// What the column of the last failure holds where there was none: NULL, or if that cannot be,
    /// the insertion date.
    fn no_failure(&self, column: &Column, record: &Record) -> Set {
        let inserted_at = record.inserted_at.filter(|_| column.not_null);
        let value = inserted_at.map(|at| column.spelling.write(at, &self.dates.zone));
        Set::To(value.as_ref().map_or(Param::Null, param))
    }

    /// The condition that a row still is the record, and still as it was read, or as the charge
    /// left it. Another row that got the id of a deleted one has another insertion date.
    fn guard(&self, record: &Record, charged: bool) -> (String, Vec<Param>) {
        let mut terms = vec![has_id(self)];
        let mut params: Vec<_> = record.id.parts().iter().map(id_param).collect();
        if let Some(column) = &self.statuses.column {
            let value = match self.statuses.value(Status::Error) {
                Some(value) if charged => value,
                _ => record.row.get(&column.name).unwrap_or(&Value::Null),
            };
            terms.push(format!("{} IS ?", quote(&column.name)));
            params.push(param(value));
        }
        // The queue's condition itself is not asked again: it may go by the time or by other rows.
        // What it reads in this row must be as it was, but for what the charge has written.
        let written = || self.counter_columns().chain(&self.statuses.column);
        let is_charged = |column: &Column| written().any(|it| it.name == column.name);
        for column in self.condition_columns.iter().filter(|it| !(charged && is_charged(it))) {
            terms.push(format!("backlog_value({}) IS ?", quote(&column.name)));
            params.push(param(record.row.get(&column.name).unwrap_or(&Value::Null)));
        }
        terms.push(format!("backlog_value({}) IS ?", quote(&self.inserted.name)));
        params.push(param(&record.inserted));
        (terms.join(" AND "), params)
    }
}

/// A new pending record with a payload; the id is the database's to give. Its parameters are the
/// payload, the date and the status that is returned, if there is one.
pub fn insert(table: &Table, payload: &Column) -> (String, Option<Param>) {
    let status = table.statuses.value(Status::New).map(param);
    let columns: Vec<_> = [Some(payload), Some(&table.inserted), table.statuses.column.as_ref()]
        .into_iter()
        .flatten()
        .map(|column| quote(&column.name))
        .collect();
    let places = if status.is_some() { "?, ?, ?" } else { "?, ?" };
    let sql =
        format!("INSERT INTO {} ({}) VALUES ({places})", quote(&table.name), columns.join(", "));
    (sql, status)
}

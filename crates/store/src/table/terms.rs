//! Assignments and conditions of a guarded write, as data from which each database makes SQL.

use std::borrow::Cow;

use backlog_schedule::{Counter, Instant, NEVER, Record, Settlement, Status, Transition, Value};

use super::{Column, Effect, Table, distinct};
use crate::date::Zone;
use crate::mapping::Assigned;
use crate::sql::id_param;
use crate::writes::{Guards, RowWrite};

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum WriteVerb {
    Update,
    Delete,
    Select,
}

pub struct Term<'a> {
    pub column: &'a Column,
    pub role: TermRole,
    pub value: Cow<'a, Value>,
}

impl Term<'_> {
    /// Adds this term to the key of a prepared statement, which does not depend on values.
    pub fn shape(&self, shape: &mut String) {
        match self.role {
            TermRole::Id => shape.push('i'),
            TermRole::Guard => shape.push('g'),
            TermRole::Set => shape.push('s'),
            TermRole::Grow(increment) => shape.push_str(&increment.to_string()),
        }
        shape.push_str(&self.column.name);
        shape.push('\0');
    }
}

impl WriteVerb {
    pub fn shape(self) -> char {
        char::from(b'0' + self as u8)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TermRole {
    Id,
    Guard,
    Set,
    /// Adds a number to the column, in which NULL counts as 0. The term has no value.
    Grow(i64),
}

struct Sets<'a>(Vec<Term<'a>>);

impl<'a> Sets<'a> {
    fn set(&mut self, column: &'a Column, role: TermRole, value: Value) {
        let term = Term { column, role, value: Cow::Owned(value) };
        match self.0.iter_mut().find(|other| other.column.name == column.name) {
            Some(before) => *before = term,
            None => self.0.push(term),
        }
    }

    /// Sets a column that the table may lack.
    fn optional(&mut self, column: &'a Option<Column>, to: impl FnOnce(&Column) -> Value) {
        if let Some(column) = column {
            self.set(column, TermRole::Set, to(column));
        }
    }

    fn effects(&mut self, effects: &'a [Effect], settlement: &Settlement, zone: &Zone) {
        let error = match &settlement.counter {
            Counter::Set { last_error, .. } => last_error.as_ref(),
            Counter::AsBefore | Counter::Untouched | Counter::Reset => None,
        };
        for Effect { column, to } in effects {
            let (role, value) = match (to, error) {
                (Assigned::Constant(value), _) => (TermRole::Set, value.clone()),
                (Assigned::Now, _) => (TermRole::Set, column.spelling.write(settlement.at, zone)),
                // `Table::sets` sets the due column.
                (Assigned::Next, _) => continue,
                (Assigned::Error, Some(error)) => {
                    (TermRole::Set, Value::Text(column.truncate(error)))
                }
                // Without an error the last one stays for people to read.
                (Assigned::Error, None) => continue,
                (Assigned::Add(number), _) => (TermRole::Grow(*number), Value::Null),
            };
            self.set(column, role, value);
        }
    }
}

impl Table {
    /// The verb and the terms of a write, ids and guards first.
    pub fn terms<'a>(&'a self, write: &'a RowWrite) -> (WriteVerb, Vec<Term<'a>>) {
        let id = |(column, part)| {
            let value = Cow::Owned(id_param(part));
            Term { column, role: TermRole::Id, value }
        };
        let mut terms: Vec<_> = self.id.iter().zip(write.record.id.parts()).map(id).collect();
        terms.extend(self.guards(write));
        let sets = if self.deletes(write) { Vec::new() } else { self.sets(write).0 };
        let verb = match sets.is_empty() {
            true if self.deletes(write) => WriteVerb::Delete,
            true => WriteVerb::Select,
            false => WriteVerb::Update,
        };
        terms.extend(sets);
        (verb, terms)
    }

    pub fn deletes(&self, write: &RowWrite) -> bool {
        self.deletes_succeeded && write.settlement.transition == Transition::Succeeded
    }

    fn sets<'a>(&'a self, write: &RowWrite) -> Sets<'a> {
        let RowWrite { record, settlement, retry_at, .. } = write;
        let (mut sets, zone) = (Sets(Vec::new()), &self.dates.zone);
        let before = |column: &Column| before(record, column);
        let status = self.statuses.value(settlement.status(record.status));
        let status = status.filter(|_| !self.keeps_status(settlement, record));
        sets.optional(&self.statuses.column, |column| {
            status.cloned().unwrap_or_else(|| before(column))
        });
        match &settlement.counter {
            Counter::AsBefore => {
                for column in self.counter_columns() {
                    sets.set(column, TermRole::Set, before(column));
                }
                if settlement.transition == Transition::Succeeded && self.counts_attempts {
                    let attempts = Value::Integer(record.next_attempt().into());
                    sets.optional(&self.failures, |_| attempts);
                }
                if settlement.transition == Transition::Renewed
                    && !self.statuses.distinguish_failed()
                {
                    // Without a last failure the record has no delay.
                    sets.optional(&self.last_failure, |column| self.no_failure(column, record));
                }
            }
            Counter::Untouched => {}
            Counter::Reset => {
                sets.optional(&self.failures, |_| Value::Integer(0));
                sets.optional(&self.last_failure, |column| self.no_failure(column, record));
            }
            Counter::Set { failures, last_failure_at, last_error } => {
                sets.optional(&self.failures, |_| Value::Integer((*failures).into()));
                sets.optional(&self.last_failure, |column| {
                    column.spelling.write(*last_failure_at, zone)
                });
                sets.optional(&self.last_error, |column| match last_error {
                    Some(text) => Value::Text(column.truncate(text)),
                    None => before(column),
                });
            }
        }
        let due_column = self.due_column().filter(|_| settlement.counter != Counter::Untouched);
        if let Some(column) = due_column {
            let due_at = self.due_at(record, settlement, *retry_at);
            let due_at = due_at.map(|at| self.due_value(column, at));
            sets.set(column, TermRole::Set, due_at.unwrap_or_else(|| before(column)));
        }
        match settlement.transition {
            Transition::Succeeded => sets.effects(&self.on_success, settlement, zone),
            Transition::Failed => sets.effects(&self.on_failure, settlement, zone),
            Transition::Archived => {
                if matches!(settlement.counter, Counter::Set { .. }) {
                    sets.effects(&self.on_failure, settlement, zone);
                }
                sets.effects(&self.on_archive, settlement, zone);
            }
            Transition::Renewed if record.status == Status::Archived => {
                sets.effects(&self.on_restore, settlement, zone);
            }
            Transition::Begun | Transition::Undone | Transition::Renewed => {}
        }
        sets
    }

    /// The new value of a due column, or `None` for the value before the attempt.
    fn due_at(
        &self,
        record: &Record,
        settlement: &Settlement,
        retry_at: Option<Instant>,
    ) -> Option<Instant> {
        match settlement.transition {
            Transition::Begun | Transition::Failed => Some(retry_at.unwrap_or(NEVER)),
            // A restored record is due, even if the application had postponed it.
            Transition::Renewed if settlement.counter == Counter::Reset => {
                let is_later = record.due_at.is_some_and(|due_at| due_at > settlement.at);
                Some(settlement.at).filter(|_| is_later)
            }
            Transition::Renewed => Some(settlement.at),
            Transition::Undone | Transition::Succeeded | Transition::Archived => None,
        }
    }

    /// The value for a due date. In a time that a clock repeats, it is as much later as the clock is set back, because
    /// such a time is read as the first one.
    fn due_value(&self, column: &Column, at: Instant) -> Value {
        let zone = &self.dates.zone;
        let written = column.spelling.write(at, zone);
        match self.other_dates.read(&written) {
            Some(read) if read < at => {
                column.clamp(column.spelling.write(at.saturating_add(at.0 - read.0), zone))
            }
            _ => column.clamp(written),
        }
    }

    /// True if the status value stays as it was read. A row that a condition archives may still have a value of NEW.
    fn keeps_status(&self, settlement: &Settlement, record: &Record) -> bool {
        let value = || self.statuses.column.as_ref().map(|column| before(record, column));
        let is_new =
            || value().is_some_and(|value| self.statuses.values(Status::New).contains(&value));
        settlement.transition == Transition::Undone
            || settlement.transition == Transition::Renewed && is_new()
    }

    /// The value for no last failure: NULL, or the insertion date in a NOT NULL column.
    fn no_failure(&self, column: &Column, record: &Record) -> Value {
        let inserted_at = record.inserted_at.filter(|_| column.not_null);
        inserted_at.map_or(Value::Null, |at| column.spelling.write(at, &self.dates.zone))
    }

    /// The columns that show that a row is the record that was read or charged. A new row with a reused id has another
    /// insertion date. The condition itself may depend on time or other rows, so only its columns count.
    pub fn guard_columns(&self) -> Vec<&Column> {
        let read = self.statuses.column.iter().chain(&self.condition_columns);
        let date = Some(&self.inserted).filter(|column| !column.is_expression);
        // Without a date only the other columns can show that the row is a new one.
        let others = self.counter_columns().chain(&self.payload).filter(|_| self.is_undated);
        distinct(read.chain(date).chain(others))
    }

    /// The column that every charge changes, which distinguishes attempts.
    pub fn mark_column(&self) -> Option<&Column> {
        self.failures
            .as_ref()
            .or(self.last_error.as_ref().filter(|column| column.has_room_for_notes()))
    }

    /// The columns that show that a row still has the charge of an attempt.
    pub fn charge_columns(&self) -> Vec<&Column> {
        distinct(self.guard_columns().into_iter().chain(self.mark_column()))
    }

    pub fn guards_as_read(&self, record: &Record) -> Guards {
        Guards(self.charge_columns().into_iter().map(|column| before(record, column)).collect())
    }

    /// The [`guard_columns`](Self::guard_columns) after a charge, if no trigger changes them.
    pub fn guards_after_charge(&self, record: &Record) -> Guards {
        let status = self.statuses.column.as_ref().map(|column| &column.name);
        let value = |column: &Column| match self.statuses.value(Status::Error) {
            Some(error) if Some(&column.name) == status => error.clone(),
            _ => before(record, column),
        };
        Guards(self.guard_columns().into_iter().map(value).collect())
    }

    fn guards<'a>(&'a self, write: &'a RowWrite) -> impl Iterator<Item = Term<'a>> {
        let RowWrite { record, charged, is_fenced, .. } = write;
        let columns = if *is_fenced { self.charge_columns() } else { self.guard_columns() };
        columns.into_iter().enumerate().filter_map(move |(index, column)| {
            let held = match charged {
                Some(Guards(values)) => values.get(index)?,
                None => record.row.get(&column.name).unwrap_or(&Value::Null),
            };
            Some(Term { column, role: TermRole::Guard, value: Cow::Borrowed(held) })
        })
    }
}

fn before(record: &Record, column: &Column) -> Value {
    record.row.get(&column.name).cloned().unwrap_or(Value::Null)
}

//! Assignments and conditions of a guarded write, as plain data that each engine makes SQL of.

use std::borrow::Cow;

use backlog_schedule::{
    Counter, HOUR, Instant, NEVER, Record, Settlement, Status, Transition, Value,
};

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

/// A term of a guarded write: a column, its role there and the value for that.
pub struct Term<'a> {
    pub column: &'a Column,
    pub role: TermRole,
    pub value: Cow<'a, Value>,
}

impl Term<'_> {
    /// Adds to the shape of a statement what it depends on by this term, whatever the value.
    pub fn shape(&self, shape: &mut String) {
        match self.role {
            TermRole::Id => shape.push('i'),
            TermRole::Guard => shape.push('g'),
            TermRole::Set => shape.push('s'),
            TermRole::Grow(more) => shape.push_str(&more.to_string()),
        }
        shape.push_str(&self.column.name);
        shape.push('\0');
    }
}

impl WriteVerb {
    /// The same by the verb.
    pub fn shape(self) -> char {
        char::from(b'0' + self as u8)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TermRole {
    Id,
    Guard,
    Set,
    /// It grows by so much, NULL being 0, and has no value of its own.
    Grow(i64),
}

/// What is set, each column once.
struct Sets<'a>(Vec<Term<'a>>);

impl<'a> Sets<'a> {
    fn set(&mut self, column: &'a Column, role: TermRole, value: Value) {
        let term = Term { column, role, value: Cow::Owned(value) };
        match self.0.iter_mut().find(|it| it.column.name == column.name) {
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
                // The due column is set with the counters.
                (Assigned::Next, _) => continue,
                (Assigned::Error, Some(error)) => (TermRole::Set, Value::Text(column.cut(error))),
                // There is none, so the last one stays for people to read.
                (Assigned::Error, None) => continue,
                (Assigned::Add(number), _) => (TermRole::Grow(*number), Value::Null),
            };
            self.set(column, role, value);
        }
    }
}

impl Table {
    /// The terms of a statement on the row of a change, ids and guards first.
    pub fn terms<'a>(&'a self, change: &'a RowWrite) -> (WriteVerb, Vec<Term<'a>>) {
        let id = |(column, part)| {
            let value = Cow::Owned(id_param(part));
            Term { column, role: TermRole::Id, value }
        };
        let mut terms: Vec<_> = self.id.iter().zip(change.record.id.parts()).map(id).collect();
        terms.extend(self.expected(change));
        let sets = if self.deletes(change) { Vec::new() } else { self.sets(change).0 };
        let verb = match sets.is_empty() {
            true if self.deletes(change) => WriteVerb::Delete,
            true => WriteVerb::Select,
            false => WriteVerb::Update,
        };
        terms.extend(sets);
        (verb, terms)
    }

    pub fn deletes(&self, change: &RowWrite) -> bool {
        self.deletes_finished && change.settlement.transition == Transition::Succeeded
    }

    fn sets<'a>(&'a self, change: &RowWrite) -> Sets<'a> {
        let RowWrite { record, settlement, retry_at, .. } = change;
        let (mut sets, zone) = (Sets(Vec::new()), &self.dates.zone);
        let before = |column: &Column| before(record, column);
        let status = self.statuses.value(settlement.status(record.status));
        let status = status.filter(|_| !self.keeps_status(settlement, record));
        sets.optional(&self.statuses.column, |it| status.cloned().unwrap_or_else(|| before(it)));
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
                    // NEW is then what has not failed: at least, there is nothing to wait after.
                    sets.optional(&self.last_failure, |it| self.no_failure(it, record));
                }
            }
            Counter::Untouched => {}
            Counter::Reset => {
                sets.optional(&self.failures, |_| Value::Integer(0));
                sets.optional(&self.last_failure, |it| self.no_failure(it, record));
            }
            Counter::Set { failures, last_failure_at, last_error } => {
                sets.optional(&self.failures, |_| Value::Integer((*failures).into()));
                sets.optional(&self.last_failure, |it| it.spelling.write(*last_failure_at, zone));
                sets.optional(&self.last_error, |it| {
                    last_error.as_ref().map_or_else(|| before(it), |text| Value::Text(it.cut(text)))
                });
            }
        }
        let due_column = self.due_column().filter(|_| settlement.counter != Counter::Untouched);
        if let Some(column) = due_column {
            let due_at = self.due_at(record, settlement, *retry_at);
            let due_at = due_at.map(|at| self.written_due(column, at));
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

    /// What a due column is set to; none leaves it as it was before the attempt.
    fn due_at(
        &self,
        record: &Record,
        settlement: &Settlement,
        retry_at: Option<Instant>,
    ) -> Option<Instant> {
        match settlement.transition {
            Transition::Begun | Transition::Failed => Some(retry_at.unwrap_or(NEVER)),
            // Whoever brings a record back wants it tried, also where the application had put it off.
            Transition::Renewed if settlement.counter == Counter::Reset => {
                let is_later = record.due_at.is_some_and(|due_at| due_at > settlement.at);
                Some(settlement.at).filter(|_| is_later)
            }
            Transition::Renewed => Some(settlement.at),
            Transition::Undone | Transition::Succeeded | Transition::Archived => None,
        }
    }

    /// A due date as it is written. Where a clock shows that hour twice, it would be read as the first.
    fn written_due(&self, column: &Column, at: Instant) -> Value {
        let zone = &self.dates.zone;
        let written = column.spelling.write(at, zone);
        match self.other_dates.read(&written) {
            Some(read) if read < at => {
                column.most(column.spelling.write(at.saturating_add(HOUR), zone))
            }
            _ => column.most(written),
        }
    }

    /// Whether a status stays to the letter. A row that a condition archives may still have one of NEW.
    fn keeps_status(&self, settlement: &Settlement, record: &Record) -> bool {
        let value = || self.statuses.column.as_ref().map(|column| before(record, column));
        let is_new = || value().is_some_and(|it| self.statuses.values(Status::New).contains(&it));
        settlement.transition == Transition::Undone
            || settlement.transition == Transition::Renewed && is_new()
    }

    /// No last failure: NULL, or if that cannot be, the insertion date.
    fn no_failure(&self, column: &Column, record: &Record) -> Value {
        let inserted_at = record.inserted_at.filter(|_| column.not_null);
        inserted_at.map_or(Value::Null, |at| column.spelling.write(at, &self.dates.zone))
    }

    /// The columns that show that a row still is the record that was read or charged. Another row with the id of a
    /// deleted one has another date. The condition may depend on time or other rows, so only what it reads counts.
    pub fn guard_columns(&self) -> Vec<&Column> {
        let read = self.statuses.column.iter().chain(&self.condition_columns);
        let date = Some(&self.inserted).filter(|it| !it.is_expression);
        // Without a date another row with the id of a deleted one is told by all that there is.
        let others = self.counter_columns().chain(&self.payload).filter(|_| self.is_undated);
        distinct(read.chain(date).chain(others))
    }

    /// The column that every charge changes, so that it tells one attempt from the next.
    pub fn mark_column(&self) -> Option<&Column> {
        self.failures.as_ref().or(self.last_error.as_ref().filter(|it| it.has_room_for_notes()))
    }

    /// The columns that show whether a row still carries a given charge.
    pub fn charge_columns(&self) -> Vec<&Column> {
        distinct(self.guard_columns().into_iter().chain(self.mark_column()))
    }

    /// The [`charge_columns`](Self::charge_columns) as they were when a record was read.
    pub fn guards_as_read(&self, record: &Record) -> Guards {
        Guards(self.charge_columns().into_iter().map(|column| before(record, column)).collect())
    }

    /// What a charge makes of a row where nothing else changes with it.
    pub fn guards_after_charge(&self, record: &Record) -> Guards {
        let status = self.statuses.column.as_ref().map(|column| &column.name);
        let value = |column: &Column| match self.statuses.value(Status::Error) {
            Some(error) if Some(&column.name) == status => error.clone(),
            _ => before(record, column),
        };
        Guards(self.guard_columns().into_iter().map(value).collect())
    }

    /// What a row must hold besides its id to be the one that was read, or charged.
    fn expected<'a>(&'a self, change: &'a RowWrite) -> impl Iterator<Item = Term<'a>> {
        let RowWrite { record, charged, is_fenced, .. } = change;
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

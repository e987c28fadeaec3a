//! Assignments and conditions of a guarded write, as plain data: each store turns them into its own
//! statements.

use super::{Column, Effect, Table, distinct};
use crate::date::Zone;
use crate::mapping::Assigned;
use crate::record::{Counter, Record, Settlement, Status, Transition, Value};
use crate::store::RowWrite;

/// The action on a row.
pub enum Action<'a> {
    /// Each column once. None is set if there is nothing to write.
    Set(Vec<(&'a Column, Set)>),
    Delete,
}

/// The value that a column is set to.
#[derive(Debug, Clone, PartialEq)]
pub enum Set {
    To(Value),
    /// To what it holds, NULL being 0, and so much more.
    Add(i64),
}

/// The columns that show whether a row is still the same, as a charge left them
/// ([`Table::guard_columns`]), as they were read back: with what triggers and the table itself
/// compute of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Charged(pub Vec<Value>);

struct Sets<'a>(Vec<(&'a Column, Set)>);

impl<'a> Sets<'a> {
    fn set(&mut self, column: &'a Column, set: Set) {
        match self.0.iter_mut().find(|(it, _)| it.name == column.name) {
            Some((_, before)) => *before = set,
            None => self.0.push((column, set)),
        }
    }

    /// Sets a column that the table may lack.
    fn optional(&mut self, column: &'a Option<Column>, to: impl FnOnce(&Column) -> Value) {
        if let Some(column) = column {
            self.set(column, Set::To(to(column)));
        }
    }

    fn effects(&mut self, effects: &'a [Effect], settlement: &Settlement, zone: &Zone) {
        let error = match &settlement.counter {
            Counter::Set { last_error, .. } => last_error.as_ref(),
            Counter::AsBefore | Counter::Reset => None,
        };
        for Effect { column, to } in effects {
            let set = match (to, error) {
                (Assigned::Constant(value), _) => Set::To(value.clone()),
                (Assigned::Now, _) => Set::To(column.spelling.write(settlement.at, zone)),
                (Assigned::Error, Some(error)) => Set::To(Value::Text(column.cut(error))),
                // There is none, so the last one stays for people to read.
                (Assigned::Error, None) => continue,
                (Assigned::Add(number), _) => Set::Add(*number),
            };
            self.set(column, set);
        }
    }
}

impl Table {
    pub fn action(&self, change: &RowWrite) -> Action<'_> {
        if self.deletes_finished && change.settlement.transition == Transition::Succeeded {
            return Action::Delete;
        }
        Action::Set(self.sets(change).0)
    }

    fn sets(&self, change: &RowWrite) -> Sets<'_> {
        let RowWrite { record, settlement, .. } = change;
        let (mut sets, zone) = (Sets(Vec::new()), &self.dates.zone);
        let before = |column: &Column| record.row.get(&column.name).cloned().unwrap_or(Value::Null);
        let status = self.statuses.value(settlement.status(record.status));
        // As it was to the letter, where several values mean the same.
        let status = status.filter(|_| settlement.transition != Transition::Undone);
        sets.optional(&self.statuses.column, |it| status.cloned().unwrap_or_else(|| before(it)));
        match &settlement.counter {
            Counter::AsBefore => {
                for column in self.counter_columns() {
                    sets.set(column, Set::To(before(column)));
                }
                if settlement.transition == Transition::Renewed && !self.statuses.tell() {
                    // NEW is then what has not failed: at least, there is nothing to wait after.
                    sets.optional(&self.last_failure, |it| self.no_failure(it, record));
                }
            }
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
        match settlement.transition {
            Transition::Succeeded => sets.effects(&self.on_success, settlement, zone),
            Transition::Failed => sets.effects(&self.on_failure, settlement, zone),
            Transition::Archived => {
                if matches!(settlement.counter, Counter::Set { .. }) {
                    sets.effects(&self.on_failure, settlement, zone);
                }
                sets.effects(&self.on_archive, settlement, zone);
            }
            Transition::Begun | Transition::Undone | Transition::Renewed => {}
        }
        sets
    }

    /// What the column of the last failure holds where there was none: NULL, or if that cannot be,
    /// the insertion date.
    fn no_failure(&self, column: &Column, record: &Record) -> Value {
        let inserted_at = record.inserted_at.filter(|_| column.not_null);
        inserted_at.map_or(Value::Null, |at| column.spelling.write(at, &self.dates.zone))
    }

    /// The columns that show that a row still is the record, and still as it was read or as the
    /// charge left it. Another row that got the id of a deleted one has another insertion date. The
    /// queue's condition itself is not asked again, because it may go by the time or by other rows:
    /// what it reads in this row must be as it was.
    pub fn guard_columns(&self) -> Vec<&Column> {
        let read = self.statuses.column.iter().chain(&self.condition_columns);
        distinct(read.chain([&self.inserted]))
    }

    /// What a charge makes of a row where nothing else changes with it.
    pub fn charged(&self, record: &Record) -> Charged {
        let status = self.statuses.column.as_ref().map(|column| &column.name);
        let value = |column: &Column| match self.statuses.value(Status::Error) {
            Some(error) if Some(&column.name) == status => error.clone(),
            _ => record.row.get(&column.name).cloned().unwrap_or(Value::Null),
        };
        Charged(self.guard_columns().into_iter().map(value).collect())
    }

    /// What a row must hold for a change of the record, which was charged or not, besides its id.
    pub fn expected<'a>(
        &'a self,
        record: &'a Record,
        charged: Option<&'a Charged>,
    ) -> impl Iterator<Item = (&'a Column, &'a Value)> {
        self.guard_columns().into_iter().enumerate().filter_map(move |(index, column)| {
            let held = match charged {
                Some(Charged(values)) => values.get(index)?,
                None => record.row.get(&column.name).unwrap_or(&Value::Null),
            };
            Some((column, held))
        })
    }
}

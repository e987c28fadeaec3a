//! The user's table, whichever database it is in: its columns as the mapping names them, how a row
//! becomes a record, and what is written to it.

mod change;
mod column;
mod facts;
mod lookup;
mod require;
mod sql;
mod statuses;

pub use change::{Charged, Role, Term, Verb};
pub use column::{Column, Holds, distinct};
pub use facts::{Cell, Cells, FactColumns};
pub use lookup::{Catalog, Listed};
pub use sql::{EVERY, Quoted, SHOWN_ERROR, SNOOZED, Trial, names, quote};
pub use statuses::Statuses;

use crate::date::Dates;
use crate::mapping::Assigned;
use crate::record::series::SeriesSource;
use crate::record::{Capabilities, Id, Record, Row, Status, Value};
use crate::store::sql::Dialect;
use crate::time::Instant;

/// A table that was found to have what the mapping says ([`Table::find`]). Names are spelt as the
/// table spells them.
pub struct Table {
    /// As messages have it.
    pub name: String,
    /// As SQL has it.
    pub sql: String,
    pub dialect: &'static dyn Dialect,
    /// All of them, as the table has them.
    pub columns: Vec<Column>,
    pub id: Vec<Column>,
    pub statuses: Statuses,
    pub inserted: Column,
    pub dates: Dates,
    /// How the dates other than that of insertion are read.
    pub other_dates: Dates,
    pub failures: Option<Column>,
    pub last_failure: Option<Column>,
    pub last_error: Option<Column>,
    /// What is the matter with the columns of failures and of the last one.
    pub complaints: Vec<String>,
    /// Where the store keeps the schedule itself: when a pending record is due.
    pub due_at: Option<Column>,
    /// What holds for the rows of the queue, and for no others.
    pub condition: Option<String>,
    /// The columns that it reads.
    pub condition_columns: Vec<Column>,
    /// Where `add` puts what it is given.
    pub payload: Option<Column>,
    /// Whether a row is deleted that has succeeded.
    pub deletes_finished: bool,
    pub on_success: Vec<Effect>,
    pub on_failure: Vec<Effect>,
    pub on_archive: Vec<Effect>,
}

/// A column to be set.
pub struct Effect {
    pub column: Column,
    pub to: Assigned,
}

impl Table {
    /// What its store can do. An attempt that is not charged needs a date to wait from, unless the
    /// store keeps the schedule itself.
    pub fn capabilities(&self) -> Capabilities {
        let (keeps_schedule, has_counter) = (self.due_at.is_some(), self.failures.is_some());
        Capabilities {
            keeps_schedule,
            has_counter,
            can_snooze: has_counter && (self.last_failure.is_some() || keeps_schedule),
            can_archive: self.can_be(Status::Archived),
            ..Capabilities::default()
        }
    }

    /// What tells the series of attempts of a record apart; `None` where no error is kept.
    pub fn series_source(&self) -> Option<SeriesSource> {
        // A queue notes an error only where it puts a message away.
        self.last_error.as_ref().filter(|_| self.due_at.is_none())?;
        // The server cuts what is written to a day, and some floating-point numbers are short.
        let is_cut = |column: &Column| {
            let is_day = column.holds == Holds::ClockTimes && column.declared == "date";
            column.holds == Holds::Reals || is_day
        };
        let is_exact =
            |column: &Column| !is_cut(column) && column.spelling.reads_back(&self.other_dates);
        let is_exact = self.failures.is_some() && self.last_failure.as_ref().is_some_and(is_exact);
        Some(if is_exact { SeriesSource::LastFailure } else { SeriesSource::LastError })
    }

    /// The columns that a settlement writes besides the status.
    pub fn counter_columns(&self) -> impl Iterator<Item = &Column> {
        [&self.failures, &self.last_failure, &self.last_error].into_iter().flatten()
    }

    /// The columns that have a meaning, each with what that is.
    pub fn roles(&self) -> impl Iterator<Item = (&'static str, &Column)> {
        let optional = [
            ("status", &self.statuses.column),
            ("failures", &self.failures),
            ("last_failure", &self.last_failure),
            ("last_error", &self.last_error),
        ];
        let optional = optional.into_iter().filter_map(|(role, it)| Some((role, it.as_ref()?)));
        let ids = self.id.iter().map(|column| ("id", column));
        ids.chain([("date_inserted", &self.inserted)]).chain(optional)
    }

    /// All columns that a settlement may write.
    pub fn written_columns(&self) -> Vec<&Column> {
        let effects = [&self.on_success, &self.on_failure, &self.on_archive];
        let effects = effects.into_iter().flatten().map(|effect| &effect.column);
        distinct(self.counter_columns().chain(&self.statuses.column).chain(effects))
    }

    /// A row as a record; the error says why it cannot be one.
    pub fn record(&self, row: Row, in_queue: bool) -> Result<Record, String> {
        let of = |column: &Column| row.get(&column.name);
        let optional = |column: &Option<Column>| column.as_ref().and_then(of);
        let parts = self.id.iter().map(|column| {
            let value = of(column).unwrap_or(&Value::Null);
            id(value).map_err(|_| {
                let (name, found) = (&column.name, value.shown());
                format!("a record is left out, because its {name} is {found}")
            })
        });
        let id = Id::of(parts.collect::<Result<_, _>>()?);
        let inserted = of(&self.inserted).cloned().unwrap_or(Value::Null);
        let raw = self.statuses.column.as_ref().and_then(of);
        let inserted_at = self.dates.read(&inserted);
        let failures = optional(&self.failures).map(count);
        let last_failure = optional(&self.last_failure).map(|value| self.other_dates.read(value));
        let failed = has_failed(failures, last_failure, inserted_at);
        let (status, status_text) = self.statuses.of(raw, in_queue, failed);
        Ok(Record {
            id,
            status,
            status_text,
            inserted_at,
            inserted,
            failures: failures.unwrap_or(0),
            last_failure_at: last_failure.flatten(),
            due_at: optional(&self.due_at).and_then(|value| self.other_dates.read(value)),
            last_error: optional(&self.last_error)
                .filter(|value| **value != Value::Null)
                .map(Value::to_string),
            row,
        })
    }

    /// A status as it is written, `STATUS = 'ERROR'`.
    pub fn shown(&self, status: Status) -> String {
        match (&self.statuses.column, self.statuses.value(status)) {
            (Some(column), Some(value)) => format!("{} = {}", column.name, value.shown()),
            _ => status.name().into(),
        }
    }

    /// The keys of what is set at an end without making the condition false, as far as the columns
    /// show that.
    pub fn ends_that_change_nothing(&self) -> Vec<&'static str> {
        let reads =
            |column: &Column| self.condition_columns.iter().any(|it| it.name == column.name);
        let changes = |effects: &[Effect]| effects.iter().any(|effect| reads(&effect.column));
        [("on_success", &self.on_success), ("on_archive", &self.on_archive)]
            .into_iter()
            .filter(|(_, effects)| self.statuses.column.is_none() && !effects.is_empty())
            .filter(|(_, effects)| !changes(effects))
            .map(|(key, _)| key)
            .collect()
    }

    /// Whether a status can be written.
    pub fn can_be(&self, status: Status) -> bool {
        self.statuses.value(status).is_some()
            || match status {
                Status::New | Status::Error => true,
                Status::Success => self.deletes_finished || !self.on_success.is_empty(),
                Status::Archived => !self.on_archive.is_empty(),
                Status::Foreign => false,
            }
    }
}

/// Whether an attempt has failed or was put off; `None` if there is no column that tells. A last
/// failure that is no later than the insertion is what an application wrote with the row.
pub fn has_failed(
    failures: Option<u32>,
    last_failure: Option<Option<Instant>>,
    inserted_at: Option<Instant>,
) -> Option<bool> {
    let dated = last_failure.map(|at| at.is_some() && at > inserted_at);
    match (failures, dated) {
        (None, None) => None,
        (failures, dated) => Some(failures > Some(0) || dated == Some(true)),
    }
}

/// One column's part of an id; the error says what cannot be one.
pub fn id(value: &Value) -> Result<Id, &'static str> {
    match value {
        Value::Integer(id) => Ok(Id::Integer(*id)),
        Value::Text(id) => Ok(Id::Text(id.as_str().into())),
        Value::Null => Err("NULL"),
        Value::Bytes(_) => Err("not UTF-8"),
        Value::Real(_) => Err("a Real; ids are integers or text"),
        Value::Blob(_) => Err("a Blob; ids are integers or text"),
        Value::Boolean(_) | Value::Json(_) => Err("neither an integer nor text"),
    }
}

/// A count of failures, as the column holds it; what is no number counts as none.
pub fn count(value: &Value) -> u32 {
    let found = match value {
        Value::Integer(count) => *count,
        #[expect(clippy::cast_possible_truncation, reason = "SQL's CAST saturates as well")]
        Value::Real(count) => *count as i64,
        Value::Json(number) => {
            return number.parse().map_or(0, |number| count(&Value::Real(number)));
        }
        Value::Null | Value::Text(_) | Value::Bytes(_) | Value::Blob(_) | Value::Boolean(_) => 0,
    };
    u32::try_from(found.max(0)).unwrap_or(u32::MAX)
}

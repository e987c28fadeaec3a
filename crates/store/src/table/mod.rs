//! The user's table in any database: its mapped columns, and the requirements of commands.

mod column;
mod lookup;
mod row;
mod terms;

pub use column::{
    Column, ColumnType, Membership, Statuses, distinct, joined, names, quote, quoted_if_needed,
};
pub use lookup::{Catalog, CatalogTable, ConditionProbe, is_never, missing, naming};
pub use row::{Cell, Cells, FactReader, RecordReader, is_no_due_date};
pub use terms::{Term, TermRole, WriteVerb};

use std::ops::RangeInclusive;

use anyhow::{Context, Result, bail, ensure};
use backlog_schedule::{Capabilities, Id, Instant, Order, SeriesSource, Status, Value, Window};

use crate::clock::Clock;
use crate::date::Dates;
use crate::mapping::Assigned;

/// A table with its mapped columns ([`Table::find`]). Names are spelled as in the database.
pub struct Table {
    pub name: String,
    /// Its quoted name in SQL.
    pub sql: String,
    pub dialect: &'static dyn Dialect,
    pub columns: Vec<Column>,
    pub id: Vec<Column>,
    pub statuses: Statuses,
    pub inserted: Column,
    /// Records have no insertion date: `inserted` is always NULL.
    pub is_undated: bool,
    pub dates: Dates,
    pub failure_dates: Dates,
    pub other_dates: Dates,
    /// Decides between the two instants of a local time that a clock repeats.
    pub clock: Clock,
    pub order: Option<(Column, Order)>,
    pub failures: Option<Column>,
    pub last_failure: Option<Column>,
    pub last_error: Option<Column>,
    /// Errors in the columns of dates and failures, for commands that write them.
    pub complaints: Vec<String>,
    pub max_attempts: Option<Column>,
    pub counts_attempts: bool,
    /// The due date of a pending record: written with each failure, or kept by the store.
    pub due_at: Option<Column>,
    /// The store itself keeps `due_at`, as a queue of pgmq does.
    pub keeps_schedule: bool,
    pub condition: Option<String>,
    pub archived: Option<String>,
    /// The columns that these conditions and the insertion date read.
    pub condition_columns: Vec<Column>,
    /// The column for the payloads of `add`.
    pub payload: Option<Column>,
    pub deletes_succeeded: bool,
    pub on_success: Vec<Effect>,
    pub on_failure: Vec<Effect>,
    pub on_archive: Vec<Effect>,
    pub on_restore: Vec<Effect>,
}

/// SQL that differs between databases.
pub trait Dialect: Sync {
    fn literal(&self, value: &Value) -> String;

    fn cell(&self, column: &Column) -> String;

    /// [`cell`](Self::cell), compared byte by byte whatever its collation.
    fn exact(&self, column: &Column) -> String {
        self.cell(column)
    }

    /// [`cell`](Self::cell) at an index of a SELECT, with an alias that ORDER BY cannot confuse with the column.
    fn selected(&self, column: &Column, _index: usize) -> String {
        self.cell(column)
    }

    fn prefix(&self, column: &Column, chars: usize) -> String;

    /// [`cell`](Self::cell), truncated if it is text.
    fn truncated(&self, column: &Column, chars: usize) -> String;

    /// The parameter with this number, from 1, converted to the type of a column.
    fn bind(&self, number: usize, column: &Column) -> String;

    /// A literal, converted to the type of a column.
    fn typed(&self, literal: &str, column: &Column) -> String;

    /// Conditions of rows that can be in the window. Each makes a statement that an index serves in this order.
    fn within(&self, table: &Table, window: &Window, order: Order) -> Vec<String>;

    /// Condition of rows whose phase can be in a range; `None` if the program finds them faster.
    fn has_phase(&self, id: &Column, phases: &RangeInclusive<u32>) -> Option<String>;

    /// Conditions of rows that may lack a readable insertion date and do not sort into the window.
    fn undated(&self, table: &Table, window: &Window) -> Vec<String>;

    /// The insertion date as an instant; `None` if the database cannot convert it.
    fn inserted_at(&self, table: &Table) -> Option<String>;

    /// An instant to compare with [`inserted_at`](Self::inserted_at).
    fn instant(&self, at: Instant) -> String;

    fn is_null_last(&self, order: Order) -> bool;

    /// A partial index serves only queries that repeat its condition verbatim.
    fn needs_verbatim_condition(&self) -> bool;
}

pub struct Effect {
    pub column: Column,
    pub to: Assigned,
}

impl Table {
    pub fn capabilities(&self) -> Capabilities {
        // A snooze needs a column for the date from which it lasts, or a due column.
        let has_counter = self.failures.is_some();
        Capabilities {
            keeps_schedule: self.keeps_schedule,
            has_due_column: self.due_column().is_some(),
            has_counter,
            shows_failed: has_counter
                || self.last_failure.is_some()
                || self.statuses.distinguish_failed(),
            notes_begun: self.last_error.as_ref().is_some_and(Column::has_room_for_notes),
            can_snooze: has_counter && (self.last_failure.is_some() || self.due_at.is_some()),
            can_archive: self.can_be(Status::Archived),
            ..Capabilities::default()
        }
    }

    /// The column that identifies a series of attempts of a record; `None` if the table keeps no error.
    pub fn series_source(&self) -> Option<SeriesSource> {
        // A queue of pgmq notes an error only when it archives a message.
        self.last_error.as_ref().filter(|_| !self.keeps_schedule)?;
        // A date has no time, and a floating-point number may have too few digits.
        let is_exact = |Column { column_type, declared, spelling, .. }: &Column| {
            let is_rounded = *column_type == ColumnType::Real
                || *column_type == ColumnType::LocalTime && declared == "date";
            !is_rounded
                && spelling.is_unambiguous(&self.failure_dates.zone)
                && spelling.reads_back(&self.failure_dates)
        };
        let is_exact = self.failures.is_some() && self.last_failure.as_ref().is_some_and(is_exact);
        Some(if is_exact { SeriesSource::LastFailure } else { SeriesSource::LastError })
    }

    /// The column of due dates, if each failure writes it.
    pub fn due_column(&self) -> Option<&Column> {
        self.due_at.as_ref().filter(|_| !self.keeps_schedule)
    }

    /// The columns that an attempt which does not count leaves as they were before.
    pub fn counter_columns(&self) -> impl Iterator<Item = &Column> {
        let counters = [&self.failures, &self.last_failure, &self.last_error].into_iter().flatten();
        counters.chain(self.due_column())
    }

    pub fn date_expression(&self) -> Option<&Column> {
        Some(&self.inserted).filter(|column| column.is_expression)
    }

    /// The columns that passes read or write, each with its key and its description.
    pub fn roles(&self) -> impl Iterator<Item = (&'static str, &'static str, &Column)> {
        let optional = [
            ("status", "the status", &self.statuses.column),
            ("failures", "the count of failures", &self.failures),
            ("last_failure", "the last failure", &self.last_failure),
            ("last_error", "the last error", &self.last_error),
            ("max_attempts", "the maximum number of attempts", &self.max_attempts),
        ];
        let optional = optional
            .into_iter()
            .filter_map(|(key, role, column)| Some((key, role, column.as_ref()?)));
        let ids = self.id.iter().map(|column| ("id", "the record's id", column));
        let inserted = Some(&self.inserted).filter(|_| !self.is_undated);
        let inserted = inserted.map(|column| ("date_inserted", "the insertion date", column));
        let due = self.due_column().map(|column| ("on_failure", "the next attempt", column));
        ids.chain(inserted).chain(optional).chain(due)
    }

    pub fn effects(&self) -> [(&'static str, &Vec<Effect>); 4] {
        let Self { on_success, on_failure, on_archive, on_restore, .. } = self;
        [
            ("on_success", on_success),
            ("on_failure", on_failure),
            ("on_archive", on_archive),
            ("on_restore", on_restore),
        ]
    }

    pub fn written_columns(&self) -> Vec<&Column> {
        let effects = self.effects().into_iter().flat_map(|(_, effects)| effects);
        let effects = effects.map(|effect| &effect.column);
        distinct(self.counter_columns().chain(&self.statuses.column).chain(effects))
    }

    /// A status as its assignment, `STATUS = 'ERROR'`.
    pub fn display_status(&self, status: Status) -> String {
        match (&self.statuses.column, self.statuses.value(status)) {
            (Some(column), Some(value)) => format!("{} = {}", column.name, value.literal()),
            _ => status.name().into(),
        }
    }

    /// True if a finished record may stay pending: no status says that it is finished, or which rows are archived.
    pub fn ends_by_condition(&self) -> bool {
        let archives_by_status = self.statuses.value(Status::Archived).is_some();
        let is_by_effects = !archives_by_status && !self.on_archive.is_empty();
        self.statuses.column.is_none() || self.archived.is_some() || is_by_effects
    }

    /// True if written values depend on the row, so that the table may refuse only one row.
    pub fn has_row_dependent_values(&self) -> bool {
        let effects = self.effects().into_iter().flat_map(|(_, effects)| effects);
        effects.into_iter().any(|effect| matches!(effect.to, Assigned::Add(_)))
            || self.columns.iter().any(|column| column.is_generated)
    }

    /// True if the condition reads columns that a success does not write, so that a single record may stay pending.
    pub fn ends_depend_on_row(&self) -> bool {
        let written = self.on_success.iter().map(|effect| &effect.column);
        let written: Vec<_> = written.chain(&self.statuses.column).collect();
        let is_written = |column: &Column| written.iter().any(|other| other.name == column.name);
        self.ends_by_condition() && !self.condition_columns.iter().all(is_written)
    }

    /// The keys of ends that write no column of the condition, so that it stays true.
    pub fn ineffective_ends(&self) -> Vec<&'static str> {
        // A generated column may read any other.
        let is_read = |Effect { column, .. }: &Effect| {
            self.condition_columns.iter().any(|read| read.name == column.name || read.is_generated)
        };
        let is_end = |key: &str| ["on_success", "on_archive"].contains(&key);
        let ends = self.effects().into_iter().filter(|(key, _)| is_end(key));
        let ends = ends.filter(|_| self.statuses.column.is_none());
        ends.filter(|(_, effects)| !effects.is_empty() && !effects.iter().any(is_read))
            .map(|(key, _)| key)
            .collect()
    }

    /// False if a database would convert a part of a typed id to another value: `42` to the bytes of its digits.
    pub fn can_have(&self, id: &Id) -> bool {
        let is_of_type = |(part, column): (&Id, &Column)| {
            column.column_type != ColumnType::Bytes || matches!(part, Id::Bytes(_))
        };
        id.parts().iter().zip(&self.id).all(is_of_type)
    }

    pub fn can_be(&self, status: Status) -> bool {
        self.statuses.value(status).is_some()
            || match status {
                Status::New | Status::Error => true,
                Status::Success => self.deletes_succeeded || !self.on_success.is_empty(),
                Status::Archived => !self.on_archive.is_empty() || self.archived.is_some(),
                Status::Foreign => false,
            }
    }
}

impl Table {
    /// Fails if the table does not count failures, or has no last failure if `needs_last_failure` is set.
    pub fn require_counter(&self, required_by: &str, needs_last_failure: bool) -> Result<()> {
        let (mut names, mut added) = (Vec::new(), Vec::new());
        let mut lacks = |name, definition| {
            names.push(name);
            added.push(format!("ALTER TABLE {} ADD COLUMN {name} {definition};", self.sql));
        };
        if self.failures.is_none() {
            lacks("FAILURES", "INTEGER NOT NULL DEFAULT 0");
        }
        if needs_last_failure && self.last_failure.is_none() && self.due_at.is_none() {
            // The type of the insertion date suits.
            let declared = self.inserted.declared.as_str();
            lacks("LAST_FAILURE", if declared.is_empty() { "TEXT" } else { declared });
        }
        ensure!(
            names.is_empty(),
            "{required_by} needs {}, and table {} has no such column; name existing ones (failures or last_failure in \
             backlog.toml, or --set failures=COLUMN, --set last_failure=COLUMN) or add them with: {}",
            names.join(" and "),
            self.name,
            added.join(" ")
        );
        Ok(())
    }

    pub fn require_valid_columns(&self) -> Result<()> {
        self.complaints.first().map_or(Ok(()), |complaint| bail!("{complaint}"))
    }

    pub fn require_success(&self) -> Result<()> {
        ensure!(
            self.can_be(Status::Success),
            "table {} has no status column: set in backlog.toml what finishes a row, for example on_success = \
             {{ processed_at = \"{{now}}\" }}",
            self.name
        );
        Ok(())
    }

    pub fn require_archived(&self, required_by: &str) -> Result<()> {
        ensure!(
            self.can_be(Status::Archived),
            "{required_by} needs to know how table {} marks an archived record: name the value of the \
             status (status.archived) or the columns to set (on_archive)",
            self.name
        );
        Ok(())
    }

    /// `choice` are the options that select the table.
    pub fn require_renewal(&self, choice: &str) -> Result<()> {
        ensure!(
            self.statuses.distinguish_failed()
                || self.last_failure.is_some()
                || self.due_at.is_some(),
            "table {} has no column that `retry` could change (last_failure, or a status for failed \
             records); to try one record now: backlog process{choice} ID; to try all pending ones: backlog \
             process{choice} --ndays 365",
            self.name
        );
        Ok(())
    }

    pub fn shows_archived(&self) -> bool {
        self.statuses.value(Status::Archived).is_some() || self.archived.is_some()
    }

    pub fn require_archived_condition(&self) -> Result<()> {
        ensure!(
            self.shows_archived(),
            "`restore` cannot tell the archived records of table {} from others: name the value of the \
             status (status.archived) or a condition (where_archived)",
            self.name
        );
        Ok(())
    }

    pub fn date_inserted(&self, now: Instant) -> Value {
        self.inserted.spelling.write(now, &self.dates.zone)
    }

    /// The column for the payloads of new records. Fails if the table cannot take any.
    pub fn require_payload(&self) -> Result<&Column> {
        let table = &self.name;
        if self.inserted.is_expression {
            bail!("the insertion date of table {table} is an expression; insert rows yourself");
        }
        if let Some(Column { name, .. }) = self.id.iter().find(|column| !column.has_default) {
            ensure!(
                self.payload.is_none(),
                "the database sets no {name} in new rows of table {table}; insert rows yourself"
            );
        }
        self.payload.as_ref().with_context(|| {
            let how = naming("payload");
            format!("table {table} has no column PAYLOAD to add records with; {how}")
        })
    }
}

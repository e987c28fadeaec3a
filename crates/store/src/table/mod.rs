//! The user's table in any database: its columns as the mapping names them, and requirements of it.

mod column;
mod lookup;
mod row;
mod terms;

pub use column::{
    Column, ColumnType, Membership, Statuses, distinct, joined, names, quote, quoted_if_needed,
};
pub use lookup::{Catalog, CatalogTable, ConditionProbe, missing, naming};
pub use row::{Cell, Cells, FactReader, RecordReader, is_no_due_date};
pub use terms::{Term, TermRole, WriteVerb};

use std::ops::RangeInclusive;

use anyhow::{Context, Result, bail, ensure};
use backlog_schedule::{Capabilities, Instant, Order, SeriesSource, Status, Value, Window};

use crate::clock::Clock;
use crate::date::Dates;
use crate::mapping::Assigned;

/// A table that has what the mapping says ([`Table::find`]). Names are spelt as it spells them.
pub struct Table {
    /// As messages have it.
    pub name: String,
    /// As SQL has it.
    pub sql: String,
    pub dialect: &'static dyn Dialect,
    pub columns: Vec<Column>,
    pub id: Vec<Column>,
    pub statuses: Statuses,
    pub inserted: Column,
    /// Whether that is always NULL.
    pub is_undated: bool,
    pub dates: Dates,
    /// How the last failure is read.
    pub failure_dates: Dates,
    /// How the other dates are read.
    pub other_dates: Dates,
    /// Decides between two readings of a local time that came twice.
    pub clock: Clock,
    /// The column that orders the records, and its direction, if it is not the insertion date.
    pub order: Option<(Column, Order)>,
    pub failures: Option<Column>,
    pub last_failure: Option<Column>,
    pub last_error: Option<Column>,
    /// Why the columns of dates and of failures cannot be used as they are.
    pub complaints: Vec<String>,
    pub max_attempts: Option<Column>,
    /// Whether `failures` counts attempts, also the one that succeeds.
    pub counts_attempts: bool,
    /// When a pending record is due: written with each failure, or kept by the store.
    pub due_at: Option<Column>,
    pub keeps_schedule: bool,
    /// What holds for the rows of the queue, and for no others.
    pub condition: Option<String>,
    /// What holds for archived rows, where no status says so.
    pub archived: Option<String>,
    /// The columns that these conditions and the insertion date read.
    pub condition_columns: Vec<Column>,
    /// Where `add` puts what it is given.
    pub payload: Option<Column>,
    /// Whether a row is deleted that has succeeded.
    pub deletes_finished: bool,
    pub on_success: Vec<Effect>,
    pub on_failure: Vec<Effect>,
    pub on_archive: Vec<Effect>,
    pub on_restore: Vec<Effect>,
}

/// The SQL of one database, as far as databases spell it differently.
pub trait Dialect: Sync {
    fn literal(&self, value: &Value) -> String;

    fn cell(&self, column: &Column) -> String;

    /// The same, compared byte by byte whatever its collation.
    fn exact(&self, column: &Column) -> String {
        self.cell(column)
    }

    /// The same at a place among others, under a name that no order takes for the column.
    fn selected(&self, column: &Column, _place: usize) -> String {
        self.cell(column)
    }

    /// The beginning of a column of text, of so many characters.
    fn prefix(&self, column: &Column, chars: usize) -> String;

    /// The cell of a column of any type, of whose text no more is read than so many characters.
    fn truncated(&self, column: &Column, chars: usize) -> String;

    /// The parameter with this number, from 1, as a value of a column.
    fn bind(&self, number: usize, column: &Column) -> String;

    /// A literal as a value of a column.
    fn typed(&self, literal: &str, column: &Column) -> String;

    /// Conditions of rows that can be in the window, one for each statement that an index serves in this order.
    fn within(&self, table: &Table, window: &Window, order: Order) -> Vec<String>;

    /// Condition of rows whose phase can be in a range; `None` where the program finds them faster.
    fn has_phase(&self, id: &Column, phases: &RangeInclusive<u32>) -> Option<String>;

    /// Conditions of rows with no insertion date, or maybe none, that do not sort into the window.
    fn undated(&self, table: &Table, window: &Window) -> Vec<String>;

    /// The insertion date as an instant; `None` where the database cannot tell it.
    fn inserted_at(&self, table: &Table) -> Option<String>;

    /// An instant to compare that with.
    fn instant(&self, at: Instant) -> String;

    /// Whether NULL comes last in the order of insertion.
    fn is_null_last(&self, order: Order) -> bool;

    /// Whether a partial index serves only what repeats its condition word by word.
    fn needs_verbatim_condition(&self) -> bool;
}

pub struct Effect {
    pub column: Column,
    pub to: Assigned,
}

impl Table {
    /// What its store can do. To snooze it needs a date to wait from, unless it keeps the schedule.
    pub fn capabilities(&self) -> Capabilities {
        let has_counter = self.failures.is_some();
        Capabilities {
            keeps_schedule: self.keeps_schedule,
            has_due_column: self.due_column().is_some(),
            has_counter,
            notes_begun: self.last_error.as_ref().is_some_and(Column::has_room_for_notes),
            can_snooze: has_counter && (self.last_failure.is_some() || self.due_at.is_some()),
            can_archive: self.can_be(Status::Archived),
            ..Capabilities::default()
        }
    }

    /// What tells the series of attempts of a record apart; `None` where no error is kept.
    pub fn series_source(&self) -> Option<SeriesSource> {
        // A queue notes an error only where it puts a message away.
        self.last_error.as_ref().filter(|_| !self.keeps_schedule)?;
        // The server cuts what is written to a day, and some floating-point numbers are short.
        let is_exact = |Column { column_type, declared, spelling, .. }: &Column| {
            let is_cut = *column_type == ColumnType::Real
                || *column_type == ColumnType::LocalTime && declared == "date";
            !is_cut
                && spelling.is_unique(&self.failure_dates.zone)
                && spelling.reads_back(&self.failure_dates)
        };
        let is_exact = self.failures.is_some() && self.last_failure.as_ref().is_some_and(is_exact);
        Some(if is_exact { SeriesSource::LastFailure } else { SeriesSource::LastError })
    }

    /// The column that says when a record is due, written with each failure.
    pub fn due_column(&self) -> Option<&Column> {
        self.due_at.as_ref().filter(|_| !self.keeps_schedule)
    }

    /// The columns that go back to what they held before an attempt that did not count.
    pub fn counter_columns(&self) -> impl Iterator<Item = &Column> {
        let counters = [&self.failures, &self.last_failure, &self.last_error].into_iter().flatten();
        counters.chain(self.due_column())
    }

    pub fn date_expression(&self) -> Option<&Column> {
        Some(&self.inserted).filter(|column| column.is_expression)
    }

    /// The columns that are read or written, each with the key that names it and what it is.
    pub fn roles(&self) -> impl Iterator<Item = (&'static str, &'static str, &Column)> {
        let optional = [
            ("status", "the status", &self.statuses.column),
            ("failures", "the count of failures", &self.failures),
            ("last_failure", "the last failure", &self.last_failure),
            ("last_error", "the last error", &self.last_error),
            ("max_attempts", "the most attempts", &self.max_attempts),
        ];
        let optional =
            optional.into_iter().filter_map(|(key, is, it)| Some((key, is, it.as_ref()?)));
        let ids = self.id.iter().map(|column| ("id", "the record's id", column));
        let inserted = Some(&self.inserted).filter(|_| !self.is_undated);
        let inserted = inserted.map(|it| ("date_inserted", "the insertion date", it));
        let due = self.due_column().map(|it| ("on_failure", "the next attempt", it));
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

    /// A status as it is written, `STATUS = 'ERROR'`.
    pub fn shown(&self, status: Status) -> String {
        match (&self.statuses.column, self.statuses.value(status)) {
            (Some(column), Some(value)) => format!("{} = {}", column.name, value.literal()),
            _ => status.name().into(),
        }
    }

    /// Whether conditions have a say in whether a record is pending, not only its status.
    pub fn ends_by_condition(&self) -> bool {
        self.statuses.column.is_none() || self.archived.is_some()
    }

    /// Whether a value depends on the row, so that the table may refuse it for one row only.
    pub fn has_generated_or_growing(&self) -> bool {
        let effects = self.effects().into_iter().flat_map(|(_, effects)| effects);
        effects.into_iter().any(|effect| matches!(effect.to, Assigned::Add(_)))
            || self.columns.iter().any(|column| column.is_generated)
    }

    /// Whether the condition reads columns that a success does not write: one record may stay pending.
    pub fn ends_depend_on_row(&self) -> bool {
        let written = self.on_success.iter().map(|effect| &effect.column);
        let written: Vec<_> = written.chain(&self.statuses.column).collect();
        let is_written = |column: &Column| written.iter().any(|it| it.name == column.name);
        self.ends_by_condition() && !self.condition_columns.iter().all(is_written)
    }

    /// The keys of ends that leave the condition true, as far as the columns show that.
    pub fn ends_that_change_nothing(&self) -> Vec<&'static str> {
        let is_read = |Effect { column, .. }: &Effect| {
            self.condition_columns.iter().any(|it| it.name == column.name)
        };
        let is_end = |key: &str| ["on_success", "on_archive"].contains(&key);
        let ends = self.effects().into_iter().filter(|(key, _)| is_end(key));
        let ends = ends.filter(|_| self.statuses.column.is_none());
        let in_vain = ends.filter(|(_, it)| !it.is_empty() && !it.iter().any(is_read));
        in_vain.map(|(key, _)| key).collect()
    }

    pub fn can_be(&self, status: Status) -> bool {
        self.statuses.value(status).is_some()
            || match status {
                Status::New | Status::Error => true,
                Status::Success => self.deletes_finished || !self.on_success.is_empty(),
                Status::Archived => !self.on_archive.is_empty() || self.archived.is_some(),
                Status::Foreign => false,
            }
    }
}

/// Requirements of a command, and the messages where the table falls short.
impl Table {
    /// Fails if the table does not count failures, or not when the last one was, if that counts.
    pub fn require_counter(&self, wanted_by: &str, with_last_failure: bool) -> Result<()> {
        let (mut names, mut added) = (Vec::new(), Vec::new());
        let mut lacks = |name, definition| {
            names.push(name);
            added.push(format!("ALTER TABLE {} ADD COLUMN {name} {definition};", self.sql));
        };
        if self.failures.is_none() {
            lacks("FAILURES", "INTEGER NOT NULL DEFAULT 0");
        }
        if with_last_failure && self.last_failure.is_none() && self.due_at.is_none() {
            // It holds what the insertion date does.
            let declared = self.inserted.declared.as_str();
            lacks("LAST_FAILURE", if declared.is_empty() { "TEXT" } else { declared });
        }
        ensure!(
            names.is_empty(),
            "{wanted_by} goes by {}, and table {} has no such column; name one that it has (failures \
             or last_failure in backlog.toml, or --set failures=COLUMN, --set last_failure=COLUMN) or \
             add them with: {}",
            names.join(" and "),
            self.name,
            added.join(" ")
        );
        Ok(())
    }

    pub fn require_sound_counters(&self) -> Result<()> {
        self.complaints.first().map_or(Ok(()), |complaint| bail!("{complaint}"))
    }

    pub fn require_success(&self) -> Result<()> {
        ensure!(
            self.can_be(Status::Success),
            "table {} has no status column: say in backlog.toml what makes a row finished, such as \
             on_success = {{ processed_at = \"{{now}}\" }}",
            self.name
        );
        Ok(())
    }

    pub fn require_archived(&self, wanted_by: &str) -> Result<()> {
        ensure!(
            self.can_be(Status::Archived),
            "{wanted_by} needs to know how table {} marks an archived record: name the value of the \
             status (status.archived) or the columns to set (on_archive)",
            self.name
        );
        Ok(())
    }

    /// `choice` are the options that choose the table.
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

    pub fn require_told_archived(&self) -> Result<()> {
        ensure!(
            self.statuses.value(Status::Archived).is_some() || self.archived.is_some(),
            "`restore` cannot tell the archived records of table {} from others: name the value of the \
             status (status.archived) or a condition (where_archived)",
            self.name
        );
        Ok(())
    }

    /// The insertion date of records that are added at this instant.
    pub fn date_inserted(&self, now: Instant) -> Value {
        self.inserted.spelling.write(now, &self.dates.zone)
    }

    /// The column that new records' payloads go to, if records can be added at all.
    pub fn require_payload(&self) -> Result<&Column> {
        let table = &self.name;
        if self.inserted.is_expression {
            bail!("the insertion date of table {table} is an expression; insert rows yourself");
        }
        if let Some(Column { name, .. }) = self.id.iter().find(|it| !it.has_default) {
            ensure!(
                self.payload.is_none(),
                "the database gives no {name} to new rows of table {table}; insert them yourself"
            );
        }
        self.payload.as_ref().with_context(|| {
            let how = naming("payload");
            format!("table {table} has no column PAYLOAD to add records with; {how}")
        })
    }
}

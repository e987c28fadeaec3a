//! The mapping of the user's table as typed: columns, statuses and assignments.

use backlog_schedule::{Order, Status, Value};

use crate::date::{Dates, Format};

/// Names of a table and its columns. A column without a name may have its usual one; an empty name means no column.
#[derive(Debug, Clone, Default)]
pub struct Mapping {
    pub table: Option<String>,
    pub id: Vec<String>,
    pub status: StatusColumn,
    pub inserted: DateSource,
    /// The key that names `inserted` in a queue of finished records.
    pub finished_key: Option<&'static str>,
    /// Formats of `inserted`. Other dates share its zone, and its format if numbers need a named one.
    pub dates: Dates,
    /// The column that orders the records, with its direction, unless the insertion date does.
    pub order: Option<(String, Order)>,
    pub failures: Option<String>,
    /// `failures` also counts the attempt that succeeds.
    pub counts_attempts: bool,
    pub max_attempts: Option<String>,
    pub last_failure: Option<String>,
    pub last_failure_format: Option<Format>,
    /// The column for the date at which a record was finished, with its only format.
    pub finished: Option<(String, Option<Format>)>,
    pub last_error: Option<String>,
    /// Maximum number of characters of an error, if the column can hold more.
    pub max_error_chars: Option<usize>,
    /// SQL conditions that together define the rows of the queue.
    pub conditions: Vec<String>,
    /// The SQL condition of archived rows, if no status marks them.
    pub archived: Option<String>,
    /// The column for a handler's standard input, instead of the whole row.
    pub payload: Option<String>,
    pub on_success: Vec<Assignment>,
    pub deletes_succeeded: bool,
    pub on_failure: Vec<Assignment>,
    pub on_archive: Vec<Assignment>,
    pub on_restore: Vec<Assignment>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum DateSource {
    #[default]
    Usual,
    Column(String),
    Expression(String),
    /// Records have no age. Their ids order them.
    None,
}

/// The column of statuses. `Usual` is STATUS with the usual values, or the condition alone if the table has no STATUS.
#[derive(Debug, Clone, Default)]
pub enum StatusColumn {
    #[default]
    Usual,
    Mapped(String, StatusValues),
    None,
}

pub const STATUS: &str = "STATUS";
pub const DATE_INSERTED: &str = "DATE_INSERTED";
pub const LAST_FAILURE: &str = "LAST_FAILURE";

/// The values of each status of [`Status::OURS`]. The first one is written.
pub type StatusValues = [Vec<Value>; 4];

#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    pub column: String,
    pub to: Assigned,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Assigned {
    Constant(Value),
    /// The present instant, in the format of the column.
    Now,
    /// The next attempt, in a due column.
    Next,
    Error,
    /// Adds to the column, in which NULL counts as 0.
    Add(i64),
}

impl Mapping {
    pub fn table_name(&self) -> &str {
        self.table.as_deref().unwrap_or("BACKLOG")
    }

    /// The same table as a queue of finished records with this status, which a success deletes. The age of ARCHIVED
    /// records is counted from a column that on_archive sets to `{now}`, or from their last failure, never from their
    /// insertion date.
    pub fn of_finished(&self, status: Status, has_last_failure: bool) -> Option<Self> {
        let is_archived = status == Status::Archived;
        let is_inserted = |name: &str| match &self.inserted {
            DateSource::Usual => DATE_INSERTED.eq_ignore_ascii_case(name),
            DateSource::Column(inserted) => inserted.eq_ignore_ascii_case(name),
            DateSource::Expression(_) | DateSource::None => false,
        };
        let is_set = |name: &str| {
            let is_it = |set: &Assignment| set.column.eq_ignore_ascii_case(name);
            self.on_archive.iter().any(|set| set.to == Assigned::Now && is_it(set))
        };
        let mapped = self.finished.clone().filter(|(name, _)| !is_archived || is_set(name));
        let last_failure = self.last_failure.clone().unwrap_or_else(|| LAST_FAILURE.into());
        let last_failure = Some((last_failure, self.last_failure_format));
        let last_failure = last_failure.filter(|_| is_archived && has_last_failure);
        let key = if mapped.is_some() { "finished_at" } else { "last_failure" };
        let (name, format) = mapped.or(last_failure)?;
        let inherited = self.dates.format;
        let inherited =
            inherited.filter(|format| is_inserted(&name) || Format::NAMED_ONLY.contains(format));
        // A row that also meets `where` is pending.
        let pending = self.conditions.iter().map(|condition| format!("({condition}\n)"));
        let pending = pending.collect::<Vec<_>>().join(" AND ");
        let not_pending = format!("({pending}) IS NOT TRUE");
        let archived = self.archived.clone().filter(|_| is_archived);
        Some(Self {
            dates: Dates { format: format.or(inherited), ..self.dates.clone() },
            inserted: DateSource::Column(name),
            finished_key: Some(key),
            conditions: archived
                .map_or_else(|| self.conditions.clone(), |condition| vec![condition, not_pending]),
            table: self.table.clone(),
            id: self.id.clone(),
            status: self.status.clone(),
            failures: Some(String::new()),
            last_failure: Some(String::new()),
            last_error: Some(String::new()),
            deletes_succeeded: true,
            ..Self::default()
        })
    }
}

pub fn usual_values() -> StatusValues {
    Status::OURS.map(|status| vec![Value::Text(status.name().into())])
}

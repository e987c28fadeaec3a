//! The mapping of the user's table: its columns, statuses and assignments, as they were typed.

use backlog_schedule::{Order, Status, Value};

use crate::date::{Dates, Format};

/// A column that is not given may have its usual name; an empty name means no column.
#[derive(Debug, Clone, Default)]
pub struct Mapping {
    pub table: Option<String>,
    /// Together they name a record.
    pub id: Vec<String>,
    pub status: StatusColumn,
    pub inserted: DateSource,
    /// How `inserted` is read. Of this the other dates use the zone and a format that has to be named.
    pub dates: Dates,
    /// The column that orders the records, and its direction, if it is not the insertion date.
    pub order: Option<(String, Order)>,
    pub failures: Option<String>,
    /// Whether that counts attempts, also the one that succeeds.
    pub counts_attempts: bool,
    /// The column with the most attempts that a record is given.
    pub max_attempts: Option<String>,
    pub last_failure: Option<String>,
    /// The only format of its dates.
    pub last_failure_format: Option<Format>,
    /// The column of the date at which a record was finished, with the only format of its dates.
    pub finished: Option<(String, Option<Format>)>,
    pub last_error: Option<String>,
    /// How many characters of an error are written, if fewer than the column takes.
    pub most_of_error: Option<usize>,
    /// SQL conditions that hold for the rows of the queue, all of them, and for no others.
    pub conditions: Vec<String>,
    /// The same for archived rows, where no status says so.
    pub archived: Option<String>,
    /// The column that is a handler's standard input, instead of the whole row.
    pub payload: Option<String>,
    pub on_success: Vec<Assignment>,
    /// The contract of some tables: what is done is gone.
    pub deletes_finished: bool,
    pub on_failure: Vec<Assignment>,
    pub on_archive: Vec<Assignment>,
    pub on_restore: Vec<Assignment>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum DateSource {
    #[default]
    Usual,
    Column(String),
    /// An SQL expression over the columns of the row.
    Expression(String),
    /// Records have no age, and go by their ids.
    None,
}

/// STATUS with the usual names; without such a column, a row is pending as long as the condition holds for it.
#[derive(Debug, Clone, Default)]
pub enum StatusColumn {
    #[default]
    Usual,
    Mapped(String, StatusValues),
    None,
}

/// The columns that most tables have.
pub const STATUS: &str = "STATUS";
pub const DATE_INSERTED: &str = "DATE_INSERTED";
pub const LAST_FAILURE: &str = "LAST_FAILURE";

/// The values that each status of [`Status::OURS`] has in the table. The first is written.
pub type StatusValues = [Vec<Value>; 4];

#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    pub column: String,
    pub to: Assigned,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Assigned {
    Constant(Value),
    /// The instant, as the column spells instants.
    Now,
    /// The instant of the next attempt: the column says when a record is due.
    Next,
    /// What the handler said last.
    Error,
    /// To what the column holds; to NULL as to 0.
    Add(i64),
}

impl Mapping {
    pub fn table_name(&self) -> &str {
        self.table.as_deref().unwrap_or("BACKLOG")
    }

    /// The same table as a queue of the records that are finished with this status, which a success deletes.
    /// ARCHIVED ones go by the last failure, or a column that archiving sets, and never by the insertion date.
    pub fn of_finished(&self, status: Status, has_last_failure: bool) -> Option<Self> {
        let is_archived = status == Status::Archived;
        let is_inserted = |name: &str| match &self.inserted {
            DateSource::Usual => DATE_INSERTED.eq_ignore_ascii_case(name),
            DateSource::Column(inserted) => inserted.eq_ignore_ascii_case(name),
            DateSource::Expression(_) | DateSource::None => false,
        };
        let is_set = |name: &str| {
            let mut columns = self.on_archive.iter().map(|assignment| &assignment.column);
            columns.any(|column| column.eq_ignore_ascii_case(name))
        };
        let mapped = self.finished.clone().filter(|(it, _)| !is_archived || is_set(it));
        let last_failure = self.last_failure.clone().unwrap_or_else(|| LAST_FAILURE.into());
        let last_failure = Some((last_failure, self.last_failure_format));
        let last_failure = last_failure.filter(|_| is_archived && has_last_failure);
        let (name, format) = last_failure.or(mapped)?;
        let inherited = self.dates.format;
        let inherited =
            inherited.filter(|it| is_inserted(&name) || Format::NAMED_ONLY.contains(it));
        // A row that meets `where` as well is pending.
        let pending = self.conditions.iter().map(|it| format!("({it}\n)")).collect::<Vec<_>>();
        let not_pending = format!("({}) IS NOT TRUE", pending.join(" AND "));
        let archived = self.archived.clone().filter(|_| is_archived);
        Some(Self {
            dates: Dates { format: format.or(inherited), ..self.dates.clone() },
            inserted: DateSource::Column(name),
            conditions: archived
                .map_or_else(|| self.conditions.clone(), |it| vec![it, not_pending]),
            table: self.table.clone(),
            id: self.id.clone(),
            status: self.status.clone(),
            failures: Some(String::new()),
            last_failure: Some(String::new()),
            last_error: Some(String::new()),
            deletes_finished: true,
            ..Self::default()
        })
    }
}

pub fn usual_values() -> StatusValues {
    Status::OURS.map(|status| vec![Value::Text(status.name().into())])
}

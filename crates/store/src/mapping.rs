//! The mapping of the user's table, as plain data, for a store to look up: which column is what, which
//! value is which status, and what is written besides, all as it was typed.

use backlog_schedule::{Order, Status, Value};

use crate::date::{Dates, Format};

#[derive(Debug, Clone)]
pub struct Mapping {
    pub table: Name,
    /// Together they name a record; at least one.
    pub id: Vec<Name>,
    pub status: StatusColumn,
    pub inserted: DateSource,
    /// How `inserted` is read. Of this the other dates use the zone and a format that has to be named.
    pub dates: Dates,
    /// The column that orders the records, and its direction, if it is not the insertion date.
    pub order: Option<(String, Order)>,
    pub failures: Name,
    /// Whether that counts attempts, also the one that succeeds.
    pub counts_attempts: bool,
    /// The column with the most attempts that a record is given.
    pub max_attempts: Option<Name>,
    pub last_failure: Name,
    /// The only format of its dates.
    pub last_failure_format: Option<Format>,
    /// The column of the date at which a record was finished, with the only format of its dates.
    pub finished: Option<(Name, Option<Format>)>,
    pub last_error: Name,
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DateSource {
    Column(Name),
    /// An SQL expression over the columns of the row.
    Expression(String),
    /// Records have no age, and go by their ids.
    None,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    pub text: String,
    /// Whether the user gave it. What is just usual need not be there.
    pub is_given: bool,
}

/// STATUS with the usual names; without such a column, a row is pending as long as the condition holds for it.
#[derive(Debug, Clone)]
pub enum StatusColumn {
    Usual,
    Mapped { column: Name, values: StatusValues },
    None,
}

/// The status column that most tables have.
pub const STATUS: &str = "STATUS";

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

impl Name {
    pub fn usual(text: &str) -> Self {
        Self { text: text.into(), is_given: false }
    }

    pub fn given(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_given: true }
    }
}

impl Mapping {
    /// The same table as a queue of the records that are finished with this status: their date is when they were
    /// finished, and a success deletes its row. ARCHIVED records go by the last failure if the table has it, else by a
    /// column that archiving sets, and never by the insertion date.
    pub fn of_finished(&self, status: Status, has_last_failure: bool) -> Option<Self> {
        let is_archived = status == Status::Archived;
        let is_inserted = |name: &Name| match &self.inserted {
            DateSource::Column(inserted) => inserted.text.eq_ignore_ascii_case(&name.text),
            DateSource::Expression(_) | DateSource::None => false,
        };
        let is_set = |it: &Name| {
            let mut columns = self.on_archive.iter().map(|assignment| &assignment.column);
            columns.any(|column| column.eq_ignore_ascii_case(&it.text))
        };
        let mapped = self.finished.clone().filter(|(it, _)| !is_archived || is_set(it));
        let last_failure = (self.last_failure.clone(), self.last_failure_format);
        let last_failure = Some(last_failure).filter(|_| is_archived && has_last_failure);
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
            inserted: DateSource::Column(Name::given(name.text)),
            conditions: archived
                .map_or_else(|| self.conditions.clone(), |it| vec![it, not_pending]),
            table: self.table.clone(),
            id: self.id.clone(),
            status: self.status.clone(),
            failures: Name::given(""),
            last_failure: Name::given(""),
            last_error: Name::given(""),
            deletes_finished: true,
            ..Self::default()
        })
    }
}

/// The statuses by their own names.
pub fn usual_values() -> StatusValues {
    Status::OURS.map(|status| vec![Value::Text(status.name().into())])
}

impl Default for Mapping {
    fn default() -> Self {
        Self {
            table: Name::usual("BACKLOG"),
            id: vec![Name::usual("ID")],
            status: StatusColumn::Usual,
            inserted: DateSource::Column(Name::usual("DATE_INSERTED")),
            dates: Dates::default(),
            order: None,
            failures: Name::usual("FAILURES"),
            counts_attempts: false,
            max_attempts: None,
            last_failure: Name::usual("LAST_FAILURE"),
            last_failure_format: None,
            finished: None,
            last_error: Name::usual("LAST_ERROR"),
            most_of_error: None,
            conditions: Vec::new(),
            archived: None,
            payload: None,
            on_success: Vec::new(),
            deletes_finished: false,
            on_failure: Vec::new(),
            on_archive: Vec::new(),
            on_restore: Vec::new(),
        }
    }
}

//! Records, attempts and settlements: plain data shared by policies, stores, handlers and the engine.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::exact_id;
use crate::id::{Id, hexadecimal};
use crate::last_error::{self, Series, SeriesSource};
use crate::text::unknown_name;
use crate::text::{cut, cut_line};
use crate::time::Instant;

/// The parts of the schedule that a store's table has columns for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Capabilities {
    /// The store decides when a record is due, and in which order.
    pub keeps_schedule: bool,
    pub has_due_column: bool,
    pub has_counter: bool,
    /// A failed record differs from one that was never tried.
    pub shows_failed: bool,
    /// The column of errors can show that an attempt has begun.
    pub notes_begun: bool,
    /// A snooze can be written without counting the attempt: there is a counter, and a last failure or a due column.
    pub can_snooze: bool,
    /// Otherwise giving up is an ordinary failure.
    pub can_archive: bool,
    pub may_give_up: bool,
    pub series: Option<SeriesSource>,
}

impl Capabilities {
    /// True if a column shows that an attempt has begun; it is written before the handler starts.
    pub fn has_charge(&self) -> bool {
        self.has_counter || self.notes_begun
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Value {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    /// Text that is not UTF-8. `Display` replaces the invalid bytes.
    Bytes(Vec<u8>),
    Blob(Vec<u8>),
    Boolean(bool),
    /// A JSON document, or a number that no other variant holds exactly.
    Json(String),
}

impl Value {
    pub fn from_text(bytes: &[u8]) -> Self {
        match str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.into()),
            Err(_) => Self::Bytes(bytes.into()),
        }
    }

    /// The value as text, which is not always UTF-8: NULL is empty, and a BLOB is hexadecimal.
    pub fn text(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Bytes(bytes) => bytes.as_slice().into(),
            Self::Text(text) | Self::Json(text) => text.as_bytes().into(),
            Self::Null | Self::Integer(_) | Self::Real(_) | Self::Blob(_) | Self::Boolean(_) => {
                self.to_string().into_bytes().into()
            }
        }
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// The value as an SQL literal for messages, so that its type is visible; long values are cut.
    pub fn literal(&self) -> String {
        match self {
            Self::Null => "NULL".into(),
            Self::Integer(_) | Self::Boolean(_) => self.to_string(),
            Self::Real(number) => format!("{number:?}"),
            Self::Text(_) | Self::Bytes(_) => format!("'{}'", cut_line(&self.to_string())),
            Self::Blob(_) => format!("x'{}'", cut(self.to_string())),
            Self::Json(json) => cut_line(json),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => Ok(()),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Real(number) => write!(f, "{number}"),
            Self::Text(text) | Self::Json(text) => f.write_str(text),
            Self::Bytes(bytes) => f.write_str(&String::from_utf8_lossy(bytes)),
            Self::Boolean(truth) => write!(f, "{truth}"),
            Self::Blob(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02X}")),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    New,
    Error,
    Success,
    Archived,
    /// Any other value of the status column. The program never changes such a record.
    Foreign,
}

impl Status {
    pub const OURS: [Self; 4] = [Self::New, Self::Error, Self::Success, Self::Archived];
    pub const PENDING: [Self; 2] = [Self::New, Self::Error];
    pub const FINISHED: [Self; 2] = [Self::Success, Self::Archived];

    pub fn name(self) -> &'static str {
        match self {
            Self::New => "NEW",
            Self::Error => "ERROR",
            Self::Success => "SUCCESS",
            Self::Archived => "ARCHIVED",
            Self::Foreign => "(other)",
        }
    }

    pub fn is_pending(self) -> bool {
        Self::PENDING.contains(&self)
    }
}

impl FromStr for Status {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::OURS.into_iter().find(|status| status.name().eq_ignore_ascii_case(name));
        found.ok_or_else(|| unknown_name("status", name, Self::OURS.map(Self::name)))
    }
}

#[derive(Debug, Clone)]
pub struct Record {
    pub id: Id,
    pub status: Status,
    /// Name of the status, or the value in the row if the status is foreign.
    pub status_text: String,
    pub inserted: Value,
    /// Value of the column that orders the records, if that is not the insertion date.
    pub order_value: Option<Value>,
    /// `None` if the insertion date is NULL or cannot be read.
    pub inserted_at: Option<Instant>,
    /// 0 if the table has no such column.
    pub failures: u32,
    pub last_failure_at: Option<Instant>,
    /// Set if the store or a column of the table keeps the schedule.
    pub due_at: Option<Instant>,
    pub max_attempts: Option<u32>,
    pub last_error: Option<String>,
    /// All columns, for the handler. Commands that only print records leave the payload out.
    pub row: RowValues,
    /// Reason no handler can get the record: a value of its row is too large to be read.
    pub too_large: Option<String>,
}

/// The input of the due rule.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    pub id: &'a Id,
    pub status: Status,
    pub inserted_at: Option<Instant>,
    pub failures: u32,
    pub last_failure_at: Option<Instant>,
    pub due_at: Option<Instant>,
    pub max_attempts: Option<u32>,
    /// `None` in a search by age alone, which does not read the column of errors.
    pub snoozed_until: Option<Instant>,
    /// True if an attempt has begun and has no outcome. False in a search by age alone.
    pub has_begun: bool,
}

impl Record {
    pub fn new(id: Id, inserted_at: Option<Instant>) -> Self {
        Self {
            id,
            status: Status::New,
            status_text: String::new(),
            inserted: Value::Null,
            order_value: None,
            inserted_at,
            failures: 0,
            last_failure_at: None,
            due_at: None,
            max_attempts: None,
            last_error: None,
            row: RowValues { columns: Arc::default(), values: Vec::new() },
            too_large: None,
        }
    }

    pub fn facts(&self) -> Facts<'_> {
        Facts {
            id: &self.id,
            status: self.status,
            inserted_at: self.inserted_at,
            failures: self.failures,
            last_failure_at: self.last_failure_at,
            due_at: self.due_at,
            max_attempts: self.max_attempts,
            snoozed_until: self.last_error.as_deref().and_then(last_error::snoozed_until),
            has_begun: self.last_error.as_deref().is_some_and(last_error::is_begun),
        }
    }

    pub fn series(&self, source: SeriesSource) -> Series {
        let is_of_attempt = |at: &Instant| self.failures > 0 || Some(*at) > self.inserted_at;
        let failed_at = self.last_failure_at.filter(is_of_attempt);
        Series::read(self.last_error.as_deref().unwrap_or_default(), failed_at, source)
    }

    /// A value of the row as handlers get it, which is not always UTF-8. A part of the id looks as it does in the id.
    pub fn text_of<'a>(&self, value: &'a Value) -> Cow<'a, [u8]> {
        if let Value::Blob(bytes) = value
            && self.id.has_part(bytes)
        {
            return hexadecimal(bytes).into_bytes().into();
        }
        value.text()
    }

    pub fn next_attempt(&self) -> u32 {
        self.failures.saturating_add(1)
    }

    pub fn key(&self) -> SortKey {
        let order_value = self.order_value.as_ref().unwrap_or(&self.inserted).clone();
        SortKey { order_value, id: self.id.clone() }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SortKey {
    /// The insertion date, or the value of the column that the records are ordered by.
    #[serde(alias = "inserted")]
    pub order_value: Value,
    #[serde(with = "exact_id")]
    pub id: Id,
}

#[derive(Debug, Clone)]
pub struct RowValues {
    pub columns: Arc<[String]>,
    pub values: Vec<Value>,
}

impl RowValues {
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.columns.iter().map(String::as_str).zip(&self.values)
    }

    pub fn get(&self, column: &str) -> Option<&Value> {
        self.find(column).map(|(_, value)| value)
    }

    /// A column's value, and its name as the table spells it. A name in the same case comes first.
    pub fn find(&self, column: &str) -> Option<(&str, &Value)> {
        let exact = self.iter().find(|(name, _)| *name == column);
        exact.or_else(|| self.iter().find(|(name, _)| name.eq_ignore_ascii_case(column)))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Success,
    Failure {
        error: String,
    },
    /// A failure without an answer, so the series of attempts goes on. `reach` says if it may have succeeded.
    Unanswered {
        error: String,
        reach: Reach,
    },
    /// The handler postpones the record, and this attempt does not count.
    Snooze {
        error: String,
        after: Option<Duration>,
    },
    GiveUp {
        error: String,
    },
    /// The attempt was cut off by a stop, a lost claim or a shutdown, and does not count.
    Interrupted,
    /// The handler could not be run or reached. With `ends_pass` the pass ends, otherwise after ten such in a row.
    Unable {
        error: String,
        ends_pass: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    MayHaveWorked,
    /// The record's own values made no legal request.
    NotSent,
    /// The record was not processed. With `counts` its own values are the reason, so the attempt counts.
    Nobody {
        counts: bool,
    },
}

impl Outcome {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure { .. } | Self::Unanswered { .. } => "failure",
            Self::Snooze { .. } => "snooze",
            Self::GiveUp { .. } => "give_up",
            Self::Interrupted => "interrupted",
            Self::Unable { .. } => "unable",
        }
    }

    pub fn error(&self) -> Option<&str> {
        match self {
            Self::Failure { error }
            | Self::Unanswered { error, .. }
            | Self::Snooze { error, .. }
            | Self::GiveUp { error }
            | Self::Unable { error, .. } => Some(error),
            Self::Success | Self::Interrupted => None,
        }
    }

    /// True if other records are worth a try: the handler works, or the record itself caused the error.
    pub fn got_further(&self) -> bool {
        match self {
            Self::Unanswered { reach, .. } => !matches!(reach, Reach::Nobody { .. }),
            Self::Interrupted | Self::Unable { .. } => false,
            Self::Success | Self::Failure { .. } | Self::Snooze { .. } | Self::GiveUp { .. } => {
                true
            }
        }
    }
}

#[derive(Debug, Clone)]
pub struct Attempt {
    pub id: Id,
    pub outcome: Outcome,
    /// Exit code of a command that was not ended by a signal; 124 after a timeout, as in timeout(1).
    pub exit: Option<i32>,
    pub duration: Duration,
    pub http_status: Option<u16>,
    /// End of the command's standard error, if the handler keeps it.
    pub stderr: Option<String>,
}

impl Attempt {
    /// Turns `Unable` into a failure of the record, because the handler worked for other records.
    pub fn into_failure(self) -> Self {
        let Outcome::Unable { error, ends_pass: false } = self.outcome else { return self };
        Self {
            outcome: Outcome::Unanswered { error, reach: Reach::Nobody { counts: true } },
            ..self
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    pub transition: Transition,
    pub counter: Counter,
    pub at: Instant,
    /// The record is not due before this instant, whatever the policy says.
    pub not_before: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    /// An attempt begins. It counts as a failure until its outcome is written.
    Begun,
    Undone,
    Succeeded,
    Failed,
    Archived,
    /// An operator restored the record.
    Renewed,
}

impl Settlement {
    pub fn status(&self, before: Status) -> Status {
        match self.transition {
            Transition::Begun | Transition::Failed => Status::Error,
            Transition::Undone => before,
            Transition::Succeeded => Status::Success,
            Transition::Archived => Status::Archived,
            Transition::Renewed => Status::New,
        }
    }

    /// The settlement without the text of the error, for a table that refuses the text.
    pub fn without_error(&self) -> Self {
        let mut plain = self.clone();
        if let Counter::Set { last_error, .. } = &mut plain.counter {
            *last_error = None;
        }
        plain
    }
}

/// Values written to FAILURES, LAST_FAILURE and LAST_ERROR, if the table has these columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Counter {
    /// The values of the claimed row.
    AsBefore,
    /// The columns are not written, because another attempt may have counted in the meantime.
    Untouched,
    /// No failures and no last failure. The last error stays for people to read.
    Reset,
    /// Without an error, the text from before the attempt stays.
    Set { failures: u32, last_failure_at: Instant, last_error: Option<String> },
}

//! Records, attempts and settlements: the plain data that policy, store, handler and engine share.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::exact_id;
use crate::id::{Id, hexadecimal};
use crate::last_error::{self, Series, SeriesSource};
use crate::names::unknown_name;
use crate::time::Instant;
use crate::visible::{cut, cut_line};

/// `1 record`, `2 records`
pub fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Capabilities {
    /// Whether the store keeps the schedule itself: when a record is due, and in what order.
    pub keeps_schedule: bool,
    /// Whether a column of the table says when a record is due.
    pub has_due_column: bool,
    pub has_counter: bool,
    /// Whether the column of errors can show that an attempt has begun and not reported back.
    pub notes_begun: bool,
    /// Whether there is a column for the last failure, too, by which a snoozed record waits.
    pub can_snooze: bool,
    /// Else what is given up is an ordinary failure.
    pub can_archive: bool,
    pub may_give_up: bool,
    /// If the handler goes by them.
    pub series: Option<SeriesSource>,
}

impl Capabilities {
    /// Whether a column shows that an attempt has begun. Then it is written before the handler starts.
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
    /// Text that is not UTF-8. People are shown it with what is none replaced.
    Bytes(Vec<u8>),
    Blob(Vec<u8>),
    Boolean(bool),
    /// What is JSON as it stands: a document, or a number that no other variant holds exactly.
    Json(String),
}

impl Value {
    pub fn of_text(bytes: &[u8]) -> Self {
        str::from_utf8(bytes).map_or_else(|_| Self::Bytes(bytes.into()), |it| Self::Text(it.into()))
    }

    /// As text, which may not be UTF-8: NULL is empty, a BLOB is hexadecimal.
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

    /// The value as a message shows it, spelt as in SQL, so that its type can be seen.
    pub fn shown(&self) -> String {
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
    /// As text: NULL is empty, a BLOB is hexadecimal, and what is not UTF-8 is replaced.
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
    /// Any other value of the status column: not ours, and never touched.
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

    /// The name of one of ours, in any case.
    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::OURS.into_iter().find(|status| status.name().eq_ignore_ascii_case(name));
        found.ok_or_else(|| unknown_name("status", name, Self::OURS.map(Self::name)))
    }
}

#[derive(Debug, Clone)]
pub struct Record {
    pub id: Id,
    pub status: Status,
    /// Its name, or what the row holds instead if it is foreign.
    pub status_text: String,
    /// As the row holds it.
    pub inserted: Value,
    /// The value of the column that orders the records, if it is not the insertion date.
    pub order_value: Option<Value>,
    /// `None` if that is NULL or cannot be read as an instant.
    pub inserted_at: Option<Instant>,
    /// 0 where the table has no such column.
    pub failures: u32,
    pub last_failure_at: Option<Instant>,
    /// Where the store keeps the schedule itself, or a column of the table does.
    pub due_at: Option<Instant>,
    /// Its own, where the table has a column for that.
    pub max_attempts: Option<u32>,
    pub last_error: Option<String>,
    /// Every column of the row, for the handler; what is only shown lacks the payload.
    pub row: RowValues,
    /// Why it cannot be handed to a handler: a value of its row is too large to be read.
    pub too_large: Option<String>,
}

/// What the due rule goes by.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    pub id: &'a Id,
    pub status: Status,
    pub inserted_at: Option<Instant>,
    pub failures: u32,
    pub last_failure_at: Option<Instant>,
    pub due_at: Option<Instant>,
    pub max_attempts: Option<u32>,
    /// Not read where many rows are looked through by their age alone: what is due may be snoozed.
    pub snoozed_until: Option<Instant>,
    /// Whether an attempt has begun and not reported back. False if the column of errors is not read.
    pub has_begun: bool,
}

impl Record {
    /// One that was never tried, as far as a policy goes by it.
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

    /// Its series of attempts, as it was claimed.
    pub fn series(&self, source: SeriesSource) -> Series {
        let is_of_an_attempt = |at: &Instant| self.failures > 0 || Some(*at) > self.inserted_at;
        let failed_at = self.last_failure_at.filter(is_of_an_attempt);
        Series::of(self.last_error.as_deref().unwrap_or_default(), failed_at, source)
    }

    /// A value of its row as a handler gets it, which may not be UTF-8: of an id as the id is shown.
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

/// A record's place in the order of the table.
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

    /// A column's value, and its name as the table spells it: the exact one before others in case.
    pub fn find(&self, column: &str) -> Option<(&str, &Value)> {
        let exact = self.iter().find(|(name, _)| *name == column);
        exact.or_else(|| self.iter().find(|(it, _)| it.eq_ignore_ascii_case(column)))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The handler is done with the record for good.
    Success,
    /// The handler had its try.
    Failure { error: String },
    /// A failure that says nothing of the attempts before it.
    Unanswered { error: String, reach: Reach },
    /// The handler asks for an attempt so much later, and for this one not to be charged.
    Snooze { error: String, after: Option<Duration> },
    /// The handler says that no attempt will ever succeed.
    GiveUp { error: String },
    /// Our own stop ended the handler: as if it had never been started.
    Interrupted,
    /// The handler could not be run or reached. It ends the pass if no other record fares better.
    Unable { error: String, ends_pass: bool },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    MayHaveWorked,
    /// Because of the record's own values.
    NotSent,
    /// Nothing was sent, because nobody was there. It counts as a failure of the record if the record names the place.
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

    /// Whether others are worth a try: the handler works, or the record itself was to blame.
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
    /// Of a command that was started and not ended by a signal; 124 after a timeout, as timeout(1).
    pub exit: Option<i32>,
    pub duration: Duration,
    pub http_status: Option<u16>,
    /// The end of what a command wrote to it, if the handlers keep that.
    pub stderr: Option<String>,
}

impl Attempt {
    /// The same of a handler that could not be run for this record, though it could for another.
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
    /// Before when the record is not due, whatever the policy says.
    pub not_before: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    /// An attempt begins: it counts as failed until it is known to have gone otherwise.
    Begun,
    /// That was no attempt after all.
    Undone,
    Succeeded,
    Failed,
    Archived,
    /// A person wants it to be tried again.
    Renewed,
}

impl Settlement {
    /// The status that a record has then, which had this one before.
    pub fn status(&self, before: Status) -> Status {
        match self.transition {
            Transition::Begun | Transition::Failed => Status::Error,
            Transition::Undone => before,
            Transition::Succeeded => Status::Success,
            Transition::Archived => Status::Archived,
            Transition::Renewed => Status::New,
        }
    }

    /// The same without the text of an error, for a table that does not take it.
    pub fn without_error(&self) -> Self {
        let mut plain = self.clone();
        if let Counter::Set { last_error, .. } = &mut plain.counter {
            *last_error = None;
        }
        plain
    }
}

/// FAILURES, LAST_FAILURE and LAST_ERROR as they are written, as far as the table has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Counter {
    /// As they were when the record was claimed.
    AsBefore,
    /// As they are in the row now, because another attempt may have been counted meanwhile.
    Untouched,
    /// No failures, and no date of one; the last error stays for people to read.
    Reset,
    /// No error leaves what stood there before the attempt.
    Set { failures: u32, last_failure_at: Instant, last_error: Option<String> },
}

//! Failures of a database, sorted by what can be done about them. Each engine sorts its own, once.

use std::fmt;

use anyhow::{Result, anyhow};

/// An error of a kind that callers tell from others, anywhere in a chain.
#[derive(Debug, PartialEq, Eq)]
pub enum StoreError {
    /// The database stays locked or out of reach: the same command may work later.
    TryLater(String),
    Usage(String),
}

impl StoreError {
    pub fn is_try_later(error: &anyhow::Error) -> bool {
        matches!(error.downcast_ref(), Some(Self::TryLater(_)))
    }
}

impl std::error::Error for StoreError {}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::TryLater(message) | Self::Usage(message)) = self;
        f.write_str(message)
    }
}

#[derive(Debug, Default)]
pub struct DbError {
    pub kind: DbErrorKind,
    /// The database's own message.
    pub message: String,
    /// What can be done about it, behind the message: `; free some space`
    pub hint: String,
    /// The character of the statement, from 0, that it is about, where the database says so.
    pub position: Option<usize>,
    /// Whether it is one row that cannot be read, and not the table: others may well be.
    pub is_of_one_row: bool,
    /// Whether the table refuses what was to be written. Another row may fare better.
    pub is_refusal: bool,
    /// Whether a part of the writes may have been made.
    pub is_partial: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DbErrorKind {
    /// The session is gone, and whatever it held with it.
    Lost,
    /// Somebody else is in the way: the same statement may go through a moment later.
    Busy,
    /// A value cannot be one of the type that it is compared with, so that no row has it.
    NoValue,
    Forbidden,
    ReadOnly,
    Io,
    /// The database or its claims are not where they were when the pass began: nobody else sees what is in them.
    Moved,
    #[default]
    Other,
}

pub type DbResult<T> = Result<T, DbError>;

impl DbError {
    pub fn refusal(message: &str) -> Self {
        Self { message: message.into(), is_refusal: true, ..Self::default() }
    }

    #[expect(clippy::needless_pass_by_value, reason = "an argument of map_err")]
    pub fn moved(error: anyhow::Error) -> Self {
        Self { kind: DbErrorKind::Moved, message: error.to_string(), ..Self::default() }
    }

    pub fn is_lost(&self) -> bool {
        self.kind == DbErrorKind::Lost
    }

    /// Whether the statement itself may be wrong.
    #[cfg(feature = "postgres")]
    pub fn may_be_wrong_sql(&self) -> bool {
        matches!(self.kind, DbErrorKind::NoValue | DbErrorKind::ReadOnly | DbErrorKind::Other)
    }

    /// The failure to `verb` the database at `place`, as the user is told it.
    pub fn explain(&self, place: &str, verb: &str) -> anyhow::Error {
        let Self { message, hint, .. } = self;
        match self.kind {
            DbErrorKind::Lost => StoreError::TryLater(format!(
                "lost the connection to {place}: {message}{hint}; try later"
            ))
            .into(),
            DbErrorKind::Busy => {
                StoreError::TryLater(format!("could not {verb} {place}: {hint}; try later")).into()
            }
            DbErrorKind::Moved => anyhow!("{message}"),
            DbErrorKind::ReadOnly if verb == "read" => anyhow!(
                "could not read {place}: {message}; a command that only reads takes no `where` that \
                 writes"
            ),
            DbErrorKind::NoValue
            | DbErrorKind::Forbidden
            | DbErrorKind::ReadOnly
            | DbErrorKind::Io
            | DbErrorKind::Other => {
                anyhow!("could not {verb} {place}: {message}{hint}")
            }
        }
    }
}

impl std::error::Error for DbError {}

impl fmt::Display for DbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Why a write was not made, although the database works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub why: String,
    /// Whether another session keeps the row locked. Otherwise the table refuses the write.
    pub is_lock: bool,
}

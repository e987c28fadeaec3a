//! Errors of a database, classified by their remedy. Each database classifies its own errors.

use std::fmt;

use anyhow::{Result, anyhow};

/// An error in a chain that decides the exit code.
#[derive(Debug, PartialEq, Eq)]
pub enum StoreError {
    /// The database stays locked or unreachable. The same command may work later.
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
    pub message: String,
    /// The remedy, appended to the message: `; free some space`
    pub hint: String,
    /// Position of the error in the statement, in characters from 0, if known.
    pub position: Option<usize>,
    /// Only one row cannot be read. Others may be readable.
    pub is_of_one_row: bool,
    /// The table refuses a write. Another row may be accepted.
    pub is_refusal: bool,
    /// Some of the writes may have been made.
    pub is_partial: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DbErrorKind {
    /// The session is lost, with all that it held.
    Lost,
    /// Another session holds a lock. The same statement may succeed a moment later.
    Busy,
    /// A parameter is no value of the type that it is compared with, so that no row matches.
    NoValue,
    Forbidden,
    ReadOnly,
    Io,
    /// The file of the database or of its claims was moved during the pass, so that other passes do not see it.
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

    #[cfg(feature = "postgres")]
    pub fn may_be_wrong_sql(&self) -> bool {
        matches!(self.kind, DbErrorKind::NoValue | DbErrorKind::ReadOnly | DbErrorKind::Other)
    }

    pub fn explain(&self, label: &str, verb: &str) -> anyhow::Error {
        let Self { message, hint, .. } = self;
        match self.kind {
            DbErrorKind::Lost => StoreError::TryLater(format!(
                "lost the connection to {label}: {message}{hint}; try later"
            ))
            .into(),
            DbErrorKind::Busy => {
                StoreError::TryLater(format!("could not {verb} {label}: {hint}; try later")).into()
            }
            DbErrorKind::Moved => anyhow!("{message}"),
            DbErrorKind::ReadOnly if verb == "read" => anyhow!(
                "could not read {label}: {message}; a command that only reads cannot use a `where` that writes"
            ),
            DbErrorKind::NoValue
            | DbErrorKind::Forbidden
            | DbErrorKind::ReadOnly
            | DbErrorKind::Io
            | DbErrorKind::Other => {
                anyhow!("could not {verb} {label}: {message}{hint}")
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

/// Reason why a write was not made, although the database works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub why: String,
    /// Another session has the row locked. Otherwise the table refuses the write.
    pub is_lock: bool,
}

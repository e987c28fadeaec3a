//! The exit codes, all of them.

use std::fmt;
use std::process::ExitCode;

use backlog_store::StoreError;

/// The greater one says more. The last three are an answer to monitoring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// Everything that was asked for is done. Records that failed will be tried again.
    Done,
    /// The database stays locked or out of reach: the same command may work later.
    TryLater,
    /// A record was archived (with `--strict`: failed) or not handled, or the job could not be done.
    Failed,
    Usage,
    Signal(i32),
    /// What `status` says of limits, as monitoring plugins do.
    Unknown,
    Warning,
    Critical,
}

impl Exit {
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::TryLater => 75,
            Self::Warning => 1,
            Self::Critical => 2,
            Self::Unknown => 3,
            Self::Signal(signal) => u8::try_from(128 + signal).unwrap_or(1),
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// An error that carries its own exit code, anywhere in a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExitError {
    pub exit: Exit,
    pub message: String,
}

impl fmt::Display for ExitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ExitError {}

pub fn usage(message: impl Into<String>) -> ExitError {
    ExitError { exit: Exit::Usage, message: message.into() }
}

/// An error's own exit code, or 1.
pub fn of(error: &anyhow::Error) -> Exit {
    if let Some(error) = error.downcast_ref::<ExitError>() {
        return error.exit;
    }
    match error.downcast_ref() {
        Some(StoreError::TryLater(_)) => Exit::TryLater,
        Some(StoreError::Usage(_)) => Exit::Usage,
        None => Exit::Failed,
    }
}

//! The exit codes.

use std::fmt;
use std::process::ExitCode;

use backlog_store::StoreError;

/// The result of a command. The greatest of several results becomes the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// The command is complete. Records that failed will be tried again.
    Done,
    /// The database stays locked or unreachable: the same command may work later.
    TryLater,
    /// A record was archived (with `--strict`: failed) or not handled, or the command failed.
    Failed,
    Usage,
    Signal(i32),
    /// The figures of `status` with limits: unknown, beyond `--warn-if`, beyond `--fail-if`.
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

impl From<&anyhow::Error> for Exit {
    fn from(error: &anyhow::Error) -> Self {
        if let Some(error) = error.downcast_ref::<ExitError>() {
            return error.exit;
        }
        match error.downcast_ref() {
            Some(StoreError::TryLater(_)) => Self::TryLater,
            Some(StoreError::Usage(_)) => Self::Usage,
            None => Self::Failed,
        }
    }
}

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

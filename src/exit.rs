//! The exit codes, all of them.

use std::fmt;
use std::process::ExitCode;

/// The exit code of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Everything that was asked for is done. Records that failed will be tried again.
    Done,
    /// A record was archived (with `--strict`: failed) or could not be handled, or the job could
    /// not be done.
    Failed,
    /// The command line makes no sense.
    Usage,
    /// The database stays locked or out of reach: the same command may work later.
    TryLater,
    /// Ended by this signal.
    Signal(i32),
}

impl Exit {
    /// The one of the two that says more: what failed before what may work later.
    pub fn worse(self, other: Self) -> Self {
        let rank = |exit: Self| match exit {
            Self::Done => 0,
            Self::TryLater => 1,
            Self::Failed => 2,
            Self::Usage => 3,
            Self::Signal(_) => 4,
        };
        if rank(other) > rank(self) { other } else { self }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::TryLater => 75,
            Exit::Signal(signal) => u8::try_from(128 + signal).unwrap_or(1),
        })
    }
}

/// An error that carries its own exit code, anywhere in a chain.
#[derive(Debug, PartialEq, Eq)]
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

pub fn try_later(message: impl Into<String>) -> ExitError {
    ExitError { exit: Exit::TryLater, message: message.into() }
}

/// The exit code for an error: its own, or 1.
pub fn of(error: &anyhow::Error) -> Exit {
    error.downcast_ref::<ExitError>().map_or(Exit::Failed, |error| error.exit)
}

/// Whether an error says that the database was waited for long enough.
pub fn is_try_later(error: &anyhow::Error) -> bool {
    of(error) == Exit::TryLater
}

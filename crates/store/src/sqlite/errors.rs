//! Errors of SQLite, sorted by the remedy.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rusqlite::{Error as SqlError, ErrorCode, ffi};
use rustix::fs::statvfs;

use crate::error::{DbError, DbErrorKind};

impl From<SqlError> for DbError {
    fn from(error: SqlError) -> Self {
        let code = error.sqlite_error_code();
        let (kind, hint) = match code {
            _ if is_busy(&error) => (DbErrorKind::Busy, "another process keeps it locked"),
            Some(ErrorCode::ReadOnly) if is_of_a_wal(&error) => (DbErrorKind::Forbidden, OF_A_WAL),
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
                (DbErrorKind::Forbidden, "")
            }
            Some(ErrorCode::DatabaseCorrupt) => (
                DbErrorKind::Other,
                "; restore a backup, or recover readable rows with the .recover command of sqlite3",
            ),
            Some(ErrorCode::DiskFull) => (DbErrorKind::Other, MAKE_ROOM),
            Some(ErrorCode::SystemIoFailure) => (DbErrorKind::Io, ""),
            _ => (DbErrorKind::Other, ""),
        };
        Self {
            kind,
            hint: hint.into(),
            is_of_one_row: is_of_one_row(&error),
            is_refusal: is_refusal(&error) || code == Some(ErrorCode::DatabaseCorrupt),
            message: message(&error),
            ..Self::default()
        }
    }
}

pub fn explain(path: &Path, error: impl Into<DbError>, verb: &str) -> anyhow::Error {
    let mut error = error.into();
    if error.kind == DbErrorKind::Forbidden {
        let owner = std::fs::metadata(path).map_or(0, |found| found.uid());
        error.hint = if error.hint == OF_A_WAL {
            format!(
                "{OF_A_WAL}: run this as user {owner}, the owner, or make the file and its directory \
                 writable for this user"
            )
        } else {
            "; the file, its directory, and its -wal and -shm if they exist, must be writable for this user"
                .into()
        };
    }
    // A reader needs disk space, too: the shared memory of a WAL is a file beside the database.
    let is_full = || statvfs(path).is_ok_and(|found| found.f_bavail == 0);
    if error.kind == DbErrorKind::Io && is_full() {
        error.hint = format!("; its disk is full{MAKE_ROOM}");
    }
    error.explain(&path.display().to_string(), verb)
}

/// Hint for a user who may only read the file of the database.
const OF_A_WAL: &str = "; to read a database in WAL mode, SQLite must create files beside it";

/// Returns true if SQLite could not create the shared memory of the write-ahead log, which is a file.
fn is_of_a_wal(error: &SqlError) -> bool {
    const CODES: [i32; 3] = [
        ffi::SQLITE_READONLY_RECOVERY,
        ffi::SQLITE_READONLY_CANTINIT,
        ffi::SQLITE_READONLY_DIRECTORY,
    ];
    error.sqlite_error().is_some_and(|error| CODES.contains(&error.extended_code))
}

const MAKE_ROOM: &str = "; free some space and run the same command again";

pub fn is_busy(error: &SqlError) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Returns true if a row cannot be read: it is damaged or too big, or the queue's condition fails for it.
pub fn is_of_one_row(error: &SqlError) -> bool {
    let is_damage = matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::SystemIoFailure | ErrorCode::OutOfMemory)
    );
    is_damage || is_refusal(error)
}

/// Returns true if the table refuses a write: a constraint, a strict type, a trigger, or an id of several rows.
fn is_refusal(error: &SqlError) -> bool {
    use ErrorCode::{ConstraintViolation, TooBig, TypeMismatch, Unknown};
    let refusals = [ConstraintViolation, TypeMismatch, TooBig, Unknown];
    matches!(error, SqlError::SqlInputError { .. } | SqlError::StatementChangedRows(_))
        || error.sqlite_error_code().is_some_and(|code| refusals.contains(&code))
}

pub fn message(error: &SqlError) -> String {
    let message = if let SqlError::SqlInputError { msg, .. } = error {
        msg.clone()
    } else {
        error.to_string()
    };
    let begins_with = |begin: &&str| message.starts_with(begin);
    // SQLite does not trust functions such as `pragma_table_info()` in a schema.
    let why = if begins_with(&"unsafe use of ") {
        " in a trigger or view of the database, whose SQL is not trusted: write it without that"
    } else if ["unknown function: ", "no such collation sequence: "].iter().any(begins_with) {
        ": only the application defines it, and an index, a generated column, a CHECK or a column needs it"
    } else {
        ""
    };
    message + why
}

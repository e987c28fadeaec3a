//! Errors of SQLite, and their messages.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::anyhow;
use rusqlite::{Error as SqlError, ErrorCode};

use crate::exit::try_later;
use crate::secure_file::is_root;

pub fn explain(path: &Path, error: &SqlError, verb: &str) -> anyhow::Error {
    let shown = path.display();
    if is_busy(error) {
        let message =
            format!("could not {verb} {shown}: another process keeps it locked; try later");
        return try_later(message).into();
    }
    let hint = match error.sqlite_error_code() {
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
            match std::fs::metadata(path).map_or(0, |found| found.uid()) {
                owner if is_root() && owner != 0 => format!(
                    "; root works on it with the rights of its owner, user {owner}, for whom the file \
                     and its directory must be writable"
                ),
                _ => "; the file and its directory must be writable for this user".into(),
            }
        }
        Some(ErrorCode::DatabaseCorrupt) => {
            "; restore a backup, or save with the .recover of sqlite3 what can still be read".into()
        }
        Some(ErrorCode::DiskFull) => "; make room and run the same command again".into(),
        _ => String::new(),
    };
    anyhow!("could not {verb} {shown}: {}{hint}", words(error))
}

pub fn is_busy(error: &SqlError) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Whether it is the table that refuses what was to be written, and not the database that cannot
/// write: a constraint, a strict type, a trigger's RAISE or a mistake in its SQL, or an id that
/// stands in more than one row. Another row may fare better.
pub fn is_refusal(error: &SqlError) -> bool {
    let of_the_database = |code| {
        matches!(
            code,
            ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::FileLockingProtocolFailed
                | ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
                | ErrorCode::NoLargeFileSupport
                | ErrorCode::CannotOpen
                | ErrorCode::PermissionDenied
                | ErrorCode::ReadOnly
                | ErrorCode::DatabaseCorrupt
                | ErrorCode::NotADatabase
                | ErrorCode::OutOfMemory
                | ErrorCode::OperationInterrupted
        )
    };
    matches!(error, SqlError::SqlInputError { .. } | SqlError::StatementChangedRows(_))
        || error.sqlite_error_code().is_some_and(|code| !of_the_database(code))
}

/// Whether it is a row that cannot be read, and not the database: others may well be. A page is
/// damaged, the row is too big, or the queue's condition fails for what it holds.
pub fn is_of_the_row(error: &SqlError) -> bool {
    let is_damage = matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::SystemIoFailure | ErrorCode::OutOfMemory)
    );
    is_damage || is_refusal(error)
}

/// Whether a row cannot be written, and others may well be: the table refuses it, or its page is
/// damaged.
pub fn is_refused(error: &SqlError) -> bool {
    is_refusal(error) || error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt)
}

/// The error in SQLite's own words, without the statement that it is about.
pub fn words(error: &SqlError) -> String {
    let words = if let SqlError::SqlInputError { msg, .. } = error {
        msg.clone()
    } else {
        error.to_string()
    };
    // What a schema that is not trusted may not use, such as `pragma_table_info()`.
    if words.starts_with("unsafe use of ") {
        return format!(
            "{words} in a trigger or view of the database, whose SQL is not trusted with that: \
             write it without"
        );
    }
    if words.starts_with("unknown function: ") || words.starts_with("no such collation sequence: ")
    {
        return format!(
            "{words}: only the application has it, and an index, a generated column, a CHECK or a \
             column needs it"
        );
    }
    words
}

//! Errors of PostgreSQL, sorted by what can be done about them, and their messages.

use std::io;

use anyhow::anyhow;
use postgres::Error as SqlError;
use postgres::error::{DbError, SqlState};

use crate::exit::try_later;

pub fn explain(place: &str, error: &SqlError, verb: &str) -> anyhow::Error {
    if is_lost(error) {
        let words = words(error);
        return try_later(format!("lost the connection to {place}: {words}; try later")).into();
    }
    if is_busy(error) {
        let message = format!(
            "could not {verb} {place}: another session keeps rows locked ({}); try later",
            words(error)
        );
        return try_later(message).into();
    }
    let hint = match error.code() {
        Some(&SqlState::INSUFFICIENT_PRIVILEGE) => "; grant it to this user",
        Some(&SqlState::READ_ONLY_SQL_TRANSACTION) if verb == "read" => {
            "; a command that only reads takes no `where` that writes"
        }
        Some(&SqlState::READ_ONLY_SQL_TRANSACTION) => {
            "; this server is a standby, name the primary"
        }
        Some(&SqlState::OUT_OF_MEMORY) => {
            "; if it is the locks, lower --jobs or raise max_locks_per_transaction"
        }
        Some(&SqlState::DISK_FULL) => "; make room and run the same command again",
        _ => "",
    };
    anyhow!("could not {verb} {place}: {}{hint}", words(error))
}

/// Whether the session is gone, and whatever it held with it.
pub fn is_lost(error: &SqlError) -> bool {
    let Some(code) = error.code() else {
        // Not the server's word: the connection failed, unless a value did not fit its type.
        let source = std::error::Error::source(error);
        return error.is_closed() || source.is_some_and(<dyn std::error::Error>::is::<io::Error>);
    };
    let ends = [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW];
    let is_connection = code.code().starts_with("08") && *code != SqlState::PROTOCOL_VIOLATION;
    // A session that was idle for too long, in a transaction or not, or whose transaction took too
    // long.
    ends.contains(code) || is_connection || ["57P05", "25P03", "25P04"].contains(&code.code())
}

pub fn is_forbidden(error: &SqlError) -> bool {
    error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE)
}

/// Whether the same statement may go through a moment later.
pub fn is_busy(error: &SqlError) -> bool {
    let passing = [
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::OBJECT_IN_USE,
        SqlState::QUERY_CANCELED,
    ];
    error.code().is_some_and(|code| passing.contains(code))
}

/// Whether it is the table that refuses what was to be written: a constraint, a type, a trigger.
/// Another row may fare better.
pub fn is_refusal(error: &SqlError) -> bool {
    let of_the_row = ["22", "23", "27", "44", "P0", "42", "0A", "38", "39"];
    let is_of_the_row = |code: &SqlState| {
        *code != SqlState::INSUFFICIENT_PRIVILEGE
            && of_the_row.iter().any(|class| code.code().starts_with(class))
    };
    error.code().is_some_and(is_of_the_row)
}

/// Whether it is a row that cannot be read, and not the table: a damaged page, or what the queue's
/// condition makes of its values.
pub fn is_of_the_row(error: &SqlError) -> bool {
    let of_the_row = ["22", "XX001", "XX002", "54000"];
    error.code().is_some_and(|code| of_the_row.iter().any(|it| code.code().starts_with(it)))
}

/// Whether a value cannot be one of the type that it is compared with, so that no row has it.
pub fn is_no_value(error: &SqlError) -> bool {
    error.code().is_some_and(|code| code.code().starts_with("22"))
}

/// The error in the server's own words.
pub fn words(error: &SqlError) -> String {
    // What stands in a row is nobody's business who reads a mail of cron.
    let detail = |error: &DbError| {
        let detail = error.detail().filter(|it| !it.starts_with("Failing row"))?;
        Some(format!(" ({detail})"))
    };
    let full =
        |error: &DbError| format!("{}{}", error.message(), detail(error).unwrap_or_default());
    let words = error.as_db_error().map_or_else(|| error.to_string(), full);
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

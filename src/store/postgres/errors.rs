//! Errors of PostgreSQL, sorted by what can be done about them.

use std::io;

use tokio_postgres::Error as SqlError;
use tokio_postgres::error::{DbError as ServerError, SqlState};

use crate::store::error::{DbError, Kind};

/// Classes of refusals by the table: a constraint, a type, a trigger.
const REFUSALS: [&str; 9] = ["22", "23", "27", "44", "P0", "42", "0A", "38", "39"];
/// What is wrong with one row: a damaged page, or what the queue's condition makes of its values.
const OF_A_ROW: [&str; 4] = ["22", "XX001", "XX002", "54000"];

impl From<SqlError> for DbError {
    fn from(error: SqlError) -> Self {
        let (kind, words) = (kind(&error), words(&error));
        let code = error.code();
        let is_one_of = |classes: &[&str]| {
            code.is_some_and(|code| classes.iter().any(|class| code.code().starts_with(class)))
        };
        let hint = match code {
            _ if kind == Kind::Busy => format!("another session keeps rows locked ({words})"),
            Some(&SqlState::INSUFFICIENT_PRIVILEGE) => "; grant it to this user".into(),
            Some(&SqlState::READ_ONLY_SQL_TRANSACTION) => {
                "; this server is a standby, name the primary".into()
            }
            Some(&SqlState::OUT_OF_MEMORY) => {
                "; if it is the locks, lower --jobs or raise max_locks_per_transaction".into()
            }
            Some(&SqlState::DISK_FULL) => "; make room and run the same command again".into(),
            _ => String::new(),
        };
        let is_refusal = kind != Kind::Forbidden && is_one_of(&REFUSALS);
        Self { kind, words, hint, is_of_a_row: is_one_of(&OF_A_ROW), is_refusal }
    }
}

pub fn kind(error: &SqlError) -> Kind {
    let Some(code) = error.code() else {
        // Not the server's word: the connection failed, unless a value did not fit its type.
        let source = std::error::Error::source(error);
        let is_io = source.is_some_and(<dyn std::error::Error>::is::<io::Error>);
        return if error.is_closed() || is_io { Kind::Lost } else { Kind::Other };
    };
    let is_connection = code.code().starts_with("08") && *code != SqlState::PROTOCOL_VIOLATION;
    match *code {
        SqlState::ADMIN_SHUTDOWN | SqlState::CRASH_SHUTDOWN | SqlState::CANNOT_CONNECT_NOW => {
            Kind::Lost
        }
        SqlState::LOCK_NOT_AVAILABLE
        | SqlState::T_R_DEADLOCK_DETECTED
        | SqlState::T_R_SERIALIZATION_FAILURE
        | SqlState::OBJECT_IN_USE
        | SqlState::QUERY_CANCELED => Kind::Busy,
        SqlState::INSUFFICIENT_PRIVILEGE => Kind::Forbidden,
        SqlState::READ_ONLY_SQL_TRANSACTION => Kind::ReadOnly,
        // A session that was idle for too long, in a transaction or not, or whose transaction took
        // too long.
        _ if is_connection || ["57P05", "25P03", "25P04"].contains(&code.code()) => Kind::Lost,
        _ if code.code().starts_with("22") => Kind::NoValue,
        _ => Kind::Other,
    }
}

/// The error in the server's own words.
pub fn words(error: &SqlError) -> String {
    // What stands in a row is nobody's business who reads a mail of cron.
    let detail = |error: &ServerError| {
        let detail = error.detail().filter(|it| !it.starts_with("Failing row"))?;
        Some(format!(" ({detail})"))
    };
    let full =
        |error: &ServerError| format!("{}{}", error.message(), detail(error).unwrap_or_default());
    let words = error.as_db_error().map_or_else(|| error.to_string(), full);
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

//! Errors of the server, sorted by the remedy.

use std::error::Error;
use std::io;
use std::time::Duration;

use tokio_postgres::Error as SqlError;
use tokio_postgres::error::{DbError as ServerError, ErrorPosition, Severity};

use super::server::RequestError;
use super::session::FIRST_ANSWER_LIMIT;
use crate::error::{DbError, DbErrorKind};
use crate::system_error::reason;

const NO_CONNECTION_LEFT: &str = "; a pass needs two connections: behind a pooler its pool may have none \
                                  left (default_pool_size of PgBouncer)";
/// Classes of codes for a write that the table refuses: constraints, types, triggers.
const REFUSALS: [&str; 9] = ["22", "23", "27", "44", "P0", "42", "0A", "38", "39"];
/// Classes of codes for a single row that cannot be read: a damaged page, or a condition of the queue that fails.
const OF_A_ROW: [&str; 4] = ["22", "XX001", "XX002", "54000"];

impl From<RequestError> for DbError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Sql(error) => error.into(),
            RequestError::Silent(limit) => no_answer(limit),
        }
    }
}

fn no_answer(limit: Duration) -> DbError {
    // Heartbeats have another limit, and their failure does not point to a pool.
    let hint = if limit == FIRST_ANSWER_LIMIT { NO_CONNECTION_LEFT } else { "" };
    let message = format!("no answer within {limit:?}");
    DbError { kind: DbErrorKind::Lost, message, hint: hint.into(), ..DbError::default() }
}

impl From<SqlError> for DbError {
    fn from(error: SqlError) -> Self {
        let (kind, message, server) = (kind(&error), message(&error), error.as_db_error());
        let code = server.map_or("", |server| server.code().code());
        let hint = match code {
            "55P03" | "40P01" => format!("another session keeps rows locked ({message})"),
            _ if kind == DbErrorKind::Busy => message.clone(),
            "42501" => "; grant it to this user".into(),
            _ if kind == DbErrorKind::ReadOnly => {
                "; this server is a standby: name the primary".into()
            }
            "53200" => {
                "; if locks are the cause, lower --jobs or raise max_locks_per_transaction".into()
            }
            "53100" => "; free some space and run the same command again".into(),
            _ => String::new(),
        };
        let position = server.and_then(|server| match server.position()? {
            ErrorPosition::Original(number) => usize::try_from(*number).ok()?.checked_sub(1),
            ErrorPosition::Internal { .. } => None,
        });
        let is_one_of = |classes: &[&str]| classes.iter().any(|class| code.starts_with(class));
        let is_refusal =
            server.is_some_and(is_raised) || kind != DbErrorKind::Forbidden && is_one_of(&REFUSALS);
        let is_of_one_row = is_one_of(&OF_A_ROW);
        Self { kind, message, hint, position, is_of_one_row, is_refusal, is_partial: false }
    }
}

fn kind(error: &SqlError) -> DbErrorKind {
    let Some(server) = error.as_db_error() else {
        // The connection failed, or a value did not fit its type.
        let is_io = error.source().is_some_and(<dyn Error>::is::<io::Error>);
        return if error.is_closed() || is_io { DbErrorKind::Lost } else { DbErrorKind::Other };
    };
    let code = server.code().code();
    // 25006 also comes from a function that writes in a command that only reads.
    if is_raised(server) && code != "25006" {
        return if code.starts_with("22") { DbErrorKind::NoValue } else { DbErrorKind::Other };
    }
    match code {
        // An error that ends the session does not mean that the statement is wrong.
        _ if ends_session(server) => DbErrorKind::Lost,
        // The server shuts down, has crashed or starts; the session was idle, or its transaction open, for too long.
        "57P01" | "57P02" | "57P03" | "57P05" | "25P03" | "25P04" => DbErrorKind::Lost,
        // A lock, a deadlock, a conflict of serializable transactions, an object in use, a cancelled statement.
        "55P03" | "40P01" | "40001" | "55006" | "57014" => DbErrorKind::Busy,
        "42501" => DbErrorKind::Forbidden,
        "25006" => DbErrorKind::ReadOnly,
        // A standby cannot assign transaction ids.
        "XX000" if server.routine() == Some("GetNewTransactionId") => DbErrorKind::ReadOnly,
        _ if code.starts_with("08") && code != "08P01" => DbErrorKind::Lost,
        _ if code.starts_with("22") => DbErrorKind::NoValue,
        _ => DbErrorKind::Other,
    }
}

fn ends_session(error: &ServerError) -> bool {
    // PgBouncer sends the unparsed field only.
    let is_fatal = error.severity() == "FATAL";
    is_fatal || matches!(error.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
}

/// Returns true if a function or a policy of the table raised it; not for locks, cancellation or a lack of resources.
fn is_raised(error: &ServerError) -> bool {
    const OF_THE_SERVER: [&str; 5] = ["40", "53", "55P03", "57", "58"];
    let is_of_server = OF_THE_SERVER.iter().any(|class| error.code().code().starts_with(class));
    let is_of_policy = error.routine() == Some("ExecWithCheckOptions");
    !ends_session(error) && !is_of_server && (error.where_().is_some() || is_of_policy)
}

fn message(error: &SqlError) -> String {
    let server = error.as_db_error();
    let of_system = || error.source()?.downcast_ref().map(reason);
    let message = server.map(|server| server.message().into()).or_else(of_system);
    let mut message = message.unwrap_or_else(|| error.to_string());
    // A detail that quotes the whole row must not get into cron's mail. Details about a key stay.
    let detail = server.and_then(ServerError::detail);
    let detail = detail.filter(|detail| !detail.starts_with("Failing row"));
    message.extend(detail.map(|detail| format!(" ({detail})")));
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

//! Conditions in SQL that the user writes.

use anyhow::{Result, bail};
use rusqlite::Connection;

use super::errors::{is_busy, words};
use super::sql::quote;

/// Makes sure that a condition cannot widen what it is to narrow: it must be one whole expression,
/// and where it is closed early and opened again, `1) OR (1`, this is none.
pub fn check(connection: &Connection, table: &str, condition: &str) -> Result<()> {
    let alone = format!("SELECT CASE WHEN {condition}\nTHEN 1 END FROM {}", quote(table));
    match connection.prepare(&alone) {
        Ok(statement) if statement.parameter_count() > 0 => {
            bail!("{condition:?} is no condition: write values, not parameters")
        }
        Ok(_) => Ok(()),
        // Whoever opens the database says it.
        Err(error) if is_busy(&error) => Err(error.into()),
        Err(error) => bail!("{condition:?} is no condition in SQL: {}", words(&error)),
    }
}

/// All of the conditions in one; each on a line of its own, so that a comment in it ends there.
pub fn conjunction(conditions: &[String]) -> Option<String> {
    let terms: Vec<_> = conditions.iter().map(|condition| format!("({condition}\n)")).collect();
    Some(terms.join(" AND ")).filter(|all| !all.is_empty())
}

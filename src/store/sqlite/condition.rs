//! Conditions in SQL that the user writes.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use anyhow::{Result, bail};
use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::{Connection, Error as SqlError};

use super::errors::{is_busy, words};
use crate::lock::lock;
use crate::store::table::{Trial, quote};

/// See [`crate::store::table::Catalog`].
pub fn check(connection: &mut Connection, table: &str, condition: &str) -> Result<HashSet<String>> {
    let read = Arc::new(Mutex::new(HashSet::new()));
    let (reader, of_table) = (read.clone(), table.to_string());
    let note = move |context: AuthContext<'_>| {
        if let AuthAction::Read { table_name, column_name } = context.action
            && table_name == of_table
        {
            lock(&reader).insert(column_name.to_string());
        }
        Authorization::Allow
    };
    connection.authorizer(Some(note))?;
    // Else a name in double quotes that no column has would be text, and `"nosuch" > 1` true.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    let trials = Trial::both(condition, &quote(table), "");
    let checked = trials.iter().try_for_each(|trial| match connection.prepare(&trial.sql()) {
        Ok(statement) if statement.parameter_count() > 0 => {
            bail!("{condition:?} is no condition: write values, not parameters")
        }
        Ok(_) => Ok(()),
        // Whoever opens the database says it.
        Err(error) if is_busy(&error) => Err(error.into()),
        Err(error) => Err(trial.complaint(&words(&error), place(&error))),
    });
    connection.authorizer(None::<fn(AuthContext<'_>) -> Authorization>)?;
    // What else stands in the database may go by it.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, true)?;
    checked?;
    let read = lock(&read);
    Ok(read.clone())
}

/// The byte of a statement that an error is about, if it is about one.
fn place(error: &SqlError) -> Option<usize> {
    let SqlError::SqlInputError { offset, .. } = error else { return None };
    usize::try_from(*offset).ok()
}

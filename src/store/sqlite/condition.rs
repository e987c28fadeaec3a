//! Conditions in SQL that the user writes.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use anyhow::{Result, bail};
use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

use super::errors::{is_busy, words};
use crate::lock::lock;
use crate::store::table::quote;

/// See [`crate::store::table::Catalog`]. A condition must be one whole expression, and where it is
/// closed early and opened again, `1) OR (1`, this is none.
pub fn check(connection: &mut Connection, table: &str, condition: &str) -> Result<HashSet<String>> {
    let name = quote(table);
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
    let checked = [
        format!("SELECT CASE WHEN {condition}\nTHEN 1 END FROM {name}"),
        format!("SELECT 1 FROM {name} WHERE ({condition}\n)"),
    ]
    .iter()
    .try_for_each(|sql| match connection.prepare(sql) {
        Ok(statement) if statement.parameter_count() > 0 => {
            bail!("{condition:?} is no condition: write values, not parameters")
        }
        Ok(_) => Ok(()),
        // Whoever opens the database says it.
        Err(error) if is_busy(&error) => Err(error.into()),
        Err(error) => bail!("{condition:?} is no condition in SQL: {}", words(&error)),
    });
    connection.authorizer(None::<fn(AuthContext<'_>) -> Authorization>)?;
    checked?;
    let read = lock(&read);
    Ok(read.clone())
}

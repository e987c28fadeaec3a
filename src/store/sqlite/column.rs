//! The columns of a SQLite table.

use anyhow::Result;
use rusqlite::Connection;

use crate::date::Spelling;
use crate::store::table::{Column, Holds};

/// All columns of a table, in its order.
pub fn columns(connection: &Connection, table: &str) -> Result<Vec<Column>> {
    let columns = connection
        .prepare(
            "SELECT name, upper(type), dflt_value IS NOT NULL, pk, hidden, \"notnull\" \
             FROM pragma_table_xinfo(?1)",
        )?
        .query_map([table], |row| {
            let declared: String = row.get(1)?;
            // An INTEGER PRIMARY KEY is the row's own number (lang_createtable.html, rowid).
            let is_row_number = declared == "INTEGER" && row.get::<_, i64>(3)? == 1;
            let is_number = declared.contains("INT");
            Ok(Column {
                name: row.get(0)?,
                holds: affinity(&declared),
                legal: None,
                most_chars: length(&declared),
                most_number: None,
                has_default: is_row_number || row.get(2)?,
                is_generated: row.get::<_, i64>(4)? > 1,
                not_null: row.get(5)?,
                spelling: if is_number { Spelling::epoch() } else { Spelling::rfc3339() },
                declared,
            })
        })?
        .collect::<rusqlite::Result<_>>()?;
    Ok(columns)
}

/// What a declared type makes of the values (datatype3.html, 3.1).
fn affinity(declared: &str) -> Holds {
    let has = |word: &str| declared.contains(word);
    if has("INT") {
        Holds::Integers
    } else if has("CHAR") || has("CLOB") || has("TEXT") {
        Holds::Text
    } else if has("BLOB") || declared.is_empty() {
        Holds::Anything
    } else if has("REAL") || has("FLOA") || has("DOUB") {
        Holds::Reals
    } else {
        Holds::Numbers
    }
}

/// How many characters a type such as VARCHAR(255) is meant for.
fn length(declared: &str) -> Option<usize> {
    let (_, rest) = declared.split_once('(').filter(|(name, _)| name.contains("CHAR"))?;
    rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok()
}

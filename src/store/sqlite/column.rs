//! One column: what its declared type says, and how it spells instants.

use std::collections::HashSet;

use anyhow::Result;
use rusqlite::Connection;

use crate::date::Spelling;
use crate::record::Value;

#[derive(Clone)]
pub struct Column {
    pub name: String,
    /// As the table declares it, in capitals.
    pub declared: String,
    /// Whether the database gives a value where none is inserted.
    pub has_default: bool,
    pub is_generated: bool,
    pub not_null: bool,
    pub spelling: Spelling,
}

/// What a declared type makes of the values (datatype3.html, 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Affinity {
    Integer,
    Text,
    Blob,
    Real,
    Numeric,
}

impl Column {
    pub fn all(connection: &Connection, table: &str) -> Result<Vec<Self>> {
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
                Ok(Self {
                    name: row.get(0)?,
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

    pub fn affinity(&self) -> Affinity {
        let has = |word: &str| self.declared.contains(word);
        if has("INT") {
            Affinity::Integer
        } else if has("CHAR") || has("CLOB") || has("TEXT") {
            Affinity::Text
        } else if has("BLOB") || self.declared.is_empty() {
            Affinity::Blob
        } else if has("REAL") || has("FLOA") || has("DOUB") {
            Affinity::Real
        } else {
            Affinity::Numeric
        }
    }

    /// A value as the column would hold it.
    pub fn hold(&self, value: &Value) -> Value {
        match (self.affinity(), value) {
            (Affinity::Text, Value::Integer(number)) => Value::Text(number.to_string()),
            (Affinity::Integer | Affinity::Numeric, Value::Text(text)) => {
                text.parse().map_or_else(|_| value.clone(), Value::Integer)
            }
            (Affinity::Real, Value::Integer(_) | Value::Text(_)) => {
                value.to_string().parse().map_or_else(|_| value.clone(), Value::Real)
            }
            _ => value.clone(),
        }
    }

    /// Text, cut to the length that the type declares, as in VARCHAR(255).
    pub fn cut(&self, text: &str) -> String {
        let declared = self.declared.split_once('(').filter(|(name, _)| name.contains("CHAR"));
        let most = declared.and_then(|(_, rest)| {
            rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok()
        });
        text.chars().take(most.unwrap_or(usize::MAX)).collect()
    }
}

/// The columns by name, each once.
pub fn distinct<'a>(columns: impl IntoIterator<Item = &'a Column>) -> Vec<&'a Column> {
    let mut seen = HashSet::new();
    columns.into_iter().filter(|column| seen.insert(column.name.as_str())).collect()
}

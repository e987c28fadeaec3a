//! The catalog of a SQLite database: tables and columns.

use std::collections::HashSet;

use anyhow::{Result, bail};
use rusqlite::{Connection, OptionalExtension};

use super::column::columns;
use super::condition;
use super::errors::is_of_the_row;
use super::sql::value;
use crate::record::Value;
use crate::store::table::{Catalog, Column, Listed, Table, quote};

/// How many of the newest rows are looked at to see how a column spells instants.
const SAMPLES: u32 = 8;

pub struct SqliteCatalog<'a>(pub &'a mut Connection);

impl Catalog for SqliteCatalog<'_> {
    fn table(&self, name: &str) -> Result<Listed> {
        let Self(connection) = self;
        let found: Vec<(String, String)> = connection
            .prepare("SELECT name, type FROM pragma_table_list WHERE schema = 'main'")?
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<rusqlite::Result<_>>()?;
        let listed = found.iter().find(|(found, _)| found.eq_ignore_ascii_case(name));
        let Some((name, kind)) = listed else {
            let others: Vec<_> = found
                .iter()
                .filter(|(name, kind)| kind == "table" && !name.starts_with("sqlite_"))
                .map(|(name, _)| name.as_str())
                .collect();
            let others = if others.is_empty() { "none".into() } else { others.join(", ") };
            bail!("no table {name:?}; tables here: {others}");
        };
        if kind == "view" {
            bail!("{name} is a view; name the table behind it");
        }
        Ok(Listed { columns: columns(connection, name)?, sql: quote(name), name: name.clone() })
    }

    fn samples(&self, table: &Listed, column: &Column) -> Result<Vec<Value>> {
        let Self(connection) = self;
        let has_no_row_numbers = connection
            .query_row(
                "SELECT wr FROM pragma_table_list WHERE schema = 'main' AND name = ?1",
                [&table.name],
                |row| row.get(0),
            )
            .optional()?;
        let newest = if has_no_row_numbers == Some(true) { "" } else { "ORDER BY rowid DESC" };
        let (column, table) = (quote(&column.name), &table.sql);
        let sql = format!("SELECT {column} FROM {table} {newest} LIMIT {SAMPLES}");
        let mut statement = connection.prepare(&sql)?;
        let mut rows = statement.query([])?;
        let mut values = Vec::new();
        loop {
            match rows.next() {
                Ok(Some(row)) => values.push(value(row.get_ref(0)?)),
                Ok(None) => return Ok(values),
                // Whoever reads the row itself says so.
                Err(error) if is_of_the_row(&error) => return Ok(values),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn condition_columns(&mut self, table: &Table, condition: &str) -> Result<HashSet<String>> {
        condition::check(self.0, &table.name, condition)
    }
}

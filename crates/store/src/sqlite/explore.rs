//! Exploration of a SQLite file.

use std::path::Path;

use anyhow::Result;
use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::SqliteEngine;
use super::constraints::{checks, created, texts};
use super::open::open_file;
use crate::database::Access;
use crate::explore::{Explorable, Explorer, TableKeys};
use crate::table::{Catalog, CatalogTable, Column, quote};

pub fn explore(path: &Path) -> Result<Explorer<SqliteEngine>> {
    let engine = open_file(path, true, Access::ReadOnly)?;
    // Not even what a crash left is tidied up.
    engine.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(Explorer(engine))
}

impl Explorable for SqliteEngine {
    fn table_names(&mut self) -> Result<Vec<String>> {
        let sql = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' \
                   AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY 1";
        Ok(texts(&self.connection, sql, [])?)
    }

    fn listed(&mut self, name: &str) -> Result<CatalogTable> {
        self.connection.table(name)
    }

    /// The number of rows is that of the last row, as rows are numbered unless somebody else does.
    fn keys(&mut self, table: &CatalogTable) -> Result<TableKeys> {
        let mut keys = unique_indexes(&self.connection, &table.name)?;
        let primary = "SELECT name FROM pragma_table_info(?1) WHERE pk > 0 ORDER BY pk";
        let primary = texts(&self.connection, primary, [&table.name])?;
        keys.retain(|key| *key != primary);
        if !primary.is_empty() {
            keys.insert(0, primary);
        }
        let last = format!("SELECT max(rowid) FROM {}", table.sql);
        let rows = self.connection.query_row(&last, [], |row| row.get::<_, Option<i64>>(0));
        Ok(TableKeys {
            unique: keys,
            checks: checks(&created(&self.connection, &table.name)?),
            rows: rows.ok().flatten().map(i64::unsigned_abs),
        })
    }

    fn glimpse(column: &Column) -> String {
        let column = quote(&column.name);
        format!(
            "CASE typeof({column}) WHEN 'text' THEN substr({column}, 1, 200) \
             WHEN 'blob' THEN NULL ELSE {column} END"
        )
    }
}

/// The columns of the unique indexes over rows of all values, which hold no NULL.
fn unique_indexes(connection: &Connection, table: &str) -> Result<Vec<Vec<String>>> {
    let sql = "SELECT name FROM pragma_index_list(?1) WHERE \"unique\" AND NOT partial";
    let mut keys = Vec::new();
    for index in texts(connection, sql, [table])? {
        let sql = "SELECT i.name, coalesce(t.\"notnull\", 0) FROM pragma_index_info(?1) AS i \
                   LEFT JOIN pragma_table_info(?2) AS t ON t.name = i.name ORDER BY i.seqno";
        let mut columns = connection.prepare(sql)?;
        let columns = columns.query_map([index.as_str(), table], |row| {
            let name: Option<String> = row.get(0)?;
            Ok(name.filter(|_| row.get(1).unwrap_or(false)))
        })?;
        keys.extend(columns.collect::<rusqlite::Result<Option<Vec<_>>>>()?);
    }
    Ok(keys)
}

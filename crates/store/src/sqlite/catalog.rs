//! The catalog of a SQLite database: tables, their columns, and the columns that a condition reads.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::{Result, bail, ensure};
use backlog_schedule::Value;
use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::{Connection, Error as SqlError, Row};

use super::SqliteEngine;
use super::constraints::{checks, created, texts};
use super::dialect::{Sqlite, value};
use super::errors::{is_busy, is_of_one_row, message};
use super::open::open_file;
use crate::database::Access;
use crate::date::Spelling;
use crate::explore::{Explorable, Explorer, TableKeys};
use crate::mutex::lock;
use crate::table::{
    Catalog, CatalogTable, Column, ColumnType, ConditionProbe, Table, is_never, missing, quote,
};

/// Number of newest rows from which the format of a column of instants is detected.
const SAMPLES: u32 = 8;
/// Number of rows to look at if these have no dates.
const MORE_SAMPLES: u32 = 1_000;

const TABLE_NAMES: &str = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' \
                           AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY 1";

/// Values from the newest rows, or from any if the table has no row numbers.
fn newest(
    connection: &Connection,
    table: &CatalogTable,
    column: &Column,
    rows: u32,
) -> Result<Vec<Value>> {
    let (column, CatalogTable { sql, newest, .. }) = (column.sql(), table);
    Ok(values(connection, &format!("SELECT {column} FROM {sql} {newest} LIMIT {rows}"))?)
}

fn values(connection: &Connection, sql: &str) -> rusqlite::Result<Vec<Value>> {
    let mut statement = connection.prepare(sql)?;
    let values = statement.query_map([], |row| row.get_ref(0).map(value))?;
    // An unreadable row is reported when it is read as a record.
    values.take_while(|value| !value.as_ref().is_err_and(is_of_one_row)).collect()
}

impl Catalog for Connection {
    fn table(&self, name: &str) -> Result<CatalogTable> {
        let of_table = |row: &Row<'_>| Ok((row.get("name")?, row.get("type")?, row.get("wr")?));
        let found: Vec<(String, String, bool)> = pragma(self, "table_list", name, of_table)?;
        let Some((name, kind, without_rowid)) = found.into_iter().next() else {
            let others = texts(self, TABLE_NAMES, [])?;
            let others: Vec<_> = others.iter().map(String::as_str).collect();
            bail!(missing("table", name, &others));
        };
        ensure!(kind != "view", "{name} is a view; name the table behind it");
        let (columns, sql) = (columns(self, &name, &kind)?, quote(&name));
        let newest = if without_rowid { "" } else { "ORDER BY rowid DESC" };
        Ok(CatalogTable { name, sql, dialect: &Sqlite, columns, newest })
    }

    fn samples(&self, table: &CatalogTable, column: &Column) -> Result<Vec<Value>> {
        newest(self, table, column, SAMPLES)
    }

    fn more_samples(&self, table: &CatalogTable, column: &Column) -> Result<Vec<Value>> {
        let mut values = newest(self, table, column, MORE_SAMPLES)?;
        values.retain(|value| !is_never(value));
        Ok(values)
    }

    fn extremes(&self, table: &CatalogTable, column: &Column) -> Result<Vec<Value>> {
        let (column, table) = (column.sql(), &table.sql);
        let end = |function| {
            format!("SELECT {function}({column}) FROM {table} WHERE {column} > 0 AND {column} < ''")
        };
        Ok(values(self, &format!("{} UNION ALL {}", end("min"), end("max")))?)
    }

    fn expression(&self, table: &CatalogTable, sql: Option<&str>) -> Result<Column> {
        let sql = sql.unwrap_or("NULL");
        let trial = format!("SELECT ({sql}\n) FROM {}", table.sql);
        match self.prepare(&trial) {
            Err(error) if !is_busy(&error) => {
                bail!("{sql:?} is not an SQL expression: {}", message(&error))
            }
            prepared => drop(prepared?),
        }
        Ok(Column { name: sql.into(), ..Column::default() }.into_expression())
    }

    fn condition_columns(&mut self, table: &Table, condition: &str) -> Result<HashSet<String>> {
        let read = Arc::new(Mutex::new(HashSet::new()));
        let (reader, of_table) = (read.clone(), table.name.clone());
        let note = move |context: AuthContext<'_>| {
            if let AuthAction::Read { table_name, column_name } = context.action
                && table_name == of_table
            {
                lock(&reader).insert(column_name.to_string());
            }
            Authorization::Allow
        };
        self.authorizer(Some(note))?;
        // Otherwise an unknown name in double quotes would be text, and `"nosuch" > 1` true.
        self.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
        let trials = ConditionProbe::both(condition, &table.sql, "");
        let checked = trials.iter().try_for_each(|trial| match self.prepare(&trial.sql) {
            Ok(statement) if statement.parameter_count() > 0 => {
                bail!("{condition:?} is not a condition: write values, not parameters")
            }
            Ok(_) => Ok(()),
            Err(error) if is_busy(&error) => Err(error.into()),
            Err(error) => Err(trial.complaint(&message(&error), place(&error))),
        });
        self.authorizer(None::<fn(AuthContext<'_>) -> Authorization>)?;
        // Other SQL in the database may rely on it.
        self.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, true)?;
        checked?;
        Ok(std::mem::take(&mut *lock(&read)))
    }
}

fn columns(connection: &Connection, table: &str, kind: &str) -> Result<Vec<Column>> {
    let of_column = |row: &Row<'_>| {
        let declared = row.get::<_, String>("type")?.to_ascii_uppercase();
        let hidden: i64 = row.get("hidden")?;
        let (column_type, max_chars) = (affinity(&declared), length(&declared));
        let is_number = matches!(column_type, ColumnType::Integer | ColumnType::Real);
        let spelling = if is_number { Spelling::epoch() } else { Spelling::default() };
        let is_key = kind == "table" && row.get::<_, i64>("pk")? > 0;
        // INTEGER PRIMARY KEY is the row number (lang_createtable.html), unless it needs an index.
        let is_row_number =
            is_key && declared == "INTEGER" && !has_primary_index(connection, table)?;
        let default: Option<String> = row.get("dflt_value")?;
        let column = Column {
            max_chars,
            is_row_number,
            has_default: is_row_number || default.is_some(),
            default,
            is_generated: hidden > 1,
            not_null: row.get("notnull")?,
            name: row.get("name")?,
            declared,
            column_type,
            spelling,
            ..Column::default()
        };
        Ok((hidden != 1).then_some(column))
    };
    Ok(pragma(connection, "table_xinfo", table, of_column)?.into_iter().flatten().collect())
}

fn has_primary_index(connection: &Connection, table: &str) -> rusqlite::Result<bool> {
    let origins = pragma(connection, "index_list", table, |row| row.get::<_, String>("origin"))?;
    Ok(origins.iter().any(|origin| origin == "pk"))
}

/// Reads the rows of a pragma about a table. As a table-valued function it takes four times as long.
fn pragma<T>(
    connection: &Connection,
    name: &str,
    table: &str,
    read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    let mut rows = Vec::new();
    connection.pragma(Some("main"), name, table, |row| {
        rows.push(read(row)?);
        Ok(())
    })?;
    Ok(rows)
}

/// Returns the affinity of a declared type (datatype3.html, 3.1).
fn affinity(declared: &str) -> ColumnType {
    let has = |word: &str| declared.contains(word);
    if has("INT") {
        ColumnType::Integer
    } else if has("CHAR") || has("CLOB") || has("TEXT") {
        ColumnType::Text
    } else if has("BLOB") || declared.is_empty() {
        ColumnType::Any
    } else if has("REAL") || has("FLOA") || has("DOUB") {
        ColumnType::Real
    } else {
        ColumnType::Decimal
    }
}

/// Returns the length in a type such as VARCHAR(255).
fn length(declared: &str) -> Option<usize> {
    let (_, rest) = declared.split_once('(').filter(|(name, _)| name.contains("CHAR"))?;
    rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok()
}

fn place(error: &SqlError) -> Option<usize> {
    let SqlError::SqlInputError { offset, .. } = error else { return None };
    usize::try_from(*offset).ok()
}

pub fn explore(path: &Path) -> Result<Explorer<SqliteEngine>> {
    let engine = open_file(path, true, Access::ReadOnly)?;
    // Closing the database must not write a checkpoint either.
    engine.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(Explorer(engine))
}

impl Explorable for SqliteEngine {
    fn table_names(&mut self) -> Result<Vec<String>> {
        Ok(texts(&self.connection, TABLE_NAMES, [])?)
    }

    fn listed(&mut self, name: &str) -> Result<CatalogTable> {
        self.connection.table(name)
    }

    /// The number of rows is estimated by the highest rowid.
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

/// Returns the columns of unique indexes that are not partial and contain no NULL.
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

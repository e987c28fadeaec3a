//! The catalog of a PostgreSQL database: tables, columns and indexes.

use std::cell::RefCell;
use std::collections::HashSet;

use anyhow::{Result, bail};
use tokio_postgres::error::ErrorPosition;
use tokio_postgres::{Error as SqlError, Row};

use super::dialect::{Param, Postgres, value};
use super::errors::{kind, words};
use super::session::Session;
use crate::date::Spelling;
use crate::record::Value;
use crate::store::error::Kind;
use crate::store::table::{Catalog, Column, Holds, Listed, Table, Trial, quote};

/// How many rows are looked at to see how a column spells instants.
const SAMPLES: u32 = 8;

pub struct PgCatalog<'a>(pub RefCell<&'a mut Session>);

impl PgCatalog<'_> {
    fn query(&self, sql: &str, params: &[Param]) -> Result<Vec<Row>> {
        Ok(self.0.borrow_mut().query(sql, params)?)
    }

    fn columns(&self, table: &str) -> Result<Vec<Column>> {
        // A domain holds what the type behind it does.
        let rows = self.query(
            "SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), b.typname::text, \
             a.atthasdef OR a.attidentity <> '', a.attgenerated <> '', a.attnotnull, \
             a.atttypmod - 4, \
             ARRAY(SELECT e.enumlabel::text FROM pg_enum e WHERE e.enumtypid = b.oid \
             ORDER BY e.enumsortorder) \
             FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid \
             JOIN pg_type b ON b.oid = coalesce(nullif(t.typbasetype, 0), t.oid) \
             WHERE a.attrelid = $1::text::regclass AND a.attnum > 0 AND NOT a.attisdropped \
             ORDER BY a.attnum",
            &[Param::text(table)],
        )?;
        Ok(rows.iter().map(column).collect())
    }
}

fn column(row: &Row) -> Column {
    let base: String = row.get(2);
    let labels: Vec<String> = row.get(7);
    let has_length = matches!(base.as_str(), "varchar" | "bpchar");
    let length: Option<i32> = row.get(6);
    Column {
        name: row.get(0),
        declared: row.get(1),
        holds: holds(&base),
        legal: (!labels.is_empty()).then_some(labels),
        most_chars: length.filter(|_| has_length).and_then(|length| usize::try_from(length).ok()),
        most_number: match base.as_str() {
            "int2" => Some(i16::MAX.into()),
            "int4" => Some(i32::MAX.into()),
            _ => None,
        },
        has_default: row.get(3),
        is_generated: row.get(4),
        not_null: row.get(5),
        spelling: match base.as_str() {
            "timestamp" => Spelling::sql(),
            "date" => Spelling::date(),
            "int2" | "int4" | "int8" | "numeric" | "float4" | "float8" => Spelling::epoch(),
            _ => Spelling::rfc3339(),
        },
    }
}

fn holds(base: &str) -> Holds {
    match base {
        "int2" | "int4" | "int8" => Holds::Integers,
        "float4" | "float8" => Holds::Reals,
        "numeric" => Holds::Numbers,
        "bool" => Holds::Booleans,
        "text" | "varchar" | "bpchar" | "name" => Holds::Text,
        "timestamptz" => Holds::Instants,
        "timestamp" | "date" => Holds::ClockTimes,
        "json" | "jsonb" => Holds::Documents,
        "bytea" => Holds::Bytes,
        _ => Holds::Anything,
    }
}

impl Catalog for PgCatalog<'_> {
    fn table(&self, name: &str) -> Result<Listed> {
        let rows = self.query(
            "SELECT n.nspname::text, c.relname::text, c.relkind::text, pg_table_is_visible(c.oid) \
             FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
             WHERE c.relkind IN ('r', 'p', 'f', 'v', 'm') \
             AND (lower(c.relname) = lower($1) AND pg_table_is_visible(c.oid) \
             OR lower(n.nspname || '.' || c.relname) = lower($1)) \
             ORDER BY $1 IN (c.relname, n.nspname || '.' || c.relname) DESC, \
             lower(c.relname) = c.relname DESC LIMIT 1",
            &[Param::text(name)],
        )?;
        let Some(row) = rows.first() else {
            let others = self.query(
                "SELECT CASE WHEN pg_table_is_visible(c.oid) THEN c.relname::text \
                 ELSE n.nspname || '.' || c.relname END \
                 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                 WHERE c.relkind IN ('r', 'p', 'f') AND NOT c.relispartition \
                 AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%' \
                 ORDER BY 1 LIMIT 20",
                &[],
            )?;
            let others: Vec<String> = others.iter().map(|row| row.get(0)).collect();
            let others = if others.is_empty() { "none".into() } else { others.join(", ") };
            let hint = if name == "BACKLOG" { "; `backlog init` creates one" } else { "" };
            bail!("no table {name:?}; tables here: {others}{hint}");
        };
        let (schema, table, kind): (String, String, String) = (row.get(0), row.get(1), row.get(2));
        let sql = format!("{}.{}", quote(&schema), quote(&table));
        let name = if row.get(3) { table } else { format!("{schema}.{table}") };
        if ["v", "m"].contains(&kind.as_str()) {
            bail!("{name} is a view; name the table behind it");
        }
        Ok(Listed { columns: self.columns(&sql)?, name, sql, dialect: &Postgres })
    }

    /// Of just any rows: which are the newest could only be told by reading the whole table, and
    /// of most types it is known without a look how they are spelt. What this user may not read is
    /// found by whoever reads more.
    fn samples(&self, table: &Listed, column: &Column) -> Result<Vec<Value>> {
        if matches!(column.holds, Holds::Instants | Holds::ClockTimes) {
            return Ok(Vec::new());
        }
        let name = quote(&column.name);
        let sql = format!("SELECT {name}::text FROM {} LIMIT {SAMPLES}", table.sql);
        let rows = match self.0.borrow_mut().query(&sql, &[]) {
            Err(error) if kind(&error) == Kind::Forbidden => Vec::new(),
            rows => rows?,
        };
        Ok(rows.iter().map(|row| value(column, row.get(0))).collect())
    }

    /// A column counts as read if its name occurs in the condition: there may be some too many,
    /// which only means that a row that changed there meanwhile is left alone.
    fn condition_columns(&mut self, table: &Table, condition: &str) -> Result<HashSet<String>> {
        for trial in Trial::both(condition, &table.sql, " LIMIT 0") {
            match self.0.borrow_mut().query(&trial.sql, &[]) {
                Ok(_) => {}
                Err(error) if [Kind::Lost, Kind::Forbidden].contains(&kind(&error)) => {
                    return Err(error.into());
                }
                Err(error) => return Err(complaint(&trial, &error)),
            }
        }
        let names = identifiers(condition);
        let is_read = |column: &&Column| names.contains(&column.name);
        Ok(table.columns.iter().filter(is_read).map(|column| column.name.clone()).collect())
    }
}

/// What is said of a condition that the server refuses.
fn complaint(trial: &Trial, error: &SqlError) -> anyhow::Error {
    let db = error.as_db_error();
    let place = db.and_then(|error| match error.position()? {
        ErrorPosition::Original(place) => usize::try_from(*place).ok()?.checked_sub(1),
        ErrorPosition::Internal { .. } => None,
    });
    // The server counts characters.
    let at = place.map(|place| trial.sql.chars().take(place).map(char::len_utf8).sum());
    if let Some(error) = db.filter(|error| error.message().contains('\n')) {
        return trial.complaint(error.message(), at);
    }
    let words = words(error).replace("argument of CASE/WHEN must", "it must");
    trial.complaint(&words, at)
}

/// The names in an expression: words, which the server takes for lower case, and what stands in
/// double quotes. What stands in single quotes is text.
fn identifiers(sql: &str) -> HashSet<String> {
    let mut names = HashSet::new();
    let mut chars = sql.chars().peekable();
    while let Some(first) = chars.next() {
        if first == '\'' {
            chars.by_ref().find(|c| *c == '\'');
        } else if first == '"' {
            names.insert(chars.by_ref().take_while(|c| *c != '"').collect());
        } else if first.is_alphabetic() || first == '_' {
            let mut name = first.to_string();
            while let Some(c) = chars.next_if(|c| c.is_alphanumeric() || ['_', '$'].contains(c)) {
                name.push(c);
            }
            names.insert(name.to_lowercase());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_are_taken_for_columns() {
        let found = identifiers("Kind = 'it''s n' AND \"N m\" > o2.size_1 -- or so");
        let mut found: Vec<_> = found.iter().map(String::as_str).collect();
        found.sort_unstable();
        assert_eq!(found, ["N m", "and", "kind", "o2", "or", "size_1", "so"]);
    }
}

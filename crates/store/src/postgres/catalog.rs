//! The catalog of a PostgreSQL database: tables and their columns.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use backlog_schedule::Value;
use tokio_postgres::Row;

use super::dialect::{Param, Postgres, value};
use super::session::Session;
use super::{PgEngine, Server};
use crate::database::Access;
use crate::date::Spelling;
use crate::error::{DbError, DbErrorKind};
use crate::explore::{Explorable, Explorer, TableKeys};
use crate::table::{
    Catalog, CatalogTable, Column, ColumnType, ConditionProbe, Table, missing, quote,
};
use crate::tokens::identifiers;

pub fn explain_lookup(error: anyhow::Error, place: &str) -> anyhow::Error {
    match error.downcast::<DbError>() {
        Ok(error) => error.explain(place, "read"),
        Err(error) => error.context(format!("could not use {place}")),
    }
}

/// Number of rows from which the format of a column of instants is detected.
const SAMPLES: u32 = 8;
/// Number of rows to look at if these have no dates.
const MORE_SAMPLES: u32 = 1_000;

/// Returns a column of a declared type; `base` is the server's name for that.
pub fn typed(name: &str, declared: &str, base: &str) -> Column {
    let (column_type, spelling) = match base {
        "int2" | "int4" | "int8" => (ColumnType::Integer, Spelling::epoch()),
        "float4" | "float8" => (ColumnType::Real, Spelling::epoch()),
        "numeric" => (ColumnType::Decimal, Spelling::epoch()),
        "timestamp" => (ColumnType::LocalTime, Spelling::sql()),
        "date" => (ColumnType::LocalTime, Spelling::date()),
        "timestamptz" => (ColumnType::Instant, Spelling::default()),
        "bool" => (ColumnType::Boolean, Spelling::default()),
        "text" | "varchar" | "bpchar" | "name" => (ColumnType::Text, Spelling::default()),
        "json" | "jsonb" => (ColumnType::Json, Spelling::default()),
        "bytea" => (ColumnType::Bytes, Spelling::default()),
        _ => (ColumnType::Any, Spelling::default()),
    };
    Column {
        max_number: match base {
            "int2" => Some(i16::MAX.into()),
            "int4" => Some(i32::MAX.into()),
            _ => None,
        },
        has_default: true,
        name: name.into(),
        declared: declared.into(),
        column_type,
        spelling,
        ..Column::default()
    }
}

fn column(row: &Row) -> Column {
    let base: &str = row.get(2);
    let labels: Vec<String> = row.get(7);
    let length: Option<i32> = row.get(6);
    let max_chars = length.and_then(|length| usize::try_from(length).ok());
    Column {
        allowed_values: (!labels.is_empty()).then_some(labels),
        max_chars: max_chars.filter(|_| matches!(base, "varchar" | "bpchar")),
        has_default: row.get(3),
        default: row.get(8),
        is_generated: row.get(4),
        not_null: row.get(5),
        ..typed(row.get(0), row.get(1), base)
    }
}

/// Returns a query for the names of tables that meet a condition. A name has its schema where that is necessary.
pub fn table_names(condition: &str) -> String {
    format!(
        "SELECT CASE WHEN pg_catalog.pg_table_is_visible(c.oid) THEN c.relname::text \
         ELSE n.nspname || '.' || c.relname END \
         FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE c.relkind IN ('r', 'p', 'f') AND NOT c.relispartition \
         AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%' {condition} ORDER BY 1"
    )
}

pub fn table(session: &mut Session, name: &str) -> Result<CatalogTable> {
    let rows = session.query(
        "SELECT n.nspname::text, c.relname::text, c.relkind::text, \
         pg_catalog.pg_table_is_visible(c.oid), pg_catalog.row_security_active(c.oid) \
         FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE c.relkind IN ('r', 'p', 'f', 'v', 'm') \
         AND (pg_catalog.lower(c.relname) = pg_catalog.lower($1) AND \
         pg_catalog.pg_table_is_visible(c.oid) \
         OR pg_catalog.lower(n.nspname || '.' || c.relname) = pg_catalog.lower($1)) \
         ORDER BY $1 IN (c.relname, n.nspname || '.' || c.relname) DESC, \
         pg_catalog.lower(c.relname) = c.relname DESC LIMIT 1",
        &[Param::text(name)],
    )?;
    let Some(row) = rows.first() else {
        let others: Vec<String> = session.column(&table_names(""), &[])?;
        let others: Vec<&str> = others.iter().map(String::as_str).collect();
        let hint = if name == "BACKLOG" { "; `backlog init` creates one" } else { "" };
        bail!("{}{hint}", missing("table", name, &others));
    };
    let (schema, table, kind): (String, String, String) = (row.get(0), row.get(1), row.get(2));
    let sql = format!("{}.{}", quote(&schema), quote(&table));
    let name = if row.get(3) { table } else { format!("{schema}.{table}") };
    if ["v", "m"].contains(&kind.as_str()) {
        bail!("{name} is a view; name the table behind it");
    }
    session.has_row_security = row.get(4);
    // `b` is the type on which a domain is based.
    let columns = session.query(
        "SELECT a.attname::text, pg_catalog.format_type(a.atttypid, a.atttypmod), b.typname::text, \
         a.atthasdef OR a.attidentity <> '', a.attgenerated <> '', a.attnotnull, \
         a.atttypmod - 4, \
         ARRAY(SELECT e.enumlabel::text FROM pg_catalog.pg_enum e WHERE e.enumtypid = b.oid \
         ORDER BY e.enumsortorder), pg_catalog.pg_get_expr(d.adbin, d.adrelid) \
         FROM pg_catalog.pg_attribute a LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid \
         AND d.adnum = a.attnum JOIN pg_catalog.pg_type t ON t.oid = a.atttypid \
         JOIN pg_catalog.pg_type b ON b.oid = coalesce(nullif(t.typbasetype, 0), t.oid) \
         WHERE a.attrelid = $1::text::regclass AND a.attnum > 0 AND NOT a.attisdropped \
         ORDER BY a.attnum",
        &[Param::text(&sql)],
    )?;
    let columns = columns.iter().map(column).collect();
    Ok(CatalogTable { name, sql, dialect: &Postgres, columns, newest: "" })
}

fn values(session: &RefCell<Session>, column: &Column, sql: &str) -> Result<Vec<Value>> {
    let rows = match session.borrow_mut().query(sql, &[]) {
        Err(error) if error.kind == DbErrorKind::Forbidden => Vec::new(),
        rows => rows?,
    };
    Ok(rows.iter().map(|row| value(column, row.get(0))).collect())
}

impl Catalog for RefCell<Session> {
    fn table(&self, name: &str) -> Result<CatalogTable> {
        table(&mut self.borrow_mut(), name)
    }

    /// Reads any rows, because no index leads to the newest. Columns of time types need no samples.
    fn samples(&self, table: &CatalogTable, column: &Column) -> Result<Vec<Value>> {
        if matches!(column.column_type, ColumnType::Instant | ColumnType::LocalTime) {
            return Ok(Vec::new());
        }
        values(
            self,
            column,
            &format!("SELECT {}::text FROM {} LIMIT {SAMPLES}", column.sql(), table.sql),
        )
    }

    fn more_samples(&self, table: &CatalogTable, column: &Column) -> Result<Vec<Value>> {
        let (name, table) = (column.sql(), &table.sql);
        let rows = format!("SELECT {name}::text AS v FROM {table} LIMIT {MORE_SAMPLES}");
        values(self, column, &format!("SELECT v FROM ({rows}) AS r WHERE v > '0' LIMIT {SAMPLES}"))
    }

    fn extremes(&self, table: &CatalogTable, column: &Column) -> Result<Vec<Value>> {
        let (name, table) = (column.sql(), &table.sql);
        let end =
            |function| format!("SELECT {function}({name})::text FROM {table} WHERE {name} > 0");
        values(self, column, &format!("{} UNION ALL {}", end("min"), end("max")))
    }

    fn expression(&self, table: &CatalogTable, sql: Option<&str>) -> Result<Column> {
        let sql = sql.unwrap_or("NULL::timestamptz");
        let found = self.borrow_mut().query(
            &format!(
                "SELECT $1, pg_catalog.format_type(t.oid, NULL), b.typname::text, true, true, false, -1, \
                 ARRAY[]::text[], NULL::text \
                 FROM pg_catalog.pg_type t JOIN \
                 pg_catalog.pg_type b ON b.oid = coalesce(nullif(t.typbasetype, 0), t.oid) \
                 WHERE t.oid = (SELECT pg_catalog.pg_typeof((SELECT ({sql}\n) FROM {} LIMIT 1)))::oid",
                table.sql
            ),
            &[Param::text(sql)],
        );
        let found = match found {
            Err(error) if error.may_be_wrong_sql() => {
                bail!("{sql:?} is not an SQL expression: {}", error.message)
            }
            found => found?,
        };
        let column = found.first().map(column).with_context(|| format!("{sql} has no type"))?;
        Ok(column.into_expression())
    }

    /// A column counts as read if its name occurs. A superfluous column only guards against more changes.
    fn condition_columns(&mut self, table: &Table, condition: &str) -> Result<HashSet<String>> {
        for trial in ConditionProbe::both(condition, &table.sql, " LIMIT 0") {
            match self.get_mut().query(&trial.sql, &[]) {
                Ok(_) => {}
                Err(error) if error.kind == DbErrorKind::Forbidden => {
                    bail!(self.get_mut().forbidden(&table.sql, error))
                }
                Err(error) if !error.may_be_wrong_sql() => bail!(error),
                Err(DbError { message, position, .. }) => {
                    // The server counts characters.
                    let before = trial.sql.chars().take(position.unwrap_or(0)).map(char::len_utf8);
                    let message = message.replace("argument of CASE/WHEN must", "it must");
                    return Err(trial.complaint(&message, position.map(|_| before.sum())));
                }
            }
        }
        let names = identifiers(condition);
        let is_read = |column: &&Column| names.contains(&column.name);
        Ok(table.columns.iter().filter(is_read).map(|column| column.name.clone()).collect())
    }
}

impl Session {
    fn forbidden(&mut self, table: &str, error: DbError) -> DbError {
        let sql = "SELECT 1 WHERE NOT pg_catalog.has_table_privilege($1::text, 'SELECT')";
        let lacks = self.query(sql, &[Param::text(table)]).is_ok_and(|rows| !rows.is_empty());
        let hint = format!("; GRANT SELECT ON {table} is missing");
        if lacks { DbError { hint, ..error } } else { error }
    }
}

pub fn explore(server: &Arc<Server>) -> Result<Explorer<PgEngine>> {
    Ok(Explorer(PgEngine::new(Session::open(server, Access::ReadOnly)?)))
}

impl Explorable for PgEngine {
    /// Tables that this user may read, without partitions.
    fn table_names(&mut self) -> Result<Vec<String>> {
        let readable = "AND n.nspname <> 'pgmq' AND pg_catalog.has_schema_privilege(n.oid, 'USAGE') \
                        AND pg_catalog.has_table_privilege(c.oid, 'SELECT')";
        self.column(&table_names(readable), &[])
    }

    fn listed(&mut self, name: &str) -> Result<CatalogTable> {
        let listed = table(&mut self.session, name);
        listed.map_err(|error| explain_lookup(error, &self.session.server.to_string()))
    }

    fn keys(&mut self, table: &CatalogTable) -> Result<TableKeys> {
        let of_table = [Param::text(&table.sql)];
        let unique = self.column(
            "SELECT ARRAY(SELECT a.attname::text FROM \
             pg_catalog.unnest(i.indkey) WITH ORDINALITY AS k(n, at) \
             JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid \
             AND a.attnum = k.n ORDER BY k.at) \
             FROM pg_catalog.pg_index i WHERE i.indrelid = $1::text::regclass AND i.indisunique \
             AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL AND (i.indisprimary OR \
             NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = i.indrelid \
             AND a.attnum = ANY (i.indkey) AND NOT a.attnotnull)) \
             ORDER BY NOT i.indisprimary, i.indexrelid",
            &of_table,
        )?;
        // Before the first ANALYZE, the number is estimated from the size.
        let estimate = "SELECT CASE WHEN reltuples < 0 THEN pg_catalog.pg_relation_size(oid) / 100 \
                        ELSE reltuples::bigint END FROM pg_catalog.pg_class \
                        WHERE oid = $1::text::regclass";
        let rows: Option<i64> = self.column(estimate, &of_table)?.pop();
        let rows = rows.and_then(|rows| u64::try_from(rows).ok());
        let checks = self.column(
            "SELECT pg_catalog.pg_get_expr(conbin, conrelid) FROM pg_catalog.pg_constraint \
             WHERE contype = 'c' AND conrelid = $1::text::regclass",
            &of_table,
        )?;
        Ok(TableKeys { unique, rows, checks })
    }

    fn glimpse(column: &Column) -> String {
        if column.column_type == ColumnType::Bytes {
            return "NULL::text".into();
        }
        format!("pg_catalog.left({}::text, 200)", quote(&column.name))
    }
}

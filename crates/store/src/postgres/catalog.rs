//! The catalog of a PostgreSQL database: tables and columns, and for `check` indexes and rights.

use std::cell::RefCell;
use std::collections::HashSet;

use anyhow::{Context, Result, bail};
use backlog_schedule::Value;
use tokio_postgres::Row;

use super::PgEngine;
use super::dialect::{Param, Postgres, value};
use super::session::Session;
use crate::date::Spelling;
use crate::engine::Engine;
use crate::error::{DbError, DbErrorKind};
use crate::table::{
    Catalog, CatalogTable, Column, ColumnType, ConditionProbe, Table, missing, quote,
};
use crate::tokens::identifiers;
use crate::writes::RowConstraints;

/// The message for a lookup that failed: what the database said, or what the table lacks.
pub fn explain_lookup(error: anyhow::Error, place: &str) -> anyhow::Error {
    match error.downcast::<DbError>() {
        Ok(error) => error.explain(place, "read"),
        Err(error) => error.context(format!("could not use {place}")),
    }
}

/// How many rows are looked at to see how a column spells instants.
const SAMPLES: u32 = 8;

/// A column of a type, which the server calls `base`.
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

/// The names of the tables, with the schema where it is needed, that meet a condition.
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
    // A domain holds what the type behind it does.
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
    Ok(CatalogTable { name, sql, dialect: &Postgres, columns })
}

impl Catalog for RefCell<Session> {
    fn table(&self, name: &str) -> Result<CatalogTable> {
        table(&mut self.borrow_mut(), name)
    }

    /// Any rows: no index leads to the newest. The spelling of most types is known without them.
    fn samples(&self, table: &CatalogTable, column: &Column) -> Result<Vec<Value>> {
        if matches!(column.column_type, ColumnType::Instant | ColumnType::LocalTime) {
            return Ok(Vec::new());
        }
        let name = column.sql();
        let sql = format!("SELECT {name}::text FROM {} LIMIT {SAMPLES}", table.sql);
        let rows = match self.borrow_mut().query(&sql, &[]) {
            Err(error) if error.kind == DbErrorKind::Forbidden => Vec::new(),
            rows => rows?,
        };
        Ok(rows.iter().map(|row| value(column, row.get(0))).collect())
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
                bail!("{sql:?} is no expression in SQL: {}", error.message)
            }
            found => found?,
        };
        let column = found.first().map(column).with_context(|| format!("{sql} has no type"))?;
        Ok(column.expression())
    }

    /// A column counts as read if its name occurs. Too many only mean that changed rows are left alone.
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
    /// A warning that row level security is active. `none` is empty, or says that no row is visible.
    pub fn row_security(&self, table: &str, none: &str) -> String {
        let user = quote(&self.server.user);
        format!(
            "row level security is active on table {table} for {user}: it sees only the rows that a \
             policy allows{none}; add a policy for it (CREATE POLICY), or ALTER ROLE {user} BYPASSRLS"
        )
    }

    /// The same error, naming the privilege that is missing if it is the one to read the table.
    fn forbidden(&mut self, table: &str, error: DbError) -> DbError {
        let sql = "SELECT 1 WHERE NOT pg_catalog.has_table_privilege($1::text, 'SELECT')";
        let lacks = self.query(sql, &[Param::text(table)]).is_ok_and(|rows| !rows.is_empty());
        let hint = format!("; GRANT SELECT ON {table} is missing");
        if lacks { DbError { hint, ..error } } else { error }
    }
}

/// Parts of table `$1` in which no index leads to an id, whose columns are `$2`. The plan does not
/// show that. Tables elsewhere have none here.
pub const WITHOUT_INDEX_ON_IDS: &str = "SELECT 1 FROM pg_catalog.pg_class AS part \
             WHERE part.relkind IN ('r', 'm') AND part.oid IN \
             (SELECT $1::text::regclass UNION SELECT relid FROM \
             pg_catalog.pg_partition_tree($1::text::regclass)) \
             AND NOT EXISTS (SELECT FROM pg_catalog.pg_index AS i JOIN pg_catalog.pg_class \
             AS c ON c.oid = i.indexrelid \
             JOIN pg_catalog.pg_am AS am ON am.oid = c.relam WHERE i.indrelid = part.oid \
             AND i.indisvalid AND i.indpred IS NULL \
             AND am.amname NOT IN ('brin', 'gin', 'gist', 'spgist') \
             AND (i.indisunique OR i.indnkeyatts >= pg_catalog.cardinality($2::text[])) \
             AND NOT EXISTS (SELECT FROM pg_catalog.unnest(i.indkey) WITH ORDINALITY AS k(attnum, n) \
             WHERE n <= least(i.indnkeyatts, pg_catalog.cardinality($2::text[])) \
             AND NOT EXISTS (SELECT FROM pg_catalog.pg_attribute AS a WHERE a.attrelid = part.oid \
             AND a.attnum = k.attnum AND a.attname = ANY ($2::text[])))) LIMIT 1";

/// Whether constraints, indexes, triggers or rules of table `$1` or a part of it depend on one of the
/// columns `$2`, which are written, together with other columns, other rows or the part. `$3` says that rows
/// are deleted. True if other rows of the table count. Column 0 is the whole row.
const ROW_CONSTRAINTS: &str = "WITH RECURSIVE parts AS (SELECT $1::text::regclass::oid AS part \
             UNION SELECT inhrelid FROM pg_catalog.pg_inherits JOIN parts ON inhparent = part), \
             columns AS (SELECT attrelid, attnum FROM pg_catalog.pg_attribute JOIN parts ON attrelid = part \
             WHERE attnum > 0 AND attname = ANY ($2::text[]) \
             UNION SELECT part, 0 FROM parts) \
             SELECT false FROM pg_catalog.pg_constraint AS c JOIN columns ON \
             attrelid = c.conrelid AND attnum = ANY (c.conkey) AND \
             (c.contype = 'f' AND attnum > 0 OR c.contype = 'c' AND (attnum = 0 OR \
             pg_catalog.cardinality(c.conkey) > 1 OR c.conrelid <> $1::text::regclass AND c.coninhcount = 0)) \
             OR c.contype = 'f' AND attrelid = c.confrelid AND attnum = ANY (c.confkey) \
             UNION ALL SELECT false FROM pg_catalog.pg_constraint JOIN parts ON confrelid = part \
             WHERE $3::boolean AND contype = 'f' \
             UNION ALL SELECT i.indisunique OR i.indisexclusion FROM pg_catalog.pg_index AS i \
             JOIN columns ON attrelid = i.indrelid \
             WHERE (i.indisunique OR i.indisexclusion OR i.indexprs IS NOT NULL) \
             AND (attnum > 0 AND attnum = ANY (i.indkey) OR EXISTS \
             (SELECT FROM pg_catalog.pg_depend WHERE classid = 'pg_catalog.pg_class'::regclass \
             AND objid = i.indexrelid AND refobjid = i.indrelid AND refobjsubid = attnum \
             AND (attnum > 0 OR i.indexprs IS NOT NULL))) \
             UNION ALL SELECT true FROM pg_catalog.pg_partitioned_table JOIN columns ON attrelid = partrelid \
             AND (attnum > 0 AND attnum = ANY (partattrs) OR partexprs IS NOT NULL) \
             UNION ALL SELECT false FROM pg_catalog.pg_trigger AS t JOIN parts ON tgrelid = part \
             WHERE NOT tgisinternal AND tgenabled <> 'D' AND (tgtype & 8 <> 0 AND $3::boolean \
             OR tgtype & 16 <> 0 AND (tgattr = ''::int2vector OR EXISTS (SELECT FROM columns \
             WHERE attrelid = tgrelid AND attnum = ANY (tgattr)))) \
             UNION ALL SELECT false FROM pg_catalog.pg_rewrite JOIN parts ON ev_class = part \
             ORDER BY 1 DESC LIMIT 1";

impl PgEngine {
    /// The constraints of single rows. Row level security may refuse rows by its own conditions.
    pub fn constraints_of_rows(&mut self, table: &Table) -> Result<RowConstraints, DbError> {
        let written = table.written_columns().into_iter().map(|column| &column.name);
        let params = [
            Param::text(&table.sql),
            Param::texts(written),
            Param::text(table.deletes_finished.to_string()),
        ];
        let found = self.session.query(ROW_CONSTRAINTS, &params)?;
        let is_of_one_row = self.session.has_row_security || table.has_generated_or_growing();
        Ok(match found.first().map(|row| row.get(0)) {
            Some(true) => RowConstraints::AcrossRows,
            None if !is_of_one_row => RowConstraints::None,
            Some(false) | None => RowConstraints::OfOneRow,
        })
    }

    /// Why records could not be settled here, if so: it is a standby, or what this user may not do.
    pub fn missing_privilege(&mut self, table: &Table) -> Result<Option<String>> {
        if self.column::<bool>("SELECT pg_catalog.pg_is_in_recovery()", &[])? == [true] {
            return Ok(Some("it is a standby, which cannot be written: name the primary".into()));
        }
        let name = &table.sql;
        let read = Param::texts(table.columns.iter().map(|column| &column.name));
        let written = table.written_columns().into_iter().map(|column| &column.name);
        for (privilege, columns) in [("SELECT", read), ("UPDATE", Param::texts(written))] {
            let sql = "SELECT pg_catalog.string_agg(name, ', ') FROM \
                       pg_catalog.unnest($2::text[]) AS given(name) \
                       WHERE NOT pg_catalog.has_column_privilege($1, name, $3)";
            let params = [Param::text(name), columns, Param::text(privilege)];
            let missing: Vec<Option<String>> = self.column(sql, &params)?;
            if let Some(columns) = missing.into_iter().next().flatten() {
                return Ok(Some(format!("GRANT {privilege} ({columns}) ON {name} is missing")));
            }
        }
        let deletes: &[&str] = if table.deletes_finished { &["DELETE"] } else { &[] };
        self.missing_on_tables(std::slice::from_ref(name), deletes)
    }

    pub fn missing_on_tables(
        &mut self,
        tables: &[String],
        privileges: &[&str],
    ) -> Result<Option<String>> {
        let sql = "SELECT 'GRANT ' || privilege || ' ON ' || name || ' is missing' \
                   FROM pg_catalog.unnest($1::text[]) WITH ORDINALITY AS named(name, n), \
                   pg_catalog.unnest($2::text[]) WITH ORDINALITY AS wanted(privilege, m) \
                   WHERE NOT pg_catalog.has_table_privilege(name, privilege) ORDER BY n, m LIMIT 1";
        let params = [Param::texts(tables), Param::texts(privileges.iter().copied())];
        Ok(self.column(sql, &params)?.pop())
    }

    /// Whether an index finds the rows of a statement, and leaves none out because of its status.
    pub fn is_found_by_index(&mut self, table: &Table, sql: &str) -> Result<bool, DbError> {
        let status = table.statuses.column.as_ref().map(|column| column.name.as_str());
        let is_by_status = |line: &str| status.is_some_and(|status| line.contains(status));
        Ok(self.session.plan_of(sql)?.iter().all(|line| {
            !(line.contains("Seq Scan") || line.contains("Filter:") && is_by_status(line))
        }))
    }

    /// Whether no index is read from one end to the other for a statement: each is entered by its first
    /// column, unless it only has rows of certain statuses, or of the queue's condition.
    pub fn is_searched(&mut self, table: &Table, sql: &str) -> Result<bool, DbError> {
        let plan = self.session.plan_of(sql)?;
        let indexes = self.session.query(INDEXES, &[Param::text(&table.sql)])?;
        let of_queue = || table.statuses.column.iter().chain(&table.condition_columns);
        let is_searched = |(name, looked_for): (&str, &str)| {
            let Some(row) = indexes.iter().find(|row| row.get::<_, &str>(0) == name) else {
                return true;
            };
            let (first, only): (&str, &str) = (row.get(1), row.get(2));
            let (looked_for, only) = (identifiers(looked_for), identifiers(only));
            let is_entered = identifiers(first).iter().any(|column| looked_for.contains(column));
            is_entered || of_queue().any(|column| only.contains(&column.name))
        };
        Ok(scans(&plan).into_iter().all(is_searched))
    }
}

/// Of each index of table `$1` and its parts its name, its first column and its condition.
const INDEXES: &str = "SELECT pg_catalog.quote_ident(c.relname), \
             pg_catalog.pg_get_indexdef(i.indexrelid, 1, true), \
             coalesce(pg_catalog.pg_get_expr(i.indpred, i.indrelid), '') \
             FROM pg_catalog.pg_index AS i JOIN pg_catalog.pg_class \
             AS c ON c.oid = i.indexrelid WHERE i.indrelid IN \
             (SELECT $1::text::regclass UNION SELECT relid FROM \
             pg_catalog.pg_partition_tree($1::text::regclass))";

/// An index in a plan, and what is looked for in it.
fn scans(plan: &[String]) -> Vec<(&str, &str)> {
    let mut scans: Vec<(&str, &str)> = Vec::new();
    for line in plan {
        let named = [" using ", "Bitmap Index Scan on "];
        let index = named.into_iter().find_map(|it| line.split_once(it).map(|(_, rest)| rest));
        if let Some(index) = index {
            scans.push((index.split(" on ").next().unwrap_or(index), ""));
        } else if let (Some((_, condition)), Some(scan)) =
            (line.split_once("Index Cond: "), scans.last_mut())
        {
            scan.1 = condition;
        }
    }
    scans
}

/// Extensions that replicate between nodes which can all be written.
const ACTIVE_ACTIVE: [&str; 3] = ["bdr", "pgactive", "spock"];

impl PgEngine {
    /// If passes on other nodes would not see the claims that are made here, the reason.
    pub fn locks_of_one_node(&mut self) -> Result<Option<String>, DbError> {
        let sql = "SELECT extname::text FROM pg_catalog.pg_extension \
                   WHERE extname = ANY ($1::text[]) ORDER BY 1";
        let wanted = Param::texts(ACTIVE_ACTIVE.into_iter().chain(["citus"]));
        let found: Vec<String> = self.session.column(sql, &[wanted])?;
        for name in found {
            let (is, instead) = if name != "citus" {
                ("one of several nodes that are written", "a database without the extension")
            } else if self.any("SELECT 1 FROM pg_catalog.pg_dist_local_group WHERE groupid <> 0")? {
                ("a worker", "the coordinator")
            } else {
                continue;
            };
            return Ok(Some(format!(
                "the extension {name} makes this server {is}, and each node has advisory locks of \
                 its own, so that passes on two nodes could handle the same record; use {instead}"
            )));
        }
        Ok(None)
    }
}

//! Inspection of a table on a server: triggers, constraints, indexes, and privileges of this user.

use anyhow::Result;
use backlog_schedule::{Query, Status};

use super::PgEngine;
use super::dialect::Param;
use super::session::Session;
use crate::engine::{Constraints, Engine, Index, Inspect, QueryPlan};
use crate::error::DbResult;
use crate::inspection::Inspection;
use crate::table::{ColumnType, Table, quote};
use crate::tokens::identifiers;
use crate::writes::RowConstraints;

impl Inspect for PgEngine {
    fn triggers(&mut self, table: &Table) -> DbResult<Vec<String>> {
        let sql = "SELECT tgname::text FROM pg_catalog.pg_trigger WHERE tgrelid = $1::text::regclass \
                   AND NOT tgisinternal ORDER BY 1";
        self.session.column(sql, &[Param::text(&table.sql)])
    }

    fn dependents(&mut self, table: &Table) -> DbResult<Vec<String>> {
        let sql = "SELECT DISTINCT CASE conrelid WHEN confrelid THEN '' ELSE conrelid::regclass::text END \
                   || CASE confdeltype WHEN 'c' \
                   THEN ': CASCADE' WHEN 'n' THEN ': SET NULL' ELSE ': SET DEFAULT' END \
                   FROM pg_catalog.pg_constraint WHERE contype = 'f' \
                   AND confrelid = $1::text::regclass AND confdeltype IN ('c', 'n', 'd') ORDER BY 1";
        self.session.column(sql, &[Param::text(&table.sql)])
    }

    fn constraints(&mut self, table: &Table) -> DbResult<Constraints> {
        let rows = self.constraints_of_rows(table)?;
        // A trigger after an update (`tgtype`: bits 2 for BEFORE, 16 for UPDATE) may change a row after RETURNING.
        let sql = "SELECT 1 FROM pg_catalog.pg_trigger WHERE tgrelid = $1::text::regclass \
                   AND NOT tgisinternal AND tgtype & 2 = 0 AND tgtype & 16 <> 0 LIMIT 1";
        let change_charges = !self.session.query(sql, &[Param::text(&table.sql)])?.is_empty();
        Ok(Constraints { rows, change_charges })
    }

    fn plan(&mut self, table: &Table, query: &Query) -> DbResult<QueryPlan> {
        let any = table.any(&table.due_rows(&query.statuses));
        let found = table.due(query).concat();
        let uses_index = self.is_found_by_index(table, &any)?
            && self.is_found_by_index(table, &found)?
            && self.is_searched(table, &found)?;
        let plan = self.session.plan_of(&found)?;
        Ok(QueryPlan { uses_index, sorts: plan.iter().any(|line| line.contains("Sort Key")) })
    }

    fn failures_index_columns(&mut self, table: &Table) -> DbResult<Option<String>> {
        let columns = table.failures.as_ref().zip(table.last_failure.as_ref());
        let Some((failures, last_failure)) = columns.filter(|_| table.statuses.column.is_some())
        else {
            return Ok(None);
        };
        // The server compares only these types.
        if last_failure.column_type != ColumnType::Instant
            || failures.column_type != ColumnType::Integer
        {
            return Ok(None);
        }
        let [count, at] = [failures, last_failure].map(|column| quote(&column.name));
        let pending = table.status_in(&Status::PENDING);
        let probe = table.any(&format!("{pending} AND {count} = 1 AND {at} < pg_catalog.now()"));
        let is_found = self.is_found_by_index(table, &probe)? && self.is_searched(table, &probe)?;
        Ok((!is_found).then(|| format!("{count}, {at}")))
    }

    fn has_id_index(&mut self, table: &Table) -> DbResult<bool> {
        let ids = Param::texts(table.id.iter().map(|column| &column.name));
        let params = [Param::text(&table.sql), ids];
        Ok(self.session.query(WITHOUT_INDEX_ON_IDS, &params)?.is_empty())
    }

    fn create_index(&mut self, table: &Table, index: &Index) -> DbResult<Option<String>> {
        let Index { kind, suffix, columns, condition } = index;
        let Table { name, sql, .. } = table;
        let kinds = "SELECT relkind::text FROM pg_catalog.pg_class WHERE oid = $1::text::regclass";
        let kinds: Vec<String> = self.session.column(kinds, &[Param::text(sql)])?;
        if kinds == ["f"] {
            return Ok(None);
        }
        // Otherwise nobody could write during the build. A partitioned table has no such statement.
        let concurrently = if kinds == ["p"] { "" } else { " CONCURRENTLY" };
        let name = quote(&format!("{}_{suffix}", name.rsplit('.').next().unwrap_or(name)));
        let only =
            condition.as_ref().map_or_else(String::new, |condition| format!(" WHERE {condition}"));
        Ok(Some(format!("CREATE {kind}{concurrently} {name} ON {sql} ({columns}){only}")))
    }

    fn why_rows_are_hidden(&mut self, table: &Table) -> DbResult<Option<String>> {
        if !self.session.has_row_security
            || self.any(&format!("SELECT 1 FROM {} LIMIT 1", table.sql))?
        {
            return Ok(None);
        }
        Ok(Some(self.session.row_security(&table.name, ", none of them at present")))
    }

    fn inspect(&mut self, table: &Table, found: &mut Inspection) {
        if self.session.has_row_security {
            let none = if found.rows == Some(0) { ", none of them at present" } else { "" };
            found.hidden = Some(self.session.row_security(&table.name, none));
        }
        let version = self.column("SELECT pg_catalog.current_setting('server_version')", &[]);
        let version: Vec<String> = found.unread.or_default("the version", version);
        found.details = format!("PostgreSQL {}", version.concat());
    }
}

impl Session {
    /// Returns a warning that row level security is active. `none` is empty, or states that no row is visible.
    pub fn row_security(&self, table: &str, none: &str) -> String {
        let user = quote(&self.server.user);
        format!(
            "row level security is active on table {table} for {user}: it sees only the rows that a \
             policy allows{none}; add a policy for it (CREATE POLICY), or ALTER ROLE {user} BYPASSRLS"
        )
    }
}

/// Selects partitions of `$1`, except foreign tables, without an index on the ids `$2`, which a plan does not show.
const WITHOUT_INDEX_ON_IDS: &str = "SELECT 1 FROM pg_catalog.pg_class AS part \
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

/// Selects constraints, indexes, triggers and rules of table `$1` or its partitions that check the written columns `$2`
/// together with other columns, other rows or the partition. `$3` is true if rows are deleted. A result is true if it
/// depends on other rows of the table. Column 0 is the whole row.
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
    /// Returns the constraints that may refuse single rows. Row level security is one.
    pub fn constraints_of_rows(&mut self, table: &Table) -> DbResult<RowConstraints> {
        let written = table.written_columns().into_iter().map(|column| &column.name);
        let params = [
            Param::text(&table.sql),
            Param::texts(written),
            Param::text(table.deletes_succeeded.to_string()),
        ];
        let found = self.session.query(ROW_CONSTRAINTS, &params)?;
        let is_of_one_row = self.session.has_row_security || table.has_row_dependent_values();
        Ok(match found.first().map(|row| row.get(0)) {
            Some(true) => RowConstraints::AcrossRows,
            None if !is_of_one_row => RowConstraints::None,
            Some(false) | None => RowConstraints::OfOneRow,
        })
    }

    /// Returns why records cannot be settled here, if so: the server is a standby, or this user lacks a privilege.
    pub fn missing_privilege(&mut self, table: &Table) -> Result<Option<String>> {
        if self.column::<bool>("SELECT pg_catalog.pg_is_in_recovery()", &[])? == [true] {
            return Ok(Some("it is a standby, which is read-only: name the primary".into()));
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
        let deletes: &[&str] = if table.deletes_succeeded { &["DELETE"] } else { &[] };
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

    /// Returns true if an index finds the rows of a statement, and does not filter them by status afterwards.
    pub fn is_found_by_index(&mut self, table: &Table, sql: &str) -> DbResult<bool> {
        let status = table.statuses.column.as_ref().map(|column| column.name.as_str());
        let is_by_status = |line: &str| status.is_some_and(|status| line.contains(status));
        Ok(self.session.plan_of(sql)?.iter().all(|line| {
            !(line.contains("Seq Scan") || line.contains("Filter:") && is_by_status(line))
        }))
    }

    /// Returns true if each index is searched by its first column, or is partial by status or the queue's condition.
    pub fn is_searched(&mut self, table: &Table, sql: &str) -> DbResult<bool> {
        let plan = self.session.plan_of(sql)?;
        let indexes = self.session.query(INDEXES, &[Param::text(&table.sql)])?;
        let of_queue = || table.statuses.column.iter().chain(&table.condition_columns);
        let is_searched = |(name, condition): (&str, &str)| {
            let Some(row) = indexes.iter().find(|row| row.get::<_, &str>(0) == name) else {
                return true;
            };
            let (first, only): (&str, &str) = (row.get(1), row.get(2));
            let (searched, only) = (identifiers(condition), identifiers(only));
            let has_first = identifiers(first).iter().any(|column| searched.contains(column));
            has_first || of_queue().any(|column| only.contains(&column.name))
        };
        Ok(scans(&plan).into_iter().all(is_searched))
    }
}

/// Selects name, first column and condition of each index of table `$1` and its partitions.
const INDEXES: &str = "SELECT pg_catalog.quote_ident(c.relname), \
             pg_catalog.pg_get_indexdef(i.indexrelid, 1, true), \
             coalesce(pg_catalog.pg_get_expr(i.indpred, i.indrelid), '') \
             FROM pg_catalog.pg_index AS i JOIN pg_catalog.pg_class \
             AS c ON c.oid = i.indexrelid WHERE i.indrelid IN \
             (SELECT $1::text::regclass UNION SELECT relid FROM \
             pg_catalog.pg_partition_tree($1::text::regclass))";

/// Returns the indexes in a plan, each with its search condition.
fn scans(plan: &[String]) -> Vec<(&str, &str)> {
    let mut scans: Vec<(&str, &str)> = Vec::new();
    for line in plan {
        let named = [" using ", "Bitmap Index Scan on "];
        let index = named.into_iter().find_map(|word| Some(line.split_once(word)?.1));
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

/// Extensions for replication between several writable nodes.
const ACTIVE_ACTIVE: [&str; 3] = ["bdr", "pgactive", "spock"];

impl PgEngine {
    /// Returns the reason if passes on other nodes would not see the claims made here.
    pub fn locks_of_one_node(&mut self) -> DbResult<Option<String>> {
        let sql = "SELECT extname::text FROM pg_catalog.pg_extension \
                   WHERE extname = ANY ($1::text[]) ORDER BY 1";
        let wanted = Param::texts(ACTIVE_ACTIVE.into_iter().chain(["citus"]));
        let found: Vec<String> = self.session.column(sql, &[wanted])?;
        for name in found {
            let (is, instead) = if name != "citus" {
                ("one of several writable nodes", "a database without the extension")
            } else if self.any("SELECT 1 FROM pg_catalog.pg_dist_local_group WHERE groupid <> 0")? {
                ("a worker", "the coordinator")
            } else {
                continue;
            };
            return Ok(Some(format!(
                "the extension {name} makes this server {is}, and each node has its own advisory locks, so \
                 that passes on two nodes could handle the same record; use {instead}"
            )));
        }
        Ok(None)
    }
}

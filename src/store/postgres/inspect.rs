//! The inspection of a PostgreSQL table: its indexes and privileges.

use anyhow::Result;

use super::PgEngine;
use super::dialect::Param;
use crate::store::error::DbError;
use crate::store::table::Table;

/// The parts of table `$1` in which no index leads to an id, whose columns are `$2`. One in which
/// other columns come first is read from one end to the other, and the plan looks just the same.
/// Tables elsewhere have none here.
pub const WITHOUT_INDEX_ON_IDS: &str = "SELECT 1 FROM pg_class AS part WHERE part.relkind IN ('r', 'm') AND part.oid IN \
             (SELECT $1::text::regclass UNION SELECT relid FROM pg_partition_tree($1::text::regclass)) \
             AND NOT EXISTS (SELECT FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid \
             JOIN pg_am AS am ON am.oid = c.relam WHERE i.indrelid = part.oid \
             AND i.indisvalid AND i.indpred IS NULL \
             AND am.amname NOT IN ('brin', 'gin', 'gist', 'spgist') \
             AND (i.indisunique OR i.indnkeyatts >= cardinality($2::text[])) \
             AND NOT EXISTS (SELECT FROM unnest(i.indkey) WITH ORDINALITY AS k(attnum, n) \
             WHERE n <= least(i.indnkeyatts, cardinality($2::text[])) \
             AND NOT EXISTS (SELECT FROM pg_attribute AS a WHERE a.attrelid = part.oid \
             AND a.attnum = k.attnum AND a.attname = ANY ($2::text[])))) LIMIT 1";

impl PgEngine {
    /// Why records could not be settled here, if so: it is a standby, or what this user may not do.
    pub fn missing_privilege(&mut self, table: &Table) -> Result<Option<String>> {
        let standby = self.query("SELECT pg_is_in_recovery()", &[])?;
        if standby.iter().any(|row| row.get(0)) {
            return Ok(Some("it is a standby, which cannot be written: name the primary".into()));
        }
        let name = &table.sql;
        let read = Param::texts(table.columns.iter().map(|column| &column.name));
        let written = table.written_columns().into_iter().map(|column| &column.name);
        for (privilege, columns) in [("SELECT", read), ("UPDATE", Param::texts(written))] {
            let sql = "SELECT name FROM unnest($2::text[]) AS given(name) \
                       WHERE NOT has_column_privilege($1, name, $3)";
            let params = [Param::text(name), columns, Param::text(privilege)];
            let missing = self.query(sql, &params)?;
            let missing: Vec<&str> = missing.iter().map(|row| row.get(0)).collect();
            if !missing.is_empty() {
                let columns = missing.join(", ");
                return Ok(Some(format!("GRANT {privilege} ({columns}) ON {name} is missing")));
            }
        }
        let deletes: &[&str] = if table.deletes_finished { &["DELETE"] } else { &[] };
        self.missing_on_tables(std::slice::from_ref(name), deletes)
    }

    /// What this user may not do with whole tables.
    pub fn missing_on_tables(
        &mut self,
        tables: &[String],
        privileges: &[&str],
    ) -> Result<Option<String>> {
        for table in tables {
            for privilege in privileges {
                let params = [table.as_str(), privilege].map(Param::text);
                let rows = self.query("SELECT has_table_privilege($1, $2)", &params)?;
                if !rows.iter().all(|row| row.get(0)) {
                    return Ok(Some(format!("GRANT {privilege} ON {table} is missing")));
                }
            }
        }
        Ok(None)
    }

    /// Whether an index leads to what a statement looks for: no table is read from one end to the
    /// other, and none of what an index finds is left out because of its status.
    pub fn is_served(&mut self, table: &Table, sql: &str) -> Result<bool, DbError> {
        let rows = self.session.plan("enable_seqscan = off", sql)?;
        let status = table.statuses.column.as_ref().map(|column| column.name.as_str());
        Ok(rows.iter().all(|row| {
            let line: &str = row.get(0);
            let is_left_out =
                line.contains("Filter:") && status.is_some_and(|it| line.contains(it));
            !line.contains("Seq Scan") && !is_left_out
        }))
    }
}

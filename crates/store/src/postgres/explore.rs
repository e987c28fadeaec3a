//! Exploration of a PostgreSQL database.

use std::sync::Arc;

use anyhow::Result;

use super::dialect::Param;
use super::session::Session;
use super::{PgEngine, Server, catalog};
use crate::database::Access;
use crate::explore::{Explorable, Explorer, TableKeys};
use crate::table::{CatalogTable, Column, ColumnType, quote};

pub fn explore(server: &Arc<Server>) -> Result<Explorer<PgEngine>> {
    Ok(Explorer(PgEngine::new(Session::open(server, Access::ReadOnly)?)))
}

impl Explorable for PgEngine {
    /// Those that this user may read, but no partitions of others.
    fn table_names(&mut self) -> Result<Vec<String>> {
        let readable = "AND n.nspname <> 'pgmq' AND pg_catalog.has_schema_privilege(n.oid, 'USAGE') \
                        AND pg_catalog.has_table_privilege(c.oid, 'SELECT')";
        self.column(&catalog::table_names(readable), &[])
    }

    fn listed(&mut self, name: &str) -> Result<CatalogTable> {
        let listed = catalog::table(&mut self.session, name);
        listed.map_err(|error| catalog::explain_lookup(error, &self.session.server.to_string()))
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
        // As many as there is room for, where nobody has counted them.
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

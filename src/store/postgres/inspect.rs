//! The survey of a PostgreSQL table: what commands read of all of it. Nothing here writes.

use std::collections::BTreeMap;

use anyhow::Result;
use postgres::Row;

use super::PgDatabase;
use super::errors::explain;
use super::query;
use super::reader::Selected;
use super::sql::{Param, value};
use crate::record::Record;
use crate::store::sql::{SqlDatabase, duplicate, recent};
use crate::store::table::{Cells, Column, Table, count, has_failed, names, quote};
use crate::store::{Count, Inspection, MissingIndex, Unread};
use crate::time::Instant;

impl SqlDatabase for PgDatabase {
    fn each_row(&mut self, sql: &str, each: &mut dyn FnMut(&Table, &dyn Cells)) -> Result<()> {
        let Self { session, table, place, .. } = self;
        let read = session.each(sql, &[], &mut |row| {
            each(table, row);
            true
        });
        read.map_err(|error| explain(place, &error, "read"))
    }

    fn each_record(&mut self, from: &str, each: &mut dyn FnMut(Record) -> bool) -> Result<()> {
        let Self { session, table, place, .. } = self;
        let (sql, shown) =
            (format!("SELECT {} {from}", query::shown(table)), Selected::shown(table));
        let read = session.each(&sql, &[], &mut |row| shown.record(row, 0).is_none_or(&mut *each));
        read.map_err(|error| explain(place, &error, "read"))
    }

    fn count_by_age(&mut self, bounds: &[i64], now: Instant) -> Result<Vec<Count>> {
        let sql = query::census(&self.table, bounds, now);
        // Where the server counts each date, several counts are of one age.
        let mut counts = BTreeMap::new();
        for row in self.query(&sql, &[])? {
            let count = self.count(&row, bounds, now);
            let key = (count.text.clone(), count.band);
            counts.entry(key).and_modify(|it: &mut Count| it.rows += count.rows).or_insert(count);
        }
        Ok(counts.into_values().collect())
    }

    fn aside(&mut self, unread: &mut Unread) -> String {
        let version = self.query("SELECT current_setting('server_version')", &[]);
        let version = unread.or_nothing("the version", version);
        format!("PostgreSQL {}", version.first().map_or("", |row| row.get(0)))
    }

    /// The tables of a queue are pgmq's business.
    fn inspect_further(&mut self, by_count: bool, found: &mut Inspection) {
        if self.queue.is_some() {
            return;
        }
        let unread = &mut found.unread;
        found.triggers = unread.or_nothing("the triggers", self.triggers());
        found.missing = unread.or_nothing("indexes", self.missing_indexes(by_count).map(Some));
        found.duplicate = unread.or_nothing("the ids", duplicate(self));
    }
}

impl PgDatabase {
    /// Why records could not be settled here, if so: it is a standby, or what this user may not do.
    pub fn missing_privilege(&mut self) -> Result<Option<String>> {
        let standby = self.query("SELECT pg_is_in_recovery()", &[])?;
        if standby.iter().any(|row| row.get(0)) {
            return Ok(Some("it is a standby, which cannot be written: name the primary".into()));
        }
        let table = self.table.sql.clone();
        let read = Param::texts(self.table.columns.iter().map(|column| &column.name));
        let written = self.table.written_columns().into_iter().map(|column| &column.name);
        for (privilege, columns) in [("SELECT", read), ("UPDATE", Param::texts(written))] {
            let sql = "SELECT name FROM unnest($2::text[]) AS given(name) \
                       WHERE NOT has_column_privilege($1, name, $3)";
            let params = [Param::text(&table), columns, Param::text(privilege)];
            let missing = self.query(sql, &params)?;
            let missing: Vec<&str> = missing.iter().map(|row| row.get(0)).collect();
            if !missing.is_empty() {
                let columns = missing.join(", ");
                return Ok(Some(format!("GRANT {privilege} ({columns}) ON {table} is missing")));
            }
        }
        let deletes = self.table.deletes_finished;
        self.missing_on_tables(&[table], if deletes { &["DELETE"] } else { &[] })
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

    fn count(&self, row: &Row, bounds: &[i64], now: Instant) -> Count {
        let table = &self.table;
        let held = |column: &Option<Column>, index: usize| {
            column.as_ref().map(|column| value(column, row.get(index)))
        };
        let date: Option<&str> = row.get(5);
        let at = date.and_then(|date| table.dates.read(&value(&table.inserted, Some(date))));
        let failed = has_failed(
            held(&table.failures, 2).map(|it| count(&it)),
            held(&table.last_failure, 3).map(|it| table.other_dates.read(&it)),
            at,
        );
        let (status, text) =
            table.statuses.of(held(&table.statuses.column, 1).as_ref(), row.get(0), failed);
        let band = match row.get::<_, Option<i64>>(4) {
            Some(band) => usize::try_from(band).ok(),
            None => at.map(|at| {
                let is_within = |bound: &i64| at >= now.saturating_sub(*bound);
                bounds.iter().position(is_within).unwrap_or(bounds.len())
            }),
        };
        Count { status, text, band, rows: row.count(6) }
    }

    fn triggers(&mut self) -> Result<Vec<String>> {
        let sql = "SELECT tgname::text FROM pg_trigger WHERE tgrelid = $1::text::regclass \
                   AND NOT tgisinternal ORDER BY 1";
        let rows = self.query(sql, &[Param::text(&self.table.sql)])?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// The indexes without which a pass reads the whole table.
    fn missing_indexes(&mut self, by_count: bool) -> Result<Vec<MissingIndex>> {
        let mut missing = Vec::new();
        let Table { sql, id, inserted, failures, last_failure, .. } = &self.table;
        let only = self.table.lasting_condition().map(|it| format!(" WHERE {it}"));
        let only = only.unwrap_or_default();
        let dated = names([inserted].into_iter().chain(id));
        let counted = self.table.statuses.column.as_ref().filter(|_| by_count);
        let counted = counted.and(failures.as_ref()).zip(last_failure.as_ref());
        let counted = counted.map(|(failures, last_failure)| {
            let [count, at] = [failures, last_failure].map(|it| quote(&it.name));
            let probe = format!("SELECT 1 FROM {sql}{only} AND {count} = 1 AND {at} < now()");
            (probe, format!("{count}, {at}"))
        });
        let pending = self.table.any(&self.table.pending());
        let recent = query::due(&self.table, &recent()).0;
        if !self.is_served(&pending)? || !self.is_served(&recent)? {
            missing.push(self.index("pending records", "INDEX", "backlog", &dated, &only)?);
        }
        if let Some((probe, columns)) = counted
            && !self.is_served(&probe)?
        {
            let finds = "what is due by its count of failures";
            missing.push(self.index(finds, "INDEX", "backlog_waiting", &columns, &only)?);
        }
        if !self.finds_ids()? {
            let (finds, ids) = ("a record by its id", self.table.ids());
            missing.push(self.index(finds, "UNIQUE INDEX", "backlog_id", &ids, "")?);
        }
        Ok(missing)
    }

    fn index(
        &mut self,
        finds: &'static str,
        kind: &str,
        suffix: &str,
        columns: &str,
        only: &str,
    ) -> Result<MissingIndex> {
        let sql = "SELECT relkind::text FROM pg_class WHERE oid = $1::text::regclass";
        let found = self.query(sql, &[Param::text(&self.table.sql)])?;
        // Else nobody could write while it is built. On a partitioned table there is no such way.
        let is_partitioned = found.iter().any(|row| row.get::<_, &str>(0) == "p");
        let concurrently = if is_partitioned { "" } else { " CONCURRENTLY" };
        let Table { name, sql, .. } = &self.table;
        // Without the schema's.
        let name = quote(&format!("{}_{suffix}", name.rsplit('.').next().unwrap_or(name)));
        let statement = format!("CREATE {kind}{concurrently} {name} ON {sql} ({columns}){only}");
        Ok(MissingIndex { finds, statement })
    }

    /// Whether an index leads to an id, in each partition. One in which other columns come first is
    /// read from one end to the other, and the plan looks just the same. Tables elsewhere have none
    /// here.
    fn finds_ids(&mut self) -> Result<bool> {
        let sql = "SELECT 1 FROM pg_class AS part WHERE part.relkind IN ('r', 'm') AND part.oid IN \
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
        let ids = Param::texts(self.table.id.iter().map(|column| &column.name));
        let params = [Param::text(&self.table.sql), ids];
        Ok(self.query(sql, &params)?.is_empty())
    }

    /// Whether an index leads to what a statement looks for: no table is read from one end to the
    /// other, and none of what an index finds is left out because of its status.
    fn is_served(&mut self, sql: &str) -> Result<bool> {
        let plan = self.session.plan("enable_seqscan = off", sql);
        let rows = plan.map_err(|error| self.explain(&error, "read"))?;
        let status = self.table.statuses.column.as_ref().map(|column| column.name.as_str());
        Ok(rows.iter().all(|row| {
            let line: &str = row.get(0);
            let is_left_out =
                line.contains("Filter:") && status.is_some_and(|it| line.contains(it));
            !line.contains("Seq Scan") && !is_left_out
        }))
    }
}

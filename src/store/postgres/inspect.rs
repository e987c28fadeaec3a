//! Inspection of a PostgreSQL table before it is worked off. Nothing here writes.

use anyhow::Result;

use super::PgDatabase;
use super::query::{self, as_text};
use super::sql::{Param, value};
use crate::query::{Order, Query, Window};
use crate::record::Status;
use crate::store::inspection::is_lasting;
use crate::store::table::{Table, quote, typed_id};
use crate::store::{Inspection, MissingIndex, Pending, StatusValue, Unread};
use crate::time::{DAY, Instant};

impl PgDatabase {
    /// Why records could not be settled here, if so: it is a standby, or what this user may not do.
    pub fn missing_privilege(&mut self) -> Result<Option<String>> {
        let standby = self.query("SELECT pg_is_in_recovery()", &[])?;
        if standby.iter().any(|row| row.get(0)) {
            return Ok(Some("it is a standby, which cannot be written: name the primary".into()));
        }
        let (read, written) = (self.table.columns.iter(), self.table.written_columns());
        let read = read.map(|column| Some(column.name.clone())).collect();
        let written = written.into_iter().map(|column| Some(column.name.clone())).collect();
        for (privilege, columns) in [("SELECT", read), ("UPDATE", written)] {
            let sql = "SELECT name FROM unnest($2::text[]) AS given(name) \
                       WHERE NOT has_column_privilege($1, name, $3)";
            let text = |text: &str| Param::Text(Some(text.into()));
            let params = [text(&self.table.sql), Param::Texts(columns), text(privilege)];
            let missing = self.query(sql, &params)?;
            let missing: Vec<String> = missing.iter().map(|row| row.get(0)).collect();
            if !missing.is_empty() {
                let (columns, table) = (missing.join(", "), &self.table.sql);
                return Ok(Some(format!("GRANT {privilege} ({columns}) ON {table} is missing")));
            }
        }
        let deletes = self.table.deletes_finished;
        let table = self.table.sql.clone();
        let needed: &[_] = if deletes { &["DELETE"] } else { &[] };
        self.missing_on_tables(std::slice::from_ref(&table), needed)
    }

    /// What this user may not do with whole tables.
    pub fn missing_on_tables(
        &mut self,
        tables: &[String],
        privileges: &[&str],
    ) -> Result<Option<String>> {
        for table in tables {
            for privilege in privileges {
                let params = [table.as_str(), privilege].map(|it| Param::Text(Some(it.into())));
                let rows = self.query("SELECT has_table_privilege($1, $2)", &params)?;
                if !rows.iter().all(|row| row.get(0)) {
                    return Ok(Some(format!("GRANT {privilege} ON {table} is missing")));
                }
            }
        }
        Ok(None)
    }

    pub fn examined(&mut self, by_count: bool) -> Inspection {
        let mut unread = Unread::default();
        let mut pending = Pending::default();
        let read = self.read_pending(&mut pending);
        pending.is_cut = read.is_err();
        unread.or_nothing("the pending records", read);
        let version = unread.or_nothing("the version", self.version());
        let rows = unread.or_nothing("the number of rows", self.rows().map(Some));
        let values = unread.or_nothing("the statuses", self.status_values());
        // The tables of a queue are pgmq's business.
        let (mut triggers, mut missing, mut duplicate) = (Vec::new(), Some(Vec::new()), None);
        if self.queue.is_none() {
            triggers = unread.or_nothing("the triggers", self.triggers());
            missing = unread.or_nothing("indexes", self.missing_indexes(by_count).map(Some));
            duplicate = unread.or_nothing("the ids", self.duplicate());
        }
        Inspection {
            aside: format!("PostgreSQL {version}"),
            rows,
            values,
            pending,
            triggers,
            refused: Vec::new(),
            missing,
            duplicate,
            reuses_ids: false,
            unread,
        }
    }

    fn rows(&mut self) -> Result<u64> {
        let count = format!("SELECT count(*) FROM {}", self.table.sql);
        let rows = self.query(&count, &[])?;
        Ok(rows.first().map_or(0, |row| row.get::<_, i64>(0).unsigned_abs()))
    }

    fn version(&mut self) -> Result<String> {
        let version = self.query("SELECT current_setting('server_version')", &[])?;
        Ok(version.first().map_or_else(String::new, |row| row.get(0)))
    }

    /// Those before one that cannot be read are taken into account.
    fn read_pending(&mut self, pending: &mut Pending) -> Result<()> {
        let Self { session, table, place, .. } = self;
        let columns: Vec<_> = table.id.iter().chain([&table.inserted]).map(as_text).collect();
        let sql = format!(
            "SELECT {} FROM {} WHERE {}",
            columns.join(", "),
            table.sql,
            query::pending(table)
        );
        let read = session.each(&sql, &[], &mut |row| {
            let ids = table.id_values(row);
            pending.add(table, &ids, &value(&table.inserted, row.get(ids.len())));
            true
        });
        read.map_err(|error| super::errors::explain(place, &error, "read"))
    }

    fn status_values(&mut self) -> Result<Vec<StatusValue>> {
        let Some(column) = self.table.statuses.column.clone() else { return Ok(Vec::new()) };
        let text = as_text(&column);
        let sql = format!(
            "SELECT {text}, count(*) FROM {} GROUP BY {text} ORDER BY 2 DESC",
            self.table.sql
        );
        let rows = self.query(&sql, &[])?;
        let found = rows.iter().map(|row| {
            let rows = u64::try_from(row.get::<_, i64>(1)).unwrap_or(0);
            StatusValue::new(&self.table, &value(&column, row.get(0)), rows)
        });
        Ok(found.collect())
    }

    fn triggers(&mut self) -> Result<Vec<String>> {
        let sql = "SELECT tgname::text FROM pg_trigger WHERE tgrelid = $1::text::regclass \
                   AND NOT tgisinternal ORDER BY 1";
        let rows = self.query(sql, &[Param::Text(Some(self.table.sql.clone()))])?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// An id that more than one row has.
    fn duplicate(&mut self) -> Result<Option<String>> {
        let columns: Vec<_> = self.table.id.iter().map(as_text).collect();
        let sql = format!(
            "SELECT {} FROM {} WHERE {} GROUP BY {} HAVING count(*) > 1 LIMIT 1",
            columns.join(", "),
            self.table.sql,
            self.table.has_ids(),
            self.table.ids()
        );
        let rows = self.query(&sql, &[])?;
        Ok(rows
            .first()
            .map(|row| typed_id(&self.table.id_values(row)).unwrap_or_else(|shown| shown)))
    }

    /// The indexes without which a pass reads the whole table.
    fn missing_indexes(&mut self, by_count: bool) -> Result<Vec<MissingIndex>> {
        let sql = "SELECT relkind::text FROM pg_class WHERE oid = $1::text::regclass";
        let kind = self.query(sql, &[Param::Text(Some(self.table.sql.clone()))])?;
        // Else nobody could write while it is built. On a partitioned table there is no such way.
        let is_partitioned = kind.iter().any(|row| row.get::<_, String>(0) == "p");
        let create = if is_partitioned { "INDEX" } else { "INDEX CONCURRENTLY" };
        let mut missing = Vec::new();
        for (probes, index) in probes(&self.table, by_count, create) {
            for probe in probes {
                if !self.is_served(&probe)? {
                    missing.push(index);
                    break;
                }
            }
        }
        if !self.finds_ids()? {
            let (bare, name, ids) = (bare(&self.table), &self.table.sql, self.table.ids());
            let index = quote(&format!("{bare}_backlog_id"));
            let statement = format!("CREATE UNIQUE {create} {index} ON {name} ({ids})");
            missing.push(MissingIndex { finds: "a record by its id", statement });
        }
        Ok(missing)
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
        let ids = self.table.id.iter().map(|column| Some(column.name.clone())).collect();
        let params = [Param::Text(Some(self.table.sql.clone())), Param::Texts(ids)];
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

/// Indexes that a pass needs besides that on the id, and statements that each of them serves.
fn probes(table: &Table, by_count: bool, create: &str) -> Vec<(Vec<String>, MissingIndex)> {
    let recent = Query {
        window: Window::Inserted { from: Instant(DAY), until: None },
        statuses: Status::PENDING.to_vec(),
        order: Order::Newest,
        after: None,
        up_to: None,
        limit: 1,
    };
    let index = |what: &str| quote(&format!("{}_{what}", bare(table)));
    let (name, all_ids) = (&table.sql, table.ids());
    // Of the pending rows only, if what makes them so is something that an index can have.
    let only = match &table.statuses.column {
        Some(_) => Some(query::status_in(table, &Status::PENDING)),
        None => table.condition.clone().filter(|it| is_lasting(it)),
    };
    let only = only.map_or_else(String::new, |it| format!(" WHERE {}", it.replace("\n)", ")")));
    let mut probes = vec![(
        vec![table.any(&query::pending(table)), query::due(table, &recent).0],
        MissingIndex {
            finds: "pending records",
            statement: format!(
                "CREATE {create} {} ON {name} ({}, {all_ids}){only}",
                index("backlog"),
                quote(&table.inserted.name)
            ),
        },
    )];
    if let (true, Some(failures), Some(last_failure), Some(_)) =
        (by_count, &table.failures, &table.last_failure, &table.statuses.column)
    {
        let [failures, last_failure] = [failures, last_failure].map(|it| quote(&it.name));
        probes.push((
            vec![format!(
                "SELECT 1 FROM {name}{only} AND {failures} = 1 AND {last_failure} < now()"
            )],
            MissingIndex {
                finds: "what is due by its count of failures",
                statement: format!(
                    "CREATE {create} {} ON {name} ({failures}, {last_failure}){only}",
                    index("backlog_waiting")
                ),
            },
        ));
    }
    probes
}

/// Its name without the schema's.
fn bare(table: &Table) -> &str {
    table.name.rsplit('.').next().unwrap_or(&table.name)
}

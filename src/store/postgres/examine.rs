//! What there is to know of a table before it is worked off. Nothing here writes.

use anyhow::Result;

use super::query::{self, as_text, ids};
use super::sql::{Param, quote, value};
use super::{PgDatabase, reader};
use crate::instant::{DAY, Instant};
use crate::record::Status;
use crate::selection::{Order, Selection, Window};
use crate::store::table::{Effects, Table, typed_id};
use crate::store::{Examination, InColumn, MissingIndex, Pending, StatusValue};

impl PgDatabase {
    /// What this user may not do that settling a record needs.
    pub fn missing_privilege(&mut self) -> Result<Option<String>> {
        let deletes = matches!(self.table.on_success, Effects::Delete);
        let tables = [self.table.sql.clone()];
        let privileges: &[_] = if deletes { &["DELETE"] } else { &[] };
        self.missing_privileges(&tables, privileges)
    }

    /// The same of several tables, and of privileges besides the usual.
    pub fn missing_privileges(
        &mut self,
        tables: &[String],
        more: &[&str],
    ) -> Result<Option<String>> {
        let standby = self.query("SELECT pg_is_in_recovery()", &[])?;
        if standby.iter().any(|row| row.get(0)) {
            return Ok(Some("it is a standby, which cannot be written: name the primary".into()));
        }
        for table in tables {
            for privilege in ["SELECT", "UPDATE"].iter().chain(more) {
                // Some may be granted for single columns.
                let function = match *privilege {
                    "SELECT" | "UPDATE" => "has_any_column_privilege",
                    _ => "has_table_privilege",
                };
                let sql = format!("SELECT {function}($1::text, $2::text)");
                let params = [table.as_str(), privilege].map(|it| Param::Text(Some(it.into())));
                if !self.query(&sql, &params)?.iter().all(|row| row.get(0)) {
                    return Ok(Some(format!("this user may not {privilege} {table}: grant it")));
                }
            }
        }
        Ok(None)
    }

    pub fn examined(&mut self, by_count: bool) -> Result<Examination> {
        Ok(Examination {
            triggers: self.triggers()?,
            missing: self.missing_indexes(by_count)?,
            duplicate: self.duplicate()?,
            ..self.examined_from_outside()?
        })
    }

    /// What there is to know of a table that is not one of the user's.
    pub fn examined_from_outside(&mut self) -> Result<Examination> {
        let count = format!("SELECT count(*) FROM {}", self.table.sql);
        let rows: i64 = self.query(&count, &[])?.first().map_or(0, |row| row.get(0));
        let version = self.query("SELECT current_setting('server_version')", &[])?;
        let version: String = version.first().map_or_else(String::new, |row| row.get(0));
        Ok(Examination {
            aside: format!("PostgreSQL {version}"),
            rows: rows.unsigned_abs(),
            columns: InColumn::all(&self.table),
            values: self.status_values()?,
            pending: self.pending()?,
            triggers: Vec::new(),
            missing: Vec::new(),
            duplicate: None,
        })
    }

    fn pending(&mut self) -> Result<Pending> {
        let Self { session, table, place, .. } = self;
        let columns: Vec<_> = table.id.iter().chain([&table.inserted]).map(as_text).collect();
        let sql = format!(
            "SELECT {} FROM {} WHERE {}",
            columns.join(", "),
            table.sql,
            query::pending(table)
        );
        let mut pending = Pending::default();
        let read = session.each(&sql, &[], &mut |row| {
            let ids = reader::ids(table, row);
            pending.add(table, &ids, &value(&table.inserted, row.get(ids.len())));
            true
        });
        read.map_err(|error| super::errors::explain(place, &error, "read"))?;
        Ok(pending)
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
            "SELECT {} FROM {} GROUP BY {} HAVING count(*) > 1 LIMIT 1",
            columns.join(", "),
            self.table.sql,
            ids(&self.table).join(", ")
        );
        let rows = self.query(&sql, &[])?;
        Ok(rows
            .first()
            .map(|row| typed_id(&reader::ids(&self.table, row)).unwrap_or_else(|shown| shown)))
    }

    /// The indexes without which a pass reads the whole table.
    fn missing_indexes(&mut self, by_count: bool) -> Result<Vec<MissingIndex>> {
        let mut missing = Vec::new();
        let recent = Selection {
            window: Window::Inserted { from: Instant(DAY), until: None },
            statuses: Status::PENDING.to_vec(),
            order: Order::Newest,
            after: None,
            up_to: None,
            limit: 1,
        };
        let table = &self.table;
        let (due, _) = query::due(table, &recent);
        let name = table.sql.clone();
        let named = |table: &Table, what: &str| {
            let bare = table.name.rsplit('.').next().unwrap_or(&table.name);
            quote(&format!("{bare}_{what}"))
        };
        let (index, inserted, all_ids) =
            (named(table, "backlog"), quote(&table.inserted.name), ids(table).join(", "));
        // What a condition without a status column says may go by the time, and cannot be had.
        let only = match &table.statuses.column {
            Some(_) => format!(" WHERE {}", query::pending_values(table)),
            None => String::new(),
        };
        let (failures, last_failure) = (table.failures.clone(), table.last_failure.clone());
        let same = table.id.iter().map(|it| {
            format!("{name}.{} = given.\"backlog id\"::{}", quote(&it.name), it.declared)
        });
        let by_id = format!(
            "SELECT 1 FROM {name} JOIN (SELECT NULL::text AS \"backlog id\" OFFSET 0) AS given \
             ON {}",
            same.collect::<Vec<_>>().join(" AND ")
        );
        let (waiting, unique) = (named(table, "backlog_waiting"), named(table, "backlog_id"));
        if self.scans(&due)? {
            missing.push(MissingIndex {
                finds: "pending records",
                statement: format!("CREATE INDEX {index} ON {name} ({inserted}, {all_ids}){only}"),
            });
        }
        if by_count
            && let (Some(failures), Some(last_failure)) = (failures, last_failure)
            && !only.is_empty()
        {
            let [failures, last_failure] = [failures, last_failure].map(|it| quote(&it.name));
            let one =
                format!("SELECT 1 FROM {name}{only} AND {failures} = 1 AND {last_failure} < now()");
            if self.scans(&one)? {
                missing.push(MissingIndex {
                    finds: "what is due by its count of failures",
                    statement: format!(
                        "CREATE INDEX {waiting} ON {name} ({failures}, {last_failure}){only}"
                    ),
                });
            }
        }
        if self.scans(&by_id)? {
            missing.push(MissingIndex {
                finds: "a record by its id",
                statement: format!("CREATE UNIQUE INDEX {unique} ON {name} ({all_ids})"),
            });
        }
        Ok(missing)
    }

    /// Whether a statement can only be served by reading the table from one end to the other.
    fn scans(&mut self, sql: &str) -> Result<bool> {
        let off = "BEGIN; SET LOCAL enable_seqscan = off";
        let explained = self
            .session
            .batch(off)
            .and_then(|()| self.session.query(&format!("EXPLAIN (COSTS OFF) {sql}"), &[]));
        let ended = self.session.batch("ROLLBACK");
        let rows = explained.and_then(|rows| ended.map(|()| rows));
        let rows = rows.map_err(|error| self.explain(&error, "read"))?;
        Ok(rows.iter().any(|row| row.get::<_, String>(0).contains("Seq Scan")))
    }
}

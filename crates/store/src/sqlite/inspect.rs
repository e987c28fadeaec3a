//! Inspection of a table in a file: triggers, constraints, indexes, and writes that SQLite refuses.

use backlog_schedule::Query;
use rusqlite::{Connection, OptionalExtension};

use super::SqliteEngine;
use super::constraints;
use super::index_walk::{self, plan};
use crate::engine::{Constraints, Engine, Index, Inspect, QueryPlan};
use crate::error::{DbError, DbResult};
use crate::inspection::Inspection;
use crate::table::{Column, Table, joined, names, quote};
use crate::tokens::{condition_of_index, identifiers};

impl Inspect for SqliteEngine {
    fn triggers(&mut self, table: &Table) -> DbResult<Vec<String>> {
        Ok(constraints::triggers(&self.connection, table)?)
    }

    fn dependents(&mut self, table: &Table) -> DbResult<Vec<String>> {
        let sql = "SELECT DISTINCT iif(lower(other.name) = lower(?1), '', other.name) \
                   || ': ' || foreign_key.on_delete \
                   FROM pragma_table_list AS other, pragma_foreign_key_list(other.name) AS foreign_key \
                   WHERE other.schema = 'main' AND foreign_key.\"table\" = ?1 COLLATE NOCASE \
                   AND foreign_key.on_delete NOT IN ('NO ACTION', 'RESTRICT') ORDER BY 1";
        Ok(constraints::texts(&self.connection, sql, [&table.name])?)
    }

    fn constraints(&mut self, table: &Table) -> DbResult<Constraints> {
        let rows = constraints::row_constraints(&self.connection, table)?;
        let written: Vec<_> = table.counter_columns().map(|column| &column.name).collect();
        let is_affected = |column: &&Column| column.is_generated || written.contains(&&column.name);
        let has_affected = table.guard_columns().iter().any(is_affected);
        let change_charges = has_affected || !self.triggers(table)?.is_empty();
        Ok(Constraints { rows, change_charges })
    }

    /// A scan of an index counts as a search if the index has only rows of the queue.
    fn plan(&mut self, table: &Table, query: &Query) -> DbResult<QueryPlan> {
        let mut found = QueryPlan { uses_index: true, sorts: false };
        for sql in table.due(query) {
            for step in plan(&self.connection, &sql)? {
                found.sorts |= step.contains("ORDER BY");
                found.uses_index &=
                    !step.starts_with("SCAN") || self.is_of_pending_rows(table, &step)?;
            }
        }
        Ok(found)
    }

    fn failures_index_columns(&mut self, table: &Table) -> DbResult<Option<String>> {
        let columns = [&table.failures, &table.statuses.column, &table.last_failure];
        let can_be =
            columns.iter().all(|column| column.is_some()) && table.statuses.distinguish_failed();
        let is_missing = can_be && !index_walk::has_index(&self.connection, table)?;
        Ok(is_missing.then(|| names(columns.into_iter().flatten())))
    }

    /// An index in which other columns come first does not count: it is read whole, or once for each value.
    fn has_id_index(&mut self, table: &Table) -> DbResult<bool> {
        let steps = plan(&self.connection, &table.of_id("1"))?;
        Ok(steps.iter().all(|step| step.starts_with("SEARCH") && !step.contains("(ANY(")))
    }

    fn create_index(&mut self, table: &Table, index: &Index) -> DbResult<Option<String>> {
        let Index { kind, suffix, columns, condition } = index;
        let name = quote(&self.free_name(&format!("{}_{suffix}", table.name))?);
        let create = format!("CREATE {kind} {name} ON {} ({columns})", table.sql);
        let partial = condition.as_ref().map(|condition| format!("{create} WHERE {condition}"));
        let mut statements = partial.into_iter().chain([create]);
        Ok(statements.find(|statement| self.connection.prepare(statement).is_ok()))
    }

    fn inspect(&mut self, table: &Table, found: &mut Inspection) {
        let explain = |error: DbError| self.explain(error, "read");
        let mode = self.journal_mode().map_err(|error| explain(error.into()));
        found.details =
            format!("journal mode {}", found.unread.or_default("the journal mode", mode));
        let refused = self.refused_writes(table).map_err(explain);
        found.refused = found.unread.or_default("what is written", refused);
        let reuses_ids = reuses_ids(&self.connection, table).map_err(|error| explain(error.into()));
        found.reuses_ids = found.unread.or_default("the table's key", reuses_ids);
    }
}

impl SqliteEngine {
    /// Has updates override conflict clauses of the table, by which one could delete another record. With triggers it
    /// returns a reason to refuse the table instead, because their conflict clauses would be overridden, too.
    pub fn refused_clause(&mut self, table: &Table) -> DbResult<Option<String>> {
        let Some(constraint) = constraints::conflict_clause(&self.connection, table)? else {
            return Ok(None);
        };
        self.overrides_conflict_clauses = self.triggers(table)?.is_empty();
        let refused = (!self.overrides_conflict_clauses).then_some(constraint);
        Ok(refused.map(|constraint| {
            format!(
                "table {} has triggers and `{constraint}`, by which a write of one record could delete \
                 another one or undo other writes: create the table without the ON CONFLICT clause",
                table.name
            )
        }))
    }

    /// Returns true if a step of a plan scans an index on rows of certain statuses or of the queue's condition.
    fn is_of_pending_rows(&self, table: &Table, step: &str) -> rusqlite::Result<bool> {
        let Some((_, index)) = step.split_once(" INDEX ") else { return Ok(false) };
        let sql = "SELECT sql FROM sqlite_schema WHERE type = 'index' AND name = ?1 AND \
                   EXISTS (SELECT 1 FROM pragma_index_list(tbl_name) AS i \
                   WHERE i.name = ?1 AND i.partial)";
        let created: Option<String> =
            self.connection.query_row(sql, [index], |row| row.get(0)).optional()?;
        let created = created.unwrap_or_default();
        let read = identifiers(condition_of_index(&created).unwrap_or_default());
        let mut columns = table.statuses.column.iter().chain(&table.condition_columns);
        Ok(columns.any(|column| read.iter().any(|name| name.eq_ignore_ascii_case(&column.name))))
    }

    /// Returns errors in the SQL of triggers, such as a function that they may not use. Preparing a write shows them.
    fn refused_writes(&self, table: &Table) -> DbResult<Vec<String>> {
        let written = table.written_columns().into_iter().filter(|column| !column.is_generated);
        let sets = joined(written.map(|column| format!("{0} = {0}", quote(&column.name))), ", ");
        let update = (!sets.is_empty()).then(|| format!("UPDATE {} SET {sets} WHERE 0", table.sql));
        let delete = table.deletes_succeeded.then(|| format!("DELETE FROM {} WHERE 0", table.sql));
        let mut refused = Vec::new();
        for sql in update.into_iter().chain(delete) {
            match self.connection.prepare(&sql).map_err(DbError::from) {
                Ok(_) => {}
                Err(error) if error.is_refusal => refused.push(error.message),
                Err(error) => return Err(error),
            }
        }
        Ok(refused)
    }

    fn free_name(&self, name: &str) -> rusqlite::Result<String> {
        let sql = "SELECT 1 FROM sqlite_schema WHERE name = ?1 COLLATE NOCASE";
        let mut statement = self.connection.prepare(sql)?;
        let (mut free, mut number) = (name.to_string(), 1);
        while statement.exists([&free])? {
            number += 1;
            free = format!("{name}_{number}");
        }
        Ok(free)
    }
}

/// Returns true if the id is SQLite's row number without AUTOINCREMENT.
fn reuses_ids(connection: &Connection, table: &Table) -> rusqlite::Result<bool> {
    let [id] = &table.id[..] else { return Ok(false) };
    if !id.is_row_number {
        return Ok(false);
    }
    let (.., is_increasing) = connection.column_metadata(Some("main"), &*table.name, &*id.name)?;
    Ok(!is_increasing)
}

//! The SQLite engine: the table in a file, the claims in a side file.

mod catalog;
mod constraints;
mod dialect;
mod errors;
mod explore;
mod index_walk;
mod locks;
mod open;

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};
use backlog_schedule::{Instant, Order, Query, Value};
use rusqlite::config::DbConfig;
use rusqlite::{CachedStatement, Connection, Error as SqlError, OptionalExtension, Row};
use rustix::fs::{Access as Permission, AtFlags, CWD, accessat};
use rustix::io::Errno;

pub use explore::explore;
pub use open::{SqliteEngine, create, kept_beside, open};

use super::engine::{
    Constraints, Engine, Index, Inspect, NumberedWrites, QueryPlan, RowAfter, RowState,
};
use super::error::{DbError, DbResult};
use super::sql::{direction, id_params};
use super::state_dir::StateDir;
use super::table::{Cells, Column, Table, WriteVerb, joined, names, quote};
use super::table_store::TableStore;
use super::tokens::{condition_of_index, identifiers};
use crate::database::Database;
use crate::engine::SqlDatabase;
use crate::inspection::Inspection;
use crate::retry::{Retry, Retrying};
use crate::store::{BoxedStore, Interrupter};
use crate::system_error::reason;
use crate::writes::{Guards, RowWrite};
use dialect::{bound, due_by_row_number, value};
use index_walk::plan;
use locks::SqliteLocks;
use open::{BESIDE, PASS, STATE, Unlimited, beside, limit_values, wait_for_locks};

impl Engine for SqliteEngine {
    type ResultRow<'r> = Row<'r>;
    type Locks = SqliteLocks;

    /// The busy handler waits.
    const TRIES: u32 = 0;
    const WRITES_SINGLY: bool = true;

    fn label(&self) -> String {
        self.path.display().to_string()
    }

    fn explain(&self, error: DbError, verb: &str) -> anyhow::Error {
        errors::explain(&self.path, error, verb)
    }

    fn rows(
        &mut self,
        sql: &str,
        params: &[Value],
        mut each: impl FnMut(&Row<'_>) -> bool,
    ) -> DbResult<()> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query(bound(params))?;
        while let Some(row) = rows.next()? {
            if !each(row) {
                break;
            }
        }
        Ok(())
    }

    fn due(&mut self, table: &Table, query: &Query) -> DbResult<Vec<String>> {
        let walk = index_walk::walk(&self.connection, table, query)?;
        Ok(walk.map_or_else(|| table.due(query), |walk| vec![walk]))
    }

    /// By the numbers that SQLite itself has for the rows, from either end as far as that goes.
    fn row_by_row(&mut self, table: &Table, query: &Query) -> Option<(String, BTreeSet<i64>)> {
        let mut numbers = BTreeSet::new();
        for order in [Order::Oldest, Order::Newest] {
            let (name, direction) = (&table.sql, direction(order));
            let sql = format!("SELECT rowid FROM {name} NOT INDEXED ORDER BY rowid {direction}");
            let read = self.rows(&sql, &[], |row| {
                numbers.extend(row.get::<_, i64>(0));
                true
            });
            match read {
                Ok(()) => break,
                Err(error) => log::debug!("row numbers: {}", error.message),
            }
        }
        Some((due_by_row_number(table, query), numbers))
    }

    fn begin(&mut self, _: bool) -> DbResult<()> {
        self.execute("BEGIN IMMEDIATE")
    }

    /// SQLite checks deferred constraints at the commit, before it asks the hook, which refuses it.
    fn end_rehearsal(&mut self) -> DbResult<()> {
        self.connection.commit_hook(Some(|| true))?;
        let committed = self.execute("COMMIT");
        self.connection.commit_hook(None::<fn() -> bool>)?;
        match committed {
            Err(_) if self.connection.is_autocommit() => Ok(()),
            ended => ended,
        }
    }

    fn execute(&mut self, sql: &str) -> DbResult<()> {
        self.connection.prepare_cached(sql)?.raw_execute()?;
        Ok(())
    }

    fn roll_back(&mut self) {
        if !self.connection.is_autocommit() {
            let _ = self.execute("ROLLBACK");
        }
    }

    fn write(&mut self, table: &Table, changes: &NumberedWrites) -> DbResult<Vec<RowAfter>> {
        let mut all = Vec::with_capacity(changes.len());
        let Self { connection, statements, overrides_conflict_clauses, .. } = self;
        let _unlimited = Unlimited::new(connection)?;
        // The statement of the last change, which mostly serves the next one as well.
        let mut prepared: Option<(String, CachedStatement<'_>)> = None;
        let mut shape = String::new();
        for (number, change) in changes {
            let (verb, terms) = table.terms(change);
            dialect::shape(&mut shape, verb, &terms);
            let (_, statement) = match prepared.take() {
                Some(last) if last.0 == shape => prepared.insert(last),
                Some(_) | None => {
                    let sql = statements.entry(shape.clone());
                    let sql = sql.or_insert_with(|| {
                        dialect::write(table, verb, &terms, *overrides_conflict_clauses)
                    });
                    prepared.insert((shape.clone(), connection.prepare_cached(sql)?))
                }
            };
            let params = bound(dialect::params(&terms));
            let rows = match verb {
                WriteVerb::Select => statement.exists(params)?.into(),
                WriteVerb::Update | WriteVerb::Delete => statement.execute(params)?,
            };
            let guards = match rows {
                0 => continue,
                1 if change.begins() => table.guards_after_charge(change.record),
                1 => Guards::default(),
                rows => return Err(SqlError::StatementChangedRows(rows).into()),
            };
            let is_pending = table.ends_by_condition()
                && (change.ends() || change.renews())
                && is_pending(connection, table, change)?;
            all.push(RowAfter { number: *number, is_pending, guards });
        }
        Ok(all)
    }

    fn states(&mut self, table: &Table, changes: &NumberedWrites) -> DbResult<Vec<RowState>> {
        let connection = &self.connection;
        let _unlimited = Unlimited::new(connection)?;
        let (mut all, guards) = (Vec::new(), table.guard_columns().len());
        for (number, change) in changes {
            let (_, terms) = table.terms(change);
            let mut statement = connection.prepare_cached(&dialect::state(table, &terms))?;
            let mut rows = statement.query(bound(dialect::params(&terms)))?;
            let Some(row) = rows.next()? else { continue };
            let values = (0..guards).map(|index| row.get_ref(index).map(value));
            all.push(RowState {
                number: *number,
                is_pending: is_pending(connection, table, change)?,
                guards: Guards(values.collect::<rusqlite::Result<_>>()?),
                is_expected: row.truth(guards),
                is_written: row.truth(guards + 1),
            });
        }
        Ok(all)
    }

    fn interrupter(&self) -> Interrupter {
        let handle = self.connection.get_interrupt_handle();
        Box::new(move || handle.interrupt())
    }
}

impl Inspect for SqliteEngine {
    fn triggers(&mut self, table: &Table) -> DbResult<Vec<String>> {
        Ok(constraints::triggers(&self.connection, table)?)
    }

    fn dependents(&mut self, table: &Table) -> DbResult<Vec<String>> {
        let sql = "SELECT DISTINCT other.name || ': ' || foreign_key.on_delete \
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

    /// An index is used if nothing else is scanned, and it has only the rows of the queue.
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
        let can_be = columns.iter().all(|it| it.is_some()) && table.statuses.distinguish_failed();
        let is_missing = can_be && !index_walk::is_served(&self.connection, table)?;
        Ok(is_missing.then(|| names(columns.into_iter().flatten())))
    }

    /// One in which other columns come first is read as a whole, or once for each value of those.
    fn finds_ids(&mut self, table: &Table) -> DbResult<bool> {
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
        let told = |error: DbError| self.explain(error, "read");
        let mode = self.journal_mode().map_err(|it| told(it.into()));
        found.aside = format!("journal mode {}", found.unread.or_default("the journal mode", mode));
        let refused = self.refused_writes(table).map_err(told);
        found.refused = found.unread.or_default("what is written", refused);
        let reuses_ids = reuses_ids(&self.connection, table).map_err(|it| told(it.into()));
        found.reuses_ids = found.unread.or_default("the table's key", reuses_ids);
    }
}

impl Database for SqlDatabase<SqliteEngine> {
    fn state_dir(&self, named: Option<&Path>) -> Result<StateDir> {
        let SqliteEngine { path, found, .. } = &self.engine;
        Ok(match named {
            Some(named) => StateDir::shared(named.into(), (path.clone(), found.clone())),
            None => StateDir::beside(beside(path, STATE), (path.clone(), found.clone())),
        })
    }

    fn add(&mut self, payloads: &[String], now: Instant) -> Result<()> {
        let rows = joined(payloads.iter().map(|_| "(?)".into()), ", ");
        let given = format!("(SELECT column1 AS given FROM (VALUES {rows}))");
        let sql = self.table.insert(&given)?;
        if payloads.is_empty() {
            return Ok(());
        }
        let mut params = vec![self.table.date_inserted(now)];
        params.extend(payloads.iter().map(|payload| Value::Text(payload.clone())));
        let added = self.engine.rows(&sql, &params, |_| true);
        added.map_err(|error| self.engine.explain(error, "add records to"))
    }

    fn make_read_only(&mut self) -> Result<()> {
        let config = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        let left = self.engine.connection.set_db_config(config, true);
        left.map(|_| ()).map_err(|error| self.engine.explain(error.into(), "open"))
    }

    /// Its journal is made beside it. A reader of a read-only database may have left a log as read-only.
    fn why_read_only(&mut self) -> Result<Option<String>> {
        let path = &self.engine.path;
        let directory = path.parent().unwrap_or(Path::new("/"));
        let beside = BESIDE.map(|end| beside(path, end));
        for place in [path, directory].into_iter().chain(beside.iter().map(PathBuf::as_path)) {
            let writable = accessat(CWD, place, Permission::WRITE_OK, AtFlags::EACCESS);
            if let Some(errno) = writable.err().filter(|errno| *errno != Errno::NOENT) {
                let (place, why) = (place.display(), reason(&errno.into()));
                return Ok(Some(format!("this user cannot write to {place}: {why}")));
            }
        }
        let refused = self.engine.refused_clause(&self.table);
        self.reading(refused)
    }

    fn interrupter(&self) -> Interrupter {
        self.engine.interrupter()
    }

    fn into_store(mut self: Box<Self>, state: &StateDir, retry: Retry) -> Result<BoxedStore> {
        let SqliteEngine { connection, path, found, .. } = &mut self.engine;
        let (names, shown) = (found.nlink(), path.display());
        ensure!(
            names <= 1,
            "could not use {shown}: the file has {names} names (hard links), and passes under one \
             would not see the claims and the journal of the other; keep one"
        );
        // What ends a pass before that ends the waiting as well.
        let waits = wait_for_locks(connection, path, PASS, Some(retry.clone()));
        let ready = waits.and_then(|()| limit_values(connection));
        ready.map_err(|error| self.engine.explain(error.into(), "open"))?;
        let refused = self.engine.refused_clause(&self.table);
        if let Some(why) = self.reading(refused)? {
            bail!("could not use {}: {why}", self.engine.label());
        }
        let locks = SqliteLocks::new(&self.table, state)?;
        let store = TableStore::new(*self, locks, retry.clone(), |store, why| {
            Err(why.explain(&store.database.engine.label(), "read"))
        });
        Ok(Box::new(Retrying::new(store, retry)))
    }
}

impl SqliteEngine {
    /// Decides whether updates override the conflict clauses of the table, by which one could delete another record.
    /// That would also override the clauses of triggers: then the table is refused, and the reason returned.
    fn refused_clause(&mut self, table: &Table) -> DbResult<Option<String>> {
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

    /// Whether a step of a plan scans an index on rows of certain statuses or of the queue's condition.
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

    /// Mistakes in a trigger's SQL, and what a trigger may not use, which show before it is run.
    fn refused_writes(&self, table: &Table) -> DbResult<Vec<String>> {
        let written = table.written_columns().into_iter().filter(|column| !column.is_generated);
        let sets = joined(written.map(|it| format!("{0} = {0}", quote(&it.name))), ", ");
        let update = (!sets.is_empty()).then(|| format!("UPDATE {} SET {sets} WHERE 0", table.sql));
        let delete = table.deletes_finished.then(|| format!("DELETE FROM {} WHERE 0", table.sql));
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

fn is_pending(connection: &Connection, table: &Table, change: &RowWrite) -> rusqlite::Result<bool> {
    let sql = format!("{} AND {}", table.of_id("1"), table.still_pending(change.renews()));
    let id = id_params(&change.record.id);
    connection.prepare_cached(&sql)?.exists(bound(&id))
}

/// Whether the id is SQLite's own number of the row, without AUTOINCREMENT.
fn reuses_ids(connection: &Connection, table: &Table) -> rusqlite::Result<bool> {
    let [id] = &table.id[..] else { return Ok(false) };
    if !id.is_row_number {
        return Ok(false);
    }
    let (.., is_increasing) = connection.column_metadata(Some("main"), &*table.name, &*id.name)?;
    Ok(!is_increasing)
}

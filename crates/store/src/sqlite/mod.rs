//! The SQLite engine: a table in a file, and claims as locks on a file beside it.

mod catalog;
mod constraints;
mod dialect;
mod errors;
mod index_walk;
mod inspect;
mod locks;
mod open;

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};
use backlog_schedule::{Id, Instant, Order, Query, Value};
use rusqlite::config::DbConfig;
use rusqlite::{CachedStatement, Connection, Error as SqlError, Row};
use rustix::fs::{Access as Permission, AtFlags, CWD, accessat};
use rustix::io::Errno;

pub use catalog::explore;
pub use open::{SqliteEngine, create, open, side_files};

use super::engine::{Engine, NumberedWrites, RowAfter, RowState};
use super::error::{DbError, DbResult};
use super::sql::{direction, id_params};
use super::state_dir::StateDir;
use super::table::{Cells, Table, WriteVerb, joined};
use super::table_store::TableStore;
use crate::database::Database;
use crate::engine::SqlDatabase;
use crate::retry::{Retry, Retrying};
use crate::store::{BoxedStore, Interrupter};
use crate::system_error::reason;
use crate::writes::Guards;
use dialect::{bound, due_by_row_number, value};
use locks::SqliteLocks;
use open::{
    PASS_LIMIT, SQLITE_SUFFIXES, STATE_SUFFIX, Unlimited, limit_values, side_file, wait_for_locks,
};

impl Engine for SqliteEngine {
    type ResultRow<'r> = Row<'r>;
    type Locks = SqliteLocks;

    /// The busy handler waits instead.
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

    /// By rowid, from either end up to the first damaged page.
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
                Err(error) => log::debug!("could not read all row numbers: {}", error.message),
            }
        }
        Some((due_by_row_number(table, query), numbers))
    }

    fn begin(&mut self, _: bool) -> DbResult<()> {
        self.execute("BEGIN IMMEDIATE")
    }

    /// A commit checks deferred constraints before it calls the commit hook, which then refuses it.
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
        // The statement of the last change, which usually serves the next one, too.
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
                && is_pending(connection, table, &change.record.id)?;
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
                is_pending: is_pending(connection, table, &change.record.id)?,
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

impl Database for SqlDatabase<SqliteEngine> {
    fn state_dir(&self, named: Option<&Path>) -> Result<StateDir> {
        let SqliteEngine { path, metadata, .. } = &self.engine;
        let database = (path.clone(), metadata.clone());
        Ok(match named {
            Some(named) => StateDir::shared(named.into(), database),
            None => StateDir::beside(side_file(path, STATE_SUFFIX), database),
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

    /// Checks the journal's directory and the side files, too: a reader of a read-only file may leave a read-only log.
    fn why_read_only(&mut self) -> Result<Option<String>> {
        let path = &self.engine.path;
        let directory = path.parent().unwrap_or(Path::new("/"));
        let side_files = SQLITE_SUFFIXES.map(|suffix| side_file(path, suffix));
        for path in [path, directory].into_iter().chain(side_files.iter().map(PathBuf::as_path)) {
            let writable = accessat(CWD, path, Permission::WRITE_OK, AtFlags::EACCESS);
            if let Some(errno) = writable.err().filter(|errno| *errno != Errno::NOENT) {
                let (path, why) = (path.display(), reason(&errno.into()));
                return Ok(Some(format!("this user cannot write to {path}: {why}")));
            }
        }
        let refused = self.engine.refused_clause(&self.table);
        self.explain_read(refused)
    }

    fn interrupter(&self) -> Interrupter {
        self.engine.interrupter()
    }

    fn into_store(mut self: Box<Self>, state: &StateDir, retry: Retry) -> Result<BoxedStore> {
        let SqliteEngine { connection, path, metadata, .. } = &mut self.engine;
        let (names, shown) = (metadata.nlink(), path.display());
        ensure!(
            names <= 1,
            "could not use {shown}: the file has {names} names (hard links), and passes under one \
             would not see the claims and the journal of the other; keep one"
        );
        // A pass that is stopped does not wait any longer.
        let waits = wait_for_locks(connection, path, PASS_LIMIT, Some(retry.clone()));
        let ready = waits.and_then(|()| limit_values(connection));
        ready.map_err(|error| self.engine.explain(error.into(), "open"))?;
        let refused = self.engine.refused_clause(&self.table);
        if let Some(why) = self.explain_read(refused)? {
            bail!("could not use {}: {why}", self.engine.label());
        }
        let locks = SqliteLocks::new(&self.table, state)?;
        let store = TableStore::new(*self, locks, retry.clone(), |store, why| {
            Err(why.explain(&store.database.engine.label(), "read"))
        });
        Ok(Box::new(Retrying::new(store, retry)))
    }
}

fn is_pending(connection: &Connection, table: &Table, id: &Id) -> rusqlite::Result<bool> {
    let sql = format!("{} AND {}", table.of_id("1"), table.pending());
    connection.prepare_cached(&sql)?.exists(bound(&id_params(id)))
}

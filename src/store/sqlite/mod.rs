//! The SQLite engine: the table in a file, the claims in a side file.

mod catalog;
mod dialect;
mod errors;
mod index_walk;
mod inspect;
mod locks;
mod open;
mod rights;
mod wal_sync;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use rusqlite::config::DbConfig;
use rusqlite::{Error as SqlError, Params, Row, params_from_iter};
use rustix::fs::{Access as Permission, AtFlags, CWD, accessat};

pub use open::{SqliteEngine, create, open};

use super::acting::ActingAs;
use super::engine::{Ask, Engine, Index, Seen};
use super::error::DbError;
use super::page::PageBuilder;
use super::reconnect::Patience;
use super::sql::due_params;
use super::state_dir::StateDir;
use super::table::{Charged, Column, FactColumns, Quoted, Role, Table, Term, Verb, names};
use super::table_store::{SqlDatabase, TableStore};
use super::{Database, Inspection, Interrupter, RowWrite, Store, StoreStop};
use crate::clock::Clock;
use crate::query::{Order, Query};
use crate::record::{Id, Value};
use crate::time::Instant;
use dialect::value;
use locks::SqliteLocks;
use rights::beside;

impl Engine for SqliteEngine {
    type Row<'r> = Row<'r>;
    type Locks = SqliteLocks;

    /// The busy handler waits.
    const TRIES: u32 = 0;
    const WRITES_SINGLY: bool = true;
    const HEARTBEAT_INTERVAL: Option<Duration> = None;

    fn place(&self) -> String {
        self.path.display().to_string()
    }

    fn explain(&self, error: DbError, verb: &str) -> anyhow::Error {
        errors::explain(&self.path, error, verb)
    }

    fn take_rights(&self) -> Result<Option<ActingAs>> {
        self.connection.rights.take()
    }

    fn rows(
        &mut self,
        sql: &str,
        params: &[Value],
        each: impl FnMut(&Row<'_>) -> bool,
    ) -> Result<(), DbError> {
        Ok(self.each(sql, params_from_iter(params), each)?)
    }

    fn due(&mut self, table: &Table, query: &Query) -> Result<Vec<String>, DbError> {
        let walk = index_walk::walk(&self.connection, table, query)?;
        Ok(walk.map_or_else(|| table.due(query), |walk| vec![walk]))
    }

    /// Gathers what can be read of a table with rows that cannot: one by one, by the numbers that
    /// SQLite has for them, from both ends as far as those can be read.
    fn search_around(
        &mut self,
        table: &Table,
        query: &Query,
        page: &mut PageBuilder<'_>,
        error: DbError,
    ) -> Result<(), DbError> {
        if !error.is_of_a_row {
            return Err(error);
        }
        page.begin_again(format!("could not read all of {}: {error}", self.path.display()));
        let columns = table.fact_columns(&query.window);
        let columns = FactColumns::new(table, &columns, &query.window);
        let (sql, mut params) = (due_by_row_number(table, query), due_params(query));
        let mut has_room = true;
        for number in self.row_numbers(table) {
            params.push(Value::Integer(number));
            let read = self.each(&sql, params_from_iter(&params), |row| {
                has_room = page.row(&columns, row);
                has_room
            });
            params.pop();
            if let Err(error) = read {
                let (table, error) = (&table.name, DbError::from(error));
                log::error!("row {number} of table {table} could not be read: {error}");
            }
            if !has_room {
                break;
            }
        }
        Ok(())
    }

    fn triggers(&mut self, table: &Table) -> Result<Vec<String>, DbError> {
        let sql =
            "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ?1 ORDER BY 1";
        let mut statement = self.connection.prepare(sql)?;
        let names = statement.query_map([&table.name], |row| row.get(0))?;
        Ok(names.collect::<rusqlite::Result<_>>()?)
    }

    fn finds_pending(&mut self, table: &Table) -> Result<bool, DbError> {
        Ok(inspect::finds_pending(&self.connection, table)?)
    }

    fn columns_of_waiting(&mut self, table: &Table) -> Result<Option<String>, DbError> {
        Ok(inspect::columns_of_waiting(&self.connection, table)?)
    }

    fn finds_ids(&mut self, table: &Table) -> Result<bool, DbError> {
        Ok(inspect::finds_ids(&self.connection, table)?)
    }

    fn create_index(&mut self, table: &Table, index: &Index) -> Result<String, DbError> {
        Ok(inspect::create_index(&self.connection, table, index)?)
    }

    fn inspect(&mut self, table: &Table, found: &mut Inspection) {
        inspect::inspect(self, table, found);
    }

    fn begin(&mut self, _: bool) -> Result<(), DbError> {
        self.batch("BEGIN IMMEDIATE")
    }

    fn batch(&mut self, sql: &str) -> Result<(), DbError> {
        Ok(self.connection.execute_batch(sql)?)
    }

    fn roll_back(&mut self) {
        if !self.connection.is_autocommit() {
            let _ = self.batch("ROLLBACK");
        }
    }

    fn ask(
        &mut self,
        table: &Table,
        changes: &[(usize, &RowWrite)],
        ask: Ask,
    ) -> Result<Vec<Seen>, DbError> {
        let mut all = Vec::with_capacity(changes.len());
        for (number, change) in changes {
            let (verb, terms) = table.terms(change, ask);
            let (sql, params) = statement(table, verb, &terms);
            let params = params_from_iter(params);
            let charged = if verb == Verb::Select {
                self.guards(table, &sql, params)?
            } else {
                match self.connection.prepare_cached(&sql)?.execute(params)? {
                    0 => None,
                    1 if change.begins() => Some(table.charged(change.record)),
                    1 => Some(Charged::default()),
                    rows => return Err(SqlError::StatementChangedRows(rows).into()),
                }
            };
            let Some(charged) = charged else { continue };
            let is_asked = table.statuses.column.is_none() || ask == Ask::Rehearse;
            let is_pending =
                is_asked && change.ends() && self.is_pending(table, &change.record.id)?;
            all.push(Seen { number: *number, is_pending, charged });
        }
        Ok(all)
    }

    fn looks_again(&mut self, table: &Table) -> Result<bool, DbError> {
        let written: Vec<_> = table.counter_columns().map(|column| &column.name).collect();
        let is_affected = |column: &&Column| column.is_generated || written.contains(&&column.name);
        if table.guard_columns().iter().any(is_affected) {
            return Ok(true);
        }
        let sql =
            "SELECT 1 FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE";
        Ok(self.connection.prepare(sql)?.exists([&table.name])?)
    }

    fn interrupter(&self) -> Option<Interrupter> {
        let handle = self.connection.get_interrupt_handle();
        Some(Box::new(move || handle.interrupt()))
    }
}

impl Database for SqlDatabase<SqliteEngine> {
    fn table(&self) -> &Table {
        &self.table
    }

    fn place(&self) -> String {
        self.engine.place()
    }

    /// Beside the database, unless the user names a place.
    fn state_dir(&self, named: Option<&Path>) -> Result<StateDir> {
        let SqliteEngine { path, found, .. } = &self.engine;
        Ok(match named {
            Some(named) => StateDir::shared(named.into(), found.clone()),
            None => StateDir::beside(beside(path, ".backlog"), found.clone()),
        })
    }

    fn add(&mut self, payloads: &[String], now: Instant) -> Result<()> {
        let _acting = self.engine.take_rights()?;
        self.insert(payloads, now)
    }

    fn leave_alone(&mut self) -> Result<()> {
        let _acting = self.engine.take_rights()?;
        let config = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        let left = self.engine.connection.set_db_config(config, true);
        left.map(|_| ()).map_err(|error| self.engine.explain(error.into(), "open"))
    }

    /// Its journal is made beside it.
    fn obstacle(&mut self) -> Result<Option<String>> {
        let _acting = self.engine.take_rights()?;
        let path = &self.engine.path;
        let directory = path.parent().unwrap_or(Path::new("/"));
        let access = |path: &Path, wanted| accessat(CWD, path, wanted, AtFlags::EACCESS);
        let writable = access(path, Permission::WRITE_OK)
            .and_then(|()| access(directory, Permission::WRITE_OK | Permission::EXEC_OK));
        let why = |error| format!("it or its directory cannot be written by this user: {error}");
        Ok(writable.err().map(why))
    }

    fn into_store(
        self: Box<Self>,
        state: &StateDir,
        stop: Option<Arc<StoreStop>>,
        clock: Clock,
    ) -> Result<Box<dyn Store + Send>> {
        self.engine.require_one_name()?;
        if let Some(stop) = stop.clone() {
            self.engine.busy_handler.heed(stop);
        }
        // What ends a pass before that ends the waiting as well.
        self.engine.busy_handler.of_a_pass(Duration::MAX);
        let locks = SqliteLocks::new(&self.table, state)?;
        Ok(Box::new(TableStore::new(*self, locks, Patience::new(stop, clock))))
    }
}

impl SqliteEngine {
    /// Hands each row of a statement to `each`, as long as that says true.
    fn each(
        &self,
        sql: &str,
        params: impl Params,
        mut each: impl FnMut(&Row<'_>) -> bool,
    ) -> rusqlite::Result<()> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query(params)?;
        while let Some(row) = rows.next()? {
            if !each(row) {
                break;
            }
        }
        Ok(())
    }

    /// The numbers that SQLite itself has for the rows, without reading more of them than that.
    fn row_numbers(&self, table: &Table) -> BTreeSet<i64> {
        let mut numbers = BTreeSet::new();
        for order in [Order::Oldest, Order::Newest] {
            let (name, direction) = (&table.sql, order.direction());
            let sql = format!("SELECT rowid FROM {name} NOT INDEXED ORDER BY rowid {direction}");
            let read = self.each(&sql, [], |row| {
                numbers.extend(row.get::<_, i64>(0));
                true
            });
            match read {
                Ok(()) => break,
                Err(error) => log::debug!("row numbers: {}", DbError::from(error)),
            }
        }
        numbers
    }

    /// The columns that show whether a row is still the same, if a statement finds it.
    fn guards(
        &self,
        table: &Table,
        sql: &str,
        params: impl Params,
    ) -> rusqlite::Result<Option<Charged>> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query(params)?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let columns = 0..table.guard_columns().len();
        let values = columns.map(|index| row.get_ref(index).map(value));
        Ok(Some(Charged(values.collect::<rusqlite::Result<_>>()?)))
    }

    fn is_pending(&self, table: &Table, id: &Id) -> rusqlite::Result<bool> {
        let sql = format!("{} AND {}", table.of_id("1"), table.pending());
        let mut statement = self.connection.prepare_cached(&sql)?;
        statement.exists(params_from_iter(super::sql::id_params(id)))
    }
}

/// A statement about one row, with its parameters. It changes no row, or the one that is meant.
fn statement<'a>(table: &Table, verb: Verb, terms: &'a [Term<'_>]) -> (String, Vec<&'a Value>) {
    let name = &table.sql;
    let mut sql = match verb {
        Verb::Update => format!("UPDATE {name} SET"),
        Verb::Delete => format!("DELETE FROM {name}"),
        Verb::Select => format!("SELECT {} FROM {name}", names(table.guard_columns())),
    };
    let status = table.statuses.column.as_ref().map(|column| &column.name);
    let (mut sets, mut conditions, mut params) = (String::new(), String::new(), Vec::new());
    for term in terms {
        let column = Quoted(&term.column.name);
        let number = params.len() + 1;
        // Writing to a string cannot fail.
        let _ = match term.role {
            Role::Grow(more) => {
                let _ = write!(sets, ", {column} = coalesce({column}, 0) + {more}");
                continue;
            }
            Role::Set => write!(sets, ", {column} = ?{number}"),
            Role::Id => write!(conditions, " AND {column} = ?{number}"),
            // The status is as the store writes it, and what else there is as it was read.
            Role::Guard if Some(&term.column.name) == status => {
                write!(conditions, " AND {column} IS ?{number}")
            }
            Role::Guard => write!(conditions, " AND backlog_value({column}) IS ?{number}"),
        };
        params.push(term.value.as_ref());
    }
    sql += sets.strip_prefix(',').unwrap_or_default();
    sql += " WHERE";
    sql += conditions.strip_prefix(" AND").unwrap_or_default();
    (sql, params)
}

/// The facts of the row with the number that SQLite has for it, the last parameter, as far as the
/// search wants it.
fn due_by_row_number(table: &Table, query: &Query) -> String {
    format!(
        "SELECT {} FROM {} NOT INDEXED WHERE rowid = ?{} AND {}{}",
        table.facts(&query.window),
        table.sql,
        due_params(query).len() + 1,
        table.of_statuses(&query.statuses),
        table.bounds(query),
    )
}

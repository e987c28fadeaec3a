//! The PostgreSQL engine: the table on a server, the claims in its advisory locks. A queue of pgmq is
//! read as a table, and written by a store of its own.

mod ahead;
mod catalog;
mod commit_sync;
mod dialect;
mod errors;
mod explore;
mod locks;
pub mod pgmq;
mod rehearsal;
mod server;
mod session;
mod statements;

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use backlog_schedule::{Instant, Query, Status, Value};
use tokio_postgres::Row;
use tokio_postgres::types::FromSqlOwned;

pub use explore::explore;
pub use server::{Server, certificates, without_password};

use super::engine::{
    Constraints, Engine, Index, Inspect, NumberedWrites, QueryPlan, RowAfter, RowState,
};
use super::error::DbError;
use super::table::{ColumnType, Table, quote};
use super::table_store::TableStore;
use crate::clock::Clock;
use crate::database::{Access, Database};
use crate::engine::SqlDatabase;
use crate::inspection::Inspection;
use crate::mapping::Mapping;
use crate::retry::{Retry, Retrying};
use crate::state_dir::StateDir;
use crate::store::{BoxedStore, Interrupter};
use crate::writes::RowWrite;
use dialect::{Param, Request, param};
use locks::{LineSession, PgLocks, recover};
use pgmq::{PgmqQueue, PgmqStore};
use session::{FIRST_ANSWER_LIMIT, Session};

/// A server that answers.
pub struct PgEngine {
    session: Session,
    /// What the table is made of, where it is a queue.
    queue: Option<PgmqQueue>,
    /// Whether the database has constraints that can be deferred, once that is known.
    has_deferrable: Option<bool>,
    /// The session with the lock of the crontab line, where there is no state directory.
    line: Option<LineSession>,
}

pub fn open(
    server: &Arc<Server>,
    mapping: &Mapping,
    access: Access,
    clock: Clock,
) -> Result<SqlDatabase<PgEngine>> {
    let mut session = RefCell::new(Session::open(server, access)?);
    let found = Table::find(&mut session, mapping, clock);
    let table = found.map_err(|error| catalog::explain_lookup(error, &server.to_string()))?;
    Ok(SqlDatabase::new(PgEngine::new(session.into_inner()), table))
}

/// Parameters as text. One with a NUL keeps it: the server refuses what it cannot hold.
fn texts(params: &[Value]) -> Vec<Param> {
    let text = |value: &Value| {
        let is_text = if let Value::Text(text) = value { Some(text.clone()) } else { None };
        Param::Text(is_text.or_else(|| param(value)))
    };
    params.iter().map(text).collect()
}

impl PgEngine {
    fn new(session: Session) -> Self {
        Self { session, queue: None, has_deferrable: None, line: None }
    }

    /// Opens a second connection while the first one is in use, as a pass does.
    fn require_two_connections(&mut self) -> Result<()> {
        let (server, access) = (self.session.server.clone(), self.session.access);
        // A session that only reads stays in a transaction, so that a pooler cannot lend its connection to
        // the second one.
        let first = self.session.query("SELECT 1", &[]);
        first.map_err(|error| self.explain(error, "read"))?;
        let mut second = Session::open(&server, access)?;
        let answered = second.within(FIRST_ANSWER_LIMIT, |session| session.query("SELECT 1", &[]));
        answered.map(drop).map_err(|error| self.explain(error, "use"))
    }

    fn column<T: FromSqlOwned>(&mut self, sql: &str, params: &[Param]) -> Result<Vec<T>> {
        let found = self.session.column(sql, params);
        found.map_err(|error| self.explain(error, "read"))
    }
}

impl Engine for PgEngine {
    type ResultRow<'r> = Row;
    type Locks = PgLocks;

    const TRIES: u32 = 60;
    const WRITES_SINGLY: bool = false;

    fn label(&self) -> String {
        self.session.server.to_string()
    }

    fn rows(
        &mut self,
        sql: &str,
        params: &[Value],
        each: impl FnMut(&Row) -> bool,
    ) -> Result<(), DbError> {
        self.session.stream(sql, &texts(params), each)
    }

    fn search(
        &mut self,
        sql: &str,
        params: &[Value],
        each: impl FnMut(&Row) -> bool,
    ) -> Result<(), DbError> {
        self.session.search(sql, &texts(params), each)
    }

    fn due(&mut self, table: &Table, query: &Query) -> Result<Vec<String>, DbError> {
        self.session.plan_for_searches()?;
        Ok(table.due(query))
    }

    /// The limit is shorter than the time after which the server looks for a deadlock.
    fn begin(&mut self, rehearses: bool) -> Result<(), DbError> {
        let limit = if rehearses { "; SET LOCAL lock_timeout = '100ms'" } else { "" };
        self.execute(&format!("BEGIN ISOLATION LEVEL READ COMMITTED{limit}"))
    }

    fn end_rehearsal(&mut self) -> Result<(), DbError> {
        self.execute("SET CONSTRAINTS ALL IMMEDIATE")?;
        self.session.roll_back()
    }

    fn try_each(&mut self, table: &Table, chains: &[Vec<RowWrite>]) -> Result<Vec<bool>, DbError> {
        self.try_in_one_go(table, chains)
    }

    fn execute(&mut self, sql: &str) -> Result<(), DbError> {
        self.session.batch(sql)
    }

    fn roll_back(&mut self) {
        let _ = self.session.roll_back();
    }

    fn write(&mut self, table: &Table, changes: &NumberedWrites) -> Result<Vec<RowAfter>, DbError> {
        let request = statements::write(table, changes);
        Ok(statements::rows_after(table, &self.session.run(&request)?))
    }

    fn states(
        &mut self,
        table: &Table,
        changes: &NumberedWrites,
    ) -> Result<Vec<RowState>, DbError> {
        let request = statements::states(table, changes);
        Ok(statements::row_states(table, &self.session.run(&request)?))
    }

    fn interrupter(&self) -> Interrupter {
        self.session.server.interrupter()
    }
}

impl Inspect for PgEngine {
    fn triggers(&mut self, table: &Table) -> Result<Vec<String>, DbError> {
        let sql = "SELECT tgname::text FROM pg_catalog.pg_trigger WHERE tgrelid = $1::text::regclass \
                   AND NOT tgisinternal ORDER BY 1";
        self.session.column(sql, &[Param::text(&table.sql)])
    }

    fn dependents(&mut self, table: &Table) -> Result<Vec<String>, DbError> {
        let sql = "SELECT DISTINCT conrelid::regclass::text || CASE confdeltype WHEN 'c' \
                   THEN ': CASCADE' WHEN 'n' THEN ': SET NULL' ELSE ': SET DEFAULT' END \
                   FROM pg_catalog.pg_constraint WHERE contype = 'f' \
                   AND confrelid = $1::text::regclass AND confdeltype IN ('c', 'n', 'd') ORDER BY 1";
        self.session.column(sql, &[Param::text(&table.sql)])
    }

    fn constraints(&mut self, table: &Table) -> Result<Constraints, DbError> {
        let rows = self.constraints_of_rows(table)?;
        // Triggers that run after an update may change a row after what a statement returns of it.
        // Bits of `tgtype`: 2 for BEFORE, 16 for UPDATE.
        let sql = "SELECT 1 FROM pg_catalog.pg_trigger WHERE tgrelid = $1::text::regclass \
                   AND NOT tgisinternal AND tgtype & 2 = 0 AND tgtype & 16 <> 0 LIMIT 1";
        let change_charges = !self.session.query(sql, &[Param::text(&table.sql)])?.is_empty();
        Ok(Constraints { rows, change_charges })
    }

    fn plan(&mut self, table: &Table, query: &Query) -> Result<QueryPlan, DbError> {
        let any = table.any(&table.due_rows(&query.statuses));
        let found = table.due(query).concat();
        let uses_index = self.is_found_by_index(table, &any)?
            && self.is_found_by_index(table, &found)?
            && self.is_searched(table, &found)?;
        let plan = self.session.plan_of(&found)?;
        Ok(QueryPlan { uses_index, sorts: plan.iter().any(|line| line.contains("Sort Key")) })
    }

    fn failures_index_columns(&mut self, table: &Table) -> Result<Option<String>, DbError> {
        let columns = table.failures.as_ref().zip(table.last_failure.as_ref());
        let Some((failures, last_failure)) = columns.filter(|_| table.statuses.column.is_some())
        else {
            return Ok(None);
        };
        // Only these are compared on the server.
        if last_failure.column_type != ColumnType::Instant
            || failures.column_type != ColumnType::Integer
        {
            return Ok(None);
        }
        let [count, at] = [failures, last_failure].map(|it| quote(&it.name));
        let pending = table.status_in(&Status::PENDING);
        let probe = table.any(&format!("{pending} AND {count} = 1 AND {at} < pg_catalog.now()"));
        let is_found = self.is_found_by_index(table, &probe)? && self.is_searched(table, &probe)?;
        Ok((!is_found).then(|| format!("{count}, {at}")))
    }

    fn finds_ids(&mut self, table: &Table) -> Result<bool, DbError> {
        let ids = Param::texts(table.id.iter().map(|column| &column.name));
        let params = [Param::text(&table.sql), ids];
        Ok(self.session.query(catalog::WITHOUT_INDEX_ON_IDS, &params)?.is_empty())
    }

    fn create_index(&mut self, table: &Table, index: &Index) -> Result<Option<String>, DbError> {
        let Index { kind, suffix, columns, condition } = index;
        let Table { name, sql, .. } = table;
        let kinds = "SELECT relkind::text FROM pg_catalog.pg_class WHERE oid = $1::text::regclass";
        let kinds: Vec<String> = self.session.column(kinds, &[Param::text(sql)])?;
        if kinds == ["f"] {
            return Ok(None);
        }
        // Else nobody could write while it is built. On a partitioned table there is no such way.
        let concurrently = if kinds == ["p"] { "" } else { " CONCURRENTLY" };
        // Without the schema's.
        let name = quote(&format!("{}_{suffix}", name.rsplit('.').next().unwrap_or(name)));
        let only = condition.as_ref().map_or_else(String::new, |it| format!(" WHERE {it}"));
        Ok(Some(format!("CREATE {kind}{concurrently} {name} ON {sql} ({columns}){only}")))
    }

    fn why_rows_are_hidden(&mut self, table: &Table) -> Result<Option<String>, DbError> {
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
        found.aside = format!("PostgreSQL {}", version.concat());
    }
}

impl Database for SqlDatabase<PgEngine> {
    fn state_dir(&self, named: Option<&Path>) -> Result<StateDir> {
        let identity = self.engine.session.server.identity();
        Ok(named
            .map_or_else(|| StateDir::none(&identity), |it| StateDir::own(it.into(), &identity)))
    }

    fn lock_line(&mut self, line: &str, wait: bool) -> Result<bool> {
        let session = Session::open(&self.engine.session.server, Access::ReadWrite)?;
        let locked = LineSession::lock(session, &mut self.engine.session, line, wait);
        self.engine.line = self.reading(locked)?;
        Ok(self.engine.line.is_some())
    }

    fn add(&mut self, payloads: &[String], now: Instant) -> Result<()> {
        let request = if let Some(queue) = &self.engine.queue {
            queue.send(payloads)
        } else {
            let at = Param::Text(param(&self.table.date_inserted(now)));
            Request {
                sql: self.table.insert("pg_catalog.unnest($2::text[]) AS given")?,
                params: vec![at, Param::texts(payloads)],
            }
        };
        let added = self.engine.session.run(&request);
        added.map(drop).map_err(|error| self.engine.explain(error, "add records to"))
    }

    fn why_read_only(&mut self) -> Result<Option<String>> {
        match &self.engine.queue {
            Some(queue) => {
                let tables = [queue.waiting.clone(), queue.archive.clone()];
                let privileges = ["SELECT", "INSERT", "UPDATE", "DELETE"];
                let missing = pgmq::missing_function(&mut self.engine.session);
                match missing.map_err(|error| self.engine.explain(error, "read"))? {
                    Some(why) => Ok(Some(why)),
                    None => self.engine.missing_on_tables(&tables, &privileges),
                }
            }
            None => match self.engine.missing_privilege(&self.table)? {
                None => {
                    self.engine.require_two_connections()?;
                    let why = self.engine.locks_of_one_node();
                    self.reading(why)
                }
                missing => Ok(missing),
            },
        }
    }

    fn interrupter(&self) -> Interrupter {
        self.engine.interrupter()
    }

    fn into_store(mut self: Box<Self>, _: &StateDir, retry: Retry) -> Result<BoxedStore> {
        Ok(match self.engine.queue.clone() {
            Some(queue) => Box::new(Retrying::new(PgmqStore::new(queue, *self), retry)),
            None => {
                let locks = PgLocks::new(retry.clock, self.engine.line.take());
                let store = TableStore::new(*self, locks, retry.clone(), recover);
                Box::new(Retrying::new(store, retry))
            }
        })
    }
}

/// Creates `table` with its schema, unless there is such a table.
pub fn create(server: &Arc<Server>, table: &str, schema: &str) -> Result<bool> {
    let place = server.to_string();
    let mut session = Session::open(server, Access::ReadWrite)?;
    let explain = |error: DbError| error.explain(&place, "create the table in");
    let named = [Param::text(table.to_lowercase())];
    let there = session.query("SELECT 1 WHERE pg_catalog.to_regclass($1) IS NOT NULL", &named);
    if !there.map_err(explain)?.is_empty() {
        return Ok(false);
    }
    // All of it or nothing: a batch is one transaction.
    session.batch(schema).map_err(explain).context("nothing was created")?;
    Ok(true)
}

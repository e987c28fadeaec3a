//! The PostgreSQL engine: a table on a server, and claims as its advisory locks. [`pgmq`] writes queues of pgmq.

mod ahead;
mod catalog;
mod claim_reader;
mod commit_sync;
mod dialect;
mod errors;
mod inspect;
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
use backlog_schedule::{Instant, Query, Value};
use tokio_postgres::Row;
use tokio_postgres::types::FromSqlOwned;

pub use catalog::explore;
pub use server::{Server, certificates, without_password};

use super::engine::{Engine, NumberedWrites, RowAfter, RowState};
use super::error::{DbError, DbResult};
use super::table::Table;
use super::table_store::TableStore;
use crate::clock::Clock;
use crate::database::{Access, Database};
use crate::engine::SqlDatabase;
use crate::mapping::Mapping;
use crate::retry::{Retry, Retrying};
use crate::state_dir::StateDir;
use crate::store::{BoxedStore, Interrupter};
use crate::writes::RowWrite;
use dialect::{Param, Request, param};
use locks::{LineSession, PgLocks, recover};
use pgmq::{PgmqQueue, PgmqStore};
use session::{FIRST_ANSWER_LIMIT, Session};

pub struct PgEngine {
    session: Session,
    /// The queue that is read as a table.
    queue: Option<PgmqQueue>,
    /// True if the database has deferrable constraints; `None` until that is known.
    has_deferrable: Option<bool>,
    /// The session with the lock of the crontab line, where there is no state directory.
    line: Option<LineSession>,
}

type PgDatabase = SqlDatabase<PgEngine>;

pub fn open(
    server: &Arc<Server>,
    mapping: &Mapping,
    access: Access,
    clock: Clock,
) -> Result<PgDatabase> {
    let mut session = RefCell::new(Session::open(server, access)?);
    let found = Table::find(&mut session, mapping, clock);
    let table = found.map_err(|error| catalog::explain_lookup(error, &server.to_string()))?;
    Ok(SqlDatabase::new(PgEngine::new(session.into_inner()), table))
}

/// Returns parameters as text. Text with NUL stays as it is, and the server refuses it.
fn texts(params: &[Value]) -> Vec<Param> {
    let text = |value: &Value| {
        if let Value::Text(text) = value { Param::text(text) } else { Param::Text(param(value)) }
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
        // A read-only session stays in its transaction, so that a pooler cannot lend its connection to the second one.
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
    ) -> DbResult<()> {
        self.session.stream(None, sql, &texts(params), each)
    }

    fn search(
        &mut self,
        sql: &str,
        params: &[Value],
        each: impl FnMut(&Row) -> bool,
    ) -> DbResult<()> {
        self.session.search(sql, &texts(params), each)
    }

    fn due(&mut self, table: &Table, query: &Query) -> DbResult<Vec<String>> {
        self.session.plan_for_searches()?;
        Ok(table.due(query))
    }

    /// The limit of a rehearsal is shorter than the server's deadlock timeout.
    fn begin(&mut self, rehearses: bool) -> DbResult<()> {
        let limit = if rehearses { "; SET LOCAL lock_timeout = '100ms'" } else { "" };
        self.execute(&format!("BEGIN ISOLATION LEVEL READ COMMITTED{limit}"))
    }

    fn end_rehearsal(&mut self) -> DbResult<()> {
        self.execute("SET CONSTRAINTS ALL IMMEDIATE")?;
        self.session.roll_back()
    }

    fn try_each(&mut self, table: &Table, chains: &[Vec<RowWrite>]) -> DbResult<Vec<bool>> {
        self.try_in_one_trip(table, chains)
    }

    fn execute(&mut self, sql: &str) -> DbResult<()> {
        self.session.batch(sql)
    }

    fn roll_back(&mut self) {
        let _ = self.session.roll_back();
    }

    fn write(&mut self, table: &Table, changes: &NumberedWrites) -> DbResult<Vec<RowAfter>> {
        let request = statements::write(table, changes);
        Ok(statements::rows_after(table, &self.session.run(&request)?))
    }

    fn states(&mut self, table: &Table, changes: &NumberedWrites) -> DbResult<Vec<RowState>> {
        let request = statements::states(table, changes);
        Ok(statements::row_states(table, &self.session.run(&request)?))
    }

    fn interrupter(&self) -> Interrupter {
        self.session.server.interrupter()
    }
}

impl Database for PgDatabase {
    fn state_dir(&self, named: Option<&Path>) -> Result<StateDir> {
        let identity = self.engine.session.server.identity();
        Ok(match named {
            Some(path) => StateDir::of_server(path.into(), &identity),
            None => StateDir::none(&identity),
        })
    }

    fn lock_line(&mut self, line: &str, wait: bool) -> Result<bool> {
        let session = Session::open(&self.engine.session.server, Access::ReadWrite)?;
        let locked = LineSession::lock(session, &mut self.engine.session, line, wait);
        self.engine.line = self.explain_read(locked)?;
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
                    self.explain_read(why)
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

/// Creates `table` by running the statements in `schema`, and returns false if it exists.
pub fn create(server: &Arc<Server>, table: &str, schema: &str) -> Result<bool> {
    let mut session = Session::open(server, Access::ReadWrite)?;
    let explain = |error: DbError| error.explain(&server.to_string(), "create the table in");
    let name = [Param::text(table.to_lowercase())];
    let found = session.query("SELECT 1 WHERE pg_catalog.to_regclass($1) IS NOT NULL", &name);
    if !found.map_err(explain)?.is_empty() {
        return Ok(false);
    }
    // A batch is one transaction.
    session.batch(schema).map_err(explain).context("nothing was created")?;
    Ok(true)
}

//! A session on the server: its transactions, prepared statements and settings.

use std::cell::RefCell;
use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use futures_util::TryStreamExt;
use futures_util::future::join;
use tokio::task::yield_now;
use tokio_postgres::types::{FromSqlOwned, ToSql};
use tokio_postgres::{Client, Error as SqlError, Row, Statement};

use super::dialect::{Param, Request};
use super::server::{Connection, RequestError, Server};
use crate::database::Access;
use crate::error::{DbError, DbResult};
use crate::retry::PAUSE;

/// Settings that determine the text of values. A pooler keeps them separate for each client.
const SPELLING: &str = "SET client_encoding = 'UTF8'; SET timezone = 'UTC'; \
                        SET datestyle = 'ISO, YMD'; SET standard_conforming_strings = on";

/// Settings for values that clients of a pooler share. They are set in the transaction that reads, or without a pooler.
const VALUES: [(&str, &str); 3] =
    [("bytea_output", "hex"), ("extra_float_digits", "1"), ("intervalstyle", "postgres")];

fn set_values(set: &str) -> String {
    VALUES.map(|(name, value)| format!("{set} {name} = '{value}'")).join("; ")
}

/// Returns the same settings as columns of a query, in force for the rest of its transaction.
pub fn values_set_in_query() -> String {
    let set = |(name, value)| format!("pg_catalog.set_config('{name}', '{value}', true)");
    VALUES.map(set).join(", ")
}

/// Returns the SQL that begins a read-only transaction. A function could turn off a session's default, but not this.
fn begin_read_only() -> String {
    let values = set_values("SET LOCAL");
    format!("BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY; SET LOCAL jit = off; {values}")
}

/// Time limit for the first answer to a new session, and behind a pooler for every answer in a pass.
pub const FIRST_ANSWER_LIMIT: Duration = Duration::from_secs(10);

pub struct Session {
    pub server: Arc<Server>,
    pub connection: Connection,
    pub prepared: Prepared,
    pub access: Access,
    plans_for_rounds: bool,
    /// True if row level security may hide rows of the table from this user.
    pub has_row_security: bool,
    /// True within a read-only transaction. To save round trips it lasts until an error or the end of the session.
    is_reading: bool,
}

impl Session {
    pub fn open(server: &Arc<Server>, access: Access) -> Result<Self> {
        let (server, connection) = (server.clone(), server.connect()?);
        let mut session = Self {
            server,
            connection,
            prepared: Prepared::default(),
            access,
            plans_for_rounds: false,
            has_row_security: false,
            is_reading: false,
        };
        // A pooler without a free connection accepts the client, and then keeps its first statement waiting.
        let set = session.within(FIRST_ANSWER_LIMIT, |session| session.batch(SPELLING));
        set.map_err(|error| error.explain(&session.server.to_string(), "use"))?;
        Ok(session)
    }

    /// Calls `request` with a time limit for each answer of the server.
    pub fn within<T>(&mut self, limit: Duration, request: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.connection.limit.replace(limit);
        let answer = request(self);
        self.connection.limit = before;
        answer
    }

    pub fn reopen(&mut self) -> Result<()> {
        *self = Self::open(&self.server, self.access)?;
        Ok(())
    }

    /// Prepares each statement from its second use on.
    pub fn prepare_repeated(&mut self) {
        self.prepared.0 = Some(RefCell::default());
    }

    /// Has the server plan statements once, with the index on ids. By default it would plan each round again, which
    /// takes longer than the round, or read all of a small table. No pooler shares the session, so settings can stay.
    pub fn plan_for_rounds(&mut self) -> DbResult<()> {
        if !self.plans_for_rounds {
            self.batch(&format!(
                "SET plan_cache_mode = force_generic_plan; SET enable_hashjoin = off; \
                 SET enable_mergejoin = off; {}",
                set_values("SET")
            ))?;
            self.plans_for_rounds = true;
        }
        Ok(())
    }

    /// Has the server plan each statement with the settings of this user.
    pub fn plan_for_searches(&mut self) -> DbResult<()> {
        if self.plans_for_rounds {
            self.batch("RESET plan_cache_mode; RESET enable_hashjoin; RESET enable_mergejoin")?;
            self.plans_for_rounds = false;
        }
        Ok(())
    }

    pub fn query(&mut self, sql: &str, params: &[Param]) -> DbResult<Vec<Row>> {
        Ok(self.reading(|session| {
            let Self { connection, prepared, .. } = session;
            connection.wait(async |client| prepared.query(client, sql, params).await)
        })?)
    }

    pub fn column<T: FromSqlOwned>(&mut self, sql: &str, params: &[Param]) -> DbResult<Vec<T>> {
        Ok(self.query(sql, params)?.iter().map(|row| row.get(0)).collect())
    }

    fn reading<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, RequestError>,
    ) -> Result<T, RequestError> {
        self.begin_to_read()?;
        read(self).inspect_err(|_| self.end_reading())
    }

    pub fn run(&mut self, request: &Request) -> DbResult<Vec<Row>> {
        self.query(&request.sql, &request.params)
    }

    /// Sends a statement without waiting for the answer. Only one such statement may be open at a time.
    pub fn send(&mut self, sql: &'static str) -> DbResult<()> {
        let Self { connection, prepared, .. } = self;
        let statement = connection.wait(async |client| prepared.get(client, sql, &[]).await)?;
        Ok(connection.send(|client| async move {
            query(&client, statement.as_ref(), sql, &[]).await.map(|_| ())
        })?)
    }

    /// [`stream`](Self::stream) for searches and for values that are shown or written, with the settings for values.
    pub fn search(
        &mut self,
        sql: &str,
        params: &[Param],
        each: impl FnMut(&Row) -> bool,
    ) -> DbResult<()> {
        if self.access == Access::ReadOnly {
            return self.stream(None, sql, params, each);
        }
        // A search of many rows takes long, so it has no time limit. The server would also compile the conditions,
        // which takes longer than to evaluate them. The settings are local because of poolers.
        let limit = self.connection.limit.take();
        let begin = format!("BEGIN; SET LOCAL jit = off; {}", set_values("SET LOCAL"));
        let searched = self.stream(Some(&begin), sql, params, each);
        let ended = self.batch("COMMIT");
        self.connection.limit = limit;
        searched.and(ended)
    }

    /// Passes each row to `each` as it comes in, until that returns false. `begin` is sent together with the statement.
    pub fn stream(
        &mut self,
        begin: Option<&str>,
        sql: &str,
        params: &[Param],
        mut each: impl FnMut(&Row) -> bool,
    ) -> DbResult<()> {
        let params = params.iter().map(Param::typed);
        let params: Vec<_> = params.map(|(value, of)| (value as &dyn ToSql, of)).collect();
        let request = async |client: &Client| {
            let rows = client.query_typed_raw(sql, params);
            let Some(begin) = begin else { return rows.await };
            let (begun, rows) = join(client.batch_execute(begin), rows).await;
            begun.and(rows)
        };
        Ok(self.reading(|session| {
            let mut rows = pin!(session.connection.wait(request)?);
            while let Some(row) = session.connection.wait(async |_| rows.try_next().await)? {
                if !each(&row) {
                    break;
                }
            }
            Ok(())
        })?)
    }

    /// Returns the plan of a statement, which scans a whole table only if no index can serve it.
    pub fn plan_of(&mut self, sql: &str) -> DbResult<Vec<String>> {
        self.end_reading();
        self.batch(&format!("{}; SET LOCAL enable_seqscan = off", begin_read_only()))?;
        self.is_reading = true;
        let lines = self.column(&format!("EXPLAIN (COSTS OFF) {sql}"), &[])?;
        self.roll_back()?;
        Ok(lines)
    }

    pub fn begin(&mut self) -> DbResult<()> {
        match self.access {
            Access::ReadOnly => Ok(self.begin_to_read()?),
            Access::ReadWrite | Access::Pass(_) => self.batch("BEGIN"),
        }
    }

    pub fn roll_back(&mut self) -> DbResult<()> {
        self.is_reading = false;
        self.batch("ROLLBACK")
    }

    fn begin_to_read(&mut self) -> Result<(), RequestError> {
        if self.access == Access::ReadOnly && !self.is_reading {
            self.connection.wait(async |client| client.batch_execute(&begin_read_only()).await)?;
            self.is_reading = true;
        }
        Ok(())
    }

    /// Ends the read-only transaction, if one is open; a lost connection has already ended it.
    fn end_reading(&mut self) {
        if self.is_reading {
            let _ = self.roll_back();
        }
    }

    pub fn batch(&mut self, sql: &str) -> DbResult<()> {
        Ok(self.connection.wait(async |client| client.batch_execute(sql).await)?)
    }

    /// Waits for a read-only server. If a new session could write, as after a failover, it closes all connections.
    pub fn wait_for_writes(&mut self) {
        let _ = self.roll_back();
        std::thread::sleep(PAUSE);
        let setting = "SELECT pg_catalog.current_setting('transaction_read_only')";
        let setting: Result<Vec<String>, _> = self.column(setting, &[]);
        if setting.is_ok_and(|setting| setting == ["on"]) && self.server.can_write() {
            self.server.end_connections();
        }
    }

    /// Returns the time since the server was started or recovered from a crash, which frees all locks. Recovery ends
    /// with a checkpoint that has nothing to redo, unlike checkpoints of a running server.
    pub fn uptime(&mut self) -> DbResult<Duration> {
        let sql = "SELECT extract(epoch FROM pg_catalog.clock_timestamp() - greatest( \
                   CASE WHEN redo_lsn = checkpoint_lsn THEN checkpoint_time END, \
                   pg_catalog.pg_postmaster_start_time()))::float8 FROM \
                   pg_catalog.pg_control_checkpoint()";
        let secs: f64 = self.column(sql, &[])?.pop().unwrap_or(f64::MAX);
        Ok(Duration::try_from_secs_f64(secs.max(0.0)).unwrap_or(Duration::MAX))
    }

    /// Returns the process of the server for this session, with its start, because process numbers are reused.
    pub fn backend(&mut self) -> DbResult<String> {
        let sql = "SELECT pg_catalog.concat_ws(' ', pid, backend_start) \
                   FROM pg_catalog.pg_stat_activity WHERE pid = pg_catalog.pg_backend_pid()";
        Ok(self.column(sql, &[])?.pop().unwrap_or_default())
    }
}

/// Statements by their text, prepared from the second use on; none behind a pooler, which may change the process.
#[derive(Default)]
pub struct Prepared(Option<RefCell<HashMap<String, Option<Statement>>>>);

impl Prepared {
    pub async fn get(
        &self,
        client: &Client,
        sql: &str,
        params: &[Param],
    ) -> Result<Option<Statement>, SqlError> {
        let Some(known) = &self.0 else { return Ok(None) };
        let found = known.borrow().get(sql).cloned();
        let statement = match found {
            None => None,
            Some(Some(statement)) => return Ok(Some(statement)),
            Some(None) => {
                let types: Vec<_> = params.iter().map(|param| param.typed().1).collect();
                Some(client.prepare_typed(sql, &types).await?)
            }
        };
        known.borrow_mut().insert(sql.into(), statement.clone());
        Ok(statement)
    }

    async fn query(
        &self,
        client: &Client,
        sql: &str,
        params: &[Param],
    ) -> Result<Vec<Row>, SqlError> {
        let statement = self.get(client, sql, params).await?;
        query(client, statement.as_ref(), sql, params).await
    }

    async fn run(&self, client: &Client, request: Option<&Request>) -> Result<Vec<Row>, SqlError> {
        let Some(Request { sql, params }) = request else { return Ok(Vec::new()) };
        self.query(client, sql, params).await
    }
}

pub async fn query(
    client: &Client,
    statement: Option<&Statement>,
    sql: &str,
    params: &[Param],
) -> Result<Vec<Row>, SqlError> {
    let typed = params.iter().map(Param::typed);
    match statement {
        Some(statement) => {
            let values: Vec<_> = typed.map(|(value, _)| value).collect();
            client.query(statement, &values).await
        }
        None => client.query_typed(sql, &typed.collect::<Vec<_>>()).await,
    }
}

/// Sends outcomes and then charges, which are built while the server writes the outcomes.
async fn write(
    client: &Client,
    prepared: &Prepared,
    outcomes: Option<&Request>,
    charges: impl FnOnce() -> Option<Request>,
) -> Result<Vec<Row>, SqlError> {
    let charges = async {
        // Now the connection sends the outcomes.
        yield_now().await;
        prepared.run(client, charges().as_ref()).await
    };
    let (outcomes, charges) = join(prepared.run(client, outcomes), charges).await;
    Ok([outcomes?, charges?].concat())
}

/// The rows of a claim, and of the writes that were sent with it.
type ClaimedAndWritten = (DbResult<Vec<Row>>, DbResult<Vec<Row>>);

impl Session {
    pub fn write(
        &mut self,
        outcomes: Option<&Request>,
        charges: impl FnOnce() -> Option<Request>,
    ) -> DbResult<Vec<Row>> {
        let Self { connection, prepared, .. } = self;
        Ok(connection.wait(async |client| write(client, prepared, outcomes, charges).await)?)
    }

    /// Sends a request that locks, then the writes. Meanwhile the `other` session runs `read` of the granted locks.
    pub fn claim_and_write(
        &mut self,
        lock: &Request,
        other: &Self,
        read: impl FnOnce(&[Row]) -> Option<Request>,
        outcomes: Option<&Request>,
        charges: impl FnOnce() -> Option<Request>,
    ) -> DbResult<ClaimedAndWritten> {
        let Self { connection, prepared, .. } = self;
        let both = async |client: &Client, other_client: &Client| {
            let claim = async {
                let rows = prepared.run(client, Some(lock)).await?;
                other.prepared.run(other_client, read(&rows).as_ref()).await
            };
            let written = write(client, prepared, outcomes, charges);
            let (claimed, written): (Result<_, SqlError>, _) = join(claim, written).await;
            (claimed.map_err(DbError::from), written.map_err(DbError::from))
        };
        Ok(connection.wait_with(&other.connection, both)?)
    }
}

/// Returns true if a pooler lends a session per transaction. A pool of one never answers `other`: set a time limit.
pub fn are_pooled(one: &mut Session, other: &mut Session) -> DbResult<bool> {
    for _ in 0..2 {
        // During the transactions a pooler lends two processes, and afterwards the last one first.
        one.begin()?;
        let first = one.backend()?;
        other.begin()?;
        let second = other.backend()?;
        one.roll_back()?;
        other.roll_back()?;
        if first == second || one.backend()? != first || other.backend()? != second {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A pooler closes the server's session if a client leaves within a transaction.
impl Drop for Session {
    fn drop(&mut self) {
        self.end_reading();
    }
}

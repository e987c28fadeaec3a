//! One session on the server, and its errors, sorted by what can be done about them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use futures_util::TryStreamExt;
use futures_util::future::join;
use tokio::task::yield_now;
use tokio_postgres::error::{DbError as ServerError, ErrorPosition, Severity};
use tokio_postgres::types::{FromSqlOwned, ToSql};
use tokio_postgres::{Client, Error as SqlError, Row, Statement};

use super::dialect::{Param, Request};
use super::server::{Connection, RequestError, Server};
use crate::database::Access;
use crate::error::{DbError, DbErrorKind};
use crate::retry::PAUSE;
use crate::system_error::reason;

/// Settings for the spelling of values. A pooler keeps these apart for each of its clients.
const SPELLING: &str = "SET client_encoding = 'UTF8'; SET timezone = 'UTC'; \
                        SET datestyle = 'ISO, YMD'; SET standard_conforming_strings = on";

/// Settings for the spelling of values that a pooler does not keep apart for each of its clients. They are
/// set in the transaction that reads, or in a session that is not shared.
const VALUES: [(&str, &str); 3] =
    [("bytea_output", "hex"), ("extra_float_digits", "1"), ("intervalstyle", "postgres")];

fn set_values(set: &str) -> String {
    VALUES.map(|(name, value)| format!("{set} {name} = '{value}'")).join("; ")
}

/// The same settings as columns of a query. They hold for the rest of its transaction.
pub fn values_set_in_query() -> String {
    let set = |(name, value)| format!("pg_catalog.set_config('{name}', '{value}', true)");
    VALUES.map(set).join(", ")
}

/// A transaction that can never write again once it has asked for anything, whatever a function
/// sets in it; the default of a session could be set back for the transactions to come.
fn begin_to_read() -> String {
    let values = set_values("SET LOCAL");
    format!("BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY; SET LOCAL jit = off; {values}")
}

/// Time limit for the first answer to a new session, and behind a pooler for every answer in a pass.
pub const FIRST_ANSWER_LIMIT: Duration = Duration::from_secs(10);
const NO_CONNECTION_LEFT: &str = "; a pass needs two connections: behind a pooler its pool may have none \
                                  left (default_pool_size of PgBouncer)";

pub struct Session {
    pub server: Arc<Server>,
    pub connection: Connection,
    pub prepared: Prepared,
    /// Whether it asks in transactions that cannot write.
    pub access: Access,
    /// Whether it plans for rounds.
    plans_for_rounds: bool,
    /// Whether row level security may hide rows of the table from this user.
    pub has_row_security: bool,
    /// Whether such a transaction has begun. It lasts until an error or the end, so that no
    /// statement costs more round trips, and is always taken back: nothing that was set in it or
    /// sent by it stays.
    is_reading: bool,
}

impl Session {
    /// See [`Server::connect`].
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
        // A pooler without a free connection accepts the client, and keeps its first statement waiting.
        let spelled = session.within(FIRST_ANSWER_LIMIT, |session| session.batch(SPELLING));
        spelled.map_err(|error| error.explain(&session.server.shown(), "use"))?;
        Ok(session)
    }

    /// Calls `ask` with a time limit for each answer of the server.
    pub fn within<T>(&mut self, limit: Duration, ask: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.connection.limit.replace(limit);
        let answered = ask(self);
        self.connection.limit = before;
        answered
    }

    /// Takes another connection in place of the one there is.
    pub fn open_again(&mut self) -> Result<()> {
        *self = Self::open(&self.server, self.access)?;
        Ok(())
    }

    /// From now on what is repeated is planned once only.
    pub fn prepare_what_is_repeated(&mut self) {
        self.prepared.0 = Some(RefCell::default());
    }

    /// From now on a plan is made once for all rounds, and goes by the index on ids: for few records at a
    /// time the server would plan anew each time, which takes longer than what it plans, or read all of
    /// a small table. No pooler shares the session, so the settings for values are set once for all.
    pub fn plan_for_rounds(&mut self) -> Result<(), DbError> {
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

    /// From now on each statement is planned as this user's are.
    pub fn plan_for_searches(&mut self) -> Result<(), DbError> {
        if self.plans_for_rounds {
            self.batch("RESET plan_cache_mode; RESET enable_hashjoin; RESET enable_mergejoin")?;
            self.plans_for_rounds = false;
        }
        Ok(())
    }

    /// One statement, in one round trip.
    pub fn query(&mut self, sql: &str, params: &[Param]) -> Result<Vec<Row>, DbError> {
        Ok(self.reading(|session| {
            let Self { connection, prepared, .. } = session;
            connection.wait(async |client| ask(client, prepared, sql, params).await)
        })?)
    }

    /// The first column of each row.
    pub fn column<T: FromSqlOwned>(
        &mut self,
        sql: &str,
        params: &[Param],
    ) -> Result<Vec<T>, DbError> {
        Ok(self.query(sql, params)?.iter().map(|row| row.get(0)).collect())
    }

    fn reading<T>(
        &mut self,
        ask: impl FnOnce(&mut Self) -> Result<T, RequestError>,
    ) -> Result<T, RequestError> {
        self.begin_to_read()?;
        ask(self).inspect_err(|_| self.end_reading())
    }

    /// The same of a request.
    pub fn ask(&mut self, request: &Request) -> Result<Vec<Row>, DbError> {
        self.query(&request.sql, &request.params)
    }

    /// Asks for something, and goes on without the answer; one such thing at a time.
    pub fn ask_ahead(&mut self, sql: &'static str) -> Result<(), DbError> {
        let Self { connection, prepared, .. } = self;
        let statement = connection.wait(async |client| prepared.get(client, sql, &[]).await)?;
        Ok(connection
            .send(|it| async move { query(&it, statement.as_ref(), sql, &[]).await.map(|_| ()) })?)
    }

    /// Hands each row to `each` as it comes in, as long as that says true.
    pub fn stream(
        &mut self,
        sql: &str,
        params: &[Param],
        each: impl FnMut(&Row) -> bool,
    ) -> Result<(), DbError> {
        self.stream_after(None, sql, params, each)
    }

    /// The same for a search, or for values that are shown or written, in a transaction of its own. A session
    /// that only reads is in a transaction already.
    pub fn search(
        &mut self,
        sql: &str,
        params: &[Param],
        each: impl FnMut(&Row) -> bool,
    ) -> Result<(), DbError> {
        if self.access == Access::ReadOnly {
            return self.stream(sql, params, each);
        }
        // A search takes long if there are many rows, so it has no limit. For the same reason the server would
        // compile the conditions, which takes longer than to evaluate them. A pooler keeps no local setting.
        let limit = self.connection.limit.take();
        let begin = format!("BEGIN; SET LOCAL jit = off; {}", set_values("SET LOCAL"));
        let searched = self.stream_after(Some(&begin), sql, params, each);
        let ended = self.batch("COMMIT");
        self.connection.limit = limit;
        searched.and(ended)
    }

    /// The same, after a batch that is sent together with the statement.
    fn stream_after(
        &mut self,
        batch: Option<&str>,
        sql: &str,
        params: &[Param],
        mut each: impl FnMut(&Row) -> bool,
    ) -> Result<(), DbError> {
        let params = params.iter().map(Param::typed).map(|(value, of)| (value as &dyn ToSql, of));
        let params: Vec<_> = params.collect();
        let ask = async |client: &Client| {
            let rows = client.query_typed_raw(sql, params);
            let Some(batch) = batch else { return rows.await };
            let (done, rows) = join(client.batch_execute(batch), rows).await;
            done.and(rows)
        };
        Ok(self.reading(|it| {
            let rows = it.connection.wait(ask)?;
            let mut rows = pin!(rows);
            while let Some(row) = it.connection.wait(async |_| rows.try_next().await)? {
                if !each(&row) {
                    break;
                }
            }
            Ok(())
        })?)
    }

    /// The plan of a statement where no table is read from one end to the other without need.
    pub fn plan_of(&mut self, sql: &str) -> Result<Vec<String>, DbError> {
        self.end_reading();
        self.batch(&format!("{}; SET LOCAL enable_seqscan = off", begin_to_read()))?;
        self.is_reading = true;
        let lines = self.column(&format!("EXPLAIN (COSTS OFF) {sql}"), &[])?;
        self.roll_back()?;
        Ok(lines)
    }

    pub fn begin(&mut self) -> Result<(), DbError> {
        match self.access {
            Access::ReadOnly => Ok(self.begin_to_read()?),
            Access::ReadWrite | Access::Pass(_) => self.batch("BEGIN"),
        }
    }

    pub fn roll_back(&mut self) -> Result<(), DbError> {
        self.is_reading = false;
        self.batch("ROLLBACK")
    }

    fn begin_to_read(&mut self) -> Result<(), RequestError> {
        if self.access == Access::ReadOnly && !self.is_reading {
            self.connection.wait(async |it| it.batch_execute(&begin_to_read()).await)?;
            self.is_reading = true;
        }
        Ok(())
    }

    /// Ends the transaction that only reads, if there is one; a lost connection has ended it.
    fn end_reading(&mut self) {
        if self.is_reading {
            let _ = self.roll_back();
        }
    }

    pub fn batch(&mut self, sql: &str) -> Result<(), DbError> {
        Ok(self.connection.wait(async |it| it.batch_execute(sql).await)?)
    }

    /// Waits a moment for a server that only reads. If this session cannot write but a new one could, as
    /// after a failover, all connections are closed, so that they are made again.
    pub fn wait_for_writes(&mut self) {
        let _ = self.roll_back();
        std::thread::sleep(PAUSE);
        let setting = "SELECT pg_catalog.current_setting('transaction_read_only')";
        let setting: Result<Vec<String>, _> = self.column(setting, &[]);
        if setting.is_ok_and(|setting| setting == ["on"]) && self.server.can_write() {
            self.server.end_connections();
        }
    }

    /// For how long the server can have kept locks: since it was started, or has recovered from a
    /// crash. Recovery ends with a checkpoint, which has nothing to redo behind it, unlike those that
    /// are made while the server works.
    pub fn age_of_claims(&mut self) -> Result<Duration, DbError> {
        let sql = "SELECT extract(epoch FROM pg_catalog.clock_timestamp() - greatest( \
                   CASE WHEN redo_lsn = checkpoint_lsn THEN checkpoint_time END, \
                   pg_catalog.pg_postmaster_start_time()))::float8 FROM \
                   pg_catalog.pg_control_checkpoint()";
        let secs: f64 = self.column(sql, &[])?.pop().unwrap_or(f64::MAX);
        Ok(Duration::try_from_secs_f64(secs.max(0.0)).unwrap_or(Duration::MAX))
    }

    /// The server's process for this session, with its start: numbers are used again.
    pub fn backend(&mut self) -> Result<String, DbError> {
        let sql = "SELECT pg_catalog.concat_ws(' ', pid, backend_start) \
                   FROM pg_catalog.pg_stat_activity WHERE pid = pg_catalog.pg_backend_pid()";
        Ok(self.column(sql, &[])?.pop().unwrap_or_default())
    }
}

/// Statements by their text, prepared if they came a second time. None where the next one may
/// come to another process of the server, as behind a pooler.
#[derive(Default)]
pub struct Prepared(Option<RefCell<HashMap<String, Option<Statement>>>>);

impl Prepared {
    /// The prepared statement, if this is not the first time.
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
}

async fn ask(
    client: &Client,
    prepared: &Prepared,
    sql: &str,
    params: &[Param],
) -> Result<Vec<Row>, SqlError> {
    let statement = prepared.get(client, sql, params).await?;
    query(client, statement.as_ref(), sql, params).await
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

/// Sends outcomes, and charges without waiting between them. The charges are built while the server writes the outcomes.
async fn write(
    client: &Client,
    prepared: &Prepared,
    outcomes: Option<&Request>,
    charges: impl FnOnce() -> Option<Request>,
) -> Result<Vec<Row>, SqlError> {
    let outcomes = async {
        let Some(Request { sql, params }) = outcomes else { return Ok(Vec::new()) };
        ask(client, prepared, sql, params).await
    };
    let charges = async {
        // Now the connection sends the outcomes.
        yield_now().await;
        let Some(Request { sql, params }) = charges() else { return Ok(Vec::new()) };
        ask(client, prepared, &sql, &params).await
    };
    let (outcomes, charges): (Result<_, SqlError>, Result<_, SqlError>) =
        join(outcomes, charges).await;
    Ok([outcomes?, charges?].concat())
}

/// The rows of a claim, and of the writes that were sent with it.
type ClaimedAndWritten = (Result<Vec<Row>, DbError>, Result<Vec<Row>, DbError>);

impl Session {
    pub fn write(
        &mut self,
        outcomes: Option<&Request>,
        charges: impl FnOnce() -> Option<Request>,
    ) -> Result<Vec<Row>, DbError> {
        let Self { connection, prepared, .. } = self;
        Ok(connection.wait(async |client| write(client, prepared, outcomes, charges).await)?)
    }

    /// Sends a request that locks, and writes without waiting between them. The `other` session is asked for what `read`
    /// makes of the first answer, while the writes are awaited.
    pub fn claim_and_write(
        &mut self,
        lock: &Request,
        other: &Self,
        read: impl FnOnce(&[Row]) -> Option<Request>,
        outcomes: Option<&Request>,
        charges: impl FnOnce() -> Option<Request>,
    ) -> Result<ClaimedAndWritten, DbError> {
        let Self { connection, prepared, .. } = self;
        let both = async |client: &Client, other_client: &Client| {
            let claim = async {
                let rows = ask(client, prepared, &lock.sql, &lock.params).await?;
                let Some(Request { sql, params }) = read(&rows) else { return Ok(Vec::new()) };
                ask(other_client, &other.prepared, &sql, &params).await
            };
            let written = write(client, prepared, outcomes, charges);
            let (claimed, written): (Result<_, SqlError>, _) = join(claim, written).await;
            (claimed.map_err(DbError::from), written.map_err(DbError::from))
        };
        Ok(connection.wait_with(&other.connection, both)?)
    }
}

/// Whether two sessions are a pooler's, which lends the server's for a transaction.
///
/// A pool of one connection never answers the second session, so the caller must set a time limit.
pub fn are_pooled(one: &mut Session, other: &mut Session) -> Result<bool, DbError> {
    for _ in 0..2 {
        // The pooler has to keep them apart for the while, and then lends the last one first.
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

/// A pooler ends the server's session with a client that goes away within a transaction.
impl Drop for Session {
    fn drop(&mut self) {
        self.end_reading();
    }
}

/// Classes of refusals by the table: a constraint, a type, a trigger.
const REFUSALS: [&str; 9] = ["22", "23", "27", "44", "P0", "42", "0A", "38", "39"];
/// What is wrong with one row: a damaged page, or what the queue's condition makes of its values.
const OF_A_ROW: [&str; 4] = ["22", "XX001", "XX002", "54000"];

impl From<RequestError> for DbError {
    fn from(failure: RequestError) -> Self {
        match failure {
            RequestError::Sql(error) => error.into(),
            RequestError::Silent(limit) => {
                // A heartbeat has another limit, and says nothing of a pool.
                let is_of_pool = limit == FIRST_ANSWER_LIMIT;
                let hint = if is_of_pool { NO_CONNECTION_LEFT } else { "" };
                let message = format!("no answer within {limit:?}");
                Self { kind: DbErrorKind::Lost, message, hint: hint.into(), ..Self::default() }
            }
        }
    }
}

impl From<SqlError> for DbError {
    fn from(error: SqlError) -> Self {
        let (kind, message, server) = (kind(&error), message_of(&error), error.as_db_error());
        let code = server.map_or("", |server| server.code().code());
        let hint = match code {
            _ if kind == DbErrorKind::Busy => {
                format!("another session keeps rows locked ({message})")
            }
            "42501" => "; grant it to this user".into(),
            _ if kind == DbErrorKind::ReadOnly => {
                "; this server is a standby, name the primary".into()
            }
            "53200" => {
                "; if it is the locks, lower --jobs or raise max_locks_per_transaction".into()
            }
            "53100" => "; make room and run the same command again".into(),
            _ => String::new(),
        };
        let position = server.and_then(|server| match server.position()? {
            ErrorPosition::Original(number) => usize::try_from(*number).ok()?.checked_sub(1),
            ErrorPosition::Internal { .. } => None,
        });
        let is_one_of = |classes: &[&str]| classes.iter().any(|class| code.starts_with(class));
        let is_refusal =
            server.is_some_and(is_raised) || kind != DbErrorKind::Forbidden && is_one_of(&REFUSALS);
        let is_of_one_row = is_one_of(&OF_A_ROW);
        Self { kind, message, hint, position, is_of_one_row, is_refusal, is_partial: false }
    }
}

fn kind(error: &SqlError) -> DbErrorKind {
    let Some(server) = error.as_db_error() else {
        // The connection failed, unless a value did not fit its type.
        let source = std::error::Error::source(error);
        let is_io = source.is_some_and(<dyn std::error::Error>::is::<io::Error>);
        return if error.is_closed() || is_io { DbErrorKind::Lost } else { DbErrorKind::Other };
    };
    let code = server.code().code();
    // A function that writes in a command that only reads is told by its code as well.
    if is_raised(server) && code != "25006" {
        return if code.starts_with("22") { DbErrorKind::NoValue } else { DbErrorKind::Other };
    }
    match code {
        // An error that ends the session does not mean that the statement is wrong.
        _ if ends_session(server) => DbErrorKind::Lost,
        // The server shuts down, has crashed or starts; the session was idle, or its transaction open, for too long.
        "57P01" | "57P02" | "57P03" | "57P05" | "25P03" | "25P04" => DbErrorKind::Lost,
        // A lock, a deadlock, a conflict of serializable transactions, an object in use, a cancelled statement.
        "55P03" | "40P01" | "40001" | "55006" | "57014" => DbErrorKind::Busy,
        "42501" => DbErrorKind::Forbidden,
        "25006" => DbErrorKind::ReadOnly,
        // A standby has no number for the transaction of a statement.
        "XX000" if server.routine() == Some("GetNewTransactionId") => DbErrorKind::ReadOnly,
        _ if code.starts_with("08") && code != "08P01" => DbErrorKind::Lost,
        _ if code.starts_with("22") => DbErrorKind::NoValue,
        _ => DbErrorKind::Other,
    }
}

fn ends_session(error: &ServerError) -> bool {
    // PgBouncer sends this field only.
    let is_fatal = error.severity() == "FATAL";
    is_fatal || matches!(error.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
}

/// Whether a trigger or another function of the table has raised the error, by whatever code, or a policy of
/// row level security. The codes of locks, of cancellation and of lacking resources keep their meaning.
fn is_raised(error: &ServerError) -> bool {
    const OF_THE_SERVER: [&str; 5] = ["40", "53", "55P03", "57", "58"];
    let is_of_server = OF_THE_SERVER.iter().any(|class| error.code().code().starts_with(class));
    let is_of_policy = error.routine() == Some("ExecWithCheckOptions");
    !ends_session(error) && !is_of_server && (error.where_().is_some() || is_of_policy)
}

/// The error in the server's own words, on one line.
fn message_of(error: &SqlError) -> String {
    let db = error.as_db_error();
    let of_system = || std::error::Error::source(error)?.downcast_ref().map(reason);
    let said = db.map(|it| it.message().into()).or_else(of_system);
    let mut words = said.unwrap_or_else(|| error.to_string());
    // What stands in a row is nobody's business who reads a mail of cron.
    let detail = db.and_then(ServerError::detail).filter(|it| !it.starts_with("Failing row"));
    words.extend(detail.map(|detail| format!(" ({detail})")));
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

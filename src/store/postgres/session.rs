//! One connection to the server.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::Arc;

use anyhow::Result;
use futures_util::TryStreamExt;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error as SqlError, Row, Statement};

use super::dialect::Param;
use super::server::{Connection, Server};
use crate::store::Access;

/// What is needed to read values as they are written here. A pooler between this and the server
/// keeps these apart for each of its clients, and no others, so nothing else is set here.
const SPELLING: &str =
    "SET timezone = 'UTC'; SET datestyle = 'ISO, YMD'; SET standard_conforming_strings = on";

/// A transaction that can never write again once it has asked for anything, whatever a function
/// sets in it; the default of a session could be set back for the transactions to come.
const BEGIN_TO_READ: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY";

pub struct Session {
    connection: Connection,
    /// Statements by their text, prepared if they came a second time. None where the next one may
    /// come to another process of the server, as behind a pooler.
    prepared: Option<HashMap<String, Option<Statement>>>,
    /// Whether it asks in transactions that cannot write.
    pub access: Access,
    /// Whether such a transaction has begun. It lasts until an error or the end, so that no
    /// statement costs more round trips, and is always taken back: nothing that was set in it or
    /// sent by it stays.
    is_reading: bool,
}

impl Session {
    /// See [`Server::connect`].
    pub fn open(server: &Arc<Server>, access: Access) -> Result<Self> {
        let connection = server.connect()?;
        let mut session = Self { connection, prepared: None, access, is_reading: false };
        session.batch(SPELLING)?;
        Ok(session)
    }

    /// From now on what is repeated is planned once only.
    pub fn prepare_what_is_repeated(&mut self) {
        self.prepared = Some(HashMap::new());
    }

    /// One statement, in one round trip.
    pub fn query(&mut self, sql: &str, params: &[Param]) -> Result<Vec<Row>, SqlError> {
        self.asking(|it| it.ask(sql, params))
    }

    fn asking<T>(
        &mut self,
        ask: impl FnOnce(&mut Self) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        self.begin_to_read()?;
        ask(self).inspect_err(|_| self.end_reading())
    }

    fn ask(&mut self, sql: &str, params: &[Param]) -> Result<Vec<Row>, SqlError> {
        let typed: Vec<_> = params.iter().map(Param::typed).collect();
        let Some(prepared) = &mut self.prepared else {
            return self.connection.wait(async |it| it.query_typed(sql, &typed).await);
        };
        let statement = match prepared.get(sql) {
            None => {
                prepared.insert(sql.into(), None);
                return self.connection.wait(async |it| it.query_typed(sql, &typed).await);
            }
            Some(Some(statement)) => statement.clone(),
            Some(None) => {
                let types: Vec<_> = typed.iter().map(|(_, it)| it.clone()).collect();
                let statement =
                    self.connection.wait(async |it| it.prepare_typed(sql, &types).await)?;
                prepared.insert(sql.into(), Some(statement.clone()));
                statement
            }
        };
        let values: Vec<_> = typed.iter().map(|(value, _)| *value).collect();
        self.connection.wait(async |it| it.query(&statement, &values).await)
    }

    /// Hands each row to `each` as it comes in, as long as that says true.
    pub fn each(
        &mut self,
        sql: &str,
        params: &[Param],
        each: &mut dyn FnMut(&Row) -> bool,
    ) -> Result<(), SqlError> {
        let params = params.iter().map(Param::typed).map(|(value, of)| (value as &dyn ToSql, of));
        let params: Vec<_> = params.collect();
        self.asking(|it| {
            let rows = it.connection.wait(async |it| it.query_typed_raw(sql, params).await)?;
            let mut rows = pin!(rows);
            while let Some(row) = it.connection.wait(async |_| rows.try_next().await)? {
                if !each(&row) {
                    break;
                }
            }
            Ok(())
        })
    }

    /// How the server would carry out a statement, under a setting.
    pub fn plan(&mut self, setting: &str, sql: &str) -> Result<Vec<Row>, SqlError> {
        self.end_reading();
        self.batch(&format!("{BEGIN_TO_READ}; SET LOCAL {setting}"))?;
        let rows = self.ask(&format!("EXPLAIN (COSTS OFF) {sql}"), &[]);
        let ended = self.roll_back();
        rows.and_then(|rows| ended.map(|()| rows))
    }

    pub fn begin(&mut self) -> Result<(), SqlError> {
        match self.access {
            Access::ReadOnly => self.begin_to_read(),
            Access::ReadWrite | Access::Pass(_) => self.batch("BEGIN"),
        }
    }

    /// Ends a transaction without a trace.
    pub fn roll_back(&mut self) -> Result<(), SqlError> {
        self.is_reading = false;
        self.batch("ROLLBACK")
    }

    fn begin_to_read(&mut self) -> Result<(), SqlError> {
        if self.access == Access::ReadOnly && !self.is_reading {
            self.batch(BEGIN_TO_READ)?;
            self.is_reading = true;
        }
        Ok(())
    }

    /// Ends the transaction that only reads, if there is one. Where the connection is lost, so is
    /// the transaction.
    fn end_reading(&mut self) {
        if self.is_reading {
            let _ = self.roll_back();
        }
    }

    /// Several statements without parameters or results.
    pub fn batch(&mut self, sql: &str) -> Result<(), SqlError> {
        self.connection.wait(async |it| it.batch_execute(sql).await)
    }

    /// Which of the server's processes serves this session. Numbers are used again, so the instant
    /// of its start belongs to it.
    pub fn backend(&mut self) -> Result<String, SqlError> {
        let sql = "SELECT concat_ws(' ', pid, backend_start) FROM pg_stat_activity \
                   WHERE pid = pg_backend_pid()";
        let rows = self.query(sql, &[])?;
        Ok(rows.first().map(|row| row.get(0)).unwrap_or_default())
    }

    pub fn is_alive(&mut self) -> bool {
        self.connection.is_alive()
    }

    /// See [`Handle::socket`].
    pub fn socket(&self) -> Arc<OwnedFd> {
        self.connection.handle.socket.clone()
    }
}

/// A pooler takes a client that goes away within a transaction for a broken one, and ends the
/// server's session as well.
impl Drop for Session {
    fn drop(&mut self) {
        self.end_reading();
    }
}

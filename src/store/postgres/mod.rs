//! The PostgreSQL store: the table on a server, the claims in its advisory locks.

mod advisory_locks;
mod catalog;
mod change;
mod errors;
mod inspect;
mod query;
mod reader;
mod reconnect;
mod recovery;
mod server;
mod session;
mod sessions;
mod socket;
mod sql;
mod store;
mod write;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use postgres::{Error as SqlError, Row};

pub use errors::words;
pub use reconnect::{Heartbeat, Patience, Patient};
pub use server::{Server, is_url, without_password};
use session::Backend;
pub use session::Session;
pub use sql::Param;

use super::page::Reported;
use super::table::Table;
use super::{Access, Database, Interrupter, StateDir, Store, StoreStop};
use crate::clock::Clock;
use crate::mapping::Mapping;
use crate::time::Instant;
use catalog::PgCatalog;
use sql::param;
use store::PgStore;

/// A server that answers, and the table there that the command is about.
pub struct PgDatabase {
    server: Arc<Server>,
    session: Session,
    /// Which of the server's processes serves it, once claims depend on that.
    backend: Backend,
    table: Table,
    /// Of its columns, for every record.
    names: Arc<[String]>,
    /// As messages have it.
    place: String,
    reported: Reported,
    /// Whether the table has triggers that run after an update, once that was asked.
    has_after_triggers: Option<bool>,
}

impl PgDatabase {
    pub fn open(server: &Arc<Server>, mapping: &Mapping, access: Access) -> Result<Self> {
        let place = server.shown();
        let mut session = Session::open(server, access)?;
        let found = Table::find(&mut PgCatalog::new(&mut session), mapping);
        let table = found.map_err(|error| match error.downcast::<SqlError>() {
            Ok(error) => errors::explain(&place, &error, "read"),
            Err(error) => error.context(format!("could not use {place}")),
        })?;
        Ok(Self::new(server, session, table))
    }

    pub fn new(server: &Arc<Server>, session: Session, table: Table) -> Self {
        let place = server.shown();
        let (server, backend, reported) = (server.clone(), Backend::default(), Reported::default());
        let names = table.columns.iter().map(|column| column.name.clone()).collect();
        let has_after_triggers = None;
        Self { server, session, backend, table, names, place, reported, has_after_triggers }
    }

    /// Takes another session in place of the one there is.
    pub fn connect(&mut self) -> Result<()> {
        self.session = Session::open(&self.server, self.session.access)?;
        Ok(())
    }

    /// What ends the statements of all sessions with this server.
    pub fn interrupter(&self) -> Interrupter {
        self.server.interrupter()
    }

    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    pub fn query(&mut self, sql: &str, params: &[Param]) -> Result<Vec<Row>> {
        self.session.query(sql, params).map_err(|error| self.explain(&error, "read"))
    }

    /// A database error as the user is told it.
    fn explain(&self, error: &SqlError, verb: &str) -> anyhow::Error {
        errors::explain(&self.place, error, verb)
    }
}

impl Database for PgDatabase {
    fn table(&self) -> &Table {
        &self.table
    }

    fn place(&self) -> String {
        self.place.clone()
    }

    fn state_dir(&self, named: Option<&Path>) -> Result<StateDir> {
        let path = named.context("where are cursors to be kept? say so with --state-dir")?;
        Ok(StateDir::own(path.into(), &self.server.identity()))
    }

    fn add(&mut self, payloads: &[String], now: Instant) -> Result<()> {
        let payload = self.table.require_payload()?;
        let at = param(&self.table.inserted.spelling.write(now, &self.table.dates.zone));
        let insert = change::insert(&self.table, payload, payloads, at);
        let added = self.session.query(&insert.sql, &insert.params);
        added.map(|_| ()).map_err(|error| self.explain(&error, "add records to"))
    }

    /// The server tidies up by itself.
    fn leave_alone(&mut self) -> Result<()> {
        Ok(())
    }

    fn obstacle(&mut self) -> Result<Option<String>> {
        self.missing_privilege()
    }

    fn into_store(
        self: Box<Self>,
        _: &StateDir,
        stop: Option<Arc<StoreStop>>,
        clock: Clock,
    ) -> Result<Box<dyn Store + Send>> {
        Ok(Box::new(PgStore::new(*self, Patience::new(stop, clock))))
    }
}

/// Creates `table` with its schema, unless there is such a table.
pub fn create(server: &Arc<Server>, table: &str, schema: &str) -> Result<()> {
    let place = server.shown();
    let mut session = Session::open(server, Access::ReadWrite)?;
    let explain = |error: &SqlError| errors::explain(&place, error, "create the table in");
    let named = [Param::Text(Some(table.to_lowercase()))];
    let there = session.query("SELECT 1 WHERE to_regclass($1) IS NOT NULL", &named);
    if !there.map_err(|error| explain(&error))?.is_empty() {
        anyhow::bail!("table {table} already exists in {place}");
    }
    // All of it or nothing: a batch is one transaction.
    session.batch(schema).map_err(|error| explain(&error)).context("nothing was created")
}

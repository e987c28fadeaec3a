//! The PostgreSQL store: the table on a server, the claims in its advisory locks. A queue of pgmq is
//! read as a table, and written by a store of its own.

mod advisory_locks;
mod catalog;
mod errors;
mod inspect;
pub mod pgmq;
mod query;
mod reader;
mod reconnect;
mod server;
mod session;
mod sessions;
mod socket;
mod sql;
mod write;

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use postgres::{Error as SqlError, Row};

pub use server::{Server, without_password};

use super::page::Reported;
use super::table::Table;
use super::{Access, Database, StateDir, Store, StoreStop};
use crate::clock::Clock;
use crate::mapping::Mapping;
use crate::time::Instant;
use catalog::PgCatalog;
use pgmq::{Queue, Work};
use reconnect::Patience;
use session::Session;
use sessions::Sessions;
use sql::{Param, param};

/// A server that answers, and the table there that the command is about.
pub struct PgDatabase {
    server: Arc<Server>,
    session: Session,
    /// Which of the server's processes serves it, once claims depend on that.
    backend: String,
    table: Table,
    /// What the table is made of, where it is a queue.
    queue: Option<Queue>,
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
        let found = Table::find(&mut PgCatalog(RefCell::new(&mut session)), mapping);
        let table = found.map_err(|error| match error.downcast::<SqlError>() {
            Ok(error) => errors::explain(&place, &error, "read"),
            Err(error) => error.context(format!("could not use {place}")),
        })?;
        Ok(Self::new(server, session, table, None))
    }

    fn new(server: &Arc<Server>, session: Session, table: Table, queue: Option<Queue>) -> Self {
        let place = server.shown();
        let (server, backend, reported) = (server.clone(), String::new(), Reported::default());
        let has_after_triggers = None;
        Self { server, session, backend, table, queue, place, reported, has_after_triggers }
    }

    /// Takes another session in place of the one there is.
    fn connect(&mut self) -> Result<()> {
        self.session = Session::open(&self.server, self.session.access)?;
        Ok(())
    }

    fn query(&mut self, sql: &str, params: &[Param]) -> Result<Vec<Row>> {
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
        if let Some(queue) = &self.queue {
            let (sql, params) = queue.send(payloads);
            return self.query(sql, &params).map(|_| ());
        }
        let payload = self.table.require_payload()?;
        let at = param(&self.table.inserted.spelling.write(now, &self.table.dates.zone));
        let (sql, params) = write::insert(&self.table, payload, payloads, at);
        let added = self.session.query(&sql, &params);
        added.map(|_| ()).map_err(|error| self.explain(&error, "add records to"))
    }

    fn obstacle(&mut self) -> Result<Option<String>> {
        match &self.queue {
            Some(queue) => {
                let tables = [queue.waiting.clone(), queue.archive.clone()];
                self.missing_on_tables(&tables, &["SELECT", "INSERT", "UPDATE", "DELETE"])
            }
            None => self.missing_privilege(),
        }
    }

    fn into_store(
        self: Box<Self>,
        _: &StateDir,
        stop: Option<Arc<StoreStop>>,
        clock: Clock,
    ) -> Result<Box<dyn Store + Send>> {
        let patience = Patience::new(stop, clock);
        Ok(match self.queue.clone() {
            Some(queue) => Box::new(Work::new(queue, *self, patience)),
            None => Box::new(Sessions::new(*self, patience)),
        })
    }
}

/// Creates `table` with its schema, unless there is such a table.
pub fn create(server: &Arc<Server>, table: &str, schema: &str) -> Result<()> {
    let place = server.shown();
    let mut session = Session::open(server, Access::ReadWrite)?;
    let explain = |error: &SqlError| errors::explain(&place, error, "create the table in");
    let named = [Param::text(table.to_lowercase())];
    let there = session.query("SELECT 1 WHERE to_regclass($1) IS NOT NULL", &named);
    if !there.map_err(|error| explain(&error))?.is_empty() {
        anyhow::bail!("table {table} already exists in {place}");
    }
    // All of it or nothing: a batch is one transaction.
    session.batch(schema).map_err(|error| explain(&error)).context("nothing was created")
}

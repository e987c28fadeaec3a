//! The pgmq store: a queue that the server keeps in two tables, of what waits and of what is done.
//! It has a schedule of its own, the instant at which each message becomes visible again, and that
//! is also its claim: who reads a message hides it for a while.
//!
//! Both tables are read as one by the SQL of the PostgreSQL store. Everything is written by pgmq's
//! own functions, but for what it has none for: bringing an archived message back, and telling one
//! that ran out of attempts from one that succeeded, which is noted in its headers.

mod catalog;
mod orders;
mod store;
mod work;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};

use super::postgres::{Param, Patience, PgDatabase, Server, Session};
use super::table::Table;
use super::{
    Access, Count, Database, Found, Inspection, Page, Reader, StateDir, Store, StoreStop, Survey,
};
use crate::clock::Clock;
use crate::mapping::Mapping;
use crate::query::{Order, Query};
use crate::record::{Facts, Id, Record, Status};
use crate::time::Instant;
use catalog::QueueCatalog;
use store::PgmqStore;

/// A queue, and its two tables read as one.
pub struct PgmqQueue {
    queue: Queue,
    database: PgDatabase,
}

/// A queue, by the names that pgmq has for it.
#[derive(Debug, Clone)]
struct Queue {
    name: String,
    /// Its tables, as SQL has their names.
    waiting: String,
    archive: String,
    /// Whether its messages have headers, as they do since pgmq 1.5.
    has_headers: bool,
}

impl PgmqQueue {
    pub fn open(
        server: &Arc<Server>,
        name: &str,
        mapping: &Mapping,
        access: Access,
    ) -> Result<Self> {
        let mut session = Session::open(server, access)?;
        let could_not = || format!("could not use {}", server.shown());
        let queue = catalog::find(&mut session, name).with_context(could_not)?;
        let mut catalog = QueueCatalog { queue: &queue };
        let mut table = Table::find(&mut catalog, &catalog::mapping(mapping))?;
        table.due_at = table.columns.iter().find(|column| column.name == "vt").cloned();
        Ok(Self { database: PgDatabase::new(server, session, table), queue })
    }
}

/// Makes a queue, unless there is one of this name.
pub fn create(server: &Arc<Server>, name: &str) -> Result<()> {
    let mut session = Session::open(server, Access::ReadWrite)?;
    let made = catalog::create(&mut session, name);
    made.with_context(|| format!("could not make queue {name} in {}", server.shown()))
}

impl Reader for PgmqQueue {
    fn due(
        &mut self,
        selection: &Query,
        is_due: &mut dyn FnMut(Facts<'_>) -> bool,
    ) -> Result<Page> {
        self.database.due(selection, is_due)
    }

    fn read(&mut self, id: &Id) -> Result<Found> {
        self.database.read(id)
    }
}

impl Survey for PgmqQueue {
    fn scan(
        &mut self,
        statuses: &[Status],
        order: Order,
        each: &mut dyn FnMut(Record) -> Result<()>,
    ) -> Result<()> {
        self.database.scan(statuses, order, each)
    }

    fn census(&mut self, bounds: &[i64], now: Instant) -> Result<Vec<Count>> {
        self.database.census(bounds, now)
    }

    fn any_mapped(&mut self) -> Result<bool> {
        Ok(true)
    }

    fn inspect(&mut self, _by_count: bool) -> Result<Inspection> {
        Ok(self.database.examined_from_outside())
    }
}

impl Database for PgmqQueue {
    fn table(&self) -> &Table {
        self.database.table()
    }

    fn place(&self) -> String {
        self.database.place()
    }

    fn state_dir(&self, named: Option<&Path>) -> Result<StateDir> {
        self.database.state_dir(named)
    }

    fn add(&mut self, payloads: &[String], _now: Instant) -> Result<()> {
        let messages = payloads.iter().map(|payload| Some(payload.clone())).collect();
        let params = [Param::Text(Some(self.queue.name.clone())), Param::Texts(messages)];
        let sql = "SELECT pgmq.send_batch($1, $2::text[]::jsonb[])";
        self.database.query(sql, &params).map(|_| ())
    }

    fn leave_alone(&mut self) -> Result<()> {
        self.database.leave_alone()
    }

    fn obstacle(&mut self) -> Result<Option<String>> {
        let tables = [self.queue.waiting.clone(), self.queue.archive.clone()];
        let needed = ["SELECT", "INSERT", "UPDATE", "DELETE"];
        self.database.missing_on_tables(&tables, &needed)
    }

    fn into_store(
        self: Box<Self>,
        _: &StateDir,
        stop: Option<Arc<StoreStop>>,
        clock: Clock,
    ) -> Result<Box<dyn Store + Send>> {
        let Self { queue, database } = *self;
        Ok(Box::new(PgmqStore::new(queue, database, Patience::new(stop, clock))))
    }
}

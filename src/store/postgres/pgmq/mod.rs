//! The pgmq store: a queue that the server keeps in two tables, of what waits and of what is done.
//! It has a schedule of its own, the instant at which each message becomes visible again, and that
//! is also its claim: who reads a message hides it for a while.
//!
//! Both tables are read as one by the SQL of the PostgreSQL store. Everything is written by pgmq's
//! own functions, but for what it has none for: bringing an archived message back, and telling one
//! that ran out of attempts from one that succeeded, which is noted in its headers.

mod catalog;
mod orders;
mod work;

use std::sync::Arc;

use anyhow::{Context, Result};

use super::session::Session;
use super::{PgDatabase, Server};
use crate::mapping::Mapping;
use crate::store::Access;
use crate::store::table::Table;
pub use work::Work;

/// A queue, by the names that pgmq has for it.
#[derive(Debug, Clone)]
pub struct Queue {
    name: String,
    /// Its tables, as SQL has their names.
    pub waiting: String,
    pub archive: String,
    /// Whether its messages have headers, as they do since pgmq 1.5.
    has_headers: bool,
}

/// Opens a queue, whose two tables are read as one.
pub fn open(
    server: &Arc<Server>,
    name: &str,
    mapping: &Mapping,
    access: Access,
) -> Result<PgDatabase> {
    let mut session = Session::open(server, access)?;
    let could_not = || format!("could not use {}", server.shown());
    let mut queue = catalog::find(&mut session, name).with_context(could_not)?;
    let mut table = Table::find(&mut queue, &catalog::mapping(mapping))?;
    table.due_at = table.columns.iter().find(|column| column.name == "vt").cloned();
    Ok(PgDatabase::new(server, session, table, Some(queue)))
}

/// Makes a queue, unless there is one of this name.
pub fn create(server: &Arc<Server>, name: &str) -> Result<()> {
    let mut session = Session::open(server, Access::ReadWrite)?;
    let made = catalog::create(&mut session, name);
    made.with_context(|| format!("could not make queue {name} in {}", server.shown()))
}

//! `backlog init`: creates the table.

use std::io::Write;

use anyhow::Result;

use super::confirm;
use crate::config::Queue;
use crate::exit::{Exit, usage};
use crate::store;

const TABLE: &str = "BACKLOG";

const SCHEMA: &str = include_str!("../../schema.sql");

/// The three columns that every table needs and the payload, nothing else.
const MINIMAL: &str = "\
CREATE TABLE BACKLOG (
  ID            INTEGER PRIMARY KEY,
  STATUS        TEXT NOT NULL DEFAULT 'NEW',
  DATE_INSERTED TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now')),
  PAYLOAD       TEXT
) STRICT;
";

pub fn run(queue: &Queue, minimal: bool, out: &mut dyn Write) -> Result<Exit> {
    if !queue.mapping.table.text.eq_ignore_ascii_case(TABLE) {
        return Err(
            usage("init creates the table BACKLOG only; your own table needs no init").into()
        );
    }
    store::create(&queue.db, TABLE, if minimal { MINIMAL } else { SCHEMA })?;
    confirm(out, &format!("created table {TABLE} in {}", queue.db.display()))?;
    Ok(Exit::Done)
}

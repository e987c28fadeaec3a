//! `backlog init`: creates the table.

use anyhow::{Result, bail};

use super::{Console, confirm};
use crate::exit::{Exit, usage};
use crate::options::Queue;
use crate::store::Schemas;

const TABLE: &str = "BACKLOG";

const SCHEMAS: Schemas = Schemas {
    sqlite: include_str!("../../schema.sql"),
    postgres: include_str!("../../schema.postgres.sql"),
};

/// The three columns that every table needs and the payload, nothing else.
const MINIMAL: Schemas =
    Schemas { sqlite: include_str!("minimal.sql"), postgres: include_str!("minimal.postgres.sql") };

pub fn run(queue: &Queue, minimal: bool, console: &mut Console<'_>) -> Result<Exit> {
    if !queue.mapping.table.text.eq_ignore_ascii_case(TABLE) {
        bail!(usage("init creates the table BACKLOG only; your own table needs no init"));
    }
    let made = queue.db.create(TABLE, if minimal { &MINIMAL } else { &SCHEMAS })?;
    confirm(console.out, &format!("created {made} in {}", queue.db))?;
    Ok(Exit::Done)
}

//! `backlog init` and `backlog add`: the table, and new records in it, from the command line or from
//! standard input.

use std::io::{self, BufRead, Write};

use anyhow::{Context, Result, bail};
use serde::de::IgnoredAny;

use super::{Console, open};
use crate::exit::{Exit, usage};
use crate::options::Queue;
use crate::record::{counted, one_line};
use crate::store::{Access, Database, Schemas};
use crate::time::Instant;

const TABLE: &str = "BACKLOG";

const SCHEMAS: Schemas = Schemas {
    sqlite: include_str!("../../schema.sql"),
    postgres: include_str!("../../schema.postgres.sql"),
};

/// The three columns that every table needs and the payload, nothing else.
const MINIMAL: Schemas =
    Schemas { sqlite: include_str!("minimal.sql"), postgres: include_str!("minimal.postgres.sql") };

pub fn init(queue: &Queue, minimal: bool, console: &mut Console<'_>) -> Result<Exit> {
    if !queue.mapping.table.text.eq_ignore_ascii_case(TABLE) {
        bail!(usage("init creates the table BACKLOG only; your own table needs no init"));
    }
    let made = queue.db.create(TABLE, if minimal { &MINIMAL } else { &SCHEMAS })?;
    confirm(console.out, &format!("created {made} in {}", queue.db))
}

/// How many records one transaction takes.
const BATCH: usize = 1000;

pub fn add(queue: &Queue, payloads: &[String], console: &mut Console<'_>) -> Result<Exit> {
    let now = console.clock.now();
    let mut database = open(queue, Access::ReadWrite)?;
    let added = if payloads == ["-"] {
        add_lines(&mut *database, io::stdin().lock(), now)?
    } else {
        for (payload, number) in payloads.iter().zip(1..) {
            document(payload.as_bytes()).map_err(|error| {
                usage(format!(
                    "payload {number} is not JSON ({error}); nothing was added: {payload}"
                ))
            })?;
        }
        for batch in payloads.chunks(BATCH) {
            database.add(batch, now)?;
        }
        payloads.len()
    };
    confirm(console.out, &format!("added {}", counted(added as u64, "record")))
}

/// Says what was done. Where that cannot be said, it is done all the same.
fn confirm(out: &mut dyn Write, done: &str) -> Result<Exit> {
    let said = writeln!(out, "{}", one_line(done)).and_then(|()| out.flush());
    said.with_context(|| format!("{done}, but this could not be said"))?;
    Ok(Exit::Done)
}

/// One JSON document per line; blank lines are passed over.
fn add_lines(database: &mut dyn Database, mut input: impl BufRead, now: Instant) -> Result<usize> {
    let (mut added, mut added_up_to) = (0, 0);
    let mut batch = Vec::with_capacity(BATCH);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if input.read_until(b'\n', &mut line).context("could not read standard input")? == 0 {
            break;
        }
        let payload = line.trim_ascii();
        if payload.is_empty() {
            continue;
        }
        match document(payload) {
            Ok(payload) => batch.push(payload.to_string()),
            Err(error) if added == 0 => {
                bail!("line {number} is not JSON ({error}); nothing was added")
            }
            Err(error) => bail!(
                "line {number} is not JSON ({error}); {added} records, up to line {added_up_to}, \
                 were added, and nothing after it"
            ),
        }
        if batch.len() == BATCH {
            database.add(&batch, now)?;
            (added, added_up_to) = (added + BATCH, number);
            batch.clear();
        }
    }
    database.add(&batch, now)?;
    Ok(added + batch.len())
}

/// The payload, which must be a JSON document.
fn document(payload: &[u8]) -> Result<&str> {
    let text = std::str::from_utf8(payload)?;
    serde_json::from_str::<IgnoredAny>(text)?;
    Ok(text)
}

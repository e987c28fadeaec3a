//! `backlog add`: new records, from the command line or from standard input.

use std::io::{self, BufRead};

use anyhow::{Context, Result, bail};
use serde::de::IgnoredAny;

use super::{Console, confirm, open};
use crate::exit::{Exit, usage};
use crate::options::Queue;
use crate::record::counted;
use crate::store::{Access, Database};
use crate::time::Instant;

/// How many records one transaction takes.
const BATCH: usize = 1000;

pub fn run(queue: &Queue, payloads: &[String], console: &mut Console<'_>) -> Result<Exit> {
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
    confirm(console.out, &format!("added {}", counted(added as u64, "record")))?;
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
            added += batch.len();
            added_up_to = number;
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

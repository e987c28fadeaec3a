//! The pgmq store: a queue that the server keeps in two tables, of what waits and of what is done.
//! It has a schedule of its own, the instant at which each message becomes visible again, and that
//! is also its claim: who reads a message hides it for a while.
//!
//! Both tables are read as one by the SQL of the PostgreSQL store. Everything is written by pgmq's
//! own functions, but for what it has none for: bringing an archived message back, and telling one
//! that ran out of attempts from one that succeeded, which is noted in its headers.

mod catalog;
mod work;

use std::sync::Arc;

use anyhow::{Context, Result};

use super::session::Session;
use super::{PgDatabase, Server};
use crate::mapping::Mapping;
use crate::record::{Counter, Id, Transition};
use crate::store::postgres::sql::Param;
use crate::store::table::Table;
use crate::store::{Access, RowWrite};
use catalog::ERROR;

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

/// Hides messages for `$2` seconds, at most `$3`, and says which.
pub const READ: &str = "SELECT msg_id FROM pgmq.read($1, $2::text::integer, $3::text::integer)";
pub const ARCHIVE: &str = "SELECT pgmq.archive($1, $2::bigint[])";
pub const DELETE: &str = "SELECT pgmq.delete($1, $2::bigint[])";
/// Shows message `$2[i]` again at `$3[i]`.
pub const SHOW_AT: &str = "SELECT pgmq.set_vt($1, given.id, given.at::timestamptz) \
                           FROM unnest($2::bigint[], $3::text[]) AS given(id, at)";
/// Shows messages `$2` again in `$3` seconds.
pub const SHOW_IN: &str = "SELECT pgmq.set_vt($1, given.id, $3::text::integer) \
                           FROM unnest($2::bigint[]) AS given(id)";

/// The orders for messages, by their numbers, made from the rows to be written. Whatever is written
/// for a message that was read is written only if nobody has read it since: its count of reads tells.
#[derive(Default)]
pub struct Orders {
    pub done: Vec<i64>,
    /// With the instant at which they are seen again.
    pub shown: Vec<(i64, Option<String>)>,
    /// Whose last reading is taken back, and how often they were read by then.
    pub uncounted: Vec<(i64, i64)>,
    /// Out of attempts, and why.
    pub noted: Vec<(i64, Option<String>)>,
    pub restored: Vec<i64>,
}

impl Orders {
    pub fn add(&mut self, number: i64, is_archived: bool, change: &RowWrite) {
        let now = || Some("epoch".to_string());
        let before = change.record.failures;
        let reads = i64::from(before) + 1;
        match change.settlement.transition {
            Transition::Begun => {}
            Transition::Succeeded => self.done.push(number),
            Transition::Failed => {
                if matches!(change.settlement.counter, Counter::Set { failures, .. } if failures == before)
                {
                    self.uncounted.push((number, reads));
                }
                // A policy that has no more retries shows it no more.
                let at = change.retry_at.map_or_else(|| "infinity".into(), |at| at.to_string());
                self.shown.push((number, Some(at)));
            }
            Transition::Undone => {
                self.uncounted.push((number, reads));
                self.shown.push((number, now()));
            }
            Transition::Archived => {
                let error = match &change.settlement.counter {
                    Counter::Set { last_error, .. } => last_error.clone().unwrap_or_default(),
                    Counter::AsBefore | Counter::Reset => "archived without an attempt".into(),
                };
                self.noted.push((number, Some(error.replace('\0', ""))));
            }
            Transition::Renewed if is_archived => self.restored.push(number),
            Transition::Renewed => self.shown.push((number, now())),
        }
    }
}

pub fn number(id: &Id) -> Option<i64> {
    match id {
        Id::Integer(number) => Some(*number),
        Id::Text(_) | Id::Composite(_) => None,
    }
}

impl Queue {
    /// Adds messages with these payloads.
    pub fn send(&self, payloads: &[String]) -> (&'static str, [Param; 2]) {
        let params = [Param::text(&self.name), Param::texts(payloads)];
        ("SELECT pgmq.send_batch($1, $2::text[]::jsonb[])", params)
    }

    /// Messages `$1` that were read `$2` times by now, locked until the transaction ends.
    pub fn held(&self) -> String {
        format!(
            "SELECT q.msg_id FROM {} q JOIN unnest($1::bigint[], $2::bigint[]) AS given(id, reads) \
             ON q.msg_id = given.id AND q.read_ct = given.reads FOR UPDATE OF q",
            self.waiting
        )
    }

    /// Takes back that messages `$1`, read `$2` times by now, were read once more. pgmq has no
    /// function for that.
    pub fn unread(&self) -> String {
        format!(
            "UPDATE {} q SET read_ct = q.read_ct - 1 \
             FROM unnest($1::bigint[], $2::bigint[]) AS given(id, reads) \
             WHERE q.msg_id = given.id AND q.read_ct = given.reads AND q.read_ct > 0 \
             RETURNING q.msg_id",
            self.waiting
        )
    }

    /// Notes in the headers of messages `$1`, if they have any, why they ran out of attempts.
    pub fn note(&self) -> Option<String> {
        let update = || {
            format!(
                "UPDATE {} q SET headers = CASE jsonb_typeof(q.headers) WHEN 'object' THEN q.headers \
             ELSE '{{}}' END || jsonb_build_object('{ERROR}', given.error) \
             FROM unnest($1::bigint[], $2::text[]) AS given(id, error) WHERE q.msg_id = given.id",
                self.waiting
            )
        };
        self.has_headers.then(update)
    }

    /// Brings archived messages `$1` back as if they had never been read, and says which.
    pub fn restore(&self) -> String {
        let Self { waiting, archive, .. } = self;
        let (name, value) = if self.has_headers {
            (", headers", format!(", nullif(headers - '{ERROR}', '{{}}')"))
        } else {
            ("", String::new())
        };
        format!(
            "WITH gone AS (DELETE FROM {archive} WHERE msg_id = ANY($1::bigint[]) RETURNING *) \
             INSERT INTO {waiting} (msg_id, read_ct, enqueued_at, vt, message{name}) \
             OVERRIDING SYSTEM VALUE \
             SELECT msg_id, 0, enqueued_at, clock_timestamp(), message{value} FROM gone \
             RETURNING msg_id"
        )
    }
}

//! Queues of pgmq. Searches read both tables of a queue, its waiting messages and its archive, as one. A message has an
//! instant at which it becomes visible again. That is its schedule and its claim, because a reader hides it for a
//! while. pgmq's functions do all writes except three: undoing the count of a read, restoring an archived message, and
//! noting in the headers of a message that it ran out of attempts.

mod store;

use std::collections::HashSet;
use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use backlog_schedule::{Counter, Id, Transition, Value};
use tokio_postgres::Row;

use super::catalog::typed;
use super::dialect::{Param, Postgres, Request};
use super::session::Session;
use super::{PgDatabase, PgEngine, Server};
use crate::clock::Clock;
use crate::database::Access;
use crate::engine::SqlDatabase;
use crate::error::DbResult;
use crate::mapping::{DateSource, Mapping, StatusColumn, usual_values};
use crate::table::{Catalog, CatalogTable, Column, Table, missing, quote};
use crate::writes::RowWrite;

pub use store::PgmqStore;

#[derive(Debug, Clone)]
pub struct PgmqQueue {
    name: String,
    /// Names of its tables in SQL.
    pub waiting: String,
    pub archive: String,
    /// True if messages have headers, as they do since pgmq 1.5.
    has_headers: bool,
}

pub fn open(
    server: &Arc<Server>,
    name: &str,
    mapping: &Mapping,
    access: Access,
    clock: Clock,
) -> Result<PgDatabase> {
    let mut session = Session::open(server, access)?;
    let mut queue = PgmqQueue::find(&mut session, name)?;
    // The columns are known. The user chooses the payload, and whether finished messages are deleted.
    let mapping = Mapping {
        table: Some("queue".into()),
        id: vec!["msg_id".into()],
        status: StatusColumn::Mapped("status".into(), usual_values()),
        inserted: DateSource::Column("enqueued_at".into()),
        failures: Some("read_ct".into()),
        last_failure: Some(String::new()),
        last_error: Some("last_error".into()),
        payload: mapping.payload.clone(),
        deletes_succeeded: mapping.deletes_succeeded,
        ..Mapping::default()
    };
    let mut table = Table::find(&mut queue, &mapping, clock)?;
    table.keeps_schedule = true;
    table.due_at = table.columns.iter().find(|column| column.name == "vt").cloned();
    let engine = PgEngine { queue: Some(queue), ..PgEngine::new(session) };
    Ok(SqlDatabase { is_queue: true, ..SqlDatabase::new(engine, table) })
}

/// Creates a queue, and returns false if it exists.
pub fn create(server: &Arc<Server>, name: &str) -> Result<bool> {
    let mut session = Session::open(server, Access::ReadWrite)?;
    let is_new = find(&mut session, name)?.is_none();
    if is_new {
        let created = session.query("SELECT pgmq.create($1)", &[Param::text(name)]);
        let verb = format!("create queue {name} in");
        created.map_err(|error| error.explain(&server.to_string(), &verb))?;
    }
    Ok(is_new)
}

/// Hides at most `$3` messages for `$2` seconds, and returns their ids.
pub const READ: &str = "SELECT msg_id FROM pgmq.read($1, $2::text::integer, $3::text::integer)";
pub const ARCHIVE: &str = "SELECT pgmq.archive($1, $2::bigint[])";
pub const DELETE: &str = "SELECT pgmq.delete($1, $2::bigint[])";
/// Makes message `$2[i]` visible at `$3[i]`, at most `$4` seconds from now. pgmq before 1.10 takes whole seconds:
/// rounded down for a pass that starts in that second, but at least one, so that the message is not read again at once.
pub const SHOW_AT: &str = "SELECT pgmq.set_vt($1, given.id, CASE \
                               WHEN given.at = 'infinity' OR secs > most THEN most \
                               WHEN secs > 0 THEN greatest(pg_catalog.floor(secs), 1) \
                               ELSE greatest(pg_catalog.ceil(secs), -most) END::integer) \
                           FROM unnest($2::bigint[], $3::text[]::timestamptz[]) AS given(id, at), \
                           LATERAL (SELECT $4::text::integer, CASE WHEN pg_catalog.isfinite(given.at) THEN \
                               extract(epoch FROM given.at - pg_catalog.clock_timestamp()) END) \
                           AS wait(most, secs)";
/// Wait of a message that the policy never tries again: 68 years, the maximum of pgmq.
pub const NEVER_SECS: i32 = i32::MAX;
/// Makes messages `$2` visible in `$3` seconds.
pub const SHOW_IN: &str = "SELECT pgmq.set_vt($1, given.id, $3::text::integer) \
                           FROM pg_catalog.unnest($2::bigint[]) AS given(id)";

/// The writes of a round, sorted by statement: message ids, and parallel lists of other parameters.
#[derive(Default)]
pub struct MessageWrites {
    pub done: Vec<i64>,
    /// With the instant at which each becomes visible again.
    pub delayed: (Vec<i64>, Vec<Option<String>>),
    /// Messages whose last read is undone unless somebody has read them since, with their counts of reads.
    pub unread: (Vec<i64>, Vec<i64>),
    /// Messages out of attempts, with their last errors.
    pub exhausted: (Vec<i64>, Vec<Option<String>>),
    pub restored: Vec<i64>,
}

impl MessageWrites {
    pub fn add(&mut self, msg_id: i64, is_archived: bool, change: &RowWrite) {
        let (before, counter) = (change.record.failures, &change.settlement.counter);
        let now = (msg_id, Some("epoch".to_string()));
        let with_reads = (msg_id, i64::from(before) + 1);
        match change.settlement.transition {
            Transition::Begun => {}
            Transition::Succeeded => self.done.push(msg_id),
            Transition::Failed => {
                let is_unchanged =
                    matches!(counter, Counter::Set { failures, .. } if *failures == before);
                self.unread.extend(is_unchanged.then_some(with_reads));
                // Without a next attempt the message stays hidden.
                let at = change.retry_at.map_or_else(|| "infinity".into(), |at| at.to_string());
                self.delayed.extend([(msg_id, Some(at))]);
            }
            Transition::Undone => {
                self.unread.extend([with_reads]);
                self.delayed.extend([now]);
            }
            Transition::Archived => {
                let error = match counter {
                    Counter::Set { last_error, .. } => last_error.clone().unwrap_or_default(),
                    Counter::AsBefore | Counter::Untouched | Counter::Reset => {
                        "archived without an attempt".into()
                    }
                };
                self.exhausted.extend([(msg_id, Some(error.replace('\0', "")))]);
            }
            Transition::Renewed if is_archived => self.restored.push(msg_id),
            Transition::Renewed => self.delayed.extend([now]),
        }
    }
}

pub fn msg_id(id: &Id) -> Option<i64> {
    if let Id::Integer(msg_id) = id { Some(*msg_id) } else { None }
}

impl PgmqQueue {
    /// Finds a queue. The error lists the existing queues.
    fn find(session: &mut Session, name: &str) -> Result<Self> {
        if let Some(queue) = find(session, name)? {
            return Ok(queue);
        }
        let queues = read(session, "SELECT queue_name::text FROM pgmq.meta ORDER BY 1", &[])?;
        let queues: Vec<&str> = queues.iter().map(|row| row.get(0)).collect();
        bail!("could not use {}: {}", session.server, missing("queue", name, &queues));
    }

    pub fn send(&self, payloads: &[String]) -> Request {
        Request {
            sql: "SELECT pgmq.send_batch($1, $2::text[]::jsonb[])".into(),
            params: vec![Param::text(&self.name), Param::texts(payloads)],
        }
    }

    /// Locks, until the transaction ends, those messages `$1` whose count of reads is still `$2`.
    pub fn lock_held(&self) -> String {
        format!(
            "SELECT q.msg_id FROM {} q JOIN unnest($1::bigint[], $2::bigint[]) AS given(id, reads) \
             ON q.msg_id = given.id AND q.read_ct = given.reads FOR UPDATE OF q",
            self.waiting
        )
    }

    /// Selects the messages `$1` that are still waiting, with their counts of reads.
    pub fn reads(&self) -> String {
        format!("SELECT msg_id, read_ct::bigint FROM {} WHERE msg_id = ANY($1)", self.waiting)
    }

    /// Undoes the last read of messages `$1` that were read `$2` times so far. pgmq has no function for that.
    pub fn unread(&self) -> String {
        format!(
            "UPDATE {} q SET read_ct = q.read_ct - 1 \
             FROM unnest($1::bigint[], $2::bigint[]) AS given(id, reads) \
             WHERE q.msg_id = given.id AND q.read_ct = given.reads AND q.read_ct > 0 \
             RETURNING q.msg_id",
            self.waiting
        )
    }

    /// Notes the errors `$2` in the headers of the exhausted messages `$1`, if the queue has headers.
    pub fn note(&self) -> Option<String> {
        let waiting = &self.waiting;
        let sql = format!(
            "UPDATE {waiting} q SET headers = CASE pg_catalog.jsonb_typeof(q.headers) \
             WHEN 'object' THEN q.headers ELSE '{{}}' END || \
             pg_catalog.jsonb_build_object('{ERROR}', given.error) \
             FROM unnest($1::bigint[], $2::text[]) AS given(id, error) WHERE q.msg_id = given.id"
        );
        self.has_headers.then_some(sql)
    }

    /// Restores archived messages `$1` as unread ones, and returns their ids.
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
             SELECT msg_id, 0, enqueued_at, pg_catalog.clock_timestamp(), message{value} FROM gone \
             RETURNING msg_id"
        )
    }
}

/// Names of the required functions and the types of their arguments. A function may have more arguments with defaults.
const REQUIRED: [(&str, &[&str]); 5] = [
    ("read", &["text", "integer", "integer"]),
    ("set_vt", &["text", "bigint", "integer"]),
    ("archive", &["text", "bigint[]"]),
    ("delete", &["text", "bigint[]"]),
    ("send_batch", &["text", "jsonb[]"]),
];

/// Selects the functions `$1` that can be called with arguments of the types `$2`.
const CALLABLE: &str = "SELECT 1 FROM pg_catalog.pg_proc \
    WHERE pronamespace = pg_catalog.to_regnamespace('pgmq') AND proname = $1 \
    AND pg_catalog.cardinality($2::text[]) BETWEEN pronargs - pronargdefaults AND pronargs \
    AND ARRAY(SELECT pg_catalog.format_type(type, NULL) \
              FROM pg_catalog.unnest(proargtypes::oid[]) WITH ORDINALITY AS argument(type, place) \
              WHERE place <= pg_catalog.cardinality($2::text[]) ORDER BY place) = $2::text[]";

pub fn missing_function(session: &mut Session) -> DbResult<Option<String>> {
    for (name, types) in REQUIRED {
        let params = [Param::text(name), Param::texts(types.iter().copied())];
        if session.query(CALLABLE, &params)?.is_empty() {
            let version = "SELECT extversion FROM pg_catalog.pg_extension WHERE extname = 'pgmq'";
            let version: Option<String> = session.column(version, &[])?.pop();
            let version = version.map_or_else(String::new, |version| format!(" {version}"));
            let types = types.join(", ");
            return Ok(Some(format!(
                "pgmq{version} has no function pgmq.{name}({types}); \
                 to update it: ALTER EXTENSION pgmq UPDATE"
            )));
        }
    }
    Ok(None)
}

fn read(session: &mut Session, sql: &str, params: &[Param]) -> Result<Vec<Row>> {
    let rows = session.query(sql, params);
    rows.map_err(|error| error.explain(&session.server.to_string(), "read"))
}

/// Returns `None` if there is no such queue.
fn find(session: &mut Session, name: &str) -> Result<Option<PgmqQueue>> {
    let schema =
        read(session, "SELECT 1 WHERE pg_catalog.to_regnamespace('pgmq') IS NOT NULL", &[])?;
    ensure!(
        !schema.is_empty(),
        "could not use {}: this database has no pgmq; to install it: CREATE EXTENSION pgmq",
        session.server
    );
    let found = read(
        session,
        "SELECT c.relname::text, a.relname::text, EXISTS (SELECT 1 FROM pg_catalog.pg_attribute \
         WHERE attrelid = c.oid AND attname = 'headers' AND NOT attisdropped), \
         pg_catalog.row_security_active(c.oid) OR pg_catalog.row_security_active(a.oid) \
         FROM pg_catalog.pg_class c, pg_catalog.pg_class a \
         WHERE c.relnamespace = pg_catalog.to_regnamespace('pgmq') AND a.relnamespace = c.relnamespace \
         AND c.relname = 'q_' || pg_catalog.lower($1) AND a.relname = 'a_' || pg_catalog.lower($1)",
        &[Param::text(name)],
    )?;
    let Some(row) = found.first() else { return Ok(None) };
    session.has_row_security = row.get(3);
    let [waiting, archive] =
        [0, 1].map(|index| format!("pgmq.{}", quote(&row.get::<usize, String>(index))));
    Ok(Some(PgmqQueue { name: name.into(), waiting, archive, has_headers: row.get(2) }))
}

/// Header of a message that ran out of attempts, with its last error.
const ERROR: &str = "backlog_error";

impl Catalog for PgmqQueue {
    fn table(&self, _: &str) -> Result<CatalogTable> {
        let Self { name, waiting, archive, has_headers } = self;
        let (headers, error) = if *has_headers {
            ("headers", format!("headers ->> '{ERROR}'"))
        } else {
            ("NULL::jsonb", "NULL::text".into())
        };
        // Each arm has one status, so that the server skips arms of unwanted statuses. The last read of a successful
        // message was no failure.
        let arm = |status: &str, table: &str, condition: &str| {
            let failures =
                if status == "SUCCESS" { "greatest(read_ct - 1, 0) AS read_ct" } else { "read_ct" };
            format!(
                "SELECT msg_id, '{status}'::text AS status, enqueued_at, {failures}, vt, \
                 {error} AS last_error, message, {headers} AS headers FROM {table} WHERE {condition}"
            )
        };
        let arms = [
            arm("NEW", waiting, "read_ct = 0"),
            arm("ERROR", waiting, "read_ct > 0"),
            arm("SUCCESS", archive, &format!("{error} IS NULL")),
            arm("ARCHIVED", archive, &format!("{error} IS NOT NULL")),
        ];
        Ok(CatalogTable {
            name: name.clone(),
            sql: format!("({}) AS queue", arms.join(" UNION ALL ")),
            dialect: &Postgres,
            newest: "",
            columns: vec![
                typed("msg_id", "bigint", "int8"),
                typed("status", "text", "text"),
                typed("enqueued_at", "timestamp with time zone", "timestamptz"),
                typed("read_ct", "integer", "int4"),
                typed("vt", "timestamp with time zone", "timestamptz"),
                typed("last_error", "text", "text"),
                typed("message", "jsonb", "jsonb"),
                typed("headers", "jsonb", "jsonb"),
            ],
        })
    }

    fn samples(&self, _: &CatalogTable, _: &Column) -> Result<Vec<Value>> {
        Ok(Vec::new())
    }

    fn expression(&self, _: &CatalogTable, _: Option<&str>) -> Result<Column> {
        bail!("a queue has its own insertion date");
    }

    fn condition_columns(&mut self, _: &Table, _: &str) -> Result<HashSet<String>> {
        bail!("a queue hands out its messages in its own order: leave out --where");
    }
}

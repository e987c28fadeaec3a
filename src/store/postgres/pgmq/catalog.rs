//! A queue as a table: what waits and what is done, with a status for each.

use std::collections::HashSet;

use anyhow::{Result, anyhow, bail, ensure};
use postgres::Row;

use super::Queue;
use crate::date::Spelling;
use crate::mapping::{Mapping, Name, OnSuccess, StatusColumn, usual_values};
use crate::record::Value;
use crate::store::postgres::errors::words;
use crate::store::postgres::session::Session;
use crate::store::postgres::sql::{DIALECT, Param};
use crate::store::table::{Catalog, Column, Holds, Listed, Table, quote};

/// Looks the queue up. An error names the queues that there are.
pub fn find(session: &mut Session, name: &str) -> Result<Queue> {
    if let Some(queue) = look_up(session, name)? {
        return Ok(queue);
    }
    let queues = query(session, "SELECT queue_name::text FROM pgmq.meta ORDER BY 1", &[])?;
    let queues: Vec<String> = queues.iter().map(|row| row.get(0)).collect();
    let queues = if queues.is_empty() { "none".into() } else { queues.join(", ") };
    bail!("no queue {name:?}; queues here: {queues}");
}

fn query(session: &mut Session, sql: &str, params: &[Param]) -> Result<Vec<Row>> {
    session.query(sql, params).map_err(|error| anyhow!("{}", words(&error)))
}

/// Makes a queue, unless there is one of this name.
pub fn create(session: &mut Session, name: &str) -> Result<()> {
    ensure!(look_up(session, name)?.is_none(), "queue {name} already exists");
    query(session, "SELECT pgmq.create($1)", &[Param::text(name)]).map(|_| ())
}

/// None if there is no such queue.
fn look_up(session: &mut Session, name: &str) -> Result<Option<Queue>> {
    let schema = query(session, "SELECT 1 WHERE to_regnamespace('pgmq') IS NOT NULL", &[])?;
    ensure!(!schema.is_empty(), "there is no pgmq in this database: CREATE EXTENSION pgmq");
    let found = query(
        session,
        "SELECT c.relname::text, a.relname::text, EXISTS (SELECT 1 FROM pg_attribute \
         WHERE attrelid = c.oid AND attname = 'headers' AND NOT attisdropped) \
         FROM pg_class c, pg_class a \
         WHERE c.relnamespace = to_regnamespace('pgmq') AND a.relnamespace = c.relnamespace \
         AND c.relname = pgmq.format_table_name($1, 'q') \
         AND a.relname = pgmq.format_table_name($1, 'a')",
        &[Param::text(name)],
    )?;
    let Some(row) = found.first() else { return Ok(None) };
    let [waiting, archive] =
        [0, 1].map(|index| format!("pgmq.{}", quote(&row.get::<usize, String>(index))));
    Ok(Some(Queue { name: name.into(), waiting, archive, has_headers: row.get(2) }))
}

/// What the columns mean is known; of what the user says only the payload counts, and whether what
/// succeeded is deleted.
pub fn mapping(said: &Mapping) -> Mapping {
    let delete = matches!(said.on_success, OnSuccess::Delete);
    Mapping {
        table: Name::given("queue"),
        id: vec![Name::given("msg_id")],
        status: StatusColumn::Mapped { column: Name::given("status"), values: usual_values() },
        inserted: Name::given("enqueued_at"),
        failures: Name::given("read_ct"),
        last_failure: Name::usual("no such column"),
        last_error: Name::given("last_error"),
        payload: said.payload.clone(),
        on_success: if delete { OnSuccess::Delete } else { OnSuccess::Set(Vec::new()) },
        ..Mapping::default()
    }
}

/// Where the headers of a message that ran out of attempts say so, and why.
pub const ERROR: &str = "backlog_error";

impl Catalog for Queue {
    fn table(&self, _: &str) -> Result<Listed> {
        let Self { name, waiting, archive, has_headers } = self;
        let (headers, error) = if *has_headers {
            ("headers", format!("headers ->> '{ERROR}'"))
        } else {
            ("NULL::jsonb", "NULL::text".into())
        };
        // Each arm has one status, so that those that are not asked for are not even read. The last
        // reading of what succeeded was no failure.
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
        Ok(Listed {
            name: name.clone(),
            sql: format!("({}) AS queue", arms.join(" UNION ALL ")),
            dialect: &DIALECT,
            columns: columns(),
        })
    }

    fn samples(&self, _: &Listed, _: &Column) -> Result<Vec<Value>> {
        Ok(Vec::new())
    }

    fn condition_columns(&mut self, _: &Table, _: &str) -> Result<HashSet<String>> {
        bail!("a queue hands out its messages in its own order: leave out --where");
    }
}

fn columns() -> Vec<Column> {
    let column = |name: &str, declared: &str, holds: Holds| Column {
        name: name.into(),
        declared: declared.into(),
        holds,
        legal: None,
        most_chars: None,
        most_number: None,
        has_default: true,
        is_generated: false,
        not_null: false,
        spelling: Spelling::rfc3339(),
    };
    vec![
        column("msg_id", "bigint", Holds::Integers),
        column("status", "text", Holds::Text),
        column("enqueued_at", "timestamp with time zone", Holds::Instants),
        column("read_ct", "integer", Holds::Integers),
        column("vt", "timestamp with time zone", Holds::Instants),
        column("last_error", "text", Holds::Text),
        column("message", "jsonb", Holds::Documents),
        column("headers", "jsonb", Holds::Documents),
    ]
}

//! Orders to a queue, made from the rows to be written, and the SQL that carries them out, all of
//! it. Whatever is written for a message that was read is written only if nobody has read it since:
//! its count of reads tells.

use super::Queue;
use super::catalog::ERROR;
use crate::record::{Counter, Id, Transition};
use crate::store::RowWrite;
use crate::store::postgres::sql::Param;

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

/// The orders for messages, by their numbers.
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

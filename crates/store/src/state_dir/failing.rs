//! Queues in which no new record succeeds: the first attempts that failed since the last success of a new record.

use anyhow::Result;
use backlog_schedule::{DAY, HOUR, Instant, cut_line};
use rusqlite::{Connection, OptionalExtension};
use serde::Serialize;

use super::StateDir;
use super::lines::LineName;
use super::state_db::{COMMAND_WAIT, PASS_WAIT};

/// Created with the first outcome, so that a `state.db` of an older version gets it too.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS failing (
    queue INTEGER PRIMARY KEY, tried INTEGER, since INTEGER, oldest INTEGER, latest INTEGER, error TEXT,
    reported INTEGER
)";

/// Fewer failures, or failures in less time, may be chance.
const LEAST_TRIED: u64 = 10;
const LEAST_TIME: i64 = HOUR;

/// First attempts that failed since a new record succeeded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Failing {
    pub tried: u64,
    pub since: Instant,
    /// Insertion date of the oldest of these records. The success of an older record does not count.
    #[serde(skip)]
    oldest: Instant,
    #[serde(skip)]
    latest: Instant,
    pub error: String,
    /// The last report by cron's mail.
    #[serde(skip)]
    reported: Option<Instant>,
}

impl Failing {
    pub fn is_serious(&self, now: Instant) -> bool {
        self.tried >= LEAST_TRIED && now.0.saturating_sub(self.since.0) >= LEAST_TIME
    }

    /// True if cron's mail reports it now: once, and again after a day in which another new record failed.
    pub fn is_due(&self, now: Instant) -> bool {
        let is_over =
            |at: Instant| self.latest > at && !(0..DAY).contains(&now.0.saturating_sub(at.0));
        self.is_serious(now) && self.reported.is_none_or(is_over)
    }

    /// `no new record has succeeded since 02:10 (212 attempts): connection refused`
    pub fn sentence(&self, format_instant: impl Fn(Instant) -> String) -> String {
        let (Self { tried, error, .. }, since) = (self, format_instant(self.since));
        format!("no new record has succeeded since {since} ({tried} attempts): {error}")
    }
}

/// Outcomes of a pass that are not written yet.
#[derive(Debug, Default)]
pub struct Outcomes {
    /// Insertion date of the newest record that succeeded.
    succeeded: Option<Instant>,
    failing: Option<Failing>,
}

impl Outcomes {
    /// An attempt succeeded. A record without a date counts as new.
    pub fn succeeded(&mut self, inserted_at: Option<Instant>) {
        let inserted_at = inserted_at.unwrap_or(Instant(i64::MAX));
        self.succeeded = self.succeeded.max(Some(inserted_at));
        self.failing = self.failing.take().filter(|failing| failing.oldest > inserted_at);
    }

    pub fn failed(&mut self, inserted_at: Option<Instant>, error: &str, now: Instant) {
        let oldest = inserted_at.unwrap_or(Instant(i64::MIN));
        let first = Failing { since: now, oldest, ..Failing::default() };
        let failing = self.failing.get_or_insert(first);
        failing.oldest = failing.oldest.min(oldest);
        (failing.tried, failing.latest, failing.error) = (failing.tried + 1, now, cut_line(error));
    }

    pub(super) fn write(&self, connection: &Connection, queue: i64) -> rusqlite::Result<()> {
        if self.succeeded.is_some() || self.failing.is_some() {
            connection.execute_batch(TABLE)?;
        }
        if let Some(inserted_at) = self.succeeded {
            let deletion = "DELETE FROM failing WHERE queue = ?1 AND oldest <= ?2";
            connection.execute(deletion, (queue, inserted_at.0))?;
        }
        if let Some(Failing { tried, since, oldest, latest, error, .. }) = &self.failing {
            let tried = i64::try_from(*tried).unwrap_or(i64::MAX);
            connection.execute(
                "INSERT INTO failing VALUES (?1, ?2, ?3, ?4, ?5, ?6, NULL) ON CONFLICT DO UPDATE SET tried =
                 tried + ?2, since = min(since, ?3), oldest = min(oldest, ?4), latest = ?5, error = ?6",
                (queue, tried, since.0, oldest.0, latest.0, error),
            )?;
        }
        Ok(())
    }
}

impl StateDir {
    pub fn failing(&self, line: &LineName) -> Result<Option<Failing>> {
        let queue = self.line_id(&line.of_queue());
        let read = self.read_state(COMMAND_WAIT, &|connection| {
            if !connection.table_exists(None, "failing")? {
                return Ok(None);
            }
            let mut read = connection.prepare_cached("SELECT * FROM failing WHERE queue = ?1")?;
            let failing = read.query_row([queue], |row| {
                Ok(Failing {
                    tried: u64::try_from(row.get::<_, i64>("tried")?).unwrap_or_default(),
                    since: Instant(row.get("since")?),
                    oldest: Instant(row.get("oldest")?),
                    latest: Instant(row.get("latest")?),
                    error: row.get("error")?,
                    reported: row.get::<_, Option<i64>>("reported")?.map(Instant),
                })
            });
            failing.optional()
        });
        Ok(read?.flatten())
    }

    pub fn note_failing_reported(&self, line: &LineName, now: Instant) {
        let queue = self.line_id(&line.of_queue());
        let noted = self.change_state(PASS_WAIT, &|connection| {
            connection.execute("UPDATE failing SET reported = ?2 WHERE queue = ?1", (queue, now.0))
        });
        self.or_report(noted, now);
    }
}

//! Reports on tables, checks and passes as text, JSON and HTML. The callers print them.

mod failures;
mod figures;
mod metrics;
mod page;
mod passes;
mod picture;
mod record;
mod screen;
mod show;
mod simulation;
mod status;
mod template;
mod thresholds;

use std::time::Duration;

use anyhow::Result;
use backlog_schedule::{Status, counted, json_line, one_line};
use backlog_store::{chain, signal_name};
use serde::Serialize;
use serde_json::{Value as Json, json};

use crate::engine::{SettledAttempt, Stopped, Tally};

pub use failures::{failures_json, failures_text, top_failures};
pub use figures::{DueReport, FIGURES, Figure, PendingRecord, RecordFigures, StatusReport};
pub use metrics::{GONE_AFTER, Labels, Metrics};
pub use page::{ARCHIVED, PASSES, page};
pub use passes::{IS_CRON_RUNNING, LineReport, Passes};
pub use picture::picture;
pub use record::{
    RecordView, dry_run_line, in_hand, list_table, next_attempt, result_of, unstored, verdict_line,
};
pub use screen::{Screen, grouped, wrapped};
pub use simulation::{attempt_json, days_table, figures_table, load_charts};
pub use status::{BANDS, QueueStatus, overview_text, status_json, status_text, unknown_queue_json};
pub use thresholds::{Thresholds, line as state_line};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Ok,
    Warning,
    /// Must be fixed, because otherwise passes miss records.
    Error,
}

#[derive(Serialize)]
pub struct CheckFinding {
    pub level: Level,
    pub about: &'static str,
    pub text: String,
    /// An SQL statement that fixes it.
    pub statement: Option<String>,
}

#[derive(Default)]
pub struct Findings(pub Vec<CheckFinding>);

impl Findings {
    pub fn add(&mut self, level: Level, about: &'static str, text: impl Into<String>) {
        self.0.push(CheckFinding { level, about, text: text.into(), statement: None });
    }

    pub fn extend<T: Into<String>>(
        &mut self,
        level: Level,
        about: &'static str,
        texts: impl IntoIterator<Item = T>,
    ) {
        texts.into_iter().for_each(|text| self.add(level, about, text));
    }

    pub fn ok(&mut self, about: &'static str, text: impl Into<String>) {
        self.add(Level::Ok, about, text);
    }

    pub fn warning(&mut self, about: &'static str, text: impl Into<String>) {
        self.add(Level::Warning, about, text);
    }

    pub fn error(&mut self, about: &'static str, text: impl Into<String>) {
        self.add(Level::Error, about, text);
    }

    pub fn missing_index(&mut self, level: Level, text: String, statement: &str) {
        let statement = Some(format!("{statement};"));
        self.0.push(CheckFinding { level, about: "index", text, statement });
    }

    pub fn or_error<T>(&mut self, about: &'static str, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.error(about, chain(&error))).ok()
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        for CheckFinding { level, about, text: found, statement } in &self.0 {
            let level = format!("{level:?}").to_lowercase();
            text += &format!("{level:<7}  {about:<10}  {}\n", one_line(found));
            if let Some(statement) = statement {
                text += &format!("{:<19}  {}\n", "", one_line(statement));
            }
        }
        text
    }
}

/// `{"id":7,"attempt":3,"outcome":"failure",...}`. `pass` has the members that all lines of a pass share.
pub fn joblog_line(settled: &SettledAttempt, pass: &Json) -> String {
    let SettledAttempt { number, started_at, attempt, failures, inserted_at, status, .. } = settled;
    json_line(&json!({
        "id": attempt.id,
        "attempt": number,
        "started_at": started_at,
        "duration_ms": u64::try_from(attempt.duration.as_millis()).unwrap_or(u64::MAX),
        "outcome": attempt.outcome.name(),
        "exit": attempt.exit,
        "error": attempt.outcome.error(),
        "status": status.map(Status::name),
        "run": pass["run"],
        "queue": pass["queue"],
        "table": pass["table"],
        "policy": pass["policy"],
        "tick": pass["tick"],
        "failures": failures,
        "date_inserted": inserted_at,
        "http_status": attempt.http_status,
        "stderr": attempt.stderr,
    }))
}

/// `12 attempts in 1.3s: 9 succeeded, 3 failed and will be tried again`
pub fn summary(tally: &Tally, elapsed: Duration) -> String {
    let counts = [
        (tally.succeeded, "succeeded"),
        (tally.failed, "failed and will be tried again"),
        (tally.snoozed, "snoozed"),
        (tally.archived, "failed and archived"),
        (tally.expired, "archived without an attempt"),
        (tally.changed, "changed by the application meanwhile"),
        (tally.lost, "with a lost claim"),
        (tally.interrupted, "interrupted"),
        (tally.unable, "left as it was, because the handler could not be run or reached"),
        (tally.refused, "not tried or not settled, because the row could not be read or written"),
        (tally.ambiguous, "not tried, because more than one row has the id"),
        (tally.unusable, "not tried, because the id is not usable"),
        (tally.busy, "claimed by another pass"),
    ];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let counts: Vec<_> = counts.map(|(count, what)| format!("{count} {what}")).collect();
    if counts.is_empty() {
        let is_paused = tally.stopped == Some(Stopped::Paused);
        return if is_paused { "paused: nothing was tried" } else { "nothing was due" }.into();
    }
    let why = match &tally.stopped {
        Some(Stopped::Signal(signal)) => format!("; stopped by {}", signal_name(*signal)),
        Some(Stopped::Runtime) => "; stopped by --max-runtime".into(),
        Some(Stopped::Paused) => "; stopped by a pause".into(),
        Some(Stopped::Stuck(_) | Stopped::Failures(_)) | None => String::new(),
    };
    let secs = elapsed.as_secs_f64();
    let attempts = counted(tally.attempts(), "attempt");
    format!("{attempts} in {secs:.1}s: {}{why}", counts.join(", "))
}

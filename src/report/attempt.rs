//! One attempt as a line of the joblog, and a whole pass as one line.

use std::time::Duration;

use serde_json::json;

use crate::engine::{SettledAttempt, Stopped, Tally};
use crate::record::{Status, counted, json_line};

/// `{"id":7,"attempt":3,"started_at":"...","duration_ms":12,"outcome":"failure",...}`
pub fn joblog_line(attempt: &SettledAttempt) -> String {
    let SettledAttempt { number, started_at, attempt, status } = attempt;
    let line = json!({
        "id": attempt.id,
        "attempt": number,
        "started_at": started_at.to_string(),
        "duration_ms": u64::try_from(attempt.duration.as_millis()).unwrap_or(u64::MAX),
        "outcome": attempt.outcome.name(),
        "exit": attempt.exit,
        "error": attempt.outcome.error(),
        "status": status.map(Status::name),
    });
    json_line(&line)
}

/// `12 attempts in 1.3s: 9 succeeded, 3 failed`
pub fn summary(summary: &Tally, elapsed: Duration) -> String {
    let counts = [
        (summary.succeeded, "succeeded"),
        (summary.failed, "failed and will be tried again"),
        (summary.snoozed, "snoozed"),
        (summary.archived, "failed and archived"),
        (summary.expired, "archived without an attempt"),
        (summary.changed, "changed by the application meanwhile"),
        (summary.lost, "lost to somebody else meanwhile"),
        (summary.interrupted, "interrupted"),
        (summary.unable, "left as it was, because the handler could not be run or reached"),
        (summary.refused, "not tried or not settled, because the row could not be read or written"),
        (summary.ambiguous, "not tried, because more than one row has the id"),
        (summary.unusable, "not tried, because the id is none"),
        (summary.busy, "in the hands of another pass"),
    ];
    let counts: Vec<_> = counts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    if counts.is_empty() {
        return "nothing was due".into();
    }
    let why = match &summary.stopped {
        Some(Stopped::Signal(signal)) => format!("; stopped by signal {signal}"),
        Some(Stopped::Runtime) => "; stopped by --max-runtime".into(),
        Some(Stopped::Unable(_) | Stopped::Stuck(_) | Stopped::Failures(_)) | None => String::new(),
    };
    let secs = elapsed.as_secs_f64();
    let attempts = counted(summary.attempts(), "attempt");
    format!("{attempts} in {secs:.1}s: {}{why}", counts.join(", "))
}

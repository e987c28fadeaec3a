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
pub fn summary(tally: &Tally, elapsed: Duration) -> String {
    let counts = [
        (tally.succeeded, "succeeded"),
        (tally.failed, "failed and will be tried again"),
        (tally.snoozed, "snoozed"),
        (tally.archived, "failed and archived"),
        (tally.expired, "archived without an attempt"),
        (tally.changed, "changed by the application meanwhile"),
        (tally.lost, "lost to somebody else meanwhile"),
        (tally.interrupted, "interrupted"),
        (tally.unable, "left as it was, because the handler could not be run or reached"),
        (tally.refused, "not tried or not settled, because the row could not be read or written"),
        (tally.ambiguous, "not tried, because more than one row has the id"),
        (tally.unusable, "not tried, because the id is none"),
        (tally.busy, "in the hands of another pass"),
    ];
    let counts: Vec<_> = counts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    if counts.is_empty() {
        return "nothing was due".into();
    }
    let why = match &tally.stopped {
        Some(Stopped::Signal(signal)) => format!("; stopped by signal {signal}"),
        Some(Stopped::Runtime) => "; stopped by --max-runtime".into(),
        Some(Stopped::Unable(_) | Stopped::Stuck(_) | Stopped::Failures(_)) | None => String::new(),
    };
    let secs = elapsed.as_secs_f64();
    let attempts = counted(tally.attempts(), "attempt");
    format!("{attempts} in {secs:.1}s: {}{why}", counts.join(", "))
}

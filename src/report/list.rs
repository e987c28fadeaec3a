//! Records as lines: for `list` and for `process --dry-run`.

use serde_json::json;

use crate::record::{Record, counted, cut_line, json_line};
use crate::schedule::{End, Obstacle, Verdict};
use crate::time::Instant;

/// What a dry run says of a record with this verdict.
pub fn verdict_line(record: &Record, verdict: Verdict, counts: bool) -> String {
    let (verb, why) = match verdict {
        Verdict::Due(_) if counts => {
            ("try", format!("{}, attempt {}", record.status.name(), record.next_attempt()))
        }
        Verdict::Due(_) => ("try", record.status.name().into()),
        Verdict::Archive(End::Attempts) => {
            ("archive", format!("{} failed", counted(record.failures.into(), "attempt")))
        }
        Verdict::Archive(End::Age) => ("archive", "older than --max-age".into()),
        Verdict::Wait { until } => ("wait", format!("until {until}")),
        Verdict::Never(obstacle) => ("skip", obstacle_text(obstacle, record)),
    };
    dry_run_line(record, verb, &why)
}

/// `7  try   attempt 3`
pub fn dry_run_line(record: &Record, verb: &str, why: &str) -> String {
    format!("{:<10}  {verb:<7}  {why}\n", record.id.full())
}

pub fn obstacle_text(obstacle: Obstacle, record: &Record) -> String {
    match obstacle {
        Obstacle::NotPending => format!("is {}", cut_line(&record.status_text)),
        Obstacle::TooOld => "older than --ndays".into(),
        Obstacle::OutOfSlots => "has had all its retries".into(),
        Obstacle::OtherShard => "in another shard".into(),
        Obstacle::Undated => "its insertion date cannot be read".into(),
    }
}

/// Widths that fit what nearly every table holds; longer values push their line to the right.
pub fn list_header(with_verdict: bool) -> String {
    let next = if with_verdict { "NEXT ATTEMPT          " } else { "" };
    format!(
        "{:<10}  {:<8}  {:<20}  {:>8}  {:<20}  {next}LAST ERROR\n",
        "ID", "STATUS", "INSERTED", "FAILURES", "LAST FAILURE"
    )
}

/// `counts` says whether the table has the columns to count failures in.
pub fn list_line(record: &Record, verdict: Option<Verdict>, counts: bool) -> String {
    let shown = |at: Option<Instant>| at.map_or_else(|| "-".into(), |at| at.to_string());
    let inserted = match record.inserted_at {
        Some(at) => at.to_string(),
        None => format!("?{}", cut_line(&record.inserted.to_string())),
    };
    let next = match verdict {
        None => String::new(),
        Some(Verdict::Due(_)) => format!("{:<20}  ", "now"),
        Some(Verdict::Wait { until }) => format!("{until:<20}  "),
        Some(Verdict::Archive(_)) => format!("{:<20}  ", "none: given up"),
        Some(Verdict::Never(_)) => format!("{:<20}  ", "-"),
    };
    let line = format!(
        "{:<10}  {:<8}  {inserted:<20}  {:>8}  {:<20}  {next}{}",
        record.id.full(),
        cut_line(&record.status_text),
        if counts { record.failures.to_string() } else { "-".into() },
        shown(record.last_failure_at),
        record.last_error.as_deref().map(cut_line).unwrap_or_default(),
    );
    format!("{}\n", line.trim_end())
}

pub fn list_json(record: &Record, verdict: Option<Verdict>, counts: bool) -> String {
    let mut line = json!({
        "id": record.id,
        "status": record.status_text,
        "date_inserted": record.inserted_at,
        "failures": counts.then_some(record.failures),
        "last_failure": record.last_failure_at,
        "last_error": record.last_error,
    });
    if let Some(verdict) = verdict {
        let until = if let Verdict::Wait { until } = verdict { Some(until) } else { None };
        line["due"] = matches!(verdict, Verdict::Due(_)).into();
        line["next_attempt_at"] = json!(until);
    }
    json_line(&line)
}

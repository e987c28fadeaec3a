//! Reports, as text and as JSON: of a table, of a check, and of a pass. Nothing here prints.

mod record;
mod simulation;

use std::collections::BTreeMap;
use std::iter;
use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::json;

use crate::engine::{SettledAttempt, Stopped, Tally};
use crate::record::{Id, Status, counted, cut_line, json_line, one_line};
use crate::store::Count;
use crate::time::{Instant, span};

pub use record::{
    dry_run_line, explanation, list_header, list_json, list_line, unscheduled, verdict_line,
};
pub use simulation::{attempt_json, days_table, figures_table, load_chart, picture};

/// The first column to the left, the others to the right.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
            if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        cells.collect::<Vec<_>>().join("  ") + "\n"
    };
    rows.iter().map(line).collect()
}

/// The upper bounds of the age bands in days: where the progressive schedule changes its frequency.
pub const BANDS: [i64; 6] = [1, 7, 14, 30, 180, 360];
/// Those, what is older, and what is undated.
const COLUMNS: usize = BANDS.len() + 2;

/// The state of a table, whose fields are those of `status --json`.
#[derive(Serialize)]
pub struct StatusReport {
    pub db: String,
    pub table: String,
    pub now: Instant,
    #[serde(rename = "statuses", serialize_with = "by_status")]
    pub counts: Vec<Count>,
    pub oldest_pending: Option<Oldest>,
    /// Under the policy that was chosen, if one was.
    #[serde(flatten)]
    pub due: Option<DueReport>,
}

#[derive(Serialize)]
pub struct Oldest {
    pub id: Id,
    pub date_inserted: Instant,
}

#[derive(Default, Serialize)]
pub struct DueReport {
    pub line: String,
    pub due: u64,
    pub waiting: u64,
    /// Given up, and archived by the next pass.
    pub to_be_archived: u64,
    /// Pending, but never due under this policy.
    pub never_due: u64,
    pub oldest_due: Option<Oldest>,
    pub next_due_at: Option<Instant>,
}

/// The rows of each status by band, older than all, and undated: ours first, also without any.
fn status_lines(counts: &[Count]) -> Vec<(String, [u64; COLUMNS])> {
    let mut by_status: BTreeMap<(bool, &str), [u64; COLUMNS]> = BTreeMap::new();
    for count in counts {
        let cells = by_status.entry((count.status == Status::Foreign, &count.text)).or_default();
        cells[count.band.unwrap_or(COLUMNS - 1)] += count.rows;
    }
    let ours = Status::OURS.map(Status::name);
    let of_ours =
        ours.map(|name| (name.into(), by_status.remove(&(false, name)).unwrap_or_default()));
    // A value that is spelt like the name of a status, but is not mapped to it.
    let quoted = |text: &str| if ours.contains(&text) { format!("'{text}'") } else { text.into() };
    let others = by_status.into_iter().map(|((_, text), cells)| (quoted(text), cells));
    of_ours.into_iter().chain(others).collect()
}

fn band_names() -> impl Iterator<Item = String> {
    let from = iter::once(0).chain(BANDS);
    let bands = from.zip(BANDS).map(|(from, to)| format!("{from}-{to}d"));
    bands.chain(["older".into(), "undated".into()])
}

pub fn status_text(report: &StatusReport) -> String {
    let header = iter::once("STATUS".into()).chain(band_names()).chain(["total".into()]);
    let mut rows = vec![header.collect()];
    for (status, cells) in status_lines(&report.counts) {
        let cells = cells.into_iter().chain([cells.iter().sum()]).map(|rows| rows.to_string());
        rows.push(iter::once(cut_line(&status)).chain(cells).collect());
    }
    let shown = |Oldest { id, date_inserted: at }: &Oldest| {
        format!("{id}, inserted {at}, {} ago", span(report.now.0.saturating_sub(at.0)))
    };
    let oldest = |oldest: &Option<Oldest>| oldest.as_ref().map_or("none".into(), shown);
    let mut lines = vec![("oldest pending", oldest(&report.oldest_pending))];
    if let Some(due) = &report.due {
        lines.push(("due now", format!("{} ({})", due.due, one_line(&due.line))));
        lines.push(("oldest due", oldest(&due.oldest_due)));
        lines.push(("waiting", due.waiting.to_string()));
        if due.to_be_archived > 0 {
            lines.push(("to be archived", format!("{} (given up)", due.to_be_archived)));
        }
        if due.never_due > 0 {
            let rows = format!("{} (too old for this line, or undated)", due.never_due);
            lines.push(("never due", rows));
        }
        let next = match due.next_due_at {
            None => "never".into(),
            Some(at) if at <= report.now => "now".into(),
            Some(at) => format!("{at}, in {}", span(at.0 - report.now.0)),
        };
        lines.push(("next due", next));
    } else {
        let how = "say --ndays, --fibonacci, --policy or --progressive to see";
        lines.push(("due now", how.into()));
    }
    let lines: String = lines.iter().map(|(what, it)| format!("{what:<14}  {it}\n")).collect();
    let (table, db) = (one_line(&report.table), one_line(&report.db));
    format!("{table} in {db} at {}\n\n{}\n{lines}", report.now, aligned(&rows))
}

/// `{"NEW":{"total":3,"by_age":{"0-1d":3,...}},...}`
fn by_status<S: Serializer>(counts: &[Count], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(status_lines(counts).into_iter().map(|(status, cells)| {
        let total: u64 = cells.iter().sum();
        let bands: serde_json::Map<_, _> = band_names().zip(cells.map(Into::into)).collect();
        (status, json!({ "total": total, "by_age": bands }))
    }))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Ok,
    /// To be known.
    Warning,
    /// To be mended, or records are lost sight of.
    Error,
}

#[derive(Serialize)]
pub struct Finding {
    pub level: Level,
    pub about: &'static str,
    pub text: String,
    /// An SQL statement that mends it.
    pub statement: Option<String>,
}

pub fn findings_text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for Finding { level, about, text: found, statement } in findings {
        let level = format!("{level:?}").to_lowercase();
        text += &format!("{level:<7}  {about:<10}  {}\n", one_line(found));
        if let Some(statement) = statement {
            text += &format!("{:<19}  {}\n", "", one_line(statement));
        }
    }
    text
}

/// `{"id":7,"attempt":3,"started_at":"...","duration_ms":12,"outcome":"failure",...}`
pub fn joblog_line(attempt: &SettledAttempt) -> String {
    let SettledAttempt { number, started_at, attempt, status } = attempt;
    json_line(&json!({
        "id": attempt.id,
        "attempt": number,
        "started_at": started_at,
        "duration_ms": u64::try_from(attempt.duration.as_millis()).unwrap_or(u64::MAX),
        "outcome": attempt.outcome.name(),
        "exit": attempt.exit,
        "error": attempt.outcome.error(),
        "status": status.map(Status::name),
    }))
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
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let counts: Vec<_> = counts.map(|(count, what)| format!("{count} {what}")).collect();
    if counts.is_empty() {
        return "nothing was due".into();
    }
    let why = match &tally.stopped {
        Some(Stopped::Signal(signal)) => format!("; stopped by signal {signal}"),
        Some(Stopped::Runtime) => "; stopped by --max-runtime".into(),
        Some(Stopped::Stuck(_) | Stopped::Failures(_)) | None => String::new(),
    };
    let secs = elapsed.as_secs_f64();
    let attempts = counted(tally.attempts(), "attempt");
    format!("{attempts} in {secs:.1}s: {}{why}", counts.join(", "))
}

//! The state of a table as text and as JSON.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use serde_json::json;

use super::aligned;
use crate::record::{Id, Status, cut_line, one_line};
use crate::store::Count;
use crate::time::{Instant, span};

/// The upper bounds of the age bands, in days: the ages at which the progressive schedule changes
/// its frequency.
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

/// The rows of each status by band, older than all bands, and undated: ours first, whether there are
/// any or not, then what else the table holds.
fn lines(counts: &[Count]) -> Vec<(String, [u64; COLUMNS])> {
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
    let from = std::iter::once(0).chain(BANDS);
    let bands = from.zip(BANDS).map(|(from, to)| format!("{from}-{to}d"));
    bands.chain(["older".into(), "undated".into()])
}

pub fn status_text(report: &StatusReport) -> String {
    let (table, db) = (one_line(&report.table), one_line(&report.db));
    let mut text = format!("{table} in {db} at {}\n\n", report.now);
    let header = std::iter::once("STATUS".into()).chain(band_names()).chain(["total".into()]);
    let mut rows = vec![header.collect()];
    for (status, cells) in lines(&report.counts) {
        let total = cells.iter().sum();
        let cells = cells.into_iter().chain([total]).map(|rows| rows.to_string());
        rows.push(std::iter::once(cut_line(&status)).chain(cells).collect());
    }
    text += &aligned(&rows);
    let oldest = |oldest: &Option<Oldest>| match oldest {
        None => "none".into(),
        Some(Oldest { id, date_inserted: at }) => {
            let age = span(report.now.0.saturating_sub(at.0));
            format!("{id}, inserted {at}, {age} ago")
        }
    };
    text += &format!("\noldest pending  {}\n", oldest(&report.oldest_pending));
    match &report.due {
        None => {
            text += "due now         say --ndays, --fibonacci, --policy or --progressive to see\n";
        }
        Some(due) => {
            text += &format!("due now         {} ({})\n", due.due, one_line(&due.line));
            text += &format!("oldest due      {}\n", oldest(&due.oldest_due));
            text += &format!("waiting         {}\n", due.waiting);
            if due.to_be_archived > 0 {
                text += &format!("to be archived  {} (given up)\n", due.to_be_archived);
            }
            if due.never_due > 0 {
                text += &format!(
                    "never due       {} (too old for this line, or undated)\n",
                    due.never_due
                );
            }
            let next = match due.next_due_at {
                None => "never".into(),
                Some(at) if at <= report.now => "now".into(),
                Some(at) => format!("{at}, in {}", span(at.0 - report.now.0)),
            };
            text += &format!("next due        {next}\n");
        }
    }
    text
}

/// `{"NEW":{"total":3,"by_age":{"0-1d":3,...}},...}`
fn by_status<S: Serializer>(counts: &[Count], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(lines(counts).into_iter().map(|(status, cells)| {
        let total: u64 = cells.iter().sum();
        let bands: serde_json::Map<_, _> = band_names().zip(cells.map(Into::into)).collect();
        (status, json!({ "total": total, "by_age": bands }))
    }))
}

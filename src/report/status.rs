//! The state of a table as text and as JSON.

use std::collections::BTreeMap;

use serde_json::json;

use super::{aligned, instant_json};
use crate::record::{Id, Status, cut_line, json_line, one_line};
use crate::store::Count;
use crate::time::{Instant, span};

pub struct StatusReport {
    pub db: String,
    pub table: String,
    pub now: Instant,
    /// The upper bounds of the age bands, in days.
    pub bands: Vec<i64>,
    pub counts: Vec<Count>,
    pub oldest_pending: Option<Oldest>,
    /// Under the policy that was chosen, if one was.
    pub due: Option<DueReport>,
}

pub struct Oldest {
    pub id: Id,
    pub inserted_at: Instant,
}

#[derive(Default)]
pub struct DueReport {
    pub line: String,
    pub due: u64,
    pub waiting: u64,
    /// Given up, and archived by the next pass.
    pub to_archive: u64,
    /// Pending, but never due under this policy.
    pub never: u64,
    pub oldest: Option<Oldest>,
    pub next_at: Option<Instant>,
}

impl StatusReport {
    /// The rows of each status by band, older than all bands, and undated: ours first, whether there
    /// are any or not, then what else the table holds.
    fn lines(&self) -> Vec<(String, Vec<u64>)> {
        let width = self.bands.len() + 2;
        let mut by_status: BTreeMap<(bool, &str), Vec<u64>> = BTreeMap::new();
        for count in &self.counts {
            let cells = by_status
                .entry((count.status == Status::Foreign, &count.text))
                .or_insert_with(|| vec![0; width]);
            cells[count.band.unwrap_or(width - 1)] += count.rows;
        }
        let ours = Status::OURS.map(|status| {
            let cells = by_status.remove(&(false, status.name())).unwrap_or_else(|| vec![0; width]);
            (status.name().into(), cells)
        });
        let others = by_status.into_iter().map(|((_, text), cells)| {
            // A value that is spelt like the name of a status, but is not mapped to it.
            let is_ours = Status::OURS.iter().any(|status| status.name() == text);
            let status = if is_ours { format!("'{text}'") } else { text.into() };
            (status, cells)
        });
        ours.into_iter().chain(others).collect()
    }

    fn band_names(&self) -> Vec<String> {
        let from = std::iter::once(&0).chain(&self.bands);
        let bands = from.zip(&self.bands).map(|(from, to)| format!("{from}-{to}d"));
        bands.chain(["older".into(), "undated".into()]).collect()
    }
}

pub fn status_text(report: &StatusReport) -> String {
    let (table, db) = (one_line(&report.table), one_line(&report.db));
    let mut text = format!("{table} in {db} at {}\n\n", report.now);
    let mut rows = vec![
        std::iter::once("STATUS".to_string())
            .chain(report.band_names())
            .chain(["total".into()])
            .collect::<Vec<_>>(),
    ];
    for (status, cells) in report.lines() {
        let total: u64 = cells.iter().sum();
        let cells = cells.iter().chain([&total]).map(u64::to_string);
        rows.push(std::iter::once(cut_line(&status)).chain(cells).collect());
    }
    text += &aligned(&rows);
    let oldest = |oldest: &Option<Oldest>| match oldest {
        None => "none".into(),
        Some(Oldest { id, inserted_at }) => {
            let age = span(report.now.0.saturating_sub(inserted_at.0));
            format!("{id}, inserted {inserted_at}, {age} ago")
        }
    };
    text += &format!("\noldest pending  {}\n", oldest(&report.oldest_pending));
    match &report.due {
        None => {
            text += "due now         say --ndays, --fibonacci, --policy or --progressive to see\n";
        }
        Some(due) => {
            text += &format!("due now         {} ({})\n", due.due, one_line(&due.line));
            text += &format!("oldest due      {}\n", oldest(&due.oldest));
            text += &format!("waiting         {}\n", due.waiting);
            if due.to_archive > 0 {
                text += &format!("to be archived  {} (given up)\n", due.to_archive);
            }
            if due.never > 0 {
                text +=
                    &format!("never due       {} (too old for this line, or undated)\n", due.never);
            }
            let next = match due.next_at {
                None => "never".into(),
                Some(at) if at <= report.now => "now".into(),
                Some(at) => format!("{at}, in {}", span(at.0 - report.now.0)),
            };
            text += &format!("next due        {next}\n");
        }
    }
    text
}

pub fn status_json(report: &StatusReport) -> String {
    let names = report.band_names();
    let statuses: serde_json::Map<_, _> = report
        .lines()
        .into_iter()
        .map(|(status, cells)| {
            let total: u64 = cells.iter().sum();
            let bands: serde_json::Map<_, _> =
                names.iter().cloned().zip(cells.into_iter().map(Into::into)).collect();
            (status, json!({ "total": total, "by_age": bands }))
        })
        .collect();
    let oldest = |oldest: &Option<Oldest>| {
        oldest.as_ref().map(
            |oldest| json!({ "id": oldest.id, "date_inserted": oldest.inserted_at.to_string() }),
        )
    };
    let mut object = json!({
        "db": report.db,
        "table": report.table,
        "now": report.now.to_string(),
        "statuses": statuses,
        "oldest_pending": oldest(&report.oldest_pending),
    });
    if let Some(due) = &report.due {
        object["line"] = due.line.as_str().into();
        object["due"] = due.due.into();
        object["waiting"] = due.waiting.into();
        object["to_be_archived"] = due.to_archive.into();
        object["never_due"] = due.never.into();
        object["oldest_due"] = oldest(&due.oldest).into();
        object["next_due_at"] = instant_json(due.next_at);
    }
    json_line(&object)
}

//! Reports, as text and as JSON. Nothing here prints.

mod attempt;
mod check;
mod explain;
mod list;
mod picture;
mod simulation;
mod status;

pub use attempt::{joblog_line, summary};
pub use check::{Finding, Level, findings_json, findings_text};
pub use explain::{Explanation, LastPass, explanation, unscheduled};
pub use list::{Fate, dry_run_line, list_header, list_json, list_line};
pub use picture::picture;
pub use simulation::{attempt_json, days_table, figures_table, load_chart};
pub use status::{DueReport, Oldest, StatusReport, status_json, status_text};

use crate::time::Instant;

fn instant_json(at: Option<Instant>) -> serde_json::Value {
    at.map(|at| at.to_string()).into()
}

/// The first column to the left, the others to the right.
pub fn aligned(rows: &[Vec<String>]) -> String {
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

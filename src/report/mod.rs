//! What is shown, as text and as JSON. Nothing here prints.

mod attempt;
mod explain;
mod list;
mod status;

pub use attempt::{joblog_line, summary};
pub use explain::{Explanation, LastPass, explanation};
pub use list::{Fate, dry_run_line, list_header, list_json, list_line};
pub use status::{DueReport, Oldest, StatusReport, status_json, status_text};

use crate::instant::Instant;
use crate::record::Id;

fn id_json(id: &Id) -> serde_json::Value {
    match id {
        Id::Integer(id) => (*id).into(),
        Id::Text(id) => id.as_ref().into(),
    }
}

fn instant_json(at: Option<Instant>) -> serde_json::Value {
    at.map(|at| at.to_string()).into()
}

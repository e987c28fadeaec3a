//! Adoption of a table: what its names and values leave no doubt about is mapped. Everything else is a question.

mod columns;
mod known;
mod pending;
mod proposal;
mod propose;
mod words;

use anyhow::Result;
use backlog_schedule::Instant;
use backlog_store::Outline;

use crate::terminal::Terminal;

use columns::TableProfile;
use known::Known;
pub use known::is_known;
pub use proposal::Proposal;
pub use words::resembles_queue;

pub fn propose<'a>(
    outline: &Outline,
    now: Instant,
    terminal: &'a Terminal,
) -> Result<Proposal<'a>> {
    let columns = TableProfile::new(outline, now);
    match Known::of(&outline.name, outline.columns.iter().map(|it| &it.column)) {
        Some(known) => known.proposal(&columns, terminal),
        None => propose::by_columns(columns, terminal),
    }
}

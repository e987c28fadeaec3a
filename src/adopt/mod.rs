//! Proposals for existing tables. Columns with clear names and values are mapped; everything else is a question.

mod known;
mod pending;
mod profile;
mod proposal;
mod propose;
mod words;

use anyhow::Result;
use backlog_schedule::Instant;
use backlog_store::Outline;

use crate::terminal::Terminal;

use known::KnownTable;
pub use known::is_known;
use profile::TableProfile;
pub use proposal::Proposal;
pub use words::resembles_queue;

pub fn propose<'a>(table: &Outline, now: Instant, terminal: &'a Terminal) -> Result<Proposal<'a>> {
    let profile = TableProfile::new(table, now);
    match KnownTable::find(&table.name, table.columns.iter().map(|explored| &explored.column)) {
        Some(known) => known.proposal(&profile, terminal),
        None => propose::by_columns(profile, terminal),
    }
}

//! The rehearsal: all writes that may follow are tried on one record and rolled back, before the
//! first handler runs.

use super::table::Table;
use crate::record::Status;

/// What a table did that neither changed the row nor said why, as a trigger's RAISE(IGNORE) does.
pub const NOT_TAKEN: &str = "the table did not take the change";

/// What a mapping did that finishes a record, and leaves it pending.
pub const STILL_PENDING: &str = "it would still be pending: its condition holds as before";

/// The result of a rehearsal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rehearsal {
    Taken,
    /// The row is not what the record says any more.
    ChangedMeanwhile,
    /// What the table refuses, and why.
    Refused(String),
}

impl Rehearsal {
    /// The refusal of a status, by a table of the database at `place`.
    pub fn refused(place: &str, table: &Table, status: Status, why: &str) -> Self {
        let status = table.shown(status);
        Self::Refused(format!(
            "could not write to {place}: table {} refuses {status}: {why}",
            table.name
        ))
    }
}

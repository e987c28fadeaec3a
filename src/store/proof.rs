//! Whether a table takes all that may have to be written, tried out before the first handler runs.

use anyhow::{Result, bail};

use super::table::Table;
use crate::record::{Record, Status};

/// What a table did that neither changed the row nor said why, as a trigger's RAISE(IGNORE) does.
pub const NOT_TAKEN: &str = "the table did not take the change";

/// What a mapping did that finishes a record, and leaves it pending.
pub const STILL_PENDING: &str = "it would still be pending: its condition holds as before";

/// What came of trying it out.
pub enum Proof {
    Taken,
    /// The row is not what the record says any more.
    ChangedMeanwhile,
    Refused {
        status: Status,
        why: String,
    },
}

impl Proof {
    /// Whether it was taken; an error names what the table refuses. `place` is the database.
    pub fn into_result(self, place: &str, table: &Table, record: &Record) -> Result<bool> {
        match self {
            Self::Taken => Ok(true),
            Self::ChangedMeanwhile => Ok(false),
            Self::Refused { status, why } => bail!(
                "could not write to {place}: table {} refuses {} for record {}: {why}; no handler \
                 was started",
                table.name,
                table.shown(status),
                record.id
            ),
        }
    }
}

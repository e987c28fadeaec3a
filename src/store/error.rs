//! Failures of a database, sorted by what can be done about them. Each engine sorts its own, once.

use std::fmt;

use anyhow::anyhow;

use crate::exit::try_later;

/// A failure of a database.
#[derive(Debug, Default)]
pub struct DbError {
    pub kind: Kind,
    /// The database's own words.
    pub words: String,
    /// What can be done about it, behind the words: `; make room`
    pub hint: String,
    /// Whether it is one row that cannot be read, and not the table: others may well be.
    pub is_of_a_row: bool,
    /// Whether the table refuses what was to be written. Another row may fare better.
    pub is_refusal: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Kind {
    /// The session is gone, and whatever it held with it.
    Lost,
    /// Somebody else is in the way: the same statement may go through a moment later.
    Busy,
    /// A value cannot be one of the type that it is compared with, so that no row has it.
    NoValue,
    /// This user may not do that.
    Forbidden,
    /// The transaction cannot write.
    ReadOnly,
    #[default]
    Other,
}

impl DbError {
    /// The failure to `verb` the database at `place`, as the user is told it.
    pub fn explain(&self, place: &str, verb: &str) -> anyhow::Error {
        let Self { words, hint, .. } = self;
        match self.kind {
            Kind::Lost => {
                try_later(format!("lost the connection to {place}: {words}; try later")).into()
            }
            Kind::Busy => try_later(format!("could not {verb} {place}: {hint}; try later")).into(),
            Kind::ReadOnly if verb == "read" => anyhow!(
                "could not read {place}: {words}; a command that only reads takes no `where` that \
                 writes"
            ),
            Kind::NoValue | Kind::Forbidden | Kind::ReadOnly | Kind::Other => {
                anyhow!("could not {verb} {place}: {words}{hint}")
            }
        }
    }
}

impl fmt::Display for DbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

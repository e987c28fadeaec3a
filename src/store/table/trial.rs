//! Statements that try a condition out, and what is said of one that the database refuses: nothing of
//! the statement around it, which the user has not written.

use anyhow::{Error, anyhow};

const BEHIND: &str = "\nTHEN 1 END FROM ";

/// A statement with the condition in it.
pub struct Trial<'a> {
    before: String,
    condition: &'a str,
    behind: String,
}

impl<'a> Trial<'a> {
    /// A condition must be one whole expression, and where it is closed early and opened again,
    /// `1) OR (1`, the first of these is none. `end` stands behind the table.
    pub fn both(condition: &'a str, table: &str, end: &str) -> [Self; 2] {
        let (case, behind) = ("SELECT CASE WHEN ".into(), format!("{BEHIND}{table}{end}"));
        let (select, close) = (format!("SELECT 1 FROM {table} WHERE ("), format!("\n){end}"));
        [
            Self { before: case, condition, behind },
            Self { before: select, condition, behind: close },
        ]
    }

    pub fn sql(&self) -> String {
        format!("{}{}{}", self.before, self.condition, self.behind)
    }

    /// Why the condition is none: in the database's words, unless they are about what stands behind
    /// it. `at` is the byte of the statement that they are about.
    pub fn complaint(&self, words: &str, at: Option<usize>) -> Error {
        let condition = self.condition;
        let end = self.before.len() + condition.len();
        if words.contains(BEHIND) {
            anyhow!("`{condition}` is no condition: a quote or comment in it is not closed")
        } else if at.is_some_and(|at| at >= end) || words == "incomplete input" {
            anyhow!("`{condition}` is no condition: it ends too early")
        } else {
            anyhow!("{condition:?} is no condition in SQL: {words}")
        }
    }
}

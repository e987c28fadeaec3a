//! SQL that all databases write the same way: names, conditions and their trial.

use std::fmt;

use anyhow::{Error, anyhow};

use super::{Column, Table, distinct};
use crate::query::{Order, Window};

/// What holds for every row. A column may be called `true`, and SQLite would take that.
pub const EVERY: &str = "1 = 1";

/// A name as SQL.
pub fn quote(name: &str) -> String {
    Quoted(name).to_string()
}

/// A quoted name, as a part of a statement.
pub struct Quoted<'a>(pub &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = self.0.split('"');
        write!(f, "\"{}", parts.next().unwrap_or_default())?;
        parts.try_for_each(|part| write!(f, "\"\"{part}"))?;
        f.write_str("\"")
    }
}

/// The names of columns.
pub fn names<'a>(columns: impl IntoIterator<Item = &'a Column>) -> String {
    columns.into_iter().map(|column| quote(&column.name)).collect::<Vec<_>>().join(", ")
}

impl Order {
    pub fn direction(self) -> &'static str {
        match self {
            Self::Newest => "DESC",
            Self::Oldest => "ASC",
        }
    }
}

impl Table {
    /// The columns of the id.
    pub fn ids(&self) -> String {
        names(&self.id)
    }

    /// Whether every column of the id has a value.
    pub fn has_ids(&self) -> String {
        let terms = self.id.iter().map(|column| format!("{} IS NOT NULL", quote(&column.name)));
        terms.collect::<Vec<_>>().join(" AND ")
    }

    /// Whether a row belongs to the queue, as a column that is never NULL.
    pub fn is_in_queue(&self) -> String {
        let condition = self.condition.as_ref();
        condition.map_or_else(|| EVERY.into(), |it| format!("({it}) IS TRUE"))
    }

    /// What holds for all rows of the queue; without a status column also for those that are not
    /// pending.
    pub fn of_the_queue(&self) -> &str {
        let condition = self.condition.as_deref().filter(|_| self.statuses.column.is_some());
        condition.unwrap_or(EVERY)
    }

    /// What finds out whether there is any row for which a condition holds.
    pub fn any(&self, condition: &str) -> String {
        format!("SELECT 1 FROM {} WHERE {condition} LIMIT 1", self.sql)
    }

    pub fn order_by(&self, order: Order) -> String {
        let direction = order.direction();
        let columns = std::iter::once(&self.inserted).chain(&self.id);
        let term = |column: &Column| format!("{} {direction}", quote(&column.name));
        format!("ORDER BY {}", columns.map(term).collect::<Vec<_>>().join(", "))
    }

    /// The column that says of records whose wait is over whether they are snoozed for longer.
    pub fn notes_snoozes(&self, window: &Window) -> Option<&Column> {
        self.last_error.as_ref().filter(|_| matches!(window, Window::Failed { .. }))
    }

    /// The columns that have a meaning, but for the last error: all that is read of a record to be
    /// shown, and no payload.
    pub fn known_columns(&self) -> Vec<&Column> {
        let optional = [&self.statuses.column, &self.failures, &self.last_failure, &self.due_at];
        distinct(self.id.iter().chain([&self.inserted]).chain(optional.into_iter().flatten()))
    }
}

const BEHIND: &str = "\nTHEN 1 END FROM ";

/// A statement with the condition in it.
pub struct Trial<'a> {
    pub sql: String,
    condition: &'a str,
    /// Where the condition ends.
    end: usize,
}

impl<'a> Trial<'a> {
    /// A condition must be one whole expression, and where it is closed early and opened again,
    /// `1) OR (1`, the first of these is none. `end` stands behind the table.
    pub fn both(condition: &'a str, table: &str, end: &str) -> [Self; 2] {
        let of = |before: String, behind: String| Self {
            sql: format!("{before}{condition}{behind}"),
            condition,
            end: before.len() + condition.len(),
        };
        [
            of("SELECT CASE WHEN ".into(), format!("{BEHIND}{table}{end}")),
            of(format!("SELECT 1 FROM {table} WHERE ("), format!("\n){end}")),
        ]
    }

    /// Why the condition is none: in the database's words, unless they are about what stands behind
    /// it. `at` is the byte of the statement that they are about.
    pub fn complaint(&self, words: &str, at: Option<usize>) -> Error {
        let condition = self.condition;
        if words.contains(BEHIND) {
            anyhow!("`{condition}` is no condition: a quote or comment in it is not closed")
        } else if at.is_some_and(|at| at >= self.end) || words == "incomplete input" {
            anyhow!("`{condition}` is no condition: it ends too early")
        } else {
            anyhow!("{condition:?} is no condition in SQL: {words}")
        }
    }
}

/// How many characters of an error are read to see that.
pub const SNOOZED: usize = 64;

/// How many are read to be shown.
pub const SHOWN_ERROR: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_out_of_their_quotes() {
        assert_eq!(quote(r#"a"; DROP TABLE b; --"#), r#""a""; DROP TABLE b; --""#);
    }
}

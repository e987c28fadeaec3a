//! SQL that all databases write the same way.

use std::fmt;

use super::{Column, Table};
use crate::query::Order;

/// What holds for every row. A column may be called `true`, and SQLite would take that.
const EVERY: &str = "1 = 1";

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

impl Table {
    /// The columns of the id.
    pub fn ids(&self) -> String {
        self.id.iter().map(|column| quote(&column.name)).collect::<Vec<_>>().join(", ")
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

    pub fn order_by(&self, order: Order) -> String {
        let direction = match order {
            Order::Newest => "DESC",
            Order::Oldest => "ASC",
        };
        let columns = std::iter::once(&self.inserted).chain(&self.id);
        let term = |column: &Column| format!("{} {direction}", quote(&column.name));
        format!("ORDER BY {}", columns.map(term).collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_out_of_their_quotes() {
        assert_eq!(quote(r#"a"; DROP TABLE b; --"#), r#""a""; DROP TABLE b; --""#);
    }
}

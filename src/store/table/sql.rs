//! What all databases write the same way in SQL.

use super::{Column, Table};
use crate::selection::Order;

/// A name as SQL.
pub fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl Table {
    /// The columns of the id.
    pub fn ids(&self) -> String {
        self.id.iter().map(|column| quote(&column.name)).collect::<Vec<_>>().join(", ")
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

//! The conditions that the database itself has: of an index on a part of the rows, and the columns that
//! one reads.

use std::collections::HashSet;

use super::tokens::{Token, tokens};

/// The names in an expression of SQL. Words are in lower case, as the server takes them, and what stands
/// in quotes is as it is.
pub fn identifiers(sql: &str) -> HashSet<String> {
    let is_quoted = |name: &Token<'_>| name.text.starts_with(['"', '`', '[']);
    let name = |token: &Token<'_>| {
        let name = token.name()?;
        Some(if is_quoted(token) { name.into_owned() } else { name.to_lowercase() })
    };
    tokens(sql).iter().filter_map(name).collect()
}

/// The condition of a statement that creates an index on a part of the rows.
pub fn condition_of_index(created: &str) -> Option<&str> {
    let tokens = tokens(created);
    let condition = tokens.iter().find(|token| token.is("where"))?;
    created.get(condition.end()..).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_are_taken_for_columns() {
        let found = identifiers("Kind = 'it''s n' AND \"N m\" > o2.size_1 -- or so");
        let mut found: Vec<_> = found.iter().map(String::as_str).collect();
        found.sort_unstable();
        assert_eq!(found, ["N m", "and", "kind", "o2", "size_1"]);
    }

    #[test]
    fn the_condition_of_an_index_stands_behind_its_where() {
        let of = condition_of_index;
        assert_eq!(of("CREATE INDEX i ON t (a) WHERE sent_at IS NULL"), Some("sent_at IS NULL"));
        let quoted = "create index \"x where y\" on t (\"where\", [where b], elsewhere)\nwhere(a = ' where ')";
        assert_eq!(of(quoted), Some("(a = ' where ')"));
        assert_eq!(of("CREATE INDEX where_i ON t (a)"), None);
    }
}

//! The conditions that the database itself has: of an index on a part of the rows, and the columns that
//! one reads.

use std::collections::HashSet;

/// The names in an expression of SQL: words, which the server takes for lower case, and what stands in
/// double quotes. What stands in single quotes is text.
pub fn identifiers(sql: &str) -> HashSet<String> {
    let mut names = HashSet::new();
    let mut chars = sql.chars().peekable();
    while let Some(first) = chars.next() {
        if first == '\'' {
            chars.by_ref().find(|c| *c == '\'');
        } else if first == '"' {
            names.insert(chars.by_ref().take_while(|c| *c != '"').collect());
        } else if first.is_alphabetic() || first == '_' {
            let mut name = first.to_string();
            while let Some(c) = chars.next_if(|c| c.is_alphanumeric() || ['_', '$'].contains(c)) {
                name.push(c);
            }
            names.insert(name.to_lowercase());
        }
    }
    names
}

/// The condition of a statement that creates an index on a part of the rows.
pub fn condition_of_index(created: &str) -> Option<&str> {
    let mut quote = None;
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    for (at, c) in created.char_indices() {
        match quote {
            Some(end) if c == end => quote = None,
            Some(_) => {}
            None if ['\'', '"', '`'].contains(&c) => quote = Some(c),
            None if c == '[' => quote = Some(']'),
            None => {
                let begins = !created[..at].ends_with(is_part);
                let word = created[at..].split(|c| !is_part(c)).next().unwrap_or_default();
                if begins && word.eq_ignore_ascii_case("where") {
                    return Some(created[at + word.len()..].trim());
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_are_taken_for_columns() {
        let found = identifiers("Kind = 'it''s n' AND \"N m\" > o2.size_1 -- or so");
        let mut found: Vec<_> = found.iter().map(String::as_str).collect();
        found.sort_unstable();
        assert_eq!(found, ["N m", "and", "kind", "o2", "or", "size_1", "so"]);
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

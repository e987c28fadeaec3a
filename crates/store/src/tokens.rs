//! Tokens of SQL that the database has accepted: names, strings and symbols, without comments.

use std::borrow::Cow;
use std::collections::HashSet;

/// A token, with its quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    pub text: &'a str,
    /// Offset of its first byte in the statement.
    pub at: usize,
}

impl<'a> Token<'a> {
    /// The name without quotes, if the token is one. An unquoted name may be a keyword.
    pub fn name(&self) -> Option<Cow<'a, str>> {
        let first = self.text.chars().next()?;
        if is_part_of_name(first) && !first.is_numeric() {
            return Some(self.text.into());
        }
        let end = closing(first).filter(|_| first != '\'')?;
        let name = self.text.get(1..self.text.len().checked_sub(1)?)?;
        Some(match name.contains(end) && end != ']' {
            true => name.replace(&format!("{end}{end}"), &end.to_string()).into(),
            false => name.into(),
        })
    }

    pub fn is(&self, text: &str) -> bool {
        self.text.eq_ignore_ascii_case(text)
    }

    pub fn end(&self) -> usize {
        self.at + self.text.len()
    }
}

/// The tokens of SQL. `[` begins a name unless it follows one, as in PostgreSQL's `ARRAY[...]`.
pub fn tokens(sql: &str) -> Vec<Token<'_>> {
    let (mut tokens, mut rest) = (Vec::<Token<'_>>::new(), sql);
    while let Some(first) = rest.chars().next() {
        let at = sql.len() - rest.len();
        let follows = tokens.last().is_some_and(|before: &Token<'_>| {
            before.end() == at && before.text.ends_with(|c| is_part_of_name(c) || c == ']')
        });
        let length = if rest.starts_with("--") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(end) = closing(first).filter(|_| first != '[' || !follows) {
            quoted_length(rest, end)
        } else if is_part_of_name(first) {
            rest.find(|c| !is_part_of_name(c)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let is_skipped = first.is_whitespace() || rest.starts_with("--") || rest.starts_with("/*");
        let (text, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        if !is_skipped {
            tokens.push(Token { text, at });
        }
        rest = after;
    }
    tokens
}

/// The names in an SQL expression. Unquoted names are in lower case, as PostgreSQL reads them.
pub fn identifiers(sql: &str) -> HashSet<String> {
    let is_quoted = |name: &Token<'_>| name.text.starts_with(['"', '`', '[']);
    let name = |token: &Token<'_>| {
        let name = token.name()?;
        Some(if is_quoted(token) { name.into_owned() } else { name.to_lowercase() })
    };
    tokens(sql).iter().filter_map(name).collect()
}

pub fn condition_of_index(created: &str) -> Option<&str> {
    let tokens = tokens(created);
    let condition = tokens.iter().find(|token| token.is("where"))?;
    created.get(condition.end()..).map(str::trim)
}

fn is_part_of_name(c: char) -> bool {
    c.is_alphanumeric() || ['_', '$'].contains(&c)
}

fn closing(first: char) -> Option<char> {
    match first {
        '\'' | '"' | '`' => Some(first),
        '[' => Some(']'),
        _ => None,
    }
}

/// Length in bytes up to the closing quote. A doubled quote is part of the text.
fn quoted_length(quoted: &str, end: char) -> usize {
    let mut chars = quoted.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c == end && (end == ']' || chars.next_if(|(_, next)| *next == end).is_none()) {
            return at + 1;
        }
    }
    quoted.len()
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
    fn the_condition_of_an_index_follows_its_where() {
        let condition = condition_of_index;
        assert_eq!(
            condition("CREATE INDEX i ON t (a) WHERE sent_at IS NULL"),
            Some("sent_at IS NULL")
        );
        let quoted = "create index \"x where y\" on t (\"where\", [where b], elsewhere)\nwhere(a = ' where ')";
        assert_eq!(condition(quoted), Some("(a = ' where ')"));
        assert_eq!(condition("CREATE INDEX where_i ON t (a)"), None);
    }

    #[test]
    fn quotes_and_comments_keep_their_content_together() {
        let sql = "a/* b, */ \"c \"\"d\" 'it''s (' [e f] -- g\n`h`,(x[1]) ARRAY['y'::text]";
        let texts: Vec<_> = tokens(sql).iter().map(|token| token.text).collect();
        let expected = [
            "a",
            "\"c \"\"d\"",
            "'it''s ('",
            "[e f]",
            "`h`",
            ",",
            "(",
            "x",
            "[",
            "1",
            "]",
            ")",
            "ARRAY",
            "[",
            "'y'",
            ":",
            ":",
            "text",
            "]",
        ];
        assert_eq!(texts, expected);
        let names: Vec<_> = tokens(sql).iter().filter_map(Token::name).collect();
        assert_eq!(names, ["a", "c \"d", "e f", "h", "x", "ARRAY", "text"]);
    }

    #[test]
    fn an_unclosed_token_extends_to_the_end() {
        for sql in ["'a", "\"", "[a", "/*a", "--a", "a", "é'ü"] {
            let last = tokens(sql).last().map(Token::end);
            assert!(last.is_none_or(|end| end == sql.len()), "{sql}");
        }
    }
}

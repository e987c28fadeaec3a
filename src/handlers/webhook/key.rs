//! Idempotency keys: what tells a receiver which record it gets, and whether it has it already.

use anyhow::{Result, bail, ensure};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::template::Template;

/// What no header carries safely; the percent sign too, so that no two values look the same.
const UNSAFE: &AsciiSet = &CONTROLS.add(b' ').add(b'%');
/// The same, and what stands between the parts of a name.
const SEPARATOR: &AsciiSet = &UNSAFE.add(b'/');

/// The kind of `Idempotency-Key` that a request gets.
#[derive(Clone)]
pub enum IdempotencyKey {
    /// The record's name, and another one for each series of attempts.
    Name,
    Given(Template),
    None,
}

impl IdempotencyKey {
    /// Reads what the whole key is to be; without a text there is none.
    pub fn parse(text: &str) -> Result<Self> {
        if text.is_empty() {
            return Ok(Self::None);
        }
        let check = |literal: &str| {
            let odd = literal.chars().find(|c| !c.is_ascii_graphic());
            let Some(odd) = odd.or_else(|| literal.chars().find(|c| *c == '}')) else {
                return Ok(());
            };
            bail!("{odd:?} cannot stand in the key, which is printable ASCII without blanks");
        };
        Template::parse(text, "the key", check).map(Self::Given)
    }

    pub fn columns(&self) -> impl Iterator<Item = &str> {
        let template = if let Self::Given(template) = self { Some(template) } else { None };
        template.into_iter().flat_map(Template::columns)
    }

    /// The key for the record of this name. A receiver that knows a key answers as it did before,
    /// with an error too: so it changes with each series of attempts.
    pub fn fill(
        &self,
        name: &str,
        series: Option<i64>,
        value: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<String>> {
        match self {
            Self::Name => Ok(Some(match series {
                None => name.into(),
                Some(number) => format!("{name}/{number}"),
            })),
            Self::Given(template) => {
                let key = template.fill(value, UNSAFE)?;
                ensure!(!key.is_empty(), "the key {template} has no value");
                Ok(Some(key))
            }
            Self::None => Ok(None),
        }
    }
}

/// What all attempts at a record have in common, and no other record has: `PREFIX/TABLE/ID/DATE`.
/// The date is part of it because a database may give the id of a deleted row again.
pub fn name(prefix: Option<&str>, table: &str, id: &str, inserted: &str) -> String {
    let parts = prefix.into_iter().chain([table, id, inserted]);
    let parts: Vec<_> =
        parts.map(|part| utf8_percent_encode(part, SEPARATOR).to_string()).collect();
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn no_two_records_have_the_same_name() {
        let name = |table, id, date| name(None, table, id, date);
        let date = "2026-11-20T23:59:00Z";
        assert_eq!(name("orders", "7", date), "orders/7/2026-11-20T23:59:00Z");
        assert_eq!(name("public.orders", "a\n \u{e9}%", ""), "public.orders/a%0A%20%C3%A9%25/");
        for (one, other) in [
            (name("t", "\n", date), name("t", "%0A", date)),
            (name("t", "7", "2026-11-20 00:00"), name("t", "7", "2026-11-21 00:00")),
            (name("t", "7/2026", "11/20"), name("t", "7", "2026/11/20")),
            (name("a/b", "7", date), name("a", "b/7", date)),
            (super::name(Some("a"), "t", "7", date), super::name(Some("b"), "t", "7", date)),
            (super::name(Some("a"), "t", "7", date), name("a", "t", "7")),
        ] {
            assert_ne!(one, other);
        }
        assert_eq!(super::name(Some("eu/1"), "t", "7", "x"), "eu%2F1/t/7/x");
        assert!(HeaderValue::from_str(&name("t\0", "\u{7f}\u{1F600}", "\r\n")).is_ok());
    }

    fn key(template: &str, value: Option<&str>) -> Result<Option<String>> {
        let value = |_: &str| value.map(String::from);
        IdempotencyKey::parse(template)?.fill("t/7/x", Some(3), &value)
    }

    #[test]
    fn a_key_may_be_given() {
        for (template, value, expected) in [
            ("", "x", None),
            ("{id}", "7", Some("7")),
            ("order-{id}/{id}", "a:b/c+d", Some("order-a:b/c+d/a:b/c+d")),
            ("{id}", "a b%\r\n\u{e9}", Some("a%20b%25%0D%0A%C3%A9")),
            ("fixed", "x", Some("fixed")),
        ] {
            assert_eq!(key(template, Some(value)).unwrap().as_deref(), expected, "{template}");
        }
        for (series, expected) in [(None, "t/7/x"), (Some(3), "t/7/x/3")] {
            let key = IdempotencyKey::Name.fill("t/7/x", series, &|_| None);
            assert_eq!(key.unwrap().as_deref(), Some(expected));
        }
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for (template, value, says) in [
            ("{id", Some("7"), "a brace in the key is not closed"),
            ("{}", Some("7"), "braces in the key are empty"),
            ("id}", Some("7"), "'}' cannot stand in the key"),
            ("a {id}", Some("7"), "' ' cannot stand in the key"),
            ("\u{e9}{id}", Some("7"), "cannot stand in the key, which is printable ASCII"),
            ("{id}", None, "the key needs the column id, which has no value"),
            ("{id}", Some(""), "the key {id} has no value"),
        ] {
            let error = key(template, value).unwrap_err().to_string();
            assert!(error.contains(says), "{template}: {error}");
        }
    }
}

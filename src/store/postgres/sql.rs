//! Names and values as PostgreSQL has them. Every value travels as text, out of a column by
//! `::text` and into it by a cast to the column's type: so each type that the server knows works,
//! also those that this program does not.

use postgres::Row;
use postgres::types::{ToSql, Type};
use serde::de::IgnoredAny;

use crate::record::Value;
use crate::store::sql::Dialect;
use crate::store::table::{Cell, Cells, Column, Holds, quote};

/// A parameter of a statement.
#[derive(Debug, Clone)]
pub enum Param {
    Text(Option<String>),
    Texts(Vec<Option<String>>),
    /// Keys of advisory locks.
    Keys(Vec<i64>),
}

impl Param {
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(Some(text.into()))
    }

    pub fn texts(texts: impl IntoIterator<Item: Into<String>>) -> Self {
        Self::Texts(texts.into_iter().map(|text| Some(text.into())).collect())
    }

    pub fn typed(&self) -> (&(dyn ToSql + Sync), Type) {
        match self {
            Self::Text(text) => (text, Type::TEXT),
            Self::Texts(texts) => (texts, Type::TEXT_ARRAY),
            Self::Keys(keys) => (keys, Type::INT8_ARRAY),
        }
    }
}

/// PostgreSQL's spelling.
pub static DIALECT: Dialect = Dialect { literal, cell: as_text, is_verbatim: false };

/// A column as text, from which a cast makes the same value again. Times are as JSON has them.
pub fn as_text(column: &Column) -> String {
    let name = quote(&column.name);
    if matches!(column.holds, Holds::Instants | Holds::ClockTimes) {
        format!("(to_json({name}) #>> '{{}}')")
    } else {
        format!("{name}::text")
    }
}

/// A value as SQL; it takes the type of what it is compared with.
pub fn literal(value: &Value) -> String {
    param(value).map_or_else(|| "NULL".into(), |text| quoted(&text))
}

/// A text as SQL, whatever the server takes a backslash for.
pub fn quoted(text: &str) -> String {
    let text = text.replace('\'', "''");
    if text.contains('\\') {
        format!("E'{}'", text.replace('\\', "\\\\"))
    } else {
        format!("'{text}'")
    }
}

/// A value as the text that a cast makes it of.
pub fn param(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Blob(_) => Some(format!("\\x{value}")),
        // No column can hold this character.
        Value::Text(text) => Some(text.replace('\0', "")),
        Value::Integer(_)
        | Value::Real(_)
        | Value::Bytes(_)
        | Value::Boolean(_)
        | Value::Json(_) => Some(value.to_string()),
    }
}

/// The number that the row's change or id has among all that were asked for.
pub fn number(row: &Row, index: usize) -> Option<usize> {
    usize::try_from(row.count(index)).ok()
}

impl Cells for Row {
    fn cell(&self, column: &Column, index: usize) -> Cell<'_> {
        match self.get(index) {
            Some(text) if column.holds.is_text() => Ok(text),
            text => Err(value(column, text)),
        }
    }

    fn count(&self, index: usize) -> u64 {
        self.get::<_, i64>(index).unsigned_abs()
    }
}

/// A column's value out of its text.
pub fn value(column: &Column, text: Option<&str>) -> Value {
    let Some(text) = text else { return Value::Null };
    let number = || text.parse().ok().map(Value::Integer);
    // NaN is none.
    let json = || is_json(text).then(|| Value::Json(text.into()));
    let held = match column.holds {
        Holds::Integers => number(),
        Holds::Numbers => number().or_else(json),
        Holds::Reals => text.parse().ok().filter(|it: &f64| it.is_finite()).map(Value::Real),
        Holds::Booleans => Some(Value::Boolean(text == "true")),
        Holds::Documents => json(),
        Holds::Bytes => bytes(text).map(Value::Blob),
        Holds::Text | Holds::Instants | Holds::ClockTimes | Holds::Anything => None,
    };
    held.unwrap_or_else(|| Value::Text(text.into()))
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// `\x00ff`, as the server shows bytes.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("\\x")?;
    let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    (0..digits.len()).step_by(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_cannot_break_out_of_their_quotes() {
        assert_eq!(quoted("it's '; --"), "'it''s ''; --'");
        assert_eq!(quoted(r"\'; --"), r"E'\\''; --'");
    }

    #[test]
    fn bytes_come_back_as_they_were() {
        let bytes = Value::Blob(vec![0, 15, 255]);
        let text = param(&bytes).unwrap();
        assert_eq!(text, "\\x000FFF");
        assert_eq!(super::bytes(&text), Some(vec![0, 15, 255]));
        assert_eq!(super::bytes("\\x0"), None);
    }
}

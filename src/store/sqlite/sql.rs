//! Names and values as SQLite has them.

use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, ValueRef};

use crate::record::{Id, Value};

/// A value as SQL.
pub fn literal(value: &Value) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => format!("{number:?}"),
        Value::Text(text) | Value::Json(text) => format!("'{}'", text.replace('\'', "''")),
        Value::Bytes(bytes) => format!("CAST(x'{}' AS TEXT)", Value::Blob(bytes.clone())),
        Value::Blob(_) => format!("x'{value}'"),
        Value::Boolean(truth) => i64::from(*truth).to_string(),
    }
}

/// A value to be bound.
pub struct Param(Value);

impl ToSql for Param {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match &self.0 {
            Value::Null => ValueRef::Null,
            Value::Integer(number) => ValueRef::Integer(*number),
            Value::Real(number) => ValueRef::Real(*number),
            Value::Text(text) | Value::Json(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Text(bytes),
            Value::Blob(bytes) => ValueRef::Blob(bytes),
            Value::Boolean(truth) => ValueRef::Integer((*truth).into()),
        }))
    }
}

/// The value of one column of an id.
pub fn id_param(part: &Id) -> Param {
    Param(match part {
        Id::Integer(id) => Value::Integer(*id),
        Id::Text(_) | Id::Composite(_) => Value::Text(part.text().into_owned()),
    })
}

/// A value as it was read.
pub fn value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(bytes) => Value::of_text(bytes),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}

/// A value to be bound.
pub fn param(value: &Value) -> Param {
    Param(value.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_cannot_break_out_of_theirs() {
        let text = |text: &str| literal(&Value::Text(text.into()));
        assert_eq!(text("it's '; --"), "'it''s ''; --'");
        assert_eq!(literal(&Value::Integer(i64::MIN)), "-9223372036854775808");
        assert_eq!(literal(&Value::Bytes(b"'\xff".into())), "CAST(x'27FF' AS TEXT)");
    }
}

//! Names and values as SQLite has them.

use rusqlite::types::{Value as Param, ValueRef};

use crate::record::{Id, Value};

/// A value as SQL.
pub fn literal(value: &Value) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => format!("{number:?}"),
        Value::Text(text) | Value::Json(text) => format!("'{}'", text.replace('\'', "''")),
        Value::Blob(_) => format!("x'{value}'"),
        Value::Boolean(truth) => i64::from(*truth).to_string(),
    }
}

/// The value of one column of an id.
pub fn id_param(part: &Id) -> Param {
    match part {
        Id::Integer(id) => Param::Integer(*id),
        Id::Text(_) | Id::Composite(_) => Param::Text(part.text().into_owned()),
    }
}

/// A value as it was read.
pub fn value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(bytes) => Value::Text(String::from_utf8_lossy(bytes).into_owned()),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}

/// A value to be bound.
pub fn param(value: &Value) -> Param {
    match value {
        Value::Null => Param::Null,
        Value::Integer(number) => (*number).into(),
        Value::Real(number) => (*number).into(),
        Value::Text(text) | Value::Json(text) => text.clone().into(),
        Value::Boolean(truth) => i64::from(*truth).into(),
        Value::Blob(bytes) => bytes.clone().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_cannot_break_out_of_theirs() {
        let text = |text: &str| literal(&Value::Text(text.into()));
        assert_eq!(text("it's '; --"), "'it''s ''; --'");
        assert_eq!(literal(&Value::Integer(i64::MIN)), "-9223372036854775808");
    }
}

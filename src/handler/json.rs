//! A record as handlers get it.

use serde::ser::{Error, Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

use crate::record::{Record, Value};

/// One column as it is, without anything around it.
pub fn column(record: &Record, column: &str) -> Vec<u8> {
    match record.row.get(column) {
        Some(Value::Blob(bytes)) => bytes.clone(),
        value => value.map(Value::to_string).unwrap_or_default().into_bytes(),
    }
}

/// The record as a line.
pub fn line(record: &Record) -> Vec<u8> {
    let mut line = document(record);
    line.push(b'\n');
    line
}

/// The record as one JSON object with every column, in the table's order, on one line. A BLOB is
/// hexadecimal text; numbers are exact.
pub fn document(record: &Record) -> Vec<u8> {
    document_without(record, None)
}

/// The same but for one column, which is a secret.
pub fn document_without(record: &Record, secret: Option<&str>) -> Vec<u8> {
    let secret = secret.and_then(|column| record.row.named(column));
    serde_json::to_vec(&RowJson { record, secret }).unwrap_or_default()
}

struct RowJson<'a> {
    record: &'a Record,
    /// The column that is left out, as the table spells it.
    secret: Option<&'a str>,
}

impl Serialize for RowJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        for (name, value) in self.record.row.iter().filter(|(name, _)| self.secret != Some(*name)) {
            match value {
                Value::Null => object.serialize_entry(name, &())?,
                Value::Integer(number) => object.serialize_entry(name, number)?,
                Value::Real(number) => object.serialize_entry(name, number)?,
                Value::Text(text) => object.serialize_entry(name, text)?,
                Value::Blob(_) => object.serialize_entry(name, &value.to_string())?,
                Value::Boolean(truth) => object.serialize_entry(name, truth)?,
                Value::Json(json) => {
                    // What is no part of a string is just space.
                    let line = json.replace(['\n', '\r'], " ");
                    let raw = serde_json::from_str::<&RawValue>(&line);
                    object.serialize_entry(name, raw.map_err(S::Error::custom)?)?;
                }
            }
        }
        object.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::tests::record;

    #[test]
    fn the_json_has_every_column_exactly() {
        let record = record(&[
            ("ID", Value::Integer(i64::MAX)),
            ("it's \"odd\"", Value::Text("a\n\u{1F600}".into())),
            ("n", Value::Null),
            ("r", Value::Real(0.5)),
            ("b", Value::Blob(vec![0, 255])),
            ("j", Value::Json("{\n\"a\": 1.50\r\n}".into())),
        ]);
        let expected = "{\"ID\":9223372036854775807,\"it's \\\"odd\\\"\":\"a\\n\u{1F600}\",\
                        \"n\":null,\"r\":0.5,\"b\":\"00FF\",\"j\":{ \"a\": 1.50  }}\n";
        assert_eq!(String::from_utf8(line(&record)).unwrap(), expected);
        let without = document_without(&record, Some("IT'S \"odd\""));
        let expected = expected.replace("\"it's \\\"odd\\\"\":\"a\\n\u{1F600}\",", "");
        assert_eq!(String::from_utf8(without).unwrap(), expected.trim_end());
    }
}

//! The record as handlers get it, one JSON object.

use serde::ser::{Error, Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

use crate::record::{Record, Value};

/// One column as it is, without anything around it.
pub fn column(record: &Record, column: &str) -> Vec<u8> {
    match record.row.get(column) {
        Some(Value::Blob(bytes)) => bytes.clone(),
        value => value.map(Value::text).unwrap_or_default().into_owned(),
    }
}

pub fn line(record: &Record) -> Result<Vec<u8>, String> {
    let mut line = document(record, None)?;
    line.push(b'\n');
    Ok(line)
}

/// The record as one JSON object with every column but that of a secret, in the table's order, on
/// one line. A BLOB is hexadecimal text; numbers are exact. The error says what JSON cannot hold.
pub fn document(record: &Record, secret: Option<&str>) -> Result<Vec<u8>, String> {
    let secret = secret.and_then(|column| Some(record.row.find(column)?.0));
    serde_json::to_vec(&RowJson { record, secret }).map_err(|error| error.to_string())
}

/// Why a record is not handed over as JSON, and the way out where a column may go alone.
pub fn advised(error: &str) -> String {
    format!("{error}; name it with --set payload=COLUMN, or mend it")
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
                Value::Bytes(_) => {
                    let error = format!("its {name} is not UTF-8, which JSON cannot hold");
                    return Err(S::Error::custom(error));
                }
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
    use crate::handlers::tests::record;

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
        assert_eq!(String::from_utf8(line(&record).unwrap()).unwrap(), expected);
        let without = document(&record, Some("IT'S \"odd\"")).unwrap();
        let expected = expected.replace("\"it's \\\"odd\\\"\":\"a\\n\u{1F600}\",", "");
        assert_eq!(String::from_utf8(without).unwrap(), expected.trim_end());
    }

    #[test]
    fn what_is_not_utf8_passes_alone_and_is_refused_as_json() {
        let record = record(&[("ID", Value::Integer(7)), ("b", Value::Bytes(b"a\xff".into()))]);
        assert_eq!(column(&record, "B"), b"a\xff");
        assert_eq!(line(&record).unwrap_err(), "its b is not UTF-8, which JSON cannot hold");
        assert_eq!(document(&record, Some("b")).unwrap(), b"{\"ID\":7}");
    }
}

//! `backlog show`: a record with all columns of its row.

use std::iter;

use backlog_schedule::{Record, RetryLimits, Value, cut_line, hexadecimal, one_line};
use serde_json::Value as Json;

use super::record::RecordView;

const MOST_BYTES: usize = 4096;

impl RecordView<'_> {
    /// JSON and texts with line breaks take several lines. The value of the column `secret` is not shown.
    pub fn whole(&self, secret: Option<&str>) -> String {
        let record = self.record;
        let names: Vec<_> = record.row.columns.iter().map(|name| cut_line(name)).collect();
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let mut text = self.headline(RetryLimits::default());
        for (name, (column, value)) in names.iter().zip(record.row.iter()) {
            let is_secret = secret.is_some_and(|secret| column.eq_ignore_ascii_case(secret));
            let lines = if is_secret { "(secret)".into() } else { value_text(record, value) };
            let labels = iter::once(name.as_str()).chain(iter::repeat(""));
            for (label, line) in labels.zip(lines.split('\n')) {
                let line = format!("  {label:<width$}  {}", one_line(line));
                text += line.trim_end();
                text.push('\n');
            }
        }
        text
    }
}

fn value_text(record: &Record, value: &Value) -> String {
    match value {
        Value::Null => "NULL".into(),
        // Without quotes it would look like no value.
        Value::Text(text) if text.is_empty() || text == "NULL" => format!("'{text}'"),
        Value::Text(text) | Value::Json(text) => indented(text).unwrap_or_else(|| text.clone()),
        Value::Blob(bytes) if record.id.has_part(bytes) => hexadecimal(bytes),
        Value::Blob(bytes) | Value::Bytes(bytes) => match bytes.get(..MOST_BYTES) {
            Some(first) if bytes.len() > MOST_BYTES => {
                format!("{}\n... and {} bytes more", hexadecimal(first), bytes.len() - MOST_BYTES)
            }
            Some(_) | None => hexadecimal(bytes),
        },
        Value::Integer(_) | Value::Real(_) | Value::Boolean(_) => value.to_string(),
    }
}

/// A JSON document with each member on its own line, if only white space changes.
fn indented(text: &str) -> Option<String> {
    let is_document = text.trim_start().starts_with(['{', '[']);
    let json: Json = serde_json::from_str(text).ok().filter(|_| is_document)?;
    let indented = serde_json::to_string_pretty(&json).ok()?;
    let bare = |text: &str| text.split_whitespace().collect::<String>();
    (bare(&indented) == bare(text)).then_some(indented)
}

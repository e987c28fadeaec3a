//! `backlog show`: a record with all columns of its row.

use std::iter;

use backlog_schedule::{Record, RetryLimits, Value, hexadecimal, one_line};
use serde::de::IgnoredAny;

use super::record::headline;
use super::screen::Screen;

/// Maximum number of bytes that are shown.
const MOST_BYTES: usize = 4096;

/// A record with each column on a line, or on more if its value is JSON or has several lines. The column `secret` is
/// only named.
pub fn whole_record(
    record: &Record,
    secret: Option<&str>,
    has_counter: bool,
    in_hand: Option<&str>,
    screen: &Screen,
) -> String {
    let names: Vec<_> = record.row.columns.iter().map(|name| one_line(name)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let mut text = headline(record, has_counter, RetryLimits::default(), in_hand, screen);
    for (name, (column, value)) in names.iter().zip(record.row.iter()) {
        let is_secret = secret.is_some_and(|secret| column.eq_ignore_ascii_case(secret));
        let shown = if is_secret { "(secret)".into() } else { value_text(record, value) };
        let labels = iter::once(name.as_str()).chain(iter::repeat(""));
        for (label, line) in labels.zip(shown.split('\n')) {
            let line = format!("  {label:<width$}  {}", one_line(line));
            text += line.trim_end();
            text.push('\n');
        }
    }
    text
}

fn value_text(record: &Record, value: &Value) -> String {
    match value {
        Value::Null => "NULL".into(),
        // It would look like no value.
        Value::Text(text) if text.is_empty() || text == "NULL" => format!("'{text}'"),
        Value::Text(text) | Value::Json(text) => {
            let is_document = text.trim_start().starts_with(['{', '[']);
            let is_json = is_document && serde_json::from_str::<IgnoredAny>(text).is_ok();
            if is_json { indented(text) } else { text.clone() }
        }
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

/// A JSON document with each member on a line of its own. Numbers and strings stay as they are spelt.
fn indented(json: &str) -> String {
    let (mut text, mut depth, mut is_string, mut is_escaped) = (String::new(), 0, false, false);
    for c in json.chars() {
        if is_string || c == '"' {
            is_string = !is_string || c != '"' || is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            text.push(c);
            continue;
        }
        match c {
            '}' | ']' => {
                depth -= 1;
                let is_empty = text.trim_end().ends_with(['{', '[']);
                text.truncate(text.trim_end().len());
                if !is_empty {
                    text += &format!("\n{}", "  ".repeat(depth));
                }
                text.push(c);
            }
            '{' | '[' | ',' => {
                depth += usize::from(c != ',');
                text += &format!("{c}\n{}", "  ".repeat(depth));
            }
            ':' => text += ": ",
            _ if c.is_whitespace() => {}
            _ => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_indented_and_nothing_in_it_changes() {
        let json = r#"{"a":[1.50, 1e400,{"b\\":"x, {\"y\"}: [z"}],"c":{ },"d":[],"a":null}"#;
        let expected = "{\n  \"a\": [\n    1.50,\n    1e400,\n    {\n      \"b\\\\\": \"x, {\\\"y\\\"}: [z\"\n    }\n  ],\n  \
                        \"c\": {},\n  \"d\": [],\n  \"a\": null\n}";
        assert_eq!(indented(json), expected);
        assert_eq!(indented(expected), expected);
    }
}

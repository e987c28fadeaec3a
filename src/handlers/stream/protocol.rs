//! The lines that go to a co-process and come from it: JSON, one document each.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::handlers::HandlerContext;
use crate::handlers::process::Tail;
use crate::record::{Id, Outcome, Record, one_line};

const VERSION: u32 = 1;

/// The hello line, the first that a co-process gets:
/// `{"backlog":1,"queue":"default","table":"BACKLOG","id":["ID"],"columns":[...]}`
pub fn hello(context: &HandlerContext, record: &Record) -> String {
    let HandlerContext { queue, table, id, .. } = context;
    let columns = &record.row.columns;
    let hello = json!({
        "backlog": VERSION, "queue": queue, "table": table, "id": id, "columns": &columns[..]
    });
    format!("{hello}\n")
}

/// A line of a co-process about one record.
#[derive(Deserialize)]
struct Reply {
    id: Value,
    outcome: Said,
    error: Option<String>,
    after: Option<String>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum Said {
    Success,
    Failure,
    Snooze,
    GiveUp,
}

/// Reads a reply: the record that it is about, and its outcome. The error says what is wrong with
/// the line.
pub fn reply(line: &[u8]) -> Result<(Id, Outcome), String> {
    let Reply { id, outcome, error, after } =
        serde_json::from_slice(line).map_err(|error| why(&error))?;
    let id = id_of(&id)?;
    let error = |otherwise: &str| error.map_or_else(|| otherwise.into(), |it| kept(&it));
    let outcome = match outcome {
        Said::Success => Outcome::Success,
        Said::Failure => Outcome::Failure { error: error("the handler gave no reason") },
        Said::GiveUp => Outcome::GiveUp { error: error("given up") },
        Said::Snooze => {
            let after = after.as_deref().map(duration).transpose()?;
            Outcome::Snooze { error: error("snoozed"), after }
        }
    };
    Ok((id, outcome))
}

/// An error fit for a log and a column: on one line, and no longer than what is kept of the output
/// of a command.
fn kept(error: &str) -> String {
    one_line(error).chars().take(Tail::KEPT).collect()
}

/// An id as JSON has it; that of several columns as an array.
fn id_of(value: &Value) -> Result<Id, String> {
    let text = |text: &String| Id::Text(text.as_str().into());
    match value {
        Value::Number(number) => number.as_i64().map(Id::Integer),
        Value::String(it) => Some(text(it)),
        Value::Array(parts) if parts.len() == 1 => Some(id_of(&parts[0])?),
        Value::Array(parts) if !parts.is_empty() => {
            let parts: Result<Vec<_>, _> = parts.iter().map(id_of).collect();
            Some(Id::Composite(parts?.into()))
        }
        Value::Array(_) | Value::Null | Value::Bool(_) | Value::Object(_) => None,
    }
    .ok_or_else(|| {
        format!("its id is {value}, and must be the whole number or the text of a record's")
    })
}

fn why(error: &serde_json::Error) -> String {
    if error.is_data() {
        let error = error.to_string();
        // Where in the line it stands helps nobody who sees the line.
        return error.split(" at line ").next().unwrap_or_default().into();
    }
    "not JSON".into()
}

fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|error| format!("after: {text:?} is no duration such as \"10m\": {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record;

    #[test]
    fn the_first_line_says_what_the_others_hold() {
        let context = HandlerContext {
            queue: "email".into(),
            table: "mails".into(),
            id: vec!["ID".into()],
            ..HandlerContext::default()
        };
        let record = crate::handlers::tests::record(&[
            ("ID", record::Value::Integer(7)),
            ("to", record::Value::Null),
        ]);
        assert_eq!(
            hello(&context, &record),
            "{\"backlog\":1,\"queue\":\"email\",\"table\":\"mails\",\"id\":[\"ID\"],\
             \"columns\":[\"ID\",\"to\"]}\n"
        );
    }

    #[test]
    fn a_reply_is_an_outcome() {
        let error = || "no\\u{7}route".to_string();
        let after = Some(Duration::from_secs(600));
        for (line, id, outcome) in [
            (r#"{"id":7,"outcome":"success"}"#, Id::Integer(7), Outcome::Success),
            (
                r#"{"outcome":"failure","error":"no\u0007route","id":"a,b","x":1}"#,
                Id::Text("a,b".into()),
                Outcome::Failure { error: error() },
            ),
            (
                r#" {"id":[1,"b"], "outcome":"snooze", "error":"no\u0007route", "after":"10m"} "#,
                Id::Composite([Id::Integer(1), Id::Text("b".into())].into()),
                Outcome::Snooze { error: error(), after },
            ),
            (
                r#"{"id":[7],"outcome":"give_up"}"#,
                Id::Integer(7),
                Outcome::GiveUp { error: "given up".into() },
            ),
        ] {
            assert_eq!(reply(line.as_bytes()), Ok((id, outcome)), "{line}");
        }
    }

    #[test]
    fn what_is_no_reply_is_refused_with_the_reason() {
        for (line, says) in [
            ("", "not JSON"),
            ("starting up ...", "not JSON"),
            ("{\"id\":7,\"outcome\":\"success\"", "not JSON"),
            ("\u{ff}", "not JSON"),
            ("7", "invalid type: integer `7`"),
            (r#"{"outcome":"success"}"#, "missing field `id`"),
            (r#"{"id":7}"#, "missing field `outcome`"),
            (r#"{"id":7.5,"outcome":"success"}"#, "its id is 7.5"),
            (r#"{"id":null,"outcome":"success"}"#, "its id is null"),
            (r#"{"id":[],"outcome":"success"}"#, "its id is []"),
            (r#"{"id":7,"outcome":"succes"}"#, "expected one of `success`, `failure`, `snooze`"),
            (r#"{"id":7,"outcome":"snooze","after":"soon"}"#, "\"soon\" is no duration"),
            (r#"{"id":7,"outcome":"failure","error":5}"#, "invalid type: integer `5`"),
        ] {
            let error = reply(line.as_bytes()).unwrap_err();
            assert!(error.contains(says), "{line}: {error}");
        }
    }
}

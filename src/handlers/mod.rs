//! Handlers of records: a process for each, one for many, or a webhook; and the threads that they share.

mod exec;
pub mod placeholders;
mod process;
mod spawn;
mod stream;
mod tail;
mod webhook;
mod workers;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use backlog_schedule::{Attempt, Id, Outcome, Record, SeriesSource, Value};
use serde::ser::{Error, SerializeMap, Serializer};
use serde_json::value::RawValue;

#[cfg(feature = "webhook")]
pub use webhook::post::{Post, Proxy, RequestInfo, agent, failure_outcome, probe, tls_config};

pub use exec::Exec;
pub use process::{
    display_name, find_program, is_executable, one_word_hint, preflight_error, program,
    script_fault,
};
pub use spawn::CommandEnv;
pub use stream::{Stream, StreamSettings};
pub use webhook::{
    GivesUp, Header, Hosts, IdempotencyKey, PROGRAM, Proxies, Secret, Signing, Target, Webhook,
    without_login,
};
use workers::Threads;
pub use workers::{Workers, jobs_within_limits};

/// A handler of records: it submits each attempt that has ended or that a [`Stop`](backlog_store::Stop) interrupts.
pub trait Handler: Send + Sync {
    fn capacity(&self) -> usize;

    /// Starts attempts. Beyond the capacity they wait for others to end.
    fn start(&self, jobs: Vec<Job>);

    /// Interrupts the attempts at these records, and kills a process that does not end within `grace`.
    fn interrupt(&self, _ids: &[Id], _grace: Duration) {}

    /// True if its threads work while records are in flight; the main thread then settles the attempts.
    fn has_busy_threads(&self) -> bool {
        false
    }

    /// True if several records share a process, so that one record can end the attempts of others.
    fn shares_process(&self) -> bool {
        false
    }

    fn join(&self);

    /// Number of errors of the handler itself, which count against no record.
    fn faults(&self) -> u64 {
        0
    }
}

#[derive(Clone, Default)]
pub struct HandlerContext {
    pub queue: String,
    pub table: String,
    pub id: Vec<String>,
    /// Number of parallel commands, co-processes or requests.
    pub jobs: usize,
    /// Maximum time for one record, or between two replies of a co-process.
    pub timeout: Option<Duration>,
    /// Column that handlers get instead of the whole record.
    pub payload: Option<String>,
    pub series: Option<SeriesSource>,
    pub keeps_stderr: bool,
    pub environment: CommandEnv,
}

/// Input of a handler: the payload, or the record as JSON without the column of the secret.
pub fn document(
    record: &Record,
    payload_column: Option<&str>,
    secret: Option<&str>,
) -> Result<Vec<u8>, String> {
    match payload_column {
        Some(column) => Ok(payload(record, column)),
        None => json_document(record, secret, None).map_err(|error| {
            format!("{error}; pass it alone with --set payload=COLUMN, or fix it")
        }),
    }
}

/// Grace of a handler that lost its claim. It is short, because another pass may claim the record at any moment.
pub const LOST_KILL_DELAY: Duration = Duration::from_millis(100);

pub struct Job {
    pub record: Arc<Record>,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    pub submit: Submit,
}

impl Job {
    pub fn ended(&self, outcome: Outcome) -> Attempt {
        let (id, duration) = (self.record.id.clone(), Duration::ZERO);
        Attempt { id, outcome, exit: None, duration, http_status: None, stderr: None }
    }
}

/// Submits ended attempts from any thread: one for each job, any number in one call.
pub type Submit = Arc<dyn Fn(Vec<Attempt>) + Send + Sync>;

/// A handler without a process: every attempt has the same outcome.
#[derive(Debug, Clone, Copy)]
pub struct FixedOutcome {
    pub succeeds: bool,
}

impl Handler for FixedOutcome {
    /// Number of attempts that are settled together.
    fn capacity(&self) -> usize {
        256
    }

    fn start(&self, jobs: Vec<Job>) {
        let Some(submit) = jobs.first().map(|job| job.submit.clone()) else { return };
        let outcome = match self.succeeds {
            true => Outcome::Success,
            false => Outcome::Failure { error: String::new() },
        };
        submit(jobs.iter().map(|job| job.ended(outcome.clone())).collect());
    }

    fn join(&self) {}
}

fn payload(record: &Record, column: &str) -> Vec<u8> {
    match record.row.get(column) {
        Some(Value::Blob(bytes)) => bytes.clone(),
        value => value.map(Value::text).unwrap_or_default().into_owned(),
    }
}

/// A record as the line that a co-process reads. It has the id as text too, which no JSON library rounds.
fn json_line(record: &Record) -> Result<Vec<u8>, String> {
    let key = reply_with(&record.row.columns);
    let mut line = json_document(record, None, Some(&key)).map_err(|error| error.to_string())?;
    line.push(b'\n');
    Ok(line)
}

/// Key of the id as text: `backlog_id`, with underscores if the table has a column of that name.
fn reply_with(columns: &[String]) -> String {
    let mut key = "backlog_id".to_string();
    while columns.contains(&key) {
        key.push('_');
    }
    key
}

/// Every column but the secret, on one line. The error names a value that JSON cannot represent.
fn json_document(
    record: &Record,
    secret: Option<&str>,
    id_key: Option<&str>,
) -> serde_json::Result<Vec<u8>> {
    let secret = secret.and_then(|column| Some(record.row.find(column)?.0));
    let mut serializer = serde_json::Serializer::new(Vec::new());
    let mut object = serializer.serialize_map(None)?;
    for (name, value) in record.row.iter().filter(|(name, _)| secret != Some(*name)) {
        match value {
            Value::Null => object.serialize_entry(name, &())?,
            Value::Integer(number) => object.serialize_entry(name, number)?,
            Value::Real(number) => object.serialize_entry(name, number)?,
            Value::Text(text) => object.serialize_entry(name, text)?,
            Value::Bytes(_) => {
                let error = format!("its {name} is not UTF-8, so JSON cannot hold it");
                return Err(Error::custom(error));
            }
            Value::Blob(_) => {
                let text = record.text_of(value);
                object.serialize_entry(name, &String::from_utf8_lossy(&text))?;
            }
            Value::Boolean(truth) => object.serialize_entry(name, truth)?,
            Value::Json(json) => {
                // Line breaks in JSON are white space: a string has them escaped.
                let line = json.replace(['\n', '\r'], " ");
                object.serialize_entry(name, serde_json::from_str::<&RawValue>(&line)?)?;
            }
        }
    }
    if let Some(key) = id_key {
        object.serialize_entry(key, &record.id.text())?;
    }
    object.end()?;
    Ok(serializer.into_inner())
}

#[cfg(test)]
pub mod tests {
    use backlog_schedule::{Id, Record, RowValues, Value};

    /// A record with these columns.
    pub fn record(values: &[(&str, Value)]) -> Record {
        let row = RowValues {
            columns: values.iter().map(|(name, _)| (*name).to_string()).collect(),
            values: values.iter().map(|(_, value)| value.clone()).collect(),
        };
        Record { row, ..Record::new(Id::Integer(7), None) }
    }
}

#[cfg(test)]
mod json_tests {
    use super::tests::record;
    use super::*;
    use backlog_schedule::Value;

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
                        \"n\":null,\"r\":0.5,\"b\":\"00FF\",\"j\":{ \"a\": 1.50  },\"backlog_id\":\"7\"}\n";
        assert_eq!(String::from_utf8(json_line(&record).unwrap()).unwrap(), expected);
        let without = json_document(&record, Some("IT'S \"odd\""), None).unwrap();
        let expected = expected.replace(",\"backlog_id\":\"7\"", "");
        let expected = expected.replace("\"it's \\\"odd\\\"\":\"a\\n\u{1F600}\",", "");
        assert_eq!(String::from_utf8(without).unwrap(), expected.trim_end());
    }

    #[test]
    fn the_key_of_the_id_is_not_a_column() {
        let columns = ["BACKLOG_ID", "backlog_id"].map(String::from);
        assert_eq!(reply_with(&columns[..1]), "backlog_id");
        assert_eq!(reply_with(&columns), "backlog_id_");
    }

    #[test]
    fn invalid_utf8_is_passed_alone_and_refused_in_json() {
        let record = record(&[("ID", Value::Integer(7)), ("b", Value::Bytes(b"a\xff".into()))]);
        assert_eq!(payload(&record, "B"), b"a\xff");
        assert_eq!(json_line(&record).unwrap_err(), "its b is not UTF-8, so JSON cannot hold it");
        assert_eq!(json_document(&record, Some("b"), None).unwrap(), b"{\"ID\":7}");
    }
}

//! The queue that the options describe: where its records are, and what their table means.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use backlog_schedule::{Id, Shard, Status};
use backlog_store::system_error::chain;
use backlog_store::{
    Assigned, Assignment, DateSource, Format, Location, Mapping, Name, STATUS, StatusColumn,
    StatusValues, Zone, secure_file, usual_values,
};
use clap::Args;
use serde::Deserialize;
use toml::{Table, Value};

use super::Environment;
use super::keys::require_known;
use super::value::{
    self, OPEN, OPEN_QUESTION, QUOTED, Several, chosen, parts, text, text_or_number,
};
use crate::exit::{ExitError, usage};

#[derive(Debug, Clone)]
pub struct Queue {
    pub name: String,
    pub db: Location,
    pub mapping: Mapping,
    /// The part of the records that is worked off, if not all of them.
    pub shard: Option<Shard>,
    pub state_dir: Option<PathBuf>,
    /// Whether that is named, or follows from the database: else it is the usual one of a user.
    pub names_state_dir: bool,
    /// The command that handles the records, if one was typed or stands in backlog.toml.
    pub exec: Vec<OsString>,
    /// What gets each record that is archived, if that stands there or in the environment.
    pub on_archive: Option<Vec<OsString>>,
}

impl Queue {
    /// The table as it was typed, or the queue of pgmq.
    pub fn table_name(&self) -> &str {
        self.db.queue().unwrap_or(&self.mapping.table.text)
    }

    pub fn holds(&self, id: &Id) -> bool {
        self.shard.is_none_or(|shard| shard.holds(id))
    }

    /// Whether it is the other queue, or a part of it by a further condition or a shard.
    pub fn is_within(&self, other: &Self) -> bool {
        let (own, whole) = (&self.mapping, &other.mapping);
        let is_same = own.conditions == whole.conditions && self.shard == other.shard;
        let is_part = self.name == other.name
            && whole.conditions.iter().all(|condition| own.conditions.contains(condition))
            && (other.shard.is_none() || self.shard == other.shard);
        self.db.identity() == other.db.identity()
            && own.table.text.eq_ignore_ascii_case(&whole.table.text)
            && (is_same || is_part)
    }
}

#[derive(Default, Args, Deserialize)]
#[serde(default)]
#[command(next_help_heading = "Table")]
pub struct QueueOptions {
    /// An option of every subcommand, typed in front of it as well.
    #[arg(skip)]
    #[serde(deserialize_with = "value::typed")]
    pub db: Option<PathBuf>,

    #[arg(skip)]
    #[serde(deserialize_with = "value::typed")]
    pub state_dir: Option<PathBuf>,

    /// The table
    #[arg(long, value_name = "NAME")]
    #[serde(skip)]
    pub table: Option<String>,

    /// A queue of pgmq instead of a table
    ///
    /// pgmq is an extension of PostgreSQL, so --db is a server.
    #[arg(long, value_name = "QUEUE", conflicts_with = "table", hide_short_help = true)]
    #[serde(deserialize_with = "value::typed")]
    pub pgmq: Option<String>,

    /// Only the I-th of N parts of the records
    ///
    /// Other crontab lines, or other machines, take the others. A record's part follows from its id.
    #[arg(long, value_name = "I/N", hide_short_help = true)]
    #[serde(deserialize_with = "value::typed")]
    pub shard: Option<Shard>,

    /// A key of backlog.toml: id=order_id; may be repeated
    ///
    /// The value is written as there, or as a bare word: 'status={column="state",new=[2,3]}'.
    #[arg(long, value_name = "KEY=VALUE", hide_short_help = true)]
    #[serde(skip)]
    pub set: Vec<Setting>,

    /// Only rows for which this SQL condition holds
    ///
    /// It narrows the condition of backlog.toml.
    #[arg(long = "where", value_name = "SQL", hide_short_help = true)]
    #[serde(skip)]
    pub condition: Option<String>,
}

/// A key of backlog.toml, maybe one in a table (`status.new`), with its value, as `--set` has them.
#[derive(Debug, Clone)]
pub struct Setting {
    pub text: String,
    pub key: String,
    pub value: Value,
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (path, value) = text.split_once('=').ok_or("write KEY=VALUE, as in id=order_id")?;
        let mut path = path.split('.').map(str::trim);
        let key = path.next().unwrap_or_default();
        require_known(key)?;
        let path: Vec<_> = path.collect();
        // A bare word is a text.
        let value = match format!("value = {value}").parse::<Table>() {
            Ok(table) if table.len() == 1 => table["value"].clone(),
            _ if is_structured(key, &path) && value.trim_start().starts_with(['{', '[']) => {
                return Err(format!("{value} is not TOML: {QUOTED}"));
            }
            _ => Value::String(value.into()),
        };
        let part = |value, name: &str| Value::Table(Table::from_iter([(name.into(), value)]));
        Ok(Self { text: text.into(), key: key.into(), value: path.into_iter().rfold(value, part) })
    }
}

/// Whether a value that begins with a bracket is a table or an array, and no text: what a column is
/// set to may be JSON, a condition may begin with a quoted name, and a URL with a column.
fn is_structured(key: &str, path: &[&str]) -> bool {
    let is_table = ["on_success", "on_failure", "on_archive", "on_restore"].contains(&key);
    let columns = ["id", "status", "date_inserted", "failures", "last_failure", "last_error"];
    let is_mapping = columns.contains(&key) || key == "max_attempts";
    is_table && path.is_empty() || is_mapping || ["exec", "header", "allow_hosts"].contains(&key)
}

/// Whether it is hardly the name of a file.
fn is_nearly_a_url(text: &str) -> bool {
    let text = text.trim_start().to_ascii_lowercase();
    let starts = ["postgres:", "postgresql:", "postgres//", "postgresql//", "pg:", "host="];
    let of_sqlite = ["file:", "sqlite:", "sqlite3:"];
    ["://", "password="].iter().any(|part| text.contains(part))
        || starts.iter().chain(&of_sqlite).any(|start| text.starts_with(start))
}

/// A file, or a server if it looks like a URL.
pub fn location(
    db: PathBuf,
    pgmq: Option<&str>,
    environment: &Environment,
) -> Result<Location, ExitError> {
    let text = db.to_str().unwrap_or_default();
    if backlog_store::is_url(text) {
        let found = Location::at(text, pgmq, &|name| environment.text(name));
        return found.map_err(|error| usage(chain(&error)));
    }
    // It may have a password in it, so nothing of it is repeated.
    if is_nearly_a_url(text) {
        return Err(usage(
            "--db is neither the path of a SQLite file, without a scheme, nor \
             postgres://user@host:port/database",
        ));
    }
    if text == ":memory:" {
        return Err(usage(
            "--db: a database in memory would end with the command: name a file, or ./:memory: if it is \
             one",
        ));
    }
    match pgmq {
        None => Ok(Location::File(db)),
        Some(_) => Err(usage("a queue of pgmq is on a server: say --db postgres://...")),
    }
}

/// The mapping of a table, as far as its keys were read.
#[derive(Default)]
pub struct TableOptions {
    mapping: Mapping,
    /// The status column and its values, as far as they are given.
    status: Option<(Option<String>, [Option<Several>; 4])>,
}

impl TableOptions {
    /// Reads one key, if it is about the table.
    pub fn read(&mut self, key: &str, value: Value) -> Result<(), String> {
        let mapping = &mut self.mapping;
        match key {
            "table" => mapping.table = Name::given(text_or_number(value)?),
            "id" => {
                let Several(columns) = Several::try_from(value)?;
                if columns.is_empty() {
                    return Err("write a column, or several".into());
                }
                mapping.id = columns.into_iter().map(Name::given).collect();
            }
            "status" if value.as_bool() == Some(false) => mapping.status = StatusColumn::None,
            "status" => {
                let mut parts = parts(value)?;
                let column = part(&mut parts, "column", text)?;
                let values = ["new", "error", "success", "archived"];
                let values = values.map(|name| part(&mut parts, name, Several::try_from));
                let [new, error, success, archived] = values;
                self.status = Some((column, [new?, error?, success?, archived?]));
            }
            "date_inserted" if value.as_bool() == Some(false) => {
                mapping.inserted = DateSource::None;
            }
            "date_inserted" => read_date(mapping, parts(value)?)?,
            "failures" => {
                let mut parts = parts(value).map_err(|_| COLUMN_OR_NONE)?;
                if let Some(column) = part(&mut parts, "column", column_or_none)? {
                    mapping.failures = column;
                }
                let counts = part(&mut parts, "counts", |it| chosen(it, ["failures", "attempts"]))?;
                mapping.counts_attempts = counts == Some("attempts");
            }
            "max_attempts" if value.is_table() => {
                let column = part(&mut parts(value)?, "column", text)?;
                mapping.max_attempts = Some(Name::given(column.ok_or("name the column")?));
            }
            "last_failure" => {
                let mut parts = parts(value).map_err(|_| COLUMN_OR_NONE)?;
                if let Some(column) = part(&mut parts, "column", column_or_none)? {
                    mapping.last_failure = column;
                }
                mapping.last_failure_format = part(&mut parts, "format", format)?;
            }
            "last_error" => {
                let mut parts = parts(value).map_err(|_| COLUMN_OR_NONE)?;
                if let Some(column) = part(&mut parts, "column", column_or_none)? {
                    mapping.last_error = column;
                }
                let most = part(&mut parts, "max", value::characters)?;
                mapping.most_of_error = most;
            }
            "payload" => mapping.payload = Some(text_or_number(value)?),
            "on_success" if value.as_str() == Some("delete") => mapping.deletes_finished = true,
            "on_success" => {
                let legal = "write columns to set, { sent_at = \"{now}\" }, or \"delete\"";
                mapping.on_success = all_assigned(value, legal)?;
            }
            "on_failure" => mapping.on_failure = all_assigned(value, ASSIGNMENTS)?,
            "on_archive" => {
                let legal = format!("{ASSIGNMENTS}; a command is exec_on_archive = [\"...\"]");
                mapping.on_archive = all_assigned(value, &legal)?;
            }
            "on_restore" => mapping.on_restore = all_assigned(value, ASSIGNMENTS)?,
            "where_archived" => mapping.archived = Some(text(value)?),
            _ => {}
        }
        Ok(())
    }

    /// The mapping for rows that meet these conditions.
    pub fn mapping(self, conditions: Vec<String>) -> Result<Mapping, ExitError> {
        let mut mapping = Mapping { conditions, ..self.mapping };
        if let Some((column, values)) = self.status {
            mapping.status = status_column(column, &values, mapping.deletes_finished)?;
        }
        if matches!(mapping.status, StatusColumn::None) && mapping.conditions.is_empty() {
            return Err(usage("without a status column, say with --where which rows are pending"));
        }
        Ok(mapping)
    }
}

/// The insertion date: its column or expression, and how it is read.
fn read_date(mapping: &mut Mapping, mut parts: Table) -> Result<(), String> {
    let column = part(&mut parts, "column", text)?;
    let expression = part(&mut parts, "sql", text)?;
    mapping.inserted = match (column, expression) {
        (Some(_), Some(_)) => return Err("say a column or sql, not both".into()),
        (Some(column), None) => DateSource::Column(Name::given(column)),
        (None, Some(sql)) => DateSource::Expression(sql),
        (None, None) => mapping.inserted.clone(),
    };
    mapping.dates.format = part(&mut parts, "format", format)?;
    let zone = part(&mut parts, "zone", |value| zone(&text(value)?))?;
    mapping.dates.zone = zone.unwrap_or(Zone::UTC);
    Ok(())
}

fn format(value: Value) -> Result<Format, String> {
    text(value)?.parse()
}

/// A column that a table need not have. `false` stands for no status column only, so it is refused.
fn column_or_none(value: Value) -> Result<Name, String> {
    if value.is_str() || value.is_integer() {
        return text(value).map(Name::given);
    }
    Err(COLUMN_OR_NONE.into())
}

const COLUMN_OR_NONE: &str = "write a column, or \"\" for none";

const ASSIGNMENTS: &str = "write columns to set, { tried_at = \"{now}\" }";

fn part<T>(
    parts: &mut Table,
    name: &str,
    read: impl FnOnce(Value) -> Result<T, String>,
) -> Result<Option<T>, String> {
    parts.remove(name).map(read).transpose().map_err(|why| format!("{name}: {why}"))
}

/// Columns with what they are set to; `legal` is said of what is no table of them.
fn all_assigned(value: Value, legal: &str) -> Result<Vec<Assignment>, String> {
    let Value::Table(columns) = value else { return Err(legal.into()) };
    let one = |(column, value): (String, Value)| {
        let to = assigned(value).map_err(|error| format!("{column}: {error}"))?;
        Ok(Assignment { column, to })
    };
    columns.into_iter().map(one).collect()
}

/// Constants stand for themselves; what stands for something else is in braces.
fn assigned(value: Value) -> Result<Assigned, String> {
    let constant = |value| Ok(Assigned::Constant(value));
    match value {
        Value::Integer(number) => constant(backlog_schedule::Value::Integer(number)),
        Value::Float(number) => constant(backlog_schedule::Value::Real(number)),
        Value::Boolean(is) => constant(backlog_schedule::Value::Integer(is.into())),
        Value::Table(mut table) => match (table.remove("text"), table.is_empty()) {
            (Some(Value::String(text)), true) => constant(backlog_schedule::Value::Text(text)),
            _ => Err("a table can only be { text = \"...\" }".into()),
        },
        Value::String(text) => match braced(&text) {
            None => constant(backlog_schedule::Value::Text(text)),
            Some("now") => Ok(Assigned::Now),
            Some("next") => Ok(Assigned::Next),
            Some("error") => Ok(Assigned::Error),
            Some("null") => constant(backlog_schedule::Value::Null),
            Some(word) => match word.parse() {
                Ok(number) if word.starts_with(['+', '-']) => Ok(Assigned::Add(number)),
                _ => Err(format!(
                    "{text:?} stands for nothing; legal are {{now}}, {{next}}, {{error}}, {{null}} and \
                     {{+1}}, or text as it is: {{ text = {text:?} }}"
                )),
            },
        },
        Value::Datetime(_) | Value::Array(_) => Err("write text, a number, true or false".into()),
    }
}

/// The one word between braces, if that is all.
fn braced(text: &str) -> Option<&str> {
    let word = text.strip_prefix('{')?.strip_suffix('}')?;
    let is_word = |c: char| c.is_ascii_alphanumeric() || ['+', '-', '_'].contains(&c);
    word.chars().all(is_word).then_some(word)
}

fn zone(text: &str) -> Result<Zone, String> {
    let is_of_a_name = |c: char| c.is_ascii_alphanumeric() || ['_', '+', '-'].contains(&c);
    let is_part = |part: &str| !part.is_empty() && part.chars().all(is_of_a_name);
    // Where the system keeps the rules of its time zones.
    let file = || secure_file::read(&Path::new("/usr/share/zoneinfo").join(text)).ok();
    let named = || Zone::from_rules(&text.split('/').all(is_part).then(file)??.0);
    Zone::fixed(text).or_else(named).ok_or_else(|| {
        format!(
            "{text:?} is no time zone of this system; write UTC, +02:00 or a name such as \
             Europe/Berlin (which package tzdata knows)"
        )
    })
}

fn status_column(
    column: Option<String>,
    given: &[Option<Several>; 4],
    deletes: bool,
) -> Result<StatusColumn, ExitError> {
    let column = column.map_or(Name::usual(STATUS), Name::given);
    if given.iter().all(Option::is_none) {
        return Ok(StatusColumn::Mapped { column, values: usual_values() });
    }
    for (status, values) in Status::OURS.into_iter().zip(given) {
        let is_needed = status.is_pending() || status == Status::Success && !deletes;
        if is_needed && values.is_none() {
            let (column, name) = (&column.text, status.name());
            let option = name.to_ascii_lowercase();
            return Err(usage(format!(
                "some values of {column} are given, but not those for {name}: say status.{option} \
                 as well"
            )));
        }
    }
    // A number if it is written as one, else text; the column has the last word.
    let value = |text: &String| match braced(text) {
        Some("null") => backlog_schedule::Value::Null,
        _ => backlog_schedule::parse_integer(text).map_or_else(
            || backlog_schedule::Value::Text(text.clone()),
            backlog_schedule::Value::Integer,
        ),
    };
    let values: StatusValues =
        given.each_ref().map(|given| given.iter().flat_map(|it| &it.0).map(value).collect());
    if given.iter().flatten().any(|given| given.0.iter().any(|text| text == OPEN)) {
        return Err(usage(format!("status: {OPEN_QUESTION}")));
    }
    let [new, error, success, archived] = &values;
    if let Some(value) = success.iter().find(|value| archived.contains(value)) {
        let value = value.shown();
        return Err(usage(format!(
            "{value} cannot mean both that a record has succeeded and that it is archived"
        )));
    }
    let mut ended = success.iter().chain(archived);
    if let Some(value) = ended.find(|value| new.contains(value) || error.contains(value)) {
        let value = value.shown();
        return Err(usage(format!(
            "{value} cannot mean both that a record is pending and that it is not"
        )));
    }
    Ok(StatusColumn::Mapped { column, values })
}

//! The keys of the mapping: the columns of a table, and the meanings of their values.

use std::path::Path;

use backlog_schedule::{Status, Value as Cell, parse_integer};
use backlog_store::{
    Assigned, Assignment, DateSource, Format, Mapping, STATUS, StatusColumn, StatusValues, Zone,
    secure_file, usual_values,
};
use toml::{Table, Value};

use super::raw::{OPEN, Raw};
use super::value::{at_least_one, chosen, replace, set, several};
use crate::exit::{ExitError, usage};

pub const OPEN_QUESTION: &str = "a question is open: replace ? with the answer";

/// The mapping of a table from the keys parsed up to now.
#[derive(Default, Clone)]
pub struct TableSettings {
    pub mapping: Mapping,
    status: Option<StatusParts>,
}

#[derive(Clone)]
struct StatusParts {
    column: Option<String>,
    values: [Option<Vec<String>>; 4],
}

impl TableSettings {
    pub fn set_name(&mut self, raw: Raw) -> Result<(), String> {
        set(&mut self.mapping.table, raw.into_text())
    }

    pub fn set_id(&mut self, raw: Raw) -> Result<(), String> {
        let columns = several(raw)?;
        if columns.is_empty() {
            return Err("write at least one column".into());
        }
        self.mapping.id = columns;
        Ok(())
    }

    pub fn set_status(&mut self, raw: Raw) -> Result<(), String> {
        if raw == Raw::Toml(Value::Boolean(false)) {
            self.mapping.status = StatusColumn::None;
            return Ok(());
        }
        let mut parts = Parts::new(raw, STATUS_FORM)?;
        let column = parts.read("column", Raw::into_text)?;
        let values = ["new", "error", "success", "archived"].map(|name| parts.read(name, several));
        let [new, error, success, archived] = values;
        self.status = Some(StatusParts { column, values: [new?, error?, success?, archived?] });
        Ok(())
    }

    pub fn set_date_inserted(&mut self, raw: Raw) -> Result<(), String> {
        let mapping = &mut self.mapping;
        if raw == Raw::Toml(Value::Boolean(false)) {
            mapping.inserted = DateSource::None;
            return Ok(());
        }
        let mut parts = Parts::new(raw, DATE_FORM)?;
        let column = parts.read("column", Raw::into_text)?;
        match (column, parts.read("sql", Raw::into_text)?) {
            (Some(_), Some(_)) => return Err("write either column or sql, not both".into()),
            (Some(column), None) => mapping.inserted = DateSource::Column(column),
            (None, Some(sql)) => mapping.inserted = DateSource::Expression(sql),
            (None, None) => {}
        }
        mapping.dates.format = parts.read("format", format)?;
        mapping.dates.zone = parts.read("zone", |raw| raw.parse(zone))?.unwrap_or(Zone::UTC);
        Ok(())
    }

    pub fn set_failures(&mut self, raw: Raw) -> Result<(), String> {
        let (mapping, mut parts) = (&mut self.mapping, Parts::new(raw, COLUMN_OR_NONE)?);
        parts.read_column(&mut mapping.failures)?;
        let counts = parts.read("counts", |raw| chosen(raw, &["failures", "attempts"]))?;
        mapping.counts_attempts = counts == Some("attempts");
        Ok(())
    }

    pub fn set_last_failure(&mut self, raw: Raw) -> Result<(), String> {
        let (mapping, mut parts) = (&mut self.mapping, Parts::new(raw, COLUMN_OR_NONE)?);
        parts.read_column(&mut mapping.last_failure)?;
        replace(&mut mapping.last_failure_format, parts.read("format", format))
    }

    pub fn set_finished_at(&mut self, raw: Raw) -> Result<(), String> {
        let (mut name, mut parts) = (None, Parts::new(raw, COLUMN_OR_NONE)?);
        parts.read_column(&mut name)?;
        let format = parts.read("format", format)?;
        let name = name.filter(|name: &String| !name.is_empty());
        self.mapping.finished = name.map(|name| (name, format));
        Ok(())
    }

    pub fn set_last_error(&mut self, raw: Raw) -> Result<(), String> {
        let (mapping, mut parts) = (&mut self.mapping, Parts::new(raw, COLUMN_OR_NONE)?);
        parts.read_column(&mut mapping.last_error)?;
        replace(&mut mapping.max_error_chars, parts.read("max", |raw| raw.parse(at_least_one)))
    }

    pub fn set_on_success(&mut self, raw: Raw) -> Result<(), String> {
        let mapping = &mut self.mapping;
        if raw.as_str() == Some("delete") {
            mapping.deletes_succeeded = true;
            return Ok(());
        }
        let legal = "write columns to set, { sent_at = \"{now}\" }, or \"delete\"";
        replace(&mut mapping.on_success, assignments(raw, legal))
    }

    pub fn set_on_archive(&mut self, raw: Raw) -> Result<(), String> {
        let legal = format!("{COLUMNS_TO_SET}; a command is exec_on_archive = [\"...\"]");
        replace(&mut self.mapping.on_archive, assignments(raw, &legal))
    }

    pub fn mapping(self, conditions: Vec<String>) -> Result<Mapping, ExitError> {
        let mut mapping = Mapping { conditions, ..self.mapping };
        if let Some(StatusParts { column, values }) = self.status {
            mapping.status = status_column(column, &values, mapping.deletes_succeeded)?;
        }
        if matches!(mapping.status, StatusColumn::None) && mapping.conditions.is_empty() {
            return Err(usage("without a status column, --where must say which rows are pending"));
        }
        Ok(mapping)
    }
}

const STATUS_FORM: &str = "write a column, { column, new, error, success, archived }, or false";

const DATE_FORM: &str = "write a column, { column or sql, format, zone }, or false";

const COLUMN_OR_NONE: &str = "write a column, or \"\" for none";

pub const COLUMNS_TO_SET: &str = "write columns to set, { tried_at = \"{now}\" }";

/// The parts of a value: `{ column = "state", new = 1 }`. A column alone is a table with this part.
struct Parts(Table);

impl Parts {
    fn new(raw: Raw, legal: &str) -> Result<Self, String> {
        if let Raw::Toml(Value::Table(parts)) = raw { Ok(Self(parts)) } else { Err(legal.into()) }
    }

    fn read<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(Raw) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        let part = self.0.remove(name).map(Raw::Toml);
        part.map(read).transpose().map_err(|why| format!("{name}: {why}"))
    }

    fn read_column(&mut self, field: &mut Option<String>) -> Result<(), String> {
        let column = self.read("column", |raw| raw.into_text().map_err(|_| COLUMN_OR_NONE.into()));
        *field = column?.or(field.take());
        Ok(())
    }
}

fn format(raw: Raw) -> Result<Format, String> {
    raw.parse(str::parse)
}

/// Columns with their new values. `legal` is the error about any value but a table.
pub fn assignments(raw: Raw, legal: &str) -> Result<Vec<Assignment>, String> {
    let Raw::Toml(Value::Table(columns)) = raw else { return Err(legal.into()) };
    let assignment = |(column, value): (String, Value)| {
        let to = assigned(value).map_err(|error| format!("{column}: {error}"))?;
        Ok(Assignment { column, to })
    };
    columns.into_iter().map(assignment).collect()
}

/// A constant, or a word in braces such as `{now}`.
fn assigned(value: Value) -> Result<Assigned, String> {
    let constant = |value| Ok(Assigned::Constant(value));
    match value {
        Value::Integer(number) => constant(Cell::Integer(number)),
        Value::Float(number) => constant(Cell::Real(number)),
        Value::Boolean(is) => constant(Cell::Integer(is.into())),
        Value::Table(mut table) => match (table.remove("text"), table.is_empty()) {
            (Some(Value::String(text)), true) => constant(Cell::Text(text)),
            _ => Err("a table can only be { text = \"...\" }".into()),
        },
        Value::String(text) => match braced(&text) {
            None => constant(Cell::Text(text)),
            Some("now") => Ok(Assigned::Now),
            Some("next") => Ok(Assigned::Next),
            Some("error") => Ok(Assigned::Error),
            Some("null") => constant(Cell::Null),
            Some(word) => match word.parse() {
                Ok(number) if word.starts_with(['+', '-']) => Ok(Assigned::Add(number)),
                _ => Err(format!(
                    "{text:?} has no meaning; use one of {{now}}, {{next}}, {{error}}, {{null}} and \
                     {{+1}}, or write it as {{ text = {text:?} }} to set this text"
                )),
            },
        },
        Value::Datetime(_) | Value::Array(_) => Err("write text, a number, true or false".into()),
    }
}

fn braced(text: &str) -> Option<&str> {
    let word = text.strip_prefix('{')?.strip_suffix('}')?;
    let is_word = |c: char| c.is_ascii_alphanumeric() || ['+', '-', '_'].contains(&c);
    word.chars().all(is_word).then_some(word)
}

fn zone(text: &str) -> Result<Zone, String> {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || ['_', '+', '-'].contains(&c);
    let is_part = |part: &str| !part.is_empty() && part.chars().all(is_legal);
    let file = || secure_file::read(&Path::new("/usr/share/zoneinfo").join(text)).ok();
    let named = || Zone::from_rules(&text.split('/').all(is_part).then(file)??.0);
    Zone::fixed(text).or_else(named).ok_or_else(|| {
        format!(
            "{text:?} is not a time zone of this system; write UTC, +02:00 or a name such as \
             Europe/Berlin (from the package tzdata)"
        )
    })
}

fn status_column(
    column: Option<String>,
    given: &[Option<Vec<String>>; 4],
    deletes: bool,
) -> Result<StatusColumn, ExitError> {
    let column = column.unwrap_or_else(|| STATUS.into());
    if given.iter().all(Option::is_none) {
        return Ok(StatusColumn::Mapped(column, usual_values()));
    }
    for (status, values) in Status::OURS.into_iter().zip(given) {
        let is_needed = status.is_pending() || status == Status::Success && !deletes;
        if is_needed && values.is_none() {
            let name = status.name();
            let part = name.to_ascii_lowercase();
            return Err(usage(format!(
                "the values of {column} for {name} are missing: set status.{part} too"
            )));
        }
    }
    if given.iter().flatten().flatten().any(|text| text == OPEN) {
        return Err(usage(format!("status: {OPEN_QUESTION}")));
    }
    // The type of the column decides about the form of a number.
    let value = |text: &String| match braced(text) {
        Some("null") => Cell::Null,
        _ => parse_integer(text).map_or_else(|| Cell::Text(text.clone()), Cell::Integer),
    };
    let values: StatusValues =
        given.each_ref().map(|texts| texts.iter().flatten().map(value).collect());
    let [new, error, success, archived] = &values;
    if let Some(value) = success.iter().find(|value| archived.contains(value)) {
        let value = value.literal();
        return Err(usage(format!("status: {value} cannot mean both SUCCESS and ARCHIVED")));
    }
    let mut ended = success.iter().chain(archived);
    if let Some(value) = ended.find(|value| new.contains(value) || error.contains(value)) {
        let value = value.literal();
        return Err(usage(format!(
            "status: {value} cannot mean both pending (NEW, ERROR) and finished (SUCCESS, ARCHIVED)"
        )));
    }
    Ok(StatusColumn::Mapped(column, values))
}

//! The user's table: its columns as the mapping names them, and how a row becomes a record.

use anyhow::{Context, Result, bail, ensure};
use rusqlite::Connection;

use super::column::Column;
use super::query;
use super::statuses::Statuses;
use crate::date::{Dates, Spelling};
use crate::instant::Instant;
use crate::mapping::{Assigned, Mapping, Name, OnSuccess};
use crate::record::{Id, Record, Row, Status, Value};

/// A table that was found to have what the mapping says. Names are spelt as the table spells them.
pub struct Table {
    pub name: String,
    /// All of them, as the table has them.
    pub columns: Vec<Column>,
    pub id: Vec<Column>,
    pub statuses: Statuses,
    pub inserted: Column,
    pub dates: Dates,
    /// How the dates other than that of insertion are read.
    pub other_dates: Dates,
    pub failures: Option<Column>,
    pub last_failure: Option<Column>,
    pub last_error: Option<Column>,
    /// What holds for the rows of the queue, and for no others.
    pub condition: Option<String>,
    /// Where `add` puts what it is given.
    pub payload: Option<Column>,
    pub on_success: Effects,
    pub on_failure: Vec<Effect>,
    pub on_archive: Vec<Effect>,
}

/// What a success does to a row, besides its status.
pub enum Effects {
    Set(Vec<Effect>),
    Delete,
}

/// A column to be set.
pub struct Effect {
    pub column: Column,
    pub to: Assigned,
}

/// Columns are looked for under their usual names or those that the user gave.
struct Finder<'a> {
    table: &'a str,
    columns: &'a [Column],
}

impl Finder<'_> {
    fn optional(&self, name: &str) -> Option<Column> {
        self.columns.iter().find(|column| column.name.eq_ignore_ascii_case(name)).cloned()
    }

    fn required(&self, name: &str) -> Result<Column> {
        self.optional(name).with_context(|| {
            let names: Vec<_> = self.columns.iter().map(|column| column.name.as_str()).collect();
            format!("table {} has no column {name}; it has {}", self.table, names.join(", "))
        })
    }

    /// What is just usual need not be there.
    fn named(&self, name: &Name) -> Result<Option<Column>> {
        if name.is_given {
            self.required(&name.text).map(Some)
        } else {
            Ok(self.optional(&name.text))
        }
    }

    fn effects(&self, key: &str, mapping: &[crate::mapping::Assignment]) -> Result<Vec<Effect>> {
        let effect = |assignment: &crate::mapping::Assignment| {
            let column = self.required(&assignment.column).with_context(|| key.to_string())?;
            ensure!(!column.is_generated, "{key}: {} is computed by the table", column.name);
            Ok(Effect { column, to: assignment.to.clone() })
        };
        mapping.iter().map(effect).collect()
    }
}

impl Table {
    /// Looks the table up. An error names what is missing and what there is.
    pub fn find(connection: &Connection, mapping: &Mapping) -> Result<Self> {
        let found = named(connection, &mapping.table.text)?;
        let columns = Column::all(connection, &found.name)?;
        let finder = Finder { table: &found.name, columns: &columns };
        let id: Vec<_> =
            mapping.id.iter().map(|name| finder.required(&name.text)).collect::<Result<_>>()?;
        let statuses =
            Statuses::find(mapping, |name| finder.optional(name), |name| finder.required(name))?;
        let mut inserted = finder.required(&mapping.inserted.text)?;
        let dates = mapping.dates.clone();
        let samples = inserted.samples(connection, &found)?;
        let dated = samples.iter().find_map(|value| Spelling::of(value, &dates));
        if let (None, true, Some(value)) =
            (&dated, mapping.inserted.is_given, samples.iter().find(|value| !is_never(value)))
        {
            bail!(
                "column {} of table {} holds no date{}, but {}",
                inserted.name,
                found.name,
                dates.format.map_or(String::new(), |format| format!(" in format {format}")),
                value.shown()
            );
        }
        if let Some(spelling) = dated {
            inserted.spelling = spelling;
        }
        let others = Dates { format: None, zone: dates.zone.clone() };
        let spell = |mut column: Column| -> Result<Column> {
            let samples = column.samples(connection, &found)?;
            match samples.iter().find_map(|value| Spelling::of(value, &others)) {
                Some(spelling) => column.spelling = spelling,
                // The table's own way, where the type does not speak against it.
                None if inserted.spelling.is_text() == column.spelling.is_text() => {
                    column.spelling = inserted.spelling.clone();
                }
                None => {}
            }
            Ok(column)
        };
        let last_failure = finder.named(&mapping.last_failure)?.map(spell).transpose()?;
        let effects = |key: &str, assignments: &[_]| -> Result<Vec<Effect>> {
            let mut effects = finder.effects(key, assignments)?;
            for effect in &mut effects {
                let is = |column: &Column| column.name == effect.column.name;
                let column = &effect.column.name;
                ensure!(!id.iter().any(is), "{key} must not set {column}: it is the record's id");
                ensure!(
                    !statuses.column.as_ref().is_some_and(is),
                    "{key} must not set {column}: it holds the status"
                );
                if effect.to == Assigned::Now {
                    effect.column = spell(effect.column.clone())?;
                }
            }
            Ok(effects)
        };
        let on_success = match &mapping.on_success {
            OnSuccess::Set(assignments) => Effects::Set(effects("on_success", assignments)?),
            OnSuccess::Delete => Effects::Delete,
        };
        let payload = match &mapping.payload {
            Some(name) => Some(finder.required(name)?),
            None => finder.optional("PAYLOAD"),
        };
        let table = Self {
            on_failure: effects("on_failure", &mapping.on_failure)?,
            on_archive: effects("on_archive", &mapping.on_archive)?,
            failures: finder.named(&mapping.failures)?,
            last_error: finder.named(&mapping.last_error)?,
            condition: query::conjunction(&mapping.conditions),
            name: found.name.clone(),
            columns: columns.clone(),
            id,
            statuses,
            inserted,
            dates,
            other_dates: others,
            last_failure,
            payload,
            on_success,
        };
        for column in table.counter_columns() {
            ensure!(
                column.name != table.inserted.name,
                "column {} is the insertion date, and cannot be written as well",
                column.name
            );
        }
        for condition in &mapping.conditions {
            query::check_condition(connection, &table.name, condition)?;
        }
        Ok(table)
    }

    /// Whether attempts can be counted.
    pub fn has_counter(&self) -> bool {
        self.failures.is_some()
    }

    /// The columns that a settlement writes besides the status.
    pub fn counter_columns(&self) -> impl Iterator<Item = &Column> {
        [&self.failures, &self.last_failure, &self.last_error].into_iter().flatten()
    }

    /// A row as a record; the error says why it cannot be one.
    pub fn record(&self, row: Row, in_queue: bool) -> Result<Record, String> {
        let of = |column: &Column| row.get(&column.name);
        let optional = |column: &Option<Column>| column.as_ref().and_then(of);
        let parts = self.id.iter().map(|column| {
            let value = of(column).unwrap_or(&Value::Null);
            id(value).map_err(|_| {
                let (name, found) = (&column.name, value.shown());
                format!("a record is left out, because its {name} is {found}")
            })
        });
        let id = composed(parts.collect::<Result<_, _>>()?);
        let inserted = of(&self.inserted).cloned().unwrap_or(Value::Null);
        let raw = self.statuses.column.as_ref().and_then(of);
        let inserted_at = self.dates.read(&inserted);
        let failures = optional(&self.failures).map(count);
        let last_failure = optional(&self.last_failure).map(|value| self.other_dates.read(value));
        let failed = has_failed(failures, last_failure, inserted_at);
        let (status, status_text) = self.statuses.of(raw, in_queue, failed);
        Ok(Record {
            id,
            status,
            status_text,
            inserted_at,
            inserted,
            failures: failures.unwrap_or(0),
            last_failure_at: last_failure.flatten(),
            last_error: optional(&self.last_error)
                .filter(|value| **value != Value::Null)
                .map(Value::to_string),
            row,
        })
    }

    /// A status as it is written, `STATUS = 'ERROR'`.
    pub fn shown(&self, status: Status) -> String {
        match (&self.statuses.column, self.statuses.value(status)) {
            (Some(column), Some(value)) => format!("{} = {}", column.name, value.shown()),
            _ => status.name().into(),
        }
    }

    /// Whether a status can be written.
    pub fn can_be(&self, status: Status) -> bool {
        self.statuses.value(status).is_some()
            || match status {
                Status::New | Status::Error => true,
                Status::Success => !self.on_success.is_empty(),
                Status::Archived => !self.on_archive.is_empty(),
                Status::Foreign => false,
            }
    }
}

impl Effects {
    fn is_empty(&self) -> bool {
        matches!(self, Self::Set(effects) if effects.is_empty())
    }
}

/// Whether an attempt has failed or was put off; `None` if there is no column that tells. A last
/// failure that is no later than the insertion is what an application wrote with the row.
pub fn has_failed(
    failures: Option<u32>,
    last_failure: Option<Option<Instant>>,
    inserted_at: Option<Instant>,
) -> Option<bool> {
    let dated = last_failure.map(|at| at.is_some() && at > inserted_at);
    match (failures, dated) {
        (None, None) => None,
        (failures, dated) => Some(failures > Some(0) || dated == Some(true)),
    }
}

/// A table as the database lists it.
pub struct Listed {
    pub name: String,
    pub has_row_numbers: bool,
}

fn named(connection: &Connection, name: &str) -> Result<Listed> {
    let found: Vec<(String, String, bool)> = connection
        .prepare("SELECT name, type, wr FROM pragma_table_list WHERE schema = 'main'")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let listed = found.iter().find(|(found, _, _)| found.eq_ignore_ascii_case(name));
    let Some((name, kind, without_row_numbers)) = listed else {
        let others: Vec<_> = found
            .iter()
            .filter(|(name, kind, _)| kind == "table" && !name.starts_with("sqlite_"))
            .map(|(name, _, _)| name.as_str())
            .collect();
        let others = if others.is_empty() { "none".into() } else { others.join(", ") };
        bail!("no table {name:?}; tables here: {others}");
    };
    if kind == "view" {
        bail!("{name} is a view; name the table behind it");
    }
    Ok(Listed { name: name.clone(), has_row_numbers: !without_row_numbers })
}

/// One column's part of an id; the error says what cannot be one.
pub fn id(value: &Value) -> Result<Id, &'static str> {
    match value {
        Value::Integer(id) => Ok(Id::Integer(*id)),
        Value::Text(id) => Ok(Id::Text(id.as_str().into())),
        Value::Null => Err("NULL"),
        Value::Real(_) => Err("a Real; ids are integers or text"),
        Value::Blob(_) => Err("a Blob; ids are integers or text"),
    }
}

pub fn composed(mut parts: Vec<Id>) -> Id {
    match parts.len() {
        1 => parts.remove(0),
        _ => Id::Composite(parts.into()),
    }
}

/// What stands for no date at all.
fn is_never(value: &Value) -> bool {
    match value {
        Value::Null | Value::Integer(0) => true,
        Value::Text(text) => text.is_empty() || text.starts_with("0000-00-00"),
        Value::Integer(_) | Value::Real(_) | Value::Blob(_) => false,
    }
}

/// A count of failures, as the column holds it; what is no number counts as none.
pub fn count(value: &Value) -> u32 {
    let count = match value {
        Value::Integer(count) => *count,
        #[expect(clippy::cast_possible_truncation, reason = "SQL's CAST saturates as well")]
        Value::Real(count) => *count as i64,
        Value::Null | Value::Text(_) | Value::Blob(_) => 0,
    };
    u32::try_from(count.max(0)).unwrap_or(u32::MAX)
}

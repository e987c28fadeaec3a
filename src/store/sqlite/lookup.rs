//! From the names that the user gave to the table and the columns that there are.

use std::collections::HashSet;

use anyhow::{Context, Result, anyhow, bail, ensure};
use rusqlite::Connection;

use super::column::Column;
use super::condition;
use super::sql::{quote, value};
use super::statuses::Statuses;
use super::table::{Effect, Effects, Table};
use crate::date::{Dates, Spelling};
use crate::mapping::{
    Assigned, Assignment, Mapping, Name, OnSuccess, STATUS, StatusColumn, StatusValues,
    usual_values,
};
use crate::record::Value;

/// How many of the newest rows are looked at to see how a column spells instants.
const SAMPLES: u32 = 8;
/// Where `add` puts what it is given, unless another column is named.
const PAYLOAD: &str = "PAYLOAD";

/// One table of the database.
struct Lookup<'a> {
    connection: &'a Connection,
    table: String,
    has_row_numbers: bool,
    columns: Vec<Column>,
}

impl Table {
    /// Looks the table up. An error names what is missing and what there is.
    pub fn find(connection: &mut Connection, mapping: &Mapping) -> Result<Self> {
        let table = find(connection, mapping)?;
        check_roles(&table)?;
        let mut read = HashSet::new();
        for condition in &mapping.conditions {
            read.extend(condition::check(connection, &table.name, condition)?);
        }
        let condition_columns = table.columns.iter().filter(|it| read.contains(&it.name));
        Ok(Self { condition_columns: condition_columns.cloned().collect(), ..table })
    }
}

/// The table with its columns, the conditions as yet unseen.
fn find(connection: &Connection, mapping: &Mapping) -> Result<Table> {
    let lookup = Lookup::new(connection, &mapping.table.text)?;
    let id = mapping.id.iter().map(|name| lookup.expected(name, "--id-column"));
    let id: Vec<_> = id.collect::<Result<_>>()?;
    let statuses = lookup.statuses(mapping)?;
    let inserted = lookup.inserted(mapping)?;
    let other_dates = Dates { format: None, zone: mapping.dates.zone.clone() };
    let spelt = |column: Column| lookup.spelt(column, &inserted.spelling, &other_dates);
    let last_failure = |column: Column| {
        let usual = column.spelling.clone();
        let mut column = spelt(column)?;
        // What is written there is read again, to the second.
        if !column.spelling.reads_back(&other_dates) {
            column.spelling = usual;
        }
        Ok::<_, anyhow::Error>(column)
    };
    let effects = |key: &str, assignments: &[Assignment]| -> Result<Vec<Effect>> {
        let mut effects = lookup.effects(key, assignments)?;
        for Effect { column, to } in &mut effects {
            if *to == Assigned::Now {
                *column = spelt(column.clone())?;
            }
        }
        Ok(effects)
    };
    Ok(Table {
        failures: lookup.named(&mapping.failures)?,
        last_failure: lookup.named(&mapping.last_failure)?.map(last_failure).transpose()?,
        last_error: lookup.named(&mapping.last_error)?,
        condition: condition::conjunction(&mapping.conditions),
        condition_columns: Vec::new(),
        payload: match &mapping.payload {
            Some(name) => Some(lookup.required(name)?),
            None => lookup.optional(PAYLOAD),
        },
        on_success: match &mapping.on_success {
            OnSuccess::Set(assignments) => Effects::Set(effects("on_success", assignments)?),
            OnSuccess::Delete => Effects::Delete,
        },
        on_failure: effects("on_failure", &mapping.on_failure)?,
        on_archive: effects("on_archive", &mapping.on_archive)?,
        dates: mapping.dates.clone(),
        id,
        statuses,
        inserted,
        other_dates,
        name: lookup.table,
        columns: lookup.columns,
    })
}

impl<'a> Lookup<'a> {
    fn new(connection: &'a Connection, name: &str) -> Result<Self> {
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
        let columns = Column::all(connection, name)?;
        Ok(Self { connection, table: name.clone(), has_row_numbers: !without_row_numbers, columns })
    }

    fn optional(&self, name: &str) -> Option<Column> {
        self.columns.iter().find(|column| column.name.eq_ignore_ascii_case(name)).cloned()
    }

    fn required(&self, name: &str) -> Result<Column> {
        self.optional(name).with_context(|| {
            let names: Vec<_> = self.columns.iter().map(|column| column.name.as_str()).collect();
            format!("table {} has no column {name}; it has {}", self.table, names.join(", "))
        })
    }

    /// What is just usual may have to be said; `how` says by what.
    fn expected(&self, name: &Name, how: &str) -> Result<Column> {
        let found = self.required(&name.text);
        if name.is_given {
            return found;
        }
        found.map_err(|error| anyhow!("{error}; say which with {how}"))
    }

    /// What is just usual need not be there.
    fn named(&self, name: &Name) -> Result<Option<Column>> {
        if name.is_given {
            self.required(&name.text).map(Some)
        } else {
            Ok(self.optional(&name.text))
        }
    }

    fn statuses(&self, mapping: &Mapping) -> Result<Statuses> {
        let by_condition = || Statuses::new(None, StatusValues::default());
        match &mapping.status {
            StatusColumn::None => by_condition(),
            StatusColumn::Mapped { column, values } => {
                Statuses::new(Some(self.required(&column.text)?), values.clone())
            }
            StatusColumn::Usual => match self.optional(STATUS) {
                None if !mapping.conditions.is_empty() => by_condition(),
                Some(column) => Statuses::new(Some(column), usual_values()),
                None => {
                    let how = "--status-column, or with --where what is pending";
                    let column = self.expected(&Name::usual(STATUS), how)?;
                    Statuses::new(Some(column), usual_values())
                }
            },
        }
    }

    /// The insertion date, in the spelling of the newest rows. If the user says which column that
    /// is, it must hold dates.
    fn inserted(&self, mapping: &Mapping) -> Result<Column> {
        let mut column = self.expected(&mapping.inserted, "--date-column")?;
        let samples = self.samples(&column)?;
        let spelling = samples.iter().find_map(|value| Spelling::of(value, &mapping.dates));
        let other = samples.iter().find(|value| !is_never(value));
        match (spelling, other) {
            (Some(spelling), _) => column.spelling = spelling,
            (None, Some(value)) if mapping.inserted.is_given => {
                let format = mapping.dates.format;
                let format = format.map_or(String::new(), |format| format!(" in format {format}"));
                let (column, table, value) = (&column.name, &self.table, value.shown());
                bail!("column {column} of table {table} holds no date{format}, but {value}");
            }
            (None, _) => {}
        }
        Ok(column)
    }

    /// A column that holds instants, in the spelling of the newest rows, or else in that of the
    /// insertion date, if its type does not speak against it.
    fn spelt(&self, mut column: Column, inserted: &Spelling, dates: &Dates) -> Result<Column> {
        let samples = self.samples(&column)?;
        match samples.iter().find_map(|value| Spelling::of(value, dates)) {
            Some(spelling) => column.spelling = spelling,
            None if inserted.is_text() == column.spelling.is_text() => {
                column.spelling = inserted.clone();
            }
            None => {}
        }
        Ok(column)
    }

    /// Values of the newest rows.
    fn samples(&self, column: &Column) -> Result<Vec<Value>> {
        let (column, table) = (quote(&column.name), quote(&self.table));
        let newest = if self.has_row_numbers { "ORDER BY rowid DESC" } else { "" };
        let sql = format!("SELECT {column} FROM {table} {newest} LIMIT {SAMPLES}");
        let mut statement = self.connection.prepare(&sql)?;
        let values = statement.query_map([], |row| Ok(value(row.get_ref(0)?)))?;
        Ok(values.collect::<rusqlite::Result<_>>()?)
    }

    fn effects(&self, key: &str, assignments: &[Assignment]) -> Result<Vec<Effect>> {
        let effect = |assignment: &Assignment| {
            let column = self.required(&assignment.column).with_context(|| key.to_string())?;
            Ok(Effect { column, to: assignment.to.clone() })
        };
        assignments.iter().map(effect).collect()
    }
}

/// Makes sure that no column is written that must stay as it is, and none for two reasons.
fn check_roles(table: &Table) -> Result<()> {
    let kept = table.id.iter().map(|column| ("the record's id", column));
    let kept: Vec<_> = kept.chain([("the insertion date", &table.inserted)]).collect();
    let written = [
        ("the status", table.statuses.column.as_ref()),
        ("the count of failures", table.failures.as_ref()),
        ("the last failure", table.last_failure.as_ref()),
        ("the last error", table.last_error.as_ref()),
    ];
    let written = written.map(|(role, column)| column.map(|column| (role, column)));
    let mut taken = kept.clone();
    for (role, column) in written.into_iter().flatten() {
        if let Some((other, _)) = taken.iter().find(|(_, it)| it.name == column.name) {
            bail!("column {} cannot be {role} as well: it is {other}", column.name);
        }
        taken.push((role, column));
    }
    for (key, effects) in [
        ("on_success", table.on_success.set()),
        ("on_failure", &table.on_failure),
        ("on_archive", &table.on_archive),
    ] {
        for Effect { column, to } in effects {
            let counters = [&table.failures, &table.last_failure].into_iter().flatten();
            let is_counted = counters.into_iter().any(|it| it.name == column.name);
            let is_twice = key == "on_failure" || matches!(to, Assigned::Add(_));
            ensure!(
                !(is_counted && is_twice),
                "{key} cannot set {}: it is counted already",
                column.name
            );
            ensure!(
                !column.is_generated,
                "{key} cannot set {}: the table computes it",
                column.name
            );
            let status = table.statuses.column.iter().map(|column| ("the status", column));
            let mut not_to_be_set = kept.iter().copied().chain(status);
            if let Some((role, _)) = not_to_be_set.find(|(_, it)| it.name == column.name) {
                bail!("{key} cannot set {}: it is {role}", column.name);
            }
        }
    }
    Ok(())
}

/// What stands for no date at all.
fn is_never(value: &Value) -> bool {
    match value {
        Value::Null | Value::Integer(0) => true,
        Value::Text(text) => text.is_empty() || text.starts_with("0000-00-00"),
        Value::Integer(_) | Value::Real(_) | Value::Blob(_) => false,
    }
}

//! The mapping of the table, from the options and backlog.toml.

use std::fs;
use std::path::Path;

use crate::cli::{self, Several};
use crate::date::{Dates, Zone};
use crate::exit::{ExitError, usage};
use crate::mapping::{Mapping, Name, OnSuccess, STATUS, StatusColumn, StatusValues, usual_values};
use crate::record::{self, Status, Value};

use super::section::Section;

pub fn mapping(options: cli::Table, section: &Section) -> Result<Mapping, ExitError> {
    let usual = Mapping::default();
    let name = |given: Option<String>, usual: Name| given.map_or(usual, Name::given);
    let on_success = section.on_success.clone().unwrap_or(usual.on_success);
    let mapping = Mapping {
        status: status(
            [options.new, options.error, options.success, options.archived],
            options.status_column,
            options.no_status_column,
            matches!(on_success, OnSuccess::Delete),
        )?,
        table: name(options.table, usual.table),
        id: match options.id_column {
            Some(Several(columns)) => columns.into_iter().map(Name::given).collect(),
            None => usual.id,
        },
        inserted: name(options.date_column, usual.inserted),
        dates: Dates {
            format: options.date_format,
            zone: options.zone.as_deref().map_or(Ok(Zone::UTC), zone)?,
        },
        failures: name(options.failures_column, usual.failures),
        last_failure: name(options.last_failure_column, usual.last_failure),
        last_error: name(options.last_error_column, usual.last_error),
        // What is typed narrows what is described, and never widens it.
        conditions: section.conditions.iter().cloned().chain(options.condition).collect(),
        payload: options.payload_column,
        on_success,
        on_failure: section.on_failure.clone().unwrap_or_default(),
        on_archive: section.on_archive.clone().unwrap_or_default(),
    };
    if matches!(mapping.status, StatusColumn::None) && mapping.conditions.is_empty() {
        return Err(usage("without a status column, say with --where which rows are pending"));
    }
    Ok(mapping)
}

/// Where the system keeps the rules of its time zones.
const ZONES: &str = "/usr/share/zoneinfo";

fn zone(text: &str) -> Result<Zone, ExitError> {
    let is_part = |part: &str| {
        let is_of_a_name = |c: char| c.is_ascii_alphanumeric() || ['_', '+', '-'].contains(&c);
        !part.is_empty() && part.chars().all(is_of_a_name)
    };
    let named = || {
        let is_name = text.split('/').all(is_part);
        let file = is_name.then(|| fs::read(Path::new(ZONES).join(text)).ok()).flatten()?;
        Zone::from_rules(&file)
    };
    Zone::fixed(text).or_else(named).ok_or_else(|| {
        usage(format!(
            "{text:?} is no time zone of this system; write UTC, +02:00 or a name such as \
             Europe/Berlin (which package tzdata knows)"
        ))
    })
}

fn status(
    given: [Option<Several>; 4],
    column: Option<String>,
    none: bool,
    deletes: bool,
) -> Result<StatusColumn, ExitError> {
    if none {
        return Ok(StatusColumn::None);
    }
    if column.is_none() && given.iter().all(Option::is_none) {
        return Ok(StatusColumn::Usual);
    }
    let column = column.map_or(Name::usual(STATUS), Name::given);
    if given.iter().all(Option::is_none) {
        return Ok(StatusColumn::Mapped { column, values: usual_values() });
    }
    let options = ["--new", "--error", "--success", "--archived"];
    for (index, option) in options.into_iter().enumerate() {
        let is_needed = match Status::OURS[index] {
            Status::New | Status::Error => true,
            Status::Success => !deletes,
            Status::Archived | Status::Foreign => false,
        };
        if is_needed && given[index].is_none() {
            return Err(usage(format!(
                "some values of {} are given, but not those for {}: say {option} as well",
                column.text,
                Status::OURS[index].name()
            )));
        }
    }
    let values: StatusValues = given.map(|values| {
        values.map_or_else(Vec::new, |Several(all)| all.iter().map(|it| value(it)).collect())
    });
    let [new, error, success, archived] = &values;
    if let Some(value) =
        success.iter().chain(archived).find(|value| new.contains(value) || error.contains(value))
    {
        return Err(usage(format!(
            "{} cannot mean both that a record is pending and that it is not",
            value.shown()
        )));
    }
    Ok(StatusColumn::Mapped { column, values })
}

/// A number if it is written as one, else text; the column has the last word.
fn value(text: &str) -> Value {
    record::number(text).map_or_else(|| Value::Text(text.into()), Value::Integer)
}

//! Lookup of mapped names among the tables and columns of a database.

use std::collections::HashSet;

use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use backlog_schedule::{Instant, Value, listed};

use super::{Column, ColumnType, Effect, Statuses, Table, joined};
use crate::clock::Clock;
use crate::date::{Dates, Format, Spelling, is_number, plausible};
use crate::mapping::{
    Assigned, Assignment, DATE_INSERTED, DateSource, LAST_FAILURE, Mapping, STATUS, StatusColumn,
    StatusValues, usual_values,
};
use crate::table::Dialect;

const PAYLOAD: &str = "PAYLOAD";

const READABLE: &str = "dates are read as 2026-11-21 03:40, 20261121034000 or seconds since 1970 \
                        (docs/tables.md#dates): name another column, or add a generated one in \
                        such a format";

/// Types without counts and dates, although a database may return their values as numbers or text.
const OTHER_TYPES: [&str; 4] = ["BOOL", "BOOLEAN", "JSON", "JSONB"];

pub trait Catalog {
    /// Finds a table by its name, in any case.
    fn table(&self, name: &str) -> Result<CatalogTable>;

    /// A few values from the newest rows of the table.
    fn samples(&self, table: &CatalogTable, column: &Column) -> Result<Vec<Value>>;

    /// A few values of numbers above 0 from more of them.
    fn more_samples(&self, _: &CatalogTable, _: &Column) -> Result<Vec<Value>> {
        Ok(Vec::new())
    }

    /// The smallest and the largest value. Without an index this reads the whole table.
    fn extremes(&self, _: &CatalogTable, _: &Column) -> Result<Vec<Value>> {
        Ok(Vec::new())
    }

    /// An SQL expression as a column; without an expression the column is always NULL.
    fn expression(&self, table: &CatalogTable, sql: Option<&str>) -> Result<Column>;

    /// Checks that an SQL expression is a condition, and returns the columns that it reads.
    fn condition_columns(&mut self, table: &Table, condition: &str) -> Result<HashSet<String>>;
}

/// A table of the database, before it is mapped.
pub struct CatalogTable {
    pub name: String,
    pub sql: String,
    pub dialect: &'static dyn Dialect,
    pub columns: Vec<Column>,
    /// The clause that orders rows from the newest on without an index, if there is one.
    pub newest: &'static str,
}

struct Lookup<'a> {
    catalog: &'a dyn Catalog,
    table: CatalogTable,
    now: Instant,
}

impl Table {
    /// Finds the table and its mapped columns. An error lists the names that exist.
    pub fn find(catalog: &mut dyn Catalog, mapping: &Mapping, clock: Clock) -> Result<Self> {
        let table = find(catalog, mapping, clock)?;
        check_roles(&table)?;
        if let Some((Column { name, .. }, _)) = &table.order {
            let is_written = table.written_columns().iter().any(|column| column.name == *name);
            ensure!(
                !is_written,
                "order: passes change {name}, so a record could miss its turn each time; name a column that they \
                 do not change"
            );
        }
        let mut read = HashSet::new();
        for condition in mapping.conditions.iter().chain(&mapping.archived) {
            ensure!(!condition.trim().is_empty(), "the condition is empty; remove it");
            read.extend(catalog.condition_columns(&table, condition)?);
        }
        if let DateSource::Expression(sql) = &mapping.inserted {
            let columns = catalog.condition_columns(&table, &format!("({sql}\n) IS NOT NULL"));
            read.extend(columns.context("date_inserted.sql")?);
        }
        let condition_columns = table.columns.iter().filter(|column| read.contains(&column.name));
        Ok(Self { condition_columns: condition_columns.cloned().collect(), ..table })
    }
}

/// `no table "order"; tables here: mails, orders`
pub fn missing(what: &str, name: &str, others: &[&str]) -> String {
    let others = if others.is_empty() { "none".into() } else { listed(others.iter().copied()) };
    format!("no {what} {name:?}; {what}s here: {others}")
}

pub fn naming(key: &str) -> String {
    format!("set {key} = \"COLUMN\" in backlog.toml, or pass --set {key}=COLUMN")
}

/// The table with its mapped columns. The columns of its conditions are still missing.
fn find(catalog: &dyn Catalog, mapping: &Mapping, clock: Clock) -> Result<Table> {
    let table = catalog.table(mapping.table_name())?;
    let lookup = Lookup { catalog, table, now: clock.now() };
    let id = match &mapping.id[..] {
        [] => vec![lookup.usual("ID", "id", "")?],
        given => given.iter().map(|name| lookup.required(name)).collect::<Result<_>>()?,
    };
    let statuses = lookup.statuses(mapping)?;
    let inserted = lookup.inserted(mapping)?;
    let formats = DateFormats::new(mapping, &inserted, lookup.now);
    let effects =
        |key, assignments| lookup.effects(key, assignments, &inserted.spelling, &formats.others);
    let failures = lookup.named(mapping.failures.as_deref(), "FAILURES")?;
    let last_failure = lookup.named(mapping.last_failure.as_deref(), LAST_FAILURE)?;
    let spelled = |column| lookup.exactly_spelled(column, &inserted.spelling, &formats.failures);
    let last_failure = last_failure.map(spelled).transpose()?;
    let on_failure = effects("on_failure", &mapping.on_failure)?;
    let due_at = due_column(&on_failure)?;
    let counters = [failures.as_ref(), last_failure.as_ref()];
    let last_error = lookup.last_error(mapping)?;
    let written = (due_at.as_ref(), last_error.as_ref());
    let complaints = lookup.complaints(mapping, &formats, &inserted, written, counters)?;
    let required = |key, name: &Option<String>| {
        name.as_ref().map(|name| lookup.required(name).context(key)).transpose()
    };
    // A line of its own ends a comment in a condition.
    let conditions = mapping.conditions.iter().map(|condition| format!("({condition}\n)"));
    let conditions = joined(conditions, " AND ");
    let order = mapping.order.as_ref().map(|(name, order)| Ok((lookup.required(name)?, *order)));
    let order: Option<Result<_>> = order;
    Ok(Table {
        order: order.transpose().context("order")?,
        complaints,
        failures,
        last_failure,
        last_error,
        max_attempts: required("max_attempts", &mapping.max_attempts)?,
        counts_attempts: mapping.counts_attempts,
        due_at,
        keeps_schedule: false,
        archived: mapping.archived.clone(),
        is_undated: mapping.inserted == DateSource::None,
        condition: Some(conditions).filter(|all| !all.is_empty()),
        condition_columns: Vec::new(),
        payload: match &mapping.payload {
            Some(name) => Some(lookup.required(name)?),
            None => lookup.optional(PAYLOAD),
        },
        on_success: effects("on_success", &mapping.on_success)?,
        deletes_succeeded: mapping.deletes_succeeded,
        on_failure,
        on_archive: effects("on_archive", &mapping.on_archive)?,
        on_restore: effects("on_restore", &mapping.on_restore)?,
        dates: formats.inserted,
        id,
        statuses,
        inserted,
        other_dates: formats.others,
        failure_dates: formats.failures,
        clock,
        name: lookup.table.name,
        sql: lookup.table.sql,
        dialect: lookup.table.dialect,
        columns: lookup.table.columns,
    })
}

struct DateFormats {
    inserted: Dates,
    failures: Dates,
    others: Dates,
}

impl DateFormats {
    fn new(mapping: &Mapping, inserted: &Column, now: Instant) -> Self {
        // The database itself reads the dates of a date type.
        let is_typed = matches!(inserted.column_type, ColumnType::Instant | ColumnType::LocalTime);
        let format = mapping.dates.format.filter(|_| !is_typed);
        let dates = Dates { format: None, numbers: None, ..mapping.dates.clone() };
        let finished_format = mapping.finished.as_ref().and_then(|(_, format)| *format);
        let named = [format, mapping.last_failure_format, finished_format].into_iter().flatten();
        let numbers = named.into_iter().find(|format| Format::NAMED_ONLY.contains(format));
        let others = Dates { numbers, ..dates.clone() };
        let failures = match mapping.last_failure_format {
            None => others.clone(),
            format => Dates { format, ..dates.clone() },
        };
        let usual = Some((inserted.spelling.format(), plausible(now)));
        Self { inserted: Dates { format, usual, ..dates }, failures, others }
    }
}

fn due_column(on_failure: &[Effect]) -> Result<Option<Column>> {
    let mut due = on_failure.iter().filter(|effect| effect.to == Assigned::Next);
    let (first, second) = (due.next(), due.next());
    ensure!(second.is_none(), "on_failure sets two columns to {{next}}; set only one");
    Ok(first.map(|effect| effect.column.clone()))
}

impl Lookup<'_> {
    /// A column whose written dates are read back to the second.
    fn exactly_spelled(
        &self,
        column: Column,
        inserted: &Spelling,
        dates: &Dates,
    ) -> Result<Column> {
        let usual = column.spelling.clone();
        let mut column = self.spelled(column, inserted, dates)?;
        if !column.spelling.reads_back(dates) {
            let named = Spelling::named(dates, usual.is_text());
            column.spelling = named.filter(|spelling| spelling.reads_back(dates)).unwrap_or(usual);
        }
        Ok(column)
    }

    fn effects(
        &self,
        key: &'static str,
        assignments: &[Assignment],
        inserted: &Spelling,
        dates: &Dates,
    ) -> Result<Vec<Effect>> {
        let effect = |Assignment { column, to }: &Assignment| {
            let column = self.required(column).context(key)?;
            let column = match to {
                Assigned::Now => self.spelled(column, inserted, dates)?,
                Assigned::Next => self.exactly_spelled(column, inserted, dates)?,
                Assigned::Constant(_) | Assigned::Error | Assigned::Add(_) => column,
            };
            if *to == Assigned::Next {
                ensure!(
                    key == "on_failure",
                    "{key} cannot set {} to {{next}}: only a failure has a next attempt \
                     (on_failure)",
                    column.name
                );
                self.require_dates(&column, dates).context(key)?;
            }
            if *to == Assigned::Error
                && let Some(complaint) = self.holds_no_text(&column)?
            {
                bail!("{key}: {complaint}");
            }
            Ok(Effect { column, to: to.clone() })
        };
        assignments.iter().map(effect).collect()
    }

    fn optional(&self, name: &str) -> Option<Column> {
        let columns = || self.table.columns.iter();
        let exact = |name: &str| columns().find(|column| column.name == name);
        // Of two names that differ only in case, the one that needs no quotes.
        let found = exact(name).or_else(|| exact(&name.to_lowercase()));
        found.or_else(|| columns().find(|column| column.name.eq_ignore_ascii_case(name))).cloned()
    }

    fn required(&self, name: &str) -> Result<Column> {
        self.optional(name).with_context(|| {
            let CatalogTable { name: table, columns, .. } = &self.table;
            let names = columns.iter().map(|column| column.name.as_str());
            format!("table {table} has no column {name}; it has {}", listed(names))
        })
    }

    /// A column with its usual name. The error explains how to name another one with `key`; `alternative` ends it.
    fn usual(&self, name: &str, key: &str, alternative: &str) -> Result<Column> {
        let how = naming(key);
        self.required(name).map_err(|error| anyhow!("{error}; {how}{alternative}"))
    }

    /// A column that may be missing, unless the user names it. An empty name means no column.
    fn named(&self, given: Option<&str>, usual: &str) -> Result<Option<Column>> {
        match given {
            None => Ok(self.optional(usual)),
            Some("") => Ok(None),
            Some(given) => self.required(given).map(Some),
        }
    }

    fn statuses(&self, mapping: &Mapping) -> Result<Statuses> {
        let by_condition = || Statuses::new(None, StatusValues::default());
        match &mapping.status {
            StatusColumn::None => by_condition(),
            StatusColumn::Mapped(column, values) => {
                Statuses::new(Some(self.required(column)?), values.clone())
            }
            StatusColumn::Usual => {
                let alternative = ", or pass --where with a condition for pending rows";
                match self.usual(STATUS, "status", alternative) {
                    Err(_) if !mapping.conditions.is_empty() => by_condition(),
                    found => Statuses::new(Some(found?), usual_values()),
                }
            }
        }
    }

    /// The insertion date, with the spelling of the newest rows. A column that the user names must hold dates.
    fn inserted(&self, mapping: &Mapping) -> Result<Column> {
        let (mut column, is_given) = match &mapping.inserted {
            DateSource::Usual => (self.usual(DATE_INSERTED, "date_inserted", "")?, false),
            DateSource::Column(name) => (self.required(name)?, true),
            DateSource::Expression(sql) => {
                let column = self.catalog.expression(&self.table, Some(sql));
                (column.context("date_inserted.sql")?, true)
            }
            DateSource::None => return self.catalog.expression(&self.table, None),
        };
        let what = format!("column {} of table {}", column.name, self.table.name);
        ensure!(
            column.column_type.can_be_date(),
            "{what} holds no date: it is {}",
            column.declared
        );
        let samples = self.catalog.samples(&self.table, &column)?;
        let spelling = self.usual_spelling(&samples, &mapping.dates);
        let other = samples.iter().find(|value| !is_never(value));
        if let Some(spelling) = spelling {
            column.spelling = spelling;
        } else if let Some(value) =
            other.filter(|value| is_given || mapping.dates.format.is_some() || is_digits(value))
        {
            let format = mapping.dates.format;
            let format = format.map_or(String::new(), |format| format!(" in format {format}"));
            let found = value.literal();
            // Digits in a column of text may have any format.
            if mapping.dates.format.is_none() && is_digits(value) {
                let key = mapping.finished_key.unwrap_or("date_inserted");
                let readings = Format::readable().filter_map(|format| {
                    let dates = Dates { format: Some(format), ..mapping.dates.clone() };
                    let at = dates.read(value).filter(|at| self.is_plausible(*at))?;
                    Some(format!("\"{format}\" (it would be {at})"))
                });
                let readings: Vec<_> = readings.collect();
                let formats =
                    if readings.is_empty() { "\"...\"".into() } else { readings.join(" or ") };
                bail!(
                    "{what} holds text of digits, {found}: set their format beside the column in {key}, \
                     format = {formats}"
                );
            }
            let mut others = mapping.dates.other_readings(value);
            if let Some((other, at)) = others.find(|(_, at)| self.is_plausible(*at)) {
                bail!(
                    "{what} holds no date{format}, but {found}, which as {other} is {at}: name that format"
                );
            }
            bail!("{what} holds no date{format}, but {found}; {READABLE}");
        }
        Ok(column)
    }

    fn last_error(&self, mapping: &Mapping) -> Result<Option<Column>> {
        let column = self.named(mapping.last_error.as_deref(), "LAST_ERROR")?;
        Ok(column.map(|column| {
            let limits = [column.max_chars, mapping.max_error_chars].into_iter().flatten();
            Column { max_chars: limits.min(), ..column }
        }))
    }

    /// The complaint about a column of errors that holds something else. SQLite would store text there all the same.
    fn holds_no_text(&self, column: &Column) -> Result<Option<String>> {
        let Column { name, column_type, .. } = column;
        let holds_numbers = || -> Result<bool> {
            let samples = self.catalog.samples(&self.table, column)?;
            let mut values = samples.iter().filter(|value| !value.is_null()).peekable();
            let is_number = |value: &Value| matches!(value, Value::Integer(_) | Value::Real(_));
            Ok(values.peek().is_some() && values.all(is_number))
        };
        let is_of_numbers = match column_type {
            ColumnType::Integer | ColumnType::Real | ColumnType::Decimal | ColumnType::Any => {
                holds_numbers()?
            }
            ColumnType::Text
            | ColumnType::Json
            | ColumnType::Boolean
            | ColumnType::Bytes
            | ColumnType::Instant
            | ColumnType::LocalTime => false,
        };
        let table = &self.table.name;
        Ok(is_of_numbers.then(|| {
            format!(
                "column {name} of table {table} holds numbers, which the text of an error would overwrite: name another \
                 one with --set last_error=COLUMN, or none with --set last_error="
            )
        }))
    }

    /// Fails if a column cannot hold due dates, or if none of its texts is a date.
    fn require_dates(&self, column: &Column, dates: &Dates) -> Result<()> {
        let Column { name, declared, column_type, .. } = column;
        let what = format!("column {name} of table {} cannot hold due dates", self.table.name);
        ensure!(column_type.can_be_date(), "{what}: it is {declared}");
        // A 4-byte number is exact only to minutes, and a date has no time.
        let is_rounded =
            declared == "real" || *column_type == ColumnType::LocalTime && declared == "date";
        let is_exact = column.spelling.reads_back(dates) && !is_rounded;
        ensure!(is_exact, "{what}: it is {declared}, which has no seconds");
        let samples = self.catalog.samples(&self.table, column)?;
        let is_text = |value: &&Value| matches!(value, Value::Text(_)) && !is_never(value);
        let mut dated = samples.iter().filter(is_text).peekable();
        let first = dated.peek().map(|value| value.literal());
        match first.filter(|_| dated.all(|value| dates.read(value).is_none())) {
            Some(value) => bail!("{what}: it holds {value}; {READABLE}"),
            None => Ok(()),
        }
    }

    /// A column of dates, with the spelling of the newest rows, or of the insertion date if its type allows that.
    fn spelled(&self, mut column: Column, inserted: &Spelling, dates: &Dates) -> Result<Column> {
        let samples = self.catalog.samples(&self.table, &column)?;
        // In SQLite a column of numbers also takes text, and one without a type takes anything.
        let takes_both = column.column_type == ColumnType::Decimal || column.declared.is_empty();
        let fits = (inserted.is_text() == column.spelling.is_text()
            || takes_both && !inserted.is_text())
            && !column.is_too_small_for(&inserted.example(&dates.zone));
        let own = self.usual_spelling(&samples, dates);
        if let Some(spelling) = own.or_else(|| fits.then(|| inserted.clone())) {
            column.spelling = spelling;
        }
        Ok(column)
    }

    fn complaints(
        &self,
        mapping: &Mapping,
        formats: &DateFormats,
        inserted: &Column,
        (due_at, last_error): (Option<&Column>, Option<&Column>),
        [failures, last_failure]: [Option<&Column>; 2],
    ) -> Result<Vec<String>> {
        let mut complaints = Vec::new();
        if let Some(column) = last_error {
            complaints.extend(self.holds_no_text(column)?);
        }
        let is_read = mapping.inserted != DateSource::None && formats.inserted.format.is_none();
        let has_format = mapping.last_failure_format.is_some();
        for (key, column, dates) in [
            (
                mapping.finished_key.unwrap_or("date_inserted"),
                Some(inserted).filter(|_| is_read),
                &mapping.dates,
            ),
            ("last_failure", last_failure.filter(|_| !has_format), &formats.failures),
            ("on_failure", due_at.filter(|_| !has_format), &formats.others),
        ] {
            if let Some(column) = column {
                complaints.extend(self.implausible(key, column, dates)?);
            }
        }
        for (is_count, given, column) in
            [(true, &mapping.failures, failures), (false, &mapping.last_failure, last_failure)]
        {
            if let Some(column) = column {
                let is_given = given.is_some();
                complaints.extend(self.unusable(is_count, is_given, column, &formats.failures)?);
            }
        }
        Ok(complaints)
    }

    /// The spelling of the newest plausible date, or of the newest date. One odd row does not decide it.
    fn usual_spelling(&self, samples: &[Value], dates: &Dates) -> Option<Spelling> {
        let is_plausible =
            |value: &&Value| dates.read(value).is_some_and(|at| self.is_plausible(at));
        let plausible = samples.iter().filter(is_plausible);
        plausible.chain(samples).find_map(|value| Spelling::of(value, dates))
    }

    fn is_plausible(&self, at: Instant) -> bool {
        plausible(self.now).contains(&at)
    }

    /// The complaint about a column of numbers, none of which is a plausible date.
    fn implausible(&self, key: &str, column: &Column, dates: &Dates) -> Result<Option<String>> {
        if column.spelling.is_text() || dates.numbers.is_some() {
            return Ok(None);
        }
        // A next attempt in the year 9999 means none.
        let is_plausible =
            |at: Instant| self.is_plausible(at) || key == "on_failure" && at > self.now;
        let read = |value: &Value| {
            let number = Some(value).filter(|value| !matches!(value, Value::Text(_)));
            number.and_then(|number| dates.read(number))
        };
        let has_plausible = |values: &[Value]| values.iter().filter_map(read).any(is_plausible);
        let mut samples = self.catalog.samples(&self.table, column)?;
        if samples.iter().all(is_never) {
            samples = self.catalog.more_samples(&self.table, column)?;
        }
        let first = samples.iter().find_map(|value| Some((value, read(value)?)));
        // A date of text settles it as well.
        let mut all = samples.iter().filter_map(|value| dates.read(value));
        let is_settled = all.any(is_plausible);
        let Some((value, at)) = first.filter(|_| !is_settled) else { return Ok(None) };
        // The samples may be old rows. Only a table that would be refused is read as a whole.
        if has_plausible(&self.catalog.extremes(&self.table, column)?) {
            return Ok(None);
        }
        let Some(spelling) = Spelling::of(value, dates) else { return Ok(None) };
        let format = spelling.format();
        let mut others = dates.other_readings(value).filter(|(_, at)| is_plausible(*at));
        let other = others
            .next()
            .map_or_else(String::new, |(other, at)| format!(" (as {other} it is {at})"));
        let (name, table, value) = (column.label(), &self.table.name, value.literal());
        let how = |format: &str| match key {
            // A due column has the format of the last failure.
            "on_failure" => format!("last_failure = {{ format = \"{format}\" }}"),
            key if column.is_expression => {
                format!("{key} = {{ sql = ..., format = \"{format}\" }}")
            }
            key => format!("{key} = {{ column = \"{name}\", format = \"{format}\" }}"),
        };
        Ok(Some(format!(
            "column {name} of table {table} holds {value}, which as {format} is {at}{other}, and all sampled \
             values are more than ten years old or more than a year ahead: name their format, {}, one of {}, \
             or {} if this is right",
            how("..."),
            Format::NAMED_ONLY.map(|format| format.to_string()).join(", "),
            how(&format.to_string()),
        )))
    }

    /// The complaint about a column that cannot hold counts or last failures. One valid sample is enough.
    fn unusable(
        &self,
        is_count: bool,
        is_given: bool,
        column: &Column,
        dates: &Dates,
    ) -> Result<Option<String>> {
        let Column { name, declared, column_type, allowed_values, .. } = column;
        let samples = self.catalog.samples(&self.table, column)?;
        let is_none = |value: &&Value| if is_count { value.is_null() } else { is_never(value) };
        let is_number =
            |value: &Value| matches!(value, Value::Integer(_) | Value::Real(_) | Value::Json(_));
        let is_valid = |value: &Value| match is_count {
            // A number as large as a date is no count.
            true => is_number(value) && Dates::default().read(value).is_none(),
            false => dates.read(value).is_some(),
        };
        let fits = !OTHER_TYPES.contains(&declared.to_ascii_uppercase().as_str())
            && column_type.can_be_date()
            && (!is_count || column_type.can_be_count() && allowed_values.is_none());
        let foreign = samples.iter().find(|value| !is_none(value));
        let shown = foreign.map(Value::literal);
        let found = match (shown, fits) {
            (Some(value), false) => format!("is {declared} and holds {value}"),
            (None, false) => format!("is {declared}"),
            (Some(value), true) if !samples.iter().any(is_valid) => format!("holds {value}"),
            (_, true) => return Ok(None),
        };
        let (role, holds, option) = match is_count {
            true => ("the count of failures", "small numbers", "failures"),
            false => ("the last failure", "dates or nothing", "last_failure"),
        };
        let (table, why) = (&self.table.name, if is_given { "" } else { " by its name" });
        let digits = foreign.filter(|value| !is_count && is_digits(value));
        let format = digits.map_or_else(String::new, |_| {
            format!(" name the format of its digits, {option} = {{ column = \"{name}\", format = \"epoch\" }},")
        });
        Ok(Some(format!(
            "column {name} of table {table} is{why} {role}, and each attempt would overwrite it: it {found}, and \
             must hold {holds};{format} name another one with --set {option}=COLUMN, or none with --set {option}="
        )))
    }
}

/// Checks that no column has two roles, except that an id may be the insertion date, and that effects set no generated
/// column and none with a role, except counters.
fn check_roles(table: &Table) -> Result<()> {
    let mut taken: Vec<(&str, &Column)> = Vec::new();
    for (key, role, column) in table.roles() {
        let other = taken.iter().find(|(_, other)| other.name == column.name);
        if let Some((other, _)) = other.filter(|_| !["id", "date_inserted"].contains(&key)) {
            bail!("column {} cannot be {role} as well: it is {other}", column.name);
        }
        taken.push((role, column));
    }
    for (key, effects) in table.effects() {
        for Effect { column, to } in effects {
            let name = &column.name;
            let mut counters = table.failures.iter().chain(&table.last_failure);
            let is_counted = counters.any(|counter| counter.name == *name);
            let is_twice = key == "on_failure" || matches!(to, Assigned::Add(_));
            ensure!(!(is_counted && is_twice), "{key} cannot set {name}: it is counted already");
            ensure!(!column.is_generated, "{key} cannot set {name}: the table computes it");
            let is_counter = table.counter_columns().any(|counter| counter.name == *name);
            let taken = taken.iter().find(|(_, column)| column.name == *name);
            if let Some((role, _)) = taken.filter(|_| !is_counter) {
                bail!("{key} cannot set {name}: it is {role}");
            }
        }
    }
    Ok(())
}

/// True for values that applications write in place of NULL.
pub fn is_never(value: &Value) -> bool {
    let is_never = |text: &str| text.is_empty() || text == "0" || text.starts_with("0000-00-00");
    matches!(value, Value::Null | Value::Integer(0))
        || matches!(value, Value::Text(text) if is_never(text))
}

fn is_digits(value: &Value) -> bool {
    matches!(value, Value::Text(text) if is_number(text))
}

const AFTER: &str = "THEN 1 END FROM";

pub struct ConditionProbe<'a> {
    pub sql: String,
    condition: &'a str,
    end: usize,
}

impl<'a> ConditionProbe<'a> {
    /// Both must be valid for a single expression; the first one rules `1) OR (1` out. `end` follows the table.
    pub fn both(condition: &'a str, table: &str, end: &str) -> [Self; 2] {
        let probe = |before: String, after: String| Self {
            sql: format!("{before}{condition}{after}"),
            condition,
            end: before.len() + condition.len(),
        };
        [
            probe("SELECT CASE WHEN ".into(), format!("\n{AFTER} {table}{end}")),
            probe(format!("SELECT 1 FROM {table} WHERE ("), format!("\n){end}")),
        ]
    }

    /// The error from a message of the database about a byte of the statement.
    pub fn complaint(&self, message: &str, at: Option<usize>) -> Error {
        let condition = self.condition;
        if message.contains(AFTER) {
            anyhow!("`{condition}` is not a condition: a quote or comment in it is not closed")
        } else if at.is_some_and(|at| at >= self.end) || message == "incomplete input" {
            anyhow!("`{condition}` is not a condition: it ends too early")
        } else {
            anyhow!("{condition:?} is not a condition in SQL: {message}")
        }
    }
}

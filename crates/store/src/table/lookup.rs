//! Lookup of the mapped names among the tables and columns that there are.

use std::collections::HashSet;

use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use backlog_schedule::{DAY, Instant, Value, listed};

use super::{Column, ColumnType, Effect, Statuses, Table};
use crate::clock::Clock;
use crate::date::{Dates, Format, Spelling, is_number};
use crate::mapping::{
    Assigned, Assignment, DATE_INSERTED, DateSource, LAST_FAILURE, Mapping, STATUS, StatusColumn,
    StatusValues, usual_values,
};
use crate::table::Dialect;

/// Where `add` puts what it is given, unless another column is named.
const PAYLOAD: &str = "PAYLOAD";

/// What is said of a column whose dates are written in another way.
const READABLE: &str = "dates are read as 2026-11-21 03:40, 20261121034000 or seconds since 1970 \
                        (docs/tables.md#dates): name another column, or add a generated one that \
                        has them so";

/// How old and how far ahead the dates of records plausibly are.
const MOST_AGE: i64 = 3_652 * DAY;
const MOST_AHEAD: i64 = 365 * DAY;

/// Types that hold neither counts nor dates, also where a database makes numbers or text of them.
const OTHER_TYPES: [&str; 4] = ["BOOL", "BOOLEAN", "JSON", "JSONB"];

pub trait Catalog {
    /// The table with this name, however its case is.
    fn table(&self, name: &str) -> Result<CatalogTable>;

    /// Values of the newest rows of the table, a few.
    fn samples(&self, table: &CatalogTable, column: &Column) -> Result<Vec<Value>>;

    /// An SQL expression over the columns of a row as a column; none is always NULL.
    fn expression(&self, table: &CatalogTable, sql: Option<&str>) -> Result<Column>;

    /// Checks that it is a condition, about a single row and as a whole. Says which columns it reads.
    fn condition_columns(&mut self, table: &Table, condition: &str) -> Result<HashSet<String>>;
}

pub struct CatalogTable {
    pub name: String,
    pub sql: String,
    pub dialect: &'static dyn Dialect,
    pub columns: Vec<Column>,
}

struct Lookup<'a> {
    catalog: &'a dyn Catalog,
    table: CatalogTable,
    now: Instant,
}

impl Table {
    /// Looks the table up. An error names what is missing and what there is.
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
            ensure!(!condition.trim().is_empty(), "the condition is empty; leave it out");
            read.extend(catalog.condition_columns(&table, condition)?);
        }
        if let DateSource::Expression(sql) = &mapping.inserted {
            let columns = catalog.condition_columns(&table, &format!("({sql}\n) IS NOT NULL"));
            read.extend(columns.context("date_inserted.sql")?);
        }
        let condition_columns = table.columns.iter().filter(|it| read.contains(&it.name));
        Ok(Self { condition_columns: condition_columns.cloned().collect(), ..table })
    }
}

/// `no table "order"; tables here: mails, orders`
pub fn missing(what: &str, name: &str, others: &[&str]) -> String {
    let others = if others.is_empty() { "none".into() } else { listed(others.iter().copied()) };
    format!("no {what} {name:?}; {what}s here: {others}")
}

/// How a column is named that has not its usual name.
pub fn naming(key: &str) -> String {
    format!("write {key} = \"COLUMN\" into backlog.toml, or --set {key}=COLUMN")
}

/// The table with its columns, the conditions as yet unseen.
fn find(catalog: &dyn Catalog, mapping: &Mapping, clock: Clock) -> Result<Table> {
    let table = catalog.table(mapping.table_name())?;
    let lookup = Lookup { catalog, table, now: clock.now() };
    let id = match &mapping.id[..] {
        [] => vec![lookup.usual("ID", "id", "")?],
        given => given.iter().map(|name| lookup.required(name)).collect::<Result<_>>()?,
    };
    let statuses = lookup.statuses(mapping)?;
    let inserted = lookup.inserted(mapping)?;
    // The database itself reads what is of a type for dates.
    let is_typed = matches!(inserted.column_type, ColumnType::Instant | ColumnType::LocalTime);
    let format = mapping.dates.format.filter(|_| !is_typed);
    let zone = || mapping.dates.zone.clone();
    let named = [format, mapping.last_failure_format].into_iter().flatten();
    let numbers = named.into_iter().find(|format| Format::NAMED_ONLY.contains(format));
    let other_dates = Dates { format: None, numbers, zone: zone() };
    let effects =
        |key, assignments| lookup.effects(key, assignments, &inserted.spelling, &other_dates);
    let failure_dates = match mapping.last_failure_format {
        None => other_dates.clone(),
        format => Dates { format, numbers: None, zone: zone() },
    };
    let failures = lookup.named(mapping.failures.as_deref(), "FAILURES")?;
    let last_failed = lookup.named(mapping.last_failure.as_deref(), LAST_FAILURE)?;
    let last_failure = last_failed.clone();
    let last_failure = last_failure
        .map(|it| lookup.exactly_spelt(it, &inserted.spelling, &failure_dates))
        .transpose()?;
    let on_failure = effects("on_failure", &mapping.on_failure)?;
    let due_at = due_column(&on_failure)?;
    let is_read = mapping.inserted != DateSource::None && format.is_none();
    let is_named = mapping.last_failure_format.is_some();
    let mut complaints = Vec::new();
    for (key, column, dates) in [
        ("date_inserted", Some(&inserted).filter(|_| is_read), &mapping.dates),
        ("last_failure", last_failure.as_ref().filter(|_| !is_named), &failure_dates),
        ("on_failure", due_at.as_ref().filter(|_| !is_named), &other_dates),
    ] {
        if let Some(column) = column {
            complaints.extend(lookup.implausible(key, column, dates)?);
        }
    }
    for (is_count, given, column) in
        [(true, &mapping.failures, &failures), (false, &mapping.last_failure, &last_failed)]
    {
        if let Some(column) = column {
            let is_given = given.is_some();
            complaints.extend(lookup.complaint(is_count, is_given, column, &failure_dates)?);
        }
    }
    let max_attempts = mapping.max_attempts.as_ref().map(|name| lookup.required(name));
    // Each on a line of its own, so that a comment in it ends there.
    let conditions: Vec<_> = mapping.conditions.iter().map(|it| format!("({it}\n)")).collect();
    let order = mapping.order.as_ref().map(|(name, order)| Ok((lookup.required(name)?, *order)));
    let order: Option<Result<_>> = order;
    Ok(Table {
        order: order.transpose().context("order")?,
        complaints,
        failures,
        last_failure,
        last_error: lookup.last_error(mapping)?,
        max_attempts: max_attempts.transpose().context("max_attempts")?,
        counts_attempts: mapping.counts_attempts,
        due_at,
        keeps_schedule: false,
        archived: mapping.archived.clone(),
        is_undated: mapping.inserted == DateSource::None,
        condition: Some(conditions.join(" AND ")).filter(|all| !all.is_empty()),
        condition_columns: Vec::new(),
        payload: match &mapping.payload {
            Some(name) => Some(lookup.required(name)?),
            None => lookup.optional(PAYLOAD),
        },
        on_success: effects("on_success", &mapping.on_success)?,
        deletes_finished: mapping.deletes_finished,
        on_failure,
        on_archive: effects("on_archive", &mapping.on_archive)?,
        on_restore: effects("on_restore", &mapping.on_restore)?,
        dates: Dates { format, numbers: None, zone: zone() },
        id,
        statuses,
        inserted,
        other_dates,
        failure_dates,
        clock,
        name: lookup.table.name,
        sql: lookup.table.sql,
        dialect: lookup.table.dialect,
        columns: lookup.table.columns,
    })
}

fn due_column(on_failure: &[Effect]) -> Result<Option<Column>> {
    let mut due = on_failure.iter().filter(|effect| effect.to == Assigned::Next);
    let (first, second) = (due.next(), due.next());
    ensure!(
        second.is_none(),
        "on_failure sets two columns to {{next}}: only one can say what is due"
    );
    Ok(first.map(|effect| effect.column.clone()))
}

impl Lookup<'_> {
    /// What is written there is read again, to the second.
    fn exactly_spelt(&self, column: Column, inserted: &Spelling, dates: &Dates) -> Result<Column> {
        let usual = column.spelling.clone();
        let mut column = self.spelt(column, inserted, dates)?;
        if !column.spelling.reads_back(dates) {
            let named = Spelling::named(dates, usual.is_text());
            column.spelling = named.filter(|it| it.reads_back(dates)).unwrap_or(usual);
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
                Assigned::Now => self.spelt(column, inserted, dates)?,
                Assigned::Next => self.exactly_spelt(column, inserted, dates)?,
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
            Ok(Effect { column, to: to.clone() })
        };
        assignments.iter().map(effect).collect()
    }

    fn optional(&self, name: &str) -> Option<Column> {
        let columns = || self.table.columns.iter();
        let exact = |name: &str| columns().find(|column| column.name == name);
        // Where two differ in case only, the one that needs no quotes.
        let found = exact(name).or_else(|| exact(&name.to_lowercase()));
        found.or_else(|| columns().find(|it| it.name.eq_ignore_ascii_case(name))).cloned()
    }

    fn required(&self, name: &str) -> Result<Column> {
        self.optional(name).with_context(|| {
            let CatalogTable { name: table, columns, .. } = &self.table;
            let names = columns.iter().map(|column| column.name.as_str());
            format!("table {table} has no column {name}; it has {}", listed(names))
        })
    }

    /// What is just usual may have to be said, by a key, or as `else_how` says.
    fn usual(&self, name: &str, key: &str, else_how: &str) -> Result<Column> {
        let how = naming(key);
        self.required(name).map_err(|error| anyhow!("{error}; {how}{else_how}"))
    }

    /// What is just usual need not be there.
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
                let how = ", or say with --where what is pending";
                match self.usual(STATUS, "status", how) {
                    Err(_) if !mapping.conditions.is_empty() => by_condition(),
                    found => Statuses::new(Some(found?), usual_values()),
                }
            }
        }
    }

    /// The insertion date, in the spelling of the newest rows. One that the user names must hold dates.
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
        let spelling = samples.iter().find_map(|value| Spelling::of(value, &mapping.dates));
        let other = samples.iter().find(|value| !is_never(value));
        if let Some(spelling) = spelling {
            column.spelling = spelling;
        } else if let Some(value) =
            other.filter(|value| is_given || mapping.dates.format.is_some() || is_digits(value))
        {
            let format = mapping.dates.format;
            let format = format.map_or(String::new(), |format| format!(" in format {format}"));
            let shown = value.literal();
            // Digits in a column of text may be of any kind of date.
            if mapping.dates.format.is_none() && is_digits(value) {
                bail!(
                    "{what} holds text of digits, {shown}: say which dates they are, format = \"epoch\", \
                     \"epoch-ms\" or \"compact\" beside the column in date_inserted"
                );
            }
            let mut others = mapping.dates.other_readings(value);
            if let Some((other, at)) = others.find(|(_, at)| self.is_plausible(*at)) {
                bail!(
                    "{what} holds no date{format}, but {shown}, which as {other} is {at}: name that format"
                );
            }
            bail!("{what} holds no date{format}, but {shown}; {READABLE}");
        }
        Ok(column)
    }

    fn last_error(&self, mapping: &Mapping) -> Result<Option<Column>> {
        let column = self.named(mapping.last_error.as_deref(), "LAST_ERROR")?;
        Ok(column.map(|column| {
            let limits = [column.max_chars, mapping.most_of_error].into_iter().flatten();
            Column { max_chars: limits.min(), ..column }
        }))
    }

    /// Fails if none of the values of a due column can be read.
    fn require_dates(&self, column: &Column, dates: &Dates) -> Result<()> {
        let Column { name, declared, column_type, .. } = column;
        let what = format!("column {name} of table {} cannot say what is due", self.table.name);
        ensure!(column_type.can_be_date(), "{what}: it is {declared}");
        // A short number is exact to minutes only, and the server cuts an instant to its day.
        let is_cut =
            declared == "real" || *column_type == ColumnType::LocalTime && declared == "date";
        let is_exact = column.spelling.reads_back(dates) && !is_cut;
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

    /// A column of instants, spelt as in the newest rows, or as the insertion date if its type can.
    fn spelt(&self, mut column: Column, inserted: &Spelling, dates: &Dates) -> Result<Column> {
        let samples = self.catalog.samples(&self.table, &column)?;
        // A column of numbers in SQLite takes text as well, and one without a type takes anything.
        let takes_both = column.column_type == ColumnType::Decimal || column.declared.is_empty();
        let fits = (inserted.is_text() == column.spelling.is_text()
            || takes_both && !inserted.is_text())
            && !column.is_too_small_for(&inserted.example(&dates.zone));
        let own = samples.iter().find_map(|value| Spelling::of(value, dates));
        if let Some(spelling) = own.or_else(|| fits.then(|| inserted.clone())) {
            column.spelling = spelling;
        }
        Ok(column)
    }

    fn is_plausible(&self, at: Instant) -> bool {
        (self.now.saturating_sub(MOST_AGE)..self.now.saturating_add(MOST_AHEAD)).contains(&at)
    }

    /// Why no number of a column is a date of the last ten years or of the next one.
    fn implausible(&self, key: &str, column: &Column, dates: &Dates) -> Result<Option<String>> {
        if column.spelling.is_text() {
            return Ok(None);
        }
        // A next attempt may lie in the year 9999, which stands for none.
        let is_plausible =
            |at: Instant| self.is_plausible(at) || key == "on_failure" && at > self.now;
        let samples = self.catalog.samples(&self.table, column)?;
        let numbers = samples.iter().filter(|value| !matches!(value, Value::Text(_)));
        let read: Vec<_> = numbers.filter_map(|value| Some((value, dates.read(value)?))).collect();
        let Some((value, at)) = read.first() else { return Ok(None) };
        if dates.numbers.is_some() || read.iter().any(|(_, at)| is_plausible(*at)) {
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
            // It has no format of its own.
            "on_failure" => format!("last_failure = {{ format = \"{format}\" }}"),
            key => format!("{key} = {{ column = \"{name}\", format = \"{format}\" }}"),
        };
        Ok(Some(format!(
            "column {name} of table {table} holds {value}, which as {format} is {at}{other}, and all values \
             that were looked at are more than ten years old or more than a year ahead: name their format, \
             {}, one of {}, or {} if that is right",
            how("..."),
            Format::NAMED_ONLY.map(|format| format.to_string()).join(", "),
            how(&format.to_string()),
        )))
    }

    /// Why a column can hold no failures, or no last failure. One right sample makes it right.
    fn complaint(
        &self,
        is_count: bool,
        is_given: bool,
        column: &Column,
        dates: &Dates,
    ) -> Result<Option<String>> {
        let Column { name: shown, declared, column_type, allowed_values, .. } = column;
        let samples = self.catalog.samples(&self.table, column)?;
        let is_none = |it: &&Value| if is_count { it.is_null() } else { is_never(it) };
        let is_number =
            |it: &Value| matches!(it, Value::Integer(_) | Value::Real(_) | Value::Json(_));
        let is_right = |it: &Value| match is_count {
            // What is large enough for a date is no count.
            true => is_number(it) && Dates::default().read(it).is_none(),
            false => dates.read(it).is_some(),
        };
        // Whether what is written is read again.
        let fits = !OTHER_TYPES.contains(&declared.to_ascii_uppercase().as_str())
            && column_type.can_be_date()
            && (!is_count || column_type.can_be_count() && allowed_values.is_none());
        let foreign = samples.iter().find(|it| !is_none(it)).map(Value::literal);
        let found = match (foreign, fits) {
            (Some(value), false) => format!("is {declared} and holds {value}"),
            (None, false) => format!("is {declared}"),
            (Some(value), true) if !samples.iter().any(is_right) => format!("holds {value}"),
            (_, true) => return Ok(None),
        };
        let (role, holds, option) = match is_count {
            true => ("the count of failures", "small numbers", "failures"),
            false => ("the last failure", "dates or nothing", "last_failure"),
        };
        let (table, why) = (&self.table.name, if is_given { "" } else { " by its name" });
        let digits = samples.iter().find(|it| !is_none(it)).filter(|it| !is_count && is_digits(it));
        let format = digits.map_or_else(String::new, |_| {
            format!(" name the format of its digits, {option} = {{ column = \"{shown}\", format = \"epoch\" }},")
        });
        Ok(Some(format!(
            "column {shown} of table {table} is{why} {role}, and each attempt would write over it: it \
             {found}, and must hold {holds};{format} name another one with --set {option}=COLUMN, or none with \
             --set {option}="
        )))
    }
}

/// Makes sure that no column is written that must stay as it is, and none for two reasons.
fn check_roles(table: &Table) -> Result<()> {
    let mut taken: Vec<(&str, &Column)> = Vec::new();
    for (key, role, column) in table.roles() {
        let other = taken.iter().find(|(_, it)| it.name == column.name);
        if let Some((other, _)) = other.filter(|_| !["id", "date_inserted"].contains(&key)) {
            bail!("column {} cannot be {role} as well: it is {other}", column.name);
        }
        taken.push((role, column));
    }
    for (key, effects) in table.effects() {
        for Effect { column, to } in effects {
            let name = &column.name;
            let mut counters = table.failures.iter().chain(&table.last_failure);
            let is_counted = counters.any(|it| it.name == *name);
            let is_twice = key == "on_failure" || matches!(to, Assigned::Add(_));
            ensure!(!(is_counted && is_twice), "{key} cannot set {name}: it is counted already");
            ensure!(!column.is_generated, "{key} cannot set {name}: the table computes it");
            let is_counter = table.counter_columns().any(|it| it.name == *name);
            if let Some((role, _)) = taken.iter().find(|(_, it)| it.name == *name && !is_counter) {
                bail!("{key} cannot set {name}: it is {role}");
            }
        }
    }
    Ok(())
}

pub fn is_never(value: &Value) -> bool {
    let is_never = |text: &str| text.is_empty() || text.starts_with("0000-00-00");
    matches!(value, Value::Null | Value::Integer(0))
        || matches!(value, Value::Text(text) if is_never(text))
}

fn is_digits(value: &Value) -> bool {
    matches!(value, Value::Text(text) if is_number(text))
}

const BEHIND: &str = "THEN 1 END FROM";

/// A statement with the condition in it.
pub struct ConditionProbe<'a> {
    pub sql: String,
    condition: &'a str,
    end: usize,
}

impl<'a> ConditionProbe<'a> {
    /// A condition must be one expression, which `1) OR (1` is not in the first. `end` follows the table.
    pub fn both(condition: &'a str, table: &str, end: &str) -> [Self; 2] {
        let of = |before: String, behind: String| Self {
            sql: format!("{before}{condition}{behind}"),
            condition,
            end: before.len() + condition.len(),
        };
        [
            of("SELECT CASE WHEN ".into(), format!("\n{BEHIND} {table}{end}")),
            of(format!("SELECT 1 FROM {table} WHERE ("), format!("\n){end}")),
        ]
    }

    /// Why it is none, in words of the database which are about this byte of the statement.
    pub fn complaint(&self, words: &str, at: Option<usize>) -> Error {
        let condition = self.condition;
        if words.contains(BEHIND) {
            anyhow!("`{condition}` is no condition: a quote or comment in it is not closed")
        } else if at.is_some_and(|at| at >= self.end) || words == "incomplete input" {
            anyhow!("`{condition}` is no condition: it ends too early")
        } else {
            anyhow!("{condition:?} is no condition in SQL: {words}")
        }
    }
}

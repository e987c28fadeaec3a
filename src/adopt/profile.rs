//! The profile of a table: the role of each column by its name, and the kind of its values.

use std::collections::BTreeSet;

use backlog_schedule::{DAY, Instant, Value, counted};
use backlog_store::{
    Column, ColumnType, Dates, Explored, Format, Outline, ValueCount, quoted_if_needed,
};

use super::words::{Meaning, Role, has_date_words, meaning, role};

/// The earliest plausible date of a record.
const YEAR_2000: Instant = Instant(946_684_800);
const TWENTY_YEARS: i64 = 20 * 365 * DAY;

pub struct TableProfile<'a> {
    pub outline: &'a Outline,
    pub columns: Vec<Profile<'a>>,
    /// The latest date that may be past: a day after now, because the time zone is unknown.
    pub tomorrow: Instant,
    pub inserted_format: Option<Format>,
}

impl<'a> TableProfile<'a> {
    pub fn new(outline: &'a Outline, now: Instant) -> Self {
        let columns = outline.columns.iter().map(|explored| {
            let Explored { column, cells, values } = explored;
            let formats = formats(column, cells, now);
            let values = if formats.is_empty() { &values[..] } else { &[] };
            let is_in_key = outline.keys.iter().any(|key| key.contains(&column.name));
            Profile { schema: column, role: role(&column.name), cells, formats, is_in_key, values }
        });
        let (columns, tomorrow) = (columns.collect(), now.saturating_add(DAY));
        Self { outline, columns, tomorrow, inserted_format: None }
    }

    pub fn filter(&self, meets: impl Fn(&Profile<'a>) -> bool) -> Vec<&Profile<'a>> {
        self.columns.iter().filter(|column| meets(column)).collect()
    }

    /// The column of a role that meets a condition, if there is exactly one.
    pub fn only(&self, role: Role, meets: impl Fn(&Profile<'a>) -> bool) -> Option<&Profile<'a>> {
        match self.filter(|column| column.has_role(role) && meets(column))[..] {
            [only] => Some(only),
            _ => None,
        }
    }

    pub fn counter(&self) -> Option<&Profile<'a>> {
        self.only(Role::Attempts, Profile::may_count)
    }

    pub fn max_attempts(&self) -> Option<&Profile<'a>> {
        self.only(Role::MaxAttempts, Profile::may_count)
    }

    /// The name of a date column that a pass can write, in ISO or in the format of the insertion date.
    pub fn writable_date(&self, role: Role) -> Option<&'a str> {
        let legal = [Some(Format::Iso), Some(Format::Compact), self.inserted_format];
        let is_writable = |column: &Profile<'a>| {
            !column.schema.is_generated
                && column.is_date()
                && column.formats.iter().all(|(format, _)| legal.contains(&Some(*format)))
        };
        self.only(role, is_writable).map(Profile::name)
    }
}

pub struct Profile<'a> {
    pub schema: &'a Column,
    pub role: Option<Role>,
    /// The value in each row of the sample.
    pub cells: &'a [Value],
    /// The formats in which all values are plausible dates, with the newest date.
    pub formats: Vec<(Format, Instant)>,
    is_in_key: bool,
    /// The distinct values of a column with few values that are no dates.
    pub values: &'a [ValueCount],
}

impl<'a> Profile<'a> {
    pub fn name(&self) -> &'a str {
        &self.schema.name
    }

    pub fn has_role(&self, role: Role) -> bool {
        self.role == Some(role)
    }

    /// True for a column of dates. Without values, the type or the name decides.
    pub fn is_date(&self) -> bool {
        let declared = self.schema.declared.to_ascii_uppercase();
        let is_typed =
            matches!(self.schema.column_type, ColumnType::Instant | ColumnType::LocalTime)
                || ["DATE", "TIME"].iter().any(|word| declared.contains(word));
        let date_roles = [Role::Created, Role::Due, Role::Updated].map(Some);
        // `sent` may be a flag or a number.
        let is_named = date_roles.contains(&self.role)
            || self.has_role(Role::Done) && has_date_words(self.name());
        !self.formats.is_empty()
            || self.schema.column_type.can_be_date()
                && self.cells.iter().all(is_empty)
                && (is_typed || is_named)
    }

    pub fn is_full(&self) -> bool {
        !self.cells.is_empty() && self.empty_rows() == 0
    }

    pub fn empty_rows(&self) -> usize {
        self.cells.iter().filter(|value| is_empty(value)).count()
    }

    pub fn is_empty_at(&self, row: usize) -> bool {
        self.cells.get(row).is_none_or(is_empty)
    }

    pub fn may_count(&self) -> bool {
        let is_count = |value: &Value| matches!(value, Value::Null | Value::Integer(0..100_000));
        matches!(self.schema.column_type, ColumnType::Integer | ColumnType::Decimal)
            && self.cells.iter().all(is_count)
    }

    pub fn has_positive_default(&self) -> bool {
        let default = self.schema.default.as_deref();
        default.and_then(|default| default.parse::<i64>().ok()).is_some_and(|number| number > 0)
    }

    /// The SQL conditions for rows in which the column is empty, and in which it is set.
    pub fn conditions(&self) -> [String; 2] {
        let name = quoted_if_needed(self.name());
        let literal = |value: &Value| {
            let text = value.to_string();
            let is_text = matches!(value, Value::Text(_));
            if is_text { format!("'{}'", text.replace('\'', "''")) } else { text }
        };
        let empty = self.cells.iter().filter(|value| is_empty(value) && !value.is_null());
        let literals: BTreeSet<_> = empty.map(literal).collect();
        let literals: Vec<_> = literals.iter().map(String::as_str).collect();
        match &literals[..] {
            _ if self.schema.column_type == ColumnType::Boolean => {
                [format!("{name} IS NOT TRUE"), name]
            }
            [] => [format!("{name} IS NULL"), format!("{name} IS NOT NULL")],
            [only] => ["=", "<>"].map(|is| format!("coalesce({name}, {only}) {is} {only}")),
            [first, ..] => ["IN", "NOT IN"]
                .map(|is| format!("coalesce({name}, {first}) {is} ({})", literals.join(", "))),
        }
    }

    /// `NULL in 21 rows, set in 19`
    pub fn display_emptiness(&self) -> String {
        let is_null = self.conditions()[0].ends_with("IS NULL");
        let (word, empty) = (if is_null { "NULL" } else { "empty" }, self.empty_rows());
        let set = self.cells.len() - empty;
        format!("{word} in {}, set in {set}", counted(empty as u64, "row"))
    }

    /// A doubt about a column that is set in some pending rows, with the conditions for rows without and with a value.
    pub fn doubt(&self, pending: &[usize]) -> Option<(String, [String; 2])> {
        let is_unknown = matches!(self.role, None | Some(Role::Done));
        let is_flag = self.has_role(Role::Due) && self.values.iter().all(ValueCount::is_truth);
        let has_groups = is_unknown && self.is_date()
            || (is_unknown || is_flag) && self.distinct() == 2 && !self.is_in_key;
        let set = pending.iter().filter(|row| !self.is_empty_at(**row)).count();
        (has_groups && set > 0 && self.empty_rows() > 0).then(|| {
            let rows = counted(pending.len() as u64, "row");
            (format!("{} is set in {set} of {rows}", self.name()), self.conditions())
        })
    }

    pub fn is_named_as_status(&self) -> bool {
        self.has_role(Role::Status) || self.has_role(Role::Done) && !self.is_date()
    }

    pub fn has_usual_values(&self) -> bool {
        let words = self.values.iter().filter_map(|value| self.meaning(value)).count();
        words * 2 > self.values.len()
    }

    /// True for flags such as `is_sent`. An integer named `sent` may be a counter.
    fn is_done_flag(&self) -> bool {
        let is_declared = self.schema.declared.to_ascii_uppercase().starts_with("BOOL");
        let is_named = self.name().to_ascii_lowercase().starts_with("is");
        self.has_role(Role::Done)
            && (is_declared || is_named || self.schema.column_type == ColumnType::Boolean)
    }

    /// The meaning of a value as a status, unless a CHECK constraint refuses it.
    pub fn meaning(&self, counted: &ValueCount) -> Option<Meaning> {
        let value = &counted.value;
        if let Value::Text(text) = value {
            return meaning(text).filter(|_| !counted.is_refused);
        }
        let is_yes = matches!(value, Value::Integer(1) | Value::Boolean(true));
        let is_flag = is_yes || matches!(value, Value::Integer(0) | Value::Boolean(false));
        let flag = if is_yes { Meaning::Done } else { Meaning::New };
        Some(flag).filter(|_| is_flag && self.is_done_flag())
    }

    /// A line about few values with their counts, or about a date that is empty in some rows.
    pub fn facts(&self) -> Option<String> {
        let name = self.name();
        if self.is_date() && self.empty_rows() > 0 {
            return Some(format!("  {name}: {}", self.display_emptiness()));
        }
        let is_never_set = self.values.iter().all(|counted| counted.value.is_null());
        let is_fact = self.distinct() > usize::from(!is_never_set);
        is_fact.then(|| format!("  {name}: {}", display(self.values)))
    }

    pub fn distinct(&self) -> usize {
        self.values.iter().filter(|counted| counted.rows > 0).count()
    }
}

/// True for NULL, 0, false, no, blanks, and `0000-00-00`.
fn is_empty(value: &Value) -> bool {
    let Value::Text(text) = value else {
        return matches!(value, Value::Null | Value::Integer(0) | Value::Boolean(false));
    };
    let is_no = ["n", "no", "f", "false"].contains(&&*text.to_ascii_lowercase());
    is_no || text.trim().is_empty() || text.starts_with("0000-00-00")
}

/// The formats in which all values lie between the year 2000 and twenty years from now.
fn formats(column: &Column, cells: &[Value], now: Instant) -> Vec<(Format, Instant)> {
    let values: Vec<_> = cells.iter().filter(|value| !is_empty(value)).collect();
    if !column.column_type.can_be_date() || column.allowed_values.is_some() {
        return Vec::new();
    }
    let plausible = YEAR_2000..=now.saturating_add(TWENTY_YEARS);
    let newest = |format: Format| {
        let dates = Dates { format: Some(format), ..Dates::default() };
        let read = |value: &&Value| dates.read(value).filter(|at| plausible.contains(at));
        let instants: Option<Vec<_>> = values.iter().map(read).collect();
        Some((format, instants?.into_iter().max()?))
    };
    Format::readable().filter_map(newest).collect()
}

/// `'sent' in 900 rows, 'pending' in 12 rows`
pub fn display<'a>(values: impl IntoIterator<Item = &'a ValueCount>) -> String {
    let display = |value: &ValueCount| {
        let rows = if value.rows == 0 { "no row".into() } else { counted(value.rows, "row") };
        let refused = if value.is_refused { " (a CHECK constraint refuses it)" } else { "" };
        format!("{} in {rows}{refused}", value.value.literal())
    };
    values.into_iter().map(display).collect::<Vec<_>>().join(", ")
}

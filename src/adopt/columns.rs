//! The columns of a table: their roles by their names, and what their values are.

use std::collections::BTreeSet;

use backlog_schedule::{DAY, Instant, Value, counted};
use backlog_store::{ColumnType, Dates, Explored, Format, Outline, ValueCount, quoted_if_needed};

use super::words::{ColumnRole, Meaning, is_dated, meaning, role};

/// The first of January 2000, before which no date of a record is plausible.
const YEAR_2000: Instant = Instant(946_684_800);
const TWENTY_YEARS: i64 = 20 * 365 * DAY;

pub struct TableProfile<'a> {
    pub outline: &'a Outline,
    pub all: Vec<ProfiledColumn<'a>>,
    /// A day later than now, because the dates here have no zone.
    pub tomorrow: Instant,
    /// The format of the insertion date, once that is known.
    pub inserted: Option<Format>,
}

impl<'a> TableProfile<'a> {
    pub fn new(outline: &'a Outline, now: Instant) -> Self {
        let all = outline.columns.iter().map(|explored| {
            let Explored { column, cells, values } = explored;
            let formats = formats(column, cells, now);
            let values = if formats.is_empty() { &values[..] } else { &[] };
            let is_of_key = outline.keys.iter().any(|key| key.contains(&column.name));
            ProfiledColumn { column, role: role(&column.name), cells, formats, is_of_key, values }
        });
        let (all, tomorrow) = (all.collect(), now.saturating_add(DAY));
        Self { outline, all, tomorrow, inserted: None }
    }

    pub fn filter(&self, is: impl Fn(&ProfiledColumn<'a>) -> bool) -> Vec<&ProfiledColumn<'a>> {
        self.all.iter().filter(|column| is(column)).collect()
    }

    /// The only column of a role for which something holds.
    pub fn only(
        &self,
        role: ColumnRole,
        is: impl Fn(&ProfiledColumn<'a>) -> bool,
    ) -> Option<&ProfiledColumn<'a>> {
        match self.filter(|column| column.is(role) && is(column))[..] {
            [only] => Some(only),
            _ => None,
        }
    }

    pub fn counter(&self) -> Option<&ProfiledColumn<'a>> {
        self.only(ColumnRole::Attempts, ProfiledColumn::counts)
    }

    pub fn most_attempts(&self) -> Option<&ProfiledColumn<'a>> {
        self.only(ColumnRole::MostAttempts, ProfiledColumn::counts)
    }

    /// The date of a role that can be written: in ISO, or as the insertion date is.
    pub fn date_of(&self, role: ColumnRole) -> Option<&'a str> {
        let legal = [Some(Format::Iso), Some(Format::Compact), self.inserted];
        let is_written = |it: &ProfiledColumn<'a>| {
            !it.column.is_generated
                && it.is_date()
                && it.formats.iter().all(|(format, _)| legal.contains(&Some(*format)))
        };
        self.only(role, is_written).map(ProfiledColumn::name)
    }
}

pub struct ProfiledColumn<'a> {
    pub column: &'a backlog_store::Column,
    pub role: Option<ColumnRole>,
    /// Its value in each row of the sample.
    pub cells: &'a [Value],
    /// The formats in which every value is a plausible date, with the newest date.
    pub formats: Vec<(Format, Instant)>,
    is_of_key: bool,
    /// Its values, if they are few, and it is no date.
    pub values: &'a [ValueCount],
}

impl<'a> ProfiledColumn<'a> {
    pub fn name(&self) -> &'a str {
        &self.column.name
    }

    pub fn is(&self, role: ColumnRole) -> bool {
        self.role == Some(role)
    }

    /// Whether it holds dates, or will: without values its type or its name says so.
    pub fn is_date(&self) -> bool {
        let declared = self.column.declared.to_ascii_uppercase();
        let is_typed =
            matches!(self.column.column_type, ColumnType::Instant | ColumnType::LocalTime)
                || ["DATE", "TIME"].iter().any(|word| declared.contains(word));
        let of_dates = [ColumnRole::Created, ColumnRole::Due, ColumnRole::Updated].map(Some);
        // `sent` may be a flag or a number.
        let is_named =
            of_dates.contains(&self.role) || self.is(ColumnRole::Done) && is_dated(self.name());
        !self.formats.is_empty()
            || self.column.column_type.can_be_date()
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

    /// Whether it holds small numbers from 0 up, or may.
    pub fn counts(&self) -> bool {
        let is_count = |value: &Value| matches!(value, Value::Null | Value::Integer(0..100_000));
        matches!(self.column.column_type, ColumnType::Integer | ColumnType::Decimal)
            && self.cells.iter().all(is_count)
    }

    pub fn begins_above_zero(&self) -> bool {
        let default = self.column.default.as_deref();
        default.and_then(|default| default.parse::<i64>().ok()).is_some_and(|number| number > 0)
    }

    /// The conditions of rows where it is empty, by the empty values that it has, and of all others.
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
            _ if self.column.column_type == ColumnType::Boolean => {
                [format!("{name} IS NOT TRUE"), name.clone()]
            }
            [] => [format!("{name} IS NULL"), format!("{name} IS NOT NULL")],
            [only] => ["=", "<>"].map(|is| format!("coalesce({name}, {only}) {is} {only}")),
            [first, ..] => ["IN", "NOT IN"]
                .map(|is| format!("coalesce({name}, {first}) {is} ({})", literals.join(", "))),
        }
    }

    /// `NULL in 21 rows, set in 19`
    pub fn emptiness(&self) -> String {
        let is_null = self.conditions()[0].ends_with("IS NULL");
        let (none, empty) = (if is_null { "NULL" } else { "empty" }, self.empty_rows());
        let set = self.cells.len() - empty;
        format!("{none} in {}, set in {set}", counted(empty as u64, "row"))
    }

    /// How many pending rows it is set in, if it may divide them, and the conditions of both parts.
    pub fn doubt(&self, pending: &[usize]) -> Option<(String, [String; 2])> {
        let is_open = matches!(self.role, None | Some(ColumnRole::Done));
        let is_flag = self.is(ColumnRole::Due) && self.values.iter().all(ValueCount::is_truth);
        let is_two = is_open && self.is_date()
            || (is_open || is_flag) && self.distinct() == 2 && !self.is_of_key;
        let set = pending.iter().filter(|row| !self.is_empty_at(**row)).count();
        (is_two && set > 0 && self.empty_rows() > 0).then(|| {
            let all = counted(pending.len() as u64, "row");
            (format!("{} is set in {set} of {all}", self.name()), self.conditions())
        })
    }

    pub fn is_named_as_status(&self) -> bool {
        self.is(ColumnRole::Status) || self.is(ColumnRole::Done) && !self.is_date()
    }

    /// Whether usual words name most of its values.
    pub fn has_usual_values(&self) -> bool {
        let words = self.values.iter().filter_map(|value| self.meaning(value)).count();
        words * 2 > self.values.len()
    }

    /// Whether yes means done, as in `is_sent`. A number that is called `sent` may count something.
    fn is_truth(&self) -> bool {
        let is_declared = self.column.declared.to_ascii_uppercase().starts_with("BOOL");
        let is_named = self.name().to_ascii_lowercase().starts_with("is");
        self.is(ColumnRole::Done)
            && (is_declared || is_named || self.column.column_type == ColumnType::Boolean)
    }

    /// Meaning of one of its values as that of a status, if that may be written.
    pub fn meaning(&self, counted: &ValueCount) -> Option<Meaning> {
        match &counted.value {
            Value::Text(text) => meaning(text).filter(|_| !counted.is_refused),
            Value::Integer(0) | Value::Boolean(false) if self.is_truth() => Some(Meaning::New),
            Value::Integer(1) | Value::Boolean(true) if self.is_truth() => Some(Meaning::Done),
            Value::Null
            | Value::Integer(_)
            | Value::Boolean(_)
            | Value::Real(_)
            | Value::Bytes(_)
            | Value::Blob(_)
            | Value::Json(_) => None,
        }
    }

    /// Its values with their counts, if they are few; or how often it is empty, if it is a date.
    pub fn facts(&self) -> Option<String> {
        let name = self.name();
        if self.is_date() && self.empty_rows() > 0 {
            return Some(format!("  {name}: {}", self.emptiness()));
        }
        let is_never_set = self.values.iter().all(|counted| counted.value.is_null());
        let is_fact = self.distinct() > usize::from(!is_never_set);
        is_fact.then(|| format!("  {name}: {}", display(self.values)))
    }

    pub fn distinct(&self) -> usize {
        self.values.iter().filter(|counted| counted.rows > 0).count()
    }
}

/// Whether a value is none, also as a date or a flag: NULL, 0, false, no, blanks, `0000-00-00`.
fn is_empty(value: &Value) -> bool {
    let is_no = |text: &str| ["n", "no", "f", "false"].contains(&&*text.to_ascii_lowercase());
    let is_blank =
        |text: &str| text.trim().is_empty() || text.starts_with("0000-00-00") || is_no(text);
    matches!(value, Value::Null | Value::Integer(0) | Value::Boolean(false))
        || matches!(value, Value::Text(text) if is_blank(text))
}

/// The formats in which every value that there is lies between the year 2000 and twenty years from now.
fn formats(
    column: &backlog_store::Column,
    cells: &[Value],
    now: Instant,
) -> Vec<(Format, Instant)> {
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
    let each = values.into_iter().map(|counted| {
        let rows = match counted.rows {
            0 => "no row".into(),
            rows => self::counted(rows, "row"),
        };
        let refused = if counted.is_refused { " (a CHECK constraint refuses it)" } else { "" };
        format!("{} in {rows}{refused}", counted.value.literal())
    });
    each.collect::<Vec<_>>().join(", ")
}

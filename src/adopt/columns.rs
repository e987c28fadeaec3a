//! A column of the table: its role by its name, and what its values are.

use super::words::{Meaning, Role, meaning, role};
use crate::date::{Dates, Format};
use crate::record::{Value, counted};
use crate::store::{self, Counted, Explore, Holds, Outline, Sample, quoted_if_needed};
use crate::time::{DAY, Instant};

/// The first of January 2000, before which no date of a record is plausible.
const YEAR_2000: Instant = Instant(946_684_800);
const TWENTY_YEARS: i64 = 20 * 365 * DAY;

pub struct Column<'a> {
    pub column: &'a store::Column,
    pub role: Option<Role>,
    /// Its value in each row of the sample.
    pub cells: Vec<&'a Value>,
    /// The formats in which every value is a plausible date, with the newest date.
    pub formats: Vec<(Format, Instant)>,
    /// Its values, if they are few.
    pub values: Vec<Counted>,
    /// In how many rows it is NULL, and in how many it is not, if it is a date that may be NULL.
    pub nulls: Option<[u64; 2]>,
}

impl<'a> Column<'a> {
    pub fn all(
        database: &mut dyn Explore,
        outline: &'a Outline,
        sample: &'a Sample,
        now: Instant,
    ) -> Vec<Self> {
        let mut columns = Vec::new();
        for (index, column) in outline.columns.iter().enumerate() {
            let cells: Vec<_> = sample.rows.iter().filter_map(|row| row.get(index)).collect();
            let formats = formats(column, &cells, now);
            let role = role(&column.name);
            let is_key = outline.keys.iter().any(|key| key[..] == [column.name.clone()]);
            let is_listed = !matches!(column.holds, Holds::Documents | Holds::Bytes) && !is_key;
            let values = match is_listed && formats.is_empty() {
                true => database.values(outline, column),
                false => Vec::new(),
            };
            let mut new = Self { column, role, cells, formats, values, nulls: None };
            if !column.not_null && (new.is_date() || new.is(Role::Done)) {
                new.nulls = database.nulls(outline, column);
            }
            columns.push(new);
        }
        columns
    }

    pub fn name(&self) -> &'a str {
        &self.column.name
    }

    pub fn is(&self, role: Role) -> bool {
        self.role == Some(role)
    }

    /// Whether it holds dates, or will: without values its type or its name says so.
    pub fn is_date(&self) -> bool {
        let declared = self.column.declared.to_ascii_uppercase();
        let is_typed = matches!(self.column.holds, Holds::Instants | Holds::ClockTimes)
            || ["DATE", "TIME"].iter().any(|word| declared.contains(word));
        let of_dates = [Role::Created, Role::Done, Role::Due, Role::Updated].map(Some);
        !self.formats.is_empty()
            || self.column.holds.dates()
                && self.cells.iter().all(|value| is_empty(value))
                && (is_typed || of_dates.contains(&self.role))
    }

    /// Whether every row has a value.
    pub fn is_full(&self) -> bool {
        !self.cells.is_empty() && !self.cells.iter().any(|value| is_empty(value))
    }

    pub fn is_empty_at(&self, row: usize) -> bool {
        self.cells.get(row).is_none_or(|value| is_empty(value))
    }

    /// Whether it holds small numbers from 0 up, or may.
    pub fn counts(&self) -> bool {
        let is_count = |value: &&Value| matches!(value, Value::Null | Value::Integer(0..100_000));
        matches!(self.column.holds, Holds::Integers | Holds::Numbers)
            && self.cells.iter().all(is_count)
    }

    pub fn holds_text(&self) -> bool {
        self.column.holds == Holds::Text && self.formats.is_empty()
    }

    /// The condition of rows where it is empty.
    pub fn is_empty_condition(&self) -> String {
        let name = quoted_if_needed(self.name());
        if self.column.holds == Holds::Booleans {
            format!("{name} IS NOT TRUE")
        } else if self.cells.iter().any(|value| **value == Value::Integer(0)) {
            format!("coalesce({name}, 0) = 0")
        } else {
            format!("{name} IS NULL")
        }
    }

    /// Meaning of one of its values as that of a status, if that may be written. Of a column such as
    /// `is_sent` yes means done.
    pub fn meaning(&self, counted: &Counted) -> Option<Meaning> {
        let is_truth = self.is(Role::Done);
        match &counted.value {
            Value::Text(text) => meaning(text).filter(|_| !counted.is_refused),
            Value::Integer(0) | Value::Boolean(false) if is_truth => Some(Meaning::New),
            Value::Integer(1) | Value::Boolean(true) if is_truth => Some(Meaning::Done),
            Value::Null
            | Value::Integer(_)
            | Value::Boolean(_)
            | Value::Real(_)
            | Value::Bytes(_)
            | Value::Blob(_)
            | Value::Json(_) => None,
        }
    }

    /// What is known of its values, if they are few or some of them NULL.
    pub fn facts(&self) -> Option<String> {
        let name = self.name();
        match self.nulls {
            Some([null, set]) if null > 0 => {
                Some(format!("{name}: NULL in {}, set in {set}", counted(null, "row")))
            }
            _ => {
                let is_never_set = self.values.iter().all(|it| it.value == Value::Null);
                let is_told = self.distinct() > 1 || self.distinct() == 1 && is_never_set;
                is_told.then(|| format!("{name}: {}", display(&self.values)))
            }
        }
    }

    /// The number of different values that rows have.
    pub fn distinct(&self) -> usize {
        self.values.iter().filter(|counted| counted.rows > 0).count()
    }
}

/// Whether a value is none, also as a date or a flag: NULL, 0, false, blanks, `0000-00-00`.
fn is_empty(value: &Value) -> bool {
    let is_blank = |text: &str| text.trim().is_empty() || text.starts_with("0000-00-00");
    matches!(value, Value::Null | Value::Integer(0) | Value::Boolean(false))
        || matches!(value, Value::Text(text) if is_blank(text))
}

/// The formats in which every value that there is lies between the year 2000 and twenty years from now.
fn formats(column: &store::Column, cells: &[&Value], now: Instant) -> Vec<(Format, Instant)> {
    let values: Vec<_> = cells.iter().filter(|value| !is_empty(value)).collect();
    if values.is_empty() || !column.holds.dates() || column.legal.is_some() {
        return Vec::new();
    }
    let plausible = YEAR_2000..=now.saturating_add(TWENTY_YEARS);
    let newest = |format: Format| {
        let dates = Dates { format: Some(format), ..Dates::default() };
        let read = |value: &&&Value| dates.read(value).filter(|at| plausible.contains(at));
        let instants: Option<Vec<_>> = values.iter().map(read).collect();
        Some((format, instants?.into_iter().max()?))
    };
    Format::readable().filter_map(newest).collect()
}

/// `'sent' in 900 rows, 'pending' in 12 rows`
pub fn display(values: &[Counted]) -> String {
    let of_rows = values.iter().filter(|counted| counted.rows > 0);
    let each = of_rows.map(|it| format!("{} in {}", it.value.shown(), counted(it.rows, "row")));
    each.collect::<Vec<_>>().join(", ")
}

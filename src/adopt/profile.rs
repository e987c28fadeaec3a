//! Profiles of the columns of a sampled table: what their values and their names say.

use crate::date::{Dates, Format, Spelling};
use crate::record::Value;
use crate::store::{Column, Holds, Sample};
use crate::time::Instant;

use super::words::{Word, common_prefix, is_just_a_date, roles};

/// A column with its values in the sample, row by row.
pub struct Profile<'a> {
    pub column: &'a Column,
    pub roles: Vec<Word>,
    pub is_just_a_date: bool,
    pub values: Vec<&'a Value>,
    /// The values as instants, if all that is there can be read so.
    pub instants: Option<Vec<Option<Instant>>>,
}

/// Whether a value is nothing, as a date or as a text.
pub fn is_none(value: &Value) -> bool {
    let is_blank = |text: &str| text.trim().is_empty() || text.starts_with("0000-00-00");
    matches!(value, Value::Null) || matches!(value, Value::Text(text) if is_blank(text))
}

impl<'a> Profile<'a> {
    /// The profiles of all columns.
    pub fn all(columns: &'a [Column], sample: &'a Sample) -> Vec<Self> {
        let names: Vec<_> = columns.iter().map(|column| column.name.as_str()).collect();
        let prefix = common_prefix(&names);
        let columns = columns.iter().enumerate();
        let profile = |(index, column): (usize, &'a Column)| {
            let values: Vec<_> = sample.rows.iter().filter_map(|row| row.get(index)).collect();
            let instants = instants(column, &values);
            let roles = roles(&column.name, prefix);
            let is_just_a_date = is_just_a_date(&column.name, prefix);
            Self { column, roles, is_just_a_date, values, instants }
        };
        columns.map(profile).collect()
    }

    pub fn name(&self) -> &'a str {
        &self.column.name
    }

    pub fn is(&self, word: Word) -> bool {
        self.roles.contains(&word)
    }

    /// Whether it is a date: by its type, or by all values that it has.
    pub fn is_date(&self) -> bool {
        self.instants.is_some()
    }

    /// Whether every row has a value.
    pub fn is_full(&self) -> bool {
        !self.values.is_empty() && (0..self.values.len()).all(|row| !self.is_none_at(row))
    }

    /// Whether a row has no value, or as a date none but 0.
    pub fn is_none_at(&self, row: usize) -> bool {
        match &self.instants {
            Some(instants) => instants.get(row).copied().flatten().is_none(),
            None => self.values.get(row).is_none_or(|value| is_none(value)),
        }
    }

    pub fn instant_at(&self, row: usize) -> Option<Instant> {
        self.instants.as_ref()?.get(row).copied().flatten()
    }

    pub fn number_at(&self, row: usize) -> Option<i64> {
        if let Value::Integer(number) = self.values.get(row)? { Some(*number) } else { None }
    }

    /// Whether it holds small numbers from 0 up, or may.
    pub fn counts(&self) -> bool {
        let is_count = |value: &&Value| match value {
            Value::Null => true,
            Value::Integer(number) => (0..100_000).contains(number),
            Value::Real(_)
            | Value::Text(_)
            | Value::Bytes(_)
            | Value::Blob(_)
            | Value::Boolean(_)
            | Value::Json(_) => false,
        };
        matches!(self.column.holds, Holds::Integers | Holds::Numbers)
            && self.column.legal.is_none()
            && self.values.iter().all(is_count)
    }

    /// Whether the newest rows have the largest number, which is what is left of it.
    pub fn counts_down(&self) -> bool {
        let newest = self.values.iter().rev().take(5);
        let numbers = newest.map(|value| if let Value::Integer(it) = value { *it } else { 0 });
        let most = (0..self.values.len()).filter_map(|row| self.number_at(row)).max();
        let numbers: Vec<_> = numbers.collect();
        most.is_some_and(|most| most > 1 && numbers.iter().all(|it| *it == most))
    }

    pub fn holds_text(&self) -> bool {
        self.column.holds == Holds::Text && self.instants.is_none() || self.column.legal.is_some()
    }

    /// Whether the dates follow the order of the rows: nearly none is before the one above it.
    pub fn follows_the_key(&self) -> bool {
        let Some(instants) = &self.instants else { return false };
        let pairs = instants.windows(2).filter_map(|pair| Some((pair[0]?, pair[1]?)));
        let (all, ordered) = pairs.fold((0, 0), |(all, ordered), (first, second)| {
            (all + 1, ordered + usize::from(first <= second))
        });
        all > 0 && ordered * 20 >= all * 19
    }

    /// The format of numbers that are dates.
    pub fn format(&self) -> Option<Format> {
        let dates = Dates::default();
        let first = self.values.iter().find(|value| dates.read(value).is_some())?;
        match (first, Spelling::of(first, &dates)?) {
            (Value::Integer(_) | Value::Real(_), spelling) => Some(spelling.format()),
            _ => None,
        }
    }
}

/// The values as instants; none if one of them is something else, or if nothing says that they are.
fn instants(column: &Column, values: &[&Value]) -> Option<Vec<Option<Instant>>> {
    let dates = Dates::default();
    let is_typed = matches!(column.holds, Holds::Instants | Holds::ClockTimes)
        || ["DATE", "TIME"].iter().any(|it| column.declared.to_ascii_uppercase().contains(it));
    let never = |value: &Value| is_none(value) || matches!(value, Value::Integer(0));
    let read: Option<Vec<_>> = values
        .iter()
        .map(|value| if never(value) { Some(None) } else { dates.read(value).map(Some) })
        .collect();
    let read = read?;
    let is_read = read.iter().any(Option::is_some);
    (column.legal.is_none() && column.holds.dates() && (is_read || is_typed)).then_some(read)
}

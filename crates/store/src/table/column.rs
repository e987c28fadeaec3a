//! Columns: their names in SQL, their types, and the status column with its values.

use anyhow::{Result, ensure};
use backlog_schedule::{Status, Value};

use crate::date::Spelling;
use crate::mapping::StatusValues;

#[derive(Clone, Default)]
pub struct Column {
    /// The text of the expression if it is one.
    pub name: String,
    pub is_expression: bool,
    pub declared: String,
    pub column_type: ColumnType,
    /// The labels of an enumeration type.
    pub allowed_values: Option<Vec<String>>,
    pub max_chars: Option<usize>,
    pub max_number: Option<i64>,
    /// The rowid of SQLite, the only column that always holds an integer there.
    pub is_row_number: bool,
    /// The database sets a value if an INSERT gives none.
    pub has_default: bool,
    /// That value in SQL, if the catalog has it.
    pub default: Option<String>,
    pub is_generated: bool,
    pub not_null: bool,
    pub spelling: Spelling,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ColumnType {
    Integer,
    Real,
    Decimal,
    Text,
    Boolean,
    Json,
    Bytes,
    /// A point in time, which the database itself orders and compares.
    Instant,
    /// The time of a clock in an unnamed zone.
    LocalTime,
    /// Any type that has no variant here.
    #[default]
    Any,
}

impl ColumnType {
    /// True if the database returns values as text.
    pub fn is_text(self) -> bool {
        matches!(self, Self::Text | Self::Instant | Self::LocalTime | Self::Any)
    }

    pub fn can_be_date(self) -> bool {
        !matches!(self, Self::Boolean | Self::Json | Self::Bytes)
    }

    /// Text is excluded: a count would be stored as text.
    pub fn can_be_count(self) -> bool {
        matches!(self, Self::Integer | Self::Real | Self::Decimal | Self::Any)
    }
}

impl Column {
    pub fn into_expression(self) -> Self {
        Self { is_expression: true, has_default: true, is_generated: true, ..self }
    }

    pub fn sql(&self) -> String {
        // A comment in an expression ends with its line.
        if self.is_expression { format!("({}\n)", self.name) } else { quote(&self.name) }
    }

    pub fn convert(&self, value: &Value) -> Value {
        let text = || value.to_string();
        let converted = match (self.column_type, value) {
            (ColumnType::Text | ColumnType::Instant | ColumnType::LocalTime, Value::Integer(_)) => {
                Some(Value::Text(text()))
            }
            (ColumnType::Integer | ColumnType::Decimal, Value::Text(text)) => {
                text.parse().ok().map(Value::Integer)
            }
            (ColumnType::Real, Value::Integer(_) | Value::Text(_)) => {
                text().parse().ok().map(Value::Real)
            }
            (ColumnType::Boolean, Value::Integer(_) | Value::Text(_)) => {
                boolean(&text()).map(Value::Boolean)
            }
            _ => None,
        };
        converted.unwrap_or_else(|| value.clone())
    }

    /// True if the column can hold a [converted](Self::convert) value.
    pub fn can_hold(&self, value: &Value) -> bool {
        match (self.column_type, value) {
            (ColumnType::Integer | ColumnType::Real | ColumnType::Boolean, Value::Text(_)) => false,
            (_, Value::Text(text)) => {
                self.allowed_values.as_ref().is_none_or(|legal| legal.contains(text))
            }
            _ => true,
        }
    }

    pub fn is_too_small_for(&self, value: &Value) -> bool {
        matches!((value, self.max_number), (Value::Integer(number), Some(most)) if *number > most)
    }

    pub fn label(&self) -> &str {
        if self.is_expression { "date_inserted" } else { &self.name }
    }

    pub fn clamp(&self, value: Value) -> Value {
        match self.max_number.filter(|_| self.is_too_small_for(&value)) {
            Some(most) => Value::Integer(most),
            None => value,
        }
    }

    /// True if there is room for the note that an attempt has begun, after the text of the last error.
    pub fn has_room_for_notes(&self) -> bool {
        const LONGEST: usize = 128;
        self.column_type == ColumnType::Text && self.max_chars.is_none_or(|most| most >= LONGEST)
    }

    pub fn truncate(&self, text: &str) -> String {
        match self.max_chars {
            Some(most) if most < text.len() => text.chars().take(most).collect(),
            Some(_) | None => text.into(),
        }
    }
}

fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "t" | "true" | "y" | "yes" | "on" => Some(true),
        "0" | "f" | "false" | "n" | "no" | "off" => Some(false),
        _ => None,
    }
}

pub fn distinct<'a>(columns: impl IntoIterator<Item = &'a Column>) -> Vec<&'a Column> {
    let mut distinct: Vec<&Column> = Vec::new();
    for column in columns {
        if distinct.iter().all(|other| other.name != column.name) {
            distinct.push(column);
        }
    }
    distinct
}

pub fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

pub fn quoted_if_needed(name: &str) -> String {
    const RESERVED: &str =
        "order group user end when to from select where default check references";
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if is_plain && !RESERVED.split(' ').any(|word| word == name) {
        name.into()
    } else {
        quote(name)
    }
}

pub fn names<'a>(columns: impl IntoIterator<Item = &'a Column>) -> String {
    joined(columns.into_iter().map(|column| quote(&column.name)), ", ")
}

pub fn joined(terms: impl Iterator<Item = String>, separator: &str) -> String {
    terms.collect::<Vec<_>>().join(separator)
}

/// Membership of a row in the queue, by the conditions of the mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Membership {
    /// `where` is true, or will be once the row is due.
    Queue,
    /// `where` is not true, and `where_archived` is.
    Archived,
    /// A success has taken the row out of the queue.
    Finished,
    Other,
}

impl Membership {
    /// From its number in [`Table::membership`](super::Table::membership).
    pub fn from_number(number: Option<i64>) -> Self {
        match number {
            Some(1) => Self::Queue,
            Some(2) => Self::Archived,
            Some(3) => Self::Finished,
            _ => Self::Other,
        }
    }
}

pub struct Statuses {
    /// `None` if only the condition of the queue decides which rows are pending.
    pub column: Option<Column>,
    /// Converted to the type of the column.
    values: StatusValues,
}

impl Statuses {
    pub fn new(column: Option<Column>, values: StatusValues) -> Result<Self> {
        let Some(column) = column else { return Ok(Self { column, values }) };
        let values =
            values.map(|values| values.iter().map(|value| column.convert(value)).collect());
        for (status, values) in Status::OURS.iter().zip(&values) {
            for value in values {
                let allowed = match &column.allowed_values {
                    Some(allowed) => format!("one of {}", allowed.join(", ")),
                    None if column.column_type == ColumnType::Boolean => "true or false".into(),
                    None => "a number".into(),
                };
                ensure!(
                    column.can_hold(value),
                    "{} cannot be {} in column {} of type {}; use {allowed}",
                    status.name(),
                    value.literal(),
                    column.name,
                    column.declared
                );
            }
        }
        Ok(Self { column: Some(column), values })
    }

    pub fn value(&self, status: Status) -> Option<&Value> {
        self.values(status).first()
    }

    /// The values of a status; none without a status column.
    pub fn values(&self, status: Status) -> &[Value] {
        let index = Status::OURS.iter().position(|ours| *ours == status);
        index.map_or(&[], |index| &self.values[index])
    }

    pub fn all_values(&self, statuses: &[Status]) -> Vec<&Value> {
        let mut all = Vec::new();
        for value in statuses.iter().flat_map(|status| self.values(*status)) {
            if !all.contains(&value) {
                all.push(value);
            }
        }
        all
    }

    /// True if ERROR has other values than NEW.
    pub fn distinguish_failed(&self) -> bool {
        let [new, error, ..] = &self.values;
        self.column.is_some() && !new.iter().any(|value| error.contains(value))
    }

    /// The status of a row. If NEW and ERROR share a value, `failed` decides between them; `None` counts as failed.
    pub fn status(
        &self,
        is: &dyn Fn(&Value) -> bool,
        membership: Membership,
        failed: Option<bool>,
    ) -> Status {
        match membership {
            Membership::Other => return Status::Foreign,
            Membership::Finished => return Status::Success,
            // Only NEW, ERROR and ARCHIVED rows can be archived by the condition; any other row is foreign.
            Membership::Archived => {
                let mut may_be = [0, 1, 3].into_iter().flat_map(|index| &self.values[index]);
                let is_archived = self.column.is_none() || may_be.any(is);
                return if is_archived { Status::Archived } else { Status::Foreign };
            }
            Membership::Queue => {}
        }
        let pending = if failed == Some(false) { Status::New } else { Status::Error };
        if self.column.is_none() {
            return pending;
        }
        let all = Status::OURS.into_iter().zip(&self.values);
        let mut held = all.filter(|(_, values)| values.iter().any(is)).map(|(status, _)| status);
        match (held.next(), held.next()) {
            (Some(Status::New), Some(Status::Error)) => pending,
            (status, _) => status.unwrap_or(Status::Foreign),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_out_of_their_quotes() {
        assert_eq!(quote(r#"a"; DROP TABLE b; --"#), r#""a""; DROP TABLE b; --""#);
    }
}

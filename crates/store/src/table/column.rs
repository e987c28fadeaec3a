//! Columns: their names as SQL, the values that they take, and the statuses that one of them holds.

use anyhow::{Result, ensure};
use backlog_schedule::{Status, Value};

use crate::date::Spelling;
use crate::mapping::StatusValues;

#[derive(Clone, Default)]
pub struct Column {
    /// An expression has that of itself.
    pub name: String,
    /// Whether it is an SQL expression over the columns of the row, and none of them.
    pub is_expression: bool,
    /// Its type, as the table declares it.
    pub declared: String,
    pub column_type: ColumnType,
    /// The only values that it takes, if its type names them.
    pub allowed_values: Option<Vec<String>>,
    /// How many characters of text it takes, if its type says so.
    pub max_chars: Option<usize>,
    pub max_number: Option<i64>,
    /// Whether it is SQLite's own number of the row, which alone is sure to be an integer there.
    pub is_row_number: bool,
    /// Whether the database gives a value where none is inserted.
    pub has_default: bool,
    /// That value as SQL, if the catalog shows it.
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
    /// Whether values are text as the database shows them.
    pub fn is_text(self) -> bool {
        matches!(self, Self::Text | Self::Instant | Self::LocalTime | Self::Any)
    }

    pub fn can_be_date(self) -> bool {
        !matches!(self, Self::Boolean | Self::Json | Self::Bytes)
    }

    /// A count in text would be text.
    pub fn can_be_count(self) -> bool {
        matches!(self, Self::Integer | Self::Real | Self::Decimal | Self::Any)
    }
}

impl Column {
    /// An SQL expression over the columns of a row.
    pub fn expression(self) -> Self {
        Self { is_expression: true, has_default: true, is_generated: true, ..self }
    }

    pub fn sql(&self) -> String {
        // A comment in an expression ends with its line.
        if self.is_expression { format!("({}\n)", self.name) } else { quote(&self.name) }
    }

    pub fn hold(&self, value: &Value) -> Value {
        let text = || value.to_string();
        let held = match (self.column_type, value) {
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
        held.unwrap_or_else(|| value.clone())
    }

    /// Whether a value, as the column would hold it, is one of its type.
    pub fn fits(&self, held: &Value) -> bool {
        match (self.column_type, held) {
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

    /// What messages call it.
    pub fn label(&self) -> &str {
        if self.is_expression { "date_inserted" } else { &self.name }
    }

    /// A number that the column can hold, if it is one.
    pub fn most(&self, value: Value) -> Value {
        match self.max_number.filter(|_| self.is_too_small_for(&value)) {
            Some(most) => Value::Integer(most),
            None => value,
        }
    }

    /// Whether it has room for the note that an attempt has begun, with the text that may precede the note.
    pub fn has_room_for_notes(&self) -> bool {
        const LONGEST: usize = 128;
        self.column_type == ColumnType::Text && self.max_chars.is_none_or(|most| most >= LONGEST)
    }

    /// Text, cut to the length that the type declares, as in VARCHAR(255).
    pub fn cut(&self, text: &str) -> String {
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

/// The columns by name, each once.
pub fn distinct<'a>(columns: impl IntoIterator<Item = &'a Column>) -> Vec<&'a Column> {
    let mut distinct: Vec<&Column> = Vec::new();
    for column in columns {
        if distinct.iter().all(|it| it.name != column.name) {
            distinct.push(column);
        }
    }
    distinct
}

pub fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The name as SQL, without quotes where nothing makes them necessary.
pub fn quoted_if_needed(name: &str) -> String {
    const RESERVED: &str =
        "order group user end when to from select where default check references";
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if is_plain && !RESERVED.split(' ').any(|it| it == name) { name.into() } else { quote(name) }
}

pub fn names<'a>(columns: impl IntoIterator<Item = &'a Column>) -> String {
    joined(columns.into_iter().map(|column| quote(&column.name)), ", ")
}

pub fn joined(terms: impl Iterator<Item = String>, by: &str) -> String {
    terms.collect::<Vec<_>>().join(by)
}

/// Membership of a row, by the conditions of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Membership {
    /// Of a row for which `where` holds.
    Queue,
    /// Of one for which it does not, and `where_archived` does.
    Archived,
    /// Of one that a success has taken out of the queue.
    Finished,
    Other,
}

impl Membership {
    /// By its number in [`Table::membership`](super::Table::membership).
    pub fn of(number: Option<i64>) -> Self {
        match number {
            Some(1) => Self::Queue,
            Some(2) => Self::Archived,
            Some(3) => Self::Finished,
            _ => Self::Other,
        }
    }
}

pub struct Statuses {
    /// `None` if the queue's condition alone says what is pending.
    pub column: Option<Column>,
    /// As the column holds them.
    values: StatusValues,
}

impl Statuses {
    pub fn new(column: Option<Column>, values: StatusValues) -> Result<Self> {
        let Some(column) = column else { return Ok(Self { column, values }) };
        let values = values.map(|values| values.iter().map(|it| column.hold(it)).collect());
        for (status, values) in Status::OURS.iter().zip(&values) {
            for held in values {
                let legal = match &column.allowed_values {
                    Some(legal) => format!("it takes {}", legal.join(", ")),
                    None if column.column_type == ColumnType::Boolean => "say true or false".into(),
                    None => "say which number it is".into(),
                };
                ensure!(
                    column.fits(held),
                    "{} is to be {} in column {}, which is {}: {legal}",
                    status.name(),
                    held.literal(),
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

    /// The values that a status has; none if no column holds it.
    pub fn values(&self, status: Status) -> &[Value] {
        let index = Status::OURS.iter().position(|it| *it == status);
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

    /// Whether values tell NEW from ERROR.
    pub fn distinguish_failed(&self) -> bool {
        let [new, error, ..] = &self.values;
        self.column.is_some() && !new.iter().any(|value| error.contains(value))
    }

    /// The status of a row. If no value tells NEW from ERROR, `failed` does; `None` counts as failed.
    pub fn status(
        &self,
        is: &dyn Fn(&Value) -> bool,
        membership: Membership,
        failed: Option<bool>,
    ) -> Status {
        match membership {
            Membership::Other => return Status::Foreign,
            Membership::Finished => return Status::Success,
            // What is done or in somebody's hand is so, whatever the condition says.
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
